// Whose a file or folder is: an output folder may also hold what a user or another program put there under
// names that look like ours (`thesis.tmp-2024`, Hugging Face's `checkpoint-500`), and only what this program
// wrote is ever deleted, renamed or replaced.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace lazytrain {

// The step in "checkpoint-<step>".
[[nodiscard]] std::optional<std::int64_t> checkpoint_step(std::string_view name);

// A folder with a manifest of ours, be it a damaged one, or with the trainer's state.
[[nodiscard]] bool is_own_checkpoint(const std::filesystem::path& path);

// Folders that are being written or deleted hold an empty file that says so; it is the last to go.
void mark_unfinished(const std::filesystem::path& folder);
void unmark_unfinished(const std::filesystem::path& folder);
// A folder with that mark, a checkpoint of ours, or an empty folder.
[[nodiscard]] bool is_own_leftover(const std::filesystem::path& path);
// Deletes a folder such that it stays recognisable as ours until it is gone; of a link only the link.
void remove_own_folder(const std::filesystem::path& path, std::error_code& error);

// The process in "<name>.tmp-<process>", and the name before it.
struct TemporaryName {
  std::string base;
  std::int64_t process = 0;
};
[[nodiscard]] std::optional<TemporaryName> temporary_name(std::string_view name);
[[nodiscard]] bool process_gone(std::int64_t process);

// Whether a run, or an export, writes a file of exactly this name.
[[nodiscard]] bool is_own_file_name(std::string_view name);

// Removes the files that writers left in `folder` which were killed: <own file>.tmp-<process>, of processes
// that are gone. Returns their names.
std::vector<std::string> remove_stale_files(const std::filesystem::path& folder);
// Removes `<folder>.tmp-<process>` beside a folder that killed imports were making: those that hold nothing
// but a model's files, of processes that are gone.
void remove_stale_imports(const std::filesystem::path& folder);

}  // namespace lazytrain
