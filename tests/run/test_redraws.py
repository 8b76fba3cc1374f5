"""Drawing what was kept again: the values that a metric might have had on other rows."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import matthews_corrcoef

from hpometrics.exceptions import NotKeptError
from hpometrics.metrics.features import Binary, Category, Number, Set, Text
from hpometrics.run import Run, rescorer
from hpometrics.run.rescorer import DRAWS, Bootstrap, Rescorer
from hpometrics.run.statistics_store import read_statistics

ROWS = 200


def classes(seed, rows=ROWS):
    """Logits and target of three classes."""
    random = torch.Generator().manual_seed(seed)
    target = torch.randint(3, (rows,), generator=random)
    return {"logits": torch.randn(rows, 3, generator=random) + torch.eye(3)[target] * 2, "target": target}


def redrawn(directory, asked, given, output=None, metric="accuracy", **facts):
    """What was kept of an epoch, for a metric to be drawn again."""
    output = output or Category(3)
    with Run(metric=metric, output=output, directory=directory, **facts) as run:
        run.update(**given)
    (kept,) = read_statistics(directory)
    return Bootstrap(Rescorer(asked, output), kept)


def test_draws_of_a_matrix_are_those_of_its_rows(tmp_path):
    """Accuracy is a share, whose draws spread by the root of p (1 - p) / n."""
    given = classes(0)
    drawn = redrawn(tmp_path, "accuracy", given)
    share = float((given["logits"].argmax(1) == given["target"]).double().mean())
    values = drawn.values(0)
    assert drawn.what == "matrix" and values.shape == (DRAWS,)
    assert values.mean() == pytest.approx(share, abs=0.005)
    assert values.std() == pytest.approx(math.sqrt(share * (1 - share) / ROWS), rel=0.1)


def test_the_interval_is_that_of_rows_drawn_by_hand(tmp_path, monkeypatch):
    """The matrix alone gives the interval that scikit-learn gives on rows drawn with replacement."""
    monkeypatch.setattr(rescorer, "DRAWS", 500)
    given = classes(0)
    target, predicted = given["target"].numpy(), given["logits"].argmax(1).numpy()
    random = np.random.default_rng(5)
    picks = [random.integers(ROWS, size=ROWS) for _ in range(200)]
    by_hand = Bootstrap.percentile_interval(
        0.0, np.array([matthews_corrcoef(target[p], predicted[p]) for p in picks]), 0.9
    )
    found = Bootstrap.percentile_interval(0.0, redrawn(tmp_path, "mcc", given).values(0), 0.9)
    assert (found.low, found.high) == pytest.approx((by_hand.low, by_hand.high), abs=0.015)


def test_a_seed_gives_the_same_draws(tmp_path, monkeypatch):
    """Another one gives others."""
    monkeypatch.setattr(rescorer, "DRAWS", 50)
    drawn = redrawn(tmp_path, "mcc", classes(0))
    assert (drawn.values(3) == drawn.values(3)).all()
    assert (drawn.values(3) != drawn.values(4)).any()


@pytest.mark.parametrize(
    ("asked", "output", "given"),
    [
        ("log_loss", Category(3), classes(0, 40)),
        ("roc_auc", Binary(), {"probabilities": torch.linspace(0, 1, 40), "target": torch.arange(40) % 2}),
        ("mae", Number(), {"predictions": torch.arange(40.0), "target": torch.ones(40)}),
    ],
    ids=str,
)
def test_kept_rows_are_drawn_together(asked, output, given, tmp_path, monkeypatch):
    """Of two trials with the same targets; the same trial twice differs in no draw."""
    monkeypatch.setattr(rescorer, "DRAWS", 20)
    facts = {"output": output, "metric": asked, "statistics": "all"}
    one, other = (redrawn(tmp_path / name, asked, given, **facts) for name in ("a", "b"))
    assert one.what == "rows" and one.pairs_with(other)
    assert (one.values(0) == other.values(0)).all() and one.values(0).std() > 0


def test_rows_of_other_targets_are_no_pairs(tmp_path):
    """Nor are matrices, which do not tell one row from another."""
    one, other = (redrawn(tmp_path / str(n), "mcc", classes(n), statistics="all") for n in (0, 1))
    matrix = redrawn(tmp_path / "matrix", "mcc", classes(0))
    assert not one.pairs_with(other) and not one.pairs_with(matrix) and not matrix.pairs_with(matrix)


def test_tasks_are_drawn_each_by_itself(tmp_path, monkeypatch):
    """Their mean is of as many rows of each as there were; of a task that is all right nothing is said."""
    monkeypatch.setattr(rescorer, "DRAWS", 50)
    right = {"predictions": torch.arange(3), "target": torch.arange(3)}
    with Run(metric="accuracy", output=Category(3), directory=tmp_path) as run:
        run.update(task="a", **right)
        run.update(task="b", predictions=torch.tensor([0, 1]), target=torch.tensor([0, 2]))
    (kept,) = read_statistics(tmp_path)
    assert set(Bootstrap(Rescorer("accuracy", Category(3)), kept).values(0)) == {0.5, 0.75, 1.0}
    with pytest.raises(NotKeptError, match="every draw gives 1, which says nothing of other rows"):
        Bootstrap(Rescorer("a/accuracy", Category(3)), kept).values(0)


@pytest.mark.parametrize(
    ("asked", "output", "metric", "given", "message"),
    [
        (
            "log_loss",
            Category(3),
            "log_loss",
            classes(0),
            r"log_loss cannot be computed from .* no rows; results",
        ),
        (
            "f1",
            Text(),
            "f1",
            {"predictions": ["a b", "c"], "target": ["a b", "d"]},
            "confusion matrix alone, and the rows of text are never kept",
        ),
        (
            "f1(average=micro)",
            Set(2),
            "hamming_loss",
            {"predictions": torch.ones(3, 2, dtype=torch.long), "target": torch.ones(3, 2, dtype=torch.long)},
            "cannot be computed from a confusion matrix alone",
        ),
        (
            "accuracy",
            Category(3),
            "accuracy",
            {**classes(0), "sample_weight": torch.ones(ROWS) / 2},
            "weighted rows does not say how many rows",
        ),
    ],
    ids=str,
)
def test_sums_cannot_be_drawn_again(asked, output, metric, given, message, tmp_path):
    """What says nothing of single rows is refused, with the reason."""
    with pytest.raises(NotKeptError, match=message):
        redrawn(tmp_path, asked, given, output, metric)


def test_too_many_rows_are_not_drawn(tmp_path, monkeypatch):
    """The matrix takes their place where the metric is a function of it."""
    monkeypatch.setattr(rescorer, "MOST_VALUES", 10)
    assert redrawn(tmp_path / "a", "mcc", classes(0), statistics="all").what == "matrix"
    with pytest.raises(NotKeptError, match="more than 10 scores"):
        redrawn(tmp_path / "b", "log_loss", classes(0), statistics="all")


def test_a_metric_that_most_draws_leave_undefined_has_no_interval():
    """A few of them are left out."""
    assert Bootstrap.percentile_interval(0.5, np.array([0.5] * 99 + [np.nan]), 0.9).low == 0.5
    with pytest.raises(NotKeptError, match="undefined in 6 of 100 draws"):
        Bootstrap.percentile_interval(0.5, np.array([0.5] * 94 + [np.nan] * 6), 0.9)


def test_a_combination_is_of_several_outputs_whose_rows_are_not_told_together(tmp_path):
    """So that none is drawn of it."""
    outputs = {"a": Category(3), "b": Category(3)}
    with Run(metric="combined.accuracy", output=outputs, directory=tmp_path) as run:
        for name in outputs:
            run.update(feature=name, **classes(0))
    (kept,) = read_statistics(tmp_path)
    with pytest.raises(NotKeptError, match=r"combined\.accuracy is not measured on stored rows"):
        Bootstrap(Rescorer("combined.accuracy", outputs), kept)
