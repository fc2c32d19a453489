// How a dataset's records spell a conversation, and the conversion of one record into a sample. Six layouts
// are known by their keys; dataset_info.json can describe others in LLaMA-Factory's terms (columns and tags).
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/parquet_stream.h"
#include "text/chat_template.h"

namespace lazytrain {

// One conversation to learn from: an optional system message, then user and assistant in turn, the assistant
// last. An assistant that calls tools is followed by what they say, and speaks again.
struct Sample {
  std::vector<Message> messages;
  std::string tools;        // a JSON list of what the assistant may call; empty: none
  bool whole_text = false;  // no conversation: the one message is text to be learned from its beginning
  std::string
      original_question;  // of a rephrased problem: what must not be split over training and validation
  std::int64_t line = 0;  // where the record begins in its file, 1-based
};

enum class Formatting : std::uint8_t {
  alpaca,    // a prompt with an optional query, and a response, each under a key of its own
  sharegpt,  // a list of messages, each with a role and a content
  text       // one text under a key of its own, all of which is learned
};

// Empty key = records have no such thing.
struct RecordLayout {
  std::string name;  // for messages to the user
  Formatting formatting = Formatting::alpaca;
  // alpaca: the user says prompt + "\n" + query; history = [[user, assistant], ...] before that.
  std::string prompt, query, response, history;
  // sharegpt: the list, and the spelling of its items. Tools' results and calls are known so that they can
  // be named.
  std::string messages, role_tag, content_tag, user_tag, assistant_tag, system_tag;
  std::string tool_tag;  // the role of what a tool says
  std::string
      function_tag;  // the role of an assistant whose content is a call, {"name": ..., "arguments": ...}
  bool usual_roles = false;  // user, human, assistant, gpt... count as user_tag and assistant_tag
  std::string text;          // text: its key
  // both
  std::string system, tools;
};

// metamath (query, response), alpaca (instruction, input, output, system, history), messages (role, content),
// sharegpt (conversations of from, value), prompt-completion (prompt, completion) and text (text).
[[nodiscard]] const std::vector<RecordLayout>& known_layouts();

// The first known layout whose required keys the record has; nullopt where it fits none.
[[nodiscard]] std::optional<RecordLayout> find_layout(const nlohmann::json& record);

// What is looked at in a record of this layout.
[[nodiscard]] std::vector<RecordColumn> used_columns(const RecordLayout& layout);

// The keys a file must have to be understood, as the end of a sentence.
[[nodiscard]] std::string expected_keys();

// A record as a sample, or why it is none. `empty`: nothing is wrong but there is no text to learn.
struct Conversion {
  std::optional<Sample> sample;
  bool empty = false;
  std::string reason;
};
// `text`: the record as it lies in the file; given that, the keys of tools and their calls keep their order,
// which templates print.
[[nodiscard]] Conversion to_sample(const nlohmann::json& record, const RecordLayout& layout,
                                   std::string_view text = {});

}  // namespace lazytrain
