#include "training/run_reports.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/file.h"
#include "core/log.h"
#include "formats/event_file.h"

namespace lazytrain {
namespace fs = std::filesystem;
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kCsvName = "trainer_log.csv";
constexpr std::array kColumns = {"step",
                                 "epoch",
                                 "loss",
                                 "grad_norm",
                                 "learning_rate",
                                 "eval_loss",
                                 "eval_runtime",
                                 "eval_samples_per_second",
                                 "eval_steps_per_second"};

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// A line, or nothing for the entry that ends a run: it is no point of a curve.
std::string csv_line(const std::string& text) {
  const Json entry = Json::parse(text);
  if (!entry.contains("loss") && !entry.contains("eval_loss")) return "";
  std::string line;
  for (const char* column : kColumns) {
    const auto value = entry.find(column);
    if (column != kColumns.front()) line += ',';
    if (value != entry.end() && value->is_number()) line += value->dump();
  }
  return line + '\n';
}

std::string csv_text(std::span<const std::string> history) {
  std::string text = fmt::format("{}\n", fmt::join(kColumns, ","));
  for (const std::string& entry : history) text += csv_line(entry);
  return text;
}

// Tags as Hugging Face's Trainer makes them, so that the curves of both lie upon each other.
std::string tag_of(std::string_view key) {
  constexpr std::string_view kEval = "eval_";
  return key.starts_with(kEval) ? fmt::format("eval/{}", key.substr(kEval.size()))
                                : fmt::format("train/{}", key);
}

std::string event_of(const std::string& text) {
  const Json entry = Json::parse(text);
  std::vector<EventScalar> scalars;
  for (const auto& [key, value] : entry.items())
    if (key != "step" && value.is_number())
      scalars.push_back({.tag = tag_of(key), .value = static_cast<float>(value.get<double>())});
  return scalars_event(now(), entry.value("step", std::int64_t{0}), scalars);
}

// TensorBoard reads the files of a folder in the order of their names.
constexpr std::string_view kEventPrefix = "events.out.tfevents.", kEventSuffix = ".lazytrain";

std::vector<fs::path> own_event_files(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    std::error_code ignored;
    if (name.starts_with(kEventPrefix) && name.ends_with(kEventSuffix) &&
        fs::is_regular_file(entry->symlink_status(ignored)))
      files.push_back(entry->path());
  }
  std::ranges::sort(files);
  return files;
}

// Whether a file has near its begin what ours have there; another program's of the same name is left alone.
bool is_ours(const fs::path& file, std::string_view mark) {
  std::ifstream stream(file, std::ios::binary);
  std::string begin(512, '\0');
  stream.read(begin.data(), std::ssize(begin));
  return begin.find(mark) != std::string::npos;
}

// What an earlier run left would be taken for this one's, also where this one reports nothing.
void remove_earlier_reports(const fs::path& output_dir) {
  std::vector<fs::path> files = own_event_files(output_dir / "runs" / "train");
  const std::string header = csv_text({});
  for (const auto& [name, mark] : {std::pair<const char*, std::string_view>{kCsvName, header},
                                   {"training_loss.svg", "aria-label=\"loss by step\""}})
    if (is_ours(output_dir / name, mark)) files.push_back(output_dir / name);
  for (const fs::path& file : files) {
    std::error_code error;
    if (fs::is_regular_file(fs::symlink_status(file, error))) fs::remove(file, error);
    if (error && error != std::errc::no_such_file_or_directory)
      log::warning("{}: cannot remove it, though it is an earlier run's: {}", file.string(), error.message());
  }
}

// Later than all that are there, also where the clock was set back.
std::string next_event_name(const std::vector<fs::path>& files) {
  const std::string name = fmt::format("{}{:010}", kEventPrefix, static_cast<std::int64_t>(now()));
  std::string last;
  if (!files.empty()) last = files.back().filename().string();
  const std::string begin = std::max(name, last.substr(0, name.size()));
  return fmt::format("{}.{:05}{}", begin, files.size(), kEventSuffix);
}

}  // namespace

// A file that grows by whole pieces: one that cannot be written leaves the file as it was.
class RunReports::File {
 public:
  File(fs::path path, const char* kind, std::uintmax_t size)
      : path_(std::move(path)), kind_(kind), size_(size) {}

  void append(const std::string& piece) {
    const int file = open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0644);
    const ssize_t written =
        file < 0 ? -1 : pwrite(file, piece.data(), piece.size(), static_cast<off_t>(size_));
    const int reason = errno;
    if (written == std::ssize(piece)) {
      size_ += piece.size();
    } else {
      warn(fmt::format("{}: {}", path_.string(), written < 0 ? std::strerror(reason) : "no space left"));
      if (file >= 0 && written > 0 && ftruncate(file, static_cast<off_t>(size_)) != 0)
        warn(fmt::format("{}: {}", path_.string(), std::strerror(errno)));
    }
    if (file >= 0) close(file);
  }

  void warn(const std::string& fault) {
    if (!std::exchange(warned_, true))
      log::warning("report_to {}: {}; the run goes on, and its figures are in trainer_log.jsonl", kind_,
                   fault);
  }

 private:
  fs::path path_;
  const char* kind_;
  std::uintmax_t size_;
  bool warned_ = false;
};

RunReports::~RunReports() = default;

RunReports::RunReports(const std::vector<std::string>& report_to, const fs::path& output_dir,
                       std::span<const std::string> history, std::int64_t step, bool anew) {
  const auto wanted = [&](const char* kind) { return std::ranges::find(report_to, kind) != report_to.end(); };
  if (anew) remove_earlier_reports(output_dir);
  if (wanted("csv")) start_csv(output_dir, history);
  if (wanted("tensorboard")) start_events(output_dir, history, step);
}

void RunReports::add(const std::string& entry) {
  if (const std::string line = csv_ ? csv_line(entry) : ""; !line.empty()) csv_->append(line);
  if (events_) events_->append(event_of(entry));
}

// All of it follows from the history.
void RunReports::start_csv(const fs::path& output_dir, std::span<const std::string> history) {
  const std::string text = csv_text(history);
  csv_ = std::make_unique<File>(output_dir / kCsvName, "csv", text.size());
  try {
    write_file(output_dir / kCsvName, text);
  } catch (const Error& error) {
    csv_->warn(error.what());
  }
}

// The history does not say when its entries were written, so the files of earlier sessions stay, cut off
// behind the step that the run goes on from.
void RunReports::start_events(const fs::path& output_dir, std::span<const std::string> history,
                              std::int64_t step) {
  const fs::path folder = output_dir / "runs" / "train";
  const std::vector<fs::path> files = own_event_files(folder);
  std::string fault;
  std::error_code error;
  const auto note = [&](const fs::path& path, const std::string& reason) {
    if (fault.empty()) fault = fmt::format("{}: {}", path.string(), reason);
  };
  for (const fs::path& file : files) {
    try {
      fs::resize_file(file, events_up_to(MappedFile(file).text(), step));
    } catch (const std::exception& exception) {
      note(file, exception.what());
    }
  }
  fs::create_directories(folder, error);
  events_ = std::make_unique<File>(folder / next_event_name(files), "tensorboard", 0);
  if (!fault.empty()) events_->warn(fault);
  std::string text = event_file_head(now());
  if (!files.empty()) {
    text += restart_event(now(), step + 1);
  } else {
    for (const std::string& entry : history) text += event_of(entry);
  }
  events_->append(text);
}

}  // namespace lazytrain
