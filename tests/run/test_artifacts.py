from __future__ import annotations

import json
import math
import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from forked import Forked

from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import MetricInputError, RecordError, RunError
from hpometrics.metrics.features import PREDICTIONS, Binary, Category, Number, Ranking, Sequence, Text
from hpometrics.metrics.metric import MeanMetric
from hpometrics.metrics.registry.register import get_metric
from hpometrics.run import Run, RunSpec
from hpometrics.run.artifacts import read_examples
from hpometrics.run.reporter import ListReporter
from hpometrics.run.trial import run_trial

TARGET = torch.tensor([0, 1, 2, 0])
SURE = torch.tensor([[0.5, 0.25, 0.25], [0.05, 0.9, 0.05], [0.5, 0.25, 0.25], [0.125, 0.75, 0.125]]).double()
"""Probabilities of the right class: 1/2, 9/10, 1/4, 1/8."""


def ends(lines, rank):
    """Index and value of the ranking metric, the first written, of the examples of a rank."""
    return [(line["index"], next(iter(line["values"].values()))) for line in lines if line["rank"] == rank]


def measured(*batches, epochs=1, **facts):
    """A finished run that was given these batches in every epoch."""
    run = Run(**facts)
    for _ in run.epochs(epochs):
        for batch in batches:
            run.update(**batch)
    return run


def test_the_worst_and_best_of_a_category():
    """By log_loss, -log of 1/8 and of 1/4 are the worst and -log of 9/10 the best; all else stands beside."""
    run = measured(
        {"probabilities": SURE, "target": TARGET, "examples": ["a", "b", "c", "d"]},
        metric="log_loss",
        track=["accuracy", "roc_auc"],
        output=Category(3),
        track_examples={"worst": 2, "best": 1},
    )
    worst, second, best = run.examples
    assert worst == {
        "epoch": 0, "split": "validation", "rank": "worst", "place": 1, "index": 3,
        "values": {"log_loss": pytest.approx(math.log(8)), "accuracy": 0.0},
        "target": 0, "prediction": 1, "probabilities": [0.125, 0.75, 0.125], "example": "d",
    }  # fmt: skip
    assert (second["place"], second["index"], second["example"]) == (2, 2, "c")
    assert (best["rank"], best["index"], best["values"]["accuracy"]) == ("best", 1, 1.0)


def test_the_worst_and_best_of_a_number():
    """Squared errors 4, 0, 9 in one batch and 1, 4 in the next: rows are counted on, the earlier 4 wins."""
    run = measured(
        {"predictions": torch.tensor([2.0, 1.0, -3.0]), "target": torch.tensor([0.0, 1.0, 0.0])},
        {"predictions": torch.tensor([1.0, 2.0]), "target": torch.tensor([0.0, 0.0])},
        metric="mse",
        output=Number(),
        track_examples={"worst": 2, "best": 2},
    )
    assert ends(run.examples, "worst") == [(2, 9.0), (0, 4.0)]
    assert ends(run.examples, "best") == [(1, 0.0), (3, 1.0)]
    assert (run.examples[0]["target"], run.examples[0]["prediction"]) == (0.0, -3.0)


def test_the_worst_and_best_of_texts():
    """F1 of words: 1, 0 and, two of three words shared with the better reference, 4/5."""
    run = measured(
        {
            "predictions": ["red cat", "blue", "big red cat"],
            "target": [["red cat"], ["green"], ["cat", "red cat"]],
            "examples": [{"id": 7}, {"id": 8}, {"id": 9}],
        },
        metric="f1",
        output=Text(),
        track_examples=2,
    )
    assert ends(run.examples, "worst") == [(1, 0.0), (2, pytest.approx(0.8))]
    assert ends(run.examples, "best") == [(0, 1.0), (2, pytest.approx(0.8))]
    told = run.examples[1]
    assert (told["prediction"], told["target"], told["example"]) == (
        "big red cat", ["cat", "red cat"], {"id": 9},
    )  # fmt: skip


def test_a_sequence_has_the_mean_of_its_tokens():
    """Tokens right: 1 of 2 and 1 of 1, where the second does not count; they weigh 2 and 1 in the epoch."""
    run = measured(
        {"predictions": torch.tensor([[3, 4], [5, 0]]), "target": torch.tensor([[3, 9], [5, -100]])},
        metric="token_accuracy",
        output=Sequence(),
        track_examples=1,
    )
    assert (ends(run.examples, "worst"), ends(run.examples, "best")) == ([(0, 0.5)], [(1, 1.0)])
    assert run.value == pytest.approx(2 / 3)


def test_the_worst_and_best_users_of_a_ranking():
    """User 4 has nothing relevant and is left out; the others' right and recommended items stand."""
    run = measured(
        {"scores": torch.tensor([[3.0, 2, 1], [3, 2, 1], [3, 2, 1]]), "target": [[0, 2], [2], []],
         "users": [7, 5, 4]},
        metric="precision@2",
        output=Ranking(),
        track_examples=3,
    )  # fmt: skip
    assert ends(run.examples, "worst") == [(1, 0.0), (0, 0.5)]
    told = run.examples[1]
    assert (told["user"], told["target"], told["prediction"]) == (7, [0, 2], [0, 1])


def test_a_metric_of_counts_is_measured_on_each_row_alone():
    """Micro-averaged F1 of a category is the share of right rows; nothing of it is at hand row by row."""
    run = measured(
        {"probabilities": SURE, "target": TARGET},
        metric="f1(average=micro)",
        output=Category(3),
        track_examples={"worst": 2, "best": 1},
    )
    assert ends(run.examples, "worst") == [(2, 0.0), (3, 0.0)]
    assert run.value == 0.5


def test_rows_that_count_for_nothing_are_no_examples():
    """What is to be ignored and what weighs 0 keep their numbers, but enter no list."""
    run = measured(
        {
            "probabilities": SURE,
            "target": torch.tensor([0, 1, 2, -1]),
            "sample_weight": torch.tensor([2.0, 1.0, 0.0, 1.0]),
        },
        metric="log_loss",
        output=Category(3, ignore_index=-1),
        track_examples=4,
    )
    assert [index for index, _ in ends(run.examples, "worst")] == [0, 1]


def test_a_value_that_is_not_finite_is_told_apart():
    """The percentage of an error against 0 is infinite: neither best nor worst, and JSON has a null."""
    run = measured(
        {"predictions": torch.tensor([1.0, 3.0]), "target": torch.tensor([0.0, 2.0])},
        metric="mape",
        output=Number(),
        at="last",
        track_examples=2,
    )
    assert ends(run.examples, "worst") == ends(run.examples, "best") == [(1, 0.5)]
    (odd,) = (line for line in run.examples if line["rank"] == "undefined")
    assert (odd["index"], odd["values"]["mape"], odd["reason"]) == (0, None, "mape is inf")


@pytest.mark.parametrize(("classes", "written"), [(100, True), (101, False)])
def test_scores_of_many_classes_are_left_out_and_this_is_said(classes, written):
    """Those of 100 classes stand as they are."""
    run = measured(
        {"logits": torch.eye(classes)[:2], "target": torch.tensor([0, 1])},
        metric="log_loss",
        output=Category(classes),
        track_examples=1,
    )
    told = run.examples[0]
    assert (len(told.get("logits", [])) == classes) is written
    assert ("left_out" in told) is not written
    if not written:
        assert told["left_out"] == {"logits": "101 classes; at most 100 are written"}


def test_each_split_has_examples_of_its_own():
    """Rows are counted by split; a split that does not measure the metric has none."""
    facts = {"track": ["accuracy", "test:accuracy"], "track_examples": 1, "defaults": False}
    run = Run(metric="log_loss", output=Category(3), **facts)
    for _ in run.epochs(1):
        for split in ("train", "validation", "test"):
            run.update(split=split, probabilities=SURE, target=TARGET)
    found = [(line["split"], line["rank"], line["index"]) for line in run.examples]
    assert sorted(found) == sorted(
        (s, *e) for s in ("train", "validation") for e in (("worst", 3), ("best", 1))
    )


def share(run, right):
    """Feed an epoch in which so many of four rows are right, the first ones."""
    target = torch.tensor([1, 1, 1, 1])
    run.update(
        probabilities=torch.where(torch.arange(4) < right, 0.75, 0.25), target=target, examples=list("abcd")
    )


@pytest.mark.parametrize(("at", "epoch"), [("best", 2), ("last", 3)])
def test_the_file_follows_the_picked_epoch(at, epoch, tmp_path):
    """Epochs with 1, 0, 3 and 2 rows right: one draft at any time, at the end one file."""
    spec = RunSpec("brier", output=Binary(), at=at, epochs=4, track_examples=1)

    def train(params, run):
        for epoch in run.epochs():
            share(run, [1, 0, 3, 2][epoch])
            drafts = [path.name for path in tmp_path.glob("examples*")]
            picked = [] if epoch == 0 else [0 if at == "best" and epoch < 3 else epoch - 1]
            assert drafts == [f"examples-000{number}.jsonl" for number in picked]

    run_trial(train, {}, spec, ListReporter(), directory=tmp_path)
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"epochs.jsonl", "statistics.jsonl", "trial.json", "examples.jsonl", ".trainstats"}
    lines = read_examples(tmp_path / "examples.jsonl")
    first_wrong = [1, 0, 3, 2][epoch]
    assert [(line["epoch"], line["example"]) for line in lines] == [
        (epoch, "abcd"[first_wrong]),
        (epoch, "a"),
    ]


class Counter:
    """What is checkpointed."""

    def state_dict(self):
        """Nothing."""
        return {}

    def load_state_dict(self, state_dict):
        """Nothing."""


def test_a_run_that_goes_on_knows_the_examples_it_had_picked(tmp_path):
    """Left in epoch 3 after the checkpoint of epoch 1, when epoch 2 was the best: epoch 0 is picked again."""
    spec = RunSpec("brier", output=Binary(), epochs=4, track_examples=1)
    with suppress(KeyboardInterrupt), Run(spec=spec, directory=tmp_path) as first:
        for epoch in first.epochs():
            share(first, [1, 0, 3, 2][epoch])
            if epoch == 1:
                first.checkpoint(counter=Counter())
            if epoch == 3:
                raise KeyboardInterrupt
    drafts = sorted(path.name for path in tmp_path.glob("examples*"))
    assert drafts == ["examples-0000.jsonl", "examples-0002.jsonl"]
    with Run(spec=spec, directory=tmp_path) as second:
        assert second.restore(counter=Counter()) == 2
        assert [line["epoch"] for line in second.examples] == [0, 0]
        for _ in second.epochs():
            share(second, 0)
        second.export_examples()
    assert [line["example"] for line in second.examples] == ["b", "a"]
    assert [path.name for path in tmp_path.glob("examples*")] == ["examples.jsonl"]
    assert read_examples(tmp_path / "examples.jsonl") == second.examples


def engine(directory: Path, kill_in: int) -> None:
    """Train a trial; the process dies at the end of the body of epoch `kill_in`."""

    def train(params, run):
        model = torch.nn.Linear(3, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        run.restore(model=model, optimizer=optimizer)
        x = torch.arange(24.0).reshape(8, 3).sin()
        y = (x.sum(1) > 0).long()
        for epoch in run.epochs(5):
            loss = torch.nn.functional.binary_cross_entropy_with_logits(model(x)[:, 0], y.float())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.update(logits=model(x)[:, 0], target=y, examples=list(range(8)))
            run.checkpoint(model=model, optimizer=optimizer)
            if epoch == kill_in:
                os.kill(os.getpid(), signal.SIGKILL)

    spec = RunSpec("log_loss", output=Binary(), threads=1, track_examples=3)
    run_trial(train, {}, spec, ListReporter(), directory=directory, seed=5)


def test_a_killed_trial_leaves_the_examples_of_an_undisturbed_one(tmp_path):
    """Killed in epoch 3 and started again, it leaves the same lines."""
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    undisturbed, first = Forked(tmp_path, engine, whole, -1), Forked(tmp_path, engine, killed, 3)
    assert (undisturbed.ended(), first.ended()) == (0, -signal.SIGKILL)
    assert [path.name for path in killed.glob("examples*")] == ["examples-0002.jsonl"]
    assert Forked(tmp_path, engine, killed, -1).ended() == 0
    written = [(home / "examples.jsonl").read_text() for home in (killed, whole)]
    assert written[0] == written[1]
    assert len(written[0].splitlines()) == 6


class Counted(MeanMetric):
    """Absolute error, which counts how often it is asked."""

    direction, inputs, name = MINIMIZE, PREDICTIONS, "counted"
    asked = 0

    def get_current_value(self, preds, target):
        """One value per row."""
        type(self).asked += 1
        return (preds - target).abs()


@pytest.mark.parametrize(("asked_for", "times"), [(False, 3), (1, 3 + 3 + 1 + 2)])
def test_nothing_is_computed_unless_asked_for(asked_for, times, tmp_path):
    """Each of three batches is measured once, whatever the user says of it.

    With examples each is measured once more, then the rows of the first, which enter the record; and a metric
    that was never registered is tried on the first batch, on its rows and on the whole.
    """
    Counted.asked = 0
    with Run(metric=Counted(), directory=tmp_path, track_examples=asked_for) as run:
        for _ in run.epochs(1):
            for value in (3.0, 1.0, 2.0):
                run.update(predictions=[value, 0.5], target=[0.0, 0.0], examples=["a", "b"])
    assert Counted.asked == times
    assert len(run.examples) == (2 if asked_for else 0)
    assert (run.spec.track_examples is None) is (asked_for is False)
    assert len(list(tmp_path.glob("examples*"))) == bool(asked_for)


class Rooted(MeanMetric):
    """A root of a mean: one value for a batch."""

    direction, inputs, name = MINIMIZE, PREDICTIONS, "rooted"

    def get_current_value(self, preds, target):
        """Of all rows."""
        return (preds - target).square().mean().sqrt()


def test_a_metric_of_a_whole_batch_is_refused_with_the_first_one():
    """Nothing could be tried before: of a metric that was never registered no output is known."""
    run = Run(metric=Rooted(), track_examples=True)
    with pytest.raises(
        RunError, match="rooted, which has no value per example: the value of the first batch"
    ):
        run.update(predictions=[1.0, 2.0], target=[0.0, 0.0])


def test_one_loss_for_a_batch_ranks_nothing():
    """`loss` takes a value per row or one for all; the second has no examples."""
    run = Run(metric="loss", output=Number(), track_examples=True)
    run.update(predictions=[1.0, 2.0], target=[0.0, 0.0], loss=torch.tensor([0.25, 0.5]))
    with pytest.raises(RunError, match="loss, which got one value for a whole batch"):
        run.update(predictions=[1.0, 2.0], target=[0.0, 0.0], loss=0.5)


@pytest.mark.parametrize(
    ("examples", "text"),
    [
        (["a"], "one entry per row, and the batch has 2 rows; got 1 of them"),
        ("ab", "one entry per row, and the batch has 2 rows; got str"),
        ([math.nan, 1], r"strict JSON values .* got float nan in row 0"),
        ([{1}, 1], r"strict JSON values \(text, .* got set \{1\} in row 0"),
    ],
)
def test_what_is_said_of_examples_is_checked(examples, text):
    """One entry per row, that strict JSON can hold; a batch that is refused is not counted."""
    run = Run(metric="mse", output=Number(), track_examples=True)
    for _ in run.epochs(1):
        with pytest.raises(MetricInputError, match=text):
            run.update(predictions=[1.0, 2.0], target=[0.0, 0.0], examples=examples)
        run.update(predictions=[3.0], target=[0.0], examples=["right"])
    assert (run.value, run.values["exs"]) == (9.0, 1.0)
    assert {line["example"] for line in run.examples} == {"right"}


def test_ids_may_be_a_tensor():
    """Each row has its own."""
    run = measured(
        {"predictions": [1.0, 2.0], "target": [0.0, 0.0], "examples": torch.tensor([70, 80])},
        metric="mse",
        output=Number(),
        track_examples=1,
    )
    assert [line["example"] for line in run.examples] == [80, 70]


def test_a_void_split_has_no_examples():
    """A diverged epoch has no value, so nothing of it is best or worst."""
    run = Run(metric="mse", output=Number(), at="last", track_examples=1)
    for _ in run.epochs(1):
        run.update(predictions=[1.0], target=[0.0])
        run.update(predictions=[math.nan], target=[0.0])
    assert run.examples == ()


def test_text_of_any_kind_is_written(tmp_path):
    """Other scripts stand as they are, half a surrogate as JSON's escape; both read back."""
    with Run(metric="mse", output=Number(), directory=tmp_path, track_examples=1) as run:
        for _ in run.epochs(1):
            run.update(predictions=[1.0, 2.0], target=[0.0, 0.0], examples=["猫", "\ud800"])
        run.export_examples()
    assert "猫" in (tmp_path / "examples.jsonl").read_text()
    assert read_examples(tmp_path / "examples.jsonl") == run.examples


def test_a_damaged_file_is_said(tmp_path):
    """With its path and line."""
    path = tmp_path / "examples.jsonl"
    path.write_text('{"rank": "best"}\nnonsense\n')
    with pytest.raises(RecordError, match=r"examples\.jsonl:2: does not hold an example"):
        read_examples(path)


def test_the_values_are_those_of_the_metric_itself():
    """Random outputs: each line has what the metric gives for that row alone."""
    logits, target = torch.randn(40, 5, generator=torch.Generator().manual_seed(0)), torch.arange(40) % 5
    run = measured(
        {"logits": logits[:30], "target": target[:30]},
        {"logits": logits[30:], "target": target[30:]},
        metric="log_loss",
        track=["brier", "hits@2", "zero_one_loss"],
        output=Category(5),
        track_examples=6,
    )
    assert len(run.examples) == 12
    for line in run.examples:
        row = line["index"]
        for name, value in line["values"].items():
            metric = get_metric(name, Category(5))
            metric.update(logits=logits[row : row + 1], target=target[row : row + 1])
            assert metric.compute().item() == pytest.approx(value, rel=1e-6)
        assert json.loads(json.dumps(line, allow_nan=False))["logits"] == logits[row].tolist()
