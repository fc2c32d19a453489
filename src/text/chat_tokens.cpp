#include "text/chat_tokens.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <string_view>

namespace lazytrain {
namespace {

bool is_markup(const MarkedText& text, std::size_t begin, std::size_t end) {
  std::size_t from = 0;
  for (const MarkRun& run : text.runs()) {
    if (run.end > begin && from < end && run.mark.source != Source::markup) return false;
    from = run.end;
  }
  return true;
}

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\n") == std::string_view::npos;
}

// The last place in [begin, end) where the template wrote `part`; the offset behind it.
std::optional<std::size_t> last_end_of(std::string_view part, const MarkedText& text, std::size_t begin,
                                       std::size_t end) {
  const std::string_view head = std::string_view(text.bytes()).substr(begin, end - begin);
  for (std::size_t at = head.rfind(part); at != std::string_view::npos; at = head.rfind(part, at - 1)) {
    if (is_markup(text, begin + at, begin + at + part.size())) return begin + at + part.size();
    if (at == 0) break;
  }
  return std::nullopt;
}

// Where the opening of a turn ends, whose markup before its first word is [begin, end).
std::size_t end_of_opening(const MarkedText& text, std::size_t begin, std::size_t end,
                           const Opening& opening) {
  if (opening.text.empty()) return begin;
  for (const std::size_t cut : opening.cuts)
    if (const auto found = last_end_of(std::string_view(opening.text).substr(0, cut), text, begin, end))
      return *found;
  return end;
}

bool contains(std::span<const std::int32_t> sorted, std::int32_t value) {
  return std::binary_search(sorted.begin(), sorted.end(), value);
}

class Encoder {
 public:
  Encoder(const MarkedText& text, const Tokenizer& tokenizer) : text_(text), tokenizer_(tokenizer) {
    std::size_t begin = 0;
    for (const MarkRun& run : text.runs()) {
      if (run.mark.source != Source::markup) plain_.push_back({begin, run.end});
      begin = run.end;
    }
  }

  // Text up to `end`, apart from what comes behind it.
  void piece(std::size_t end) {
    if (end <= done_) return;
    std::vector<ByteRange> plain;
    for (const ByteRange& range : plain_) {
      if (range.end > done_ && range.begin < end)
        plain.push_back({std::max<std::uint64_t>(range.begin, done_) - done_,
                         std::min<std::uint64_t>(range.end, end) - done_});
    }
    const std::size_t first = ids.size();
    const bool in_text = !ids.empty() && !tokenizer_.is_special(ids.back());
    tokenizer_.encode(std::string_view(text_.bytes()).substr(done_, end - done_),
                      {.add_special_tokens = false,
                       .parse_special = true,
                       .continues = in_text,
                       .first = done_ == 0,
                       .plain = plain},
                      ids, &ranges);
    for (std::size_t i = first; i < ranges.size(); ++i) {
      ranges[i].begin += done_;
      ranges[i].end += done_;
    }
    done_ = end;
  }

  std::vector<std::int32_t> ids;
  std::vector<ByteRange> ranges;

 private:
  const MarkedText& text_;
  const Tokenizer& tokenizer_;
  std::vector<ByteRange> plain_;
  std::size_t done_ = 0;
};

struct TokenText {
  const MarkedText& text;
  const Tokenizer& tokenizer;
  const std::vector<std::int32_t>& ids;
  const std::vector<ByteRange>& ranges;

  // The first token that begins at or behind `offset`.
  [[nodiscard]] std::size_t at(std::size_t offset) const {
    const auto found = std::partition_point(ranges.begin(), ranges.end(),
                                            [&](const ByteRange& range) { return range.begin < offset; });
    return static_cast<std::size_t>(found - ranges.begin());
  }
  // The token that ends the answer; nothing where the template writes none.
  [[nodiscard]] std::optional<std::size_t> end_token(const AnswerSpan& answer,
                                                     std::span<const std::int32_t> stop_ids) const {
    std::optional<std::size_t> special;
    std::size_t i = at(answer.content_end);
    for (; i < ids.size() && ranges[i].begin < answer.end; ++i) {
      if (contains(stop_ids, ids[i])) return i;
      if (!special && tokenizer.is_special(ids[i])) special = i;
    }
    if (special) return special;
    for (; i < ids.size(); ++i) {
      if (contains(stop_ids, ids[i]) && is_markup(text, ranges[i].begin, ranges[i].end)) return i;
      if (!is_blank(tokenizer.bytes(ids[i])) || !is_markup(text, ranges[i].begin, ranges[i].end)) break;
    }
    return std::nullopt;
  }
};

void cut_after_last_special(const TokenText& tokens, TokenMarks& result) {
  for (std::size_t i = result.ids.size(); i-- > 0;) {
    const ByteRange range = tokens.ranges[i];
    if (!is_markup(tokens.text, range.begin, range.end)) return;
    if (tokens.tokenizer.is_special(result.ids[i])) {
      result.ids.resize(i + 1);
      result.supervised.resize(i + 1);
      return;
    }
    if (!is_blank(tokens.tokenizer.bytes(result.ids[i]))) return;
  }
}

// Bytes written inside {% generation %}; with `turn`, only of this turn.
std::vector<ByteRange> generated_ranges(const MarkedText& text, std::int32_t turn) {
  std::vector<ByteRange> ranges;
  std::size_t begin = 0;
  for (const MarkRun& run : text.runs()) {
    if (run.mark.generated && (turn < 0 || run.mark.turn == turn)) {
      if (!ranges.empty() && ranges.back().end == begin) {
        ranges.back().end = run.end;
      } else {
        ranges.push_back({begin, run.end});
      }
    }
    begin = run.end;
  }
  return ranges;
}

}  // namespace

Opening opening_of(const std::string& text, const Tokenizer& tokenizer) {
  Opening opening{.text = text, .cuts = {}};
  std::vector<std::int32_t> ids;
  std::vector<ByteRange> ranges;
  tokenizer.encode(text, {}, ids, &ranges);
  const auto cut = [&](std::size_t at) {
    // What a letter follows is the beginning of a role's name, which never stands alone.
    if (at == text.size() || std::isalnum(static_cast<unsigned char>(text[at])) == 0)
      opening.cuts.push_back(at);
  };
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (tokenizer.is_special(ids[i])) cut(ranges[i].end);
  for (std::size_t at = text.find('\n'); at != std::string::npos; at = text.find('\n', at + 1)) cut(at + 1);
  cut(text.size());
  std::sort(opening.cuts.rbegin(), opening.cuts.rend());
  opening.cuts.erase(std::unique(opening.cuts.begin(), opening.cuts.end()), opening.cuts.end());
  return opening;
}

std::vector<AnswerSpan> find_answers(const MarkedText& text, std::span<const std::int32_t> assistant_turns,
                                     const Opening& opening) {
  struct Group {
    std::int32_t turn;
    std::size_t begin, end;
    std::optional<std::size_t> first_word, last_word;
  };
  std::vector<Group> groups;
  std::size_t begin = 0;
  for (const MarkRun& run : text.runs()) {
    // Markup of no turn may stand inside of one.
    if (run.mark.turn >= 0) {
      if (groups.empty() || groups.back().turn != run.mark.turn)
        groups.push_back(
            {.turn = run.mark.turn, .begin = begin, .end = begin, .first_word = {}, .last_word = {}});
      Group& group = groups.back();
      group.end = run.end;
      if (run.mark.source == Source::answer) {
        if (!group.first_word) group.first_word = begin;
        group.last_word = run.end;
      }
    }
    begin = run.end;
  }
  std::vector<AnswerSpan> answers;
  for (const Group& group : groups) {
    if (!contains(assistant_turns, group.turn)) continue;
    AnswerSpan span{.turn = group.turn, .begin = 0, .content_end = 0, .end = group.end};
    span.begin = end_of_opening(text, group.begin, group.first_word.value_or(group.end), opening);
    span.content_end = group.last_word.value_or(span.begin);
    answers.push_back(span);
  }
  return answers;
}

TokenMarks tokenize_answers(const MarkedText& text, std::span<const AnswerSpan> answers,
                            const Tokenizer& tokenizer, std::span<const std::int32_t> stop_ids,
                            const TokenizeAnswers& options) {
  Encoder encoder(text, tokenizer);
  std::vector<ByteRange> learned;
  if (options.generation_blocks) {
    for (const ByteRange& range : generated_ranges(text, -1)) {
      encoder.piece(range.begin);
      encoder.piece(range.end);
    }
    learned = generated_ranges(text, options.only_turn);
  } else {
    for (const AnswerSpan& answer : answers) encoder.piece(answer.begin);
  }
  encoder.piece(text.size());

  TokenMarks result{.ids = std::move(encoder.ids), .supervised = {}};
  const TokenText tokens{text, tokenizer, result.ids, encoder.ranges};
  result.supervised.assign(result.ids.size(), 0);
  for (const AnswerSpan& answer : answers) {
    if (options.generation_blocks || (options.only_turn >= 0 && answer.turn != options.only_turn)) continue;
    const auto end = tokens.end_token(answer, stop_ids);
    learned.push_back({answer.begin, end ? encoder.ranges[*end].end : answer.content_end});
  }
  for (const ByteRange& range : learned)
    for (std::size_t i = tokens.at(range.begin); i < result.ids.size() && encoder.ranges[i].begin < range.end;
         ++i)
      result.supervised[i] = 1;
  if (options.cut_after_end) cut_after_last_special(tokens, result);
  return result;
}

}  // namespace lazytrain
