// Templates with what Jinja2 3.1.6 makes of them under transformers' settings; see make_jinja_vectors.py.
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <string>

#include "jinja_support.h"
#include "small_tokenizer.h"

namespace lazytrain::testing {
namespace {

TEST(JinjaVectors, EveryTemplateRendersAsRecorded) {
  std::ifstream lines(kTextData / "chat_templates" / "jinja.jsonl");
  std::string line, variables;
  std::getline(lines, variables);
  int count = 0;
  for (; std::getline(lines, line); ++count) {
    const auto row = nlohmann::ordered_json::parse(line);
    const auto source = row.at("template").get<std::string>();
    std::string result;
    try {
      result = rendered(source, variables);
    } catch (const Error& error) {
      if (row.contains("error")) continue;
      result = std::string("error: ") + error.what();
    }
    EXPECT_FALSE(row.contains("error")) << source << " gives " << result;
    if (row.contains("rendered")) {
      EXPECT_EQ(result, row.at("rendered").get<std::string>()) << source;
    }
  }
  std::cout << "  " << count << " templates\n";
  EXPECT_GE(count, 300);
}

}  // namespace
}  // namespace lazytrain::testing
