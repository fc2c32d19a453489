// The small state of a run that a checkpoint holds beside the parameters: where it stands, and what it must
// go on with.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "data/packing.h"
#include "model/model_folder.h"
#include "optim/group_state.h"

namespace lazytrain {

struct TrainerState {
  static constexpr int kVersion = 3;
  std::int64_t step = 0;     // optimizer steps finished
  std::int64_t updates = 0;  // of these, with an update (finite)
  std::int64_t tokens = 0;   // real tokens seen
  BatchCursor cursor;        // next slot of the data
  std::int64_t micro_batch = 1;
  std::int64_t type_bytes = 2;
  MomentOptions moments;                // what the states are
  std::uint64_t model_fingerprint = 0;  // names, shapes, and what config.json says of their meaning
  std::uint64_t data_fingerprint = 0;   // tokenised training data
};

std::string to_text(const TrainerState& state);
// Error(model_file) naming `where` and the key that is missing or wrong.
TrainerState trainer_state_from_text(const std::string& text, const std::filesystem::path& where);

// Error(model_file) in one sentence where a checkpoint cannot continue this run.
void require_same_run(const TrainerState& saved, const TrainerState& current,
                      const std::filesystem::path& checkpoint);

std::uint64_t architecture_fingerprint(const ModelFolder& model);

}  // namespace lazytrain
