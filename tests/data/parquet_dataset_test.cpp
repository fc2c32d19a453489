// The same records as JSONL and as Parquet give the same tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "data/support.h"
#include "data/token_cache.h"
#include "data/tokenized_dataset.h"
#include "parquet_files.h"
#include "text/folder_template.h"

namespace lazytrain {
namespace {

using arrow::field;
using nlohmann::json;
using test::error_of;
using test::table_of;
using test::write_parquet;
using testing::HasSubstr;

// Prints everything that a conversation may have, so that a field that went missing shows.
constexpr const char* kEverything =
    "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{{ m.reasoning_content }}{{ m.content }}{{ m.name }}{% if m.tool_calls %}{{ m.tool_calls | tojson }}{% "
    "endif %}"
    "<|im_end|>\n{% endfor %}";

class ParquetDataset : public testing::Test {
 protected:
  DatasetSource source(const std::string& name) const {
    return {.name = name, .file = folder_.path() / name, .layout = {}, .num_samples = {}};
  }
  TokenizedDataset tokens(const DatasetSource& source) {
    return tokenize({source}, {template_, &template_}, {.cutoff_len = 4096}, pool_);
  }
  // Writes the rows both ways and compares what becomes of them.
  void expect_same(const arrow::FieldVector& columns, const std::vector<json>& rows,
                   const std::string& layout, const RecordLayout* named = nullptr) {
    std::string lines;
    for (const json& row : rows) lines += row.dump() + "\n";
    folder_.write("r.jsonl", lines);
    write_parquet(folder_.path() / "r.parquet", *table_of(columns, json(rows).dump()), {.group_rows = 100});
    DatasetSource text = source("r.jsonl"), table = source("r.parquet");
    if (named != nullptr) text.layout = table.layout = *named;
    const TokenizedDataset expected = tokens(text);
    const TokenizedDataset got = tokens(table);
    EXPECT_EQ(got.samples.size(), expected.samples.size());
    EXPECT_EQ(got.samples.fingerprint(), expected.samples.fingerprint());
    EXPECT_EQ(got.samples.supervised_tokens(), expected.samples.supervised_tokens());
    for (std::int64_t i = 0; i < got.samples.size(); ++i) {
      ASSERT_EQ(got.samples.group(i), expected.samples.group(i));
      ASSERT_EQ(got.samples.line(i), expected.samples.line(i));
    }
    EXPECT_EQ(got.reports[0].layout, layout);
    EXPECT_EQ(got.reports[0].kind, "Parquet");
    EXPECT_EQ(got.reports[0].empty, expected.reports[0].empty);
    EXPECT_EQ(got.reports[0].rejected, expected.reports[0].rejected);
  }

  test::TemporaryFolder folder_;
  Tokenizer tokenizer_ = test::byte_tokenizer();
  ChatTemplate template_ =
      ChatTemplate::own(FolderTemplate::parse(kEverything, "chat_template.jinja", {}, 0), tokenizer_);
  ThreadPool pool_{3};
};

TEST_F(ParquetDataset, Alpaca) {
  std::vector<json> rows;
  for (int i = 0; i < 700; ++i)
    rows.push_back({{"instruction", "Add " + std::to_string(i)},
                    {"input", i % 2 ? "1" : ""},
                    {"output", "é\n\"2\""},
                    {"system", nullptr},
                    {"history", json::array({json::array({"a", "b"})})},
                    {"id", i}});
  rows[5]["output"] = "";
  rows[6]["output"] = nullptr;
  expect_same({field("id", arrow::int64()), field("instruction", arrow::utf8()),
               field("input", arrow::utf8()), field("output", arrow::large_utf8()),
               field("system", arrow::utf8()), field("history", arrow::list(arrow::list(arrow::utf8())))},
              rows, "alpaca");
}

TEST_F(ParquetDataset, MessagesWithToolsAndCalls) {
  // Fields in alphabetic order, in which this JSON library writes them, so that the calls' text is the same.
  const auto arguments = arrow::struct_({field("b", arrow::utf8()), field("z", arrow::int64())});
  const auto function = arrow::struct_({field("arguments", arguments), field("name", arrow::utf8())});
  const auto call = arrow::struct_({field("function", function), field("type", arrow::utf8())});
  const auto turn = arrow::struct_({field("role", arrow::dictionary(arrow::int8(), arrow::utf8())),
                                    field("content", arrow::utf8()), field("tool_calls", arrow::list(call)),
                                    field("reasoning_content", arrow::utf8()), field("name", arrow::utf8())});
  std::vector<json> rows;
  for (int i = 0; i < 300; ++i) {
    const json calls = {
        {{"function", {{"arguments", {{"b", "x"}, {"z", i}}}, {"name", "f"}}}, {"type", "function"}}};
    rows.push_back({{"messages",
                     {{{"role", "system"}, {"content", "Be brief."}},
                      {{"role", "user"}, {"content", "What? " + std::to_string(i)}},
                      {{"role", "assistant"}, {"content", "Let me look."}, {"tool_calls", calls}},
                      {{"role", "tool"}, {"content", "7"}, {"name", "f"}},
                      {{"role", "assistant"}, {"content", "Seven."}, {"reasoning_content", "easy"}}}},
                    {"tools", R"([{"type": "function", "function": {"name": "f"}}])"}});
  }
  expect_same({field("messages", arrow::list(turn)), field("tools", arrow::utf8())}, rows, "messages");
}

TEST_F(ParquetDataset, Sharegpt) {
  std::vector<json> rows;
  for (int i = 0; i < 50; ++i)
    rows.push_back(
        {{"conversations",
          {{{"from", "human"}, {"value", "a"}}, {{"from", "gpt"}, {"value", std::to_string(i)}}}}});
  expect_same(
      {field("conversations",
             arrow::list(arrow::struct_({field("from", arrow::utf8()), field("value", arrow::utf8())})))},
      rows, "sharegpt");
}

TEST_F(ParquetDataset, Text) {
  std::vector<json> rows;
  for (int i = 0; i < 2500; ++i) rows.push_back({{"text", "Line " + std::to_string(i)}, {"score", 0.5}});
  expect_same({field("text", arrow::utf8()), field("score", arrow::float32())}, rows, "text");
}

TEST_F(ParquetDataset, ColumnsNamedInTheRegistry) {
  RecordLayout layout = known_layouts()[1];
  layout.name = "named";
  layout.prompt = "question";
  layout.response = "answer";
  expect_same(
      {field("question", arrow::utf8()), field("answer", arrow::utf8()), field("output", arrow::binary())},
      {{{"question", "a"}, {"answer", "b"}}}, "named", &layout);
}

TEST_F(ParquetDataset, ColumnsThatFitNoFormat) {
  write_parquet(folder_.path() / "r.parquet",
                *table_of({field("story", arrow::utf8())}, R"([{"story": "a"}])"));
  EXPECT_THAT(
      error_of(ExitCode::data, [&] { (void)tokens(source("r.parquet")); }),
      HasSubstr("r.parquet: it has 'story', which fits no known format; expected are the keys query"));
}

TEST_F(ParquetDataset, ARejectedRowIsNamedByItsNumber) {
  write_parquet(folder_.path() / "r.parquet",
                *table_of({field("query", arrow::utf8()), field("response", arrow::utf8())},
                          R"([{"query": "a", "response": "b"}, {"query": "c", "response": null}])"));
  const TokenizedDataset dataset = tokens(source("r.parquet"));
  ASSERT_EQ(dataset.reports[0].rejections.size(), 1u);
  EXPECT_THAT(dataset.reports[0].rejections[0], HasSubstr("r.parquet:2: 'response' is null, not text"));
}

TEST_F(ParquetDataset, TheCacheOfTokensKnowsTheFilesContent) {
  const auto write = [&](const std::string& answer) {
    write_parquet(folder_.path() / "r.parquet",
                  *table_of({field("query", arrow::utf8()), field("response", arrow::utf8())},
                            json{{{"query", "a"}, {"response", answer}}}.dump()));
  };
  const auto cached = [&] {
    return tokenize_cached({.folder = folder_.path() / "cache"}, {source("r.parquet")},
                           {template_, &template_}, {}, pool_, [](const std::string&) {})
        .samples.fingerprint();
  };
  write("b");
  const std::uint64_t first = cached();
  EXPECT_EQ(cached(), first);
  write("c");
  EXPECT_NE(cached(), first);
}

}  // namespace
}  // namespace lazytrain
