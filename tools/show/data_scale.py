#!/usr/bin/env python3
"""The figures of tools/show/data-scale: runs of one step on large generated datasets, with a tiny random model.

Memory for data is the highest resident memory of a run (pages of mapped files included) less that of the same run
on 100 records. The time of a start is what passes until the log has its first step.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time

TOOLS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOOLS.parent / "tests" / "apps"))
import tiny_run

LIMIT_START, LIMIT_MEMORY, LIMIT_SECOND = 60.0, 300.0, 10.0
POOL = 5000  # distinct texts, put together in pairs: making the files must not take longer than reading them
LETTERS = ("th", "an", "er", "in", "re", "on", "at", "en", "nd", "ti", "es", "or", "te", "of", "ed", "is", "it", "al", "ar",
           "st", "to", "nt", "ng", "se", "ha", "as", "ou", "io", "le", "ve")


def sentences(rng, words):
    return " ".join(rng.choices(words, k=rng.randint(25, 60))).capitalize() + "."


def write_records(path, megabytes, array):
    """About that many MB of instruction records of 1 kB or so."""
    wanted = int(megabytes * 1e6)
    if path.exists() and abs(path.stat().st_size - wanted) < 10_000:
        return
    rng = random.Random(1)
    words = ["".join(rng.choices(LETTERS, k=rng.randint(1, 4))) for _ in range(3000)]
    texts = [json.dumps(sentences(rng, words))[1:-1] for _ in range(POOL)]
    size = number = 0
    part = path.with_suffix(".part")
    with open(part, "w", encoding="ascii") as file:
        file.write("[\n" if array else "")
        while size < wanted:
            pieces = []
            for _ in range(1000):
                a, b, c = rng.randrange(POOL), rng.randrange(POOL), rng.randrange(POOL)
                record = (f'{{"instruction": "Problem {number}: {texts[a]}", "input": "", '
                          f'"output": "{texts[b]}\\n{texts[c]}\\nThe answer is: {number % 997}"}}')
                pieces.append((",\n" if array and number else "") + record + ("" if array else "\n"))
                number += 1
                size += len(pieces[-1])
                if size >= wanted:
                    break
            file.write("".join(pieces))
        file.write("\n]\n" if array else "")
    part.rename(path)
    print(f"  {path.name}: {number} records, {path.stat().st_size / 1e6:.0f} MB")


def resident(process):
    """Highest resident memory so far in MB; 0 where the process is gone."""
    try:
        for line in pathlib.Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def run(options, config, name, data):
    """Seconds to the first step, highest memory in MB, and whether the tokens came from the cache."""
    out = options.work / "out"
    shutil.rmtree(out, ignore_errors=True)
    command = [str(options.program), "train", str(config), f"dataset={data}", f"output_dir={out}"]
    record = options.work / f"{name}.txt"
    highest, first = 0.0, None
    with open(record, "w", encoding="utf-8") as file:
        begin = time.monotonic()
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                   env=tiny_run.environment())
        while process.poll() is None:
            highest = max(highest, resident(process))
            if first is None and (out / "trainer_log.jsonl").exists() and (out / "trainer_log.jsonl").stat().st_size > 0:
                first = time.monotonic() - begin
            time.sleep(0.02)
    text = record.read_text(encoding="utf-8", errors="replace")
    if process.returncode != 0:
        sys.exit(f"{text[-2000:]}\n{name}: exit code {process.returncode}")
    usage = os.times()
    return {"first": first if first is not None else time.monotonic() - begin, "memory": highest,
            "hit": "tokenised already" in text, "cpu": usage.children_user + usage.children_system}


def show_dataset(options, config, name, data, base, limit):
    print(f"{name}: {data.name}, {data.stat().st_size / 1e6:.0f} MB")
    failures = []
    before = os.times()
    first = run(options, config, f"{name}-first", data)
    cpu = first["cpu"] - before.children_user - before.children_system
    second = run(options, config, f"{name}-second", data)
    memory = max(first["memory"], second["memory"]) - base
    size = data.stat().st_size / 1e6
    print(f"  first start:  {first['first']:6.1f} s to the first step ({cpu:.1f} s of processor time, "
          f"{size / first['first']:.1f} MB/s), memory {first['memory']:.0f} MB, {first['memory'] - base:.0f} MB for data")
    print(f"  second start: {second['first']:6.1f} s to the first step, memory {second['memory']:.0f} MB, "
          f"{second['memory'] - base:.0f} MB for data, {'from the cache' if second['hit'] else 'NOT from the cache'}")
    tokens = sum(path.stat().st_size for path in (options.work / "cache" / "lazytrain" / "tokens").glob("*"))
    print(f"  the cache holds {tokens / 1e6:.0f} MB")
    if first["hit"]:
        failures.append(f"{name}: the first start was not one")
    if limit and first["first"] > limit:
        failures.append(f"{name}: {first['first']:.0f} s to the first step, {limit:.0f} allowed")
    if memory > LIMIT_MEMORY:
        failures.append(f"{name}: {memory:.0f} MB for data, {LIMIT_MEMORY:.0f} allowed")
    if not second["hit"] or second["first"] > LIMIT_SECOND:
        failures.append(f"{name}: second start {second['first']:.1f} s, {LIMIT_SECOND:.0f} allowed, from the cache")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--array-mb", type=float, default=400)
    parser.add_argument("--lines-mb", type=float, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    shutil.rmtree(options.work / "cache", ignore_errors=True)
    tiny_run.keep_costs_in((options.work / "cache").resolve())
    subprocess.run([sys.executable, TOOLS / "make_random_model.py", "--out", options.work / "model", "--hidden", "64",
                    "--layers", "2", "--ffn", "128", "--heads", "4", "--kv-heads", "4"], check=True, stdout=subprocess.DEVNULL)
    small, array, lines = options.work / "small.jsonl", options.work / "array.json", options.work / "lines.jsonl"
    write_records(small, 0.1, array=False)
    write_records(array, options.array_mb, array=True)
    write_records(lines, options.lines_mb, array=False)
    config = options.work / "run.yaml"
    tiny_run.write_config(config, model_name_or_path=options.work / "model", template="chatml", cutoff_len=2048,
                          per_device_train_batch_size=1, max_steps=1, logging_steps=1, threads=options.threads,
                          overwrite_output_dir="true", policy="keep-all")
    run(options, config, "warm-up", small)  # measures costs
    base = run(options, config, "small", small)["memory"]
    print(f"the same run on {small.stat().st_size / 1e3:.0f} kB of data takes {base:.0f} MB; {options.threads} threads")
    failures = show_dataset(options, config, "array", array, base, LIMIT_START)
    failures += show_dataset(options, config, "lines", lines, base, None)
    shutil.rmtree(options.work / "cache")
    if failures:
        print(f"data-scale: FAIL ({'; '.join(failures)})")
        return 1
    print(f"data-scale: PASS (array within {LIMIT_START:.0f} s, at most {LIMIT_MEMORY:.0f} MB for data, second starts within "
          f"{LIMIT_SECOND:.0f} s)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
