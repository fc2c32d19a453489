// What an optimizer keeps for each parameter between steps, in bytes: the one place that knows. Tiers,
// planner, runtime and checkpoints ask here how large a group's buffers are and never count by themselves,
// so that another state format is one more entry of `state_layout`.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/units.h"
#include "device/operations.h"

namespace lazytrain {

enum class StateFormat : std::uint8_t {
  adamw_32bit,   // fp32 moments for every tensor
  adamw_8bit,    // 8-bit moments for all but small tensors, biases and norms
  adamw_hybrid,  // 8-bit moments for a given fraction of the parameters
};
[[nodiscard]] const char* to_string(StateFormat format);

// One buffer of the state. Elements are stored in runs of `block` (1 = each by itself); a run takes
// `bytes_per_block`, the last run of a buffer too, be it whole or not.
struct StateBuffer {
  std::string_view name;  // "master", "exp_avg", "exp_avg_sq": also its name in checkpoints
  std::int64_t block = 1;
  std::int64_t bytes_per_block = 4;

  [[nodiscard]] Bytes bytes(std::int64_t elements) const {
    return {(elements + block - 1) / block * bytes_per_block};
  }
};

struct OptimizerStateLayout {
  std::vector<StateBuffer> buffers;

  // All buffers of a group of `elements`, each aligned to kBufferAlignment.
  [[nodiscard]] Bytes bytes(std::int64_t elements) const;
  // Where buffer `index` of such a group starts, in bytes from the start of the group's state.
  [[nodiscard]] Bytes offset(std::int64_t index, std::int64_t elements) const;
  // Bytes of state per parameter in the limit of large groups: for tables.
  [[nodiscard]] double bytes_per_parameter() const;
};

// The buffers for weights stored as `weights`: with bf16 weights master, exp_avg, exp_avg_sq; fp32 weights
// are their own master, which leaves the two moments.
[[nodiscard]] OptimizerStateLayout state_layout(StateFormat format, DataType weights);

}  // namespace lazytrain
