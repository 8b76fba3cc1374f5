"""What the light commands load: a user who asks for help does not wait for torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from forked import program
from matrix import EXHAUSTIVE

from hpometrics import loggers
from hpometrics.records.trial_record import TrialRecord, write_trial

CONFIG = Path(__file__).parents[2] / "configs" / "quickstart.yaml"
CONFIGS = sorted(CONFIG.parent.glob("*.yaml"))
RESULTS = {
    "hpometrics.metrics.registry.register",
    "hpometrics.records.epoch_log",
    "hpometrics.records.recovery",
    "hpometrics.records.trial_record",
    "hpometrics.selection.selection",
    "hpometrics.results.run_directory",
    "hpometrics.results.manifest",
    "hpometrics.results.leaderboard",
}
LOGGERS = {
    f"hpometrics.loggers.{path.stem}"
    for path in Path(loggers.__path__[0]).glob("*.py")
    if path.stem not in ("__init__", "registry")
}
HEAVY = {"torch", "ray", "torchmetrics", "numpy", "pandas", "rich", "filelock"}
PROBE = """
import json, sys
from hpometrics.cli.main import main
try:
    for arguments in json.loads(sys.argv[1]):
        main(arguments, standalone_mode=False)
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


BUILT = """
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
from hpometrics.cli.main import main
looked = []
gc.callbacks.append(lambda phase, info: looked.append("hpometrics.config.plan" in sys.modules))
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
    return modules_of([arguments])


def modules_of(commands: Iterable[Iterable[str]]) -> set[str]:
    """The modules that several have loaded, one after another in one process."""
    ran = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps([*commands])],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return set(json.loads(ran.stderr.splitlines()[-1]))


def loaded(*arguments: str) -> set[str]:
    """The packages that a command has loaded."""
    return packages(modules(*arguments))


def packages(names: Iterable[str]) -> set[str]:
    """The packages that modules belong to."""
    return {name.partition(".")[0] for name in names}


def commands_that_load(
    unwanted: set[str], commands: Sequence[tuple[str, ...]]
) -> dict[tuple[str, ...], set[str]]:
    """The unwanted packages of each command that loads one; a process of all of them loads what any does."""
    if not unwanted & packages(modules_of(commands)):
        return {}
    alone = {command: unwanted & loaded(*command) for command in commands}
    return {command: names for command, names in alone.items() if names} or {("together",): unwanted}


def test_the_package_itself_loads_none_of_its_hosts():
    """Its names are loaded when they are used."""
    code = "import hpometrics, sys; print({'torch', 'optuna', 'ray', 'yaml', 'click'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


def test_an_objective_does_not_load_sqlalchemy():
    """It takes longer to load than this package; only a study in a database needs it."""
    code = "import sys; from hpometrics import OptunaObjective; print({'sqlalchemy'} & {*sys.modules})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "set()\n"


LIGHT = [
    ("--help",),
    ("--version",),
    ("run", "--help"),
    ("eval", "--help"),
    ("replay", "--help"),
    ("verify", "--help"),
    ("compare", "--help"),
    ("epochs", "--help"),
    ("check", str(CONFIG)),
    ("metrics", "list"),
    ("metrics", "show", "f1"),
    ("schema",),
    ("report", "--help"),
    ("worker", "--help"),
    ("dashboard", "--help"),
]


def test_light_commands_load_neither_torch_nor_a_host():
    """The registry's index and the model of the file are enough."""
    assert commands_that_load({*HEAVY, "optuna"}, LIGHT) == {}


@pytest.fixture(scope="module")
def checked(tmp_path_factory) -> tuple[set[str], list[Any]]:
    """The modules that checks of all shipped files have loaded where nothing has run, and their models.

    All but those whose scheduler has options, which only Ray knows.
    """
    plain = [path for path in CONFIGS if path.stem not in ("quickstart_pbt", "quickstart_pb2")]
    checks = json.dumps([["check", str(path)] for path in plain])
    command, folder = [sys.executable, "-c", PROBE + BUILT, checks], tmp_path_factory.mktemp("empty")
    ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)
    seen, models = map(json.loads, ran.stderr.splitlines()[-2:])
    return set(seen), models


def test_a_check_builds_one_model_and_reads_no_descriptions(checked):
    """Its validator has those of all sections in it; what editors show is read when the schema is printed."""
    built, described, known = checked[1]
    assert (built, described) == (["Sweep"], [])
    assert known > 15  # the sections were among those that were looked at


def test_a_check_loads_neither_records_nor_what_writes_them(checked):
    """Where nothing has run; of loggers, reports and tuners it is enough to know that they are there."""
    seen, _ = checked
    assert {"hpometrics.config.plan", "hpometrics.metrics.registry.lookup"} <= seen  # it did check the file
    assert not seen & RESULTS
    assert "hpometrics.loggers.wandb" in LOGGERS and not seen & LOGGERS


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
    assert "hpometrics.records.trial_record" in modules("check", str(CONFIG))


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
    path.write_text(CONFIG.read_text() + "backend: ray\n")  # its schedulers have no `warmup`
    path.write_text(path.read_text().replace("pruner: median", "pruner: {asha: {eta: 3}}"))
    assert "torch" not in loaded("check", str(path))


def test_a_sample_is_drawn_without_torch():
    """Optuna draws it; no engine is there to be imported."""
    assert not loaded("check", str(CONFIG), "--sample", "2") & {"torch", "ray"}


def test_a_wrong_file_is_refused_before_anything_is_loaded(tmp_path):
    """`run` loads torch once the file is right."""
    path = tmp_path / "sweep.yaml"
    path.write_text("engine: a:b\nbugdet: 3\n")
    assert not loaded("run", str(path)) & {*HEAVY, "optuna"}


READERS = [("best",), ("epochs", "0"), ("status",), ("status", "--json"), ("trials",)]


def test_readers_of_results_load_neither_torch_nor_a_host(tmp_path):
    """They read the record; the model of the file is not needed either."""
    (tmp_path / "sweep.resolved.yaml").write_text("name: x\n")
    write_trial(tmp_path / "trials" / "0000", TrialRecord(0, {}))
    commands = [(name, str(tmp_path), *options) for name, *options in READERS]
    assert commands_that_load({*HEAVY, "optuna", "pydantic"}, commands) == {}


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


@pytest.fixture(scope="module", params=["forked", pytest.param("fresh", marks=EXHAUSTIVE)])
def finished(request, tmp_path_factory) -> tuple[Path, set[str]]:
    """A folder with a sweep that has run, and the modules of the process that it ran in.

    One that is forked had most of them before, but none of the engine's.
    """
    folder = tmp_path_factory.mktemp("finished")
    (folder / "plain_engine.py").write_text(ENGINE)
    (folder / "sweep.yaml").write_text(SWEEP)
    (folder / "probe.py").write_text(PROBE)
    command = json.dumps([["run", "sweep.yaml"]])
    if request.param == "forked":
        ran = program(folder / "probe.py", command, folder=folder).result()
    else:
        fresh = [sys.executable, "probe.py", command]
        ran = subprocess.run(fresh, cwd=folder, capture_output=True, text=True, timeout=300)
    return folder, set(json.loads(ran.stderr.splitlines()[-1]))


def test_a_sweep_of_a_function_loads_no_evaluation_of_engine_params(finished):
    """Engines of stages alone are evaluated."""
    _, seen = finished
    assert {"hpometrics.runner.imported_engine", "plain_engine"} <= seen
    assert {"optuna", "torch"} <= packages(seen)
    assert not {
        name for name in seen if name.startswith(("hpometrics.engines", "hpometrics.runner.staged_engine"))
    }


def test_a_second_run_of_a_finished_sweep_loads_no_more_than_readers_do(finished, monkeypatch):
    """Neither the engine nor a host, not even to check the options of a pruner; the first run loads them."""
    folder, _ = finished
    monkeypatch.chdir(folder)
    seen = modules("run", "sweep.yaml")
    assert "hpometrics.results.stamp" in seen
    assert not packages(seen) & {*HEAVY, "optuna", "pydantic", "plain_engine"}
    assert not {name for name in seen if name.startswith(("hpometrics.engines", "hpometrics.run."))}


def test_a_trial_is_added_without_torch(finished, monkeypatch):
    """The sampler goes on while the command starts; it loads Optuna to write to the study."""
    folder, _ = finished
    monkeypatch.chdir(folder)
    seen = loaded("add", "runs/sweep", "lr=0.5")  # all its trials have begun, as the study says
    assert "optuna" in seen and not seen & (HEAVY - {"numpy", "filelock"})  # Optuna itself loads numpy


@EXHAUSTIVE
def test_a_run_loads_a_host_where_the_stamp_is_missing(finished, monkeypatch):
    """What a second run does not load is left out because of the stamp alone."""
    folder, _ = finished
    monkeypatch.chdir(folder)
    (folder / "runs" / "sweep" / ".finished").unlink()
    assert "optuna" in loaded("run", "sweep.yaml")
