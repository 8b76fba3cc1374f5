"""What two processes keep together: the statistics of the rows of both, written by the first."""

from __future__ import annotations

from pathlib import Path

import torch
from ranks import on_ranks

from hpometrics.metrics.features import Category
from hpometrics.run import Run
from hpometrics.run.statistics_store import STATISTICS_FILE, read_statistics

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
    assert [kept.epoch for kept in read_statistics(tmp_path / "0")] == [0, 1]
    assert not (tmp_path / "1" / STATISTICS_FILE).exists()
