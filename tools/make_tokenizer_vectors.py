"""Writes tests/data/text/tokenizer_vectors.json: what Hugging Face `tokenizers` makes of small tokenizers of the kinds that
models use: byte-level BPE as Llama 3 has it, BPE with byte_fallback as Llama 2, Mistral and Gemma have it, and Unigram.

    pip install tokenizers==0.23.3 && python tools/make_tokenizer_vectors.py

The tokenizers are trained here on documents of this repository. `tokenizers` holds one tokenizer.json a kind; each case
patches one of them (JSON merge patch, RFC 7396) and lists, for every text (or the index of one in `texts`), the ids, what
they decode to, and what without special tokens, null where that is the same. Texts are ASCII-escaped, so that no reader can
normalise them by accident.
"""

import json
import pathlib

import tokenizers
from tokenizers import models, normalizers, pre_tokenizers, trainers

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "tests/data/text/tokenizer_vectors.json"
LETTER = "\u2581"
SPECIAL = ["<unk>", "<s>", "</s>"]
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]

# What sentencepiece compiles of these rules: ligature fi -> fi, 1/2 -> 1 fraction slash 2, circled 1, full-width A, A with a
# ring above and e with an acute as one letter, half-width ga and ka, "cafe" -> tea, TM, a double-struck 0, U+0001 -> nothing,
# and to a space: ideographic and no-break space, tab, newline, zero-width space.
CHARSMAP = (
    "AAQAAAAMAAAAAACAAQ0AAMwwAgABAACAig0AABkAAIBhpAEAZoQBAAo1AAAJOQAAFQAAgGUdAADMDAIAHAAAgIEFAAAHAACAi1UAAKIFAAAPAACAoAUAAAUA"
    "AICABAIAgE0AAIEFAAASAACAoQUAAA0AAIC2BQAAHwAAgL58AgCe9QAAoJEAAIDsAgAjAACAnWgCAKz0AgCEVAIAn2QCAJg9AAADAACAKwAAACgAAAApAAAA"
    "LgAAAC8AAAAsAAAALQAAAJEQAgAzAAAAMAAAADEAAAC8PAIAvXwCADQAAAA1AAAAOgAAADsAAAA4AAAAOQAAAD4AAAC9tQAAPAAAAD0AAABCAAAAQwAAAEE0"
    "AgBBAAAARgAAAEcAAABEAAAARQAAAEoAAABLAAAASAAAAEkAAABOAAAATwAAAEwAAABNAAAAUgAAAFMAAABQAAAAUQAAAFYAAABXAAAAVAAAAFUAAABaAAAA"
    "WwAAAFgAAABZAAAAXgAAAF8AAABcAAAAXQAAAGMYAABjAAAAYAAAAGEAAABmAAAAZwAAAGWcAgBlAAAAagAAAGsAAABoAAAAaQAAAG4AAABvAAAAbAAAAG0A"
    "AAByAAAAcwAAAHAAAABxAAAAdgAAAHcAAAB0AAAAdQAAAHoAAAB7AAAAeAAAAHkAAAB+AAAAfwAAAHwAAAB9AAAAggAAAIMAAACAAAAAgQAAAIYAAACHAAAA"
    "hAAAAIUAAACKAAAAiwAAAIgAAACJAAAAjgAAAI8AAACMAAAAjQAAAJIAAACTAAAAkAAAAJEAAACWAAAAlwAAAJQAAACVAAAAmgAAAJsAAACYAAAAmQAAAJ4A"
    "AACfAAAAnAAAAJ0AAACiAAAAowAAAKAAAAChAAAApgAAAKcAAACkAAAApQAAAKoAAACrAAAAqAAAAKkAAACuAAAArwAAAKwAAACtAAAAsgAAALMAAACwAAAA"
    "sQAAALYAAAC3AAAAtAAAALUAAAC6AAAAuwAAALgAAAC5AAAAvgAAAL8AAAC8AAAAvQAAAMIAAADCBAEAwAAAAMEAAADGAAAAxwAAAMQAAADFAAAAygAAAMsA"
    "AADIAAAAyQAAAM4AAADPAAAAzAAAAM0AAADSAAAA0wAAANAAAADRAAAA1gAAANcAAADUAAAA1QAAANoAAADbAAAA2AAAANkAAADeAAAA3wAAANwAAADdAAAA"
    "49gBAOIAAQDgAAAA4QAAAOYAAADnAAAA5AAAAOUAAADqAAAA6wAAAOgAAADpAAAA75ABAO8AAADsAAAA7QAAAPIAAADzAAAA70gBAPA0AQD2AAAA9wAAAPQA"
    "AAD1AAAA+gAAAPsAAAD4AAAA+QAAAP4AAAD/AAAA/AAAAP0AAAAAIAAwADEAMeKBhDIAQQBUTQBmaQB0ZWEAw4UAw6kA44KrAOOCrAA="
)

MORE_TEXT = [
    "Der Zug f\u00e4hrt \u00fcber die Br\u00fccke. \u00c9t\u00e9 \u00e0 la plage, d\u00e9j\u00e0 vu, na\u00efve caf\u00e9s. Se\u00f1or Ni\u00f1o ma\u00f1ana.",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u53bb\u516c\u56ed\u3002\u6570\u5b66\u548c\u7269\u7406\u3002\u5929\u6c14\u4e0d\u597d\uff0c\u6211\u4eec\u4e0d\u53bb\u3002",
    "\u3053\u3093\u306b\u3061\u306f\u3001\u4e16\u754c\u3002\u30ab\u30bf\u30ab\u30ca\u3068\u3072\u3089\u304c\u306a\u3002 \u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u042d\u0442\u043e \u0442\u0435\u0441\u0442.",
    "def add(a, b):\n    return a + b\n\nfor i in range(10):\n    print(f\"{i}: {add(i, 1)}\")\n",
    "int main() {\n  std::vector<int> v = {1, 2, 3};\n  return v.size() == 3 ? 0 : 1;\n}\n",
]

TEXTS = [
    "", " ", "  ", "a", " a", "a ", "The quick brown fox jumps over the lazy dog.", "Hello, world!  It's 12345.67 o'clock\n",
    "What the planner reads, the executor runs; nothing else.", "   three spaces in front", "trailing spaces   ", "tab\tand\r\nlines\n\n\nend",
    "def f(x):\n    if x > 0:\n        return x ** 2  # square\n    return None\n", "for (int i = 0; i < n; ++i) sum += a[i] * b[i];",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u5011\u53bb\u9f98\u9f98\u5c71\u3002", "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c \uff76\uff9e\uff77\uff9e\u30ac\u30ae \uff21\uff22\uff23", "\ud55c\uad6d\uc5b4 \u1112\u1161\u11ab\uae00",
    "\U0001f600\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea \u2764\ufe0f!", "cafe\u0301 caf\u00e9 \u00c5 A\u030a \u212b \u1e9b\u0323 a\u0315\u0300\u05ae\u0062 \u0344",
    "\ufb01ne \u00bd \u2460 \u2122 \u33a1 \u32ff \u00b2 \u2002 \u00aa", "\u0130STANBUL \u01c5 \u1e9e\u00df \u03a3\u039f\u03a6\u039f\u03a3 \u1c89\ua7dc", "a\u00a0b\u2003c\u3000d\u2028e\u1680f\u200bg\ufeffh\u0085i",
    "\u0001\u0007control\u007f\u009f\u008f\u000b\u000cx\u2581y", "\u2581", "\u2581\u2581a\u2581 b \u2581c", "<s>", "<s>hello</s>", "hi <s> there </s> <unk> and <unk>", " <s> a",
    "<0x41> <0x0A><0xZZ>", "<0x", "\u05e9\u05dc\u05d5\u05dd \u0645\u0631\u062d\u0628\u0627 \u0939\u093f\u0928\u094d\u0926\u0940 \u0e44\u0e17\u0e22", "\u0391\u03b2\u03b3 \u041f\u0440\u0438\u0432\u0435\u0442", "3.14159e-10 0xFF 1,000,000", "\u0660\u0661\u0662 \u2164 \u00b3",
    "a\u0300\u0301\u0302\u0303" * 6, "\U00010d50\U0001e030 \U0001d400\U0001d7d8", "end with newline\n", "\n", "\n\nhello", "q\u0323\u0307 q\u0307\u0323", "\ufdfa",
]
LONG = ["x" * 70, "ab" * 90 + " " + "the" * 30, "supercalifragilisticexpialidocious" * 3, " ".join(["planner"] * 20), "\u9f98" * 40, "\U0001f600" * 12 + "a",
        "=" * 50 + "\n" + "-" * 33]
MARKED = ["<x> <x>a <x> b", "A<x>b", "<y>c <y> d <y>", "say <Z> <z> \u00e9<Z>", "<s>\n<x> </s>  <y>", "", "<x>", " <y> ", "word<w> <w> <w>word"]


def corpus():
    for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/data.md", "docs/configuration.md"):
        yield from (ROOT / name).read_text(encoding="utf-8").split("\n")
    for _ in range(12):
        yield from MORE_TEXT


def added(content, number, **flags):
    token = dict(id=number, content=content, single_word=False, lstrip=False, rstrip=False, normalized=False, special=True)
    return {**token, **flags}


def template(bos="<s>", number=1, eos=False):
    single = [{"SpecialToken": {"id": bos, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    names = {bos: dict(id=bos, ids=[number], tokens=[bos])}
    if eos:
        single.append({"SpecialToken": {"id": "</s>", "type_id": 0}})
        names["</s>"] = dict(id="</s>", ids=[2], tokens=["</s>"])
    return dict(type="TemplateProcessing", single=single, pair=[*single, {"Sequence": {"id": "B", "type_id": 1}}], special_tokens=names)


def replace(pattern, content, kind="String"):
    return dict(type="Replace", pattern={kind: pattern}, content=content)


def sequence(key, *steps):
    return dict(type="Sequence", **{key: list(steps)})


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def llama3():
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(tokenizers.Regex(LLAMA3), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    document = json.loads(tokenizer.to_str())
    size = len(document["model"]["vocab"])
    document["model"]["vocab"]["quickbrown"] = size  # no merges lead to these
    document["model"]["vocab"]["\u0120lazy"] = size + 1
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    document["added_tokens"] = [added(name, size + 2 + i) for i, name in enumerate(names)]
    document["model"]["ignore_merges"] = True
    level = dict(type="ByteLevel", add_prefix_space=True, trim_offsets=False, use_regex=True)
    document["post_processor"] = sequence("processors", level, template(names[0], size + 2))
    document["decoder"] = {**level, "trim_offsets": True}
    return document


def llama2():
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=900, special_tokens=[*SPECIAL, *BYTES], limit_alphabet=120, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    document = json.loads(tokenizer.to_str())
    vocab, merges = document["model"]["vocab"], document["model"]["merges"]
    for run in (2, 4, 8):  # runs of spaces, as these models have them
        vocab[LETTER * run] = len(vocab)
        merges.append([LETTER * (run // 2)] * 2)
    vocab["planner reads"] = len(vocab)  # for ignore_merges
    vocab["a"] = vocab.get("a", len(vocab))
    document["added_tokens"] = [added(name, i) for i, name in enumerate(SPECIAL)]
    document["normalizer"] = sequence("normalizers", dict(type="Prepend", prepend=LETTER), replace(" ", LETTER))
    document["pre_tokenizer"] = None
    document["post_processor"] = template()
    document["decoder"] = sequence("decoders", replace(LETTER, " "), dict(type="ByteFallback"), dict(type="Fuse"),
                                   dict(type="Strip", content=" ", start=1, stop=0))
    return document


def unigram():
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    trainer = trainers.UnigramTrainer(vocab_size=700, special_tokens=SPECIAL, unk_token="<unk>", max_piece_length=12, show_progress=False)
    tokenizer.train_from_iterator(corpus(), trainer)
    document = json.loads(tokenizer.to_str())
    document["added_tokens"] = [added(name, i) for i, name in enumerate(SPECIAL)]
    document["post_processor"] = template(eos=True)
    document["decoder"] = dict(type="Metaspace", replacement=LETTER, prepend_scheme="always", split=True)
    return document


def metaspace(scheme="always", split=True):
    return dict(type="Metaspace", replacement=LETTER, prepend_scheme=scheme, split=split)


def cases(documents):
    two, uni = documents["llama2"], documents["unigram"]
    size, uni_size = len(two["model"]["vocab"]), len(uni["model"]["vocab"])
    yield "Llama 3", "llama3", {}, {}
    yield "Llama 3, merges kept", "llama3", dict(model=dict(ignore_merges=False)), {}
    yield "Llama 2", "llama2", {}, {}
    yield "Llama 2, special tokens stay text", "llama2", {}, dict(parse_special=False, texts=TEXTS[20:34])
    for scheme in ("always", "first", "never"):
        for split in (True, False):
            pre = dict(normalizer=None, pre_tokenizer=metaspace(scheme, split), decoder=metaspace(scheme, split))
            yield f"Mistral, {scheme}, split {split}", "llama2", pre, {}
    old = dict(type="Metaspace", replacement=LETTER, str_rep=LETTER, add_prefix_space=True)
    yield "old spelling", "llama2", dict(normalizer=None, pre_tokenizer=old, decoder=old), {}
    both = dict(old, add_prefix_space=False, prepend_scheme="never")
    yield "old spelling beside the new one", "llama2", dict(normalizer=None, pre_tokenizer=both, decoder=both), {}
    yield "Prepend and Metaspace first", "llama2", dict(pre_tokenizer=metaspace("first")), {}
    yield "Strip and Metaspace first", "llama2", dict(normalizer=dict(type="Strip", strip_left=True, strip_right=False), pre_tokenizer=metaspace("first")), {}
    split = dict(type="Split", pattern={"String": " "}, behavior="MergedWithPrevious", invert=False)
    gemma = dict(normalizer=replace(" ", LETTER), pre_tokenizer=split,
                 decoder=sequence("decoders", replace(LETTER, " "), dict(type="ByteFallback"), dict(type="Fuse")))
    yield "Gemma", "llama2", gemma, {}
    yield "ignore_merges", "llama2", dict(model=dict(ignore_merges=True)), {}
    yield "ignore_merges, nothing prepended", "llama2", dict(normalizer=None, model=dict(ignore_merges=True)), dict(texts=["planner reads", "planner reads ", "the", "ththe"])
    yield "no byte_fallback", "llama2", dict(model=dict(byte_fallback=False)), {}
    yield "no byte_fallback, unknown tokens apart", "llama2", dict(model=dict(byte_fallback=False, fuse_unk=False)), {}
    yield "no unknown token", "llama2", dict(model=dict(byte_fallback=False, unk_token=None)), {}
    lost = {"model": {"vocab": {f"<0x{byte:02X}>": None for byte in (0xE4, 0x9F, 0x80, 0xCC, 0x01)}}}
    yield "some bytes without tokens", "llama2", lost, {}
    yield "some bytes without tokens, unknown tokens apart", "llama2", {"model": {**lost["model"], "fuse_unk": False}}, {}
    yield "Strip at both ends", "llama2", dict(decoder=sequence("decoders", replace(LETTER, "~"), dict(type="ByteFallback"), dict(type="Fuse"), dict(type="Strip", content="~", start=2, stop=1))), dict(texts=TEXTS[6:15])  # it panics at texts that are stripped away
    yield "no Fuse", "llama2", dict(decoder=sequence("decoders", dict(type="ByteFallback"), dict(type="Strip", content=LETTER, start=1, stop=0), metaspace("never"))), {}
    marks = [*two["added_tokens"], added("<x>", size, special=False, lstrip=True), added("<y>", size + 1, special=False, rstrip=True, normalized=True),
             added("<Z>", size + 2, special=False, normalized=True), added("<w>", size + 3, special=False, single_word=True, normalized=True)]
    yield "added tokens", "llama2", dict(added_tokens=marks), dict(texts=MARKED)
    yield "added tokens, nothing prepended", "llama2", dict(added_tokens=marks, normalizer=sequence("normalizers", dict(type="Lowercase"), replace(" ", LETTER))), dict(texts=MARKED)
    yield "added tokens and Metaspace first", "llama2", dict(added_tokens=marks, normalizer=None, pre_tokenizer=metaspace("first")), dict(texts=MARKED)

    yield "Unigram", "unigram", {}, {}
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt"):
        yield f"Unigram, {name}", "unigram", dict(normalizer=dict(type=name)), {}
    compiled = dict(type="Precompiled", precompiled_charsmap=CHARSMAP)
    yield "Unigram, Precompiled", "unigram", dict(normalizer=compiled), {}
    yield "Unigram, Precompiled in a sequence", "unigram", dict(normalizer=sequence("normalizers", compiled, replace(" {2,}", " ", "Regex")), pre_tokenizer=metaspace("first")), {}
    yield "Unigram, Strip", "unigram", dict(normalizer=dict(type="Strip", strip_left=True, strip_right=True)), {}
    yield "Unigram, Strip right", "unigram", dict(normalizer=dict(type="Strip", strip_left=False, strip_right=True), pre_tokenizer=metaspace("never")), {}
    yield "Unigram, all normalizers", "unigram", dict(normalizer=sequence(
        "normalizers", dict(type="Nmt"), dict(type="NFKD"), dict(type="StripAccents"), dict(type="Lowercase"), replace(r"\s+", " ", "Regex"), replace("``", '"'),
        dict(type="Strip", strip_left=True, strip_right=True), dict(type="Prepend", prepend="> "))), {}
    yield "Unigram, Replace with empty matches", "unigram", dict(normalizer=replace(r"x*|\d", "-", "Regex")), {}
    yield "Unigram, pieces between white space", "unigram", dict(pre_tokenizer=sequence("pretokenizers", dict(type="WhitespaceSplit"), metaspace())), {}
    yield "Unigram, pieces between white space, first", "unigram", dict(pre_tokenizer=sequence("pretokenizers", dict(type="WhitespaceSplit"), metaspace("first"))), {}
    yield "Unigram, digits", "unigram", dict(pre_tokenizer=sequence("pretokenizers", metaspace(), dict(type="Digits", individual_digits=True))), {}
    yield "Unigram, whole texts", "unigram", dict(pre_tokenizer=metaspace("always", False)), {}
    yield "Unigram, nothing cut", "unigram", dict(pre_tokenizer=None), {}
    scores = [*uni["model"]["vocab"], *([name, -20.0] for name in BYTES)]
    fallback = dict(model=dict(vocab=scores, byte_fallback=True), decoder=sequence("decoders", dict(type="ByteFallback"), metaspace()))
    yield "Unigram, bytes", "unigram", fallback, {}
    yield "Unigram, bytes, unknown token in the middle", "unigram", {**fallback, "pre_tokenizer": metaspace("never", False), "normalizer": None}, {}
    few = [["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0], ["a", -1.0], ["b", -1.0], ["ab", -2.0], ["aba", -3.0], ["ba", -2.0], ["abab", -3.5], [LETTER, -1.0], ["\u4eca\u5929", -1.5], ["un", -1], ["<u", -4.0]]
    yield "Unigram, ties", "unigram", dict(model=dict(vocab=few)), dict(texts=["ab", "aba", "abab", "ababab", "bababa", "ab abab", "a\u4eca\u5929b\u4eca", "\u5929\u4eca\u5929", "<unk>a", "x<un", "unun<u", "cccaccc", "baab" * 9])


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


def run(documents, name, base, patch, options):
    document = merge_patch(documents[base], patch)
    # The library wants the keys that a merge patch takes away.
    whole = {"normalizer": None, "pre_tokenizer": None, "post_processor": None, **document}
    if base == "llama2":
        whole["model"] = {"dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, **document["model"]}
    tokenizer = tokenizers.Tokenizer.from_str(json.dumps(whole))
    parse = options.get("parse_special", True)
    tokenizer.encode_special_tokens = not parse
    rows = []
    for text in options.get("texts", TEXTS if patch else TEXTS + LONG):
        ids = tokenizer.encode(text, add_special_tokens=True).ids
        decoded, without = tokenizer.decode(ids, skip_special_tokens=False), tokenizer.decode(ids, skip_special_tokens=True)
        rows.append([TEXTS.index(text) if text in TEXTS else text, ids, decoded, None if without == decoded else without])
    return dict(name=name, tokenizer=base, patch=patch, parse_special=parse, rows=rows)


def main():
    documents = {"llama3": llama3(), "llama2": llama2(), "unigram": unigram()}
    recorded = [run(documents, *case) for case in cases(documents)]

    def line(value):
        return json.dumps(value, ensure_ascii=True, separators=(",", ":"))

    head = ",\n".join(f"{json.dumps(name)}:{line(document)}" for name, document in documents.items())
    OUTPUT.write_text('{"texts":' + line(TEXTS) + ',\n"tokenizers":{\n' + head + '},\n"cases":[\n' + ",\n".join(map(line, recorded)) + "\n]}\n")
    print(f"{OUTPUT}: {len(recorded)} cases, {sum(len(c['rows']) for c in recorded)} texts, {OUTPUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
