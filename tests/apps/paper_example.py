"""examples/paper: the splits, the configuration and both parsers, with a tiny model and sums.

paper_example.py PROGRAM     exit 0 where all of it holds
"""

import importlib.util
import json
import pathlib
import subprocess
import sys
import tempfile

import tiny_run

EXAMPLE = tiny_run.TESTS.parent / "examples" / "paper"
METAMATH = [  # what stands in a response, and what the published parser makes of it
    ("so 3 + 4 = 7\n#### 7\nThe answer is: 7", 7), ("The answer is: 5. The answer is: 6", 6), ("The answer is: 1,234", 1234),
    ("The answer is: 1,234,567", 1234), ("The answer is: 7/2", 4), ("The answer is: 29.00", 29), ("The answer is: -7", -7),
    ("The answer is: $18", 18), ("The answer is: x", None), ("It is 7", None), ("The answer is: 1/0", None), ("The answer is: /2", None), ("The answer is: " + 400 * "9", None),
]


def split(source, out):
    return subprocess.run([sys.executable, str(EXAMPLE / "split.py"), str(source), "--out", str(out)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, check=False)


def questions(path):
    return [record["original_question"] for record in json.loads(path.read_text())]


def main():
    program, failed = sys.argv[1], []

    def check(what, holds, detail=""):
        print(f"{'ok  ' if holds else 'FAIL'} {what}{'' if holds else f': {detail}'}", flush=True)
        if not holds:
            failed.append(what)

    spec = importlib.util.spec_from_file_location("score", EXAMPLE / "score.py")
    score = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(score)
    for text, value in METAMATH:
        check(f"the published parser reads {value} in {text[-24:]!r}", score.metamath(text) == value, score.metamath(text))

    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        tiny_run.keep_costs_in(work / "cache")
        tiny_run.make(work)
        records = tiny_run.records(60) + tiny_run.records(60)  # every question twice
        (work / "all.json").write_text(json.dumps(records))
        done = split(work / "all.json", work / "paper")
        check("the file is split", done.returncode == 0, done.stderr)
        for name in "random", "question":
            train, test = questions(work / "paper" / f"{name}_train.json"), questions(work / "paper" / f"{name}_test.json")
            check(f"{name}: every record once", sorted(train + test) == sorted(r["original_question"] for r in records))
            check(f"{name}: 70 and 30 %", abs(len(train) - 84) <= 2, len(train))
            shared = len(set(train) & set(test))
            check(f"{name}: questions on both sides", (shared > 0) == (name == "random"), shared)
        first = (work / "paper" / "random_train.json").read_bytes()
        split(work / "all.json", work / "again")
        check("the same bytes again", (work / "again" / "random_train.json").read_bytes() == first)
        (work / "bad.json").write_text('[{"query": 1}]')
        done = split(work / "bad.json", work / "bad")
        check("bad records are named", done.returncode == 1 and "record 0" in done.stderr, done.stderr)

        small = [f"model_name_or_path={work / 'model'}", f"dataset_dir={work / 'paper'}", f"output_dir={work / 'out'}",
                 "template=chatml", "cutoff_len=128", "per_device_train_batch_size=4", "max_steps=2", "max_new_tokens=4"]
        done = tiny_run.run(program, "train", EXAMPLE / "run.yaml", *small)
        check("the configuration trains", done.returncode == 0, done.stdout + done.stderr)
        small[0] = f"model_name_or_path={work / 'out'}"
        done = tiny_run.run(program, "eval", EXAMPLE / "run.yaml", *small, "eval_dataset=question_test", "--samples", 5, "--out",
                            work / "answers.json")
        check("and evaluates", done.returncode == 0, done.stdout + done.stderr)
        done = subprocess.run([sys.executable, str(EXAMPLE / "score.py"), str(work / "answers.json")], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, check=False)
        check("both parsers score", done.returncode == 0 and done.stdout.count("of 5)") == 2, done.stdout + done.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
