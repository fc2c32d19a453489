// Bytes on the links and the disk, and the updates that loads wait for: rows (4) to (7), (11) and (13).
#include "planning/step_program_writer.h"

namespace lazytrain {

// What each slot needs over h2d (weights and fetches: all of it, and the part before it begins), and what
// it sends over d2h (spread over the slot, or at its end).
void StepWriter::demands() {
  const std::int64_t layers = model_.layers;
  for (std::int64_t l = 0; l < layers; ++l) {
    const double size = bytes(layer(l).weights);
    const std::int32_t resident = program_.resident[at(l)];
    const auto needs = [&](std::size_t slot, std::int32_t column, double factor, bool before) {
      weights_[slot].add(column, factor);
      if (before) weights_due_[slot].add(column, factor);
    };
    const auto always = [&](std::size_t slot) {
      weights_[slot].constant += size;
      weights_due_[slot].constant += size;
    };
    always(StepSlots::forward(l));
    needs(StepSlots::forward(l), resident, -size, true);
    // Backward: what is still in a slot is not loaded again, and nor is a block's last layer but one.
    const std::int32_t saved = column(fmt::format("saved[{}]", l), 1);
    Terms still, alone;
    still.add(saved, -1);
    still.add(program_.retained[at(l)], 1);
    alone.add(saved, -1);
    for (const std::int32_t level : program_.levels[at(l)]) alone.add(level, 1);
    for (const auto& block : program_.blocks) {
      if (block.end - 2 != l || model_.knobs.weight_slots < 2) continue;
      still.add(block.column, 1);
      alone.add(block.column, 1);
    }
    at_least(fmt::format("saved_by[{}]", l), still);
    // The block that ends with the last layer begins its sweep with weights that may push it out.
    if (l + 1 < layers) at_least(fmt::format("saved_alone[{}]", l), alone);
    if (resident >= 0) {
      Terms both;
      both.add(saved, 1);
      both.add(resident, 1);
      both.constant = -1;
      at_most(fmt::format("saved_once[{}]", l), both);
    }
    always(slots_.backward(l));
    needs(slots_.backward(l), resident, -size, true);
    needs(slots_.backward(l), saved, -size, true);
    gradual_out_[StepSlots::forward(l)].add(stash_away(l), 1);
    if (l + 1 < layers) gradual_out_[StepSlots::forward(l)].add(boundary_away(l + 1), 1);
    last_out_[slots_.backward(l)].constant += bytes(layer(l).gradient);
    last_out_[slots_.backward(l)].add(resident, -bytes(layer(l).gradient));
    fetch(slots_.backward(l), stash_away(l), 1);
    fetch(slots_.backward(l), boundary_away(l), 1);
    if (model_.knobs.boundary_gradient_on_host) {
      Terms gradient;
      gradient.constant = bytes(model_.boundary);
      fetch(slots_.backward(l), gradient, 1);
      gradual_out_[l + 1 == layers ? slots_.head() : slots_.backward(l + 1)].constant += gradient.constant;
    }
  }
  for (const auto& block : program_.blocks) {
    const std::size_t sweep = slots_.sweep(block.end - 1);
    for (std::int64_t l = block.begin; l + 1 < block.end; ++l) {
      weights_[sweep].add(block.column, bytes(layer(l).weights));
      if (l == block.begin) weights_due_[sweep].add(block.column, bytes(layer(l).weights));
    }
    if (!block.keep) early(block.begin, block.end);
  }
  // The embedding's rows are made on the host. The head's weights come once, before it; in slices all but the
  // last come twice, and only the first before it, as only the last gradient leaves behind it.
  Terms rows;
  rows.constant = bytes(model_.boundary);
  fetch(StepSlots::forward(0), rows, 1);
  const double slice = 1 / model_.head_slices;
  fetches_[slots_.head()].constant += (2 - slice) * bytes(model_.head_weights);
  fetches_due_[slots_.head()].constant += slice * bytes(model_.head_weights);
  gradual_out_[slots_.head()].constant += (1 - slice) * bytes(model_.head_gradient);
  last_out_[slots_.head()].constant += slice * bytes(model_.head_gradient);
  last_out_[slots_.backward(0)].constant += bytes(model_.boundary);
}

// Fetched micro-batch by micro-batch: the first one before the slot begins.
void StepWriter::fetch(std::size_t slot, const Terms& what, double factor) {
  fetches_[slot].add(what, factor);
  fetches_due_[slot].add(what, factor / calls_);
}

// Whether [begin, end) is a recomputed block, whatever its sweep keeps.
Terms StepWriter::is_block(std::int64_t begin, std::int64_t end) const {
  Terms terms;
  for (const auto& block : program_.blocks)
    if (block.begin == begin && block.end == end) terms.add(block.column, 1);
  return terms;
}

// (6) z = micro-batches of boundary s that have to be there for the sweep of [s, e).
void StepWriter::early(std::int64_t begin, std::int64_t end) {
  const std::int32_t z = column(fmt::format("z[{},{}]", begin, end), calls_);
  early_.push_back({begin, end, z});
  Terms needed;
  needed.add(z, 1);
  needed.add(program_.boundary_host[at(begin)], -1);
  needed.add(program_.boundary_disk[at(begin)], -1);
  needed.add(is_block(begin, end), -calls_);
  needed.constant = calls_;
  at_least(fmt::format("early[{},{}]", begin, end), needed);
  Terms only;
  only.add(z, 1);
  only.add(is_block(begin, end), -calls_);
  at_most(fmt::format("early_only[{},{}]", begin, end), only);
  Terms moved;
  moved.add(z, share(model_.boundary));
  fetch(slots_.sweep(end - 1), moved, 1);
  fetch(slots_.backward(begin), moved, -1);
}

// (4)
void StepWriter::links() {
  for (std::size_t t = 0; t < slots_.count(); ++t) {
    up_weights_.push_back(column(fmt::format("W[{}]", t)));
    up_fetches_.push_back(column(fmt::format("F[{}]", t)));
    down_.push_back(column(fmt::format("D[{}]", t)));
    Terms up, down;
    up.add(up_weights_[t], 1);
    up.add(up_fetches_[t], 1);
    down.add(down_[t], 1);
    const auto within = [&](const char* name, const Terms& moved, double limit) {
      Terms terms = moved;
      terms.add(program_.tau[t], -rate(limit));
      at_most(fmt::format("{}[{}]", name, t), terms);
    };
    within("h2d", up, model_.h2d);
    within("d2h", down, model_.d2h);
    Terms both = up;
    both.add(down, 1);
    if (model_.duplex < model_.h2d + model_.d2h) within("duplex", both, model_.duplex);
    if (model_.host_memory > 0) within("memory", both, model_.host_memory);
    // With one weight slot, that has to be free first; without a lead, the op before a fetch has to be over:
    // such bytes move while compute stands still.
    Terms still;
    if (model_.knobs.weight_slots < 2) still.add(up_weights_[t], 1 / rate(model_.h2d));
    if (model_.knobs.lead <= -1 / calls_) still.add(up_fetches_[t], 1 / rate(model_.h2d));
    still.add(program_.stall[t], -1);
    if (still.columns.size() > 1) at_most(fmt::format("still[{}]", t), still);
  }
  // The tail lasts until all has left, and then as long as the host needs.
  tail_.add(down_[slots_.tail()], -1 / rate(model_.d2h));
  equal(fmt::format("time[{}]", slots_.tail()), tail_);
}

// (5) ahead[t] = bytes that are there at the end of slot t and not used yet.
void StepWriter::weights() {
  std::vector<std::int32_t> ahead;
  for (std::size_t t = 0; t < slots_.count(); ++t) {
    ahead.push_back(column(fmt::format("ahead[{}]", t)));
    Terms terms;
    terms.add(ahead[t], 1);
    terms.add(up_weights_[t], -1);
    terms.add(weights_[t], 1);
    if (t > 0) terms.add(ahead[t - 1], -1);
    equal(fmt::format("weights[{}]", t), terms);
    Terms due = weights_due_[t];
    if (t > 0) due.add(ahead[t - 1], -1);
    if (!due.columns.empty() || due.constant != 0) at_most(fmt::format("due_weights[{}]", t), due);
    // One slot is in use, the others may be ahead.
    Terms room;
    room.add(ahead[t], 1);
    room.add(rotating_, -1);
    // Before anything runs all of them may be filled; with one slot it has to be free first.
    if (t > 0 && model_.knobs.weight_slots >= 2) room.constant = bytes(model_.weight_slot);
    at_most(fmt::format("slots[{}]", t), room);
  }
  // At the turn the slots hold the last layers; each is free once its backward is over.
  const std::size_t head = slots_.head();
  Terms turn;
  turn.add(ahead[head], 1);
  for (const auto& block : program_.blocks)
    if (block.end == model_.layers) turn.add(block.column, -bytes(model_.weight_slot));
  if (model_.knobs.weight_slots >= 2 && !model_.options.resident) at_most("turn", turn);
  for (std::int64_t l = model_.layers - 1; l >= 0 && !model_.options.resident; --l) {
    Terms freed;
    freed.add(ahead[slots_.backward(l)], 1);
    freed.constant =
        -bytes(model_.weight_slot) * std::max<double>(1, static_cast<double>(model_.layers - 1 - l));
    if (l + 1 == model_.layers && model_.knobs.weight_slots >= 2) {
      freed.constant = 0;
      for (const auto& block : program_.blocks)
        if (block.end == model_.layers) freed.add(block.column, -bytes(model_.weight_slot));
    }
    at_most(fmt::format("freed[{}]", l), freed);
  }
}

// What may be fetched ahead at the end of slot t: the next `lead` layers' worth.
Terms StepWriter::fetchable(std::size_t t) const {
  Terms terms;
  const std::int64_t layers = model_.layers;
  const double forward_lead = 2 * model_.knobs.lead;  // a forward layer has half the ops of a backward one
  if (t == StepSlots::prologue()) terms.add(fetches_[StepSlots::forward(0)], 1);
  if (t < slots_.head() && static_cast<double>(slots_.head() - t) <= std::max(1.0, std::ceil(forward_lead)))
    terms.constant += bytes(model_.head_weights) / model_.head_slices;  // slices come behind one another
  if (t < slots_.head() || t >= slots_.tail()) return terms;
  // Slots head, sweep(L-1), backward(L-1), sweep(L-2), ...
  const auto behind = static_cast<std::int64_t>(t - slots_.head());
  const std::int64_t next = layers - 1 - behind / 2;  // the layer whose backward comes next
  for (std::int64_t l = next; l >= 0; --l) {
    // In the middle of a layer (its sweep is over) its own backward is fetched for as it goes.
    const bool inside = behind % 2 == 1 && l == next;
    const double ahead = part(model_.knobs.lead + 1 / calls_ - static_cast<double>(next - l));
    const double fraction = inside ? 1 : l == next ? std::max(ahead, 1 / calls_) : ahead;
    if (fraction <= 0) break;
    if (!inside) terms.add(fetches_[slots_.sweep(l)], fraction);
    terms.add(fetches_[slots_.backward(l)], fraction);
  }
  return terms;
}

void StepWriter::fetches() {
  std::vector<std::int32_t> ahead;
  for (std::size_t t = 0; t < slots_.count(); ++t) {
    ahead.push_back(column(fmt::format("fetched[{}]", t)));
    Terms terms;
    terms.add(ahead[t], 1);
    terms.add(up_fetches_[t], -1);
    terms.add(fetches_[t], 1);
    if (t > 0) terms.add(ahead[t - 1], -1);
    equal(fmt::format("fetches[{}]", t), terms);
    if (!fetches_[t].columns.empty() || fetches_[t].constant != 0) {
      Terms first = fetches_due_[t];
      if (t > 0) first.add(ahead[t - 1], -1);
      at_most(fmt::format("due_fetches[{}]", t), first);
      // What arrives during the last micro-batch is too late for it.
      Terms last;
      last.add(up_fetches_[t], 1 / calls_in(t));
      last.add(ahead[t], -1);
      at_most(fmt::format("due_fetches_last[{}]", t), last);
    }
    Terms lead = fetchable(t);
    Terms limit;
    limit.add(ahead[t], 1);
    limit.add(lead, -1);
    at_most(fmt::format("lead[{}]", t), limit);
  }
}

// (7) queue[t] = bytes that wait for d2h when slot t begins.
void StepWriter::backlog() {
  std::vector<std::int32_t> queue;
  for (std::size_t t = 0; t <= slots_.count(); ++t)
    queue.push_back(column(fmt::format("queue[{}]", t), t == 0 || t == slots_.count() ? 0 : kInfinity));
  for (std::size_t t = 0; t < slots_.count(); ++t) {
    Terms terms;
    terms.add(queue[t + 1], 1);
    terms.add(queue[t], -1);
    terms.add(down_[t], 1);
    terms.add(gradual_out_[t], -1);
    terms.add(last_out_[t], -1);
    equal(fmt::format("backlog[{}]", t), terms);
    // What the last micro-batch makes leaves later.
    Terms made;
    made.add(down_[t], 1);
    made.add(queue[t], -1);
    made.add(gradual_out_[t], -(1 - 1 / calls_in(t)));
    at_most(fmt::format("made[{}]", t), made);
    if (t > 0 && t < slots_.tail()) lag(t, queue[t]);
  }
}

// No more waits when slot t begins than bytes are reserved for it.
void StepWriter::lag(std::size_t t, std::int32_t queue) {
  Terms terms;
  terms.add(queue, 1);
  // The last micro-batch of the slot before has just been made; what takes its place waits for it.
  const double latest = std::max(part(model_.knobs.lag), 1 / calls_);
  const auto reserve = [&](std::size_t slot, double fraction) {
    if (fraction <= 0) return;
    terms.add(gradual_out_[slot], -fraction);
    // All slices of the head but the last two have left by its end.
    if (slot == slots_.head())
      terms.constant += fraction * (1 - 1 / model_.head_slices) * bytes(model_.head_gradient);
  };
  if (t <= slots_.head() + 1) {
    for (std::size_t slot = 1; slot < t; ++slot)
      reserve(slot, slot + 1 == t ? latest : part(model_.knobs.lag - static_cast<double>(t - 1 - slot)));
    if (t > slots_.head()) terms.constant -= bytes(model_.head_gradient) / model_.head_slices;
  } else {
    // Accumulators: the latest gradients may still be there, but for the one whose place is needed now. A
    // sweep needs none.
    const auto behind = static_cast<std::int64_t>(t - slots_.head() - 1);
    const std::int64_t now = model_.layers - 1 - behind / 2;
    const std::int64_t kept = model_.knobs.gradient_slots - (behind % 2 == 1 ? 1 : 0);
    for (std::int64_t l = now + 1; l < model_.layers && l <= now + kept; ++l)
      terms.add(last_out_[slots_.backward(l)], -1);
    for (std::int64_t l = now + 1; l < model_.layers && l <= now + 1; ++l)
      reserve(slots_.backward(l), latest);
    // What the head left has its own place for a while.
    if (now + 2 >= model_.layers) {
      terms.constant -= bytes(model_.head_gradient) / model_.head_slices;
      for (std::int64_t l = std::max<std::int64_t>(0, model_.layers - 2); l < model_.layers; ++l)
        reserve(StepSlots::forward(l), 1);
    }
  }
  at_most(fmt::format("lag[{}]", t), terms);
}

// (11) What leaves for the disk waits in stages on the host until it is written, at the earliest in the slot
// after the one that made it. What comes back is read before the slot that needs it, no further ahead than
// there are stages.
void StepWriter::disk() {
  if (program_.boundary_disk.front() < 0) return;
  for (std::int64_t l = 0; l < model_.layers; ++l) {
    Terms stash;
    for (std::size_t o = 1; o < kStashLevelCount; ++o)
      stash.add(program_.stash_disk[at(l)][o], share(layer(l).stash[o]));
    Terms boundary;
    boundary.add(program_.boundary_disk[at(l)], share(model_.boundary));
    disk_out_[StepSlots::forward(l)].add(stash, 1);
    disk_out_[l == 0 ? 0 : StepSlots::forward(l - 1)].add(boundary, 1);
    disk_in_[slots_.backward(l)].add(stash, 1);
    disk_in_[slots_.sweep(l)].add(boundary, 1);
  }
  // A block's boundary is needed by its sweep.
  for (const auto& [begin, end, z] : early_) {
    Terms moved;
    const std::int32_t on_disk = column(fmt::format("z_disk[{},{}]", begin, end), calls_);
    Terms needed;
    needed.add(on_disk, 1);
    needed.add(program_.boundary_disk[at(begin)], -1);
    needed.add(is_block(begin, end), -calls_);
    needed.constant = calls_;
    at_least(fmt::format("early_disk[{},{}]", begin, end), needed);
    Terms only;
    only.add(on_disk, 1);
    only.add(z, -1);
    at_most(fmt::format("early_disk_only[{},{}]", begin, end), only);
    disk_in_[slots_.sweep(end - 1)].add(on_disk, share(model_.boundary));
    disk_in_[slots_.sweep(begin)].add(on_disk, -share(model_.boundary));
  }
  std::vector<std::int32_t> waiting, read_ahead;
  for (std::size_t t = 0; t <= slots_.count(); ++t)
    waiting.push_back(
        column(fmt::format("disk_waiting[{}]", t), t == 0 || t == slots_.count() ? 0 : bytes(model_.stage)));
  for (std::size_t t = 0; t < slots_.count(); ++t) {
    const std::int32_t written = column(fmt::format("disk_writes[{}]", t));
    const std::int32_t read = column(fmt::format("disk_reads[{}]", t), t < slots_.head() ? 0 : kInfinity);
    read_ahead.push_back(column(fmt::format("disk_ahead[{}]", t), bytes(model_.stage)));
    const auto within = [&](const char* name, const Terms& moved, double limit) {
      Terms terms = moved;
      terms.add(program_.tau[t], -rate(limit));
      at_most(fmt::format("{}[{}]", name, t), terms);
    };
    Terms writes, reads, both;
    writes.add(written, 1);
    reads.add(read, 1);
    both.add(written, 1);
    both.add(read, 1);
    within("disk_write", writes, model_.disk_write);
    within("disk_read", reads, model_.disk_read);
    within("disk_duplex", both, model_.disk_duplex);
    Terms queue;
    queue.add(waiting[t + 1], 1);
    queue.add(waiting[t], -1);
    queue.add(written, 1);
    queue.add(disk_out_[t], -1);
    equal(fmt::format("disk_queue[{}]", t), queue);
    Terms made;
    made.add(written, 1);
    made.add(waiting[t], -1);
    at_most(fmt::format("disk_made[{}]", t), made);
    Terms ahead;
    ahead.add(read_ahead[t], 1);
    ahead.add(read, -1);
    if (t > 0) ahead.add(read_ahead[t - 1], -1);
    if (t + 1 < slots_.count()) ahead.add(disk_in_[t + 1], 1);
    equal(fmt::format("disk_due[{}]", t), ahead);
  }
}

// (13) Weights of layer l are loaded after its update and after those of the layers before.
void StepWriter::updates() {
  // A load takes no time where there is no link.
  const double link = model_.unified ? kInfinity : rate(model_.h2d);
  Terms updated, elapsed;  // host work until then; time until the slot before
  updated.constant = seconds(model_.embedding_update) + calls_ * seconds(model_.gather);
  if (!model_.overlap) updated.constant = 0;
  elapsed.add(program_.tau[StepSlots::prologue()], 1);
  Terms traffic;
  std::int32_t before = -1;
  for (std::int64_t l = 0; l <= model_.layers; ++l) {
    const bool head = l == model_.layers;
    Terms load;
    if (head) {
      load.constant = bytes(model_.head_weights) / model_.head_slices / link;
      if (model_.overlap) updated.constant += seconds(model_.head_update);
    } else {
      load.constant = bytes(layer(l).weights) / link;
      load.add(program_.resident[at(l)], -load.constant);
      if (model_.overlap) {
        updated.constant += seconds(layer(l).update);
        updated.add(program_.resident[at(l)], -seconds(layer(l).update));
        traffic.constant += bytes(layer(l).update_traffic);
        traffic.add(program_.resident[at(l)], -bytes(layer(l).update_traffic));
      }
    }
    const std::int32_t loaded = column(fmt::format("loaded[{}]", l));
    Terms after_update;
    after_update.add(loaded, 1);
    after_update.add(updated, -1);
    after_update.add(load, -1);
    at_least(fmt::format("updated[{}]", l), after_update);
    if (before >= 0) {
      Terms after_load;
      after_load.add(loaded, 1);
      after_load.add(before, -1);
      after_load.add(load, -1);
      at_least(fmt::format("loaded_after[{}]", l), after_load);
    }
    before = loaded;
    const std::int32_t until = column(fmt::format("elapsed[{}]", l));
    Terms sum;
    sum.add(until, 1);
    sum.add(elapsed, -1);
    equal(fmt::format("elapsed[{}]", l), sum);
    Terms in_time;
    in_time.add(until, 1);
    in_time.add(loaded, -1);
    at_least(fmt::format("in_time[{}]", l), in_time);
    elapsed = {};
    elapsed.add(until, 1);
    elapsed.add(program_.tau[head ? slots_.head() : StepSlots::forward(l)], 1);
    if (!head || model_.host_memory <= 0) continue;
    // Host memory carries transfers and updates of the whole forward.
    Terms moved = traffic;
    for (std::size_t t = 0; t <= at(model_.layers); ++t)
      for (const std::int32_t bytes_moved : {up_weights_[t], up_fetches_[t], down_[t]})
        moved.add(bytes_moved, 1);
    moved.add(until, -rate(model_.host_memory));
    at_most("memory[forward]", moved);
  }
}

}  // namespace lazytrain
