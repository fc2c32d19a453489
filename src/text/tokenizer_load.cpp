// tokenizer.json and the files beside it -> Tokenizer.
#include <algorithm>
#include <array>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "formats/json.h"
#include "text/json_field.h"
#include "text/tokenizer_state.h"
#include "text/utf8.h"

namespace lazytrain {
namespace {

using nlohmann::json;

const json& key_or_null(const json& document, const char* key) {
  static const json kNull;
  const json* value = json_field::find(document, key);
  return value == nullptr ? kNull : *value;
}

// Whether the normalizer asks for NFC, the only one that is supported.
bool reads_nfc(const json& normalizer, const std::string& where) {
  if (normalizer.is_null()) return false;
  const std::string& type = json_field::type(normalizer, where);
  if (type == "NFC") return true;
  if (type != "Sequence")
    fail(ExitCode::model_file, "{}: the type '{}' is not supported (NFC and Sequence are)", where, type);
  const json& list = json_field::need(normalizer, "normalizers", where);
  if (!list.is_array()) fail(ExitCode::model_file, "{}: 'normalizers' should be an array", where);
  bool nfc = false;
  for (const json& item : list) nfc = reads_nfc(item, where) || nfc;
  return nfc;
}

void check_decoder(const json& decoder, const std::string& where) {
  const std::string& type = json_field::type(decoder, where);
  if (type == "ByteLevel") return;
  const json* list = type == "Sequence" ? json_field::find(decoder, "decoders") : nullptr;
  if (list != nullptr && list->is_array() && list->size() == 1) return check_decoder(list->front(), where);
  fail(ExitCode::model_file, "{}: the type '{}' is not supported (ByteLevel is)", where, type);
}

std::int32_t known_id(const json& id, const Vocabulary& vocabulary, const std::string& where) {
  const bool whole =
      id.is_number_integer() && (!id.is_number_unsigned() || id.get<std::uint64_t>() < INT32_MAX);
  const std::int64_t value = whole ? id.get<std::int64_t>() : -1;
  if (value < 0 || value >= INT32_MAX || vocabulary.spelling(static_cast<std::int32_t>(value)) == nullptr)
    fail(ExitCode::model_file, "{}: {} is not the id of a token; get the file again", where, id.dump());
  return static_cast<std::int32_t>(value);
}

void read_template(const json& processor, const Vocabulary& vocabulary, TextFrame& frame,
                   const std::string& where) {
  const json& parts = json_field::need(processor, "single", where);
  if (!parts.is_array()) fail(ExitCode::model_file, "{}: 'single' should be an array", where);
  bool text_seen = false;
  for (const json& part : parts) {
    if (json_field::find(part, "Sequence") != nullptr) {
      if (text_seen)
        fail(ExitCode::model_file,
             "{}: 'single' names the text twice, which is not supported; it should name it once", where);
      text_seen = true;
      continue;
    }
    const std::string& name = json_field::text(json_field::need(part, "SpecialToken", where), "id", where);
    const json& table = json_field::need(processor, "special_tokens", where);
    const json& ids = json_field::need(json_field::need(table, name.c_str(), where), "ids", where);
    if (!ids.is_array()) fail(ExitCode::model_file, "{}: the 'ids' of '{}' should be an array", where, name);
    for (const json& id : ids)
      (text_seen ? frame.after : frame.before).push_back(known_id(id, vocabulary, where));
  }
  if (!text_seen)
    fail(ExitCode::model_file, "{}: 'single' leaves the text out; it should name it once", where);
}

void read_post_processor(const json& processor, const Vocabulary& vocabulary, TextFrame& frame,
                         const std::string& where) {
  if (processor.is_null()) return;
  const std::string& type = json_field::type(processor, where);
  if (type == "ByteLevel") return;  // changes offsets only
  if (type == "TemplateProcessing") {
    TextFrame inner;
    read_template(processor, vocabulary, inner, where);
    frame.before.insert(frame.before.begin(), inner.before.begin(), inner.before.end());
    frame.after.insert(frame.after.end(), inner.after.begin(), inner.after.end());
    return;
  }
  if (type != "Sequence") {
    fail(ExitCode::model_file,
         "{}: the type '{}' is not supported (ByteLevel, TemplateProcessing, Sequence are)", where, type);
  }
  const json& list = json_field::need(processor, "processors", where);
  if (!list.is_array()) fail(ExitCode::model_file, "{}: 'processors' should be an array", where);
  for (const json& item : list) read_post_processor(item, vocabulary, frame, where);
}

}  // namespace

Tokenizer::State::State(const json& document, const std::string& source)
    : where(source),
      nfc(reads_nfc(key_or_null(document, "normalizer"), source + ": normalizer")),
      pre_tokenizer(key_or_null(document, "pre_tokenizer"), source),
      bpe(json_field::need(document, "model", source), vocabulary, source) {
  // `truncation` and `padding` are settings of a call, not of the tokenizer: cutoff_len and packing decide
  // here.
  check_decoder(json_field::need(document, "decoder", source), source + ": decoder");
  read_added_tokens(document);
  bpe.finish(source + ": model");
  read_post_processor(key_or_null(document, "post_processor"), vocabulary, frame,
                      source + ": post_processor");
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
    if (token.normalized && nfc) token.content = to_nfc(token.content, nullptr).value_or(token.content);
    const auto known = vocabulary.find(token.content);
    if (!known || *known != id.get<std::int64_t>())
      vocabulary.add(token.content, id.get<std::int64_t>(), place);
    token.id = id.get<std::int32_t>();
    if (token.special) special.insert(token.id);
    (token.normalized ? normalized : as_given).add(token);
  }
}

RoleTokens read_role_tokens(const std::filesystem::path& folder, const Vocabulary& vocabulary) {
  RoleTokens roles;
  const auto read = [&](const char* name) {
    const auto path = folder / name;
    return is_missing(path) ? json::object() : read_json(path, ExitCode::model_file);
  };
  const json named = read("tokenizer_config.json");
  const auto by_name = [&](const char* key) -> std::optional<std::int32_t> {
    const json* value = json_field::find(named, key);
    if (value != nullptr && value->is_object()) value = json_field::find(*value, "content");
    if (value == nullptr || !value->is_string()) return std::nullopt;
    return vocabulary.find(value->get_ref<const std::string&>());
  };
  roles.end = by_name("eos_token");
  roles.begin = by_name("bos_token");
  roles.padding = by_name("pad_token");

  for (const char* name : {"generation_config.json", "config.json"}) {
    json document = read(name);
    // Models with several parts keep the ids with the text model.
    if (const json* inner = json_field::find(document, "text_config");
        inner != nullptr && json_field::find(document, "eos_token_id") == nullptr)
      document = json(*inner);
    const auto ids = [&](const char* key) {
      std::vector<std::int32_t> found;
      const json* value = json_field::find(document, key);
      if (value == nullptr) return found;
      const json list = value->is_array() ? *value : json::array({*value});
      for (const json& id :
           list) {  // a model may name rows that the tokenizer does not have; they never occur
        if (!id.is_number_integer() || id.get<std::int64_t>() < 0 || id.get<std::int64_t>() >= INT32_MAX)
          continue;
        found.push_back(id.get<std::int32_t>());
      }
      return found;
    };
    const auto ends = ids("eos_token_id"), begins = ids("bos_token_id"), paddings = ids("pad_token_id");
    roles.stops.insert(roles.stops.end(), ends.begin(), ends.end());
    if (!roles.end && !ends.empty()) roles.end = ends.front();
    if (!roles.begin && !begins.empty()) roles.begin = begins.front();
    if (!roles.padding && !paddings.empty()) roles.padding = paddings.front();
  }
  if (roles.end) roles.stops.push_back(*roles.end);
  std::sort(roles.stops.begin(), roles.stops.end());
  roles.stops.erase(std::unique(roles.stops.begin(), roles.stops.end()), roles.stops.end());
  return roles;
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
