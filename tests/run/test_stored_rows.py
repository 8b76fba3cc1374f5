"""Row values of stored epochs, by which two trials are compared after the sweep."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss, matthews_corrcoef, roc_auc_score

from hpometrics.exceptions import NotKeptError
from hpometrics.metrics.features import Binary, Category, Number, Set, Text
from hpometrics.run import Run
from hpometrics.run.rescorer import Rescorer
from hpometrics.run.statistics_store import read_statistics
from hpometrics.selection.intervals import Scale

ROWS = 200


def classes(seed, rows=ROWS):
    """Logits and target of three classes."""
    random = torch.Generator().manual_seed(seed)
    target = torch.randint(3, (rows,), generator=random)
    return {"logits": torch.randn(rows, 3, generator=random) + torch.eye(3)[target] * 2, "target": target}


def stored(directory, requested, batch, output=None, metric="accuracy", label="a", **facts):
    """The row values of an epoch of one update, and what they were computed from."""
    output = output or Category(3)
    with Run(metric=metric, output=output, directory=directory, **facts) as run:
        run.update(**batch)
    (statistics,) = read_statistics(directory)
    rescorer = Rescorer(requested, output)
    rows, kept = rescorer.row_values(statistics, label)
    value = run.value if requested == metric else rescorer.value(statistics)
    assert rows.table.mean() == pytest.approx(value, rel=1e-6)
    return rows, kept


def test_a_matrix_has_the_rows_that_it_counts(tmp_path):
    """As many right ones and wrong ones, so that the interval of their share is Wilson's."""
    batch = classes(0)
    rows, kept = stored(tmp_path, "accuracy", batch)
    share = accuracy_score(batch["target"], batch["logits"].argmax(1))
    assert kept == "matrix" and rows.table.shape == (1, ROWS)
    assert rows.table.sum() == pytest.approx(share * ROWS)
    interval = rows.interval(scale=Scale.LOGIT)
    middle = (share + 1.96**2 / (2 * ROWS)) / (1 + 1.96**2 / ROWS)
    assert (interval.low + interval.high) / 2 == pytest.approx(middle, abs=1e-5)


@pytest.mark.parametrize(("metric", "keeping"), [("mcc", "small"), ("log_loss", "all"), ("roc_auc", "all")])
def test_the_interval_is_that_of_rows_drawn_by_hand(metric, keeping, tmp_path):
    """Beside scikit-learn's value of rows drawn with replacement."""
    batch = classes(0)
    probabilities = batch["logits"].double().softmax(1).numpy()
    predicted, target = probabilities.argmax(1), batch["target"].numpy()
    random = np.random.default_rng(5)
    draws = [random.integers(ROWS, size=ROWS) for _ in range(400)]
    peers = {
        "mcc": lambda rows: matthews_corrcoef(target[rows], predicted[rows]),
        "log_loss": lambda rows: log_loss(target[rows], probabilities[rows]),
        "roc_auc": lambda rows: roc_auc_score(target[rows], probabilities[rows], multi_class="ovr"),
    }
    rows, kept = stored(tmp_path, metric, batch, statistics=keeping)
    assert kept == ("matrix" if keeping == "small" else "rows")
    interval = rows.interval()
    by_hand = np.std([peers[metric](drawn) for drawn in draws])
    assert interval.value == pytest.approx(peers[metric](np.arange(ROWS)), rel=1e-5)
    assert (interval.high - interval.low) / 2 / 1.96 == pytest.approx(by_hand, rel=0.15)


@pytest.mark.parametrize(
    ("metric", "output", "batch"),
    [
        ("log_loss", Category(3), classes(0, 40)),
        ("roc_auc", Binary(), {"probabilities": torch.linspace(0, 1, 40), "target": torch.arange(40) % 2}),
        ("mae", Number(), {"predictions": torch.arange(40.0), "target": torch.ones(40)}),
    ],
    ids=["log_loss", "roc_auc", "mae"],
)
@pytest.mark.parametrize("keeping", ["rows", "all"])
def test_two_trials_with_the_same_targets_are_paired(metric, output, batch, keeping, tmp_path):
    """The same trial twice differs in no row, whatever is kept of them."""
    facts = {"output": output, "metric": metric, "statistics": keeping}
    models = [stored(tmp_path / name, metric, batch, label=name, **facts)[0] for name in "ab"]
    pair = models[0].difference(models[1])
    assert pair.paired and pair.interval.low == pair.interval.high == 0


def test_rows_of_other_targets_or_weights_are_not_paired(tmp_path):
    """Nor are matrices, which do not tell one row from another."""
    batch, weights = classes(0), torch.linspace(0.5, 1, ROWS)
    variants = [batch, classes(1), {**batch, "sample_weight": weights}]
    kept = [
        stored(tmp_path / str(n), "mcc", one, statistics="all", label=str(n))[0]
        for n, one in enumerate(variants)
    ]
    matrices = [stored(tmp_path / name, "mcc", batch, label=name)[0] for name in "ab"]
    assert len({one.rows_id for one in [*kept, *matrices]}) == 5
    assert not matrices[0].difference(matrices[1]).paired


@pytest.mark.parametrize("keeping", ["small", "all"])
def test_a_mean_over_tasks_adds_the_variance_of_each(keeping, tmp_path):
    """However many rows a task has; of `tasks=micro` all rows are alike."""
    sizes = {"a": 50, "b": 150}
    with Run(metric="accuracy", output=Category(3), directory=tmp_path, statistics=keeping) as run:
        for seed, (task, rows) in enumerate(sizes.items()):
            run.update(task=task, **classes(seed, rows))
    (statistics,) = read_statistics(tmp_path)
    right = [classes(n, rows) for n, rows in enumerate(sizes.values())]
    right = [(one["logits"].argmax(1) == one["target"]).double().numpy() for one in right]
    macro, _ = Rescorer("accuracy", Category(3)).row_values(statistics, "")
    variance = sum(one.var() / len(one) for one in right) / 4
    assert macro.table.mean() == pytest.approx(np.mean([one.mean() for one in right]))
    assert macro.table.var() / macro.table.size == pytest.approx(variance)
    micro, _ = Rescorer("accuracy(tasks=micro)", Category(3)).row_values(statistics, "")
    assert sorted(micro.table[0].round(9)) == sorted(np.concatenate(right))
    alone, _ = Rescorer("b/accuracy", Category(3)).row_values(statistics, "")
    assert alone.table.mean() == pytest.approx(right[1].mean()) and alone.rows == 150


WEIGHTED = {**classes(0), "sample_weight": torch.ones(ROWS) / 2}
LABELS = {name: torch.ones(3, 2, dtype=torch.long) for name in ("predictions", "target")}


@pytest.mark.parametrize(
    ("requested", "output", "metric", "batch", "message"),
    [
        ("log_loss", Category(3), "log_loss", classes(0), r"log_loss cannot be computed .* results: \{stat"),
        (
            "f1",
            Text(),
            "f1",
            {"predictions": ["a b", "c"], "target": ["a b", "d"]},
            r"no rows of text are stored; .* --fresh and results: \{statistics: rows\}",
        ),
        ("f1(average=micro)", Set(2), "hamming_loss", LABELS, "computed from a confusion matrix alone"),
        ("accuracy", Category(3), "accuracy", WEIGHTED, "weighted rows does not contain the number of rows"),
    ],
    ids=["log_loss", "f1", "labels", "weighted"],
)
def test_what_has_no_rows_is_refused(requested, output, metric, batch, message, tmp_path):
    """With the reason, and with what stores them."""
    with pytest.raises(NotKeptError, match=message):
        stored(tmp_path, requested, batch, output, metric)


def test_a_text_has_the_rows_of_the_optimized_metric(tmp_path):
    """`statistics: rows` keeps them, though texts are never stored."""
    batch = {"predictions": ["a b", "c d"], "target": ["a b", "d"]}
    rows, kept = stored(tmp_path, "f1", batch, Text(), "f1", statistics="rows")
    assert kept == "rows" and rows.table[0] == pytest.approx([1, 2 / 3])


def test_the_rows_of_several_outputs_are_not_joined(tmp_path):
    """A combination has none."""
    outputs = {"a": Category(3), "b": Category(3)}
    with Run(metric="combined.accuracy", output=outputs, directory=tmp_path) as run:
        for name in outputs:
            run.update(feature=name, **classes(0))
    (statistics,) = read_statistics(tmp_path)
    with pytest.raises(NotKeptError, match=r"combined\.accuracy is not measured on stored rows"):
        Rescorer("combined.accuracy", outputs).row_values(statistics, "")
