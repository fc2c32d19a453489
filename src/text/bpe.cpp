#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <queue>
#include <span>

#include "core/error.h"
#include "core/file.h"
#include "text/byte_level.h"
#include "text/utf8.h"

namespace lazytrain {
namespace {

// Below this many symbols a scan for the best pair beats a queue.
constexpr std::size_t kShort = 32;
constexpr std::uint32_t kNoMerge = std::numeric_limits<std::uint32_t>::max();

std::uint64_t hash_bytes(std::string_view bytes) {
  return checksum(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

}  // namespace

void BytePairEncoder::finish(const std::string& where) {
  if (!unknown_.empty()) {
    const auto id = vocabulary_->find(unknown_);
    if (!id)
      fail(ExitCode::model_file, "{}: the unk_token '{}' is not in the vocabulary; get the file again", where,
           unknown_);
    unknown_id_ = *id;
  }
  // Most words are one token. Which pieces are is settled here by encoding every token once, so that encoding
  // looks them up and needs no cache that threads would share.
  whole_.assign(std::bit_ceil(2 * static_cast<std::size_t>(model_size_) + 2), -1);
  std::vector<Symbol> symbols;
  for (std::int32_t id = 0; id < model_size_; ++id) {
    const auto text = text_of(id);
    if (!text || text->empty()) continue;
    // Behind seams a part is not a piece, and ignore_merges is about pieces.
    if (!ignore_merges_ || has_seams_) {
      symbols.clear();
      start(*text, symbols);
      merge(symbols);
      const bool itself = symbols.size() == 1 && symbols[0].id == id && symbols[0].end == text->size();
      if (!itself) continue;
    }
    remember_whole(id);
  }
}

std::optional<std::string_view> BytePairEncoder::text_of(std::int32_t id) const {
  const std::string* spelling = vocabulary_->spelling(id);
  if (spelling == nullptr) return std::nullopt;
  if (!byte_level_) return *spelling;
  return bytes_of_spelling(*spelling) ? std::optional(vocabulary_->bytes(id)) : std::nullopt;
}

void BytePairEncoder::remember_whole(std::int32_t id) {
  const std::size_t mask = whole_.size() - 1;
  std::size_t slot = hash_bytes(*text_of(id)) & mask;
  while (whole_[slot] >= 0) slot = (slot + 1) & mask;
  whole_[slot] = id;
}

std::int32_t BytePairEncoder::find_whole(std::string_view piece) const {
  const std::size_t mask = whole_.size() - 1;
  for (std::size_t slot = hash_bytes(piece) & mask; whole_[slot] >= 0; slot = (slot + 1) & mask) {
    const std::int32_t id = whole_[slot];
    if ((byte_level_ ? vocabulary_->bytes(id) : std::string_view(*vocabulary_->spelling(id))) == piece)
      return id;
  }
  return -1;
}

void BytePairEncoder::encode(std::string_view piece, std::uint64_t base, std::vector<std::int32_t>& ids,
                             std::vector<ByteRange>* ranges) const {
  if (piece.empty()) return;
  if (!has_seams_) return encode_part(piece, base, ids, ranges);
  if (ignore_merges_ && piece.size() <= longest_) {
    if (const auto id = vocabulary_->find(piece); id && *id < model_size_) {
      ids.push_back(*id);
      if (ranges != nullptr) ranges->push_back({base, base + piece.size()});
      return;
    }
  }
  // Cut where no merge can reach across, so that parts are words.
  std::size_t begin = 0;
  char32_t before = 0;
  bool known_before = false;
  for (std::size_t at = 0; at < piece.size();) {
    const CodePoint point = decode_utf8(piece, at);
    const bool known = letter_id(point.value) >= 0;
    if (known && known_before &&
        inside_.find(static_cast<std::int32_t>(before), static_cast<std::int32_t>(point.value)) == nullptr) {
      encode_part(piece.substr(begin, at - begin), base + begin, ids, ranges);
      begin = at;
    }
    before = point.value;
    known_before = known;
    at += point.size;
  }
  encode_part(piece.substr(begin), base + begin, ids, ranges);
}

void BytePairEncoder::encode_part(std::string_view part, std::uint64_t base, std::vector<std::int32_t>& ids,
                                  std::vector<ByteRange>* ranges) const {
  if (const std::int32_t whole = find_whole(part); whole >= 0) {
    ids.push_back(whole);
    if (ranges != nullptr) ranges->push_back({base, base + part.size()});
    return;
  }
  std::vector<Symbol> symbols;
  start(part, symbols);
  merge(symbols);
  for (const Symbol& symbol : symbols) {
    ids.push_back(symbol.id);
    if (ranges != nullptr) ranges->push_back({base + symbol.begin, base + symbol.end});
  }
}

void BytePairEncoder::start(std::string_view piece, std::vector<Symbol>& symbols) const {
  symbols.reserve(piece.size());
  if (byte_level_) {
    start_bytes(piece, symbols);
  } else {
    start_letters(piece, symbols);
  }
}

void BytePairEncoder::start_bytes(std::string_view piece, std::vector<Symbol>& symbols) const {
  bool after_unknown = false;
  for (std::uint64_t at = 0; at < piece.size(); ++at) {
    const std::int32_t id = byte_ids_[static_cast<unsigned char>(piece[at])];
    if (id >= 0) {
      symbols.push_back({id, at, at + 1});
      after_unknown = false;
    } else if (unknown_id_ >= 0) {
      if (after_unknown && fuse_unknown_) {
        symbols.back().end = at + 1;
      } else {
        symbols.push_back({unknown_id_, at, at + 1});
      }
      after_unknown = true;
    }
  }
}

// As the reference does it: an unknown token waits for what follows it, and the tokens of bytes do not end
// its wait, so that they come before it.
void BytePairEncoder::start_letters(std::string_view piece, std::vector<Symbol>& symbols) const {
  std::optional<Symbol> unknown;
  const auto put_unknown = [&] {
    if (unknown && !symbols.empty()) {  // it stands behind the bytes that came while it waited
      unknown->begin = std::max(unknown->begin, symbols.back().end);
      unknown->end = std::max(unknown->begin, unknown->end);
    }
    if (unknown) symbols.push_back(*unknown);
    unknown.reset();
  };
  for (std::uint64_t at = 0; at < piece.size();) {
    const CodePoint point = decode_utf8(piece, at);
    const std::uint64_t end = at + point.size;
    const auto bytes = piece.substr(at, point.size);
    const auto has_token = [&](char c) { return byte_ids_[static_cast<unsigned char>(c)] >= 0; };
    if (const std::int32_t id = letter_id(point.value); id >= 0) {
      put_unknown();
      symbols.push_back({id, at, end});
    } else if (byte_fallback_ && std::all_of(bytes.begin(), bytes.end(), has_token)) {
      for (std::uint64_t i = at; i < end; ++i)
        symbols.push_back({byte_ids_[static_cast<unsigned char>(piece[i])], i, i + 1});
    } else if (unknown_id_ >= 0) {
      if (unknown && fuse_unknown_) {
        unknown->end = end;
      } else {
        put_unknown();
        unknown = Symbol{unknown_id_, at, end};
      }
    }
    at = end;
  }
  put_unknown();
}

std::int32_t BytePairEncoder::letter_id(char32_t letter) const {
  if (letter < ascii_ids_.size()) return ascii_ids_[letter];
  const auto found = letter_ids_.find(letter);
  return found == letter_ids_.end() ? -1 : found->second;
}

void BytePairEncoder::merge(std::vector<Symbol>& symbols) const {
  if (symbols.size() > kShort) {
    merge_long(symbols);
  } else {
    merge_short(symbols);
  }
}

void BytePairEncoder::merge_short(std::vector<Symbol>& symbols) const {
  std::array<std::uint32_t, kShort> ranks{};  // of the pair that begins at the symbol
  std::array<std::int32_t, kShort> joined{};
  const auto look_up = [&](std::size_t i) {
    const auto* merge = i + 1 < symbols.size() ? merges_.find(symbols[i].id, symbols[i + 1].id) : nullptr;
    ranks[i] = merge != nullptr ? merge->rank : kNoMerge;
    joined[i] = merge != nullptr ? merge->id : -1;
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) look_up(i);
  while (symbols.size() > 1) {
    const std::size_t pairs = symbols.size() - 1;
    const auto best =
        static_cast<std::size_t>(std::min_element(ranks.begin(), ranks.begin() + pairs) - ranks.begin());
    if (ranks[best] == kNoMerge) return;
    symbols[best].id = joined[best];
    symbols[best].end = symbols[best + 1].end;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    std::copy(ranks.begin() + best + 2, ranks.begin() + pairs + 1, ranks.begin() + best + 1);
    std::copy(joined.begin() + best + 2, joined.begin() + pairs + 1, joined.begin() + best + 1);
    look_up(best);
    if (best > 0) look_up(best - 1);
  }
}

void BytePairEncoder::merge_long(std::vector<Symbol>& symbols) const {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  struct Link {
    std::size_t previous, next;
    bool alive;
  };
  struct Candidate {
    std::uint32_t rank;
    std::int32_t id, left, right;  // left and right: the ids when it was queued
    std::size_t at;
  };
  const auto later = [](const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.at > b.at;
  };
  std::vector<Link> links(symbols.size());
  std::vector<Candidate> first;
  const auto candidate = [&](std::size_t at, auto&& use) {
    const std::size_t next = links[at].next;
    if (next == kNone) return;
    if (const auto* merge = merges_.find(symbols[at].id, symbols[next].id))
      use(Candidate{merge->rank, merge->id, symbols[at].id, symbols[next].id, at});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i)
    links[i] = {
        .previous = i == 0 ? kNone : i - 1, .next = i + 1 < symbols.size() ? i + 1 : kNone, .alive = true};
  for (std::size_t i = 0; i < symbols.size(); ++i) candidate(i, [&](Candidate c) { first.push_back(c); });

  std::priority_queue<Candidate, std::vector<Candidate>, decltype(later)> queue(later, std::move(first));
  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    const std::size_t next = links[best.at].next;
    const bool current = links[best.at].alive && next != kNone && symbols[best.at].id == best.left &&
                         symbols[next].id == best.right;
    if (!current) continue;
    symbols[best.at].id = best.id;
    symbols[best.at].end = symbols[next].end;
    links[next].alive = false;
    links[best.at].next = links[next].next;
    if (links[next].next != kNone) links[links[next].next].previous = best.at;
    const auto push = [&](Candidate c) { queue.push(c); };
    candidate(best.at, push);
    if (links[best.at].previous != kNone) candidate(links[best.at].previous, push);
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < symbols.size(); ++i)
    if (links[i].alive) symbols[kept++] = symbols[i];
  symbols.resize(kept);
}

}  // namespace lazytrain
