"""Whole sweeps that confirm their winner beside longer ones without, at equal cost, on handwritten digits.

The space, the sampler and the network are those of `configs/quickstart.yaml`; each sweep draws its own
training and validation rows. The longer search goes on with the same trials until it has spent as many epochs
as search and confirmation. The true value of a pick is the mean of fresh trainings on rows that
nobody selected on, at the epochs that the validation rows pick.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import optuna
import torch
from sklearn.datasets import load_digits
from threadpoolctl import threadpool_limits
from torch import nn

from hpometrics import Category, Choice, Float, Int, ListObjective, OptunaObjective, Run, compare
from hpometrics.selection.confirmation import ConfirmationState

SPACE = {
    "lr": Float(1e-4, 1e-1, log=True),
    "width": Int(16, 128, step=16),
    "dropout": Float(0.0, 0.5),
    "optimizer": Choice(["sgd", "adam"]),
}
METRIC = "f1_macro"
EPOCHS = 12
FACTS: dict[str, Any] = {
    "metric": METRIC,
    "output": Category(10),
    "epochs": EPOCHS,
    "defaults": False,
}
TRAINED, VALIDATED = 600, 300
PRUNERS: dict[str, type[optuna.pruners.BasePruner]] = {
    "none": optuna.pruners.NopPruner,
    "median": optuna.pruners.MedianPruner,
}
TRUE_SEED = 1 << 20
"""Of the trainings that measure a pick: no search and no confirmation has it."""


class Outcome(NamedTuple):
    """One sweep with a confirmation, and the longer one without."""

    confirmed: float
    """The true value of the confirmed winner."""
    longer: float
    """The true value of the best trial of the longer search."""
    expected: float
    """The value that the confirmation expects."""
    covered: bool
    """Whether its interval contains the true value."""
    measured: float
    """The value of the best trial of the longer search, as the search measured it."""
    state: ConfirmationState
    trials: int
    """The trials of the longer search."""
    seconds: float


class Engine:
    """Trains the network of the quickstart on the rows of one sweep."""

    def __init__(self, seed: int) -> None:
        x, y = load_digits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(x))
        ends = np.split(order, [TRAINED, TRAINED + VALIDATED])
        self._parts = [
            (torch.tensor(x[rows] / 16.0, dtype=torch.float32), torch.tensor(y[rows])) for rows in ends
        ]
        self.epochs = 0

    def __call__(self, params: Mapping[str, Any], run: Run) -> None:
        """Train, and report each epoch on validation and on held-out rows."""
        (x, y), validation, held_out = self._parts
        width = params["width"]
        model = nn.Sequential(
            nn.Linear(64, width), nn.ReLU(), nn.Dropout(params["dropout"]), nn.Linear(width, 10)
        )
        optimizer = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam}[params["optimizer"]](
            model.parameters(), lr=params["lr"]
        )
        for _ in run.epochs():
            self.epochs += 1
            model.train()
            for rows in torch.randperm(len(x)).split(64):
                loss = nn.functional.cross_entropy(model(x[rows]), y[rows])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                run.update(logits=model(validation[0]), target=validation[1])
                run.update(logits=model(held_out[0]), target=held_out[1], split="test")


class Settings(NamedTuple):
    """The sizes of the sweeps."""

    trials: int
    top: int
    repeats: int
    pruner: str
    fresh: int
    """The fresh trainings that measure a pick."""


def sweep(seed: int, settings: Settings) -> Outcome:
    """Run both sweeps of a seed, and measure their picks."""
    started, engine = time.perf_counter(), Engine(seed)
    with TemporaryDirectory() as folder:
        objective = OptunaObjective(
            engine, SPACE, seed=seed, directory=folder, fsync="trial", statistics="rows", **FACTS
        )
        study = optuna.create_study(
            direction=objective.direction,
            sampler=optuna.samplers.TPESampler(seed=seed),
            pruner=PRUNERS[settings.pruner](),
        )
        study.optimize(objective, n_trials=settings.trials)
        searched = engine.epochs
        settled = objective.confirm(study, top=settings.top, repeats=settings.repeats)
        total, engine.epochs = engine.epochs, searched
        while engine.epochs < total:
            study.optimize(objective, n_trials=1)
        longer = objective.best(study)
    true = [true_value(engine, params, settings.fresh) for params in (settled.best.params, longer.params)]
    interval = settled.honest.interval if settled.honest else None
    return Outcome(
        *true,
        expected=interval.value if interval else settled.best.value,
        covered=interval is not None and interval.low <= true[0] <= interval.high,
        measured=longer.value,
        state=settled.state,
        trials=len(study.trials),
        seconds=time.perf_counter() - started,
    )


def true_value(engine: Engine, params: Mapping[str, Any], fresh: int) -> float:
    """Return the mean on held-out rows of fresh trainings."""
    objective = ListObjective(engine, [params], seed=TRUE_SEED, repeats=fresh, **FACTS)
    (record,) = objective.run()
    return float(np.mean([repeat.values[f"test:{objective.trials.spec.name}"] for repeat in record.repeats]))


def report(outcomes: Sequence[Outcome], settings: Settings) -> Iterable[str]:
    """Yield the comparison of both, a line each."""
    confirmed, longer = (
        np.array([getattr(one, name) for one in outcomes]) for name in ("confirmed", "longer")
    )
    states = [one.state for one in outcomes]
    counts = ", ".join(
        f"{state.value} {states.count(state)}" for state in ConfirmationState if state in states
    )
    trials = np.mean([one.trials for one in outcomes])
    sizes = f"{settings.trials} trials and a confirmation of {settings.top} x {settings.repeats}"
    yield f"{len(outcomes)} sweeps of {sizes}, pruner {settings.pruner}: {counts}"
    yield f"beside searches of {trials:.1f} trials, which spend as many epochs"
    for name, values in (("with confirm", confirmed), ("longer search", longer)):
        yield f"true {METRIC} of the pick, {name}: {values.mean():.5f}"
    yield str(compare(confirmed, longer, direction="maximize", names=["with confirm", "longer search"]))
    better, worse = int((confirmed > longer).sum()), int((confirmed < longer).sum())
    yield f"the confirmed pick is truly better in {better} sweeps, worse in {worse}, the same in the others"
    bias = np.mean([one.expected - one.confirmed for one in outcomes])
    optimism = np.mean([one.measured - one.longer for one in outcomes])
    covered = np.mean([one.covered for one in outcomes])
    yield f"reported value - true one, in points: {100 * bias:.2f} with confirm, {100 * optimism:.2f} without"
    yield f"the interval of the expected value contains the true one in {100 * covered:.0f} % of sweeps"


def main() -> None:
    """Run the sweeps in parallel, and print what came out."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--sweeps", type=int, default=50)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--top", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--pruner", choices=PRUNERS, default="none")
    parser.add_argument("--fresh", type=int, default=10, help="fresh trainings that measure a pick")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    settings = Settings(options.trials, options.top, options.repeats, options.pruner, options.fresh)
    tasks = [(seed, settings) for seed in range(options.sweeps)]
    with multiprocessing.get_context("spawn").Pool(options.processes, initializer=_on_one_thread) as pool:
        outcomes = pool.starmap(sweep, tasks, chunksize=1)
    print("\n".join(report(outcomes, settings)))
    print(f"{np.mean([one.seconds for one in outcomes]):.0f} seconds a pair of sweeps")


def _on_one_thread() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    torch.set_num_threads(1)
    threadpool_limits(1)


if __name__ == "__main__":
    main()
