// A token decoded against the cache is the one that reading the whole text as a prompt gives, for every
// family: query and key norms, windows that the text outgrows.
#include <gtest/gtest.h>

#include "training/generation.h"

namespace lazytrain {
namespace {

constexpr std::int64_t kNew = 20;

std::vector<Generated> generated(const ModelFolder& model, const GenerationRequest& request) {
  const SessionOptions options{.type = DataType::f32,
                               .device = {.compute_threads = 2, .host_threads = 1},
                               .position_rows = generation_positions(request)};
  Machine machine;
  machine.tiers = TierModel::unified;
  machine.device_capacity = machine.host_capacity = Bytes{std::int64_t{1} << 30};
  const LoweringContext context = lowering_context(model.architecture(), options);
  const GenerationPlan plan = plan_generation(context, machine, options.type, request);
  Session session(model.architecture(), options);
  const Program* programs[] = {&plan.programs.prefill, &plan.programs.decode};
  session.allocate(programs);
  session.load(model);
  return generate(session, plan, request);
}

class Decoding : public ::testing::TestWithParam<const char*> {};

TEST_P(Decoding, GivesTheTokensThatPromptsGive) {
  const ModelFolder model(std::filesystem::path(LAZYTRAIN_TESTS_DIR) / "data" / "goldens" / GetParam());
  const std::vector<std::int32_t> prompt{17, 4, 200, 31, 8, 99, 150};
  const std::vector<std::int32_t> tokens =
      generated(model, {.prompts = {prompt}, .max_new_tokens = kNew, .stop_ids = {}}).front().tokens;
  ASSERT_EQ(std::ssize(tokens), kNew);
  // Every prefix of the result as a prompt of its own, each asked for one more token.
  GenerationRequest prefixes{.prompts = {}, .max_new_tokens = 1, .stop_ids = {}};
  for (std::int64_t known = 0; known < kNew; ++known) {
    prefixes.prompts.push_back(prompt);
    prefixes.prompts.back().insert(prefixes.prompts.back().end(), tokens.begin(), tokens.begin() + known);
  }
  const std::vector<Generated> next = generated(model, prefixes);
  for (std::size_t known = 0; known < next.size(); ++known)
    EXPECT_EQ(next[known].tokens, std::vector{tokens[known]}) << "after " << known << " new tokens";
}

INSTANTIATE_TEST_SUITE_P(Goldens, Decoding,
                         ::testing::Values("llama-gqa-tied", "qwen2", "qwen2-sliding", "qwen3"),
                         [](const auto& test) {
                           std::string name = test.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace lazytrain
