// Boundaries and stashes whose home is the disk: what takes them there in the forward and brings them back
// for the backward. On tiered machines they pass through stages on the host; on unified ones the disk reads
// and writes the buffers of the layers themselves. Private to `program`.
#pragma once

#include <string>
#include <vector>

#include "program/builder.h"

namespace lazytrain {

// The boundary or the stash of one micro-batch: its bytes, its name in a listing, and the ops that move it.
struct Activation {
  const char* name;
  std::int32_t layer, micro_batch;
  Bytes bytes;
  OpKind offload, write, read, fetch;
};
Activation boundary_activation(std::int32_t boundary, std::int32_t micro_batch, Bytes bytes);
Activation stash_activation(std::int32_t layer, std::int32_t micro_batch, Bytes bytes);

// Every object has a stage of its own, and how long its bytes stay reserved makes of them a rotation of
// `stage_slots`: one for those that leave, one for those that come back. So what a stage holds is known to
// the layout, and to the verifier, like any other buffer.
class DiskActivations {
 public:
  DiskActivations(ProgramBuilder& builder, std::int64_t stage_slots)
      : builder_(builder), stage_slots_(static_cast<std::size_t>(stage_slots)) {}

  // A buffer of the device. One that the disk itself reads or writes has whole blocks.
  [[nodiscard]] BufferId on_device(const std::string& name, Bytes bytes, bool on_disk);

  // Sends what compute op `compute` left in `source` to disk; returns where it is there.
  [[nodiscard]] BufferId write(const Activation& activation, BufferId source, int compute);

  // The backward begins: from the next compute op on, stages may fill for it.
  void begin_reading() { begin_ = builder_.next_compute(); }
  // Brings the activation from `home` on disk, where it was sent after compute op `written_after`, to
  // `target`, for the compute op that comes next. The link may take it from compute op `fetch_at` on.
  void read(const Activation& activation, BufferId home, BufferId target, int written_after, int fetch_at);
  // The same of what `fill`, an op that lacks its output yet, can make at any time.
  void make(const Activation& activation, Op fill, BufferId target, int fetch_at);

 private:
  void bring(const Activation& activation, Op fill, BufferId target, int earliest, int fetch_at);

  ProgramBuilder& builder_;
  std::size_t stage_slots_;
  int begin_ = 0;
  std::vector<BufferId> leaving_;  // stages of those that left, in order
  std::vector<int> arrivals_;      // compute ops before which the others' stages are fetched, in order
};

}  // namespace lazytrain
