"""Additive values under torch.distributed: every rank puts its tasks together, then the ranks are added."""

from __future__ import annotations

import pytest
import torch
from ranks import on_ranks

from hpometrics.metrics.additive import (
    AverageMetric,
    DistinctMetric,
    GlobalAverageMetric,
    GlobalTimerMetric,
    SumMetric,
)
from hpometrics.metrics.reports import Metrics, aggregate_named_reports, aggregate_unnamed_reports

SHARDS = [[("a", 1, "to be"), ("b", 0, "or")], [("c", 0, "not to")], [("a", 1, "be"), ("a", 1, "so")]]
TOKENS = 100


def report_of(rank: int) -> dict:
    """What one rank measured: two tasks, one, and one of those of the first."""
    tasks = {task: Metrics() for task, *_ in SHARDS[rank]}
    for task, right, text in SHARDS[rank]:
        tasks[task].add("f1", AverageMetric(torch.tensor(right), 1))
        tasks[task].add("exs", SumMetric(1))
        tasks[task].add("distinct_1", DistinctMetric.of(text, 1))
    run = Metrics()
    run.add("tpb", GlobalAverageMetric(TOKENS * (rank + 1), 1 if rank == 0 else 0))
    run.add("tps", GlobalTimerMetric(TOKENS * (rank + 1), start=rank, end=10 + rank))
    reports = {task: metrics.report() for task, metrics in tasks.items()}
    return aggregate_named_reports(reports) | run.report()


def on_rank(rank: int) -> dict[str, float]:
    """What one of three processes does."""
    gathered = [None] * len(SHARDS)
    torch.distributed.all_gather_object(gathered, report_of(rank))
    together = aggregate_unnamed_reports(gathered)
    return {name: value.value() for name, value in together.items()}


def test_ranks_report_as_one():
    """Tasks a (1), b (0), c (0) over three processes: 1/3 on each; tokens add up, batches count once."""
    found = on_ranks(len(SHARDS), on_rank)
    assert found[0] == found[1] == found[2]
    assert found[0] == {
        "f1": pytest.approx(1 / 3), "a/f1": 1.0, "b/f1": 0.0, "c/f1": 0.0,
        "exs": 5.0, "a/exs": 3.0, "b/exs": 1.0, "c/exs": 1.0,
        "distinct_1": pytest.approx(5 / 7), "a/distinct_1": 0.75, "b/distinct_1": 1.0, "c/distinct_1": 1.0,
        "tpb": 600.0, "tps": 50.0,
    }  # fmt: skip
