"""Runs `lazytrain train` several times on the same data: the second run takes the tokens of the first; a run that
is killed while it tokenises leaves nothing that is taken for whole; a damaged file and a folder that cannot be
written to cost time, never the result.

token_cache.py PROGRAM     exit 0 where all of it holds
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

import tiny_run

HIT = "the data is tokenised already"


class Cases:
    def __init__(self, program, work):
        self.program, self.work = program, work
        self.cache = work / "cache" / "lazytrain" / "tokens"
        self.failed = self.count = 0

    def check(self, what, holds, detail=""):
        self.count += 1
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {what}{'' if holds else f': {detail}'}", flush=True)

    def command(self, config, name, *changes):
        return [str(self.program), "train", str(config), f"output_dir={self.work / name}", *changes]

    def train(self, config, name, *changes):
        """Output, and what training made: all that has to be the same."""
        done = tiny_run.run(*self.command(config, name, *changes))
        model = self.work / name / "model.safetensors"
        return done, model.read_bytes() if done.returncode == 0 else None

    def files(self):
        return sorted(self.cache.glob("*")) if self.cache.is_dir() else []


def second_run(cases, config):
    first, expected = cases.train(config, "first")
    cases.check("the first run tokenises", first.returncode == 0 and HIT not in first.stdout, first.stderr)
    cases.check("its tokens are kept, nothing else", [path.suffix for path in cases.files()] == [".tokens"],
                cases.files())
    second, model = cases.train(config, "second")
    cases.check("the second run takes them and says so", HIT in second.stdout, second.stdout + second.stderr)
    cases.check("the same model comes out", model == expected)
    said = [line for line in first.stdout.splitlines() if "fingerprint" in line or "records" in line]
    cases.check("the second run says the same of the data",
                said and all(line in second.stdout.splitlines() for line in said), said)
    before = cases.files()[0].stat().st_mtime_ns
    again, model = cases.train(config, "again", "overwrite_cache=true")
    cases.check("overwrite_cache tokenises again", HIT not in again.stdout and model == expected
                and cases.files()[0].stat().st_mtime_ns > before, again.stdout + again.stderr)
    other, _ = cases.train(config, "other", "cutoff_len=120")
    cases.check("another cutoff_len has tokens of its own", HIT not in other.stdout and len(cases.files()) == 2)
    return expected


def damaged_file(cases, config, expected):
    for path in cases.files():
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 4
        path.write_bytes(data)
    done, model = cases.train(config, "damaged")
    cases.check("a damaged file is made anew", "is damaged (its checksum is wrong)" in done.stdout and model == expected,
                done.stdout + done.stderr)


def no_folder(cases, config, expected):
    blocked = cases.work / "blocked"
    (blocked / "lazytrain").mkdir(parents=True)
    (blocked / "lazytrain" / "tokens").write_text("in the way")
    done = tiny_run.run(*cases.command(config, "no-folder"), env=tiny_run.environment(XDG_CACHE_HOME=str(blocked)))
    cases.check("a folder that cannot be written to is said in one line",
                done.returncode == 0 and done.stdout.count("not cached, and stay in memory") == 1,
                done.stdout + done.stderr)
    cases.check("and does not change the model",
                (cases.work / "no-folder" / "model.safetensors").read_bytes() == expected)


def killed(cases):
    """Kills runs while they tokenise, at several moments."""
    data = cases.work / "data" / "many.jsonl"
    with open(data, "w", encoding="utf-8") as file:
        for number, record in enumerate(tiny_run.records(60_000, seed=3)):
            record["query"] += f" This is question number {number}."
            file.write(json.dumps(record) + "\n")
    config = tiny_run.make(cases.work, dataset=str(data), max_steps=2)
    for path in cases.files():
        path.unlink()
    undisturbed, expected = cases.train(config, "undisturbed")
    size = cases.files()[0].stat().st_size
    cases.check("60,000 records are trained on", undisturbed.returncode == 0, undisturbed.stderr)
    for share in (0.0, 0.4, 0.8):
        for path in cases.files():
            path.unlink()
        run = subprocess.Popen(cases.command(config, f"killed-{share}"), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=tiny_run.environment())
        deadline = time.monotonic() + 120
        while run.poll() is None and time.monotonic() < deadline:
            if any(path.stat().st_size >= share * size for path in cases.cache.glob("*.tmp-*")):
                run.send_signal(signal.SIGKILL)
                break
            time.sleep(0.001)
        run.wait(timeout=120)
        left = cases.files()
        cases.check(f"killed with {share:.0%} of the tokens written: no whole file is there",
                    run.returncode == -signal.SIGKILL and left and all(".tmp-" in path.name for path in left),
                    f"exit code {run.returncode}, {left}")
        for path in left:  # as if the kill had been a while ago
            os.utime(path, (time.time() - 300, time.time() - 300))
        done, model = cases.train(config, f"after-{share}")
        cases.check("the next run tokenises, and cleans up", HIT not in done.stdout and model == expected
                    and [path.suffix for path in cases.files()] == [".tokens"], done.stdout + done.stderr)


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="lazytrain-tokens-") as name:
        work = pathlib.Path(name)
        tiny_run.keep_costs_in(work / "cache")
        cases = Cases(program, work)
        config = tiny_run.make(work, max_steps=4)
        expected = second_run(cases, config)
        damaged_file(cases, config, expected)
        no_folder(cases, config, expected)
        killed(cases)
    print(f"{cases.count - cases.failed} of {cases.count} hold")
    return 0 if cases.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
