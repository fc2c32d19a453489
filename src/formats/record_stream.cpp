#include "formats/record_stream.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "formats/json.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

constexpr std::size_t kLookedAt = std::size_t{1} << 20;

std::string extension_of(const std::filesystem::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return std::tolower(c); });
  return extension;
}

// Text that begins with a bracket may be JSON or prose ("[1] Smith says ...").
bool is_json_indeed(std::string_view content) {
  if (content.front() == '[') {
    const std::size_t next = content.find_first_not_of(" \t\r\n", 1);
    return next != std::string_view::npos && (content[next] == '{' || content[next] == ']');
  }
  nlohmann::json value;
  return !try_parse_json(content.substr(0, content.find('\n')), value) && value.is_object();
}

}  // namespace

RecordStream::Stream RecordStream::open(const std::filesystem::path& path) {
  require_file(path, ExitCode::data);
  std::string head;
  {
    const MappedFile file(path);
    head = file.text().substr(0, kLookedAt);
    if (head.starts_with("PAR1")) return ParquetStream(path);
    const std::string wrong = wrong_content(file.text().substr(0, 256), file.text().size());
    if (!wrong.empty()) fail(ExitCode::data, "{}: {}", path.string(), wrong);
  }
  std::string_view content = head;
  if (content.starts_with("\xEF\xBB\xBF")) content.remove_prefix(3);
  content.remove_prefix(std::min(content.find_first_not_of(" \t\r\n"), content.size()));
  const std::string extension = extension_of(path);
  const bool text = extension == ".txt" || extension == ".text";
  const bool bracket = !content.empty() && (content.front() == '{' || content.front() == '[');
  if (bracket && (!text || is_json_indeed(content))) return JsonStream(path);
  if (extension == ".parquet") {
    fail(ExitCode::data, "{}: {}; take another file", path.string(),
         content.starts_with("PARE") ? "an encrypted Parquet file, which is not read"
                                     : "it does not begin as a Parquet file does, so it is damaged");
  }
  if (text) return TextStream(path);
  if (extension == ".csv") {
    const bool tabs = !DelimitedStream::looks_like(head, ',') && DelimitedStream::looks_like(head, '\t');
    return DelimitedStream(path, tabs ? '\t' : ',');
  }
  if (extension == ".tsv" || DelimitedStream::looks_like(head, '\t')) return DelimitedStream(path, '\t');
  if (DelimitedStream::looks_like(head, ',')) return DelimitedStream(path, ',');
  return JsonStream(path);  // which says what is wrong
}

RecordStream::RecordStream(const std::filesystem::path& path) : stream_(open(path)) {
  if (const auto* json = std::get_if<JsonStream>(&stream_)) {
    kind_ = json->layout() == JsonStream::Layout::array ? "a JSON array" : "JSONL";
  } else if (const auto* rows = std::get_if<DelimitedStream>(&stream_)) {
    kind_ = rows->delimiter() == ',' ? "CSV" : "TSV";
  } else if (std::holds_alternative<ParquetStream>(stream_)) {
    kind_ = "Parquet";
  } else {
    kind_ = std::get<TextStream>(stream_).paragraphs() ? "text by paragraphs" : "text by lines";
  }
}

std::uint64_t RecordStream::size() const {
  return std::visit([](const auto& stream) { return stream.size(); }, stream_);
}

std::uint64_t RecordStream::position() const {
  return std::visit([](const auto& stream) { return stream.position(); }, stream_);
}

const std::vector<std::string>* RecordStream::columns() const {
  const auto* parquet = std::get_if<ParquetStream>(&stream_);
  return parquet == nullptr ? nullptr : &parquet->columns();
}

void RecordStream::use(const std::vector<RecordColumn>& columns) {
  if (auto* parquet = std::get_if<ParquetStream>(&stream_)) parquet->use(columns);
}

bool RecordStream::find(JsonRecord& record) {
  return std::visit([&](auto& stream) { return stream.find(record); }, stream_);
}

void RecordStream::parse(JsonRecord& record, nlohmann::json& value) const {
  std::visit([&](const auto& stream) { stream.parse(record, value); }, stream_);
}

void RecordStream::fail_bad(const JsonRecord& record, const std::string& advice) const {
  std::visit([&](const auto& stream) { stream.fail_bad(record, advice); }, stream_);
  std::abort();  // every one of them throws
}

}  // namespace lazytrain
