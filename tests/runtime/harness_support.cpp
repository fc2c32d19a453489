#include <cmath>
#include <cstring>

#include "core/file.h"
#include "core/random.h"
#include "formats/safetensors.h"
#include "program/verifier.h"
#include "runtime/harness.h"
#include "runtime/workspace.h"

namespace lazytrain::test {
namespace {

using ReadGroup = void (Session::*)(std::size_t, std::span<float>) const;

std::map<std::string, std::vector<float>> by_name(const Session& session, ReadGroup read) {
  std::map<std::string, std::vector<float>> tensors;
  for (std::size_t g = 0; g < session.context().groups.size(); ++g) {
    const ParameterGroup& group = session.context().groups[g];
    std::vector<float> values(static_cast<std::size_t>(group.elements));
    (session.*read)(g, values);
    for (const ParameterTensor& tensor : group.tensors)
      tensors[tensor.name].assign(values.begin() + tensor.offset,
                                  values.begin() + tensor.offset + tensor.elements);
  }
  return tensors;
}

std::vector<std::int32_t> narrow(const std::vector<std::int64_t>& values) {
  return {values.begin(), values.end()};
}

}  // namespace

Tokens random_tokens(std::int64_t slots, std::int64_t slot_tokens, std::int64_t vocab, std::uint64_t seed) {
  Random random(seed, 77);
  Tokens result{.slots = slots,
                .slot_tokens = slot_tokens,
                .tokens = {},
                .positions = {},
                .document_start = {},
                .targets = {}};
  for (std::int64_t slot = 0; slot < slots; ++slot) {
    std::int32_t start = 0, next = 0;
    for (std::int32_t i = 0; i < slot_tokens; ++i) {
      if (i == next) {
        start = i;
        next = i + 1 + static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(slot_tokens)));
      }
      result.tokens.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocab))));
      result.positions.push_back(i - start);
      result.document_start.push_back(start);
      const bool supervised = i + 1 < std::min<std::int64_t>(next, slot_tokens) && random.below(4) != 0;
      result.targets.push_back(
          supervised ? static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocab))) : -1);
    }
  }
  return result;
}

Architecture tiny_architecture(bool tied_head, std::int64_t layers) {
  Architecture architecture;
  architecture.model_type = "llama";
  architecture.layers = layers;
  architecture.hidden = 64;
  architecture.heads = 4;
  architecture.kv_heads = 2;
  architecture.head_dim = 16;
  architecture.ffn = 96;
  architecture.vocab = 160;
  architecture.max_position = 2048;
  architecture.tied_head = tied_head;
  return architecture;
}

Architecture wide_architecture(bool tied_head, std::int64_t layers) {
  Architecture architecture = tiny_architecture(tied_head, layers);
  architecture.model_type = "qwen3";
  architecture.head_dim = 24;
  architecture.query_key_norm = true;
  architecture.window = 11;
  for (std::int64_t layer = 0; layer < layers; ++layer)
    architecture.kinds.push_back(layer % 5 == 0 || layer % 5 == 3 ? LayerKind::attention
                                                                  : LayerKind::sliding_attention);
  architecture.rope = {.kind = RopeKind::yarn,
                       .theta = 1e6,
                       .factor = 4,
                       .original_max_position = 512,
                       .attention_factor = 1.1386294361119891};
  return architecture;
}

Plan simple_plan(const Architecture& architecture, const BatchGeometry& batch, StashLevel level) {
  Plan plan;
  plan.policy = "test";
  plan.batch = batch;
  plan.boundaries.assign(static_cast<std::size_t>(architecture.layers) + 1,
                         {.materialised = true, .device_micro_batches = batch.micro_batches()});
  plan.layers.assign(static_cast<std::size_t>(architecture.layers),
                     {.stash = level, .stash_device_micro_batches = batch.micro_batches()});
  return plan;
}

Machine machine_for(const Program& program) {
  Machine machine;
  machine.tiers = program.tiers;
  machine.device_capacity = program.device_bytes;
  machine.host_capacity = program.host_bytes;
  machine.disk_capacity = program.disk_bytes;
  return machine;
}

std::vector<float> random_group(const ParameterGroup& group, std::uint64_t seed) {
  Random random(seed, 3);
  std::vector<float> values(static_cast<std::size_t>(group.elements), 0.0F);
  for (const ParameterTensor& tensor : group.tensors) {
    const bool norm = tensor.shape.size() == 1 && tensor.name.find("norm") != std::string::npos;
    for (std::int64_t i = 0; i < tensor.elements; ++i)
      values[static_cast<std::size_t>(tensor.offset + i)] =
          static_cast<float>((norm ? 1.0 : 0.0) + 0.1 * random.normal());
  }
  return values;
}

Harness::Harness(const Architecture& architecture, const ModelFolder* folder, const SessionOptions& options,
                 const Plan& plan, std::uint64_t seed)
    : session_(std::make_unique<Session>(architecture, options)) {
  const LoweringContext& context = session_->context();
  const WorkspaceBytes workspace =
      workspace_bytes(architecture, options.type, plan.batch.micro_batch, plan.batch.slot_tokens);
  train_ = lower_train_step(context, plan, workspace);
  evaluate_ = lower_evaluate(context, plan.batch, 2, workspace);
  update_ = lower_update_only(context);
  const Program* programs[] = {&train_, &evaluate_, &update_};
  for (const Program* program : programs) verify_or_throw(*program, machine_for(*program));
  session_->allocate(programs);
  if (folder != nullptr) {
    session_->load(*folder);
    return;
  }
  for (std::size_t g = 0; g < context.groups.size(); ++g)
    session_->set_group(g, random_group(context.groups[g], seed + g));
}

std::map<std::string, std::vector<float>> Harness::gradients() const {
  return by_name(*session_, &Session::read_gradient);
}
std::map<std::string, std::vector<float>> Harness::masters() const {
  return by_name(*session_, &Session::read_masters);
}

std::uint64_t Harness::weight_checksum() const {
  Checksum sum;
  for (const auto& [name, values] : masters()) sum.add(std::as_bytes(std::span(values)));
  return sum.value();
}

std::filesystem::path goldens() {
  return std::filesystem::path(LAZYTRAIN_TESTS_DIR) / "data" / "goldens";
}

std::vector<float> golden_floats(const std::filesystem::path& file, const std::string& name) {
  const Safetensors tensors = Safetensors::open_file(file);
  const TensorView& view = tensors.at(name);
  std::vector<float> values(static_cast<std::size_t>(view.elements()));
  std::memcpy(values.data(), view.bytes.data(), values.size() * sizeof(float));
  return values;
}

std::vector<std::int64_t> golden_integers(const std::filesystem::path& file, const std::string& name) {
  const Safetensors tensors = Safetensors::open_file(file);
  const TensorView& view = tensors.at(name);
  std::vector<std::int64_t> values(static_cast<std::size_t>(view.elements()));
  std::memcpy(values.data(), view.bytes.data(), values.size() * sizeof(std::int64_t));
  return values;
}

Tokens golden_tokens(const std::filesystem::path& file, const std::string& variant) {
  const auto get = [&](const char* key) { return golden_integers(file, variant + "." + key); };
  const std::vector<std::int64_t> documents = get("document_ids");
  Tokens tokens{.slots = variant == "a" ? 2 : 1,
                .slot_tokens = 24,
                .tokens = narrow(get("input_ids")),
                .positions = narrow(get("position_ids")),
                .document_start = {},
                .targets = narrow(get("targets"))};
  for (std::int32_t& target : tokens.targets) target = std::max(target, -1);
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(documents.size()); ++i) {
    const std::int64_t row = i % tokens.slot_tokens;
    const auto at = static_cast<std::size_t>(i);
    const bool same = row > 0 && documents[at] == documents[at - 1];
    tokens.document_start.push_back(same ? tokens.document_start.back() : static_cast<std::int32_t>(row));
  }
  return tokens;
}

double relative_error(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, magnitude = 0;
  if (a.size() != b.size()) return std::nan("");
  for (std::size_t i = 0; i < a.size(); ++i) {
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
    magnitude = std::max(magnitude, std::abs(static_cast<double>(b[i])));
    if (!std::isfinite(a[i])) return std::nan("");
  }
  return magnitude > 0 ? difference / magnitude : difference;
}

}  // namespace lazytrain::test
