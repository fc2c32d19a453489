// What an open model folder knows; shared by the files that read it and write it.
#pragma once

#include <filesystem>
#include <string>
#include <unordered_map>
#include <vector>

#include "formats/safetensors.h"
#include "model/model_folder.h"

namespace lazytrain {

inline constexpr const char* kEmbeddingName = "model.embed_tokens.weight";
inline constexpr const char* kHeadName = "lm_head.weight";

struct ModelFolder::Impl {
  struct Place {
    std::size_t group = 0, tensor = 0;
  };

  explicit Impl(const std::filesystem::path& folder);

  std::filesystem::path path;
  Architecture architecture;
  std::vector<ParameterGroup> groups;
  Safetensors tensors;
  // Where a stored tensor's values stand; a stored copy of a tied head points at the embedding.
  std::unordered_map<std::string, Place> places;
};

}  // namespace lazytrain
