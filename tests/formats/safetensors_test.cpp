#include "formats/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "formats/formats_support.h"
#include "formats/safetensors_writer.h"

namespace lazytrain {
namespace {

constexpr auto kModelFile = ExitCode::model_file;

std::string file_of(const std::string& header, const std::string& payload) {
  return little_endian<std::uint64_t>(header.size()) + header + payload;
}

std::string entry(const std::string& name, const std::string& type, const std::string& shape, int begin,
                  int end) {
  return fmt::format(R"("{}":{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}})", name, type, shape, begin,
                     end);
}

std::string object_of(const std::string& entries) {
  return fmt::format("{{{}}}", entries);
}

Safetensors open_content(const TemporaryFolder& folder, const std::string& content) {
  return Safetensors::open(folder.write("model.safetensors", content));
}

void expect_refused(const std::string& words, const std::string& content) {
  const TemporaryFolder folder;
  const auto path = folder.write("model.safetensors", content);
  expect_error(kModelFile, words, [&] { (void)Safetensors::open(path); });
  expect_error(kModelFile, path.string(), [&] { (void)Safetensors::open(path); });
}

void expect_entry_refused(const std::string& words, const std::string& entries, const std::string& payload) {
  expect_refused(words, file_of(object_of(entries), payload));
}

TEST(Safetensors, GivesNameTypeShapeAndBytes) {
  const TemporaryFolder folder;
  // The payload starts at byte 8 + 128: the header is padded with spaces, which is legal. b lies before a.
  std::string header = R"({"__metadata__":{"format":"pt","note":"x"},)" + entry("a", "F32", "[2,1]", 3, 11) +
                       "," + entry("b", "U8", "[3]", 0, 3) + "}";
  header.resize(200, ' ');
  const auto model =
      open_content(folder, file_of(header, "\x01\x02\x03" + little_endian(1.5f) + little_endian(-2.f)));
  ASSERT_EQ(model.tensors().size(), 2u);
  EXPECT_EQ(model.tensors()[0].name, "b");
  EXPECT_EQ(model.shards()[0].metadata,
            (std::map<std::string, std::string>{{"format", "pt"}, {"note", "x"}}));
  const TensorView& a = model.at("a");
  EXPECT_EQ(a.type, TensorType::f32);
  EXPECT_EQ(a.shape, (std::vector<std::int64_t>{2, 1}));
  EXPECT_EQ(a.elements(), 2);
  std::vector<float> values(2);
  convert_to_float(a.type, a.bytes, values);  // a starts at an odd address
  EXPECT_EQ(values, (std::vector<float>{1.5f, -2.f}));
  EXPECT_EQ(model.find("c"), nullptr);
  expect_error(kModelFile, "there is no tensor 'c'", [&] { (void)model.at("c"); });
}

TEST(Safetensors, ScalarsAndEmptyTensorsAreLegal) {
  const TemporaryFolder folder;
  const auto model = open_content(
      folder, file_of("{" + entry("empty", "F32", "[0,5]", 0, 0) + "," + entry("scalar", "BF16", "[]", 0, 2) +
                          "," + entry("last", "F4", "[0]", 2, 2) + "}",
                      "\x80\x3F"));
  EXPECT_EQ(model.at("empty").elements(), 0);
  EXPECT_EQ(model.at("scalar").elements(), 1);
  EXPECT_EQ(model.at("scalar").bytes.size(), 2u);
  EXPECT_TRUE(model.contains("last"));
}

TEST(Safetensors, KnowsEveryTypeAndItsSize) {
  const std::vector<std::pair<const char*, int>> types = {
      {"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
      {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"I16", 16},    {"U16", 16},
      {"F16", 16}, {"BF16", 16},   {"I32", 32},    {"U32", 32},    {"F32", 32},
      {"F64", 64}, {"I64", 64},    {"U64", 64},    {"C64", 64},    {"F8_E8M0", 8}};
  for (const auto& [name, bits] : types) {
    const auto type = parse_tensor_type(name);
    ASSERT_TRUE(type) << name;
    EXPECT_STREQ(to_string(*type), name);
    EXPECT_EQ(bits_per_element(*type), bits) << name;
    // Eight elements of b bits are b bytes.
    const TemporaryFolder folder;
    const auto model = open_content(folder, file_of(object_of(entry("t", name, "[2,4]", 0, bits)),
                                                    std::string(static_cast<std::size_t>(bits), 'x')));
    EXPECT_EQ(model.at("t").type, *type);
  }
}

TEST(Safetensors, NamesWhatIsNotASafetensorsFile) {
  expect_refused("the file is empty", "");
  expect_refused("7 bytes are too few", "1234567");
  expect_refused("a Git-LFS pointer of 97 bytes, not the file itself; fetch it with `git lfs pull`",
                 "version https://git-lfs.github.com/spec/v1\noid sha256:0123456789\nsize "
                 "269060552\nxxxxxxxxxxxxxxxx\n");
  expect_refused("a web page (HTML)", "<!DOCTYPE html><html><head><title>404</title></head></html>");
  expect_refused("a zip archive (PyTorch .bin files are such)", "PK\x03\x04 and so on");
  expect_refused("a GGUF file", "GGUF\x03 and so on");
}

TEST(Safetensors, ChecksTheHeaderBeforeItIsParsed) {
  expect_refused("its header would be 9223372036854775808 bytes, above the format's limit of 100000000",
                 little_endian<std::uint64_t>(std::uint64_t{1} << 63) + "{}");
  expect_refused("above the format's limit", little_endian<std::uint64_t>(100'000'001) + "{}");
  expect_refused("truncated: its header has 100000000 bytes, but the file ends after 2",
                 little_endian<std::uint64_t>(100'000'000) + "{}");
  expect_refused("truncated: its header has 3 bytes, but the file ends after 2",
                 little_endian<std::uint64_t>(3) + "{}");
  expect_refused("does not start with '{'", file_of("", ""));
  expect_refused("does not start with '{'", file_of(" {}", ""));
  expect_refused("does not start with '{'", file_of("[]", ""));
  expect_refused("header:1:2: not valid JSON", file_of("{,}", ""));
  expect_refused("not valid JSON", file_of("{}x", ""));
  expect_refused("not valid JSON", file_of("{\"\xFF\":1}", ""));
  expect_refused("nested deeper than 200 levels", file_of("{\"a\":" + std::string(100'000, '['), ""));
  expect_refused("a number is out of range", file_of("{\"a\":1e999}", ""));
}

TEST(Safetensors, ChecksEveryEntry) {
  const std::string payload(8, 'x');
  expect_entry_refused("the key 'a' appears twice",
                       entry("a", "F32", "[1]", 0, 4) + "," + entry("a", "F32", "[1]", 4, 8), payload);
  expect_entry_refused("tensor 'a': its entry lacks one of dtype, shape and data_offsets",
                       R"("a":{"dtype":"F32"})", "");
  expect_entry_refused("its entry lacks", R"("a":3)", "");
  expect_entry_refused("tensor 'a': unknown dtype 'F99'", entry("a", "F99", "[2]", 0, 8), payload);
  expect_entry_refused("its shape is not a list of whole numbers", entry("a", "F32", "[-2]", 0, 8), payload);
  expect_entry_refused("its shape is not a list of whole numbers", entry("a", "F32", "[2.0]", 0, 8), payload);
  expect_entry_refused("its shape is not a list of whole numbers", entry("a", "F32", "2", 0, 8), payload);
  expect_entry_refused("tensor 'a': the size of shape [4294967296, 4294967296] in F32 overflows",
                       entry("a", "F32", "[4294967296,4294967296]", 0, 8), payload);
  expect_entry_refused("overflows or is no whole number of bytes", entry("a", "F4", "[3]", 0, 8), payload);
  expect_entry_refused("its data_offsets are not two ascending whole numbers", entry("a", "F32", "[2]", 8, 0),
                       payload);
  expect_entry_refused("its data_offsets are not two ascending whole numbers",
                       entry("a", "F32", "[2]", -8, 0), payload);
  expect_entry_refused("span 8 bytes, but shape [3] in F32 needs 12", entry("a", "F32", "[3]", 0, 8),
                       payload);
  expect_entry_refused("truncated file: the tensor ends at byte 16 of the payload, which has 8",
                       entry("a", "F32", "[4]", 0, 16), payload);
  expect_entry_refused("__metadata__ is not a map of strings", R"("__metadata__":[1])", "");
  expect_entry_refused("the value of 'n' is not a string", R"("__metadata__":{"n":1})", "");
}

TEST(Safetensors, PayloadIsTiledWithoutHoleOrOverlap) {
  const std::string payload(12, 'x');
  expect_entry_refused("tensor 'b' starts at byte 8 of the payload, leaving a hole after byte 4",
                       entry("a", "F32", "[1]", 0, 4) + "," + entry("b", "F32", "[1]", 8, 12), payload);
  expect_entry_refused("leaving a hole after byte 0", entry("a", "F32", "[2]", 4, 12), payload);
  expect_entry_refused("tensor 'b' starts at byte 4 of the payload, overlapping what ends at byte 8",
                       entry("a", "F32", "[2]", 0, 8) + "," + entry("b", "F32", "[2]", 4, 12), payload);
  expect_entry_refused("overlapping", entry("a", "F32", "[3]", 0, 12) + "," + entry("b", "F32", "[3]", 0, 12),
                       payload);
  expect_entry_refused("4 bytes follow the last tensor, which no tensor owns", entry("a", "F32", "[2]", 0, 8),
                       payload);
  expect_entry_refused("12 bytes follow the last tensor", "", payload);
}

// Two shards with one F32 scalar each, "a" in one.safetensors and "b" in two.safetensors.
void write_shards(const TemporaryFolder& folder) {
  folder.write("one.safetensors", file_of(object_of(entry("a", "F32", "[]", 0, 4)), little_endian(1.f)));
  folder.write("two.safetensors", file_of(object_of(entry("b", "F32", "[]", 0, 4)), little_endian(2.f)));
}

void expect_index_refused(const std::string& words, const std::string& index) {
  const TemporaryFolder folder;
  write_shards(folder);
  folder.write(kSafetensorsIndex, index);
  expect_error(kModelFile, words, [&] { (void)Safetensors::open(folder.path()); });
}

TEST(SafetensorsFolder, ReadsExactlyTheShardsOfTheIndex) {
  const TemporaryFolder folder;
  write_shards(folder);
  folder.write("stray.safetensors", "not even a model");
  folder.write(kSafetensorsFile, "not even a model");
  folder.write(kSafetensorsIndex, R"({"weight_map":{"b":"two.safetensors","a":"one.safetensors"}})");
  const auto model = Safetensors::open(folder.path());
  EXPECT_TRUE(model.indexed());
  ASSERT_EQ(model.tensors().size(), 2u);
  EXPECT_EQ(model.shards()[0].file, "one.safetensors");
  EXPECT_EQ(model.at("b").shard, 1);
}

TEST(SafetensorsFolder, IndexAndShardsMustAgreeBothWays) {
  expect_index_refused("it puts tensor 'c' into 'three.safetensors', which is not in the folder",
                       R"({"weight_map":{"a":"one.safetensors","c":"three.safetensors"}})");
  expect_index_refused(
      "it puts tensor 'c' into 'two.safetensors', whose header does not have it",
      R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors","c":"two.safetensors"}})");
  expect_index_refused("whose header does not have it",
                       R"({"weight_map":{"a":"two.safetensors","b":"one.safetensors"}})");
}

TEST(SafetensorsFolder, EveryTensorOfAShardIsInTheIndex) {
  const TemporaryFolder folder;
  const std::string entries = entry("a", "U8", "[]", 0, 1) + "," + entry("b", "U8", "[]", 1, 2);
  folder.write("one.safetensors", file_of(object_of(entries), "xy"));
  folder.write(kSafetensorsIndex, R"({"weight_map":{"a":"one.safetensors"}})");
  expect_error(kModelFile, "tensor 'b' of 'one.safetensors' is not in it: index and shards do not match",
               [&] { (void)Safetensors::open(folder.path()); });
}

TEST(SafetensorsFolder, IndexIsChecked) {
  expect_index_refused("the key 'a' appears twice",
                       R"({"weight_map":{"a":"one.safetensors","a":"two.safetensors"}})");
  expect_index_refused("has no weight_map", R"({"metadata":{}})");
  expect_index_refused("has no weight_map", "[]");
  expect_index_refused("its weight_map names no tensor", R"({"weight_map":{}})");
  expect_index_refused("the shard of tensor 'a' is not a file name", R"({"weight_map":{"a":1}})");
  expect_index_refused("must be a plain file name, not '../one.safetensors'",
                       R"({"weight_map":{"a":"../one.safetensors"}})");
  expect_index_refused("index.json:1:16: not valid JSON", R"({"weight_map":{])");
  expect_index_refused("a Git-LFS pointer", "version https://git-lfs.github.com/spec/v1\n");
  expect_index_refused("the file is empty", "");
}

TEST(SafetensorsFolder, SameTensorInTwoShardsIsRefused) {
  const TemporaryFolder folder;
  write_shards(folder);
  folder.write("two.safetensors", file_of(object_of(entry("a", "F32", "[]", 0, 4)), little_endian(2.f)));
  folder.write(kSafetensorsIndex, R"({"weight_map":{"a":"one.safetensors","b":"two.safetensors"}})");
  expect_error(kModelFile, "tensor 'a' is in two shards, 'one.safetensors' and 'two.safetensors'",
               [&] { (void)Safetensors::open(folder.path()); });
}

TEST(SafetensorsFolder, SaysWhatIsMissing) {
  const TemporaryFolder folder;
  expect_error(kModelFile, "no such folder",
               [&] { (void)Safetensors::open_folder(folder.path() / "nothing"); });
  expect_error(kModelFile, "no such file", [&] { (void)Safetensors::open(folder.path() / "nothing"); });
  expect_error(kModelFile, "neither model.safetensors nor model.safetensors.index.json is in the folder",
               [&] { (void)Safetensors::open(folder.path()); });
  folder.write("pytorch_model.bin", "x");
  expect_error(kModelFile, "'pytorch_model.bin' would have to be converted first",
               [&] { (void)Safetensors::open(folder.path()); });
  std::filesystem::create_directory(folder.path() / kSafetensorsFile);
  expect_error(kModelFile, "model.safetensors: a folder, where a file is needed",
               [&] { (void)Safetensors::open(folder.path()); });
}

TEST(SafetensorsFolder, ShardsHaveTheNamesOfShards) {
  for (const char* name : {"run.yaml", ".hidden.safetensors", "weights"}) {
    const TemporaryFolder folder;
    folder.write(name, file_of(object_of(entry("a", "F32", "[]", 0, 4)), little_endian(2.f)));
    folder.write(kSafetensorsIndex, std::string(R"({"weight_map":{"a":")") + name + R"("}})");
    expect_error(kModelFile, "a shard's name ends in .safetensors and has no dot in front",
                 [&] { (void)Safetensors::open(folder.path()); });
  }
}

TEST(TensorType, HalfPrecisionRoundsToNearestEven) {
  EXPECT_EQ(float_to_half(1.f), 0x3C00);
  EXPECT_EQ(float_to_half(-2.f), 0xC000);
  EXPECT_EQ(float_to_half(65504.f), 0x7BFF);  // the largest finite
  EXPECT_EQ(float_to_half(65519.f), 0x7BFF);
  EXPECT_EQ(float_to_half(65520.f), 0x7C00);  // half-way to 65536 goes to infinity
  EXPECT_EQ(float_to_half(0x1.0p-24f), 0x0001);
  EXPECT_EQ(float_to_half(0x1.0p-25f), 0x0000);  // tie to even
  EXPECT_EQ(float_to_half(0x1.8p-24f), 0x0002);  // tie to even
  EXPECT_EQ(float_to_half(1.f + 0x1.0p-11f), 0x3C00);
  EXPECT_EQ(float_to_half(1.f + 0x1.8p-10f), 0x3C02);
  EXPECT_EQ(half_to_float(0x3555), 0.333251953125f);
  EXPECT_EQ(half_to_float(0x03FF), 0x1.FF8p-15f);
}

TEST(TensorType, EveryHalfSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const bool nan = (half & 0x7C00u) == 0x7C00u && (half & 0x3FFu) != 0;
    if (nan) {
      ASSERT_NE(half_to_float(half), half_to_float(half));
    } else {
      ASSERT_EQ(float_to_half(half_to_float(half)), half);
    }
  }
}

TEST(TensorType, IntegersCannotBeTrained) {
  std::vector<float> out(1);
  const std::vector<std::byte> bytes(1);
  expect_error(kModelFile, "tensors of type F8_E4M3 cannot be trained",
               [&] { convert_to_float(TensorType::f8_e4m3, bytes, out); });
}

TEST(SafetensorsMutations, NeverCrash) {
  const std::string small = file_of(
      object_of(entry("a", "F32", "[2]", 0, 8) + "," + entry("b", "U8", "[4]", 8, 12)), std::string(12, 'x'));
  const std::string other =
      file_of(R"({"__metadata__":{"format":"pt"},)" + entry("w", "BF16", "[2,3]", 0, 12) + "}  ",
              std::string(12, 'y'));
  const std::vector<std::string> tokens = {"{",
                                           "}",
                                           "[",
                                           "]",
                                           "\"",
                                           ":",
                                           ",",
                                           "-1",
                                           "18446744073709551615",
                                           "1e999",
                                           "9223372036854775807",
                                           "null",
                                           "F64",
                                           "F4",
                                           "\\u0000",
                                           "__metadata__",
                                           "data_offsets",
                                           "shape",
                                           "dtype",
                                           "\"a\"",
                                           "4294967296,4294967296"};
  const int accepted = read_mutations({small, other}, tokens, [](const std::filesystem::path& path) {
    const auto model = Safetensors::open_file(path);
    for (const TensorView& tensor : model.tensors()) {
      unsigned sum = 0;
      for (const std::byte byte : tensor.bytes) sum += static_cast<unsigned>(byte);
      ASSERT_LE(sum, 255u * tensor.bytes.size());
    }
  });
  EXPECT_GT(accepted, 50);
}

}  // namespace
}  // namespace lazytrain
