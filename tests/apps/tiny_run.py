"""A training run that takes seconds: a two-layer model with a byte-level tokenizer, a few sums to learn, and
a run.yaml. The tests of the command line build everything they need with it, from the standard library only.

As a program: tiny_run.py FOLDER writes the model, the data and run.yaml there.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = TESTS / "data" / "goldens" / "llama-gqa-tied"  # 300 tokens, random weights in fp32
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]


def byte_letters():
    """The printable letter that stands for each byte in byte-level vocabularies."""
    plain = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    letters = {byte: chr(byte) for byte in plain}
    for byte in range(256):
        letters.setdefault(byte, chr(256 + len(letters) - len(plain)))
    return [letters[byte] for byte in range(256)]


def tokenizer():
    """Three special tokens, all bytes, and a few merges: 300 tokens at most."""
    letters = byte_letters()
    words = [*SPECIAL, *letters]
    merges = []
    for text in ("and", " is", "plus", " the"):
        piece = letters[ord(text[0])]
        for letter in text[1:]:
            merges.append([piece, letters[ord(letter)]])
            piece += letters[ord(letter)]
            if piece not in words:
                words.append(piece)
    assert len(words) <= 300
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "added_tokens": [{"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False,
                          "normalized": False, "special": True} for i, token in enumerate(SPECIAL)],
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "model": {"type": "BPE", "vocab": {word: i for i, word in enumerate(words)},
                  "merges": [" ".join(merge) for merge in merges]},
    }


TOKENIZER_CONFIG = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "bos_token": "<|im_start|>",
                    "chat_template": "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"}


def write_json(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1), encoding="utf-8")


def make_model(folder):
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("config.json", "generation_config.json", "model.safetensors"):
        shutil.copyfile(GOLDEN / name, folder / name)
    write_json(folder / "tokenizer.json", tokenizer())
    write_json(folder / "tokenizer_config.json", TOKENIZER_CONFIG)


def records(count, seed=1):
    rng = random.Random(seed)
    result = []
    for _ in range(count):
        a, b = rng.randint(0, 99), rng.randint(0, 99)
        question = f"What is {a} plus {b}?"
        result.append({"query": question, "response": f"{a} and {b} make {a + b}\n#### {a + b}\nThe answer is: {a + b}",
                       "type": "sum", "original_question": question})
    return result


def make_data(folder, count=160):
    folder.mkdir(parents=True, exist_ok=True)
    columns = {"prompt": "query", "response": "response"}
    write_json(folder / "dataset_info.json", {"sums": {"file_name": "sums.json", "columns": columns},
                                              "test": {"file_name": "test.json", "columns": columns}})
    write_json(folder / "sums.json", records(count))
    write_json(folder / "test.json", records(8, seed=2))


SETTINGS = {
    "template": "chatml", "dataset": "sums", "cutoff_len": 128, "per_device_train_batch_size": 4,
    "max_steps": 30, "save_steps": 2, "logging_steps": 1, "learning_rate": 1e-3, "warmup_ratio": 0.1,
    "weight_decay": 0.01, "seed": 7, "policy": "every-k", "every_k": 1, "optimizer_overlap": "on", "threads": 2,
}


def write_config(path, **settings):
    path.write_text("".join(f"{key}: {value}\n" for key, value in settings.items()), encoding="utf-8")


def make(folder, **changes):
    """Model, data and run.yaml in `folder`; returns the path of run.yaml."""
    folder = pathlib.Path(folder)
    make_model(folder / "model")
    make_data(folder / "data")
    settings = {"model_name_or_path": folder / "model", "dataset_dir": folder / "data",
                "output_dir": folder / "out", **SETTINGS, **changes}
    write_config(folder / "run.yaml", **settings)
    return folder / "run.yaml"


def keep_costs_in(folder):
    """What the program measures of this machine goes there, not into the user's cache; measured once."""
    os.environ["XDG_CACHE_HOME"] = str(folder)


def environment(**changes):
    """The caller's environment without what would change the output."""
    kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "TERM")}
    return {**kept, "TERM": "xterm-256color", **changes}


def run(program, *arguments, timeout=120, **options):
    """The finished process with its output as text; a hang is a test's failure, not an endless wait."""
    options.setdefault("env", environment())
    options.setdefault("stdin", subprocess.DEVNULL)
    return subprocess.run([str(program), *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace", timeout=timeout, check=False, **options)


if __name__ == "__main__":
    print(make(pathlib.Path(sys.argv[1]).resolve()))
