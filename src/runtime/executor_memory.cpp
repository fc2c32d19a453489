// The executor's memory: arenas, the scratch file, and where parameters and states are in them between steps.

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "core/log.h"
#include "runtime/executor.h"

namespace lazytrain {
namespace {

// Shows afterwards how far up a run has written; the pages have to become real in any case.
constexpr std::byte kPattern{0xA5};

void fill_with_pattern(const Arena& arena, Bytes from) {
  if (arena.data != nullptr)
    std::memset(arena.data + from.value, static_cast<int>(kPattern),
                static_cast<std::size_t>((arena.size - from).value));
}

}  // namespace

void Executor::allocate(Bytes device, Bytes host, Bytes disk, Bytes most_device, Bytes most_host) {
  // First: a disk that is too small is known before memory is taken.
  if (disk.value > 0) {
    disk_ = std::make_unique<ScratchFile>(options_.scratch_folder, disk);
    if (!disk_->passed_over().empty())
      log::info("scratch disk: {}, since the system refuses better ({})", disk_->method(),
                disk_->passed_over());
    if (disk_->in_memory())
      log::warning(
          "{} is in memory: what is kept there takes host memory, not disk; give another scratch_dir",
          options_.scratch_folder.string());
  }
  device_arena_ = device_.allocate(Tier::device, device, std::max(device, most_device));
  if (context_.tiers == TierModel::tiered)
    host_arena_ = device_.allocate(Tier::host, host, std::max(host, most_host));
  fill_with_pattern(device_arena_, Bytes{0});
  fill_with_pattern(host_arena_, Bytes{0});
  // The update Program names every state buffer and nothing else: its offsets are everybody's.
  const Program states = lower_update_only(context_);
  const auto view = [&](const std::string& name) -> std::span<std::byte> {
    for (BufferId id = 0; id < static_cast<BufferId>(states.buffers.size()); ++id)
      if (states.at(id).name == name)
        return {address(states, id), static_cast<std::size_t>(states.at(id).size.value)};
    return {};
  };
  for (std::size_t g = 0; g < context_.groups.size(); ++g) {
    groups_.push_back({.weights = view(fmt::format("host.w[{}]", g)),
                       .states = view(fmt::format("host.states[{}]", g)),
                       .gradient = view(fmt::format("host.grad[{}]", g))});
    for (const std::span<std::byte> bytes :
         {groups_.back().weights, groups_.back().states, groups_.back().gradient})
      std::fill(bytes.begin(), bytes.end(), std::byte{0});
  }
  open_states(states);
  open_weights(states);
}

void Executor::grow(Bytes device, Bytes host) {
  const auto grow = [&](Tier tier, Arena& arena, Bytes size) {
    const Bytes before = arena.size;
    if (arena.data == nullptr || size <= before) return;
    device_.grow(tier, arena, size);
    fill_with_pattern(arena, before);
  };
  grow(Tier::device, device_arena_, device);
  grow(Tier::host, host_arena_, host);
}

// A state on disk is zero until it is written: so are the scratch file's blocks.
void Executor::open_states(const Program& states) {
  std::vector<std::vector<StateWindow::Home>> homes(state_layouts_.size());
  std::span<std::byte> stage;
  for (const Op& op : states.ops) {
    if (op.kind != OpKind::update_group) continue;
    const auto g = static_cast<std::size_t>(op.layer);
    if (op.piece >= 0) {
      const BufferId buffer = op.buffer(OperandRole::states);
      stage = {address(states, buffer), static_cast<std::size_t>(states.at(buffer).size.value)};
      continue;
    }
    for (const StatePiece& piece : state_layouts_[g].pieces)
      homes[g].push_back({.memory = groups_[g].states.subspan(static_cast<std::size_t>(piece.offset.value),
                                                              static_cast<std::size_t>(piece.bytes.value)),
                          .offset = {},
                          .bytes = piece.bytes});
  }
  for (const Op& op : states.ops)
    if (op.kind == OpKind::read_states)
      homes[static_cast<std::size_t>(op.layer)].push_back(
          {.memory = {}, .offset = states.at(op.buffer(OperandRole::input)).offset, .bytes = op.bytes});
  states_ = StateWindow(std::move(homes), disk_.get(), stage);
}

void Executor::open_weights(const Program& states) {
  std::vector<std::vector<StateWindow::Home>> homes;
  for (const GroupMemory& group : groups_)
    homes.push_back({{.memory = group.weights, .offset = {}, .bytes = Bytes{std::ssize(group.weights)}}});
  std::span<std::byte> slot;
  for (const Op& op : states.ops) {
    if (op.kind != OpKind::read_weights) continue;
    const BufferId buffer = op.buffer(OperandRole::output);
    slot = {address(states, buffer), static_cast<std::size_t>(states.at(buffer).size.value)};
    homes[static_cast<std::size_t>(op.layer)] = {
        {.memory = {}, .offset = states.at(op.buffer(OperandRole::input)).offset, .bytes = op.bytes}};
  }
  weights_ = StateWindow(std::move(homes), disk_.get(), slot);
}

GroupMemory Executor::group(std::size_t index) const {
  return groups_.at(index);
}

std::byte* Executor::address(const Program& program, BufferId buffer) const {
  const Buffer& entry = program.at(buffer);
  check(entry.tier != Tier::disk, "what is on disk has no address");
  const Arena& arena = entry.tier == Tier::device ? device_arena_ : host_arena_;
  check(entry.offset.value >= 0 && entry.offset + entry.size <= arena.size, "a buffer lies inside its arena");
  return arena.data + entry.offset.value;
}

Bytes Executor::highest_byte_touched(Tier tier) const {
  const Arena& arena = tier == Tier::device ? device_arena_ : host_arena_;
  std::int64_t top = arena.size.value;
  while (top > 0 && arena.data[top - 1] == kPattern) --top;
  return {top};
}

}  // namespace lazytrain
