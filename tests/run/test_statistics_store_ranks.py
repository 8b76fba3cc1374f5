"""What two processes keep together: the statistics and row values of both, written by the first."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from ranks import on_ranks

from hpometrics.metrics.features import Binary, Category, Number, OutputFeature
from hpometrics.run import Run
from hpometrics.run.statistics_store import STATISTICS_FILE, StoredRows, read_statistics

ROWS = 5


def on_rank(rank: int, folder: Path) -> None:
    """Train on five rows of a task of its own and two of a shared one, in a directory of its own."""
    own = folder / str(rank)
    own.mkdir()
    with Run(metric="accuracy", output=Category(2), statistics="all", directory=own) as run:
        for _ in run.epochs(2):
            for task, rows in (("own" + str(rank), ROWS), ("shared", 2)):
                logits = torch.eye(2)[torch.full((rows,), rank)]
                run.update(task=task, logits=logits, target=torch.zeros(rows, dtype=torch.long))


def test_the_first_rank_writes_the_statistics_of_all(tmp_path):
    """Matrices are added and rows put together, task by task; the other rank writes nothing."""
    on_ranks(2, on_rank, tmp_path)
    for kept in read_statistics(tmp_path / "0"):
        matrices = {part.task: part.statistics["Confusion()"]["matrix"].tolist() for part in kept.parts}
        assert matrices == {
            "own0": [[ROWS, 0], [0, 0]],
            "own1": [[0, ROWS], [0, 0]],
            "shared": [[2, 2], [0, 0]],
        }
        rows = {part.task: len(part.statistics["Scores()"]["target"]) for part in kept.parts}
        assert rows == {part.task: part.rows for part in kept.parts} == {"own0": 5, "own1": 5, "shared": 4}
        assert kept.rows is not None and len(kept.rows.values) == 14
    assert [kept.epoch for kept in read_statistics(tmp_path / "0")] == [0, 1]
    assert not (tmp_path / "1" / STATISTICS_FILE).exists()


SIZES = 30, 0, 50
CASES: dict[str, tuple[str, OutputFeature]] = {
    "rows": ("accuracy", Binary()),
    "pairs": ("roc_auc", Binary()),
    "cells": ("mcc", Binary()),
    "groups": ("rmse", Number()),
    "groups of stored rows": ("average_precision", Binary()),
    "clusters": ("accuracy", Binary()),
}


def update(run: Run, rank: int, case: str) -> None:
    """Add the rows of a rank, which belong to ids that other ranks have too; one rank has no rows."""
    random = torch.Generator().manual_seed(rank)
    target = torch.randint(2, (SIZES[rank],), generator=random)
    scores = 0.3 * target + 0.7 * torch.rand(SIZES[rank], generator=random)
    read = "predictions" if case == "groups" else "probabilities"
    ids = {"by": torch.arange(SIZES[rank]) % 9} if case == "clusters" else {}
    if SIZES[rank]:
        run.update(**{read: scores}, target=target, **ids)


def stored_rows(folder: Path, ranks: tuple[int, ...]) -> dict[str, StoredRows | None]:
    """The row values of each case, where a process has the rows of these ranks."""
    kept = {}
    for case, (metric, output) in CASES.items():
        home = folder / case
        with Run(metric=metric, output=output, statistics="rows", directory=home) as run:
            for _ in run.epochs(1):
                for rank in ranks:
                    update(run, rank, case)
        kept[case] = next((one.rows for one in read_statistics(home)), None) if 0 in ranks else None
    return kept


def shared_rows(rank: int, folder: Path) -> dict[str, StoredRows | None]:
    """The row values of a rank that has its own rows."""
    return stored_rows(folder, (rank,))


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> tuple[dict[str, StoredRows], ...]:
    """The row values of one process, and of three in a first and a second search."""
    home = tmp_path_factory.mktemp("rows")
    shared = [on_ranks(len(SIZES), shared_rows, home / name)[0] for name in ("first", "second")]
    return stored_rows(home / "alone", (0, 1, 2)), *shared


@pytest.mark.parametrize("case", CASES)
def test_row_values_are_those_of_all_ranks(kept, case):
    """In the order of ranks, as one process has them; groups have other rows, and the same spread."""
    alone, rows, again = (one[case] for one in kept)
    assert rows.digest == again.digest and (rows.method, rows.clustered) == (alone.method, alone.clustered)
    assert rows.values.mean() == pytest.approx(alone.values.mean())
    if case.startswith("groups"):
        errors = [np.sqrt(one.values.var() / len(one.values)) for one in (rows, alone)]
        assert errors[0] == pytest.approx(errors[1], rel=0.3)
    else:
        assert np.array_equal(rows.values, alone.values)


def rows_of_one(rank: int, folder: Path) -> None:
    """Only the first rank is asked for rows."""
    keeping = "small" if rank else "rows"
    with Run(metric="accuracy", output=Binary(), statistics=keeping, directory=folder) as run:
        update(run, 2 * rank, "rows")


@pytest.mark.filterwarnings("ignore:no row values.*rank 1 keeps none:UserWarning")
def test_the_rows_of_one_rank_alone_are_not_kept(tmp_path):
    """They would be a part of those that the value is of."""
    on_ranks(2, rows_of_one, tmp_path)
    (kept,) = read_statistics(tmp_path)
    assert kept.rows is None
