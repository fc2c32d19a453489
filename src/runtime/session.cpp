#include "runtime/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>

namespace lazytrain {
namespace {

const float* master_of(const GroupMemory& memory) {
  return reinterpret_cast<const float*>(memory.states.data());
}

}  // namespace

LoweringContext lowering_context(const Architecture& architecture, const SessionOptions& options) {
  LoweringContext context{
      .architecture = architecture,
      .groups = parameter_groups(architecture),
      .tiers = options.device.memory_model == MemoryModel::unified ? TierModel::unified : TierModel::tiered,
      .type_bytes = size_of(options.type),
      .position_rows = options.position_rows,
      .state_bytes = {}};
  if (options.training) {
    const OptimizerStateLayout layout = state_layout(StateFormat::adamw_32bit, options.type);
    for (const ParameterGroup& group : context.groups)
      context.state_bytes.push_back(layout.bytes(group.elements));
  }
  return context;
}

Session::Session(const Architecture& architecture, const SessionOptions& options)
    : options_(options),
      context_(lowering_context(architecture, options)),
      device_(make_cpu_device(options.device)) {
  executor_ = std::make_unique<Executor>(*device_, context_,
                                         ExecutorOptions{.type = options.type,
                                                         .max_gradient_norm = options.max_gradient_norm,
                                                         .optimizer_rate = options.optimizer_rate,
                                                         .debug_memory = options.debug_memory});
}

void Session::allocate(std::span<const Program* const> programs) {
  Bytes device, host;
  for (const Program* program : programs) {
    device = std::max(device, program->device_bytes);
    host = std::max(host, program->host_bytes);
  }
  executor_->allocate(device, host);
}

void Session::load(const ModelFolder& folder) {
  std::vector<float> values;
  for (std::size_t g = 0; g < context_.groups.size(); ++g) {
    values.assign(static_cast<std::size_t>(context_.groups[g].elements), 0.0F);
    folder.read_group(g, values);
    set_group(g, values);
  }
}

void Session::set_group(std::size_t group, std::span<const float> values) {
  const GroupMemory memory = executor_->group(group);
  check(values.size() == static_cast<std::size_t>(context_.groups[group].elements), "a group is set whole");
  std::fill(memory.states.begin(), memory.states.end(), std::byte{0});
  if (options_.type == DataType::f32) {
    std::memcpy(memory.weights.data(), values.data(), values.size_bytes());
    return;
  }
  if (options_.training) {
    std::memcpy(memory.states.data(), values.data(), values.size_bytes());
    refresh_weights(group);
    return;
  }
  round_group(group, values);
}

void Session::round_group(std::size_t group, std::span<const float> values) {
  auto* weights = reinterpret_cast<bfloat16*>(executor_->group(group).weights.data());
  std::fill_n(weights, values.size(), bfloat16{});  // gaps
  for (const ParameterTensor& tensor : context_.groups[group].tensors)
    for (std::int64_t i = 0; i < tensor.elements; ++i)
      weights[tensor.offset + i] = master_to_bfloat16(values[static_cast<std::size_t>(tensor.offset + i)],
                                                      static_cast<std::uint64_t>(i));
}

void Session::refresh_weights(std::size_t group) {
  if (options_.type == DataType::f32 || !options_.training) return;
  round_group(
      group, {master_of(executor_->group(group)), static_cast<std::size_t>(context_.groups[group].elements)});
}

void Session::read_masters(std::size_t group, std::span<float> out) const {
  const GroupMemory memory = executor_->group(group);
  if (options_.type == DataType::f32) {
    std::memcpy(out.data(), memory.weights.data(), out.size_bytes());
  } else if (options_.training) {
    std::memcpy(out.data(), memory.states.data(), out.size_bytes());
  } else {
    const auto* weights = reinterpret_cast<const bfloat16*>(memory.weights.data());
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = to_float(weights[i]);
  }
}

void Session::read_gradient(std::size_t group, std::span<float> out) const {
  const GroupMemory memory = executor_->group(group);
  const bool fp32 = options_.type == DataType::f32 || context_.groups[group].kind == GroupKind::embedding;
  if (fp32) {
    std::memcpy(out.data(), memory.gradient.data(), out.size_bytes());
    return;
  }
  const auto* gradient = reinterpret_cast<const bfloat16*>(memory.gradient.data());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = to_float(gradient[i]);
}

std::vector<Session::Blob> Session::blobs(std::size_t group) {
  const GroupMemory memory = executor_->group(group);
  std::vector<Blob> blobs;
  if (options_.type == DataType::f32)
    blobs.push_back({fmt::format("group-{:03}.weights", group), memory.weights});
  if (options_.training) blobs.push_back({fmt::format("group-{:03}.states", group), memory.states});
  return blobs;
}

}  // namespace lazytrain
