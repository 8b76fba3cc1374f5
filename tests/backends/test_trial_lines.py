"""Lines of the trials of an objective, on every backend the same."""

from __future__ import annotations

import logging
import re

import optuna
import pytest

from hpometrics import Choice, Float, ListObjective, OptunaObjective, RayObjective
from hpometrics.backends.trial_lines import TrialLines, short_params
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState
from hpometrics.run.metric_spec import Reported

FACTS = {"metric": Reported("loss", MINIMIZE), "track": [Reported("cost", MAXIMIZE)], "epochs": 2}
POINTS = [{"x": x, "kind": kind} for x, kind in ((0.5, "a"), (0.25, "b"), (0.75, "a"), (-1.0, "b"))]
LINES = """\
 #0    ok          * loss  0.500000  cost   2.50000  2 ep  x=0.5 kind=a
 #1    ok          * loss  0.250000  cost   1.25000  2 ep  x=0.25 kind=b
 #2    ok            loss  0.750000  cost   3.75000  2 ep  x=0.75 kind=a
 #3    failed        ValueError: x is below 0  1 ep  x=-1 kind=b
"""


def make_train():
    """An engine that reaches the value of x in its first epoch; a worker gets it as a value."""

    def train(params, run):
        for epoch in run.epochs():
            if epoch and params["x"] < 0:
                raise ValueError("x is below 0")
            run.log(loss=abs(params["x"]) + epoch, cost=5 * params["x"])

    return train


def lines_of(stderr: str) -> str:
    """The lines of trials without their times."""
    return "".join(
        re.sub(r" (ep|steps)  \S+s  ", r" \1  ", line) + "\n"
        for line in stderr.splitlines()
        if line.startswith(" #")
    )


def on_a_list() -> None:
    """Train the points."""
    ListObjective(make_train(), POINTS, **FACTS).run(progress=True)


def on_optuna() -> None:
    """Search the points in two calls, of which the second knows the best of the first."""
    objective = OptunaObjective(make_train(), {"x": Float(-1, 1), "kind": Choice(["a", "b"])}, **FACTS)
    study = objective.create_study()
    for point in POINTS:
        study.enqueue_trial(point)
    for total in (2, 4):
        objective.optimize(study, total, progress=True, catch=(ValueError,))


def on_ray() -> None:
    """Search the points one after another."""
    objective = RayObjective(make_train(), {"x": Float(-1, 1), "kind": Choice(["a", "b"])}, **FACTS)
    objective.tuner(4, points=POINTS, max_concurrent=1, progress=True).fit()


@pytest.mark.parametrize("search", [on_a_list, on_optuna], ids=["list", "optuna"])
def test_each_trial_has_a_line(search, capfd):
    """With the value that a search counts, what is tracked beside it, and the params."""
    search()
    assert lines_of(capfd.readouterr().err) == LINES


@pytest.mark.ray
def test_each_trial_of_a_tuner_has_a_line(ray_cluster, capfd):
    """In the process of the Tuner, as its trials end."""
    on_ray()
    assert lines_of(capfd.readouterr().err) == LINES


def test_optuna_logs_its_own_lines_without_progress(capfd):
    """And none beside ours."""
    logged: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: logged.append(record.getMessage())
    optuna.logging.set_verbosity(optuna.logging.INFO)
    logging.getLogger("optuna").addHandler(handler)
    objective = OptunaObjective(make_train(), {"x": Float(0, 1)}, **{**FACTS, "track": []})
    study = objective.create_study()
    objective.optimize(study, 1)
    objective.optimize(study, 2, progress=True)
    logging.getLogger("optuna").removeHandler(handler)
    assert [line.partition(" finished")[0] for line in logged if "finished" in line] == ["Trial 0"]
    assert len(re.findall("^ #1    ok ", capfd.readouterr().err, re.MULTILINE)) == 1
    assert optuna.logging.get_verbosity() == optuna.logging.INFO


def test_several_objectives_mark_their_front():
    """A trial that another one dominates has no mark."""
    lines = TrialLines({"loss": MINIMIZE, "size": MINIMIZE}, {"size": MINIMIZE})
    marks = []
    for number, (loss, size) in enumerate([(0.5, 2.0), (0.25, 4.0), (0.5, 3.0)]):
        epochs = (EpochRecord(0, {"loss": loss, "size": size}),)
        record = TrialRecord(number, {}, TrialState.COMPLETE, value=loss, epoch=0, epochs=epochs)
        marks.append(lines.add(record))
    assert marks == [True, True, False]
    assert [record.number for record in lines.front] == [1, 0]


def test_params_are_short_and_hide_secrets():
    """Numbers rounded; what is no text is JSON."""
    params = {"lr": 0.0123456, "key": {"secret": "HUB_TOKEN"}, "layers": [64, 32], "on": True, "name": "a\nb"}
    assert short_params(params) == 'lr=0.0123 key="***" layers=[64, 32] on=true name=a\\nb'
