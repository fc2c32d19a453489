// Large and damaged datasets: memory that does not grow with the file, and 5,000 mutated files that each end
// in samples or in one sentence.
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>
#include <sstream>

#include "core/file.h"
#include "core/random.h"
#include "data/packing.h"
#include "data/support.h"
#include "data/tokenized_dataset.h"

namespace lazytrain {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

// Anonymous memory of the process: pages of the mapped file do not count, the kernel can drop those at any
// time.
std::int64_t anonymous_megabytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoll(line.substr(8)) / 1024;
  }
  return 0;
}

TEST(DatasetStress, FiftyMegabytesOfOneJsonArrayStreamInBoundedMemory) {
  const TemporaryFolder folder;
  const fs::path file = folder.path() / "large.json";
  std::int64_t written = 0;
  {
    std::ofstream out(file);
    std::string record;
    out << "[\n";
    for (std::int64_t size = 0; size < 50'000'000; ++written) {
      record = written > 0 ? ",\n" : "";
      record += "{\"query\": \"problem " + std::to_string(written) + ": " + std::string(300, 'q') +
                "\",\n \"response\": \"" + std::string(600, 'r') + "\\u00e9\\n#### 1\"}";
      out << record;
      size += static_cast<std::int64_t>(record.size());
    }
    out << "\n]\n";
  }
  const std::int64_t before = anonymous_megabytes();
  std::int64_t highest = before;
  std::int64_t seen = 0;
  const auto begin = std::chrono::steady_clock::now();
  const DatasetSource source{.name = "large", .file = file, .layout = {}, .num_samples = {}};
  const DatasetReport report = read_dataset(source, {}, [&](Sample&& sample) {
    EXPECT_EQ(sample.line, 2 + 2 * seen);
    if (++seen % 1000 == 0) highest = std::max(highest, anonymous_megabytes());
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(report.accepted, written);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep freed memory
  EXPECT_LT(highest - before, 8);                                    // MB, of a file of 50
#endif
  RecordProperty("seconds", std::to_string(took.count()));
  RecordProperty("megabytes", std::to_string(highest - before));
}

// One to three changes: bits, cuts, copies, and pieces that readers trip over.
std::string mutated(std::string text, Random& random) {
  static const std::vector<std::string> kPieces{"\"",        "\\",          "{",
                                                "}",         "[",           "]",
                                                ",",         ":",           "\n",
                                                "null",      "\\ud800",     "\\ud83c\\udf78",
                                                "1e999",     "-",           "\xff",
                                                "\xc3",      "\x00",        "true",
                                                "\\u00",     "[[[[",        "\xEF\xBB\xBF",
                                                "\"query\"", "\"role\": 1", "  "};
  for (std::uint64_t changes = 1 + random.below(3); changes > 0 && !text.empty(); --changes) {
    const std::size_t at = random.below(text.size());
    const std::size_t length = 1 + random.below(std::min<std::size_t>(text.size() - at, 40));
    switch (random.below(6)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
        break;
      case 1:
        text.erase(at, length);
        break;
      case 2:
        text.insert(at, text.substr(random.below(text.size()), length));
        break;
      case 3:
        text.insert(at, kPieces[random.below(kPieces.size())]);
        break;
      case 4:
        text[at] = static_cast<char>(random.below(256));
        break;
      default:
        text.replace(at, length, kPieces[random.below(kPieces.size())]);
        break;
    }
    if (random.below(100) == 0) text.resize(at);
  }
  return text;
}

TEST(DatasetStress, FiveThousandMutatedFilesEndInSamplesOrInOneSentence) {
  const fs::path originals = fs::path(LAZYTRAIN_TESTS_DIR) / "data" / "datasets";
  const std::vector<std::string> names{"metamath.json", "alpaca.jsonl", "messages.jsonl", "sharegpt.json",
                                       "dataset_info.json"};
  std::vector<std::string> contents;
  for (const std::string& name : names) contents.push_back(read_file(originals / name));
  const TemporaryFolder folder;
  const Tokenizer tokenizer = test::byte_tokenizer();
  const ChatTemplate chat_template = ChatTemplate::named("chatml", tokenizer);
  ThreadPool pool(1);
  Random random(20);
  std::int64_t good = 0, refused = 0;
  for (int i = 0; i < 5000; ++i) {
    const std::size_t which = random.below(names.size());
    for (std::size_t k = 0; k < names.size(); ++k) {
      if (k == which || i == 0)
        folder.write(names[k], k == which ? mutated(contents[k], random) : contents[k]);
    }
    const bool registry = names[which] == "dataset_info.json";
    try {
      const auto sources = find_datasets(registry ? "metamath,chat" : names[which], folder.path());
      const TokenizedDataset data =
          tokenize(sources, chat_template, {.cutoff_len = 256, .overlong = Overlong::truncate}, pool);
      std::vector<std::int64_t> all;
      for (std::int64_t s = 0; s < data.samples.size(); ++s) all.push_back(s);
      BatchStream stream(data.samples, all, {.slot_tokens = 256, .slots_per_step = 2});
      EXPECT_GT(stream.next().supervised, 0);
      EXPECT_FALSE(data.summary({}).empty());
      ++good;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << error.what();
      EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
      ++refused;
    }
    folder.write(names[which], contents[which]);
  }
  EXPECT_GT(good, 500);
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace lazytrain
