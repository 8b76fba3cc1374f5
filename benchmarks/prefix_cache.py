"""The cache of prefixes on a grid of 3 data sources x 4 preparators x 5 algorithms x 3 servings.

Ridge regression on random features, five folds: stages carried out, wall and CPU time with and without the
cache, against the floor of one execution per distinct prefix, and against the same with nothing copied
between the stages (`shares`). Before anything is timed the results must be equal. The last table shows that
what is kept does not grow with the list.

    python benchmarks/prefix_cache.py [--rows 2000] [--columns 40] [--turns 3]
"""

from __future__ import annotations

import argparse
import statistics
import time
import tracemalloc
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from hpometrics import Engine, EngineParams
from hpometrics.engines.cache import PrefixCache
from hpometrics.engines.folds import fold_columns

GRID = (3, 4, 5, 3)
Results = list[list[tuple[float, float]]]
Times = tuple[float, float]


class Ridge(Engine):
    """Draws rows, maps them to random features, solves for a penalty, clips what it serves."""

    def __init__(self, rows: int, columns: int) -> None:
        self.rows, self.columns = rows, columns

    def read_eval(self, params: Any) -> Any:
        """Draw the rows by a seed and split them into five folds."""
        draw = np.random.default_rng(params["seed"])
        features = draw.normal(size=(self.rows, self.columns))
        target = np.sin(features[:, 0]) + 0.1 * draw.normal(size=self.rows)
        return fold_columns(features, target, 5)

    def prepare(self, training: Any, params: Any) -> Any:
        """Map the features to cosines of random directions."""
        features, target = training
        weights = np.random.default_rng(0).normal(size=(self.columns, params["width"]))
        return np.cos(features @ weights), target, weights

    def train(self, prepared: Any, name: str, params: Any) -> Any:
        """Solve the normal equations."""
        features, target, weights = prepared
        gram = features.T @ features + params["lambda"] * np.eye(features.shape[1])
        return weights, np.linalg.solve(gram, features.T @ target)

    def predict(self, model: Any, queries: Any) -> Any:
        """Map the queries alike and apply the solution."""
        weights, solution = model
        return np.cos(queries @ weights) @ solution

    def serve(self, query: Any, predictions: Sequence[Any], params: Any) -> float:
        """Clip the prediction."""
        return float(min(max(predictions[0], -params["most"]), params["most"]))


class SharingRidge(Ridge):
    """The same, whose stages only read what they are given."""

    shares = ("data_source", "preparator", "algorithms")


def grid(sources: int, preparators: int, algorithms: int, servings: int) -> list[EngineParams]:
    """All combinations, the serving varying fastest."""
    return [
        EngineParams({"seed": a}, {"width": 40 + 20 * b}, {"lambda": 10.0**c}, {"most": 1.0 + d})
        for a, b, c, d in product(range(sources), range(preparators), range(algorithms), range(servings))
    ]


def evaluate(cache: PrefixCache, candidates: Sequence[EngineParams]) -> Results:
    """Return what every candidate serves, beside the actual results."""
    return [
        [(predicted, float(actual)) for fold in cache.folds(params) for _, predicted, actual in fold.results]
        for params in candidates
    ]


def timed(engine: Engine, candidates: Sequence[EngineParams], **how: Any) -> tuple[Times, PrefixCache]:
    """Wall and CPU seconds of one evaluation of all candidates, and its cache."""
    cache = PrefixCache(engine, candidates, **how)
    wall, cpu = time.perf_counter(), time.process_time()
    for params in candidates:
        cache.folds(params)
    return (time.perf_counter() - wall, time.process_time() - cpu), cache


def check_agreement(engines: Sequence[Engine]) -> None:
    """Compare the results with and without the cache and the copies.

    Raises:
        SystemExit: they differ; what is timed must first agree.
    """
    candidates = grid(2, 2, 2, 2)
    plain = evaluate(PrefixCache(engines[0], candidates, cache=False), candidates)
    for engine in engines:
        if evaluate(PrefixCache(engine, candidates), candidates) != plain:
            raise SystemExit(f"{type(engine).__name__}: the results with the cache differ from those without")


def compare(engines: Sequence[Engine], turns: int) -> None:
    """Print the first table."""
    candidates = grid(*GRID)
    contenders = {
        "without the cache": (engines[0], {"cache": False}),
        "with the cache": (engines[0], {}),
        "with it, nothing copied": (engines[1], {}),
    }
    taken: dict[str, list[Times]] = {name: [] for name in contenders}
    caches = {}
    for _ in range(turns):
        for name, (engine, how) in contenders.items():
            seconds, caches[name] = timed(engine, candidates, **how)
            taken[name].append(seconds)
    stages = f"{'read':>6} {'prepare':>8} {'train':>6} {'serve':>6}"
    print(f"{f'{len(candidates)} candidates':<26} {stages} {'wall s':>7} {'CPU s':>7} {'ratio':>7}")
    floor = [int(np.prod(GRID[: stage + 1])) for stage in range(4)]
    print(f"{'floor':<26} {floor[0]:>6} {floor[1]:>8} {floor[2]:>6} {floor[3]:>6}")
    for name, times in taken.items():
        wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
        ratio = statistics.median(a[1] / b[1] for a, b in zip(taken["without the cache"], times, strict=True))
        counts = [count.executed for count in caches[name].counts.values()]
        row = f"{name:<26} {counts[0]:>6} {counts[1]:>8} {counts[2]:>6} {counts[3]:>6}"
        print(f"{row} {wall:>7.2f} {cpu:>7.2f} {ratio:>5.1f} x", flush=True)


def growth(engine: Engine) -> None:
    """Print what is kept, and the peak of memory, as the list grows."""
    print(f"\n{'candidates':>10} {'outputs kept at most':>21} {'peak MiB':>9} {'MiB at the end':>15}")
    for sources in (1, 2, 4, 8):
        candidates = grid(sources, 4, 3, 2)
        tracemalloc.start()
        cache = PrefixCache(engine, candidates)
        most = 0
        for params in candidates:
            cache.folds(params)
            most = max(most, len(cache))
        left, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        print(f"{len(candidates):>10} {most:>21} {peak / 2**20:>9.1f} {left / 2**20:>15.2f}", flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--columns", type=int, default=40)
    parser.add_argument("--turns", type=int, default=3)
    arguments = parser.parse_args()
    engines = [cls(arguments.rows, arguments.columns) for cls in (Ridge, SharingRidge)]
    check_agreement(engines)
    compare(engines, arguments.turns)
    growth(engines[0])


if __name__ == "__main__":
    main()
