// What tokenizers need to know of Unicode: NFC with a map back to the source, the classes "numeric", "white
// space" and "word", and stand-ins for code points younger than the regex engine's tables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
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

 private:
  std::vector<ByteRange> origin_;
};

// The NFC form of valid UTF-8, or nothing where the text already is in that form. `origin`, if not null, is
// filled only when there is a result. Linear in the text, also for adversarial runs of combining marks.
std::optional<std::string> to_nfc(std::string_view text, OriginMap* origin);

bool is_numeric(char32_t code_point);      // general category N
bool is_white_space(char32_t code_point);  // property White_Space
bool is_word(char32_t code_point);         // Alphabetic, M, Nd, Pc, joiners: UTS 18's \w
bool is_cased(char32_t code_point);        // general categories Lu, Ll and Lt
bool is_alphabetic(char32_t code_point);   // general category L
bool is_printable(char32_t code_point);    // neither C nor Z, but the space is

char32_t lower_case(char32_t code_point);
void append_upper_case(std::string& text, char32_t code_point);  // two letters for a sharp s

// The text as the regex engine should see it: code points that its Unicode tables lack are replaced by one of
// the same general category and the same length in UTF-8, so that offsets stay. Returns `text` itself, or a
// view of `storage` where something had to be replaced. Valid UTF-8 only.
std::string_view with_stand_ins(std::string_view text, std::string& storage);

}  // namespace lazytrain
