// Rotary position embedding: inverse frequencies and the cosine/sine tables that the Rope kernel indexes.
// angle = fp32(position) * fp32(inverse frequency), rounded to fp32 before cos/sin, as transformers does
// (exact angles differ by 4e-4 relative at position 20,000). llama3 scaling: wavelength w = 2 pi / f;
// w > original/low: f / factor; w < original/high: f; between: linear blend with
// t = (original/w - low) / (high - low), f' = (1 - t) f / factor + t f.
#pragma once

#include <span>
#include <vector>

#include "model/architecture.h"

namespace lazytrain {

std::vector<float> inverse_frequencies(const RopeConfig& rope, std::int64_t head_dim);

// cosine and sine, each [positions, head_dim / 2], for positions 0 .. positions-1.
void fill_rope_tables(const RopeConfig& rope, std::int64_t head_dim, std::int64_t positions,
                      std::span<float> cosine, std::span<float> sine);

}  // namespace lazytrain
