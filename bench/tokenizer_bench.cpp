// How fast tokenizers cut English text, MB/s on one core:
//   tokenizer_bench [--json FILE]... [--text FILE]...
// FILEs are tokenizer.json files and texts. The last line is the slowest of the byte-level ones, which is the
// bar.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "formats/json.h"
#include "text/tokenizer.h"

namespace lazytrain::bench {
namespace {

constexpr double kBar = 5.0;
constexpr double kSeconds = 0.5;  // of each of the measurements, of which the best counts
constexpr int kRounds = 3;

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(ExitCode::usage, "{}: cannot be read", path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Paragraphs, as records of a dataset are: lines joined until they have some hundred bytes.
std::vector<std::string> paragraphs(std::string_view text) {
  constexpr std::size_t kLength = 400;
  std::vector<std::string> result(1);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size() - 1) + 1;
    result.back() += text.substr(0, end);
    text.remove_prefix(end);
    if (result.back().size() >= kLength) result.emplace_back();
  }
  if (result.back().empty()) result.pop_back();
  return result;
}

struct Speed {
  double encode = 0, decode = 0, bytes_per_token = 0;
};

Speed measure(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  using Clock = std::chrono::steady_clock;
  double bytes = 0, tokens = 0;
  std::vector<std::vector<std::int32_t>> ids;
  for (const std::string& text : texts) {
    ids.push_back(tokenizer.encode(text));
    bytes += static_cast<double>(text.size());
    tokens += static_cast<double>(ids.back().size());
  }
  const auto best = [&](const auto& once) {
    double rate = 0;
    for (int round = 0; round < kRounds; ++round) {
      const auto begin = Clock::now();
      std::chrono::duration<double> elapsed{};
      int times = 0;
      for (; elapsed.count() < kSeconds; elapsed = Clock::now() - begin, ++times) once();
      rate = std::max(rate, bytes * times / elapsed.count() / 1e6);
    }
    return rate;
  };
  std::size_t used = 0;
  Speed speed{.bytes_per_token = bytes / tokens};
  speed.encode = best([&] {
    for (const std::string& text : texts) used += tokenizer.encode(text).size();
  });
  speed.decode = best([&] {
    for (const auto& list : ids) used += tokenizer.decode(list).size();
  });
  check(used > 0, "texts have tokens");
  return speed;
}

void print(const std::string& name, const Speed& speed) {
  fmt::print("  {:<44} {:>7.1f} MB/s to ids, {:>7.1f} MB/s to text, {:.2f} bytes a token\n", name,
             speed.encode, speed.decode, speed.bytes_per_token);
}

int run(const std::vector<std::string>& arguments) {
  std::vector<std::pair<std::string, std::string>> files;
  std::string text;
  for (std::size_t i = 0; i + 1 < arguments.size(); i += 2) {
    if (arguments[i] == "--text") {
      text += read_text(arguments[i + 1]);
    } else if (arguments[i] == "--json") {
      files.emplace_back(arguments[i + 1], read_text(arguments[i + 1]));
    } else {
      fail(ExitCode::usage, "{} is not known; give --json FILE or --text FILE", arguments[i]);
    }
  }
  if (text.empty() || files.empty())
    fail(ExitCode::usage, "give --json FILE and --text FILE, each once or more");
  const std::vector<std::string> texts = paragraphs(text);
  fmt::print("  {:.1f} MB of English in {} paragraphs, one thread\n", static_cast<double>(text.size()) / 1e6,
             texts.size());
  double slowest = 0;
  for (const auto& [path, content] : files) {
    const nlohmann::json document = parse_json(content, path, ExitCode::usage);
    // A file of test vectors holds several.
    const bool several = document.contains("tokenizers");
    const nlohmann::json all = several ? document.at("tokenizers") : nlohmann::json{{path, document}};
    for (const auto& [name, one] : all.items()) {
      const Speed speed = measure(Tokenizer::parse(one.dump(), path), texts);
      print(name, speed);
      const bool byte_level = one.at("decoder").value("type", "") == "ByteLevel";
      if (byte_level && (slowest == 0 || speed.encode < slowest)) slowest = speed.encode;
    }
  }
  fmt::print("slowest byte-level tokenizer: {:.1f} MB/s (bar {:.1f})\n", slowest, kBar);
  return slowest >= kBar ? 0 : 1;
}

}  // namespace
}  // namespace lazytrain::bench

int main(int argc, char** argv) {
  try {
    return lazytrain::bench::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 2;
  }
}
