#include "training/checkpoint_ownership.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <fstream>
#include <limits>
#include <system_error>

#include "core/log.h"
#include "formats/safetensors.h"

namespace lazytrain {
namespace fs = std::filesystem;
namespace {

constexpr std::string_view kTemporary = ".tmp-";
constexpr const char* kMark = ".lazytrain-unfinished";

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

bool is_real_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(fs::symlink_status(path, ignored));
}

bool is_real_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(fs::symlink_status(path, ignored));
}

// "<any>-00001-of-00002.safetensors"
bool is_shard(std::string_view name) {
  constexpr std::string_view kForm = "-#####-of-#####.safetensors";
  if (name.size() <= kForm.size()) return false;
  name.remove_prefix(name.size() - kForm.size());
  return std::equal(name.begin(), name.end(), kForm.begin(),
                    [](char c, char form) { return form == '#' ? c >= '0' && c <= '9' : c == form; });
}

std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error))
    entries.push_back(entry->path());
  return entries;
}

// Nothing but a model's files, finished or not.
bool holds_only_own_files(const fs::path& folder) {
  return std::ranges::all_of(entries_of(folder), [](const fs::path& path) {
    const std::string name = path.filename().string();
    const std::optional<TemporaryName> temporary = temporary_name(name);
    return is_real_file(path) && is_own_file_name(temporary ? temporary->base : name);
  });
}

}  // namespace

std::optional<std::int64_t> checkpoint_step(std::string_view name) {
  constexpr std::string_view kPrefix = "checkpoint-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return whole_number(name.substr(kPrefix.size()));
}

bool is_own_checkpoint(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return false;
  if (is_real_file(path / "lazytrain_state.json")) return true;
  if (!is_real_file(path / "manifest.json")) return false;
  std::ifstream file(path / "manifest.json", std::ios::binary);
  std::string head(4096, '\0');
  file.read(head.data(), static_cast<std::streamsize>(head.size()));
  return head.find("lazytrain-checkpoint") != std::string::npos;
}

void mark_unfinished(const fs::path& folder) {
  // Without a mark, on a full disk, a leftover is kept rather than deleted.
  const int file = open((folder / kMark).c_str(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file >= 0) close(file);
}

void unmark_unfinished(const fs::path& folder) {
  unlink((folder / kMark).c_str());
}

bool is_own_leftover(const fs::path& path) {
  std::error_code ignored;
  if (!is_real_folder(path)) return false;
  return is_real_file(path / kMark) || is_own_checkpoint(path) || fs::is_empty(path, ignored);
}

void remove_own_folder(const fs::path& path, std::error_code& error) {
  error.clear();
  if (!is_real_folder(path)) {
    fs::remove(path, error);
    return;
  }
  const std::array<fs::path, 3> last{"lazytrain_state.json", "manifest.json", kMark};
  for (const fs::path& entry : entries_of(path)) {
    if (std::ranges::find(last, entry.filename()) == last.end()) fs::remove_all(entry, error);
    if (error) return;
  }
  for (const fs::path& name : last) fs::remove(path / name, error);
  fs::remove(path, error);
}

std::optional<TemporaryName> temporary_name(std::string_view name) {
  const std::size_t at = name.rfind(kTemporary);
  if (at == std::string_view::npos) return std::nullopt;
  const std::optional<std::int64_t> process = whole_number(name.substr(at + kTemporary.size()));
  if (!process) return std::nullopt;
  return TemporaryName{.base = std::string(name.substr(0, at)), .process = *process};
}

bool process_gone(std::int64_t process) {
  if (process == getpid()) return true;  // an earlier process of the same number, as in containers
  if (process > std::numeric_limits<pid_t>::max() || process == 0) return true;
  return kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
}

bool is_own_file_name(std::string_view name) {
  static constexpr std::array<std::string_view, 22> kNames{
      "run.yaml",
      "plan.json",
      "trainer_log.jsonl",
      "trainer_state.json",
      "config.json",
      "tokenizer.json",
      "tokenizer_config.json",
      "generation_config.json",
      "vocab.json",
      "merges.txt",
      "special_tokens_map.json",
      "added_tokens.json",
      "tokenizer.model",
      "vocab.txt",
      "chat_template.jinja",
      "chat_template.json",
      "model.safetensors",
      kSafetensorsIndex,
      "plan.html",
      "trace.json",
      "trainer_log.csv",
      "training_loss.svg",
  };
  return std::ranges::find(kNames, name) != kNames.end() || is_shard(name);
}

std::vector<std::string> remove_stale_files(const fs::path& folder) {
  std::vector<std::string> removed;
  for (const fs::path& path : entries_of(folder)) {
    const std::string name = path.filename().string();
    const std::optional<TemporaryName> temporary = temporary_name(name);
    if (!temporary || !is_own_file_name(temporary->base) || !is_real_file(path) ||
        !process_gone(temporary->process))
      continue;
    std::error_code error;
    fs::remove(path, error);
    if (error)
      log::warning("{}: cannot remove what a killed run left: {}", path.string(), error.message());
    else
      removed.push_back(name);
  }
  return removed;
}

void remove_stale_imports(const fs::path& folder) {
  const fs::path place = fs::absolute(folder.has_filename() ? folder : folder.parent_path());
  for (const fs::path& path : entries_of(place.parent_path())) {
    const std::optional<TemporaryName> temporary = temporary_name(path.filename().string());
    if (!temporary || temporary->base != place.filename() || !is_real_folder(path) ||
        !process_gone(temporary->process) || !holds_only_own_files(path))
      continue;
    std::error_code error;
    fs::remove_all(path, error);
    if (error)
      log::warning("{}: cannot remove what a killed import left: {}", path.string(), error.message());
  }
}

}  // namespace lazytrain
