#include "data/dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "core/random.h"
#include "data/support.h"

namespace lazytrain {
namespace {

using test::error_of;
using test::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct Loaded {
  DatasetReport report;
  std::vector<Sample> samples;
};

Loaded load(const DatasetSource& source, std::optional<std::int64_t> max_samples = {}) {
  Loaded loaded;
  loaded.report =
      read_dataset(source, max_samples, [&](Sample&& s) { loaded.samples.push_back(std::move(s)); });
  return loaded;
}

Loaded load(const std::filesystem::path& file) {
  return load({.name = "test", .file = file, .layout = {}, .num_samples = {}});
}

// "user: hi | assistant: hello"
std::string shown(const Sample& sample) {
  std::string text;
  for (const Message& message : sample.messages) {
    const char* role = message.role == Role::user     ? "user"
                       : message.role == Role::system ? "system"
                                                      : "assistant";
    text += (text.empty() ? "" : " | ") + std::string(role) + ": " + message.content;
  }
  return text;
}

TEST(Dataset, MetaMathArrayWithItsQuestionsAndLines) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.json", R"([
  {"query": "2+2?", "response": "The answer is: 4", "type": "T", "original_question": "2 + 2"},
  {"query": "3+3?",
   "response": "The answer is: 6"}
])");
  const Loaded loaded = load(file);
  EXPECT_EQ(loaded.report.layout, "metamath");
  EXPECT_EQ(loaded.report.summary(),
            file.string() + ": a JSON array, 2 of 2 records, format metamath (found by its keys)\n");
  ASSERT_EQ(loaded.samples.size(), 2u);
  EXPECT_EQ(shown(loaded.samples[0]), "user: 2+2? | assistant: The answer is: 4");
  EXPECT_EQ(loaded.samples[0].original_question, "2 + 2");
  EXPECT_EQ(loaded.samples[0].line, 2);
  EXPECT_EQ(loaded.samples[1].original_question, "");
  EXPECT_EQ(loaded.samples[1].line, 3);
}

TEST(Dataset, AlpacaJoinsInstructionAndInput) {
  const TemporaryFolder folder;
  const Loaded loaded = load(folder.write("a.jsonl", R"({"instruction": "Add", "input": "1 2", "output": "3"}
{"instruction": "Hi", "input": "", "output": "Ho", "system": "Be brief", "history": [["a", "b"]]}

{"instruction": "Hi", "input": null, "output": "Ho", "system": null, "history": []}
)"));
  EXPECT_EQ(loaded.report.layout, "alpaca");
  ASSERT_EQ(loaded.samples.size(), 3u);
  EXPECT_EQ(shown(loaded.samples[0]), "user: Add\n1 2 | assistant: 3");
  EXPECT_EQ(shown(loaded.samples[1]), "system: Be brief | user: a | assistant: b | user: Hi | assistant: Ho");
  EXPECT_EQ(shown(loaded.samples[2]), "user: Hi | assistant: Ho");
  EXPECT_EQ(loaded.samples[2].line, 4);
}

TEST(Dataset, MessagesAndSharegpt) {
  const TemporaryFolder folder;
  const Loaded openai = load(folder.write(
      "o.jsonl", R"({"messages": [{"role": "system", "content": "S"}, )"
                 R"({"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}]})"));
  EXPECT_EQ(openai.report.layout, "messages");
  EXPECT_EQ(shown(openai.samples.at(0)), "system: S | user: U | assistant: A");
  const Loaded sharegpt = load(folder.write("s.json", R"([{"conversations": [{"from": "human", "value": "U"},
    {"from": "gpt", "value": "A"}, {"from": "human", "value": "V"}, {"from": "gpt", "value": "B"}], "system": "S"}])"));
  EXPECT_EQ(sharegpt.report.layout, "sharegpt");
  EXPECT_EQ(shown(sharegpt.samples.at(0)), "system: S | user: U | assistant: A | user: V | assistant: B");
}

TEST(Dataset, PromptAndCompletionFromJsonlCsvAndTsv) {
  const TemporaryFolder folder;
  for (const auto& [name, content] : std::vector<std::pair<std::string, std::string>>{
           {"p.jsonl", "{\"prompt\": \"Q, q\", \"completion\": \"A\\nB\"}\n"},
           {"p.csv", "id,prompt,completion\r\n7,\"Q, q\",\"A\nB\"\r\n"},
           {"p.tsv", "prompt\tcompletion\nQ, q\t\"A\nB\"\n"}}) {
    const Loaded loaded = load(folder.write(name, content));
    EXPECT_EQ(loaded.report.layout, "prompt-completion") << name;
    ASSERT_EQ(loaded.samples.size(), 1u) << name;
    EXPECT_EQ(shown(loaded.samples[0]), "user: Q, q | assistant: A\nB") << name;
  }
}

TEST(Dataset, TextIsASampleOfItsOwnKind) {
  const TemporaryFolder folder;
  const Loaded json =
      load(folder.write("t.jsonl", "{\"text\": \"One.\"}\n{\"text\": \" \"}\n{\"text\": 3}\n"));
  EXPECT_EQ(json.report.layout, "text");
  ASSERT_EQ(json.samples.size(), 1u);
  EXPECT_TRUE(json.samples[0].whole_text);
  EXPECT_EQ(shown(json.samples[0]), "assistant: One.");
  EXPECT_EQ(json.report.empty, 1);
  EXPECT_EQ(json.report.rejected, 1);
  const Loaded plain = load(folder.write("t.txt", "One\nparagraph.\n\nAnother.\n"));
  EXPECT_THAT(plain.report.summary(), HasSubstr("t.txt: text by paragraphs, 2 of 2 records, format text"));
  EXPECT_EQ(shown(plain.samples.at(0)), "assistant: One\nparagraph.");
  EXPECT_EQ(plain.samples.at(1).line, 4);
}

TEST(Dataset, UsualWordsForRolesAreKnownAndToolsAreNamed) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("s.jsonl",
                   R"({"conversations": [{"from": "user", "value": "U"}, {"from": "assistant", "value": "A"}]}
{"conversations": [{"from": "system", "value": "S"}, {"from": "human", "value": "U"}, {"from": "gpt", "value": "A"}]}
{"conversations": [{"from": "human", "value": "U"}, {"from": "function_call", "value": "{}"}]}
{"conversations": [{"from": "human", "value": "U"}, {"from": "tool", "value": "{}"}]}
{"conversations": [{"from": "human", "value": "U"}, {"from": "somebody", "value": "A"}]}
)");
  const Loaded loaded = load(file);
  ASSERT_EQ(loaded.samples.size(), 2u);
  EXPECT_EQ(shown(loaded.samples[0]), "user: U | assistant: A");
  EXPECT_EQ(shown(loaded.samples[1]), "system: S | user: U | assistant: A");
  EXPECT_THAT(loaded.report.rejections,
              ElementsAre(HasSubstr(":3: message 2: the call is not JSON with name and arguments"),
                          HasSubstr(":4: message 2: the role is 'tool' where 'gpt' must follow"),
                          HasSubstr(":5: message 2: the role is 'somebody' where 'gpt' must follow")));
}

TEST(Dataset, MalformedRecordsAreSkippedWhereThatIsWished) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& name, const std::string& content) {
    const DatasetSource source{
        .name = "t", .file = folder.write(name, content), .layout = {}, .num_samples = {}};
    DatasetReader reader(source, {}, OnBadSample::skip);
    DatasetReader::Record record;
    while (reader.next(record)) {
      DatasetReader::Converted converted = reader.convert(std::move(record));
      (void)reader.take(converted);
    }
    return reader.finish();
  };
  const std::string good = R"({"prompt": "q", "completion": "r"})";
  const DatasetReport lines = read("a.jsonl", good + "\n{\"prompt\": \n" + good + "\n");
  EXPECT_EQ(lines.accepted, 2);
  EXPECT_EQ(lines.malformed, 1);
  EXPECT_THAT(lines.summary(), HasSubstr("a.jsonl: 1 records are malformed: skipped\n  "));
  EXPECT_THAT(lines.rejections, ElementsAre(HasSubstr("a.jsonl:2: not valid JSON")));
  EXPECT_EQ(read("a.json", "[" + good + ", {\"prompt\": \"q\",}, " + good + "]").malformed, 1);
  EXPECT_EQ(read("a.csv", "prompt,completion\n1,2\n1,2,3\n4,5\n").malformed, 1);
  // Where a record of an array ends is not known here, so nothing behind it can be trusted.
  EXPECT_THAT(
      error_of(ExitCode::data, [&] { read("b.json", "[" + good + ", {\"prompt\": \"q}, " + good + "]"); }),
      HasSubstr("b.json:1:"));
  EXPECT_THAT(error_of(ExitCode::usage, [] { (void)parse_on_bad_sample("ignore"); }), HasSubstr("'ignore'"));
}

TEST(Dataset, RejectedRecordsAreNamedWithFileLineAndReason) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.jsonl", R"({"query": "q", "response": "r"}
{"query": "q", "response": {"text": "r"}}
{"query": "q"}
[1]
{"query": "q", "response": "  "}
{"query": 7, "response": "r"}
{"query": "\ud83c\udf78 \ud83c", "response": "r"}
)");
  const Loaded loaded = load(file);
  const std::string at = file.string();
  EXPECT_THAT(
      loaded.report.rejections,
      ElementsAre(at + ":2: 'response' is an object, not text", at + ":3: there is no key 'response'",
                  at + ":4: the record is a list, not an object", at + ":6: 'query' is a number, not text"));
  EXPECT_EQ(loaded.report.rejected, 4);
  EXPECT_EQ(loaded.report.empty, 1);
  EXPECT_EQ(loaded.report.replaced, 1);
  ASSERT_EQ(loaded.samples.size(), 2u);
  EXPECT_EQ(loaded.samples[1].messages[0].content, "\xF0\x9F\x8D\xB8 \xEF\xBF\xBD");
  EXPECT_THAT(loaded.report.summary(), HasSubstr("1 records are empty: skipped\n"));
  EXPECT_THAT(loaded.report.summary(), HasSubstr("4 records are unusable: skipped\n  " + at + ":2: 'resp"));
}

TEST(Dataset, ConversationsMustTakeTurns) {
  const TemporaryFolder folder;
  const auto file =
      folder.write("a.jsonl",
                   R"({"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": "a"}]}
{"messages": [{"role": "user", "content": "u"}, {"role": "user", "content": "v"}]}
{"messages": [{"role": "user", "content": "u"}, {"role": "system", "content": "s"}]}
{"messages": [{"role": "user", "content": "u"}]}
{"messages": [{"role": "assistant", "content": "a"}]}
{"messages": [{"role": "user", "content": "u"}, {"role": "assistant", "content": [{"type": "text"}]}]}
{"messages": [{"role": "user", "content": "u"}, {"role": "tool", "content": "t"}]}
{"messages": [{"content": "u"}]}
{"messages": "u"}
{"messages": []}
{"messages": [{"role": "user", "content": ""}, {"role": "assistant", "content": "a"}]}
{"messages": [{"role": "system", "content": "s"}]}
)");
  const Loaded loaded = load(file);
  std::vector<std::string> reasons;
  for (const std::string& rejection : loaded.report.rejections) {
    reasons.push_back(rejection.substr(file.string().size() + 1));
  }
  EXPECT_THAT(reasons,
              ElementsAre("2: message 2: the role is 'user' where 'assistant' must follow",
                          "3: message 2: a system message may only be the first",
                          "4: the last message is not from 'assistant'",
                          "5: message 1: the role is 'assistant' where 'user' must follow",
                          "6: message 2: 'content' is a list, not text",
                          "7: message 2: the role is 'tool' where 'assistant' must follow",
                          "8: message 1: there is no key 'role'", "9: 'messages' is text, not a list"));
  EXPECT_EQ(loaded.report.empty, 3);
  EXPECT_EQ(loaded.report.accepted, 1);
}

TEST(Dataset, OnlyTheFirstTwentyRejectionsAreKept) {
  const TemporaryFolder folder;
  std::string text = "{\"query\": \"q\", \"response\": \"r\"}\n";
  for (int i = 0; i < 50; ++i) text += "{}\n";
  const Loaded loaded = load(folder.write("a.jsonl", text));
  EXPECT_EQ(loaded.report.rejected, 50);
  EXPECT_EQ(loaded.report.rejections.size(), 20u);
  EXPECT_THAT(loaded.report.summary(), HasSubstr("\n  and 30 more\n"));
}

TEST(Dataset, StopsAtTheNumberOfSamplesThatIsWanted) {
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 10; ++i) text += "{\"query\": \"q\", \"response\": \"r\"}\n{}\n";
  text += "not JSON";
  DatasetSource source{
      .name = "test", .file = folder.write("a.jsonl", text), .layout = {}, .num_samples = {}};
  EXPECT_EQ(load(source, 4).samples.size(), 4u);
  source.num_samples = 3;
  EXPECT_EQ(load(source, 4).samples.size(), 3u);
}

TEST(Dataset, MalformedJsonEndsTheReading) {
  const TemporaryFolder folder;
  const auto lines =
      folder.write("a.jsonl", "{\"query\": \"q\", \"response\": \"r\"}\n{\"query\": \"q\", }\n");
  EXPECT_THAT(error_of(ExitCode::data, [&] { load(lines); }),
              HasSubstr(lines.string() + ":2:16: not valid JSON"));
  const auto array = folder.write("a.json", "[\n{\"query\": \"q\", \"response\": \"r\"},\n{\"query\": \"q\"");
  EXPECT_THAT(error_of(ExitCode::data, [&] { load(array); }), HasSubstr(array.string() + ":3:1:"));
  error_of(ExitCode::data, [&] { load(folder.path() / "absent.json"); });
  error_of(ExitCode::data, [&] { load(folder.write("empty.json", "")); });
}

TEST(Dataset, WithoutAnyValidSampleTheExpectedKeysAreNamed) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.json", R"([{"question": "q", "answer": "a"}])");
  const std::string message = error_of(ExitCode::data, [&] { load(file); });
  EXPECT_THAT(message, HasSubstr(file.string() + ": no valid sample"));
  EXPECT_THAT(message, HasSubstr("a.json:1: it has 'answer', 'question', which fits no known format)"));
  EXPECT_THAT(message,
              HasSubstr("; expected are the keys query and response, or instruction and output, or"));
  EXPECT_THAT(error_of(ExitCode::data, [&] { load(folder.write("b.json", "[]")); }),
              HasSubstr("of 0 records"));
}

TEST(DatasetInfo, ColumnsAndTagsDescribeAnyRecord) {
  const TemporaryFolder folder;
  folder.write("q.json", R"([{"q": "2+2", "a": "4", "input": "not a column here"}])");
  folder.write("c.json", R"([{"talk": [{"who": "me", "text": "U"}, {"who": "it", "text": "A"}]}])");
  folder.write(
      "o.json",
      R"([{"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}]}])");
  folder.write("dataset_info.json", R"({
    "math": {"file_name": "q.json", "columns": {"prompt": "q", "response": "a"}, "num_samples": 5},
    "chat": {"file_name": "c.json", "formatting": "sharegpt", "columns": {"messages": "talk"},
             "tags": {"role_tag": "who", "content_tag": "text", "user_tag": "me", "assistant_tag": "it"}},
    "openai": {"file_name": "o.json", "formatting": "openai"},
    "auto": {"file_name": "o.json"}})");
  const auto sources = find_datasets("math, chat,openai,auto", folder.path());
  ASSERT_EQ(sources.size(), 4u);
  EXPECT_EQ(sources[0].num_samples, 5);
  EXPECT_EQ(shown(load(sources[0]).samples.at(0)), "user: 2+2 | assistant: 4");
  for (int i = 1; i < 4; ++i) EXPECT_EQ(shown(load(sources[i]).samples.at(0)), "user: U | assistant: A") << i;
}

TEST(DatasetInfo, TextColumnsTagsOfToolsAndKeysOfDownloads) {
  const TemporaryFolder folder;
  folder.write("t.csv", "body,id\nSome words.,1\n");
  folder.write("c.json",
               R"([{"conversations": [{"from": "me", "value": "U"}, {"from": "call", "value": "A"}]},
    {"conversations": [{"from": "me", "value": "U"}, {"from": "it", "value": "A"}]}])");
  folder.write("dataset_info.json", R"({
    "text": {"file_name": "t.csv", "columns": {"text": "body"}, "split": "train", "subset": "main", "ranking": false},
    "tools": {"file_name": "c.json", "formatting": "sharegpt",
              "tags": {"user_tag": "me", "assistant_tag": "it", "function_tag": "call", "observation_tag": "result"}}})");
  const auto sources = find_datasets("text,tools", folder.path());
  const Loaded text = load(sources[0]);
  EXPECT_TRUE(text.samples.at(0).whole_text);
  EXPECT_EQ(shown(text.samples.at(0)), "assistant: Some words.");
  EXPECT_THAT(sources[0].notices, ElementsAre(HasSubstr("dataset 'text': split changes nothing"),
                                              HasSubstr("dataset 'text': subset changes nothing")));
  const Loaded tools = load(sources[1]);
  EXPECT_EQ(tools.samples.size(), 1u);
  EXPECT_THAT(tools.report.rejections,
              ElementsAre(HasSubstr("the call is not JSON with name and arguments")));
}

TEST(DatasetInfo, APlainFileIsADatasetToo) {
  const TemporaryFolder folder;
  const auto file = folder.write("a.json", R"([{"query": "q", "response": "r"}])");
  EXPECT_EQ(find_datasets(file.string(), "nowhere").at(0).file, file);
  EXPECT_EQ(find_datasets("a.json", folder.path()).at(0).file, file);
}

TEST(DatasetInfo, AListMayNameFilesWithCommas) {
  const TemporaryFolder folder;
  const auto file = folder.write("a,b.json", R"([{"query": "q", "response": "r"}])");
  const std::vector<std::string> names{"a,b.json", file.string()};
  const auto sources = find_datasets(names, folder.path());
  ASSERT_EQ(sources.size(), 2U);
  EXPECT_EQ(sources[0].file, file);
  EXPECT_EQ(sources[1].file, file);
}

TEST(DatasetInfo, WhatIsNoFileIsCalledWhatItIs) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.path() / "inner");
  EXPECT_THAT(error_of(ExitCode::data, [&] { (void)find_datasets("inner", folder.path()); }),
              HasSubstr("inner: a folder, where a file is needed"));
}

TEST(DatasetInfo, EveryFaultIsNamed) {
  const TemporaryFolder folder;
  folder.write("d.json", "[]");
  folder.write("dataset_info.json", R"({
    "hub": {"hf_hub_url": "someone/something"}, "gone": {"file_name": "gone.json"}, "no_file": {},
    "list": [], "number": {"file_name": 3}, "format": {"file_name": "d.json", "formatting": "parquet"},
    "column": {"file_name": "d.json", "columns": {"prompt": "q", "images": "i"}},
    "half": {"file_name": "d.json", "columns": {"prompt": "q"}},
    "pairs": {"file_name": "d.json", "columns": {"prompt": "q", "chosen": "c", "rejected": "r"}},
    "texts": {"file_name": "d.json", "columns": {"text": "t", "prompt": "q"}},
    "rank": {"file_name": "d.json", "ranking": true}, "count": {"file_name": "d.json", "num_samples": 0},
    "key": {"file_name": "d.json", "colums": {}}, "tag": {"file_name": "d.json", "tags": {"role": "x"}}})");
  const auto fault = [&](const char* name) {
    return error_of(ExitCode::data, [&] { (void)find_datasets(name, folder.path()); });
  };
  EXPECT_THAT(fault("hub"), HasSubstr("dataset 'hub' has to be downloaded (hf_hub_url): download it"));
  EXPECT_THAT(fault("gone"), HasSubstr("gone.json does not exist"));
  EXPECT_THAT(fault("no_file"), HasSubstr("file_name is missing"));
  EXPECT_THAT(fault("list"), HasSubstr("is not an object"));
  EXPECT_THAT(fault("number"), HasSubstr("file_name must be text"));
  EXPECT_THAT(fault("format"), HasSubstr("formatting is 'parquet'; use alpaca, sharegpt or openai"));
  EXPECT_THAT(fault("column"), HasSubstr("images: only text can be trained on"));
  EXPECT_THAT(fault("half"), HasSubstr("columns must name at least prompt and response"));
  EXPECT_THAT(fault("rank"), HasSubstr("is a ranking dataset"));
  EXPECT_THAT(fault("pairs"), HasSubstr("chosen is for ranking datasets"));
  EXPECT_THAT(fault("texts"), HasSubstr("text is learned as a whole"));
  EXPECT_THAT(fault("count"), HasSubstr("num_samples must be a whole number above 0"));
  EXPECT_THAT(fault("key"), HasSubstr("key 'colums' is not supported"));
  EXPECT_THAT(fault("tag"), HasSubstr("key 'role' is not supported"));
  EXPECT_THAT(fault("unknown"), HasSubstr("dataset 'unknown' is neither a file nor in"));
  EXPECT_THAT(fault(" , "), HasSubstr("no dataset is named"));
  EXPECT_THAT(error_of(ExitCode::data, [&] { (void)find_datasets("x", folder.path() / "absent"); }),
              HasSubstr("dataset 'x' is not a file, and there is no"));
  folder.write("dataset_info.json", "{\n \"a\": ,}");
  EXPECT_THAT(fault("a"), HasSubstr("dataset_info.json:2:"));
}

TEST(Dataset, ToolsCallsAndReasoning) {
  const TemporaryFolder folder;
  const auto file = folder.write(
      "a.jsonl",
      R"({"messages": [{"role": "user", "content": "Weather?"},)"
      R"( {"role": "assistant", "content": null, "reasoning_content": "ask", "tool_calls": [{"function": {"name": "w", "arguments": {"z": 1, "a": 2}}}]},)"
      R"( {"role": "tool", "content": "rain", "tool_call_id": "c1"}, {"role": "tool", "content": ""},)"
      R"( {"role": "assistant", "content": "Rain."}], "tools": [{"name": "w", "about": "weather"}]})"
      "\n"
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "tool", "content": "b"}]})"
      "\n"
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "tool_calls": [1]}]})"
      "\n"
      R"({"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "tools": "{}"})"
      "\n");
  const Loaded loaded = load(file);
  ASSERT_EQ(loaded.samples.size(), 1u);
  const Sample& sample = loaded.samples[0];
  EXPECT_EQ(sample.tools, R"([{"name":"w","about":"weather"}])");
  ASSERT_EQ(sample.messages.size(), 5u);
  EXPECT_EQ(sample.messages[1].tool_calls, R"([{"function":{"name":"w","arguments":{"z":1,"a":2}}}])");
  EXPECT_EQ(sample.messages[1].reasoning_content, "ask");
  EXPECT_EQ(sample.messages[2].role, Role::tool);
  EXPECT_EQ(sample.messages[2].tool_call_id, "c1");
  EXPECT_THAT(loaded.report.rejections,
              ElementsAre(HasSubstr("message 2: the role is 'tool' where 'assistant' must follow"),
                          HasSubstr("message 2: 'tool_calls' is not a list of objects"),
                          HasSubstr("'tools' is not a list in JSON")));
}

TEST(Dataset, SharegptCallsAndObservations) {
  const TemporaryFolder folder;
  const auto file = folder.write(
      "a.jsonl",
      R"x({"conversations": [{"from": "human", "value": "a"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"b\": 1, \"a\": 2}}"},)x"
      R"x( {"from": "observation", "value": "3"}, {"from": "gpt", "value": "c"}], "tools": "[{\"name\": \"f\"}]"})x"
      "\n"
      R"x({"conversations": [{"from": "human", "value": "a"}, {"from": "function_call", "value": "f(1)"}]})x"
      "\n");
  const Loaded loaded = load(file);
  ASSERT_EQ(loaded.samples.size(), 1u);
  EXPECT_EQ(loaded.samples[0].tools, R"([{"name": "f"}])");
  EXPECT_EQ(loaded.samples[0].messages[1].tool_calls,
            R"([{"type":"function","function":{"name":"f","arguments":{"b":1,"a":2}}}])");
  EXPECT_EQ(loaded.samples[0].messages[1].content, "");
  EXPECT_EQ(loaded.samples[0].messages[2].role, Role::tool);
  EXPECT_THAT(loaded.report.rejections,
              ElementsAre(HasSubstr("the call is not JSON with name and arguments")));
}

}  // namespace
}  // namespace lazytrain
