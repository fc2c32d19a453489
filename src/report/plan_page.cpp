#include "report/plan_page.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "formats/json.h"
#include "nlohmann/json.hpp"
#include "report/layer_homes.h"
#include "report/plan_page_text.h"

namespace lazytrain {
namespace {

using nlohmann::json;

// A power of ten: a hundred-millionth of the longest time to a billionth, no finer than a nanosecond.
Seconds tick_of(Seconds longest) {
  if (longest <= 0) return 1e-9;
  return std::pow(10.0, std::max(-9.0, std::floor(std::log10(longest)) - 8));
}

// Six digits: more than a person reads, enough for the sums to look right.
double rounded(double value) {
  return std::stod(fmt::format("{:.6g}", value));
}

json times_json(const Program& program, std::span<const OpTime> times, Seconds tick) {
  std::array<std::int64_t, kStreamCount> end{};  // of the op before in each stream
  json gaps = json::array(), lengths = json::array();
  for (std::size_t i = 0; i < times.size(); ++i) {
    // Both ends are rounded, so that errors do not add up.
    const std::int64_t from = std::llround(times[i].start / tick), to = std::llround(times[i].end / tick);
    std::int64_t& before = end[static_cast<std::size_t>(program.ops[i].stream)];
    gaps.push_back(from - before);
    lengths.push_back(to - from);
    before = to;
  }
  return {{"gap", std::move(gaps)}, {"length", std::move(lengths)}};
}

json ops_json(const Program& program, std::vector<OpKind>& kinds) {
  std::map<OpKind, std::size_t> kind_index;
  std::map<std::int64_t, std::size_t> size_index;
  json kind = json::array(), stream = json::array(), layer = json::array(), micro_batch = json::array();
  json piece = json::array(), slice = json::array(), size = json::array(), sizes = json::array(),
       after = json::array();
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    const auto [known, fresh] = kind_index.try_emplace(op.kind, kinds.size());
    if (fresh) kinds.push_back(op.kind);
    const auto [sized, fresh_size] = size_index.try_emplace(op.bytes.value, sizes.size());
    if (fresh_size) sizes.push_back(op.bytes.value);
    kind.push_back(known->second);
    stream.push_back(static_cast<int>(op.stream));
    layer.push_back(op.layer);
    micro_batch.push_back(op.micro_batch);
    piece.push_back(op.piece);
    slice.push_back(op.slice);
    size.push_back(sized->second);
    json waits = json::array();
    for (const OpIndex other : op.after) waits.push_back(static_cast<std::int64_t>(i) - other);
    after.push_back(waits.size() == 1 ? waits[0] : waits.empty() ? json(0) : waits);
  }
  return {{"kind", std::move(kind)},   {"stream", std::move(stream)},
          {"layer", std::move(layer)}, {"micro_batch", std::move(micro_batch)},
          {"piece", std::move(piece)}, {"slice", std::move(slice)},
          {"bytes", std::move(size)},  {"sizes", std::move(sizes)},
          {"after", std::move(after)}};
}

// Where the time goes, of simulated or measured times.
json use_json(const Program& program, std::span<const OpTime> times, std::size_t layers) {
  const Seconds step = last_end(times);
  const ComputeTimes compute = compute_times(program, times);
  json streams = json::array(), parts = json::array(), still = json::array(), by_layer = json::array();
  for (const StreamUse& use : stream_uses(program, times))
    streams.push_back({{"stream", static_cast<int>(use.stream)},
                       {"ops", use.ops},
                       {"busy_s", rounded(use.busy)},
                       {"bytes", use.bytes.value}});
  for (std::size_t part = 0; part < kComputePartCount; ++part)
    parts.push_back({{"name", to_string(static_cast<ComputePart>(part))},
                     {"seconds", rounded(compute.of(static_cast<ComputePart>(part)))}});
  for (const Standstill& entry : standstills(program, times))
    still.push_back({{"kind", entry.kind ? json(to_string(*entry.kind)) : json(nullptr)},
                     {"seconds", rounded(entry.seconds)},
                     {"times", entry.times}});
  for (const ComputeTimes& layer : layer_times(program, times, layers))
    by_layer.push_back({rounded(layer.of(ComputePart::forward)), rounded(layer.of(ComputePart::recompute)),
                        rounded(layer.of(ComputePart::backward))});
  return {{"step_s", rounded(step)},         {"still_s", rounded(std::max(0.0, step - compute.sum()))},
          {"streams", std::move(streams)},   {"parts", std::move(parts)},
          {"standstills", std::move(still)}, {"layers", std::move(by_layer)}};
}

Bytes capacity(const Machine& machine, Tier tier) {
  return tier == Tier::device ? machine.device_capacity
         : tier == Tier::host ? machine.host_capacity
                              : machine.disk_capacity;
}

std::string tier_name(const Program& program, Tier tier) {
  return program.tiers == TierModel::unified && tier == Tier::device ? "memory" : to_string(tier);
}

json memory_json(const Program& program, const Machine& machine) {
  json tiers = json::array();
  for (const Tier tier : used_tiers(program)) {
    json ops = json::array(), bytes = json::array(), items = json::array();
    MemoryPoint before;
    for (const MemoryPoint& point : memory_curve(program, tier)) {
      ops.push_back(point.op - before.op);
      bytes.push_back((point.bytes - before.bytes).value);
      before = point;
    }
    for (const MemoryItem& item : memory_items(program, tier))
      if (item.bytes.value > 0) items.push_back({item.what, item.bytes.value});
    tiers.push_back({{"name", tier_name(program, tier)},
                     {"arena", program.bytes_of(tier).value},
                     {"budget", capacity(machine, tier).value},
                     {"items", std::move(items)},
                     {"op", std::move(ops)},
                     {"bytes", std::move(bytes)}});
  }
  return tiers;
}

json layers_json(const Plan& plan, TierModel tiers) {
  const auto shares = [](const Shares& s) { return json::array({s.device, s.host, s.disk}); };
  json layers = json::array();
  for (const LayerHomes& home : layer_homes(plan, tiers))
    layers.push_back({{"kept", home.boundary_kept},
                      {"boundary", shares(home.boundary)},
                      {"stash", to_string(home.stash)},
                      {"stash_on", shares(home.stash_shares)},
                      {"swept", home.swept},
                      {"weights", static_cast<int>(home.weights)},
                      {"gradient", static_cast<int>(home.gradient)},
                      {"states", static_cast<int>(home.states)}});
  return layers;
}

json policies_json(const std::vector<Evaluation>& table) {
  json rows = json::array();
  for (const Evaluation& row : table)
    rows.push_back({{"policy", row.policy},
                    {"variant", row.variant},
                    {"fits", row.fits},
                    {"why_not", row.why_not},
                    {"chosen", row.chosen},
                    {"micro_batch", row.micro_batch},
                    {"hidden_updates", row.optimizer_overlap},
                    {"device", row.device.value},
                    {"host", row.host.value},
                    {"step_s", rounded(row.step)},
                    {"recompute_s", rounded(row.recompute)},
                    {"exposed_s", rounded(row.exposed)},
                    {"tokens_per_s", rounded(row.tokens_per_second)}});
  return rows;
}

json machine_json(const Machine& machine, const CostTable& costs) {
  return {{"name", machine.name},
          {"emulated", machine.emulated},
          {"unified", machine.tiers == TierModel::unified},
          {"h2d", machine.h2d},
          {"d2h", machine.d2h},
          {"duplex", machine.duplex},
          {"disk_read", machine.disk_read},
          {"disk_write", machine.disk_write},
          {"costs", costs.source},
          {"costs_of", costs.machine}};
}

json plan_json(const Plan& plan, const std::vector<Evaluation>& table) {
  const auto chosen =
      std::find_if(table.begin(), table.end(), [](const Evaluation& row) { return row.chosen; });
  return {{"policy", plan.policy},
          {"variant", chosen == table.end() ? "" : chosen->variant},
          {"slots", plan.batch.slots},
          {"slot_tokens", plan.batch.slot_tokens},
          {"micro_batch", plan.batch.micro_batch},
          {"micro_batches", plan.batch.micro_batches()},
          {"hidden_updates", plan.optimizer_overlap},
          {"weight_slots", plan.weight_slots},
          {"fetch_lead", plan.fetch_lead},
          {"offload_lag", plan.offload_lag},
          {"objective", rounded(plan.objective)},
          {"bound", rounded(plan.bound)}};
}

void replace(std::string& text, std::string_view marker, std::string_view by) {
  const std::size_t at = text.find(marker);
  check(at != std::string::npos, "the page has a place for each of its parts");
  text.replace(at, marker.size(), by);
}

}  // namespace

std::string page_data(const StepPicture& picture) {
  const PlannedStep& step = picture.step;
  const Program& program = step.program;
  const std::vector<OpTime> simulated = op_times(step.simulation);
  const Seconds tick = tick_of(std::max(last_end(simulated), last_end(picture.measured)));
  const std::size_t layers = step.plan.layers.size();
  std::vector<OpKind> kinds;
  json data = {{"model", picture.model},
               {"program", to_string(program.kind)},
               {"machine", machine_json(step.machine, picture.costs)},
               {"plan", plan_json(step.plan, step.table)},
               {"tick_s", tick},
               {"ops", ops_json(program, kinds)},
               {"simulated", use_json(program, simulated, layers)},
               {"memory", memory_json(program, step.machine)},
               {"layers", layers_json(step.plan, program.tiers)},
               {"policies", policies_json(step.table)}};
  data["simulated"].update(times_json(program, simulated, tick));
  data["simulated"]["compute_alone_s"] = rounded(step.simulation.compute);
  if (!picture.measured.empty()) {
    data["measured"] = use_json(program, picture.measured, layers);
    data["measured"].update(times_json(program, picture.measured, tick));
    data["measured"]["number"] = picture.measured_step;
  }
  data["kinds"] = json::array();
  for (const OpKind kind : kinds) data["kinds"].push_back(to_string(kind));
  data["streams"] = json::array();
  for (std::size_t s = 0; s < kStreamCount; ++s)
    data["streams"].push_back(to_string(static_cast<StreamId>(s)));
  // Inside a script element only "<" could be taken for the end of it.
  const std::string text = data.dump(-1, ' ', true, json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (const char c : text) {
    if (c == '<')
      safe += "\\u003c";
    else
      safe += c;
  }
  return safe;
}

std::string plan_page(const StepPicture& picture) {
  std::string page(kPlanPageHtml);
  replace(page, "/*@css@*/", kPlanPageCss);
  replace(page, "/*@js@*/", kPlanPageJs);
  replace(page, "{\"@data@\":0}", page_data(picture));
  return page;
}

}  // namespace lazytrain
