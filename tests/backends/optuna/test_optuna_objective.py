from __future__ import annotations

import asyncio
import math
import os
import sys
from pathlib import Path

import optuna
import pytest
from level_search import LOSS, SPACE, level, objective_of
from optuna.trial import TrialState as OptunaState

from hpometrics.backends.objective import ListObjective
from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.backends.optuna.storage import close_storage, open_storage
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import DirectionError, NoFiniteValueError, RecordError, RunError
from hpometrics.metrics.features import Binary
from hpometrics.records.epoch_log import read_trial
from hpometrics.records.trial_record import TrialState
from hpometrics.run import Run, engine
from hpometrics.space.dimensions import Choice, Float, Int


def test_the_study_has_the_metrics_direction():
    """Of a registered metric, of one's own, and an already agreeing word is accepted."""
    assert objective_of().direction is MINIMIZE
    maximizing = objective_of(metric="roc_auc", output=Binary())
    assert maximizing.direction is MAXIMIZE
    for study in (
        maximizing.create_study(direction="maximize"),
        optuna.create_study(direction=maximizing.direction),
    ):
        assert study.direction.name == "MAXIMIZE"


def test_another_direction_is_refused_with_both_facts():
    """In `create_study`, and in a study that was made elsewhere."""
    objective = objective_of()
    with pytest.raises(DirectionError, match="loss must be minimized, but direction= is maximize"):
        objective.create_study(direction="maximize")
    with pytest.raises(DirectionError, match="directions= is minimize, minimize"):
        objective.create_study(directions=["minimize", "minimize"])
    study = optuna.create_study(direction="maximize", study_name="digits")
    with pytest.raises(
        DirectionError, match="loss must be minimized, but the study 'digits' is set to maximize"
    ):
        study.optimize(objective, n_trials=1)


def test_the_value_is_the_picked_one_and_the_reports_are_current():
    """Every epoch is reported as it was; what Optuna ranks is the best epoch's value."""
    objective = objective_of()
    study = objective.create_study()
    study.enqueue_trial({"level": 0.25})
    study.optimize(objective, n_trials=1)
    assert study.trials[0].intermediate_values == {0: 0.25, 1: 0.25, 2: 0.25, 3: 5.25}
    assert study.best_value == 0.25


def test_at_last_is_what_optuna_ranks():
    """One rule for the value, wherever it is used."""
    objective = objective_of(at="last")
    study = objective.create_study()
    study.enqueue_trial({"level": 0.25})
    study.optimize(objective, n_trials=1)
    assert study.best_value == 5.25
    assert objective.best(study).epoch == 3


def test_the_median_stops_what_is_worse_by_its_values():
    """After five good trials a bad one ends at its first report; it is pruned, and not the best."""
    objective = objective_of(epochs=4)
    study = objective.create_study(pruner="median", sampler="random")
    for value in (0.1, 0.12, 0.14, 0.16, 0.18, 0.9, 0.05):
        study.enqueue_trial({"level": value})
    study.optimize(objective, n_trials=7)
    states = [record.state for record in objective.records(study)]
    assert states == [TrialState.COMPLETE] * 5 + [TrialState.PRUNED, TrialState.COMPLETE]
    assert len(study.trials[5].intermediate_values) == 1
    assert "stopped trial 5 after epoch 0 at 0.9" in objective.records(study)[5].reason
    assert objective.best(study).params == {"level": 0.05, "k": 3}


def test_params_received_are_params_recorded():
    """What train had, what Optuna and the record have; what train does to its copy is its own affair."""
    received = []

    def train(params, run):
        received.append(dict(params))
        params.clear()
        run.log(loss=1.0, width=run.params["width"])

    objective = OptunaObjective(train, {"width": Int(8, 64, step=8), "k": 3}, metric=LOSS, seed=5)
    study = objective.create_study(sampler="random")
    study.optimize(objective, n_trials=4)
    assert [dict(record.params) for record in objective.records(study)] == received
    assert [trial.params["width"] for trial in study.trials] == [params["width"] for params in received]
    assert len({params["width"] for params in received}) > 1


def test_an_exception_is_a_failure_and_never_a_prune():
    """It propagates as Optuna's users expect; with `catch` the study goes on; the trial has the reason."""

    def train(params, run):
        run.log(loss=0.5)
        raise RuntimeError("shape mismatch")

    objective = objective_of(train)
    study = objective.create_study()
    with pytest.raises(RuntimeError, match="shape mismatch"):
        study.optimize(objective, n_trials=1)
    study.optimize(objective, n_trials=1, catch=(RuntimeError,))
    assert [trial.state for trial in study.trials] == [OptunaState.FAIL] * 2
    assert study.trials[1].user_attrs["hpometrics:reason"] == "RuntimeError: shape mismatch"
    with pytest.raises(NoFiniteValueError, match=r"2 failed \(trial 1: RuntimeError: shape mismatch\)"):
        objective.best(study)


@pytest.mark.parametrize("odd", [math.nan, -math.inf])
def test_a_diverged_trial_fails_and_the_study_goes_on(odd):
    """Optuna would let minus infinity win; here the trial has failed by name."""
    objective = objective_of(lambda params, run: run.log(loss=odd))
    study = objective.create_study()
    study.optimize(objective, n_trials=2)
    assert [trial.state for trial in study.trials] == [OptunaState.FAIL] * 2
    assert "loss: none of 1 epochs has a finite value" in study.trials[0].user_attrs["hpometrics:reason"]


def test_an_interrupted_trial_is_recorded_and_the_interrupt_goes_on(tmp_path):
    """Ctrl-C ends the study; the record says interrupted, not failed."""

    def train(params, run):
        run.log(loss=0.5)
        raise KeyboardInterrupt

    objective = objective_of(train, directory=tmp_path)
    study = objective.create_study()
    with pytest.raises(KeyboardInterrupt):
        study.optimize(objective, n_trials=1)
    record = objective.records(study)[0]
    assert (record.state, record.reason) == (TrialState.INTERRUPTED, "KeyboardInterrupt")


def test_train_may_prune_itself():
    """`optuna.TrialPruned` raised by the engine is a prune."""

    def train(params, run):
        run.log(loss=0.5)
        raise optuna.TrialPruned("too slow")

    objective = objective_of(train)
    study = objective.create_study()
    study.optimize(objective, n_trials=1)
    record = objective.records(study)[0]
    assert (record.state, record.reason) == (TrialState.PRUNED, "too slow")


def test_a_study_reopened_for_another_space_is_refused(tmp_path):
    """Its trials would mean something else."""
    storage = open_storage(tmp_path / "study.db")
    stored = {"storage": storage, "study_name": "s", "load_if_exists": True}
    objective_of().create_study(**stored)
    wider = OptunaObjective(level, {"level": Float(0, 2), "k": 3}, metric=LOSS)
    with pytest.raises(
        RecordError, match=r"space.level: float\(low=0.0, high=1.0\) -> float\(low=0.0, high=2.0\)"
    ):
        wider.create_study(**stored)
    close_storage(storage)


def test_records_on_disk_have_every_value(tmp_path):
    """The study has the metric; the directory has all that was measured in each epoch."""
    objective = objective_of(directory=tmp_path, seed=3)
    study = objective.create_study(sampler="random")
    study.optimize(objective, n_trials=2)
    for record in objective.records(study):
        assert [e.values["seen"] for e in record.epochs] == [record.params["level"]] * 4
        assert record.seed == objective.trials.seed_of(record.number)
    best = objective.best(study)
    assert best.values == {"loss": best.value, "seen": best.params["level"]}


@pytest.mark.parametrize("kind", [OptunaObjective, ListObjective])
def test_a_search_keeps_its_directory_where_train_changes_the_current_folder(tmp_path, monkeypatch, kind):
    """A relative directory is that of the folder in which the search began, and each trial begins there."""
    monkeypatch.chdir(tmp_path)

    def wander(params, run):
        (tmp_path / "away").mkdir(exist_ok=True)
        for _ in run.epochs(2):
            run.log(loss=params["level"])
            os.chdir("away" if Path.cwd() == tmp_path else "..")
        os.chdir("away")

    if kind is ListObjective:
        ListObjective(wander, [{"level": 0.1}, {"level": 0.2}], metric=LOSS, directory="kept").run()
    else:
        objective = objective_of(wander, directory="kept")
        objective.create_study().optimize(objective, n_trials=2)
    assert Path.cwd() == tmp_path
    assert [len(read_trial(path).epochs) for path in sorted((tmp_path / "kept/trials").iterdir())] == [2, 2]
    assert list((tmp_path / "away").iterdir()) == []


def test_what_the_engine_says_of_itself_need_not_be_said_again():
    """`@engine(output=...)` gives the output, an argument overrules it; a metric must come from somewhere."""

    @engine(output=Binary(threshold=0.3), epochs=2)
    def train(params, run): ...

    assert objective_of(train, metric="f1").trials.spec.output == Binary(threshold=0.3)
    assert objective_of(train, metric="f1", output=Binary()).trials.spec.output == Binary()
    assert objective_of(train, metric="f1").trials.spec.epochs == 2
    with pytest.raises(RunError, match="metric= is missing; pass a name"):
        OptunaObjective(train, SPACE)


def test_a_fixed_trial_replays_the_best():
    """The same objective, called with the best params, gives the best value."""
    objective = objective_of()
    study = objective.create_study()
    study.optimize(objective, n_trials=3)
    assert objective(optuna.trial.FixedTrial(study.best_params)) == study.best_value


def test_a_replay_leaves_the_records_alone(tmp_path):
    """A fixed trial is trial 0 to Optuna, a frozen one has the number it had: neither writes."""
    objective = objective_of(directory=tmp_path)
    study = objective.create_study()
    study.optimize(objective, n_trials=1)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    objective(optuna.trial.FixedTrial({"level": 0.5}))
    objective(study.best_trial)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_the_default_sampler_is_seeded():
    """One seed, one search; without a name it is TPE."""

    def drawn() -> list[float]:
        objective = objective_of(seed=7)
        study = objective.create_study()
        study.optimize(objective, n_trials=3)
        return [trial.params["level"] for trial in study.trials]

    assert drawn() == drawn()


def test_an_exit_in_train_fails_its_trial():
    """`sys.exit` ends neither the study nor the list; the reason is kept."""

    def train(params, run):
        run.log(loss=0.5)
        sys.exit("no data")

    objective = objective_of(train)
    study = objective.create_study()
    with pytest.raises(RunError, match="train ended its trial with an exit: SystemExit: no data"):
        study.optimize(objective, n_trials=1)
    study.optimize(objective, n_trials=1, catch=(RunError,))
    assert [trial.state for trial in study.trials] == [OptunaState.FAIL] * 2
    records = ListObjective(train, [{}, {}], metric=LOSS).run()
    assert [(r.state, r.reason) for r in records] == [(TrialState.FAILED, "SystemExit: no data")] * 2


class Mute(Exception):
    """An exception whose text cannot be read."""

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    "error",
    [asyncio.CancelledError(), BaseExceptionGroup("many", [GeneratorExit()]), Mute(), ValueError("\ud800")],
)
def test_whatever_train_raises_fails_its_trial_alone(tmp_path, error):
    """Beside Ctrl-C, which asks to stop; its reason and its traceback can be written and printed."""

    def train(params, run):
        run.log(loss=0.5)
        raise error

    objective = objective_of(train, directory=tmp_path / "study")
    study = objective.create_study()
    study.optimize(objective, n_trials=2, catch=(Exception,))
    assert [trial.state for trial in study.trials] == [OptunaState.FAIL] * 2
    records = ListObjective(train, [{}, {}], metric=LOSS, directory=tmp_path / "list").run()
    assert [record.state for record in records] == [TrialState.FAILED] * 2
    assert records[0].reason.startswith(type(error).__name__)
    assert type(error).__name__ in (tmp_path / "list/trials/0001/error.txt").read_text()


def test_a_list_goes_on_after_a_failure():
    """The second of three raises: two are complete, one has failed with its reason."""

    def train(params, run):
        if params["level"] > 1:
            raise ValueError("too much")
        level(params, run)

    objective = ListObjective(train, [{"level": 0.5}, {"level": 2.0}, {"level": 0.25}], metric=LOSS)
    records = objective.run()
    assert [record.state.value for record in records] == ["complete", "failed", "complete"]
    assert records[1].reason == "ValueError: too much"
    best = objective.best(records)
    assert (best.trial, best.value, best.params) == (2, 0.25, {"level": 0.25})


def test_a_list_is_checked_against_its_space():
    """Constants are added, what the space cannot give is refused before anything is trained."""
    objective = ListObjective(level, [{"level": 0.5}], space=SPACE, metric=LOSS)
    assert objective.params == [{"level": 0.5, "k": 3}]
    with pytest.raises(ValueError, match=r"space\.level: must lie in \[0\.0, 1\.0\], got 2\.0"):
        ListObjective(level, [{"level": 2.0}], space=SPACE, metric=LOSS)


COURSES = {
    "whole": (0.5, 1.0, 0.0),
    "pruned": (0.5, 0.0, 0.0),
    "raises": (1.0, 0.5, 0.5),
    "broken off": (1.0, 0.5, 0.5),
}
"""The accuracy of each epoch, by what becomes of the trial."""


def own_objective(trial: optuna.Trial, **facts: object) -> float:
    """A user's own, whose run reports to the trial; of the params one diverges, and one raises."""
    run = Run(trial, metric="accuracy", output=Binary(), track=["log_loss"], defaults=False, **facts)
    right = COURSES[trial.suggest_categorical("kind", list(COURSES))]
    for epoch in run.epochs(3):
        run.update(probabilities=[0.9, 0.9], target=[right[epoch] > 0, right[epoch] > 0.5])
        run.log(cost=float(epoch))
        if epoch == 1 and trial.params["kind"] == "raises":
            raise KeyError("lr")
        if epoch == 1 and trial.params["kind"] == "broken off":
            break
    return run.value


def test_an_own_objective_keeps_the_panel_of_every_trial():
    """Each value of the picked epoch is an attribute, of a complete, pruned, failed or broken off trial."""
    pruner = optuna.pruners.ThresholdPruner(lower=0.4)
    study = optuna.create_study(direction="maximize", pruner=pruner)
    for kind in COURSES:
        study.enqueue_trial({"kind": kind})
    with pytest.warns(UserWarning, match="was measured on other validation rows than trial 0"):
        study.optimize(own_objective, n_trials=4, catch=KeyError)
    frame = study.trials_dataframe().set_index("params_kind")
    assert list(frame["user_attrs_picked_epoch"]) == [1, 0, 0, 0]
    assert list(frame["user_attrs_accuracy"]) == [1.0, 0.5, 1.0, 1.0]
    assert list(frame["user_attrs_cost"]) == [1.0, 0.0, 0.0, 0.0]
    assert list(frame["user_attrs_log_loss"].notna()) == [True] * 4
    assert list(frame["state"]) == ["COMPLETE", "PRUNED", "FAIL", "COMPLETE"]
    objective = OptunaObjective(
        lambda params, run: None, {"kind": Choice(list(COURSES))}, metric="accuracy", output=Binary()
    )
    best = objective.best(study)
    assert (best.trial, best.epoch, best.value, best.values["cost"]) == (0, 1, 1.0, 1.0)


def test_a_trial_that_does_not_say_its_epoch_has_none():
    """Another objective left its value; no epoch is made up for it."""
    study = optuna.create_study(direction="minimize")
    study.optimize(lambda trial: trial.suggest_float("lr", 0, 1), n_trials=2)
    best = OptunaObjective(lambda params, run: None, {"lr": Float(0, 1)}, metric=LOSS).best(study)
    assert best.epoch is None and dict(best.values) == {"loss": best.value}


def test_the_panel_of_an_objective_stands_in_the_table_of_its_study():
    """As of an own objective: a column for each value, and the epoch that was picked."""

    def train(params, run):
        for epoch in run.epochs(3):
            run.log(loss=abs(params["lr"] - epoch), aux=2.0)

    objective = OptunaObjective(train, {"lr": Float(0, 2)}, metric=LOSS, repeats=2)
    study = objective.create_study()
    study.optimize(objective, n_trials=3)
    frame = study.trials_dataframe()
    assert list(frame["user_attrs_loss"]) == list(frame["value"]) and set(frame["user_attrs_aux"]) == {2.0}
    assert [objective.best(study).epoch] == list(frame.nsmallest(1, "value")["user_attrs_picked_epoch"])


@pytest.mark.parametrize("objective", [objective_of(), ListObjective(level, [{"level": 0.5}], metric=LOSS)])
def test_best_needs_the_trials(objective):
    """Of which study, or of which list."""
    for method in (objective.best, objective.confirm, objective.front):
        with pytest.raises(RunError, match=r"the trials are .*; pass (it|them), as in "):
            method()
