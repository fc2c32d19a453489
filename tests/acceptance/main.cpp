// acceptance CHECK MODEL_FOLDER [ARGUMENT]: runs one check on the imported demo model; exit code 0 where
// every bar held.
//   real-model FOLDER fp32|bf16    against the recorded PyTorch run
//   plan-invariance FOLDER STEPS   the same bits under many plans
//   step-memory FOLDER             resident memory and allocations
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "acceptance/acceptance.h"

int main(int count, char** values) {
  using namespace lazytrain;
  const std::vector<std::string> arguments(values + 1, values + count);
  try {
    if (arguments.size() == 3 && arguments[0] == "real-model")
      return test::real_model(arguments[1], arguments[2] == "bf16" ? DataType::bf16 : DataType::f32) ? 0 : 1;
    if (arguments.size() == 3 && arguments[0] == "plan-invariance")
      return test::plan_invariance(arguments[1], std::stoll(arguments[2])) ? 0 : 1;
    if (arguments.size() == 2 && arguments[0] == "step-memory")
      return test::step_memory(arguments[1]) ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "acceptance: %s\n", error.what());
    return 1;
  }
  std::fprintf(stderr, "usage: acceptance real-model|plan-invariance|step-memory MODEL_FOLDER [ARGUMENT]\n");
  return 2;
}
