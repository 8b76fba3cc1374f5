"""Runs of three processes, each with tasks of its own: every rank records what one process would."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from ranks import on_ranks

from hpometrics import AverageMetric, DistinctMetric, GlobalAverageMetric, GlobalTimerMetric, SumMetric
from hpometrics.exceptions import HpometricsError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Binary, Number, Sequence
from hpometrics.run import Reported, Run

RANKS = (0, 1, 2)
COUNTED = {"accuracy", "confusion_matrix", "exs", "lines", "varied", "hello_avg", "shouts"}
"""Metrics that are one division of whole numbers; of others, sums of floats, the last digit may differ."""


class Ppl(AverageMetric):
    """As ParlAI's: the exponential of a mean."""

    def value(self) -> float:
        return math.exp(super().value())


def drawn(rows: int, seed: int) -> dict[str, torch.Tensor]:
    """Probabilities that say something about labels, with both labels."""
    generator = torch.Generator().manual_seed(seed)
    target = (torch.arange(rows) + seed) % 2
    noise = torch.rand(rows, generator=generator, dtype=torch.float64)
    return {"probabilities": 0.3 * target + 0.7 * noise, "target": target}


def uneven(run: Run, rank: int, epoch: int) -> None:
    """Task `b` is met by two ranks, `a` and `c` by one each; the third has nothing in the first epoch."""
    if rank == 0:
        run.update(task="a", **drawn(37, 1))
        run.update(task="b", **drawn(5, 2))
    if rank == 1:
        run.update(task="b", **drawn(13, 3))
        run.update(task=["c", "b", "c"], **drawn(3, 4))
        run.update(task="c", split="train", **drawn(4, 5))
    if rank == 2 and epoch:
        run.update(task="d", **drawn(6, 6))
        run.update(task="a", split="test", **drawn(8, 7))


def recorded(run: Run, rank: int, epoch: int) -> None:
    """Values per example, of the run and by teachers, of tasks and splits that only some ranks meet."""
    task = "ab"[rank % 2]
    if rank != epoch:
        run.update(task=task, **drawn(3, rank))
        run.record_local("lines", SumMetric.many([1, 1, 1]))
        run.record_local("loss", AverageMetric.many([0.1, 0.2, 0.4 + rank], [1, 2, 3]))
        run.record_local("varied", [DistinctMetric.of("x y", 1)] * 3)
        run.evaluate_response({}, None, {"text": "oh" + "!" * rank}, task=task)
    if rank == 2:
        run.record_local("seen", [SumMetric(1)], task="c", split="train")
        run.record_global("share", AverageMetric(0, 0))
    run.record_global("tokens", GlobalAverageMetric(10 * rank + 1, int(rank == 0)))
    run.global_metrics.add("rate", GlobalTimerMetric(5 + rank, start=rank, end=4 + rank))


def two_outputs(run: Run, rank: int, epoch: int) -> None:
    """Each rank has one output of one task; nobody has the price of task `a`."""
    price = {"predictions": torch.arange(3.0) + rank, "target": torch.tensor([2.0, 4.0, 1.5])}
    if rank < 2:
        run.update(feature="intent", task="ab"[rank], loss=0.5 + rank, **drawn(4 + rank, rank))
    if rank > 0:
        run.update(feature="price", task="b", loss=2.0 * rank, **price)


def a_nan_on_one(run: Run, rank: int, epoch: int) -> None:
    """One rank's batch of the first epoch is not finite, and is the first that it has."""
    batch = drawn(5 + rank, rank)
    if rank == 1 and epoch == 0:
        batch["probabilities"][2] = math.nan
    run.update(task="ab"[rank % 2], **batch)


def other_readings(run: Run, rank: int, epoch: int) -> None:
    """One rank gives decisions where the others give probabilities."""
    batch = drawn(6, rank)
    if rank == 1:
        batch["predictions"] = (batch.pop("probabilities") > 0.5).long()
    run.update(task="a", **batch)


def golden(run: Run, rank: int, epoch: int) -> None:
    """Report `a` in two parts by two ranks, `b` by the third."""
    told = {
        0: ("a", AverageMetric(1, 1), SumMetric(1), Ppl(1, 1)),
        1: ("a", AverageMetric(0, 1), SumMetric(1), Ppl(1, 0)),
        2: ("b", AverageMetric(9, 10), SumMetric(10), Ppl(4, 4)),
    }
    task, *values = told[rank]
    for name, value in zip(("f1", "exs", "ppl"), values, strict=True):
        run.record_local(name, [value], task=task)
    if rank == 0:
        run.record_global("lr", GlobalAverageMetric(0.1))


def uneven_tasks(run: Run, rank: int, epoch: int) -> None:
    """One rank has the tasks `a` and `b`, another `c`."""
    for task, value in ((("a", 1), ("b", 0)), (("c", 0),), ())[rank]:
        run.record_local("hello_avg", [AverageMetric(value)], task=task)


def parlai_test(run: Run, rank: int, epoch: int) -> None:
    """Three of four of task `a` over two ranks, one of three of task `b`."""
    for task, values in ((("a", (1, 1)), ("b", (1,))), (("a", (1, 0)),), (("b", (0, 0)),))[rank]:
        run.record_local("hello_avg", AverageMetric.many(values), task=task)


def own_tasks(run: Run, rank: int, epoch: int) -> None:
    """One rank names no task."""
    run.update(task=None if rank == 1 else "a", **drawn(4, rank))


def own_recorded_tasks(run: Run, rank: int, epoch: int) -> None:
    """One rank records without a task."""
    if rank == 1:
        run.update(**drawn(1, 1))
    run.record_local("seen", [SumMetric(1)], task=None if rank == 1 else "a")


def own_batches(run: Run, rank: int, epoch: int) -> None:
    """The first rank has no batch, one has two, one has one, of two tokens each."""
    for _ in range((0, 2, 1)[rank]):
        run.update(logits=torch.eye(3)[None, :2], target=torch.tensor([[0, 1]]))


def own_numbers(run: Run, rank: int, epoch: int) -> None:
    """Each rank logs what it saw itself; two of them would stop at other epochs than the first."""
    run.log(loss=[3.0, 2.0, 1.0, 1.0, 1.0][epoch] if rank == 0 else float(epoch + rank))


def shouting(teacher_action, labels, model_response, metrics) -> None:
    """Count the exclamation marks of an answer."""
    metrics.add("shouts", SumMetric(model_response["text"].count("!")))


PANEL = ["accuracy(tasks=micro)", "roc_auc", "roc_auc(tasks=macro)", "log_loss", "log_loss(tasks=micro)",
         "confusion_matrix", "test:accuracy", "train:log_loss"]  # fmt: skip
BINARY = {"metric": "accuracy", "output": Binary()}
CASES = {
    "uneven": (uneven, {**BINARY, "track": PANEL}),
    "recorded": (recorded, BINARY),
    "two_outputs": (
        two_outputs,
        {"metric": "combined.loss", "output": {"intent": Binary(), "price": Number()}, "defaults": False},
    ),
    "a_nan_on_one": (a_nan_on_one, BINARY),
    "other_readings": (other_readings, {**BINARY, "metric": "accuracy"}),
    **{
        f"{feed.__name__} {name}": (feed, {"metric": Reported(name, "maximize")})
        for feed, names in {
            golden: ("f1", "f1(tasks=micro)", "ppl", "ppl(tasks=micro)", "exs", "lr"),
            uneven_tasks: ("hello_avg",),
            parlai_test: ("hello_avg", "hello_avg(tasks=micro)"),
        }.items()
        for name in names
    },
    "own_tasks": (own_tasks, BINARY),
    "own_recorded_tasks": (own_recorded_tasks, BINARY),
    "own_batches": (own_batches, {"metric": "token_accuracy", "output": Sequence(3)}),
    "own_numbers": (own_numbers, {"metric": Reported("loss", "minimize"), "patience": 2, "epochs": 5}),
}
GOLDEN = {
    "golden f1": 0.7,
    "golden f1(tasks=micro)": 10 / 12,
    "golden ppl": (math.exp(2) + math.e) / 2,
    "golden ppl(tasks=micro)": math.exp(6 / 5),
    "golden exs": 12,
    "golden lr": 0.1,
    "uneven_tasks hello_avg": 1 / 3,
    "parlai_test hello_avg": 0.5 * (3 / 4 + 1 / 3),
    "parlai_test hello_avg(tasks=micro)": 4 / 7,
}


def ran(case: str, ranks: tuple[int, ...]) -> list[tuple[dict, dict]] | str:
    """The values and reasons of every epoch, in a process that has the rows of these ranks; or its error."""
    feed, facts = CASES[case]
    run = Run(**{"epochs": 2, **facts})
    for task in "ab":
        run.teach(shouting, task=task)
    try:
        for epoch in run.epochs():
            for rank in ranks:
                feed(run, rank, epoch)
    except HpometricsError as err:
        return f"{type(err).__name__}: {err}"
    return [(dict(record.values), dict(record.reasons)) for record in run.history]


def counted(collective: Callable[..., None], calls: list[int]) -> Callable[..., None]:
    """The collective, and a note of each call."""
    return lambda *args, **facts: (calls.append(1), collective(*args, **facts))[1]


def on_rank(rank: int) -> dict[str, tuple]:
    """What one process does: every case in turn, counting the collectives of each."""
    calls: list[int] = []
    for name in ("all_gather_object", "broadcast_object_list"):
        setattr(torch.distributed, name, counted(getattr(torch.distributed, name), calls))
    found = {}
    for case in CASES:
        calls.clear()
        found[case] = ran(case, (rank,)), len(calls)
    return found


@pytest.fixture(scope="module")
def ranked() -> list[dict[str, tuple]]:
    """What each of three processes found, by case; one that fails or waits for the others is an error."""
    return on_ranks(len(RANKS), on_rank)


MEASURED = [case for case in CASES if not case.startswith("own_") and case != "other_readings"]


@pytest.mark.parametrize("rank", RANKS)
@pytest.mark.parametrize("case", MEASURED)
def test_ranks_record_what_one_process_would(ranked, case, rank):
    """The same names, reasons and values: to the last bit where they are counted, else within 1e-12."""
    found, expected = ranked[rank][case][0], ran(case, RANKS)
    assert len(found) == len(expected) == 2
    for (values, reasons), (whole, why) in zip(found, expected, strict=True):
        assert (set(values), reasons) == (set(whole), why)
        for name, value in whole.items():
            exact = name.rpartition("/")[2].partition("(")[0].rpartition(":")[2] in COUNTED
            np.testing.assert_allclose(values[name], value, rtol=0 if exact else 1e-12, err_msg=name)


@pytest.mark.parametrize("case", GOLDEN)
def test_ranks_and_one_process_give_the_known_values(ranked, case):
    """ParlAI's own examples of several tasks and workers."""
    name = CASES[case][1]["metric"].name
    for found in (ran(case, RANKS), *(ranked[rank][case][0] for rank in RANKS)):
        assert found[0][0][name] == pytest.approx(GOLDEN[case], rel=1e-15)


def test_a_run_with_tasks_measured_what_it_should():
    """By hand, of the cases above: so that ranks and one process are not wrong alike."""
    (first, _), (second, _) = ran("uneven", RANKS)
    assert {name.split("/")[0] for name in first if "/" in name} == {"a", "b", "c", "train:c"}
    assert {name.split("/")[0] for name in second if "/" in name} == {"a", "b", "c", "d", "train:c", "test:a"}
    assert sum(map(sum, first["confusion_matrix"])) == 37 + 5 + 13 + 3
    (first, why), (second, _) = ran("recorded", RANKS)
    assert [first["lines"], first["a/lines"], first["b/lines"]] == [6, 3, 3]
    assert [first["tokens"], first["rate"], first["shouts"]] == [33, 18 / 6, 3]
    assert (first["train:seen"], first["train:c/seen"], second["a/varied"]) == (1, 1, 2 / 12)
    assert math.isnan(first["share"]) and "share" in why


def test_a_nan_on_one_rank_voids_its_task_on_all(ranked):
    """On every rank with the same reason, and that epoch alone; the other task has its values."""
    for rank in RANKS:
        (first, why), (second, none) = ranked[rank]["a_nan_on_one"][0]
        void = {name for name, value in first.items() if math.isnan(value)}
        assert void == why.keys() and "a/accuracy" not in void
        assert {"accuracy", "b/accuracy"} <= void and why["accuracy"].startswith("task b: ")
        assert all(math.isfinite(value) for value in second.values()) and not none


def test_what_one_rank_could_not_read_is_left_out(ranked):
    """What nobody asked for is measured where all ranks can; what was asked for, over all rows."""
    panel = MetricCollection(["accuracy", "f1"], Binary())
    for rank in RANKS:
        panel.update(**drawn(6, rank))
    whole = {name: value.item() for name, value in panel.compute().items()}
    for rank in RANKS:
        for values, reasons in ranked[rank]["other_readings"][0]:
            counted = {**whole, "exs": 18}
            assert values == {**counted, **{f"a/{name}": value for name, value in counted.items()}}
            assert not reasons


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ("own_tasks", "MetricInputError: some updates name a task and some do not"),
        ("own_recorded_tasks", "RunError: some recorded values name a task and some do not"),
    ],
)
def test_ranks_that_disagree_are_all_told(ranked, case, text):
    """Rows that belong to no task would be lost beside those that do; no rank waits for another."""
    for rank in RANKS:
        assert ranked[rank][case][0].startswith(text)


def test_what_ranks_log_is_the_first_ranks(ranked):
    """So that all end at the same epoch: 3, 2, 1, 1, 1 stops after five, 1, 2, 3 would after three."""
    for rank in RANKS:
        assert [values["loss"] for values, _ in ranked[rank]["own_numbers"][0]] == [3, 2, 1, 1, 1]


def test_batches_of_ranks_are_parts_of_one(ranked):
    """Six tokens in two batches, of which the first rank has none."""
    for rank in RANKS:
        for values, _ in ranked[rank]["own_batches"][0]:
            assert (values["ltpb"], values["exs"]) == (3, 3)


def test_an_epoch_takes_the_same_collectives_whatever_it_met(ranked):
    """One to tell the values, one to tell the decision, however many tasks, outputs, splits and ranks."""
    for rank in RANKS:
        calls = [count / len(found) for found, count in ranked[rank].values() if isinstance(found, list)]
        assert len(calls) > 10 and set(calls) == {2}
