"""Trials that a warm start saves: searches of tables of real trainings, begun cold and from earlier ones.

For each of three data sets of scikit-learn there are two tables, of two halves of its rows: every point of a
grid of params is trained once on a part of a half and measured on the rest, in every epoch. The earlier
search, of as many trials, searches the table of the first half, the new one that of the second half: other
rows of the same source, as when data has grown. All draw by TPE; the seeds are 0, 1, 2, ...

Counted are the trials until a search reaches the best value that the cold search of the same seed finds.
"""

from __future__ import annotations

import argparse
import logging
import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import optuna
import torch
from several_objectives import Curve, Data, fit
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

from hpometrics import Choice, Int, OptunaObjective, Reported, Run

EPOCHS = 8
LOADERS: Mapping[str, Callable[..., Any]] = {
    "digits": load_digits,
    "breast_cancer": load_breast_cancer,
    "wine": load_wine,
}
SPACE = {
    "lr": Int(0, 8),  # 10 ** (-4 + lr * 7 / 16): from 1e-4 to 3e-1
    "width": Int(2, 6),  # 2 ** width
    "layers": Int(1, 2),
    "optimizer": Choice(["sgd", "adam"]),
}
LOSS = Reported("log_loss", "minimize")
WAYS = ("both", "values", "points")
"""The best points first and values for the sampler; values alone; points alone, as by `enqueue_trial`."""

Table = Mapping[tuple[Any, ...], Curve]


def make_tables(name: str) -> tuple[Table, Table]:
    """Train each point of the grid on both halves of a data set."""
    x, y = LOADERS[name](return_X_y=True)
    scaled = (x - x.mean(axis=0)) / np.maximum(x.std(axis=0), 1e-9)
    features, target = torch.tensor(scaled, dtype=torch.float32), torch.tensor(y)
    order = np.random.default_rng(0).permutation(len(x))
    halves = []
    for half in np.array_split(order, 2):
        cut = 2 * len(half) // 3
        data = Data(features, target, half[:cut], half[cut:])
        halves.append(
            {point: _curve(point, data) for point in product(*(one.points() for one in SPACE.values()))}
        )
    return halves[0], halves[1]


def _curve(point: tuple[Any, ...], data: Data) -> Curve:
    lr, width, layers, optimizer = point
    params = {"lr": 10 ** (-4 + lr * 7 / 16), "width": 2**width, "layers": layers, "optimizer": optimizer}
    return fit(params, data, seed=0, epochs=EPOCHS)


def replay(table: Table) -> Callable[[Mapping[str, Any], Run], None]:
    """Return an engine that reports the curve of its params in a table."""

    def engine(params: Mapping[str, Any], run: Run) -> None:
        curve = table[tuple(params[name] for name in SPACE)]
        for epoch in run.epochs():
            run.log(log_loss=curve[epoch]["log_loss"])

    return engine


def search(
    table: Table, seed: int, trials: int, earlier: optuna.Study | None = None, way: str = "cold"
) -> optuna.Study:
    """Search a table."""
    objective = OptunaObjective(replay(table), SPACE, metric=LOSS, epochs=EPOCHS, seed=seed)
    learns = earlier is not None and way in ("both", "values")
    study = objective.create_study(warm_start=[earlier] if learns else (), enqueue=int(way == "both"))
    if earlier is not None and way == "points":
        study.enqueue_trial(earlier.best_params)
    objective.optimize(study, trials)
    return study


def trials_to(study: optuna.Study, value: float) -> int | None:
    """Return how many trials a search took to reach a value; None if it did not."""
    return next((one.number + 1 for one in study.trials if one.value <= value), None)


def report(name: str, seeds: range, trials: int) -> None:
    """Print for each way the trials to the cold best, over all seeds."""
    before, now = make_tables(name)
    best = min(min(epoch["log_loss"] for epoch in curve) for curve in now.values())
    counts: dict[str, list[int | None]] = {way: [] for way in ("cold", *WAYS)}
    gaps: dict[str, list[float]] = {way: [] for way in counts}
    for seed in seeds:
        earlier = search(before, 1000 + seed, trials)
        cold = search(now, seed, trials)
        for way in counts:
            study = cold if way == "cold" else search(now, seed, trials, earlier, way)
            counts[way].append(trials_to(study, cold.best_value))
            gaps[way].append(study.best_value - best)
    for way, found in counts.items():
        gap = f"{statistics.mean(gaps[way]):.4f} above the best of the table"
        print(f"{name:13}  {way:6}  {_summary(found, trials)}, {gap}", flush=True)


def _summary(counts: Sequence[int | None], trials: int) -> str:
    reached = [count for count in counts if count is not None]
    capped = [trials + 1 if count is None else count for count in counts]
    median, mean = statistics.median(capped), statistics.mean(capped)
    share = f"reached in {len(reached)} of {len(counts)}"
    return f"trials to the cold best: median {median:4g}, mean {mean:4.1f}, {share}"


def main() -> None:
    """Compute the tables, and search them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--searches", type=int, default=30, help="the seeds, from 0")
    parser.add_argument("--trials", type=int, default=30, help="of each search, the earlier ones too")
    parser.add_argument("--data", nargs="+", choices=LOADERS, default=list(LOADERS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("hpometrics").setLevel(logging.ERROR)  # a line on each warm start
    for name in arguments.data:
        report(name, range(arguments.searches), arguments.trials)


if __name__ == "__main__":
    main()
