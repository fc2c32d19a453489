"""Random settings of run.yaml on the tiny model. Every run ends with its model, or refuses in one sentence; all
that end train to the same bits, whatever machine and plan they ran with.

random_runs.py PROGRAM [--groups N] [--seed S]     exit 0 where that holds
"""

import argparse
import pathlib
import random
import subprocess
import sys
import tempfile

import tiny_run
from bad_case import FORBIDDEN
from kill import losses

REFUSALS = (2, 3, 5)  # settings that do not go together, samples that are all too long, what does not fit


def training(rng):
    """What decides the result."""
    batch = rng.choice((1, 2, 3, 4, 7, 16))
    return {
        "cutoff_len": rng.choice((90, 128, 129, 200, 512)), "per_device_train_batch_size": batch,
        "gradient_accumulation_steps": rng.choice((1, 1, 2, 3)), "packing": rng.choice(("true", "true", "false")),
        "bf16": rng.choice(("true", "true", "false")), "train_on_prompt": rng.choice(("true", "false")),
        "overlong": rng.choice(("drop", "truncate")), "lr_scheduler_type": rng.choice(("linear", "cosine", "constant")),
        "warmup_ratio": rng.choice((0, 0.5)), "weight_decay": rng.choice((0, 0.1)), "max_grad_norm": rng.choice((0, 0.5)),
        "max_steps": rng.choice((1, 3, 3, -1)), "seed": rng.randint(0, 1 << 40), "max_samples": rng.choice(("null", 5, 50)),
        "val_size": rng.choice((0, 0.2, 3)), "save_steps": rng.choice((0, 1)), "num_train_epochs": rng.choice((0.5, 3)),
        "template": rng.choice(("chatml", "plain", "null", "smollm2", "alpaca")), "warmup_steps": rng.choice((0, 2)),
        "learning_rate": rng.choice((0, 1e-4, 1e-2)), "eval_steps": rng.choice((1, 2)),
    }


def machine(rng):
    """What must not decide it."""
    settings = {
        "policy": rng.choice(("auto", "milp", "megatrain", "zero3-offload", "every-k", "keep-all", "offload-all", "greedy", "paper")),
        "every_k": rng.choice((1, 2, 3, 9)), "optimizer_overlap": rng.choice(("auto", "on", "off")),
        "threads": rng.choice((1, 2, 3)), "micro_batch": rng.choice(("auto", "auto", 1, 2, 3)),
        "debug_memory": rng.choice(("true", "false")), "per_device_eval_batch_size": rng.choice((1, 2, 8)),
    }
    if rng.random() < 0.6:
        settings.update(memory_model="emulated", device_memory=rng.choice(("900kB", "1500kB", "3MB", "20MB")),
                        host_memory=rng.choice(("auto", "3MB", "1GB")), split_cores=rng.choice(("true", "false")))
        if rng.random() < 0.5:
            settings.update(link_h2d_gbps=rng.choice((0, 0.5, 5)), link_d2h_gbps=rng.choice((0, 0.5)),
                            link_duplex_gbps=rng.choice((0, 1)), optimizer_gparams_per_s=rng.choice((0, 0.01)))
    return settings


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--groups", type=int, default=10)
    parser.add_argument("--runs", type=int, default=4, help="runs of a group")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    ended = refused = 0
    wrong = []
    with tempfile.TemporaryDirectory(prefix="lazytrain-random-") as name:
        work = pathlib.Path(name)
        tiny_run.keep_costs_in(work / "costs")
        tiny_run.make(work)
        for group in range(options.seed, options.seed + options.groups):
            rng = random.Random(group)
            common = training(rng)
            expected = None
            for number in range(options.runs):
                own = machine(rng)
                out = work / f"out-{group}-{number}"
                settings = {"model_name_or_path": work / "model", "dataset_dir": work / "data", "dataset": "sums",
                            "output_dir": out, "logging_steps": 1, **common, **own}
                if common["val_size"]:
                    settings["eval_strategy"] = "steps"
                tiny_run.write_config(work / "run.yaml", **settings)
                try:
                    done = tiny_run.run(options.program, "train", work / "run.yaml", timeout=180)
                except subprocess.TimeoutExpired:
                    wrong.append(f"group {group}, run {number}: still running after 180 s: {common} {own}")
                    continue
                said = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
                if done.returncode in REFUSALS and len(said) == 1 and not FORBIDDEN.search(done.stderr):
                    refused += 1
                    print(f"  group {group}.{number}: {said[0][:150]}")
                    continue
                if done.returncode != 0 or said or FORBIDDEN.search(done.stderr):
                    wrong.append(f"group {group}, run {number}: exit code {done.returncode}: {done.stderr[-400:]}: {common} {own}")
                    continue
                ended += 1
                result = ((out / "model.safetensors").read_bytes(), losses(out))
                if expected is not None and result != expected:
                    wrong.append(f"group {group}, run {number}: other bits: {common} {own}")
                expected = expected or result
            last = [entry["loss"] for entry in expected[1] if "loss" in entry][-1:] if expected else "no run"
            print(f"group {group}: {last}", flush=True)
    for line in wrong:
        print(f"WRONG {line}")
    print(f"random-runs: {'FAIL' if wrong else 'PASS'} ({ended} runs ended with the bits of their group, {refused} were "
          f"refused in one sentence)")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
