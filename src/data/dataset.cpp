#include "data/dataset.h"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.h"
#include "formats/json_stream.h"
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

DatasetReport read_dataset(const DatasetSource& source, std::optional<std::int64_t> max_samples,
                           const std::function<void(Sample&&)>& sink) {
  constexpr std::int64_t kNoLimit = std::numeric_limits<std::int64_t>::max();
  const std::int64_t limit = std::min(max_samples.value_or(kNoLimit), source.num_samples.value_or(kNoLimit));
  DatasetReport report;
  report.name = source.name;
  report.file = source.file.string();
  std::optional<RecordLayout> layout = source.layout;

  JsonStream stream(source.file);
  JsonRecord record;
  nlohmann::json value;
  while (report.accepted < limit && stream.next(record, value)) {
    if (!record.good()) {
      fail(ExitCode::data, "{}:{}: not JSON: {}; correct or remove the line", report.file, record.line,
           record.reason);
    }
    ++report.records;
    report.replaced += record.replaced;
    if (!layout) {
      layout = find_layout(value);
      report.layout_found = layout.has_value();
    }
    Conversion conversion;
    if (layout) {
      conversion = to_sample(value, *layout);
    } else {
      conversion.reason = fmt::format("it has {}, which fits no known format", keys_of(value));
    }
    if (conversion.sample) {
      ++report.accepted;
      conversion.sample->line = record.line;
      sink(std::move(*conversion.sample));
    } else if (conversion.empty) {
      ++report.empty;
    } else {
      ++report.rejected;
      if (report.rejections.size() < kShownRejections) {
        report.rejections.push_back(fmt::format("{}:{}: {}", report.file, record.line, conversion.reason));
      }
    }
  }
  if (layout) report.layout = layout->name;
  if (report.accepted == 0) {
    const std::string first = report.rejections.empty() ? "" : " (" + report.rejections.front() + ")";
    fail(ExitCode::data,
         "{}: no valid sample: of {} records {} are empty and {} are unusable{}; expected are the keys {}",
         report.file, report.records, report.empty, report.rejected, first, expected_keys());
  }
  return report;
}

std::string DatasetReport::summary() const {
  std::string text = fmt::format("{}: {} of {} records, format {}{}\n", file, accepted, records, layout,
                                 layout_found ? " (found by its keys)" : "");
  if (empty > 0) text += fmt::format("{}: {} records are empty: skipped\n", file, empty);
  if (replaced > 0) text += fmt::format("{}: {} invalid characters became U+FFFD\n", file, replaced);
  if (rejected > 0) {
    text += fmt::format("{}: {} records are unusable: skipped\n", file, rejected);
    for (const std::string& rejection : rejections) text += "  " + rejection + "\n";
    if (static_cast<std::size_t>(rejected) > rejections.size()) {
      text += fmt::format("  and {} more\n", static_cast<std::size_t>(rejected) - rejections.size());
    }
  }
  return text;
}

}  // namespace lazytrain
