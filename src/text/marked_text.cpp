#include "text/marked_text.h"

#include <algorithm>
#include <utility>

namespace lazytrain {

MarkedText::MarkedText(std::string bytes, Mark mark) : bytes_(std::move(bytes)) {
  if (!bytes_.empty()) runs_.push_back({bytes_.size(), mark});
}

std::size_t MarkedText::run_of(std::size_t offset) const {
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), offset,
                                    [](std::size_t at, const MarkRun& r) { return at < r.end; });
  return static_cast<std::size_t>(run - runs_.begin());
}

Mark MarkedText::mark_at(std::size_t offset) const {
  return runs_[run_of(offset)].mark;
}

void MarkedText::append(std::string_view bytes, Mark mark) {
  if (bytes.empty()) return;
  bytes_ += bytes;
  if (!runs_.empty() && runs_.back().mark == mark) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({bytes_.size(), mark});
  }
}

void MarkedText::append(const MarkedText& other) {
  append(other, 0, other.size());
}

void MarkedText::append(const MarkedText& other, std::size_t begin, std::size_t end) {
  const std::string_view bytes = other.bytes_;
  for (std::size_t run = begin < end ? other.run_of(begin) : 0; begin < end; ++run) {
    const std::size_t next = std::min(other.runs_[run].end, end);
    append(bytes.substr(begin, next - begin), other.runs_[run].mark);
    begin = next;
  }
}

MarkedText MarkedText::slice(std::size_t begin, std::size_t end) const {
  MarkedText part;
  part.append(*this, begin, end);
  return part;
}

}  // namespace lazytrain
