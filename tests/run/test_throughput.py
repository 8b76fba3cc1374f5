"""Examples, tokens and truncation, by hand."""

from __future__ import annotations

import math

import pytest
import torch
from ranks import on_ranks

from hpometrics import Binary, Category, Run, Sequence
from hpometrics.exceptions import MetricInputError, RunError
from hpometrics.metrics.multitask import by_task
from hpometrics.run.logged_values import reading, together
from hpometrics.run.throughput import Throughput, Timer

RANKS = 3


def tallied(*batches: dict, output=None, split: str = "validation", laps: Timer | None = None) -> dict:
    """The values of one split after some batches."""
    tallies = Throughput()
    for batch in batches:
        named = {key: batch[key] for key in ("task", "feature") if key in batch}
        tensors = {key: value for key, value in batch.items() if key not in named}
        parts = by_task(named.get("task"), tensors)
        read = {task: tallies.read(part, output)[0] for task, part in parts}
        tallies.add(read, split, named.get("feature"))
    state = over_all_ranks(tallies.state(laps).get(split, {}))
    return {name: value.value() for name, value in reading(state, ["exs"]).items()}


def over_all_ranks(state: dict) -> dict:
    """What every rank has, where there are several."""
    if not torch.distributed.is_initialized():
        return state
    states = [None] * RANKS
    torch.distributed.all_gather_object(states, state)
    return together(states)


def rows(count: int, **said) -> dict:
    """A batch of so many rows."""
    return {"target": torch.zeros(count), **said}


def test_every_value_by_hand():
    """Rows of 3, 5 and 4 context tokens, of which 0, 2 and 1 more were cut; labels of 2, 2 and 5, 4 cut."""
    first = rows(
        2, context_tokens=[3, 5], context_truncated=[0, 2], label_tokens=[2, 2], generated_tokens=[7, 9]
    )
    second = rows(1, context_tokens=[4], context_truncated=[1], label_tokens=[5], generated_tokens=[2])
    first["label_truncated"], second["label_truncated"] = [0, 0], [4]
    assert tallied(first, second) == {
        "exs": 3.0, "clen": 5.0, "ctrunc": 2 / 3, "ctrunclen": 1.0, "llen": 13 / 3, "ltrunc": 1 / 3,
        "ltrunclen": 4 / 3, "gen_n_toks": 6.0, "ctpb": 6.0, "ltpb": 4.5, "tpb": 10.5,
    }  # fmt: skip


def test_tokens_per_batch_as_printed():
    """A printed table has 9831 context and 1746 label tokens per batch, 11577 together."""
    batches = [rows(2, context_tokens=[c, 9000], label_tokens=[n, 1000]) for c, n in [(800, 700), (862, 792)]]
    values = tallied(*batches)
    assert (values["ctpb"], values["ltpb"], values["tpb"]) == (9831.0, 1746.0, 11577.0)


def test_lists_arrays_and_tensors_count_alike():
    """Whatever type the whole numbers have."""
    said = [3, 0, 5]
    forms = [
        said,
        tuple(said),
        torch.tensor(said),
        torch.tensor(said, dtype=torch.uint8),
        torch.tensor(said).numpy(),
    ]
    values = [tallied(rows(3, context_tokens=form, context_truncated=form)) for form in forms]
    assert all(value == values[0] for value in values)
    assert (values[0]["clen"], values[0]["ctrunc"]) == (16 / 3, 2 / 3)


@pytest.mark.parametrize(
    ("counts", "told"),
    [
        ([1, 2], r"one whole number per row, shape \(3,\) here; got int64 of shape \(2,\)"),
        (7, r"got int64 of shape \(\)"),
        (torch.ones(3), r"got float32 of shape \(3,\)"),
        ([True, False, True], "got bool of shape"),
        (torch.ones(3, 1, dtype=torch.int64), r"of shape \(3, 1\)"),
        ([1, -1, 2], "token counts from 0, got -1"),
    ],
)
def test_counts_that_are_none(counts, told):
    """The message names the keyword, and nothing is counted."""
    with pytest.raises(MetricInputError, match=f"^context_tokens .*{told}"):
        tallied(rows(3, context_tokens=counts))


def test_labels_are_counted_from_token_ids():
    """What is not `ignore_index`, unless the caller says how many there are."""
    target = torch.tensor([[1, 2, -100], [3, -100, -100]])
    output = Sequence(vocab_size=5)
    assert tallied({"target": target}, output=output) == {"exs": 2.0, "llen": 1.5, "ltpb": 3.0}
    assert tallied({"target": target, "label_tokens": [4, 4]}, output=output)["llen"] == 4.0
    assert tallied({"target": target}, output=Category(5)) == {"exs": 2.0}


def test_a_device_is_not_waited_for():
    """Counts of another device stay tensors there until the epoch closes: `meta` has nothing to read."""
    target = torch.zeros(4, 3, dtype=torch.long, device="meta")
    counts = torch.zeros(4, dtype=torch.long, device="meta")
    said = {"target": target, "context_tokens": counts, "context_truncated": counts}
    tallies = Throughput()
    for _ in range(2):
        tally, rest = tallies.read(said, Sequence(vocab_size=5))
        tallies.add({None: tally}, "train")
    assert {value.device.type for value in tally.totals.values()} == {"meta"} and list(rest) == ["target"]


def test_tasks_have_their_own_and_one_of_all():
    """3434 and 4982 examples make 8416; lengths of all tasks are the mean of the tasks'."""
    values = tallied(
        rows(3434, task="a", context_tokens=[2] * 3434), rows(4982, task="b", context_tokens=[4] * 4982)
    )
    assert (values["exs"], values["a/exs"], values["b/exs"]) == (8416.0, 3434.0, 4982.0)
    assert (values["clen"], values["a/clen"], values["b/clen"]) == (3.0, 2.0, 4.0)
    assert values["ctpb"] == (2 * 3434 + 4 * 4982) / 2 and "a/ctpb" not in values


def test_a_batch_of_several_tasks_is_one():
    """Two batches, of 2 + 4 and 4 + 4 tokens: 7 each, whatever the tasks of their rows."""
    values = tallied(*[rows(2, task=["a", "b"], context_tokens=[n, 4], label_tokens=[0, 1]) for n in (2, 4)])
    assert (values["ctpb"], values["ltpb"], values["tpb"]) == (7.0, 1.0, 8.0)
    assert (values["exs"], values["a/clen"], values["b/clen"]) == (4.0, 3.0, 4.0)


def test_some_batches_without_a_task_are_refused():
    """Nobody could say what the value of all tasks is."""
    with pytest.raises(
        RunError, match="either all validation batches of an epoch must name their task, or none"
    ):
        tallied(rows(1, task="a"), rows(1))


def test_examples_given_feature_by_feature_count_once():
    """Two outputs of the same three rows are three examples."""
    assert tallied(rows(3, feature="one"), rows(3, feature="two"))["exs"] == 3.0


def test_batches_that_do_not_say_are_no_batches_of_none():
    """A mean is over the batches and rows that say it."""
    values = tallied(rows(2, context_tokens=[5, 5]), rows(7), rows(1, label_tokens=[3]))
    assert (values["exs"], values["clen"], values["ctpb"], values["ltpb"]) == (10.0, 5.0, 10.0, 3.0)
    assert "tpb" not in values


def test_rates_are_of_the_seconds_of_their_split():
    """Ten examples of 30 tokens in the two seconds that validation took."""
    laps = Timer()
    laps.seconds = {"validation": 2.0, "train": 5.0}
    said = rows(10, context_tokens=[2] * 10, label_tokens=[1] * 10)
    values = tallied(said, laps=laps)
    assert [values[name] for name in ("exps", "ctps", "ltps", "tps")] == pytest.approx([5.0, 10.0, 5.0, 15.0])
    assert tallied(said, laps=laps, split="train")["exps"] == pytest.approx(2.0)


def test_a_run_counts_what_it_is_given():
    """An epoch whose output was not finite has its examples all the same; rates need a watch."""
    run = Run(metric="log_loss", output=Binary())
    for epoch in run.epochs(2):
        bad = torch.tensor([0.0, math.nan if epoch == 0 else 1.0])
        for _ in range(3):
            run.update(logits=bad, target=torch.tensor([0, 1]), context_tokens=[1, 2])
        run.update(split="train", logits=torch.zeros(1), target=torch.tensor([1]))
    first, second = (record.values for record in run.history)
    assert math.isnan(first["log_loss"]) and math.isfinite(second["log_loss"])
    assert all(
        (v["exs"], v["train:exs"], v["clen"], v["ctpb"]) == (6.0, 1.0, 1.5, 3.0) for v in (first, second)
    )
    assert "exps" not in first and "train:clen" not in first


def test_a_batch_that_is_refused_is_not_counted():
    """Whether the metrics refuse it or the tally does."""
    run = Run(metric="log_loss", output=Binary())
    right = {"logits": torch.zeros(2), "target": torch.tensor([0, 1])}
    for _ in run.epochs(1):
        run.update(**right)
        for wrong in ({**right, "logits": torch.zeros(3)}, {**right, "label_tokens": [1]}):
            with pytest.raises(MetricInputError):
                run.update(**wrong)
    assert run.values["exs"] == 2.0


def test_a_watched_run_has_rates():
    """Of what it is told, on each split."""
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    run = Run(metric="log_loss", output=Binary())
    run.watch(model, optimizer)
    for _ in run.epochs(1):
        model(torch.ones(2, 1)).sum().backward()
        optimizer.step()
        said = {"logits": torch.zeros(2), "target": torch.tensor([0, 1])}
        run.update(split="train", **said, context_tokens=[4, 4], label_tokens=[1, 1])
        run.update(**said)
    assert run.values["train:tps"] == pytest.approx(5 * run.values["train:exps"], rel=1e-9)
    assert run.values["exps"] > 0 and "tps" not in run.values


def on_rank(rank: int) -> dict:
    """What one of three processes counts: two batches, two, and none."""
    batches = [rows(2, task="ab"[rank], context_tokens=[10 + rank, 10])] * 2 if rank < 2 else []
    return tallied(*batches)


def test_ranks_count_as_one():
    """Tokens add up over ranks and batches count once: 20 and 21 tokens per batch are 41, on every rank."""
    found = on_ranks(RANKS, on_rank)
    assert found[0] == found[1] == {
        "exs": 8.0, "a/exs": 4.0, "b/exs": 4.0, "clen": 10.25, "a/clen": 10.0, "b/clen": 10.5, "ctpb": 41.0,
    }  # fmt: skip
    assert found[2] == found[0]
