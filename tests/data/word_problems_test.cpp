// The generator of word problems: what it writes is read by our own readers, and every line of every response
// is computed again here.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include "core/file.h"
#include "data/answer.h"
#include "data/dataset.h"
#include "data/support.h"

namespace lazytrain {
namespace {

namespace fs = std::filesystem;
using test::TemporaryFolder;

bool generate(const fs::path& out, const std::string& arguments) {
  const std::string tool = std::string(LAZYTRAIN_SOURCE_DIR) + "/tools/make_word_problems.py";
  return std::system(
             ("python3 '" + tool + "' --out '" + out.string() + "' " + arguments + " > /dev/null").c_str()) ==
         0;
}

std::vector<Sample> load(const std::string& name, const fs::path& folder) {
  std::vector<Sample> samples;
  for (const DatasetSource& source : find_datasets(name, folder)) {
    const DatasetReport report =
        read_dataset(source, {}, [&](Sample&& sample) { samples.push_back(std::move(sample)); });
    EXPECT_EQ(report.rejected + report.empty, 0);
  }
  return samples;
}

// "Cost: 3 * 12 = 36" -> 36, after computing it again; nothing where the line is not a right calculation.
std::optional<std::int64_t> recomputed(const std::string& line) {
  std::istringstream words(line.substr(line.rfind(": ") + 2));
  std::int64_t a = 0, b = 0, result = 0;
  char operation = 0, equals = 0;
  words >> a >> operation >> b >> equals >> result;
  if (!words || equals != '=' || !words.eof()) return std::nullopt;
  const bool right = operation == '+'   ? a + b == result
                     : operation == '-' ? a - b == result
                     : operation == '*' ? a * b == result
                                        : operation == '/' && b * result == a;
  return right ? std::optional(result) : std::nullopt;
}

TEST(WordProblemGenerator, EveryStepIsRightAndTheLastIsTheAnswer) {
  const TemporaryFolder folder;
  ASSERT_TRUE(generate(folder.path(), "--train 1500 --test 200 --seed 3"));
  const auto train = load("word_problems_train", folder.path());
  const auto held_out = load("word_problems_test", folder.path());
  EXPECT_EQ(train.size(), 1500u);
  EXPECT_EQ(held_out.size(), 200u);
  std::map<std::int64_t, std::int64_t> by_steps;
  for (const auto* samples : {&train, &held_out}) {
    for (const Sample& sample : *samples) {
      const std::string& response = sample.messages.at(1).content;
      std::istringstream lines(response);
      std::int64_t steps = 0, last = 0;
      for (std::string line; std::getline(lines, line) && !line.starts_with("####");) {
        const auto value = recomputed(line);
        ASSERT_TRUE(value) << line;
        last = *value;
        ++steps;
      }
      ++by_steps[steps];
      EXPECT_EQ(extract_answer(response), std::to_string(last)) << response;
      EXPECT_TRUE(response.ends_with(fmt::format("\n#### {}\nThe answer is: {}", last, last))) << response;
      EXPECT_EQ(sample.messages[0].content.find_first_of("{}"), std::string::npos);
    }
  }
  ASSERT_EQ(by_steps.size(), 4u);  // one to four steps, the easier the more
  EXPECT_GT(by_steps[1], by_steps[3]);
  EXPECT_GT(by_steps[2], by_steps[3]);
  EXPECT_GT(by_steps[3], by_steps[4]);
  EXPECT_GT(by_steps[4], 50);
}

TEST(WordProblemGenerator, NoQuestionIsOnBothSidesInAnyPhrasing) {
  const TemporaryFolder folder;
  ASSERT_TRUE(generate(folder.path(), "--train 1500 --test 200 --seed 3"));
  std::set<std::string> train;
  std::set<std::string> originals;
  for (const Sample& sample : load("word_problems_train", folder.path())) {
    EXPECT_TRUE(train.insert(sample.messages[0].content).second);
    originals.insert(sample.original_question);
  }
  EXPECT_LT(originals.size(), 1000u);  // several phrasings share a question
  for (const Sample& sample : load("word_problems_test", folder.path())) {
    EXPECT_EQ(originals.count(sample.original_question), 0u);
    EXPECT_EQ(train.count(sample.messages[0].content), 0u);
  }
}

TEST(WordProblemGenerator, TheSeedDecidesEveryByte) {
  const TemporaryFolder folder;
  ASSERT_TRUE(generate(folder.path() / "a", "--train 50 --test 10 --seed 1"));
  ASSERT_TRUE(generate(folder.path() / "b", "--train 50 --test 10 --seed 1"));
  ASSERT_TRUE(generate(folder.path() / "c", "--train 50 --test 10 --seed 2"));
  EXPECT_EQ(read_file(folder.path() / "a/train.json"), read_file(folder.path() / "b/train.json"));
  EXPECT_EQ(read_file(folder.path() / "a/test.json"), read_file(folder.path() / "b/test.json"));
  EXPECT_NE(read_file(folder.path() / "a/train.json"), read_file(folder.path() / "c/train.json"));
  EXPECT_FALSE(generate(folder.path() / "d", "--train 0 --test 10 2> /dev/null"));
}

}  // namespace
}  // namespace lazytrain
