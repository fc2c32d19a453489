#!/usr/bin/env python3
"""Exact match of answers that `lazytrain eval --out answers.json` wrote, by two parsers.

    python3 examples/paper/score.py answers.json

"LazyTrain" is the program's own parser (src/data/answer.h): the whole answer, compared as an exact rational number or as
text. "MetaMath" works as the published evaluation of MetaMath on GSM8K does: what follows the last "The answer is: ", in it
the first number, its commas dropped, a fraction divided, rounded to a whole number, against the reference read the same
way. It takes 1,234,567 for 1234 and 0.4 for 0, and a reference without a number can never be matched by it.
"""

import argparse
import json
import re
import sys

MARK = "The answer is: "
NUMBER = re.compile(r"[-+]?\d*[.,/]?\d+")


def metamath(text):
    """The whole number that the published parser reads; None where it finds none."""
    if MARK not in text:
        return None
    found = NUMBER.search(text.rsplit(MARK, 1)[1])
    if not found:
        return None
    above, _, below = found.group().replace(",", "").partition("/")
    try:
        return round(float(above) / float(below or 1))
    except (ValueError, OverflowError, ZeroDivisionError):  # "/2", four hundred digits, "1/0"
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file", help="what `lazytrain eval --out` wrote")
    options = parser.parse_args()
    try:
        with open(options.file, encoding="utf-8") as file:
            details = json.load(file)["details"]
        pairs = [(one["reference"], one["response"], one["right"]) for one in details]
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"error: {options.file}: {error!r}; give a file that `lazytrain eval --out` wrote, without --loss-only")
    if not pairs:
        sys.exit(f"error: {options.file}: holds no answer")
    ours = sum(bool(right) for _, _, right in pairs)
    theirs = sum(metamath(reference) is not None and metamath(reference) == metamath(response) for reference, response, _ in pairs)
    for name, right in ("LazyTrain", ours), ("MetaMath", theirs):
        print(f"exact match, parser of {name:9}: {100 * right / len(pairs):5.1f} % ({right} of {len(pairs)})")


if __name__ == "__main__":
    main()
