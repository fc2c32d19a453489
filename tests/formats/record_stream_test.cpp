// CSV, TSV and plain text as records, and which kind a file is taken for.
#include "formats/record_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "formats/formats_support.h"

namespace lazytrain {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

struct Read {
  std::string kind;
  std::vector<json> values;
  std::vector<std::int64_t> lines;
  std::vector<std::string> faults;
  std::int64_t replaced = 0;
};

Read read(const std::filesystem::path& path) {
  RecordStream stream(path);
  Read result{.kind = stream.kind(), .values = {}, .lines = {}, .faults = {}};
  JsonRecord record;
  while (stream.find(record)) {
    json value;
    if (record.good()) stream.parse(record, value);
    result.replaced += record.replaced;
    if (record.good()) {
      result.values.push_back(value);
      result.lines.push_back(record.line);
    } else {
      try {
        stream.fail_bad(record, "!");
      } catch (const Error& error) {
        result.faults.push_back(std::string(error.what()).substr(path.string().size()));
      }
    }
  }
  EXPECT_EQ(stream.position(), stream.size());
  return result;
}

Read read(const std::string& name, const std::string& content) {
  const TemporaryFolder folder;
  return read(folder.write(name, content));
}

void expect_refused(const std::string& words, const std::string& name, const std::string& content) {
  const TemporaryFolder folder;
  const auto path = folder.write(name, content);
  expect_error(ExitCode::data, path.string() + words, [&] { (void)read(path); });
}

TEST(Csv, QuotedFieldsHoldDelimitersLineBreaksAndQuotes) {
  const Read rows = read("a.csv",
                         "prompt,completion\r\n\"a, b\",\"line 1\r\nline 2\"\r\n\"say \"\"hi\"\"\",\"\"\r\n"
                         "plain,it's 5\" wide\n,last");
  EXPECT_EQ(rows.kind, "CSV");
  EXPECT_THAT(rows.values, ElementsAre(json{{"prompt", "a, b"}, {"completion", "line 1\r\nline 2"}},
                                       json{{"prompt", "say \"hi\""}, {"completion", ""}},
                                       json{{"prompt", "plain"}, {"completion", "it's 5\" wide"}},
                                       json{{"prompt", ""}, {"completion", "last"}}));
  EXPECT_THAT(rows.lines, ElementsAre(2, 4, 5, 6));
}

TEST(Csv, QuotesAloneAndAtTheEndOfTheFile) {
  EXPECT_THAT(read("a.csv", "a,b\n\"\"\"\",\"x\"").values, ElementsAre(json{{"a", "\""}, {"b", "x"}}));
  EXPECT_THAT(read("a.csv", "a,b\n\"\",\"\"\"\"\"\"\n").values, ElementsAre(json{{"a", ""}, {"b", "\"\""}}));
  EXPECT_THAT(read("a.csv", "a,b\nx,\n").values, ElementsAre(json{{"a", "x"}, {"b", ""}}));
  EXPECT_THAT(read("a.csv", "a,b\n,\n").values, ElementsAre(json{{"a", ""}, {"b", ""}}));
}

TEST(Csv, AColumnWithoutANameIsLeftOut) {
  EXPECT_THAT(read("a.csv", "\xEF\xBB\xBF,a\n0,x\n1,y\n").values,
              ElementsAre(json{{"a", "x"}}, json{{"a", "y"}}));
}

TEST(Csv, BadRowsAreNamedWithLineAndColumn) {
  const Read rows = read("a.csv", "a,b\n1,2\n1,2,3\n1\n\"x\"y,2\n\"two\nlines\"z,2\n3,4\n");
  EXPECT_EQ(rows.values.size(), 2u);
  EXPECT_THAT(rows.faults,
              ElementsAre(":3:1: the row has 3 fields, the header names 2!",
                          ":4:1: the row has 1 fields, the header names 2!",
                          ":5:4: text follows a closing quote; quotes inside a field are written twice!",
                          ":7:7: text follows a closing quote; quotes inside a field are written twice!"));
  expect_refused(":3:3: the quote that opens here is never closed", "a.csv", "a,b\n1,2\n3,\"4\n5,6\n");
  expect_refused(":1: the header names the column 'a' twice", "a.csv", "a,b,a\n1,2,3\n");
  expect_refused(":1: the first row must name the columns", "a.csv", ",\n1,2\n");
  expect_refused(": the file holds no header", "a.csv", "\n\r\n");
}

TEST(Csv, InvalidUtf8IsReplacedAndCounted) {
  const Read rows = read("a.csv", "a,b\n\xFF,\xC3\xA9\xED\n");
  EXPECT_THAT(rows.values, ElementsAre(json{{"a", "\xEF\xBF\xBD"}, {"b", "\xC3\xA9\xEF\xBF\xBD"}}));
  EXPECT_EQ(rows.replaced, 2);
}

TEST(Tsv, TabsSeparate) {
  const Read rows = read("a.tsv", "q\ta\n1, 2\t\"x\ty\"\n");
  EXPECT_EQ(rows.kind, "TSV");
  EXPECT_THAT(rows.values, ElementsAre(json{{"q", "1, 2"}, {"a", "x\ty"}}));
}

TEST(TextFile, ParagraphsWhereThereAreBlankLinesElseLines) {
  const Read paragraphs = read("a.txt", "\n one\r\ntwo\r\n\r\n  \nthree\n\n\nfour");
  EXPECT_EQ(paragraphs.kind, "text by paragraphs");
  EXPECT_THAT(paragraphs.values,
              ElementsAre(json{{"text", " one\ntwo"}}, json{{"text", "three"}}, json{{"text", "four"}}));
  EXPECT_THAT(paragraphs.lines, ElementsAre(2, 6, 9));
  const Read lines = read("a.txt", "one\ntwo\n\n");
  EXPECT_EQ(lines.kind, "text by lines");
  EXPECT_THAT(lines.values, ElementsAre(json{{"text", "one"}}, json{{"text", "two"}}));
  expect_refused(": the file holds no text, only blanks", "a.txt", " \n\n");
}

TEST(RecordStream, ABuildWithoutParquetSaysHowToGoOn) {
  if (ParquetStream::is_built_in()) GTEST_SKIP() << "this build reads Parquet";
  for (const char* name : {"rows.parquet", "rows.jsonl"})
    expect_refused(
        ": a Parquet file, and this program was built without Parquet: build it with `make parquet`, or "
        "convert the file to JSONL",
        name, "PAR1xxxxPAR1");
  expect_refused(": it does not begin as a Parquet file does, so it is damaged", "rows.parquet",
                 "x,y\n1,2\n");
}

TEST(RecordStream, TheContentDecidesThenTheName) {
  EXPECT_EQ(read("a.csv", "[{\"a\":1}]").kind, "a JSON array");
  EXPECT_EQ(read("a.json", "{\"a\":1}\n{\"a\":2}\n").kind, "JSONL");
  EXPECT_EQ(read("a.json", "a,b\n1,2\n").kind, "CSV");
  EXPECT_EQ(read("data", "a\tb\n1\t2\n").kind, "TSV");
  EXPECT_EQ(read("a.csv", "a\tb\n1\t2\n").kind, "TSV");
  EXPECT_EQ(read("a.txt", "{\"a\":1}\n").kind, "JSONL");
  EXPECT_EQ(read("a.txt", "[{\"a\":1}]").kind, "a JSON array");
  EXPECT_EQ(read("a.txt", "[1] Smith says so.\n").kind, "text by lines");
  EXPECT_EQ(read("a.txt", "{braces} are no JSON\n").kind, "text by lines");
  EXPECT_EQ(read("a.txt", "a,b\n1,2\n").kind, "text by lines");
  EXPECT_EQ(read("A.CSV", "text\nsome words\n").kind, "CSV");
  expect_refused(":1:1: neither a JSON array nor JSONL", "a.json", "no commas, here\nnor any more\n");
  expect_refused(": a Git-LFS pointer", "a.csv", "version https://git-lfs.github.com/spec/v1\n");
  expect_refused(": the file is empty", "a.txt", "");
}

TEST(RecordMutations, NeverCrash) {
  const std::vector<std::string> originals = {"a,b\n\"x, y\",\"1\n2\"\n\"say \"\"hi\"\"\",\n,\n",
                                              "a\tb\nx\ty\n\"\t\"\t\"\"\n", "para 1\nline\n\npara 2\n"};
  const std::vector<std::string> tokens = {"\"", "\"\"", ",", "\t",   "\n",           "\r\n",
                                           "\r", "\xFF", "{", "\n\n", "\xEF\xBB\xBF", std::string(1, '\0')};
  const int accepted = read_mutations(originals, tokens, [](const std::filesystem::path& path) {
    RecordStream stream(path);
    JsonRecord record;
    int records = 0;
    while (stream.find(record)) {
      ASSERT_LT(++records, 10'000);
      json value;
      if (record.good()) stream.parse(record, value);
      (void)value.dump();
    }
  });
  EXPECT_GT(accepted, 500);
}

}  // namespace
}  // namespace lazytrain
