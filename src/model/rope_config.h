// The rotary embedding's settings in config.json, in both spellings: rope_theta with rope_scaling (as most
// published checkpoints have it) and rope_parameters (transformers 5).
#pragma once

#include "model/architecture.h"
#include "model/config_reader.h"

namespace lazytrain {

// Types: default, linear, dynamic, yarn and llama3, under "rope_type" or the older "type", flat or in one
// object for each layer type. Other types, layer types that differ and partial rotation are refused by name;
// so are two spellings in one file that disagree. `max_position`: max_position_embeddings.
RopeConfig read_rope(const ConfigReader& config, std::int64_t max_position);

}  // namespace lazytrain
