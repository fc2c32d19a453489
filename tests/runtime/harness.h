// Runs a model on given tokens under a given plan, for tests: everything that the trainer does around a step
// and no more.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "program/lowering.h"
#include "runtime/session.h"

namespace lazytrain::test {

struct Tokens {
  std::int64_t slots = 0, slot_tokens = 0;
  std::vector<std::int32_t> tokens, positions, document_start, targets;
  [[nodiscard]] StepTokens view() const {
    return {.slots = slots,
            .slot_tokens = slot_tokens,
            .tokens = tokens,
            .positions = positions,
            .document_start = document_start,
            .targets = targets};
  }
};

// `slots` slots of random documents over a vocabulary.
Tokens random_tokens(std::int64_t slots, std::int64_t slot_tokens, std::int64_t vocab, std::uint64_t seed);

// The model of the tests that are about plans: `layers` layers of hidden size 64, grouped-query attention.
Architecture tiny_architecture(bool tied_head, std::int64_t layers = 5);

// The same with what Qwen3 has beside it: query and key norms, heads whose width is their own, yarn, and
// windows of 11 tokens in three of every five layers.
Architecture wide_architecture(bool tied_head, std::int64_t layers = 5);

// Every boundary kept on the device, the given stash level everywhere.
Plan simple_plan(const Architecture& architecture, const BatchGeometry& batch,
                 StashLevel level = StashLevel::none);

// Random values of a parameter group: norm weights near 1, everything else near 0.
std::vector<float> random_group(const ParameterGroup& group, std::uint64_t seed);
// A machine with exactly the memory that a Program asks for.
Machine machine_for(const Program& program);

class Harness {
 public:
  // Programs are lowered for `plan`; the model comes from `folder` (or random values with this seed where
  // null).
  Harness(const Architecture& architecture, const ModelFolder* folder, const SessionOptions& options,
          const Plan& plan, std::uint64_t seed = 1);

  StepOutcome step(const Tokens& tokens, const AdamWStep& update) {
    return session_->executor().train(train_, tokens.view(), update);
  }
  StepOutcome evaluate(const Tokens& tokens) {
    return session_->executor().evaluate(evaluate_, tokens.view(), true);
  }
  void drain() { session_->executor().drain(update_); }

  [[nodiscard]] std::map<std::string, std::vector<float>> gradients() const;  // by tensor name
  [[nodiscard]] std::map<std::string, std::vector<float>> masters() const;
  [[nodiscard]] std::uint64_t weight_checksum() const;  // of all masters
  [[nodiscard]] const Program& train_program() const { return train_; }
  [[nodiscard]] Session& session() { return *session_; }

 private:
  std::unique_ptr<Session> session_;
  Program train_, evaluate_, update_;
};

// Golden tensors of a folder, converted.
std::vector<float> golden_floats(const std::filesystem::path& file, const std::string& name);
std::vector<std::int64_t> golden_integers(const std::filesystem::path& file, const std::string& name);
std::filesystem::path goldens();  // tests/data/goldens
// The tokens of variant "a" or "b" of a golden file.
Tokens golden_tokens(const std::filesystem::path& file, const std::string& variant);

// Largest |a - b| over the largest |b|.
double relative_error(const std::vector<float>& a, const std::vector<float>& b);

}  // namespace lazytrain::test
