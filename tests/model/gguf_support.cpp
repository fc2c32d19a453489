#include "model/gguf_support.h"

#include <algorithm>
#include <cstring>

namespace lazytrain {
namespace {

template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

std::string raw_text(const std::string& text) {
  return raw<std::uint64_t>(text.size()) + text;
}

}  // namespace

GgufBuilder& GgufBuilder::set(const std::string& key, std::uint32_t type, std::string value) {
  value = raw(type) + value;
  const auto found = std::ranges::find(metadata_, key, &std::pair<std::string, std::string>::first);
  if (found != metadata_.end()) {
    found->second = std::move(value);
  } else {
    metadata_.emplace_back(key, std::move(value));
  }
  return *this;
}

GgufBuilder& GgufBuilder::u32(const std::string& key, std::uint32_t value) {
  return set(key, 4, raw(value));
}
GgufBuilder& GgufBuilder::f32(const std::string& key, float value) {
  return set(key, 6, raw(value));
}
GgufBuilder& GgufBuilder::boolean(const std::string& key, bool value) {
  return set(key, 7, raw(value));
}
GgufBuilder& GgufBuilder::text(const std::string& key, const std::string& value) {
  return set(key, 8, raw_text(value));
}

GgufBuilder& GgufBuilder::texts(const std::string& key, const std::vector<std::string>& values) {
  std::string bytes = raw<std::uint32_t>(8) + raw<std::uint64_t>(values.size());
  for (const std::string& value : values) bytes += raw_text(value);
  return set(key, 9, bytes);
}

GgufBuilder& GgufBuilder::ints(const std::string& key, const std::vector<std::int32_t>& values) {
  std::string bytes = raw<std::uint32_t>(5) + raw<std::uint64_t>(values.size());
  for (const std::int32_t value : values) bytes += raw(value);
  return set(key, 9, bytes);
}

GgufBuilder& GgufBuilder::floats(const std::string& key, const std::vector<float>& values) {
  std::string bytes = raw<std::uint32_t>(6) + raw<std::uint64_t>(values.size());
  for (const float value : values) bytes += raw(value);
  return set(key, 9, bytes);
}

GgufBuilder& GgufBuilder::remove(const std::string& key) {
  std::erase_if(metadata_, [&](const auto& entry) { return entry.first == key; });
  return *this;
}

GgufBuilder& GgufBuilder::tensor(const std::string& name, const std::vector<std::int64_t>& shape,
                                 const std::vector<float>& values) {
  remove_tensor(name);
  tensors_.push_back({.name = name, .shape = shape, .values = values});
  return *this;
}

GgufBuilder& GgufBuilder::remove_tensor(const std::string& name) {
  std::erase_if(tensors_, [&](const Tensor& tensor) { return tensor.name == name; });
  return *this;
}

std::string GgufBuilder::bytes(std::size_t* metadata_end) const {
  constexpr std::size_t alignment = 32;
  std::string file = "GGUF" + raw<std::uint32_t>(3) + raw<std::uint64_t>(tensors_.size()) +
                     raw<std::uint64_t>(metadata_.size());
  for (const auto& [key, value] : metadata_) file += raw_text(key) + value;
  std::string payload;
  for (const Tensor& tensor : tensors_) {
    file += raw_text(tensor.name) + raw(static_cast<std::uint32_t>(tensor.shape.size()));
    for (auto size = tensor.shape.rbegin(); size != tensor.shape.rend(); ++size) {
      file += raw(static_cast<std::uint64_t>(*size));
    }
    file += raw<std::uint32_t>(0) + raw<std::uint64_t>(payload.size());
    for (const float value : tensor.values) payload += raw(value);
    payload.resize((payload.size() + alignment - 1) / alignment * alignment);
  }
  if (metadata_end != nullptr) *metadata_end = file.size();
  file.resize((file.size() + alignment - 1) / alignment * alignment);
  return file + payload;
}

}  // namespace lazytrain
