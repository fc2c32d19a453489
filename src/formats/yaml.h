// YAML for configuration files (run.yaml): a tree of mappings, sequences and scalars that knows where each of
// its nodes stands, so that a wrong value is reported as file:line:column. Scalars stay text: what a key
// means, and whether "1e-4" is a number, is the business of whoever owns the key.
//
// Less than all of YAML, on purpose: keys are plain scalars and occur once in a mapping; aliases, merge keys,
// several documents, tags of other languages, nesting deeper than 32 and files above 1 MiB are refused, each
// in a sentence.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace lazytrain {

struct YamlKey {
  std::string text;
  std::int64_t line = 0;
  std::int64_t column = 0;
};

struct YamlNode {
  enum class Kind { null, scalar, sequence, mapping };

  Kind kind = Kind::null;
  std::string text;     // of a scalar
  bool quoted = false;  // a scalar in quotes or a block: always a string, even where it reads "true"
  std::int64_t line = 0, column = 0;  // 1-based
  std::vector<YamlKey> keys;          // of a mapping, in the order of the file; keys[i] names items[i]
  std::vector<YamlNode> items;        // of a mapping or a sequence

  // The value of a mapping's key; nullptr where it is absent or this is no mapping.
  [[nodiscard]] const YamlNode* find(std::string_view key) const;
};

// "null", "a value", "a list", "a mapping": for messages.
[[nodiscard]] const char* describe(YamlNode::Kind kind);

// Parses one document; empty text is a null node. Error(code) as "where:line:column: what".
[[nodiscard]] YamlNode parse_yaml(std::string_view text, const std::string& where, ExitCode code);
// Reads a file, or all that a pipe or terminal gives (/dev/stdin); a missing or empty one, or one that is
// plainly something else, is Error(code) naming it.
[[nodiscard]] YamlNode read_yaml(const std::filesystem::path& path, ExitCode code);

}  // namespace lazytrain
