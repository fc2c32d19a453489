// CostTable: what every operation of a Program costs on one machine, for one model, storage type and slot
// length: seconds measured by `lazytrain calibrate` (or modelled from flops where nothing was measured), and
// the workspace bytes that the layers ask for. The simulator and the planner read nothing else.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/units.h"
#include "model/architecture.h"
#include "plan/machine.h"

namespace lazytrain {

inline constexpr std::size_t kStashLevelCount = 4;

// Seconds of one layer on one slot; an op on m slots takes m times as much.
struct LayerCosts {
  Seconds forward = 0;
  // Re-forward that computes what a stash of this level lacks, without the down-projection. Level all lacks
  // nothing: what is there is the elementwise work that its backward repeats, where `backward` leaves it out.
  std::array<Seconds, kStashLevelCount> recompute{};
  Seconds down_projection = 0;
  Seconds backward = 0;
};

// Bytes of scratch that one compute op needs on the device, for `slots` slots a call: the most over the
// model's kinds of layers.
struct WorkspaceBytes {
  Bytes forward;    // with nothing stashed (the most)
  Bytes recompute;  // the most over all levels, the down-projection's output included
  Bytes backward;
  Bytes head;        // fused head: one row chunk
  Bytes head_slice;  // the same of a head in slices
  Bytes decode;      // one decoding step
};

struct CostTable {
  std::string source = "modelled";  // "measured" or "modelled": said in every print-out
  std::string machine;              // what it was measured on
  std::int64_t slot_tokens = 0;
  std::array<LayerCosts, kLayerKindCount> layers = {};  // by LayerKind; zeros of kinds the model lacks
  // The head on one slot whose `slot_tokens` rows are all supervised: forward, loss and backward. Scales with
  // the supervised fraction.
  Seconds head = 0;
  Seconds head_forward = 0;  // evaluation
  // Host work, seconds per slot / per parameter / per byte.
  Seconds gather_embedding = 0;                // per slot
  Seconds scatter_embedding = 0;               // per slot
  Seconds finish_embedding = 0;                // last rounding and norm of the embedding gradient, per step
  Seconds zero_embedding = 0;                  // it is set to zero, per step (untied heads)
  Seconds update_per_parameter = 0;            // with fp32 moments
  Seconds update_eight_bit_per_parameter = 0;  // with 8-bit moments
  // Of resident layers, on the device.
  Seconds update_on_device_per_parameter = 0, update_on_device_eight_bit_per_parameter = 0;
  Seconds offload_gradient_per_element =
      0;  // conversion and norm; the copy over the link may be slower and then decides
  double copy_h2d = 0, copy_d2h = 0;  // GB/s of plain copies when the link is not paced
  Seconds op_overhead = 2e-6;         // per op
  // From the end of an op to the start of one in another stream that stood still until then.
  Seconds handover = 0;

  [[nodiscard]] const LayerCosts& of(LayerKind kind) const { return layers[static_cast<std::size_t>(kind)]; }
  [[nodiscard]] LayerCosts& of(LayerKind kind) { return layers[static_cast<std::size_t>(kind)]; }
};

// From flops alone, at `gflops` effective rate (and bandwidth-bound host work at `memory_gbps`).
CostTable modelled_costs(const Architecture& architecture, std::int64_t slot_tokens, double gflops,
                         double memory_gbps);

// Multiplies what the compute stream does by `factor`.
void scale_compute(CostTable& costs, double factor);

// For a machine known by its file alone: matrix products at machine.tflops, softmax attention over a slot
// that is one document at half of it and linear attention at an eighth, elementwise work at
// machine.device_memory, the optimizer at its rate, other host work at host memory's. The rates must be above
// 0 (read_machine).
CostTable modelled_costs(const Architecture& architecture, std::int64_t slot_tokens, const Machine& machine);

// Scratch of layers that nothing here computes yet, for `rows` tokens a call; head and decode stay 0.
WorkspaceBytes modelled_layer_workspace(const Architecture& architecture, std::int64_t rows,
                                        std::int64_t type_bytes);

nlohmann::json to_json(const CostTable& costs);
CostTable cost_table_from_json(const nlohmann::json& json, const std::string& where);
// Hash of everything that decides a plan, printed and stored with it.
std::string fingerprint(const CostTable& costs);

}  // namespace lazytrain
