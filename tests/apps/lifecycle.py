"""A run's life in its output folder: what it may write over, what it goes on with, what is kept when it is killed,
stopped, or cannot export its model.

lifecycle.py PROGRAM     exit 0 where all of it is as it should be
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import tiny_run
from command_line import Report, interrupted
from kill import PACED, logged_step, steps_of_checkpoints

SLOW = [f"{key}={value}" for key, value in {**PACED, "optimizer_gparams_per_s": 0.001}.items()]


class Life:
    def __init__(self, program, work):
        self.program, self.work = program, work
        self.report = Report()
        self.config = tiny_run.make(work, max_steps=4)
        self.model = work / "model"

    def train(self, out, *overrides, config=None):
        done = tiny_run.run(self.program, "train", config or self.config, f"output_dir={self.work / out}", *overrides)
        return done.returncode, done.stderr

    def start(self, out, *overrides, **options):
        options.setdefault("stdout", subprocess.DEVNULL)
        return subprocess.Popen([str(self.program), "train", str(self.config), f"output_dir={self.work / out}", *overrides],
                                stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True, env=tiny_run.environment(),
                                **options)

    def at_step(self, process, out, step):
        deadline = time.monotonic() + 60
        while process.poll() is None and logged_step(self.work / out) < step and time.monotonic() < deadline:
            time.sleep(0.001)

    def check(self, name, holds, told=""):
        self.report.check(name, holds, told)


def value(folder, key):
    """Of the saved run.yaml, as text."""
    lines = (folder / "run.yaml").read_text().splitlines()
    return next(line.split(": ", 1)[1] for line in lines if line.startswith(key + ": "))


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*"))
            if path.is_file() and not path.name.startswith(".")}


def two_stages(life):
    print("from one output folder to the next:")
    life.train("one")
    code, errors = life.train("two", f"model_name_or_path={life.work / 'one'}", "seed=8", "save_only_model=true")
    two = life.work / "two"
    life.check("a second stage trains", code == 0, errors)
    life.check("its run.yaml is its own", value(two, "seed") == "8" and value(two, "model_name_or_path").endswith("one"))
    plan, state = json.loads((two / "plan.json").read_text()), json.loads((two / "trainer_state.json").read_text())
    life.check("so are plan and state", plan and state["global_step"] == 4)
    kept = {path.name for path in (two / "checkpoint-4").iterdir()}
    life.check("a third starts from its checkpoint", life.train("three", f"model_name_or_path={two / 'checkpoint-4'}")[0] == 0
               and "run.yaml" in kept and "manifest.json" not in {path.name for path in (life.work / "three").iterdir()})
    code, errors = life.train("two", "resume_from_checkpoint=auto", f"model_name_or_path={life.work / 'one'}", "seed=8")
    life.check("auto says that save_only_model left the states out", code == 4 and "save_only_model: true" in errors, errors)
    life.check("before the data is read", "samples" not in errors)
    code, errors = life.train("saved", "bf16=false", config=life.work / "one" / "run.yaml")
    life.check("a saved run.yaml takes bf16=false", code == 0 and value(life.work / "saved", "bf16") == "false", errors)


def occupied(life):
    print("what is there already:")
    code, errors = life.train("model")
    life.check("the model's own folder is refused", code == 2 and "the folder the model is read from" in errors, errors)
    (life.work / "foreign").mkdir()
    (life.work / "foreign" / "model-00001-of-00002.safetensors").write_bytes(b"x")
    code, errors = life.train("foreign", "overwrite_output_dir=true")
    life.check("foreign shards are refused before the run", code == 2 and "of another model" in errors
               and not (life.work / "foreign" / "trainer_log.jsonl").exists(), errors)
    life.train("bare", "save_steps=0")
    before = contents(life.work / "bare")
    for wish in ("null", "auto"):
        code, errors = life.train("bare", "save_steps=0", f"resume_from_checkpoint={wish}")
        life.check(f"a finished run without checkpoints, resume {wish}", code == 2 and "overwrite_output_dir: true" in errors, errors)
    life.check("it is as it was", contents(life.work / "bare") == before)
    code, errors = life.train("bare", "save_steps=0", "seed=9", "overwrite_output_dir=true")
    life.check("overwrite_output_dir writes over it", code == 0 and value(life.work / "bare", "seed") == "9", errors)
    life.check("and leaves nothing of it", not list((life.work / "bare").glob("replaced*")))


def resuming(life):
    print("going on:")
    before = contents(life.work / "one")
    for change, told in (("seed=8", "seed is 7 there, 8 here"), ("packing=false", "packing is true there, false here"),
                         ("val_size=0.2", "val_size is 0 there, 0.2 here"), ("cutoff_len=100", "cutoff_len is 128 there"),
                         ("gradient_accumulation_steps=2", "4 x 1 there, 4 x 2 here"), ("template=plain", "chatml there"),
                         ("overlong=truncate", "overlong is drop"), ("train_on_prompt=true", "train_on_prompt is false")):
        code, errors = life.train("one", "resume_from_checkpoint=auto", "max_steps=6", change)
        life.check(f"refused: {change}", code == 2 and told in errors and len(errors.splitlines()) == 1, errors)
    code, errors = life.train("one", "resume_from_checkpoint=auto", "max_steps=6", "dataset=test")
    life.check("refused: another dataset", code == 4 and "other training data (fingerprint" in errors, errors)
    life.check("nothing was replaced", contents(life.work / "one") == before)
    code, errors = life.train("one", "resume_from_checkpoint=auto", "max_steps=6", "learning_rate=5e-4")
    life.check("the optimizer may change, in one line", code == 0 and
               "warning: the checkpoint was written with other settings: learning_rate 0.001 -> 0.0005, max_steps 4 -> 6" in errors, errors)
    last = json.loads((life.work / "one" / "trainer_state.json").read_text())["log_history"][-1]
    life.check("steps and samples per second are of this session", abs(last["train_steps_per_second"] * last["train_runtime"] - 2) < 0.01
               and last["train_samples_per_second"] > 3 * last["train_steps_per_second"], last)
    life.train("epochs", "max_steps=-1", "num_train_epochs=2", "save_steps=0")
    last = json.loads((life.work / "epochs" / "trainer_state.json").read_text())["log_history"][-1]
    life.check("samples of both epochs count", abs(last["train_samples_per_second"] * last["train_runtime"] - 320) < 0.01, last)
    code, errors = life.train("short", "overlong=truncate", "cutoff_len=2", "max_steps=60", "save_steps=0")
    life.check("cut to two tokens, every step still learns", code == 0 and logged_step(life.work / "short") == 60, errors)


def replaced(life):
    print("starting anew, killed:")
    for moment in (0, 1):
        out = f"anew-{moment}"
        shutil.copytree(life.work / "one", life.work / out)
        process = life.start(out, "overwrite_output_dir=true", "seed=11", "save_steps=50", *SLOW)
        while process.poll() is None and value(life.work / out, "seed") != "11":
            time.sleep(0.001)
        life.at_step(process, out, moment)
        process.kill()
        process.communicate()
        life.check(f"after step {moment}: the old checkpoints are kept, aside",
                   steps_of_checkpoints(life.work / out) == [] and
                   (life.work / out / "replaced-checkpoints" / "checkpoint-6").is_dir())
        code, errors = life.train(out, "resume_from_checkpoint=auto", "seed=11")
        life.check("auto trains the new run", code == 0 and "resuming" not in errors and value(life.work / out, "seed") == "11", errors)
        life.check("the old ones are gone with its first", steps_of_checkpoints(life.work / out) == [2, 4]
                   and not list((life.work / out).glob("replaced*")))


def failing_export(life):
    print("an export that fails:")
    for steps in (0, 2):
        out = life.work / f"blocked-{steps}"
        process = life.start(out.name, f"save_steps={steps}", "max_steps=5", *SLOW)
        life.at_step(process, out.name, 1)
        (out / "model.safetensors").mkdir(parents=True)
        errors = process.communicate(timeout=60)[1]
        life.check(f"save_steps {steps}: it says where the model is", process.returncode != 0 and
                   f"lazytrain export {out / 'checkpoint-5'} --model" in errors, errors)
        done = tiny_run.run(life.program, "export", out / "checkpoint-5", "--model", life.model, "--out", life.work / f"saved-{steps}")
        life.check("and it can be exported", done.returncode == 0, done.stderr)


def small_disk(life):
    """1 MB: the model fits, a checkpoint does not."""
    print("a small disk:")
    folder = life.work / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", folder], stderr=subprocess.DEVNULL, check=False).returncode:
        print("  skipped: needs the right to mount")
        return
    try:
        for steps in (0, 2):
            code, errors = life.train("disk/out", f"save_steps={steps}")
            life.check(f"save_steps {steps}: refused before the first step", code == 6 and "and the trained model of" in errors, errors)
            life.check("and nothing is written", not contents(folder))
    finally:
        subprocess.run(["umount", folder], check=True)


def pipes(life):
    print("pipes that close, signals:")
    reading, writing = os.pipe()
    process = life.start("piped", stdout=writing)
    os.close(writing)
    os.read(reading, 1)
    os.close(reading)
    errors = process.communicate(timeout=60)[1]
    life.check("train goes on and saves", process.returncode == 0 and (life.work / "piped" / "model.safetensors").exists(), errors)
    reading, writing = os.pipe()
    os.close(reading)
    process = subprocess.Popen([str(life.program), "train", str(life.config), f"output_dir={life.work / 'deaf'}"], stdout=writing,
                               stderr=writing, stdin=subprocess.DEVNULL, env=tiny_run.environment())
    os.close(writing)
    life.check("also with nobody on both outputs", process.wait(timeout=60) == 0 and (life.work / "deaf" / "model.safetensors").exists())
    for command in (("inspect", life.model), ("generate", life.model, "-p", "a", "--max-new-tokens", "4"),
                    ("plan", life.config, "--out", life.work / "plan.json", "--listing")):
        reading, writing = os.pipe()
        os.close(reading)
        done = subprocess.run([str(life.program), *map(str, command)], stdout=writing, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, env=tiny_run.environment(), timeout=60, check=False)
        os.close(writing)
        life.check(f"{command[0]} ends quietly", done.returncode == 0 and done.stderr == "", (done.returncode, done.stderr))
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([str(life.program), "inspect", str(life.model)], stdout=full, stderr=subprocess.PIPE, text=True,
                              env=tiny_run.environment(), timeout=60, check=False)
    life.check("a full disk behind standard output is an error", done.returncode == 6 and "standard output" in done.stderr, done.stderr)
    process = subprocess.Popen([str(life.program), "generate", str(life.model)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=tiny_run.environment())
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    try:
        code = process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        code = "still waiting"
    process.communicate()
    life.check("Ctrl-C ends generate that waits for a prompt", code == 130, code)
    result = life.work / "partial.json"
    code, errors, _, alive = interrupted(life.program, "eval", life.config, "eval_dataset=test", "max_new_tokens=20000",
                                         "--out", result, after=2)
    told = json.loads(result.read_text()) if result.exists() else None
    life.check("an interrupted eval scores what was finished", alive and code == 130 and told and told["partial"]
               and told["samples"] == 8 and told["problems"] == len(told["details"]) < 8, (code, errors, told))
    done = tiny_run.run(life.program, "eval", life.config, "eval_dataset=test", "max_new_tokens=4", "per_device_eval_batch_size=3")
    life.check("per_device_eval_batch_size is the batch of answers", "8 problems, 3 at a time" in done.stdout, done.stdout[-300:])
    process = life.start("twice", "save_steps=1", "max_steps=100", *SLOW)
    life.at_step(process, "twice", 3)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    serial = [json.loads((path / "manifest.json").read_text())["serial"] for path in (life.work / "twice").glob("checkpoint-*")]
    life.check("no step is saved twice", process.returncode == 130 and sorted(serial) == list(range(1, len(serial) + 1)), serial)


def positions(life):
    print("more positions than the model has:")
    code, errors = life.train("long", "cutoff_len=4096")
    life.check("cutoff_len", code == 2 and "give cutoff_len: 2048 or less" in errors, errors)
    done = tiny_run.run(life.program, "generate", life.model, "-p", "a b " * 2000, "--max-new-tokens", 2)
    life.check("a prompt", done.returncode == 2 and "the model only 2048 positions" in done.stderr, done.stderr)


def main():
    with tempfile.TemporaryDirectory(prefix="lazytrain-life-") as name:
        work = pathlib.Path(name).resolve()
        tiny_run.keep_costs_in(work / "costs")
        life = Life(pathlib.Path(sys.argv[1]).resolve(), work)
        for part in (two_stages, occupied, resuming, replaced, failing_export, small_disk, pipes, positions):
            part(life)
    wrong = life.report.wrong
    print(f"lifecycle: {'FAIL: ' + ', '.join(wrong) if wrong else 'PASS'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
