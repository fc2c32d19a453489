// What every tier holds, and cores that are shared: rows (8) to (10) and (12).
#include "planning/step_program_writer.h"

namespace lazytrain {

// (12) Everything away is on the host at the end of the forward, pinned.
void StepWriter::capacities() {
  Terms activations, disk, host, pinned;
  for (std::int64_t l = 0; l < model_.layers; ++l) {
    activations.add(program_.boundary_host[at(l)], share(model_.boundary));
    disk.add(program_.boundary_disk[at(l)], share(model_.boundary));
    for (std::size_t o = 1; o < kStashLevelCount; ++o) {
      activations.add(program_.stash_host[at(l)][o], share(layer(l).stash[o]));
      disk.add(program_.stash_disk[at(l)][o], share(layer(l).stash[o]));
    }
    // A resident layer's weights and gradient leave the host, and its states, which are not pinned.
    host.add(program_.resident[at(l)], -bytes(layer(l).resident));
    pinned.add(program_.resident[at(l)], -2 * bytes(layer(l).weights));
  }
  const double bare = bytes(model_.boundary) * static_cast<double>(model_.layers);
  host.add(activations, 1);
  host.constant = bytes(model_.bare_host) - bare - bytes(model_.host_capacity);
  at_most("host", host);
  if (model_.pinned_capacity) {
    pinned.add(activations, 1);
    pinned.constant = bytes(model_.bare_pinned) - bare - bytes(*model_.pinned_capacity);
    at_most("pinned", pinned);
  }
  disk.constant = -bytes(model_.disk_capacity);
  if (!disk.columns.empty()) at_most("disk", disk);
}

// (8, 9, 10) The bytes of the bare plan at this moment are known; rows count what a plan has more or less.
void StepWriter::device_memory() {
  std::vector<double> bare(program_.problem.columns.size(), 0);
  for (std::int64_t l = 0; l < model_.layers; ++l) {
    bare[at(program_.levels[at(l)][0])] = 1;
    bare[at((model_.unified ? program_.boundary_device : program_.boundary_host)[at(l)])] = calls_;
    if (!model_.unified && l >= model_.layers - model_.knobs.weight_slots)
      bare[at(program_.retained[at(l)])] = 1;
  }
  Terms fixed;
  if (!model_.unified) {
    bare[at(rotating_)] =
        bytes(model_.weight_slot) * static_cast<double>(std::min(model_.knobs.weight_slots, model_.layers));
    fixed.add(rotating_, 1);
  }
  if (model_.options.resident && !model_.unified) {
    const std::int32_t resident = column("resident");
    bare.push_back(0);
    Terms sum;
    sum.add(resident, -1);
    for (std::int64_t l = 0; l < model_.layers; ++l)
      sum.add(program_.resident[at(l)], bytes(layer(l).resident));
    equal("resident", sum);
    fixed.add(resident, 1);
  }
  // kept[l]: bytes at home on the device of boundaries and stashes up to layer l.
  std::vector<Terms> kept(layers_);
  std::int32_t before = -1;
  double bare_before = 0;
  for (std::int64_t l = 0; l < model_.layers; ++l) {
    const std::int32_t sum = column(fmt::format("kept[{}]", l));
    Terms terms;
    terms.add(program_.boundary_device[at(l)], share(model_.boundary));
    for (std::size_t o = 1; o < kStashLevelCount; ++o)
      terms.add(program_.stash_device[at(l)][o], share(layer(l).stash[o]));
    bare_before += model_.unified ? bytes(model_.boundary) : 0;
    bare.resize(program_.problem.columns.size(), 0);
    bare[at(sum)] = bare_before;
    terms.add(before, 1);
    terms.add(sum, -1);
    equal(fmt::format("kept[{}]", l), terms);
    kept[at(l)].add(sum, 1);
    before = sum;
  }
  const auto limit = [&](std::size_t t, Terms terms) {
    terms.add(fixed, 1);
    double known = bytes(model_.bare_device[t]);
    for (const auto& [index, value] : terms.columns) known -= value * bare[at(index)];
    terms.constant = known - bytes(model_.device_capacity);
    at_most(fmt::format("device[{}]", t), terms);
  };
  for (std::int64_t l = 1; l <= model_.layers; ++l) {
    Terms terms = kept[at(l - 1)];
    leaving(l, terms);
    limit(l == model_.layers ? slots_.head() : StepSlots::forward(l), std::move(terms));
  }
  for (std::int64_t l = model_.layers - 1; l >= 0; --l) {
    for (const bool sweep : {true, false}) {
      Terms terms = kept[at(l)];
      leaving(model_.layers + 1 + 2 * (model_.layers - 1 - l), terms);
      arriving(l, sweep, terms);
      // One micro-batch's recomputed items are there, but for those that were stashed. (When the layer before
      // ends, its last micro-batch still has both: as many bytes as without a stash.)
      for (std::size_t o = 1; o < kStashLevelCount && !sweep; ++o)
        terms.add(program_.levels[at(l)][o], -share(layer(l).stash[o]));
      for (const auto& block : program_.blocks)
        if (block.keeps(l) && !sweep) terms.add(block.column, -share(layer(l).stash.back()));
      limit(sweep ? slots_.sweep(l) : slots_.backward(l), std::move(terms));
    }
  }
}

// Bytes still reserved for what left before forward layer `now` (counted on through head and backward).
void StepWriter::leaving(std::int64_t now, Terms& terms) const {
  if (model_.unified) return;
  const double lag = model_.knobs.lag;
  for (std::int64_t l = std::min(now, model_.layers) - 1; l >= 0; --l) {
    const auto ago = static_cast<double>(now - l);
    if (ago > 1 && lag + 1 <= ago - 1) break;
    if (l >= 1) terms.add(boundary_away(l), part(lag - ago));
    // The last micro-batch of the layer that has just been computed is there in any case.
    const double least = ago == 1 ? 1 / calls_ : 0;
    terms.add(stash_away(l), std::max(part(lag - ago + 1), least));
  }
}

// Bytes of recomputed boundaries, of what a sweep kept, and of fetches when the sweep or the backward of
// layer l begins.
void StepWriter::arriving(std::int64_t l, bool sweep, Terms& terms) const {
  for (const auto& block : program_.blocks) {
    if (block.begin > l || block.end <= l || (sweep && block.end - 1 == l)) continue;
    double swept = bytes(model_.boundary) * static_cast<double>(l - block.begin);
    for (std::int64_t inside = block.begin; inside <= l; ++inside)
      if (block.keeps(inside)) swept += bytes(layer(inside).stash.back());
    terms.add(block.column, swept);
  }
  if (model_.unified) return;
  // The boundary of a block that is being worked on is there until the block's first layer is done.
  for (const auto& [begin, end, z] : early_)
    if (begin < l && l < end && !(sweep && end - 1 == l)) terms.add(z, share(model_.boundary));
  const double lead = model_.knobs.lead;
  for (std::int64_t next = l; next >= 0; --next) {
    const double ahead = part(lead + 1 / calls_ - static_cast<double>(l - next));
    const double fraction = next == l ? std::max(ahead, 1 / calls_) : ahead;
    if (fraction <= 0) break;
    terms.add(boundary_away(next), fraction);
    terms.add(stash_away(next), fraction);
    for (const auto& [begin, end, z] : early_) {
      if (begin == next && begin < l && l < end) terms.add(z, -fraction * share(model_.boundary));
      if (end - 1 == next && (sweep || next < l)) terms.add(z, fraction * share(model_.boundary));
      if (begin == next && !(begin <= l && l < end)) terms.add(z, -fraction * share(model_.boundary));
    }
  }
}

// Where compute and updates share cores, their work adds up. What waits, for a disk or at a pace, leaves them
// free.
void StepWriter::cores() {
  if (model_.cores <= 0) return;
  Terms terms;
  double work = 0;  // thread-seconds
  for (const std::int32_t tau : program_.tau) terms.add(tau, model_.cores);
  for (const StepLayer& each : model_.layer)
    work += model_.compute_threads * seconds(each.forward + each.backward);
  work += model_.compute_threads * seconds(model_.head) + model_.host_threads * seconds(model_.update_work);
  terms.constant = -work;
  for (std::int64_t l = 0; l < model_.layers; ++l)
    for (std::size_t o = 0; o < kStashLevelCount; ++o)
      terms.add(program_.levels[at(l)][o], -model_.compute_threads * seconds(layer(l).recompute[o]));
  for (const auto& block : program_.blocks) {
    double extra = 0;
    for (std::int64_t l = block.begin; l < block.end; ++l)
      extra += seconds(layer(l).recompute[block.found(l)] + (l + 1 < block.end ? layer(l).forward : 0));
    terms.add(block.column, -model_.compute_threads * extra);
  }
  at_least("cores", terms);
}

}  // namespace lazytrain
