// Ranges of a text, and where the bytes of a rewritten text came from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lazytrain {

// Bytes [begin, end) of a text.
struct ByteRange {
  std::uint64_t begin = 0, end = 0;
  bool operator==(const ByteRange&) const = default;
};

// For every byte of a rewritten text, the bytes of the source it stands for.
class OriginMap {
 public:
  void append(ByteRange source, std::size_t bytes) { origin_.insert(origin_.end(), bytes, source); }
  // As append, but byte i stands for source byte `begin` + i.
  void append_identity(std::uint64_t begin, std::size_t bytes);
  // The source of a range of the rewritten text.
  [[nodiscard]] ByteRange source(ByteRange rewritten) const;
  // This map is of a rewriting of what `earlier` had made: afterwards it leads to the source of that.
  void put_behind(const OriginMap& earlier);
  // How many bytes at the front stand for the source from its very beginning on.
  [[nodiscard]] std::size_t bytes_from_the_start() const;

 private:
  std::vector<ByteRange> origin_;
};

// A text that is written anew from parts of a source; `origin`, if not null, follows.
class Rewriting {
 public:
  Rewriting(std::string_view source, OriginMap* origin) : source_(source), origin_(origin) {}
  void keep(ByteRange range);
  void put(std::string_view text, ByteRange range);
  std::string take() { return std::move(text_); }

 private:
  std::string_view source_;
  OriginMap* origin_;
  std::string text_;
};

}  // namespace lazytrain
