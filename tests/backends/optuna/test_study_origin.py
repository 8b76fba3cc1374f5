from __future__ import annotations

import logging
import re
from warnings import catch_warnings

import optuna
import pytest
import torch
from optuna.distributions import FloatDistribution

from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.backends.optuna.study import check_origin, metrics_of
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import DirectionError, HpometricsError, RecordError
from hpometrics.metrics.features import Binary
from hpometrics.run import Reported, Run
from hpometrics.space.dimensions import Choice, Float, Int
from hpometrics.space.space import Space

SPACE = Space({"lr": Float(0, 1), "depth": Int(1, 8, log=True), "kind": Choice(["a", "b"])})


def train(params, run):
    """The loss is the rate."""
    for _ in run.epochs(1):
        run.log(loss=params["lr"])


def made_by_hand(params, metric: str | None = None) -> optuna.Study:
    """A study with one finished trial that no objective of ours has run."""
    study = optuna.create_study(study_name="digits")
    kinds = {name: FloatDistribution(-10, 10) for name in params}
    study.add_trial(optuna.create_trial(params=params, distributions=kinds, value=0.5))
    if metric is not None:
        with catch_warnings(action="ignore", category=optuna.exceptions.ExperimentalWarning):
            study.set_metric_names([metric])
    return study


def test_each_difference_of_two_spaces_is_told():
    """What changed, what is new and what is gone; `extend` accepts and notes it."""
    study = optuna.create_study(study_name="digits")
    check_origin(study, ["loss"], SPACE)
    check_origin(study, ["loss"], SPACE)
    other = Space({"lr": Float(0, 1, log=False), "depth": Int(1, 4), "width": Int(8, 64, step=8)})
    message = (
        "the study 'digits' was created with another space:\n  space.depth: int(low=1, high=8, log=true, "
        'step=1) -> int(low=1, high=4, step=1)\n  space.kind: choice(options=["a", "b"]) -> (not '
        "there)\n  space.width: (not there) -> int(low=8, high=64, step=8)\ncreate another study"
    )
    with pytest.raises(RecordError, match=re.escape(message)):
        check_origin(study, ["loss"], other)
    check_origin(study, ["loss"], other, extend=True)
    check_origin(study, ["loss"], other)


@pytest.mark.parametrize(
    ("study", "message"),
    [
        (
            made_by_hand({"lr": 0.5}),
            r"1 finished trials that do not name the .* loss, call objective\.attach\(study, adopt=True\)",
        ),
        (
            made_by_hand({"lr": 0.5}, "mae"),
            "the study 'digits' optimizes mae, not loss; create another study",
        ),
        (
            made_by_hand({"lr": 5.0}, "loss"),
            r"trial 0 of .*'digits' belongs to another space: space.lr: must lie",
        ),
        (made_by_hand({"rate": 0.5}, "loss"), "another space: space.rate: no such param"),
        (made_by_hand({}, "loss"), "another space: space.lr: is missing"),
    ],
)
def test_a_study_made_by_hand_is_taken_only_for_what_it_says(study, message):
    """Trials of another metric or space would be compared with ours."""
    objective = OptunaObjective(train, {"lr": Float(0, 1)}, metric=Reported("loss", MINIMIZE))
    with pytest.raises(RecordError, match=message):
        study.optimize(objective, n_trials=1)


def test_a_study_made_by_hand_goes_on_where_it_fits():
    """Its trials lie in the space, and its metric has the same name; those that only wait say nothing."""
    objective = OptunaObjective(train, {"lr": Float(0, 1)}, metric=Reported("loss", MINIMIZE))
    study = made_by_hand({"lr": 0.25}, "loss")
    study.enqueue_trial({"lr": 0.75})
    study.optimize(objective, n_trials=2)
    assert [trial.value for trial in study.trials[:2]] == [0.5, 0.75]


def objective_of(**facts) -> OptunaObjective:
    """An objective of the loss over one param."""
    return OptunaObjective(train, {"lr": Float(0, 1)}, metric=Reported("loss", MINIMIZE), **facts)


@pytest.mark.parametrize(
    ("study", "error", "message"),
    [
        (made_by_hand({"lr": 0.5}), RecordError, r"attach\(study, adopt=True\), otherwise"),
        (made_by_hand({"rate": 0.5}), RecordError, "another space: space.rate: no such param"),
        (optuna.create_study(direction="maximize"), DirectionError, "loss must be minimized, but the study"),
    ],
)
def test_a_study_that_does_not_fit_loses_no_trial(study, error, message):
    """It is refused before a trial is drawn, and nothing is written to it."""
    trials = len(study.trials)
    for attach in (objective_of().attach, lambda study: objective_of().optimize(study, 5)):
        with pytest.raises(error, match=message):
            attach(study)
    assert (len(study.trials), study.user_attrs) == (trials, {})
    with pytest.raises(error) as refused:
        study.optimize(objective_of(), n_trials=1)
    assert refused.value.__notes__ == ["objective.attach(study) checks this before a trial is drawn"]


def own(trial):
    """An objective of a user, which has a run."""
    return Run(trial, metric="accuracy", output=Binary()).value


@pytest.fixture
def log():
    """What Optuna logs."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append
    logging.getLogger("optuna").addHandler(handler)
    yield records
    logging.getLogger("optuna").removeHandler(handler)


@pytest.mark.parametrize(
    "objective",
    [own, OptunaObjective(train, SPACE, metric="accuracy", output=Binary())],
    ids=["run", "objective"],
)
def test_a_study_of_the_other_direction_is_printed_once(objective, log):
    """By Python, with the traceback; Optuna's log of the failed trial has the message alone."""
    study = optuna.create_study(direction="minimize")
    with pytest.raises(DirectionError, match="accuracy must be maximized"):
        study.optimize(objective, n_trials=1)
    failed = [record for record in log if "accuracy must be maximized" in record.getMessage()]
    assert [record.exc_info for record in failed] == [None]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        ({"metric": "acuracy"}, "Did you mean 'accuracy'"),
        ({"metric": "accuracy", "patients": 3}, "patients"),
        ({"metric": "accuracy", "prune_by": "dominance"}, "prune_by"),
    ],
    ids=["name", "argument", "pruner"],
)
def test_a_run_that_is_refused_is_printed_once(facts, message, log):
    """By Python: a misspelled metric is no crash of the training, whose place a traceback would show."""
    with pytest.raises((HpometricsError, TypeError), match=message):
        optuna.create_study(direction="maximize").optimize(
            lambda trial: Run(trial, output=Binary(), **facts).value, n_trials=1
        )
    failed = [record for record in log if "failed with" in record.getMessage()]
    assert failed and [record.exc_info for record in failed] == [None] * len(failed)


def test_an_error_of_the_user_stays_in_the_log(log):
    """With its traceback, as Optuna writes it: `catch` may keep Python from printing it."""
    optuna.create_study().optimize(lambda trial: 1 / 0, n_trials=1, catch=ZeroDivisionError)
    assert [record.exc_info[0] for record in log if record.exc_info] == [ZeroDivisionError]


def test_trials_of_a_study_are_adopted_in_one_step():
    """They count from then on, for every objective of this metric; those of another space never."""
    study = made_by_hand({"lr": 0.25})
    study.optimize(objective_of().attach(study, adopt=True), n_trials=2)
    objective = objective_of()
    study.optimize(objective, n_trials=1)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 4
    assert [record.value for record in objective.records(study)] == [trial.value for trial in study.trials]
    with pytest.raises(RecordError, match="another space"):
        objective_of().attach(made_by_hand({"rate": 0.5}), adopt=True)


def own(trial: optuna.Trial, metric: str = "loss", **facts) -> float:
    """An objective of a user, with a run in it whose second epoch is its best."""
    run = Run(trial, metric=Reported(metric, MINIMIZE), **facts)
    lr = trial.suggest_float("lr", 0, 1)
    for epoch in run.epochs(3):
        run.log(**{metric: lr + abs(epoch - 1)})
    return run.value


def test_a_run_says_to_the_study_what_it_measures():
    """So an objective of the same metric takes its trials as they are, and another metric is refused."""
    study = optuna.create_study()
    study.optimize(own, n_trials=2)
    assert metrics_of(study) == ["loss"]
    with pytest.raises(RecordError, match="was created with metric 'loss', but metric is 'cost'"):
        own(study.ask(), "cost")
    objective = objective_of().attach(study)
    assert objective.best(study).epoch == 1


def by_hand(trial: optuna.Trial) -> float:
    """An objective of a user that reports each epoch and returns the last."""
    lr = trial.suggest_float("lr", 0, 1)
    for epoch in range(3):
        trial.report(lr + abs(epoch - 1), epoch)
    return lr + 1


def test_trials_of_an_own_objective_on_other_rows_are_warned_of():
    """Once in a study, for the first trial that differs; also where another process goes on."""

    def objective(trial):
        seed = trial.suggest_int("seed", 0, 9)
        target = torch.randperm(400, generator=torch.Generator().manual_seed(seed))[:100] % 2
        with Run(trial, metric="accuracy", output=Binary()) as run:
            for _ in run.epochs(2):
                run.update(probabilities=torch.full((100,), 0.7), target=target)
        return run.value

    study = optuna.create_study(direction="maximize")
    for seed in (3, 3, 5, 7):
        study.enqueue_trial({"seed": seed})
    with pytest.warns(
        UserWarning, match="trial 2 was measured on other validation rows than trial 0"
    ) as told:
        study.optimize(objective, n_trials=4)
    assert len(told) == 1 and "use the same rows in every trial" in str(told[0].message)


def test_values_of_last_and_best_epochs_in_one_study_are_warned_of():
    """The earlier trials end below their best; those of a run with at='last' do so too, and compare."""
    message = "of 2 earlier trials of the study 'mixed', 2 have the value of their last epoch"
    study = optuna.create_study(study_name="mixed")
    study.optimize(by_hand, n_trials=2)
    own(study.ask(), at="last")
    with pytest.warns(UserWarning, match=message):
        own(study.ask())
    with pytest.warns(UserWarning, match=message):
        objective_of().attach(study, adopt=True)
    objective_of(at="last").attach(study, adopt=True)
