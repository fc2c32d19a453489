// A whole step of real training on the CPU (unified memory, bf16, a 135M-parameter model, 512-token slots,
// all tokens supervised) against the processor's own matrix products at the same shapes, in the same minute.
//
//   step_bench [--quick]      --quick: 6 layers, two slots, two steps
//
// Wall-clock figures: they mean something on a quiet machine only, so the load is printed with them.
#include <time.h>

#include <chrono>
#include <exception>
#include <memory>

#include "core/threads.h"
#include "model_run.h"
#include "onednn_product.h"

namespace lazytrain::bench {
namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double wall_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// The matrix products of one step at their shapes, each as one call of oneDNN.
class StepProducts {
 public:
  StepProducts(const Architecture& a, const BatchGeometry& batch, int threads) {
    const std::int64_t rows = batch.micro_batch * batch.slot_tokens;
    const std::int64_t head_rows = std::min<std::int64_t>(batch.slot_tokens, 256);
    const auto add = [&](std::int64_t product_rows, std::int64_t in, std::int64_t out, double calls) {
      for (const Product product : {Product::forward, Product::input_gradient, Product::weight_gradient}) {
        const ProductShape shape{product, DataType::bf16, product_rows, in, out};
        const auto bytes = [](std::int64_t elements, std::int64_t size) {
          return std::vector<std::byte>(static_cast<std::size_t>(elements * size));
        };
        auto buffers =
            std::make_unique<Buffers>(Buffers{bytes(product_rows * in, 2), bytes(product_rows * out, 2),
                                              bytes(in * out, 2), bytes(in * out, 4)});
        auto call = std::make_unique<OneDnnProduct>(shape, threads, buffers->x.data(), buffers->y.data(),
                                                    buffers->weight.data(),
                                                    reinterpret_cast<float*>(buffers->dweight.data()));
        products_.push_back({shape, calls, std::move(buffers), std::move(call)});
      }
    };
    const double layer_calls = static_cast<double>(a.layers) *
                               static_cast<double>(batch.slots * batch.slot_tokens) /
                               static_cast<double>(rows);
    add(rows, a.hidden, a.qkv_width(), layer_calls);
    add(rows, a.query_width(), a.hidden, layer_calls);
    add(rows, a.hidden, 2 * a.ffn, layer_calls);
    add(rows, a.ffn, a.hidden, layer_calls);
    add(head_rows, a.hidden, a.vocab,
        static_cast<double>(batch.slots * batch.slot_tokens) / static_cast<double>(head_rows));
  }

  // GFLOP/s of all of them together, each at its best of some calls.
  double rate() {
    double flops = 0, seconds = 0;
    for (Entry& entry : products_) {
      double best = 1e30;
      for (int i = 0; i < 5; ++i) {
        const double begin = wall_seconds();
        entry.call->run();
        best = std::min(best, wall_seconds() - begin);
      }
      flops += entry.calls * entry.shape.flops();
      seconds += entry.calls * best;
    }
    return flops / seconds / 1e9;
  }

 private:
  struct Buffers {
    std::vector<std::byte> x, y, weight, dweight;
  };
  struct Entry {
    ProductShape shape;
    double calls;
    std::unique_ptr<Buffers> buffers;
    std::unique_ptr<OneDnnProduct> call;
  };
  std::vector<Entry> products_;
};

int cpu_speed(int repeats, std::int64_t layers, std::int64_t slots) {
  const Architecture architecture = llama_135m(layers, 49152);
  const int threads = available_cores();
  const CpuDeviceOptions device{.compute_threads = threads, .host_threads = threads};
  const SessionOptions options = session_options(device, kSlotTokens);
  const CostTable costs =
      measure_costs(architecture, {.device = device, .slot_tokens = kSlotTokens, .quick = true});
  const Machine machine = machine_of(device);
  const BatchGeometry batch{.slots = slots, .slot_tokens = kSlotTokens, .micro_batch = 0};
  const PlannedStep planned =
      plan_step(planning_inputs(architecture, options, machine, costs, batch), "auto");
  const auto parameters = static_cast<double>(parameter_count(architecture));
  const auto tokens = static_cast<double>(slots * kSlotTokens);
  fmt::print(
      "{}; {:.1f} M parameters, bf16, {} slots of {} tokens, all supervised; plan {}, micro-batch {}\n",
      costs.machine, parameters / 1e6, slots, kSlotTokens, planned.plan.policy,
      planned.plan.batch.micro_batch);
  StepProducts products(architecture, planned.plan.batch, threads);
  Run run(architecture, options, planned.program);
  for (int i = 0; i < 2; ++i) run.step();
  products.rate();
  fmt::print("{:>10} {:>8} {:>16} {:>16} {:>8} {:>12}\n", "step", "tok/s", "6 N, GFLOP/s", "GEMM, GFLOP/s",
             "part", "cores busy");
  std::vector<double> parts;
  std::vector<OpTiming> timings;
  for (int r = 0; r < repeats; ++r) {
    const double before = products.rate();
    const double processor = processor_seconds();
    StepOutcome outcome = run.step(true);
    const double cores = (processor_seconds() - processor) / outcome.seconds;
    const double rate = 0.5 * (before + products.rate());
    const double achieved = 6 * parameters * tokens / outcome.seconds / 1e9;
    parts.push_back(achieved / rate);
    timings = std::move(outcome.timings);
    fmt::print("{:>8.3f} s {:>8.1f} {:>16.1f} {:>16.1f} {:>7.1f}% {:>12.2f}\n", outcome.seconds,
               tokens / outcome.seconds, achieved, rate, 100 * parts.back(), cores);
    std::fflush(stdout);
  }
  print_ops(planned, timings, {.costs = costs, .machine = machine});
  fmt::print("simulated step {:.3f} s; load average {:.1f}\n", planned.simulation.step, load_average());
  const double part = median(parts);
  fmt::print("{}: a whole step runs at {:.1f} % of the GEMM rate (bar: at least 40 %)\n",
             part >= 0.4 ? "holds" : "does NOT hold", 100 * part);
  return part >= 0.4 ? 0 : 1;
}

}  // namespace
}  // namespace lazytrain::bench

int main(int argc, char** argv) {
  using namespace lazytrain::bench;
  const bool quick = argc > 1 && std::string(argv[1]) == "--quick";
  if (argc > (quick ? 2 : 1)) {
    fmt::print(stderr, "usage: step_bench [--quick]\n");
    return 2;
  }
  try {
    return quick ? cpu_speed(2, 6, 2) : cpu_speed(5, 30, 4);
  } catch (const std::exception& error) {
    fmt::print(stderr, "step_bench: {}\n", error.what());
    return 1;
  }
}
