#include "formats/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "core/file.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

constexpr int kDeepest = 200;

// nlohmann's parser recurses when values are destroyed and printed; depth is bounded before it sees the text.
std::optional<JsonFault> find_depth_fault(std::string_view text) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kDeepest) return JsonFault{i, fmt::format("nested deeper than {} levels", kDeepest)};
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return std::nullopt;
}

// The library's message is "[id] parse error at line L, column C: while parsing X - REASON; last read: ...":
// the positions are given in our own form, and what was last read may be of any length.
std::string reason_of(const nlohmann::json::exception& error) {
  if (error.id == 406) return "a number is out of range";
  std::string message = error.what();
  const std::size_t dash = message.find(" - ");
  if (dash == std::string::npos) return "not valid JSON";
  message = message.substr(dash + 3, message.find("; last read") - dash - 3);
  return "not valid JSON: " + message;
}

template <typename Json>
std::optional<JsonFault> try_parse(std::string_view text, Json& value,
                                   typename Json::parser_callback_t callback = nullptr) {
  value = nullptr;
  if (auto fault = find_depth_fault(text)) return fault;
  try {
    value = Json::parse(text.begin(), text.end(), callback);
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t offset = std::min<std::size_t>(error.byte > 0 ? error.byte - 1 : 0, text.size());
    return JsonFault{offset, reason_of(error)};
  } catch (const nlohmann::json::exception& error) {
    return JsonFault{0, reason_of(error)};
  }
  return std::nullopt;
}

template <typename Json>
Json parse(std::string_view text, const std::string& where, ExitCode code,
           typename Json::parser_callback_t callback = nullptr) {
  Json value;
  if (const auto fault = try_parse(text, value, callback)) {
    const TextPosition at = position_of(text, fault->offset);
    fail(code, "{}:{}:{}: {}; correct it there, or get the file again", where, at.line, at.column,
         fault->reason);
  }
  return value;
}

template <typename Json>
void write(const std::filesystem::path& path, const Json& document) {
  write_file(path, document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace

nlohmann::json parse_json(std::string_view text, const std::string& where, ExitCode code) {
  return parse<nlohmann::json>(text, where, code);
}

nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where, ExitCode code) {
  return parse<nlohmann::ordered_json>(text, where, code);
}

nlohmann::json parse_unique_json(std::string_view text, const std::string& where, ExitCode code) {
  using Json = nlohmann::json;
  std::vector<std::unordered_set<std::string>> keys;
  const auto track = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key) {
      const auto& key = parsed.get_ref<const std::string&>();
      if (!keys.back().insert(key).second)
        fail(code, "{}: the key {} appears twice in one object; remove one of them", where, in_quotes(key));
    }
    return true;
  };
  return parse<Json>(text, where, code, track);
}

std::optional<JsonFault> try_parse_json(std::string_view text, nlohmann::json& value) {
  return try_parse(text, value);
}

namespace {

template <typename Parse>
nlohmann::json read(const std::filesystem::path& path, ExitCode code, const Parse& parse_text) {
  require_file(path, code);
  const MappedFile file(path);
  const std::string wrong = wrong_content(file.text().substr(0, 256), file.text().size());
  if (!wrong.empty()) fail(code, "{}: {}", path.string(), wrong);
  return parse_text(file.text(), path.string(), code);
}

}  // namespace

nlohmann::json read_json(const std::filesystem::path& path, ExitCode code) {
  return read(path, code, parse_json);
}

nlohmann::json read_unique_json(const std::filesystem::path& path, ExitCode code) {
  return read(path, code, parse_unique_json);
}

void write_json(const std::filesystem::path& path, const nlohmann::json& document) {
  write(path, document);
}
void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& document) {
  write(path, document);
}

}  // namespace lazytrain
