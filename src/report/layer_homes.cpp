#include "report/layer_homes.h"

#include <fmt/core.h>

#include <algorithm>
#include <functional>

namespace lazytrain {
namespace {

constexpr std::size_t kMostColumns = 96;  // beside the names of rows

// 'D', 'H', 'K' for one home, '+' for several, '.' for none.
char letter(const Shares& shares) {
  if (shares.sum() == 0) return '.';
  if (shares.device == shares.sum()) return 'D';
  if (shares.host == shares.sum()) return 'H';
  return shares.disk == shares.sum() ? 'K' : '+';
}

char letter(Tier tier) {
  return tier == Tier::device ? 'D' : tier == Tier::host ? 'H' : 'K';
}

char letter(StashLevel level) {
  switch (level) {
    case StashLevel::none:
      return '.';
    case StashLevel::attention:
      return 'a';
    case StashLevel::mlp:
      return 'm';
    case StashLevel::all:
      return 'A';
  }
  return '?';
}

std::string meaning(char letter, TierModel tiers) {
  switch (letter) {
    case 'D':
      return tiers == TierModel::unified ? "memory" : "device";
    case 'H':
      return "host";
    case 'K':
      return "disk";
    case '+':
      return "several tiers";
    case 'a':
      return "attention";
    case 'm':
      return "mlp";
    case 'A':
      return "all";
    case 'S':
      return tiers == TierModel::unified ? "memory, from the sweep on" : "device, from the sweep on";
    case '~':
      return "mixed";
    default:
      return "none";
  }
}

}  // namespace

std::vector<LayerHomes> layer_homes(const Plan& plan, TierModel tiers) {
  const bool unified = tiers == TierModel::unified;
  const auto shares = [&](std::int64_t device, std::int64_t disk) {
    const std::int64_t all = plan.batch.micro_batches();
    if (unified) return Shares{.device = all - disk, .disk = disk};
    return Shares{.device = device, .host = all - device - disk, .disk = disk};
  };
  std::vector<LayerHomes> homes(plan.layers.size());
  for (std::size_t l = 0; l < homes.size(); ++l) {
    const BoundaryPlan& boundary = plan.boundaries[l];
    const LayerPlan& layer = plan.layers[l];
    LayerHomes& home = homes[l];
    home.boundary_kept = boundary.materialised;
    if (boundary.materialised)
      home.boundary = shares(boundary.device_micro_batches, boundary.disk_micro_batches);
    home.stash = layer.stash;
    home.swept = is_swept(plan, static_cast<std::int64_t>(l));
    if (layer.stash != StashLevel::none)
      home.stash_shares = shares(layer.stash_device_micro_batches, layer.stash_disk_micro_batches);
    const GroupPlan group = plan.groups.empty() ? GroupPlan{} : plan.groups[l + 1];
    const auto tier = [&](bool on_disk) {
      if (on_disk) return Tier::disk;
      return group.on_device || unified ? Tier::device : Tier::host;
    };
    home.weights = tier(group.weights_on_disk);
    home.gradient = tier(group.gradient_on_disk);
    home.states = tier(group.states_on_disk);
  }
  return homes;
}

std::string layer_strip(const Plan& plan, TierModel tiers) {
  const std::vector<LayerHomes> homes = layer_homes(plan, tiers);
  if (homes.empty()) return "";
  const std::size_t each = (homes.size() + kMostColumns - 1) / kMostColumns;
  std::string letters;  // that are drawn, for the legend
  const auto row = [&](const char* name, const std::function<char(const LayerHomes&)>& of) {
    std::string line;
    for (std::size_t l = 0; l < homes.size(); l += each) {
      char column = of(homes[l]);
      for (std::size_t i = l; i < std::min(l + each, homes.size()); ++i)
        if (of(homes[i]) != column) column = '~';
      line += column;
    }
    if (line.find_first_not_of(line[0]) == std::string::npos && line[0] != '~' && line[0] != '+')
      return fmt::format("  {:<18}{}\n", name, meaning(line[0], tiers));
    for (const char column : line)
      if (letters.find(column) == std::string::npos) letters += column;
    return fmt::format("  {:<18}{}\n", name, line);
  };
  std::string rows = row("boundary kept on", [](const LayerHomes& home) { return letter(home.boundary); });
  rows += row("stash", [](const LayerHomes& home) { return letter(home.stash); });
  if (std::any_of(homes.begin(), homes.end(),
                  [](const LayerHomes& home) { return home.stash_shares.sum() > 0; }))
    rows += row("stash kept on", [](const LayerHomes& home) {
      const bool by_sweep = home.swept && home.stash != StashLevel::none;
      return by_sweep ? 'S' : letter(home.stash_shares);
    });
  rows += row("weights", [](const LayerHomes& home) { return letter(home.weights); });
  rows += row("gradients", [](const LayerHomes& home) { return letter(home.gradient); });
  rows += row("optimizer states", [](const LayerHomes& home) { return letter(home.states); });
  std::string legend;
  for (const char column : letters) legend += fmt::format("; {} {}", column, meaning(column, tiers));
  const std::string columns =
      each == 1 ? "one column a layer" : fmt::format("one column for {} layers", each);
  const std::string title =
      letters.empty() ? "layers (all alike)" : fmt::format("layers ({}{})", columns, legend);
  return fmt::format("{}\n{}", title, rows);
}

}  // namespace lazytrain
