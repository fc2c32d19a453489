// The forward of a whole model through the layers' own calls, without a Program: what golden hidden states
// and logits are compared with. Everything is kept; meant for tiny models.
#pragma once

#include <vector>

#include "runtime/harness.h"

namespace lazytrain::test {

struct LayerForward {
  std::vector<std::vector<float>> hidden;  // boundaries 0..L, [rows, hidden]
  std::vector<float> final_norm;           // [rows, hidden]
  std::vector<float> logits;               // [rows, vocab]
};

// Parameters from `folder`, slots and documents as `tokens` has them.
LayerForward layer_forward(const ModelFolder& folder, DataType type, const Tokens& tokens);

}  // namespace lazytrain::test
