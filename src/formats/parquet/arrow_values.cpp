#include "formats/parquet/arrow_values.h"

#include <arrow/api.h>
#include <arrow/extension_type.h>
#include <arrow/util/float16.h>
#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <stdexcept>

namespace lazytrain {
namespace {

bool is_text(const arrow::DataType& type) {
  return type.id() == arrow::Type::STRING || type.id() == arrow::Type::LARGE_STRING ||
         type.id() == arrow::Type::STRING_VIEW;
}

std::optional<UnreadableField> find_unreadable(const arrow::DataType& type, const std::string& path) {
  switch (type.id()) {
    case arrow::Type::NA:
    case arrow::Type::BOOL:
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::INT32:
    case arrow::Type::INT64:
    case arrow::Type::UINT8:
    case arrow::Type::UINT16:
    case arrow::Type::UINT32:
    case arrow::Type::UINT64:
    case arrow::Type::HALF_FLOAT:
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE:
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW:
      return std::nullopt;
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST:
      return find_unreadable(*type.field(0)->type(), path);
    case arrow::Type::STRUCT:
      for (const auto& field : type.fields()) {
        if (auto found = find_unreadable(*field->type(), path + "." + field->name())) return found;
      }
      return std::nullopt;
    case arrow::Type::MAP: {
      const auto& map = static_cast<const arrow::MapType&>(type);
      if (!is_text(*map.key_type())) return UnreadableField{path, type.ToString()};
      return find_unreadable(*map.item_type(), path);
    }
    case arrow::Type::DICTIONARY:
      return find_unreadable(*static_cast<const arrow::DictionaryType&>(type).value_type(), path);
    case arrow::Type::EXTENSION:
      return find_unreadable(*static_cast<const arrow::ExtensionType&>(type).storage_type(), path);
    default:
      return UnreadableField{path, type.ToString()};
  }
}

// The texts of an array of any of the three kinds.
std::string_view text_in(const arrow::Array& array, std::int64_t row) {
  switch (array.type_id()) {
    case arrow::Type::LARGE_STRING:
      return static_cast<const arrow::LargeStringArray&>(array).GetView(row);
    case arrow::Type::STRING_VIEW:
      return static_cast<const arrow::StringViewArray&>(array).GetView(row);
    default:
      return static_cast<const arrow::StringArray&>(array).GetView(row);
  }
}

template <typename ArrayType>
void append_whole(const arrow::Array& array, std::int64_t row, std::string& text) {
  fmt::format_to(std::back_inserter(text), "{}", static_cast<const ArrayType&>(array).Value(row));
}

// The shortest text that reads back as the same number, with a mark of a fraction as JSON's writers have it.
template <typename Number>
void append_fraction(Number value, std::string& text) {
  if (!std::isfinite(value)) {
    text += "null";
    return;
  }
  const std::size_t begin = text.size();
  fmt::format_to(std::back_inserter(text), "{}", value);
  if (text.find_first_of(".e", begin) == std::string::npos) text += ".0";
}

template <typename ListArray>
void append_list(const arrow::Array& array, std::int64_t row, std::string& text) {
  const auto& list = static_cast<const ListArray&>(array);
  const std::int64_t begin = list.value_offset(row);
  const std::int64_t count = list.value_length(row);
  const arrow::Array& values = *list.values();
  text += '[';
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    append_json(values, begin + i, text);
  }
  text += ']';
}

void append_struct(const arrow::StructArray& array, std::int64_t row, std::string& text) {
  text += '{';
  bool first = true;
  for (int i = 0; i < array.num_fields(); ++i) {
    const arrow::Array& values = *array.field(i);
    // A column of nulls only has no bitmap: IsNull() knows that, too.
    if (values.IsNull(row)) continue;
    if (!first) text += ", ";
    first = false;
    append_json_text(array.struct_type()->field(i)->name(), text);
    text += ": ";
    append_json(values, row, text);
  }
  text += '}';
}

void append_map(const arrow::MapArray& array, std::int64_t row, std::string& text) {
  const std::int64_t begin = array.value_offset(row);
  const std::int64_t count = array.value_length(row);
  text += '{';
  for (std::int64_t i = 0; i < count; ++i) {
    if (i > 0) text += ", ";
    append_json_text(text_in(*array.keys(), begin + i), text);
    text += ": ";
    append_json(*array.items(), begin + i, text);
  }
  text += '}';
}

void append_dictionary(const arrow::DictionaryArray& array, std::int64_t row, std::string& text) {
  const std::int64_t index = array.GetValueIndex(row);
  const arrow::Array& values = *array.dictionary();
  if (index < 0 || index >= values.length())
    throw std::out_of_range(fmt::format("value {} of a dictionary of {}", index, values.length()));
  append_json(values, index, text);
}

}  // namespace

std::optional<UnreadableField> find_unreadable(const arrow::Field& field) {
  return find_unreadable(*field.type(), field.name());
}

void append_json_text(std::string_view value, std::string& text) {
  text += '"';
  std::size_t copied = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const char c = value[i];
    if (c != '"' && c != '\\' && static_cast<unsigned char>(c) >= 0x20) continue;
    text += value.substr(copied, i - copied);
    copied = i + 1;
    if (c == '"' || c == '\\') {
      text += '\\';
      text += c;
    } else if (c == '\n') {
      text += "\\n";
    } else {
      fmt::format_to(std::back_inserter(text), "\\u{:04x}", static_cast<unsigned>(c));
    }
  }
  text += value.substr(copied);
  text += '"';
}

void append_json(const arrow::Array& array, std::int64_t row, std::string& text) {
  if (array.IsNull(row)) {
    text += "null";
    return;
  }
  switch (array.type_id()) {
    case arrow::Type::BOOL:
      text += static_cast<const arrow::BooleanArray&>(array).Value(row) ? "true" : "false";
      return;
    case arrow::Type::INT8:
      return append_whole<arrow::Int8Array>(array, row, text);
    case arrow::Type::INT16:
      return append_whole<arrow::Int16Array>(array, row, text);
    case arrow::Type::INT32:
      return append_whole<arrow::Int32Array>(array, row, text);
    case arrow::Type::INT64:
      return append_whole<arrow::Int64Array>(array, row, text);
    case arrow::Type::UINT8:
      return append_whole<arrow::UInt8Array>(array, row, text);
    case arrow::Type::UINT16:
      return append_whole<arrow::UInt16Array>(array, row, text);
    case arrow::Type::UINT32:
      return append_whole<arrow::UInt32Array>(array, row, text);
    case arrow::Type::UINT64:
      return append_whole<arrow::UInt64Array>(array, row, text);
    case arrow::Type::HALF_FLOAT: {
      const std::uint16_t bits = static_cast<const arrow::HalfFloatArray&>(array).Value(row);
      return append_fraction(arrow::util::Float16::FromBits(bits).ToFloat(), text);
    }
    case arrow::Type::FLOAT:
      return append_fraction(static_cast<const arrow::FloatArray&>(array).Value(row), text);
    case arrow::Type::DOUBLE:
      return append_fraction(static_cast<const arrow::DoubleArray&>(array).Value(row), text);
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW:
      return append_json_text(text_in(array, row), text);
    case arrow::Type::LIST:
      return append_list<arrow::ListArray>(array, row, text);
    case arrow::Type::LARGE_LIST:
      return append_list<arrow::LargeListArray>(array, row, text);
    case arrow::Type::FIXED_SIZE_LIST:
      return append_list<arrow::FixedSizeListArray>(array, row, text);
    case arrow::Type::STRUCT:
      return append_struct(static_cast<const arrow::StructArray&>(array), row, text);
    case arrow::Type::MAP:
      return append_map(static_cast<const arrow::MapArray&>(array), row, text);
    case arrow::Type::DICTIONARY:
      return append_dictionary(static_cast<const arrow::DictionaryArray&>(array), row, text);
    case arrow::Type::EXTENSION:
      return append_json(*static_cast<const arrow::ExtensionArray&>(array).storage(), row, text);
    default:
      throw std::logic_error("internal error: a type that find_unreadable() would have named");
  }
}

}  // namespace lazytrain
