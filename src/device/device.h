// Device: the only door to hardware. Memory arenas, streams, events, copies and the operations of
// device/operations.h, all asynchronous: a call puts work into a stream and returns. No scheduling
// decision is made here; order comes from the Program through streams and events alone.
//
// Backends: CPU (`unified`: device and host are one tier, no copies; `emulated`: a hard-capped arena and
// links paced to given rates, a stand-in for an accelerator) and, as a shared object of its own, CUDA.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "core/units.h"
#include "device/operations.h"

namespace lazytrain {

enum class MemoryModel : std::uint8_t { unified, emulated, discrete };
[[nodiscard]] const char* to_string(MemoryModel model);

enum class StreamKind : std::uint8_t { compute, h2d, d2h, host, disk_read, disk_write };
[[nodiscard]] const char* to_string(StreamKind kind);

// An in-order queue of work. Work in different streams is unordered but for events.
class Stream {
 public:
  virtual ~Stream() = default;
  [[nodiscard]] virtual StreamKind kind() const = 0;
};

// A point in a stream. Reusable: record() sets it anew; a wait sees the latest record() issued before it.
class Event {
 public:
  virtual ~Event() = default;
};

// One contiguous piece of a tier. `data` is 4096-aligned. Pages are real before the first step.
struct Arena {
  std::byte* data = nullptr;
  Bytes size;
  Bytes most = {};  // what grow() may make of it
};

class Device {
 public:
  virtual ~Device() = default;

  // "CPU, unified, 2 threads, AVX-512 bf16" or "emulated device on the CPU, ...": printed in every report.
  [[nodiscard]] virtual std::string description() const = 0;
  [[nodiscard]] virtual MemoryModel memory_model() const = 0;

  // Device: at most the capacity the device was made with, else Error(device). Host: pinned where that
  // means something. Freed with the device. Called before the first step only. `most`: what grow() is to be
  // able to make of it; only addresses are taken for more than `size`, and Arena::most says how many there
  // are.
  virtual Arena allocate(Tier tier, Bytes size, Bytes most) = 0;
  Arena allocate(Tier tier, Bytes size) { return allocate(tier, size, size); }
  // Makes an arena larger where it is, between steps. The same errors.
  virtual void grow(Tier tier, Arena& arena, Bytes size) = 0;

  virtual std::unique_ptr<Stream> create_stream(StreamKind kind) = 0;
  virtual std::unique_ptr<Event> create_event() = 0;
  virtual void record(Stream& stream, Event& event) = 0;
  virtual void wait(Stream& stream, Event& event) = 0;  // later work of `stream` runs after the event
  virtual void synchronize(Event& event) = 0;           // blocks the caller
  // Blocks the caller until the stream is empty; rethrows what work in it has thrown.
  virtual void synchronize(Stream& stream) = 0;
  // Runs a host function inside the stream (host, disk streams; short calls on compute: bookkeeping. On the
  // CPU backend, whose device memory the host reaches, updates of resident layers too).
  virtual void call(Stream& stream, std::function<void()> function) = 0;

  virtual void copy(Stream& stream, void* dst, const void* src,
                    Bytes size) = 0;  // paced by the stream's link
  virtual void zero(Stream& stream, void* dst, Bytes size) = 0;

  // Compiles what run() would need and touches no memory: a step that meets a number of rows for the first
  // time must not allocate. Pointers of `op` may be null, but for a bias where there is one.
  virtual void prepare(const LinearForward& op) = 0;
  virtual void prepare(const LinearInputGradient& op) = 0;
  virtual void prepare(const LinearWeightGradient& op) = 0;

  virtual void run(Stream& stream, const LinearForward& op) = 0;
  virtual void run(Stream& stream, const LinearInputGradient& op) = 0;
  virtual void run(Stream& stream, const LinearWeightGradient& op) = 0;
  virtual void run(Stream& stream, const BiasGradient& op) = 0;
  virtual void run(Stream& stream, const RmsNormForward& op) = 0;
  virtual void run(Stream& stream, const RmsNormBackward& op) = 0;
  virtual void run(Stream& stream, const HeadNormForward& op) = 0;
  virtual void run(Stream& stream, const HeadNormBackward& op) = 0;
  virtual void run(Stream& stream, const Rope& op) = 0;
  virtual void run(Stream& stream, const AttentionForward& op) = 0;
  virtual void run(Stream& stream, const AttentionBackward& op) = 0;
  virtual void run(Stream& stream, const AttentionDecode& op) = 0;
  virtual void run(Stream& stream, const CacheFill& op) = 0;
  virtual void run(Stream& stream, const SwigluForward& op) = 0;
  virtual void run(Stream& stream, const SwigluBackward& op) = 0;
  virtual void run(Stream& stream, const SoftmaxScores& op) = 0;
  virtual void run(Stream& stream, const CrossEntropyLoss& op) = 0;
  virtual void run(Stream& stream, const CrossEntropyGradient& op) = 0;
  virtual void run(Stream& stream, const ArgMax& op) = 0;
  virtual void run(Stream& stream, const GatherRows& op) = 0;  // in d2h paced by the bytes of out
  virtual void run(Stream& stream, const ScatterRows& op) = 0;
  virtual void run(Stream& stream, const Round& op) = 0;
  virtual void run(Stream& stream, const Add& op) = 0;
  virtual void run(Stream& stream, const OffloadGradient& op) = 0;  // d2h; paced by the bytes of dst
};

}  // namespace lazytrain
