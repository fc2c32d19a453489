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
  may_grow_ = device_arena_.most >= most_device && host_arena_.most >= most_host;
  fill_with_pattern(device_arena_, Bytes{0});
  fill_with_pattern(host_arena_, Bytes{0});
  // The update Program names every state buffer and nothing else: its offsets are everybody's.
  const Program states = lower_update_only(context_);
  for (std::size_t g = 0; g < context_.groups.size(); ++g) {
    const bool resident = !context_.homes.empty() && context_.homes[g].on_device;
    const auto view = [&](const char* what) {
      return buffer_named(states, fmt::format("{}.{}[{}]", resident ? "dev" : "host", what, g));
    };
    groups_.push_back(
        {.weights = view("w"), .states = view("states"), .gradient = view("grad"), .on_device = resident});
    for (const std::span<std::byte> bytes :
         {groups_.back().weights, groups_.back().states, groups_.back().gradient}) {
      if (resident)
        device_copies().zero(bytes);
      else
        std::fill(bytes.begin(), bytes.end(), std::byte{0});
    }
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
                          .on_device = groups_[g].on_device,
                          .bytes = piece.bytes});
  }
  for (const Op& op : states.ops)
    if (op.kind == OpKind::read_states)
      homes[static_cast<std::size_t>(op.layer)].push_back(
          {.memory = {}, .offset = states.at(op.buffer(OperandRole::input)).offset, .bytes = op.bytes});
  states_ = StateWindow(std::move(homes), {.disk = disk_.get(),
                                           .disk_buffer = stage,
                                           .device = device_copies(),
                                           .device_buffer = buffer_named(states, kWindowOfStates)});
}

void Executor::open_weights(const Program& states) {
  std::vector<std::vector<StateWindow::Home>> homes;
  for (const GroupMemory& group : groups_)
    homes.push_back(
        {{.memory = group.weights, .on_device = group.on_device, .bytes = Bytes{std::ssize(group.weights)}}});
  std::span<std::byte> slot;
  for (const Op& op : states.ops) {
    if (op.kind != OpKind::read_weights) continue;
    const BufferId buffer = op.buffer(OperandRole::output);
    slot = {address(states, buffer), static_cast<std::size_t>(states.at(buffer).size.value)};
    homes[static_cast<std::size_t>(op.layer)] = {
        {.memory = {}, .offset = states.at(op.buffer(OperandRole::input)).offset, .bytes = op.bytes}};
  }
  weights_ = StateWindow(std::move(homes), {.disk = disk_.get(),
                                            .disk_buffer = slot,
                                            .device = device_copies(),
                                            .device_buffer = buffer_named(states, kWindowOfWeights)});
}

void Executor::read_gradient(std::size_t group, std::span<std::byte> out) {
  const GroupMemory& memory = groups_.at(group);
  check(memory.gradient.size() == out.size(), "a gradient that is read is in memory, and read whole");
  if (memory.on_device)
    device_copies().to_host(out, memory.gradient.data());
  else
    std::copy(memory.gradient.begin(), memory.gradient.end(), out.begin());
}

DeviceCopies Executor::device_copies() const {
  const auto stream = [&](StreamId id) -> Stream& { return *streams_[static_cast<std::size_t>(id)]; };
  return {device_, stream(StreamId::h2d), stream(StreamId::d2h)};
}

std::span<std::byte> Executor::buffer_named(const Program& program, const std::string& name) const {
  for (BufferId id = 0; id < static_cast<BufferId>(program.buffers.size()); ++id)
    if (program.at(id).name == name)
      return {address(program, id), static_cast<std::size_t>(program.at(id).size.value)};
  return {};
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
