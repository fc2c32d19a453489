"""What LazyTrain leaves for other programs, and takes from them, held against transformers and tensorboard.

Needs torch, transformers and tensorboard: tools/show/interop makes an environment that has them.

interop.py PROGRAM FOLDER [PART ...]     parts: export, real, roundtrip, state, best, charts; without any, all
"""

import dataclasses
import json
import math
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import xml.etree.ElementTree

import torch
import transformers

transformers.utils.logging.disable_progress_bar()

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "tests" / "apps"))
import tiny_run  # model, data and run.yaml of the tests of the command line

FAMILIES = ("llama", "mistral", "qwen2", "qwen3")
REAL = REPOSITORY / "build" / "models" / "smollm2-135m-instruct"

# Both sides compute in fp32 with the very weights that the file holds (bf16 widens exactly), so only the order of
# sums differs: some hundred roundings of 2^-24 of a loss of 6. bf16 arithmetic on one side moves losses by 1e-3.
BAR_FP32 = 2e-5
BAR_FP32_REAL = 1e-3  # 30 layers, losses up to 15; the bar of tools/show/real-model
# In bf16 every activation is rounded to 8 bits on both sides, in part at other places, so the two differ by as much as
# each of them from fp32. The bar is on that: losses in bf16 may not be farther from those in fp32 (root mean square)
# than transformers' own in bf16, with some room for chance.
BAR_BF16 = 1.5
# Logits of a run of the trained model are compared through the losses of all tokens (the log-softmax of every
# position) and through the greedy answer (the largest logit of every position).

PROMPTS = ["What is 3 plus 4?", "Ein Zug fährt um 7 ab.\n\n  Wann?", "漢字 and emoji 🙂 \t<|im_end|> x"]
EXTRAS = {"NOTES.md": "a file that nobody knows\n", "LICENSE": "none\n", "extra_settings.json": '{"kept":   true}\n'}
GENERATION = '{\n  "bos_token_id": 1,\n  "eos_token_id": 2,\n  "temperature": 0.25,\n  "do_sample": true\n}\n'


class Shown:
    """Runs the program, counts what does not hold."""

    def __init__(self, program, work):
        self.program, self.work, self.failed = program, work, []
        tiny_run.make_data(work / "data", count=24)

    def check(self, what, holds, told=""):
        print(f"  {'ok  ' if holds else 'FAIL'} {what}{'' if holds or not told else f': {told}'}", flush=True)
        if not holds:
            self.failed.append(what)
        return holds

    def run(self, *arguments, code=0):
        done = subprocess.run([str(self.program), *map(str, arguments)], capture_output=True, text=True, check=False)
        if done.returncode != code:
            raise RuntimeError(f"lazytrain {arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
        return done

    def train(self, model, out, *overrides, **settings):
        config = self.work / f"{out.name}.yaml"
        tiny_run.write_config(config, model_name_or_path=model, dataset_dir=self.work / "data", output_dir=out,
                              **{**tiny_run.SETTINGS, "template": "model", "max_steps": 4, "save_steps": 0,
                                 "logging_steps": 1, "learning_rate": "1.0e-3", **settings})
        return self.run("train", config, *overrides)

    def token_losses(self, model, *overrides):
        """Ids and losses of all tokens of the test records, by `lazytrain eval`."""
        config, out = self.work / "eval.yaml", self.work / "losses.json"
        tiny_run.write_config(config, model_name_or_path=model, dataset_dir=self.work / "data", eval_dataset="test",
                              template="model", cutoff_len=512, train_on_prompt="true", per_device_eval_batch_size=2)
        self.run("eval", config, "--loss-only", "--token-losses", out, *overrides)
        return json.loads(out.read_text())["samples"]


def read_safetensors(folder):
    """{tensor: (file, dtype, shape, bytes)} and the files' metadata, without any library."""
    tensors, metadata = {}, {}
    for path in sorted(folder.glob("*.safetensors")):
        data = path.read_bytes()
        size = struct.unpack("<Q", data[:8])[0]
        header = json.loads(data[8:8 + size])
        metadata[path.name] = header.pop("__metadata__", {})
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            tensors[name] = (path.name, entry["dtype"], entry["shape"], data[8 + size + begin:8 + size + end])
    return tensors, metadata


def conversations():
    return [[{"role": "user", "content": record["query"]}, {"role": "assistant", "content": record["response"]}]
            for record in tiny_run.records(8, seed=2)]


def reference_losses(model, samples):
    result = []
    with torch.no_grad():
        for ids in samples:
            logits = model(torch.tensor([ids])).logits[0].float()
            nll = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]), reduction="none")
            result.append(nll.tolist())
    return result


def compare_losses(shown, folder, model, bar):
    """Losses of every token against transformers', in fp32 and in bf16. Returns the samples."""
    samples = shown.token_losses(folder, "bf16=false")
    ids = [sample["ids"] for sample in samples]
    rounded = shown.token_losses(folder, "bf16=true")
    complete = all(None not in sample["losses"][1:] for sample in samples + rounded) and ids == [s["ids"] for s in rounded]
    if not shown.check("every token has a loss, in fp32 and in bf16", complete):
        return samples
    exact = torch.tensor(sum(reference_losses(model, ids), []))
    ours = torch.tensor(sum((sample["losses"][1:] for sample in samples), []))
    worst = (ours - exact).abs().max().item()
    shown.check(f"fp32: losses of {len(exact)} tokens: largest difference {worst:.1e} (bar {bar:.0e})", worst <= bar)
    ours = torch.tensor(sum((sample["losses"][1:] for sample in rounded), []))
    theirs = torch.tensor(sum(reference_losses(load(folder, torch.bfloat16)[0], ids), []))
    mine, other = ((losses - exact).square().mean().sqrt().item() for losses in (ours, theirs))
    shown.check(f"bf16: {mine:.1e} from fp32 a token, transformers {other:.1e} (bar {BAR_BF16} times that); mean loss "
                f"{ours.mean():.4f}, transformers {theirs.mean():.4f}, fp32 {exact.mean():.4f}", mine <= BAR_BF16 * other)
    return samples


def load(folder, dtype=torch.float32):
    model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, output_loading_info=True)
    faults = {key: value for key, value in info.items() if value}
    return model.eval(), faults


def kept_files(source, out, names):
    return [name for name in names if not (out / name).is_file() or (source / name).read_bytes() != (out / name).read_bytes()]


def compare_export(shown, source, out, real=False):
    """The exported folder in transformers, and its files against those of the folder it came from."""
    model, faults = load(out)
    shown.check("AutoModelForCausalLM opens it; no tensor is missing, left over or of another shape", not faults, faults)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    samples = compare_losses(shown, out, model, BAR_FP32_REAL if real else BAR_FP32)
    texts = [tokenizer.apply_chat_template(conversation, tokenize=False) for conversation in conversations()]
    theirs = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts]
    ours = [sample["ids"] for sample in samples]
    # What follows the turn's end is not trained on: transformers' text may have a line break more.
    same = len(ours) == len(theirs) and all(
        len(mine) > 5 and (mine == full[:len(mine)]) and tokenizer.decode(full[len(mine):]).strip() == ""
        for mine, full in zip(ours, theirs))
    shown.check(f"AutoTokenizer's chat template gives the same {sum(map(len, ours))} ids", same)
    answers = []
    for prompt in PROMPTS:
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        with torch.no_grad():
            new = model.generate(ids, max_new_tokens=12, do_sample=False, temperature=None, top_p=None, top_k=None,
                                 attention_mask=torch.ones_like(ids), pad_token_id=0)[0, ids.shape[1]:]
        mine = shown.run("generate", out, "-p", prompt, "--raw", "--fp32", "--max-new-tokens", 12).stdout
        answers.append(mine.rstrip("\n") == tokenizer.decode(new, skip_special_tokens=True).rstrip("\n"))
    shown.check(f"greedy answers to {len(PROMPTS)} texts are the same", all(answers), answers)
    files = [path.name for path in source.iterdir() if path.is_file() and not path.name.startswith((".", "model"))]
    wrong = kept_files(source, out, files)
    shown.check(f"{len(files)} files beside the weights are the same to the byte", len(files) > 2 and not wrong, wrong)
    before, metadata_before = read_safetensors(source)
    after, metadata_after = read_safetensors(out)
    shown.check(f"{len(before)} tensors: names, types, shapes, shards and order as before",
                {n: t[:3] for n, t in before.items()} == {n: t[:3] for n, t in after.items()}
                and list(before) == list(after))
    # Older readers ask for a format, so one is added where there was none.
    shown.check("metadata of the shards as before, and a format", metadata_after ==
                {name: {"format": "pt", **values} for name, values in metadata_before.items()})
    moved = sum(before[name][3] != after[name][3] for name in before)
    shown.check(f"{moved} of {len(before)} tensors were trained", moved > len(before) * 0.9)


def make_random(out, family, *options):
    subprocess.run([sys.executable, str(REPOSITORY / "tools" / "make_random_model.py"), "--out", str(out), "--family", family,
                    "--hidden", "64", "--layers", "2", "--ffn", "160", "--heads", "4", "--kv-heads", "2", *options],
                   check=True, stdout=subprocess.DEVNULL)
    for name, text in {**EXTRAS, "generation_config.json": GENERATION}.items():
        (out / name).write_text(text)


def export(shown):
    for number, family in enumerate(FAMILIES):
        spelling = "4" if number % 2 == 0 else "5"
        options = ["--bf16", "--spelling", spelling, *(["--tied"] if family in ("qwen2", "llama") else []),
                   *(["--head-dim", "32"] if family in ("qwen3", "mistral") else [])]
        print(f"{family}: a random model ({' '.join(options)}), 4 steps, opened by transformers")
        source, out = shown.work / f"{family}-source", shown.work / f"{family}-out"
        make_random(source, family, *options)
        shown.train(source, out)
        compare_export(shown, source, out)


def real(shown):
    if not (REAL / "config.json").is_file():
        sys.exit(f"interop: FAIL ({REAL.relative_to(REPOSITORY)} is not there: run tools/fetch-model)")
    print("SmolLM2-135M-Instruct: 2 steps, opened by transformers")
    out = shown.work / "real-out"
    shown.train(REAL, out, max_steps=2, learning_rate="1.0e-5", per_device_train_batch_size=2)
    compare_export(shown, REAL, out, real=True)
    shutil.rmtree(out)


def config_of(family, tied):
    classes = {"llama": transformers.LlamaConfig, "mistral": transformers.MistralConfig, "qwen2": transformers.Qwen2Config,
               "qwen3": transformers.Qwen3Config}
    return classes[family](vocab_size=300, hidden_size=64, intermediate_size=160, num_hidden_layers=3, num_attention_heads=4,
                           num_key_value_heads=2, head_dim=16, max_position_embeddings=2048, tie_word_embeddings=tied,
                           bos_token_id=1, eos_token_id=2, pad_token_id=0,
                           **({"sliding_window": 16} if family == "mistral" else {}))


def saved_by_transformers(shown, family, dtype, tied):
    folder = shown.work / f"saved-{family}-{'bf16' if dtype == torch.bfloat16 else 'fp32'}"
    plain = shown.work / "plain"
    tiny_run.make_model(plain)
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config_of(family, tied), dtype=dtype)
    model.save_pretrained(folder, max_shard_size="120KB")
    transformers.AutoTokenizer.from_pretrained(plain).save_pretrained(folder)
    for name, text in EXTRAS.items():
        (folder / name).write_text(text)
    return folder


def roundtrip(shown):
    for family in FAMILIES:
        for dtype in (torch.bfloat16, torch.float32):
            tied = family in ("llama", "qwen3") if dtype == torch.bfloat16 else family in ("mistral", "qwen2")
            source = saved_by_transformers(shown, family, dtype, tied)
            shards = len(list(source.glob("*.safetensors")))
            print(f"{family}: save_pretrained in {dtype}, {shards} shards, {'tied' if tied else 'untied'}; 4 steps; opened again")
            out = shown.work / (source.name + "-out")
            shown.train(source, out, save_steps=4, bf16=str(dtype == torch.bfloat16).lower())
            shown.check("there are several shards", shards > 2)
            index = "model.safetensors.index.json"
            then, now = (json.loads((folder / index).read_text()) for folder in (source, out))
            shown.check(f"the index says the same: {len(then['weight_map'])} tensors, {then['metadata']}", then == now,
                        now["metadata"])
            compare_export(shown, source, out)
            exported = shown.work / "exported"
            shown.run("export", out / "checkpoint-4", "--model", source, "--out", exported)
            shown.check("`lazytrain export` of the checkpoint gives the same files",
                        all((exported / path.name).read_bytes() == path.read_bytes() for path in out.glob("model*")))
            shutil.rmtree(exported)
    stored_copy(shown)


def stored_copy(shown):
    """A tied head whose weight is stored all the same, as some programs write it."""
    import safetensors.torch
    print("a tied head that is stored a second time")
    source, out = shown.work / "copy-source", shown.work / "copy-out"
    make_random(source, "llama", "--tied", "--bf16")
    tensors = safetensors.torch.load_file(source / "model.safetensors")
    tensors["lm_head.weight"] = tensors["model.embed_tokens.weight"].clone()
    safetensors.torch.save_file(tensors, source / "model.safetensors", metadata={"format": "pt"})
    shown.train(source, out)
    compare_export(shown, source, out)
    after = read_safetensors(out)[0]
    shown.check("both copies hold the same trained values",
                after["lm_head.weight"][3] == after["model.embed_tokens.weight"][3])


def state(shown):
    print("trainer_state.json in transformers")
    source, out = shown.work / "state-source", shown.work / "state-out"
    make_random(source, "llama", "--bf16")
    shown.train(source, out, max_steps=6, save_steps=2, eval_strategy="steps", eval_steps=2, val_size=4,
                load_best_model_at_end="true", save_total_limit=2)
    for path in (out / "trainer_state.json", out / "checkpoint-6" / "trainer_state.json"):
        said = json.loads(path.read_text())
        fields = {field.name for field in dataclasses.fields(transformers.TrainerState)}
        shown.check(f"{path.relative_to(out)}: the keys are those of TrainerState", set(said) == fields,
                    (sorted(set(said) - fields), sorted(fields - set(said))))
        read = transformers.TrainerState.load_from_json(str(path))
        written = shown.work / "written.json"
        read.save_to_json(str(written))
        shown.check("load_from_json reads it, and writes the same", json.loads(written.read_text()) == said)
        kinds = {"global_step": int, "max_steps": int, "num_train_epochs": int, "logging_steps": int, "save_steps": int,
                 "eval_steps": int, "epoch": float, "best_metric": float, "best_global_step": int,
                 "best_model_checkpoint": str, "total_flos": float}
        wrong = {key: said[key] for key, kind in kinds.items() if type(said[key]) is not kind}
        shown.check("every value is of the kind that transformers gives it", not wrong, wrong)
    shown.check("best_model_checkpoint is a folder that is there", pathlib.Path(read.best_model_checkpoint).is_dir())
    evaluations = {entry["step"]: entry["eval_loss"] for entry in read.log_history if "eval_loss" in entry}
    shown.check(f"the best of the evaluations {[round(v, 3) for v in evaluations.values()]} is named",
                read.best_global_step == min(evaluations, key=evaluations.get)
                and read.best_metric == min(evaluations.values()))


def best(shown):
    print("load_best_model_at_end")
    source = shown.work / "best-source"
    make_random(source, "llama", "--bf16")
    # The highest loss stands for the best: that of the first evaluation.
    settings = {"max_steps": 8, "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2, "val_size": 4,
                "load_best_model_at_end": "true", "greater_is_better": "true", "save_total_limit": 1}
    plain = shown.work / "best-plain"
    shown.train(source, plain, **{**settings, "load_best_model_at_end": "false", "save_total_limit": 9})
    for only_model in ("false", "true"):
        out = shown.work / f"best-{only_model}"
        shown.train(source, out, save_only_model=only_model, **settings)
        told = json.loads((out / "trainer_state.json").read_text())
        name = f"checkpoint-{told['best_global_step']}"
        left = sorted(path.name for path in out.glob("checkpoint-*"))
        shown.check(f"save_only_model: {only_model}: save_total_limit: 1 leaves the best and the last ({', '.join(left)})",
                    name == "checkpoint-2" and left == ["checkpoint-2", "checkpoint-8"])
        exported = shown.work / "best-exported"
        shown.run("export", plain / name, "--model", source, "--out", exported)
        same = (exported / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
        last = (plain / "model.safetensors").read_bytes() == (out / "model.safetensors").read_bytes()
        shown.check("the model is that of the best checkpoint, not the last", same and not last)
        shutil.rmtree(exported)


def scalars(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(str(folder / "runs" / "train"), size_guidance={"scalars": 0})
    events.Reload()
    return {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def charts(shown):
    print("TensorBoard, trainer_log.csv, training_loss.svg")
    source, whole, parts = shown.work / "charts-source", shown.work / "charts-whole", shown.work / "charts-parts"
    make_random(source, "llama", "--bf16")
    settings = {"max_steps": 12, "save_steps": 4, "eval_strategy": "steps", "eval_steps": 4, "val_size": 4,
                "report_to": "[tensorboard, csv]", "plot_loss": "true"}
    shown.train(source, whole, **settings)
    # A run whose last checkpoints are gone goes on from an older one: its log and its events lie behind that.
    shown.train(source, parts, **settings)
    for name in ("checkpoint-8", "checkpoint-12"):
        shutil.rmtree(parts / name)
    shown.train(source, parts, resume_from_checkpoint="auto", **settings)
    history = json.loads((whole / "trainer_state.json").read_text())["log_history"]
    wanted = {"train/loss": [(e["step"], e["loss"]) for e in history if "loss" in e],
              "train/learning_rate": [(e["step"], e["learning_rate"]) for e in history if "loss" in e],
              "eval/loss": [(e["step"], e["eval_loss"]) for e in history if "eval_loss" in e]}
    for folder in (whole, parts):
        read = scalars(folder)
        near = all([s for s, _ in read.get(tag, [])] == [s for s, _ in points]
                   and all(math.isclose(a, b, rel_tol=1e-6) for (_, a), (_, b) in zip(read[tag], points))
                   for tag, points in wanted.items())
        files = len(list((folder / "runs" / "train").iterdir()))
        shown.check(f"{folder.name}: tensorboard reads {len(wanted['train/loss'])} losses and {len(wanted['eval/loss'])} "
                    f"evaluations from {files} file{'s' if files > 1 else ''}, every step once", near and files == (1 if folder == whole else 2),
                    {tag: read.get(tag) for tag in wanted})
        rows = (folder / "trainer_log.csv").read_text().splitlines()
        steps = [int(row.split(",")[0]) for row in rows[1:]]
        losses = [float(row.split(",")[2]) for row in rows[1:] if row.split(",")[2]]
        shown.check(f"{folder.name}: trainer_log.csv has {len(steps)} lines in order, with the same losses",
                    steps == sorted(steps) and losses == [loss for _, loss in wanted["train/loss"]])
    tree = xml.etree.ElementTree.parse(whole / "training_loss.svg").getroot()
    classes = [element.get("class") for element in tree.iter() if element.tag.endswith("polyline")]
    shown.check("training_loss.svg is XML with the three curves", classes == ["training", "smoothed", "evaluation"], classes)


PARTS = {"export": export, "real": real, "roundtrip": roundtrip, "state": state, "best": best, "charts": charts}


def main():
    program, work = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    print(f"transformers {transformers.__version__}, torch {torch.__version__}")
    torch.set_num_threads(os.cpu_count() or 1)
    shown = Shown(program, work)
    for name in sys.argv[3:] or PARTS:
        try:
            PARTS[name](shown)
        except Exception as error:  # one part that cannot be shown hides no other
            shown.check(f"{name} came to its end", False, f"{type(error).__name__}: {error}")
    if shown.failed:
        print(f"interop: FAIL ({len(shown.failed)} of the above)")
        return 1
    if sys.argv[3:]:
        print(f"interop: PASS (only of {', '.join(sys.argv[3:])})")
    else:
        print("interop: PASS (every model both ways, every file read by the program it is for)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
