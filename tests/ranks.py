"""A function on the ranks of a process group, each a process forked from one that has loaded the package."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from traceback import format_exc
from typing import Any

import torch
from forked import Forked

PATIENCE = timedelta(seconds=60)
"""Time after which a rank that waits for the others has waited in vain."""


def on_ranks(count: int, function: Callable[..., Any], *arguments: object) -> list[Any]:
    """Return what a function returns on each rank, called with the rank and these arguments.

    A rank that fails is an error with its traceback; where others fail with it, that of the first.
    """
    with TemporaryDirectory() as name:
        folder = Path(name)
        processes = [
            Forked(folder, _on_rank, rank, count, folder, function, arguments) for rank in range(count)
        ]
        codes = [process.ended() for process in processes]
        failures = sorted(folder.glob("*.failed"), key=lambda path: path.stat().st_mtime_ns)
        assert not failures, f"{failures[0].stem} failed:\n{failures[0].read_text(encoding='utf8')}"
        assert codes == [0] * count, codes
        return [pickle.loads((folder / f"rank {rank}").read_bytes()) for rank in range(count)]


def join(rank: int, count: int, store: Path) -> None:
    """Join the process group that meets in a file."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=count, timeout=PATIENCE
    )


def _on_rank(
    rank: int, count: int, folder: Path, function: Callable[..., Any], arguments: tuple[object, ...]
) -> None:
    home = folder / f"rank {rank}"
    try:
        join(rank, count, folder / "store")
        home.write_bytes(pickle.dumps(function(rank, *arguments)))
        torch.distributed.barrier()
        torch.distributed.destroy_process_group()
    except Exception:
        home.with_suffix(".failed").write_text(format_exc(), encoding="utf8")
        raise
