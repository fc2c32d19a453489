// Where each layer's objects live, and the strip that shows it on the terminal.
#include "report/layer_homes.h"

#include <gtest/gtest.h>

#include <sstream>

namespace lazytrain {
namespace {

Plan four_layers() {
  Plan plan;
  plan.batch = {.slots = 4, .slot_tokens = 8, .micro_batch = 1};
  plan.boundaries.resize(5);
  plan.boundaries[1].materialised = false;
  plan.boundaries[2].device_micro_batches = 4;
  plan.boundaries[3] = {.materialised = true, .device_micro_batches = 1, .disk_micro_batches = 2};
  plan.layers.resize(4);
  plan.layers[2] = {.stash = StashLevel::mlp, .stash_device_micro_batches = 4};
  plan.layers[3] = {.stash = StashLevel::all};
  return plan;
}

TEST(LayerHomes, AreThePlans) {
  const std::vector<LayerHomes> homes = layer_homes(four_layers(), TierModel::tiered);
  ASSERT_EQ(homes.size(), 4U);
  EXPECT_EQ(homes[0].boundary, (Shares{.host = 4}));
  EXPECT_FALSE(homes[1].boundary_kept);
  EXPECT_EQ(homes[1].boundary.sum(), 0);
  EXPECT_EQ(homes[3].boundary, (Shares{.device = 1, .host = 1, .disk = 2}));
  EXPECT_EQ(homes[2].stash_shares, (Shares{.device = 4}));
  EXPECT_EQ(homes[3].stash_shares, (Shares{.host = 4}));
}

TEST(LayerHomes, GroupsFollowTheEmbedding) {
  Plan plan = four_layers();
  plan.groups.resize(6);
  plan.groups[1] = {.states_on_disk = true, .gradient_on_disk = true};
  plan.groups[4] = {.on_device = true};
  const std::vector<LayerHomes> homes = layer_homes(plan, TierModel::tiered);
  EXPECT_EQ(homes[0].states, Tier::disk);
  EXPECT_EQ(homes[0].gradient, Tier::disk);
  EXPECT_EQ(homes[0].weights, Tier::host);
  EXPECT_EQ(homes[3].weights, Tier::device);
  EXPECT_EQ(layer_homes(plan, TierModel::unified)[0].weights, Tier::device);
}

TEST(LayerStrip, ShowsOneColumnALayer) {
  EXPECT_EQ(layer_strip(four_layers(), TierModel::tiered),
            "layers (one column a layer; H host; . none; D device; + several tiers; m mlp; A all)\n"
            "  boundary kept on  H.D+\n"
            "  stash             ..mA\n"
            "  stash kept on     ..DH\n"
            "  weights           host\n"
            "  gradients         host\n"
            "  optimizer states  host\n");
}

TEST(LayerStrip, SaysWhatASweepKeeps) {
  Plan plan = four_layers();
  plan.layers[0] = {.stash = StashLevel::all, .stash_device_micro_batches = 4};
  const std::string text = layer_strip(plan, TierModel::tiered);
  EXPECT_NE(text.find("  stash             A.mA\n  stash kept on     S.DH\n"), std::string::npos) << text;
  EXPECT_NE(text.find("; S device, from the sweep on"), std::string::npos) << text;
}

TEST(LayerStrip, SaysWhatIsAlikeInWords) {
  Plan plan;
  plan.boundaries.resize(3);
  plan.layers.resize(2);
  EXPECT_EQ(layer_strip(plan, TierModel::unified),
            "layers (all alike)\n"
            "  boundary kept on  memory\n"
            "  stash             none\n"
            "  weights           memory\n"
            "  gradients         memory\n"
            "  optimizer states  memory\n");
}

TEST(LayerStrip, FitsATerminalWithAnyNumberOfLayers) {
  Plan plan;
  plan.boundaries.resize(1001);
  plan.layers.resize(1000);
  for (std::size_t l = 1; l < 1000; l += 3) plan.boundaries[l].materialised = false;
  plan.boundaries[500].disk_micro_batches = 1;
  const std::string text = layer_strip(plan, TierModel::tiered);
  EXPECT_NE(text.find("one column for 11 layers"), std::string::npos) << text;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 120U) << line;
}

}  // namespace
}  // namespace lazytrain
