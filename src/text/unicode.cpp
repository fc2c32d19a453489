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

}  // namespace

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
