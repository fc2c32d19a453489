// One block of 256 moments between codes and floats, per instruction set: the inner loops of the 8-bit sweep
// (optim/adamw.cpp). The codes are those of optim/eight_bit_codes.h; every version gives their bits.
#pragma once

#include <cstdint>

namespace lazytrain {

inline constexpr std::int64_t kStateBlock = 256;

// What a block's codes are multiples of: the largest |exp_avg| and the largest root of exp_avg_sq in it.
struct BlockScale {
  float exp_avg = 0;
  float root = 0;
};

// The codes of a block, 256 of each moment.
struct BlockCodes {
  std::uint8_t* exp_avg = nullptr;  // signed codes
  std::uint8_t* root = nullptr;     // unsigned codes
};

// `exp_avg` and `root` are 256 floats each, aligned to 64 bytes: code value * scale.
void decode_block_baseline(BlockCodes codes, BlockScale scale, float* exp_avg, float* root);
void decode_block_avx2(BlockCodes codes, BlockScale scale, float* exp_avg, float* root);
void decode_block_avx512(BlockCodes codes, BlockScale scale, float* exp_avg, float* root);

// The codes nearest to value * inverse_scale; `inverse_scale` = 0 gives the codes of zero.
void encode_block_baseline(const float* exp_avg, const float* root, BlockScale inverse_scale,
                           BlockCodes codes);
void encode_block_avx2(const float* exp_avg, const float* root, BlockScale inverse_scale, BlockCodes codes);
void encode_block_avx512(const float* exp_avg, const float* root, BlockScale inverse_scale, BlockCodes codes);

}  // namespace lazytrain
