#include "text/pre_tokenizer.h"

#include <array>
#include <utility>

#include "core/error.h"
#include "text/json_field.h"
#include "text/unicode.h"
#include "text/utf8.h"

namespace lazytrain {
namespace {

using nlohmann::json;

// ByteLevel's own split, published with GPT-2.
constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

SplitBehavior parse_behavior(const std::string& name, const std::string& where) {
  static constexpr std::array<std::pair<std::string_view, SplitBehavior>, 5> kNames{
      {{"Removed", SplitBehavior::removed},
       {"Isolated", SplitBehavior::isolated},
       {"MergedWithPrevious", SplitBehavior::merged_with_previous},
       {"MergedWithNext", SplitBehavior::merged_with_next},
       {"Contiguous", SplitBehavior::contiguous}}};
  for (const auto& [known, behavior] : kNames)
    if (name == known) return behavior;
  fail(ExitCode::model_file,
       "{}: the Split behaviour '{}' is not known; Removed, Isolated, MergedWithPrevious, MergedWithNext and "
       "Contiguous are",
       where, name);
}

Regex parse_pattern(const json& pattern, const std::string& where) {
  if (const json* regex = json_field::find(pattern, "Regex"); regex != nullptr && regex->is_string())
    return {regex->get_ref<const std::string&>(), where};
  if (const json* literal = json_field::find(pattern, "String"); literal != nullptr && literal->is_string()) {
    if (literal->get_ref<const std::string&>().empty())
      fail(ExitCode::model_file, "{}: the pattern of a Split is an empty string; get the file again", where);
    return Regex::literal(literal->get_ref<const std::string&>(), where);
  }
  fail(ExitCode::model_file, "{}: the pattern of a Split should have the key 'Regex' or 'String'", where);
}

// Every code point that `matches` is a match of its own.
template <typename Matches>
void parts_by_letter(std::string_view text, std::vector<Regex::Part>& parts, const Matches& matches) {
  std::size_t covered = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const std::size_t end = at + point.size;
    if (matches(point.value)) {
      if (at > covered) parts.push_back({covered, at, false});
      parts.push_back({at, end, true});
      covered = end;
    }
    at = end;
  }
  if (covered < text.size()) parts.push_back({covered, text.size(), false});
}

void parts_by_string(std::string_view text, std::string_view match, std::vector<Regex::Part>& parts) {
  std::size_t covered = 0;
  for (std::size_t at = text.find(match); at != std::string_view::npos; at = text.find(match, covered)) {
    if (at > covered) parts.push_back({covered, at, false});
    covered = at + match.size();
    parts.push_back({at, covered, true});
  }
  if (covered < text.size()) parts.push_back({covered, text.size(), false});
}

// Puts a space in front of every piece that has none.
void put_spaces(std::string_view text, Rewriting& result, std::size_t& size, ByteRange& piece) {
  const ByteRange source = piece;
  piece.begin = size;
  if (text[source.begin] != ' ') {
    result.put(" ", {source.begin, source.begin});
    ++size;
  }
  result.keep(source);
  piece.end = size += source.end - source.begin;
}

void write_metaspace(std::string_view text, const MetaspaceSettings& settings, const PrefixRule& rule,
                     Rewriting& result, std::size_t& size, ByteRange& piece) {
  using Prepend = MetaspaceSettings::Prepend;
  const ByteRange source = piece;
  const std::string& letter = settings.replacement;
  const std::string_view old = text.substr(source.begin, source.end - source.begin);
  piece.begin = size;
  const bool wanted = settings.prepend == Prepend::always ||
                      (settings.prepend == Prepend::first && source.begin < rule.first_until);
  if (wanted && rule.allowed && old[0] != ' ' && !old.starts_with(letter)) {
    result.put(letter, {source.begin, source.begin});
    size += letter.size();
  }
  std::size_t copied = source.begin;
  for (std::size_t at = source.begin; at < source.end; ++at) {
    if (text[at] != ' ') continue;
    result.keep({copied, at});
    result.put(letter, {at, at + 1});
    size += at - copied + letter.size();
    copied = at + 1;
  }
  result.keep({copied, source.end});
  piece.end = size += source.end - copied;
}

}  // namespace

void apply_behavior(const std::vector<Regex::Part>& parts, SplitBehavior behavior, std::uint64_t base,
                    std::vector<ByteRange>& pieces) {
  std::vector<ByteRange> joined;
  const auto begin_piece = [&](const Regex::Part& p) { joined.push_back({base + p.begin, base + p.end}); };
  bool previous_match = false;
  switch (behavior) {
    case SplitBehavior::removed:
    case SplitBehavior::isolated:
      for (const auto& part : parts)
        if (!part.match || behavior == SplitBehavior::isolated) begin_piece(part);
      break;
    case SplitBehavior::contiguous:
      for (const auto& part : parts) {
        if (!joined.empty() && part.match == previous_match) {
          joined.back().end = base + part.end;
        } else {
          begin_piece(part);
        }
        previous_match = part.match;
      }
      break;
    case SplitBehavior::merged_with_previous:  // of matches in a row only the first is merged
      for (const auto& part : parts) {
        if (part.match && !previous_match && !joined.empty()) {
          joined.back().end = base + part.end;
        } else {
          begin_piece(part);
        }
        previous_match = part.match;
      }
      break;
    case SplitBehavior::merged_with_next:  // the mirror image: of matches in a row only the last is merged
      for (std::size_t i = 0; i < parts.size(); ++i) {
        const bool takes_match_before = i > 0 && parts[i - 1].match && !parts[i].match;
        if (takes_match_before) {
          joined.back().end = base + parts[i].end;
        } else {
          begin_piece(parts[i]);
        }
      }
      break;
  }
  for (const ByteRange& piece : joined)
    if (piece.begin < piece.end) pieces.push_back(piece);
}

PreTokenizer::PreTokenizer(const json& document, const std::string& where) {
  add(document, where + ": pre_tokenizer");
}

bool PreTokenizer::prefixes_first() const {
  for (const Stage& stage : stages_) {
    const auto* metaspace = std::get_if<MetaspaceSettings>(&stage);
    if (metaspace != nullptr && metaspace->prepend == MetaspaceSettings::Prepend::first) return true;
  }
  return false;
}

void PreTokenizer::add(const json& document, const std::string& where) {
  if (document.is_null()) return;
  const std::string& type = json_field::type(document, where);
  if (type == "Sequence") {
    const json& list = json_field::need(document, "pretokenizers", where);
    if (!list.is_array()) fail(ExitCode::model_file, "{}: 'pretokenizers' should be an array", where);
    for (const json& item : list) add(item, where);
    return;
  }
  if (byte_level_)
    fail(ExitCode::model_file,
         "{}: the step '{}' after ByteLevel is not supported; ByteLevel must be the last", where, type);
  if (type == "Split") {
    stages_.emplace_back(Split{
        .regex = parse_pattern(json_field::need(document, "pattern", where), where),
        .behavior = parse_behavior(json_field::text(document, "behavior", where), where),
        .invert = json_field::boolean(document, "invert", false, where),
    });
  } else if (type == "Digits") {
    stages_.emplace_back(
        Digits{.individual = json_field::boolean(document, "individual_digits", false, where)});
  } else if (type == "WhitespaceSplit") {
    stages_.emplace_back(WhitespaceSplit{});
  } else if (type == "Metaspace") {
    stages_.emplace_back(MetaspaceSettings::read(document, where));
  } else if (type == "ByteLevel") {
    byte_level_ = true;
    if (json_field::boolean(document, "add_prefix_space", true, where)) stages_.emplace_back(PrefixSpace{});
    if (json_field::boolean(document, "use_regex", true, where))
      stages_.emplace_back(Split{.regex = Regex(kGpt2Pattern, where)});
  } else {
    fail(ExitCode::model_file,
         "{}: the type '{}' is not supported (Split, Digits, WhitespaceSplit, Metaspace, ByteLevel and "
         "Sequence "
         "are)",
         where, type);
  }
}

// Within the pieces; the text stays.
void PreTokenizer::cut(const Stage& stage, std::string_view subject, std::vector<ByteRange>& pieces) {
  std::vector<ByteRange> result;
  std::vector<Regex::Part> parts;
  for (const ByteRange& piece : pieces) {
    const std::string_view text = subject.substr(piece.begin, piece.end - piece.begin);
    SplitBehavior behavior = SplitBehavior::isolated;
    parts.clear();
    if (const auto* split = std::get_if<Split>(&stage)) {
      split->regex.split(text, parts);
      behavior = split->behavior;
      if (split->invert)
        for (Regex::Part& part : parts) part.match = !part.match;
    } else if (const auto* digits = std::get_if<Digits>(&stage)) {
      parts_by_letter(text, parts, is_numeric);
      if (!digits->individual) behavior = SplitBehavior::contiguous;
    } else if (const auto* metaspace = std::get_if<MetaspaceSettings>(&stage)) {
      parts_by_string(text, metaspace->replacement, parts);
      behavior = SplitBehavior::merged_with_next;
    } else {
      parts_by_letter(text, parts, is_white_space);
      behavior = SplitBehavior::removed;
    }
    apply_behavior(parts, behavior, piece.begin, result);
  }
  pieces = std::move(result);
}

std::string_view PreTokenizer::split(std::string_view text, const PrefixRule& rule, std::string& storage,
                                     OriginMap* origin, std::vector<ByteRange>& pieces) const {
  std::string substituted;
  std::string_view subject = with_stand_ins(text, substituted);
  pieces.clear();
  if (text.empty()) return text;
  pieces.push_back({0, text.size()});
  PrefixRule here = rule;
  bool rewritten = false;
  for (const Stage& stage : stages_) {
    const auto* metaspace = std::get_if<MetaspaceSettings>(&stage);
    if (metaspace == nullptr && !std::holds_alternative<PrefixSpace>(stage)) {
      cut(stage, subject, pieces);
      continue;
    }
    if (metaspace == nullptr && !here.allowed) continue;
    OriginMap moved;
    Rewriting result(text, origin != nullptr ? &moved : nullptr);
    std::size_t size = 0;
    for (ByteRange& piece : pieces) {
      if (metaspace != nullptr) {
        write_metaspace(text, *metaspace, here, result, size, piece);
      } else {
        put_spaces(text, result, size, piece);
      }
    }
    if (origin != nullptr) {
      if (rewritten) moved.put_behind(*origin);
      *origin = std::move(moved);
    }
    storage = result.take();
    text = storage;
    rewritten = true;
    subject = with_stand_ins(text, substituted);
    if (metaspace != nullptr && metaspace->split) cut(stage, subject, pieces);
  }
  return text;
}

}  // namespace lazytrain
