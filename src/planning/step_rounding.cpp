#include "planning/step_rounding.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

namespace lazytrain {
namespace {

// Rounds a sequence of shares of `most` so that their sums stay close to those of the shares.
class Rounder {
 public:
  std::int64_t next(double share, std::int64_t most) {
    owed_ += share;
    const auto whole = std::clamp<std::int64_t>(std::llround(owed_), 0, most);
    owed_ -= static_cast<double>(whole);
    return whole;
  }

 private:
  double owed_ = 0;
};

class Point {
 public:
  explicit Point(const std::vector<double>& values) : values_(values) {}
  double operator[](std::int32_t column) const {
    return column < 0 ? 0 : values_[static_cast<std::size_t>(column)];
  }

 private:
  const std::vector<double>& values_;
};

// Compute ops of the backward per layer, on average: the unit in which a plan's fetch_lead counts.
double backward_ops(const Plan& plan) {
  std::int64_t ops = 0;
  for (const LayerPlan& layer : plan.layers) ops += layer.stash == StashLevel::all ? 1 : 2;
  for (const Block& block : blocks_of(plan)) ops += block.end - block.begin - 1;
  return static_cast<double>(ops * plan.batch.micro_batches()) / static_cast<double>(plan.layers.size());
}

}  // namespace

Plan round_to_plan(const StepModel& model, const StepProgram& program, const std::vector<double>& values,
                   Plan bare) {
  const Point point(values);
  const std::int64_t micro_batches = model.micro_batches;
  Plan plan = std::move(bare);
  for (std::size_t b = 1; b < program.levels.size(); ++b) plan.boundaries[b].materialised = true;
  for (const auto& block : program.blocks) {
    if (point[block.column] < 0.5) continue;
    for (std::int64_t l = block.begin; l + 1 < block.end; ++l) {
      plan.boundaries[static_cast<std::size_t>(l) + 1].materialised = false;
      if (block.keep)
        plan.layers[static_cast<std::size_t>(l)] = {.stash = StashLevel::all,
                                                    .stash_device_micro_batches = micro_batches};
    }
  }

  Rounder boundary_device, boundary_disk, stash_device, stash_disk;
  const auto homes = [&](Rounder& device, Rounder& disk, double on_device, double on_disk) {
    if (model.unified) return std::pair(micro_batches, std::int64_t{0});
    const std::int64_t there = disk.next(on_disk, micro_batches);
    return std::pair(device.next(on_device, micro_batches - there), there);
  };
  for (std::size_t l = 0; l < program.levels.size(); ++l) {
    BoundaryPlan& boundary = plan.boundaries[l];
    if (boundary.materialised)
      std::tie(boundary.device_micro_batches, boundary.disk_micro_batches) = homes(
          boundary_device, boundary_disk, point[program.boundary_device[l]], point[program.boundary_disk[l]]);
    else
      boundary.device_micro_batches = boundary.disk_micro_batches = 0;
    LayerPlan& layer = plan.layers[l];
    for (std::size_t o = 1; o < kStashLevelCount; ++o) {
      if (point[program.levels[l][o]] < 0.5) continue;
      layer.stash = kStashLevels[o];
      std::tie(layer.stash_device_micro_batches, layer.stash_disk_micro_batches) =
          homes(stash_device, stash_disk, point[program.stash_device[l][o]], point[program.stash_disk[l][o]]);
    }
    if (point[program.resident[l]] > 0.5) {
      plan.groups.resize(program.levels.size() + 2);
      plan.groups[l + 1].on_device = true;
    }
  }
  if (model.unified) return plan;
  double slots = 0;
  for (const std::int32_t retained : program.retained) slots += point[retained];
  plan.weight_slots = std::max<std::int64_t>(1, std::llround(std::floor(slots + 1e-6)));
  plan.fetch_lead = std::max<std::int64_t>(0, std::lround(model.knobs.lead * backward_ops(plan)) + 2);
  return plan;
}

void fix_rounded_path(const StepModel& model, StepProgram& program, const std::vector<double>& values,
                      std::int64_t from_layer, LevelRounding rounding) {
  const Point point(values);
  const auto layers = static_cast<std::size_t>(model.layers);
  const auto unit = [&](std::size_t l) {
    double sum = 0;
    for (const std::int32_t level : program.levels[l]) sum += point[level];
    return sum;
  };
  // The column of block i with all that its sweep passes kept.
  const auto keeping = [&](std::size_t i) {
    return i + 1 < program.blocks.size() && program.blocks[i + 1].keep ? program.blocks[i + 1].column : -1;
  };
  // most[b]: what the best path from 0 to b holds; each layer of a block counts.
  std::vector<double> most(layers + 1, -1);
  std::vector<std::size_t> from(layers + 1, 0);
  most[0] = 0;
  for (std::size_t e = 1; e <= layers; ++e) {
    const auto offer = [&](std::size_t s, double held) {
      const double sum = most[s] + held * static_cast<double>(e - s);
      if (sum > most[e]) most[e] = sum, from[e] = s;
    };
    offer(e - 1, unit(e - 1));
    for (std::size_t i = 0; i < program.blocks.size(); ++i) {
      const StepProgram::BlockColumn& block = program.blocks[i];
      if (block.keep || static_cast<std::size_t>(block.end) != e) continue;
      offer(static_cast<std::size_t>(block.begin), point[block.column] + point[keeping(i)]);
    }
  }
  const auto fix = [&](std::int32_t column, double value) {
    if (column < 0) return;
    MilpColumn& found = program.problem.columns[static_cast<std::size_t>(column)];
    const double allowed = std::clamp(value, found.lower, found.upper);
    found.lower = found.upper = allowed;
  };
  double owed_keep = 0;  // of the sweeps over equal blocks, some keep; they take turns, too
  for (std::size_t i = program.blocks.size(); i-- > 0;) {
    const StepProgram::BlockColumn& block = program.blocks[i];
    if (block.keep) continue;
    bool chosen = false;
    for (std::size_t e = layers; e > 0; e = from[e])
      chosen = chosen ||
               (static_cast<std::size_t>(block.end) == e && static_cast<std::size_t>(block.begin) == from[e]);
    if (chosen) owed_keep += point[keeping(i)];
    const bool keep = chosen && owed_keep >= (rounding == LevelRounding::nearest ? 0.5 : 1 - 1e-6);
    if (keep) owed_keep -= 1;
    if (block.begin < from_layer) continue;
    fix(block.column, chosen && !keep ? 1 : 0);
    fix(keeping(i), keep ? 1 : 0);
  }
  std::vector<bool> alone(layers, false);
  for (std::size_t e = layers; e > 0; e = from[e]) alone[e - 1] = e - from[e] == 1;
  double slots = 0;
  for (const std::int32_t retained : program.retained) slots += point[retained];
  // Equal layers share a level in the relaxation; they take turns.
  std::array<double, kStashLevelCount> owed{};
  double owed_resident = 0;  // likewise; never more than the relaxation has room for
  double streamed = 0;       // layers so far; the last of them stay in their slots
  for (std::size_t l = layers; l-- > 0;) {
    const LevelColumns& levels = program.levels[l];
    std::size_t best = 0;
    for (std::size_t o = 0; o < kStashLevelCount && alone[l]; ++o) {
      owed[o] += point[levels[o]];
      const bool due = rounding == LevelRounding::nearest || owed[o] >= 1 - 1e-6;
      if (due && owed[o] > (best == 0 && rounding == LevelRounding::down ? 0 : owed[best] + 1e-9)) best = o;
    }
    if (alone[l]) owed[best] -= 1;
    owed_resident += point[program.resident[l]];
    const bool resident = owed_resident >= 1 - 1e-6;
    if (resident) owed_resident -= 1;
    if (!resident) streamed += 1;
    if (static_cast<std::int64_t>(l) < from_layer) continue;
    for (std::size_t o = 0; o < kStashLevelCount; ++o) fix(levels[o], alone[l] && o == best ? 1 : 0);
    fix(program.resident[l], resident ? 1 : 0);
    if (from_layer == 0) fix(program.retained[l], !resident && streamed <= slots + 1e-6 ? 1 : 0);
  }
}

}  // namespace lazytrain
