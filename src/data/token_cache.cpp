#include "data/token_cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <ctime>
#include <memory>
#include <span>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/units.h"
#include "data/token_cache_file.h"

namespace lazytrain {
namespace {

namespace fs = std::filesystem;

// Raised when the file's form changes. What decides the tokens needs no number: the program's own bytes are
// part of the key.
constexpr int kGeneration = 1;
// Files that were not used for the longest time go when all together have more bytes.
constexpr std::uint64_t kMostBytes = std::uint64_t{64} << 30;
// A temporary file that nobody has written to for so long, by a process that is gone, was left by a kill.
constexpr auto kForgotten = std::chrono::seconds(30);
constexpr std::size_t kHashedAtOnce = std::size_t{16} << 20;

// The cache could not be written: the work is to be done without it.
struct NotWritten {
  std::string reason;
};

// What may be known of a file without reading it.
struct Version {
  std::int64_t size = 0, seconds = 0, nanoseconds = 0;
  bool operator==(const Version&) const = default;
};

Version version_of(const fs::path& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) != 0) return {};
  return {.size = status.st_size, .seconds = status.st_mtim.tv_sec, .nanoseconds = status.st_mtim.tv_nsec};
}

std::uint64_t content_hash(const fs::path& path) {
  const MappedFile file(path);
  Checksum sum;
  for (std::size_t at = 0; at < file.bytes().size(); at += kHashedAtOnce) {
    sum.add(file.bytes().subspan(at, std::min(kHashedAtOnce, file.bytes().size() - at)));
    file.release(0, at + kHashedAtOnce);
  }
  return sum.value();
}

// Another build may make other tokens of the same text.
std::uint64_t program_hash() {
  try {
    return content_hash("/proc/self/exe");
  } catch (const Error&) {
    return 0;
  }
}

// A new option or setting does not compile until it has its place here: a cache that ignored it would be
// wrong.
std::string options_text(const TokenizeOptions& options) {
  const auto& [cutoff_len, overlong, train_on_prompt, max_samples, on_bad_sample] = options;
  return fmt::format("{} {} {} {} {}", cutoff_len, static_cast<int>(overlong), train_on_prompt,
                     max_samples.value_or(0), static_cast<int>(on_bad_sample));
}

std::string template_text(const ChatTemplate& chat_template) {
  const auto& [mask_history, enable_thinking, now] = chat_template.settings();
  std::string date = "-";
  if (chat_template.says_the_date()) {
    const std::time_t when = now.value_or(std::time(nullptr));
    std::tm local{};
    localtime_r(&when, &local);
    date = fmt::format("{}-{}", local.tm_year, local.tm_yday);
  }
  return fmt::format("{} {} {} {}", chat_template.name(), mask_history,
                     enable_thinking ? std::to_string(int{*enable_thinking}) : "-", date);
}

std::uint64_t key_of(const TokenCache& cache, const std::vector<DatasetSource>& sources,
                     const std::vector<Version>& versions, const DatasetTemplates& templates,
                     const TokenizeOptions& options) {
  std::string text = fmt::format("{} {:016x} {:016x} {} {}\n", kGeneration, program_hash(), cache.tokenizer,
                                 template_text(templates.conversation), options_text(options));
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const DatasetSource& source = sources[i];
    std::error_code ignored;
    const fs::path path = fs::weakly_canonical(source.file, ignored);
    text += fmt::format("{}\n{}\n{}\n{}\n", source.name, source.file.string(), path.string(), source.entry);
    text += fmt::format("{} {}.{} {:016x} {}\n", versions[i].size, versions[i].seconds,
                        versions[i].nanoseconds, content_hash(source.file), source.num_samples.value_or(0));
  }
  return checksum(std::as_bytes(std::span(text)));
}

bool is_running(const std::string& process) {
  char* end = nullptr;
  const long id = std::strtol(process.c_str(), &end, 10);
  return id > 0 && *end == '\0' && (kill(static_cast<pid_t>(id), 0) == 0 || errno != ESRCH);
}

// Removes what killed runs left, and the files that were not used for the longest time where all have too
// many bytes. Nothing that fails here matters.
void tidy(const fs::path& folder, const fs::path& in_use) {
  struct File {
    fs::file_time_type used;
    std::uint64_t size = 0;
    fs::path path;
  };
  std::vector<File> files;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const fs::file_time_type used = entry.last_write_time(error);
    const std::size_t mark = name.find(".tokens.tmp-");
    if (mark != std::string::npos && !is_running(name.substr(mark + 12)) &&
        fs::file_time_type::clock::now() - used > kForgotten)
      fs::remove(entry.path(), error);
    if (entry.path().extension() == ".tokens" && entry.path() != in_use)
      files.push_back({.used = used, .size = entry.file_size(error), .path = entry.path()});
  }
  std::sort(files.begin(), files.end(), [](const File& a, const File& b) { return a.used > b.used; });
  std::uint64_t bytes = fs::file_size(in_use, error);
  for (const File& file : files) {
    bytes += file.size;
    if (bytes > kMostBytes) fs::remove(file.path, error);
  }
}

// The writer of a new file of the cache. Throws NotWritten.
std::unique_ptr<TokenCacheWriter> new_file(const fs::path& path, std::uint64_t key) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  try {
    return std::make_unique<TokenCacheWriter>(path, key);
  } catch (const Error& failure) {
    throw NotWritten{failure.what()};
  }
}

TokenizedDataset tokenize_to(const fs::path& path, std::uint64_t key, const std::vector<Version>& versions,
                             const std::vector<DatasetSource>& sources, const DatasetTemplates& templates,
                             const TokenizeOptions& options, ThreadPool& pool,
                             const TokenizeProgress& progress) {
  const auto writer = new_file(path, key);
  const auto guarded = [](const std::function<void()>& write) {
    try {
      write();
    } catch (const Error& failure) {
      throw NotWritten{failure.what()};
    }
  };
  TokenizedDataset dataset =
      tokenize_into([&](const EncodedSample& sample) { guarded([&] { writer->add(sample); }); }, sources,
                    templates, options, pool, {}, progress);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    if (version_of(sources[i].file) != versions[i])
      fail(ExitCode::data, "{}: the file was changed while it was read; start again when it is complete",
           sources[i].file.string());
  }
  guarded([&] { writer->finish(dataset); });
  return dataset;
}

}  // namespace

std::uint64_t tokenizer_files_hash(const fs::path& model_folder) {
  std::string text;
  for (const char* name :
       {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
        "tokenizer.model", "vocab.json", "merges.txt", "chat_template.jinja", "chat_template.json",
        "generation_config.json", "config.json"}) {
    const fs::path path = model_folder / name;
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) text += fmt::format("{} {:016x}\n", name, content_hash(path));
  }
  return checksum(std::as_bytes(std::span(text)));
}

TokenizedDataset tokenize_cached(const TokenCache& cache, const std::vector<DatasetSource>& sources,
                                 const DatasetTemplates& templates, const TokenizeOptions& options,
                                 ThreadPool& pool, const std::function<void(const std::string&)>& notice,
                                 const TokenizeProgress& progress) {
  std::vector<Version> versions;
  for (const DatasetSource& source : sources) versions.push_back(version_of(source.file));
  const std::uint64_t key = key_of(cache, sources, versions, templates, options);
  const fs::path path = cache.folder / fmt::format("{:016x}.tokens", key);
  if (!cache.overwrite && !is_missing(path)) {
    std::string reason;
    if (auto dataset = read_token_cache(path, key, reason)) {
      std::error_code ignored;
      fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
      notice(fmt::format("the data is tokenised already: {} ({}); overwrite_cache: true does it again",
                         path.string(),
                         format_bytes(Bytes{static_cast<std::int64_t>(fs::file_size(path, ignored))})));
      return std::move(*dataset);
    }
    notice(fmt::format("the cache {} is damaged ({}): the data is tokenised again", path.string(), reason));
  }
  try {
    TokenizedDataset dataset = tokenize_to(path, key, versions, sources, templates, options, pool, progress);
    tidy(cache.folder, path);
    return dataset;
  } catch (const NotWritten& failure) {
    notice(fmt::format("the tokens are not cached, and stay in memory: {}", failure.reason));
  }
  return tokenize(sources, templates, options, pool, {}, progress);
}

}  // namespace lazytrain
