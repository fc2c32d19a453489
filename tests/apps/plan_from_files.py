"""`lazytrain plan` without a run.yaml: a model's config.json and a machine file, and every bad one of them.

plan_from_files.py PROGRAM     exit 0 where all of it is as it should be
"""

import json
import pathlib
import sys
import tempfile

import tiny_run

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"


def main():
    program, wrong = pathlib.Path(sys.argv[1]).resolve(), []
    with tempfile.TemporaryDirectory(prefix="lazytrain-plan-") as name:
        work = pathlib.Path(name)

        def plan(*more, model="qwen3.6-27b", machine=EXAMPLES / "machines" / "h800-80g.json", batch=4, tokens=1024,
                 policy="every-k"):
            arguments = ["--model", EXAMPLES / "models" / model, "--machine", machine, "--batch", batch, "--tokens", tokens,
                         "--out", work / "plan.json", "--policy", policy, "--micro-batch", 2, *more]
            return tiny_run.run(program, "plan", *arguments, timeout=120)

        def check(what, holds, told=""):
            print(f"  {'ok   ' if holds else 'WRONG'} {what}" + ("" if holds else f": {told}"), flush=True)
            if not holds:
                wrong.append(what)

        def refuses(what, code, sentence, done):
            errors = done.stderr.strip().splitlines()
            check(what, done.returncode == code and len(errors) == 1 and sentence in errors[0], done.stderr)

        def machine(text=None, **changes):
            values = json.loads((EXAMPLES / "machines" / "h800-80g.json").read_text())
            values.update(changes)
            values = {key: value for key, value in values.items() if value is not None}
            path = work / "machine.json"
            path.write_text(text if text is not None else json.dumps(values))
            return path

        for model in ("qwen3.6-27b", "qwen3-30b-a3b", "mistral-7b-v0.1"):
            done = plan(model=model)
            check(f"plan {model}", done.returncode == 0 and "modelled" in done.stdout and "simulated" in done.stdout, done.stderr)
        check("the plan is written", len(json.loads((work / "plan.json").read_text())["layers"]) == 32)
        done = plan("--optimizer", "adamw_8bit", "--host-pool", "16GB", "--overlap", "off")
        check("a pool, 8-bit states, no overlap", done.returncode == 0 and "after the backward" in done.stdout, done.stderr)
        done = plan(model="qwen2.5-3b", machine=EXAMPLES / "machines" / "two-core-cpu.json", tokens=512)
        check("a CPU keeps states on disk", done.returncode == 0 and "on disk" in done.stdout, done.stderr)

        refuses("no machine", 2, "--machine is missing; give run.yaml, or --model, --machine, --batch and --tokens",
                tiny_run.run(program, "plan", "--model", EXAMPLES / "models" / "qwen3-8b"))
        tiny_run.write_config(work / "run.yaml", model_name_or_path=EXAMPLES / "models" / "qwen3-8b")
        refuses("a model beside a run.yaml", 2, "--model goes without a run.yaml; leave one of the two out",
                tiny_run.run(program, "plan", work / "run.yaml", "--model", EXAMPLES / "models" / "qwen3-8b"))
        refuses("a machine file that is not there", 2, "nowhere.json", plan(machine=work / "nowhere.json"))
        refuses("not JSON", 2, "machine.json", plan(machine=machine(text="tflops: 400")))
        refuses("a list", 2, "a JSON object is expected here", plan(machine=machine(text="[]")))
        refuses("no rate", 2, "key 'tflops' is missing", plan(machine=machine(tflops=None)))
        refuses("a rate of 0", 2, "'tflops' is 0; a modelled step needs a rate: it must be above 0", plan(machine=machine(tflops=0)))
        refuses("a negative rate", 2, "'h2d_gbps' is -5; it must lie between 0 and 100000", plan(machine=machine(h2d_gbps=-5)))
        refuses("an absurd rate", 2, "'tflops' is 1000000000; it must lie between", plan(machine=machine(tflops=1e9)))
        refuses("text for a rate", 2, "'tflops' must be a number", plan(machine=machine(tflops="400")))
        refuses("no device memory", 2, "'device_capacity' is 0; it must lie between 1", plan(machine=machine(device_capacity=0)))
        refuses("little device memory", 5, "the device budget of 1.00 GB is too small",
                plan(machine=machine(device_capacity=10**9, disk_capacity=0)))
        refuses("no host memory", 5, "the host budget of 0 B is too small", plan(machine=machine(host_capacity=0, disk_capacity=0)))
        refuses("too many tokens", 2, "--tokens: 300000 are more than the 262144 positions", plan(tokens=300000))
        refuses("no such policy", 2, "policy: 'best' is not a policy", plan(policy="best"))
        refuses("a pool that is no size", 2, "--host-pool", plan("--host-pool", "much"))
        refuses("a batch of 0", 2, "--batch", plan(batch=0))
        refuses("no such model", 4, "no such model folder", plan(model="nothing"))
        tiny_run.write_config(work / "run.yaml", model_name_or_path=EXAMPLES / "models" / "qwen3-30b-a3b")
        refuses("a run of a model that is not trained yet", 4, "can be planned but not trained yet", tiny_run.run(program, "plan", work / "run.yaml"))
    print(f"plan-from-files: {'FAIL' if wrong else 'PASS'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
