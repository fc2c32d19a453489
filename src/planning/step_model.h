// StepModel: one training step as plain numbers: seconds of compute, bytes of every object, rates and
// capacities. It is what the planner's mixed-integer program (planning/step_program.h) is written from, and
// it is read off the cost table and a lowered plan, so that it counts what lowering really allocates.
//
// Bytes are bytes as doubles (they enter products with shares), rates bytes per second, times seconds.
// "All micro-batches together" is meant wherever no micro-batch is named.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "planning/inputs.h"

namespace lazytrain {

// Which decisions the program may take beside the path, the stash levels and the shares of device and host.
struct StepOptions {
  bool resident = false;             // layers that live on the device with their optimizer states
  bool activations_on_disk = false;  // boundaries and stashes on disk
  bool stashes = true;               // false: boundaries alone are kept
  std::int64_t longest_block = 4;    // layers between two materialised boundaries
};

// How far ahead bytes move: fixed before the program is solved, because they decide what is reserved on the
// device. Counted in layers: a backward layer is up to 2 ops a micro-batch, a forward layer 1.
struct StepKnobs {
  // A fetch may start this many backward layers, and one micro-batch, before its use.
  double lead = 1;
  double lag = 2;                   // what leaves stays reserved for this many forward layers
  std::int64_t weight_slots = 2;    // at the least; the program may take more
  std::int64_t gradient_slots = 2;  // accumulators
  std::int64_t stage_slots = 4;     // objects on their way to disk, and as many from it
  bool boundary_gradient_on_host = false;
};

// The slots of a step in time: the prologue, the forward of each layer, the head, and for each layer from the
// last to the first the sweep of the block that ends with it (mostly empty) and its backward, then the tail.
struct StepSlots {
  std::int64_t layers = 0;
  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(3 * layers + 3); }
  [[nodiscard]] static std::size_t prologue() { return 0; }
  [[nodiscard]] static std::size_t forward(std::int64_t l) { return static_cast<std::size_t>(l + 1); }
  [[nodiscard]] std::size_t head() const { return static_cast<std::size_t>(layers + 1); }
  [[nodiscard]] std::size_t sweep(std::int64_t l) const {
    return static_cast<std::size_t>(layers + 2 + 2 * (layers - 1 - l));
  }
  [[nodiscard]] std::size_t backward(std::int64_t l) const { return sweep(l) + 1; }
  [[nodiscard]] std::size_t tail() const { return count() - 1; }
};

struct StepLayer {
  Seconds forward = 0, backward = 0;
  std::array<Seconds, kStashLevelCount> recompute = {};  // of a re-forward that finds a stash of this level
  std::array<double, kStashLevelCount> stash = {};       // bytes
  double weights = 0;                                    // bytes over h2d
  // Bytes over d2h that take as long as rounding and copying the gradient, which may be slower than the link.
  double gradient = 0;
  Seconds update = 0;         // on the host
  Seconds device_update = 0;  // of a resident layer
  double resident = 0;        // bytes on the device of a resident layer: weights, gradient, optimizer states
  double update_traffic = 0;  // bytes of host memory that the update reads and writes
};

struct StepModel {
  std::int64_t layers = 0, micro_batches = 1;
  bool unified = false;  // one tier, no links
  bool overlap = true;   // updates run before the forward, not after the backward
  StepKnobs knobs;
  StepOptions options;
  std::vector<StepLayer> layer = {};
  double boundary = 0;     // bytes of one boundary
  double weight_slot = 0;  // bytes of one slot that weights rotate through

  Seconds head = 0;
  double head_weights = 0, head_gradient = 0;  // bytes of all slices, each once
  double head_slices = 1;
  Seconds embedding_update = 0, head_update = 0;
  Seconds update_work = 0;          // of all groups together, without waiting for a pace or for the disk
  Seconds gather = 0, scatter = 0;  // of one micro-batch
  Seconds finish = 0;               // the rest of the embedding's gradient, and the norm

  // Bytes per second; `duplex` is the joint cap of both directions, huge where there is none.
  double h2d = 0, d2h = 0, duplex = 0, disk_read = 0, disk_write = 0, disk_duplex = 0, host_memory = 0;
  // Where compute and host work share cores: cores, and how many threads each of them uses. 0: they do not.
  double cores = 0, compute_threads = 0, host_threads = 0;

  // Bytes alive on the device at the beginning of each slot, and the host's most, of the plan that keeps
  // every boundary on the host (unified: on the device) and stashes nothing.
  std::vector<double> bare_device = {};
  double bare_host = 0;
  double bare_pinned = 0;
  double device_capacity = 0, host_capacity = 0;
  std::optional<double> pinned_capacity = {};  // none: all of the host may be pinned
  double disk_capacity = 0;                    // for activations
  double stage = 0;                            // bytes of the host that they pass through, each way
};

// Times, stash levels and bytes of one layer.
StepLayer layer_costs(const PlanningInputs& inputs, const BatchGeometry& batch, std::int64_t layer);

// The plan that StepModel::bare_device is about, with the knobs as Plan counts them.
Plan bare_plan(const PlanningInputs& inputs, const BatchGeometry& batch, const StepKnobs& knobs);

// Lowers the bare plan as far as an estimate. `batch.micro_batch` is set.
StepModel make_step_model(const PlanningInputs& inputs, const BatchGeometry& batch,
                          const StepKnobs& knobs = {}, const StepOptions& options = {});

}  // namespace lazytrain
