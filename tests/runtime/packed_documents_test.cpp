// Documents that share a slot are as if each were alone: against the same documents run one to a slot, and
// blind to what their neighbours hold.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <algorithm>

#include "runtime/harness.h"
#include "runtime/layer_forward.h"

namespace lazytrain::test {
namespace {

// Row ranges of the documents of one slot.
struct Range {
  std::int64_t begin, end;
};
std::vector<Range> documents_of(const Tokens& tokens, std::int64_t slot) {
  std::vector<Range> ranges;
  for (std::int64_t row = 0; row < tokens.slot_tokens; ++row) {
    const auto at = static_cast<std::size_t>(slot * tokens.slot_tokens + row);
    if (tokens.document_start[at] == row) ranges.push_back({row, row});
    ranges.back().end = row + 1;
  }
  return ranges;
}

// Every document of `packed` at the beginning of a slot of its own; padding behind it, a document of its own.
Tokens one_a_slot(const Tokens& packed) {
  Tokens alone{.slots = 0,
               .slot_tokens = packed.slot_tokens,
               .tokens = {},
               .positions = {},
               .document_start = {},
               .targets = {}};
  for (std::int64_t slot = 0; slot < packed.slots; ++slot)
    for (const Range& range : documents_of(packed, slot)) {
      const std::int64_t length = range.end - range.begin;
      for (std::int64_t row = 0; row < packed.slot_tokens; ++row) {
        const auto from = static_cast<std::size_t>(slot * packed.slot_tokens + range.begin + row);
        const bool real = row < length;
        alone.tokens.push_back(real ? packed.tokens[from] : 0);
        alone.positions.push_back(real ? packed.positions[from] : 0);
        alone.document_start.push_back(real ? 0 : static_cast<std::int32_t>(length));
        alone.targets.push_back(real ? packed.targets[from] : -1);
      }
      ++alone.slots;
    }
  return alone;
}

// The rows of `alone` in the order in which `packed` has them.
std::vector<float> gathered(const std::vector<float>& values, const Tokens& packed) {
  const auto width =
      static_cast<std::int64_t>(values.size()) / (one_a_slot(packed).slots * packed.slot_tokens);
  std::vector<float> result;
  std::int64_t alone_slot = 0;
  for (std::int64_t slot = 0; slot < packed.slots; ++slot)
    for (const Range& range : documents_of(packed, slot)) {
      const auto first = values.begin() + alone_slot++ * packed.slot_tokens * width;
      result.insert(result.end(), first, first + (range.end - range.begin) * width);
    }
  return result;
}

struct Comparison {
  double hidden, logits, losses, gradients;
};

// Relative to the largest magnitude of each tensor.
Comparison compare(const ModelFolder& folder, DataType type, const Tokens& packed) {
  const Tokens alone = one_a_slot(packed);
  const LayerForward a = layer_forward(folder, type, packed), b = layer_forward(folder, type, alone);
  Comparison worst{};
  for (std::size_t k = 0; k < a.hidden.size(); ++k)
    worst.hidden = std::max(worst.hidden, relative_error(a.hidden[k], gathered(b.hidden[k], packed)));
  worst.logits = relative_error(a.logits, gathered(b.logits, packed));

  const auto run = [&](const Tokens& tokens, std::vector<float>& losses) {
    const SessionOptions options{.type = type,
                                 .device = {.compute_threads = 2, .host_threads = 1},
                                 .position_rows = packed.slot_tokens};
    Harness harness(
        folder.architecture(), &folder, options,
        simple_plan(folder.architecture(),
                    {.slots = tokens.slots, .slot_tokens = tokens.slot_tokens, .micro_batch = 1}));
    losses = harness.evaluate(tokens).token_losses;
    harness.step(tokens, {.lr = 0});
    return harness.gradients();
  };
  std::vector<float> packed_losses, alone_losses;
  const auto packed_gradients = run(packed, packed_losses), alone_gradients = run(alone, alone_losses);
  worst.losses = relative_error(packed_losses, alone_losses);
  for (const auto& [name, gradient] : packed_gradients)
    worst.gradients = std::max(worst.gradients, relative_error(gradient, alone_gradients.at(name)));
  return worst;
}

// fp32: only the order of sums differs. bf16: roundings of 2^-9 meet sums in another order.
struct Bars {
  double forward, gradients;
};

void expect_within(const char* what, const Comparison& worst, const Bars& bars) {
  fmt::print(
      "  {}: hidden states {:.1e}, logits {:.1e}, losses {:.1e}, gradients {:.1e} (bars {:.0e}, {:.0e})\n",
      what, worst.hidden, worst.logits, worst.losses, worst.gradients, bars.forward, bars.gradients);
  EXPECT_LE(worst.hidden, bars.forward);
  EXPECT_LE(worst.logits, bars.forward);
  EXPECT_LE(worst.losses, bars.forward);
  EXPECT_LE(worst.gradients, bars.gradients);
}

class PackedDocuments : public ::testing::TestWithParam<std::string> {
 protected:
  PackedDocuments() : folder_(goldens() / GetParam()) {}
  ModelFolder folder_;
};

TEST_P(PackedDocuments, OfTheGoldensEqualDocumentsAlone) {
  const Tokens packed = golden_tokens(goldens() / GetParam() / "golden.safetensors", "b");
  ASSERT_EQ(documents_of(packed, 0).size(), 3U);
  expect_within("fp32, 3 documents", compare(folder_, DataType::f32, packed), {1e-6, 5e-6});
}

TEST_P(PackedDocuments, RandomOnesEqualDocumentsAlone) {
  const Tokens packed = random_tokens(3, 160, folder_.architecture().vocab, 9);
  expect_within("fp32, random", compare(folder_, DataType::f32, packed), {2e-6, 1e-5});
  expect_within("bf16, random", compare(folder_, DataType::bf16, packed), {1e-2, 2e-2});
}

// To the bit: what stands in the same slot cannot reach a document.
TEST_P(PackedDocuments, DoNotSeeTheirNeighbours) {
  for (const DataType type : {DataType::f32, DataType::bf16}) {
    std::uint64_t seed = 1;
    while (documents_of(random_tokens(1, 96, folder_.architecture().vocab, seed), 0).size() < 3) ++seed;
    Tokens tokens = random_tokens(1, 96, folder_.architecture().vocab, seed);
    const std::vector<Range> documents = documents_of(tokens, 0);
    const Range middle = documents[1];
    const LayerForward before = layer_forward(folder_, type, tokens);
    for (std::int64_t row = 0; row < tokens.slot_tokens; ++row)
      if (row < middle.begin || row >= middle.end) {
        std::int32_t& token = tokens.tokens[static_cast<std::size_t>(row)];
        token = static_cast<std::int32_t>((token + 7) % folder_.architecture().vocab);
      }
    const LayerForward after = layer_forward(folder_, type, tokens);
    const auto rows = [&](const std::vector<float>& values, std::int64_t begin, std::int64_t end) {
      const std::int64_t width = std::ssize(values) / tokens.slot_tokens;
      return std::vector<float>(values.begin() + begin * width, values.begin() + end * width);
    };
    EXPECT_EQ(rows(before.logits, middle.begin, middle.end), rows(after.logits, middle.begin, middle.end));
    EXPECT_NE(rows(before.logits, 0, middle.begin), rows(after.logits, 0, middle.begin));
  }
}

INSTANTIATE_TEST_SUITE_P(Llama, PackedDocuments,
                         ::testing::Values("llama-gqa-tied", "llama-untied-bias", "llama3-rope", "qwen2",
                                           "qwen2-sliding", "qwen3"),
                         [](const auto& test) {
                           std::string text = test.param;
                           std::replace(text.begin(), text.end(), '-', '_');
                           return text;
                         });

}  // namespace
}  // namespace lazytrain::test
