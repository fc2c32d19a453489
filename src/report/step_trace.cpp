// The trace: events as described in "Trace Event Format" (Chrome's documentation), one a line.
#include <fmt/core.h>

#include <cmath>

#include "nlohmann/json.hpp"
#include "report/plan_page.h"

namespace lazytrain {
namespace {

using nlohmann::json;

// Microseconds with the digits of a nanosecond.
double microseconds(Seconds seconds) {
  return std::round(seconds * 1e9) / 1e3;
}

class Trace {
 public:
  void add(const json& event) {
    text_ += text_.empty() ? "" : ",\n";
    text_ += event.dump(-1, ' ', true, json::error_handler_t::replace);
  }
  // "M" events name a process or a thread.
  void name(const char* what, int process, int thread, const std::string& name) {
    add({{"ph", "M"}, {"name", what}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}});
  }
  [[nodiscard]] std::string whole() const {
    return "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n" + text_ + "\n]}\n";
  }

 private:
  std::string text_;
};

json arguments(const Op& op, std::size_t number) {
  json args = {{"op", number}};
  if (op.layer >= 0) args[op.kind == OpKind::update_group ? "group" : "layer"] = op.layer;
  if (op.micro_batch >= 0) args["micro_batch"] = op.micro_batch;
  if (op.piece >= 0) args["piece"] = op.piece;
  if (op.slice >= 0) args["slice"] = op.slice;
  if (op.bytes.value > 0) args["bytes"] = op.bytes.value;
  return args;
}

void add_ops(Trace& trace, int process, const Program& program, std::span<const OpTime> times) {
  for (const StreamUse& use : stream_uses(program, times))
    trace.name("thread_name", process, static_cast<int>(use.stream), to_string(use.stream));
  for (std::size_t i = 0; i < times.size(); ++i) {
    const Op& op = program.ops[i];
    trace.add({{"ph", "X"},
               {"name", describe(op)},
               {"cat", to_string(op.kind)},
               {"pid", process},
               {"tid", static_cast<int>(op.stream)},
               {"ts", microseconds(times[i].start)},
               {"dur", microseconds(times[i].end - times[i].start)},
               {"args", arguments(op, i)}});
  }
}

// A tier's bytes belong to places in the list; the compute op that follows gives each its time.
void add_memory(Trace& trace, int process, const Program& program, std::span<const OpTime> times, Tier tier) {
  const std::vector<MemoryPoint> curve = memory_curve(program, tier);
  const std::string name = fmt::format("{} bytes", to_string(tier));
  std::size_t at = 0;
  Bytes now, most, written{-1};
  const auto point = [&](Seconds when) {
    if (most != written)
      trace.add({{"ph", "C"},
                 {"name", name},
                 {"pid", process},
                 {"ts", microseconds(when)},
                 {"args", {{"bytes", most.value}}}});
    written = most;
    most = now;
  };
  Seconds computed = 0;  // the end of the last compute op
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    if (at < curve.size() && curve[at].op == static_cast<OpIndex>(i)) now = curve[at++].bytes;
    most = std::max(most, now);
    if (program.ops[i].stream != StreamId::compute) continue;
    point(times[i].start);
    computed = times[i].end;
  }
  point(computed);
}

void add_step(Trace& trace, int process, const std::string& name, const Program& program,
              std::span<const OpTime> times) {
  trace.name("process_name", process, 0, name);
  add_ops(trace, process, program, times);
  for (const Tier tier : used_tiers(program)) add_memory(trace, process, program, times, tier);
}

}  // namespace

std::string step_trace(const StepPicture& picture) {
  const Program& program = picture.step.program;
  const char* emulated = picture.step.machine.emulated ? " (emulated device)" : "";
  Trace trace;
  add_step(trace, 1, fmt::format("simulated step{}", emulated), program, op_times(picture.step.simulation));
  if (!picture.measured.empty())
    add_step(trace, 2, fmt::format("measured step {}{}", picture.measured_step, emulated), program,
             picture.measured);
  return trace.whole();
}

}  // namespace lazytrain
