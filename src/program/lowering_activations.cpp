#include "program/lowering_activations.h"

#include <algorithm>
#include <utility>

#include "program/lowering_common.h"

namespace lazytrain {
namespace {

Op transfer(OpKind kind, StreamId stream, const Activation& activation, Bytes bytes) {
  return {.kind = kind,
          .stream = stream,
          .layer = activation.layer,
          .micro_batch = activation.micro_batch,
          .bytes = bytes};
}

Bytes whole_blocks(Bytes bytes) {
  return align_up(bytes, kDiskAlignment);
}

std::string name_in(const char* place, const Activation& activation) {
  return name_of((std::string(place) + activation.name).c_str(), activation.layer, activation.micro_batch);
}

}  // namespace

Activation boundary_activation(std::int32_t boundary, std::int32_t micro_batch, Bytes bytes) {
  return {.name = "b",
          .layer = boundary,
          .micro_batch = micro_batch,
          .bytes = bytes,
          .offload = OpKind::offload_boundary,
          .write = OpKind::write_boundary,
          .read = OpKind::read_boundary,
          .fetch = OpKind::fetch_boundary};
}

Activation stash_activation(std::int32_t layer, std::int32_t micro_batch, Bytes bytes) {
  return {.name = "stash",
          .layer = layer,
          .micro_batch = micro_batch,
          .bytes = bytes,
          .offload = OpKind::offload_stash,
          .write = OpKind::write_stash,
          .read = OpKind::read_stash,
          .fetch = OpKind::fetch_stash};
}

BufferId DiskActivations::on_device(const std::string& name, Bytes bytes, bool on_disk) {
  if (!on_disk || !builder_.unified()) return builder_.transient(name, Tier::device, bytes);
  return builder_.transient(name, Tier::device, whole_blocks(bytes), kDiskAlignment);
}

BufferId DiskActivations::write(const Activation& activation, BufferId source, int compute) {
  const Bytes blocks = whole_blocks(activation.bytes);
  if (!builder_.unified()) {
    const BufferId stage =
        builder_.transient(name_in("host.out.", activation), Tier::host, blocks, kDiskAlignment);
    Op offload = transfer(activation.offload, StreamId::d2h, activation, activation.bytes);
    offload.operands = {{OperandRole::input, source, Access::read},
                        {OperandRole::output, stage, Access::write}};
    builder_.after(compute, std::move(offload));
    // Held until the next but stage_slots - 1 needs its bytes, so that those between have others.
    if (leaving_.size() >= stage_slots_)
      builder_.hold_until_use_of(leaving_[leaving_.size() - stage_slots_], stage);
    leaving_.push_back(stage);
    source = stage;
  }
  const BufferId home = builder_.transient(name_in("disk.", activation), Tier::disk, blocks, kDiskAlignment);
  Op write = transfer(activation.write, StreamId::disk_write, activation, blocks);
  write.operands = {{OperandRole::input, source, Access::read}, {OperandRole::output, home, Access::write}};
  builder_.after(compute, std::move(write));
  return home;
}

void DiskActivations::read(const Activation& activation, BufferId home, BufferId target, int written_after,
                           int fetch_at) {
  Op read = transfer(activation.read, StreamId::disk_read, activation, whole_blocks(activation.bytes));
  read.operands = {{OperandRole::input, home, Access::read}};
  bring(activation, std::move(read), target, written_after + 1, fetch_at);
}

void DiskActivations::make(const Activation& activation, Op fill, BufferId target, int fetch_at) {
  bring(activation, std::move(fill), target, 0, fetch_at);
}

void DiskActivations::bring(const Activation& activation, Op fill, BufferId target, int earliest,
                            int fetch_at) {
  const bool unified = builder_.unified();
  // Where the stage is free again: at the fetch, or without one at the op that uses the buffer.
  int arrival = unified ? builder_.next_compute() : fetch_at;
  if (!arrivals_.empty()) arrival = std::max(arrival, arrivals_.back());
  int begin = std::max(begin_, earliest);
  if (arrivals_.size() >= stage_slots_)
    begin = std::max(begin, arrivals_[arrivals_.size() - stage_slots_] + (unified ? 1 : 0));
  begin = std::min(begin, arrival);
  arrivals_.push_back(arrival);
  if (unified) {
    fill.operands.push_back({OperandRole::output, target, Access::write});
    builder_.before(begin, std::move(fill));
    return;
  }
  const bool from_disk = fill.stream == StreamId::disk_read;
  const BufferId stage =
      from_disk ? builder_.transient(name_in("host.in.", activation), Tier::host,
                                     whole_blocks(activation.bytes), kDiskAlignment)
                : builder_.transient(name_in("host.in.", activation), Tier::host, activation.bytes);
  fill.operands.push_back({OperandRole::output, stage, Access::write});
  builder_.before(begin, std::move(fill));
  Op fetch = transfer(activation.fetch, StreamId::h2d, activation, activation.bytes);
  fetch.operands = {{OperandRole::input, stage, Access::read}, {OperandRole::output, target, Access::write}};
  builder_.before(arrival, std::move(fetch), true);
}

}  // namespace lazytrain
