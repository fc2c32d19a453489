#include "text/added_tokens.h"

#include <algorithm>

#include "text/unicode.h"
#include "text/utf8.h"

namespace lazytrain {
namespace {

// The code point that ends right before `at` > 0.
CodePoint code_point_before(std::string_view text, std::size_t at) {
  std::size_t begin = at - 1;
  while (begin > 0 && at - begin < 4 && (static_cast<unsigned char>(text[begin]) & 0xC0) == 0x80) --begin;
  return decode_utf8(text, begin);
}

bool touches(const AddedTokenMatcher::Plain& plain, ByteRange range) {
  const auto ranges = plain.ranges;
  if (ranges.empty()) return false;
  if (plain.origin != nullptr) range = plain.origin->source(range);
  range.begin += plain.base;
  range.end += plain.base;
  const auto first = std::partition_point(ranges.begin(), ranges.end(),
                                          [&](const ByteRange& r) { return r.end <= range.begin; });
  return first != ranges.end() && first->begin < range.end;
}

}  // namespace

void AddedTokenMatcher::add(const AddedToken& token) {
  const std::string& pattern = token.content;
  if (pattern.empty()) return;
  std::uint32_t node = 0;
  for (const char c : pattern) {
    const auto byte = static_cast<unsigned char>(c);
    const auto fresh = static_cast<std::uint32_t>(token_of_node_.size());
    const auto [edge, is_new] = edges_.try_emplace(std::uint64_t{node} << 8 | byte, fresh);
    if (is_new) token_of_node_.push_back(-1);
    node = edge->second;
  }
  starts_[static_cast<unsigned char>(pattern.front())] = true;
  token_of_node_[node] = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
}

AddedTokenMatcher::Found AddedTokenMatcher::longest_at(std::string_view text, std::size_t at) const {
  Found found;
  std::uint32_t node = 0;
  for (std::size_t i = at; i < text.size(); ++i) {
    const auto edge = edges_.find(std::uint64_t{node} << 8 | static_cast<unsigned char>(text[i]));
    if (edge == edges_.end()) break;
    node = edge->second;
    if (token_of_node_[node] >= 0) found = {token_of_node_[node], i + 1 - at};
  }
  return found;
}

std::vector<AddedTokenMatcher::Section> AddedTokenMatcher::split(std::string_view text, bool parse_special,
                                                                 const Plain& plain) const {
  std::vector<Section> sections;
  std::size_t covered = 0;
  for (std::size_t at = 0; !tokens_.empty() && at < text.size();) {
    if (!starts_[static_cast<unsigned char>(text[at])]) {
      ++at;
      continue;
    }
    const Found found = longest_at(text, at);
    if (found.token < 0) {
      ++at;
      continue;
    }
    const AddedToken& token = tokens_[static_cast<std::size_t>(found.token)];
    std::size_t begin = at, end = at + found.length;
    at = end;
    if (token.special && (!parse_special || touches(plain, {begin, end}))) continue;
    if (token.single_word) {
      const bool word_before = begin > 0 && is_word(code_point_before(text, begin).value);
      const bool word_behind = end < text.size() && is_word(decode_utf8(text, end).value);
      if (word_before || word_behind) continue;
    }
    if (begin < covered) continue;  // taken by the white space of the token before
    while (token.lstrip && begin > covered) {
      const CodePoint point = code_point_before(text, begin);
      if (!is_white_space(point.value)) break;
      begin -= point.size;
    }
    while (token.rstrip && end < text.size()) {
      const CodePoint point = decode_utf8(text, end);
      if (!is_white_space(point.value)) break;
      end += point.size;
    }
    if (begin > covered) sections.push_back({covered, begin, -1});
    sections.push_back({begin, end, token.id});
    covered = end;
  }
  if (covered < text.size()) sections.push_back({covered, text.size(), -1});
  return sections;
}

}  // namespace lazytrain
