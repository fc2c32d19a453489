"""What is not this program's stays as it is, and faults of the command line are told before any work.

safety.py PROGRAM     exit 0 where all of it is as it should be
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
from command_line import Report


class Life:
    def __init__(self, program, work):
        self.program, self.work = program, work
        self.report = Report()
        self.config = tiny_run.make(work, max_steps=4)
        self.model = work / "model"

    def run(self, *arguments, **options):
        done = tiny_run.run(self.program, *arguments, **options)
        return done.returncode, done.stdout, done.stderr

    def train(self, out, *overrides, config=None):
        code, _, errors = self.run("train", config or self.config, f"output_dir={self.work / out}", *overrides)
        return code, errors

    def check(self, name, holds, told=""):
        self.report.check(name, holds, told)


def contents(folder):
    return {path.relative_to(folder): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def foreign_things(life):
    print("what others put into output_dir:")
    out = life.work / "shared"
    for name in ("thesis.tmp-2024", "checkpoint-7.tmp-2024", "replaced-checkpoints-old", "checkpoint-best"):
        (out / name).mkdir(parents=True)
        (out / name / "chapter").write_text(name)
    before = contents(out)
    code, errors = life.train("shared", "save_steps=1", "save_total_limit=1")
    life.check("a run leaves folders with such names alone", code == 0 and before.items() <= contents(out).items(), errors)
    for make in (lambda path: path.mkdir(), lambda path: path.write_text("a file")):
        other = life.work / "other"
        shutil.rmtree(other, ignore_errors=True)
        other.mkdir()
        make(other / "checkpoint-4")
        for more in ((), ("overwrite_output_dir=true",), ("resume_from_checkpoint=auto",)):
            code, errors = life.train("other", *more)
            life.check(f"a foreign checkpoint-4 is refused {more}", code == 2 and "did not write" in errors, errors)
        life.check("and is there", (other / "checkpoint-4").exists() and not (other / "run.yaml").exists())
    (life.work / "linked").mkdir()
    precious = life.work / "precious"
    precious.write_text("content")
    (life.work / "linked" / ".lazytrain.lock").symlink_to(precious)
    code, errors = life.train("linked")
    life.check("a lock that is a link", code == 2 and precious.read_text() == "content", errors)
    own = life.work / "own"
    own.mkdir()
    shutil.copyfile(life.config, own / "run.yaml")
    before = contents(own)
    code, _, errors = life.run("train", "run.yaml", "output_dir=.", cwd=own)
    life.check("one's own run.yaml is not replaced", code == 2 and contents(own) == before and "run.yaml" in errors, errors)
    code, errors = life.train("shared", "overwrite_output_dir=true", config=life.work / "shared" / "run.yaml")
    life.check("a saved one may be", code == 0, errors)


def exports(life):
    print("exports:")
    checkpoint = life.work / "shared" / "checkpoint-4"
    export = ("export", checkpoint, "--model", life.model, "--out")
    tuned = life.work / "tuned"
    life.check("into a new folder", life.run(*export, tuned)[0] == 0)
    before = contents(tuned)
    code, _, errors = life.run(*export, tuned)
    life.check("not over a model", code == 2 and "--overwrite" in errors and contents(tuned) == before, errors)
    (tuned / "model.safetensors.tmp-999999999").write_text("left")
    code, _, errors = life.run(*export, tuned, "--overwrite")
    life.check("unless told so", code == 0 and contents(tuned) == before, errors)
    code, _, errors = life.run(*export, checkpoint, "--overwrite")
    life.check("never into a checkpoint", code == 2 and "checkpoint" in errors, errors)
    code, _, errors = life.run(*export, "")
    life.check("--out ''", code == 2 and "empty name" in errors, errors)
    code, _, errors = life.run("inspect", life.model / "model.safetensors")
    life.check("inspect of weights", code == 2 and f"lazytrain inspect {life.model}" in errors, errors)
    code, _, errors = life.run("inspect", checkpoint)
    life.check("inspect of a checkpoint", code == 2 and "lazytrain export" in errors, errors)


def outputs(life):
    print("where results go:")
    pipe = life.work / "pipe"
    os.mkfifo(pipe)
    for command in (("eval", life.config, "eval_dataset=test"), ("plan", life.config), ("calibrate", life.config)):
        for out, told in ((life.work, "a folder"), (life.work / "none" / "x.json", "there is no folder"), ("", "empty name"),
                          (pipe, "not a regular file")):
            begin = time.monotonic()
            code, output, errors = life.run(*command, "--out", out)
            life.check(f"{command[0]} --out {out}", code in (2, 6) and told in errors and not output, errors)
            life.check("told at once", time.monotonic() - begin < 5)
    for command in (("train", life.config, f"output_dir={life.work / 'closed'}"), ("inspect", life.model)):
        shell = " ".join(map(str, (life.program, *command))) + " >&- 2>&- <&-"
        done = subprocess.run(["sh", "-c", shell], env=tiny_run.environment(), timeout=60, check=False)
        life.check(f"{command[0]} with closed streams", done.returncode == 0, done.returncode)
    life.check("nothing but a number in the lock", (life.work / "closed" / ".lazytrain.lock").read_text().isdigit())
    for command in (("train", life.config, f"output_dir={life.work / 'full'}"), ("--help",), ("--version",), ("plan", "--help"),
                    ("inspect", life.model), ("generate", life.model, "-p", "a", "--max-new-tokens", 2), ("doctor", life.work)):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([str(life.program), *map(str, command)], stdout=full, stderr=subprocess.PIPE, text=True,
                                  stdin=subprocess.DEVNULL, env=tiny_run.environment(), timeout=60, check=False)
        life.check(f"{command[0]}: standard output is full", done.returncode == 6 and "standard output" in done.stderr,
                   (done.returncode, done.stderr[-200:]))
    life.check("the model was saved all the same", (life.work / "full" / "model.safetensors").exists())


def words(life):
    print("the command line:")
    for command, told in ((("--hlep",), "did you mean --help"), (("-x",), "unknown option '-x'"), (("-v",), "unknown option '-v'"),
                          (("train", "--outt", "x"), "unknown option '--outt'"), (("plan", "r.yaml", "--outt", "x"), "did you mean --out?"),
                          (("trian",), "did you mean train?"), (("plan", life.config, "--supervised", "nan"), "no share")):
        code, _, errors = life.run(*command)
        life.check(" ".join(map(str, command)), code == 2 and told in errors and len(errors.splitlines()) == 1, errors)
    for prompts in (("[1,2]",), ("a",), ("-x", "--help"), ("a, b", "[]")):
        given = [word for prompt in prompts for word in ("-p", prompt)]
        code, output, errors = life.run("generate", *given, life.model, "--max-new-tokens", 2)
        life.check(f"generate -p {prompts}", code == 0 and all(f"> {prompt}\n" in output for prompt in prompts if len(prompts) > 1),
                   (output, errors))
    code, _, errors = life.run("generate", life.model, "-p", "a", "--device-memory", "99TB")
    life.check("a device larger than the memory", code == 5 and "lower device_memory" in errors, errors)
    code, errors = life.train("none", "max_steps=-1", "num_train_epochs=1e-12")
    life.check("no steps", code == 2 and "num_train_epochs" in errors and not (life.work / "none" / "model.safetensors").exists(), errors)


def held_out(life):
    print("eval:")
    result = life.work / "held.json"
    code, output, errors = life.run("eval", life.config, "val_size=0.1", "max_new_tokens=2", "--out", result)
    told = json.loads(result.read_text())
    life.check("val_size: the held-out part is scored", code == 0 and told["samples"] == told["problems"] == 16
               and "scored are the 16 samples of 160" in errors, (output[-200:], errors))
    code, errors = life.train("evaluated", "val_size=0.1", "eval_strategy=steps", "eval_steps=4")
    log = [json.loads(line) for line in (life.work / "evaluated" / "trainer_log.jsonl").read_text().splitlines()]
    trained = next(line["eval_loss"] for line in log if "eval_loss" in line)
    code, output, errors = life.run("eval", life.config, "val_size=0.1", "--loss-only", f"model_name_or_path={life.work / 'evaluated'}", "--out", result)
    life.check("with the loss that training saw", abs(json.loads(result.read_text())["loss"] - trained) < 1e-2, (trained, output))
    code, output, _ = life.run("eval", life.config, "val_size=0.1", "max_new_tokens=2", "--samples", 3)
    life.check("--samples takes some of them", "of 3 samples" in output and "answering 3 problems, 3 at a time" in output, output[-300:])
    code, output, errors = life.run("eval", life.config, "max_new_tokens=2", "per_device_eval_batch_size=20000", "--loss-only", timeout=20)
    life.check("a batch beyond the data", code == 0, errors)
    code, output, errors = life.run("eval", life.config, "max_new_tokens=2")
    life.check("many answers at once", "160 problems, 54 at a time" in output, output[-300:])


def signals(life):
    print("signals:")
    process = subprocess.Popen([str(life.program), "train", str(life.config), f"output_dir={life.work / 'hung'}", "max_steps=100000",
                                "save_steps=0"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=tiny_run.environment())
    log, deadline = life.work / "hung" / "trainer_log.jsonl", time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and log.read_text()):
        time.sleep(0.05)
    process.send_signal(signal.SIGHUP)
    code = process.wait(timeout=60)
    life.check("SIGHUP saves", code == 130 and len(list((life.work / "hung").glob("checkpoint-*"))) == 1, code)
    log.unlink()
    os.mkfifo(log)
    code, errors = life.train("hung", "resume_from_checkpoint=auto", "max_steps=100000", "save_total_limit=1")
    life.check("a pipe for a log does not hang", code == 2 and "no regular file" in errors, errors)


def main():
    with tempfile.TemporaryDirectory(prefix="lazytrain-safety-") as name:
        work = pathlib.Path(name).resolve()
        tiny_run.keep_costs_in(work / "costs")
        life = Life(pathlib.Path(sys.argv[1]).resolve(), work)
        for part in (foreign_things, exports, outputs, words, held_out, signals):
            part(life)
    wrong = life.report.wrong
    print(f"safety: {'FAIL: ' + ', '.join(wrong) if wrong else 'PASS'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
