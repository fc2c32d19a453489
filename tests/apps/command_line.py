"""The program as a person or a script meets it: help, versions, pipes, colours, Ctrl-C.

command_line.py PROGRAM     exit 0 where all of it is as it should be
"""

import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time

import tiny_run

COMMANDS = ("train", "plan", "eval", "generate", "export", "import", "inspect", "calibrate", "doctor")
ESCAPE = "\x1b"


class Report:
    def __init__(self):
        self.wrong = []

    def check(self, name, holds, told=""):
        print(f"  {'ok   ' if holds else 'WRONG'} {name}" + ("" if holds else f": {told}"), flush=True)
        if not holds:
            self.wrong.append(name)


def on_terminal(program, *arguments, environment=None, interrupt_at=None):
    """Runs with a terminal as standard error and output; returns (exit code, all that was written)."""
    leader, follower = pty.openpty()
    process = subprocess.Popen([str(program), *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=follower,
                               stderr=follower, env=environment or tiny_run.environment(), close_fds=True,
                               start_new_session=True)
    os.close(follower)
    text, deadline = "", time.monotonic() + 60
    while time.monotonic() < deadline:
        if select.select([leader], [], [], 0.1)[0]:
            try:
                data = os.read(leader, 65536)
            except OSError:
                break
            if not data:
                break
            text += data.decode(errors="replace")
            if interrupt_at and interrupt_at in text:
                process.send_signal(signal.SIGINT)
                interrupt_at = None
        elif process.poll() is not None:
            break
    os.close(leader)
    return process.wait(timeout=10), text


def interrupted(program, *arguments, after, number=signal.SIGINT):
    """Sends a signal `after` seconds; returns (exit code, errors, seconds until the end, alive till then)."""
    process = subprocess.Popen([str(program), *map(str, arguments)], stdin=subprocess.DEVNULL, text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=tiny_run.environment())
    time.sleep(after)
    alive = process.poll() is None
    begin = time.monotonic()
    process.send_signal(number)
    errors = process.communicate(timeout=120)[1]
    return process.returncode, errors, time.monotonic() - begin, alive


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="lazytrain-line-") as name:
        work = pathlib.Path(name)
        tiny_run.keep_costs_in(work / "costs")
        config = tiny_run.make(work, max_steps=3)
        model = work / "model"

        print("help and version:")
        for words in ((), *((command,) for command in COMMANDS)):
            done = tiny_run.run(program, *words, "--help")
            shown = " ".join(("lazytrain", *words, "--help"))
            report.check(shown, done.returncode == 0 and "Usage:" in done.stdout and not done.stderr, done.stderr)
            report.check(f"{shown} has an example", "xample" in done.stdout)
            report.check(f"{shown} has no escape codes", ESCAPE not in done.stdout)
        keys = tiny_run.run(program, "train", "--help").stdout
        report.check("train --help lists the keys of run.yaml", "learning_rate" in keys and "cutoff_len" in keys)
        version = tiny_run.run(program, "--version")
        report.check("--version", version.returncode == 0 and version.stdout.startswith("lazytrain "), version.stdout)

        print("pipes and colours:")
        done = tiny_run.run(program, "train", config)
        report.check("train ends with 0", done.returncode == 0, done.stderr[-300:])
        report.check("no escape codes or carriage returns in pipes", not {ESCAPE, "\r"} & set(done.stdout + done.stderr))
        code, text = on_terminal(program, "train", config, f"output_dir={work / 'terminal'}")
        report.check("train on a terminal ends with 0", code == 0, text[-300:])
        code, text = on_terminal(program, "train", config, f"output_dir={work / 'plain'}",
                                 environment=tiny_run.environment(NO_COLOR="1"))
        report.check("NO_COLOR: no colours on a terminal", code == 0 and f"{ESCAPE}[3" not in text, repr(text[-300:]))
        code, text = on_terminal(program, "train", config, f"output_dir={work / 'dumb'}",
                                 environment=tiny_run.environment(TERM="dumb"))
        report.check("TERM=dumb: no escape codes on a terminal", code == 0 and ESCAPE not in text, repr(text[-300:]))
        code, text = on_terminal(program, "inspect", work / "nothing")
        report.check("an error on a terminal is coloured", code == 2 and f"{ESCAPE}[" in text, repr(text[-300:]))
        done = tiny_run.run(program, "train", work / "nothing.yaml")
        report.check("an error in a pipe is not", done.returncode == 2 and ESCAPE not in done.stderr, repr(done.stderr))

        print("commands that succeed:")
        done = tiny_run.run(program, "generate", model, "-p", "What is 1 plus 1?", "--max-new-tokens", 8)
        report.check("generate", done.returncode == 0 and not done.stderr, done.stderr)
        done = tiny_run.run(program, "generate", model, "--max-new-tokens", 4, stdin=None, input="one\ntwo\n\n")
        report.check("generate from standard input", done.returncode == 0, done.stderr)
        result = work / "result.json"
        done = tiny_run.run(program, "eval", config, "eval_dataset=test", "max_new_tokens=8", "--out", result)
        report.check("eval", done.returncode == 0 and json.loads(result.read_text())["problems"] == 8, done.stderr)
        done = tiny_run.run(program, "plan", config, "--out", work / "plan.json", "--listing")
        report.check("plan", done.returncode == 0 and "Forward(0, m0)" in done.stdout, done.stderr)
        done = tiny_run.run(program, "export", work / "out" / "checkpoint-2", "--model", model, "--out", work / "exported")
        report.check("export", done.returncode == 0, done.stderr)
        done = tiny_run.run(program, "inspect", work / "exported")
        report.check("inspect of what was exported", done.returncode == 0 and "layers 2" in done.stdout, done.stderr)
        done = tiny_run.run(program, "generate", work / "exported", "-p", "a", "--max-new-tokens", 2)
        report.check("generate from what was exported", done.returncode == 0, done.stderr)

        print("Ctrl-C:")
        for command in (("eval", config, "max_new_tokens=20000", "eval_dataset=sums"),
                        ("generate", model, "--max-new-tokens", 20000, "-p", "a")):
            name = command[0]
            code, errors, seconds, alive = interrupted(program, *command, after=2)
            report.check(f"{name} ends with 130 within 10 s", alive and code == 130 and seconds < 10,
                         (alive, code, seconds, errors))
            report.check(f"{name} says what a signal does", "\nstopping; " in errors, errors)
        code, text = on_terminal(program, "train", config, "max_steps=100000", "save_steps=0", f"output_dir={work / 'stopped'}",
                                 interrupt_at="loss")
        report.check("train on a terminal ends with 130", code == 130, (code, text[-300:]))
    print(f"command-line: {'FAIL: ' + ', '.join(report.wrong) if report.wrong else 'PASS'}")
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
