#!/usr/bin/env python3
"""Splits MetaMathQA (or any file of such records) into 70 % to train on and 30 % to score, in two ways.

    python3 examples/paper/split.py MetaMathQA-395K.json --out build/paper

The file is a JSON array of {query, response, type, original_question}. In the folder: random_train.json and
random_test.json, records shuffled, as in the published run: a question that was rephrased stands in both; and
question_train.json, question_test.json, in which no original question stands on both sides; and dataset_info.json, which
names all four. The same seed gives the same bytes. Python's standard library is all it needs; MetaMathQA takes 2 GB of
memory here.
"""

import argparse
import json
import os
import random
import sys

KEYS = ("query", "response", "original_question")


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            records = json.load(file)
    except (OSError, ValueError) as error:
        sys.exit(f"error: {path}: {error}; give MetaMathQA-395K.json or a file of such records")
    if not isinstance(records, list) or not records:
        sys.exit(f"error: {path}: should be a JSON array of records")
    for number, record in enumerate(records):
        if not isinstance(record, dict) or any(not isinstance(record.get(key), str) for key in KEYS):
            sys.exit(f"error: {path}: record {number}: should have the texts {', '.join(KEYS)}")
    return records


def by_record(records, share, seed):
    order = list(range(len(records)))
    random.Random(seed).shuffle(order)
    cut = round(share * len(order))
    return [records[i] for i in order[:cut]], [records[i] for i in order[cut:]]


def by_question(records, share, seed):
    """Whole questions, until the training side has its share of the records."""
    questions = sorted({record["original_question"] for record in records})
    random.Random(seed).shuffle(questions)
    count = {}
    for record in records:
        count[record["original_question"]] = count.get(record["original_question"], 0) + 1
    chosen, size = set(), 0
    for question in questions:
        if size >= share * len(records):
            break
        chosen.add(question)
        size += count[question]
    sides = ([], [])
    for record in records:
        sides[record["original_question"] not in chosen].append(record)
    for side in sides:
        random.Random(seed).shuffle(side)
    return sides


def leaked(train, test):
    known = {record["original_question"] for record in train}
    return sum(record["original_question"] in known for record in test)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file", help="MetaMathQA-395K.json, or a JSON array of such records")
    parser.add_argument("--out", required=True, metavar="DIR", help="folder for the five files")
    parser.add_argument("--share", type=float, default=0.7, help="of the records, to train on (default 0.7)")
    parser.add_argument("--seed", type=int, default=42, help="another seed, another split (default 42)")
    options = parser.parse_args()
    if not 0 < options.share < 1:
        parser.error("--share should lie between 0 and 1")
    records = read(options.file)
    os.makedirs(options.out, exist_ok=True)
    info = {}
    for name, split in ("random", by_record), ("question", by_question):
        train, test = split(records, options.share, options.seed)
        for part, side in ("train", train), ("test", test):
            with open(os.path.join(options.out, f"{name}_{part}.json"), "w", encoding="utf-8") as file:
                json.dump(side, file, ensure_ascii=False, indent=0)
            info[f"{name}_{part}"] = {"file_name": f"{name}_{part}.json", "columns": {"prompt": "query", "response": "response"}}
        print(f"{name}: {len(train)} to train on, {len(test)} to score, of which {leaked(train, test)} ask a question that is trained on too")
    with open(os.path.join(options.out, "dataset_info.json"), "w", encoding="utf-8") as file:
        json.dump(info, file, indent=2)


if __name__ == "__main__":
    main()
