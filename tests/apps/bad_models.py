"""Bad model folders and GGUF files, one case for every kind of error that their readers know."""

import json
import struct

from bad_case import Case
from gguf_file import ARRAY, I32, TEXT, TOKENS, U32, Gguf

Q = "model.layers.0.self_attn.q_proj.weight"
NORM = "model.norm.weight"


# ---- safetensors ----

def file(content):
    """model.safetensors with these bytes, or with what a function makes of the good ones."""
    def prepare(work):
        path = work.model / "model.safetensors"
        path.write_bytes(content(path.read_bytes()) if callable(content) else content)
        return work.inspect()
    return prepare


def entry(**changes):
    """Changes the header's entry of one tensor; None removes a key."""
    def change(header, payload):
        header[Q].update(changes)
        header[Q] = {key: value for key, value in header[Q].items() if value is not None}
    return lambda work: work.weights(change)


def header(change):
    def apply(head, payload):
        changed = change(head)
        return (changed, payload) if isinstance(changed, str) else None
    return lambda work: work.weights(apply)


def shift(head):
    head[Q]["data_offsets"] = [offset + 4 for offset in head[Q]["data_offsets"]]


def without(name):
    """Leaves a tensor and its bytes out, and closes the gap."""
    def change(head, payload):
        begin, end = head.pop(name)["data_offsets"]
        for tensor in head.values():
            if "data_offsets" in tensor and tensor["data_offsets"][0] >= end:
                tensor["data_offsets"] = [offset - (end - begin) for offset in tensor["data_offsets"]]
        return head, payload[:begin] + payload[end:]
    return lambda work: work.weights(change)


def another(name, kind="F32", shape=(2,), content=bytes(8)):
    def change(head, payload):
        head[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(payload), len(payload) + len(content)]}
        return head, payload + content
    return lambda work: work.weights(change)


def index(**weight_map):
    """The folder sharded by an index with this weight_map."""
    def prepare(work):
        (work.model / "model.safetensors").rename(work.model / "model-00001-of-00002.safetensors")
        content = {"metadata": {}, "weight_map": weight_map.pop("whole", weight_map)}
        (work.model / "model.safetensors.index.json").write_text(json.dumps(content))
        return work.inspect()
    return prepare


def as_integers(head):
    size = head[Q]["data_offsets"][1] - head[Q]["data_offsets"][0]
    head[Q].update(dtype="I64", shape=[size // 8])


def pytorch(work):
    (work.model / "model.safetensors").rename(work.model / "pytorch_model.bin")
    return work.inspect()


def infinite(head, payload):
    at = head[Q]["data_offsets"][0] + 400
    return head, payload[:at] + struct.pack("<f", float("inf")) + payload[at + 4:]


SAFETENSORS = [
    Case("cut off", 4, "truncated file: the tensor ends at byte", file(lambda good: good[:-100])),
    Case("cut off in its header", 4, "truncated: its header has", file(lambda good: good[:200])),
    Case("header of 2^60 bytes", 4, "above the format's limit", file(struct.pack("<Q", 1 << 60) + b"{}")),
    Case("four bytes", 4, "too few for a safetensors file", file(b"1234")),
    Case("empty", 4, "the file is empty", file(b"")),
    Case("Git-LFS pointer", 4, "git lfs pull", file(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n")),
    Case("web page", 4, "a web page (HTML)", file(b"<!DOCTYPE html><html>not found</html>")),
    Case("zip archive", 4, "PyTorch .bin files are such", file(b"PK\x03\x04" + bytes(64))),
    Case("GGUF under its name", 4, "use `lazytrain import`", file(b"GGUF" + bytes(64))),
    Case("text", 4, "header would be", file(b"this is not a model at all, just text\n")),
    Case("header is no object", 4, "does not start with '{'", header(lambda head: "[" + json.dumps(head) + "]")),
    Case("header is not JSON", 4, "model.safetensors", header(lambda head: json.dumps(head)[:-1] + ",}")),
    Case("a key twice", 4, "appears twice", header(lambda head: json.dumps(head)[:-1] + f', "{Q}": 1}}')),
    Case("no dtype", 4, "lacks one of dtype, shape", entry(dtype=None)),
    Case("unknown dtype", 4, "unknown dtype 'F24'", entry(dtype="F24")),
    Case("shape of text", 4, "not a list of whole numbers", entry(shape=["64", 64])),
    Case("shape overflows", 4, "overflows", entry(shape=[1 << 62, 1 << 62])),
    Case("offsets descend", 4, "not two ascending whole numbers", entry(data_offsets=[8, 4])),
    Case("offsets of another size", 4, "but shape", entry(shape=[32, 64])),
    Case("overlap", 4, "damaged file", header(shift)),
    Case("bytes that no tensor owns", 4, "follow the last tensor", file(lambda good: good + bytes(8))),
    Case("metadata of numbers", 4, "is not a string", header(lambda head: head.update(__metadata__={"format": 1}))),
    Case("tensor missing", 4, f"tensor {NORM} is missing", without(NORM)),
    Case("tensor of another model", 4, "is not part of the model", another("model.visual.weight")),
    Case("tied head that differs", 4, "tie_word_embeddings", another("lm_head.weight")),
    Case("integers as weights", 4, "has the shape", header(as_integers)),
    Case("another shape than config.json", 4, "but config.json makes it",
         lambda work: (work.config(intermediate_size=128), work.inspect())[1]),
    Case("a value that is not finite", 4, "holds values that are not finite numbers",
         lambda work: (work.weights(infinite), work.train())[1]),
    Case("PyTorch file only", 4, "neither model.safetensors nor", pytorch),
    Case("index without weight_map", 4, "no weight_map",
         lambda work: (index()(work), (work.model / "model.safetensors.index.json").write_text("{}"), work.inspect())[2]),
    Case("index names no tensor", 4, "names no tensor", index()),
    Case("shard missing", 4, "download that shard", index(**{Q: "model-00002-of-00002.safetensors"})),
    Case("index and shard disagree", 4, "do not match", index(**{"model.other": "model-00001-of-00002.safetensors"})),
    Case("shard elsewhere", 4, "must be a plain file name", index(**{Q: "../../secret.safetensors"})),
]


# ---- GGUF ----

def gguf(change, cut=None):
    """An import of the good GGUF file after `change`, without its last bytes."""
    def prepare(work):
        good = Gguf()
        change(good)
        path = work.folder / "model.gguf"
        path.write_bytes(good.bytes()[:cut])
        return ["import", path, "--out", work.folder / "imported"]
    return prepare


def raw(content):
    def prepare(work):
        (work.folder / "model.gguf").write_bytes(content)
        return ["import", work.folder / "model.gguf", "--out", work.folder / "imported"]
    return prepare


def key(name, kind, content):
    return gguf(lambda good: good.set(name, kind, content))


def tensor(name, **changes):
    return gguf(lambda good: good.tensor(name).update(changes))


def into(target, make):
    """A good import to a place that is taken."""
    def prepare(work):
        gguf(lambda good: None)(work)
        make(work.folder / target)
        return ["import", work.folder / "model.gguf", "--out", work.folder / target]
    return prepare


def attribute(**changes):
    return gguf(lambda good: vars(good).update(changes))


def drop_tensor(good):
    good.tensors = [entry for entry in good.tensors if entry["name"] != "output_norm.weight"]


def filled(folder):
    folder.mkdir()
    (folder / "a").write_text("a")


def nested():
    content = struct.pack("<I", 4)
    for _ in range(100):
        content = struct.pack("<IQ", ARRAY, 1) + content
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"a" + struct.pack("<I", ARRAY) + content


GGUF = [
    Case("empty", 4, "the file is empty", raw(b"")),
    Case("not GGUF", 4, "not a GGUF file", raw(b"something else entirely, but long enough")),
    Case("Git-LFS pointer", 4, "git lfs pull", raw(b"version https://git-lfs.github.com/spec/v1\n")),
    Case("version 1", 4, "GGUF version 1", attribute(version=1)),
    Case("big-endian", 4, "big-endian", attribute(version=3 << 24)),
    Case("cut off in its metadata", 4, "truncated or damaged", gguf(lambda good: None, cut=300)),
    Case("cut off in a tensor", 4, "download it again", gguf(lambda good: None, cut=-64)),
    Case("2^60 tensors", 4, "1 to 4 are legal", attribute(tensor_count=1 << 60)),
    Case("arrays nested 100 deep", 4, "nested deeper than", raw(nested())),
    Case("a key twice", 4, "appears twice",
         gguf(lambda good: good.metadata.append(("general.architecture", TEXT, "llama")))),
    Case("a tensor twice", 4, "appears twice", gguf(lambda good: good.tensors.append(dict(good.tensors[0])))),
    Case("type that is not read", 4, "has the type Q2_K", tensor("token_embd.weight", type=10)),
    Case("type that does not exist", 4, "which is not read", tensor("token_embd.weight", type=999)),
    Case("rows that are no blocks", 4, "do not consist of", tensor("token_embd.weight", type=2)),
    Case("shape overflows", 4, "overflows", tensor("output_norm.weight", shape=(1 << 62, 8))),
    Case("five dimensions", 4, "1 to 4 are legal", tensor("output_norm.weight", shape=(1, 1, 1, 1, 8))),
    Case("crooked offset", 4, "not a multiple of the alignment", tensor("output_norm.weight", offset=4)),
    Case("overlap", 4, "overlap", tensor("output_norm.weight", offset=0)),
    Case("part of several", 4, "gguf-split", key("split.count", U32, 3)),
    Case("alignment 7", 4, "power of two", key("general.alignment", U32, 7)),
    Case("another architecture", 4, "only llama, qwen2 and qwen3 can be imported", key("general.architecture", TEXT, "phi3")),
    Case("a setting missing", 4, "'llama.block_count' is missing", gguf(lambda good: good.remove("llama.block_count"))),
    Case("a setting of another kind", 4, "should be", key("llama.block_count", TEXT, "one")),
    Case("experts", 4, "models with experts", key("llama.expert_count", U32, 8)),
    Case("LongRoPE", 4, "llama.rope.scaling.type is 'longrope'", key("llama.rope.scaling.type", TEXT, "longrope")),
    Case("tensor missing", 4, "the file is incomplete", gguf(drop_tensor)),
    Case("tensor too many", 4, "would be lost",
         gguf(lambda good: good.tensors.append({"name": "blk.0.extra", "shape": (8,), "type": 0, "offset": None}))),
    Case("another shape", 4, "but the file's settings make it", key("llama.feed_forward_length", U32, 32)),
    Case("WordPiece tokenizer", 4, "only 'gpt2'", key("tokenizer.ggml.model", TEXT, "bert")),
    Case("unknown pre-tokenizer", 4, "tokenizer.ggml.pre is 'dbrx'", key("tokenizer.ggml.pre", TEXT, "dbrx")),
    Case("token types of another number", 4, "entries for", key("tokenizer.ggml.token_type", ARRAY, (I32, [1, 1]))),
    Case("a token twice", 4, "is there twice", key("tokenizer.ggml.tokens", ARRAY, (TEXT, ["a"] * TOKENS))),
    Case("token that is not UTF-8", 4, "is not UTF-8 text",
         key("tokenizer.ggml.tokens", ARRAY, (TEXT, [b"\xff\xfe%d" % i for i in range(TOKENS)]))),
    Case("merge without its tokens", 4, "does not join two tokens", key("tokenizer.ggml.merges", ARRAY, (TEXT, ["q zz"]))),
    Case("into a folder in use", 2, "this folder is not empty", into("full", filled)),
    Case("into a file", 2, "a file of that name is there", into("taken", lambda path: path.write_text("a"))),
]


# ---- tokenizer ----

def model(**changes):
    return lambda work: work.tokenizer(lambda document: document["model"].update(changes))


def whole(**changes):
    return lambda work: work.tokenizer(lambda document: document.update(changes))


def vocabulary(**tokens):
    return lambda work: work.tokenizer(lambda document: document["model"]["vocab"].update(tokens))


def replaced(name, content):
    def prepare(work):
        path = work.model / name
        path.unlink()
        if content is not None:
            path.write_text(content)
        return ["train", work.yaml]
    return prepare


def split(pattern, behavior="Isolated"):
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    return whole(pre_tokenizer={"type": "Sequence", "pretokenizers": [
        {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": False}, level]})


def beyond(work):
    def change(document):
        document["model"]["vocab"]["<|im_end|>"] = document["added_tokens"][2]["id"] = 300
    return work.tokenizer(change)


def plain_tokens(document):
    document["added_tokens"] = []
    document["model"]["vocab"] = {token: i for token, i in document["model"]["vocab"].items() if "<|im" not in token}


TOKENIZER = [
    Case("missing", 4, "needs a tokenizer.json", replaced("tokenizer.json", None)),
    Case("not JSON", 4, "tokenizer.json:1:", replaced("tokenizer.json", "{'model': 1}")),
    Case("nested 100,000 deep", 4, "tokenizer.json:1:", replaced("tokenizer.json", "[" * 100_000)),
    Case("no model", 4, "model", lambda work: work.tokenizer(lambda document: document.pop("model"))),
    Case("WordPiece", 4, "is not supported (BPE and Unigram are)", model(type="WordPiece")),
    Case("Unigram of bytes", 4, "behind a ByteLevel pre_tokenizer is not supported", model(type="Unigram")),
    Case("Unigram without unk_id", 4, "without 'unk_id' is not supported",
         whole(pre_tokenizer=None, decoder={"type": "Fuse"}, model={"type": "Unigram", "vocab": [["a", -1.0]]})),
    Case("byte_fallback", 4, "'byte_fallback' is not supported with ByteLevel",
         lambda work: work.tokenizer(lambda document: (document["model"].update(byte_fallback=True), document["model"]["vocab"].pop("!")))),
    Case("dropout", 4, "'dropout' 0.1 is not supported", model(dropout=0.1)),
    Case("affix", 4, "continuing_subword_prefix", model(continuing_subword_prefix="##")),
    Case("unknown unk_token", 4, "is not in the vocabulary", model(unk_token="<nothing>")),
    Case("vocab is a list", 4, "an object of tokens and ids", model(vocab=["a", "b"])),
    Case("id is text", 4, "should be a whole number", vocabulary(zz="7")),
    Case("id of 10^12", 4, "", vocabulary(zz=10**12)),
    Case("id twice", 4, "have the same id", vocabulary(zz=5)),
    Case("merges are text", 4, "'merges' should be an array", model(merges="a b")),
    Case("merge of three", 4, "which is not two tokens", model(merges=["a b c"])),
    Case("merge without its token", 4, "which the vocabulary lacks", model(merges=["z q"])),
    Case("normalizer", 4, "the type 'BertNormalizer' is not supported", whole(normalizer={"type": "BertNormalizer"})),
    Case("pre-tokenizer", 4, "the type 'Whitespace' is not supported", whole(pre_tokenizer={"type": "Whitespace"})),
    Case("no byte level", 4, "no ByteLevel step", whole(pre_tokenizer=None)),
    Case("decoder", 4, "(ByteLevel is)", whole(decoder={"type": "WordPiece"})),
    Case("post-processor", 4, "is not supported", whole(post_processor={"type": "RobertaProcessing"})),
    Case("regular expression", 4, "regular expression", split({"Regex": "(?<name>a)(?P>name)"})),
    Case("broken regular expression", 4, "regular expression", split({"Regex": "(a"})),
    Case("pattern missing", 4, "should have the key 'Regex' or 'String'", split({})),
    Case("behaviour", 4, "the Split behaviour 'Vanish' is not known", split({"String": "a"}, "Vanish")),
    Case("added token without id", 4, "id", whole(added_tokens=[{"content": "<a>"}])),
    Case("a token beyond the model's", 4, "lies beyond the model's vocab_size, 300", beyond),
    Case("a token beyond the model's: generate", 4, "lies beyond the model's vocab_size, 300",
         lambda work: (beyond(work), ["generate", work.model, "-p", "a"])[1]),
    Case("a token beyond the model's: eval", 4, "lies beyond the model's vocab_size, 300",
         lambda work: (beyond(work), ["eval", work.yaml])[1]),
    Case("settings are not JSON", 4, "tokenizer_config.json:1:", replaced("tokenizer_config.json", "nothing")),
    Case("template without its tokens", 2, "needs the token '<|im_start|>'",
         lambda work: (work.tokenizer(plain_tokens), work.train(template="chatml"))[1]),
    Case("unknown template", 2, "choose one of smollm2, chatml, plain, alpaca", lambda work: work.train(template="llama3")),
    Case("no end of text", 2, "no eos_token is named",
         lambda work: (work.edit(work.model / "tokenizer_config.json", eos_token=None),
                       work.edit(work.model / "config.json", eos_token_id=None),
                       work.edit(work.model / "generation_config.json", eos_token_id=None),
                       work.train(template="plain"))[3]),
]


# ---- config.json ----

def config(**changes):
    return lambda work: work.config(**changes)


def config_text(content):
    def prepare(work):
        (work.model / "config.json").write_text(content)
        return ["plan", work.yaml]
    return prepare


def no_config(work):
    (work.model / "config.json").unlink()
    return ["plan", work.yaml]


def gguf_as_model(work):
    gguf(lambda good: None)(work)
    return work.train(model_name_or_path=work.folder / "model.gguf")


ROPE = {"rope_theta": 1e5, "rope_type": "default"}

CONFIG = [
    Case("missing", 4, "no config.json in this folder", no_config),
    Case("no such folder", 4, "no such model folder", lambda work: work.train(model_name_or_path="/nowhere")),
    Case("GGUF file as model", 4, "'lazytrain import' first", gguf_as_model),
    Case("not JSON", 4, "config.json:1:", config_text("{]")),
    Case("a list", 4, "where an object of settings was expected", config_text("[]")),
    Case("17 MB", 4, "too many for a config.json", config_text(" " * 17_000_000 + "{}")),
    Case("no model_type", 4, "model_type is missing", config(model_type=None)),
    Case("another model", 4, "only models of the types llama, mistral, qwen2 and qwen3", config(model_type="mamba")),
    Case("another class", 4, "only LlamaForCausalLM can be trained", config(architectures=["LlamaForSequenceClassification"])),
    Case("a key missing", 4, "hidden_size is missing", config(hidden_size=None)),
    Case("negative size", 4, "must be a whole number from 1", config(hidden_size=-64)),
    Case("size of 2^40", 4, "must be a whole number from 1", config(hidden_size=1 << 40)),
    Case("size is text", 4, "must be a whole number", config(num_hidden_layers="two")),
    Case("a million layers", 4, "num_hidden_layers", config(num_hidden_layers=1_000_000)),
    Case("activation", 4, "hidden_act is", config(hidden_act="gelu")),
    Case("quantised", 4, "quantization_config is set", config(quantization_config={"bits": 4})),
    Case("sliding window", 4, "sliding_window is 64", config(sliding_window=64)),
    Case("layer types", 4, "layer_types names", config(layer_types=["linear_attention", "full_attention"])),
    Case("dropout", 4, "attention_dropout is", config(attention_dropout=0.5)),
    Case("heads do not divide", 4, "does not divide", config(num_key_value_heads=3)),
    Case("odd head_dim", 4, "even number", config(head_dim=15)),
    Case("token id beyond", 4, "token id below vocab_size", config(eos_token_id=300)),
    Case("partial rotation", 4, "rotate whole heads", config(partial_rotary_factor=0.5)),
    Case("LongRoPE", 4, "only 'default', 'linear'", config(rope_parameters={**ROPE, "rope_type": "longrope"})),
    Case("two spellings disagree", 4, "rope_theta is", config(rope_theta=1e4)),
    Case("negative rms_norm_eps", 4, "rms_norm_eps", config(rms_norm_eps=-1.0)),
    Case("truth value is text", 4, "must be true or false", config(tie_word_embeddings="yes")),
    Case("llama3 factors crossed", 4, "must be above low_freq_factor",
         config(rope_parameters={"rope_theta": 1e5, "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0,
                                 "high_freq_factor": 1.0, "original_max_position_embeddings": 256})),
    Case("a model of 10^13 bytes", 5, "", config(hidden_size=65536, intermediate_size=262144, num_hidden_layers=500)),
]

TABLES = {"safetensors": SAFETENSORS, "GGUF": GGUF, "tokenizer": TOKENIZER, "config.json": CONFIG}
