#!/usr/bin/env python3
"""A model with random weights (normal, 0.02) and a byte-level tokenizer, to train from scratch.

make_random_model.py --out FOLDER [--family llama|mistral|qwen2|qwen3] [--hidden 256 --layers 6 --ffn 688 --heads 4
                     --kv-heads 4 --head-dim 64 --vocab 300 --seed 1] [--tied] [--bf16] [--spelling 4|5]

A model of more than 8 million parameters repeats one million random numbers, each matrix from another place on.
"""

import argparse
import array
import json
import pathlib
import random
import struct
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests" / "apps"))
import tiny_run  # the tokenizer of the tests: 3 special tokens, all bytes, a few merges

LEAST_VOCAB = 300  # what the tokenizer has
POOL = 1_000_003  # prime, so that rows do not repeat in step with a width


FAMILIES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
            "qwen3": "Qwen3ForCausalLM"}


def tensors(options):
    hidden, ffn, vocab = options.hidden, options.ffn, options.vocab
    head = options.head_dim or hidden // options.heads
    queries, width = head * options.heads, head * options.kv_heads
    yield "model.embed_tokens.weight", (vocab, hidden)
    for layer in range(options.layers):
        name = f"model.layers.{layer}."
        yield name + "input_layernorm.weight", (hidden,)
        for part, rows in (("q_proj", queries), ("k_proj", width), ("v_proj", width)):
            yield f"{name}self_attn.{part}.weight", (rows, hidden)
            if options.family == "qwen2":
                yield f"{name}self_attn.{part}.bias", (rows,)
        if options.family == "qwen3":
            yield name + "self_attn.q_norm.weight", (head,)
            yield name + "self_attn.k_norm.weight", (head,)
        yield name + "self_attn.o_proj.weight", (hidden, queries)
        yield name + "post_attention_layernorm.weight", (hidden,)
        yield name + "mlp.gate_proj.weight", (ffn, hidden)
        yield name + "mlp.up_proj.weight", (ffn, hidden)
        yield name + "mlp.down_proj.weight", (hidden, ffn)
    yield "model.norm.weight", (hidden,)
    if not options.tied:
        yield "lm_head.weight", (vocab, hidden)


class Normals:
    """Normal numbers: fresh ones for a small model, of a pool for a large one, where drawing them would take minutes."""

    def __init__(self, seed, total):
        self.rng = random.Random(seed)
        self.pool = array.array("f", self.draw(POOL)) if total > 8 * POOL else None

    def draw(self, count):
        return (self.rng.gauss(0, 0.02) for _ in range(count))

    def values(self, count):
        if self.pool is None:
            return array.array("f", self.draw(count))
        first = self.rng.randrange(POOL)
        turned = self.pool[first:] + self.pool[:first]
        return (turned * (count // POOL + 1))[:count]


def upper_halves(values):
    """fp32 -> bf16 by cutting: random weights need no rounding."""
    halves = array.array("H", values.tobytes())
    return halves[1::2] if sys.byteorder == "little" else halves[::2]


def config_of(options):
    """config.json as transformers 4 or 5 spells it."""
    dtype = "bfloat16" if options.bf16 else "float32"
    config = {"architectures": [FAMILIES[options.family]], "model_type": options.family, "hidden_size": options.hidden,
              "intermediate_size": options.ffn, "num_hidden_layers": options.layers,
              "num_attention_heads": options.heads, "num_key_value_heads": options.kv_heads, "vocab_size": options.vocab,
              "max_position_embeddings": 2048, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
              "tie_word_embeddings": options.tied,
              "torch_dtype": dtype, "bos_token_id": 1, "eos_token_id": 2}
    if options.head_dim or options.family == "qwen3":
        config["head_dim"] = options.head_dim or options.hidden // options.heads
    if options.family == "mistral":
        config["sliding_window"] = None
    if options.spelling == 5:
        config["rope_parameters"] = {"rope_theta": config.pop("rope_theta"), "rope_type": "default"}
        config["dtype"] = config.pop("torch_dtype")
    return config


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, required=True)
    for name, value in (("hidden", 256), ("layers", 6), ("ffn", 688), ("heads", 4), ("kv-heads", 4),
                        ("vocab", LEAST_VOCAB), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--family", choices=FAMILIES, default="llama")
    parser.add_argument("--head-dim", type=int, help="default: hidden / heads")
    parser.add_argument("--spelling", type=int, choices=(4, 5), default=4, help="of config.json: that of transformers 4 or 5")
    parser.add_argument("--tied", action="store_true", help="the head is the embedding")
    parser.add_argument("--bf16", action="store_true", help="weights in bf16 instead of fp32")
    options = parser.parse_args()
    if options.vocab < LEAST_VOCAB:
        parser.error(f"--vocab: the tokenizer needs {LEAST_VOCAB}")
    options.out.mkdir(parents=True, exist_ok=True)
    counts = {name: shape[0] * (shape[1] if len(shape) > 1 else 1) for name, shape in tensors(options)}
    normals = Normals(options.seed, sum(counts.values()))
    width = 2 if options.bf16 else 4
    header, offset = {}, 0
    for name, shape in tensors(options):
        end = offset + width * counts[name]
        header[name] = {"dtype": "BF16" if options.bf16 else "F32", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(options.out / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in tensors(options):  # one at a time: the model may be larger than this machine's memory
            norm = name.endswith("norm.weight")
            values = array.array("f", [1.0]) * counts[name] if norm else normals.values(counts[name])
            (upper_halves(values) if options.bf16 else values).tofile(file)
    tiny_run.write_json(options.out / "config.json", config_of(options))
    tiny_run.write_json(options.out / "tokenizer.json", tiny_run.tokenizer())
    tiny_run.write_json(options.out / "tokenizer_config.json", tiny_run.TOKENIZER_CONFIG)
    print(f"{options.out}: {offset // width} parameters")


if __name__ == "__main__":
    main()
