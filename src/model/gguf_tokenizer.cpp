#include "model/gguf_tokenizer.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/error.h"
#include "formats/json.h"
#include "formats/text_checks.h"
#include "model/gguf_config.h"
#include "model/gguf_sentencepiece.h"

namespace lazytrain {
namespace {

using Json = nlohmann::ordered_json;

// Kinds of tokens, by ggml's numbers. Unused ones pad the vocabulary and have no text.
enum class TokenKind : std::int64_t {
  normal = 1,
  unknown = 2,
  control = 3,
  user_defined = 4,
  unused = 5,
  byte = 6
};

struct Vocabulary {
  std::vector<std::string_view> tokens;
  std::vector<std::int64_t> kinds;

  [[nodiscard]] bool is(std::size_t id, TokenKind kind) const {
    return kinds[id] == static_cast<std::int64_t>(kind);
  }
};

Vocabulary read_vocabulary(const Gguf& file) {
  Vocabulary vocabulary{.tokens = file.get_strings("tokenizer.ggml.tokens"), .kinds = {}};
  const std::size_t count = vocabulary.tokens.size();
  vocabulary.kinds.assign(count, static_cast<std::int64_t>(TokenKind::normal));
  if (file.has("tokenizer.ggml.token_type")) vocabulary.kinds = file.get_ints("tokenizer.ggml.token_type");
  const std::string where = file.path().string();
  if (vocabulary.kinds.size() != count) {
    fail(ExitCode::model_file,
         "{}: tokenizer.ggml.token_type has {} entries for {} tokens; convert the file anew", where,
         vocabulary.kinds.size(), count);
  }
  std::unordered_set<std::string_view> seen;
  for (std::size_t id = 0; id < count; ++id) {
    if (first_invalid_utf8(vocabulary.tokens[id]) != std::string_view::npos) {
      fail(ExitCode::model_file,
           "{}: token {} of tokenizer.ggml.tokens is not UTF-8 text; convert the file anew", where, id);
    }
    if (!seen.insert(vocabulary.tokens[id]).second) {
      fail(ExitCode::model_file,
           "{}: token {} of tokenizer.ggml.tokens, {}, is there twice; convert the file anew", where, id,
           in_quotes(vocabulary.tokens[id]));
    }
  }
  return vocabulary;
}

Json byte_level(bool use_regex) {
  return {
      {"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", use_regex}};
}

// A Split by regular expression, then bytes: how Llama 3 and Qwen 2 cut text. They differ in how many digits
// stay together.
Json split_then_bytes(const std::string& digits) {
  const std::string pattern = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|)" + digits +
                              R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
  const Json split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
  return {{"type", "Sequence"}, {"pretokenizers", Json::array({split, byte_level(false)})}};
}

struct PreTokenizer {
  Json normalizer, pre_tokenizer;
  bool ignore_merges = false;  // a piece that is in the vocabulary is taken whole
  bool adds_bos = false;       // where the file does not say
};

PreTokenizer pre_tokenizer(const Gguf& file) {
  const std::string name = file.get_string("tokenizer.ggml.pre");
  if (name == "smollm") {
    const Json digits = {{"type", "Digits"}, {"individual_digits", true}};
    return {
        .normalizer = nullptr,
        .pre_tokenizer = {{"type", "Sequence"}, {"pretokenizers", Json::array({digits, byte_level(true)})}}};
  }
  if (name == "gpt-2") return {.normalizer = nullptr, .pre_tokenizer = byte_level(true)};
  if (name == "llama-bpe") {
    return {.normalizer = nullptr,
            .pre_tokenizer = split_then_bytes(R"(\p{N}{1,3})"),
            .ignore_merges = true,
            .adds_bos = true};
  }
  if (name == "qwen2") {
    return {.normalizer = {{"type", "NFC"}}, .pre_tokenizer = split_then_bytes(R"(\p{N})")};
  }
  fail(ExitCode::model_file,
       "{}: tokenizer.ggml.pre is {}; only smollm, gpt-2, llama-bpe and qwen2 can be imported",
       file.path().string(), in_quotes(name));
}

Json added_tokens(const Vocabulary& vocabulary) {
  Json added = Json::array();
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    const bool special = vocabulary.is(id, TokenKind::control) || vocabulary.is(id, TokenKind::unknown);
    if (!special && !vocabulary.is(id, TokenKind::user_defined)) continue;
    added.push_back({{"id", id},
                     {"content", vocabulary.tokens[id]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", special}});
  }
  return added;
}

// "left right" each; both halves and what they make must be tokens, or no tokenizer would load the file.
Json merges(const Gguf& file, const Vocabulary& vocabulary) {
  const std::unordered_set<std::string_view> tokens(vocabulary.tokens.begin(), vocabulary.tokens.end());
  Json result = Json::array();
  std::size_t index = 0;
  std::string joined;
  for (const std::string_view merge : file.get_strings("tokenizer.ggml.merges")) {
    // A token may begin with a space in name only: bytes are spelt as letters, so the one space separates.
    const std::size_t space = merge.find(' ');
    const bool two = space != std::string_view::npos && merge.find(' ', space + 1) == std::string_view::npos;
    bool known = false;
    if (two) {
      const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
      joined.assign(left).append(right);
      known = tokens.contains(left) && tokens.contains(right) && tokens.contains(joined);
    }
    if (!known) {
      fail(ExitCode::model_file,
           "{}: merge {} of tokenizer.ggml.merges, {}, does not join two tokens to a third; convert the file "
           "anew",
           file.path().string(), index, in_quotes(merge));
    }
    result.push_back(merge);
    ++index;
  }
  return result;
}

Json vocabulary_object(const Vocabulary& vocabulary) {
  Json object = Json::object();
  // Appended as pairs, unique by now: ordered_json's own insertion would search the keys that are there.
  auto& entries = object.get_ref<Json::object_t&>();
  entries.reserve(vocabulary.tokens.size());
  for (std::size_t id = 0; id < vocabulary.tokens.size(); ++id) {
    if (!vocabulary.is(id, TokenKind::unused)) entries.emplace_back(std::string(vocabulary.tokens[id]), id);
  }
  return object;
}

// Puts the beginning (and end) of text around every sequence where the file says so.
Json post_processor(const Gguf& file, const Vocabulary& vocabulary, const GgufSpecialTokens& special,
                    bool adds_bos_by_default) {
  const bool bos =
      file.find_bool("tokenizer.ggml.add_bos_token").value_or(adds_bos_by_default) && special.bos;
  const bool eos = file.find_bool("tokenizer.ggml.add_eos_token").value_or(false) && !special.eos.empty();
  if (!bos && !eos) return nullptr;
  Json single = Json::array(), tokens = Json::object();
  const auto add = [&](std::int64_t id) {
    const std::string text(vocabulary.tokens[static_cast<std::size_t>(id)]);
    single.push_back({{"SpecialToken", {{"id", text}, {"type_id", 0}}}});
    tokens[text] = {{"id", text}, {"ids", {id}}, {"tokens", {text}}};
  };
  if (bos) add(*special.bos);
  single.push_back({{"Sequence", {{"id", "A"}, {"type_id", 0}}}});
  if (eos) add(special.eos.front());
  Json pair = single;  // the second sequence follows, under the other type
  for (Json part : single) {
    Json& inner = part.begin().value();
    inner["type_id"] = 1;
    if (part.contains("Sequence")) inner["id"] = "B";
    pair.push_back(part);
  }
  const Json around = {
      {"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", tokens}};
  if (file.get_string("tokenizer.ggml.model") == "llama") return around;
  Json bytes = byte_level(true);
  bytes["trim_offsets"] = false;
  return {{"type", "Sequence"}, {"processors", Json::array({bytes, around})}};
}

Json special_tokens_map(const Vocabulary& vocabulary, const GgufSpecialTokens& special) {
  Json map = Json::object();
  const auto add = [&](const char* role, std::optional<std::int64_t> id) {
    if (id) map[role] = vocabulary.tokens[static_cast<std::size_t>(*id)];
  };
  add("bos_token", special.bos);
  if (!special.eos.empty()) add("eos_token", special.eos.front());
  add("pad_token", special.padding);
  add("unk_token", special.unknown);
  return map;
}

// `model` has what differs between kinds.
Json whole_tokenizer(const Vocabulary& vocabulary, const Json& normalizer, const Json& pre_tokenizer,
                     const Json& post_processor, const Json& decoder, const Json& model) {
  Json tokenizer;
  tokenizer["version"] = "1.0";
  tokenizer["truncation"] = nullptr;
  tokenizer["padding"] = nullptr;
  tokenizer["added_tokens"] = added_tokens(vocabulary);
  tokenizer["normalizer"] = normalizer;
  tokenizer["pre_tokenizer"] = pre_tokenizer;
  tokenizer["post_processor"] = post_processor;
  tokenizer["decoder"] = decoder;
  Json& whole = tokenizer["model"] = {{"type", "BPE"},
                                      {"dropout", nullptr},
                                      {"unk_token", nullptr},
                                      {"continuing_subword_prefix", nullptr},
                                      {"end_of_word_suffix", nullptr},
                                      {"fuse_unk", false},
                                      {"byte_fallback", false},
                                      {"ignore_merges", false},
                                      {"vocab", vocabulary_object(vocabulary)}};
  whole.update(model);
  return tokenizer;
}

Json byte_level_tokenizer(const Gguf& file) {
  const PreTokenizer pre = pre_tokenizer(file);
  const Vocabulary vocabulary = read_vocabulary(file);
  return whole_tokenizer(
      vocabulary, pre.normalizer, pre.pre_tokenizer,
      post_processor(file, vocabulary, gguf_special_tokens(file), pre.adds_bos),
      {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}},
      {{"ignore_merges", pre.ignore_merges}, {"merges", merges(file, vocabulary)}});
}

Json sentencepiece_tokenizer(const Gguf& file) {
  const Vocabulary vocabulary = read_vocabulary(file);
  const std::vector<float> scores = file.get_floats("tokenizer.ggml.scores");
  if (scores.size() != vocabulary.tokens.size()) {
    fail(ExitCode::model_file,
         "{}: tokenizer.ggml.scores has {} entries for {} tokens; convert the file anew",
         file.path().string(), scores.size(), vocabulary.tokens.size());
  }
  if (!std::ranges::all_of(scores, [](float score) { return std::isfinite(score); }))
    fail(ExitCode::model_file,
         "{}: tokenizer.ggml.scores has one that is not a number; convert the file anew",
         file.path().string());
  // Every cut of a token is looked up; pieces of sentencepiece have a few dozen bytes.
  constexpr std::size_t kLongest = 4096;
  for (const std::string_view token : vocabulary.tokens)
    if (token.size() > kLongest)
      fail(ExitCode::model_file, "{}: a token has {} bytes, more than {}; convert the file anew",
           file.path().string(), token.size(), kLongest);
  std::vector<bool> mergeable(scores.size());
  std::optional<std::size_t> unknown;
  for (std::size_t id = 0; id < scores.size(); ++id) {
    mergeable[id] = vocabulary.is(id, TokenKind::normal);
    if (vocabulary.is(id, TokenKind::unknown) && !unknown) unknown = id;
  }
  const GgufSpecialTokens special = gguf_special_tokens(file);
  if (special.unknown) unknown = static_cast<std::size_t>(*special.unknown);
  const bool prefix = file.find_bool("tokenizer.ggml.add_space_prefix").value_or(true);
  Json model = {{"fuse_unk", true},
                {"byte_fallback", true},
                {"merges", merges_of_scores(vocabulary.tokens, scores, mergeable)}};
  if (unknown) model["unk_token"] = vocabulary.tokens[*unknown];
  return whole_tokenizer(vocabulary, sentencepiece_normalizer(prefix), nullptr,
                         post_processor(file, vocabulary, special, true), sentencepiece_decoder(prefix),
                         model);
}

}  // namespace

void write_gguf_tokenizer(const Gguf& file, const std::filesystem::path& folder) {
  const std::string where = file.path().string();
  const std::string kind = file.get_string("tokenizer.ggml.model");
  if (kind != "gpt2" && kind != "llama") {
    fail(ExitCode::model_file,
         "{}: tokenizer.ggml.model is {}; only 'gpt2' (byte-level BPE) and 'llama' (BPE by scores) can be "
         "imported",
         where, in_quotes(kind));
  }
  Json tokenizer = kind == "gpt2" ? byte_level_tokenizer(file) : sentencepiece_tokenizer(file);
  const Vocabulary vocabulary = read_vocabulary(file);
  const GgufSpecialTokens special = gguf_special_tokens(file);
  write_json(folder / "tokenizer.json", tokenizer);

  const Json map = special_tokens_map(vocabulary, special);
  write_json(folder / "special_tokens_map.json", map);
  Json settings = map;
  if (const auto text = file.find_string("tokenizer.chat_template")) {
    if (first_invalid_utf8(*text) != std::string::npos) {
      fail(ExitCode::model_file, "{}: tokenizer.chat_template is not UTF-8 text; convert the file anew",
           where);
    }
    settings["chat_template"] = *text;
  }
  settings["add_prefix_space"] = false;
  settings["clean_up_tokenization_spaces"] = false;
  settings["model_max_length"] = file.get_i64(gguf_key(file, "context_length"));
  // The class that takes tokenizer.json as it stands.
  settings["tokenizer_class"] = "PreTrainedTokenizerFast";
  write_json(folder / "tokenizer_config.json", settings);
}

}  // namespace lazytrain
