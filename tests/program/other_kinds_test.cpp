// Programs that are no training step: updates alone, evaluation, prefill and decoding.
#include <gtest/gtest.h>

#include <algorithm>

#include "program/exhaustive_check.h"
#include "program/program_support.h"

namespace lazytrain {
namespace {

void expect_safe(const Program& program, TierModel tiers) {
  EXPECT_EQ(text_of(verify(program, roomy_machine(tiers))), "") << listing(program);
  const std::vector<std::string> wrong = exhaustive_check(program);
  EXPECT_TRUE(wrong.empty()) << wrong.front() << "\n" << listing(program);
}

const Buffer& named(const Program& program, const std::string& name) {
  return *std::find_if(program.buffers.begin(), program.buffers.end(),
                       [&](const Buffer& buffer) { return buffer.name == name; });
}

TEST(OtherKinds, AreSafe) {
  enum class Setting { unified, tiered, resident };
  for (const Setting setting : {Setting::unified, Setting::tiered, Setting::resident})
    for (const bool tied : {true, false})
      for (std::int64_t layers = 1; layers <= 4; ++layers)
        for (std::int64_t slots = 1; slots <= 3; ++slots) {
          const TierModel tiers = setting == Setting::unified ? TierModel::unified : TierModel::tiered;
          LoweringContext context = small_context(small_architecture(layers, tied), tiers);
          if (setting == Setting::resident) {  // every other layer
            context.homes.resize(context.groups.size());
            for (std::size_t g = 1; g + 1 < context.groups.size(); g += 2) context.homes[g].on_device = true;
          }
          expect_safe(lower_update_only(context), tiers);
          const BatchGeometry batch{.slots = 3, .slot_tokens = 8, .micro_batch = slots};
          for (const std::int64_t head_slices : {1, 3})
            expect_safe(lower_evaluate(context, batch, slots, small_workspace(), head_slices), tiers);
          const GenerationPrograms generation = lower_generation(
              context,
              {.sequences = 2, .capacity = 16, .prefill = {.slots = 2, .slot_tokens = 8, .micro_batch = 2}},
              slots, small_workspace());
          expect_safe(generation.prefill, tiers);
          expect_safe(generation.decode, tiers);
        }
}

TEST(OtherKinds, SeeParametersAndCachesAtTheSameOffsets) {
  for (const TierModel tiers : {TierModel::tiered, TierModel::unified}) {
    const Architecture architecture = small_architecture(3, false);
    LoweringContext context = small_context(architecture, tiers);
    Plan plan = plain_plan(architecture, {.slots = 2, .slot_tokens = 8, .micro_batch = 1});
    if (tiers == TierModel::tiered) {
      context.homes.resize(context.groups.size());
      context.homes[1].on_device = context.homes[3].on_device = true;
      plan.groups = context.homes;
    }
    const Program train = lower_train_step(context, plan, small_workspace());
    const Program evaluate =
        lower_evaluate(context, {.slots = 4, .slot_tokens = 8, .micro_batch = 2}, 2, small_workspace());
    const Program update = lower_update_only(context);
    const GenerationPrograms generation = lower_generation(
        context,
        {.sequences = 3, .capacity = 16, .prefill = {.slots = 3, .slot_tokens = 8, .micro_batch = 3}}, 2,
        small_workspace());
    for (const Buffer& buffer : train.buffers) {
      const bool state = buffer.name.rfind("host.", 0) == 0 || buffer.name.rfind("dev.w[", 0) == 0 ||
                         buffer.name.rfind("dev.states", 0) == 0 || buffer.name.rfind("dev.grad", 0) == 0;
      if (!buffer.persistent || !state || buffer.name == "host.batch") continue;
      for (const Program* other : {&evaluate, &update, &generation.prefill, &generation.decode})
        EXPECT_EQ(named(*other, buffer.name).offset, buffer.offset) << buffer.name;
    }
    for (std::int64_t l = 0; l < 3; ++l) {
      const std::string cache = "dev.cache[" + std::to_string(l) + "]";
      EXPECT_EQ(named(generation.prefill, cache).offset, named(generation.decode, cache).offset);
      EXPECT_EQ(named(generation.prefill, cache).size, named(generation.decode, cache).size);
    }
  }
}

}  // namespace
}  // namespace lazytrain
