"""Bad machine files, templates and caches: what bad_models.py and bad_runs.py have no table for."""

import json

from bad_case import Case

MACHINE = {"name": "small", "tiers": "tiered", "device_capacity": 1 << 30, "host_capacity": 4 << 30, "disk_capacity": 0,
           "tflops": 1, "device_memory_gbps": 50, "h2d_gbps": 10, "d2h_gbps": 10, "duplex_gbps": 0, "disk_read_gbps": 0,
           "disk_write_gbps": 0, "disk_duplex_gbps": 0, "host_memory_gbps": 0, "optimizer_parameters_per_s": 0,
           "compute_threads": 2, "host_threads": 2}


# ---- planning for a machine that is not there ----

def planned_for(content, *more, tokens="128", batch="4"):
    """plan --model --machine with this machine file, or with MACHINE and changes (None leaves a key out)."""
    def prepare(work):
        path = work.folder / "machine.json"
        text = content
        if isinstance(content, dict):
            text = json.dumps({key: value for key, value in {**MACHINE, **content}.items() if value is not None})
        path.write_text(text)
        return ["plan", "--model", work.model, "--machine", path, "--batch", batch, "--tokens", tokens, *more]
    return prepare


def words(*arguments):
    return lambda work: ["plan", *(str(word).format(model=work.model) for word in arguments)]


MACHINES = [
    Case("no such file", 2, "nowhere.json", words("--model", "{model}", "--machine", "nowhere.json", "--batch", 4, "--tokens", 128)),
    Case("empty", 2, "machine.json", planned_for("")),
    Case("not JSON", 2, "machine.json:1:", planned_for("{rates}")),
    Case("a list", 2, "machine.json", planned_for("[]")),
    Case("no capacity", 2, "'device_capacity' is missing", planned_for({"device_capacity": None})),
    Case("capacity of text", 2, "device_capacity", planned_for({"device_capacity": "much"})),
    Case("a key that is not known", 2, "'pinned_capacty' is not known", planned_for({"pinned_capacty": 1})),
    Case("a rate of next to nothing", 2, "'h2d_gbps' is 1e-09; give at least", planned_for({"h2d_gbps": 1e-9})),
    Case("capacity below zero", 2, "must lie between", planned_for({"device_capacity": -1})),
    Case("rate below zero", 2, "'h2d_gbps' is -1", planned_for({"h2d_gbps": -1})),
    Case("link without a rate", 2, "'h2d_gbps'", planned_for({"h2d_gbps": 0})),
    Case("no matrix products", 2, "'tflops'", planned_for({"tflops": 0})),
    Case("unknown tiers", 2, "use unified or tiered", planned_for({"tiers": "three"})),
    Case("truth value is text", 2, "must be true or false", planned_for({"emulated": "no"})),
    Case("more positions than the model has", 2, "positions of the model", planned_for({}, tokens="4096")),
    Case("model without a machine", 2, "--machine", words("--model", "{model}", "--batch", 4, "--tokens", 128)),
    Case("batch of text", 2, "--batch", planned_for({}, batch="four")),
    Case("a device too small", 5, "", planned_for({"device_capacity": 100_000})),
]


# ---- chat templates ----

def template(source, **changes):
    def prepare(work):
        work.edit(work.model / "tokenizer_config.json", chat_template=None)
        path = work.model / "chat_template.jinja"
        if isinstance(source, bytes):
            path.write_bytes(source)
        else:
            path.write_text(source)
        return work.train(template="model", **changes)
    return prepare


def no_template(work):
    work.edit(work.model / "tokenizer_config.json", chat_template=None)
    return work.train(template="model")


def template_of_number(work):
    work.edit(work.model / "tokenizer_config.json", chat_template=7)
    return work.train(template="model")


FOR = "{% for m in messages %}"
TEMPLATES = [
    Case("none in the folder", 2, "template", no_template),
    Case("a number", 4, "tokenizer_config.json", template_of_number),
    Case("a block left open", 4, "chat_template.jinja:1:", template(FOR + "{{ m.content }}")),
    Case("a bracket left open", 4, "chat_template.jinja:1:", template(FOR + "{{ m.content }{% endfor %}")),
    Case("unknown filter", 4, "chat_template.jinja", template(FOR + "{{ m.content | shout }}{% endfor %}")),
    Case("include", 4, "chat_template.jinja", template("{% include 'other.jinja' %}")),
    Case("not UTF-8", 4, "chat_template.jinja", template(b"{% for m in messages %}\xff{% endfor %}")),
    Case("without end", 4, "chat_template.jinja",
         template("{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}x{% endfor %}{% endfor %}{% endfor %}")),
    Case("text without end", 4, "chat_template.jinja",
         template("{% set n = namespace(t='aaaaaaaa') %}{% for i in range(90) %}{% set n.t = n.t ~ n.t %}{% endfor %}{{ n.t }}")),
    Case("one that refuses the data", 3, "", template("{{ raise_exception('only tools') }}")),
]


# ---- what the program keeps in its own places ----

def costs_of(content):
    def prepare(work):
        (work.folder / "costs.json").write_text(content)
        return work.train(calibration=work.folder / "costs.json")
    return prepare


def scratch_below_file(work):
    (work.folder / "taken").write_text("a file")
    return work.train(memory_model="emulated", device_memory="6MB", optim="adamw_8bit", states_home="disk",
                      scratch_dir=work.folder / "taken" / "deeper")


def checkpoint_as_model(work):
    """A checkpoint's folder where a model's belongs, without its config.json."""
    return work.train(model_name_or_path=work.done / "checkpoint-2")


def foreign_checkpoint(work):
    (work.out / "checkpoint-7").mkdir(parents=True)
    (work.out / "checkpoint-7" / "pytorch_model.bin").write_text("another program's")
    return work.train()


def lock_is_link(work):
    work.out.mkdir()
    (work.out / ".lazytrain.lock").symlink_to(work.yaml)
    return work.train()


PLACES = [
    Case("costs are empty", 2, "costs.json", costs_of("")),
    Case("costs of nothing", 2, "costs.json", costs_of("{}")),
    Case("costs are no object", 2, "costs.json", costs_of("[1]")),
    Case("scratch_dir below a file", 6, "choose another folder", scratch_below_file),
    Case("another program's checkpoint in output_dir", 2, "checkpoint-7", foreign_checkpoint),
    Case("the lock is a link", 2, ".lazytrain.lock", lock_is_link),
    Case("a checkpoint as the model", 4, "checkpoint-2", checkpoint_as_model),
]

TABLES = {"machine file": MACHINES, "chat template": TEMPLATES, "the program's own places": PLACES}
