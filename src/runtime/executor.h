// The executor runs Programs: it puts every op into its stream in list order, with waits where the op says
// `after`, and adds no order of its own. One executor owns the arenas of a run and the streams; all Programs
// of the run share them, with parameters and states at the same offsets.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "device/cpu/cpu_device.h"
#include "layers/decoder_layer.h"
#include "layers/head.h"
#include "optim/adamw.h"
#include "optim/group_state.h"
#include "program/lowering.h"
#include "program/program.h"
#include "runtime/scratch_file.h"
#include "runtime/state_window.h"
#include "runtime/step.h"

namespace lazytrain {

struct ExecutorOptions {
  DataType type = DataType::bf16;
  double max_gradient_norm = 0;  // 0 = no clipping
  // Emulated machines: UpdateLayer is paced to this many parameters per second; 0 = as fast as it goes.
  double optimizer_rate = 0;
  // Where states on disk are kept, and the GB/s that reads and writes are paced to; 0 = as fast as they go.
  std::filesystem::path scratch_folder = {};
  double disk_read = 0, disk_write = 0;
  // One op at a time, everything that an op did not name is poisoned (AddressSanitizer builds), and arenas
  // are filled with a pattern so that the highest byte touched can be found.
  bool debug_memory = false;
  bool skip_updates = false;  // updates do nothing: for the time of a step without optimizer
};

class Executor {
 public:
  // `states`: the layout of each group's state; empty without training.
  Executor(CpuDevice& device, const LoweringContext& context, const ExecutorOptions& options,
           std::vector<GroupStateLayout> states);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Arenas and a scratch file for the largest of all Programs that will run. Once, before anything else.
  // `most_device`, `most_host`: how large grow() may make the arenas (0: not at all).
  void allocate(Bytes device, Bytes host, Bytes disk, Bytes most_device = {}, Bytes most_host = {});
  // Whether grow() can go as far as allocate() was asked for.
  [[nodiscard]] bool may_grow() const { return may_grow_; }
  // Room for a Program that is larger than the others, between steps. What is in the arenas stays.
  void grow(Bytes device, Bytes host);
  // The gradient of a group as the last step left it, in the storage type; not of those on disk.
  void read_gradient(std::size_t group, std::span<std::byte> out);
  // The pieces of a group's state, between steps.
  [[nodiscard]] StateWindow& states() { return states_; }
  // The weights of a group, one piece each, likewise.
  [[nodiscard]] StateWindow& weights() { return weights_; }
  [[nodiscard]] const GroupStateLayout& piece_layout(std::size_t group, std::size_t piece) const {
    return piece_layouts_.at(group).at(piece);
  }
  // How the scratch file is read and written; empty where nothing is on disk.
  [[nodiscard]] std::string disk_method() const { return disk_ ? disk_->method() : ""; }

  // A training step. With overlap the Program begins with the updates of the step before (left out where
  // there is none); `update` says what this step's update is to do. Not finite: no update follows.
  StepOutcome train(const Program& program, const StepTokens& tokens, const AdamWStep& update,
                    bool timings = false);
  // Runs the updates that overlap has left over; nothing if there are none.
  void drain(const Program& update_only);
  [[nodiscard]] bool update_pending() const { return pending_.has_value(); }

  StepOutcome evaluate(const Program& program, const StepTokens& tokens, bool token_losses = false);
  StepOutcome prefill(const Program& program, const GenerationGeometry& geometry,
                      const PrefillTokens& tokens);
  StepOutcome decode(const Program& program, const GenerationGeometry& geometry, const DecodeTokens& tokens);

  // One past the highest byte of a tier's arena that anything wrote.
  [[nodiscard]] Bytes highest_byte_touched(Tier tier) const;
  // Whole arena of a tier (tests).
  [[nodiscard]] Arena arena(Tier tier) const { return tier == Tier::device ? device_arena_ : host_arena_; }

 private:
  struct Prepared;
  struct Running;  // one run of a Program
  friend struct Issue;
  void check_targets(const StepTokens& tokens) const;
  // Parameters and states of one group, where they live between steps. All Programs of the run agree.
  struct GroupMemory {
    std::span<std::byte> weights = {};  // storage type
    std::span<std::byte> states =
        {};  // optim/group_state.h says what is where; empty without training or on disk
    std::span<std::byte> gradient = {};  // likewise
    bool on_device = false;              // all three
  };
  // One group, or one piece of it.
  struct Update {
    AdamWStateGroup group;
    const double* clip_factor;
    ThreadPool* pool;
    Seconds pace = 0;  // how long it lasts at least
  };

  StepOutcome run(const Program& program, Running& running);
  void issue(const Program& program, const Op& op, Running& running, Stream& stream);
  const Prepared& prepare(const Program& program);
  void reduce_norm(const Program& program, const Op& op, Running& running);
  void update_group(const Update& update, const Running& running);
  // Whether what update ops would do is done: called by them and what waits for them.
  [[nodiscard]] bool updates(const Running& running) const;
  void read_disk(Bytes offset, std::span<std::byte> out);
  void write_disk(Bytes offset, std::span<const std::byte> bytes, const Running& running, bool update);
  void open_states(const Program& states);
  void open_weights(const Program& states);
  [[nodiscard]] DeviceCopies device_copies() const;
  // The buffer of this name; empty where there is none.
  [[nodiscard]] std::span<std::byte> buffer_named(const Program& program, const std::string& name) const;
  [[nodiscard]] std::byte* host_batch(const Program& program) const;
  [[nodiscard]] std::byte* address(const Program& program, BufferId buffer) const;

  CpuDevice& device_;
  LoweringContext context_;
  ExecutorOptions options_;
  DecoderLayer layer_;
  Head head_;
  std::vector<GroupStateLayout> state_layouts_;
  std::vector<std::vector<GroupStateLayout>> piece_layouts_;  // [group][piece]
  Arena device_arena_, host_arena_;
  std::vector<std::unique_ptr<Stream>> streams_;  // by StreamId
  std::vector<std::unique_ptr<Event>> events_;    // reused by every Program, one per op that others wait for
  std::unique_ptr<Prepared> prepared_;
  std::vector<GroupMemory> groups_;
  std::unique_ptr<ScratchFile> disk_;
  StateWindow states_, weights_;
  std::chrono::steady_clock::time_point disk_read_free_{}, disk_write_free_{};  // paced: end of the last
  bool may_grow_ = false;
  std::optional<AdamWStep> pending_;
  bool step_finite_ = true;
};

}  // namespace lazytrain
