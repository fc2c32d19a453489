// The page and the trace hold every op once, at its time, and nothing that a reader of HTML could take for
// anything else.
#include "report/plan_page.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "planning/planning_support.h"

namespace lazytrain {
namespace {

using nlohmann::json;

PlannedStep planned(TierModel tiers = TierModel::tiered) {
  return plan_step(small_inputs(6, {.slots = 4, .slot_tokens = 8, .micro_batch = 1}, tiers), "auto");
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// Times of the ops as the page's script reads them.
std::vector<OpTime> times_in(const json& data, const json& run) {
  std::map<int, std::int64_t> before;
  std::vector<OpTime> times;
  for (std::size_t i = 0; i < run.at("gap").size(); ++i) {
    std::int64_t& end = before[data.at("ops").at("stream").at(i).get<int>()];
    const std::int64_t from = end + run.at("gap").at(i).get<std::int64_t>();
    end = from + run.at("length").at(i).get<std::int64_t>();
    const auto tick = data.at("tick_s").get<double>();
    times.push_back({static_cast<double>(from) * tick, static_cast<double>(end) * tick});
  }
  return times;
}

TEST(PageData, HoldsEveryOpOnce) {
  for (const TierModel tiers : {TierModel::tiered, TierModel::unified}) {
    const PlannedStep step = planned(tiers);
    const CostTable costs;
    std::vector<OpTime> measured = op_times(step.simulation);
    for (OpTime& time : measured) time = {time.start * 1.5, time.end * 1.5};
    const json data = json::parse(page_data(
        {.step = step, .costs = costs, .model = "small", .measured = measured, .measured_step = 7}));
    const json& ops = data.at("ops");
    const double tick = data.at("tick_s");
    EXPECT_LE(tick, std::max(1e-9, 1e-8 * step.simulation.step * 1.5));
    for (const char* column : {"kind", "stream", "layer", "micro_batch", "piece", "slice", "bytes", "after"})
      ASSERT_EQ(ops.at(column).size(), step.program.ops.size()) << column;
    for (const bool simulated : {true, false}) {
      const std::vector<OpTime> shown = times_in(data, data.at(simulated ? "simulated" : "measured"));
      const std::vector<OpTime> truth = simulated ? op_times(step.simulation) : measured;
      ASSERT_EQ(shown.size(), truth.size());
      for (std::size_t i = 0; i < truth.size(); ++i) {
        EXPECT_NEAR(shown[i].start, truth[i].start, tick);
        EXPECT_NEAR(shown[i].end, truth[i].end, tick);
      }
    }
    EXPECT_EQ(data.at("measured").at("number"), 7);
    for (std::size_t i = 0; i < step.program.ops.size(); ++i) {
      const Op& op = step.program.ops[i];
      EXPECT_EQ(data.at("kinds").at(ops.at("kind").at(i).get<std::size_t>()), to_string(op.kind));
      EXPECT_EQ(data.at("streams").at(ops.at("stream").at(i).get<std::size_t>()), to_string(op.stream));
      EXPECT_EQ(ops.at("sizes").at(ops.at("bytes").at(i).get<std::size_t>()), op.bytes.value);
    }
  }
}

TEST(PageData, MemoryEndsAtTheArena) {
  const PlannedStep step = planned();
  const json data = json::parse(page_data({.step = step, .costs = {}, .model = ""}));
  ASSERT_EQ(data.at("memory").size(), 2U);
  for (const json& tier : data.at("memory")) {
    std::int64_t now = 0, peak = 0;
    for (const json& change : tier.at("bytes")) peak = std::max(peak, now += change.get<std::int64_t>());
    EXPECT_LE(peak, tier.at("arena").get<std::int64_t>());
    EXPECT_GT(peak, tier.at("arena").get<std::int64_t>() / 2);
  }
  EXPECT_EQ(data.at("memory").at(0).at("arena"), step.program.device_bytes.value);
  EXPECT_EQ(data.at("memory").at(1).at("arena"), step.program.host_bytes.value);
}

TEST(PlanPage, NamesAreText) {
  PlannedStep step = planned();
  const std::string name = "</script><b>&\"'\xE2\x80\xA8\xFF {\"@data@\":0}";
  step.table[0].why_not = name;
  step.machine.name = name;
  const std::string page = plan_page({.step = step, .costs = {}, .model = name});
  EXPECT_EQ(occurrences(page, "</script"), 2U);  // of the page's own two elements
  EXPECT_EQ(occurrences(page, "<script"), 2U);
  EXPECT_EQ(occurrences(page, "<b>"), 0U);
  const std::size_t begin = page.find("id=\"data\">") + std::string("id=\"data\">").size();
  const json data = json::parse(page.substr(begin, page.find("</script", begin) - begin));
  EXPECT_EQ(data.at("model"), "</script><b>&\"'\xE2\x80\xA8\xEF\xBF\xBD {\"@data@\":0}");
  EXPECT_EQ(data.at("policies").at(0).at("why_not"), data.at("model"));
}

TEST(PlanPage, LoadsNothing) {
  const std::string page = plan_page({.step = planned(), .costs = {}, .model = "small"});
  for (const char* loader : {"src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest", "import("})
    EXPECT_EQ(page.find(loader), std::string::npos) << loader;
  EXPECT_EQ(page.find("/*@"), std::string::npos);
}

TEST(PlanPage, IsSmallForALargeStep) {
  PlanningInputs inputs = small_inputs(64, {.slots = 20, .slot_tokens = 8, .micro_batch = 1});
  inputs.every_k = 4;
  const PlannedStep step = plan_step(inputs, "every-k");
  ASSERT_GT(step.program.ops.size(), 4000U);
  const std::vector<OpTime> measured = op_times(step.simulation);
  EXPECT_LT(plan_page({.step = step, .costs = {}, .model = "large", .measured = measured}).size(),
            2'000'000U);
}

TEST(StepTrace, HoldsEveryOpOnceAndTheMemory) {
  const PlannedStep step = planned();
  const std::vector<OpTime> measured = op_times(step.simulation);
  const json trace = json::parse(
      step_trace({.step = step, .costs = {}, .model = "small", .measured = measured, .measured_step = 3}));
  std::map<int, std::vector<const json*>> ops;  // by process
  std::map<std::string, double> most;
  std::set<std::string> threads;
  for (const json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    if (phase == "X") ops[event.at("pid")].push_back(&event);
    if (phase == "M" && event.at("name") == "thread_name") threads.insert(event.at("args").at("name"));
    if (phase == "C")
      most[event.at("name")] = std::max(most[event.at("name")], event.at("args").at("bytes").get<double>());
  }
  ASSERT_EQ(ops.size(), 2U);
  EXPECT_TRUE(threads.contains("compute") && threads.contains("h2d") && threads.contains("host"));
  for (const auto& [process, events] : ops) {
    ASSERT_EQ(events.size(), step.program.ops.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      const json& event = *events[i];
      EXPECT_EQ(event.at("args").at("op"), i);
      EXPECT_EQ(event.at("name"), describe(step.program.ops[i]));
      EXPECT_NEAR(event.at("ts").get<double>(), 1e6 * step.simulation.ops[i].start, 1e-3);
      EXPECT_NEAR(event.at("dur").get<double>(),
                  1e6 * (step.simulation.ops[i].end - step.simulation.ops[i].start), 1e-3);
    }
  }
  for (const Tier tier : used_tiers(step.program)) {
    Bytes peak;
    for (const MemoryPoint& point : memory_curve(step.program, tier)) peak = std::max(peak, point.bytes);
    EXPECT_EQ(most.at(std::string(to_string(tier)) + " bytes"), static_cast<double>(peak.value));
  }
}

}  // namespace
}  // namespace lazytrain
