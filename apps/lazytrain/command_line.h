// Faults of the command line as one sentence, and the standard streams as every command needs them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace lazytrain {

// What is wrong and what was probably meant, or which help to look into.
[[nodiscard]] std::string sentence_of(const CLI::ParseError& error, CLI::App& app, int argc, char** argv);

// Where a caller closed standard input, output or error, /dev/null takes the place: or the next file that is
// opened would, and get what is meant for the terminal.
void open_standard_streams();

// Whether all that was written to standard output arrived, as far as anybody still reads it.
[[nodiscard]] bool standard_output_arrived();

// Error(usage) or Error(disk) where `path`, given with `option`, cannot be written: said before the work, not
// after.
void require_writable(const std::string& path, const char* option);

struct ReadFiles {
  std::string run_file = {}, machine = {};
  std::string model = {};  // a folder; empty: none
  std::vector<std::filesystem::path> data = {};
};
struct WrittenFile {
  const char* option;
  std::string path;  // empty: not written
};
// Error(usage) where a file that would be written is one that is read, lies in the model's folder and is
// there already, or is written twice.
void require_apart(const ReadFiles& read, const std::vector<WrittenFile>& written);

}  // namespace lazytrain
