// The tokenizer inside a GGUF file as Hugging Face's JSON files.
#pragma once

#include <filesystem>

#include "formats/gguf.h"

namespace lazytrain {

// Writes tokenizer.json, tokenizer_config.json (with the chat template) and special_tokens_map.json into
// `folder`. Byte-level BPE ("gpt2") with the pre-tokenizers smollm, gpt-2, llama-bpe and qwen2, and
// sentencepiece's BPE by scores ("llama"); others are refused by name.
void write_gguf_tokenizer(const Gguf& file, const std::filesystem::path& folder);

}  // namespace lazytrain
