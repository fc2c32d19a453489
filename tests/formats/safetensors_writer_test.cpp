#include "formats/safetensors_writer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "core/file.h"
#include "formats/formats_support.h"
#include "formats/json.h"

namespace lazytrain {
namespace {

std::string bytes_of(const TensorView& tensor) {
  return {reinterpret_cast<const char*>(tensor.bytes.data()), tensor.bytes.size()};
}

// Emits a tensor in pieces of `piece` bytes.
ProduceTensor copy_of(const Safetensors& model, std::size_t piece) {
  return [&model, piece](const TensorInfo& tensor, const EmitBytes& emit) {
    auto bytes = model.at(tensor.name).bytes;
    while (!bytes.empty()) {
      const auto part = bytes.first(std::min(piece, bytes.size()));
      emit(part);
      bytes = bytes.subspan(part.size());
    }
  };
}

void expect_same(const Safetensors& a, const Safetensors& b) {
  ASSERT_EQ(a.tensors().size(), b.tensors().size());
  for (std::size_t i = 0; i < a.tensors().size(); ++i) {
    EXPECT_EQ(a.tensors()[i].name, b.tensors()[i].name);
    EXPECT_EQ(a.tensors()[i].type, b.tensors()[i].type);
    EXPECT_EQ(a.tensors()[i].shape, b.tensors()[i].shape);
    EXPECT_EQ(a.tensors()[i].shard, b.tensors()[i].shard);
    EXPECT_EQ(bytes_of(a.tensors()[i]), bytes_of(b.tensors()[i])) << a.tensors()[i].name;
  }
}

// "counter" (one byte) makes what follows unaligned.
const std::vector<TensorInfo> kTensors = {{.name = "counter", .type = TensorType::u8, .shape = {1}},
                                          {.name = "z", .type = TensorType::f32, .shape = {2}},
                                          {.name = "a", .type = TensorType::bf16, .shape = {3}},
                                          {.name = "scalar", .type = TensorType::i64, .shape = {}},
                                          {.name = "empty", .type = TensorType::f16, .shape = {0, 4}}};

void write_letters(const std::filesystem::path& folder, const SafetensorsLayout& layout) {
  write_safetensors(folder, layout, [](const TensorInfo& tensor, const EmitBytes& emit) {
    const std::string text(static_cast<std::size_t>(tensor.bytes()), tensor.name[0]);
    emit(std::as_bytes(std::span(text)));
  });
}

TEST(SafetensorsWriter, WritesTheBytesOfTheFormat) {
  const TemporaryFolder folder;
  write_letters(folder.path(), new_layout({{.name = "w", .type = TensorType::u8, .shape = {2}}}));
  std::string header =
      R"({"__metadata__":{"format":"pt"},"w":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  EXPECT_EQ(read_file(folder.path() / kSafetensorsFile),
            little_endian<std::uint64_t>(header.size()) + header + "ww");
}

TEST(SafetensorsWriter, KeepsOrderAndPayloadOfASingleFile) {
  const TemporaryFolder first, second;
  write_letters(first.path(), new_layout(kTensors));
  const auto model = Safetensors::open(first.path());
  EXPECT_FALSE(model.indexed());
  EXPECT_EQ(bytes_of(model.at("z")), "zzzzzzzz");
  EXPECT_EQ(model.shards()[0].metadata.at("format"), "pt");
  write_safetensors(second.path(), layout_of(model), copy_of(model, 3));
  expect_same(model, Safetensors::open(second.path()));
  EXPECT_EQ(read_file(first.path() / kSafetensorsFile), read_file(second.path() / kSafetensorsFile));
}

TEST(SafetensorsWriter, KeepsWhatTheIndexSaysOfTheModel) {
  const TemporaryFolder first, second;
  write_letters(first.path(), new_layout(kTensors, 9));
  nlohmann::json index = read_json(first.path() / kSafetensorsIndex, ExitCode::model_file);
  EXPECT_EQ(index["metadata"], nlohmann::json({{"total_size", 23}}));
  index["metadata"]["total_parameters"] = 6;
  index["metadata"]["total_size"] = "wrong";
  write_json(first.path() / kSafetensorsIndex, index);
  const auto model = Safetensors::open(first.path());
  write_safetensors(second.path(), layout_of(model), copy_of(model, 3));
  index["metadata"]["total_size"] = 23;
  EXPECT_EQ(read_json(second.path() / kSafetensorsIndex, ExitCode::model_file), index);
}

TEST(SafetensorsWriter, KeepsShards) {
  const TemporaryFolder first, second;
  const auto layout = new_layout(kTensors, 9);
  ASSERT_EQ(layout.shards.size(), 3u);  // 1 + 8, 6, 8 + 0 bytes
  write_letters(first.path(), layout);
  const auto index = read_json(first.path() / kSafetensorsIndex, ExitCode::model_file);
  EXPECT_EQ(index["metadata"]["total_size"], 23);
  EXPECT_EQ(index["weight_map"]["a"], "model-00002-of-00003.safetensors");
  EXPECT_EQ(index["weight_map"].size(), 5u);
  const auto model = Safetensors::open(first.path());
  write_safetensors(second.path(), layout_of(model), copy_of(model, 1 << 20));
  expect_same(model, Safetensors::open(second.path()));
}

TEST(SafetensorsWriter, OverwritesTheModelItReadsFrom) {
  const TemporaryFolder folder;
  write_letters(folder.path(), new_layout(kTensors));
  const auto model = Safetensors::open(folder.path());
  write_safetensors(folder.path(), layout_of(model), copy_of(model, 4));
  expect_same(model, Safetensors::open(folder.path()));
}

TEST(SafetensorsWriter, AFailureLeavesTheFolderAsItWas) {
  const TemporaryFolder folder;
  write_letters(folder.path(), new_layout(kTensors));
  const std::string before = read_file(folder.path() / kSafetensorsFile);
  const auto broken = [](const TensorInfo&, const EmitBytes&) { fail(ExitCode::numerics, "stopped"); };
  expect_error(ExitCode::numerics, "stopped",
               [&] { write_safetensors(folder.path(), new_layout(kTensors), broken); });
  EXPECT_EQ(read_file(folder.path() / kSafetensorsFile), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  const auto short_of_bytes = [](const TensorInfo&, const EmitBytes&) {};
  EXPECT_THROW(write_safetensors(folder.path(), new_layout(kTensors), short_of_bytes), std::logic_error);
}

TEST(SafetensorsWriter, RefusesToMixTwoLayouts) {
  const TemporaryFolder folder;
  write_letters(folder.path(), new_layout(kTensors, 9));
  expect_error(ExitCode::usage, "holds the model.safetensors.index.json of another model",
               [&] { write_letters(folder.path(), new_layout(kTensors)); });
  const TemporaryFolder single;
  write_letters(single.path(), new_layout(kTensors));
  expect_error(ExitCode::usage, "holds the model.safetensors of another model",
               [&] { write_letters(single.path(), new_layout(kTensors, 9)); });
}

TEST(SafetensorsWriter, RefusesWhatTheDiskCannotHold) {
  const TemporaryFolder folder;
  const std::vector<TensorInfo> huge = {
      {.name = "w", .type = TensorType::f32, .shape = {1'000'000'000'000'000}}};
  expect_error(ExitCode::disk, "the model needs 4000.00 TB",
               [&] { write_letters(folder.path(), new_layout(huge)); });
  expect_error(ExitCode::disk, "cannot write there",
               [&] { write_letters(folder.path() / "nothing", new_layout(kTensors)); });
}

// Files written by the reference library (safetensors for Python).
TEST(SafetensorsWriter, RewritesModelsOfTheReferenceLibrary) {
  const char* data = std::getenv("LAZYTRAIN_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "LAZYTRAIN_TEST_DATA is not set";
  int models = 0;
  for (const auto& item : std::filesystem::recursive_directory_iterator(data)) {
    if (item.path().extension() != ".safetensors") continue;
    const TemporaryFolder folder;
    const auto model = Safetensors::open_file(item.path());
    write_safetensors(folder.path(), layout_of(model), copy_of(model, 4096));
    expect_same(model, Safetensors::open_file(folder.path() / item.path().filename()));
    ++models;
  }
  EXPECT_GT(models, 0);
}

}  // namespace
}  // namespace lazytrain
