"""The cost of the value of all ranks: collectives and seconds of one `compute` of a collection.

Some gloo processes on this machine measure uneven shares of the same rows, by this package and by
torchmetrics in turn. Before anything is timed the value of every rank is that of a single pass over all
rows. A collective is counted where it reaches the process group, so that one of Python objects counts as
what it sends: their sizes, then their bytes.

    python benchmarks/sync.py [--ranks 2] [--rows 20000] [--turns 7]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import rival_torchmetrics
import torch
import torch.multiprocessing
from panels import OF_A_CATEGORY, Batches, Panel
from torch.distributed import distributed_c10d

from hpometrics import Category, MetricCollection

COLLECTIVES = ("all_gather", "all_gather_into_tensor", "all_reduce", "barrier", "broadcast", "reduce_scatter")
TOLERANCE = 2e-6  # torchmetrics adds up in float32

Contender = Callable[[Panel, Batches], Callable[[], Mapping[str, float]]]
Answer = tuple[Mapping[str, float], Counter[str], float]


def ours(panel: Panel, batches: Batches) -> Callable[[], Mapping[str, float]]:
    """Measure a share; what is returned synchronizes and computes."""
    metrics = MetricCollection(panel.metrics, panel.output)
    for logits, target in batches:
        metrics.update(logits=logits, target=target)
    return lambda: dict(
        zip(panel.metrics, (value.item() for value in metrics.compute().values()), strict=True)
    )


def theirs(panel: Panel, batches: Batches) -> Callable[[], Mapping[str, float]]:
    """The same by torchmetrics."""
    metrics, means = rival_torchmetrics.collection(panel), rival_torchmetrics.means_of(panel)
    for logits, target in batches:
        rival_torchmetrics.update(panel, metrics, means, logits, target)

    def compute() -> Mapping[str, float]:
        return rival_torchmetrics.values_of(panel, metrics, means)

    return compute


CONTENDERS: dict[str, Contender] = {"hpometrics": ours, "torchmetrics": theirs}


def share(batches: Batches, rank: int, ranks: int) -> Batches:
    """The first rank has as many batches as all others together."""
    half = len(batches) // 2
    return batches[:half] if rank == 0 else batches[half:][rank - 1 :: ranks - 1]


def counted(counts: Counter[str]) -> None:
    """Count the calls that reach the process group."""

    def counting(name: str, collective: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(collective)
        def call(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return collective(*args, **kwargs)

        return call

    for name in COLLECTIVES:
        wrapped = counting(name, getattr(distributed_c10d, name))
        for module in (distributed_c10d, torch.distributed):
            setattr(module, name, wrapped)


def on_rank(rank: int, asked: argparse.Namespace, store: str, answers: Any) -> None:
    """The work of one process; the first one answers."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{store}", rank=rank, world_size=asked.ranks
    )
    counts: Counter[str] = Counter()
    counted(counts)
    panel = panel_of(asked.rows)
    batches = share(panel.draw(), rank, asked.ranks)
    for turn in range(asked.turns):
        for name, contender in CONTENDERS.items():
            compute = contender(panel, batches)
            torch.distributed.barrier()
            counts.clear()
            start = time.perf_counter()
            values = compute()
            seconds = time.perf_counter() - start
            if rank == 0:
                answers.put((turn, name, (dict(values), Counter(counts), seconds)))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def panel_of(rows: int) -> Panel:
    """Twenty-one metrics of ten classes."""
    return Panel("category", Category(10), OF_A_CATEGORY, rows, 10)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=7)
    asked = parser.parse_args()
    found: dict[str, list[Answer]] = {name: [] for name in CONTENDERS}
    with tempfile.TemporaryDirectory() as folder:
        answers = torch.multiprocessing.get_context("spawn").SimpleQueue()
        store = str(Path(folder, "store"))
        processes = torch.multiprocessing.spawn(
            on_rank, (asked, store, answers), nprocs=asked.ranks, join=False
        )
        for _ in range(asked.turns * len(CONTENDERS)):
            _, name, answer = answers.get()
            found[name].append(answer)
        while not processes.join():
            pass
    panel = panel_of(asked.rows)
    whole = ours(panel, panel.draw())()
    print(f"{panel}, {asked.ranks} ranks, median of {asked.turns} turns\n")
    print(f"{'':14}{'collectives':>12}{'ms':>9}   which")
    for name, told in found.items():
        values, counts, _ = told[0]
        gap = max(abs(values[metric] - whole[metric]) for metric in panel.metrics)
        if gap > TOLERANCE:
            raise SystemExit(f"{name}: rank 0 differs by {gap:.1e} from a single pass")
        milliseconds = 1e3 * statistics.median(seconds for *_, seconds in told)
        which = ", ".join(f"{count} {called}" for called, count in sorted(counts.items()))
        print(f"{name:14}{sum(counts.values()):12}{milliseconds:9.1f}   {which}")
    pairs = zip(found["torchmetrics"], found["hpometrics"], strict=True)
    ratio = statistics.median(slow / fast for (*_, slow), (*_, fast) in pairs)
    print(f"\ntorchmetrics / hpometrics, seconds of compute: {ratio:.1f}")


if __name__ == "__main__":
    main()
