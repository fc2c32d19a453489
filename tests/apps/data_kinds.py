"""Trains on every kind of data file, and on several datasets mixed.

data_kinds.py PROGRAM     exit 0 where all of it holds
"""

import csv
import json
import pathlib
import re
import sys
import tempfile

import tiny_run


class Cases:
    def __init__(self, program, work):
        self.program, self.work = program, work
        self.failed = self.count = 0

    def check(self, what, holds, detail=""):
        self.count += 1
        self.failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {what}{'' if holds else f': {detail}'}", flush=True)

    def train(self, config, name, *changes):
        return tiny_run.run(self.program, "train", config, f"output_dir={self.work / name}", *changes)

    def model(self, name):
        return (self.work / name / "model.safetensors").read_bytes()


def fingerprint(done):
    found = re.search(r"fingerprint ([0-9a-f]{16})", done.stdout)
    return found.group(1) if found else None


def write_kinds(folder):
    """The same records as JSON, JSONL, CSV and TSV."""
    rows = [{"prompt": f"What is {a}, and {a + 1}?\nThink.", "completion": f"They are \"{a}\"\tand {a + 1}."}
            for a in range(60)]
    (folder / "k.json").write_text(json.dumps(rows))
    (folder / "k.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for suffix, dialect in ((".csv", csv.excel), (".tsv", csv.excel_tab)):
        with open(folder / f"k{suffix}", "w", newline="") as file:
            writer = csv.DictWriter(file, ["prompt", "completion"], dialect=dialect)
            writer.writeheader()
            writer.writerows(rows)


def kinds(cases, config):
    folder = cases.work / "data"
    write_kinds(folder)
    seen = {}
    for suffix, word in ((".json", "a JSON array"), (".jsonl", "JSONL"), (".csv", "CSV"), (".tsv", "TSV")):
        done = cases.train(config, f"kind{suffix}", f"dataset=k{suffix}", "max_steps=1")
        cases.check(f"{word} is trained on and named", done.returncode == 0 and f"k{suffix}: {word}, 60 of 60 records"
                    in done.stdout and "format prompt-completion" in done.stdout, done.stdout + done.stderr)
        seen[word] = fingerprint(done)
    cases.check("all of them have the same tokens", len(set(seen.values())) == 1 and None not in seen.values(), seen)


def plain_text(cases, config):
    folder = cases.work / "data"
    (folder / "t.txt").write_text("\n\n".join(f"Paragraph {i}\nof two lines." for i in range(40)))
    done = cases.train(config, "text", "dataset=t.txt", "max_steps=1")
    cases.check("a text file is trained on by paragraphs", done.returncode == 0
                and "t.txt: text by paragraphs, 40 of 40 records, format text" in done.stdout, done.stdout + done.stderr)
    cases.check("all of a paragraph is learned, without a template",
                "Paragraph 0\nof two lines." in done.stdout and "assistant" not in
                done.stdout.split("what it learns to say marked:")[-1].splitlines()[1], done.stdout[-3000:])
    done = tiny_run.run(cases.program, "eval", config, "dataset=t.txt", "--loss-only")
    cases.check("its loss can be evaluated", done.returncode == 0 and "loss " in done.stdout, done.stdout + done.stderr)
    done = tiny_run.run(cases.program, "eval", config, "dataset=t.txt")
    cases.check("there is nothing to answer in it, which is said", done.returncode == 2 and "--loss-only" in done.stderr,
                done.stderr)


def bad_samples(cases, config):
    rows = [json.dumps(record) for record in tiny_run.records(40)]
    (cases.work / "data" / "bad.jsonl").write_text("\n".join(rows[:20] + ['{"query": "a", "resp'] + rows[20:]) + "\n")
    done = cases.train(config, "bad", "dataset=bad.jsonl", "max_steps=1")
    cases.check("a malformed line ends the run with its place", done.returncode == 3
                and re.search(r"bad\.jsonl:21:21: not valid JSON", done.stderr), done.stderr)
    done = cases.train(config, "skip", "dataset=bad.jsonl", "max_steps=1", "on_bad_sample=skip")
    cases.check("on_bad_sample: skip counts it", done.returncode == 0 and "bad.jsonl: 1 records are malformed: skipped"
                in done.stdout, done.stdout + done.stderr)


def mixing(cases, config):
    wish = ("dataset=sums,test", "mix_strategy=interleave_over", "interleave_probs=0.5,0.5", "max_steps=16", "save_steps=8")
    done = cases.train(config, "mixed", *wish)
    cases.check("two datasets are interleaved", done.returncode == 0, done.stderr)
    again = cases.train(config, "mixed-again", *wish)
    cases.check("the same way every time", again.returncode == 0 and cases.model("mixed") == cases.model("mixed-again"))
    half = cases.work / "mixed" / "checkpoint-8"
    resumed = cases.train(config, "resumed", *wish, f"resume_from_checkpoint={half}")
    cases.check("a resumed run ends with the same bits", resumed.returncode == 0
                and cases.model("resumed") == cases.model("mixed"), resumed.stderr)
    other = cases.train(config, "other", *wish, "interleave_probs=0.2,0.8", f"resume_from_checkpoint={half}")
    cases.check("resuming with another mix is refused", other.returncode != 0 and "interleave_probs" in other.stderr,
                other.stderr)
    joined = cases.train(config, "joined", "dataset=sums,test", "max_steps=16")
    cases.check("concat is another epoch", joined.returncode == 0 and cases.model("joined") != cases.model("mixed"))
    wrong = cases.train(config, "wrong", "dataset=sums,test", "mix_strategy=interleave_under", "interleave_probs=1")
    cases.check("a share for each dataset is asked for", wrong.returncode == 2 and "1 numbers for 2 datasets"
                in wrong.stderr, wrong.stderr)


def token_losses(cases, config):
    report, losses = cases.work / "report.json", cases.work / "losses.json"
    done = tiny_run.run(cases.program, "eval", config, "dataset=sums", "cutoff_len=300", "per_device_eval_batch_size=3",
                        "--loss-only", "--samples", 50, "--out", report, "--token-losses", losses)
    if done.returncode != 0:
        return cases.check("losses of tokens are written", False, done.stderr)
    told, samples = json.loads(report.read_text()), json.loads(losses.read_text())["samples"]
    learned = [loss for sample in samples for loss in sample["losses"] if loss is not None]
    cases.check("every learned token of 50 packed samples has a loss, and their mean is the evaluation's",
                len(samples) == 50 and len(learned) == told["supervised_tokens"]
                and abs(sum(learned) / len(learned) - told["loss"]) < 1e-5, told)
    cases.check("ids and losses stand side by side, the first token has none",
                all(len(sample["ids"]) == len(sample["losses"]) and sample["losses"][0] is None for sample in samples))
    alone = tiny_run.run(cases.program, "eval", config, "dataset=sums", "packing=false", "--loss-only", "--samples", 50,
                         "--token-losses", losses)
    cases.check("each sample has its own losses, whatever lay beside it", alone.returncode == 0 and all(
        a["ids"] == b["ids"] and all((x is None) == (y is None) and (x is None or abs(x - y) < 0.05)
                                     for x, y in zip(a["losses"], b["losses"]))
        for a, b in zip(samples, json.loads(losses.read_text())["samples"])), alone.stderr)


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="lazytrain-kinds-") as name:
        work = pathlib.Path(name)
        tiny_run.keep_costs_in(work / "cache")
        cases = Cases(program, work)
        config = tiny_run.make(work)
        kinds(cases, config)
        plain_text(cases, config)
        bad_samples(cases, config)
        mixing(cases, config)
        token_losses(cases, config)
    print(f"{cases.count - cases.failed} of {cases.count} hold")
    return 0 if cases.failed == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
