// A model in memory, ready to run Programs: device, arenas, parameters and optimizer states. Training,
// evaluation, generation and tests all go through it.
//
// Order: make a Session, lower Programs with its context(), allocate() for all of them, load parameters, run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "model/model_folder.h"
#include "runtime/executor.h"

namespace lazytrain {

struct SessionOptions {
  DataType type = DataType::bf16;
  CpuDeviceOptions device;
  bool training = true;              // optimizer states and gradients exist
  std::int64_t position_rows = 512;  // longest position + 1
  double max_gradient_norm = 0;
  double optimizer_rate = 0;  // emulated machines, parameters per second; 0 = not paced
  bool debug_memory = false;
};

// What lowering needs to know of a model under these options; no memory is touched.
LoweringContext lowering_context(const Architecture& architecture, const SessionOptions& options);

class Session {
 public:
  Session(const Architecture& architecture, const SessionOptions& options);

  [[nodiscard]] const LoweringContext& context() const { return context_; }
  [[nodiscard]] const SessionOptions& options() const { return options_; }
  [[nodiscard]] const CpuDevice& device() const { return *device_; }
  [[nodiscard]] Executor& executor() { return *executor_; }

  // Arenas as large as the largest of the Programs. Once.
  void allocate(std::span<const Program* const> programs);

  // Parameters from a folder, states zero. Masters hold the folder's values exactly.
  void load(const ModelFolder& folder);
  // Parameters from fp32 values, group by group (random models, tests).
  void set_group(std::size_t group, std::span<const float> values);

  // The fp32 masters of a group (without training: the weights), gaps included: out[group.elements].
  void read_masters(std::size_t group, std::span<float> out) const;
  // The group's gradient as it left the device.
  void read_gradient(std::size_t group, std::span<float> out) const;

  // Everything that a resumed run needs of a group, as raw bytes: masters or fp32 weights, and states. After
  // restoring them call refresh_weights().
  struct Blob {
    std::string name;  // "group-003.states"
    std::span<std::byte> bytes;
  };
  [[nodiscard]] std::vector<Blob> blobs(std::size_t group);
  // bf16 weights from the masters.
  void refresh_weights(std::size_t group);

 private:
  // bf16 weights of a group from fp32 values.
  void round_group(std::size_t group, std::span<const float> values);

  SessionOptions options_;
  LoweringContext context_;
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace lazytrain
