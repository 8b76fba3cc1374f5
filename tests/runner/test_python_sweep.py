"""A sweep described in Python: what it trains, leaves and says is what its sweep file does."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections import UserDict, UserList
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
import torch
from sample_sweeps import SWEEP, plan_of
from shipped import call

from hpometrics import MAXIMIZE, Binary, Choice, ConfigError, Float, Int, Normal, Space, Sweep, engine
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


def test_a_logged_value_may_have_the_name_of_several_metrics(folder):
    """`loss` is a metric of each output; an engine without an output logs its own."""

    def train(params, run):
        for epoch in run.epochs():
            run.log(loss=params["lr"] + epoch)

    metric = {"metric": "loss", "direction": "minimize"}
    sweep = Sweep(train, {"lr": Float(0.0, 1.0)}, metric=metric, trials=2, epochs=2, seed=1)
    best = sweep.run().best
    assert best.value == best.params["lr"] and best.epoch == 0


@dataclass
class Data:
    """A part of a config."""

    path: str
    sizes: list[int] = field(default_factory=lambda: [8, 16])


def test_configs_of_other_libraries_are_params_and_a_space(toy):
    """Mappings and lists that are not dicts and lists, as OmegaConf's, and dataclasses."""
    lr = UserDict({"float": UserList([1e-4, 1e-1]), "log": True})
    sweep = python_sweep(toy.train, space=UserDict(lr=lr), params=UserDict(data=Data("/x"), depth=2))
    text = sweep.to_yaml()
    assert plan_of(text).config.engine.params == {"data": {"path": "/x", "sizes": [8, 16]}, "depth": 2}
    assert plan_of(text).space.dimensions["lr"] == SPACE["lr"]
    assert (
        python_sweep(toy.train, params=Data("/x")).to_yaml()
        == python_sweep(toy.train, params={"path": "/x", "sizes": (8, 16)}).to_yaml()
    )


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


def test_its_trials_may_count_steps(toy):
    """By the keys of the budget; its best knows the step, and an engine alone may count them too."""
    best = python_sweep(toy.learn, epochs=None, steps=5, every=2).run(progress=False).best
    assert best.step == min(2 * (best.epoch + 1), 5)
    own = python_sweep(toy.stride, epochs=None, trials=2, name="own").run(progress=False)
    assert [[epoch.step for epoch in record.epochs] for record in own.records] == [[4, 8]] * 2


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
    ({"progress": True}, "Sweep(progress=): unknown key 'progress'; pass it to run(progress=...)"),
    ({"trails": 4}, "Sweep(trails=): unknown key 'trails'; did you mean 'trials'?"),
    ({"trials": None, "epochs": None}, "Sweep(): budget is missing"),
    ({"trials": 0}, "Sweep(trials=): budget.trials: must be at least 1, got 0"),
    ({"workers": 2, "backend": {"list": [{"lr": 0.1}]}}, "one point after another; leave workers out"),
    ({"space": {"lr": [1, 2]}}, "Sweep(space=): space.lr: a bare list is ambiguous"),
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
        "g": {"value": (1, 2)}, "h": None,
    }  # fmt: skip
    written = python_sweep(toy.train, space=space)._plan.space
    assert written == Space({**space, "g": written.dimensions["g"]})
    assert python_sweep(toy.train, space=Space(SPACE))._plan.space == Space(SPACE)


def test_values_of_python_are_written_as_text(toy, folder):
    """Paths, enums, NumPy's numbers."""
    cost = {"metric": "cost", "direction": MAXIMIZE}
    described = python_sweep(toy.train, trials=np.int64(2), directory=folder / "d", metric=cost)
    assert described._plan.trials == 2 and described.directory == folder / "d"
    assert "{metric: cost, direction: maximize}" in described.to_yaml()


def test_a_failing_engine_is_raised(toy, capsys):
    """After two trials that failed with the same error, with the line that raised."""
    with pytest.raises(
        ValueError, match=r"(?s)failed with the same error.*toy_engine\.py:\d+.*\n  run\(\) of the Sweep"
    ):
        python_sweep(toy.always_fail).run(progress=False)
    assert capsys.readouterr().out == ""


CELLS = """\
import torch
from hpometrics import Binary, Float, Sweep, engine

target = torch.arange(64) % 2

@engine(output=Binary())
def fit(params, run):
    for epoch in run.epochs():
        run.update(logits=target + params["lr"] * torch.randn(64), target=target)

settings = dict(metric="roc_auc", trials=3, epochs=1, seed=3, sampler="random")
space = {"lr": Float(0, 3)}
alone = Sweep(fit, space, **settings).run()
print([record.value for record in alone.records] == [
    record.value for record in Sweep(fit, space, **settings, workers=2, name="two").run().records])
print(Sweep(fit, space, **settings))
again = Sweep(fit, space, **settings).run()

@engine(output=Binary())
def fit(params, run):
    run.log(roc_auc=0.5)

changed = Sweep(fit, space, **settings).run()
"""


def test_cells_of_a_notebook_are_a_sweep(folder):
    """What a REPL defines, whose source is lost, trains here and in a worker; a changed function is seen."""
    ran = subprocess.run(
        [sys.executable, "-i", "-q"], input=CELLS, capture_output=True, text=True, timeout=300, check=True
    )
    assert ran.stdout.splitlines() == ["True", "Sweep('fit', in runs/fit)"], ran.stderr
    assert ran.stderr.count("all 3 trials are done; raise budget.trials for more") == 2
    assert (
        ran.stderr.count(
            "__main__:fit: the engine has changed since the recorded trials; new trials join them"
        )
        == 1
    )


def closure(note):
    """An engine that notes in which process it runs, and waits for another one."""
    pids = Path("pids").absolute()

    @engine(output=Binary())
    def trains(params, run):
        with pids.open("a") as file:
            file.write(f"{os.getpid()}\n")
        while len(set(pids.read_text().split())) < note:
            time.sleep(0.01)
        run.update(logits=torch.tensor([params["lr"], 0.0]), target=torch.tensor([1, 0]))

    return trains


def test_a_closure_trains_in_several_processes(folder):
    """Hired workers receive it with what it refers to; other commands say why they cannot train it."""
    settings = {"metric": "roc_auc", "trials": 3, "epochs": 1}
    described = Sweep(closure(2), {"lr": Float(0, 1)}, **settings, workers=2)
    result = described.run(progress=False)
    assert described.directory == Path("runs/trains") and len(result.records) == 3
    assert os.getpid() in map(int, Path("pids").read_text().split())
    for command in ("replay", "confirm", "worker"):
        refused = call(command, described.directory)
        assert refused.exit_code == 2
        assert "__main__:trains was defined in a notebook, a script or another function" in refused.stderr
    with pytest.raises(ConfigError, match="move it to a module and import it from there"):
        described.to_yaml()


@pytest.mark.ray
def test_a_closure_trains_on_ray(folder, ray_cluster):
    """Ray sends it to its workers by itself; the session of the caller stays."""
    import ray

    backend = {"ray": {"address": ray_cluster, "workers": 1}}
    settings = {"metric": "roc_auc", "trials": 2, "epochs": 1, "backend": backend}
    assert len(Sweep(closure(1), {"lr": Float(0, 1)}, **settings).run(progress=False).records) == 2
    assert ray.get_runtime_context().gcs_address == ray_cluster


def test_what_cannot_be_sent_to_a_worker_is_said(folder):
    """In this process it trains, and is confirmed."""
    lock = threading.Lock()

    def hold(params, run):
        with lock:
            run.log(cost=params["x"])

    settings = {"metric": {"metric": "cost", "direction": "minimize"}, "trials": 2, "epochs": 1}
    confirm = {"top": 2, "repeats": 3}
    assert Sweep(hold, {"x": Float(0, 1)}, **settings, confirm=confirm).run(progress=False).confirmation
    with pytest.raises(ConfigError, match=r"leave workers out; .* cannot pickle '_thread"):
        Sweep(hold, {"x": Float(0, 1)}, **settings, name="two", workers=2).run(progress=False)


@pytest.mark.parametrize("train", [3, lambda: None])
def test_an_engine_that_cannot_train_is_refused(train, folder):
    """Before anything is written."""
    with pytest.raises(ConfigError, match=r"expected a function train\(params, run\)"):
        Sweep(train, {"x": Float(0, 1)}, metric="accuracy", trials=1, epochs=1).run()
    assert not Path("runs").exists()


def test_an_interrupted_run_goes_on(folder, capsys):
    """Ctrl-C is raised as ever; the next call trains the rest, and a fresh one all of them."""
    calls = []

    def stumble(params, run):
        run.log(cost=params["x"])
        calls.append(params)
        if len(calls) == 2:
            raise KeyboardInterrupt

    metric = {"metric": "cost", "direction": "minimize"}
    described = Sweep(stumble, {"x": Float(0, 1)}, metric=metric, trials=3, epochs=1)
    with pytest.raises(KeyboardInterrupt):
        described.run()
    assert capsys.readouterr().err.endswith(
        "interrupted: 1 of 3 trials are done. Resume with:\n  run() of the Sweep\n"
    )
    Path("again").touch()
    assert [record.state.value for record in described.run().trials] == ["complete"] * 3
    described.run(fresh=True)
    assert len(list(Path("runs").glob("stumble*"))) == 2


def test_python_and_the_command_go_on_with_one_sweep(toy, sweep, capsys):
    """What the command has finished is finished for Python."""
    assert sweep(SWEEP).exit_code == 0
    assert len(Sweep.from_file("sweep.yaml").run().trials) == 4
    assert capsys.readouterr().err.endswith("all 4 trials are done; raise budget.trials for more\n")
