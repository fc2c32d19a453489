#include "optim/optimizer_state.h"

#include "core/error.h"

namespace lazytrain {

const char* to_string(StateFormat format) {
  switch (format) {
    case StateFormat::adamw_32bit:
      return "adamw_32bit";
    case StateFormat::adamw_8bit:
      return "adamw_8bit";
    case StateFormat::adamw_hybrid:
      return "adamw_hybrid";
  }
  return "?";
}

Bytes OptimizerStateLayout::offset(std::int64_t index, std::int64_t elements) const {
  check(index >= 0 && index <= static_cast<std::int64_t>(buffers.size()), "state buffer index in range");
  Bytes sum;
  for (std::int64_t i = 0; i < index; ++i) {
    sum += align_up(buffers[static_cast<std::size_t>(i)].bytes(elements), kBufferAlignment);
  }
  return sum;
}

Bytes OptimizerStateLayout::bytes(std::int64_t elements) const {
  return offset(static_cast<std::int64_t>(buffers.size()), elements);
}

double OptimizerStateLayout::bytes_per_parameter() const {
  double sum = 0;
  for (const StateBuffer& buffer : buffers) {
    sum += static_cast<double>(buffer.bytes_per_block) / static_cast<double>(buffer.block);
  }
  return sum;
}

OptimizerStateLayout state_layout(StateFormat format, DataType weights) {
  OptimizerStateLayout layout;
  switch (format) {
    case StateFormat::adamw_32bit:
      if (weights == DataType::bf16) layout.buffers.push_back({.name = "master"});
      layout.buffers.push_back({.name = "exp_avg"});
      layout.buffers.push_back({.name = "exp_avg_sq"});
      break;
    case StateFormat::adamw_8bit:
    case StateFormat::adamw_hybrid:
      check(false, "states with 8-bit moments are laid out tensor by tensor (optim/group_state.h)");
  }
  return layout;
}

}  // namespace lazytrain
