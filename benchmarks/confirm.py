"""Confirmed winners beside the best of a longer search at the same cost, on tables of real trainings.

A world draws validation rows from the pool of a table with replacement, so that the pool is the exact truth.
It searches 60 configurations in a random order, and confirms the best five through the pure core. The best of
100 trials, and repeats, spend as much. The true value of a configuration is the mean over all seeds of its
value on the pool, at the epochs that the world's rows pick.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from confirm_bars import Columns, Facts, Figure, Output, bias_of, columns, mean_of, ratio_of
from confirm_cost import costs
from confirm_tables import Table, breast_cancer, digits
from threadpoolctl import threadpool_limits

from hpometrics import Binary, ListObjective
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.selection.confirm_settings import ConfirmSettings
from hpometrics.selection.confirmation import (
    Confirmation,
    ConfirmationPlan,
    ConfirmationRecord,
    Contender,
    FreshRun,
)
from hpometrics.selection.confirmation_plan import plan_for
from hpometrics.selection.honest_value import Redraws
from hpometrics.selection.intervals import Scale
from hpometrics.selection.two_way import TwoWay
from hpometrics.space.draws import derive_seed

LEVEL = 0.05
SEARCHED = 60
NOISE = 0.015
"""Two standard errors of a share of 5 % in 1,000 worlds."""
MOST_WRONG = 100 * (LEVEL + NOISE)


class World:
    """One draw of validation rows, of the order of the configurations, and of the order of their seeds."""

    def __init__(self, table: Table, seed: int, rows: int, weights: np.ndarray | None = None) -> None:
        random = np.random.default_rng(seed)
        configs, seeds, _, pool = table.rows.shape
        share = np.full(pool, 1 / pool) if weights is None else weights / weights.sum()
        self.table, self.random = table, random
        self.at = random.choice(pool, rows, p=share)
        counts = np.bincount(self.at, minlength=pool)
        measured = table.rows @ (counts / rows).astype(np.float32)
        truth = table.rows @ share.astype(np.float32)
        picked = measured.argmax(axis=2)
        self.order = random.permutation(configs)
        self.seeds = np.array([random.permutation(seeds) for _ in range(configs)])
        self.values = np.take_along_axis(measured, picked[..., None], 2)[..., 0]
        self.of_models = np.take_along_axis(truth, picked[..., None], 2)[..., 0]
        self.truth = self.of_models.mean(axis=1)
        self._runs: dict[tuple[int, int], FreshRun] = {}

    def run(self, trial: int, number: int) -> FreshRun:
        """Return the run of a trial, a place in the order, under its seed of a number; 0 is the search's."""
        if (trial, number) not in self._runs:
            config = self.order[trial]
            rows = self.table.rows[config, self.seeds[config, number]][:, self.at].astype(np.float64)
            picked = int(rows.mean(axis=1).argmax())
            rows *= self.table.sign
            self._runs[trial, number] = FreshRun(float(rows[picked].mean()), rows, picked, "rows")
        return self._runs[trial, number]

    def true(self, trial: int) -> float:
        """Return the true value of a trial, the larger the better."""
        return float(self.truth[self.order[trial]])

    def best_of(self, count: int, repeats: int = 1) -> int:
        """Return the best of the first trials, by one seed of each or the mean of several."""
        configs = self.order[:count]
        values = np.take_along_axis(self.values[configs], self.seeds[configs, :repeats], 1).mean(axis=1)
        return int(values.argmax())

    def quality(self, trial: int) -> Facts:
        """Return whether a trial is truly the best of all, and by how much that one is better."""
        best = float(self.truth.max())
        return {"finds": self.true(trial) == best, "loss": best - self.true(trial)}

    def record(self, settings: ConfirmSettings, searched: int) -> ConfirmationRecord:
        """Return the record of a confirmation that begins."""
        search = {trial: self.run(trial, 0) for trial in range(searched)}
        ranked = sorted(search, key=lambda trial: -self.table.sign * (search[trial].value or 0.0))
        contenders = [Contender(trial, search[trial].value or 0.0) for trial in ranked]
        return ConfirmationRecord(
            self.table.name,
            MAXIMIZE if self.table.sign > 0 else MINIMIZE,
            [ConfirmationPlan(settings, tuple(contenders[: settings.top]))],
            others=contenders[settings.top :],
            search={trial: run.rows for trial, run in search.items() if run.rows is not None},
            scale=Scale(self.table.scale),
        )

    def confirm(self, searched: int = SEARCHED) -> dict[str, Confirmation]:
        """Confirm the best of a search through the pure core, by each of the settings."""
        ends: dict[str, Confirmation] = {}
        record = self.record(ConfirmSettings(), searched)
        redraws = Redraws.of(record)
        for name, settings in SETTINGS.items():
            runs: dict[tuple[int, int], FreshRun] = {}
            plans = [record.plans[0]._replace(settings=settings)]
            while name not in ends:
                following = plan_for(replace(record, plans=plans, runs=runs), redraws)
                runs |= {(trial, number): self.run(trial, number) for trial, number in following.missing}
                if following.end is not None:
                    ends[name] = following.end
        return ends


def confirmed(world: World, end: Confirmation) -> Facts:
    """Return the facts of a confirmation that the tables show."""
    winner, table = end.winner, world.table
    others = [one.trial for one in end.standings if one.trial != winner]
    left = [one.trial for one in end.standings[1:] if one.left_at is None]
    ahead, still_ahead = (
        max((world.true(trial) - world.true(winner) for trial in trials), default=0.0)
        for trials in (others, left)
    )
    facts: Facts = {
        **world.quality(winner),
        "trainings": end.trainings,
        "decided": end.state == "decided",
        "tied": end.state == "tied",
        "decided wrongly": end.state == "decided" and ahead > 0,
        "tied beyond": end.state == "tied" and still_ahead > (end.equivalence or 0.0),
        "may_lose broken": still_ahead > (end.may_lose or 0.0) + 1e-12,
    }
    if end.honest is None:
        raise ValueError("no run has failed, so that there is an honest value")
    truth, honest = table.sign * world.true(winner), end.honest
    runs = [world.run(winner, number) for number in range(1, end.standing.seeds + 1)]
    plain = TwoWay.of(np.stack([run.picked_rows for run in runs])).interval(LEVEL)
    facts["honest bias"] = honest.interval.value - truth
    facts["honest covers"] = honest.interval.low <= truth <= honest.interval.high
    facts["honest half"] = (honest.interval.high - honest.interval.low) / 2
    facts["mean bias"] = honest.mean - truth
    facts["mean covers"] = plain.low <= truth <= plain.high
    return facts


def searched(world: World, count: int, repeats: int = 1) -> Facts:
    """Return the facts of the best of a search, and of the interval that every tool could print of it."""
    pick = world.best_of(count, repeats)
    facts: Facts = {**world.quality(pick), "trainings": count * repeats}
    if repeats == 1:
        run, sign = world.run(pick, 0), world.table.sign
        values = run.picked_rows
        draws = np.random.default_rng(0).integers(len(values), size=(400, len(values)))
        low, high = np.quantile(values[draws].mean(axis=1), [LEVEL / 2, 1 - LEVEL / 2])
        config = world.order[pick]
        model = sign * world.of_models[config, world.seeds[config, 0]]
        truth = sign * world.true(pick)
        facts["bias as the model's"], facts["bias as the params'"] = (
            values.mean() - model,
            values.mean() - truth,
        )
        facts["covers the model's"], facts["covers the params'"] = low <= model <= high, low <= truth <= high
    return facts


SETTINGS = {
    "confirm 5 x 8, equivalence 0": ConfirmSettings(equivalence=0),
    "confirm 5 x 8 (default)": ConfirmSettings(),
}


def real_world(table: Table, rows: int, searched_trials: int, seed: int) -> dict[str, Facts]:
    """Return what each way of spending the trainings gives in one world."""
    world = World(table, seed, rows)
    every = len(world.order)
    ways = {
        f"best of {every}": searched(world, every),
        f"best of {every // 2}, 2 seeds each": searched(world, every // 2, 2),
        f"best of {every // 3}, 3 seeds each": searched(world, every // 3, 3),
    }
    return ways | {name: confirmed(world, end) for name, end in world.confirm(searched_trials).items()}


def tied_world(
    table: Table, weights: np.ndarray, equal: frozenset[int], rows: int, seed: int
) -> dict[str, Facts]:
    """Return whether a winner is called decided although another contender is exactly as good."""
    world = World(table, seed, rows, weights)
    ways = {}
    for name, end in world.confirm(min(SEARCHED, len(world.order))).items():
        facts = confirmed(world, end)
        winner, *others = (int(world.order[one.trial]) for one in end.standings)
        rivals = equal.intersection(others)
        facts["decided wrongly"] = end.state == "decided" and (winner not in equal or bool(rivals))
        ways[name] = facts
    return ways


def equalized(table: Table, best: int) -> np.ndarray:
    """Return weights of the pool, at least 0.05, by which the best are equal in the last epoch."""
    hits = table.rows[:, :, -1].mean(axis=1).astype(np.float64)
    chosen = hits[np.argsort(-hits.mean(axis=1))[:best]]
    gaps = np.vstack([chosen[1:] - chosen[:1], np.ones(hits.shape[1])])
    wanted = np.r_[np.zeros(best - 1), hits.shape[1]]
    inverse, weights = np.linalg.pinv(gaps), np.ones(hits.shape[1])
    for _ in range(20_000):
        weights = np.maximum(weights - inverse @ (gaps @ weights - wanted), 0.05)
        if float(np.abs(gaps @ weights - wanted).max()) < 1e-9 * hits.shape[1]:
            return np.asarray(weights)
    raise RuntimeError("no weights make these configurations equal")


@dataclass(frozen=True)
class Gaussian:
    """Contenders with normal values: their means, the deviations of their seeds, and that of the rows."""

    means: Sequence[float]
    deviations: Sequence[float]
    rows: float

    def end(self, settings: ConfirmSettings, seed: int) -> Confirmation:
        """Confirm one draw."""
        random, rows = np.random.default_rng(seed), 50
        shared = self.rows * math.sqrt(rows) * random.standard_normal((len(self.means), 1, rows))
        noise = np.array(self.deviations)[:, None] * random.standard_normal(
            (len(self.means), settings.repeats)
        )
        table = np.array(self.means)[:, None, None] + noise[..., None] + shared
        runs = {
            (trial, number + 1): FreshRun(float(each.mean()), each[None], 0, "rows")
            for trial, of_trial in enumerate(table)
            for number, each in enumerate(of_trial)
        }
        contenders = tuple(Contender(trial, -float(trial)) for trial in range(len(self.means)))
        record = ConfirmationRecord("score", MAXIMIZE, [ConfirmationPlan(settings, contenders)], runs)
        end = plan_for(record).end
        if end is None:
            raise ValueError("every run was there")
        return end


def gaussian_world(case: Gaussian, seed: int) -> dict[str, Facts]:
    """Return whether a winner is decided, and whether wrongly: another one is as good."""
    ways = {}
    for name, settings in SETTINGS.items():
        end = case.end(settings, seed)
        best = max(case.means)
        alone = sum(mean == best for mean in case.means) == 1
        right = case.means[end.winner] == best and alone
        decided = end.state == "decided"
        ways[name] = {"decided": float(decided), "decided wrongly": float(decided and not right)}
    return ways


GAUSSIAN = {
    f"{kind}, rows {rows:g}": Gaussian(means, deviations, rows)
    for kind, means, deviations in (
        ("2 equal, 3 far", (0, 0, -20, -20, -20), (1,) * 5),
        ("2 equal, seeds 3 and 0.5, 3 far", (0, 0, -40, -40, -40), (3, 0.5, 1, 1, 1)),
        ("5 equal", (0,) * 5, (1,) * 5),
    )
    for rows in (0, 0.5, 1)
} | {f"gap of {gap:g} deviations": Gaussian((gap, 0, -20, -20, -20), (1,) * 5, 0) for gap in (1, 1.5, 2, 3)}


def through_the_product(table: Table, rows: int, worlds: int) -> float:
    """Run worlds through `ListObjective.confirm`, and return the largest gap to the pure core.

    Raises:
        ValueError: a winner or a state differs.
    """
    largest = 0.0
    for seed in range(worlds):
        world = World(table, seed, rows)
        expected = world.confirm()["confirm 5 x 8 (default)"]
        fresh = {derive_seed(seed, number, 0, "confirm"): number for number in range(1, 9)}

        def train(params: Mapping[str, Any], run: Any, world: World = world, fresh: Any = fresh) -> None:
            number = fresh.get(run.seed, 0)
            hits = np.asarray(world.run(params["trial"], number).rows).astype(int)
            for epoch in run.epochs(len(hits)):
                run.update(predictions=hits[epoch], target=np.ones(rows, dtype=int))

        with tempfile.TemporaryDirectory() as folder:
            objective = ListObjective(
                train,
                [{"trial": trial} for trial in range(SEARCHED)],
                metric="accuracy",
                output=Binary(),
                statistics="rows",
                directory=Path(folder) / "run",
                seed=seed,
            )
            end = objective.confirm(objective.run()).confirmation
        facts = [(one.state, one.trainings, [s.trial for s in one.standings]) for one in (end, expected)]
        if facts[0] != facts[1]:
            raise ValueError(f"world {seed}: the product ends {facts[0]}, the pure core {facts[1]}")
        pairs = zip(_figures(end), _figures(expected), strict=True)
        largest = max(largest, *(abs(one - other) for one, other in pairs))
    return largest


def _figures(end: Confirmation) -> Iterator[float]:
    """Yield the numbers of a confirmation that are compared."""
    honest = end.honest.interval if end.honest is not None else None
    yield from () if honest is None else (honest.value, honest.low, honest.high)
    yield end.may_lose or 0.0
    yield from (
        pair.p_value for look in end.looks for pair in sorted(look.pairs, key=lambda p: -p.difference)
    )


KILLS = (
    "tests/backends/test_fresh_runs.py::test_a_kill_changes_nothing",
    "tests/runner/test_confirm.py::test_a_killed_confirmation_goes_on",
    "tests/runner/test_confirm.py::test_workers_decide_what_one_does",
)
"""The tests of bar 6 that take a minute; `make faults` runs those of many kills, of 4 workers, and of Ray."""


def main() -> None:
    """Print every table and every bar."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=1000, help="worlds of each table")
    parser.add_argument("--sweeps", type=int, default=2000, help="draws of each Gaussian case")
    parser.add_argument("--product", type=int, default=20, help="worlds that run through the whole product")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes")
    parser.add_argument("--write", action="store_true", help="write the output to benchmarks/confirm.json")
    arguments = parser.parse_args()
    settings = {name: getattr(arguments, name) for name in ("worlds", "sweeps", "product")}
    output = Output(settings if arguments.write else None)
    threadpool_limits(1)  # a process a core
    table = digits()
    _on(table, arguments, output)
    for other in breast_cancer():
        _second(other, arguments, output)
    with multiprocessing.get_context("fork").Pool(arguments.jobs) as pool:
        for name, case in GAUSSIAN.items():
            worlds = pool.map(partial(gaussian_world, case), range(arguments.sweeps), chunksize=10)
            _gaussian(name, columns(worlds), output)
    gap = through_the_product(table, 300, arguments.product)
    print(f"\n{arguments.product} worlds through ListObjective.confirm: the same winners and states")
    output.hold("benchmark: largest gap of the product to the pure core", Figure(gap), 1e-9)
    print("\nthe same end after SIGKILL, and with several workers; `make faults` has more kills, and Ray")
    output.hold(f"bar 6: tests that fail, of {', '.join(KILLS)}", Figure(float(_failures())), 0)
    print("\nprocessor time of one core, by confirm_cost.py")
    for what, figure, most in costs():
        output.hold(f"bar 7: {what}", Figure(figure), most, " ms")
    output.close()


def _failures() -> int:
    """Run the tests of bar 6, and return whether one failed."""
    command = [sys.executable, "-m", "pytest", "-n0", "-q", "-p", "no:cacheprovider", *KILLS]
    ran = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    print(ran.stdout[-2000:] if ran.returncode else f"  passed: {', '.join(KILLS)}", flush=True)
    return int(ran.returncode != 0)


def _gaussian(name: str, found: Mapping[str, Columns], output: Output) -> None:
    output.show(f"normal values, {name}", found, ("decided", "decided wrongly"))
    if "gap" not in name:
        for way, facts in found.items():
            wrong = mean_of(facts["decided wrongly"], 100)
            output.hold(f"bar 2, {name}, {way}: decided wrongly", wrong, MOST_WRONG, " %")
    elif name.startswith(("gap of 1.5", "gap of 2")):
        power = mean_of(found["confirm 5 x 8, equivalence 0"]["decided"], 100)
        output.reach(f"bar 5, {name}: power", power, 70 if "of 2" in name else 38, " %")


def _worlds(arguments: argparse.Namespace, world: Callable[[int], dict[str, Facts]]) -> dict[str, Columns]:
    """Run the worlds of a table in processes that share it."""
    with multiprocessing.get_context("fork").Pool(arguments.jobs) as pool:
        return columns(pool.map(world, range(arguments.worlds), chunksize=5))


def _on(table: Table, arguments: argparse.Namespace, output: Output) -> None:
    """Print the tables of the digits, and hold their bars."""
    for rows in (300, 1200):
        found = _worlds(arguments, partial(real_world, table, rows, SEARCHED))
        title, few, argmax = f"{table.name}, {rows} rows", rows == 300, found["best of 100"]
        output.show(title, found, (*_ENDS, *_VALUE))
        for way in SETTINGS:
            one, name = found[way], f"{title}, {way}"
            finds, loss = (ratio_of(one[fact], argmax[fact]) for fact in ("finds", "loss"))
            output.reach(f"bar 1, {name}: finds the best", finds, 1.5 if few else 1.35, " x")
            output.hold(f"bar 1, {name}: loss", loss, 0.5 if few else 0.6, " x")
            most = Figure(float(one["trainings"].max()))
            output.hold(f"bar 1, {name}: the most trainings of a world", most, 40)
            if "default" in way:
                output.hold(f"bar 1, {name}: mean of the trainings", mean_of(one["trainings"]), 38)
            wrong = mean_of(one["decided wrongly"], 100)
            output.hold(f"bar 2, {name}: decided wrongly", wrong, 1, " %")
            _hold_words(name, one, output)
            _hold_value(name, one, rows, output)
    best = np.argsort(-table.rows[:, :, -1].mean(axis=(1, 2)))
    for equal, poor in ((20, 80), (2, 10)):
        kept = np.r_[best[:equal], best[-poor:] if poor == 10 else best[equal:]]
        part = replace(table, name=f"{equal} equal", rows=table.rows[kept])
        weights = equalized(part, equal)
        for rows in (300, 1200):
            world = partial(tied_world, part, weights, frozenset(range(equal)), rows)
            found, title = _worlds(arguments, world), f"{equal} exactly equal, {poor} poorer, {rows} rows"
            output.show(title, found, (*_ENDS[2:], *_VALUE[4:]))
            for way, one in found.items():
                wrong = mean_of(one["decided wrongly"], 100)
                output.hold(f"bar 2, {title}, {way}: decided wrongly", wrong, MOST_WRONG, " %")
                _hold_words(f"{title}, {way}", one, output)
                _hold_value(f"{title}, {way}", one, rows, output)


_ENDS = ("finds", "loss", "trainings", "decided", "tied", "decided wrongly", "tied beyond", "may_lose broken")
_VALUE = (
    "bias as the model's",
    "covers the model's",
    "bias as the params'",
    "covers the params'",
    "mean bias",
    "mean covers",
    "honest bias",
    "honest covers",
    "honest half",
)


def _hold_words(name: str, one: Columns, output: Output, most: float = MOST_WRONG) -> None:
    """Hold the bars of what is printed of a winner that is tied or not decided."""
    tied, broken = (mean_of(one[fact], 100) for fact in ("tied beyond", "may_lose broken"))
    output.hold(f"bar 3, {name}: tied with a loss beyond the equivalence", tied, 100 * LEVEL, " %")
    output.hold(f"bar 3, {name}: may lose broken", broken, most, " %")


def _hold_value(name: str, one: Columns, rows: int, output: Output) -> None:
    """Hold the bars of the honest value; where two are equal, no bar of the coverage was set."""
    bias, covers = bias_of(one["honest bias"]), mean_of(one["honest covers"], 100)
    output.hold(f"bar 4, {name}: bias of the honest value", bias, 0.25 if rows == 300 else 0.15, " points")
    if not name.startswith("2 exactly equal"):
        output.reach(f"bar 4, {name}: coverage", covers, 94, " %")


def _second(table: Table, arguments: argparse.Namespace, output: Output) -> None:
    """Print the tables of the second data set, whatever they say."""
    for rows in (150, 400):
        found = _worlds(arguments, partial(real_world, table, rows, 40))
        title = f"{table.name}, {rows} rows"
        output.show(title, found, (*_ENDS, *_VALUE))
        one = found["confirm 5 x 8 (default)"]
        rough = table.name.endswith("log loss") and rows == 150
        _hold_words(f"{title}, default", one, output, 12 if rough else MOST_WRONG)
        if rows == 400:
            output.reach(f"bar 4, {title}, default: coverage", mean_of(one["honest covers"], 100), 92.5, " %")


if __name__ == "__main__":
    main()
