#include "text/normalizer.h"

#include <array>
#include <utility>

#include "core/error.h"
#include "text/json_field.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lazytrain {
namespace {

using nlohmann::json;

// The text with every code point rewritten by `letter`, which appends to a string what stands for it.
template <typename Letter>
std::optional<std::string> by_letters(std::string_view text, OriginMap* origin, const Letter& letter) {
  Rewriting result(text, origin);
  std::size_t copied = 0;
  bool changed = false;
  std::string other;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    other.clear();
    letter(point.value, other);
    if (other != text.substr(at, point.size)) {
      changed = true;
      result.keep({copied, at});
      result.put(other, {at, at + point.size});
      copied = at + point.size;
    }
    at += point.size;
  }
  if (!changed) return std::nullopt;
  result.keep({copied, text.size()});
  return result.take();
}

// What sentencepiece's rule "nmt" does to control characters and unusual spaces.
void append_nmt(char32_t c, std::string& text) {
  const bool dropped = (c >= 0x01 && c <= 0x08) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F ||
                       c == 0x8F || c == 0x9F;
  if (dropped) return;
  const bool space = c == '\t' || c == '\n' || c == '\f' || c == '\r' || c == 0x1680 ||
                     (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                     c == 0xFEFF || c == 0xFFFD;
  append_utf8(text, space ? U' ' : c);
}

std::optional<std::string> strip(std::string_view text, bool left, bool right, OriginMap* origin) {
  std::size_t begin = 0, end = text.size();
  while (left && begin < end && is_white_space(decode_utf8(text, begin).value))
    begin += decode_utf8(text, begin).size;
  while (right && end > begin) {
    std::size_t last = end - 1;
    while (last > begin && (static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    if (!is_white_space(decode_utf8(text, last).value)) break;
    end = last;
  }
  if (begin == 0 && end == text.size()) return std::nullopt;
  Rewriting result(text, origin);
  result.keep({begin, end});
  return result.take();
}

}  // namespace

Replacement Replacement::read(const json& document, const std::string& where) {
  Replacement result{.literal = {}, .regex = {}, .content = json_field::text(document, "content", where)};
  const json& pattern = json_field::need(document, "pattern", where);
  const json* regex = json_field::find(pattern, "Regex");
  const json* literal = json_field::find(pattern, "String");
  if (regex != nullptr && regex->is_string()) {
    result.regex = Regex(regex->get_ref<const std::string&>(), where);
  } else if (literal != nullptr && literal->is_string()) {
    result.literal = literal->get<std::string>();
  } else {
    fail(ExitCode::model_file, "{}: the pattern of a Replace should have the key 'Regex' or 'String'", where);
  }
  return result;
}

std::optional<std::string> Replacement::apply(std::string_view text, OriginMap* origin) const {
  Rewriting result(text, origin);
  if (regex) {
    std::string storage;
    std::vector<Regex::Part> parts;
    regex->split(with_stand_ins(text, storage), parts);
    bool any = false;
    for (const Regex::Part& part : parts) {
      any = any || part.match;
      if (part.match) {
        result.put(content, {part.begin, part.end});
      } else {
        result.keep({part.begin, part.end});
      }
    }
    return any ? std::optional(result.take()) : std::nullopt;
  }
  std::size_t found = literal.empty() ? std::string_view::npos : text.find(literal);
  if (found == std::string_view::npos) return std::nullopt;
  std::size_t copied = 0;
  for (; found != std::string_view::npos; found = text.find(literal, copied)) {
    result.keep({copied, found});
    result.put(content, {found, found + literal.size()});
    copied = found + literal.size();
  }
  result.keep({copied, text.size()});
  return result.take();
}

Normalizer::Normalizer(const json& document, const std::string& where) {
  add(document, where);
}

void Normalizer::add(const json& document, const std::string& where) {
  static constexpr std::array<std::pair<std::string_view, NormalForm>, 4> kForms{
      {{"NFC", NormalForm::nfc},
       {"NFD", NormalForm::nfd},
       {"NFKC", NormalForm::nfkc},
       {"NFKD", NormalForm::nfkd}}};
  if (document.is_null()) return;
  const std::string& type = json_field::type(document, where);
  for (const auto& [name, form] : kForms) {
    if (type != name) continue;
    steps_.emplace_back(form);
    return;
  }
  if (type == "Sequence") {
    const json& list = json_field::need(document, "normalizers", where);
    if (!list.is_array()) fail(ExitCode::model_file, "{}: 'normalizers' should be an array", where);
    for (const json& item : list) add(item, where);
  } else if (type == "Lowercase") {
    steps_.emplace_back(Lowercase{});
  } else if (type == "StripAccents") {
    steps_.emplace_back(StripAccents{});
  } else if (type == "Nmt") {
    steps_.emplace_back(Nmt{});
  } else if (type == "Strip") {
    steps_.emplace_back(Strip{.left = json_field::boolean(document, "strip_left", true, where),
                              .right = json_field::boolean(document, "strip_right", true, where)});
  } else if (type == "Prepend") {
    steps_.emplace_back(Prepend{json_field::text(document, "prepend", where)});
  } else if (type == "Replace") {
    steps_.emplace_back(Replacement::read(document, where));
  } else if (type == "Precompiled") {
    steps_.emplace_back(PrecompiledMap(json_field::text(document, "precompiled_charsmap", where), where));
  } else {
    fail(ExitCode::model_file,
         "{}: the type '{}' is not supported (NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Nmt, "
         "Prepend, Replace, Precompiled and Sequence are)",
         where, type);
  }
}

std::optional<std::string> Normalizer::run(const Step& step, std::string_view text, bool allow_prefix,
                                           OriginMap* origin) {
  if (const auto* form = std::get_if<NormalForm>(&step)) return to_normal_form(text, *form, origin);
  if (const auto* replacement = std::get_if<Replacement>(&step)) return replacement->apply(text, origin);
  if (const auto* map = std::get_if<PrecompiledMap>(&step)) return map->apply(text, origin);
  if (const auto* ends = std::get_if<Strip>(&step)) return strip(text, ends->left, ends->right, origin);
  if (const auto* prefix = std::get_if<Prepend>(&step)) {
    if (text.empty() || !allow_prefix || prefix->text.empty()) return std::nullopt;
    Rewriting result(text, origin);
    result.put(prefix->text, {0, 0});
    result.keep({0, text.size()});
    return result.take();
  }
  if (std::holds_alternative<Lowercase>(step))
    return by_letters(text, origin, [](char32_t c, std::string& to) { append_lower_case(to, c); });
  if (std::holds_alternative<Nmt>(step))
    return by_letters(text, origin, [](char32_t c, std::string& to) { append_nmt(c, to); });
  return by_letters(text, origin, [](char32_t c, std::string& to) {
    if (!is_combining_mark(c)) append_utf8(to, c);
  });
}

std::optional<std::string> Normalizer::apply(std::string_view text, bool allow_prefix,
                                             OriginMap* origin) const {
  std::optional<std::string> result;
  for (const Step& step : steps_) {
    OriginMap moved;
    auto next = run(step, result ? std::string_view(*result) : text, allow_prefix,
                    origin != nullptr ? &moved : nullptr);
    if (!next) continue;
    if (origin != nullptr) {
      if (result) moved.put_behind(*origin);
      *origin = std::move(moved);
    }
    result = std::move(next);
  }
  return result;
}

}  // namespace lazytrain
