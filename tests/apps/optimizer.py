"""The optimizer's keys as a user meets them, on the tiny model: 8-bit moments train to the same bits whatever
plan runs, wherever the states live and wherever a run is interrupted, learn like fp32 moments, take less host memory, and a checkpoint
of one kind goes on as the other.

optimizer.py PROGRAM     exit 0 where all of it holds
"""

import pathlib
import shutil
import sys
import tempfile

import tiny_run
from kill import losses

KINDS = {
    "adamw_32bit": {"optim": "adamw_32bit"},
    "adamw_8bit": {"optim": "adamw_8bit"},
    "adamw_8bit, embeddings too": {"optim": "adamw_8bit", "optim_embeddings": "8bit"},
    "adamw_hybrid": {"optim": "adamw_hybrid", "optim_hybrid_fraction": 0.4},
}
MACHINES = [
    {"policy": "keep-all", "threads": 1, "optimizer_overlap": "off"},
    {"policy": "offload-all", "memory_model": "emulated", "device_memory": "20MB", "micro_batch": 1},
    {"policy": "megatrain", "memory_model": "emulated", "device_memory": "20MB", "threads": 4},
    {"policy": "keep-all", "threads": 2, "states_home": "disk"},
    {"policy": "every-k", "memory_model": "emulated", "device_memory": "20MB", "threads": 4, "states_home": "disk",
     "optimizer_overlap": "off"},
]
STEPS = 20


class Optimizers:
    def __init__(self, program, work):
        self.program, self.work, self.wrong = program, work, []

    def check(self, holds, what):
        print(f"  {'ok  ' if holds else 'FAIL'} {what}")
        if not holds:
            self.wrong.append(what)

    def train(self, name, **settings):
        out = self.work / name
        config = tiny_run.make(self.work, output_dir=out, **{"max_steps": STEPS, "save_steps": STEPS // 2, **settings})
        done = tiny_run.run(self.program, "train", config)
        if done.returncode != 0:
            self.check(False, f"{name} ends: {done.stderr[-300:]}")
        return out, done

    def bits(self, out):
        last = out / f"checkpoint-{STEPS}"
        return [path.read_bytes() for path in [out / "model.safetensors", *sorted(last.glob("group-*"))]], losses(out)

    def run(self):
        last, sizes = {}, {}
        for kind, keys in KINDS.items():
            out, _ = self.train("straight", overwrite_output_dir="true", **keys)
            expected = self.bits(out)
            last[kind] = [entry["loss"] for entry in expected[1] if "loss" in entry][-1]
            sizes[kind] = sum(path.stat().st_size for path in (out / f"checkpoint-{STEPS}").glob("group-*.states"))
            for number, machine in enumerate(MACHINES):
                other, _ = self.train(f"machine-{number}", overwrite_output_dir="true", **{**keys, **machine})
                self.check(self.bits(other) == expected, f"{kind}: the same bits with {machine}")
            for home in ("host", "disk"):
                interrupted = self.work / "interrupted"
                shutil.rmtree(interrupted, ignore_errors=True)
                shutil.copytree(out, interrupted)
                shutil.rmtree(interrupted / f"checkpoint-{STEPS}")
                again, _ = self.train("interrupted", resume_from_checkpoint="auto", states_home=home, **keys)
                self.check(self.bits(again)[0] == expected[0],
                           f"{kind}: the same bits when it goes on from step {STEPS // 2}, states on {home}")
            exported = self.work / "exported"
            shutil.rmtree(exported, ignore_errors=True)
            done = tiny_run.run(self.program, "export", out / f"checkpoint-{STEPS}", "--model", self.work / "model", "--out",
                                exported)
            self.check(done.returncode == 0 and (exported / "model.safetensors").read_bytes() == expected[0][0],
                       f"{kind}: a checkpoint exports what the run exported")
        for kind, loss in last.items():
            self.check(abs(loss / last["adamw_32bit"] - 1) < 0.02, f"{kind}: loss {loss:.4f} after {STEPS} steps")
        self.check(sizes["adamw_8bit, embeddings too"] < 0.5 * sizes["adamw_32bit"] and
                   sizes["adamw_8bit, embeddings too"] < sizes["adamw_8bit"] < sizes["adamw_32bit"],
                   f"bytes of states: {sizes}")
        for before, after in (("adamw_32bit", "adamw_8bit"), ("adamw_8bit", "adamw_32bit"), ("adamw_hybrid", "adamw_8bit")):
            out, _ = self.train("changed", overwrite_output_dir="true", **KINDS[before])
            shutil.rmtree(out / f"checkpoint-{STEPS}")
            out, done = self.train("changed", resume_from_checkpoint="auto", **KINDS[after])
            said = [line for line in (done.stdout + done.stderr).splitlines() if "states are converted" in line]
            self.check(len(said) == 1, f"{before} -> {after}: {said}")
            loss = [entry["loss"] for entry in losses(out) if "loss" in entry][-1]
            self.check(abs(loss / last["adamw_32bit"] - 1) < 0.02, f"{before} -> {after}: loss {loss:.4f}")
        return self.wrong


def main():
    with tempfile.TemporaryDirectory(prefix="lazytrain-optimizer-") as name:
        work = pathlib.Path(name)
        tiny_run.keep_costs_in(work / "costs")
        wrong = Optimizers(pathlib.Path(sys.argv[1]), work).run()
    print(f"optimizer: {'FAIL' if wrong else 'PASS'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
