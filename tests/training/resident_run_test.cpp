// Whole runs with resident layers: evaluations on the way, checkpoints and the exported model are those of a
// run that streams every layer, and each kind of run goes on from the other's checkpoints.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "core/random.h"
#include "program/lowering.h"
#include "program/verifier.h"
#include "runtime/workspace.h"
#include "training/folder_support.h"
#include "training/trainer.h"

namespace lazytrain {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTokens = 32, kSlots = 2, kSteps = 4;

RunConfig config_for(const fs::path& output_dir) {
  RunConfig config;
  config.output_dir = output_dir.string();
  config.cutoff_len = kTokens;
  config.per_device_train_batch_size = config.per_device_eval_batch_size = kSlots;
  config.max_steps = kSteps;
  config.save_steps = config.logging_steps = 2;
  config.eval_strategy = "steps";
  config.learning_rate = 1e-2;
  config.max_grad_norm = 0.05;
  return config;
}

RunData random_data() {
  RunData data;
  Random random(3);
  for (std::int64_t sample = 0; sample < 24; ++sample) {
    std::vector<std::int32_t> ids(20);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.below(300));
    data.train.samples.add(ids, std::vector<std::uint8_t>(ids.size(), 1), static_cast<std::uint64_t>(sample));
    (sample < 20 ? data.train_samples : data.eval_samples).push_back(sample);
  }
  return data;
}

// Of two layers these are resident.
void run(const fs::path& output_dir, const std::vector<std::size_t>& resident, bool overlap,
         const std::optional<fs::path>& resume = {}) {
  const ModelFolder model(fs::path(LAZYTRAIN_TESTS_DIR) / "data" / "goldens" / "llama-gqa-tied");
  const Architecture& architecture = model.architecture();
  Plan plan;
  plan.policy = "test";
  plan.batch = {.slots = kSlots, .slot_tokens = kTokens, .micro_batch = 1};
  plan.boundaries.assign(3, {.materialised = true, .device_micro_batches = 2});
  plan.layers.assign(2, {});
  plan.optimizer_overlap = overlap;
  plan.groups.resize(4);
  for (const std::size_t layer : resident) plan.groups[layer + 1].on_device = true;
  SessionOptions session{.type = DataType::bf16,
                         .device = {.memory_model = MemoryModel::emulated,
                                    .compute_threads = 1,
                                    .host_threads = 1,
                                    .device_capacity = Bytes{std::int64_t{1} << 28}},
                         .position_rows = kTokens,
                         .max_gradient_norm = 0.05};
  session.homes = plan.groups;
  session.scratch_folder = output_dir;
  session.moments = {.format = StateFormat::adamw_8bit};
  Machine machine;
  machine.device_capacity = machine.host_capacity = session.device.device_capacity;
  const Program program = lower_train_step(lowering_context(architecture, session), plan,
                                           workspace_bytes(architecture, session.type, 1, kTokens));
  verify_or_throw(program, machine);
  const RunConfig config = config_for(output_dir);
  const RunData data = random_data();
  const OutputLock lock(output_dir);
  const StopSignals signals;
  const TrainingResult result = train({.config = config,
                                       .model = model,
                                       .data = data,
                                       .machine = machine,
                                       .plan = plan,
                                       .program = program,
                                       .session = session,
                                       .lock = lock,
                                       .resume = resume ? std::optional<Checkpoint>(*resume) : std::nullopt,
                                       .signals = signals});
  EXPECT_EQ(result.steps, kSteps);
}

// Every file that holds weights or states of a run's checkpoints and of its exported model, by name.
std::map<std::string, std::string> values_of(const fs::path& output_dir, bool all) {
  std::map<std::string, std::string> files;
  files["model"] = read_file(output_dir / "model.safetensors");
  for (const char* name : {"checkpoint-2", "checkpoint-4"}) {
    if (!all && std::string_view(name) == "checkpoint-2") continue;
    for (const fs::directory_entry& entry : fs::directory_iterator(output_dir / name))
      if (const std::string file = entry.path().filename().string(); file.starts_with("group-"))
        files[fmt::format("{}/{}", name, file)] = read_file(entry.path());
  }
  return files;
}

std::vector<double> evaluation_losses(const fs::path& output_dir) {
  std::vector<double> losses;
  std::ifstream log(output_dir / "trainer_log.jsonl");
  for (std::string line; std::getline(log, line);)
    if (const nlohmann::json entry = nlohmann::json::parse(line); entry.contains("eval_loss"))
      losses.push_back(entry["eval_loss"].get<double>());
  return losses;
}

TEST(ResidentRun, ItsFilesAreThoseOfARunThatStreamsEveryLayer) {
  const TemporaryFolder folder;
  const fs::path streamed = folder.path() / "streamed";
  run(streamed, {}, false);
  const auto expected = values_of(streamed, true);
  EXPECT_EQ(expected.size(), 17u);  // the model, and weights and states of four groups in two checkpoints
  EXPECT_NE(expected.at("checkpoint-2/group-001.weights"), expected.at("checkpoint-4/group-001.weights"));
  const std::vector<double> losses = evaluation_losses(streamed);
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_NE(losses[0], losses[1]);
  const auto same = [&](const fs::path& output_dir, bool all) {
    const auto found = values_of(output_dir, all);
    for (const auto& [name, bytes] : found)
      EXPECT_TRUE(bytes == expected.at(name)) << output_dir << " " << name;
    EXPECT_EQ(found.size(), all ? 17u : 9u);
  };
  for (const bool overlap : {false, true}) {
    const fs::path resident = folder.path() / fmt::format("resident-{}", overlap);
    run(resident, {overlap ? 1u : 0u}, overlap);
    same(resident, true);
    EXPECT_EQ(evaluation_losses(resident), losses);
    // Each from the other's checkpoint.
    const fs::path to_resident = folder.path() / fmt::format("to-resident-{}", overlap);
    run(to_resident, {0, 1}, overlap, streamed / "checkpoint-2");
    same(to_resident, false);
    const fs::path to_streamed = folder.path() / fmt::format("to-streamed-{}", overlap);
    run(to_streamed, {}, overlap, resident / "checkpoint-2");
    same(to_streamed, false);
  }
}

}  // namespace
}  // namespace lazytrain
