// A model folder from a checkpoint.
#include <fmt/core.h>

#include <optional>
#include <vector>

#include "core/error.h"
#include "runtime/group_states.h"
#include "training/trainer.h"
#include "training/trainer_state.h"

namespace lazytrain {

void export_checkpoint(const Checkpoint& checkpoint, const ModelFolder& model,
                       const std::filesystem::path& out, const std::string& dtype,
                       const std::function<void()>& before_group) {
  const TrainerState state = trainer_state_from_text(checkpoint.text("lazytrain_state.json"),
                                                     checkpoint.path() / "lazytrain_state.json");
  if (state.model_fingerprint != architecture_fingerprint(model))
    fail(ExitCode::model_file, "{}: the checkpoint is of another model than {}", checkpoint.path().string(),
         model.path().string());
  const DataType type = state.type_bytes == 2 ? DataType::bf16 : DataType::f32;
  const std::vector<GroupStateLayout> layouts = state_layouts(model.groups(), type, state.moments);
  // The files of the group that is being written.
  struct Open {
    std::size_t group;
    MappedFile weights, states;
  };
  std::optional<Open> open;
  model.export_to(out, dtype, [&](std::size_t group, std::int64_t first, std::span<float> values) {
    if (!open || open->group != group) {
      if (before_group) before_group();
      open.emplace(Open{.group = group,
                        .weights = checkpoint.map(fmt::format("group-{:03}.weights", group)),
                        .states = checkpoint.map(fmt::format("group-{:03}.states", group))});
      if (std::ssize(open->weights.bytes()) < model.groups()[group].elements * state.type_bytes ||
          std::ssize(open->states.bytes()) != layouts[group].bytes.value)
        fail(ExitCode::model_file, "{}: group {} has not the size that this model needs",
             checkpoint.path().string(), group);
    }
    read_masters(layouts[group], open->weights.bytes(), open->states.bytes(), first, values);
  });
}

}  // namespace lazytrain
