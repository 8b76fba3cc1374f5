"""The cost of `OptunaObjective` beside the objective one writes by hand with `report` and `should_prune`.

The training code is empty, so that only the adapter and Optuna are left. Both run the same number of trials
and epochs on an in-memory study with the same sampler and pruner, in turn, in one process and on one
thread; a row prints medians of CPU microseconds and the ratio within each turn.

    python benchmarks/adapter_overhead.py [--turns 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import optuna
import torch

from hpometrics import MINIMIZE, Float, OptunaObjective, Reported, Run

TRIALS, EPOCHS = 100, 100
SPACE = {name: Float(0.0, 1.0) for name in ("a", "b", "c")}


class Case(NamedTuple):
    """A sampler and a pruner."""

    sampler: str
    pruner: str

    def study(self) -> optuna.Study:
        """Create an in-memory study to minimize."""
        samplers = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
        pruners = {"none": optuna.pruners.NopPruner, "median": optuna.pruners.MedianPruner}
        return optuna.create_study(
            direction="minimize", sampler=samplers[self.sampler](seed=7), pruner=pruners[self.pruner]()
        )


CASES = (Case("random", "none"), Case("random", "median"), Case("tpe", "none"))


def value_at(params: dict[str, float], epoch: int) -> float:
    """A loss that falls with the epochs; the same for both."""
    return params["a"] + params["b"] / (epoch + 1)


def by_hand(trial: optuna.Trial) -> float:
    """The objective as Optuna's documentation has it, with the best epoch kept."""
    params = {name: trial.suggest_float(name, 0.0, 1.0) for name in SPACE}
    best = float("inf")
    for epoch in range(EPOCHS):
        value = value_at(params, epoch)
        best = min(best, value)
        trial.report(value, epoch)
        if trial.should_prune():
            raise optuna.TrialPruned
    return best


def train(params: dict[str, float], run: Run) -> None:
    """The same through a Run."""
    for epoch in run.epochs(EPOCHS):
        run.log(loss=value_at(params, epoch))


def adapted() -> OptunaObjective:
    """The adapter's objective; the engine reports its value itself, so that no metric is measured."""
    return OptunaObjective(train, SPACE, metric=Reported("loss", MINIMIZE))


def cost(case: Case, objective: Callable[[optuna.Trial], float]) -> tuple[float, float, float]:
    """CPU seconds of a study, reports made and the best value."""
    study = case.study()
    start = time.process_time()
    study.optimize(objective, n_trials=TRIALS)
    spent = time.process_time() - start
    reports = sum(len(t.intermediate_values) for t in study.get_trials(deepcopy=False))
    return spent, reports, study.best_value


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    print(f"{TRIALS} trials x up to {EPOCHS} epochs, in memory, 1 thread, CPU, median of {turns} turns\n")
    print(f"{'sampler / pruner':18}{'reports':>7}{'by hand us':>12}{'adapter us':>12}{'ratio':>7}{'more':>8}")
    for case in CASES:
        rows = [(cost(case, by_hand), cost(case, adapted())) for _ in range(turns)]
        if any(hand[1:] != own[1:] for hand, own in rows):
            raise SystemExit(f"{case}: the two studies differ in reports or best value: {rows}")
        reports = rows[0][0][1]
        hand, own = (statistics.median(row[i][0] for row in rows) / reports * 1e6 for i in (0, 1))
        ratio = statistics.median(b[0] / a[0] for a, b in rows)
        more = statistics.median((b[0] - a[0]) / reports * 1e6 for a, b in rows)
        name = f"{case.sampler} / {case.pruner}"
        print(f"{name:18}{reports:7}{hand:12.1f}{own:12.1f}{ratio:6.2f}x{more:8.1f}")


if __name__ == "__main__":
    main()
