// Checks on the real model, too long for the test suite: tools/show runs them and turns what they print into
// a verdict. Each returns whether every bar held.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "runtime/harness.h"

namespace lazytrain::test {

// Figures against bars: prints a line for each and remembers whether all held.
class Bars {
 public:
  void at_most(const std::string& what, double value, double bar);
  void holds(const std::string& what, bool held);
  [[nodiscard]] bool all_held() const { return all_held_; }

 private:
  bool all_held_ = true;
};

struct Document {
  std::vector<std::int32_t> ids;
  std::int64_t supervised_from = 0;
};
// One step's documents, whole, longest first into the fullest slot that has room; padding behind them.
// Throws std::runtime_error where they do not fit.
Tokens pack(const std::vector<Document>& documents, std::int64_t slots, std::int64_t slot_tokens);

// The recorded runs of SmolLM2-135M-Instruct under tests/data/goldens/smollm2-135m.
struct Recording {
  struct Step {
    double loss, norm, lr;
    std::int64_t supervised;
  };
  struct Tensor {
    std::string name;
    std::vector<double> first;
    double sum, l2;
  };
  std::vector<std::vector<Document>> documents;  // by step
  std::vector<Step> steps;
  std::vector<Tensor> final_tensors;
  double eval_before = 0, eval_after = 0;
  std::vector<Document> eval_documents;
  std::vector<std::int32_t> paragraph;
  std::vector<double> paragraph_nll;  // of ids[1], ids[2], ...
};
Recording read_recording();

bool real_model(const std::filesystem::path& model, DataType type);
bool plan_invariance(const std::filesystem::path& model, std::int64_t steps);
bool step_memory(const std::filesystem::path& model);

}  // namespace lazytrain::test
