"""The mistakes that users make, each with the sentence that it ends in and the exit code: runs all cases of bad_models.py,
bad_runs.py and bad_plans.py and judges what is printed. One line beginning "error:"; the exit code of its kind; it names
the file, folder, key, option or tensor; it says what to do or what would be right; nothing half-written is left.

messages.py PROGRAM [--only TEXT] [--write FILE]     exit 0 where all sentences are so; FILE becomes the table
"""

import argparse
import concurrent.futures
import os
import pathlib
import re
import sys
import tempfile

import bad_models
import bad_plans
import bad_runs
import tiny_run
from bad_case import Work, judge
from bad_input import good_source

KINDS = {2: "command line or run.yaml", 3: "datasets", 4: "model, tokenizer, checkpoint", 5: "does not fit", 6: "disk",
         8: "numerics"}
# What a sentence has to name: a path, something in quotes, an option, or a key of run.yaml.
NAMED = re.compile(r"[\w.-]+/[\w./-]+|\b[\w-]+\.(json|jsonl|yaml|jinja|gguf|safetensors)\b|'[^']*'|--[a-z]|"
                   r"^error: [\w./-]+(:| holds| is )|\b(tensor|dataset|template) ")
# How a sentence says what to do: an order, or what would be right.
ADVICE = re.compile(
    r"\b(add|adds?|allows|ask|change|check|choose|convert|correct|did you mean|download|empty it|fetch|free|get|give|"
    r"go on|keep|look|lower|make|measure|merge|move|name it|put|raise|remove|replace|resume|save it|save the|see|set|"
    r"start anew|take|train|unpack|use|wait|write)\b|lists all|\bmust\b|\bshould\b|\bonly\b|expected are|belongs?\b|"
    r"supported \(|at least|at most|is needed|are legal|would have to|is required|not in \{|not in range|no share between|the commands are|"
    r"import a file|can name another|name another|not known; .* are\b")


def keys_of(program):
    """The keys that run.yaml may have, as the program lists them."""
    text = tiny_run.run(program, "train", "--help").stdout
    return {word for word in re.findall(r"^\s+([a-z][a-z0-9_]+)\b", text, re.MULTILINE)}


def objections(sentence, keys):
    found = []
    if not sentence.startswith("error: "):
        found.append("no sentence")
    words = set(re.findall(r"[a-z][a-z0-9_]+", sentence))
    if not NAMED.search(sentence) and not words & keys:
        found.append("names nothing")
    if not ADVICE.search(sentence):
        found.append("does not say what to do")
    if len(sentence) > 1000:
        found.append(f"{len(sentence)} characters")
    return found


def half_written(work):
    """What a refused command must not leave: a model's folder, or a run without its files."""
    for name in ("imported", "exported"):
        if (work.folder / name).exists() and not (work.folder / name / "config.json").exists():
            return f"left {name} half-written"
    if list(work.folder.glob("out/model*.safetensors")):
        return "left a model of a run that failed"
    return ""


def tried(program, case, root, source, keys):
    with tempfile.TemporaryDirectory(dir=root, prefix="case-") as name:
        work = Work(pathlib.Path(name) / "work", source)
        pathlib.Path(name).chmod(0o755)
        work.settings()
        try:
            sentence, faults = judge(program, case, work)
            wrong = ([faults] if faults else []) + objections(sentence, keys)
            if left := half_written(work):
                wrong.append(left)
            return sentence.replace(str(root), "TEMP"), wrong
        finally:
            work.remove()


def cell(text):
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def write_table(path, rows):
    lines = ["# What the program says of mistakes", "",
             "Written by `tools/show/messages --write`, which makes every one of these mistakes and checks the answer: one",
             "sentence on standard error, an exit code by kind, what and where, and what to do. Paths are shortened.", "",
             "| exit code | kind |", "|---|---|", *(f"| {code} | {kind} |" for code, kind in KINDS.items()), ""]
    last = None
    for kind, case, sentence in rows:
        if kind != last:
            lines += ["", f"## {kind}", "", "| mistake | exit | sentence |", "|---|---|---|"]
            last = kind
        # Numbers of processes and free bytes differ from run to run.
        sentence = re.sub(r"tmp-\d+", "tmp-N", re.sub(r"case-\w+", "case", sentence.removeprefix("error: ")))
        lines.append(f"| {cell(case.name)} | {case.code} | {cell(sentence)} |")
    path.write_text("\n".join(lines).replace("\n\n\n", "\n\n") + "\n", encoding="utf-8")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--only", default="", help="cases whose kind or name contains this")
    parser.add_argument("--write", type=pathlib.Path)
    options = parser.parse_args()
    program, keys = options.program.resolve(), keys_of(options.program.resolve())
    rows, right, tables = [], 0, {**bad_models.TABLES, **bad_runs.TABLES, **bad_plans.TABLES}
    with tempfile.TemporaryDirectory(prefix="lazytrain-messages-") as name, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        root = pathlib.Path(name)
        root.chmod(0o755)
        tiny_run.keep_costs_in(root / "costs")
        source = good_source(program, root / "good")
        for kind, cases in tables.items():
            print(f"{kind}:")
            wanted = [case for case in cases if not case.succeeds and options.only in f"{kind}: {case.name}"]
            results = workers.map(lambda case: tried(program, case, root, source, keys), wanted)
            for case, (sentence, wrong) in zip(wanted, results):
                rows.append((kind, case, sentence))
                right += not wrong
                print(f"  {case.name:<42} | {case.code} | {sentence}" + (f"\n     WRONG: {'; '.join(wrong)}" if wrong else ""),
                      flush=True)
    if options.write:
        write_table(options.write, rows)
    holds = right == len(rows) and len(rows) >= (1 if options.only else 80)
    part = f" (only {options.only})" if options.only else ""
    print(f"messages{part}: {'PASS' if holds else 'FAIL'} ({right} of {len(rows)} mistakes end in a good sentence)")
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
