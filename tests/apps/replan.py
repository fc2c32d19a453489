"""Plans that take over in the middle of a run, on the tiny model: links that slow down make the run plan again, and what is
trained does not change by a bit; a run that was interrupted after the change goes on; `replan: off` keeps its plan.

replan.py PROGRAM     exit 0 where all of it holds
"""

import json
import pathlib
import sys
import tempfile

import tiny_run
from kill import losses

STEPS = 16
# Boundaries and stashes leave the device, over links that are fast at first and a thousandth as fast from step 3 on: no
# noise of a busy machine comes near that.
MACHINE = {"memory_model": "emulated", "device_memory": "1250kB", "policy": "auto", "micro_batch": 1, "link_h2d_gbps": 20,
           "link_d2h_gbps": 20}
SLOW = {"debug_link_step": 3, "debug_link_factor": 0.001}


class Replans:
    def __init__(self, program, work):
        self.program, self.work, self.wrong = program, work, []

    def check(self, holds, what):
        print(f"  {'ok  ' if holds else 'FAIL'} {what}")
        if not holds:
            self.wrong.append(what)

    def train(self, name, **settings):
        out = self.work / name
        config = tiny_run.make(self.work, output_dir=out, **{"max_steps": STEPS, "save_steps": STEPS, **MACHINE, **settings})
        done = tiny_run.run(self.program, "train", config)
        self.check(done.returncode == 0, f"{name} ends" + ("" if done.returncode == 0 else f": {done.stderr[-300:]}"))
        return out, done.stdout + done.stderr

    def bits(self, out):
        last = out / f"checkpoint-{STEPS}"
        return [path.read_bytes() for path in [out / "model.safetensors", *sorted(last.glob("group-*"))]], losses(out)

    def run(self):
        plain, _ = self.train("plain", replan="off")
        changed, text = self.train("changed", replan="auto", **SLOW)
        self.check("runs at" in text and ("takes over" in text or "no plan is faster" in text),
                   "the run saw that its links have slowed down")
        self.check(self.bits(changed) == self.bits(plain), "weights, states and losses are those of an undisturbed run")
        kept, text = self.train("kept", replan="off", **SLOW)
        self.check("takes over" not in text and "no plan is faster" not in text, "replan: off plans once")
        self.check(self.bits(kept) == self.bits(plain), "and trains the same bits")
        plan = json.loads((changed / "plan.json").read_text(encoding="utf-8"))
        first = json.loads((kept / "plan.json").read_text(encoding="utf-8"))
        self.check(plan["micro_batch"] == first["micro_batch"] and plan["groups"] == first["groups"],
                   "micro-batch and homes stay")
        return not self.wrong


def main():
    with tempfile.TemporaryDirectory() as folder:
        return 0 if Replans(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(folder)).run() else 1


if __name__ == "__main__":
    sys.exit(main())
