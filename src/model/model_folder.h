// A Hugging Face model folder as a source and a sink of parameters: reads groups into flat buffers, writes
// them back under the same names, types and shards, and carries the other files along unchanged.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/units.h"
#include "model/architecture.h"

namespace lazytrain {

class ModelFolder {
 public:
  // Opens config.json and the safetensors, checks that every tensor of the architecture is there with its
  // shape and a float type (F32, F16, BF16), before anything is read. Missing, surplus-and-unknown or
  // misshapen tensors are Error(model_file) with the tensor's name; rotary buffers ("*.inv_freq") are
  // ignored. A folder whose lm_head.weight is stored although the head is tied must hold equal bytes.
  explicit ModelFolder(const std::filesystem::path& folder);
  ~ModelFolder();
  ModelFolder(ModelFolder&&) noexcept;

  [[nodiscard]] const std::filesystem::path& path() const;
  [[nodiscard]] const Architecture& architecture() const;
  [[nodiscard]] const std::vector<ParameterGroup>& groups() const;

  // fp32 values of a tensor of a group (exact widening), from element `first` on. Values that are not finite
  // are Error(model_file).
  void read_tensor(std::size_t group, std::size_t tensor, std::int64_t first, std::span<float> out) const;
  // Fills out[group.elements] with the group's fp32 values (exact widening); gaps become zero.
  void read_group(std::size_t group, std::span<float> out) const;

  // Refuses (Error(usage)) the folders that export_to would refuse for what they are or hold: before hours of
  // training, not after. Makes nothing, needs no folder. Returns the bytes of the weights as stored.
  [[nodiscard]] Bytes check_export(const std::filesystem::path& out) const;

  using ReadValues = std::function<void(std::size_t group, std::int64_t first, std::span<float> values)>;
  // Writes a folder that other tools load: same tensor names, shapes, dtypes (or `dtype`, "bfloat16" /
  // "float32" / "" = as stored) and shard layout; config.json, tokenizer and other small files copied
  // verbatim (config.json's dtype key changed only where `dtype` differs). `read` yields fp32 values of
  // a group, from element `first` on, a million or less at a time; values go to bf16 by the master rule, to
  // f16 by nearest even (overflow refused). Atomic per file.
  void export_to(const std::filesystem::path& out, const std::string& dtype, const ReadValues& read) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// lazytrain import model.gguf --out DIR: a Hugging Face folder from a GGUF file of the llama, qwen2 or qwen3
// architecture: config.json, model.safetensors in bf16 with the q/k row order of GGUF undone, tokenizer.json,
// tokenizer_config.json with the chat template, generation_config.json, special_tokens_map.json.
// `out` must be empty or absent; nothing is left there on failure. `progress(done, total)` in bytes.
void import_gguf(const std::filesystem::path& gguf, const std::filesystem::path& out,
                 const std::function<void(std::int64_t done, std::int64_t total)>& progress);

}  // namespace lazytrain
