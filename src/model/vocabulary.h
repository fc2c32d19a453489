// The vocabulary in blocks: how the head's sums over the vocabulary are cut, so that a head that is computed
// in slices, each as many whole blocks, has the bits of one computed whole.
#pragma once

#include <algorithm>
#include <cstdint>

namespace lazytrain {

// Blocks of every vocabulary but the smallest. Sixteen slices are small enough for any device, and products
// in sixteen blocks are a tenth faster than whole ones, whose weights leave the cache: 635 ms against 702 ms
// for the three of 256 rows with 49,152 x 576 (bench/device_bench, gemm/bf16/.../1x256; two busy cores,
// AVX2).
inline constexpr std::int64_t kVocabularyBlocks = 16;

// Tokens of a block, the last one's may be fewer: a multiple of 16.
constexpr std::int64_t vocabulary_block(std::int64_t vocab) {
  const std::int64_t part = (vocab + kVocabularyBlocks - 1) / kVocabularyBlocks;
  return (part + 15) / 16 * 16;
}
constexpr std::int64_t vocabulary_blocks(std::int64_t vocab) {
  return (vocab + vocabulary_block(vocab) - 1) / vocabulary_block(vocab);
}

// Whole blocks [block, end_block) and their tokens [first, first + tokens).
struct VocabularySlice {
  std::int64_t block = 0, end_block = 0, first = 0, tokens = 0;
};

// Slice `index` of `slices`, which are about equal; at most vocabulary_blocks(vocab).
constexpr VocabularySlice vocabulary_slice(std::int64_t vocab, std::int64_t index, std::int64_t slices) {
  const std::int64_t blocks = vocabulary_blocks(vocab), size = vocabulary_block(vocab);
  VocabularySlice slice{.block = blocks * index / slices, .end_block = blocks * (index + 1) / slices};
  slice.first = slice.block * size;
  slice.tokens = std::min(vocab, slice.end_block * size) - slice.first;
  return slice;
}
constexpr VocabularySlice whole_vocabulary(std::int64_t vocab) {
  return vocabulary_slice(vocab, 0, 1);
}

}  // namespace lazytrain
