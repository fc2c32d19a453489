#include "formats/formats_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "core/random.h"

namespace lazytrain {

TemporaryFolder::TemporaryFolder() {
  // Thousands of small files: in memory where that is possible.
  const std::filesystem::path memory = "/dev/shm";
  const auto base = access(memory.c_str(), W_OK) == 0 ? memory : std::filesystem::temp_directory_path();
  std::string pattern = (base / "lazytrain-formats-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot create a temporary folder");
  path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::filesystem::path TemporaryFolder::write(const std::string& name, std::string_view content) const {
  std::filesystem::remove(path_ / name);
  std::ofstream(path_ / name, std::ios::binary) << content;
  return path_ / name;
}

void expect_error(ExitCode code, const std::string& words, const std::function<void()>& action) {
  try {
    action();
    ADD_FAILURE() << "no error; expected one that says: " << words;
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    EXPECT_THAT(error.what(), testing::HasSubstr(words));
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << "more than one line";
  }
}

std::string mutate(const std::string& original, const std::vector<std::string>& tokens,
                   std::uint64_t number) {
  Random random(42, number);
  std::string text = original;
  const auto place = [&] { return static_cast<std::size_t>(random.below(text.size() + 1)); };
  const std::uint64_t changes = 1 + random.below(4);
  for (std::uint64_t change = 0; change < changes; ++change) {
    const std::size_t at = place();
    switch (random.below(8)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(random.below(256));
        break;
      case 2:
        text.resize(at);
        break;
      case 3:
        text.erase(std::min(at, text.size()), random.below(16));
        break;
      case 4:
        text.insert(at, text.substr(std::min(place(), text.size()), random.below(64)));
        break;
      case 5:
        text.insert(at, random.below(200), at < text.size() ? text[at] : '[');
        break;
      case 6: {
        constexpr std::uint64_t kExtremes[] = {
            0,          1, 0x7F, 0xFF, 0xFFFFFFFF, 0x7FFFFFFFFFFFFFFF, 0x8000000000000000, 0xFFFFFFFFFFFFFFFF,
            0x100000000};
        const std::string bytes = little_endian(kExtremes[random.below(std::size(kExtremes))]);
        const std::size_t width = std::size_t{1} << random.below(4);
        if (at + width <= text.size()) text.replace(at, width, bytes, 0, width);
        break;
      }
      default:
        if (!tokens.empty()) {
          const std::string& token = tokens[random.below(tokens.size())];
          if (random.below(2) == 0) {
            text.insert(at, token);
          } else {
            text.replace(at, std::min(token.size(), text.size() - at), token);
          }
        }
    }
  }
  return text;
}

int read_mutations(const std::vector<std::string>& originals, const std::vector<std::string>& tokens,
                   const std::function<void(const std::filesystem::path&)>& read) {
  const TemporaryFolder folder;
  int accepted = 0;
  for (std::uint64_t number = 0; number < 5000; ++number) {
    const auto path = folder.write("mutated", mutate(originals[number % originals.size()], tokens, number));
    try {
      read(path);
      ++accepted;
    } catch (const Error& error) {
      EXPECT_LT(std::string_view(error.what()).size(), 1000u) << "message number " << number;
    }
  }
  return accepted;
}

}  // namespace lazytrain
