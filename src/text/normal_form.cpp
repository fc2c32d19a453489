#include "text/normal_form.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>
#include <vector>

#include "core/error.h"
#include "text/normal_form_table.h"
#include "text/utf8.h"

namespace lazytrain {
namespace {

template <typename Table>
bool holds(const Table& table, char32_t code_point) {
  const auto row = std::lower_bound(table.begin(), table.end(), code_point,
                                    [](const auto& r, char32_t c) { return r.last < c; });
  return row != table.end() && row->first <= code_point;
}

bool is_compatible(NormalForm form) {
  return form == NormalForm::nfkc || form == NormalForm::nfkd;
}

utf8proc_option_t options_of(NormalForm form) {
  const bool composes = form == NormalForm::nfc || form == NormalForm::nfkc;
  return static_cast<utf8proc_option_t>(UTF8PROC_STABLE | (composes ? UTF8PROC_COMPOSE : UTF8PROC_DECOMPOSE) |
                                        (is_compatible(form) ? UTF8PROC_COMPAT : 0));
}

// No rule of the form touches these, and they separate what stands before from what follows.
bool is_untouched(char32_t c, NormalForm form) {
  return holds(unicode_table::kUntouchedByNfc, c) || holds(unicode_table::kNewCodePoints, c) ||
         (is_compatible(form) && holds(unicode_table::kNoCompatibilityForm, c));
}

// Conjoining vowels and final consonants have combining class 0 and yet join the code point before them.
bool joins_backward(char32_t c) {
  return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2);
}

bool is_mark(const utf8proc_property_t& property) {
  return property.combining_class != 0 || property.category == UTF8PROC_CATEGORY_MN ||
         property.category == UTF8PROC_CATEGORY_MC;
}

// Could the form change a text because of this code point?
bool may_change(char32_t c, NormalForm form) {
  if (form != NormalForm::nfc) return true;
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  if (is_mark(*property) || joins_backward(c)) return true;
  return property->decomp_type == 0 && property->decomp_seqindex != UINT16_MAX;
}

using Points = std::vector<utf8proc_int32_t>;

void append_decomposition(Points& points, char32_t c, NormalForm form) {
  std::array<utf8proc_int32_t, 32> buffer{};
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE |
                                                      (is_compatible(form) ? UTF8PROC_COMPAT : 0));
  const utf8proc_ssize_t count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(c), buffer.data(),
                                                         buffer.size(), options, nullptr);
  check(count >= 0 && count <= std::ssize(buffer), "a decomposition has at most 18 code points");
  points.insert(points.end(), buffer.begin(), buffer.begin() + count);
}

// Nothing before this code point takes part in what becomes of it.
bool begins_anew(char32_t c, NormalForm form) {
  Points points;
  append_decomposition(points, c, form);
  return points.empty() || (!is_mark(*utf8proc_get_property(points.front())) &&
                            !joins_backward(static_cast<char32_t>(points.front())));
}

// The decomposition with marks in canonical order. utf8proc orders marks by insertion, which is quadratic in
// the length of a run; given this it has nothing left to do.
std::string decompose(std::string_view segment, NormalForm form) {
  Points points;
  for (std::size_t at = 0; at < segment.size();) {
    const CodePoint point = decode_utf8(segment, at);
    append_decomposition(points, point.value, form);
    at += point.size;
  }
  const auto combining_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  for (auto run = points.begin(); run != points.end();) {
    const auto marks = std::find_if(run, points.end(), [&](auto c) { return combining_class(c) != 0; });
    const auto next = std::find_if(marks, points.end(), [&](auto c) { return combining_class(c) == 0; });
    std::stable_sort(marks, next, [&](auto a, auto b) { return combining_class(a) < combining_class(b); });
    run = next;
  }
  std::string result;
  for (const utf8proc_int32_t c : points) append_utf8(result, static_cast<char32_t>(c));
  return result;
}

std::string form_of_unit(std::string_view unit, NormalForm form) {
  constexpr std::size_t kLong = 512;
  const std::string sorted = unit.size() > kLong ? decompose(unit, form) : std::string(unit);
  utf8proc_uint8_t* raw = nullptr;
  const utf8proc_ssize_t size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(sorted.data()),
                                             std::ssize(sorted), &raw, options_of(form));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(raw, std::free);
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  check(size >= 0, "every normal form of valid UTF-8 exists");
  return {reinterpret_cast<const char*>(raw), static_cast<std::size_t>(size)};
}

// How many bytes at the front are the same code points.
std::size_t common_code_points(std::string_view a, std::string_view b) {
  std::size_t same = 0;
  while (same < a.size() && same < b.size()) {
    const std::size_t size = decode_utf8(a, same).size;
    if (a.substr(same, size) != b.substr(same, size)) break;
    same += size;
  }
  return same;
}

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

}  // namespace

std::optional<std::string> to_normal_form(std::string_view text, NormalForm form, OriginMap* origin) {
  Rewriting result(text, origin);
  std::size_t copied = 0;  // of the source, into result
  bool changed = false;
  // Units are a code point that begins anew and what may join it.
  const auto change_units = [&](std::size_t begin, std::size_t end) {
    for (std::size_t at = begin; at < end;) {
      std::size_t next = at + decode_utf8(text, at).size;
      for (; next < end; next += decode_utf8(text, next).size)
        if (begins_anew(decode_utf8(text, next).value, form)) break;
      const std::string_view unit = text.substr(at, next - at);
      if (const std::string normal = form_of_unit(unit, form); normal != unit) {
        changed = true;
        const std::size_t same = common_code_points(unit, normal);
        result.keep({copied, at + same});
        result.put(std::string_view(normal).substr(same), {at + same, next});
        copied = next;
      }
      at = next;
    }
  };
  // ASCII never joins what stands before it, so that a segment is one ASCII byte (which a mark may join) and
  // the other code points up to the next ASCII byte.
  for (std::size_t at = 0; at < text.size();) {
    if (is_ascii(text[at])) {
      ++at;
      continue;
    }
    const std::size_t begin = at > copied && is_ascii(text[at - 1]) ? at - 1 : at;
    bool suspicious = false;
    while (at < text.size() && !is_ascii(text[at])) {
      const CodePoint point = decode_utf8(text, at);
      if (is_untouched(point.value, form)) break;
      suspicious = suspicious || may_change(point.value, form);
      at += point.size;
    }
    if (suspicious) {
      change_units(begin, at);
    }
    if (at < text.size() && !is_ascii(text[at])) at += decode_utf8(text, at).size;
  }
  if (!changed) return std::nullopt;
  result.keep({copied, text.size()});
  return result.take();
}

bool is_combining_mark(char32_t c) {
  if (c == 0x1CF2 || c == 0x1CF3) return true;
  const utf8proc_category_t category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  const bool mark = category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
                    category == UTF8PROC_CATEGORY_ME;
  return mark && !holds(unicode_table::kNotYetMarks, c);
}

void append_lower_case(std::string& text, char32_t c) {
  struct Letters {
    char32_t first, last, lower;
  };
  static constexpr std::array<Letters, 9> kYoung{{{0x1C89, 0x1C89, 0x1C8A},
                                                  {0xA7CB, 0xA7CB, 0x264},
                                                  {0xA7CC, 0xA7CC, 0xA7CD},
                                                  {0xA7CE, 0xA7CE, 0xA7CF},
                                                  {0xA7D2, 0xA7D2, 0xA7D3},
                                                  {0xA7D4, 0xA7D4, 0xA7D5},
                                                  {0xA7DA, 0xA7DA, 0xA7DB},
                                                  {0x10D50, 0x10D65, 0x10D70},
                                                  {0x16EA0, 0x16EB8, 0x16EBB}}};
  if (c == 0x130) {
    text += "i\u0307";
    return;
  }
  if (c == 0xA7DC) return append_utf8(text, 0x19B);
  for (const Letters& row : kYoung)
    if (row.first <= c && c <= row.last) return append_utf8(text, row.lower + (c - row.first));
  append_utf8(text, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
}

}  // namespace lazytrain
