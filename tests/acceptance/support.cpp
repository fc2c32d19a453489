#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "acceptance/acceptance.h"
#include "formats/json.h"

namespace lazytrain::test {
namespace {

std::vector<Document> documents_of(const nlohmann::json& list) {
  std::vector<Document> documents;
  for (const nlohmann::json& entry : list)
    documents.push_back({.ids = entry["ids"].get<std::vector<std::int32_t>>(),
                         .supervised_from = entry["supervised_from"].get<std::int64_t>()});
  return documents;
}

}  // namespace

void Bars::at_most(const std::string& what, double value, double bar) {
  const bool held = value <= bar;  // false for NaN
  fmt::print("  {:<58} {:>10.3g}  (bar {:.3g}) {}\n", what, value, bar, held ? "" : "MISSED");
  std::fflush(stdout);
  all_held_ = all_held_ && held;
}

void Bars::holds(const std::string& what, bool held) {
  fmt::print("  {:<58} {}\n", what, held ? "yes" : "NO: MISSED");
  std::fflush(stdout);
  all_held_ = all_held_ && held;
}

Tokens pack(const std::vector<Document>& documents, std::int64_t slots, std::int64_t slot_tokens) {
  std::vector<std::size_t> order(documents.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return documents[a].ids.size() > documents[b].ids.size();
  });
  const auto rows = static_cast<std::size_t>(slots * slot_tokens);
  Tokens tokens{.slots = slots,
                .slot_tokens = slot_tokens,
                .tokens = std::vector<std::int32_t>(rows, 0),
                .positions = std::vector<std::int32_t>(rows, 0),
                .document_start = std::vector<std::int32_t>(rows, 0),
                .targets = std::vector<std::int32_t>(rows, -1)};
  std::vector<std::int64_t> used(static_cast<std::size_t>(slots), 0);
  for (const std::size_t d : order) {
    const Document& document = documents[d];
    const auto length = static_cast<std::int64_t>(document.ids.size());
    std::int64_t best = -1;
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      const std::int64_t here = used[static_cast<std::size_t>(slot)];
      if (here + length <= slot_tokens && (best < 0 || here > used[static_cast<std::size_t>(best)]))
        best = slot;
    }
    if (best < 0) throw std::runtime_error("the documents do not fit into the slots");
    const std::int64_t start = used[static_cast<std::size_t>(best)];
    used[static_cast<std::size_t>(best)] += length;
    for (std::int64_t i = 0; i < length; ++i) {
      const auto at = static_cast<std::size_t>(best * slot_tokens + start + i);
      tokens.tokens[at] = document.ids[static_cast<std::size_t>(i)];
      tokens.positions[at] = static_cast<std::int32_t>(i);
      tokens.document_start[at] = static_cast<std::int32_t>(start);
      if (i + 1 < length && i + 1 >= document.supervised_from)
        tokens.targets[at] = document.ids[static_cast<std::size_t>(i + 1)];
    }
  }
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    const std::int64_t end = used[static_cast<std::size_t>(slot)];
    std::fill_n(tokens.document_start.begin() + slot * slot_tokens + end, slot_tokens - end,
                static_cast<std::int32_t>(end));
  }
  return tokens;
}

Recording read_recording() {
  const std::filesystem::path folder = goldens() / "smollm2-135m";
  const nlohmann::json train = read_json(folder / "train20.json", ExitCode::data);
  const nlohmann::json reference = read_json(folder / "reference.json", ExitCode::data);
  Recording recording;
  for (const nlohmann::json& step : train["documents"]) recording.documents.push_back(documents_of(step));
  for (const nlohmann::json& step : train["log"])
    recording.steps.push_back({.loss = step["loss"],
                               .norm = step["grad_norm"],
                               .lr = step["lr"],
                               .supervised = step["supervised"]});
  for (const auto& [name, tensor] : train["final"].items())
    recording.final_tensors.push_back({.name = name,
                                       .first = tensor["first8"].get<std::vector<double>>(),
                                       .sum = tensor["sum"],
                                       .l2 = tensor["l2"]});
  recording.eval_before = train["eval_before"]["loss"];
  recording.eval_after = train["eval_after"]["loss"];
  recording.eval_documents = documents_of(read_json(folder / "eval20.json", ExitCode::data)["documents"]);
  recording.paragraph = reference["ids"].get<std::vector<std::int32_t>>();
  recording.paragraph_nll = reference["nll"].get<std::vector<double>>();
  return recording;
}

}  // namespace lazytrain::test
