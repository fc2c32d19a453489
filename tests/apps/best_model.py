"""The best checkpoint: which evaluation it is of, that it is never deleted, what is exported, also of a run that was
stopped or whose best checkpoint is gone; and the by-products of a run on a disk that cannot take them.

best_model.py PROGRAM     exit 0 where all of it is as it should be
"""

import json
import pathlib
import shutil
import sys
import tempfile

import tiny_run
from command_line import Report

# The loss of so short a run falls: with the greatest taken for the best, the best is not the last.
BEST = {"max_steps": 8, "save_steps": 2, "eval_strategy": "steps", "eval_steps": 2, "val_size": 8, "save_total_limit": 1,
        "load_best_model_at_end": "true", "greater_is_better": "true"}


def state(folder):
    return json.loads((folder / "trainer_state.json").read_text())


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


def checkpoints(folder):
    return sorted(path.name for path in folder.glob("checkpoint-*"))


class Best:
    def __init__(self, program, work):
        self.program, self.work, self.report = program, work, Report()
        self.config = tiny_run.make(work, **BEST)

    def train(self, out, *overrides):
        done = tiny_run.run(self.program, "train", self.config, f"output_dir={self.work / out}", *overrides)
        return done.returncode, done.stderr, done.stdout

    def export(self, out, checkpoint):
        folder = self.work / "exported"
        shutil.rmtree(folder, ignore_errors=True)
        tiny_run.run(self.program, "export", self.work / out / checkpoint, "--model", self.work / "model", "--out", folder)
        return weights(folder)


def chosen(best):
    code, errors, _ = best.train("all", "load_best_model_at_end=false", "save_total_limit=null")
    losses = {entry["step"]: entry["eval_loss"] for entry in state(best.work / "all")["log_history"] if "eval_loss" in entry}
    first = max(losses, key=losses.get)
    best.report.check("the loss of this run falls, so the greatest is not the last", code == 0 and first < 8, f"{losses} {errors}")
    for only_model in ("false", "true"):
        code, errors, output = best.train(f"best-{only_model}", f"save_only_model={only_model}")
        folder = best.work / f"best-{only_model}"
        told = state(folder)
        best.report.check(f"the greatest loss is the best (save_only_model: {only_model})",
                          code == 0 and told["best_global_step"] == first and told["best_metric"] == losses[first],
                          f"{told['best_global_step']} {losses} {errors}")
        best.report.check("its checkpoint stays beside the last one",
                          checkpoints(folder) == [f"checkpoint-{first}", "checkpoint-8"]
                          and told["best_model_checkpoint"] == str(folder / f"checkpoint-{first}"), checkpoints(folder))
        best.report.check("its weights are exported, and the output says so",
                          weights(folder) == best.export("all", f"checkpoint-{first}") != weights(best.work / "all")
                          and f"the model of step {first}, which was evaluated best" in output, output[-200:])
    best.train("lowest", "greater_is_better=null")
    told = state(best.work / "lowest")
    best.report.check("without greater_is_better the lowest loss is the best: here the last one",
                      told["best_metric"] == min(losses.values()) and checkpoints(best.work / "lowest") == ["checkpoint-8"]
                      and weights(best.work / "lowest") == weights(best.work / "all"), told["best_metric"])
    best.train("kept", "load_best_model_at_end=false", "metric_for_best_model=eval_loss")
    best.report.check("metric_for_best_model alone keeps the best checkpoint and exports the last model",
                      checkpoints(best.work / "kept") == [f"checkpoint-{first}", "checkpoint-8"]
                      and weights(best.work / "kept") == weights(best.work / "all"), checkpoints(best.work / "kept"))
    return first


def going_on(best, first):
    reference = best.work / "best-false"
    shutil.copytree(best.work / "all", best.work / "gone")
    for name in checkpoints(best.work / "gone"):
        if int(name.split("-")[1]) > 4:
            shutil.rmtree(best.work / "gone" / name)
    shutil.copytree(best.work / "gone", best.work / "on")
    code, errors, _ = best.train("on", "resume_from_checkpoint=auto")
    best.report.check("a run that goes on ends with the same best model", code == 0 and weights(best.work / "on") == weights(reference)
                      and state(best.work / "on")["best_metric"] == state(reference)["best_metric"], errors)
    shutil.rmtree(best.work / "gone" / f"checkpoint-{first}")
    code, errors, _ = best.train("gone", "resume_from_checkpoint=auto")
    told = state(best.work / "gone")
    best.report.check("where the best checkpoint was deleted, the best of the others is taken",
                      code == 0 and told["best_global_step"] != first
                      and weights(best.work / "gone") == best.export("all", f"checkpoint-{told['best_global_step']}"), errors)


def other_settings(best):
    """A best checkpoint at a step that would not be saved with the settings that the run goes on with."""
    lowest = ("greater_is_better=null", "save_steps=4")
    best.train("other", *lowest, "max_steps=6")
    before = state(best.work / "other")
    code, errors, _ = best.train("other", *lowest, "max_steps=8", "learning_rate=5", "resume_from_checkpoint=auto")
    told = state(best.work / "other")
    best.report.check("a run that goes on with other settings keeps the best checkpoint that is there",
                      code == 0 and before["best_global_step"] == told["best_global_step"] == 6
                      and checkpoints(best.work / "other") == ["checkpoint-6", "checkpoint-8"], f"{told['best_global_step']} {errors}")


def foreign_files(best):
    """A table and a picture of the same names that are another program's."""
    folder = best.work / "foreign"
    folder.mkdir()
    for name in "trainer_log.csv", "training_loss.svg":
        (folder / name).write_text("mine")
    code, errors, _ = best.train("foreign", "report_to=none", "plot_loss=false")
    best.report.check("a new run leaves another program's files alone", code == 0 and all(
        (folder / name).read_text() == "mine" for name in ("trainer_log.csv", "training_loss.svg")), errors)


def damaged(best, first):
    """A best checkpoint that rots while the run goes on: the last model is not passed off as the best."""
    best.train("rotten", "max_steps=6")
    folder = best.work / "rotten"
    file = folder / f"checkpoint-{first}" / "group-001.weights"
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(bytes(data))
    before = weights(folder)
    code, errors, _ = best.train("rotten", "resume_from_checkpoint=auto")
    best.report.check("a damaged best checkpoint ends the run with its name, and with the one that holds the last model",
                      code == 4 and "group-001.weights is damaged" in errors and "checkpoint-8" in errors
                      and weights(folder) == before, f"{code} {errors}")


def by_products(best):
    folder = best.work / "products"
    folder.mkdir()
    (folder / "runs").write_text("in the way")
    (folder / "trainer_log.csv").mkdir()
    (folder / "training_loss.svg").mkdir()
    code, errors, _ = best.train("products", "report_to=[csv, tensorboard]", "plot_loss=true")
    best.report.check("by-products that cannot be written cost three warnings and nothing else",
                      code == 0 and errors.count("report_to csv") == 1 and errors.count("report_to tensorboard") == 1
                      and errors.count("plot_loss") == 1 and (folder / "checkpoint-8").is_dir()
                      and (folder / "model.safetensors").is_file(), f"{code} {errors}")


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="lazytrain-best-") as name:
        work = pathlib.Path(name).resolve()
        tiny_run.keep_costs_in(work / "costs")
        best = Best(program, work)
        first = chosen(best)
        going_on(best, first)
        other_settings(best)
        foreign_files(best)
        damaged(best, first)
        by_products(best)
    wrong = best.report.wrong
    print(f"best_model: {'FAIL: ' + ', '.join(wrong) if wrong else 'PASS'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
