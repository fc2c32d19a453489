// Rotary position embedding: inverse frequencies and the cosine/sine tables that the Rope kernel indexes.
// angle = fp32(position) * fp32(inverse frequency), rounded to fp32 before cos/sin, as transformers does
// (exact angles differ by 4e-4 relative at position 20,000). With f_i = theta^(-2 i / d):
//   linear   f / factor (kaiokendev, 2023)
//   dynamic  theta' = theta (factor L / M - factor + 1)^(d / (d - 2)), M = original positions, L = the length
//   of
//            the sequence where it is above M, else M ("dynamic NTK", 2023). Nothing changes up to M
//            positions, which prompts and documents keep to; a token generated beyond them turns as a
//            sequence of its length.
//   llama3   wavelength w = 2 pi / f; w > original/low: f / factor; w < original/high: f; between: linear
//   blend
//            with t = (original/w - low) / (high - low), f' = (1 - t) f / factor + t f
//   yarn     channel c(r) = d ln(original / (2 pi r)) / (2 ln theta) turns r times within the original
//   positions;
//            from low = floor c(beta_fast) to high = ceil c(beta_slow), both cut to [0, d - 1], f goes over
//            to f / factor; cosine and sine are multiplied by attention_factor (B. Peng et al., 2023)
#pragma once

#include <span>
#include <vector>

#include "model/architecture.h"

namespace lazytrain {

// `length`: tokens of the sequence; only dynamic scaling depends on it.
std::vector<float> inverse_frequencies(const RopeConfig& rope, std::int64_t head_dim,
                                       std::int64_t length = 0);

// cosine and sine, each [positions, head_dim / 2], for positions 0 .. positions-1.
void fill_rope_tables(const RopeConfig& rope, std::int64_t head_dim, std::int64_t positions,
                      std::span<float> cosine, std::span<float> sine);

}  // namespace lazytrain
