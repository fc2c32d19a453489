// StepWriter: writes the rows of a step's program (planning/step_program.h, which has the formulas). Private
// to `planning`; its parts are in step_decisions.cpp, step_transfers.cpp and step_memory.cpp.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "planning/step_program.h"

namespace lazytrain {

// A sum of columns and a constant.
struct Terms {
  std::vector<std::pair<std::int32_t, double>> columns;
  double constant = 0;
  void add(std::int32_t column, double value) {
    if (column >= 0 && value != 0) columns.emplace_back(column, value);
  }
  void add(const Terms& other, double factor) {
    constant += factor * other.constant;
    for (const auto& [column, value] : other.columns) add(column, factor * value);
  }
};

class StepWriter {
 public:
  explicit StepWriter(const StepModel& model)
      : model_(model),
        slots_{model.layers},
        layers_(static_cast<std::size_t>(model.layers)),
        calls_(static_cast<double>(model.micro_batches)) {
    program_.bytes_unit = std::max({model.boundary, model.weight_slot, 1.0});
    program_.seconds_unit = std::max(model.layer.front().forward, 1e-12);
    for (std::vector<Terms>* terms : {&weights_due_, &weights_, &fetches_due_, &fetches_, &gradual_out_,
                                      &last_out_, &disk_out_, &disk_in_})
      terms->resize(slots_.count());
  }

  StepProgram write() {
    decisions();
    path();
    homes();
    times();
    if (!model_.unified) {
      demands();
      links();
      weights();
      fetches();
      backlog();
      if (model_.options.activations_on_disk) disk();
      capacities();
    }
    updates();
    device_memory();
    cores();
    return std::move(program_);
  }

 private:
  // ---- small helpers ----
  [[nodiscard]] double bytes(double value) const { return value / program_.bytes_unit; }
  [[nodiscard]] double seconds(Seconds value) const { return value / program_.seconds_unit; }
  [[nodiscard]] double rate(double bytes_per_second) const {
    return bytes_per_second / program_.bytes_unit * program_.seconds_unit;
  }
  // Calls in which slot t is worked on: the head's slices have each micro-batch to themselves.
  [[nodiscard]] double calls_in(std::size_t t) const {
    return t == slots_.head() ? calls_ * model_.head_slices : calls_;
  }
  [[nodiscard]] double share(double value) const { return bytes(value) / calls_; }  // of one micro-batch
  [[nodiscard]] const StepLayer& layer(std::int64_t l) const { return model_.layer[at(l)]; }
  static std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }
  static double part(double value) { return std::clamp(value, 0.0, 1.0); }

  std::int32_t column(std::string name, double upper = kInfinity, double cost = 0, bool integer = false) {
    return program_.problem.add(
        MilpColumn{.name = std::move(name), .upper = upper, .cost = cost, .integer = integer});
  }
  // lower <= terms <= upper, the constant of the terms moved to the bounds.
  void row(std::string name, const Terms& terms, double lower, double upper) {
    std::map<std::int32_t, double> sums;
    for (const auto& [index, value] : terms.columns) sums[index] += value;
    MilpRow result{.name = std::move(name),
                   .lower = lower - terms.constant,
                   .upper = upper - terms.constant,
                   .coefficients = {}};
    for (const auto& [index, value] : sums)
      if (value != 0) result.coefficients.emplace_back(index, value);
    if (!result.coefficients.empty() || result.lower > 0 || result.upper < 0)
      program_.problem.add(std::move(result));
  }
  void equal(std::string name, const Terms& terms) { row(std::move(name), terms, 0, 0); }
  void at_least(std::string name, const Terms& terms) { row(std::move(name), terms, 0, kInfinity); }
  void at_most(std::string name, const Terms& terms) { row(std::move(name), terms, -kInfinity, 0); }

  // Boundary b's micro-batches that are not on the device, and layer l's stash bytes.
  [[nodiscard]] Terms boundary_away(std::int64_t b) const {
    Terms terms;
    terms.add(program_.boundary_host[at(b)], share(model_.boundary));
    terms.add(program_.boundary_disk[at(b)], share(model_.boundary));
    return terms;
  }
  [[nodiscard]] Terms stash_away(std::int64_t l) const {
    Terms terms;
    for (std::size_t o = 1; o < kStashLevelCount; ++o) {
      terms.add(program_.stash_host[at(l)][o], share(layer(l).stash[o]));
      terms.add(program_.stash_disk[at(l)][o], share(layer(l).stash[o]));
    }
    return terms;
  }

  // Decisions: step_decisions.cpp
  void decisions();
  void retained_last();
  [[nodiscard]] Terms begins(std::int64_t b) const;
  void path();
  void homes();
  void times();

  // Transfers: step_transfers.cpp
  void demands();
  void fetch(std::size_t slot, const Terms& what, double factor);
  [[nodiscard]] Terms is_block(std::int64_t begin, std::int64_t end) const;
  void early(std::int64_t begin, std::int64_t end);
  void links();
  void weights();
  [[nodiscard]] Terms fetchable(std::size_t t) const;
  void fetches();
  void backlog();
  void lag(std::size_t t, std::int32_t queue);
  void disk();
  void updates();

  // Bytes, and what shares cores: step_memory.cpp
  void capacities();
  void device_memory();
  void leaving(std::int64_t now, Terms& terms) const;
  void arriving(std::int64_t l, bool sweep, Terms& terms) const;
  void cores();

  struct EarlyColumn {
    std::int64_t begin, end;
    std::int32_t column;
  };
  const StepModel& model_;
  StepSlots slots_;
  std::size_t layers_;
  double calls_;
  StepProgram program_;
  Terms tail_;
  std::int32_t rotating_ = -1;
  std::vector<Terms> weights_due_, weights_, fetches_due_, fetches_, gradual_out_, last_out_, disk_out_,
      disk_in_;
  std::vector<std::int32_t> up_weights_, up_fetches_, down_;
  std::vector<EarlyColumn> early_;
};

}  // namespace lazytrain
