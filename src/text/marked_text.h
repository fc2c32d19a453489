// Text that knows where its bytes come from. Chat templates cut, join and rewrite what messages say; with the
// marks carried along, the rendered conversation still says of every byte whether the template or a message
// wrote it, and which one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {

enum class Source : std::uint8_t {
  markup,  // the template itself: may spell special tokens
  data,    // what users, systems and tools say: never a special token
  answer   // what an assistant says: never a special token, and to be learned
};

struct Mark {
  Source source = Source::markup;
  bool generated = false;  // written inside {% generation %}
  std::int32_t turn = -1;  // the message that it belongs to; -1: none
  bool operator==(const Mark&) const = default;
};

// Bytes up to `end`, from the end of the run before.
struct MarkRun {
  std::size_t end = 0;
  Mark mark;
  bool operator==(const MarkRun&) const = default;
};

class MarkedText {
 public:
  MarkedText() = default;
  explicit MarkedText(std::string bytes, Mark mark = {});

  [[nodiscard]] const std::string& bytes() const { return bytes_; }
  [[nodiscard]] std::size_t size() const { return bytes_.size(); }
  [[nodiscard]] bool empty() const { return bytes_.empty(); }
  // They cover the text; neighbours differ.
  [[nodiscard]] std::span<const MarkRun> runs() const { return runs_; }
  // Of the byte at `offset` < size().
  [[nodiscard]] Mark mark_at(std::size_t offset) const;

  void append(std::string_view bytes, Mark mark = {});
  void append(const MarkedText& other);
  // Bytes [begin, end) of `other`.
  void append(const MarkedText& other, std::size_t begin, std::size_t end);
  [[nodiscard]] MarkedText slice(std::size_t begin, std::size_t end) const;

 private:
  [[nodiscard]] std::size_t run_of(std::size_t offset) const;

  std::string bytes_;
  std::vector<MarkRun> runs_;
};

}  // namespace lazytrain
