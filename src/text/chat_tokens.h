// Which parts of a rendered conversation the model is to say itself, and the conversation as token ids.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "text/marked_text.h"
#include "text/tokenizer.h"

namespace lazytrain {

// One assistant's turn in a rendered text, in bytes. What opens the turn lies before `begin`: it is there
// when the model starts to speak. From there to `content_end` the model speaks; what ends the turn follows,
// and lies before `end` where the turn was written in one pass over its message.
struct AnswerSpan {
  std::int32_t turn = 0;
  std::size_t begin = 0, content_end = 0, end = 0;
  bool operator==(const AnswerSpan&) const = default;
};

// `opening` is what the template writes for the model to go on from (its generation prompt), all markup. A
// turn that begins with less of it (no block of thoughts, for example) is opened by the part it has; `cuts`
// are the lengths at which such a part may end, the longest first. Where a turn has none of it, all markup
// before its first own word opens it; with an empty `opening` nothing does.
struct Opening {
  std::string text;
  std::vector<std::size_t> cuts;
};
// At the ends of lines and of special tokens.
Opening opening_of(const std::string& text, const Tokenizer& tokenizer);

// The turns of messages that are marked so by the words they say (Source::answer), or that are in
// `assistant_turns` (sorted) and say nothing.
std::vector<AnswerSpan> find_answers(const MarkedText& text, std::span<const std::int32_t> assistant_turns,
                                     const Opening& opening);

struct TokenMarks {
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> supervised;  // one per id
};

struct TokenizeAnswers {
  bool generation_blocks = false;  // learned is what lies in {% generation %}, and nothing else
  std::int32_t only_turn = -1;     // learn this turn alone; -1: all
  bool cut_after_end = false;      // leave out white space behind the last special token
};

// Text is encoded as a whole, except that an answer is encoded apart from its opening. Special tokens come
// from markup alone. Learned are the answers and the token that ends them: the first after the content, in
// what the template writes for the turn, that is one of `stop_ids` (sorted), else the first special one.
// Behind the turn only one of `stop_ids` counts, and only white space may stand before it.
TokenMarks tokenize_answers(const MarkedText& text, std::span<const AnswerSpan> answers,
                            const Tokenizer& tokenizer, std::span<const std::int32_t> stop_ids,
                            const TokenizeAnswers& options);

}  // namespace lazytrain
