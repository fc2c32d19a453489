#include "formats/yaml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "formats/formats_support.h"

namespace lazytrain {
namespace {

using Kind = YamlNode::Kind;

YamlNode parse(std::string_view text) {
  return parse_yaml(text, "run.yaml", ExitCode::usage);
}

void expect_refused(const std::string& words, const std::string& text) {
  expect_error(ExitCode::usage, words, [&] { (void)parse(text); });
}

TEST(Yaml, FlatMappingKeepsTextAndPosition) {
  const auto root =
      parse("# run\nlearning_rate: 1e-4\nbf16: true\n\noutput_dir: \"out: 1\"  # where\nempty:\nnone: ~\n");
  ASSERT_EQ(root.kind, Kind::mapping);
  ASSERT_EQ(root.keys.size(), 5u);
  EXPECT_EQ(root.keys[0].text, "learning_rate");
  EXPECT_EQ(root.items[0].text, "1e-4");
  EXPECT_FALSE(root.items[0].quoted);
  EXPECT_EQ(root.items[0].line, 2);
  EXPECT_EQ(root.items[0].column, 16);
  EXPECT_EQ(root.keys[2].line, 5);
  EXPECT_EQ(root.find("output_dir")->text, "out: 1");
  EXPECT_TRUE(root.find("output_dir")->quoted);
  EXPECT_EQ(root.find("empty")->kind, Kind::null);
  EXPECT_EQ(root.find("none")->kind, Kind::null);
  EXPECT_EQ(root.find("absent"), nullptr);
}

TEST(Yaml, NestedMappingsAndSequences) {
  const auto root = parse(
      "machine:\n  links:\n    - name: h2d\n      rate: 25\n    - {name: d2h, rate: 24}\nlist: [a, 'b', "
      "3]\n");
  const auto* links = root.find("machine")->find("links");
  ASSERT_EQ(links->kind, Kind::sequence);
  ASSERT_EQ(links->items.size(), 2u);
  EXPECT_EQ(links->items[1].find("rate")->text, "24");
  EXPECT_EQ(links->items[0].find("rate")->line, 4);
  const auto* list = root.find("list");
  ASSERT_EQ(list->items.size(), 3u);
  EXPECT_EQ(list->items[2].text, "3");
}

TEST(Yaml, OtherWaysToWriteText) {
  EXPECT_EQ(parse("a: |\n  x\n  y\n").find("a")->text, "x\ny\n");
  EXPECT_EQ(parse("\xEF\xBB\xBF"
                  "a: 1\r\nb: 2\r\n")
                .find("b")
                ->text,
            "2");
  EXPECT_EQ(parse("%YAML 1.2\n---\na: 1\n...\n").find("a")->text, "1");
  EXPECT_TRUE(parse("a: !!str 5\n").find("a")->quoted);
  EXPECT_EQ(parse("a: \"\\u00e9\"").find("a")->text, "\xC3\xA9");
  EXPECT_EQ(parse("").kind, Kind::null);
  EXPECT_EQ(parse("# only a comment\n").kind, Kind::null);
  EXPECT_EQ(parse("3").text, "3");
}

TEST(Yaml, DuplicateKeysNameBothLines) {
  expect_refused("run.yaml:3:1: the key 'seed' stands here and on line 1", "seed: 1\nx: 2\nseed: 3\n");
  expect_refused("run.yaml:3:3: the key 'b' stands here and on line 2", "a:\n  b: 1\n  b: 2\n");
  EXPECT_EQ(parse("a: {x: 1}\nb: {x: 2}\n").find("b")->find("x")->text, "2");
}

TEST(Yaml, SyntaxErrorsGiveLineAndColumn) {
  expect_refused("run.yaml:2:3: not valid YAML", "a: 1\n b: 2\n");
  expect_refused("run.yaml:2:", "a:\n\tb: 1\n");
  expect_refused("not valid YAML", "a: [1, 2\n");
  expect_refused("run.yaml:1:4: not valid YAML", "a: \"x\n");
  expect_refused("not valid YAML", "a: b: c\n");
  expect_refused("run.yaml:1:4: not valid YAML: the quote that opens here is never closed",
                 "a: 'it''s\nb: 2\n");
  EXPECT_EQ(parse("é: \"é\\\"\"\nb: 'it''s'\n").find("b")->text, "it's");
  expect_refused("run.yaml:2:4: not UTF-8 text here", "a: 1\nb: \xFF\n");
  expect_refused("run.yaml:1:4: a control character", std::string("a: \0", 4));
}

TEST(Yaml, WhatConfigurationsDoNotNeedIsRefused) {
  expect_refused("run.yaml:2:4: aliases ('*name') are not supported", "a: &x 1\nb: *x\n");
  expect_refused("merge keys ('<<') are not supported", "a: 1\n<<: {b: 2}\n");
  expect_refused("run.yaml:2:1: a second document", "a: 1\n---\nb: 2\n");
  expect_refused("the tag '!python/object:os.system' is not supported", "a: !python/object:os.system x\n");
  expect_refused("a key must be a plain word", "? [1, 2]\n: 3\n");
  expect_refused("is a bracket left open?", std::string(100'000, '['));
  expect_refused("is a bracket left open?", std::string(100'000, '{'));
  expect_refused("run.yaml:1:35: nested deeper than 32 levels",
                 "a: " + std::string(100, '[') + std::string(100, ']'));
  std::string dashes;
  for (int i = 0; i < 50'000; ++i) dashes += "- ";
  expect_refused("nested deeper than 32 levels", dashes);
  expect_refused("bytes are too many for a YAML configuration", std::string((1 << 20) + 1, ' '));
  expect_refused("aliases", "a: &a [x,x,x]\nb: &b [*a,*a,*a]\nc: &c [*b,*b,*b]\n");
}

TEST(Yaml, FilesThatAreNoYamlAreNamed) {
  const TemporaryFolder folder;
  const auto read = [&](const std::string& name) { (void)read_yaml(folder.path() / name, ExitCode::usage); };
  expect_error(ExitCode::usage, "absent.yaml: no such file", [&] { read("absent.yaml"); });
  folder.write("empty.yaml", "");
  expect_error(ExitCode::usage, "empty.yaml: the file is empty", [&] { read("empty.yaml"); });
  folder.write("bad.yaml", "a: 1\na: 2\n");
  expect_error(ExitCode::usage, (folder.path() / "bad.yaml").string() + ":2:1: the key 'a'",
               [&] { read("bad.yaml"); });
  std::filesystem::create_directory(folder.path() / "folder.yaml");
  expect_error(ExitCode::usage, "folder.yaml: a folder, where a file is needed",
               [&] { read("folder.yaml"); });
}

TEST(Yaml, APipeIsReadToItsEnd) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  ASSERT_EQ(write(ends[1], "seed: 3\n", 8), 8);
  close(ends[1]);
  const YamlNode root = read_yaml("/proc/self/fd/" + std::to_string(ends[0]), ExitCode::usage);
  close(ends[0]);
  ASSERT_NE(root.find("seed"), nullptr);
  EXPECT_EQ(root.find("seed")->text, "3");
}

int count(const YamlNode& node) {
  int total = 1;
  EXPECT_EQ(node.keys.size(), node.kind == Kind::mapping ? node.items.size() : 0u);
  for (const YamlNode& item : node.items) total += count(item);
  return total;
}

TEST(YamlMutations, NeverCrash) {
  const std::vector<std::string> originals = {
      "model_name_or_path: models/x\nstage: sft\nlearning_rate: 1.0e-4  # peak\nmachine:\n  links:\n    - "
      "{name: h2d, rate: 25}\n"
      "    - name: d2h\nlist: [a, 'b', \"c\\n\", 3]\n",
      "a: |\n  text\n  more\nb: >-\n  folded\n  text\n? c\n: &x d\ne: !!str 5\n---\n"};
  const std::vector<std::string> tokens = {
      "[",  "]",  "{",  "}",   ": ",  "- ", "? ", ", ",  "\n",  "\n  ",     "&a ",         "*a",
      "!",  "!<", "%",  "---", "...", "|",  ">",  "\"",  "'",   "\\x",      "\\U00110000", "#",
      "\t", "<<", "\r", "@",   "`",   "=",  "~",  "|9-", ">+1", "\xC2\x85", "\xE2\x80\xA8"};
  const int accepted = read_mutations(originals, tokens, [](const std::filesystem::path& path) {
    ASSERT_LT(count(read_yaml(path, ExitCode::usage)), 10'000);
  });
  EXPECT_GT(accepted, 500);
}

}  // namespace
}  // namespace lazytrain
