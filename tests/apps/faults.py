"""Spoils calls on files, one a run: a full disk, an I/O error, half a write, a kill before, within or after the call, a
power cut that takes what was not flushed. A library that LD_PRELOAD puts before the C library (tests/faults) counts the
calls and spoils one; where the faults fall is spread over all calls that an undisturbed run makes. After each:
a run that lives says one sentence and ends with the exit code of disks, or was not harmed and ends with the right bits;
every folder that looks like a checkpoint holds the bits of that step; and going on ends with the bits of an undisturbed run.

faults.py PROGRAM LIBRARY [--faults N] [--seed S]     exit 0 where all of it holds
"""

import argparse
import concurrent.futures
import dataclasses
import os
import pathlib
import random
import re
import shutil
import signal
import sys
import tempfile

import fault_files
import tiny_run
from kill import losses

STEPS = 8
ERRORS = ("no_space", "stays_full", "io_error")
KILLS = ("kill_before", "kill_within", "kill_after", "power_cut")
HARMLESS = ("short_write", "interrupted")
KINDS = ("kill_before", "no_space", "kill_within", "io_error", "power_cut", "stays_full", "kill_after", "short_write",
         "interrupted")
WRITES = ("write", "pwrite", "writev", "sendfile", "copy_file_range", "uring_write", "uring_read")
# What may fail without a word where nothing is lost: marks and locks, and what is being deleted.
UNHEARD = re.compile(r" (unlink|rmdir) |^ close .*/scratch$|\.lazytrain-unfinished$|\.lazytrain\.lock$|"
                     r" rename .*checkpoint-\d+\.tmp-\d+$")
DISK = {"memory_model": "emulated", "device_memory": "6MB", "optim": "adamw_8bit", "optim_embeddings": "8bit",
        "states_home": "disk"}


@dataclasses.dataclass
class Scenario:
    """A run whose calls on files below `watched` are spoiled."""
    name: str
    share: float                 # of all faults
    settings: dict = dataclasses.field(default_factory=dict)
    environment: dict = dataclasses.field(default_factory=dict)
    watched: str = "out"         # below the folder of a trial
    start: str = ""              # "finished": the folder holds a finished run already
    overrides: tuple = ()
    may_be_unheard: bool = False  # the program can do without these files


SCENARIOS = (
    Scenario("training", 0.50, {"save_total_limit": 2}),
    Scenario("going on, over later checkpoints", 0.12, {}, start="finished",
             overrides=("resume_from_checkpoint={folder}/out/checkpoint-4",)),
    Scenario("anew, over an earlier run", 0.12, {}, start="finished", overrides=("overwrite_output_dir=true",)),
    Scenario("states on disk, io_uring", 0.08, DISK, watched="scratch"),
    Scenario("states on disk, pread and pwrite", 0.08, DISK, {"LAZYTRAIN_IO": "pread"}, watched="scratch"),
    Scenario("the cache", 0.10, {"seed": 8}, watched="cache", may_be_unheard=True),
)


@dataclasses.dataclass
class Trial:
    number: int   # of the call
    call: str     # "write /path"
    kind: str


def kinds_for(call):
    name = call.split()[0]
    if name == "uring_read":
        return ("kill_before", "io_error", "short_write")
    if name in ("pread", "unlink", "rmdir"):
        return ("kill_before", "io_error", "kill_after", "power_cut")
    return KINDS if name in WRITES else tuple(kind for kind in KINDS if kind not in (*HARMLESS, "kill_within"))


def weights(folder):
    """All that has to be the same: model, losses, masters and moments of the last checkpoint."""
    last = folder / f"checkpoint-{STEPS}"
    files = [folder / "model.safetensors", *sorted(last.glob("group-*")), last / "lazytrain_state.json"]
    return {"losses": losses(folder), **{path.name: path.read_bytes() for path in files}}


def torn(folder, reference):
    """What looks like a checkpoint, or like the model, and is not the undisturbed run's."""
    for checkpoint in folder.glob("checkpoint-*"):
        if not checkpoint.name.split("-", 1)[1].isdigit():
            continue
        if not (checkpoint / "manifest.json").exists():
            return f"{checkpoint.name} has no manifest"
        for path in reference(int(checkpoint.name.split("-")[1])):
            mine = checkpoint / path.name
            if not mine.exists() or mine.read_bytes() != path.read_bytes():
                return f"{checkpoint.name}/{path.name} is not whole"
    return ""


class Bench:
    """Where trials of one scenario run: its settings, an undisturbed run, and the calls that it made."""

    def __init__(self, scenario, program, library, root, disk):
        self.scenario, self.program, self.library = scenario, program, library
        self.disk = disk  # for scratch files, which behave otherwise in memory
        self.root = root / re.sub(r"\W+", "-", scenario.name)
        settings = {"max_steps": STEPS, "save_steps": 2, "threads": 1, **scenario.settings}
        self.config = tiny_run.make(self.root, **settings)
        self.folder = self.prepared("undisturbed")
        done = self.train(self.folder)
        if done.returncode != 0:
            sys.exit(f"the undisturbed run ended with {done.returncode}:\n{done.stderr}")
        every = self.train(self.root / "every", "save_total_limit=99")
        if every.returncode != 0:
            sys.exit(every.stderr)
        self.expected = weights(self.folder / "out")
        self.earlier = None
        if scenario.start:
            self.earlier = self.folder / "out"
            if "overwrite" in str(scenario.overrides):  # another run lies there, and must not be taken for this one
                self.earlier = self.root / "other"
                self.train(self.earlier, "seed=99")
                self.earlier = self.earlier / "out"
        counted = self.prepared("counted")
        trace = self.root / "trace"
        self.train(counted, *self.overrides(counted), **self.spoiling(counted, LAZYTRAIN_FAULT_TRACE=str(trace)))
        self.calls = [line.split(" ", 1)[1] for line in trace.read_text().splitlines()]

    def overrides(self, folder):
        return tuple(text.format(folder=folder) for text in self.scenario.overrides)

    def prepared(self, name):
        folder = self.root / name
        folder.mkdir(parents=True)
        if getattr(self, "earlier", None):
            shutil.copytree(self.earlier, folder / "out")
        return folder

    def watched(self, folder):
        if self.scenario.watched == "scratch":
            return self.disk / folder.name / "scratch"
        return folder / self.scenario.watched

    def spoiling(self, folder, **more):
        watched = self.watched(folder)
        return {"LD_PRELOAD": str(self.library), "LAZYTRAIN_FAULT_FOLDERS": str(watched), **more}

    def train(self, folder, *overrides, **environment):
        if self.scenario.watched == "cache":
            environment.setdefault("XDG_CACHE_HOME", str(folder / "cache"))
        if self.scenario.watched == "scratch":
            overrides = (*overrides, f"scratch_dir={self.watched(folder)}")
        return tiny_run.run(self.program, "train", self.config, f"output_dir={folder / 'out'}", *overrides,
                            env=tiny_run.environment(**self.scenario.environment, **environment))

    def trials(self, count, rng):
        """Spread over the calls, the kinds in turn."""
        result, turn = [], rng.randrange(len(KINDS))
        for i in range(count):
            number = 1 + int((i + rng.random()) * len(self.calls) / count)
            call = self.calls[min(number, len(self.calls)) - 1]
            while KINDS[turn % len(KINDS)] not in kinds_for(call):
                turn += 1
            result.append(Trial(number, call, KINDS[turn % len(KINDS)]))
            turn += 1
        return result

    def reference(self, step):
        last = self.root / "every" / "out" / f"checkpoint-{step}"
        return [*sorted(last.glob("group-*")), last / "lazytrain_state.json"]

    def faults_of(self, trial, folder):
        """What happened, and what is wrong with it ('' where all is well)."""
        out = folder / "out"
        done = self.train(folder, *self.overrides(folder),
                          **self.spoiling(folder, LAZYTRAIN_FAULT_AT=str(trial.number), LAZYTRAIN_FAULT_KIND=trial.kind))
        said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
        told = {0: "unharmed", 6: "refused", -signal.SIGKILL: "killed"}.get(done.returncode, f"exit {done.returncode}")
        if trial.kind in KILLS and done.returncode != -signal.SIGKILL:
            return told, f"exit code {done.returncode} of a killed run: {done.stderr[-200:]}"
        if done.returncode not in (0, 6, -signal.SIGKILL):
            return told, f"exit code {done.returncode}: {done.stderr[-300:]}"
        if done.returncode == 6 and (len(said) != 1 or trial.kind in HARMLESS):
            return told, f"{len(said)} sentences: {done.stderr[-300:]}"
        if done.returncode == 0 and trial.kind in ERRORS and not self.scenario.may_be_unheard \
                and not UNHEARD.search(f" {trial.call}"):
            return told, "an error that nobody was told of"
        if self.earlier is None and (fault := torn(out, self.reference)):
            return told, fault
        if done.returncode != 0:
            going_on = self.train(folder, "resume_from_checkpoint=auto")
            if going_on.returncode != 0 and self.earlier is not None:  # the earlier run is still there
                going_on = self.train(folder, *self.overrides(folder))
            if going_on.returncode != 0:
                return told, f"going on ended with {going_on.returncode}: {going_on.stderr[-300:]}"
        now = weights(out)
        if different := [key for key, value in self.expected.items() if now.get(key) != value]:
            return told, f"other bits in {', '.join(different)}"
        if fault := torn(out, self.reference):
            return told, fault
        if self.scenario.watched == "cache":  # what was left in the cache must not harm the next
            again = self.train(folder, "overwrite_output_dir=true")
            if again.returncode != 0 or weights(out) != self.expected:
                return told, f"the cache is torn: {again.stderr[-300:]}"
        if done.returncode != 0 and (left := [path.name for path in out.glob("*.tmp-*")]):
            return told, f"left behind: {left[0]}"
        return told, ""

    def tried(self, number, trial):
        folder = self.prepared(f"trial-{number}")
        try:
            return trial, *self.faults_of(trial, folder)
        except Exception as error:  # whatever it is, it is this trial's
            return trial, "broke off", f"{type(error).__name__}: {error}"
        finally:
            shutil.rmtree(folder)


def try_scenario(bench, count, rng, workers):
    outcomes, wrong = {}, []
    trials = bench.trials(count, rng)
    for trial, told, fault in workers.map(lambda pair: bench.tried(*pair), enumerate(trials)):
        row = outcomes.setdefault(trial.kind, {})
        row[told] = row.get(told, 0) + 1
        if fault:
            wrong.append(f"{trial.kind} at call {trial.number} ({trial.call.replace(str(bench.root), '')}): {fault}")
    print(f"{bench.scenario.name}: {len(bench.calls)} calls on files, {len(trials)} of them spoiled")
    for kind in (kind for kind in KINDS if kind in outcomes):
        print(f"  {kind:<12} {', '.join(f'{told} {times}' for told, times in sorted(outcomes[kind].items()))}")
    for fault in wrong:
        print(f"  WRONG: {fault}")
    sys.stdout.flush()
    return len(trials), len(wrong)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("--faults", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="scenarios whose name contains this")
    options = parser.parse_args()
    program, library = options.program.resolve(), options.library.resolve()
    rng = random.Random(options.seed)
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    faults = wrong = 0
    with tempfile.TemporaryDirectory(prefix="lazytrain-faults-", dir=memory) as fast, \
            tempfile.TemporaryDirectory(prefix="lazytrain-faults-") as disk, \
            concurrent.futures.ThreadPoolExecutor(max(2, os.cpu_count())) as workers:
        tiny_run.keep_costs_in(pathlib.Path(fast) / "costs")
        for scenario in (scenario for scenario in SCENARIOS if options.only in scenario.name):
            bench = Bench(scenario, program, library, pathlib.Path(fast).resolve(), pathlib.Path(disk).resolve())
            tried, failed = try_scenario(bench, max(1, round(options.faults * scenario.share)), rng, workers)
            faults, wrong = faults + tried, wrong + failed
            shutil.rmtree(bench.root)
        if not options.only:
            wrong += fault_files.check(program, pathlib.Path(fast).resolve() / "files")
    part = f" (only {options.only})" if options.only else ""
    holds = wrong == 0 and faults >= (1 if options.only else 0.9 * options.faults)
    print(f"faults{part}: {'PASS' if holds else 'FAIL'} ({faults} injected, {wrong} wrong)")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
