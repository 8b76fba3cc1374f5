"""The door: imports, updates of a run, the end of an epoch, tasks, objectives, a sweep with nothing to do."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import optuna
import torch

from hpometrics import MINIMIZE, Category, Float, MetricCollection, OptunaObjective, Reported, Run

from .row import Measure, Size, row

FIRST_METRIC = """
import torch
from hpometrics import Category, MetricCollection
metrics = MetricCollection(["accuracy"], output=Category(3))
metrics.update(logits=torch.eye(3), target=torch.arange(3))
assert metrics.compute()["accuracy"] == 1
"""
OBJECTIVE = "from hpometrics import OptunaObjective"
ENGINE = """
from hpometrics import Number, engine

@engine(output=Number())
def train(params, run):
    for _ in run.epochs():
        run.log(my_loss=params["a"])
"""
SWEEP = """
name: done
engine: nothing:train
space: {a: {float: [0.0, 1.0]}}
metrics: {optimize: {metric: my_loss, direction: minimize}, defaults: false}
search: {sampler: random, seed: 7}
budget: {trials: 3, epochs: 1}
results: {report: none, checkpoints: none, statistics: none}
"""


def program(code: str) -> Measure:
    """Run a program in a fresh process, which finds the bytecode of this package as it finds its peer's."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}

    def measure() -> float:
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, env=environment)
        return 0.0

    return measure


@row(
    "import, first metric",
    "a fresh process",
    peer="import torch",
    wanted=1.3,
    metrics="accuracy",
    in_children=True,
)
def first_metric(size: Size) -> tuple[Measure, Measure]:
    """From nothing to the value of one metric."""
    return program(FIRST_METRIC), program("import torch")


@row("import, OptunaObjective", "a fresh process", peer="import torch, optuna", wanted=1.3, in_children=True)
def first_objective(size: Size) -> tuple[Measure, Measure]:
    """From nothing to the class of an objective."""
    return program(OBJECTIVE), program("import torch, optuna")


def draw(updates: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Make batches of 32 rows and ten classes."""
    generator = torch.Generator().manual_seed(7)
    return [
        (torch.randn(32, 10, generator=generator), torch.randint(10, (32,), generator=generator))
        for _ in range(updates)
    ]


@row(
    "Run.update",
    "us of an update of 32 x 10 beside the collection's",
    peer="a collection",
    wanted=6,
    unit=2_000,
    metrics="accuracy",
)
def update(size: Size) -> tuple[Measure, Measure]:
    """The time that a run adds to its collection, which has the metrics that a run measures by default."""
    batches = draw(2_000)
    names = ["accuracy", "f1_macro", "log_loss", "ece"]

    def measure() -> float:
        run = Run(None, metric="accuracy", output=Category(10))
        for _ in run.epochs(1):
            for logits, target in batches:
                run.update(logits=logits, target=target)
        return run.value

    def theirs() -> float:
        metrics = MetricCollection(names, output=Category(10))
        for logits, target in batches:
            metrics.update(logits=logits, target=target)
        return metrics.compute()["accuracy"].item()

    return measure, theirs


def add_epochs() -> None:
    """Add a row for the end of an epoch in memory, and one with a directory."""
    for where, wanted in (("memory", 250), ("directory", 300)):

        def make(size: Size, where: str = where) -> tuple[Measure, Measure]:
            batches = draw(300)

            def measure() -> float:
                with tempfile.TemporaryDirectory() as folder:
                    facts = {} if where == "memory" else {"directory": Path(folder), "fsync": "trial"}
                    run = Run(None, metric="accuracy", output=Category(10), **facts)
                    for epoch in run.epochs(300):
                        run.update(logits=batches[epoch][0], target=batches[epoch][1])
                    return run.value

            def theirs() -> float:
                best = 0.0
                for logits, target in batches:
                    best = max(best, (logits.argmax(-1) == target).double().mean().item())
                return best

            return measure, theirs

        row(
            f"epoch, {where}",
            "us of an epoch of one update beside the accuracy by hand",
            peer="by hand",
            wanted=wanted,
            unit=300,
            metrics="accuracy",
        )(make)


add_epochs()


@row(
    "50 tasks",
    "five metrics x 1,000 batches of 8 rows, the first epoch of a run",
    peer="sums by hand",
    wanted=2.0,
    metrics="accuracy f1 precision recall log_loss",
)
def tasks(size: Size) -> tuple[Measure, Measure]:
    """A new run makes fifty collections."""
    generator = torch.Generator().manual_seed(7)
    batches = [
        (torch.randn(8, 5, generator=generator), torch.randint(5, (8,), generator=generator), f"task{i % 50}")
        for i in range(1_000)
    ]
    names = ["accuracy", "f1_macro", "precision_macro", "recall_macro", "log_loss"]

    def measure() -> float:
        run = Run(None, metric="accuracy", track=names[1:], output=Category(5))
        for _ in run.epochs(1):
            for logits, target, task in batches:
                run.update(task=task, logits=logits, target=target)
        return run.value

    def theirs() -> float:
        sums: dict[str, list] = {}
        for logits, target, task in batches:
            preds = logits.argmax(-1)
            kept = sums.setdefault(task, [0, 0, torch.zeros(5, 5, dtype=torch.long), 0.0])
            kept[0] += int((preds == target).sum())
            kept[1] += len(target)
            kept[2] += torch.bincount(target * 5 + preds, minlength=25).view(5, 5)
            kept[3] += torch.nn.functional.cross_entropy(logits, target, reduction="sum").item()
        return sum(right / rows for right, rows, *_ in sums.values()) / len(sums)

    return measure, theirs


@row(
    "a new task",
    "us of an empty collection of five metrics like another one",
    peer="nothing",
    wanted=300,
    unit=200,
    metrics="accuracy f1 precision recall log_loss",
)
def new_task(size: Size) -> tuple[Measure, Measure]:
    """A run makes one for each task of its first epoch."""
    names = ["accuracy", "f1_macro", "precision_macro", "recall_macro", "log_loss"]
    metrics = MetricCollection(names, output=Category(5))

    def measure() -> float:
        for _ in range(200):
            metrics.fresh()
        return 0.0

    return measure, lambda: 0.0


@row("OptunaObjective", "50 trials x 20 epochs in memory", peer="bare study", wanted=1.8)
def objective(size: Size) -> tuple[Measure, Measure]:
    """Epochs that only report."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def train(params: dict[str, float], run: Run) -> None:
        for epoch in run.epochs(20):
            run.log(loss=params["a"] + 1 / (epoch + 1))

    def by_hand(trial: optuna.Trial) -> float:
        a, best = trial.suggest_float("a", 0.0, 1.0), float("inf")
        for epoch in range(20):
            value = a + 1 / (epoch + 1)
            best = min(best, value)
            trial.report(value, epoch)
            if trial.should_prune():
                raise optuna.TrialPruned
        return best

    def study(adapted: bool) -> float:
        chosen = optuna.create_study(
            sampler=optuna.samplers.RandomSampler(seed=7), pruner=optuna.pruners.NopPruner()
        )
        own = OptunaObjective(train, {"a": Float(0.0, 1.0)}, metric=Reported("loss", MINIMIZE))
        chosen.optimize(own if adapted else by_hand, n_trials=50)
        return chosen.best_value

    return lambda: study(True), lambda: study(False)


FOLDERS: list[tempfile.TemporaryDirectory] = []
"""Those of finished sweeps, kept until the process ends."""


@row(
    "run, nothing to do",
    "CPU us of `hpometrics run` on a finished sweep",
    peer="nothing",
    wanted=500_000,
    unit=1,
    in_children=True,
)
def nothing_to_do(size: Size) -> tuple[Measure, Measure]:
    """It looks at the stamp of the last run."""
    folder = tempfile.TemporaryDirectory()
    FOLDERS.append(folder)
    home = Path(folder.name)
    (home / "nothing.py").write_text(ENGINE)
    (home / "sweep.yaml").write_text(SWEEP)

    def measure() -> float:
        subprocess.run(
            [sys.executable, "-m", "hpometrics", "run", "sweep.yaml"],
            cwd=home,
            check=True,
            capture_output=True,
        )
        return 0.0

    measure()
    return measure, lambda: 0.0
