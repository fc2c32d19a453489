#include "planning/smallest_change.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "planning/lean_sizes.h"
#include "planning/milp_policy.h"

namespace lazytrain {
namespace {

constexpr std::int64_t kTokenStep = 64;
// Layer calls that are lowered for advice, some seconds' worth. Where they are used up, an offer may be
// smaller than the best one, or be left out.
constexpr std::int64_t kMostLoweredCalls = 1 << 18;

// "122MB": whole megabytes, rounded up, as a config takes it.
std::string budget(Bytes bytes) {
  return fmt::format("{}MB", (bytes.value + 999'999) / 1'000'000);
}

class Advice {
 public:
  Advice(const PlanningInputs& inputs, const BatchGeometry& batch, const std::string& policy)
      : inputs_(inputs), batch_(batch), policy_(policy) {}

  std::string sentence() {
    const bool unified = inputs_.context.tiers == TierModel::unified;
    const Bytes device_has = inputs_.machine.device_capacity;
    const Bytes host_has = unified ? Bytes{INT64_MAX} : inputs_.machine.host_capacity;
    const std::vector<LeanSize> sizes = leanest_sizes(inputs_, batch_, policy_);
    const Bytes may_pin = unified ? Bytes{INT64_MAX} : inputs_.machine.pinned_capacity.value_or(host_has);
    std::optional<Bytes> device, host, pinned;
    LeanSize both = sizes.front();
    for (const LeanSize& size : sizes) {
      if (size.host <= host_has) device = std::min(device.value_or(size.device), size.device);
      if (size.device <= device_has) host = std::min(host.value_or(size.host), size.host);
      if (size.device <= device_has && size.host <= host_has)
        pinned = std::min(pinned.value_or(size.pinned), size.pinned);
      if (size.device + size.host < both.device + both.host) both = size;
    }
    std::string text, give;
    const auto offer = [&](const std::string& what) { give += (give.empty() ? "give " : ", or ") + what; };
    const std::string of = policy_ == "auto" ? "" : fmt::format(" of policy {}", policy_);
    if (device && host && *device <= device_has && *host <= host_has && pinned && *pinned > may_pin) {
      text = fmt::format("at most {} of the host may be pinned, too little: the leanest plan{} pins {}",
                         format_bytes(may_pin), of, format_bytes(*pinned));
      offer(fmt::format("{}: {}", inputs_.pinned_key, budget(*pinned)));
    } else if (device && host && *device <= device_has && *host <= host_has) {
      // What a plan needs at the least is known, but this policy finds no placement for it.
      text =
          unified
              ? fmt::format("policy {} finds no placement within the memory budget of {}", policy_,
                            format_bytes(device_has))
              : fmt::format(
                    "policy {} finds no placement within the budgets of {} on the device and {} on the host",
                    policy_, format_bytes(device_has), format_bytes(host_has));
      return text + (policy_ != "auto" && fits("auto", batch_) ? "; give policy: auto, or larger budgets"
                                                               : "; give larger budgets");
    } else if (device) {
      text = fmt::format("the {} budget of {} is too small: the leanest plan{} needs {}",
                         unified ? "memory" : "device", format_bytes(device_has), of, format_bytes(*device));
      offer(fmt::format("{}: {}", inputs_.device_key, budget(*device)));
      if (host) offer(fmt::format("{}: {}", inputs_.host_key, budget(*host)));
    } else if (host) {
      // Layers that live on the device whole need less of the host; how many can is not searched here.
      const bool resident =
          !unified && (policy_ == "auto" || policy_ == "milp") && program_options(inputs_).resident;
      text = fmt::format("the host budget of {} is too small: the leanest plan{}{} needs {}",
                         format_bytes(host_has), of,
                         resident ? " without layers that live on the device" : "", format_bytes(*host));
      offer(fmt::format("{}: {}", inputs_.host_key, budget(*host)));
    } else {
      text = fmt::format(
          "the budgets of {} on the device and {} on the host are too small: the leanest plan{} needs "
          "{} and {}",
          format_bytes(device_has), format_bytes(host_has), of, format_bytes(both.device),
          format_bytes(both.host));
      offer(fmt::format("{}: {} and {}: {}", inputs_.device_key, budget(both.device), inputs_.host_key,
                        budget(both.host)));
    }
    smaller_batches(offer);
    if (policy_ != "auto" && fits("auto", batch_)) offer("policy: auto");
    return text + "; " + give;
  }

 private:
  // The smallest plan of `policy` that fits the budgets.
  std::optional<LeanSize> fits(const std::string& policy, const BatchGeometry& batch) const {
    std::optional<LeanSize> least;
    const std::int64_t calls = batch.micro_batches() * inputs_.context.architecture.layers;
    if (calls > kMostLayerCalls || lowered_ > kMostLoweredCalls) return least;
    constexpr std::int64_t kShapes = 24;  // at most, of policy auto
    lowered_ += kShapes * calls;
    for (const LeanSize& size : leanest_sizes(inputs_, batch, policy, true))
      if (size.fits(inputs_.machine) && (!least || size.device < least->device)) least = size;
    return least;
  }

  template <typename Offer>
  void smaller_batches(const Offer& offer) const {
    const auto sizes = [](const LeanSize& size) { return format_bytes(size.device); };
    if (batch_.micro_batch > 1) {
      BatchGeometry batch = batch_;
      batch.micro_batch = 1;
      if (const auto size = fits(policy_, batch)) {
        offer(fmt::format("micro_batch: 1 ({})", sizes(*size)));
        return;
      }
    }
    // Fewer slots, then shorter ones; both by bisection.
    const auto largest = [&](std::int64_t most, const auto& batch_of) {
      std::int64_t low = 1, high = most;
      std::optional<std::pair<std::int64_t, LeanSize>> best;
      while (low <= high) {
        const std::int64_t middle = low + (high - low) / 2;
        if (const auto size = fits(policy_, batch_of(middle)))
          best = {middle, *size}, low = middle + 1;
        else
          high = middle - 1;
      }
      return best;
    };
    const auto slots = largest(batch_.slots - 1, [&](std::int64_t n) {
      return BatchGeometry{
          .slots = n, .slot_tokens = batch_.slot_tokens, .micro_batch = std::min(n, batch_.micro_batch)};
    });
    if (slots)
      offer(fmt::format("a step of {} slot{} instead of {} (per_device_train_batch_size, {})", slots->first,
                        slots->first == 1 ? "" : "s", batch_.slots, sizes(slots->second)));
    const auto tokens = largest((batch_.slot_tokens - 1) / kTokenStep, [&](std::int64_t n) {
      return BatchGeometry{
          .slots = batch_.slots, .slot_tokens = n * kTokenStep, .micro_batch = batch_.micro_batch};
    });
    if (tokens) offer(fmt::format("cutoff_len: {} ({})", tokens->first * kTokenStep, sizes(tokens->second)));
  }

  const PlanningInputs& inputs_;
  const BatchGeometry& batch_;
  const std::string& policy_;
  mutable std::int64_t lowered_ = 0;
};

}  // namespace

std::string smallest_change(const PlanningInputs& inputs, const BatchGeometry& batch,
                            const std::string& policy) {
  return Advice(inputs, batch, policy).sentence();
}

}  // namespace lazytrain
