"""Bad datasets, settings, checkpoints, disks and command lines, one case for every kind of error."""

import fcntl
import json
import os
import pathlib
import struct

from bad_case import Case
from bad_models import gguf

GOOD = json.dumps({"query": "What is 1 plus 1?", "response": "The answer is: 2"}) + "\n"
LONG = json.dumps({"query": "long " * 100, "response": "yes"}) + "\n"
COLUMNS = {"prompt": "query", "response": "response"}


# ---- datasets ----

def data(content, **changes):
    return lambda work: work.dataset(content, **changes)


def registered(**entry):
    return lambda work: work.registry({"file_name": "sums.json", **entry})


def registry_text(content):
    def prepare(work):
        (work.data / "dataset_info.json").write_text(content)
        return work.train()
    return prepare


DATASET = [
    Case("no such name", 3, "is neither a file nor in", lambda work: work.train(dataset="nothing")),
    Case("no registry", 3, "there is no", lambda work: work.train(dataset="nothing", dataset_dir=work.model)),
    Case("no such folder", 3, "there is no", lambda work: work.train(dataset_dir="/nowhere")),
    Case("empty file", 3, "the file is empty", data("")),
    Case("blanks", 3, "holds no records", data(" \n\n \n")),
    Case("empty list", 3, "", data("[]")),
    Case("line that is not JSON", 3, "own.jsonl:2:21: not valid JSON", data(GOOD + '{"query": "a", "resp\n' + GOOD)),
    Case("list that breaks off", 3, "own.jsonl:", data("[" + GOOD.strip() + ', {"query": "a"')),
    Case("a number", 3, "own.jsonl:1:1", data("42")),
    Case("Parquet", 3, "own.jsonl: a Parquet file", data(b"PAR1" + bytes(100))),
    Case("gzip", 3, "unpack it first", data(b"\x1f\x8b" + bytes(100))),
    Case("UTF-16", 3, "save it as UTF-8", data(GOOD.encode("utf-16"))),
    Case("Git-LFS pointer", 3, "git lfs pull", data("version https://git-lfs.github.com/spec/v1\n")),
    Case("no known keys", 3, "fits no known format", data('{"story": "only text"}\n')),
    Case("values of other kinds", 3, "no valid sample", data('{"query": 7, "response": ["a"]}\n')),
    Case("empty answers", 3, "no valid sample", data('{"query": "a", "response": ""}\n')),
    Case("nested 100,000 deep", 3, "own.jsonl:1:", data("[" * 100_000)),
    Case("all samples too long", 3, "nothing is left to train on", data(LONG)),
    Case("a sample too long, with overlong: error", 3, "own.jsonl:2: the sample has",
         data(GOOD + LONG, overlong="error")),
    Case("roles that do not alternate", 3, "the role is 'assistant' where 'user' must follow",
         data(json.dumps({"messages": [{"role": "assistant", "content": "a"}]}) + "\n", template="alpaca")),
    Case("more held out than there is", 3, "leaves nothing", lambda work: work.train(val_size=100_000)),
    Case("registry is not JSON", 3, "dataset_info.json:1:", registry_text("{")),
    Case("registry is a list", 3, "is not an object of datasets", registry_text("[]")),
    Case("entry is text", 3, "is not an object", lambda work: work.registry("sums.json")),
    Case("entry without file_name", 3, "file_name is missing", registered(file_name=None)),
    Case("file that is not there", 3, "does not exist", registered(file_name="none.json")),
    Case("to be downloaded", 3, "has to be downloaded", lambda work: work.registry({"hf_hub_url": "a/b"})),
    Case("ranking", 3, "only supervised fine-tuning", registered(ranking=True)),
    Case("unknown formatting", 3, "use alpaca, sharegpt or openai", registered(formatting="vicuna")),
    Case("unknown key of an entry", 3, "is not supported", registered(colums=COLUMNS)),
    Case("columns without response", 3, "at least prompt and response", registered(columns={"prompt": "query"})),
    Case("num_samples of text", 3, "num_samples must be", registered(num_samples="all")),
]


# ---- run.yaml ----

def text(content):
    return lambda work: work.text(content)


def setting(*overrides, **changes):
    return lambda work: work.train(*overrides, **changes)


def bomb():
    levels = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    levels += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 12)]
    return "\n".join(levels)


def other_costs(work):
    """The costs of this run, which were measured for slots of 128 tokens, for one with slots of 64."""
    costs = next(pathlib.Path(os.environ["XDG_CACHE_HOME"]).rglob("costs-*.json"))
    return work.train(calibration=costs, cutoff_len=64)


RUN = [
    Case("empty", 2, "model_name_or_path is missing", text("")),
    Case("not YAML", 2, "run.yaml:2:", text("a: 1\n  b: [\n")),
    Case("a list", 2, "where `key: value` lines belong", text("- a\n- b\n")),
    Case("binary", 2, "run.yaml", text(bytes(range(256)))),
    Case("UTF-16", 2, "run.yaml", text("model_name_or_path: a\n".encode("utf-16"))),
    Case("aliases of aliases", 2, "run.yaml", text(bomb())),
    Case("nested 100,000 deep", 2, "run.yaml:", text("a: " + "[" * 100_000)),
    Case("a folder", 2, "a directory", lambda work: ["train", work.folder]),
    Case("no such file", 2, "nothing.yaml", lambda work: ["train", "nothing.yaml"]),
    Case("unknown key, near", 2, "did you mean learning_rate?", setting(learning_rte=1)),
    Case("unknown key, far", 2, "`lazytrain train --help` lists all keys", setting(completely_other=1)),
    Case("unknown key on the command line", 2, "command line: unknown key 'cutof_len'", setting("cutof_len=9")),
    Case("override without =", 2, "is not of the form key=value", setting("learning_rate")),
    Case("a key twice", 2, "remove one of them", lambda work: work.text("seed: 1\nseed: 2\n")),
    Case("no output_dir", 2, "output_dir is missing", setting(output_dir=None)),
    Case("no dataset", 2, "dataset is missing", setting(dataset=None)),
    Case("text for a number", 2, "'fast' is not a number", setting(learning_rate="fast")),
    Case("learning_rate nan", 2, "is not a number", setting(learning_rate="nan")),
    Case("learning_rate infinite", 2, "is not a number", setting(learning_rate="inf")),
    Case("learning_rate negative", 2, "is too small", setting(learning_rate=-1)),
    Case("a fraction for a whole number", 2, "is not a whole number", setting(max_steps=1.5)),
    Case("10^30 steps", 2, "is out of range", setting(max_steps=10**30)),
    Case("no steps", 2, "0 steps", setting(max_steps=0)),
    Case("no epochs", 2, "is too small", setting(num_train_epochs=0)),
    Case("10^9 epochs", 2, "num_train_epochs", setting(max_steps=-1, num_train_epochs=1e9)),
    Case("maybe for a truth value", 2, "neither true nor false", setting(packing="maybe")),
    Case("a list for a number", 2, "where a whole number belongs", setting(seed="[1, 2]")),
    Case("cutoff_len 1", 2, "must be at least 2", setting(cutoff_len=1)),
    Case("cutoff_len beyond all positions", 2, "cutoff_len", setting(cutoff_len=1 << 25)),
    Case("cutoff_len beyond the model's positions", 2, "give cutoff_len: 2048 or less", setting(cutoff_len=2049)),
    Case("threads 0", 2, "must be at least 1", setting(threads=0)),
    Case("batch 0", 2, "must be at least 1", setting(per_device_train_batch_size=0)),
    Case("batch of 2^40 slots", 2, "tokens that a step can have",
         setting(per_device_train_batch_size=1 << 20, gradient_accumulation_steps=1 << 20)),
    Case("micro_batch above the batch", 2, "but a step has 4", setting(micro_batch=5)),
    Case("unknown policy", 2, "'best' is not known; use auto,", setting(policy="best")),
    Case("unknown schedule", 2, "is not known; use linear,", setting(lr_scheduler_type="polynomial")),
    Case("overlap perhaps", 2, "is not known; use auto, on or off", setting(optimizer_overlap="perhaps")),
    Case("preference learning", 2, "only supervised fine-tuning is supported", setting(stage="dpo")),
    Case("LoRA", 2, "there are no adapters", setting(finetuning_type="lora")),
    Case("LoRA's rank", 2, "there is no LoRA here", setting(lora_rank=8)),
    Case("fp16", 2, "fp16 is not supported", setting(fp16="true")),
    Case("bf16 and fp32", 2, "contradict each other", setting(bf16="true", fp32="true")),
    Case("emulated without a size", 2, "add device_memory", setting(memory_model="emulated")),
    Case("size without sense", 2, "is not a size", setting(device_memory="a lot")),
    Case("size below zero", 2, "is not a size", setting(device_memory="-5GB")),
    Case("cores to split, but one thread", 2, "give threads: 2 or more, or split_cores: false",
         setting(memory_model="emulated", device_memory="100MB", split_cores="true", threads=1)),
    Case("evaluation of nothing", 2, "add val_size or eval_dataset", setting(eval_strategy="steps")),
    Case("two evaluation sets", 2, "keep one of the two", setting(val_size=0.1, eval_dataset="test")),
    Case("costs that are not there", 2, "no such file", setting(calibration="/nowhere.json")),
    Case("costs that are not JSON", 2, "run.yaml:1:", setting(calibration="run.yaml")),
    Case("costs without their keys", 2, "dataset_info.json: ", setting(calibration="data/dataset_info.json")),
    Case("costs for other slots", 2, "measure again with `lazytrain calibrate`", other_costs),
]


# ---- what does not fit ----

def planned(**changes):
    def prepare(work):
        work.settings(**changes)
        return ["plan", work.yaml]
    return prepare


FIT = [
    Case("device of 500 kB", 5, "give device_memory: 1MB", setting(memory_model="emulated", device_memory="500kB")),
    Case("device of 1 MB and a large batch", 5, "give device_memory:",
         setting(memory_model="emulated", device_memory="1MB", micro_batch=64, per_device_train_batch_size=64)),
    Case("device of nothing", 5, "device_memory", setting(memory_model="emulated", device_memory="0MB")),
    Case("unified memory of 1 MB", 5, "device_memory", setting(device_memory="1MB")),
    Case("host of 1 MB", 5, "host_memory", setting(memory_model="emulated", device_memory="100MB", host_memory="1MB")),
    Case("a million slots", 5, "per_device_train_batch_size", planned(per_device_train_batch_size=1 << 20)),
    Case("slots of 2^24 tokens", 5, "cutoff_len",
         lambda work: (work.config(max_position_embeddings=1 << 24), planned(cutoff_len=1 << 24, per_device_train_batch_size=1)(work))[1]),
    Case("policy that does not fit", 5, "keep-all", setting(memory_model="emulated", device_memory="800kB", policy="keep-all")),
    Case("generation on 1 kB", 5, "raise device_memory", lambda work: ["generate", work.model, "-p", "a", "--device-memory", "1kB"]),
    Case("evaluation on 1 kB", 5, "raise device_memory or lower cutoff_len",
         lambda work: (work.settings(memory_model="emulated", device_memory="1kB"), ["eval", work.yaml])[1]),
]


# ---- checkpoints ----

def resumed(change, wish="auto", command=(), **changes):
    """Goes on from the good run's checkpoint-2 after `change(checkpoint)`."""
    def prepare(work):
        change(work.done / "checkpoint-2")
        path = wish if wish == "auto" else work.folder / wish
        return work.train(*command, output_dir=work.done, resume_from_checkpoint=path, **{"max_steps": 4, **changes})
    return prepare


def manifest(**changes):
    def change(checkpoint):
        path = checkpoint / "manifest.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
    return resumed(change, "done/checkpoint-2")


def flipped(checkpoint):
    path = checkpoint / "group-001.states"
    content = bytearray(path.read_bytes())
    content[1000] ^= 1
    path.write_bytes(content)


def cut(checkpoint):
    os.truncate(checkpoint / "group-001.states", 100)


def gone(checkpoint):
    (checkpoint / "group-001.states").unlink()


def nothing(checkpoint):
    del checkpoint


def outside(checkpoint):
    path = checkpoint / "manifest.json"
    value = json.loads(path.read_text())
    value["files"][0]["name"] = "../../../etc/passwd"
    path.write_text(json.dumps(value))


def forged(**changes):
    """lazytrain_state.json with other values, and the manifest that goes with it is not there to know it."""
    def change(checkpoint):
        path = checkpoint / "lazytrain_state.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))
        listed = json.loads((checkpoint / "manifest.json").read_text())
        for entry in listed["files"]:
            if entry["name"] == path.name:
                entry["bytes"] = path.stat().st_size
        (checkpoint / "manifest.json").write_text(json.dumps(listed))
    return resumed(change, "done/checkpoint-2")


def without_states(checkpoint):
    """As save_only_model writes it: whole, but without the files that a run goes on from."""
    path = checkpoint / "manifest.json"
    value = json.loads(path.read_text())
    value["files"] = [entry for entry in value["files"] if not entry["name"].endswith(".states")]
    path.write_text(json.dumps(value))


def exported(change, out="exported", *more):
    def prepare(work):
        checkpoint = work.done / "checkpoint-2"
        change(checkpoint)
        return ["export", checkpoint, "--model", work.model, "--out", work.folder / out, *more]
    return prepare


def other_model(work):
    path = work.model / "model.safetensors"
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    head = json.loads(content[8:8 + size])
    payload = content[8 + size:]
    for name in ("lm_head.weight",):
        embedding = head["model.embed_tokens.weight"]
        begin, end = embedding["data_offsets"]
        head[name] = {**embedding, "data_offsets": [len(payload), len(payload) + end - begin]}
        payload += payload[begin:end]
    text_ = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text_)) + text_ + payload)
    work.edit(work.model / "config.json", tie_word_embeddings=False)
    return resumed(nothing)(work)


CHECKPOINT = [
    Case("no such folder", 4, "give a checkpoint-<step> folder or auto", resumed(nothing, "done/checkpoint-7")),
    Case("no checkpoint", 4, "not a complete checkpoint", resumed(nothing, "model")),
    Case("a byte changed", 4, "is damaged: its checksum", resumed(flipped, "done/checkpoint-2")),
    Case("a file cut off", 4, "bytes instead of", resumed(cut, "done/checkpoint-2")),
    Case("a file missing", 4, "is missing", resumed(gone, "done/checkpoint-2")),
    Case("auto, and none is whole", 4, "none of its 1 checkpoints is complete", resumed(flipped)),
    Case("another program's", 4, "not a checkpoint manifest", manifest(format="other")),
    Case("of a later version", 4, "version 99", manifest(version=99)),
    Case("step of text", 4, "not a checkpoint manifest", manifest(step="two")),
    Case("file outside", 4, "not a checkpoint manifest", resumed(outside, "done/checkpoint-2")),
    Case("state that was edited", 4, "is damaged: its checksum", forged(step=1)),
    Case("files left out of the manifest", 4, "manifest.json is damaged: its checksum", resumed(without_states, "done/checkpoint-2")),
    Case("another model", 4, "written with another model", other_model),
    Case("other data", 4, "other training data", resumed(nothing, dataset="test")),
    Case("another precision", 4, "resume with the same precision", resumed(nothing, bf16="false")),
    Case("a run there already", 2, "give resume_from_checkpoint: auto", lambda work: work.train(output_dir=work.done)),
    Case("a smaller batch", 2, "4 x 1 there, 1 x 1 here", resumed(nothing, per_device_train_batch_size=1)),
    Case("another order of the data", 2, "seed is 7 there, 8 here", resumed(nothing, seed=8)),
    Case("export of a damaged one", 4, "is damaged", exported(flipped)),
    Case("export over the model", 2, "the folder the model is read from", exported(nothing, "model")),
    Case("export into a file", 6, "cannot make this folder", exported(nothing, "run.yaml")),
    Case("export to int8", 2, "bfloat16", exported(nothing, "exported", "--dtype", "int8")),
    Case("export of no checkpoint", 4, "not a complete checkpoint",
         lambda work: ["export", work.data, "--model", work.model, "--out", work.folder / "exported"]),
]


# ---- disks ----

def locked(work):
    work.out.mkdir()
    work.lock = (work.out / ".lazytrain.lock").open("w")
    work.lock.write("4321")
    work.lock.flush()
    fcntl.flock(work.lock, fcntl.LOCK_EX)
    return work.train()


def closed(work):
    arguments = work.train()
    work.out.mkdir()
    work.out.chmod(0o555)
    return arguments


def file_as_output(work):
    work.out.write_text("a file")
    return work.train()


def below_file(work):
    work.out.write_text("a file")
    return work.train(output_dir=work.out / "deeper")


def unreadable(path):
    def prepare(work):
        work.folder.chmod(0o777)
        (work.folder / path).chmod(0)
        return work.train()
    return prepare


DISK = [
    Case("output_dir is a file", 6, "output_dir", file_as_output),
    Case("output_dir below a file", 6, "output_dir", below_file),
    Case("output_dir that cannot be", 6, "cannot create it", setting(output_dir="/proc/lazytrain")),
    Case("output_dir not to be written", 6, "Permission denied", closed, unprivileged=True),
    Case("two runs at once", 2, "process 4321 is training into it", locked),
    Case("disk full", 6, "", setting(), file_limit=200_000),
    Case("disk full at the plan", 6, "plan.json", lambda work: ["plan", work.yaml], file_limit=100),
    Case("disk full at an import", 6, "", lambda work: gguf(lambda good: None)(work), file_limit=2000),
    Case("model not to be read", 4, "permission denied", unreadable("model/model.safetensors"), unprivileged=True),
    Case("model folder not to be entered", 4, "permission denied", unreadable("model"), unprivileged=True),
    Case("data not to be read", 3, "permission denied", unreadable("data/sums.json"), unprivileged=True),
    Case("run.yaml not to be read", 2, "permission denied", unreadable("run.yaml"), unprivileged=True),
    Case("plan into no folder", 6, "cannot create it", lambda work: ["plan", work.yaml, "--out", "/nowhere/plan.json"]),
]


# ---- command line ----

def command(*words):
    return lambda work: list(words)


def nan_weights(work):
    def change(header, payload):
        begin, end = header["model.norm.weight"]["data_offsets"]
        return header, payload[:begin] + struct.pack("<f", float("nan")) * ((end - begin) // 4) + payload[end:]
    work.weights(change)


COMMAND = [
    Case("nothing", 2, "A subcommand is required", command()),
    Case("unknown command", 2, "'trian' is not a command; the commands are train, plan,", command("trian", "run.yaml")),
    Case("unknown option", 2, "--fast", command("inspect", "model", "--fast")),
    Case("argument missing", 2, "file", command("train")),
    Case("inspect of nothing", 2, "nothing", command("inspect", "nothing")),
    Case("inspect of text", 4, "not a GGUF file", command("inspect", "run.yaml")),
    Case("generate without a prompt", 2, "no prompt", command("generate", "model")),
    Case("generate with an empty prompt", 2, "has no tokens", command("generate", "model", "--raw", "-p", "")),
    Case("generate with 0 tokens", 2, "--max-new-tokens", command("generate", "model", "-p", "a", "--max-new-tokens", "0")),
    Case("generate with -3 threads", 2, "--threads", command("generate", "model", "-p", "a", "--threads", "-3")),
    Case("generate with an unknown template", 2, "choose one of", command("generate", "model", "-p", "a", "--template", "x")),
    Case("generate from a run.yaml", 2, "run.yaml", command("generate", "run.yaml", "-p", "a")),
    Case("generate with a size of text", 2, "is not a size", command("generate", "model", "-p", "a", "--device-memory", "big")),
    Case("prompt that is not UTF-8", 0, "", command("generate", "model", "--max-new-tokens", "2", "-p", b"a\xff\xfeb".decode(errors="surrogateescape")),
         succeeds=True),
    Case("weights that are not numbers: train", 4, "model.norm.weight holds values that are not finite",
         lambda work: (nan_weights(work), work.train())[1]),
    Case("weights that are not numbers: generate", 4, "model.norm.weight holds values that are not finite",
         lambda work: (nan_weights(work), ["generate", work.model, "-p", "a"])[1]),
    Case("weights that are not numbers: eval", 4, "model.norm.weight holds values that are not finite",
         lambda work: (nan_weights(work), ["eval", work.yaml, "--loss-only"])[1]),
    Case("a rate that blows up", 8, "of 3 steps in a row were not finite",
         lambda work: work.train(max_steps=20, learning_rate=1e6, max_grad_norm=0, warmup_ratio=0, weight_decay=1e6)),
    Case("eval without data", 2, "eval needs eval_dataset", lambda work: (work.settings(dataset=None), ["eval", work.yaml])[1]),
    Case("eval of -5 samples", 2, "--samples", command("eval", "run.yaml", "--samples", "-5")),
    Case("plan with a share of 7", 2, "--supervised", command("plan", "run.yaml", "--supervised", "7")),
]

TABLES = {"dataset": DATASET, "run.yaml": RUN, "budgets": FIT, "checkpoint": CHECKPOINT, "disk": DISK,
          "command line": COMMAND}
