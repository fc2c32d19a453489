#include "formats/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "formats/formats_support.h"
#include "formats/tensor_type.h"

namespace lazytrain {
namespace {

constexpr auto kModelFile = ExitCode::model_file;
enum ValueType : std::uint32_t { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };

std::string text(std::string_view content) {
  return little_endian<std::uint64_t>(content.size()) + std::string(content);
}

std::string pair(std::string_view key, std::uint32_t type, const std::string& value) {
  return text(key) + little_endian(type) + value;
}

std::string array_pair(std::string_view key, std::uint32_t type, std::uint64_t count,
                       const std::string& values) {
  return pair(key, array, little_endian(type) + little_endian(count) + values);
}

// Sizes in the file's order: fastest first.
std::string tensor(std::string_view name, std::vector<std::uint64_t> sizes, std::uint32_t type,
                   std::uint64_t offset) {
  std::string entry = text(name) + little_endian(static_cast<std::uint32_t>(sizes.size()));
  for (const std::uint64_t size : sizes) entry += little_endian(size);
  return entry + little_endian(type) + little_endian(offset);
}

std::string file_of(const std::vector<std::string>& pairs, const std::vector<std::string>& tensors,
                    const std::string& payload, std::uint32_t version = 3, std::uint64_t alignment = 32) {
  std::string file = "GGUF" + little_endian(version) + little_endian<std::uint64_t>(tensors.size()) +
                     little_endian<std::uint64_t>(pairs.size());
  for (const auto& item : pairs) file += item;
  for (const auto& item : tensors) file += item;
  file.resize((file.size() + alignment - 1) / alignment * alignment);
  return file + payload;
}

void expect_refused(const std::string& words, const std::string& content) {
  const TemporaryFolder folder;
  const auto path = folder.write("model.gguf", content);
  expect_error(kModelFile, words, [&] { const Gguf file(path); });
  expect_error(kModelFile, path.string(), [&] { const Gguf file(path); });
}

void expect_pairs_refused(const std::string& words, const std::vector<std::string>& pairs) {
  expect_refused(words, file_of(pairs, {}, ""));
}

std::vector<float> values_of(const std::string& payload, std::vector<std::uint64_t> sizes,
                             std::uint32_t type) {
  const TemporaryFolder folder;
  const Gguf file(folder.write("model.gguf", file_of({}, {tensor("t", std::move(sizes), type, 0)}, payload)));
  std::vector<float> values(static_cast<std::size_t>(file.at("t").elements()));
  dequantize(file.at("t"), values);
  return values;
}

TEST(Gguf, GivesMetadataByKeyAndType) {
  const TemporaryFolder folder;
  const std::vector<std::string> pairs = {
      pair("u8", u8, "\xFF"),
      pair("i8", i8, "\xFF"),
      pair("u16", u16, "\x01\x02"),
      pair("i16", i16, "\xFE\xFF"),
      pair("u32", u32, little_endian<std::uint32_t>(4'000'000'000)),
      pair("i32", i32, little_endian<std::int32_t>(-7)),
      pair("u64", u64, little_endian<std::uint64_t>(5)),
      pair("huge", u64, little_endian<std::uint64_t>(~0ull)),
      pair("i64", i64, little_endian<std::int64_t>(-9)),
      pair("f32", f32, little_endian(1e-5f)),
      pair("f64", f64, little_endian(0.5)),
      pair("yes", boolean, "\x01"),
      pair("name", string, text("llama")),
      array_pair("tokens", string, 3, text("a") + text("") + text("\xFF\xFE")),
      array_pair("types", i32, 2, little_endian<std::int32_t>(1) + little_endian<std::int32_t>(-3)),
      array_pair("scores", f32, 2, little_endian(0.25f) + little_endian(-1.f)),
      array_pair("empty", string, 0, ""),
      array_pair("nested", array, 1,
                 little_endian<std::uint32_t>(u8) + little_endian<std::uint64_t>(2) + "xy")};
  for (const std::uint32_t version : {2u, 3u}) {
    const Gguf file(folder.write("model.gguf", file_of(pairs, {}, "", version)));
    EXPECT_EQ(file.version(), version);
    EXPECT_EQ(file.alignment(), 32u);
    EXPECT_EQ(file.keys().size(), pairs.size());
    EXPECT_EQ(file.keys()[0], "u8");
    EXPECT_EQ(file.get_u32("u8"), 255u);
    EXPECT_EQ(file.get_i64("i8"), -1);
    EXPECT_EQ(file.get_u32("u16"), 0x0201u);
    EXPECT_EQ(file.get_i64("i16"), -2);
    EXPECT_EQ(file.get_u32("u32"), 4'000'000'000u);
    EXPECT_EQ(file.get_i64("i32"), -7);
    EXPECT_EQ(file.get_u32("u64"), 5u);
    EXPECT_EQ(file.get_i64("i64"), -9);
    EXPECT_EQ(file.get_f32("f32"), 1e-5f);
    EXPECT_EQ(file.get_f32("f64"), 0.5f);
    EXPECT_TRUE(file.get_bool("yes"));
    EXPECT_EQ(file.get_string("name"), "llama");
    EXPECT_THAT(file.get_strings("tokens"), testing::ElementsAre("a", "", "\xFF\xFE"));
    EXPECT_THAT(file.get_ints("types"), testing::ElementsAre(1, -3));
    EXPECT_THAT(file.get_floats("scores"), testing::ElementsAre(0.25f, -1.f));
    EXPECT_TRUE(file.get_strings("empty").empty());
    EXPECT_EQ(file.type_of("nested"), "array of array");
    EXPECT_FALSE(file.has("absent"));
    EXPECT_EQ(file.find_u32("absent"), std::nullopt);
    EXPECT_EQ(file.find_string("name"), "llama");

    const std::string where = folder.path().string() + "/model.gguf: ";
    expect_error(kModelFile, where + "the metadata key 'absent' is missing",
                 [&] { (void)file.get_u32("absent"); });
    expect_error(kModelFile, "the metadata key 'name' should be an integer within 64 bits, but is string",
                 [&] { (void)file.find_u32("name"); });
    expect_error(kModelFile, "should be an integer within 64 bits, but is u64",
                 [&] { (void)file.get_i64("huge"); });
    expect_error(kModelFile, "the metadata key 'i32' is -7, outside of what 32 bits without sign hold",
                 [&] { (void)file.get_u32("i32"); });
    expect_error(kModelFile, "should be a floating-point number, but is u32",
                 [&] { (void)file.get_f32("u32"); });
    expect_error(kModelFile, "should be a bool, but is u8", [&] { (void)file.get_bool("u8"); });
    expect_error(kModelFile, "should be a string, but is array of string",
                 [&] { (void)file.get_string("tokens"); });
    expect_error(kModelFile, "should be an array of strings, but is array of i32",
                 [&] { (void)file.get_strings("types"); });
    expect_error(kModelFile, "should be an array of integers", [&] { (void)file.get_ints("scores"); });
    expect_error(kModelFile, "should be an array of floating-point numbers, but is f32",
                 [&] { (void)file.get_floats("f32"); });
  }
}

TEST(Gguf, ShapesAreRowMajor) {
  const TemporaryFolder folder;
  const std::string payload = std::string(64, '\0');
  const Gguf file(
      folder.write("model.gguf", file_of({}, {tensor("a", {3, 2}, 0, 32), tensor("b", {4}, 1, 0)}, payload)));
  EXPECT_EQ(file.tensors()[0].shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(file.at("a").row_length(), 3);
  EXPECT_EQ(file.at("a").rows(), 2);
  EXPECT_EQ(file.at("b").rows(), 1);
  EXPECT_EQ(file.at("b").type, GgufType::f16);
  EXPECT_EQ(file.find("c"), nullptr);
  expect_error(kModelFile, "there is no tensor 'c'", [&] { (void)file.at("c"); });
}

TEST(Gguf, AlignmentIsTheFilesOwn) {
  const TemporaryFolder folder;
  const auto alignment = pair("general.alignment", u32, little_endian<std::uint32_t>(64));
  const Gguf file(folder.write("model.gguf", file_of({alignment}, {tensor("a", {1}, 0, 64)},
                                                     std::string(64, '\0') + little_endian(2.5f), 3, 64)));
  std::vector<float> value(1);
  dequantize(file.at("a"), value);
  EXPECT_EQ(value[0], 2.5f);
}

TEST(GgufTypes, PlainTypes) {
  EXPECT_THAT(values_of(little_endian(1.5f) + little_endian(-3.f), {2}, 0), testing::ElementsAre(1.5f, -3.f));
  EXPECT_THAT(values_of(std::string("\x00\x3C\x00\xC0", 4), {2}, 1), testing::ElementsAre(1.f, -2.f));
  EXPECT_THAT(values_of(std::string("\x80\x3F\x40\xC0", 4), {1, 2}, 30), testing::ElementsAre(1.f, -3.f));
}

// Nibbles: byte i = low i mod 16, high 15 - i mod 16. Scale 0.5 = 0x3800, minimum -2 = 0xC000.
std::string ramp_nibbles() {
  std::string bytes;
  for (int i = 0; i < 16; ++i) bytes += static_cast<char>(i | ((15 - i) << 4));
  return bytes;
}

TEST(GgufTypes, Q4_0IsScaleTimesNibbleMinusEight) {
  const auto values = values_of(std::string("\x00\x38", 2) + ramp_nibbles(), {32}, 2);
  EXPECT_EQ(values[0], -4.f);   // (0 - 8) * 0.5
  EXPECT_EQ(values[15], 3.5f);  // (15 - 8) * 0.5
  EXPECT_EQ(values[16], 3.5f);
  EXPECT_EQ(values[31], -4.f);
  EXPECT_EQ(values[9], 0.5f);
}

TEST(GgufTypes, Q4_1IsScaleTimesNibblePlusMinimum) {
  const auto values = values_of(std::string("\x00\x38\x00\xC0", 4) + ramp_nibbles(), {32}, 3);
  EXPECT_EQ(values[0], -2.f);
  EXPECT_EQ(values[15], 5.5f);
  EXPECT_EQ(values[16], 5.5f);
  EXPECT_EQ(values[31], -2.f);
  EXPECT_EQ(values[3], -0.5f);
}

TEST(GgufTypes, Q8_0IsScaleTimesSignedByte) {
  std::string bytes("\x00\x38", 2);
  for (int i = 0; i < 32; ++i) bytes += static_cast<char>(i - 16);
  const auto values = values_of(bytes, {32}, 8);
  EXPECT_EQ(values[0], -8.f);
  EXPECT_EQ(values[16], 0.f);
  EXPECT_EQ(values[31], 7.5f);
}

// Fifth bits: values 1 and 20 have one (bits 1 and 20: 0x00100002).
TEST(GgufTypes, Q5_0IsScaleTimesFiveBitsMinusSixteen) {
  const auto values =
      values_of(std::string("\x00\x38", 2) + std::string("\x02\x00\x10\x00", 4) + ramp_nibbles(), {32}, 6);
  EXPECT_EQ(values[0], -8.f);    // (0 - 16) * 0.5
  EXPECT_EQ(values[1], 0.5f);    // (1 + 16 - 16) * 0.5
  EXPECT_EQ(values[15], -0.5f);  // (15 - 16) * 0.5
  EXPECT_EQ(values[16], -0.5f);  // high nibble of byte 0: 15
  EXPECT_EQ(values[20], 5.5f);   // high nibble of byte 4: 11; (11 + 16 - 16) * 0.5
  EXPECT_EQ(values[31], -8.f);
}

TEST(GgufTypes, Q5_1IsScaleTimesFiveBitsPlusMinimum) {
  const auto values = values_of(
      std::string("\x00\x38\x00\xC0", 4) + std::string("\x02\x00\x10\x00", 4) + ramp_nibbles(), {32}, 7);
  EXPECT_EQ(values[0], -2.f);
  EXPECT_EQ(values[1], 6.5f);    // (1 + 16) * 0.5 - 2
  EXPECT_EQ(values[15], 5.5f);   // 15 * 0.5 - 2
  EXPECT_EQ(values[20], 11.5f);  // (11 + 16) * 0.5 - 2
  EXPECT_EQ(values[31], -2.f);
}

// Eight scales 1, 2, 3, 4, 17, 34, 51, 63 and minimums 5, 6, 7, 8, 32, 49, 1, 62 as six bits in twelve bytes:
// bytes 0-3 the first scales, with the upper two bits of scales 4-7 (1, 2, 3, 3) on top; bytes 4-7 the first
// minimums, with those of minimums 4-7 (2, 3, 0, 3); bytes 8-11 the lower four bits of both.
std::string packed_scales() {
  return {static_cast<char>(1 | 1 << 6),       static_cast<char>(2 | 2 << 6),
          static_cast<char>(3 | 3 << 6),       static_cast<char>(4 | 3 << 6),
          static_cast<char>(5 | 2 << 6),       static_cast<char>(6 | 3 << 6),
          static_cast<char>(7 | 0 << 6),       static_cast<char>(8 | 3 << 6),
          static_cast<char>(17 % 16 | 0 << 4), static_cast<char>(34 % 16 | 1 << 4),
          static_cast<char>(51 % 16 | 1 << 4), static_cast<char>(63 % 16 | 14 << 4)};
}

// 128 bytes of nibbles: byte i has low i mod 16 and high 15 - i mod 16.
std::string ramp_of_128() {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += ramp_nibbles();
  return bytes;
}

// Scale 0.5, minimum 2 (0x4000). Sub-block s has low nibbles where s is even and high ones where it is odd,
// of the 32 bytes from s / 2 * 32 on.
TEST(GgufTypes, Q4_KScalesEachSubBlock) {
  const auto values =
      values_of(std::string("\x00\x38\x00\x40", 4) + packed_scales() + ramp_of_128(), {256}, 12);
  EXPECT_EQ(values[0], -10.f);         // 0.5 * 1 * 0 - 2 * 5
  EXPECT_EQ(values[3], -8.5f);         // 0.5 * 1 * 3 - 10
  EXPECT_EQ(values[32], 3.f);          // 0.5 * 2 * 15 - 2 * 6
  EXPECT_EQ(values[64 + 2], -11.f);    // 0.5 * 3 * 2 - 2 * 7
  EXPECT_EQ(values[96 + 15], -16.f);   // 0.5 * 4 * 0 - 2 * 8
  EXPECT_EQ(values[128 + 1], -55.5f);  // 0.5 * 17 * 1 - 2 * 32
  EXPECT_EQ(values[160 + 5], 72.f);    // 0.5 * 34 * 10 - 2 * 49
  EXPECT_EQ(values[192 + 16], -2.f);   // 0.5 * 51 * 0 - 2 * 1
  EXPECT_EQ(values[255], -124.f);      // 0.5 * 63 * 0 - 2 * 62
}

// The fifth bits: byte i of 32 has the bit of sub-block s at s. Byte 0 is 0x81 (sub-blocks 0 and 7), byte 5
// 0x20 (sub-block 5), the others 0.
TEST(GgufTypes, Q5_KAddsAFifthBit) {
  std::string fifth(32, '\0');
  fifth[0] = static_cast<char>(0x81);
  fifth[5] = 0x20;
  const auto values =
      values_of(std::string("\x00\x38\x00\x40", 4) + packed_scales() + fifth + ramp_of_128(), {256}, 13);
  EXPECT_EQ(values[0], -2.f);          // 0.5 * 1 * 16 - 2 * 5
  EXPECT_EQ(values[3], -8.5f);         // as before
  EXPECT_EQ(values[128], -64.f);       // 0.5 * 17 * 0 - 2 * 32
  EXPECT_EQ(values[160 + 5], 344.f);   // 0.5 * 34 * 26 - 2 * 49
  EXPECT_EQ(values[192 + 5], 125.5f);  // 0.5 * 51 * 5 - 2 * 1
  EXPECT_EQ(values[224], 852.5f);      // 0.5 * 63 * 31 - 2 * 62
}

// Lower bits as above. Upper pairs: byte 0 of the first half is 0xE4: 0, 1, 2, 3 for values 0, 32, 64, 96;
// byte 1 of the second half 0x03: 3 for value 129; all others 0. Scales 1 to 16, the ninth -9; scale of all
// 0.5.
TEST(GgufTypes, Q6_KIsSixBitsMinus32) {
  std::string upper(64, '\0'), scales;
  upper[0] = static_cast<char>(0xE4);
  upper[33] = 0x03;
  for (int i = 1; i <= 16; ++i) scales += static_cast<char>(i == 9 ? -9 : i);
  const auto values = values_of(ramp_of_128() + upper + scales + std::string("\x00\x38", 2), {256}, 14);
  EXPECT_EQ(values[0], -16.f);     // 0.5 * 1 * (0 - 32)
  EXPECT_EQ(values[1], -15.5f);    // 0.5 * 1 * (1 - 32)
  EXPECT_EQ(values[16], -32.f);    // 0.5 * 2 * (0 - 32)
  EXPECT_EQ(values[32], -24.f);    // 0.5 * 3 * (0 + 16 - 32)
  EXPECT_EQ(values[64], 37.5f);    // high nibble 15: 0.5 * 5 * (15 + 32 - 32)
  EXPECT_EQ(values[96], 108.5f);   // 0.5 * 7 * (15 + 48 - 32)
  EXPECT_EQ(values[128], 144.f);   // 0.5 * -9 * (0 - 32)
  EXPECT_EQ(values[129], -76.5f);  // 0.5 * -9 * (1 + 48 - 32)
  EXPECT_EQ(values[255], -256.f);  // 0.5 * 16 * (0 - 32)
}

TEST(GgufTypes, RowsCanBeTakenOneByOne) {
  const TemporaryFolder folder;
  std::string payload;
  for (int row = 0; row < 3; ++row)
    payload += std::string("\x00\x3C", 2) + std::string(32, static_cast<char>(row));
  const Gguf file(folder.write("model.gguf", file_of({}, {tensor("t", {32, 3}, 8, 0)}, payload)));
  std::vector<float> rows(64);
  dequantize_rows(file.at("t"), 1, 2, rows);
  EXPECT_EQ(rows[0], 1.f);
  EXPECT_EQ(rows[63], 2.f);
  EXPECT_THROW(dequantize_rows(file.at("t"), 2, 2, rows), std::logic_error);
}

TEST(GgufTypes, OthersAreRefusedByName) {
  const auto with_type = [](std::uint32_t type) {
    return file_of({}, {tensor("w", {256}, type, 0)}, std::string(2048, 0));
  };
  expect_refused(
      "tensor 'w' has the type Q2_K, which is not read; F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K, "
      "Q5_K and Q6_K are: get one of these",
      with_type(10));
  expect_refused("Q3_K", with_type(11));
  expect_refused("MXFP4", with_type(39));
  expect_refused("unknown (number 4)", with_type(4));
  expect_refused("unknown (number 1000)", with_type(1000));
}

TEST(GgufErrors, StartOfTheFile) {
  expect_refused("the file is empty", "");
  expect_refused("not a GGUF file", "GGML and more");
  expect_refused("the magic number needs 4 bytes at byte 0, but the file ends at 3", "GGU");
  expect_refused("a Git-LFS pointer", "version https://git-lfs.github.com/spec/v1\n");
  expect_refused("GGUF version 1; versions 2 and 3 are read", file_of({}, {}, "", 1));
  expect_refused("GGUF version 4", file_of({}, {}, "", 4));
  expect_refused("a big-endian GGUF file", file_of({}, {}, "", 3u << 24));
  expect_refused("the number of tensors needs 8 bytes", "GGUF" + little_endian<std::uint32_t>(3));
  expect_error(kModelFile, "no such file", [] { const Gguf file("nothing.gguf"); });
}

TEST(GgufErrors, Metadata) {
  const std::string start = "GGUF" + little_endian<std::uint32_t>(3) + little_endian<std::uint64_t>(0);
  expect_refused("a metadata key needs 8 bytes", start + little_endian<std::uint64_t>(~0ull));
  expect_refused("a metadata key needs 18446744073709551615 bytes",
                 start + little_endian<std::uint64_t>(1) + little_endian<std::uint64_t>(~0ull) + "key");
  expect_pairs_refused("metadata key 'k' has the unknown type 13", {pair("k", 13, "")});
  expect_pairs_refused("metadata key 'k' appears twice", {pair("k", u8, "x"), pair("k", u8, "x")});
  expect_pairs_refused(
      "metadata key 'k' claims 4611686018427387904 values, more than the rest of the file can hold",
      {array_pair("k", u32, 1ull << 62, "")});
  expect_pairs_refused("metadata key 'k' claims 18446744073709551615 values",
                       {array_pair("k", string, ~0ull, "")});
  std::string nest = little_endian<std::uint32_t>(u8) + little_endian<std::uint64_t>(0);
  for (int i = 0; i < 6; ++i)
    nest = little_endian<std::uint32_t>(array) + little_endian<std::uint64_t>(1) + nest;
  expect_pairs_refused("arrays are nested deeper than 4", {pair("k", array, nest)});
  expect_pairs_refused("one of several parts of a model",
                       {pair("split.count", u16, std::string("\x02\x00", 2))});
  expect_pairs_refused("general.alignment is not a u32 power of two",
                       {pair("general.alignment", u32, little_endian<std::uint32_t>(0))});
  expect_pairs_refused("general.alignment is not a u32 power of two",
                       {pair("general.alignment", string, text("32"))});
}

TEST(GgufErrors, Tensors) {
  const auto refuse = [](const std::string& words, const std::vector<std::string>& tensors) {
    expect_refused(words, file_of({}, tensors, std::string(64, '\0')));
  };
  refuse("tensor 'a' appears twice", {tensor("a", {4}, 0, 0), tensor("a", {4}, 0, 32)});
  refuse("tensor 'a' has 0 dimensions", {tensor("a", {}, 0, 0)});
  refuse("tensor 'a' has 5 dimensions", {tensor("a", {1, 1, 1, 1, 1}, 0, 0)});
  refuse("its size overflows", {tensor("a", {~0ull}, 0, 0)});
  refuse("tensor 'a': the size of shape [4294967296, 4294967296] overflows",
         {tensor("a", {1ull << 32, 1ull << 32}, 0, 0)});
  refuse("tensor 'a': rows of 16 values do not consist of Q4_0 blocks of 32", {tensor("a", {16, 2}, 2, 0)});
  refuse("tensor 'a': its offset 4 is not a multiple of the alignment 32", {tensor("a", {4}, 0, 4)});
  refuse("truncated: tensor 'a' needs 128 bytes at byte 0 of the payload, which has 64",
         {tensor("a", {32}, 0, 0)});
  refuse("truncated: tensor 'a'", {tensor("a", {4}, 0, ~0ull - 31)});
  refuse("tensors 'a' and 'b' overlap", {tensor("b", {4}, 0, 32), tensor("a", {16}, 0, 0)});
  const std::string whole = file_of({}, {tensor("a", {4}, 0, 0)}, "");
  expect_refused("truncated or damaged: tensor 'a' needs 8 bytes", whole.substr(0, 24 + 9 + 4 + 5));
}

TEST(GgufMutations, NeverCrash) {
  const std::string small = file_of(
      {pair("general.architecture", string, text("llama")), pair("llama.block_count", u32, little_endian(2u)),
       array_pair("tokens", string, 2, text("a") + text("bc")),
       array_pair("types", i32, 1, little_endian(1))},
      {tensor("a", {32, 2}, 3, 0), tensor("b", {32}, 8, 64), tensor("c", {4}, 0, 128)},
      std::string(160, 'x'));
  const std::vector<std::string> tokens = {
      text(""),          text("general.alignment"),        little_endian(9u),
      little_endian(8u), little_endian<std::uint64_t>(32), little_endian(30u)};
  const int accepted = read_mutations({small}, tokens, [](const std::filesystem::path& path) {
    const Gguf file(path);
    std::vector<float> values;
    for (const GgufTensor& item : file.tensors()) {
      ASSERT_LE(item.elements(), 10'000);
      values.resize(static_cast<std::size_t>(item.elements()));
      dequantize(item, values);
    }
    if (file.has("tokens")) (void)file.get_strings("tokens");
    if (file.has("types")) (void)file.get_ints("types");
    (void)file.find_string("general.architecture");
    (void)file.find_u32("llama.block_count");
  });
  EXPECT_GT(accepted, 50);
}

}  // namespace
}  // namespace lazytrain
