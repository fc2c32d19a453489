// A model in memory, ready to run Programs: device, arenas, parameters and optimizer states. Training,
// evaluation, generation and tests all go through it.
//
// Order: make a Session, lower Programs with its context(), allocate() for all of them, load parameters, run.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "model/model_folder.h"
#include "runtime/executor.h"
#include "runtime/group_states.h"

namespace lazytrain {

struct SessionOptions {
  DataType type = DataType::bf16;
  CpuDeviceOptions device;
  bool training = true;              // optimizer states and gradients exist
  std::int64_t position_rows = 512;  // longest position + 1
  double max_gradient_norm = 0;
  double optimizer_rate = 0;  // emulated machines, parameters per second; 0 = not paced
  bool debug_memory = false;
  bool skip_updates = false;
  std::filesystem::path scratch_folder = {};  // of what is on disk
  double disk_read = 0, disk_write = 0;       // GB/s that the disk is paced to; 0 = not
  std::vector<GroupPlan> homes = {};          // Plan::groups
  MomentOptions moments = {};                 // training: what the optimizer keeps in 8 bits
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

  // Arenas as large as the largest of the Programs. Once. `most_device`, `most_host`: how far make_room() may
  // go (0: not beyond these Programs).
  void allocate(std::span<const Program* const> programs, Bytes most_device = {}, Bytes most_host = {});
  // For a Program with the same homes that came later, between steps.
  void make_room(const Program& program) { executor_->grow(program.device_bytes, program.host_bytes); }
  // An emulated device's links, from now on.
  void set_links(const LinkRates& rates) { device_->set_links(rates); }

  // Parameters from a folder, states zero. Masters hold the folder's values exactly.
  void load(const ModelFolder& folder);
  // Parameters from fp32 values, group by group (random models, tests).
  void set_group(std::size_t group, std::span<const float> values);

  // A part of a group, from element `first` on. Moments stay as they are.
  void set_values(std::size_t group, std::int64_t first, std::span<const float> values);

  // The fp32 masters of a group's elements from `first` on (without training: the weights).
  void read_masters(std::size_t group, std::int64_t first, std::span<float> out) const;
  // All of them, gaps included: out[group.elements].
  void read_masters(std::size_t group, std::span<float> out) const { read_masters(group, 0, out); }
  // The group's gradient as it left the device.
  void read_gradient(std::size_t group, std::span<float> out) const;

  // Everything that a resumed run needs of a group, as raw bytes: weights, and the pieces of its state one
  // after the other. In bf16 runs a master is a weight and its residual in the state (core/bfloat16.h:
  // join_master).
  // `change`: what is written into them is kept; until the next call.
  [[nodiscard]] std::span<std::byte> weights(std::size_t group, bool change) const;
  [[nodiscard]] Bytes weight_bytes(std::size_t group) const {
    return {context_.groups[group].elements * context_.type_bytes};
  }
  [[nodiscard]] StateWindow& states() { return executor_->states(); }
  // By group; empty without training.
  [[nodiscard]] const std::vector<GroupStateLayout>& state_layouts() const { return state_layouts_; }

 private:
  template <typename F>
  void each_piece(std::size_t group, std::int64_t first, std::int64_t count, F f) const;

  SessionOptions options_;
  LoweringContext context_;
  std::vector<GroupStateLayout> state_layouts_;
  std::unique_ptr<CpuDevice> device_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace lazytrain
