#include "text/tokenizer.h"

#include <utility>

#include "core/error.h"
#include "text/tokenizer_state.h"
#include "text/utf8.h"

namespace lazytrain {
namespace {

// Moves the ranges from index `first` on: by an offset, or back through a rewriting.
void shift(std::vector<ByteRange>* ranges, std::size_t first, std::uint64_t base) {
  for (std::size_t i = first; ranges != nullptr && i < ranges->size(); ++i) {
    (*ranges)[i].begin += base;
    (*ranges)[i].end += base;
  }
}
void map_back(std::vector<ByteRange>* ranges, std::size_t first, const OriginMap& origin) {
  for (std::size_t i = first; ranges != nullptr && i < ranges->size(); ++i)
    (*ranges)[i] = origin.source((*ranges)[i]);
}
std::size_t count(const std::vector<ByteRange>* ranges) {
  return ranges == nullptr ? 0 : ranges->size();
}

// U+FFFD for what is not UTF-8, and where each byte came from.
std::string repair(std::string_view text, OriginMap& origin) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const std::size_t before = result.size();
    append_utf8(result, point.value);
    origin.append({at, at + point.size}, result.size() - before);
    at += point.size;
  }
  return result;
}

}  // namespace

void Tokenizer::State::encode_pieces(std::string_view text, const PrefixRule& rule,
                                     std::vector<std::int32_t>& ids, std::vector<ByteRange>* ranges) const {
  std::string storage;
  OriginMap origin;
  std::vector<ByteRange> pieces;
  const std::size_t first = count(ranges);
  const std::string_view split =
      pre_tokenizer.split(text, rule, storage, ranges != nullptr ? &origin : nullptr, pieces);
  std::visit(
      [&](const auto& encoder) {
        for (const ByteRange& piece : pieces)
          encoder.encode(split.substr(piece.begin, piece.end - piece.begin), piece.begin, ids, ranges);
      },
      model);
  if (split.data() != text.data()) map_back(ranges, first, origin);
}

void Tokenizer::State::encode_section(std::string_view text, std::uint64_t base, const EncodeOptions& options,
                                      std::vector<std::int32_t>& ids, std::vector<ByteRange>* ranges) const {
  const bool begins = base == 0, allowed = !options.continues || !begins;
  const bool asks_origin = ranges != nullptr || !options.plain.empty() || pre_tokenizer.prefixes_first();
  OriginMap origin;
  const std::size_t first = count(ranges);
  const auto rewritten = normalizer.apply(text, allowed, asks_origin ? &origin : nullptr);
  const std::string_view normal = rewritten ? std::string_view(*rewritten) : text;
  std::uint64_t first_until = 0;
  if (begins && options.first) first_until = rewritten ? origin.bytes_from_the_start() : 1;
  const AddedTokenMatcher::Plain plain{
      .ranges = options.plain, .base = base, .origin = rewritten && asks_origin ? &origin : nullptr};
  for (const auto& section : normalized.split(normal, options.parse_special, plain)) {
    const std::size_t here = count(ranges);
    const std::string_view part = normal.substr(section.begin, section.end - section.begin);
    if (section.id >= 0) {
      ids.push_back(section.id);
      if (ranges != nullptr) ranges->push_back({0, part.size()});
    } else {
      const PrefixRule rule{.allowed = allowed || section.begin > 0,
                            .first_until = first_until > section.begin ? first_until - section.begin : 0};
      encode_pieces(part, rule, ids, ranges);
    }
    shift(ranges, here, section.begin);
  }
  if (rewritten) map_back(ranges, first, origin);
}

void Tokenizer::State::encode(std::string_view text, const EncodeOptions& options,
                              std::vector<std::int32_t>& ids, std::vector<ByteRange>* ranges) const {
  if (find_invalid_utf8(text) != text.size()) {
    OriginMap origin;
    const std::string repaired = repair(text, origin);
    const std::size_t first = count(ranges);
    EncodeOptions inner = options;
    inner.parse_special = options.parse_special && options.plain.empty();  // they no longer fit
    inner.plain = {};
    encode(repaired, inner, ids, ranges);
    return map_back(ranges, first, origin);
  }
  for (const auto& section : as_given.split(text, options.parse_special, {.ranges = options.plain})) {
    const std::size_t here = count(ranges);
    const std::string_view part = text.substr(section.begin, section.end - section.begin);
    if (section.id >= 0) {
      ids.push_back(section.id);
      if (ranges != nullptr) ranges->push_back({0, part.size()});
    } else {
      encode_section(part, section.begin, options, ids, ranges);
    }
    shift(ranges, here, section.begin);
  }
}

Tokenizer::Tokenizer(std::shared_ptr<const State> state) : state_(std::move(state)) {}

void Tokenizer::encode(std::string_view text, EncodeOptions options, std::vector<std::int32_t>& ids,
                       std::vector<ByteRange>* ranges) const {
  const auto put_frame = [&](const std::vector<std::int32_t>& frame, std::uint64_t at) {
    if (!options.add_special_tokens) return;
    ids.insert(ids.end(), frame.begin(), frame.end());
    if (ranges != nullptr) ranges->insert(ranges->end(), frame.size(), ByteRange{at, at});
  };
  put_frame(state_->frame.before, 0);
  state_->encode(text, options, ids, ranges);
  put_frame(state_->frame.after, text.size());
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, EncodeOptions options) const {
  std::vector<std::int32_t> ids;
  encode(text, options, ids);
  return ids;
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids, bool skip_special) const {
  const auto counts = [&](std::int32_t id) { return !skip_special || !is_special(id); };
  if (state_->pre_tokenizer.byte_level()) {
    std::string bytes;
    for (const std::int32_t id : ids)
      if (counts(id)) bytes += state_->vocabulary.bytes(id);
    return replace_invalid_utf8(bytes);
  }
  std::vector<std::string> tokens;
  for (const std::int32_t id : ids) {
    const std::string* spelling = state_->vocabulary.spelling(id);
    if (spelling == nullptr || !counts(id)) continue;
    const auto other = state_->written.find(id);
    tokens.push_back(other == state_->written.end() ? *spelling : other->second);
  }
  return state_->decoder.join(std::move(tokens));
}

std::string_view Tokenizer::bytes(std::int32_t id) const {
  return state_->vocabulary.bytes(id);
}
std::int64_t Tokenizer::vocabulary_size() const {
  return state_->vocabulary.size();
}
std::optional<std::int32_t> Tokenizer::token_to_id(std::string_view token) const {
  return state_->vocabulary.find(token);
}
std::optional<std::string> Tokenizer::id_to_token(std::int32_t id) const {
  const std::string* spelling = state_->vocabulary.spelling(id);
  return spelling == nullptr ? std::nullopt : std::optional(*spelling);
}
bool Tokenizer::is_special(std::int32_t id) const {
  return state_->special.contains(id);
}
std::optional<std::int32_t> Tokenizer::end_of_text() const {
  return state_->roles.end;
}
const std::vector<std::int32_t>& Tokenizer::stop_ids() const {
  return state_->roles.stops;
}
std::optional<std::int32_t> Tokenizer::begin_of_text() const {
  return state_->roles.begin;
}
std::optional<std::int32_t> Tokenizer::padding() const {
  return state_->roles.padding;
}
std::span<const std::int32_t> Tokenizer::prefix_ids() const {
  return state_->frame.before;
}
const std::string& Tokenizer::where() const {
  return state_->where;
}

}  // namespace lazytrain
