#include "text/pre_tokenizer.h"

#include <array>
#include <utility>

#include "core/error.h"
#include "text/json_field.h"
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

void digit_parts(std::string_view text, std::vector<Regex::Part>& parts) {
  std::size_t covered = 0;
  for (std::size_t at = 0; at < text.size();) {
    const CodePoint point = decode_utf8(text, at);
    const std::size_t end = at + point.size;
    if (is_numeric(point.value)) {
      if (at > covered) parts.push_back({covered, at, false});
      parts.push_back({at, end, true});
      covered = end;
    }
    at = end;
  }
  if (covered < text.size()) parts.push_back({covered, text.size(), false});
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
  if (!byte_level_) {
    fail(ExitCode::model_file,
         "{}: pre_tokenizer has no ByteLevel step; only byte-level BPE tokenizers are supported", where);
  }
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
    before_prefix_.push_back(Split{
        .regex = parse_pattern(json_field::need(document, "pattern", where), where),
        .behavior = parse_behavior(json_field::text(document, "behavior", where), where),
        .invert = json_field::boolean(document, "invert", false, where),
    });
  } else if (type == "Digits") {
    before_prefix_.push_back(
        Digits{.individual = json_field::boolean(document, "individual_digits", false, where)});
  } else if (type == "ByteLevel") {
    byte_level_ = true;
    add_prefix_space_ = json_field::boolean(document, "add_prefix_space", true, where);
    if (json_field::boolean(document, "use_regex", true, where))
      after_prefix_.push_back(Split{.regex = Regex(kGpt2Pattern, where)});
  } else {
    fail(ExitCode::model_file,
         "{}: the type '{}' is not supported (Split, Digits, ByteLevel and Sequence are)", where, type);
  }
}

void PreTokenizer::run(const Stage& stage, std::string_view subject, std::vector<ByteRange>& pieces) {
  std::vector<ByteRange> result;
  std::vector<Regex::Part> parts;
  for (const ByteRange& piece : pieces) {
    const std::string_view text = subject.substr(piece.begin, piece.end - piece.begin);
    parts.clear();
    if (const auto* split = std::get_if<Split>(&stage)) {
      split->regex.split(text, parts);
      if (split->invert)
        for (Regex::Part& part : parts) part.match = !part.match;
      apply_behavior(parts, split->behavior, piece.begin, result);
    } else {
      digit_parts(text, parts);
      const bool individual = std::get<Digits>(stage).individual;
      apply_behavior(parts, individual ? SplitBehavior::isolated : SplitBehavior::contiguous, piece.begin,
                     result);
    }
  }
  pieces = std::move(result);
}

std::string_view PreTokenizer::split(std::string_view text, bool allow_prefix, std::string& storage,
                                     OriginMap* origin, std::vector<ByteRange>& pieces) const {
  std::string substituted;
  std::string_view subject = with_stand_ins(text, substituted);
  pieces.clear();
  if (text.empty()) return text;
  pieces.push_back({0, text.size()});
  for (const Stage& stage : before_prefix_) run(stage, subject, pieces);

  if (add_prefix_space_ && allow_prefix) {
    storage.clear();
    for (ByteRange& piece : pieces) {
      const std::uint64_t begin = storage.size(), size = piece.end - piece.begin;
      if (text[piece.begin] != ' ') {
        storage.push_back(' ');
        if (origin != nullptr) origin->append({piece.begin, piece.begin}, 1);
      }
      storage.append(text.substr(piece.begin, size));
      if (origin != nullptr) origin->append_identity(piece.begin, size);
      piece = {begin, storage.size()};
    }
    text = storage;
    subject = with_stand_ins(text, substituted);
  }
  for (const Stage& stage : after_prefix_) run(stage, subject, pieces);
  return text;
}

}  // namespace lazytrain
