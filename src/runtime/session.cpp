#include "runtime/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstring>

namespace lazytrain {
namespace {

constexpr std::int64_t kPieceElements = std::int64_t{1} << 20;  // 4 MiB of fp32

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
    for (const GroupStateLayout& layout : state_layouts(context.groups, options.type, options.moments)) {
      context.state_bytes.push_back(layout.bytes);
      context.eight_bit_elements.push_back(elements_in_eight_bits(layout));
    }
  }
  return context;
}

Session::Session(const Architecture& architecture, const SessionOptions& options)
    : options_(options),
      context_(lowering_context(architecture, options)),
      state_layouts_(options.training
                         ? lazytrain::state_layouts(context_.groups, options.type, options.moments)
                         : std::vector<GroupStateLayout>{}),
      device_(make_cpu_device(options.device)) {
  executor_ = std::make_unique<Executor>(*device_, context_,
                                         ExecutorOptions{.type = options.type,
                                                         .max_gradient_norm = options.max_gradient_norm,
                                                         .optimizer_rate = options.optimizer_rate,
                                                         .debug_memory = options.debug_memory},
                                         state_layouts_);
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
  std::vector<float> piece;
  // From here on a bf16 weight would be infinite.
  constexpr float kTooLarge = 0x1.FFp127F;
  for (std::size_t g = 0; g < context_.groups.size(); ++g) {
    const std::vector<ParameterTensor>& tensors = context_.groups[g].tensors;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      for (std::int64_t begin = 0; begin < tensors[t].elements; begin += kPieceElements) {
        piece.resize(static_cast<std::size_t>(std::min(kPieceElements, tensors[t].elements - begin)));
        folder.read_tensor(g, t, begin, piece);
        if (options_.type == DataType::bf16 &&
            std::any_of(piece.begin(), piece.end(), [](float value) { return std::abs(value) >= kTooLarge; }))
          fail(ExitCode::model_file, "{}: tensor {} holds a value that bf16 cannot; use bf16: false",
               folder.path().string(), tensors[t].name);
        set_values(g, tensors[t].offset + begin, piece);
      }
    }
  }
}

void Session::set_group(std::size_t group, std::span<const float> values) {
  const GroupMemory memory = executor_->group(group);
  check(values.size() == static_cast<std::size_t>(context_.groups[group].elements), "a group is set whole");
  for (const std::span<std::byte> bytes : {memory.weights, memory.states})
    std::fill(bytes.begin(), bytes.end(), std::byte{0});
  set_values(group, 0, values);
}

void Session::set_values(std::size_t group, std::int64_t first, std::span<const float> values) {
  const GroupMemory memory = executor_->group(group);
  if (options_.training) {
    write_masters(state_layouts_[group], memory.weights, memory.states, first, values);
    return;
  }
  for (const ParameterTensor& tensor : context_.groups[group].tensors) {
    const std::int64_t end = std::min(first + std::ssize(values), tensor.offset + tensor.elements);
    for (std::int64_t i = std::max(first, tensor.offset); i < end; ++i) {
      const float value = values[static_cast<std::size_t>(i - first)];
      if (options_.type == DataType::f32)
        reinterpret_cast<float*>(memory.weights.data())[i] = value;
      else
        reinterpret_cast<bfloat16*>(memory.weights.data())[i] =
            master_to_bfloat16(value, static_cast<std::uint64_t>(i - tensor.offset));
    }
  }
}

void Session::read_masters(std::size_t group, std::int64_t first, std::span<float> out) const {
  const GroupMemory memory = executor_->group(group);
  if (options_.training) {
    lazytrain::read_masters(state_layouts_[group], memory.weights, memory.states, first, out);
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(first) + i;
    out[i] = options_.type == DataType::f32
                 ? reinterpret_cast<const float*>(memory.weights.data())[at]
                 : to_float(reinterpret_cast<const bfloat16*>(memory.weights.data())[at]);
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
  blobs.push_back({fmt::format("group-{:03}.weights", group), memory.weights});
  if (options_.training) blobs.push_back({fmt::format("group-{:03}.states", group), memory.states});
  return blobs;
}

}  // namespace lazytrain
