#include "command_line.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <numeric>
#include <vector>

#include "core/error.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < b.size(); ++j) {
      const std::size_t change = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({change, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

// "" where none is near.
std::string nearest(std::string_view word, const std::vector<std::string>& words) {
  std::string found;
  std::size_t best = 3;
  for (const std::string& candidate : words) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best && distance < candidate.size() - 2) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    for (const std::string& name : option->get_snames()) names.push_back("-" + name);
  }
  return names;
}

// The first word in the place of an option that is none of the command's, "" where all are.
std::string unknown_option(const CLI::App& command, int first, int argc, char** argv) {
  const std::vector<std::string> names = option_names(command);
  for (int i = first; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") break;
    if (word.size() < 2 || word[0] != '-') continue;
    const bool is_long = word[1] == '-';
    std::string name = is_long ? word.substr(0, word.find('=')) : word.substr(0, 2);
    if (std::ranges::find(names, name) == names.end()) return name;
    // What follows a name is its value, whatever it looks like.
    const CLI::Option* option = command.get_option_no_throw(name);
    const bool has_value = is_long ? word.size() > name.size() : word.size() > 2;
    if (option != nullptr && option->get_items_expected_min() > 0 && !has_value) ++i;
  }
  return "";
}

}  // namespace

std::string sentence_of(const CLI::ParseError& error, CLI::App& app, int argc, char** argv) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  if (chosen.empty() && argc > 1 && argv[1][0] != '-') {
    std::vector<std::string> names;
    std::string commands;
    for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
      names.push_back(command->get_name());
      commands += (commands.empty() ? "" : ", ") + command->get_name();
    }
    const std::string near = nearest(argv[1], names);
    return fmt::format("{} is not a command; the commands are {}{}", in_quotes(argv[1]), commands,
                       near.empty() ? "" : fmt::format("; did you mean {}?", near));
  }
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const std::string help =
      fmt::format("`lazytrain {}--help`", chosen.empty() ? "" : command.get_name() + " ");
  if (const std::string option = unknown_option(command, chosen.empty() ? 1 : 2, argc, argv);
      !option.empty()) {
    const std::string near = nearest(option, option_names(command));
    return near.empty() ? fmt::format("unknown option {}; {} lists all", in_quotes(option), help)
                        : fmt::format("unknown option {}; did you mean {}? {} lists all", in_quotes(option),
                                      near, help);
  }
  std::string what = error.what();
  std::replace(what.begin(), what.end(), '\n', ' ');
  return fmt::format("{}; see {}", what, help);
}

void open_standard_streams() {
  int descriptor = open("/dev/null", O_RDWR);
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) descriptor = open("/dev/null", O_RDWR);
  if (descriptor >= 0) close(descriptor);
}

bool standard_output_arrived() {
  std::cout.flush();
  const bool arrived = std::fflush(stdout) == 0 && std::ferror(stdout) == 0 && std::cout.good();
  if (arrived) return true;
  pollfd output{.fd = STDOUT_FILENO, .events = 0, .revents = 0};
  const bool reader_left = poll(&output, 1, 0) > 0 && (output.revents & (POLLERR | POLLHUP)) != 0;
  return reader_left;
}

void require_writable(const std::string& path, const char* option) {
  namespace fs = std::filesystem;
  if (path.empty()) fail(ExitCode::usage, "{}: an empty name; give the name of a file", option);
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (fs::is_directory(status))
    fail(ExitCode::usage, "{} {}: a folder; give the name of a file, e.g. {}", option, path,
         (fs::path(path) / "result.json").string());
  if (fs::exists(status) && !fs::is_regular_file(status))
    fail(ExitCode::usage, "{} {}: not a regular file, which could be replaced; give another name", option,
         path);
  const fs::path parent = fs::path(path).has_parent_path() ? fs::path(path).parent_path() : fs::path(".");
  if (!fs::is_directory(parent, error))
    fail(ExitCode::disk, "{} {}: cannot create it: there is no folder {}; make it first", option, path,
         parent.string());
  if (access(parent.c_str(), W_OK | X_OK) != 0)
    fail(ExitCode::disk, "{} {}: cannot write into {}: {}", option, path, parent.string(),
         std::strerror(errno));
}

void require_apart(const ReadFiles& read, const std::vector<WrittenFile>& written) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const auto full = [&](const fs::path& path) { return fs::weakly_canonical(path, ignored); };
  const fs::path model = read.model.empty() ? fs::path() : full(read.model);
  for (auto one = written.begin(); one != written.end(); ++one) {
    if (one->path.empty()) continue;
    const fs::path path = full(one->path);
    const auto refuse = [&](const std::string& what) {
      fail(ExitCode::usage, "{}: {} is {}; give another file", one->option, one->path, what);
    };
    if (!read.run_file.empty() && path == full(read.run_file)) refuse("the run's own file");
    if (!read.machine.empty() && path == full(read.machine)) refuse("the machine file");
    if (!model.empty() && path.parent_path() == model && fs::exists(path, ignored))
      refuse("a file of the model");
    for (const fs::path& file : read.data)
      if (path == full(file)) refuse("a file of the data");
    for (auto other = written.begin(); other != one; ++other)
      if (!other->path.empty() && path == full(other->path)) refuse(std::string(other->option) + " too");
  }
}

}  // namespace lazytrain
