"""A whole evaluation against one bare top-k: forty values of rankings, and the pieces they are made of.

All contenders rank the same scores in turn, in one process; a row prints the median of the CPU seconds of a
pass over all batches and ratios taken within each turn. Before anything is timed the values must agree.
Other libraries are timed where they are installed: RecBole and WarpRec in the same turns; ranx, ir_measures
and torchmetrics (on a sample of users, scaled) once.

    python benchmarks/ranking.py [--users 6040] [--items 3706] [--threads 1] [--turns 5] [--no-rivals]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import ranking_floor
import ranking_recommenders
import ranking_rivals
import torch
from rankings import CUTOFFS, OF_ITEMS, OF_USERS, Evaluation, Values, at_each_cutoff

from hpometrics import MetricCollection
from hpometrics.metrics.registry.register import get_metric
from hpometrics.metrics.retrieval.ranking_batch import RankingBatch

FORTY = at_each_cutoff(OF_USERS + OF_ITEMS)
TOLERANCE = 1e-6
IN_FLOAT32 = {"warprec": 2e-6}
"""Tolerances of who adds up in float32: its Gini index of 3,706 items differs by 1.1e-6."""

Contender = Callable[[Evaluation], object]
Measure = Callable[[Evaluation], Values]
Seconds = dict[str, list[float]]


@cache
def collection(task: Evaluation, names: tuple[str, ...]) -> MetricCollection:
    """Build the metrics; a run does so once, and resets them each epoch."""
    return MetricCollection([get_metric(name, task.output) for name in names], task.output)


def forty(task: Evaluation) -> MetricCollection:
    """Build all forty."""
    return collection(task, FORTY)


def ours(task: Evaluation, names: tuple[str, ...] = FORTY) -> Values:
    """Measure values with this package."""
    metrics = collection(task, names)
    metrics.reset()
    for first, last in task.parts:
        metrics.update(
            scores=task.scores[first:last],
            target=task.relevant.part(first, last),
            users=torch.arange(first, last),
        )
    return {name: value.item() for name, value in metrics.compute().items()}


def bare_topk(task: Evaluation) -> None:
    """The best fifty of each user, of scores that are masked already, and nothing else."""
    for first, last in task.parts:
        task.masked[first:last].topk(max(CUTOFFS), dim=1)


def bare_sort(task: Evaluation) -> None:
    """One vectorized sort of scores that are masked already."""
    for first, last in task.parts:
        np.sort(task.masked[first:last].numpy(), axis=1)


def areas(task: Evaluation) -> float:
    """The exact area of each user, ties as half; the mean over users."""
    found = []
    for first, last in task.parts:
        batch = RankingBatch(
            task.output,
            scores=task.scores[first:last],
            target=task.relevant.part(first, last),
            users=torch.arange(first, last),
        )
        right, positives, others = batch.areas
        found.append(right / positives / others)
    return torch.cat(found).mean().item()


CONTENDERS: dict[str, Contender] = {
    "torch.topk(k=50)": bare_topk,
    "hand-fused, 40 values": ranking_floor.measure,
    "hpometrics, 40 values": ours,
    "hpometrics, ndcg@50": lambda task: ours(task, ("ndcg@50",)),
    "hpometrics, ndcg@10": lambda task: ours(task, ("ndcg@10",)),
    "np.sort": bare_sort,
    "hpometrics, exact areas": areas,
}

BARS = (
    ("hpometrics, 40 values", "torch.topk(k=50)", 1.2),
    ("hpometrics, 40 values", "hpometrics, ndcg@50", 1.3),
    ("hpometrics, 40 values", "hpometrics, ndcg@10", 1.3),
    ("hpometrics, exact areas", "np.sort", 1.3),
)
"""The ratios: two contenders, and the bar."""

FASTER = 4.5
"""How many times longer a recommender library should take for the forty values."""


def check_agreement(task: Evaluation, rivals: Mapping[str, Measure]) -> float:
    """The largest difference of any value from the hand-fused pass.

    Raises:
        SystemExit: a value differs by more than the tolerance; what is timed must first agree.
    """
    expected, largest = ranking_floor.measure(task), 0.0
    for name, measure in {"hpometrics": ours, **rivals}.items():
        values = measure(task)
        for key in values.keys() & expected.keys():
            gap = abs(values[key] - expected[key]) / max(1.0, abs(expected[key]))
            if not gap <= IN_FLOAT32.get(name, TOLERANCE):
                raise SystemExit(f"{name} says {key} {values[key]!r}, the floor {expected[key]!r}")
            largest = max(largest, gap)
    return largest


def time_turns(task: Evaluation, turns: int, contenders: Mapping[str, Contender]) -> Seconds:
    """CPU seconds of each contender, turn by turn, in an order that is drawn for each turn.

    Whoever comes behind a contender of other code finds its own out of the caches: 0.6 ms of 30.
    """
    spent: Seconds = {name: [] for name in contenders}
    order, drawn = list(contenders), random.Random(7)
    for _ in range(turns):
        drawn.shuffle(order)
        for name in order:
            start = time.process_time()
            contenders[name](task)
            spent[name].append(time.process_time() - start)
    return spent


def ratio(spent: Seconds, name: str, base: str) -> float:
    """The median of the ratios within the turns."""
    return statistics.median(a / b for a, b in zip(spent[name], spent[base], strict=True))


def print_rivals(task: Evaluation, rivals: Mapping[str, Measure], own: float) -> None:
    """Time each rival once: they take seconds where the rest takes tenths."""
    for name, measure in rivals.items():
        start = time.process_time()
        measure(task)
        spent = (time.process_time() - start) * ranking_rivals.scale(name, task)
        print(f"{name:48}{spent:9.3f}{spent / own:18.1f} x hpometrics")


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=6040)
    parser.add_argument("--items", type=int, default=3706)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--no-rivals", action="store_true", help="leave out what is slow")
    return parser.parse_args()


def main() -> None:
    """Print the table."""
    options = arguments()
    torch.set_num_threads(options.threads)
    task = Evaluation(options.users, options.items)
    rivals = {} if options.no_rivals else ranking_rivals.installed()
    recommenders = {} if options.no_rivals else ranking_recommenders.installed()
    gap = check_agreement(task, {**rivals, **recommenders})
    spent = time_turns(task, options.turns, {**CONTENDERS, **recommenders})
    print(f"{task}, {options.threads} thread(s); values differ by {gap:.1e} at most")
    print(f"CPU seconds of a pass, median of {options.turns} turns; ratios within a turn\n")
    for name, seconds in spent.items():
        print(f"{name:48}{statistics.median(seconds):9.3f}")
    print_rivals(task, rivals, statistics.median(spent["hpometrics, 40 values"]))
    print()
    for name, base, bar in BARS:
        print(f"{f'{name} / {base}':64}{ratio(spent, name, base):7.2f}   at most {bar}")
    for name in recommenders:
        base = "hpometrics, 40 values"
        print(f"{f'{name} / {base}':64}{ratio(spent, name, base):7.2f}   at least {FASTER}")


if __name__ == "__main__":
    main()
