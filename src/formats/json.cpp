#include "formats/json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/file.h"

namespace lazytrain {
namespace {

constexpr int kDeepest = 200;

// nlohmann's parser recurses when values are destroyed and printed; depth is bounded before it sees the text.
void check_depth(std::string_view text, const std::string& where, ExitCode code) {
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
      if (++depth > kDeepest) fail(code, "{}: nested deeper than {} levels", where, kDeepest);
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
}

template <typename Json>
Json parse(std::string_view text, const std::string& where, ExitCode code) {
  check_depth(text, where, code);
  try {
    return Json::parse(text.begin(), text.end());
  } catch (const nlohmann::json::parse_error& error) {
    const std::size_t at = std::min<std::size_t>(error.byte > 0 ? error.byte - 1 : 0, text.size());
    const std::string_view before = text.substr(0, at);
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t newline = before.rfind('\n');
    const std::size_t column = newline == std::string_view::npos ? at + 1 : at - newline;
    fail(code, "{}:{}:{}: not valid JSON here", where, line, column);
  }
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

nlohmann::json read_json(const std::filesystem::path& path, ExitCode code) {
  if (!std::filesystem::is_regular_file(path)) fail(code, "{}: no such file", path.string());
  const MappedFile file(path);
  return parse_json(file.text(), path.string(), code);
}

void write_json(const std::filesystem::path& path, const nlohmann::json& document) { write(path, document); }
void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& document) { write(path, document); }

}  // namespace lazytrain
