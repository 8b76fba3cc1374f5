"""Examples under torch.distributed: the first rank writes what all have found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from ranks import on_ranks

from hpometrics.metrics.features import Number
from hpometrics.run import Run
from hpometrics.run.artifacts import read_examples

RANKS = 2
ERRORS = {0: [[1.0, 3.0], [2.0]], 1: [[3.0, 0.0]]}


def noted(name: str, calls: list[str]) -> Callable[..., None]:
    """A collective that notes each call."""
    collective = getattr(torch.distributed, name)
    return lambda *args, **facts: (calls.append(name), collective(*args, **facts))[1]


def on_rank(rank: int, directory: Path) -> tuple[tuple[dict, ...], int]:
    """What one of two processes does: train an epoch on its shard."""
    calls: list[str] = []
    for name in ("all_gather_object", "broadcast_object_list"):
        setattr(torch.distributed, name, noted(name, calls))
    spec = {"metric": "mae", "output": Number(), "track_examples": {"worst": 2, "best": 1}}
    with Run(directory=directory / str(rank), **spec) as run:
        for _ in run.epochs(1):
            for errors in ERRORS[rank]:
                run.update(predictions=errors, target=[0.0] * len(errors), examples=[f"{e}" for e in errors])
        run.export_examples()
    return run.examples, len(calls)


def test_the_first_rank_writes_the_examples_of_all(tmp_path):
    """Errors 3 of either rank are the worst, the first rank first; 0 of the second is the best."""
    found, calls = zip(*on_ranks(RANKS, on_rank, tmp_path), strict=True)
    assert calls == (2, 2)  # values and examples together, and the decision
    told = [(line["rank"], line["process"], line["index"], line["example"]) for line in found[0]]
    assert told == [("worst", 0, 1, "3.0"), ("worst", 1, 0, "3.0"), ("best", 1, 1, "0.0")]
    assert found[1] == found[0] == read_examples(tmp_path / "0" / "examples.jsonl")
    assert not list((tmp_path / "1").glob("examples*"))
