#!/usr/bin/env python3
"""random_strings.py N: N lines of JSON, each a random string and its NFC by Python's own tables.

Strings are of letters of many scripts, marks in a row, emoji, spaces and whatever else Unicode 9 had assigned (the
reference tokenizers normalise by Unicode 9): runs of one block, so that neighbours may join, and plain jumps. The letter
U+2581 is left out: where it stands for a space, a text that holds it cannot come back.
"""

import json
import random
import sys
import unicodedata

# What Unicode 3.2 knew (the other version whose tables Python has), and of later code points those without a rule.
LATER = [(0x0600, 0x06FF), (0x0900, 0x0DFF), (0x1100, 0x11FF), (0x1E00, 0x20CF), (0xAC00, 0xD7A3), (0x1F300, 0x1F64F)]


def pool():
    points = []
    for code in range(0x20000):
        letter = chr(code)
        if code == 0x2581 or unicodedata.category(letter) in ("Cs", "Cn", "Co"):
            continue
        old = unicodedata.ucd_3_2_0.category(letter) != "Cn"
        if old or any(first <= code <= last for first, last in LATER) and unicodedata.combining(letter) == 0 and not unicodedata.decomposition(letter):
            points.append(code)
    return points


def main():
    rng = random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 9)
    points = pool()
    marks = [code for code in points if unicodedata.combining(chr(code))]
    words = "the plan of a step reads; \"it's\" 12345 x_y (a+b)*c <s> <0x0A>\n\t".split(" ")
    for _ in range(int(sys.argv[1])):
        text = ""
        for _ in range(rng.randint(1, 8)):
            kind = rng.randrange(6)
            if kind == 0:
                text += "".join(chr(rng.choice(points)) for _ in range(rng.randint(1, 6)))
            elif kind == 1:
                at = rng.randrange(len(points))
                text += "".join(chr(points[(at + rng.randint(0, 60)) % len(points)]) for _ in range(rng.randint(1, 8)))
            elif kind == 2:
                text += rng.choice("aeiouACN\u00e9\u0915\u1100 ") + "".join(chr(rng.choice(marks)) for _ in range(rng.randint(1, 5)))
            elif kind == 3:
                text += " ".join(rng.choice(words[:8]) for _ in range(rng.randint(1, 6)))
            elif kind == 4:
                text += " " * rng.randint(1, 4)
            else:
                text += "".join(rng.choice("0123456789.,-+=()[]{}\n\t") for _ in range(rng.randint(1, 6)))
        print(json.dumps([text, unicodedata.normalize("NFC", text)]))


if __name__ == "__main__":
    main()
