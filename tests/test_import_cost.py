"""What the light commands load: a user who asks for help does not wait for torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpometrics.search.record import TrialRecord, write_trial

CONFIG = Path(__file__).parent.parent / "configs" / "quickstart.yaml"
RESULTS = {
    "hpometrics.metrics.docstring",
    "hpometrics.metrics.registry",
    "hpometrics.search.epoch_log",
    "hpometrics.search.picking",
    "hpometrics.search.plugins",
    "hpometrics.search.record",
    "hpometrics.search.selection",
    "hpometrics.sweep.directory",
    "hpometrics.sweep.resolved",
    "hpometrics.sweep.table",
    "hpometrics.sweep.writer",
}
TOLD = {f"hpometrics.logs.{name}" for name in ("csv_table", "mlflow", "table", "tensorboard", "wandb")}
HEAVY = {"torch", "ray", "torchmetrics", "numpy", "pandas", "rich", "filelock"}
PROBE = """
import json, sys
from hpometrics.cli import main
try:
    main(json.loads(sys.argv[1]), standalone_mode=False)
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


BUILT = """
import json, sys
from hpometrics.cli import main
main(["check", sys.argv[1]], standalone_mode=False)
from pydantic import BaseModel
def all_of(cls):
    for child in cls.__subclasses__():
        yield child
        yield from all_of(child)
ours = {cls for cls in all_of(BaseModel) if cls.__module__.startswith("hpometrics.")}
built = sorted(cls.__name__ for cls in ours if cls.__pydantic_complete__)
described = [cls.__name__ for cls in ours for field in cls.model_fields.values() if field.description]
print(json.dumps([built, described, len(ours)]), file=sys.stderr)
"""


COLLECTIONS = """
import atexit, gc, json, sys
from hpometrics.cli import main
looked = []
gc.callbacks.append(lambda phase, info: looked.append("hpometrics.sweep.plan" in sys.modules))
atexit.register(lambda: print(gc.get_freeze_count() > 0, file=sys.stderr))  # after those of the command
main(json.loads(sys.argv[1]), standalone_mode=False)
print(json.dumps([looked.count(True), gc.isenabled()]), file=sys.stderr)
"""


WATCHING = """
class plugin:
    new_schema_validator = staticmethod(lambda *schema: (None, None, None))
"""


def modules(*arguments: str) -> set[str]:
    """The modules that a command has loaded at its end, in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(arguments)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return set(json.loads(ran.stderr.splitlines()[-1]))


def loaded(*arguments: str) -> set[str]:
    """The packages that a command has loaded."""
    return {name.partition(".")[0] for name in modules(*arguments)}


def test_the_package_itself_loads_none_of_its_hosts():
    """Its names are loaded when they are used."""
    code = "import hpometrics, sys; print({'torch', 'optuna', 'ray', 'yaml', 'click'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--help",),
        ("--version",),
        ("run", "--help"),
        ("eval", "--help"),
        ("replay", "--help"),
        ("compare", "--help"),
        ("epochs", "--help"),
        ("check", str(CONFIG)),
        ("metrics", "list"),
        ("metrics", "show", "f1"),
        ("schema",),
        ("report", "--help"),
        ("worker", "--help"),
        ("dashboard", "--help"),
    ],
    ids=" ".join,
)
def test_light_commands_load_neither_torch_nor_a_host(arguments):
    """The registry's index and the model of the file are enough."""
    assert not loaded(*arguments) & {*HEAVY, "optuna"}


@pytest.mark.parametrize("config", sorted(CONFIG.parent.glob("*.yaml")), ids=lambda path: path.name)
def test_a_check_builds_one_model_and_reads_no_descriptions(config):
    """Its validator has those of all sections in it; what editors show is read when the schema is printed."""
    ran = subprocess.run(
        [sys.executable, "-c", BUILT, str(config)], capture_output=True, text=True, timeout=100
    )
    built, described, known = json.loads(ran.stderr.splitlines()[-1])
    assert (built, described) == (["Sweep"], [])
    assert known > 15  # the sections were among those that were looked at


@pytest.mark.parametrize("config", sorted(CONFIG.parent.glob("*.yaml")), ids=lambda path: path.name)
def test_a_check_loads_neither_records_nor_what_writes_them(config, tmp_path, monkeypatch):
    """Where nothing has run; of loggers, reports and tuners it is enough to know that they are there."""
    monkeypatch.chdir(tmp_path)
    seen = modules("check", str(config))
    assert {"hpometrics.sweep.plan", "hpometrics.metrics.lookup"} <= seen  # it did check the file
    assert not seen & RESULTS
    assert not {name for name in seen if name.startswith("hpometrics.logs.")} & TOLD


@pytest.mark.parametrize("command", [("check",), ("run", "--dry-run")], ids=" ".join)
def test_a_check_looks_for_no_garbage(command):
    """Neither while it checks the file nor when the process ends: all that it has made stays until then."""
    arguments = json.dumps([*command, str(CONFIG)])
    ran = subprocess.run(
        [sys.executable, "-c", COLLECTIONS, arguments], capture_output=True, text=True, timeout=100
    )
    *_, told, frozen = ran.stderr.splitlines()
    looked, collects = json.loads(told)
    assert looked <= 2  # the beginning and the end of the one that was put off
    assert (collects, frozen) == (True, "True")


def test_a_check_looks_for_no_plugins_of_pydantic(tmp_path, monkeypatch):
    """They watch the models of services, and may load much; the engine's own models keep theirs."""
    facts = tmp_path / "watching-1.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: watching\nVersion: 1\n")
    (facts / "entry_points.txt").write_text("[pydantic]\nwatching = watching:plugin\n")
    (tmp_path / "watching.py").write_text(WATCHING)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    assert "watching" not in modules("check", str(CONFIG))
    code = "import sys, pydantic; pydantic.TypeAdapter(int); print('watching' in sys.modules)"
    engine = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=100)
    assert engine.stdout == "True\n"  # it would have been found


def test_a_check_of_a_sweep_that_ran_counts_its_trials(tmp_path, monkeypatch):
    """Then it does read the record."""
    monkeypatch.chdir(tmp_path)
    write_trial(tmp_path / "runs" / "quickstart" / "trials" / "0000", TrialRecord(0, {}))
    assert "hpometrics.search.record" in modules("check", str(CONFIG))


def test_a_first_sweep_is_laid_down_without_torch_or_a_host(tmp_path):
    """`init` copies two files, and prints the schema from the model of the file; the index knows metrics."""
    options = ("--metric", "f1", "--backend", "ray")
    assert not loaded("init", str(tmp_path / "digits"), *options) & {*HEAVY, "optuna"}


def test_what_is_no_run_directory_is_refused_before_a_host_is_loaded(tmp_path):
    """`dashboard` loads Optuna's once there is a sweep to show."""
    assert not loaded("dashboard", str(tmp_path)) & {"torch", "ray", "optuna"}


def test_options_are_checked_by_their_host(tmp_path):
    """Optuna alone is loaded, where a sampler or pruner has options."""
    path = tmp_path / "sweep.yaml"
    path.write_text(CONFIG.read_text().replace("pruner: median", "pruner: {median: {warmup: 3}}"))
    assert not loaded("check", str(path)) & {"torch", "ray"}


def test_a_sample_is_drawn_without_torch():
    """Optuna draws it; no engine is there to be imported."""
    assert not loaded("check", str(CONFIG), "--sample", "2") & {"torch", "ray"}


def test_a_wrong_file_is_refused_before_anything_is_loaded(tmp_path):
    """`run` loads torch once the file is right."""
    path = tmp_path / "sweep.yaml"
    path.write_text("engine: a:b\nbugdet: 3\n")
    assert not loaded("run", str(path)) & {*HEAVY, "optuna"}


@pytest.mark.parametrize(
    "command",
    [("best",), ("epochs", "0"), ("status",), ("status", "--json"), ("trials",)],
    ids=" ".join,
)
def test_readers_of_results_load_neither_torch_nor_a_host(tmp_path, command):
    """They read the record; the model of the file is not needed either."""
    name, *numbers = command
    (tmp_path / "sweep.resolved.yaml").write_text("name: x\n")
    write_trial(tmp_path / "trials" / "0000", TrialRecord(0, {}))
    assert not loaded(name, str(tmp_path), *numbers) & {*HEAVY, "optuna", "pydantic"}


ENGINE = """\
def train(params, run):
    for _ in run.epochs():
        run.log(gap=params["lr"])
"""
SWEEP = """\
engine: plain_engine:train
space: {lr: {float: [0.0, 1.0]}}
metrics: {optimize: {metric: gap, direction: minimize}}
search: {sampler: random, pruner: {median: {warmup: 1}}}
budget: {trials: 2, epochs: 2}
"""


@pytest.fixture
def finished(tmp_path, monkeypatch) -> set[str]:
    """The modules of the run that has finished a sweep in the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain_engine.py").write_text(ENGINE)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    return modules("run", "sweep.yaml")


def test_a_sweep_of_a_function_loads_no_evaluation_of_engine_params(finished):
    """Engines of stages alone are evaluated."""
    assert "hpometrics.sweep.engine" in finished
    assert not {
        name for name in finished if name.startswith(("hpometrics.evaluation", "hpometrics.sweep.staged"))
    }


def test_a_second_run_of_a_finished_sweep_loads_no_more_than_readers_do(finished, tmp_path):
    """Neither the engine nor a host, not even to check the options of a pruner; the first run loads them."""
    heavy = {*HEAVY, "optuna", "pydantic", "plain_engine"}
    assert {"optuna", "torch", "plain_engine"} <= {name.partition(".")[0] for name in finished}
    seen = modules("run", "sweep.yaml")
    assert "hpometrics.sweep.stamp" in seen
    assert not {name.partition(".")[0] for name in seen} & heavy
    assert not {name for name in seen if name.startswith(("hpometrics.evaluation", "hpometrics.run."))}
    (tmp_path / "runs" / "sweep" / ".finished").unlink()
    assert "optuna" in loaded("run", "sweep.yaml")
