#include "formats/gguf.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "core/error.h"
#include "formats/tensor_type.h"
#include "formats/text_checks.h"

namespace lazytrain {
namespace {

static_assert(std::endian::native == std::endian::little, "the file is little-endian and mapped as it is");

constexpr auto kCode = ExitCode::model_file;
constexpr std::uint32_t kU32 = 4, kString = 8, kArray = 9;
constexpr int kDeepestArray = 4;
constexpr std::uint32_t kHighestRank = 4;

struct ValueFacts {
  const char* name;
  std::uint64_t size;  // 0: not of one size
};
// Index = GGUF's number of the value type.
constexpr std::array<ValueFacts, 13> kValueTypes = {{{"u8", 1},
                                                     {"i8", 1},
                                                     {"u16", 2},
                                                     {"i16", 2},
                                                     {"u32", 4},
                                                     {"i32", 4},
                                                     {"f32", 4},
                                                     {"bool", 1},
                                                     {"string", 0},
                                                     {"array", 0},
                                                     {"u64", 8},
                                                     {"i64", 8},
                                                     {"f64", 8}}};

// ggml's names by number, to refuse a type by its name; empty where the number is unused or was withdrawn.
constexpr std::array<const char*, 40> kTensorTypes = {
    "F32",    "F16",   "Q4_0",  "Q4_1",   "",      "",      "Q5_0",    "Q5_1",   "Q8_0",    "Q8_1",
    "Q2_K",   "Q3_K",  "Q4_K",  "Q5_K",   "Q6_K",  "Q8_K",  "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S",
    "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8",    "I16",   "I32",     "I64",    "F64",     "IQ1_M",
    "BF16",   "",      "",      "",       "TQ1_0", "TQ2_0", "",        "",       "",        "MXFP4"};

// Takes the file from front to back and never beyond its end.
class Cursor {
 public:
  Cursor(std::string_view file, const std::string& where) : file_(file), where_(where) {}

  std::string_view take(std::uint64_t size, std::string_view what) {
    if (size > file_.size() - at_) {
      fail(kCode,
           "{}: truncated or damaged: {} needs {} bytes at byte {}, but the file ends at {}; download it "
           "again",
           where_, what, size, at_, file_.size());
    }
    const std::string_view bytes = file_.substr(at_, size);
    at_ += size;
    return bytes;
  }
  template <typename Number>
  Number number(std::string_view what) {
    Number value;
    std::memcpy(&value, take(sizeof(Number), what).data(), sizeof(Number));
    return value;
  }
  std::string_view text(std::string_view what) { return take(number<std::uint64_t>(what), what); }
  [[nodiscard]] std::uint64_t position() const { return at_; }
  [[nodiscard]] std::uint64_t left() const { return file_.size() - at_; }
  [[nodiscard]] std::string_view since(std::uint64_t begin) const { return file_.substr(begin, at_ - begin); }

 private:
  std::string_view file_;
  const std::string& where_;
  std::uint64_t at_ = 0;
};

std::uint32_t read_value_type(Cursor& cursor, const std::string& what, const std::string& where) {
  const auto type = cursor.number<std::uint32_t>(what);
  if (type >= kValueTypes.size())
    fail(kCode, "{}: {} has the unknown type {}; download the file again", where, what, type);
  return type;
}

// Moves over `count` values of one type.
void skip_values(Cursor& cursor, std::uint32_t type, std::uint64_t count, int depth, const std::string& what,
                 const std::string& where) {
  const std::uint64_t size = kValueTypes[type].size;
  // Every value has at least one byte (strings and arrays more), so an absurd count ends here.
  if (count > cursor.left() / std::max<std::uint64_t>(size, 1)) {
    fail(kCode,
         "{}: truncated or damaged: {} claims {} values, more than the rest of the file can hold; download "
         "it again",
         where, what, count);
  }
  if (size > 0) {
    cursor.take(size * count, what);
    return;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    if (type == kString) {
      cursor.text(what);
    } else {
      if (depth >= kDeepestArray)
        fail(kCode, "{}: {}: arrays are nested deeper than {}; download the file again", where, what,
             kDeepestArray);
      const std::uint32_t inner = read_value_type(cursor, what, where);
      const auto inner_count = cursor.number<std::uint64_t>(what);
      skip_values(cursor, inner, inner_count, depth + 1, what, where);
    }
  }
}

GgufValue read_value(Cursor& cursor, const std::string& what, const std::string& where) {
  GgufValue value;
  value.type = read_value_type(cursor, what, where);
  if (value.type == kArray) {
    value.is_array = true;
    value.type = read_value_type(cursor, what, where);
    value.count = cursor.number<std::uint64_t>(what);
  }
  const std::uint64_t begin = cursor.position();
  skip_values(cursor, value.type, value.count, 1, what, where);
  value.bytes = cursor.since(begin);
  return value;
}

struct TensorEntry {
  GgufTensor tensor;
  std::uint64_t offset = 0;  // from the start of the payload
  std::uint64_t size = 0;
};

GgufType checked_type(std::uint32_t number, const std::string& what, const std::string& where) {
  std::string read;
  for (const GgufType type : kGgufTypes) {
    if (number == static_cast<std::uint32_t>(type)) return type;
    if (!read.empty()) read += type == *std::rbegin(kGgufTypes) ? " and " : ", ";
    read += to_string(type);
  }
  const std::string name = number < kTensorTypes.size() && kTensorTypes[number][0] != '\0'
                               ? kTensorTypes[number]
                               : fmt::format("unknown (number {})", number);
  fail(kCode, "{}: {} has the type {}, which is not read; {} are: get one of these", where, what, name, read);
}

TensorEntry read_tensor_entry(Cursor& cursor, const std::string& where) {
  TensorEntry entry;
  GgufTensor& tensor = entry.tensor;
  tensor.name = cursor.text("a tensor's name");
  const std::string what = "tensor " + in_quotes(tensor.name);
  const auto rank = cursor.number<std::uint32_t>(what);
  if (rank < 1 || rank > kHighestRank)
    fail(kCode, "{}: {} has {} dimensions; 1 to 4 are legal: download the file again", where, what, rank);
  for (std::uint32_t i = 0; i < rank; ++i) {
    const auto size = cursor.number<std::uint64_t>(what);
    if (size > static_cast<std::uint64_t>(INT64_MAX))
      fail(kCode, "{}: {}: its size overflows; download the file again", where, what);
    tensor.shape.insert(tensor.shape.begin(), static_cast<std::int64_t>(size));
  }
  tensor.type = checked_type(cursor.number<std::uint32_t>(what), what, where);
  entry.offset = cursor.number<std::uint64_t>(what);

  const GgufBlock block = block_of(tensor.type);
  const auto elements = element_count(tensor.shape);
  std::int64_t bytes = 0;
  if (!elements || __builtin_mul_overflow(*elements, block.bytes, &bytes)) {
    fail(kCode, "{}: {}: the size of shape {} overflows; download the file again", where, what,
         format_shape(tensor.shape));
  }
  if (tensor.row_length() % block.elements != 0) {
    fail(kCode, "{}: {}: rows of {} values do not consist of {} blocks of {}; convert the file anew", where,
         what, tensor.row_length(), to_string(tensor.type), block.elements);
  }
  entry.size = static_cast<std::uint64_t>(bytes / block.elements);
  return entry;
}

std::uint64_t read_alignment(const std::unordered_map<std::string, GgufValue>& values,
                             const std::string& where) {
  const auto found = values.find("general.alignment");
  if (found == values.end()) return 32;
  std::uint32_t alignment = 0;
  if (!found->second.is_array && found->second.type == kU32) {
    std::memcpy(&alignment, found->second.bytes.data(), sizeof(alignment));
  }
  if (!std::has_single_bit(alignment))
    fail(kCode, "{}: general.alignment is not a u32 power of two; convert the file anew", where);
  return alignment;
}

// Gives every tensor its bytes: aligned, within the file, and nobody else's.
void place_tensors(std::vector<TensorEntry>& entries, std::span<const std::byte> file,
                   std::uint64_t header_end, std::uint64_t alignment, const std::string& where) {
  const std::uint64_t start = (header_end + alignment - 1) / alignment * alignment;
  const std::uint64_t room = start < file.size() ? file.size() - start : 0;
  std::vector<std::pair<std::uint64_t, const TensorEntry*>> by_offset;
  for (TensorEntry& entry : entries) {
    const std::string name = in_quotes(entry.tensor.name);
    if (entry.offset % alignment != 0) {
      fail(kCode, "{}: tensor {}: its offset {} is not a multiple of the alignment {}; convert the file anew",
           where, name, entry.offset, alignment);
    }
    if (entry.size > room || entry.offset > room - entry.size) {
      fail(kCode,
           "{}: truncated: tensor {} needs {} bytes at byte {} of the payload, which has {}; download it "
           "again",
           where, name, entry.size, entry.offset, room);
    }
    if (entry.size > 0) {
      entry.tensor.bytes = file.subspan(start + entry.offset, entry.size);
      by_offset.emplace_back(entry.offset, &entry);
    }
  }
  std::sort(by_offset.begin(), by_offset.end());
  for (std::size_t i = 1; i < by_offset.size(); ++i) {
    const TensorEntry& before = *by_offset[i - 1].second;
    if (before.offset + before.size > by_offset[i].first) {
      fail(kCode, "{}: tensors {} and {} overlap: damaged file; download it again", where,
           in_quotes(before.tensor.name), in_quotes(by_offset[i].second->tensor.name));
    }
  }
}

// Reads the fixed start; gives the numbers of tensors and of metadata pairs.
std::pair<std::uint64_t, std::uint64_t> read_start(Cursor& cursor, std::string_view file,
                                                   std::uint32_t& version, const std::string& where) {
  const std::string wrong = wrong_content(file.substr(0, 256), file.size());
  if (!wrong.empty()) fail(kCode, "{}: {}", where, wrong);
  if (cursor.take(4, "the magic number") != "GGUF")
    fail(kCode, "{}: not a GGUF file; give one, or the folder of a model", where);
  version = cursor.number<std::uint32_t>("the version");
  if ((version & 0xFFFFu) == 0)
    fail(kCode, "{}: a big-endian GGUF file; only little-endian ones are read", where);
  if (version != 2 && version != 3) {
    fail(kCode, "{}: GGUF version {}; versions 2 and 3 are read: convert the file anew", where, version);
  }
  const auto tensors = cursor.number<std::uint64_t>("the number of tensors");
  const auto pairs = cursor.number<std::uint64_t>("the number of metadata keys");
  return {tensors, pairs};
}

}  // namespace

const char* GgufValue::type_name() const {
  return kValueTypes[type].name;
}

const char* to_string(GgufType type) {
  return kTensorTypes[static_cast<std::size_t>(type)];
}

std::int64_t GgufTensor::rows() const {
  std::int64_t count = 1;
  for (std::size_t i = 0; i + 1 < shape.size(); ++i) count *= shape[i];
  return count;
}

Gguf::Gguf(const std::filesystem::path& path) : path_(path) {
  const std::string where = path.string();
  require_file(path, kCode);
  map_ = MappedFile(path);
  Cursor cursor(map_.text(), where);
  const auto [tensor_count, pair_count] = read_start(cursor, map_.text(), version_, where);
  for (std::uint64_t i = 0; i < pair_count; ++i) {
    std::string key(cursor.text("a metadata key"));
    const GgufValue value = read_value(cursor, "metadata key " + in_quotes(key), where);
    if (!values_.emplace(key, value).second)
      fail(kCode, "{}: metadata key {} appears twice; convert the file anew", where, in_quotes(key));
    keys_.push_back(std::move(key));
  }
  if (find_i64("split.count").value_or(1) > 1) {
    fail(kCode, "{}: one of several parts of a model; merge them first with llama.cpp's gguf-split", where);
  }
  alignment_ = read_alignment(values_, where);
  std::vector<TensorEntry> entries;
  for (std::uint64_t i = 0; i < tensor_count; ++i) entries.push_back(read_tensor_entry(cursor, where));
  place_tensors(entries, map_.bytes(), cursor.position(), alignment_, where);
  for (TensorEntry& entry : entries) tensors_.push_back(std::move(entry.tensor));
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    if (!lookup_.emplace(tensors_[i].name, i).second) {
      fail(kCode, "{}: tensor {} appears twice; convert the file anew", where, in_quotes(tensors_[i].name));
    }
  }
}

const GgufTensor* Gguf::find(std::string_view name) const {
  const auto found = lookup_.find(name);
  return found == lookup_.end() ? nullptr : &tensors_[found->second];
}

const GgufTensor& Gguf::at(std::string_view name) const {
  const GgufTensor* tensor = find(name);
  if (tensor == nullptr) fail(kCode, "{}: there is no tensor {}", path_.string(), in_quotes(name));
  return *tensor;
}

}  // namespace lazytrain
