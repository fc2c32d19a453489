#include "training/generation.h"

#include <algorithm>
#include <numeric>

#include "program/verifier.h"
#include "runtime/workspace.h"

namespace lazytrain {
namespace {

// Prompts are read in slots of at least this many tokens, so that short ones share a call.
constexpr std::int64_t kPrefillTokens = 512;

std::int64_t longest_prompt(const GenerationRequest& request) {
  std::int64_t longest = 1;
  for (const auto& prompt : request.prompts)
    longest = std::max(longest, static_cast<std::int64_t>(prompt.size()));
  return longest;
}

struct PrefillArrays {
  std::vector<std::int32_t> tokens, positions, document_start, cache_sequence, cache_entry, last_row;

  PrefillArrays(std::int64_t rows, std::int64_t sequences) {
    for (std::vector<std::int32_t>* array :
         {&tokens, &positions, &document_start, &cache_sequence, &cache_entry})
      array->assign(static_cast<std::size_t>(rows), 0);
    std::fill(cache_sequence.begin(), cache_sequence.end(), -1);
    last_row.assign(static_cast<std::size_t>(sequences), -1);
  }
};

class Group {
 public:
  Group(Session& session, const GenerationPlan& plan, const GenerationRequest& request,
        std::span<const std::size_t> members, std::vector<Generated>& results)
      : session_(session), plan_(plan), request_(request), members_(members), results_(results) {
    const auto sequences = static_cast<std::size_t>(plan.geometry.sequences);
    tokens_.assign(sequences, 0);
    length_.assign(sequences, 0);
    active_.assign(sequences, 0);
  }

  void run(const std::function<bool()>& stop) {
    prefill();
    for (std::int64_t made = 1; made < request_.max_new_tokens; ++made) {
      if (std::none_of(active_.begin(), active_.end(), [](std::uint8_t active) { return active != 0; }))
        return;
      if (stop && stop()) return;
      const StepOutcome outcome = session_.executor().decode(
          plan_.programs.decode, plan_.geometry, {.tokens = tokens_, .length = length_, .active = active_});
      for (std::size_t s = 0; s < members_.size(); ++s) {
        if (active_[s] == 0) continue;
        ++length_[s];
        accept(s, outcome.next_tokens[s]);
      }
    }
  }

 private:
  // Prompts one after the other into the slot; a full slot is read, then the next prompts follow.
  void prefill() {
    const std::int64_t rows = plan_.geometry.prefill.slots * plan_.geometry.prefill.slot_tokens;
    std::size_t next = 0;
    while (next < members_.size()) {
      PrefillArrays arrays(rows, plan_.geometry.sequences);
      std::int64_t row = 0;
      const std::size_t first = next;
      for (; next < members_.size(); ++next) {
        const std::vector<std::int32_t>& prompt = request_.prompts[members_[next]];
        const auto size = static_cast<std::int64_t>(prompt.size());
        if (row + size > rows) break;
        for (std::int64_t i = 0; i < size; ++i) {
          const auto at = static_cast<std::size_t>(row + i);
          arrays.tokens[at] = prompt[static_cast<std::size_t>(i)];
          arrays.positions[at] = arrays.cache_entry[at] = static_cast<std::int32_t>(i);
          arrays.document_start[at] = static_cast<std::int32_t>(row);
          arrays.cache_sequence[at] = static_cast<std::int32_t>(next);
        }
        row += size;
        arrays.last_row[next] = static_cast<std::int32_t>(row - 1);
      }
      for (std::int64_t padding = row; padding < rows; ++padding)
        arrays.document_start[static_cast<std::size_t>(padding)] = static_cast<std::int32_t>(row);
      const StepOutcome outcome = session_.executor().prefill(plan_.programs.prefill, plan_.geometry,
                                                              {.tokens = arrays.tokens,
                                                               .positions = arrays.positions,
                                                               .document_start = arrays.document_start,
                                                               .cache_sequence = arrays.cache_sequence,
                                                               .cache_entry = arrays.cache_entry,
                                                               .last_row = arrays.last_row});
      for (std::size_t s = first; s < next; ++s) {
        length_[s] = static_cast<std::int32_t>(request_.prompts[members_[s]].size());
        active_[s] = 1;
        accept(s, outcome.next_tokens[s]);
      }
    }
  }

  void accept(std::size_t sequence, std::int32_t token) {
    Generated& result = results_[members_[sequence]];
    result.finished = std::binary_search(request_.stop_ids.begin(), request_.stop_ids.end(), token);
    if (!result.finished) {
      result.tokens.push_back(token);
      tokens_[sequence] = token;
      result.finished = static_cast<std::int64_t>(result.tokens.size()) >= request_.max_new_tokens;
    }
    if (result.finished) active_[sequence] = 0;
  }

  Session& session_;
  const GenerationPlan& plan_;
  const GenerationRequest& request_;
  std::span<const std::size_t> members_;
  std::vector<Generated>& results_;
  std::vector<std::int32_t> tokens_, length_;
  std::vector<std::uint8_t> active_;
};

}  // namespace

std::int64_t generation_positions(const GenerationRequest& request) {
  return longest_prompt(request) + request.max_new_tokens;
}

GenerationPlan plan_generation(const LoweringContext& context, const Machine& machine, DataType type,
                               const GenerationRequest& request, std::int64_t most) {
  const std::int64_t longest = longest_prompt(request);
  const std::int64_t slot_tokens =
      std::min(std::max(longest, kPrefillTokens),
               std::accumulate(request.prompts.begin(), request.prompts.end(), std::int64_t{1},
                               [](std::int64_t sum, const auto& prompt) {
                                 return sum + static_cast<std::int64_t>(prompt.size());
                               }));
  const auto prompts = std::max<std::int64_t>(1, std::ssize(request.prompts));
  GenerationPlan plan;
  for (std::int64_t limit = std::clamp<std::int64_t>(most, 1, prompts); limit >= 1; limit /= 2) {
    // Evenly over the groups: a last group of few sequences would cost as much as a full one.
    const std::int64_t groups = (prompts + limit - 1) / limit;
    const std::int64_t sequences = (prompts + groups - 1) / groups;
    plan.geometry = {.sequences = sequences,
                     .capacity = longest + request.max_new_tokens,
                     .prefill = {.slots = 1, .slot_tokens = slot_tokens, .micro_batch = 1}};
    const WorkspaceBytes workspace = workspace_bytes(context.architecture, type, 1, slot_tokens, sequences);
    for (const std::int64_t weight_slots : {2, 1}) {
      plan.programs = lower_generation(context, plan.geometry, weight_slots, workspace);
      if (!fits(plan.programs.prefill, machine) || !fits(plan.programs.decode, machine)) continue;
      verify_or_throw(plan.programs.prefill, machine);
      verify_or_throw(plan.programs.decode, machine);
      return plan;
    }
  }
  // A device of its own takes its memory from the host's.
  const bool host_lacks = plan.programs.decode.device_bytes <= machine.device_capacity &&
                          plan.programs.prefill.device_bytes <= machine.device_capacity;
  GenerationGeometry shortest = plan.geometry;
  shortest.capacity = longest + 1;
  const GenerationPrograms least = lower_generation(
      context, shortest, 1, workspace_bytes(context.architecture, type, 1, slot_tokens, shortest.sequences));
  const bool fewer_help = fits(least.prefill, machine) && fits(least.decode, machine);
  fail(ExitCode::does_not_fit,
       "generating one sequence of {} tokens needs {} on the device and {} on the host, more than the "
       "budgets of {} and {}; {} device_memory{}",
       longest + request.max_new_tokens, format_bytes(plan.programs.decode.device_bytes),
       format_bytes(plan.programs.decode.host_bytes), format_bytes(machine.device_capacity),
       format_bytes(machine.host_capacity), host_lacks ? "lower" : "raise",
       fewer_help ? " or lower max_new_tokens" : "");
}

std::vector<Generated> generate(Session& session, const GenerationPlan& plan,
                                const GenerationRequest& request,
                                const std::function<void(std::int64_t, std::int64_t)>& progress,
                                const std::function<bool()>& stop) {
  GenerationRequest sorted = request;
  std::sort(sorted.stop_ids.begin(), sorted.stop_ids.end());
  std::vector<Generated> results(request.prompts.size());
  std::vector<std::size_t> order(request.prompts.size());
  std::iota(order.begin(), order.end(), 0);
  const auto sequences = static_cast<std::size_t>(plan.geometry.sequences);
  for (std::size_t first = 0; first < order.size(); first += sequences) {
    if (stop && stop()) break;
    const std::size_t count = std::min(sequences, order.size() - first);
    Group(session, plan, sorted, std::span(order).subspan(first, count), results).run(stop);
    if (stop && stop()) break;
    if (progress) progress(static_cast<std::int64_t>(first + count), static_cast<std::int64_t>(order.size()));
  }
  return results;
}

}  // namespace lazytrain
