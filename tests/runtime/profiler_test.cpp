// Measured costs: every field is filled, tables survive their files, and a kept table is used again.
#include "runtime/profiler.h"

#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <set>

#include "core/error.h"
#include "core/file.h"

namespace lazytrain {
namespace {

Architecture tiny() {
  Architecture a;
  a.model_type = "llama";
  a.layers = 2;
  a.hidden = 64;
  a.heads = 4;
  a.kv_heads = 2;
  a.head_dim = 16;
  a.ffn = 128;
  a.vocab = 320;
  a.max_position = 128;
  a.tied_head = true;
  return a;
}

ProfileOptions quick(MemoryModel model = MemoryModel::unified) {
  ProfileOptions options;
  options.slot_tokens = 32;
  options.quick = true;
  options.device.memory_model = model;
  if (model == MemoryModel::emulated)
    options.device.device_capacity = {1};  // the profiler takes what it needs
  return options;
}

// Tables go to a folder of the test's own.
class Profiler : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("lazytrain-profiler-{}", getpid());
    std::filesystem::create_directories(folder_);
    setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("XDG_CACHE_HOME");
    std::filesystem::remove_all(folder_);
  }
  std::filesystem::path folder_;
};

void expect_filled(const CostTable& costs) {
  EXPECT_EQ(costs.source, "measured");
  EXPECT_EQ(costs.slot_tokens, 32);
  EXPECT_THAT(costs.machine, ::testing::HasSubstr(processor_name()));
  for (const Seconds seconds :
       {costs.of(LayerKind::attention).forward, costs.of(LayerKind::attention).backward,
        costs.of(LayerKind::attention).recompute[0], costs.of(LayerKind::attention).recompute[1],
        costs.of(LayerKind::attention).recompute[2], costs.head, costs.head_forward, costs.gather_embedding,
        costs.scatter_embedding, costs.finish_embedding, costs.zero_embedding, costs.update_per_parameter,
        costs.update_on_device_per_parameter, costs.update_on_device_eight_bit_per_parameter,
        costs.offload_gradient_per_element, costs.op_overhead, costs.handover}) {
    EXPECT_GT(seconds, 0);
    EXPECT_LT(seconds, 10);
  }
  EXPECT_EQ(costs.of(LayerKind::attention).recompute[static_cast<std::size_t>(StashLevel::all)], 0);
  EXPECT_GE(costs.of(LayerKind::attention).down_projection, 0);
  EXPECT_GT(costs.copy_h2d, 0);
  EXPECT_GT(costs.copy_d2h, 0);
}

// Layers with and without a window have costs of their own; where all have one, there are no others.
TEST_F(Profiler, MeasuresLayersWithWindowsApart) {
  Architecture both = tiny();
  both.window = 8;
  both.query_key_norm = true;
  both.kinds = {LayerKind::attention, LayerKind::sliding_attention};
  const CostTable costs = measure_costs(both, quick());
  expect_filled(costs);
  EXPECT_GT(costs.of(LayerKind::sliding_attention).forward, 0);
  EXPECT_GT(costs.of(LayerKind::sliding_attention).backward, 0);
  both.kinds = {LayerKind::sliding_attention, LayerKind::sliding_attention};
  const CostTable windows = measure_costs(both, quick());
  EXPECT_EQ(windows.of(LayerKind::attention).forward, 0);
  EXPECT_GT(windows.of(LayerKind::sliding_attention).forward, 0);
  EXPECT_NE(cost_file(both, quick()), cost_file(tiny(), quick()));
  const std::filesystem::path file = folder_ / "windows.json";
  write_cost_table(file, windows);
  try {
    load_or_measure(tiny(), quick(), file);
    ADD_FAILURE() << "a table without the model's layers was taken";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("there are no costs of layers of the kind attention"));
  }
}

TEST_F(Profiler, FillsTheTableOfAUnifiedMachine) {
  expect_filled(measure_costs(tiny(), quick()));
  ProfileOptions fp32 = quick();
  fp32.type = DataType::f32;
  expect_filled(measure_costs(tiny(), fp32));
}

TEST_F(Profiler, FillsTheTableOfAnEmulatedMachine) {
  ProfileOptions options = quick(MemoryModel::emulated);
  options.device.links = {.h2d = 1e-3, .d2h = 1e-3};  // copies are timed at memory speed all the same
  const CostTable costs = measure_costs(tiny(), options);
  expect_filled(costs);
  EXPECT_GT(costs.copy_h2d, 0.1);
  EXPECT_GT(costs.copy_d2h, 0.1);
}

TEST_F(Profiler, HasAFileForEachCombination) {
  std::set<std::string> files;
  const auto add = [&](const Architecture& a, const ProfileOptions& o) {
    files.insert(cost_file(a, o).string());
  };
  add(tiny(), quick());
  Architecture wide = tiny();
  wide.ffn *= 2;
  add(wide, quick());
  ProfileOptions other = quick();
  other.slot_tokens = 64;
  add(tiny(), other);
  other = quick();
  other.type = DataType::f32;
  add(tiny(), other);
  other = quick();
  other.device.compute_threads = 2;
  add(tiny(), other);
  other = quick();
  other.quick = false;
  add(tiny(), other);
  add(tiny(), quick(MemoryModel::emulated));
  EXPECT_EQ(files.size(), 7U);
  Architecture deep = tiny();  // layers are alike: one table serves any number
  deep.layers = 30;
  EXPECT_EQ(cost_file(deep, quick()), cost_file(tiny(), quick()));
}

TEST_F(Profiler, MeasuresOnceAndKeepsTheTable) {
  const std::filesystem::path file = cost_file(tiny(), quick());
  EXPECT_EQ(file.parent_path(), folder_ / "lazytrain");
  const CostTable first = load_or_measure(tiny(), quick());
  ASSERT_TRUE(std::filesystem::exists(file));
  EXPECT_EQ(fingerprint(load_or_measure(tiny(), quick())), fingerprint(first));
  write_file(file, "{\"source\": 3}");  // damaged: measured anew
  EXPECT_EQ(load_or_measure(tiny(), quick()).source, "measured");
  EXPECT_EQ(read_cost_table(file).source, "measured");

  // A thorough table answers a quick question too.
  ProfileOptions thorough = quick();
  thorough.quick = false;
  CostTable marked = first;
  marked.of(LayerKind::attention).forward = 0.125;
  write_cost_table(cost_file(tiny(), thorough), marked);
  EXPECT_EQ(load_or_measure(tiny(), quick()).of(LayerKind::attention).forward, 0.125);
}

TEST_F(Profiler, ReadsTheFileThatIsNamed) {
  CostTable costs = modelled_costs(tiny(), 32, 100, 10);
  costs.source = "measured";
  costs.zero_embedding = 0.25;
  costs.handover = 0.5;
  const std::filesystem::path file = folder_ / "mine.json";
  write_cost_table(file, costs);
  const CostTable read = load_or_measure(tiny(), quick(), file);
  EXPECT_EQ(fingerprint(read), fingerprint(costs));
  EXPECT_EQ(read.zero_embedding, 0.25);
  EXPECT_EQ(read.handover, 0.5);

  ProfileOptions longer = quick();
  longer.slot_tokens = 64;
  try {
    load_or_measure(tiny(), longer, file);
    FAIL() << "costs of another slot length were taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("slots of 32 tokens, the run has 64"));
  }
  EXPECT_THROW(load_or_measure(tiny(), quick(), folder_ / "missing.json"), Error);
}

TEST_F(Profiler, TakesNoMoreThanItSays) {
  // A model whose vocabulary is too large to be measured whole: the head is timed on a part.
  Architecture large = tiny();
  large.hidden = 4096;
  large.heads = 32;
  large.kv_heads = 8;
  large.head_dim = 128;
  large.ffn = 14336;
  large.vocab = 128256;
  const Bytes head{large.vocab * large.hidden * 6};
  EXPECT_LT(profile_memory(large, quick()).value, 218'112'000LL * 6 + head.value / 2);
  EXPECT_GT(profile_memory(large, quick()).value, 218'112'000LL * 6);  // a layer and its fp32 gradient
}

}  // namespace
}  // namespace lazytrain
