"""Runs `lazytrain train` under memory limits of a cgroup: what the limit leaves is planned for, so that the run
ends as it would without one, or is refused before it starts; the kernel never has to kill it.

memory_pressure.py PROGRAM     exit 0 where all of it holds, 77 where no cgroup can be made here
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

import tiny_run

MOUNT = pathlib.Path("/sys/fs/cgroup")
REFUSED = 5
MB = 10**6


class Cgroup:
    """A group of its own below this process's, with a limit on memory; version 1 or 2."""

    def __init__(self):
        lines = pathlib.Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines()
        parts = [line.split(":", 2) for line in lines]
        parents = [(MOUNT / "memory" / path.lstrip("/"), "memory.limit_in_bytes") for _, kind, path in parts
                   if "memory" in kind.split(",")]
        parents += [(MOUNT / path.lstrip("/"), "memory.max") for _, kind, path in parts if kind == ""]
        for parent, self.limit_file in parents:
            self.folder = parent / f"lazytrain-test-{os.getpid()}"
            try:
                self.folder.mkdir()
                self.limit(256 * MB)
                return
            except OSError:
                self.remove()
        raise OSError("no group can be made")

    def limit(self, size):
        (self.folder / self.limit_file).write_text(str(size), encoding="ascii")

    def join(self):
        (self.folder / "cgroup.procs").write_text("0", encoding="ascii")

    def kills(self):
        """How often the kernel killed something of the group for memory."""
        for name in ("memory.oom_control", "memory.events"):
            path = self.folder / name
            if path.exists():
                found = re.search(r"^oom_kill (\d+)$", path.read_text(encoding="ascii"), re.MULTILINE)
                return int(found.group(1)) if found else 0
        return 0

    def remove(self):
        try:
            self.folder.rmdir()
        except OSError:
            pass


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    try:
        cgroup = Cgroup()
    except OSError as error:
        print(f"skipped: {error}")
        return 77
    failed = 0

    def check(what, holds, detail=""):
        nonlocal failed
        failed += not holds
        print(f"{'ok  ' if holds else 'FAIL'} {what}{'' if holds else f': {detail}'}", flush=True)

    with tempfile.TemporaryDirectory(prefix="lazytrain-memory-") as folder:
        work = pathlib.Path(folder)
        tiny_run.keep_costs_in(work / "cache")
        config = tiny_run.make(work, max_steps=6)

        def train(name, size, *changes):
            if size is not None:
                cgroup.limit(size)
            done = tiny_run.run(program, "train", config, f"output_dir={work / name}", *changes,
                                preexec_fn=None if size is None else cgroup.join)
            model = work / name / "model.safetensors"
            return done, model.read_bytes() if model.exists() else None

        try:
            free, expected = train("free", None)
            check("without a limit it trains", free.returncode == 0, free.stderr)
            ended = refused = before = 0
            # From what the program needs to start (its libraries take 70 MB) to plenty, through the edge between
            # what is refused and what trains.
            for size in [*range(100, 300, 20), 500, 1000]:
                done, model = train(f"limit-{size}", size * MB)
                kills, before = cgroup.kills() - before, cgroup.kills()
                if done.returncode == 0:
                    ended += 1
                    check(f"{size} MB: the same model", model == expected)
                else:
                    refused += 1
                    check(f"{size} MB: refused in a sentence, with nothing written",
                          done.returncode == REFUSED and model is None and done.stderr.count("\n") <= 3,
                          f"exit {done.returncode}: {done.stderr}")
                check(f"{size} MB: nothing was killed", kills == 0, f"{kills} kills")
            check("some limits are enough, and some are refused", ended > 0 and refused > 0, f"{ended} {refused}")
            # The same with a device apart from the host, both of which the cgroup holds.
            done, model = train("emulated", 600 * MB, "memory_model=emulated", "device_memory=20MB")
            check("an emulated device beside the host trains to the same model",
                  done.returncode == 0 and model == expected and cgroup.kills() == before,
                  f"exit {done.returncode}: {done.stderr}")
        finally:
            cgroup.remove()
    print("memory pressure:", "FAIL" if failed else "PASS")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
