// The checkpoint of the best evaluation (load_best_model_at_end): whether it is there, and a model folder
// from it.
#pragma once

#include <cstdint>
#include <filesystem>

#include "model/model_folder.h"

namespace lazytrain {

[[nodiscard]] std::filesystem::path checkpoint_path(const std::filesystem::path& output_dir,
                                                    std::int64_t step);

// Whether a checkpoint of that step looks complete: by names and sizes, contents are not read.
[[nodiscard]] bool has_checkpoint(const std::filesystem::path& output_dir, std::int64_t step);

// The model of a checkpoint of either kind, with optimizer states or without (save_only_model), in the shape
// of `model`. Error(model_file) where the checkpoint is damaged or of another model.
void export_saved_model(const std::filesystem::path& checkpoint, const ModelFolder& model,
                        const std::filesystem::path& out);

}  // namespace lazytrain
