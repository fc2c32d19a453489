#include "training/trainer_state.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "core/file.h"
#include "formats/json.h"
#include "plan/json_fields.h"
#include "training/moments.h"

namespace lazytrain {

std::string to_text(const TrainerState& state) {
  const nlohmann::json json{{"version", TrainerState::kVersion},
                            {"step", state.step},
                            {"updates", state.updates},
                            {"tokens", state.tokens},
                            {"epoch", state.cursor.epoch},
                            {"slot", state.cursor.slot},
                            {"micro_batch", state.micro_batch},
                            {"type_bytes", state.type_bytes},
                            {"optimizer", to_string(state.moments)},
                            {"model_fingerprint", fmt::format("{:016x}", state.model_fingerprint)},
                            {"data_fingerprint", fmt::format("{:016x}", state.data_fingerprint)}};
  return json.dump(2) + "\n";
}

TrainerState trainer_state_from_text(const std::string& text, const std::filesystem::path& where) {
  const nlohmann::json json = parse_json(text, where.string(), ExitCode::model_file);
  const JsonFields fields(json, where.string(), ExitCode::model_file);
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  const std::int64_t version = fields.integer("version", 0, kMost);
  if (version != TrainerState::kVersion)
    fail(ExitCode::model_file, "{}: version {} of the state is not known to this program (it writes {})",
         where.string(), version, TrainerState::kVersion);
  const auto hexadecimal = [&](const char* key) -> std::uint64_t {
    const std::string value = fields.text(key);
    std::size_t used = 0;
    try {
      const std::uint64_t number = std::stoull(value, &used, 16);
      if (used == value.size()) return number;
    } catch (const std::exception&) {  // said below
    }
    fail(ExitCode::model_file, "{}: '{}' must be a hexadecimal number", where.string(), key);
  };
  return {.step = fields.integer("step", 0, kMost),
          .updates = fields.integer("updates", 0, kMost),
          .tokens = fields.integer("tokens", 0, kMost),
          .cursor = {.epoch = fields.integer("epoch", 0, kMost), .slot = fields.integer("slot", 0, kMost)},
          .micro_batch = fields.integer("micro_batch", 1, 1 << 20),
          .type_bytes = fields.integer("type_bytes", 2, 4),
          .moments = moment_options_from(fields.text("optimizer"), where.string()),
          .model_fingerprint = hexadecimal("model_fingerprint"),
          .data_fingerprint = hexadecimal("data_fingerprint")};
}

void require_same_run(const TrainerState& saved, const TrainerState& current,
                      const std::filesystem::path& checkpoint) {
  const auto refuse = [&](const char* what, const char* advice) {
    fail(ExitCode::model_file, "{}: the checkpoint was written with {}; {}", checkpoint.string(), what,
         advice);
  };
  if (saved.model_fingerprint != current.model_fingerprint)
    refuse("another model", "give the model_name_or_path it was started with");
  if (saved.type_bytes != current.type_bytes)
    refuse(saved.type_bytes == 2 ? "bf16: true" : "bf16: false", "resume with the same precision");
  if (saved.data_fingerprint != current.data_fingerprint)
    fail(ExitCode::model_file,
         "{}: the checkpoint was written with other training data (fingerprint {:016x} there, {:016x} here); "
         "resume "
         "with the same dataset files, max_samples and tokenizer, or start a new output_dir",
         checkpoint.string(), saved.data_fingerprint, current.data_fingerprint);
}

std::uint64_t architecture_fingerprint(const ModelFolder& model) {
  const Architecture& a = model.architecture();
  std::string text =
      fmt::format("{} {} {} {} {} {} {} {} {} {} {};", a.heads, a.kv_heads, a.head_dim, a.tied_head,
                  a.rms_epsilon, static_cast<int>(a.rope.kind), a.rope.theta, a.rope.factor,
                  a.rope.low_frequency_factor, a.rope.high_frequency_factor, a.rope.original_max_position);
  // What the first versions did not know counts where it is set, so that their checkpoints stay valid.
  if (a.rope.kind == RopeKind::yarn)
    text += fmt::format("yarn {} {} {} {};", a.rope.beta_fast, a.rope.beta_slow, a.rope.whole_bounds,
                        a.rope.attention_factor);
  if (a.layers_of(LayerKind::sliding_attention) > 0) {
    text += fmt::format("window {}", a.window);
    for (std::int64_t layer = 0; layer < a.layers; ++layer)
      if (a.window_of(a.kind_of(layer)) > 0) text += fmt::format(" {}", layer);
    text += ";";
  }
  for (const ParameterGroup& group : model.groups())
    for (const ParameterTensor& tensor : group.tensors)
      text += fmt::format("{}:{};", tensor.name, fmt::join(tensor.shape, "x"));
  return checksum(std::as_bytes(std::span(text)));
}

}  // namespace lazytrain
