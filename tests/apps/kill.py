"""Kills short training runs at chosen and random moments and goes on with resume_from_checkpoint=auto: every
run must end with the bits of one that nobody disturbed. Its optimizer is paced, so that most of a step is
hidden updates, and a checkpoint comes every second step.

kill.py PROGRAM [--kills N] [--seed S]     exit 0 where all runs end with the same bits
"""

import argparse
import json
import pathlib
import random
import signal
import subprocess
import sys
import tempfile
import time

import tiny_run

STEPS = 30
SETTINGS = {
    "memory_model": "emulated", "device_memory": "6MB", "optimizer_gparams_per_s": 0.004,
    "max_steps": STEPS, "save_steps": 2, "save_total_limit": 3, "eval_dataset": "test", "eval_strategy": "steps",
    "eval_steps": 10,
}
TEMPORARY = "*.tmp-*"


def losses(folder):
    history = json.loads((folder / "trainer_state.json").read_text())["log_history"]
    keys = ("step", "loss", "grad_norm", "learning_rate", "eval_loss")
    return [{key: entry[key] for key in keys if key in entry} for entry in history]


def outcome(folder):
    """All that has to be the same: model, losses, masters and moments of the last checkpoint."""
    last = folder / f"checkpoint-{STEPS}"
    files = [folder / "model.safetensors", *sorted(last.glob("*.states")), last / "lazytrain_state.json"]
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

    def __init__(self, program, config, folder):
        self.folder = folder
        self.command = [str(program), "train", str(config), f"output_dir={folder}", "resume_from_checkpoint=auto"]
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
        end = time.monotonic() + rng.uniform(0.02, 1.1) * duration
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


class Judge:
    def __init__(self, program, config, work):
        self.program, self.config, self.work = program, config, work
        begin = time.monotonic()
        run = Run(program, config, work / "undisturbed")
        code, errors = run.finish()
        if code != 0:
            sys.exit(f"the undisturbed run ended with {code}:\n{errors}")
        self.duration = time.monotonic() - begin
        self.expected = outcome(work / "undisturbed")
        self.right = self.all = 0

    def line(self, name, killed, good, note=""):
        self.all += 1
        self.right += good
        print(f"{self.all:>4}  {name:<20} {killed:<58} {'same bits' if good else 'DIFFERENT'}{note}", flush=True)

    def disturb(self, name, wait, number, expected_code, times=1):
        """Sends `number` to a new run at a moment, `times` times, then lets it end and compares."""
        folder = self.work / f"run-{self.all}"
        told, note = "", ""
        for _ in range(times):
            run = Run(self.program, self.config, folder)
            wait(run)
            run.send(number)
            code, errors = run.finish()
            left = "temporary left" if any(folder.glob(TEMPORARY)) else "no temporary"
            checkpoints = steps_of_checkpoints(folder) if folder.exists() else []
            told = f"after step {logged_step(folder)}, checkpoints {checkpoints}, {left}"
            if code not in (expected_code, 0):
                note = f" (exit code {code}: {errors.strip().splitlines()[-1:]})"
        run = Run(self.program, self.config, folder)
        code, errors = run.finish()
        if code != 0:
            self.line(name, told, False, f" (resuming ended with {code}: {errors.strip().splitlines()[-1:]})")
            return
        difference = [key for key, value in outcome(folder).items() if self.expected.get(key) != value]
        leftovers = [path.name for path in folder.glob(TEMPORARY)]
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
    options = parser.parse_args()
    rng = random.Random(options.seed)
    with tempfile.TemporaryDirectory(prefix="lazytrain-kill-") as name:
        work = pathlib.Path(name)
        tiny_run.keep_costs_in(work / "costs")
        config = tiny_run.make(work, **SETTINGS)
        judge = Judge(options.program, config, work)
        print(f"undisturbed: {STEPS} steps in {judge.duration:.1f} s\n"
              f"      {'SIGKILL at':<20} {'what the killed run had done':<58} after resuming")
        source = moments(rng, judge.duration)
        for i in range(options.kills):
            moment, wait = next(source)
            judge.disturb(moment, wait, signal.SIGKILL, -signal.SIGKILL, times=2 if i % 7 == 6 else 1)
        print(f"      {'stopped by'}")
        for number in (signal.SIGINT, signal.SIGTERM):
            step = rng.randint(3, STEPS - 3)
            judge.disturb(number.name, lambda run, s=step: run.wait_for(lambda: logged_step(run.folder) >= s),
                          number, 130)
        judge.disturb("SIGINT before step 1", lambda run: run.wait_for((run.folder / "run.yaml").exists),
                      signal.SIGINT, 130)
    print(f"kill: {'PASS' if judge.right == judge.all else 'FAIL'} "
          f"({judge.right} of {judge.all} disturbed runs ended with the bits of the undisturbed one)")
    return 0 if judge.right == judge.all else 1


if __name__ == "__main__":
    sys.exit(main())
