#include "text/precompiled.h"

#include <utf8proc.h>

#include <cstddef>

#include "core/error.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lazytrain {
namespace {

// Nothing where it is not base64.
std::optional<std::string> from_base64(std::string_view text) {
  static constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  std::string bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::size_t value = kLetters.find(c);
    if (value == std::string_view::npos) return std::nullopt;
    bits = (bits << 6) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count >= 8) bytes.push_back(static_cast<char>((bits >> (count -= 8)) & 0xFF));
  }
  return bytes;
}

std::uint32_t little_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = 4; i-- > 0;) value = (value << 8) | static_cast<unsigned char>(bytes[i]);
  return value;
}

// The parts of a unit of the double array.
bool has_value(std::uint32_t unit) {
  return ((unit >> 8) & 1) != 0;
}
std::uint32_t value_of(std::uint32_t unit) {
  return unit & 0x7FFFFFFF;
}
std::uint32_t label_of(std::uint32_t unit) {
  return unit & 0x800000FF;
}
std::size_t offset_of(std::uint32_t unit) {
  return static_cast<std::size_t>(unit >> 10) << ((unit & 0x200) >> 6);
}

}  // namespace

PrecompiledMap::PrecompiledMap(std::string_view base64, const std::string& where) {
  const auto bytes = from_base64(base64);
  constexpr std::size_t kUnit = 4;
  const bool has_size = bytes && bytes->size() >= kUnit;
  const std::size_t size = has_size ? little_endian(*bytes) : 0;
  if (!has_size || size == 0 || size % kUnit != 0 || size > bytes->size() - kUnit)
    fail(ExitCode::model_file, "{}: 'precompiled_charsmap' is damaged", where);
  const std::string_view all = *bytes;
  for (std::size_t at = kUnit; at < kUnit + size; at += kUnit)
    units_.push_back(little_endian(all.substr(at, kUnit)));
  replacements_ = all.substr(kUnit + size);
  if (find_invalid_utf8(replacements_) != replacements_.size())
    fail(ExitCode::model_file, "{}: the replacements of 'precompiled_charsmap' are not UTF-8", where);
}

// The replacement of the shortest entry that the key begins with.
std::optional<std::string_view> PrecompiledMap::find(std::string_view key) const {
  std::size_t node = offset_of(units_[0]);
  for (const char c : key) {
    const auto byte = static_cast<unsigned char>(c);
    node ^= byte;
    if (byte == 0 || node >= units_.size() || label_of(units_[node]) != byte) return std::nullopt;
    const std::uint32_t unit = units_[node];
    node ^= offset_of(unit);
    if (!has_value(unit)) continue;
    if (node >= units_.size()) return std::nullopt;
    const std::size_t begin = value_of(units_[node]);
    if (begin > replacements_.size()) return std::nullopt;
    const std::string_view rest = std::string_view(replacements_).substr(begin);
    return rest.substr(0, rest.find('\0'));
  }
  return std::nullopt;
}

std::optional<std::string> PrecompiledMap::apply(std::string_view text, OriginMap* origin) const {
  constexpr std::size_t kLongest = 6;  // clusters from here on are taken apart
  std::string storage;
  const std::string_view known = with_stand_ins(text, storage);  // of the same lengths, to find the clusters
  Rewriting result(text, origin);
  std::size_t copied = 0;
  bool changed = false;
  bool written = false;
  // What is taken away in front of everything counts with what comes behind it.
  const auto source_begin = [&](std::size_t begin) { return written ? begin : 0; };
  const auto keep_until = [&](std::size_t end) {
    if (copied == end) return;
    const std::size_t first_end = copied + decode_utf8(text, copied).size;
    if (written) {
      result.keep({copied, end});
    } else if (copied == 0) {
      result.keep({0, end});
    } else {
      result.put(text.substr(copied, first_end - copied), {0, first_end});
      result.keep({first_end, end});
    }
    written = true;
  };
  const auto replace = [&](std::size_t begin, std::size_t end) {
    const auto other = find(text.substr(begin, end - begin));
    if (!other) return false;
    changed = true;
    keep_until(begin);
    // A damaged table may point into the middle of a code point.
    result.put(replace_invalid_utf8(*other), {source_begin(begin), end});
    written = written || !other->empty();
    copied = end;
    return true;
  };
  for (std::size_t begin = 0; begin < text.size();) {
    CodePoint last = decode_utf8(known, begin);
    std::size_t end = begin + last.size;
    for (utf8proc_int32_t state = 0; end < text.size();) {
      const CodePoint next = decode_utf8(known, end);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.value),
                                           static_cast<utf8proc_int32_t>(next.value), &state))
        break;
      end += next.size;
      last = next;
    }
    if (end - begin >= kLongest || !replace(begin, end))
      for (std::size_t at = begin; at < end; at += decode_utf8(text, at).size)
        replace(at, at + decode_utf8(text, at).size);
    begin = end;
  }
  if (!changed) return std::nullopt;
  keep_until(text.size());
  return result.take();
}

}  // namespace lazytrain
