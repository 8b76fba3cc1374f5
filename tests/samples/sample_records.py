"""Run directories as a sweep leaves them, written without training anything."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

from sample_sweeps import SWEEP, plan_of

from hpometrics.records.epoch_log import EpochLog
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState, write_trial
from hpometrics.results.manifest import resolve

BUNDLES = ({"depth": 1, "width": 8}, {"depth": 3, "width": 32})


def trial(
    number: int,
    values: Iterable[float],
    state: TrialState = TrialState.COMPLETE,
    lr: float | None = None,
    reason: str | None = None,
) -> TrialRecord:
    """A trial with these values of `roc_auc`, the last of them picked; params and seconds by its number."""
    epochs = tuple(
        EpochRecord(epoch, {"roc_auc": value, "accuracy": value - 0.1}) for epoch, value in enumerate(values)
    )
    drawn = 10 ** -random.Random(number).uniform(1, 4) if lr is None else lr
    params = {"lr": drawn, **BUNDLES[number % 2]}
    picked = (epochs[-1].number("roc_auc"), len(epochs) - 1) if epochs else (None, None)
    return TrialRecord(number, params, state, *picked, epochs, reason, seconds=1.5 + number, seed=number)


FOUR = [
    trial(0, [0.5, 0.7]),
    trial(1, [0.6, 0.9, 0.8]),
    trial(2, [0.4], TrialState.PRUNED, reason="the pruner stopped trial 2 after epoch 0 at 0.4"),
    trial(3, [], TrialState.FAILED, reason="ValueError: <b>no</b>\nand more"),
]


def many(count: int) -> list[TrialRecord]:
    """So many complete trials of three epochs."""
    return [trial(number, [number / 1000, 0.4, 0.5 + number % 7 / 100]) for number in range(count)]


def written(home: Path, records: Iterable[TrialRecord] = FOUR, text: str = SWEEP) -> Path:
    """Write a run directory."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "sweep.resolved.yaml").write_text(resolve(plan_of(text)).to_yaml())
    (home / "sweep.yaml").write_text(text)
    for record in records:
        directory = home / "trials" / f"{record.number:04d}"
        log = EpochLog(directory, fsync="trial")
        for epoch in record.epochs:
            log.append(epoch)
        log.close()
        write_trial(directory, record)
    return home
