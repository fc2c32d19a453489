// A model folder from a checkpoint.
#include <fmt/core.h>

#include <cstring>

#include "core/error.h"
#include "training/trainer.h"
#include "training/trainer_state.h"

namespace lazytrain {

void export_checkpoint(const Checkpoint& checkpoint, const ModelFolder& model,
                       const std::filesystem::path& out, const std::string& dtype) {
  const TrainerState state = trainer_state_from_text(checkpoint.text("lazytrain_state.json"),
                                                     checkpoint.path() / "lazytrain_state.json");
  if (state.model_fingerprint != architecture_fingerprint(model))
    fail(ExitCode::model_file, "{}: the checkpoint is of another model than {}", checkpoint.path().string(),
         model.path().string());
  model.export_to(out, dtype, [&](std::size_t group, std::span<float> values) {
    // bf16 runs: the masters come first in the states; fp32 runs: the weights are the masters.
    const char* kind = state.type_bytes == 2 ? "states" : "weights";
    const MappedFile file = checkpoint.map(fmt::format("group-{:03}.{}", group, kind));
    if (file.bytes().size() < values.size_bytes())
      fail(ExitCode::model_file, "{}: group {} is too short for this model", checkpoint.path().string(),
           group);
    std::memcpy(values.data(), file.bytes().data(), values.size_bytes());
  });
}

}  // namespace lazytrain
