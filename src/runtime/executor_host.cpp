// What a step does on the host and on the disk: the norm of all gradients, updates, and transfers at the rate
// of the disk that is emulated.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "optim/clipping.h"
#include "runtime/executor_running.h"

namespace lazytrain {
namespace {

using Clock = std::chrono::steady_clock;

// Does `transfer` and returns no earlier than a disk of `rate` GB/s would; `free` is when it had the last
// done.
template <typename Transfer>
void paced(Clock::time_point& free, double rate, std::size_t bytes, const Transfer& transfer) {
  if (rate <= 0) return transfer();
  free = std::max(free, Clock::now()) +
         std::chrono::duration_cast<Clock::duration>(
             std::chrono::duration<double>(static_cast<double>(bytes) / (rate * 1e9)));
  transfer();
  std::this_thread::sleep_until(free);
}

}  // namespace

void Executor::reduce_norm(const Program& program, const Op& op, Running& running) {
  // Layers first, then the head, the embedding last: the order in which gradients are complete.
  double squares = 0;
  std::vector<BufferId> norms;
  for (const Operand& operand : op.operands)
    if (operand.role == OperandRole::norm) norms.push_back(operand.buffer);
  std::rotate(norms.begin(), norms.begin() + 1, norms.end());
  for (const BufferId norm : norms) {
    const auto* partial = reinterpret_cast<const double*>(address(program, norm));
    squares = sum_of_squares(
        {partial, static_cast<std::size_t>(program.at(norm).size.value) / sizeof(double)}, squares);
  }
  const double norm = lazytrain::gradient_norm(squares);
  running.outcome.gradient_norm = norm;
  step_finite_ = std::isfinite(norm);
  const double factor = step_finite_ ? lazytrain::clip_factor(norm, options_.max_gradient_norm) : 0.0;
  running.outcome.finite = step_finite_;
  std::memcpy(address(program, op.buffer(OperandRole::clip)), &factor, sizeof(double));
}

void Executor::update_group(const Update& update, const Running& running) {
  if (!updates(running)) return;
  const auto begin = Clock::now();
  AdamWStep step = *running.update;
  step.clip_factor = *update.clip_factor;
  adamw_update(*update.pool, update.group, step);
  if (update.pace > 0)
    std::this_thread::sleep_until(
        begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(update.pace)));
}

bool Executor::updates(const Running& running) const {
  if (!running.update.has_value() || options_.skip_updates) return false;
  return !running.update_after_norm || step_finite_;
}

void Executor::read_disk(Bytes offset, std::span<std::byte> out) {
  paced(disk_read_free_, options_.disk_read, out.size(), [&] { disk_->read(offset, out); });
}

void Executor::write_disk(Bytes offset, std::span<const std::byte> bytes, const Running& running,
                          bool update) {
  // What no update has changed is on the disk already.
  if (update && !updates(running)) return;
  paced(disk_write_free_, options_.disk_write, bytes.size(), [&] { disk_->write(offset, bytes); });
}

}  // namespace lazytrain
