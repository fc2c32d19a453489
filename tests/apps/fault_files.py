"""A flipped bit in every file that a run leaves: what a run goes on from is refused with its name, or passed over for an
older checkpoint; what does not matter changes nothing. And two runs in one output folder at once."""

import shutil
import subprocess

import tiny_run
from kill import PACED, losses

STEPS = 6


def flipped(path, bit):
    content = bytearray(path.read_bytes())
    at = bit % (8 * len(content))
    content[at // 8] ^= 1 << at % 8
    path.write_bytes(content)


def outcome(folder):
    last = folder / f"checkpoint-{STEPS}"
    files = [folder / "model.safetensors", *sorted(last.glob("group-*")), last / "lazytrain_state.json"]
    return {"losses": losses(folder), **{path.name: path.read_bytes() for path in files}}


class Files:
    def __init__(self, program, root):
        self.program, self.root = program, root
        self.config = tiny_run.make(root, max_steps=STEPS, threads=1)
        self.wrong = self.all = 0
        done = self.train("whole")
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        self.expected = outcome(root / "whole")

    def train(self, out, *overrides):
        return tiny_run.run(self.program, "train", self.config, f"output_dir={self.root / out}", *overrides)

    def judge(self, name, fault):
        self.all += 1
        self.wrong += bool(fault)
        if fault:
            print(f"  WRONG: {name}: {fault}", flush=True)

    def copy(self):
        shutil.rmtree(self.root / "copy", ignore_errors=True)
        return shutil.copytree(self.root / "whole", self.root / "copy")

    def in_checkpoint(self, name, bit):
        out = self.copy()
        last = out / f"checkpoint-{STEPS}"
        flipped(last / name, bit)
        done = self.train("copy", f"resume_from_checkpoint={last}")
        said = done.stderr.strip().splitlines()
        refused = done.returncode == 4 and len(said) == 1 and name in said[0]
        self.judge(f"bit {bit} of {name}", "" if refused else f"exit {done.returncode}: {done.stderr[-200:]}")

    def passed_over(self, name, bit):
        """`auto` takes the checkpoint before, and comes to the same bits."""
        out = self.copy()
        flipped(out / f"checkpoint-{STEPS}" / name, bit)
        done = self.train("copy", "resume_from_checkpoint=auto")
        fault = ""
        if done.returncode != 0 or "passed over" not in done.stderr or name not in done.stderr:
            fault = f"exit {done.returncode}: {done.stderr[-200:]}"
        elif outcome(out) != self.expected:
            fault = "other bits"
        self.judge(f"auto, bit {bit} of {name}", fault)

    def beside(self, name, bit):
        """A file that no run reads again: going on from step 4 ends with the same bits."""
        out = self.copy()
        flipped(out / name, bit)
        done = self.train("copy", f"resume_from_checkpoint={out / 'checkpoint-4'}")
        fault = f"exit {done.returncode}: {done.stderr[-200:]}" if done.returncode != 0 else ""
        if not fault and outcome(out) != self.expected:
            fault = "other bits"
        self.judge(f"beside the checkpoints, bit {bit} of {name}", fault)

    def two_at_once(self):
        slow = [f"{key}={value}" for key, value in {**PACED, "optimizer_gparams_per_s": 0.001}.items()]
        out = self.root / "shared"
        command = [str(self.program), "train", str(self.config), f"output_dir={out}", *slow]
        first = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                 env=tiny_run.environment())
        first.stdout.readline()
        for _ in range(3):
            second = self.train("shared", "overwrite_output_dir=true")
            if first.poll() is None:
                refused = second.returncode == 2 and f"process {first.pid} is training into it" in second.stderr
                self.judge("a second run", "" if refused else f"exit {second.returncode}: {second.stderr[-200:]}")
        _, errors = first.communicate(timeout=120)
        alike = first.returncode == 0 and outcome(out) == self.expected
        self.judge("the first of two", "" if alike else f"exit {first.returncode}, or other bits: {errors[-200:]}")


def check(program, root):
    """Prints figures; returns how much is wrong."""
    files = Files(program, root)
    checkpoint = sorted(path.name for path in (root / "whole" / f"checkpoint-{STEPS}").iterdir())
    for number, name in enumerate(checkpoint):
        for bit in (0, 7919 * (number + 1), -1):
            files.in_checkpoint(name, bit)
        files.passed_over(name, 104729 * (number + 1))
    others = sorted(path.name for path in (root / "whole").iterdir() if path.is_file())
    for number, name in enumerate(others):
        files.beside(name, 7919 * (number + 1) if (root / "whole" / name).stat().st_size else 0)
    bits = files.all
    files.two_at_once()
    print(f"flipped bits: {bits} in {len(checkpoint)} files of a checkpoint and {len(others)} beside it; "
          f"{files.all - bits} checks of two runs at once; {files.wrong} wrong")
    return files.wrong
