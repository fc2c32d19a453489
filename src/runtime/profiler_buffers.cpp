#include "runtime/profiler_buffers.h"

#include <algorithm>
#include <array>

#include "runtime/host_ops.h"
#include "runtime/workspace.h"

namespace lazytrain {
namespace {

// Updates are timed on more elements than a cache holds.
constexpr std::int64_t kHostElements = std::int64_t{4} << 20;

// How much of the vocabulary the head is timed with: the first of its blocks, whole ones, because what a
// block costs beside its products does not shrink with it. The head's time is proportional to it.
VocabularySlice head_slice(const Architecture& a, bool quick) {
  const std::int64_t most_elements = (std::int64_t{quick ? 8 : 32}) << 20;
  const std::int64_t block = vocabulary_block(a.vocab);
  const std::int64_t blocks =
      std::clamp<std::int64_t>(most_elements / (block * a.hidden), 1, vocabulary_blocks(a.vocab));
  return {.block = 0, .end_block = blocks, .first = 0, .tokens = std::min(a.vocab, blocks * block)};
}

}  // namespace

ProfileSizes sizes_of(const Architecture& architecture, const ProfileOptions& options) {
  ProfileSizes sizes{.architecture = architecture,
                     .head = head_slice(architecture, options.quick),
                     .groups = parameter_groups(architecture),
                     .rows = options.micro_batch * options.slot_tokens,
                     .elements = 0,
                     .update_elements = 0,
                     .fp32_state = {},
                     .eight_bit_state = {}};
  sizes.elements = sizes.groups[1].elements;
  sizes.update_elements = std::clamp(sizes.elements, kHostElements, 4 * kHostElements);
  const auto state = [&](MomentPrecision precision) {
    const std::array tensor{TensorPrecision{
        .range = {.begin = 0, .end = sizes.update_elements, .decay = true}, .precision = precision}};
    return group_state_layout(tensor, options.type);
  };
  sizes.fp32_state = state(MomentPrecision::fp32);
  sizes.eight_bit_state = state(MomentPrecision::eight_bit);
  return sizes;
}

ProfileBuffers place(const ProfileSizes& sizes, const ProfileOptions& options, ArenaPieces& device,
                     ArenaPieces& host) {
  const Architecture& a = sizes.architecture;
  const std::int64_t size = size_of(options.type), rows = sizes.rows, hidden = rows * a.hidden * size;
  const std::int64_t all = stash_bytes(a, LayerKind::attention, StashLevel::all, rows, size).value;
  ProfileBuffers b{};
  b.workspace_bytes = workspace_bytes(a, options.type, options.micro_batch, options.slot_tokens);
  b.workspace_size = std::max({b.workspace_bytes.forward, b.workspace_bytes.recompute,
                               b.workspace_bytes.backward, b.workspace_bytes.head});
  b.weights = device.take(sizes.elements * size);
  b.accumulator = device.take<float>(sizes.elements * 4);
  b.x = device.take(hidden);
  b.y = device.take(hidden);
  b.gradient = device.take(hidden);
  b.stash = device.take(all);
  b.rest = device.take(all);
  b.workspace = device.take(b.workspace_size.value);
  b.cosine = device.take<float>(options.slot_tokens * a.head_dim * 4);
  for (std::int32_t** array : {&b.positions, &b.document_start, &b.rows, &b.targets})
    *array = device.take<std::int32_t>(rows * 4);
  b.loss = device.take<float>(rows * 4);
  b.norm_weight = device.take(a.hidden * size);
  b.norm_accumulator = device.take<float>(a.hidden * 4);
  b.projection = device.take(sizes.head.tokens * a.hidden * size);
  b.projection_accumulator = device.take<float>(sizes.head.tokens * a.hidden * 4);
  b.on_device = device.take(kCopyBytes.value);
  b.on_host = host.take(kCopyBytes.value);
  b.fp32_states = host.take(sizes.fp32_state.bytes.value);
  b.eight_bit_states = host.take(sizes.eight_bit_state.bytes.value);
  b.host_weights = host.take(sizes.update_elements * size);
  b.host_gradient = host.take(sizes.update_elements * 4);
  b.embedding_gradient = host.take(sizes.head.tokens * a.hidden * size);
  b.gradient_rows = host.take<float>(rows * a.hidden * 4);
  for (std::int32_t** array : {&b.distinct, &b.token_rows}) *array = host.take<std::int32_t>(rows * 4);
  b.partial =
      host.take<double>(norm_chunks(std::max(sizes.update_elements, sizes.head.tokens * a.hidden)) * 8);
  return b;
}

}  // namespace lazytrain
