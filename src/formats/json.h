// JSON documents that fit in memory: configs, indexes, plans, states. Large data files are streamed by
// formats/json_stream.h instead. Key order is kept where it matters to the reader (ordered_json).
//
// Include <nlohmann/json.hpp> in the .cpp that looks inside; this header names the types only.
#pragma once

#include <cstddef>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "core/error.h"

namespace lazytrain {

// Parses one document. `where` names it in errors ("config.json"); an error gives line and column.
// Refuses nesting deeper than 200 and duplicate keys are resolved to the last one, as other readers do.
nlohmann::json parse_json(std::string_view text, const std::string& where, ExitCode code);
nlohmann::ordered_json parse_ordered_json(std::string_view text, const std::string& where, ExitCode code);

// The same, but a key that appears twice in one object is an error that names it.
nlohmann::json parse_unique_json(std::string_view text, const std::string& where, ExitCode code);

// What is wrong with a text, and the byte offset at which it shows.
struct JsonFault {
  std::size_t offset = 0;
  std::string reason;  // "nested deeper than 200 levels", "invalid literal"...
};
// Parses without throwing on bad text: nullopt and `value` set, or the fault and `value` null.
std::optional<JsonFault> try_parse_json(std::string_view text, nlohmann::json& value);

// Reads and parses a file; a missing file is Error(code) that names it, and so is one that is not JSON at all
// (a Git-LFS pointer, a web page...).
nlohmann::json read_json(const std::filesystem::path& path, ExitCode code);
// The same; a key that appears twice in one object is refused.
nlohmann::json read_unique_json(const std::filesystem::path& path, ExitCode code);

// Pretty-printed with two spaces and a final newline, written atomically.
void write_json(const std::filesystem::path& path, const nlohmann::json& document);
void write_json(const std::filesystem::path& path, const nlohmann::ordered_json& document);

}  // namespace lazytrain
