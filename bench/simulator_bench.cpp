// The simulator against the clock: steps of a small model on the emulated machine with split cores (one core
// computes, the other copies, updates and does the rest) over policies, link rates and batches.
//
//   simulator_bench calibrate FILE      costs on that machine, measured on their own
//   simulator_bench [FILE] [--ops]      simulated and measured steps with the costs of FILE, or of
//                                       calibration runs between the repeats; --ops adds what each kind of
//                                       operation took
//   simulator_bench prediction [FILE]   more of them, on machines on which several policies are compared
//   simulator_bench --quick ...         one repeat of each point, quick costs
//
// Wall-clock figures: they mean something on a quiet machine only, so the load is printed with them.
#include <cmath>
#include <exception>
#include <memory>

#include "model_run.h"

namespace lazytrain::bench {
namespace {

constexpr std::int64_t kLayers = 6, kVocab = 8192, kTokens = 256;

CpuDeviceOptions split_device(const LinkRates& links, Bytes capacity) {
  return {.memory_model = MemoryModel::emulated,
          .compute_threads = 1,
          .host_threads = 1,
          .split_cores = true,
          .device_capacity = capacity,
          .links = links};
}

CostTable measure(const Architecture& architecture, bool quick) {
  return measure_costs(architecture,
                       {.device = split_device({}, {1}), .slot_tokens = kTokens, .quick = quick});
}

int calibrate(const std::string& file, bool quick) {
  const Architecture architecture = llama_135m(kLayers, kVocab);
  const CostTable costs = measure(architecture, quick);
  write_cost_table(file, costs);
  fmt::print("{}load average {:.1f}; written to {}\n", costs_table(costs, architecture), load_average(),
             file);
  return 0;
}

struct Point {
  const char* policy;
  LinkRates links;
  std::int64_t slots, micro_batch;  // 0: the planner's choice
  double optimizer_rate = 0;        // parameters per second, 0 = as fast as it goes
  Bytes capacity{400'000'000};
  double disk = 0;  // GB/s each way of a disk that states live on; 0: nothing is on disk
};

// Points on one machine with one batch, which policies can be ranked by.
std::vector<Point> same_machine(const Point& machine, const std::vector<const char*>& policies) {
  std::vector<Point> points;
  for (const char* policy : policies) {
    points.push_back(machine);
    points.back().policy = policy;
  }
  return points;
}

std::vector<std::vector<Point>> prediction_points() {
  return {same_machine({"", {.h2d = 2, .d2h = 2}, 4, 1},
                       {"keep-all", "every-k", "offload-all", "megatrain", "paper", "zero3-offload", "auto"}),
          same_machine({"", {.h2d = 0.3, .d2h = 0.3, .duplex = 0.4}, 4, 1},
                       {"keep-all", "every-k", "offload-all", "megatrain", "paper", "auto"}),
          same_machine({"", {.h2d = 0.15, .d2h = 0.15}, 2, 1},
                       {"keep-all", "every-k", "offload-all", "megatrain", "auto"}),
          same_machine({"", {.h2d = 1, .d2h = 1}, 4, 0, 25e6, {130'000'000}},
                       {"every-k", "offload-all", "greedy", "auto"}),
          same_machine({"", {.h2d = 1, .d2h = 1}, 8, 2}, {"keep-all", "offload-all", "auto"}),
          same_machine({"", {.h2d = 1, .d2h = 1}, 4, 2, 0, {400'000'000}, 0.5},
                       {"keep-all", "every-k", "offload-all", "auto"}),
          same_machine({"", {.h2d = 0.5, .d2h = 0.5}, 2, 1, 0, {400'000'000}, 0.2},
                       {"keep-all", "every-k", "auto"})};
}

struct Outcome {
  Seconds simulated = 0, measured = 0;
  bool exposed = false;  // 15 % of the step and more, simulated and measured
  [[nodiscard]] double error() const { return (simulated - measured) / measured; }
};

void print_heading() {
  fmt::print("{}\n", processor_name());
  fmt::print(
      "model: {} layers of SmolLM2-135M's sizes, vocabulary of {}, slots of {} tokens, bf16; emulated "
      "device, one core computes, one "
      "does the rest\n",
      kLayers, kVocab, kTokens);
  fmt::print("{:<13} {:>16} {:>9} {:>5} {:>5} {:>2} {:>4} | {:>9} {:>7} | {:>8} {:>17} {:>7} | {:>6}\n",
             "policy", "GB/s up/down/cap", "opt, M/s", "disk", "slots", "mb", "hide", "simulated", "exposed",
             "measured", "range", "exposed", "error");
}

// The rates of the points are those of a machine whose core computes a layer's forward of a slot in this
// time; on others they change with it, so that a step waits for the same part of it everywhere.
Point paced(Point point, const CostTable& costs) {
  constexpr Seconds kForward = 0.006;
  const double pace = kForward / costs.layers.front().forward;
  for (double* rate :
       {&point.links.h2d, &point.links.d2h, &point.links.duplex, &point.optimizer_rate, &point.disk})
    *rate *= pace;
  return point;
}

// A point with its plan, ready to run.
struct Prepared {
  Prepared(const Point& at, const Architecture& architecture, const CostTable& costs)
      : point(paced(at, costs)), machine(machine_of(split_device(point.links, point.capacity))) {
    SessionOptions options = session_options(split_device(point.links, point.capacity), kTokens);
    options.optimizer_rate = machine.optimizer_rate = point.optimizer_rate;
    if (point.disk > 0) {
      machine.disk_capacity = Bytes{std::int64_t{8} << 30};
      machine.disk_read = machine.disk_write = options.disk_read = options.disk_write = point.disk;
      options.scratch_folder = ".";
    }
    PlanningInputs inputs =
        planning_inputs(architecture, options, machine, costs,
                        {.slots = point.slots, .slot_tokens = kTokens, .micro_batch = point.micro_batch});
    if (point.disk > 0) inputs.states_home = StatesHome::disk;
    planned = plan_step(inputs, point.policy);
    options.homes = planned.plan.groups;
    run = std::make_unique<Run>(architecture, options, planned.program);
  }
  void warm_up() const {
    run->step();
    if (planned.plan.optimizer_overlap) run->step();  // the first one has no updates to hide
  }
  void measure() {
    StepOutcome outcome = run->step(true);
    seconds.push_back(outcome.seconds);
    exposed.push_back(1 - busy(planned.program, outcome.timings, StreamId::compute) / outcome.seconds);
    timings = std::move(outcome.timings);
  }

  Point point;
  Machine machine;
  PlannedStep planned;
  std::unique_ptr<Run> run;
  std::vector<Seconds> seconds;
  std::vector<double> exposed;  // parts of the steps
  std::vector<OpTiming> timings;
};

// The step is simulated with each of the tables; the median counts, as of the measured steps.
Outcome outcome_of(const Prepared& prepared, const std::vector<CostTable>& tables) {
  const auto& [point, machine, planned, run, seconds, exposed, timings] = prepared;
  std::vector<Seconds> simulated;
  std::vector<double> simulated_exposed;
  for (const CostTable& costs : tables) {
    const Simulation simulation = simulate(planned.program, {.costs = costs, .machine = machine});
    simulated.push_back(simulation.step);
    simulated_exposed.push_back(simulation.exposed / simulation.step);
  }
  const Outcome result{.simulated = median(simulated),
                       .measured = median(seconds),
                       .exposed = median(simulated_exposed) >= 0.15 && median(exposed) >= 0.15};
  const auto [fastest, slowest] = std::minmax_element(seconds.begin(), seconds.end());
  fmt::print(
      "{:<13} {:>16} {:>9} {:>5} {:>5} {:>2} {:>4} | {:>7.3f} s {:>6.0f}% | {:>6.3f} s {:>17} {:>6.0f}% | "
      "{:>+5.1f}%\n",
      point.policy, fmt::format("{:.2g}/{:.2g}/{:.2g}", point.links.h2d, point.links.d2h, point.links.duplex),
      point.optimizer_rate > 0 ? fmt::format("{:.1f}", point.optimizer_rate / 1e6) : std::string("-"),
      point.disk > 0 ? fmt::format("{:.2g}", point.disk) : std::string("-"), point.slots,
      planned.plan.batch.micro_batch, planned.plan.optimizer_overlap ? "yes" : "no", result.simulated,
      100 * median(simulated_exposed), result.measured, fmt::format("({:.3f}..{:.3f})", *fastest, *slowest),
      100 * median(exposed), 100 * result.error());
  return result;
}

// Plans and runs the points with the costs of `file`, or of calibration runs: one before the plans and one
// before each further repeat. A computer that others use, too, changes its pace within minutes (by 20 % where
// this was written): points and calibrations take turns, so that all of them see the same of it.
std::vector<Outcome> run_points(const std::vector<Point>& points, const Architecture& architecture,
                                const std::string& file, int repeats, bool verbose) {
  std::vector<CostTable> tables{file.empty() ? measure(architecture, true) : read_cost_table(file)};
  const CostTable costs = tables.front();
  std::vector<std::unique_ptr<Prepared>> all;
  for (const Point& point : points) all.push_back(std::make_unique<Prepared>(point, architecture, costs));
  for (const auto& prepared : all) prepared->warm_up();
  for (int r = 0; r < repeats; ++r) {
    if (r > 0 && file.empty()) tables.push_back(measure(architecture, true));
    for (const auto& prepared : all) prepared->measure();
  }
  std::vector<Outcome> outcomes;
  for (const auto& prepared : all) {
    outcomes.push_back(outcome_of(*prepared, tables));
    if (verbose)
      print_ops(prepared->planned, prepared->timings, {.costs = costs, .machine = prepared->machine});
  }
  std::fflush(stdout);
  return outcomes;
}

// The nearest-rank 95th percentile.
double percentile_95(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(values.size()))) - 1];
}

int prediction_error(const std::string& file, bool quick, bool verbose) {
  const Architecture architecture = llama_135m(kLayers, kVocab);
  print_heading();
  std::vector<double> errors;
  int exposed = 0, ranked = 0, wrong = 0;
  for (const std::vector<Point>& machine : prediction_points()) {
    const std::vector<Outcome> outcomes = run_points(machine, architecture, file, quick ? 1 : 5, verbose);
    for (const Outcome& outcome : outcomes) {
      errors.push_back(std::abs(outcome.error()));
      exposed += outcome.exposed ? 1 : 0;
    }
    for (std::size_t a = 0; a < outcomes.size(); ++a)
      for (std::size_t b = 0; b < a; ++b) {
        const Outcome &one = outcomes[a], &other = outcomes[b];
        if (std::max(one.measured, other.measured) <= 1.08 * std::min(one.measured, other.measured)) continue;
        ++ranked;
        if ((one.measured < other.measured) == (one.simulated < other.simulated)) continue;
        ++wrong;
        fmt::print("  {} and {} change places\n", machine[a].policy, machine[b].policy);
      }
  }
  const double middle = median(errors), tail = percentile_95(errors);
  fmt::print("load average {:.1f}; {} points, {} with 15 % or more of the step exposed\n", load_average(),
             errors.size(), exposed);
  fmt::print("error of the simulated step: median {:.1f} % (bar 5 %), 95th percentile {:.1f} % (bar 12 %)\n",
             100 * middle, 100 * tail);
  fmt::print("{} pairs of policies differ by more than 8 %, {} of them are ranked wrongly (bar 0)\n", ranked,
             wrong);
  const bool holds = middle <= 0.05 && tail <= 0.12 && wrong == 0 && errors.size() >= 30 && exposed >= 8;
  fmt::print("prediction-error: {}\n", holds ? "PASS" : "FAIL");
  return holds ? 0 : 1;
}

int simulator_error(const std::string& file, bool quick, bool verbose) {
  const int repeats = quick ? 1 : 5;
  const Architecture architecture = llama_135m(kLayers, kVocab);
  const std::vector<Point> points{
      {"keep-all", {.h2d = 4, .d2h = 4}, 4, 2},
      {"keep-all", {.h2d = 0.4, .d2h = 0.4}, 4, 1},
      {"keep-all", {.h2d = 0.12, .d2h = 0.12}, 2, 1},
      {"every-k", {.h2d = 2, .d2h = 2}, 4, 2},
      {"every-k", {.h2d = 0.2, .d2h = 0.15}, 2, 1},
      {"offload-all", {.h2d = 2, .d2h = 2}, 4, 1},
      {"offload-all", {.h2d = 0.5, .d2h = 0.5, .duplex = 0.6}, 4, 1},
      {"offload-all", {.h2d = 0.15, .d2h = 0.15}, 2, 1},
      {"megatrain", {.h2d = 1, .d2h = 1}, 4, 2, 40e6},
      {"megatrain", {.h2d = 0.12, .d2h = 0.12}, 2, 1},
      {"paper", {.h2d = 1, .d2h = 1}, 4, 1},
      {"paper", {.h2d = 0.2, .d2h = 0.15}, 2, 1},
      {"auto", {.h2d = 2, .d2h = 2}, 4, 0, 0, {130'000'000}},
      {"auto", {.h2d = 0.3, .d2h = 0.3, .duplex = 0.4}, 4, 0, 25e6, {130'000'000}},
  };
  print_heading();
  std::vector<double> errors;
  int exposed = 0;
  for (const Point& point : points) {
    const Outcome outcome = run_points({point}, architecture, file, repeats, verbose).front();
    errors.push_back(std::abs(outcome.error()));
    exposed += outcome.exposed ? 1 : 0;
  }
  const double middle = median(errors);
  fmt::print(
      "load average {:.1f}; {} points, {} with 15 % or more of the step exposed; largest error {:.1f} %\n",
      load_average(), errors.size(), exposed, 100 * *std::max_element(errors.begin(), errors.end()));
  const bool holds = middle <= 0.08 && exposed >= 4 && errors.size() >= 12;
  fmt::print("{}: median error of the simulated step {:.1f} % (bar: at most 8 %)\n",
             holds ? "holds" : "does NOT hold", 100 * middle);
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace lazytrain::bench

int main(int argc, char** argv) {
  using namespace lazytrain::bench;
  std::vector<std::string> words(argv + 1, argv + argc);
  const auto take = [&](const char* word) { return std::erase(words, word) > 0; };
  const bool quick = take("--quick"), ops = take("--ops");
  try {
    if (words.size() == 2 && words[0] == "calibrate") return calibrate(words[1], quick);
    if (!words.empty() && words[0] == "prediction" && words.size() <= 2)
      return prediction_error(words.size() == 2 ? words[1] : "", quick, ops);
    if (words.size() <= 1) return simulator_error(words.empty() ? "" : words[0], quick, ops);
  } catch (const std::exception& error) {
    fmt::print(stderr, "simulator_bench: {}\n", error.what());
    return 1;
  }
  fmt::print(stderr, "usage: simulator_bench [--quick] [--ops] [calibrate|prediction] [FILE]\n");
  return 2;
}
