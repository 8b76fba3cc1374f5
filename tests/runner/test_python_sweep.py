"""A sweep described in Python: what it trains, leaves and says is what its sweep file does."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_sweeps import SWEEP, plan_of
from shipped import call

from hpometrics import MAXIMIZE, Binary, Choice, Float, Int, Normal, Space, Sweep
from hpometrics.config.document import SweepFileError, read_document
from hpometrics.results.run_directory import RunDirectory

SPACE = {
    "lr": Float(1e-4, 1e-1, log=True),
    "size": Choice({"small": {"depth": 1, "width": 8}, "large": {"depth": 3, "width": 32}}),
}


@pytest.fixture
def toy(folder, monkeypatch):
    """The module of the engines, as a user imports it from the current folder."""
    monkeypatch.syspath_prepend(folder)
    import toy_engine

    return toy_engine


def python_sweep(train, **changes):
    """The sweep of `SWEEP`, in Python."""
    settings = {
        "space": SPACE, "metric": "roc_auc", "track": ["accuracy"], "output": Binary(), "sampler": "random",
        "seed": 3, "trials": 4, "epochs": 3, "name": "sweep",
    }  # fmt: skip
    return Sweep(train, **settings | changes)


def trained(name="sweep"):
    """Params and value of each trial."""
    return [(record.params, record.value) for record in RunDirectory(Path("runs", name)).records()]


def test_a_sweep_in_python_trains_the_trials_of_its_file(toy, sweep, capsys):
    """The file that it writes runs to the same params and values; nothing is printed to stdout."""
    described = python_sweep(toy.train)
    result = described.run()
    printed = capsys.readouterr()
    assert printed.out == "" and len(printed.err.splitlines()) == 5
    assert [(record.params, record.value) for record in result.records] == trained()
    assert sweep(described.to_yaml().replace("name: sweep", "name: file")).exit_code == 0
    assert trained("file") == trained() and len(trained()) == 4
    assert plan_of(described.to_yaml()).to_config()["space"] == plan_of(SWEEP).to_config()["space"]


def test_a_second_run_trains_nothing(toy, sweep, capsys):
    """It reads what there is, as the command does on the same directory; more trials go on."""
    first = python_sweep(toy.train, trials=2).run(progress=False)
    assert capsys.readouterr().err == ""
    before = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*")}
    again = python_sweep(toy.train, trials=2).run()
    assert capsys.readouterr().err.endswith("all 2 trials are done; raise budget.trials for more\n")
    assert again.records == first.records and again.best == first.best
    assert {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*")} == before
    more = python_sweep(toy.train, trials=3).run(progress=False)
    assert (len(more.records), more.records[:2]) == (3, first.records)


@pytest.mark.parametrize("command", ["best", "status", "report", "trials", "replay"])
def test_the_commands_read_its_directory(command, toy):
    """They find the engine in the folder of its module, and no sweep file is needed."""
    python_sweep(toy.train, trials=2, epochs=1).run(progress=False)
    result = call(command, "runs/sweep")
    assert result.exit_code == 0, result.output


def test_a_file_is_run_from_python(toy, sweep, folder):
    """Arguments replace what it says; the rest is as the file has it."""
    (folder / "digits.yaml").write_text(SWEEP)
    described = Sweep.from_file("digits.yaml", trials=2, directory=folder / "there")
    assert [record.number for record in described.run(progress=False).records] == [0, 1]
    assert read_document(folder / "there" / "sweep.yaml").text == SWEEP
    assert "budget: {trials: 2, epochs: 3}" in described.to_yaml()
    assert Sweep.from_file("digits.yaml").directory == Path("runs/digits")


def test_a_check_calls_nothing(toy, sweep, capsys):
    """It prints what `hpometrics check` prints of the file."""
    described = python_sweep(toy.always_fail)
    described.check()
    lines = capsys.readouterr().out.splitlines()
    assert lines[:-1] == sweep(described.to_yaml(), command="check").stdout.splitlines()[:-1]
    assert lines[-1] == "ok: nothing was run. Run it with: run()" and not Path("runs").exists()


WRONG = [
    ({"metric": "acuracy"}, "Sweep(metric=): metrics.optimize: no metric 'acuracy'"),
    ({"trails": 4}, "Sweep(trails=): unknown key 'trails'; did you mean 'trials'?"),
    ({"trials": None, "epochs": None}, "Sweep(): budget is missing"),
    ({"trials": 0}, "Sweep(trials=): budget.trials: must be at least 1, got 0"),
    ({"workers": 2, "backend": {"list": [{"lr": 0.1}]}}, "one point after the other; leave workers out"),
    ({"space": {"lr": [1, 2]}}, "Sweep(space=): space.lr: a list may mean much"),
    ({"space": {"lr": Float(0, 1, when={"no": 1})}}, "Sweep(space=): space.lr.when: "),
    ({"space": {1: Float(0, 1)}}, "Sweep(space=): the key 1 reads as a number"),
    ({"sampler": print}, "Sweep(sampler=): expected text, numbers, true or false"),
    ({"output": "binry"}, "Sweep(output=): engine.output: 'binry' is not"),
    ({"constraints": ["ece < 1"]}, "Sweep(constraints=): metrics.constraints[0]: "),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "text"), WRONG, ids=lambda case: str(case)[:30])
def test_an_error_names_the_argument(changes, text, toy):
    """In the words of the sweep file."""
    with pytest.raises(SweepFileError) as raised:
        python_sweep(toy.train, **changes)
    assert text in str(raised.value)


def test_each_kind_of_dimension_is_written_as_a_file_has_it(toy):
    """A space of each is read back as it was."""
    space = {
        "a": Float(0, 1, step=0.25), "b": Int(1, 64, power=2), "c": Int(2, 8, step=2, when={"d": "x"}),
        "d": Choice(["x", "y", None], weights=[1, 2, 3]), "e": Normal(0.9, 0.02), "f": False,
        "g": {"value": (1, 2)},
    }  # fmt: skip
    written = python_sweep(toy.train, space=space)._plan.space
    assert written == Space({**space, "g": written.dimensions["g"]})
    assert python_sweep(toy.train, space=Space(SPACE))._plan.space == Space(SPACE)


def test_values_of_python_are_written_as_text(toy, folder):
    """Paths, enums, NumPy's numbers."""
    import numpy as np

    cost = {"metric": "cost", "direction": MAXIMIZE}
    described = python_sweep(toy.train, trials=np.int64(2), directory=folder / "d", metric=cost)
    assert described._plan.trials == 2 and described.directory == folder / "d"
    assert "{metric: cost, direction: maximize}" in described.to_yaml()


def test_a_failing_engine_is_raised(toy, capsys):
    """After two trials that failed alike, with the line that raised."""
    with pytest.raises(ValueError, match=r"(?s)failed alike.*toy_engine\.py:\d+.*\n  run\(\) of the Sweep"):
        python_sweep(toy.always_fail).run(progress=False)
    assert capsys.readouterr().out == ""
