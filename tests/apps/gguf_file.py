"""A GGUF file of the smallest llama model, in F32, to be spoilt piece by piece."""

import struct

import tiny_run

U32, F32, BOOL, TEXT, ARRAY, I32 = 4, 6, 7, 8, 9, 5
HIDDEN, FFN, HEADS, LAYERS = 8, 16, 2, 1
ALIGNMENT = 32
TOKENS = len(tiny_run.tokenizer()["model"]["vocab"])


def text(value):
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def value(kind, content):
    if kind == TEXT:
        return text(content)
    if kind == ARRAY:
        inner, items = content
        return struct.pack("<IQ", inner, len(items)) + b"".join(value(inner, item) for item in items)
    return struct.pack({U32: "<I", F32: "<f", BOOL: "<?", I32: "<i"}[kind], content)


class Gguf:
    def __init__(self):
        document = tiny_run.tokenizer()
        words = list(document["model"]["vocab"])
        self.version, self.magic, self.tensor_count = 3, b"GGUF", None
        self.metadata = [
            ("general.architecture", TEXT, "llama"),
            ("llama.block_count", U32, LAYERS),
            ("llama.context_length", U32, 64),
            ("llama.embedding_length", U32, HIDDEN),
            ("llama.feed_forward_length", U32, FFN),
            ("llama.attention.head_count", U32, HEADS),
            ("llama.attention.head_count_kv", U32, HEADS),
            ("llama.attention.layer_norm_rms_epsilon", F32, 1e-5),
            ("tokenizer.ggml.model", TEXT, "gpt2"),
            ("tokenizer.ggml.pre", TEXT, "smollm"),
            ("tokenizer.ggml.tokens", ARRAY, (TEXT, words)),
            ("tokenizer.ggml.token_type", ARRAY, (I32, [3] * 3 + [1] * (len(words) - 3))),
            ("tokenizer.ggml.merges", ARRAY, (TEXT, document["model"]["merges"])),
            ("tokenizer.ggml.eos_token_id", U32, 2),
            ("tokenizer.ggml.bos_token_id", U32, 1),
        ]
        shapes = {"token_embd.weight": (len(words), HIDDEN), "output_norm.weight": (HIDDEN,)}
        layer = {"attn_norm": (HIDDEN,), "ffn_norm": (HIDDEN,), "attn_q": (HIDDEN, HIDDEN), "attn_k": (HIDDEN, HIDDEN),
                 "attn_v": (HIDDEN, HIDDEN), "attn_output": (HIDDEN, HIDDEN), "ffn_gate": (FFN, HIDDEN),
                 "ffn_up": (FFN, HIDDEN), "ffn_down": (HIDDEN, FFN)}
        shapes.update({f"blk.0.{name}.weight": shape for name, shape in layer.items()})
        self.tensors = [{"name": name, "shape": shape, "type": 0, "offset": None} for name, shape in shapes.items()]

    def set(self, key, kind, content):
        self.metadata = [entry for entry in self.metadata if entry[0] != key] + [(key, kind, content)]

    def remove(self, key):
        self.metadata = [entry for entry in self.metadata if entry[0] != key]

    def tensor(self, name):
        return next(tensor for tensor in self.tensors if tensor["name"] == name)

    def bytes(self):
        count = len(self.tensors) if self.tensor_count is None else self.tensor_count
        head = self.magic + struct.pack("<IQQ", self.version, count, len(self.metadata))
        for key, kind, content in self.metadata:
            head += text(key) + struct.pack("<I", kind) + value(kind, content)
        payload = b""
        for tensor in self.tensors:
            size = 4
            for length in tensor["shape"]:
                size *= length
            offset = len(payload) if tensor["offset"] is None else tensor["offset"]
            head += text(tensor["name"]) + struct.pack("<I", len(tensor["shape"]))
            head += b"".join(struct.pack("<Q", length) for length in reversed(tensor["shape"]))
            head += struct.pack("<IQ", tensor["type"], offset)
            size = min(size, 1 << 20)  # a claim larger than that is not written out
            payload += struct.pack("<f", 0.01) * (size // 4) + bytes(-size % ALIGNMENT)
        return head + bytes(-len(head) % ALIGNMENT) + payload
