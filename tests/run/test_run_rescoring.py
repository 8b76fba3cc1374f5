"""Metrics of epochs that are over: what was kept gives the value that the run would have had."""

from __future__ import annotations

import json
import math

import pytest
import torch
from sklearn import metrics as sklearn

from hpometrics.exceptions import NotKeptError, RecordError, StateError
from hpometrics.metrics.features import Binary, Category, Number, Ranking, Set
from hpometrics.metrics.statistics.confusion import Confusion
from hpometrics.metrics.statistics.item_counts import ItemCounts
from hpometrics.run import Run
from hpometrics.run.rescorer import Rescorer
from hpometrics.run.statistics_store import STATISTICS_FILE

EPOCHS = 3


def classes(epoch, rows=60):
    """Logits and target of three classes, surer with each epoch."""
    random = torch.Generator().manual_seed(epoch)
    target = torch.randint(3, (rows,), generator=random)
    logits = torch.randn(rows, 3, generator=random) + epoch * torch.nn.functional.one_hot(target, 3)
    return {"logits": logits, "target": target}


def binary(epoch, rows=60):
    """Logits and target, the latter drawn."""
    random = torch.Generator().manual_seed(epoch)
    target = torch.randint(2, (rows,), generator=random)
    return {"logits": torch.randn(rows, generator=random) + epoch * (target - 0.5), "target": target}


def labels(epoch, rows=60):
    """Logits and target of four labels."""
    random = torch.Generator().manual_seed(epoch)
    target = torch.randint(2, (rows, 4), generator=random)
    return {"logits": torch.randn(rows, 4, generator=random) + epoch * (target - 0.5), "target": target}


def numbers(epoch, rows=60):
    """Predictions and target."""
    random = torch.Generator().manual_seed(epoch)
    target = torch.randn(rows, generator=random)
    return {"predictions": target + torch.randn(rows, generator=random) / (1 + epoch), "target": target}


def ran(directory, draw, metric, output, **facts):
    """Train for some epochs; give what they recorded."""
    with Run(metric=metric, output=output, directory=directory, **facts) as run:
        for epoch in run.epochs(EPOCHS):
            run.update(**draw(epoch))
    return run.history


def answers_of(directory, history, metric, output, **facts):
    """The value of a metric at each epoch, from what was kept."""
    rescorer = Rescorer(metric, output, **facts)
    return [record.number(rescorer.name) for record in rescorer.rescore(directory, history)]


def hard(draw, epoch):
    """What was right, and what was predicted at 0.5."""
    given = draw(epoch)
    shown = given["logits"]
    predicted = shown.argmax(1) if shown.ndim == 2 and given["target"].ndim == 1 else (shown > 0).long()
    return given["target"].numpy(), predicted.numpy()


def named(given: object) -> str:
    """Name a parameter; a function by its own name, as its address differs between processes."""
    return getattr(given, "__name__", str(given))


@pytest.mark.parametrize(
    ("draw", "output", "asked", "oracle"),
    [
        (classes, Category(3), "mcc", sklearn.matthews_corrcoef),
        (classes, Category(3), "cohen_kappa", sklearn.cohen_kappa_score),
        (classes, Category(3), "balanced_accuracy", sklearn.balanced_accuracy_score),
        (
            classes,
            Category(3),
            "f1(average=weighted)",
            lambda y, p: sklearn.f1_score(y, p, average="weighted"),
        ),
        (classes, Category(3), "f1(class=2)", lambda y, p: sklearn.f1_score(y, p, average=None)[2]),
        (binary, Binary(), "mcc", sklearn.matthews_corrcoef),
        (binary, Binary(), "f1", sklearn.f1_score),
        (labels, Set(4), "f1(average=micro)", lambda y, p: sklearn.f1_score(y, p, average="micro")),
    ],
    ids=named,
)
def test_a_metric_after_the_fact_is_that_of_scikit_learn_on_the_same_predictions(
    draw, output, asked, oracle, tmp_path
):
    """From the confusion counts that another metric was measured by."""
    tracked = "hamming_loss" if output == Set(4) else "accuracy"
    history = ran(tmp_path, draw, tracked, output)
    found = answers_of(tmp_path, history, asked, output)
    assert found == pytest.approx([oracle(*hard(draw, epoch)) for epoch in range(EPOCHS)], abs=1e-12)


@pytest.mark.parametrize(
    ("draw", "output", "tracked", "asked"),
    [
        (classes, Category(3), "accuracy", "mcc"),
        (binary, Binary(), "accuracy", "f1"),
        (numbers, Number(), "r2", "pearson"),
        (numbers, Number(), "rmse", "mse"),
    ],
    ids=named,
)
def test_it_is_the_value_that_the_run_would_have_had(draw, output, tracked, asked, tmp_path):
    """To the last bit."""
    history = ran(tmp_path, draw, tracked, output, defaults=False)
    measured = ran(None, draw, asked, output, defaults=False)
    assert answers_of(tmp_path, history, asked, output) == [record.number(asked) for record in measured]


@pytest.mark.parametrize("threshold", [0.2, 0.3, 0.75])
def test_another_threshold_is_read_of_the_rows(threshold, tmp_path):
    """Of scores that were kept for the asking; the value at 0.5 stays as it is beside it."""
    history = ran(tmp_path, binary, "f1", Binary(), statistics="all")
    found = answers_of(tmp_path, history, "f1", Binary(), threshold=threshold)
    for epoch, value in enumerate(found):
        given = binary(epoch)
        predicted = (given["logits"].sigmoid() > threshold).long()
        assert value == pytest.approx(sklearn.f1_score(given["target"], predicted), abs=1e-12)
    rescored = Rescorer("f1", Binary(), threshold).rescore(tmp_path, history)
    assert [record.number("f1") for record in rescored] == [record.number("f1") for record in history]


@pytest.mark.parametrize(
    ("draw", "output", "tracked", "asked"),
    [
        (binary, Binary(), "accuracy", "roc_auc"),
        (binary, Binary(), "accuracy", "brier"),
        (classes, Category(3), "accuracy", "log_loss"),
        (labels, Set(4), "hamming_loss", "roc_auc(average=macro)"),
        (numbers, Number(), "rmse", "median_absolute_error"),
    ],
    ids=named,
)
def test_kept_rows_answer_what_no_statistic_does(draw, output, tracked, asked, tmp_path):
    """Logits of a category are kept as log-probabilities, so that the last digits may differ."""
    history = ran(tmp_path, draw, tracked, output, defaults=False, statistics="all")
    measured = ran(None, draw, asked, output, defaults=False)
    expected = [record.number(record_name(measured)) for record in measured]
    assert answers_of(tmp_path, history, asked, output) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("ignored", [-1, 0])
def test_labels_that_are_not_known_are_kept_as_such(ignored, tmp_path):
    """Whatever number says it; of the rows that were kept nothing else is asked."""

    def with_gaps(epoch):
        given = labels(epoch)
        unknown = torch.rand(60, 4, generator=torch.Generator().manual_seed(epoch)) < 0.3
        return {**given, "target": given["target"].masked_fill(unknown, ignored)}

    output, asked = Set(4, ignore_index=ignored), "log_loss"
    history = ran(tmp_path, with_gaps, "hamming_loss", output, defaults=False, statistics="all")
    measured = ran(None, with_gaps, asked, output, defaults=False)
    expected = [record.number(asked) for record in measured]
    assert answers_of(tmp_path, history, asked, output) == pytest.approx(expected, rel=1e-6)


def record_name(history):
    """The name of the one metric that a run without defaults records."""
    return next(name for name in history[0].values if name != "exs")


def test_tasks_are_put_together_as_in_the_run(tmp_path):
    """The mean of the tasks' values, and theirs."""

    def trained(directory, metric):
        with Run(metric=metric, output=Category(3), directory=directory) as run:
            run.update(task="a", **classes(1))
            run.update(task="b", **classes(2))
        return run.history

    history, (measured,) = trained(tmp_path, "accuracy"), trained(None, "mcc")
    (rescored,) = Rescorer("mcc", Category(3)).rescore(tmp_path, history)
    for name in ("mcc", "a/mcc", "b/mcc"):
        assert rescored.number(name) == measured.number(name)


def test_one_of_several_outputs_is_named(tmp_path):
    """The other one is left alone."""
    outputs = {"intent": Category(3), "spam": Binary()}
    with Run(metric="intent.accuracy", output=outputs, directory=tmp_path) as run:
        run.update(feature="intent", **classes(1))
        run.update(feature="spam", **binary(1))
    (rescored,) = Rescorer("spam.mcc", outputs).rescore(tmp_path, run.history)
    assert rescored.number("spam.mcc") == pytest.approx(
        sklearn.matthews_corrcoef(*hard(binary, 1)), abs=1e-12
    )


def test_the_test_split_is_answered_beside_validation(tmp_path):
    """Each from its own rows."""
    with Run(metric="accuracy", output=Category(3), directory=tmp_path) as run:
        run.update(**classes(1))
        run.update(split="test", **classes(2))
    (rescored,) = Rescorer("mcc", Category(3)).rescore(tmp_path, run.history)
    for name, epoch in (("mcc", 1), ("test:mcc", 2)):
        expected = sklearn.matthews_corrcoef(*hard(classes, epoch))
        assert rescored.number(name) == pytest.approx(expected, abs=1e-12)


def test_an_epoch_that_was_void_stays_so(tmp_path):
    """Its value is nan, with the reason of the run."""
    with Run(metric="accuracy", output=Category(3), directory=tmp_path) as run:
        run.update(logits=torch.full((1, 3), torch.nan), target=torch.tensor([0]))
    (rescored,) = Rescorer("mcc", Category(3)).rescore(tmp_path, run.history)
    assert math.isnan(rescored.number("mcc"))
    assert rescored.reasons["mcc"] == run.history[0].reasons["accuracy"]


@pytest.mark.parametrize(
    ("output", "tracked", "draw", "asked", "message"),
    [
        (Binary(), "accuracy", binary, "brier", r"brier needs WeightedMean.*results: \{statistics: all\} or"),
        (
            Binary(),
            "roc_auc",
            binary,
            "average_precision",
            r"Scores\(\) \(it grows with the rows\); the sweep stored: ",
        ),
        (Number(), "rmse", numbers, "mae", r"mae needs Errors\(measure='absolute'\)"),
    ],
    ids=named,
)
def test_what_needs_more_than_is_kept_says_what_and_how(output, tracked, draw, asked, message, tmp_path):
    """The statistic that lacks, and what keeps it."""
    history = ran(tmp_path, draw, tracked, output, defaults=False)
    with pytest.raises(NotKeptError, match=message):
        answers_of(tmp_path, history, asked, output)


def test_a_threshold_needs_rows(tmp_path):
    """A matrix at 0.5 says nothing of 0.3."""
    history = ran(tmp_path, binary, "f1", Binary())
    with pytest.raises(NotKeptError, match=r"f1\(threshold=0\.3\) needs the scores of every row"):
        answers_of(tmp_path, history, "f1", Binary(), threshold=0.3)
    with pytest.raises(NotKeptError, match="a threshold needs a binary output or a set"):
        Rescorer("accuracy", Category(3), 0.3)


def test_an_epoch_of_which_nothing_is_kept_is_named(tmp_path):
    """As where the sweep keeps no statistics."""
    history = ran(tmp_path, classes, "accuracy", Category(3), statistics="none")
    with pytest.raises(NotKeptError, match="epoch 0 has no stored statistics"):
        answers_of(tmp_path, history, "mcc", Category(3))


def test_counts_at_other_cutoffs_are_other_statistics():
    """Their places in the state are by the order of the cut-offs, so none is read as another."""
    assert ItemCounts(cutoffs=(5, 10)).label != ItemCounts(cutoffs=(5,)).label
    assert Confusion().label == Confusion().label


def test_a_cutoff_that_was_not_measured_is_refused(tmp_path):
    """The items of the first two places do not tell those of the first."""
    output = Ranking(4)
    with Run(metric="ndcg@2", output=output, track=["item_coverage@2"], directory=tmp_path) as run:
        run.update(scores=torch.eye(4), target=torch.eye(4))
    with pytest.raises(NotKeptError, match=r"item_coverage@1 needs ItemCounts.* at 1"):
        answers_of(tmp_path, run.history, "item_coverage@1", output)


def test_a_combination_is_answered_from_its_terms(tmp_path):
    """Each term from the statistics of its own output."""
    outputs = {"a": Category(3), "b": Category(3)}

    def trained(directory, metric):
        with Run(metric=metric, output=outputs, directory=directory) as run:
            for epoch, name in enumerate(outputs):
                run.update(feature=name, **classes(epoch))
        return run.history

    history, (measured,) = trained(tmp_path, "a.accuracy"), trained(None, "combined.mcc")
    (rescored,) = Rescorer("combined.mcc", outputs).rescore(tmp_path, history)
    assert rescored.number("combined.mcc") == measured.number("combined.mcc")


@pytest.mark.parametrize("shape", [[9], [1, 9], [9, 1], [1, 1, 9], [0, 3], [0, 1 << 50]], ids=str)
def test_a_shape_that_fits_no_statistic_is_a_damaged_record(tmp_path, shape):
    """With the right bytes and no digest, as in a file of an earlier version."""
    history = ran(tmp_path, classes, "accuracy", Category(3))
    path = tmp_path / STATISTICS_FILE
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        del line["digest"]
        for part in line["parts"]:
            for state in part["statistics"].values():
                for tensor in state.values():
                    tensor["shape"] = shape
                    tensor["bytes"] = tensor["bytes"] if 0 not in shape else ""
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    with pytest.raises((RecordError, StateError)):
        Rescorer("mcc", Category(3)).rescore(tmp_path, history)
