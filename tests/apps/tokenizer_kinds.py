"""Trains, evaluates and answers with models whose tokenizer is of another kind than byte-level BPE: BPE with byte_fallback as
Llama 2 and Mistral have it, Unigram, and what an import makes of a sentencepiece tokenizer in a GGUF file.

tokenizer_kinds.py PROGRAM     exit 0 where all of it holds
"""

import json
import pathlib
import sys
import tempfile

import gguf_file
import tiny_run

LETTER = "\u2581"
SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
PIECES = [LETTER, *"aeintdmkWhs#0123456789?:", LETTER + "a", LETTER + "an", LETTER + "and"]
WORDS = [*SPECIAL, *BYTES, *PIECES]
MERGES = [[LETTER, "a"], [LETTER + "a", "n"], [LETTER + "an", "d"]]
CONFIG = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>",
          "chat_template": "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]"
                           "{% else %} {{ m.content }} {{ eos_token }}{% endif %}{% endfor %}"}


def document(model, normalizer, pre_tokenizer, decoder):
    special = [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
                "special": True} for i, token in enumerate(SPECIAL)]
    frame = {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
             "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}
    return {"version": "1.0", "added_tokens": special, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
            "post_processor": frame, "decoder": decoder, "model": model}


def llama2():
    spaces = {"type": "Replace", "pattern": {"String": " "}, "content": LETTER}
    back = {"type": "Replace", "pattern": {"String": LETTER}, "content": " "}
    return document({"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True,
                     "vocab": {word: i for i, word in enumerate(WORDS)}, "merges": MERGES},
                    {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": LETTER}, spaces]}, None,
                    {"type": "Sequence", "decoders": [back, {"type": "ByteFallback"}, {"type": "Fuse"},
                                                      {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})


def mistral():
    metaspace = {"type": "Metaspace", "replacement": LETTER, "prepend_scheme": "first", "split": False}
    return {**llama2(), "normalizer": None, "pre_tokenizer": metaspace}


def unigram():
    metaspace = {"type": "Metaspace", "replacement": LETTER, "prepend_scheme": "always", "split": True}
    scores = [[word, 0.0 if word in SPECIAL else -15.0 if word in BYTES else -3.0 - 1 / len(word)] for word in WORDS]
    return document({"type": "Unigram", "unk_id": 0, "byte_fallback": True, "vocab": scores}, {"type": "NFKC"}, metaspace,
                    {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, metaspace]})


class Cases:
    def __init__(self):
        self.failed = self.count = 0

    def check(self, what, done, *words):
        told = done.stdout + done.stderr
        holds = done.returncode == 0 and all(word in told for word in words)
        self.count += 1
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {what}{'' if holds else f': {done.returncode} {told[-600:]}'}", flush=True)


def imported(work):
    """A GGUF file with the same tokens, scored so that the merges above come of it."""
    file = gguf_file.Gguf()
    for key in ("tokenizer.ggml.pre", "tokenizer.ggml.merges"):
        file.remove(key)
    file.tensor("token_embd.weight")["shape"] = (len(WORDS), gguf_file.HIDDEN)
    kinds = [2, 3, 3, *[6] * 256, *[1] * len(PIECES)]
    file.set("tokenizer.ggml.model", gguf_file.TEXT, "llama")
    file.set("tokenizer.ggml.tokens", gguf_file.ARRAY, (gguf_file.TEXT, WORDS))
    file.set("tokenizer.ggml.token_type", gguf_file.ARRAY, (gguf_file.I32, kinds))
    file.set("tokenizer.ggml.scores", gguf_file.ARRAY, (gguf_file.F32, [-float(i) for i in range(len(WORDS))]))
    path = work / "small.gguf"
    path.write_bytes(file.bytes())
    return path


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="lazytrain-tokenizers-") as name:
        work = pathlib.Path(name)
        tiny_run.keep_costs_in(work / "cache")
        cases = Cases()
        for kind in (llama2, mistral, unigram):
            config = tiny_run.make(work / kind.__name__, template="model", max_steps=2, save_steps=2, cutoff_len=256)
            model, out = work / kind.__name__ / "model", work / kind.__name__ / "out"
            tiny_run.write_json(model / "tokenizer.json", kind())
            tiny_run.write_json(model / "tokenizer_config.json", CONFIG)
            cases.check(f"{kind.__name__}: trains", tiny_run.run(program, "train", config), "step 2")
            cases.check(f"{kind.__name__}: is evaluated", tiny_run.run(
                program, "eval", config, f"model_name_or_path={out}", "eval_dataset=test", "max_new_tokens=4"))
            cases.check(f"{kind.__name__}: answers", tiny_run.run(program, "generate", out, "-p", "What is 1?", "--max-new-tokens", 3))
        model = work / "imported"
        cases.check("a sentencepiece tokenizer is imported", tiny_run.run(program, "import", imported(work), "--out", model))
        made = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
        same = made["model"]["merges"] == MERGES and made["normalizer"] == llama2()["normalizer"] and made["decoder"] == llama2()["decoder"]
        cases.count += 1
        cases.failed += not same
        print(f"{'ok  ' if same else 'FAIL'} it is the one that this file writes by hand")
        cases.check("and answers", tiny_run.run(program, "generate", model, "--raw", "-p", "and", "--max-new-tokens", 3))
    print(f"{cases.count - cases.failed} of {cases.count} hold")
    return 0 if cases.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
