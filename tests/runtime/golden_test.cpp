// The engine in fp32 against values recorded from transformers: hidden states, logits, losses, gradients of
// every tensor, and an AdamW trajectory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "formats/json.h"
#include "nlohmann/json.hpp"
#include "optim/schedule.h"
#include "runtime/harness.h"
#include "runtime/layer_forward.h"

namespace lazytrain::test {
namespace {

constexpr double kForwardBar = 1e-5;
constexpr double kGradientBar = 5e-5;

// The largest error met so far and whose it is.
struct Worst {
  double error = 0;
  std::string name;
  void meet(double met, const std::string& whose) {
    if (met <= error && !name.empty()) return;
    error = met;
    name = whose;
  }
};

std::string case_name(const std::tuple<std::string, std::string>& given) {
  std::string text = std::get<0>(given) + "_" + std::get<1>(given);
  std::replace(text.begin(), text.end(), '-', '_');
  return text;
}

class Golden : public ::testing::TestWithParam<std::tuple<std::string, std::string>> {};

// The same weights under the spelling of config.json that published checkpoints of the time have.
class LegacySpelling : public ::testing::TestWithParam<std::string> {};

TEST_P(LegacySpelling, MeansTheSameModel) {
  const std::filesystem::path folder = goldens() / GetParam();
  EXPECT_EQ(read_architecture(folder / "config.json"), read_architecture(folder / "config.legacy.json"));
  std::printf("  %-18s config.json and config.legacy.json describe the same model\n", GetParam().c_str());
}

TEST_P(Golden, HiddenStatesAndLogits) {
  const auto& [name, variant] = GetParam();
  const std::filesystem::path file = goldens() / name / "golden.safetensors";
  const ModelFolder folder(goldens() / name);
  const LayerForward forward = layer_forward(folder, DataType::f32, golden_tokens(file, variant));
  Worst worst;
  const auto compare = [&](const std::vector<float>& values, const std::string& what) {
    const double error = relative_error(values, golden_floats(file, variant + "." + what));
    EXPECT_LE(error, kForwardBar) << what;
    worst.meet(error, what);
  };
  for (std::size_t b = 0; b < forward.hidden.size(); ++b)
    compare(forward.hidden[b], "hidden." + std::to_string(b));
  compare(forward.final_norm, "hidden.final_norm");
  compare(forward.logits, "logits");
  std::printf("  %-18s %s: worst of %zu hidden states and logits %.2e (%s; bar %.0e)\n", name.c_str(),
              variant.c_str(), forward.hidden.size() + 1, worst.error, worst.name.c_str(), kForwardBar);
}

TEST_P(Golden, LossAndEveryGradient) {
  const auto& [name, variant] = GetParam();
  const std::filesystem::path folder_path = goldens() / name, file = folder_path / "golden.safetensors";
  const ModelFolder folder(folder_path);
  const Tokens tokens = golden_tokens(file, variant);
  std::int32_t longest = 0;
  for (const std::int32_t position : tokens.positions) longest = std::max(longest, position);
  const SessionOptions options{.type = DataType::f32,
                               .device = {.compute_threads = 2, .host_threads = 2},
                               .position_rows = longest + 1};
  const BatchGeometry batch{.slots = tokens.slots, .slot_tokens = tokens.slot_tokens, .micro_batch = 1};
  Harness harness(folder.architecture(), &folder, options, simple_plan(folder.architecture(), batch));
  const StepOutcome outcome = harness.step(tokens, {.lr = 0});
  const double loss = outcome.loss_sum / static_cast<double>(outcome.supervised);
  EXPECT_EQ(outcome.supervised, golden_integers(file, variant + ".num_supervised").front());
  EXPECT_NEAR(loss, golden_floats(file, variant + ".loss").front(), 1e-5);
  Worst worst;
  for (const auto& [tensor, gradient] : harness.gradients()) {
    const double error = relative_error(gradient, golden_floats(file, variant + ".grad." + tensor));
    EXPECT_LE(error, kGradientBar) << tensor;
    worst.meet(error, tensor);
  }
  std::printf("  %-18s %s: loss %.7f, worst gradient %.2e (%s; bar %.0e)\n", name.c_str(), variant.c_str(),
              loss, worst.error, worst.name.c_str(), kGradientBar);
}

INSTANTIATE_TEST_SUITE_P(Llama, Golden,
                         ::testing::Combine(::testing::Values("llama-gqa-tied", "llama-untied-bias",
                                                              "llama3-rope"),
                                            ::testing::Values("a", "b")),
                         [](const auto& test) { return case_name(test.param); });
INSTANTIATE_TEST_SUITE_P(Qwen, LegacySpelling, ::testing::Values("qwen2", "qwen2-sliding", "qwen3"));
INSTANTIATE_TEST_SUITE_P(Qwen, Golden,
                         ::testing::Combine(::testing::Values("qwen2", "qwen2-sliding", "qwen3"),
                                            ::testing::Values("a", "b")),
                         [](const auto& test) { return case_name(test.param); });

TEST(GoldenTrajectory, FiveAdamWSteps) {
  const std::filesystem::path base = goldens() / "llama-gqa-tied",
                              path = goldens() / "llama-gqa-tied-trajectory";
  const nlohmann::json reference = read_json(path / "trajectory.json", ExitCode::data);
  const std::filesystem::path file = path / "trajectory.safetensors";
  const ModelFolder folder(base);
  const std::vector<std::int64_t> ids = golden_integers(file, "input_ids"),
                                  labels = golden_integers(file, "labels");
  const SessionOptions options{.type = DataType::f32,
                               .device = {.compute_threads = 2, .host_threads = 2},
                               .position_rows = 16,
                               .max_gradient_norm = 1.0};
  constexpr std::int64_t kRows = 4, kLength = 16;
  Harness harness(
      folder.architecture(), &folder, options,
      simple_plan(folder.architecture(), {.slots = kRows, .slot_tokens = kLength, .micro_batch = 2}));
  for (std::int64_t step = 0; step < 5; ++step) {
    Tokens tokens{.slots = kRows,
                  .slot_tokens = kLength,
                  .tokens = {},
                  .positions = {},
                  .document_start = {},
                  .targets = {}};
    for (std::int64_t i = 0; i < kRows * kLength; ++i) {
      const auto at = static_cast<std::size_t>(step * kRows * kLength + i);
      tokens.tokens.push_back(static_cast<std::int32_t>(ids[at]));
      tokens.positions.push_back(static_cast<std::int32_t>(i % kLength));
      tokens.document_start.push_back(0);
      const bool last = i % kLength == kLength - 1;
      tokens.targets.push_back(last ? -1 : std::max(-1, static_cast<std::int32_t>(labels[at + 1])));
    }
    const double lr = learning_rate(Schedule::cosine, step, 5, 2, 1e-3);
    EXPECT_DOUBLE_EQ(lr, reference["lr"][static_cast<std::size_t>(step)].get<double>());
    const StepOutcome outcome = harness.step(tokens, {.lr = lr, .weight_decay = 0.1, .step = step + 1});
    EXPECT_NEAR(outcome.loss_sum / static_cast<double>(outcome.supervised),
                reference["loss"][static_cast<std::size_t>(step)].get<double>(), 2e-5);
    EXPECT_NEAR(outcome.gradient_norm, reference["grad_norm"][static_cast<std::size_t>(step)].get<double>(),
                2e-4);
  }
  double worst = 0;
  for (const auto& [tensor, values] : harness.masters()) {
    const std::vector<float> expected = golden_floats(file, "final." + tensor);
    for (std::size_t i = 0; i < values.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(values[i]) - expected[i]));
  }
  std::printf("  trajectory: largest difference of a weight after 5 steps %.2e (bar 2e-06)\n", worst);
  EXPECT_LE(worst, 2e-6);
}

}  // namespace
}  // namespace lazytrain::test
