"""Pruning with several objectives on real learning curves: what of the front is lost, and the epochs saved.

A table of trainings of small networks on handwritten digits is computed once: each has random params, and
in every epoch an accuracy, a log loss and its thousands of parameters. A search draws rows of the table
and replays their curves through the objective of this package, with and without a pruner: the same rows in
the same order, so that only the pruner differs.

Hypervolume is that of the front of the complete trials, each at its last epoch, each objective scaled to
[0, 1] between its worst and its best value in the table.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import optuna
import torch
from sklearn.datasets import load_digits
from torch import nn

from hpometrics import Category, Choice, MetricCollection, OptunaObjective, RayObjective, Reported, Run
from hpometrics.backends.objective import BaseObjective
from hpometrics.direction import Direction

EPOCHS = 16
TRAINED, BATCH = 800, 64
PAIRS: Mapping[str, tuple[Reported, Reported]] = {
    "accuracy, log_loss": (Reported("accuracy", "maximize"), Reported("log_loss", "minimize")),
    "accuracy, params_k": (Reported("accuracy", "maximize"), Reported("params_k", "minimize")),
}
"""Two objectives that mostly agree, and two that are in each other's way."""
WAYS: Sequence[tuple[str | None, object]] = (
    (None, None),
    ("accuracy", "median"),
    ("accuracy", "asha"),
    ("dominance", "median"),
    ("dominance", {"percentile": {"percentile": 25}}),
)
"""The unpruned search, then each `prune_by` with its pruner; but for the last one with the defaults."""
LOST, SAVED = 0.01, 0.25
"""The bars: the most hypervolume lost and the least epochs saved, in the median over the searches."""

Curve = list[dict[str, float]]


def train(seed: int) -> tuple[dict[str, Any], Curve]:
    """Train a network with params of a random draw; return them and the values of each epoch."""
    random = np.random.default_rng([7, seed])
    params = {
        "lr": float(10 ** random.uniform(-4, -0.5)),
        "width": int(2 ** random.uniform(2, 7)),
        "layers": int(random.integers(1, 4)),
        "optimizer": ("sgd", "adam")[int(random.integers(2))],
    }
    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    features, target = torch.tensor(x / 16.0, dtype=torch.float32), torch.tensor(y)
    return params, fit(params, Data(features, target, order[:TRAINED], order[TRAINED:]), seed)


class Data(NamedTuple):
    """Rows to classify: those to train on, and those held out."""

    features: torch.Tensor
    target: torch.Tensor
    rows: np.ndarray
    held: np.ndarray


def fit(params: Mapping[str, Any], data: Data, seed: int, epochs: int = EPOCHS) -> Curve:
    """Train a network and return the values of each epoch on the held-out rows."""
    torch.manual_seed(seed)
    (features, target, rows, held), classes = data, int(data.target.max()) + 1
    sizes = [features.shape[1]] + [params["width"]] * params["layers"]
    layers: list[nn.Module] = []
    for before, after in pairwise(sizes):
        layers += [nn.Linear(before, after), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(sizes[-1], classes))
    kinds = {"sgd": partial(torch.optim.SGD, momentum=0.9), "adam": torch.optim.Adam}
    optimizer = kinds[params["optimizer"]](model.parameters(), lr=params["lr"])
    metrics = MetricCollection(["accuracy", "log_loss"], output=Category(classes))
    cost = sum(one.numel() for one in model.parameters()) / 1000
    curve = []
    for _ in range(epochs):
        for batch in torch.tensor(rows)[torch.randperm(len(rows))].split(BATCH):
            loss = nn.functional.cross_entropy(model(features[batch]), target[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        metrics.reset()
        with torch.no_grad():
            metrics.update(logits=model(features[held]), target=target[held])
        values = {name: float(value) for name, value in metrics.compute().items()}
        curve.append({"accuracy": values["accuracy"], "log_loss": values["log_loss"], "params_k": cost})
    return curve


def replay(table: Sequence[Curve], names: Sequence[str]) -> Callable[[Mapping[str, Any], Run], None]:
    """Return an engine that reports the curve of a row of the table."""

    def engine(params: Mapping[str, Any], run: Run) -> None:
        for epoch in run.epochs():
            run.log(**{name: table[params["row"]][epoch][name] for name in names})

    return engine


def hypervolume(points: Sequence[tuple[float, float]], table: np.ndarray, ways: Sequence[Direction]) -> float:
    """Return the share of the unit square that points dominate, each objective scaled to the table."""
    signed = table * [one.sign for one in ways]
    low, high = signed.min(axis=0), signed.max(axis=0)
    scaled = (np.array(points).reshape(-1, 2) * [one.sign for one in ways] - low) / (high - low)
    area, best = 0.0, 0.0
    for first, second in sorted(map(tuple, scaled), reverse=True):
        area += first * max(0.0, second - best)
        best = max(best, second)
    return area


class Search(NamedTuple):
    """The front of a search and its cost."""

    volume: float
    epochs: int
    pruned: int


def search(
    table: Sequence[Curve],
    pair: str,
    prune_by: str | None,
    pruner: object,
    seed: int,
    trials: int,
    backend: str,
) -> Search:
    """Run one search; its random sampler draws the same rows, whatever is pruned."""
    metrics = PAIRS[pair]
    names = [one.name for one in metrics]
    space = {"row": Choice(list(range(len(table))))}
    facts: dict[str, Any] = {"metric": list(metrics), "epochs": EPOCHS, "seed": seed, "at": "last"}
    engine = replay(table, names)
    objective: BaseObjective
    if backend == "optuna":
        objective = OptunaObjective(engine, space, prune_by=prune_by, **facts)
        study = objective.create_study(sampler="random", pruner=pruner)
        objective.optimize(study, trials)
        records = objective.records(study)
        judged = {one.number: len([a for a in one.user_attrs if "judged" in a]) for one in study.trials}
        epochs = sum(judged[r.number] if r.state.value == "pruned" else EPOCHS for r in records)
    else:
        objective = RayObjective(engine, space, prune_by=prune_by, **facts)
        tuner = objective.tuner(trials, scheduler=pruner, sampler="random", max_concurrent=2, progress=False)
        results = tuner.fit()
        records = objective.records(results)
        epochs = sum(int(one.metrics["epochs"]) for one in results)
    complete = [record.scores(names) for record in records if record.state.trained]
    last = np.array([[curve[-1][name] for name in names] for curve in table])
    ways = [Direction.parse(one.direction or "") for one in metrics]
    points = [(float(a), float(b)) for a, b in complete]
    return Search(hypervolume(points, last, ways), epochs, len(records) - len(complete))


def report(table: Sequence[Curve], seeds: range, trials: int, backend: str) -> None:
    """Print for each way to prune the medians over the searches beside their bars."""
    for pair in PAIRS:
        whole: dict[int, Search] = {}
        for prune_by, pruner in WAYS:
            if prune_by is None:
                whole = {seed: search(table, pair, None, None, seed, trials, backend) for seed in seeds}
                continue
            name = pruner if isinstance(pruner, str) else "percentile 25"
            runs = {seed: search(table, pair, prune_by, pruner, seed, trials, backend) for seed in seeds}
            lost = [1 - runs[seed].volume / whole[seed].volume for seed in seeds]
            saved = [1 - runs[seed].epochs / whole[seed].epochs for seed in seeds]
            one, other = statistics.median(lost), statistics.median(saved)
            print(
                f"{backend}  {pair}  by {prune_by}, {name}: hypervolume lost {one:.2%} "
                f"({'met' if one <= LOST else 'missed'}; worst {max(lost):.2%}), epochs saved {other:.1%} "
                f"({'met' if other >= SAVED else 'missed'}), pruned "
                f"{statistics.median(r.pruned for r in runs.values()):g} of {trials}",
                flush=True,
            )


def main() -> None:
    """Compute the table, and search it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=300, help="the trainings of the table")
    parser.add_argument("--searches", type=int, default=30, help="the seeds, from 0, on Optuna")
    parser.add_argument("--ray", type=int, default=5, help="the seeds, from 0, on Ray")
    parser.add_argument("--trials", type=int, default=60, help="of each search")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    table = [train(seed)[1] for seed in range(arguments.rows)]
    if arguments.searches:
        report(table, range(arguments.searches), arguments.trials, "optuna")
    if arguments.ray:
        report(table, range(arguments.ray), arguments.trials, "ray")


if __name__ == "__main__":
    main()
