#include "formats/json_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "formats/formats_support.h"

namespace lazytrain {
namespace {

struct Read {
  std::vector<nlohmann::json> values;
  std::vector<std::int64_t> lines;
  std::vector<std::string> faults;  // "line: reason"
  std::int64_t replaced = 0;
};

Read read_file_at(const std::filesystem::path& path) {
  JsonStream stream(path);
  Read result;
  JsonRecord record;
  nlohmann::json value;
  while (stream.next(record, value)) {
    result.replaced += record.replaced;
    if (record.good()) {
      result.values.push_back(value);
      result.lines.push_back(record.line);
    } else {
      EXPECT_TRUE(value.is_null());
      result.faults.push_back(fmt::format("{}: {}", record.line, record.reason));
    }
  }
  EXPECT_EQ(stream.position(), stream.size());
  EXPECT_FALSE(stream.next(record, value));
  return result;
}

Read read_content(const std::string& content) {
  const TemporaryFolder folder;
  return read_file_at(folder.write("data.json", content));
}

void expect_refused(const std::string& words, const std::string& content) {
  const TemporaryFolder folder;
  const auto path = folder.write("data.json", content);
  expect_error(ExitCode::data, path.string() + words, [&] { (void)read_file_at(path); });
}

TEST(JsonStream, ArrayRecordsCarryTheirLine) {
  const auto result =
      read_content("\n[\n  {\"a\": 1,\n   \"b\": [\"]},{\\\"\"]},\n  {\"a\": 2}, 3,\"x\" ]\n\n");
  EXPECT_EQ(result.values, (std::vector<nlohmann::json>{{{"a", 1}, {"b", {"]},{\""}}}, {{"a", 2}}, 3, "x"}));
  EXPECT_EQ(result.lines, (std::vector<std::int64_t>{3, 5, 5, 5}));
  EXPECT_TRUE(read_content("[]").values.empty());
  EXPECT_TRUE(read_content(" [ \n ] ").values.empty());
}

TEST(JsonStream, LinesCarryTheirLine) {
  const auto result = read_content("{\"a\":1}\r\n\n  {\"a\":2}  \n{\"a\":3}");
  EXPECT_EQ(result.values, (std::vector<nlohmann::json>{{{"a", 1}}, {{"a", 2}}, {{"a", 3}}}));
  EXPECT_EQ(result.lines, (std::vector<std::int64_t>{1, 3, 4}));
}

TEST(JsonStream, ABadLineIsReportedAndTheRestIsRead) {
  const auto result = read_content("{\"a\":1}\n{\"a\":tru}\nnot json\n{\"a\":1}{\n{\"a\":4}\n");
  EXPECT_EQ(result.values.size(), 2u);
  ASSERT_EQ(result.faults.size(), 3u);
  EXPECT_EQ(result.faults[0], "2: not valid JSON: invalid literal, at column 9");
  EXPECT_THAT(result.faults[1], testing::StartsWith("3: not valid JSON"));
  EXPECT_THAT(result.faults[2], testing::StartsWith("4: not valid JSON"));
}

TEST(JsonStream, AByteOrderMarkIsAccepted) {
  EXPECT_EQ(read_content("\xEF\xBB\xBF[1]").values.size(), 1u);
  EXPECT_EQ(read_content("\xEF\xBB\xBF{\"a\":1}\n").values.size(), 1u);
}

TEST(JsonStream, SurrogatePairsAreOneCharacterAndLoneOnesAreReplaced) {
  const auto good = read_content(R"(["\ud83c\udf78","\\ud83c","\u00e9"])");
  EXPECT_EQ(good.values, (std::vector<nlohmann::json>{"\xF0\x9F\x8D\xB8", "\\ud83c", "\xC3\xA9"}));
  EXPECT_EQ(good.replaced, 0);
  const auto lone = read_content(R"(["a\ud83cb","\udf78","\ud83c\ud83c\udf78","\uD83C\n"])");
  EXPECT_EQ(lone.values,
            (std::vector<nlohmann::json>{"a\xEF\xBF\xBD"
                                         "b",
                                         "\xEF\xBF\xBD", "\xEF\xBF\xBD\xF0\x9F\x8D\xB8", "\xEF\xBF\xBD\n"}));
  EXPECT_EQ(lone.replaced, 4);
}

TEST(JsonStream, InvalidUtf8IsReplacedAndCounted) {
  const auto result = read_content("{\"a\":\"\xFF\xC3\xA9\xED\xA0\x80\"}\n{\"a\":\"\\\xFF\"}\n");
  ASSERT_EQ(result.values.size(), 1u);
  EXPECT_EQ(result.values[0]["a"], "\xEF\xBF\xBD\xC3\xA9\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(result.replaced, 5);
  EXPECT_EQ(result.faults.size(), 1u);  // an escaped invalid byte is no escape
}

TEST(JsonStream, OddRecordsOfJsonl) {
  const auto deep =
      read_content("{\"a\":" + std::string(100'000, '[') + "\n{\"a\":1e999}\n{\"a\":\"x\ty\"}\n{}\n");
  ASSERT_EQ(deep.faults.size(), 3u);
  EXPECT_EQ(deep.faults[0], "1: nested deeper than 200 levels, at column 205");
  EXPECT_THAT(deep.faults[1], testing::StartsWith("2: a number is out of range"));
  EXPECT_THAT(deep.faults[2], testing::HasSubstr("control character"));
  EXPECT_EQ(deep.values.size(), 1u);
}

TEST(JsonStream, FaultsOfAnArrayEndTheStream) {
  expect_refused(":1:8: a comma or the array's end is missing before this", "[{}, 1 2]");
  expect_refused(":2:2: in the record that starts here: not valid JSON: invalid literal, at column 9",
                 "[{},\n {\"a\":tru}]");
  expect_refused(":1:5: the file ends inside the record that starts here", "[1, {\"a\":\"x]");
  expect_refused(":2:1: the array is not closed", "[1\n");
  expect_refused(":1:4: the array is not closed", "[1,");
  expect_refused(":1:4: text follows the end of the array", "[1]{}");
  expect_refused(":1:4: in the record that starts here: not valid JSON", "[1,]");
  expect_refused(":1:2: in the record that starts here: not valid JSON", "[,1]");
  expect_refused(":1:2: in the record that starts here: not valid JSON", "[}]");
}

TEST(JsonStream, SaysWhatIsNoDataset) {
  expect_error(ExitCode::data, "no such file", [] { const JsonStream stream("nothing.json"); });
  expect_refused(": the file is empty", "");
  expect_refused(": the file holds no records, only blanks", " \n\n");
  expect_refused(":1:1: one JSON object over several lines", "{\n  \"data\": []\n}\n");
  expect_refused(":2:1: neither a JSON array nor JSONL", "\nquestion,answer\n");
  expect_refused(": a Parquet file, which is data to train on", "PAR1xxxx");
  expect_refused(": compressed with gzip", "\x1F\x8Bxxxx");
  expect_refused(": text in UTF-16", std::string("\xFF\xFE[\0]\0", 6));
  expect_refused(": a Git-LFS pointer", "version https://git-lfs.github.com/spec/v1\n");
}

TEST(JsonStream, RecordsLongerThanTheLimitAreRefused) {
  const std::string huge(JsonStream::kLongestRecord + 10, ' ');
  const auto lines = read_content("{\"a\":1}\n{" + huge + "}\n{\"a\":2}\n");
  EXPECT_EQ(lines.values.size(), 2u);
  EXPECT_EQ(lines.faults, (std::vector<std::string>{"2: longer than 64 MiB"}));
  expect_refused(":1:2: the record that starts here is longer than 64 MiB", "[{" + huge + "}]");
}

TEST(JsonStream, ReadsTheWordProblems) {
  const char* data = std::getenv("LAZYTRAIN_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "LAZYTRAIN_TEST_DATA is not set";
  const auto result = read_file_at(std::filesystem::path(data) / "word_problems/train.json");
  EXPECT_GT(result.values.size(), 100u);
  EXPECT_TRUE(result.faults.empty());
  for (const auto& value : result.values) ASSERT_TRUE(value.contains("query") && value.contains("response"));
}

TEST(JsonMutations, NeverCrash) {
  const std::vector<std::string> originals = {
      R"([{"query":"a \ud83c\udf78","response":"b\n"}, {"query":"é","n":[1,-2.5e3,null,true]}])",
      "{\"query\":\"a\",\"response\":\"b\"}\n{\"query\":\"c\",\"x\":{\"y\":[]}}\n{\"query\":\"d\"}\n",
      "\xEF\xBB\xBF[1,\"two\"]"};
  const std::vector<std::string> tokens = {
      "{",  "}", "[", "]",     "\"", "\\",   "\\u",          "\\ud83c",      "\\udf78",
      "\n", ",", ":", "1e999", "-",  "\xFF", "\xED\xA0\x80", "\xEF\xBB\xBF", std::string(1, '\0')};
  const int accepted = read_mutations(originals, tokens, [](const std::filesystem::path& path) {
    JsonStream stream(path);
    JsonRecord record;
    nlohmann::json value;
    int records = 0;
    while (stream.next(record, value)) {
      ASSERT_LT(++records, 10'000);
      // What is accepted is UTF-8: printing it strictly would throw otherwise.
      (void)value.dump();
    }
  });
  EXPECT_GT(accepted, 500);
}

}  // namespace
}  // namespace lazytrain
