"""Kills short training runs at chosen and random moments and goes on with resume_from_checkpoint=auto: every
run must end with the bits of one that nobody disturbed. Its optimizer is paced, so that most of a step is
hidden updates, and a checkpoint comes every second step. With --disk the optimizer has 8-bit moments, and its
states are streamed from a paced disk; the bits to meet are those of a run that keeps
them in memory, and no scratch file may be left.

kill.py PROGRAM [--kills N] [--seed S] [--disk]     exit 0 where all runs end with the same bits
"""

import argparse
import json
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import tiny_run

STEPS = 30
SETTINGS = {
    "max_steps": STEPS, "save_steps": 2, "save_total_limit": 3, "eval_dataset": "test", "eval_strategy": "steps",
    "eval_steps": 10,
}
PACED = {"memory_model": "emulated", "device_memory": "6MB", "optimizer_gparams_per_s": 0.004}
# Most of a step is streaming: the model's states are 1 MB or so.
ON_DISK = {"optim": "adamw_8bit", "optim_embeddings": "8bit", "states_home": "disk", "disk_read_gbps": 0.02,
           "disk_write_gbps": 0.02}
TEMPORARY = "*.tmp-*"


def losses(folder):
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    keys = ("step", "loss", "grad_norm", "learning_rate", "eval_loss")
    return [{key: entry[key] for key in keys if key in entry} for entry in history]


def outcome(folder):
    """All that has to be the same: model, losses, masters and moments of the last checkpoint."""
    last = folder / f"checkpoint-{STEPS}"
    files = [folder / "model.safetensors", *sorted(last.glob("group-*")), last / "lazytrain_state.json"]
    return {"losses": losses(folder), **{path.name: path.read_bytes() for path in files}}


def logged_step(folder):
    """The last step in the log, 0 before the first."""
    try:
        lines = (folder / "trainer_log.jsonl").read_text().splitlines()
        return max((json.loads(line)["current_steps"] for line in lines if line.endswith("}")), default=0)
    except FileNotFoundError:
        return 0


def steps_of_checkpoints(folder):
    return sorted(int(path.name.split("-")[1]) for path in folder.glob("checkpoint-*") if "tmp" not in path.name)


class Run:
    """A training process, to be disturbed."""

    def __init__(self, program, config, folder, resume="auto"):
        self.folder = folder
        self.command = [str(program), "train", str(config), f"output_dir={folder}", f"resume_from_checkpoint={resume}"]
        self.process = subprocess.Popen(self.command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                        stdin=subprocess.DEVNULL, env=tiny_run.environment())

    def wait_for(self, event):
        """Asks often until the event is there or the process has ended."""
        deadline = time.monotonic() + 120
        while self.process.poll() is None and not event():
            if time.monotonic() > deadline:
                self.process.kill()
                raise TimeoutError(" ".join(self.command))
            time.sleep(0.0005)

    def send(self, number):
        if self.process.poll() is None:
            self.process.send_signal(number)

    def finish(self):
        _, errors = self.process.communicate(timeout=120)
        return self.process.returncode, errors


def moments(rng, duration):
    """Endless: a name, and what to wait for in a run."""
    def at_time(run):
        end = time.monotonic() + rng.uniform(0.02, 0.95) * duration
        run.wait_for(lambda: time.monotonic() > end)

    def in_save(run):
        step = rng.randint(0, STEPS - 4)
        wanted = rng.randint(1, 6)  # files of the checkpoint that are there already
        run.wait_for(lambda: logged_step(run.folder) >= step and
                     any(len(list(path.iterdir())) >= wanted for path in run.folder.glob("checkpoint-*.tmp-*")
                         if path.is_dir()))

    def in_update(run):
        step = 2 * rng.randint(0, STEPS // 2 - 2) + 1  # an odd step is not saved: its updates hide in the next
        run.wait_for(lambda: logged_step(run.folder) >= step)
        time.sleep(rng.uniform(0, 0.04))

    def in_export(run):
        run.wait_for(lambda: any(run.folder.glob("model*.tmp-*")))

    def before_checkpoint(run):
        step = rng.randint(0, 1)
        run.wait_for(lambda: logged_step(run.folder) >= step if step else run.folder.exists())

    while True:
        yield from (("inside a save", in_save), ("hidden updates", in_update), ("any time", at_time))
        yield from (("hidden updates", in_update), ("inside a save", in_save), ("no checkpoint yet", before_checkpoint))
        yield from (("any time", at_time), ("the final export", in_export), ("inside a save", in_save))


def after_step(step):
    return lambda run: run.wait_for(lambda: logged_step(run.folder) >= step)


def names_in(folder):
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


class Judge:
    """`reference`: settings in which the undisturbed run differs from the disturbed ones."""

    def __init__(self, program, work, reference=None, **settings):
        self.program, self.work = program, work
        self.config = tiny_run.make(work, **{**SETTINGS, **settings, **(reference or {})})
        planned = tiny_run.run(program, "plan", self.config, "--out", work / "plan.json")  # measures costs
        begin = time.monotonic()
        code, errors = Run(program, self.config, work / "undisturbed").finish()
        if code != 0:
            sys.exit(f"the undisturbed run ended with {code}:\n{planned.stderr}{errors}")
        self.duration = time.monotonic() - begin
        print(f"undisturbed: {STEPS} steps in {self.duration:.1f} s; {settings}{f', but for this run {reference}' if reference else ''}\n"
              f"      {'stopped by, or killed':<20} {'what the run had done by then':<58} after resuming")
        self.expected = outcome(work / "undisturbed")
        self.files = names_in(work / "undisturbed")
        self.right = self.all = 0
        if reference:
            self.config = tiny_run.make(work, **SETTINGS, **settings)

    def line(self, name, killed, good, note=""):
        self.all += 1
        self.right += good
        print(f"{self.all:>4}  {name:<20} {killed:<58} {'same bits' if good else 'DIFFERENT'}{note}", flush=True)

    def disturb(self, name, wait, number, expected_code, times=1, resume="auto"):
        """Sends `number` to a new run at a moment, `times` times, then lets it end and compares."""
        folder = self.work / f"run-{self.all}"
        told, note = "", ""
        for _ in range(times):
            for _ in range(5):  # a run that ends before its moment comes is started anew
                run = Run(self.program, self.config, folder)
                wait(run)
                run.send(number)
                code, errors = run.finish()
                if code != 0:
                    break
                shutil.rmtree(folder)
            left = "temporary left" if any(folder.glob(TEMPORARY)) else "no temporary"
            checkpoints = steps_of_checkpoints(folder) if folder.exists() else []
            told = f"after step {logged_step(folder)}, checkpoints {checkpoints}, {left}"
            if code != expected_code:
                note = f" (exit code {code}: {errors.strip().splitlines()[-1:]})"
        code, errors = Run(self.program, self.config, folder, resume.format(folder=folder)).finish()
        if code != 0:
            self.line(name, told, False, f" (resuming ended with {code}: {errors.strip().splitlines()[-1:]})")
            return
        difference = [key for key, value in outcome(folder).items() if self.expected.get(key) != value]
        leftovers = sorted(names_in(folder) - self.files)
        if difference:
            note += f" in {', '.join(difference)}"
        if leftovers:
            note += f" (left behind: {', '.join(leftovers)})"
        self.line(name, told, not note, note)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--disk", action="store_true")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="lazytrain-kill-") as name:
        work = pathlib.Path(name)
        tiny_run.keep_costs_in(work / "costs")
        if options.disk:
            judge = Judge(options.program, work / "disk", {"states_home": "host"}, **PACED, **ON_DISK)
        else:
            judge = Judge(options.program, work / "paced", **PACED)
        source = moments(rng, judge.duration)
        for i in range(options.kills):
            moment, wait = next(source)
            judge.disturb(moment, wait, signal.SIGKILL, -signal.SIGKILL, times=2 if i % 7 == 6 else 1)
        for number, name, step in ((signal.SIGINT, "SIGINT", rng.randint(3, 9)), (signal.SIGTERM, "SIGTERM", 15),
                                   (signal.SIGINT, "SIGINT, evaluating", 10), (signal.SIGTERM, "SIGTERM, the last", 30)):
            judge.disturb(name, after_step(step), number, 130)
        judge.disturb("SIGINT before step 1", lambda run: run.wait_for((run.folder / "run.yaml").exists),
                      signal.SIGINT, 130)
        judge.disturb("an older checkpoint", after_step(21), signal.SIGKILL, -signal.SIGKILL,
                      resume="{folder}/checkpoint-16")
        home = ON_DISK if options.disk else {}
        other = Judge(options.program, work / "fp32", bf16="false", packing="false", **home)
        for _, (moment, wait) in zip(range(max(1, options.kills // 5)), moments(rng, other.duration)):
            other.disturb(moment, wait, signal.SIGKILL, -signal.SIGKILL)
    right, total = judge.right + other.right, judge.all + other.all
    print(f"{'optimizer-kill' if options.disk else 'kill'}: {'PASS' if right == total else 'FAIL'} "
          f"({right} of {total} disturbed runs ended with the bits of the undisturbed one)")
    return 0 if right == total else 1


if __name__ == "__main__":
    sys.exit(main())
