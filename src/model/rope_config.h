// The rotary embedding's settings in config.json, in both spellings: rope_theta with rope_scaling (as most
// published checkpoints have it) and rope_parameters (transformers 5).
#pragma once

#include "model/architecture.h"
#include "model/config_reader.h"

namespace lazytrain {

// Rope types other than default and llama3, settings per layer type and partial rotation are refused by name;
// so are two spellings in one file that disagree.
RopeConfig read_rope(const ConfigReader& config);

}  // namespace lazytrain
