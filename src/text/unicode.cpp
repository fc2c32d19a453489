#include "text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <memory>
#include <new>
#include <utility>

#include "core/error.h"
#include "text/unicode_table.h"
#include "text/utf8.h"

namespace lazytrain {
namespace {

using Category = NewCodePoints::Category;

// The row of a sorted table of ranges that holds the code point, or null.
template <typename Table>
const typename Table::value_type* find_row(const Table& table, char32_t code_point) {
  const auto row = std::lower_bound(table.begin(), table.end(), code_point,
                                    [](const auto& r, char32_t c) { return r.last < c; });
  return row != table.end() && row->first <= code_point ? &*row : nullptr;
}

const NewCodePoints* find_new(char32_t code_point) {
  return find_row(unicode_table::kNewCodePoints, code_point);
}

// Long known code points of the category, three and four bytes long in UTF-8.
char32_t stand_in(Category category, bool four_bytes) {
  static constexpr std::array<std::pair<char32_t, char32_t>, 14> kStandIns{{{0x1E00, 0x10400},
                                                                            {0x1E01, 0x10428},
                                                                            {0x1D2C, 0x16B40},
                                                                            {0x0E01, 0x10280},
                                                                            {0x3400, 0x20000},
                                                                            {0x0951, 0x1D167},
                                                                            {0x0903, 0x11000},
                                                                            {0x0966, 0x104A0},
                                                                            {0x2460, 0x10107},
                                                                            {0x2020, 0x10100},
                                                                            {0x2E3A, 0x10EAD},
                                                                            {0x2200, 0x1D6C1},
                                                                            {0x2300, 0x1F600},
                                                                            {0x200B, 0xE0001}}};
  const auto& pair = kStandIns.at(static_cast<std::size_t>(category));
  return four_bytes ? pair.second : pair.first;
}

utf8proc_category_t category_of(char32_t code_point) {
  if (const NewCodePoints* row = find_new(code_point))
    return utf8proc_category(static_cast<utf8proc_int32_t>(stand_in(row->category, row->first >= 0x10000)));
  return utf8proc_category(static_cast<utf8proc_int32_t>(code_point));
}

// Conjoining vowels and final consonants have combining class 0 and yet join the code point before them.
bool joins_backward(char32_t c) {
  return (c >= 0x1161 && c <= 0x1175) || (c >= 0x11A8 && c <= 0x11C2);
}

// Could NFC change a text because of this code point?
bool may_change(char32_t code_point) {
  const utf8proc_property_t* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(code_point));
  if (property->combining_class != 0 || joins_backward(code_point)) return true;
  if (property->decomp_type == 0 && property->decomp_seqindex != UINT16_MAX) return true;
  return property->category == UTF8PROC_CATEGORY_MN || property->category == UTF8PROC_CATEGORY_MC;
}

// Canonical decomposition with marks in canonical order. utf8proc orders marks by insertion, which is
// quadratic in the length of a run; given this it has nothing left to do.
std::string decompose(std::string_view segment) {
  std::vector<utf8proc_int32_t> points;
  for (std::size_t at = 0; at < segment.size();) {
    const CodePoint point = decode_utf8(segment, at);
    std::array<utf8proc_int32_t, 8> buffer{};
    const utf8proc_ssize_t count = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(point.value), buffer.data(), buffer.size(),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), nullptr);
    check(count >= 0 && count <= std::ssize(buffer), "a canonical decomposition has at most 4 code points");
    points.insert(points.end(), buffer.begin(), buffer.begin() + count);
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

std::string nfc_of_segment(std::string_view segment) {
  constexpr std::size_t kLong = 512;
  const std::string sorted = segment.size() > kLong ? decompose(segment) : std::string(segment);
  utf8proc_uint8_t* raw = nullptr;
  const utf8proc_ssize_t size =
      utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(sorted.data()), std::ssize(sorted), &raw,
                   static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  const std::unique_ptr<utf8proc_uint8_t, void (*)(void*)> owner(raw, std::free);
  if (size == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  check(size >= 0, "NFC of valid UTF-8 exists");
  return {reinterpret_cast<const char*>(raw), static_cast<std::size_t>(size)};
}

// NFC leaves these alone, and they separate what stands before from what follows.
bool untouched_by_nfc(char32_t code_point) {
  return find_row(unicode_table::kUntouchedByNfc, code_point) != nullptr || find_new(code_point) != nullptr;
}

bool is_ascii(char c) {
  return static_cast<unsigned char>(c) < 0x80;
}

}  // namespace

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

std::optional<std::string> to_nfc(std::string_view text, OriginMap* origin) {
  // ASCII never joins what stands before it, so that a segment is one ASCII byte (which a mark may join) and
  // the other code points up to the next ASCII byte.
  std::string result;
  std::size_t copied = 0;  // of the source, into result
  bool changed = false;
  const auto copy_until = [&](std::size_t end) {
    result.append(text.substr(copied, end - copied));
    if (origin != nullptr) origin->append_identity(copied, end - copied);
    copied = end;
  };
  for (std::size_t at = 0; at < text.size();) {
    if (is_ascii(text[at])) {
      ++at;
      continue;
    }
    const std::size_t begin = at > 0 && is_ascii(text[at - 1]) ? at - 1 : at;
    bool suspicious = false;
    while (at < text.size() && !is_ascii(text[at])) {
      const CodePoint point = decode_utf8(text, at);
      if (untouched_by_nfc(point.value)) break;
      suspicious = suspicious || may_change(point.value);
      at += point.size;
    }
    if (!suspicious) {
      if (at < text.size() && !is_ascii(text[at])) at += decode_utf8(text, at).size;
      continue;
    }
    const std::string_view segment = text.substr(begin, at - begin);
    const std::string normal = nfc_of_segment(segment);
    if (normal == segment) continue;
    changed = true;
    copy_until(begin);
    result.append(normal);
    if (origin != nullptr) origin->append({begin, at}, normal.size());
    copied = at;
  }
  if (!changed) return std::nullopt;
  copy_until(text.size());
  return result;
}

bool is_numeric(char32_t code_point) {
  if (code_point < 0x80) return code_point >= '0' && code_point <= '9';
  const utf8proc_category_t category = category_of(code_point);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO;
}

bool is_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

bool is_word(char32_t c) {
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:  // joiners, and the circled and squared letters, which are alphabetic symbols
      return c == 0x200C || c == 0x200D || (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
             (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
  }
}

bool is_cased(char32_t c) {
  const utf8proc_category_t category = category_of(c);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

bool is_alphabetic(char32_t c) {
  const utf8proc_category_t category = category_of(c);
  return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
}

bool is_printable(char32_t c) {
  if (c < 0x80) return c >= 0x20 && c < 0x7F;
  const utf8proc_category_t category = category_of(c);
  return category != UTF8PROC_CATEGORY_CN && category < UTF8PROC_CATEGORY_ZS;
}

char32_t lower_case(char32_t c) {
  return static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c)));
}

void append_upper_case(std::string& text, char32_t c) {
  if (c == 0xDF) {
    text += "SS";
  } else {
    append_utf8(text, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
  }
}

std::string_view with_stand_ins(std::string_view text, std::string& storage) {
  constexpr unsigned char kFirstLead = 0xE0;  // all of the table lies at or above U+0800
  bool replaced = false;
  for (std::size_t at = 0; at < text.size();) {
    if (static_cast<unsigned char>(text[at]) < kFirstLead) {
      ++at;
      continue;
    }
    const CodePoint point = decode_utf8(text, at);
    if (const NewCodePoints* row = find_new(point.value)) {
      if (!replaced) storage.assign(text);
      replaced = true;
      std::string other;
      append_utf8(other, stand_in(row->category, point.size == 4));
      storage.replace(at, point.size, other);
    }
    at += point.size;
  }
  return replaced ? std::string_view(storage) : text;
}

}  // namespace lazytrain
