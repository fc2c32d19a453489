// The decisions of a step, the path through its layers, homes, and the work of every slot: rows (1) to (3).
#include "planning/step_program_writer.h"

namespace lazytrain {
namespace {

// Tie-breaks, in forwards of a layer: long blocks late rather than early, which ends the search among blocks
// that could change places; no stall, no bytes away, no slot and no resident layer without a reason.
constexpr double kLateBlocks = 1e-5, kNoStall = 1e-4, kAtHome = 1e-6, kFewSlots = 1e-5;
// Micro-batches are counted in whole numbers where there are few of them; else shares are rounded afterwards.
constexpr std::int64_t kMostWholeShares = 8;

}  // namespace

void StepWriter::decisions() {
  const std::int64_t layers = model_.layers;
  const bool disk = model_.options.activations_on_disk && !model_.unified && model_.disk_capacity > 0;
  const bool whole = layers * model_.micro_batches <= kMostWholeShares;
  program_.whole_shares = whole;
  for (std::int64_t s = 0; s < layers; ++s) {
    double kept = 0;  // by a sweep over [s, e)
    for (std::int64_t e = s + 2; e <= std::min(layers, s + model_.options.longest_block); ++e) {
      const double late = kLateBlocks * static_cast<double>(s * (e - s - 1));
      program_.blocks.push_back({s, e, column(fmt::format("u[{},{}]", s, e), 1, late, true)});
      kept += layer(e - 2).stash.back();
      if (model_.options.stashes && kept < model_.device_capacity)
        program_.blocks.push_back({s, e, column(fmt::format("u[{},{},keep]", s, e), 1, late, true), true});
    }
  }
  LevelColumns none;
  none.fill(-1);
  program_.levels.assign(layers_, none);
  program_.stash_device = program_.stash_host = program_.stash_disk = program_.levels;
  for (std::int64_t l = 0; l < layers; ++l) {
    const auto tier = [&](const std::string& name, double size, bool exists, double cost) {
      return exists ? column(name, calls_, cost * share(size), whole) : -1;
    };
    const bool away = !model_.unified;
    program_.boundary_device.push_back(tier(fmt::format("p[{},device]", l), model_.boundary, true, 0));
    program_.boundary_host.push_back(tier(fmt::format("p[{},host]", l), model_.boundary, away, kAtHome));
    program_.boundary_disk.push_back(tier(fmt::format("p[{},disk]", l), model_.boundary, disk, 5 * kAtHome));
    for (const StashLevel level : kStashLevels) {
      const auto o = static_cast<std::size_t>(level);
      const std::string name = fmt::format("{},{}", l, to_string(level));
      program_.levels[at(l)][o] =
          column(fmt::format("a[{}]", name), o == 0 || model_.options.stashes ? 1 : 0, 0, true);
      if (o == 0) continue;
      const double size = layer(l).stash[o];
      program_.stash_device[at(l)][o] = tier(fmt::format("q[{},device]", name), size, true, 0);
      program_.stash_host[at(l)][o] = tier(fmt::format("q[{},host]", name), size, away, kAtHome);
      program_.stash_disk[at(l)][o] = tier(fmt::format("q[{},disk]", name), size, disk, 5 * kAtHome);
    }
  }
  for (std::int64_t l = 0; l < layers; ++l) {
    const bool resident = model_.options.resident && !model_.unified && layer(l).resident > 0;
    program_.resident.push_back(resident ? column(fmt::format("v[{}]", l), 1, kFewSlots, true) : -1);
    program_.retained.push_back(model_.unified ? -1 : column(fmt::format("y[{}]", l), 1, kFewSlots, true));
  }
  for (std::size_t t = 0; t < slots_.count(); ++t) {
    program_.tau.push_back(column(fmt::format("tau[{}]", t), kInfinity, 1));
    program_.stall.push_back(column(fmt::format("stall[{}]", t), kInfinity, kNoStall));
  }
  retained_last();
  if (model_.unified) return;
  // Bytes of the slots that weights rotate through, and what resident layers take.
  rotating_ = column("rotating");
  Terms rotating;
  rotating.add(rotating_, -1);
  for (const std::int32_t retained : program_.retained) rotating.add(retained, bytes(model_.weight_slot));
  equal("rotating", rotating);
}

// The slots hold the last layers when the backward begins: y grows with l, and a resident layer needs none.
void StepWriter::retained_last() {
  if (model_.unified) return;
  const std::int64_t slots = std::min(model_.knobs.weight_slots, model_.layers);
  for (std::int64_t l = 0; l < model_.layers; ++l) {
    Terms terms;
    if (l + 1 < model_.layers) {
      terms.add(program_.retained[at(l)], -1);
      terms.add(program_.retained[at(l + 1)], 1);
      terms.add(program_.resident[at(l + 1)], 1);
      at_least(fmt::format("retained[{}]", l), terms);
    }
    Terms one;
    one.add(program_.retained[at(l)], 1);
    one.add(program_.resident[at(l)], 1);
    one.constant = -1;
    if (program_.resident[at(l)] >= 0) at_most(fmt::format("one_home[{}]", l), one);
  }
  if (!model_.options.resident) {
    for (std::int64_t l = model_.layers - slots; l < model_.layers; ++l)
      program_.problem.columns[at(program_.retained[at(l)])].lower = 1;
    if (slots == 1)
      for (std::int64_t l = 0; l + 1 < model_.layers; ++l)
        program_.problem.columns[at(program_.retained[at(l)])].upper = 0;
    return;
  }
  // At least `slots` slots, unless fewer layers than that are streamed.
  for (std::int64_t l = 0; l < model_.layers; ++l) {
    Terms enough;
    for (const std::int32_t retained : program_.retained) enough.add(retained, 1);
    enough.add(program_.resident[at(l)], static_cast<double>(slots));
    enough.constant = -static_cast<double>(slots);
    at_least(fmt::format("fewest_slots[{}]", l), enough);
  }
}

// (1)
Terms StepWriter::begins(std::int64_t b) const {
  Terms terms;
  for (const auto& block : program_.blocks)
    if (block.begin == b) terms.add(block.column, 1);
  for (const std::int32_t level : program_.levels[at(b)]) terms.add(level, 1);
  return terms;
}

void StepWriter::path() {
  for (std::int64_t b = 0; b <= model_.layers; ++b) {
    Terms terms;
    if (b < model_.layers)
      terms.add(begins(b), 1);
    else
      terms.constant = 1;
    if (b == 0) {
      terms.constant = -1;
    } else {
      for (const auto& block : program_.blocks)
        if (block.end == b) terms.add(block.column, -1);
      for (const std::int32_t level : program_.levels[at(b - 1)]) terms.add(level, -1);
    }
    equal(fmt::format("path[{}]", b), terms);
  }
}

// (2)
void StepWriter::homes() {
  for (std::int64_t b = 0; b < model_.layers; ++b) {
    Terms terms;
    for (const auto* tier : {&program_.boundary_device, &program_.boundary_host, &program_.boundary_disk})
      terms.add((*tier)[at(b)], 1);
    terms.add(begins(b), -calls_);
    equal(fmt::format("home[{}]", b), terms);
    for (std::size_t o = 1; o < kStashLevelCount; ++o) {
      Terms stash;
      for (const auto* tier : {&program_.stash_device, &program_.stash_host, &program_.stash_disk})
        stash.add((*tier)[at(b)][o], 1);
      stash.add(program_.levels[at(b)][o], -calls_);
      equal(fmt::format("home[{},{}]", b, to_string(kStashLevels[o])), stash);
    }
  }
}

// (3), all but the tail, whose length is the bytes that are left
void StepWriter::times() {
  std::vector<Terms> work(slots_.count());
  const double gathers = seconds(model_.gather) * (model_.overlap ? calls_ : 1);
  work[StepSlots::prologue()].constant = gathers + (model_.overlap ? seconds(model_.embedding_update) : 0);
  work[slots_.head()].constant = seconds(model_.head);
  for (std::int64_t l = 0; l < model_.layers; ++l) {
    work[StepSlots::forward(l)].constant = seconds(layer(l).forward);
    Terms& backward = work[slots_.backward(l)];
    backward.constant = seconds(layer(l).backward);
    for (std::size_t o = 0; o < kStashLevelCount; ++o)
      backward.add(program_.levels[at(l)][o], seconds(layer(l).recompute[o]));
  }
  for (const auto& block : program_.blocks) {
    double sweep = 0;
    for (std::int64_t l = block.begin; l < block.end; ++l) {
      work[slots_.backward(l)].add(block.column, seconds(layer(l).recompute[block.found(l)]));
      if (l + 1 < block.end) sweep += seconds(layer(l).forward);
    }
    work[slots_.sweep(block.end - 1)].add(block.column, sweep);
  }
  Terms& tail = work[slots_.tail()];
  tail.constant = seconds(model_.scatter + model_.finish);
  if (!model_.overlap) {
    tail.constant += seconds(model_.embedding_update + model_.head_update);
    for (const StepLayer& each : model_.layer) tail.constant += seconds(each.update);
  }
  for (std::int64_t l = 0; l < model_.layers; ++l) {
    const StepLayer& each = layer(l);
    tail.add(program_.resident[at(l)],
             seconds(each.device_update) - (model_.overlap ? 0 : seconds(each.update)));
  }
  for (std::size_t t = 0; t < slots_.count(); ++t) {
    Terms terms;
    terms.add(program_.tau[t], 1);
    terms.add(program_.stall[t], -1);
    terms.add(work[t], -1);
    if (t == slots_.tail() && !model_.unified) {
      tail_ = terms;
      continue;
    }
    equal(fmt::format("time[{}]", t), terms);
  }
}

}  // namespace lazytrain
