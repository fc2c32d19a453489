#include "planning/step_program.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "planning/step_program_writer.h"

namespace lazytrain {

StepProgram make_step_program(const StepModel& model) {
  return StepWriter(model).write();
}

Seconds step_seconds(const StepProgram& program, const std::vector<double>& values) {
  double sum = 0;
  for (const std::int32_t tau : program.tau) sum += values[static_cast<std::size_t>(tau)];
  return sum * program.seconds_unit;
}

bool fix_decisions(StepProgram& program, const Plan& plan) {
  const auto fix = [&](std::int32_t column, double value) {
    if (column < 0) return value == 0;
    MilpColumn& found = program.problem.columns[static_cast<std::size_t>(column)];
    found.lower = found.upper = value;
    return true;
  };
  bool possible = true;
  for (const auto& block : program.blocks) fix(block.column, 0);
  for (const LevelColumns& levels : program.levels)
    for (const std::int32_t column : levels) fix(column, 0);
  for (const Block& block : blocks_of(plan)) {
    const auto first = static_cast<std::size_t>(block.begin);
    const StashLevel level = plan.layers[first].stash;
    if (block.end - block.begin == 1) {
      fix(program.levels[first][static_cast<std::size_t>(level)], 1);
      continue;
    }
    for (std::int32_t l = block.begin; l + 1 < block.end; ++l)
      if (plan.layers[static_cast<std::size_t>(l)].stash != level) return false;
    const auto found = std::find_if(program.blocks.begin(), program.blocks.end(), [&](const auto& candidate) {
      return candidate.begin == block.begin && candidate.end == block.end &&
             (candidate.keep ? StashLevel::all : StashLevel::none) == level;
    });
    if (found == program.blocks.end()) return false;
    fix(found->column, 1);
  }
  const bool unified = program.retained.front() < 0;
  const auto home = [&](std::int32_t device, std::int32_t host, std::int32_t disk, bool kept,
                        std::int64_t on_device, std::int64_t on_disk) {
    const std::int64_t all = kept ? plan.batch.micro_batches() : 0;
    const std::int64_t here = unified ? all : kept ? on_device : 0, there = kept ? on_disk : 0;
    possible = fix(device, static_cast<double>(here)) && fix(host, static_cast<double>(all - here - there)) &&
               fix(disk, static_cast<double>(there)) && possible;
  };
  for (std::size_t l = 0; l < plan.layers.size(); ++l) {
    const BoundaryPlan& boundary = plan.boundaries[l];
    home(program.boundary_device[l], program.boundary_host[l], program.boundary_disk[l],
         boundary.materialised, boundary.device_micro_batches, boundary.disk_micro_batches);
    const LayerPlan& layer = plan.layers[l];
    for (std::size_t o = 1; o < kStashLevelCount; ++o)
      home(program.stash_device[l][o], program.stash_host[l][o], program.stash_disk[l][o],
           layer.stash == kStashLevels[o] && !is_swept(plan, static_cast<std::int64_t>(l)),
           layer.stash_device_micro_batches, layer.stash_disk_micro_batches);
    const bool resident = !plan.groups.empty() && plan.groups[l + 1].on_device;
    possible = fix(program.resident[l], resident ? 1 : 0) && possible;
    const auto from_end = static_cast<std::int64_t>(plan.layers.size() - l);
    if (!unified && program.resident[l] < 0) fix(program.retained[l], from_end <= plan.weight_slots ? 1 : 0);
  }
  return possible;
}

std::string dump(const MilpProblem& problem) {
  std::string text = "minimise\n ";
  const auto term = [&](double value, const std::string& name) {
    const char* sign = value < 0 ? "-" : "+";
    const double size = std::abs(value);
    return size == 1 ? fmt::format(" {} {}", sign, name) : fmt::format(" {} {:.6g} {}", sign, size, name);
  };
  for (const MilpColumn& column : problem.columns)
    if (column.cost != 0) text += term(column.cost, column.name);
  text += "\nrows\n";
  for (const MilpRow& row : problem.rows) {
    std::string sum;
    for (const auto& [column, value] : row.coefficients)
      sum += term(value, problem.columns[static_cast<std::size_t>(column)].name);
    if (row.lower == row.upper)
      text += fmt::format("  {}:{} = {:.6g}\n", row.name, sum, row.lower);
    else if (std::isinf(row.lower))
      text += fmt::format("  {}:{} <= {:.6g}\n", row.name, sum, row.upper);
    else if (std::isinf(row.upper))
      text += fmt::format("  {}:{} >= {:.6g}\n", row.name, sum, row.lower);
    else
      text += fmt::format("  {}: {:.6g} <={} <= {:.6g}\n", row.name, row.lower, sum, row.upper);
  }
  text += "columns\n";
  for (const MilpColumn& column : problem.columns)
    text += fmt::format("  {:.6g} <= {} <= {:.6g}{}\n", column.lower, column.name, column.upper,
                        column.integer ? ", whole" : "");
  return text;
}

}  // namespace lazytrain
