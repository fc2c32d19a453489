#include "runtime/session.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

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
      context.state_pieces.push_back(state_piece_sizes(layout));
    }
    context.homes = options.homes;
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
                                                         .scratch_folder = options.scratch_folder,
                                                         .disk_read = options.disk_read,
                                                         .disk_write = options.disk_write,
                                                         .debug_memory = options.debug_memory,
                                                         .skip_updates = options.skip_updates},
                                         state_layouts_);
}

void Session::allocate(std::span<const Program* const> programs, Bytes most_device, Bytes most_host) {
  Bytes device, host, disk;
  for (const Program* program : programs) {
    device = std::max(device, program->device_bytes);
    host = std::max(host, program->host_bytes);
    disk = std::max(disk, program->disk_bytes);
  }
  executor_->allocate(device, host, disk, most_device, most_host);
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
  check(values.size() == static_cast<std::size_t>(context_.groups[group].elements), "a group is set whole");
  const auto clear = [](std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0}); };
  clear(weights(group, true));
  if (options_.training)
    for (std::size_t p = 0; p < states().pieces(group); ++p) clear(states().piece(group, p, true));
  set_values(group, 0, values);
}

void Session::set_values(std::size_t group, std::int64_t first, std::span<const float> values) {
  const std::span<std::byte> weights = this->weights(group, true);
  if (options_.training) {
    each_piece(group, first, std::ssize(values), [&](std::size_t p, std::int64_t begin, std::int64_t end) {
      write_masters(
          executor_->piece_layout(group, p), weights, states().piece(group, p, true), begin,
          values.subspan(static_cast<std::size_t>(begin - first), static_cast<std::size_t>(end - begin)));
    });
    return;
  }
  for (const ParameterTensor& tensor : context_.groups[group].tensors) {
    const std::int64_t end = std::min(first + std::ssize(values), tensor.offset + tensor.elements);
    for (std::int64_t i = std::max(first, tensor.offset); i < end; ++i) {
      const float value = values[static_cast<std::size_t>(i - first)];
      if (options_.type == DataType::f32)
        reinterpret_cast<float*>(weights.data())[i] = value;
      else
        reinterpret_cast<bfloat16*>(weights.data())[i] =
            master_to_bfloat16(value, static_cast<std::uint64_t>(i - tensor.offset));
    }
  }
}

void Session::read_masters(std::size_t group, std::int64_t first, std::span<float> out) const {
  const std::span<const std::byte> weights = this->weights(group, false);
  if (options_.training) {
    std::fill(out.begin(), out.end(), 0.0F);
    each_piece(group, first, std::ssize(out), [&](std::size_t p, std::int64_t begin, std::int64_t end) {
      lazytrain::read_masters(
          executor_->piece_layout(group, p), weights, executor_->states().piece(group, p, false), begin,
          out.subspan(static_cast<std::size_t>(begin - first), static_cast<std::size_t>(end - begin)));
    });
    return;
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t at = static_cast<std::size_t>(first) + i;
    out[i] = options_.type == DataType::f32 ? reinterpret_cast<const float*>(weights.data())[at]
                                            : to_float(reinterpret_cast<const bfloat16*>(weights.data())[at]);
  }
}

void Session::read_gradient(std::size_t group, std::span<float> out) const {
  if (options_.type == DataType::f32) return executor_->read_gradient(group, std::as_writable_bytes(out));
  std::vector<bfloat16> gradient(out.size());
  executor_->read_gradient(group, std::as_writable_bytes(std::span(gradient)));
  std::ranges::transform(gradient, out.begin(), [](bfloat16 value) { return to_float(value); });
}

std::span<std::byte> Session::weights(std::size_t group, bool change) const {
  return executor_->weights()
      .piece(group, 0, change)
      .first(static_cast<std::size_t>(weight_bytes(group).value));
}

// Calls f(piece, begin, end) for the pieces that hold some of the elements first..first + count.
template <typename F>
void Session::each_piece(std::size_t group, std::int64_t first, std::int64_t count, F f) const {
  const std::vector<StatePiece>& pieces = state_layouts_[group].pieces;
  for (std::size_t p = 0; p < pieces.size(); ++p) {
    const std::int64_t begin = std::max(first, pieces[p].begin);
    const std::int64_t end = std::min(first + count, pieces[p].end);
    if (begin < end) f(p, begin, end);
  }
}

}  // namespace lazytrain
