#include "text/origin_map.h"

namespace lazytrain {

void OriginMap::append_identity(std::uint64_t begin, std::size_t bytes) {
  for (std::uint64_t i = begin; i < begin + bytes; ++i) origin_.push_back({i, i + 1});
}

ByteRange OriginMap::source(ByteRange rewritten) const {
  if (rewritten.begin < rewritten.end)
    return {origin_.at(rewritten.begin).begin, origin_.at(rewritten.end - 1).end};
  if (rewritten.begin < origin_.size())
    return {origin_[rewritten.begin].begin, origin_[rewritten.begin].begin};
  const std::uint64_t end = origin_.empty() ? 0 : origin_.back().end;
  return {end, end};
}

void OriginMap::put_behind(const OriginMap& earlier) {
  for (ByteRange& range : origin_) range = earlier.source(range);
}

std::size_t OriginMap::bytes_from_the_start() const {
  std::size_t bytes = 0;
  while (bytes < origin_.size() && origin_[bytes].begin == 0) ++bytes;
  return bytes;
}

void Rewriting::keep(ByteRange range) {
  text_.append(source_.substr(range.begin, range.end - range.begin));
  if (origin_ != nullptr) origin_->append_identity(range.begin, range.end - range.begin);
}

void Rewriting::put(std::string_view text, ByteRange range) {
  text_.append(text);
  if (origin_ != nullptr) origin_->append(range, text.size());
}

}  // namespace lazytrain
