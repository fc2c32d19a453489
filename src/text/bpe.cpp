#include "text/bpe.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <queue>
#include <span>

#include "core/error.h"
#include "core/file.h"
#include "core/random.h"
#include "text/byte_level.h"

namespace lazytrain {
namespace {

// Below this many symbols a scan for the best pair beats a queue.
constexpr std::size_t kShort = 32;
constexpr std::uint32_t kNoMerge = std::numeric_limits<std::uint32_t>::max();

std::uint64_t hash_bytes(std::string_view bytes) {
  return checksum(std::as_bytes(std::span(bytes.data(), bytes.size())));
}

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32) | static_cast<std::uint32_t>(right);
}

}  // namespace

void MergeTable::reserve(std::size_t merges) {
  slots_.assign(std::bit_ceil(2 * merges + 2), Slot{});
}

std::size_t MergeTable::slot_of(std::uint64_t key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = mix64(key) & mask;
  while (slots_[slot].key != key && slots_[slot].key != kFree) slot = (slot + 1) & mask;
  return slot;
}

void MergeTable::insert(std::int32_t left, std::int32_t right, Merge merge) {
  const std::uint64_t key = pair_key(left, right);
  Slot& slot = slots_[slot_of(key)];
  if (slot.key == kFree) ++used_;
  check(2 * used_ < slots_.size() + 2, "the merge table was reserved for all merges");
  slot = {.key = key, .merge = merge};
}

const MergeTable::Merge* MergeTable::find(std::int32_t left, std::int32_t right) const {
  const std::uint64_t key = pair_key(left, right);
  const Slot& slot = slots_[slot_of(key)];
  return slot.key == key ? &slot.merge : nullptr;
}

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
    const std::string* spelling = vocabulary_->spelling(id);
    if (spelling == nullptr || !bytes_of_spelling(*spelling)) continue;
    const std::string_view bytes = vocabulary_->bytes(id);
    if (bytes.empty()) continue;
    if (!ignore_merges_) {
      symbols.clear();
      start(bytes, symbols);
      if (symbols.size() > kShort) {
        merge_long(symbols);
      } else {
        merge_short(symbols);
      }
      const bool itself = symbols.size() == 1 && symbols[0].id == id && symbols[0].end == bytes.size();
      if (!itself) continue;
    }
    remember_whole(id);
  }
}

void BytePairEncoder::remember_whole(std::int32_t id) {
  const std::size_t mask = whole_.size() - 1;
  std::size_t slot = hash_bytes(vocabulary_->bytes(id)) & mask;
  while (whole_[slot] >= 0) slot = (slot + 1) & mask;
  whole_[slot] = id;
}

std::int32_t BytePairEncoder::find_whole(std::string_view piece) const {
  const std::size_t mask = whole_.size() - 1;
  for (std::size_t slot = hash_bytes(piece) & mask; whole_[slot] >= 0; slot = (slot + 1) & mask)
    if (vocabulary_->bytes(whole_[slot]) == piece) return whole_[slot];
  return -1;
}

void BytePairEncoder::encode(std::string_view piece, std::uint64_t base, std::vector<std::int32_t>& ids,
                             std::vector<ByteRange>* ranges) const {
  if (piece.empty()) return;
  if (const std::int32_t whole = find_whole(piece); whole >= 0) {
    ids.push_back(whole);
    if (ranges != nullptr) ranges->push_back({base, base + piece.size()});
    return;
  }
  std::vector<Symbol> symbols;
  start(piece, symbols);
  if (symbols.size() > kShort) {
    merge_long(symbols);
  } else {
    merge_short(symbols);
  }
  for (const Symbol& symbol : symbols) {
    ids.push_back(symbol.id);
    if (ranges != nullptr) ranges->push_back({base + symbol.begin, base + symbol.end});
  }
}

void BytePairEncoder::start(std::string_view piece, std::vector<Symbol>& symbols) const {
  symbols.reserve(piece.size());
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
