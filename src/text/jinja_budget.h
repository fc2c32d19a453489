// The bounds of one rendering, and how its faults are raised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "text/marked_text.h"

namespace lazytrain::jinja {

// What is wrong, without a place: the interpreter adds line and column of the expression.
class Fault : public std::runtime_error {
 public:
  enum class Kind : std::uint8_t { conversation, template_text };
  explicit Fault(const std::string& message, Kind kind = Kind::conversation)
      : std::runtime_error(message), kind_(kind) {}
  [[nodiscard]] Kind kind() const { return kind_; }

 private:
  Kind kind_;
};

// Steps and bytes that one rendering may still spend. Every value is paid for when it is made, so this bounds
// time and memory alike.
class Budget {
 public:
  explicit Budget(std::int64_t units) : left_(units) {}
  void spend(std::size_t units);
  void spend_text(const MarkedText& text) { spend(text.size() + (sizeof(MarkRun) * text.runs().size())); }
  void spend_items(std::size_t count);  // places in lists and mappings

 private:
  std::int64_t left_;
};

}  // namespace lazytrain::jinja
