"""Every kind of bad input once, through the command line: one sentence, the right exit code, never a crash.

bad_input.py PROGRAM [--only TEXT] [--list]     exit 0 where all cases end as the tables say
"""

import argparse
import concurrent.futures
import os
import pathlib
import sys
import tempfile

import bad_models
import bad_plans
import bad_runs
import tiny_run
from bad_case import Work, judge


def good_source(program, folder):
    """A good run to spoil: model, data, run.yaml, and a finished run with a checkpoint in done/."""
    config = tiny_run.make(folder, max_steps=2)
    done = tiny_run.run(program, "train", config, f"output_dir={folder / 'done'}")
    if done.returncode != 0:
        sys.exit(f"the good run ended with {done.returncode}:\n{done.stderr}")
    return folder


def tried(program, case, root, source):
    with tempfile.TemporaryDirectory(dir=root, prefix="case-") as name:
        work = Work(pathlib.Path(name) / "work", source)
        pathlib.Path(name).chmod(0o755)
        work.settings()
        try:
            return judge(program, case, work)
        finally:
            work.remove()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--only", default="", help="cases whose kind or name contains this")
    options = parser.parse_args()
    program = options.program.resolve()
    right = total = 0
    with tempfile.TemporaryDirectory(prefix="lazytrain-bad-") as name, \
            concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as workers:
        root = pathlib.Path(name)
        root.chmod(0o755)
        tiny_run.keep_costs_in(root / "costs")
        source = good_source(program, root / "good")
        for kind, cases in {**bad_models.TABLES, **bad_runs.TABLES, **bad_plans.TABLES}.items():
            print(f"{kind}:")
            wanted = [case for case in cases if options.only in f"{kind}: {case.name}"]
            for case, (sentence, faults) in zip(wanted, workers.map(lambda case: tried(program, case, root, source), wanted)):
                total += 1
                right += not faults
                print(f"  {case.code}  {case.name:<40} {sentence}" + (f"\n     WRONG: {faults}" if faults else ""), flush=True)
    print(f"bad-input: {'PASS' if right == total else 'FAIL'} ({right} of {total} bad inputs end in their one sentence)")
    return 0 if right == total else 1


if __name__ == "__main__":
    sys.exit(main())
