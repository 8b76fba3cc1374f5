"""Searches written by hand, with Optuna or Ray Tune alone: what `sweep_overhead.py` compares with."""

from __future__ import annotations

import importlib
import json
import os
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import optuna
import torch
from falling_loss import value_at
from ray import tune
from ray.tune.logger import JsonLoggerCallback
from ray.tune.search.optuna import OptunaSearch

Moment = tuple[float, float]
"""Seconds of the CPU and of the clock on the wall."""

PARAMS = ("a", "b", "c")
SAMPLERS = {"random": optuna.samplers.RandomSampler, "tpe": optuna.samplers.TPESampler}
PRUNERS = {"none": optuna.pruners.NopPruner, "median": optuna.pruners.MedianPruner}


class Search(NamedTuple):
    """So many trials of so many epochs."""

    sampler: str
    pruner: str
    trials: int
    epochs: int


class Moments:
    """CPU and wall time at the start of each trial and epoch; they are taken by the training code itself.

    `starts` has a pair of seconds per trial, `laps` the pairs of its first and its last epoch. What the
    training itself takes is in none of them.

    Args:
        mib: what an epoch of training reads and writes, so that the search does not find the processor's
            caches as it left them; 0 trains nothing.
    """

    def __init__(self, mib: int = 0) -> None:
        self.starts: list[Moment] = []
        self.laps: list[list[Moment]] = []
        self._weights = torch.zeros(mib << 18)
        self._trained: Moment = (0.0, 0.0)

    def trial(self) -> None:
        """A trial begins to train."""
        self.starts.append(self._searched())
        self.laps.append([])

    def epoch(self) -> None:
        """An epoch begins, and is trained."""
        self.laps[-1][1:] = [self._searched()]
        cpu, wall = now()
        self._weights += 1.0
        ended, late = now()
        self._trained = self._trained[0] + ended - cpu, self._trained[1] + late - wall

    def _searched(self) -> Moment:
        """All that has been taken so far, but by training."""
        cpu, wall = now()
        return cpu - self._trained[0], wall - self._trained[1]


def now() -> Moment:
    """CPU seconds of the process and wall seconds."""
    return time.process_time(), time.perf_counter()


def search_with_optuna(search: Search, home: Path, moments: Moments) -> None:
    """Search as Optuna's documentation has it, and write a synced line of JSON per epoch."""
    study = optuna.create_study(
        storage=optuna.storages.RDBStorage(_log_ahead(home / "study.db")),
        direction="minimize",
        sampler=SAMPLERS[search.sampler](seed=7),
        pruner=PRUNERS[search.pruner](),
    )

    def objective(trial: optuna.Trial) -> float:
        for name in PARAMS:
            trial.suggest_float(name, 0.0, 1.0)
        moments.trial()
        best = float("inf")
        with (home / f"{trial.number}.jsonl").open("ab") as log:
            for epoch in range(search.epochs):
                moments.epoch()
                value = value_at(epoch)
                best = min(best, value)
                log.write(f"{json.dumps({'epoch': epoch, 'loss': value})}\n".encode())
                log.flush()
                os.fsync(log.fileno())
                trial.report(value, epoch)
                if trial.should_prune():
                    raise optuna.TrialPruned
        return best

    study.optimize(objective, n_trials=search.trials)


def _log_ahead(path: Path) -> str:
    """Make an SQLite file with a write-ahead log, as `hpometrics run` does, and return its URL."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
    return f"sqlite:///{path}"


def search_with_tune(search: Search, home: Path, reuse_actors: bool = False) -> tune.ResultGrid:
    """Search with a Tuner as Ray's documentation has it, and with Optuna's sampler."""
    epochs = search.epochs  # a worker that is sent the search loads this module for it, with Optuna and torch

    def trainable(config: dict[str, Any]) -> None:
        importlib.import_module("torchmetrics")  # as the training of whoever measures with it
        for epoch in range(epochs):
            tune.report({"loss": value_at(epoch), "epoch": epoch + 1})

    tuner = tune.Tuner(
        tune.with_resources(trainable, {"cpu": 1}),
        param_space=None,
        tune_config=tune.TuneConfig(
            metric="loss",
            mode="min",
            num_samples=search.trials,
            reuse_actors=reuse_actors,
            search_alg=OptunaSearch(
                {name: optuna.distributions.FloatDistribution(0.0, 1.0) for name in PARAMS},
                metric="loss",
                mode="min",
                sampler=SAMPLERS[search.sampler](seed=7),
            ),
        ),
        run_config=quiet_in(home),
    )
    return tuner.fit()


def quiet_in(home: Path) -> tune.RunConfig:
    """Tune's JSON files in a directory, and nothing on the terminal; the same for both tuners."""
    return tune.RunConfig(storage_path=str(home), callbacks=[JsonLoggerCallback()], verbose=0)
