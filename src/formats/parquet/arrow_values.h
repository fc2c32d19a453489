// Values of Arrow arrays as JSON text. Only for the files of this folder: nothing else sees Arrow.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <optional>
#include <string>

namespace lazytrain {

// A field that has no form in JSON: its path, "messages.when", and its type, "timestamp[us]".
struct UnreadableField {
  std::string path, type;
};
// The first one in `field`.
[[nodiscard]] std::optional<UnreadableField> find_unreadable(const arrow::Field& field);

// Appends the value in `row` of `array`, whose type find_unreadable() passed. Text is taken as it is, also
// where it is no valid UTF-8.
void append_json(const arrow::Array& array, std::int64_t row, std::string& text);

// Appends a text in JSON's quotes.
void append_json_text(std::string_view value, std::string& text);

}  // namespace lazytrain
