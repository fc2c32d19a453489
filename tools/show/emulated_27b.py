"""A small model on an emulated machine that has the ratios of a 27B model on a real one.

The model has a sixteenth of Qwen3.6-27B's hidden size, MLP width and vocabulary, the same 64 layers, and documents of a
sixteenth of the tokens. So weights, boundaries, stashes and logits are 1/256 of the real ones and keep their ratios. Time
is set by what is measured here: a layer's forward on this machine takes `slowdown` times as long as on the real one, and
links, disk and optimizer are paced to their real rates divided by it. One core of this machine computes as the device,
another is the host (split_cores).

The figures of the real machines are those that planning was designed with, assumed and not measured:
  H800: 400 TFLOP/s sustained in bf16; PCIe 5.0 x16 at 50 GB/s each way, 1.8 times that both ways together; disks of 6 GB/s
    read and 5 written; AdamW on the host at 6e9 parameters a second. With 72 x 1024 tokens a layer's weights cross in
    (2 bytes / 50 GB/s) / (2 flops * 73,728 / 400 TFLOP/s) = 0.1085 of the layer's forward.
  RTX 3090: 65 TFLOP/s, PCIe 4.0 x16 at 24 GB/s, 2.5e9 parameters a second; 2 x 1024 tokens.
"""

import dataclasses
import json
import pathlib
import random
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SHRINK = 16  # of every width, and of the tokens of a document
BYTES = SHRINK * SHRINK  # a byte here stands for 256
LAYERS, HEADS = 64, 5
HIDDEN, FFN, VOCAB, TOKENS = 5120 // SHRINK, 17408 // SHRINK, 248320 // SHRINK, 1024 // SHRINK
LAYER = 4 * HIDDEN * HIDDEN + 3 * HIDDEN * FFN  # matrices of a layer: 1/256 of 372 M
EMBEDDING = VOCAB * HIDDEN
PACED_STEP = re.compile(r"^step, s +([0-9.]+) +([0-9.]+)", re.M)
PARTS = re.compile(r"^(step|compute|exposed), s +([0-9.]+) +([0-9.]+)", re.M)


@dataclasses.dataclass(frozen=True)
class Host:
    """A real machine and its batch. GB and GB/s are 1e9 bytes."""

    name: str
    tflops: float  # sustained, bf16
    slots: int  # of 1024 tokens in a step
    link: float  # each way
    optimizer: float  # parameters a second
    device: float  # memory, less 5 % and the driver's context
    pool: float  # host memory beside weights, gradients and states
    disk_read: float
    disk_write: float
    micro_batch: int  # slots of the calls whose costs are measured: about what plans choose
    duplex: float = 1.8  # both ways together, in links


H800 = Host("H800", tflops=400, slots=72, link=50, optimizer=6e9, device=0.95 * 80 - 2.5, pool=16, disk_read=6,
            disk_write=5, micro_batch=24)
RTX3090 = Host("RTX 3090", tflops=65, slots=2, link=24, optimizer=2.5e9, device=0.95 * 25.77 - 1, pool=32, disk_read=3,
               disk_write=2.5, micro_batch=1)


def parts(text):
    """The simulated seconds of a step that `train` printed: step, compute, exposed."""
    return {match.group(1): float(match.group(2)) for match in PARTS.finditer(text)}


@dataclasses.dataclass
class Run:
    simulated: float  # seconds a step
    measured: float  # the median
    plan: dict
    text: str


class Emulation:
    """Model, data and measured costs in a folder; `settings` makes the keys of run.yaml of a machine. With fewer layers than
    the 27B model has, the time and memory of each stay what they are; the pool is for all of them and shrinks alike."""

    def __init__(self, folder, lazytrain, layers=LAYERS):
        self.folder, self.lazytrain, self.tables = pathlib.Path(folder).resolve(), str(lazytrain), {}
        self.layers, self.parameters = layers, layers * LAYER + 2 * EMBEDDING
        self.folder.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "model" / "tokenizer_config.json").exists():  # which is written last
            sizes = {"hidden": HIDDEN, "ffn": FFN, "layers": layers, "heads": HEADS, "kv-heads": HEADS, "vocab": VOCAB}
            words = [str(word) for name, size in sizes.items() for word in (f"--{name}", size)]
            subprocess.run([sys.executable, str(ROOT / "tools" / "make_random_model.py"), "--out",
                            str(self.folder / "model"), *words], check=True)
        # One byte, a newline, digits (of which the tokenizer merges none) and the end fill a slot to its last token.
        rng = random.Random(1)
        documents = [{"query": "?", "response": "".join(rng.choice("0123456789") for _ in range(TOKENS - 3))}
                     for _ in range(4 * H800.slots)]
        (self.folder / "documents.json").write_text(json.dumps(documents), encoding="utf-8")
        self.base = {
            "model_name_or_path": self.folder / "model", "dataset": self.folder / "documents.json", "template": "plain",
            "train_on_prompt": "true", "cutoff_len": TOKENS, "packing": "true", "learning_rate": 1e-5, "save_steps": 0,
            "logging_steps": 1000, "overwrite_output_dir": "true", "memory_model": "emulated", "split_cores": "true",
            "threads": 2, "device_memory": "1GB", "per_device_train_batch_size": H800.slots, "replan": "off",
        }

    def costs(self, host):
        """The cost table of this machine for calls as they are on `host`, measured once (nothing else should run)."""
        if host.micro_batch not in self.tables:
            file = self.costs_file(host)
            self.run("calibrate", {**self.base, "micro_batch": host.micro_batch}, "--out", file)
            self.tables[host.micro_batch] = json.loads(file.read_text(encoding="utf-8"))
        return self.tables[host.micro_batch]

    def costs_file(self, host):
        return self.folder / f"costs-{host.micro_batch}.json"

    def slowdown(self, host):
        """Seconds of this machine that stand for one of the real one."""
        real = 2 * host.slots * 1024 * BYTES * LAYER / (1e12 * host.tflops)  # of a layer's forward
        return host.slots * self.costs(host)["forward_s"] / real

    def settings(self, host, **changes):
        slow = self.slowdown(host)
        # On the host: weight, gradient, residual and two moments; an fp32 gradient of the embedding.
        states = 14 * self.parameters + 2 * EMBEDDING
        pool = host.pool * self.layers / LAYERS
        rate = host.link / BYTES / slow
        return {
            **self.base, "calibration": self.costs_file(host), "per_device_train_batch_size": host.slots,
            "link_h2d_gbps": rate, "link_d2h_gbps": rate, "link_duplex_gbps": host.duplex * rate,
            "disk_read_gbps": host.disk_read / BYTES / slow, "disk_write_gbps": host.disk_write / BYTES / slow,
            "optimizer_gparams_per_s": host.optimizer / BYTES / slow / 1e9,
            "device_memory": f"{1e3 * host.device / BYTES:.0f}MB",
            "host_memory": f"{states / 1e6 + 1e3 * pool / BYTES:.0f}MB", **changes,
        }

    def run(self, command, settings, *arguments):
        """What the program printed; SystemExit with its last words where it fails."""
        file = self.folder / "run.yaml"
        file.write_text("".join(f"{key}: {value}\n" for key, value in settings.items()), encoding="utf-8")
        done = subprocess.run([self.lazytrain, command, str(file), *map(str, arguments)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"lazytrain {command} failed with {done.returncode}:\n{done.stdout[-2000:]}")
        return done.stdout

    def train(self, settings, steps, name="run"):
        """Trains a few steps; the median step beside the simulated one."""
        out = self.folder / name
        text = self.run("train", {**settings, "output_dir": out, "max_steps": steps})
        found = PACED_STEP.search(text)
        return Run(float(found.group(1)), float(found.group(2)),
                   json.loads((out / "plan.json").read_text(encoding="utf-8")), text)

    def times(self, host):
        """Seconds of a layer: its forward, the transfer of its weights, its update."""
        settings = self.settings(host)
        return (host.slots * self.costs(host)["forward_s"], 2 * LAYER / (1e9 * settings["link_h2d_gbps"]),
                LAYER / (1e9 * settings["optimizer_gparams_per_s"]))

    def describe(self, host):
        """The machine in a few lines."""
        settings = self.settings(host)
        forward, transfer, update = self.times(host)
        core = 1 / self.costs(host)["update_per_parameter_s"]
        return (
            f"27B on {host.name}, {host.slots} x 1024 tokens, emulated by {self.parameters / 1e6:.0f} M parameters in "
            f"{self.layers} layers, {host.slots} x {TOKENS} tokens\n"
            f"  forward of a layer {1e3 * forward:.2f} ms (a real second takes {self.slowdown(host):.3f} s here); "
            f"its weights cross in {transfer / forward:.4f} of that, its update takes {update / forward:.4f}\n"
            f"  links {settings['link_h2d_gbps']:.3f} GB/s each way, {settings['link_duplex_gbps']:.3f} together; "
            f"device {settings['device_memory']}, host {settings['host_memory']}\n"
            f"  optimizer {1e3 * settings['optimizer_gparams_per_s']:.1f} M parameters/s; "
            f"the host core can do {core / 1e6:.0f}"
        )
