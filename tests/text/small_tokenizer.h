// A tokenizer small enough to compute by hand: the id of a byte is its value, merges follow from 256 on, and
// the pre-tokenizer is GPT-2's. Tests patch its JSON to say what they are about.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "text/byte_level.h"
#include "text/tokenizer.h"

namespace lazytrain::testing {

inline const std::filesystem::path kTextData = std::filesystem::path(LAZYTRAIN_TESTS_DIR) / "data" / "text";

// Each merge joins two strings of bytes.
using Merges = std::vector<std::pair<std::string, std::string>>;

inline nlohmann::json small_document(const Merges& merges = {{"a", "b"}, {"ab", "c"}, {" ", "ab"}}) {
  nlohmann::json vocab = nlohmann::json::object(), list = nlohmann::json::array();
  for (int byte = 0; byte < 256; ++byte) {
    const char c = static_cast<char>(byte);
    vocab[spelling_of_bytes({&c, 1})] = byte;
  }
  int next = 256;
  for (const auto& [left, right] : merges) {
    vocab[spelling_of_bytes(left + right)] = next++;
    list.push_back(spelling_of_bytes(left) + " " + spelling_of_bytes(right));
  }
  const nlohmann::json level = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", true}};
  return {{"added_tokens", nlohmann::json::array()},
          {"normalizer", nullptr},
          {"pre_tokenizer", level},
          {"post_processor", nullptr},
          {"decoder", level},
          {"model", {{"type", "BPE"}, {"vocab", std::move(vocab)}, {"merges", std::move(list)}}}};
}

inline nlohmann::json special_token(const std::string& content, int id) {
  return {{"content", content}, {"id", id}, {"special", true}, {"normalized", false}};
}

inline Tokenizer tokenizer_of(const nlohmann::json& document) {
  return Tokenizer::parse(document.dump(), "tokenizer.json");
}

// The sentence of the error with which `action` ends.
template <typename Action>
std::string error_of(ExitCode code, Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return {};
}

}  // namespace lazytrain::testing
