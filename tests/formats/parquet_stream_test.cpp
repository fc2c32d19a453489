// Rows of Parquet files as records, and what becomes of files that are damaged.
#include "formats/parquet_stream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "formats/formats_support.h"
#include "formats/record_stream.h"
#include "parquet_files.h"

namespace lazytrain {
namespace {

using arrow::field;
using nlohmann::json;
using test::ParquetForm;
using test::table_of;
using test::write_parquet;
using testing::ElementsAre;
using testing::HasSubstr;

struct Read {
  std::vector<json> values;
  std::vector<std::int64_t> lines;
  std::int64_t replaced = 0;
};

Read read(RecordStream& stream) {
  Read result;
  JsonRecord record;
  while (stream.find(record)) {
    json value;
    stream.parse(record, value);
    EXPECT_TRUE(record.good()) << record.reason;
    result.values.push_back(value);
    result.lines.push_back(record.line);
    result.replaced += record.replaced;
  }
  EXPECT_EQ(stream.position(), stream.size());
  return result;
}

Read read(const std::filesystem::path& path) {
  RecordStream stream(path);
  EXPECT_EQ(stream.kind(), "Parquet");
  return read(stream);
}

class Parquet : public testing::Test {
 protected:
  std::filesystem::path write(const arrow::FieldVector& columns, const std::string& rows,
                              const ParquetForm& form = {}) {
    write_parquet(path_, *table_of(columns, rows), form);
    return path_;
  }
  // The one column `v` of these types, read back.
  json column(const std::shared_ptr<arrow::DataType>& type, const std::string& values,
              const ParquetForm& form = {}) {
    std::string rows;
    for (const json& value : json::parse(values))
      rows += (rows.empty() ? "" : ", ") + json{{"v", value}}.dump();
    json result = json::array();
    for (const json& value : read(write({field("v", type)}, "[" + rows + "]", form)).values)
      result.push_back(value.at("v"));
    return result;
  }
  void expect_refused(const std::string& words) {
    expect_error(ExitCode::data, path_.string() + words, [&] { (void)read(path_); });
  }

  TemporaryFolder folder_;
  std::filesystem::path path_ = folder_.path() / "rows.parquet";
};

TEST_F(Parquet, TextsOfEveryKind) {
  const std::string texts = R"(["plain", "", null, "\"quoted\"\\\n\t\u0001", "grüße 日本 😀", "\\ud83c"])";
  for (const auto& type : {arrow::utf8(), arrow::large_utf8(), arrow::utf8_view(),
                           arrow::dictionary(arrow::int32(), arrow::utf8()),
                           arrow::dictionary(arrow::int8(), arrow::large_utf8())}) {
    EXPECT_EQ(column(type, texts), json::parse(texts)) << type->ToString();
    EXPECT_EQ(column(type, texts, {.dictionaries = false}), json::parse(texts)) << type->ToString();
    EXPECT_EQ(column(type, texts, {.keep_types = false}), json::parse(texts)) << type->ToString();
  }
}

TEST_F(Parquet, NumbersOfEveryKind) {
  for (const auto& type : {arrow::int8(), arrow::int16(), arrow::int32(), arrow::int64(), arrow::uint8(),
                           arrow::uint16(), arrow::uint32(), arrow::uint64()})
    EXPECT_EQ(column(type, "[0, 100, null]"), json::parse("[0, 100, null]")) << type->ToString();
  EXPECT_EQ(column(arrow::int64(), "[-9223372036854775808]")[0], INT64_MIN);
  EXPECT_EQ(column(arrow::uint64(), "[18446744073709551615]")[0], UINT64_MAX);
  for (const auto& type : {arrow::float32(), arrow::float64()})
    EXPECT_EQ(column(type, "[1.0, -0.5, 1e30, null]").dump(), json::parse("[1.0, -0.5, 1e30, null]").dump());
  EXPECT_EQ(column(arrow::float16(), "[1.5]")[0], 1.5);
  EXPECT_EQ(column(arrow::boolean(), "[true, false, null]"), json::parse("[true, false, null]"));
  EXPECT_EQ(column(arrow::null(), "[null, null]"), json::parse("[null, null]"));
}

TEST_F(Parquet, NumbersThatJsonLacksAreNull) {
  arrow::DoubleBuilder builder;
  ASSERT_TRUE(builder.AppendValues({NAN, INFINITY, 2}).ok());
  const auto values = test::value_of(builder.Finish());
  write_parquet(path_, *arrow::Table::Make(arrow::schema({field("v", arrow::float64())}), {values}));
  EXPECT_THAT(read(path_).values, ElementsAre(json{{"v", nullptr}}, json{{"v", nullptr}}, json{{"v", 2.0}}));
}

TEST_F(Parquet, Lists) {
  const std::string lists = R"([["a", "b"], [], null, ["c", null], ["d", "e"]])";
  EXPECT_EQ(column(arrow::list(arrow::utf8()), lists), json::parse(lists));
  EXPECT_EQ(column(arrow::large_list(arrow::utf8()), lists), json::parse(lists));
  EXPECT_EQ(column(arrow::list(arrow::dictionary(arrow::int32(), arrow::utf8())), lists), json::parse(lists));
  EXPECT_EQ(column(arrow::fixed_size_list(arrow::int32(), 2), "[[1, 2], [3, 4]]"),
            json::parse("[[1, 2], [3, 4]]"));
  const std::string nested = R"([[["a", "b"], ["c", "d"]], []])";
  EXPECT_EQ(column(arrow::list(arrow::list(arrow::utf8())), nested), json::parse(nested));
}

TEST_F(Parquet, FieldsOfStructsAreLeftOutWhereTheyAreNull) {
  const auto turn =
      arrow::struct_({field("role", arrow::utf8()), field("content", arrow::utf8()),
                      field("calls", arrow::list(arrow::struct_({field("n", arrow::int64())})))});
  EXPECT_EQ(column(arrow::list(turn), R"([[{"role": "user", "content": "a", "calls": null},
                                           {"role": "assistant", "content": null, "calls": [{"n": 1}, {"n": null}]}],
                                          null])"),
            json::parse(R"([[{"role": "user", "content": "a"},
                             {"role": "assistant", "calls": [{"n": 1}, {}]}], null])"));
}

TEST_F(Parquet, MapsAreObjects) {
  EXPECT_EQ(column(arrow::map(arrow::utf8(), arrow::int32()), R"([[["a", 1], ["b", null]], [], null])"),
            json::parse(R"([{"a": 1, "b": null}, {}, null])"));
}

TEST_F(Parquet, BytesThatAreNoUtf8AreReplacedAndCounted) {
  arrow::StringBuilder builder;
  ASSERT_TRUE(builder.Append("a\xFFz").ok());
  const auto values = test::value_of(builder.Finish());
  write_parquet(path_, *arrow::Table::Make(arrow::schema({field("v", arrow::utf8())}), {values}));
  const Read result = read(path_);
  EXPECT_THAT(result.values, ElementsAre(json{{"v", "a\uFFFDz"}}));
  EXPECT_EQ(result.replaced, 1);
}

std::string numbered_rows(int count) {
  json rows = json::array();
  for (int i = 0; i < count; ++i)
    rows.push_back({{"text", std::string(static_cast<std::size_t>(i % 50), 'x') + std::to_string(i)},
                    {"kind", i % 3 == 0 ? "a" : "b"},
                    {"turns", {{{"role", "user"}, {"content", std::to_string(i)}}}}});
  return rows.dump();
}

arrow::FieldVector numbered_columns() {
  return {field("text", arrow::utf8()), field("kind", arrow::dictionary(arrow::int32(), arrow::utf8())),
          field("turns",
                arrow::list(arrow::struct_({field("role", arrow::dictionary(arrow::int32(), arrow::utf8())),
                                            field("content", arrow::utf8())})))};
}

TEST_F(Parquet, RowsAreNumberedThroughAllRowGroups) {
  const std::string rows = numbered_rows(5000);
  for (const std::int64_t group_rows : {50, 1500, 10000}) {
    const Read result = read(write(numbered_columns(), rows, {.group_rows = group_rows}));
    EXPECT_EQ(json(result.values), json::parse(rows)) << group_rows;
    for (std::size_t i = 0; i < result.lines.size(); ++i)
      ASSERT_EQ(result.lines[i], static_cast<std::int64_t>(i + 1));
  }
}

TEST_F(Parquet, ARecordOutlivesTheStream) {
  write(numbered_columns(), numbered_rows(3000));
  std::vector<JsonRecord> records;
  {
    ParquetStream stream(path_);
    EXPECT_EQ(stream.rows(), 3000);
    JsonRecord record;
    while (stream.find(record)) records.push_back(record);
  }
  json value;
  parse_record(records[17], value);
  EXPECT_EQ(value["text"], std::string(17, 'x') + "17");
}

TEST_F(Parquet, NoRows) {
  EXPECT_TRUE(read(write({field("text", arrow::utf8())}, "[]")).values.empty());
}

TEST_F(Parquet, OnlyColumnsAndFieldsInUseAreRead) {
  const auto turn =
      arrow::struct_({field("role", arrow::utf8()), field("when", arrow::timestamp(arrow::TimeUnit::MICRO))});
  write({field("picture", arrow::binary()), field("turns", arrow::list(turn)), field("text", arrow::utf8())},
        R"([{"picture": "xy", "turns": [{"role": "user", "when": 5}], "text": "a"}])");
  RecordStream stream(path_);
  EXPECT_THAT(*stream.columns(), ElementsAre("picture", "turns", "text"));
  stream.use({{.name = "turns", .fields = {"role", "content"}}, {.name = "absent"}});
  EXPECT_THAT(read(stream).values, ElementsAre(json{{"turns", {{{"role", "user"}}}}}));
  EXPECT_THAT(read(path_).values, ElementsAre(json{{"text", "a"}})) << "what cannot be read is in no use";
}

TEST_F(Parquet, AColumnInUseOfAnotherTypeIsNamed) {
  const auto turn = arrow::struct_({field("role", arrow::utf8()), field("when", arrow::date32())});
  write(
      {field("picture", arrow::binary()), field("turns", arrow::list(turn)),
       field("scores", arrow::map(arrow::int32(), arrow::int32())), field("price", arrow::decimal128(5, 2))},
      "[]");
  const auto refused = [&](const std::string& column, const std::string& words) {
    RecordStream stream(path_);
    expect_error(ExitCode::data, path_.string() + words, [&] { stream.use({{.name = column}}); });
  };
  refused("picture", ": the column 'picture' is of type binary, which is not read; store it as text");
  refused("turns", ": the column 'turns.when' is of type date32[day], which is not read");
  refused("scores", ": the column 'scores' is of type map<int32, int32");
  refused("price", ": the column 'price' is of type decimal128(5, 2), which");
  refused(
      "words",
      ": its columns are 'picture', 'turns', 'scores', 'price', and none of them is used (used are 'words')");
}

TEST_F(Parquet, TwoColumnsOfOneName) {
  const auto texts = test::value_of(arrow::json::ArrayFromJSONString(arrow::utf8(), R"(["a"])"));
  write_parquet(path_,
                *arrow::Table::Make(arrow::schema({field("v", arrow::utf8()), field("v", arrow::utf8())}),
                                    {texts, texts}));
  RecordStream stream(path_);
  expect_error(ExitCode::data, "two columns are named 'v'; rename one", [&] { stream.use({{.name = "v"}}); });
}

TEST_F(Parquet, AFileCutShortAnywhereIsRefused) {
  write(numbered_columns(), numbered_rows(300), {.group_rows = 100});
  const std::string whole = read_file(path_);
  for (std::size_t size = 4; size < whole.size(); size += size < 100 || whole.size() - size < 200 ? 1 : 97) {
    folder_.write("rows.parquet", whole.substr(0, size));
    expect_refused(": a Parquet file that is damaged or cut short (");
  }
  // The end of a file is right, but its middle is missing.
  for (std::size_t lost = 1; lost < whole.size() / 2; lost += 501) {
    folder_.write("rows.parquet", whole.substr(0, whole.size() / 3) + whole.substr(whole.size() / 3 + lost));
    try {
      (void)read(path_);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::data) << error.what();
    }
  }
}

TEST_F(Parquet, ADamagedPageWithAChecksumIsNoticed) {
  write({field("text", arrow::utf8())}, R"([{"text": "the text of the first row"}])",
        {.checksums = true, .dictionaries = false});
  std::string whole = read_file(path_);
  whole[whole.find("first row")] = 'F';
  folder_.write("rows.parquet", whole);
  expect_refused(": a Parquet file that is damaged or cut short (could not verify page integrity");
}

TEST_F(Parquet, SaysWhatIsNoParquet) {
  folder_.write("rows.parquet", "PAR1" + std::string(100, '\0'));
  expect_refused(": a Parquet file that is damaged or cut short (Parquet magic bytes not found in footer");
  folder_.write("rows.parquet", "some text\nwithout anything\n");
  expect_refused(": it does not begin as a Parquet file does, so it is damaged");
  folder_.write("rows.parquet", "PARExxxx");
  expect_refused(": an encrypted Parquet file, which is not read");
  folder_.write("rows.parquet", "version https://git-lfs.github.com/spec/v1\n");
  expect_refused(": a Git-LFS pointer");
}

// Nothing but an Error, whatever the bytes are.
TEST_F(Parquet, DamagedFilesEndInAnErrorOrInRecords) {
  std::vector<std::string> originals;
  for (const bool dictionaries : {true, false}) {
    write(numbered_columns(), numbered_rows(40), {.group_rows = 15, .dictionaries = dictionaries});
    originals.push_back(read_file(path_));
  }
  const int accepted =
      read_mutations(originals, {"PAR1", "\x15\x00", "\xFF\xFF\xFF\xFF"}, [](const auto& path) {
        RecordStream stream(path);
        JsonRecord record;
        json value;
        while (stream.find(record)) stream.parse(record, value);
      });
  EXPECT_GT(accepted, 0);
}

}  // namespace
}  // namespace lazytrain
