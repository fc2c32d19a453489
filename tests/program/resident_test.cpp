// Resident layers as Programs have them: updated on the device, nothing of them on a link, and unsafe where
// an op of theirs is damaged.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "program/exhaustive_check.h"
#include "program/program_support.h"

namespace lazytrain {
namespace {

constexpr BatchGeometry kBatch{.slots = 2, .slot_tokens = 8, .micro_batch = 2};

struct Resident {
  LoweringContext context;
  Plan plan;
  [[nodiscard]] Program lower() const { return lower_train_step(context, plan, small_workspace()); }
};

// A model of `layers` layers, of which those named are resident.
Resident resident_case(std::int64_t layers, const std::vector<std::size_t>& resident, bool overlap) {
  const Architecture architecture = small_architecture(layers, false);
  Resident result{.context = small_context(architecture, TierModel::tiered),
                  .plan = plain_plan(architecture, kBatch)};
  result.plan.groups.resize(static_cast<std::size_t>(layers) + 2);
  for (const std::size_t layer : resident) result.plan.groups[layer + 1].on_device = true;
  result.plan.optimizer_overlap = overlap;
  result.context.homes = result.plan.groups;
  return result;
}

// "stream What: reads -> writes", of the ops that touch a group's own buffers or the clip factor.
std::string lines_about(const Program& program, const std::vector<std::string>& buffers) {
  std::string text;
  for (const Op& op : program.ops) {
    std::string reads, writes;
    bool about = false;
    for (const Operand& operand : op.operands) {
      const std::string& name = program.at(operand.buffer).name;
      about = about || std::count(buffers.begin(), buffers.end(), name) > 0;
      if (operand.role == OperandRole::workspace || operand.role == OperandRole::batch ||
          operand.role == OperandRole::constants)
        continue;
      if (operand.access != Access::write) reads += " " + name;
      if (operand.access != Access::read) writes += " " + name;
    }
    if (about)
      text += std::string(to_string(op.stream)) + " " + describe(op) + ":" + reads + " ->" + writes + "\n";
  }
  return text;
}

const std::vector<std::string> kOfLayer0{"dev.w[1]",     "dev.states[1]", "dev.grad[1]", "dev.norm[1]",
                                         "host.norm[1]", "host.clip",     "dev.clip"};

TEST(ResidentLayers, AreUpdatedOnTheDeviceBeforeTheirForward) {
  EXPECT_EQ(
      lines_about(resident_case(2, {0}, true).lower(), kOfLayer0),
      "host UpdateGroup(0): host.grad[0] host.w[0] host.states[0] host.clip -> host.w[0] host.states[0]\n"
      "h2d LoadClip: host.clip -> dev.clip\n"
      "host UpdateGroup(2): host.grad[2] host.w[2] host.states[2] host.clip -> host.w[2] host.states[2]\n"
      "host UpdateGroup(3): host.grad[3] host.w[3] host.states[3] host.clip -> host.w[3] host.states[3]\n"
      "compute UpdateGroup(1): dev.grad[1] dev.w[1] dev.states[1] dev.clip -> dev.w[1] dev.states[1]\n"
      "compute Forward(0, m0): dev.w[1] dev.b[0]m0 -> dev.b[1]m0\n"
      "compute Recompute(0, m0): dev.w[1] dev.b[0]m0 -> dev.rec[0]m0\n"
      "compute Backward(0, m0): dev.w[1] dev.b[0]m0 dev.db.m0 dev.rec[0]m0 -> dev.db.m0 dev.acc[1]\n"
      "compute OffloadGradient(0): dev.acc[1] -> dev.grad[1] dev.norm[1]\n"
      "d2h OffloadNorm(0): dev.norm[1] -> host.norm[1]\n"
      "host ReduceNorm: host.norm[0] host.norm[1] host.norm[2] host.norm[3] -> host.clip\n");
}

TEST(ResidentLayers, AreUpdatedAtTheEndOfTheStepWithoutOverlap) {
  const std::string text = lines_about(resident_case(2, {0}, false).lower(), kOfLayer0);
  EXPECT_EQ(
      text.substr(text.find("host ReduceNorm")),
      "host ReduceNorm: host.norm[0] host.norm[1] host.norm[2] host.norm[3] -> host.clip\n"
      "host UpdateGroup(0): host.grad[0] host.w[0] host.states[0] host.clip -> host.w[0] host.states[0]\n"
      "host UpdateGroup(2): host.grad[2] host.w[2] host.states[2] host.clip -> host.w[2] host.states[2]\n"
      "host UpdateGroup(3): host.grad[3] host.w[3] host.states[3] host.clip -> host.w[3] host.states[3]\n"
      "h2d LoadClip: host.clip -> dev.clip\n"
      "compute UpdateGroup(1): dev.grad[1] dev.w[1] dev.states[1] dev.clip -> dev.w[1] dev.states[1]\n");
}

Bytes moved(const Program& program, StreamId stream) {
  Bytes sum;
  for (const Op& op : program.ops)
    if (op.stream == stream) sum += op.bytes;
  return sum;
}

TEST(ResidentLayers, CrossNoLink) {
  // 64 bytes of clip factor come; 8 bytes of each layer's norm leave, for 10304 elements are one run.
  for (const bool overlap : {false, true}) {
    const Program none = resident_case(3, {}, overlap).lower();
    const Program all = resident_case(3, {0, 1, 2}, overlap).lower();
    const std::int64_t elements = resident_case(3, {}, overlap).context.groups[1].elements;
    ASSERT_LT(elements, 65536);
    // Loaded for the forward and, but for the last layer, again for the backward.
    const Bytes loads{(3 + 2) * elements * 2}, gradients{3 * elements * 2};
    Resident one_slot = resident_case(3, {}, overlap);
    one_slot.plan.weight_slots = 1;
    EXPECT_EQ(moved(one_slot.lower(), StreamId::h2d) - moved(all, StreamId::h2d), loads - Bytes{64});
    EXPECT_EQ(moved(none, StreamId::d2h) - moved(all, StreamId::d2h), gradients - Bytes{3 * 8});
    for (const Op& op : all.ops) {
      EXPECT_NE(op.kind, OpKind::load_weights);
      EXPECT_FALSE(op.kind == OpKind::offload_gradient && op.stream != StreamId::compute);
    }
  }
}

std::set<std::string> names(const Program& program, const std::string& prefix) {
  std::set<std::string> found;
  for (const Buffer& buffer : program.buffers)
    if (buffer.name.rfind(prefix, 0) == 0) found.insert(buffer.name);
  return found;
}

TEST(ResidentLayers, TakeNoWeightSlots) {
  using Names = std::set<std::string>;
  const auto slots = [](const std::vector<std::size_t>& resident) {
    Resident test = resident_case(3, resident, false);
    test.plan.weight_slots = 3;
    return names(test.lower(), "dev.slot");
  };
  EXPECT_EQ(slots({}), (Names{"dev.slot[0]", "dev.slot[1]", "dev.slot[2]"}));
  EXPECT_EQ(slots({0, 2}), (Names{"dev.slot[0]"}));
  EXPECT_EQ(slots({0, 1, 2}), Names{});
}

TEST(ResidentLayers, HaveTheirNamesInReports) {
  const Resident test = resident_case(3, {1}, false);
  const std::vector<MemoryItem> device = memory_items(test.lower(), Tier::device);
  const auto bytes_of = [&](const std::string& what) {
    for (const MemoryItem& item : device)
      if (item.what == what) return item.bytes.value;
    return std::int64_t{0};
  };
  const std::int64_t elements = test.context.groups[2].elements;
  EXPECT_EQ(bytes_of("resident weights"), 2 * elements);
  EXPECT_EQ(bytes_of("resident gradients"), 2 * elements);
  EXPECT_EQ(bytes_of("resident optimizer states"), test.context.state_bytes[2].value);
}

TEST(ResidentLayers, AreRefusedWhereThereIsOneTier) {
  Resident test = resident_case(2, {0}, false);
  test.context.tiers = TierModel::unified;
  const auto error = error_of([&] { static_cast<void>(test.lower()); });
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(error->code(), ExitCode::usage);
  EXPECT_EQ(
      std::string(error->what()),
      "plan: resident layers need a device with memory of its own, and this machine has one tier; make a "
      "new plan with `lazytrain plan`");
}

bool of_resident_layers(const Program& program, OpIndex i) {
  const Op& op = program.ops[static_cast<std::size_t>(i)];
  return op.kind == OpKind::load_clip || op.kind == OpKind::offload_norm ||
         (op.stream == StreamId::compute &&
          (op.kind == OpKind::update_group || op.kind == OpKind::offload_gradient));
}

// Every wait for an op of resident layers, and every wait of one, is forgotten in its turn.
TEST(ResidentLayers, ForgottenWaitsAreFound) {
  const Machine machine = roomy_machine(TierModel::tiered);
  int mutants = 0, unsafe = 0;
  for (const bool overlap : {false, true})
    for (const std::vector<std::size_t>& resident : {std::vector<std::size_t>{0}, {1, 2}, {0, 1, 2}}) {
      const Program good = resident_case(3, resident, overlap).lower();
      ASSERT_EQ(text_of(verify(good, machine)), "");
      for (OpIndex i = 0; i < static_cast<OpIndex>(good.ops.size()); ++i) {
        const std::vector<OpIndex>& after = good.ops[static_cast<std::size_t>(i)].after;
        for (std::size_t w = 0; w < after.size(); ++w) {
          if (!of_resident_layers(good, i) && !of_resident_layers(good, after[w])) continue;
          Program mutant = good;
          std::vector<OpIndex>& fewer = mutant.ops[static_cast<std::size_t>(i)].after;
          fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(w));
          const bool safe = exhaustive_check(mutant).empty();
          EXPECT_EQ(verify(mutant, machine).empty(), safe) << listing(mutant);
          ++mutants;
          if (!safe) ++unsafe;
        }
      }
    }
  EXPECT_GT(mutants, 20);
  EXPECT_EQ(unsafe, mutants);  // no wait is there in vain
}

TEST(ResidentLayers, AnUpdateWithoutTheClipFactorIsFound) {
  const Machine machine = roomy_machine(TierModel::tiered);
  Program mutant = resident_case(2, {0}, true).lower();
  for (Op& op : mutant.ops) {
    if (op.kind == OpKind::load_clip) op.operands.clear();
  }
  const std::vector<Violation> missing = verify(mutant, machine);
  ASSERT_FALSE(missing.empty());
  EXPECT_EQ(missing.front().kind, Violation::Kind::stale_read);
  EXPECT_NE(missing.front().what.find("UpdateGroup(1) reads dev.clip, whose bytes hold nothing yet"),
            std::string::npos)
      << missing.front().what;

  mutant = resident_case(2, {0}, true).lower();
  for (Op& op : mutant.ops)
    for (Operand& operand : op.operands)
      if (op.kind == OpKind::update_group && op.stream == StreamId::compute &&
          operand.role == OperandRole::clip)
        for (BufferId id = 0; id < static_cast<BufferId>(mutant.buffers.size()); ++id)
          if (mutant.at(id).name == "host.clip") operand.buffer = id;
  const std::vector<Violation> on_host = verify(mutant, machine);
  ASSERT_FALSE(on_host.empty());
  EXPECT_EQ(on_host.front().kind, Violation::Kind::out_of_reach);
  EXPECT_FALSE(exhaustive_check(mutant).empty());
}

}  // namespace
}  // namespace lazytrain
