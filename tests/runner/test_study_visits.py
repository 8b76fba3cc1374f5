from __future__ import annotations

import os
from collections import Counter

import optuna
import pytest
import sqlalchemy
from sample_sweeps import SWEEP, changed

from hpometrics.backends.optuna.storage import open_storage

TRIALS, EPOCHS = 4, 3


@pytest.fixture
def visits():
    """How often a database was visited; each visit ends by a commit."""
    seen = Counter()

    def note(connection):
        seen["visits"] += 1

    sqlalchemy.event.listen(sqlalchemy.engine.Engine, "commit", note)
    yield seen
    sqlalchemy.event.remove(sqlalchemy.engine.Engine, "commit", note)


def of_a_trial(visits, run):
    """The visits of a trial: those of a run of four without those of a run of two, by trial."""
    counted = []
    for trials in (TRIALS // 2, TRIALS):
        visits.clear()
        run(trials)
        counted.append(visits["visits"])
    return (counted[1] - counted[0]) / (TRIALS // 2)


def test_a_trial_visits_the_database_less_often_than_bare_optunas(visits, sweep, tmp_path):
    """With as many params and reports, its result kept and the trials of dead workers looked for."""

    def bare(trials):
        storage = open_storage(tmp_path / f"bare-{trials}.db")
        study = optuna.create_study(storage=storage, sampler=optuna.samplers.RandomSampler())

        def objective(trial):
            trial.suggest_float("lr", 1e-4, 1e-1, log=True)
            trial.suggest_categorical("size", ["small", "large"])
            for epoch in range(EPOCHS):
                trial.report(0.5, epoch)
            return 0.5

        study.optimize(objective, n_trials=trials)

    def ours(trials):
        text = changed("budget: {trials: 4, epochs: 3}", f"budget: {{trials: {trials}, epochs: {EPOCHS}}}")
        assert sweep(text, "--fresh").exit_code == 0

    assert of_a_trial(visits, ours) < of_a_trial(visits, bare)


def test_a_trial_forces_to_the_disk_what_has_to_be_there(sweep, monkeypatch):
    """Each epoch once; the record when it begins and when it ends, with its directory, and `.trainstats`."""
    forced, fsync = Counter(), os.fsync

    def note(descriptor):
        name = os.path.basename(os.readlink(f"/proc/self/fd/{descriptor}"))
        forced[name.removeprefix(".").rpartition(".")[0] or name] += 1
        fsync(descriptor)

    if not os.path.exists("/proc/self/fd"):
        pytest.skip("the system does not say what a descriptor is of")
    monkeypatch.setattr(os, "fsync", note)
    assert sweep(SWEEP).exit_code == 0
    of_trials = {name: forced[name] for name in ("epochs", "trial.json", ".trainstats", "0000")}
    assert of_trials == {
        "epochs": TRIALS * EPOCHS,
        "trial.json": 2 * TRIALS,
        ".trainstats": TRIALS,
        "0000": 2,
    }
