// Which moments the optimizer keeps in 8 bits: the keys optim, optim_embeddings and optim_hybrid_fraction.
#pragma once

#include <string>

#include "model/architecture.h"
#include "optim/group_state.h"
#include "training/run_config.h"

namespace lazytrain {

// optim_embeddings: auto is fp32 where the head is tied (most rows of the embedding have a gradient of their
// own only now and then, and a tied one is the head as well) or where embedding and head are below 5 % of
// the parameters, else 8 bits.
[[nodiscard]] MomentOptions moment_options(const RunConfig& config, const Architecture& architecture);

// "adamw_8bit, embeddings fp32": the form in which a checkpoint says what its states are, and back.
// Error(model_file) naming `where`.
[[nodiscard]] std::string to_string(const MomentOptions& options);
[[nodiscard]] MomentOptions moment_options_from(const std::string& text, const std::string& where);

}  // namespace lazytrain
