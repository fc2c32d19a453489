// Training runs on models stored in F16, F32, BF16 and in mixed types, of every family that is trained: what
// is exported has the names, shapes, types and settings of what was read, and new values.
#include <gtest/gtest.h>

#include <cstring>

#include "core/file.h"
#include "core/random.h"
#include "formats/safetensors.h"
#include "formats/safetensors_writer.h"
#include "program/lowering.h"
#include "runtime/workspace.h"
#include "training/folder_support.h"
#include "training/trainer.h"

namespace lazytrain {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kTokens = 32, kSlots = 2, kSteps = 2;

using TypeOf = std::function<TensorType(const std::string& name)>;

TypeOf always(TensorType type) {
  return [type](const std::string&) { return type; };
}
TensorType mixed(const std::string& name) {
  if (name.find("norm") != std::string::npos) return TensorType::f32;
  return name.find("mlp") != std::string::npos ? TensorType::f16 : TensorType::bf16;
}

// A golden model with this config.json, its tensors stored in these types.
void write_folder(const fs::path& folder, const std::string& golden, const std::string& config,
                  const TypeOf& type) {
  const fs::path from = fs::path(LAZYTRAIN_TESTS_DIR) / "data" / "goldens" / golden;
  const Safetensors tensors = Safetensors::open_folder(from);
  write_file(folder / "config.json", read_file(from / config));
  std::vector<TensorInfo> infos;
  for (const TensorView& tensor : tensors.tensors())
    infos.push_back({.name = tensor.name, .type = type(tensor.name), .shape = tensor.shape});
  write_safetensors(folder, new_layout(infos), [&](const TensorInfo& info, const EmitBytes& emit) {
    const TensorView& tensor = tensors.at(info.name);
    std::vector<float> values(static_cast<std::size_t>(tensor.elements()));
    convert_to_float(tensor.type, tensor.bytes, values);
    std::vector<std::byte> bytes(static_cast<std::size_t>(info.bytes()));
    convert_from_float(values, info.type, bytes);
    emit(bytes);
  });
}

// Trains it for two steps and leaves the exported model in `output_dir`.
void train_folder(const fs::path& folder, const fs::path& output_dir, DataType precision, double rate) {
  const ModelFolder model(folder);
  const Architecture& architecture = model.architecture();
  RunConfig config;
  config.output_dir = output_dir.string();
  config.cutoff_len = kTokens;
  config.per_device_train_batch_size = kSlots;
  config.max_steps = kSteps;
  config.learning_rate = rate;
  config.weight_decay = 0;
  config.bf16 = precision == DataType::bf16;
  config.fp32 = !config.bf16;
  RunData data;
  Random random(3);
  for (std::int64_t sample = 0; sample < 8; ++sample) {
    std::vector<std::int32_t> ids(20);
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.below(300));
    data.train.samples.add(ids, std::vector<std::uint8_t>(ids.size(), 1), static_cast<std::uint64_t>(sample));
    data.train_samples.push_back(sample);
  }
  Plan plan;
  plan.policy = "test";
  plan.batch = {.slots = kSlots, .slot_tokens = kTokens, .micro_batch = 1};
  plan.boundaries.assign(static_cast<std::size_t>(architecture.layers) + 1,
                         {.materialised = true, .device_micro_batches = kSlots});
  plan.layers.assign(static_cast<std::size_t>(architecture.layers), {});
  SessionOptions session{.type = precision,
                         .device = {.compute_threads = 1, .host_threads = 1},
                         .position_rows = kTokens,
                         .max_gradient_norm = 1.0};
  session.scratch_folder = output_dir;
  Machine machine;
  machine.tiers = TierModel::unified;
  machine.device_capacity = machine.host_capacity = Bytes{std::int64_t{1} << 30};
  const Program program = lower_train_step(lowering_context(architecture, session), plan,
                                           workspace_bytes(architecture, session.type, 1, kTokens));
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
                                       .resume = std::nullopt,
                                       .signals = signals});
  EXPECT_EQ(result.steps, kSteps);
}

struct Stored {
  const char* name;
  const char* golden;
  const char* config;
  TypeOf type;
};

std::vector<Stored> stored_models() {
  return {{"F16 Qwen3", "qwen3", "config.json", always(TensorType::f16)},
          {"F32 Qwen3", "qwen3", "config.legacy.json", always(TensorType::f32)},
          {"mixed Qwen3", "qwen3", "config.json", mixed},
          {"F16 Qwen2", "qwen2", "config.legacy.json", always(TensorType::f16)},
          {"BF16 Qwen2 with windows", "qwen2-sliding", "config.json", always(TensorType::bf16)},
          {"mixed Qwen2 with windows", "qwen2-sliding", "config.legacy.json", mixed},
          {"F16 Llama", "llama-gqa-tied", "config.json", always(TensorType::f16)}};
}

// Names, types and shapes agree; returns how many tensors differ in their bytes.
int differing_tensors(const fs::path& a, const fs::path& b) {
  const Safetensors first = Safetensors::open_folder(a), second = Safetensors::open_folder(b);
  EXPECT_EQ(first.tensors().size(), second.tensors().size());
  int differing = 0;
  for (const TensorView& tensor : first.tensors()) {
    const TensorView* other = second.find(tensor.name);
    if (other == nullptr) {
      ADD_FAILURE() << tensor.name << " is missing";
      continue;
    }
    EXPECT_EQ(other->type, tensor.type) << tensor.name;
    EXPECT_EQ(other->shape, tensor.shape) << tensor.name;
    if (!std::ranges::equal(tensor.bytes, other->bytes)) ++differing;
  }
  return differing;
}

TEST(StoredTypes, TrainedModelsKeepNamesTypesAndSettings) {
  for (const Stored& stored : stored_models()) {
    for (const DataType precision : {DataType::bf16, DataType::f32}) {
      SCOPED_TRACE(std::string(stored.name) + (precision == DataType::bf16 ? ", bf16 run" : ", fp32 run"));
      const TemporaryFolder folder;
      write_folder(folder.path(), stored.golden, stored.config, stored.type);
      const fs::path out = folder.path() / "out";
      train_folder(folder.path(), out, precision, 1e-2);
      EXPECT_EQ(read_file(out / "config.json"), read_file(folder.path() / "config.json"));
      const auto tensors = static_cast<int>(Safetensors::open_folder(out).tensors().size());
      EXPECT_EQ(differing_tensors(folder.path(), out), tensors);  // all were trained
      EXPECT_NO_THROW(ModelFolder{out});
    }
  }
}

// Without a step nothing is lost: the fp32 masters of either run hold every stored value exactly.
TEST(StoredTypes, UntrainedModelsKeepEveryBit) {
  for (const Stored& stored : stored_models()) {
    for (const DataType precision : {DataType::bf16, DataType::f32}) {
      SCOPED_TRACE(std::string(stored.name) + (precision == DataType::bf16 ? ", bf16 run" : ", fp32 run"));
      const TemporaryFolder folder;
      write_folder(folder.path(), stored.golden, stored.config, stored.type);
      const fs::path out = folder.path() / "out";
      train_folder(folder.path(), out, precision, 0);
      EXPECT_EQ(differing_tensors(folder.path(), out), 0);
    }
  }
}

}  // namespace
}  // namespace lazytrain
