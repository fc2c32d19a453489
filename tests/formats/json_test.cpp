#include "formats/json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/file.h"
#include "formats/formats_support.h"

namespace lazytrain {
namespace {

void expect_bad(const std::string& words, std::string_view text) {
  expect_error(ExitCode::usage, words, [&] { (void)parse_json(text, "file.json", ExitCode::usage); });
}

TEST(Json, ErrorsGiveLineAndColumn) {
  expect_bad("file.json:2:5: not valid JSON: invalid literal", "{\n\"a\":x}");
  expect_bad("file.json:1:1: not valid JSON", "");
  expect_bad("file.json:1:8: not valid JSON", "{\"a\":1}}");
  expect_bad("file.json:1:201: nested deeper than 200 levels", std::string(1'000'000, '['));
  expect_bad("a number is out of range", "[1e400]");
  expect_bad("file.json:1:3: not valid JSON: invalid string: ill-formed UTF-8 byte", "[\"\xFF\"]");
}

TEST(Json, OrderIsKeptOnRequest) {
  EXPECT_EQ(parse_ordered_json(R"({"b":1,"a":2})", "x", ExitCode::data).dump(), R"({"b":1,"a":2})");
  EXPECT_EQ(parse_json(R"({"b":1,"a":2})", "x", ExitCode::data).dump(), R"({"a":2,"b":1})");
}

TEST(Json, DuplicateKeysAreRefusedOnRequest) {
  EXPECT_EQ(parse_json(R"({"a":1,"a":2})", "x", ExitCode::data)["a"], 2);
  expect_error(ExitCode::data, "x: the key 'a' appears twice in one object",
               [] { (void)parse_unique_json(R"({"b":[{"a":1},{"a":1,"a":2}]})", "x", ExitCode::data); });
  EXPECT_EQ(parse_unique_json(R"({"a":{"a":1},"b":{"a":1}})", "x", ExitCode::data)["b"]["a"], 1);
}

TEST(Json, FilesAreWrittenWithAFinalNewlineAndReadBack) {
  const TemporaryFolder folder;
  write_json(folder.path() / "a.json", nlohmann::json{{"x", {1, 2}}});
  EXPECT_EQ(read_file(folder.path() / "a.json"), "{\n  \"x\": [\n    1,\n    2\n  ]\n}\n");
  EXPECT_EQ(read_json(folder.path() / "a.json", ExitCode::data)["x"][1], 2);
}

TEST(Json, FilesThatAreNoJsonAreNamed) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& name) {
    (void)read_json(folder.path() / name, ExitCode::model_file);
  };
  expect_error(ExitCode::model_file, "absent.json: no such file", [&] { read("absent.json"); });
  folder.write("empty.json", "");
  expect_error(ExitCode::model_file, "empty.json: the file is empty", [&] { read("empty.json"); });
  folder.write("pointer.json", "version https://git-lfs.github.com/spec/v1\n");
  expect_error(ExitCode::model_file, "pointer.json: a Git-LFS pointer", [&] { read("pointer.json"); });
}

}  // namespace
}  // namespace lazytrain
