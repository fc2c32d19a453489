// Going on from a checkpoint: what it must have, and what of the configuration must be as it was so that the
// samples come in the same order and the held-out ones were never trained on.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "training/checkpoint.h"
#include "training/run_config.h"

namespace lazytrain {

// What a resumed run takes from its checkpoint, whatever the configuration says.
struct ResumePoint {
  std::int64_t step = 0;
  std::int64_t micro_batch = 0;
};
ResumePoint read_resume_point(const Checkpoint& checkpoint);
// The date that the checkpoint's conversations say, where the template says one.
std::optional<std::string> saved_template_date(const Checkpoint& checkpoint);

// Error(model_file) that says why where the checkpoint holds no optimizer states (save_only_model).
void require_states(const Checkpoint& checkpoint);

// Compares the configuration with the one that the checkpoint was written with. Error(usage) naming key, both
// values and the fix where a key differs that decides the order of the data or the held-out samples; else the
// keys of the optimizer and the schedule that differ, as one line "key old -> new, ...", "" where none does.
// The template must be named in both.
std::string compare_with_checkpoint(const Checkpoint& checkpoint, const RunConfig& config);

// The same comparison of two configurations; `where` names the checkpoint.
std::string compare_for_resume(const RunConfig& saved, const RunConfig& now, const std::string& where);

}  // namespace lazytrain
