"""One bad input: how it is made from a good run, and how the program must end on it: with one sentence and the
right exit code."""

import dataclasses
import json
import os
import pathlib
import re
import resource
import shutil
import struct
import subprocess
import typing

import tiny_run

NOBODY = 65534
# What no user should ever see.
FORBIDDEN = re.compile(r"bug in lazytrain|internal error|terminate called|Sanitizer|std::|basic_string|json\.exception|"
                       r"yaml-cpp|Assertion|Traceback|core dumped")


@dataclasses.dataclass
class Case:
    name: str
    code: int
    sentence: str  # part of it
    arguments: typing.Callable[["Work"], list]
    input: str = ""
    unprivileged: bool = False  # run as nobody where the caller is root, for whom all folders are writable
    file_limit: int = 0         # bytes that a file may have: a stand-in for a full disk
    succeeds: bool = False      # a warning is expected, not an error


class Work:
    """A folder with a good model, good data and a good run.yaml, for one case to spoil."""

    def __init__(self, folder, source):
        self.folder = folder
        shutil.copytree(source, folder)
        self.model = folder / "model"
        self.data = folder / "data"
        self.out = folder / "out"
        self.done = folder / "done"  # a finished run of two steps
        self.yaml = folder / "run.yaml"

    def remove(self):
        for path in [self.folder, *self.folder.rglob("*")]:
            if path.is_dir():
                path.chmod(0o755)
        shutil.rmtree(self.folder)

    def settings(self, **changes):
        """run.yaml with changes; None leaves a key out."""
        settings = {"model_name_or_path": self.model, "dataset_dir": self.data, "output_dir": self.out,
                    **tiny_run.SETTINGS, "max_steps": 2, **changes}
        tiny_run.write_config(self.yaml, **{key: value for key, value in settings.items() if value is not None})

    def train(self, *overrides, **changes):
        self.settings(**changes)
        return ["train", self.yaml, *overrides]

    def text(self, content):
        """A run.yaml of the case's own."""
        if isinstance(content, str):
            content = content.encode()
        self.yaml.write_bytes(content)
        return ["train", self.yaml]

    def inspect(self):
        return ["inspect", self.model]

    def edit(self, path, **changes):
        """Changes keys of a JSON file; None removes one."""
        value = json.loads(path.read_text())
        for key, new in changes.items():
            value[key] = new
            if new is None:
                del value[key]
        tiny_run.write_json(path, value)

    def config(self, **changes):
        self.edit(self.model / "config.json", **changes)
        return ["plan", self.yaml]

    def tokenizer(self, change):
        path = self.model / "tokenizer.json"
        value = json.loads(path.read_text())
        change(value)
        tiny_run.write_json(path, value)
        return ["train", self.yaml]

    def weights(self, change):
        """Lets `change(header, payload)` return new ones (or None for those that stay)."""
        path = self.model / "model.safetensors"
        content = path.read_bytes()
        size = struct.unpack("<Q", content[:8])[0]
        header, payload = json.loads(content[8:8 + size]), content[8 + size:]
        header, payload = change(header, payload) or (header, payload)
        text = (header if isinstance(header, str) else json.dumps(header)).encode()
        path.write_bytes(struct.pack("<Q", len(text)) + text + payload)
        return self.inspect()

    def dataset(self, content, **changes):
        """A dataset file of the case's own."""
        if isinstance(content, str):
            content = content.encode()
        (self.data / "own.jsonl").write_bytes(content)
        return self.train(dataset="own.jsonl", **changes)

    def registry(self, entry, name="own"):
        self.edit(self.data / "dataset_info.json", **{name: entry})
        return self.train(dataset=name)


def judge(program, case, work):
    """Runs the case; returns the sentence, and what is wrong with it ('' where all is well)."""
    options = {}
    if case.unprivileged and os.getuid() == 0:
        options["user"] = NOBODY
    if case.file_limit:
        options["preexec_fn"] = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (case.file_limit, case.file_limit))
    if case.input:
        options.update(stdin=None, input=case.input)
    arguments = case.arguments(work)
    try:
        done = tiny_run.run(program, *arguments, timeout=60, cwd=work.folder, **options)
    except subprocess.TimeoutExpired:
        return "", "still running after 60 s"
    errors = done.stderr.strip().splitlines()
    said = [line for line in errors if line.startswith("error: ")]
    sentence = said[-1] if said else (errors[-1] if errors else "")
    faults = []
    if done.returncode != case.code:
        faults.append(f"exit code {done.returncode}")
    if case.sentence not in (done.stderr + done.stdout if case.succeeds else sentence):
        faults.append("another sentence")
    if not case.succeeds and (len(said) != 1 or errors[-1] != said[0]):
        faults.append(f"{len(said)} sentences, {len(errors)} lines")
    if match := FORBIDDEN.search(done.stderr + done.stdout):
        faults.append(f"says '{match.group()}'")
    leftovers = [path.name for path in pathlib.Path(work.folder).rglob("*.tmp-*")]
    if leftovers:
        faults.append(f"left {leftovers[0]}")
    return sentence.replace(str(work.folder) + "/", ""), "; ".join(faults)
