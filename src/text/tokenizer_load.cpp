// tokenizer.json -> Tokenizer.
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "formats/json.h"
#include "text/json_field.h"
#include "text/tokenizer_state.h"

namespace lazytrain {
namespace {

using nlohmann::json;

const json& key_or_null(const json& document, const char* key) {
  static const json kNull;
  const json* value = json_field::find(document, key);
  return value == nullptr ? kNull : *value;
}

}  // namespace

// `truncation` and `padding` are settings of a call, not of the tokenizer: cutoff_len and packing decide
// here.
Tokenizer::State::State(const json& document, const std::string& source)
    : where(source),
      normalizer(key_or_null(document, "normalizer"), source + ": normalizer"),
      pre_tokenizer(key_or_null(document, "pre_tokenizer"), source),
      model(read_token_model(json_field::need(document, "model", source), pre_tokenizer.byte_level(),
                             vocabulary, source + ": model")),
      decoder(key_or_null(document, "decoder"), pre_tokenizer.byte_level(), source + ": decoder") {
  read_added_tokens(document);
  if (auto* bpe = std::get_if<BytePairEncoder>(&model)) bpe->finish(source + ": model");
  if (!pre_tokenizer.byte_level() || !written.empty()) {
    vocabulary.respell([&](std::int32_t id, const std::string& spelling) {
      const auto other = written.find(id);
      return decoder.bytes(other == written.end() ? spelling : other->second);
    });
  }
  frame =
      read_post_processor(key_or_null(document, "post_processor"), vocabulary, source + ": post_processor");
}

void Tokenizer::State::read_added_tokens(const json& document) {
  const std::string place = where + ": added_tokens";
  const json* list = json_field::find(document, "added_tokens");
  if (list == nullptr) return;
  if (!list->is_array()) fail(ExitCode::model_file, "{}: should be an array", place);
  for (const json& item : *list) {
    AddedToken token{
        .content = json_field::text(item, "content", place),
        .special = json_field::boolean(item, "special", false, place),
        .normalized = json_field::boolean(item, "normalized", false, place),
        .lstrip = json_field::boolean(item, "lstrip", false, place),
        .rstrip = json_field::boolean(item, "rstrip", false, place),
        .single_word = json_field::boolean(item, "single_word", false, place),
    };
    const json& id = json_field::need(item, "id", place);
    if (!id.is_number_integer() || (id.is_number_unsigned() && id.get<std::uint64_t>() >= INT32_MAX))
      fail(ExitCode::model_file, "{}: the id of '{}' should be a whole number", place, token.content);
    if (token.content.empty()) continue;
    std::optional<std::string> normal;
    if (token.normalized) normal = normalizer.apply(token.content, true, nullptr);
    const auto known = vocabulary.find(token.content);
    if (!known || *known != id.get<std::int64_t>())
      vocabulary.add(token.content, id.get<std::int64_t>(), place);
    token.id = id.get<std::int32_t>();
    if (token.special) special.insert(token.id);
    if (normal) token.content = written[token.id] = std::move(*normal);
    (token.normalized ? normalized : as_given).add(token);
  }
}

Tokenizer Tokenizer::parse(std::string_view text, const std::string& where) {
  const json document = parse_json(text, where, ExitCode::model_file);
  return Tokenizer(std::make_shared<const State>(document, where));
}

Tokenizer Tokenizer::load(const std::filesystem::path& path) {
  std::error_code ignored;
  const auto file = std::filesystem::is_directory(path, ignored) ? path / "tokenizer.json" : path;
  if (is_missing(file)) {
    fail(ExitCode::model_file,
         "{}: not found; the model folder needs a tokenizer.json (Hugging Face format); add it",
         file.string());
  }
  const json document = read_json(file, ExitCode::model_file);
  auto state = std::make_shared<State>(document, file.string());
  state->roles = read_role_tokens(file.parent_path(), state->vocabulary);
  return Tokenizer(std::move(state));
}

}  // namespace lazytrain
