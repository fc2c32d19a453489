"""Writes reference_cases.json: what Hugging Face `tokenizers` (0.23.3) makes of small hand-made tokenizers.

    pip install tokenizers==0.23.3 && python make_reference_cases.py

`base` is a tokenizer.json; each case patches it (JSON merge patch, RFC 7396) and lists, for every text, the ids and
what they decode to. Texts are ASCII-escaped, so that no reader can normalise them by accident.
"""

import itertools
import json
import pathlib

import tokenizers

# The byte alphabet: printable Latin-1 stands for itself, the rest counts up from U+0100. The id of a byte is its value.
PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
EXTRA = iter(range(0x100, 0x200))
LETTER = {b: chr(b if b in PRINTABLE else next(EXTRA)) for b in range(256)}


def spell(text):
    return "".join(LETTER[b] for b in text.encode())


MERGES = [("t", "h"), ("th", "e"), (" ", "the"), ("i", "n"), ("in", "g"), ("e", "r"), ("a", "n"), ("an", "d"), (" ", "a"), ("l", "l"),
          ("h", "e"), ("he", "ll"), ("hell", "o"), (" ", " "), ("\n", "\n"), ("1", "2"), ("12", "3"), ("'", "s"), (" ", "12"), ("e", "e"),
          ("ee", "ee"), ("a", "a"), ("aa", "a"), ("=", "="), ("==", "=="), ("s", "s"), ("x", "y"), ("y", "z"), ("xy", "z"), ("r", "e")]


def base():
    vocab = {LETTER[b]: b for b in range(256)}
    merges = []
    for left, right in MERGES:
        left, right = spell(left), spell(right)
        merges.append(f"{left} {right}")
        vocab.setdefault(left + right, len(vocab))
    for raw in "\u00e9", "\u4e2d":  # and the pieces between, for code points of two and three bytes
        letters = spell(raw)
        for end in range(2, len(letters) + 1):
            merges.append(f"{letters[:end - 1]} {letters[end - 1]}")
            vocab.setdefault(letters[:end], len(vocab))
    vocab.setdefault("whole", len(vocab))  # no merges lead to it
    level = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
    model = dict(type="BPE", dropout=None, unk_token=None, continuing_subword_prefix=None, end_of_word_suffix=None,
                 fuse_unk=False, byte_fallback=False, ignore_merges=False, vocab=vocab, merges=merges)
    return dict(version="1.0", truncation=None, padding=None, added_tokens=[], normalizer=None, pre_tokenizer=level,
                post_processor=None, decoder=level, model=model)


BASE = base()
SIZE = len(BASE["model"]["vocab"])
LEVEL = dict(type="ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=False)


def added(content, number, **flags):
    token = dict(id=SIZE + number, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=False)
    return {**token, **flags}


def sequence(*steps):
    return dict(pre_tokenizer=dict(type="Sequence", pretokenizers=list(steps)))


def split(pattern, behavior="Isolated", invert=False, kind="Regex"):
    return dict(type="Split", pattern={kind: pattern}, behavior=behavior, invert=invert)


QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|", 1)
MARKS = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}{1,3}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
FLAGS = [added(f"<{''.join(map(str, bits))}>", i, lstrip=bool(bits[0]), rstrip=bool(bits[1]), single_word=bool(bits[2]),
               normalized=bool(bits[3]), special=bool(bits[4])) for i, bits in enumerate(itertools.product((0, 1), repeat=5))]
BOS_EOS = [added("<s>", 0, special=True), added("</s>", 1, special=True)]
TEMPLATE = dict(type="TemplateProcessing", pair=[],
                single=[{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                        {"SpecialToken": {"id": "</s>", "type_id": 0}}],
                special_tokens={t["content"]: dict(id=t["content"], ids=[t["id"]], tokens=[t["content"]]) for t in BOS_EOS})

TEXTS = ["", " ", "hello the   and\n\n\nthing", "It's HELLO'S the1234567 12 123", "caf\u00e9 cafe\u0301 \u4e2d\u6587 \u212b \u1112\u1161\u11ab",
         "a \t\r\n b\u00a0c\u3000 d\u2028", "xyz xyyz eeeeeeeee aaaaa" + "=" * 70, "e" * 45 + "er" * 30, "whole wholes", "\U0001f600x\u0000y\u007f",
         "\u0663\u00bd\u2163\u1c89\U00016d40\U00010d40a\u0897b\u180ec \u0300", "'\u017f 'S", "a.b,,c--d_e", "\u3072\u3089\u304c\u306a\u6f22\u5b57\u30ab\u30ca", "(a)\n(b)/\n$5"]
MARKED = ["x <00000> y<01000>  z", "a  <10000>  <11000>  b", "w<00100> <00100>w <00100> <00100>", "<00001><00010>\n<11111> <10101>_", "\u00e9<00110>e\u0301 <00110>\u0301"]

CASES = [
    ("gpt2", {}, {}),
    ("nfc and Qwen's pattern", dict(normalizer=dict(type="NFC"), **sequence(split(QWEN), LEVEL)), {}),
    ("nfc in a sequence", dict(normalizer=dict(type="Sequence", normalizers=[dict(type="NFC")])), {}),
    ("three digits, ignore_merges", dict(model=dict(ignore_merges=True), **sequence(split(LLAMA), LEVEL)), {}),
    ("merges as pairs", dict(model=dict(merges=[m.split(" ") for m in BASE["model"]["merges"]])), {}),
    ("cases and marks", sequence(split(MARKS), LEVEL), {}),
    ("single digits", sequence(dict(type="Digits", individual_digits=True), {**LEVEL, "use_regex": True}), {}),
    ("digits in a row", sequence(dict(type="Digits", individual_digits=False), LEVEL), {}),
    *((f"{b} {i}", sequence(split(r"\s|[,-]|\p{N}", b, i), LEVEL), {})
      for b in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous") for i in (False, True)),
    ("empty matches", sequence(split(r"e*|(?=\d)"), LEVEL), {}),
    ("literal", sequence(split("a.", "MergedWithPrevious", False, "String"), LEVEL), {}),
    ("Ruby's classes", sequence(split(r"\w+|\h{2}|[[:punct:]]+|\b|\p{Han}+|^.|\d{,2}x$"), LEVEL), {}),
    ("prefix space", dict(pre_tokenizer={**LEVEL, "add_prefix_space": True, "use_regex": True}), {}),
    ("prefix space on each piece", sequence(dict(type="Digits", individual_digits=True), {**LEVEL, "add_prefix_space": True}), {}),
    ("no token for e and 0xAD", dict(model=dict(vocab={"e": None, "er": None, "re": None, "ee": None, "eeee": None, "the": None, "\u0120the": None, "he": None, "hell": None, "hello": None, LETTER[0xAD]: None, spell("\u4e2d"): None},
                                                merges=[m for m in BASE["model"]["merges"] if "e" not in m and LETTER[0xAD] not in m])), {}),
    ("prefix and suffix", dict(added_tokens=BOS_EOS, post_processor=dict(type="Sequence", processors=[LEVEL, TEMPLATE])), dict(add_special_tokens=True)),
    ("added tokens", dict(added_tokens=FLAGS), dict(texts=MARKED)),
    ("added tokens and nfc", dict(added_tokens=[*FLAGS, added("\u00e9<", 32, normalized=True)], normalizer=dict(type="NFC")), dict(texts=MARKED)),
    ("special tokens stay text", dict(added_tokens=FLAGS), dict(texts=MARKED, parse_special=False)),
    ("the longest added token", dict(added_tokens=[added("ab", 0), added("abc", 1), added("cd", 2), added("bcd", 3)]), dict(texts=["abcd ab bcd cabc abcdcd"])),
]
for fuse in False, True:
    patch = json.loads(json.dumps(next(c for c in CASES if c[0].startswith("no token"))[1]))
    patch["model"].update(unk_token="!", fuse_unk=fuse)
    CASES.append((f"unknown token, fuse_unk {fuse}", patch, {}))


def merge_patch(target, patch):
    if not isinstance(patch, dict):
        return patch
    target = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            target.pop(key, None)
        else:
            target[key] = merge_patch(target.get(key), value)
    return target


def run(name, patch, options):
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(merge_patch(BASE, patch)))
    special, parse = options.get("add_special_tokens", False), options.get("parse_special", True)
    tokenizer.encode_special_tokens = not parse
    rows = []
    for text in options.get("texts", TEXTS):
        ids = tokenizer.encode(text, add_special_tokens=special).ids
        rows.append(dict(text=text, ids=ids, decoded=tokenizer.decode(ids, skip_special_tokens=False),
                         without_special=tokenizer.decode(ids, skip_special_tokens=True)))
    return dict(name=name, patch=patch, add_special_tokens=special, parse_special=parse, rows=rows)


def main():
    cases = [run(*case) for case in CASES]
    lines = ",\n".join(json.dumps(case, ensure_ascii=True) for case in cases)
    path = pathlib.Path(__file__).with_name("reference_cases.json")
    path.write_text(f'{{"base": {json.dumps(BASE, ensure_ascii=True)},\n"cases": [\n{lines}\n]}}\n')
    print(f"{path}: {len(cases)} cases, {sum(len(c['rows']) for c in cases)} texts, {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
