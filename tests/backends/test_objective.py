"""Objectives in a notebook and on several ranks, and the arguments that they refuse."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from ranks import on_ranks

from hpometrics import Choice, Float, ListObjective, OptunaObjective, RayObjective, Reported
from hpometrics.exceptions import HpometricsError, RunError


@pytest.mark.parametrize("kind", [OptunaObjective, RayObjective])
def test_an_objective_is_a_table_in_a_notebook(kind):
    """The metric with its direction, and the space; a text of it is no markup."""
    space = {"x": Float(0, 1, log=False), "k": Choice(["<a>", "b"])}
    made = kind(lambda params, run: None, space, metric=Reported("cost", "minimize"))
    assert made._repr_html_() == (
        "<table><caption>minimize cost</caption><tr><th>param</th><th>kind</th><th></th></tr>"
        "<tr><td>x</td><td>float</td><td>low 0.0, high 1.0</td></tr>"
        "<tr><td>k</td><td>choice</td><td>options (&#x27;&lt;a&gt;&#x27;, &#x27;b&#x27;)</td></tr></table>"
    )


@pytest.mark.parametrize(
    ("kind", "method"), [(OptunaObjective, "optimize"), (RayObjective, "tuner"), (ListObjective, "run")]
)
def test_an_unknown_argument_is_refused_by_name(kind, method):
    """The class that the user called is named; `progress` belongs to the method that searches."""

    def refused(**wrong: object) -> str:
        with pytest.raises(TypeError) as caught:
            kind(lambda params, run: None, {}, metric=Reported("cost", "minimize"), **wrong)
        return str(caught.value)

    name = kind.__name__
    assert refused(progress=True) == f"{name} has no argument 'progress'; pass it to {method}(progress=...)"
    assert refused(patients=3) == f"{name} has no argument 'patients'; did you mean 'patience'?"


def test_a_notebook_prints_short_lines():
    """Of an objective, a run and the best trial: what is optimized, how far it is, and the params."""

    def train(params, run):
        shown.append(repr(run))
        for _ in run.epochs(2):
            run.log(loss=params["lr"])
        shown.append(repr(run))

    shown = []
    objective = ListObjective(train, [{"lr": 0.5}, {"lr": 0.25}], metric=Reported("loss", "minimize"))
    assert repr(objective) == "ListObjective(minimize loss, over a list)"
    best = objective.best(objective.run())
    assert repr(best) == str(best) == "Best(trial 1, epoch 0: loss 0.25 (minimize); lr=0.25)"
    assert shown[:2] == ["Run(minimize loss, 0 epochs)", "Run(minimize loss, 2 epochs, 0.5 at epoch 0)"]


POINTS = [{"kind": "a"}, {"kind": "b"}]
ACCURACY = {"a": 0.80, "b": 0.82}
TARGET = torch.arange(400) % 2


def split_labels(params, run):
    """Predictions of 400 rows, right as often as the kind says, shared out to the ranks of a group."""
    generator = torch.Generator().manual_seed(run.seed)
    group = torch.distributed.is_initialized()
    rank, count = (torch.distributed.get_rank(), torch.distributed.get_world_size()) if group else (0, 1)
    own = slice(rank * 400 // count, (rank + 1) * 400 // count)
    for _ in run.epochs(1):
        right = torch.rand(400, generator=generator) < ACCURACY[params["kind"]]
        run.update(predictions=torch.where(right, TARGET, 1 - TARGET)[own], target=TARGET[own])


def split_objective(**facts):
    """A list of two params."""
    facts = {"metric": "accuracy", "output": "binary", "statistics": "rows", "seed": 3, **facts}
    return ListObjective(split_labels, POINTS, **facts)


def timeless(settled):
    """What was decided, without the seconds that it took."""
    end = settled.confirmation
    return replace(end, standings=tuple(replace(one, seconds=0.0) for one in end.standings))


def confirmed_on_rank(rank, home):
    """The end on a rank, whose own list of records is not asked for unless it is the first."""
    objective = split_objective(directory=home)
    records = objective.run()
    with pytest.raises(HpometricsError, match=r"at least two complete trials.*has 1"):
        objective.confirm(records[:1] if rank == 0 else records)
    settled = objective.confirm(records if rank == 0 else None, repeats=3)
    with pytest.raises(RunError, match="leave out retries="):
        split_objective(retries=1).confirm(records)
    return settled


def test_ranks_confirm_together(tmp_path):
    """All return what one process decides of the same rows, with an honest value; and fail together."""
    alone = split_objective(directory=tmp_path / "alone")
    expected = alone.confirm(alone.run(), repeats=3)
    first, second = on_ranks(2, confirmed_on_rank, tmp_path / "group")
    assert first == second and first.honest.bias > 0
    assert timeless(first) == timeless(expected)
