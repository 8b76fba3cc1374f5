"""Rankings on an accelerator: what a batch asks of it, counted on any machine, and timed where there is one.

Counted with tensors that have a shape and no values, per batch: operations, top-k passes, waits of the host.
On an accelerator the same passes are timed by the clock, from an idle device to the last value; there torch
itself forbids waits during the updates (`torch.cuda.set_sync_debug_mode`), so that one would end the script.

    python benchmarks/ranking_device.py [--users 6040] [--items 3706] [--batch 1024] [--turns 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from ranking import FORTY
from rankings import CUTOFFS, Evaluation
from torch.utils._python_dispatch import TorchDispatchMode

from hpometrics import MetricCollection
from hpometrics.testing import waits_of

PANELS = {"40 values": FORTY, "ndcg@50": ("ndcg@50",), "ndcg@10": ("ndcg@10",)}


class Operations(TorchDispatchMode):
    """Counts what is asked of a device."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        first = made[0] if isinstance(made, tuple | list) and made else made
        if isinstance(first, torch.Tensor) and first.device.type != "cpu" and not func.is_view:
            self.counts[func._schema.name.partition("::")[2]] += 1
        return made


def batches(task: Evaluation) -> Iterator[dict[str, Any]]:
    """The arguments of each update: scores for the device, and lists and users as a loader has them."""
    for first, last in task.parts:
        yield {
            "scores": task.scores[first:last],
            "target": task.relevant.part(first, last),
            "users": torch.arange(first, last),
        }


def count(task: Evaluation, names: Sequence[str]) -> tuple[Counter[str], int]:
    """Operations and waits of the updates of a pass."""
    metrics = MetricCollection(list(names), task.output)
    waits, operations = 0, Operations()
    for batch in batches(task):
        given = {**batch, "scores": batch["scores"].to("meta")}
        with operations:
            waits += len(waits_of(partial(metrics.update, **given)))
    with operations:
        metrics.to("meta")  # before a move, lists that were joined are measured
    return operations.counts, waits


@contextmanager
def no_waits() -> Iterator[None]:
    """Have torch end the script where the host waits."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def passes(task: Evaluation, device: torch.device) -> dict[str, Any]:
    """The passes that are timed; each ends when its last value is known."""
    given = [{**batch, "scores": batch["scores"].to(device)} for batch in batches(task)]
    panels = {name: MetricCollection(list(names), task.output) for name, names in PANELS.items()}

    def measured(metrics: MetricCollection) -> None:
        metrics.reset()
        with no_waits():
            for batch in given:
                metrics.update(**batch)
        torch.stack(list(metrics.compute().values())).tolist()

    def bare() -> None:
        for batch in given:
            batch["scores"].topk(max(CUTOFFS), dim=1)
        torch.cuda.synchronize(device)

    return {"torch.topk(k=50)": bare} | {name: partial(measured, panel) for name, panel in panels.items()}


def print_times(task: Evaluation, device: torch.device, turns: int) -> None:
    """Time the passes in turns, after one that warms up."""
    steps = passes(task, device)
    spent: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(turns + 1):
        for name, step in steps.items():
            torch.cuda.synchronize(device)
            start = time.perf_counter()
            step()
            if turn:
                spent[name].append(time.perf_counter() - start)
    print(f"\n{torch.cuda.get_device_name(device)}, no update waited; milliseconds of a pass, {turns} turns")
    for name, seconds in spent.items():
        print(f"{name:24}{1000 * statistics.median(seconds):12.2f}")


def main() -> None:
    """Print what is counted, and what is timed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=6040)
    parser.add_argument("--items", type=int, default=3706)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--turns", type=int, default=5)
    options = parser.parse_args()
    task = Evaluation(options.users, options.items, options.batch)
    size = len(list(task.parts))
    print(f"{task} in {size} batches; of each batch")
    print(f"{'':24}{'operations':>12}{'top-k':>12}{'waits':>12}")
    for name, names in PANELS.items():
        operations, waits = count(task, names)
        told = operations.total(), operations["topk"], waits
        print(f"{name:24}" + "".join(f"{number / size:12.1f}" for number in told))
    if torch.cuda.is_available():
        print_times(task, torch.device("cuda"), options.turns)
    else:
        print("\nno accelerator here: nothing is timed")


if __name__ == "__main__":
    main()
