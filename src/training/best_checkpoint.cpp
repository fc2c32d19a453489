#include "training/best_checkpoint.h"

#include <fmt/core.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "training/checkpoint.h"
#include "training/trainer.h"
#include "training/trainer_state.h"

namespace lazytrain {

std::filesystem::path checkpoint_path(const std::filesystem::path& output_dir, std::int64_t step) {
  return output_dir / fmt::format("checkpoint-{}", step);
}

bool has_checkpoint(const std::filesystem::path& output_dir, std::int64_t step) {
  return std::ranges::any_of(list_checkpoints(output_dir), [&](const CheckpointInfo& info) {
    return info.step == step && info.fault.empty();
  });
}

void export_saved_model(const std::filesystem::path& path, const ModelFolder& model,
                        const std::filesystem::path& out) {
  const Checkpoint checkpoint(path);
  if (checkpoint.has("group-000.states")) return export_checkpoint(checkpoint, model, out, "");
  const ModelFolder saved(path);
  if (architecture_fingerprint(saved) != architecture_fingerprint(model))
    fail(ExitCode::model_file, "{}: the checkpoint is of another model than {}", path.string(),
         model.path().string());
  model.export_to(out, "", [&](std::size_t group, std::int64_t first, std::span<float> values) {
    const std::vector<ParameterTensor>& tensors = saved.groups()[group].tensors;
    // The tensor that holds `first`: they lie in ascending order.
    const auto next = std::ranges::upper_bound(tensors, first, {}, &ParameterTensor::offset);
    check(next != tensors.begin(), "values of a tensor");
    const auto tensor = std::prev(next);
    saved.read_tensor(group, static_cast<std::size_t>(tensor - tensors.begin()), first - tensor->offset,
                      values);
  });
}

}  // namespace lazytrain
