#include "model/gguf_sentencepiece.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>
#include <unordered_map>

namespace lazytrain {
namespace {

using Json = nlohmann::ordered_json;
constexpr const char* kSpace = "\u2581";

Json replace(const char* from, const char* to) {
  return {{"type", "Replace"}, {"pattern", {{"String", from}}}, {"content", to}};
}

}  // namespace

Json merges_of_scores(std::span<const std::string_view> tokens, std::span<const float> scores,
                      const std::vector<bool>& mergeable) {
  struct Merge {
    float score;
    std::size_t whole, left, right;
  };
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < tokens.size(); ++id)
    if (mergeable[id]) ids.emplace(tokens[id], id);
  std::vector<Merge> merges;
  for (std::size_t id = 0; id < tokens.size(); ++id) {
    if (!mergeable[id]) continue;
    for (std::size_t cut = 1; cut < tokens[id].size(); ++cut) {
      if ((static_cast<unsigned char>(tokens[id][cut]) & 0xC0) == 0x80) continue;  // inside a code point
      const auto left = ids.find(tokens[id].substr(0, cut)), right = ids.find(tokens[id].substr(cut));
      if (left != ids.end() && right != ids.end())
        merges.push_back({.score = scores[id], .whole = id, .left = left->second, .right = right->second});
    }
  }
  std::sort(merges.begin(), merges.end(), [](const Merge& a, const Merge& b) {
    return std::tuple(-a.score, a.whole, a.left, a.right) < std::tuple(-b.score, b.whole, b.left, b.right);
  });
  Json result = Json::array();
  for (const Merge& merge : merges) result.push_back(Json::array({tokens[merge.left], tokens[merge.right]}));
  return result;
}

Json sentencepiece_normalizer(bool prefix) {
  Json steps = Json::array();
  if (prefix) steps.push_back({{"type", "Prepend"}, {"prepend", kSpace}});
  steps.push_back(replace(" ", kSpace));
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

Json sentencepiece_decoder(bool prefix) {
  Json steps = Json::array({replace(kSpace, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}});
  if (prefix) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", steps}};
}

}  // namespace lazytrain
