#include "data/dataset.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

constexpr std::size_t kShownRejections = 20;

std::string keys_of(const nlohmann::json& record) {
  if (!record.is_object()) return "no object";
  std::string keys;
  std::size_t count = 0;
  for (const auto& item : record.items()) {
    if (++count <= 10) keys += (keys.empty() ? "" : ", ") + in_quotes(item.key());
  }
  if (count > 10) keys += ", ...";
  return keys.empty() ? "no key" : keys;
}

}  // namespace

OnBadSample parse_on_bad_sample(const std::string& text) {
  if (text == "error") return OnBadSample::error;
  if (text == "skip") return OnBadSample::skip;
  fail(ExitCode::usage, "on_bad_sample is {}: use error or skip", in_quotes(text));
}

DatasetReader::DatasetReader(const DatasetSource& source, std::optional<std::int64_t> max_samples,
                             OnBadSample on_bad_sample)
    : on_bad_sample_(on_bad_sample), stream_(source.file) {
  constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  limit_ = std::min(max_samples.value_or(kNoLimit), source.num_samples.value_or(kNoLimit));
  report_.name = source.name;
  report_.file = source.file.string();
  report_.kind = stream_.kind();
  if (source.layout) layout_ = std::make_shared<RecordLayout>(*source.layout);
  if (const std::vector<std::string>* columns = stream_.columns()) choose_columns(*columns);
}

void DatasetReader::choose_columns(const std::vector<std::string>& columns) {
  if (!layout_) {
    nlohmann::json record = nlohmann::json::object();
    for (const std::string& column : columns) record[column] = nullptr;
    auto found = find_layout(record);
    if (!found)
      fail(ExitCode::data, "{}: it has {}, which fits no known format; expected are the keys {}",
           report_.file, keys_of(record), expected_keys());
    layout_ = std::make_shared<RecordLayout>(std::move(*found));
    report_.layout_found = true;
  }
  stream_.use(used_columns(*layout_));
}

bool DatasetReader::next(Record& record) {
  if (!stream_.find(record.raw)) return false;
  if (!layout_ && record.raw.good()) {
    nlohmann::json value;
    JsonRecord copy = record.raw;
    stream_.parse(copy, value);
    if (auto found = find_layout(value)) {
      layout_ = std::make_shared<RecordLayout>(std::move(*found));
      report_.layout_found = true;
    }
  }
  record.layout = layout_;
  return true;
}

DatasetReader::Converted DatasetReader::convert(Record&& record) const {
  Converted converted{.raw = std::move(record.raw), .conversion = {}};
  nlohmann::json value;
  if (converted.raw.good()) stream_.parse(converted.raw, value);
  if (!converted.raw.good()) return converted;
  if (record.layout) {
    converted.conversion = to_sample(value, *record.layout, converted.raw.text);
  } else {
    converted.conversion.reason = fmt::format("it has {}, which fits no known format", keys_of(value));
  }
  if (converted.conversion.sample) converted.conversion.sample->line = converted.raw.line;
  return converted;
}

bool DatasetReader::take(Converted& converted) {
  const JsonRecord& raw = converted.raw;
  if (!raw.good() && on_bad_sample_ == OnBadSample::error)
    stream_.fail_bad(raw, "; correct or remove it, or set on_bad_sample: skip");
  ++report_.records;
  if (!raw.good()) {
    ++report_.malformed;
    if (report_.rejections.size() < kShownRejections)
      report_.rejections.push_back(fmt::format("{}:{}: {}", report_.file, raw.line, raw.reason));
    return false;
  }
  report_.replaced += raw.replaced;
  if (converted.conversion.sample) {
    ++report_.accepted;
    return true;
  }
  if (converted.conversion.empty) {
    ++report_.empty;
    return false;
  }
  ++report_.rejected;
  if (report_.rejections.size() < kShownRejections)
    report_.rejections.push_back(
        fmt::format("{}:{}: {}", report_.file, raw.line, converted.conversion.reason));
  return false;
}

DatasetReport DatasetReader::finish() {
  if (layout_) report_.layout = layout_->name;
  if (report_.accepted == 0) {
    const std::string first = report_.rejections.empty() ? "" : " (" + report_.rejections.front() + ")";
    fail(ExitCode::data,
         "{}: no valid sample: of {} records {} are empty and {} are unusable{}; expected are the keys {}",
         report_.file, report_.records, report_.empty, report_.rejected + report_.malformed, first,
         expected_keys());
  }
  return report_;
}

DatasetReport read_dataset(const DatasetSource& source, std::optional<std::int64_t> max_samples,
                           const std::function<void(Sample&&)>& sink) {
  DatasetReader reader(source, max_samples);
  DatasetReader::Record record;
  while (!reader.enough() && reader.next(record)) {
    DatasetReader::Converted converted = reader.convert(std::move(record));
    if (reader.take(converted)) sink(std::move(*converted.conversion.sample));
  }
  return reader.finish();
}

std::string DatasetReport::summary() const {
  std::string text = fmt::format("{}: {}, {} of {} records, format {}{}\n", file, kind, accepted, records,
                                 layout, layout_found ? " (found by its keys)" : "");
  if (empty > 0) text += fmt::format("{}: {} records are empty: skipped\n", file, empty);
  if (replaced > 0) text += fmt::format("{}: {} invalid characters became U+FFFD\n", file, replaced);
  if (malformed > 0) text += fmt::format("{}: {} records are malformed: skipped\n", file, malformed);
  if (rejected > 0) text += fmt::format("{}: {} records are unusable: skipped\n", file, rejected);
  if (const std::int64_t all = rejected + malformed; all > 0) {
    for (const std::string& rejection : rejections) text += "  " + rejection + "\n";
    if (static_cast<std::size_t>(all) > rejections.size()) {
      text += fmt::format("  and {} more\n", static_cast<std::size_t>(all) - rejections.size());
    }
  }
  return text;
}

}  // namespace lazytrain
