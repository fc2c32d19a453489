// Opening a model folder and reading its parameter groups. Writing one is model_export.cpp.
#include <algorithm>
#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "formats/text_checks.h"
#include "model/model_folder_impl.h"

namespace lazytrain {
namespace {

bool is_trainable_type(TensorType type) {
  return type == TensorType::f32 || type == TensorType::f16 || type == TensorType::bf16;
}

// Rotary frequencies that old checkpoints carry along; they follow from config.json.
bool is_rotary_buffer(const std::string& name) {
  return name.ends_with(".inv_freq");
}

// A second copy of the embedding under the head's name, which some tools write for tied heads.
bool is_tied_copy(const Architecture& architecture, const std::string& name) {
  return architecture.tied_head && name == kHeadName;
}

void check_shape(const TensorView& found, const ParameterTensor& wanted, const std::string& where) {
  if (found.shape != wanted.shape) {
    fail(ExitCode::model_file,
         "{}: tensor {} has the shape {}, but config.json makes it {}; one of them is not of this model: get "
         "both from one place",
         where, wanted.name, format_shape(found.shape), format_shape(wanted.shape));
  }
  if (!is_trainable_type(found.type)) {
    fail(ExitCode::model_file, "{}: tensor {} is stored as {}; only F32, F16 and BF16 can be trained", where,
         wanted.name, to_string(found.type));
  }
}

// A damaged file, or the end of a training run that went wrong.
void check_finite(std::span<const float> values, const std::string& name,
                  const std::filesystem::path& folder) {
  constexpr std::uint32_t kExponent = 0x7F800000;  // all ones for NaN and infinity
  bool finite = true;
  for (const float value : values) finite &= (std::bit_cast<std::uint32_t>(value) & kExponent) != kExponent;
  if (finite) return;
  fail(ExitCode::model_file, "{}: tensor {} holds values that are not finite numbers; get the model again",
       folder.string(), name);
}

void check_tied_copy(const Safetensors& tensors, const Architecture& architecture, const std::string& where) {
  const TensorView* copy = architecture.tied_head ? tensors.find(kHeadName) : nullptr;
  if (copy == nullptr) return;
  const TensorView& embedding = tensors.at(kEmbeddingName);
  if (copy->type != embedding.type || copy->shape != embedding.shape ||
      !std::ranges::equal(copy->bytes, embedding.bytes)) {
    fail(ExitCode::model_file,
         "{}: {} differs from {} although config.json sets tie_word_embeddings; set it to false if the head "
         "is its own",
         where, kHeadName, kEmbeddingName);
  }
}

}  // namespace

ModelFolder::Impl::Impl(const std::filesystem::path& folder)
    : path(folder),
      architecture(read_architecture(folder)),
      groups(parameter_groups(architecture)),
      tensors(Safetensors::open_folder(folder)) {
  const std::string where = folder.string();
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (std::size_t tensor = 0; tensor < groups[group].tensors.size(); ++tensor) {
      const ParameterTensor& wanted = groups[group].tensors[tensor];
      const TensorView* found = tensors.find(wanted.name);
      if (found == nullptr) {
        fail(ExitCode::model_file,
             "{}: tensor {} is missing, which config.json asks for; the download is incomplete or of another "
             "model",
             where, wanted.name);
      }
      check_shape(*found, wanted, where);
      places.emplace(wanted.name, Place{.group = group, .tensor = tensor});
    }
  }
  for (const TensorView& found : tensors.tensors()) {
    if (places.contains(found.name) || is_rotary_buffer(found.name) || is_tied_copy(architecture, found.name))
      continue;
    fail(ExitCode::model_file,
         "{}: tensor {} is not part of the model that config.json describes and would be lost; get both from "
         "one place",
         where, in_quotes(found.name));
  }
  check_tied_copy(tensors, architecture, where);
  if (tensors.contains(kHeadName) && architecture.tied_head)
    places.emplace(kHeadName, places.at(kEmbeddingName));
}

ModelFolder::ModelFolder(const std::filesystem::path& folder) : impl_(std::make_unique<Impl>(folder)) {}
ModelFolder::~ModelFolder() = default;
ModelFolder::ModelFolder(ModelFolder&&) noexcept = default;

const std::filesystem::path& ModelFolder::path() const {
  return impl_->path;
}
const Architecture& ModelFolder::architecture() const {
  return impl_->architecture;
}
const std::vector<ParameterGroup>& ModelFolder::groups() const {
  return impl_->groups;
}

void ModelFolder::read_tensor(std::size_t group, std::size_t tensor, std::int64_t first,
                              std::span<float> out) const {
  const ParameterTensor& wanted = impl_->groups.at(group).tensors.at(tensor);
  check(first >= 0 && first + std::ssize(out) <= wanted.elements, "elements of this tensor");
  const TensorView& stored = impl_->tensors.at(wanted.name);
  const std::size_t width = stored.bytes.size() / static_cast<std::size_t>(wanted.elements);
  convert_to_float(stored.type,
                   stored.bytes.subspan(static_cast<std::size_t>(first) * width, out.size() * width), out);
  check_finite(out, wanted.name, impl_->path);
}

void ModelFolder::read_group(std::size_t group, std::span<float> out) const {
  check(group < impl_->groups.size(), "a group of this model");
  const ParameterGroup& wanted = impl_->groups[group];
  check(out.size() == static_cast<std::size_t>(wanted.elements), "a buffer of the group's size");
  std::size_t filled = 0;
  for (const ParameterTensor& tensor : wanted.tensors) {
    const auto begin = static_cast<std::size_t>(tensor.offset);
    const auto elements = static_cast<std::size_t>(tensor.elements);
    std::fill(out.begin() + static_cast<std::ptrdiff_t>(filled), out.begin() + tensor.offset, 0.0F);
    const TensorView& stored = impl_->tensors.at(tensor.name);
    const std::span<float> values = out.subspan(begin, elements);
    convert_to_float(stored.type, stored.bytes, values);
    check_finite(values, tensor.name, impl_->path);
    filled = begin + elements;
  }
  std::fill(out.begin() + static_cast<std::ptrdiff_t>(filled), out.end(), 0.0F);
}

}  // namespace lazytrain
