#include "text/post_processor.h"

#include <cstdint>
#include <limits>

#include "core/error.h"
#include "text/json_field.h"

namespace lazytrain {
namespace {

using nlohmann::json;

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

void add_processor(const json& processor, const Vocabulary& vocabulary, TextFrame& frame,
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
  for (const json& item : list) add_processor(item, vocabulary, frame, where);
}

}  // namespace

TextFrame read_post_processor(const json& document, const Vocabulary& vocabulary, const std::string& where) {
  TextFrame frame;
  add_processor(document, vocabulary, frame, where);
  return frame;
}

}  // namespace lazytrain
