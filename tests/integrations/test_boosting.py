"""XGBoost, LightGBM and CatBoost: a boosting round is an epoch of the run."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import catboost
import lightgbm as lgb
import numpy as np
import optuna
import pytest
import xgboost as xgb
from sklearn.metrics import roc_auc_score
from small_fits import Killed

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import DirectionError, NoFiniteValueError, RunError
from hpometrics.integrations import catboost as of_catboost, lightgbm as of_lightgbm, xgboost as of_xgboost
from hpometrics.integrations.directions import library_metric
from hpometrics.metrics.features import Binary, Category, Number
from hpometrics.run import Reported, Run

FACTS: dict[str, Any] = {"metric": "roc_auc", "output": Binary()}
XGB = {"objective": "binary:logistic", "eval_metric": ["auc", "logloss"], "nthread": 1}
LGB = {"objective": "binary", "metric": ["auc", "binary_logloss"], "num_threads": 1, "verbose": -1}
STOPS = optuna.pruners.ThresholdPruner(lower=2.0, n_warmup_steps=1)
LIBRARIES = ["xgboost", "lightgbm"]


def rows(seed: int, count: int = 200) -> tuple[np.ndarray, np.ndarray]:
    """Rows of two classes that overlap."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(count, 4))
    return x, (x[:, 0] + x[:, 1] * random.normal(size=count) > 0).astype(int)


TRAIN, VALID = rows(0), rows(1)


def xgboost(run: Run, rounds: int = 8, name: str = "validation", callbacks: Any = (), **settings: Any) -> Any:
    """By `xgboost.train`."""
    valid = xgb.DMatrix(*VALID)
    callback = of_xgboost.RunCallback(run, rounds, valid)
    others = [make(callback) for make in callbacks]
    return xgb.train(
        XGB, xgb.DMatrix(*TRAIN), rounds, evals=[(valid, name)], verbose_eval=False,
        callbacks=[callback, *others], **settings,
    )  # fmt: skip


def lightgbm(
    run: Run, rounds: int = 8, name: str = "validation", callbacks: Any = (), **settings: Any
) -> Any:
    """By `lightgbm.train`, which evaluates the rows of the training too."""
    train = lgb.Dataset(*TRAIN)
    valid = lgb.Dataset(*VALID, reference=train)
    callback = of_lightgbm.RunCallback(run, rounds, valid)
    settings = {"init_model": callback.init_model, "feval": callback.feval} | settings
    others = [make(callback) for make in callbacks]
    return lgb.train(
        LGB, train, rounds, valid_sets=[train, valid], valid_names=["train", name],
        callbacks=[callback, *others], **settings,
    )  # fmt: skip


FITS = {"xgboost": xgboost, "lightgbm": lightgbm}


@pytest.mark.parametrize("library", LIBRARIES)
def test_each_round_is_measured_and_recorded(library):
    """By the run as by the library; its own values stand beside, and the model knows the picked round."""
    run = Run(**FACTS)
    model = FITS[library](run)
    own = [record.values["validation-auc"] for record in run.history]
    assert [record.values["roc_auc"] for record in run.history] == pytest.approx(own, abs=1e-6)
    assert len(own) == 8 and run.value == max(record.values["roc_auc"] for record in run.history)
    if library == "xgboost":
        last = model.best_iteration
        scores = model.predict(xgb.DMatrix(VALID[0]), iteration_range=(0, last + 1))
    else:
        last, scores = model.best_iteration - 1, model.predict(VALID[0])  # by the best round
    assert last == run.best_epoch
    assert roc_auc_score(VALID[1], scores) == pytest.approx(run.value, abs=1e-9)


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_pruners_stop_leaves_the_training(library):
    """After the second round; with another pruner the trial is complete."""
    for pruner, state, rounds in ((STOPS, "PRUNED", 2), (optuna.pruners.NopPruner(), "COMPLETE", 8)):
        study = optuna.create_study(direction="maximize", pruner=pruner)
        study.optimize(lambda trial: (run := Run(trial, **FACTS), FITS[library](run))[0].value, n_trials=1)
        assert study.trials[0].state.name == state
        assert len(study.trials[0].intermediate_values) == rounds


@pytest.mark.parametrize("facts", [{"epochs": 3}, {"patience": 1, "tol": 9.0}, {"target": 0.0}], ids=str)
@pytest.mark.parametrize("library", LIBRARIES)
def test_budget_patience_and_target_end_the_training(library, facts):
    """No model grows further than its run."""
    run = Run(**FACTS, **facts)
    model = FITS[library](run)
    trees = model.num_boosted_rounds() if library == "xgboost" else model.num_trees()
    assert trees == len(run.history) < 8


class Seen(xgb.callback.TrainingCallback):
    """Keeps the number of each round that has ended."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds: list[int] = []

    def after_iteration(self, model: Any, epoch: int, evals_log: Any) -> bool:
        self.rounds.append(epoch)
        return False


def test_callbacks_behind_it_see_the_last_round():
    """Which is the picked one if the target ends the run."""
    run, seen = Run(**FACTS, epochs=3), Seen()
    xgboost(run, callbacks=[lambda _: seen])
    assert seen.rounds == [0, 1, 2] and len(run.history) == 3


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_run_that_was_killed_continues_its_model(library, tmp_path):
    """To the last digit; a run that is whole trains no round more."""
    whole = Run(**FACTS)
    FITS[library](whole)
    with pytest.raises(KeyError, match="killed"), Run(Killed(), directory=tmp_path, **FACTS) as run:
        FITS[library](run)
    for _ in range(2):
        with Run(directory=tmp_path, **FACTS) as run:
            model = FITS[library](run)
        assert [record.values for record in run.history] == [record.values for record in whole.history]
    assert run.best_epoch == whole.best_epoch
    assert library == "lightgbm" or model.num_boosted_rounds() == 8


def test_lightgbm_that_begins_anew_is_refused(tmp_path):
    """Its rounds would be recorded as later ones of the model that was killed."""
    with pytest.raises(KeyError, match="killed"), Run(Killed(), directory=tmp_path, **FACTS) as run:
        lightgbm(run)
    anew = pytest.raises(
        RunError, match="after round 2, but the training starts from scratch; pass init_model="
    )
    with anew, Run(directory=tmp_path, **FACTS) as run:
        lightgbm(run, init_model=None)


@pytest.mark.parametrize("library", LIBRARIES)
def test_early_stopping_of_the_library_watches_a_measured_value(library):
    """In the direction of the metric, which the library cannot guess from its name."""
    stopping = {
        "xgboost": lambda callback: xgb.callback.EarlyStopping(rounds=1, **callback.monitor()),
        "lightgbm": lambda callback: lgb.early_stopping(1, first_metric_only=True, verbose=False),
    }[library]
    run = Run(metric="brier", output=Binary(), defaults=False)
    settings = {} if library == "xgboost" else {"feval": None}
    if library == "lightgbm":
        LGB_ONLY = {**LGB, "metric": "None"}
        callback = of_lightgbm.RunCallback(run, 60)
        train = lgb.Dataset(*TRAIN)
        lgb.train(
            LGB_ONLY, train, 60, valid_sets=[lgb.Dataset(*VALID, reference=train)], feval=callback.feval,
            callbacks=[callback, stopping(callback)],
        )  # fmt: skip
    else:
        xgboost(run, 60, callbacks=[stopping], **settings)
    values = [record.values["brier"] for record in run.history]
    assert 2 < len(values) < 60 and values[-1] >= values[-2] == min(values)


@pytest.mark.parametrize(
    ("library", "name"), [("xgboost", "test-logloss"), ("lightgbm", "valid-auc"), ("lightgbm", "mine-auc")]
)
def test_what_the_library_evaluates_can_be_optimized(library, name):
    """Of folds and of a validation set with a name of its own; the pruner stops both."""
    stops, metric = optuna.pruners.ThresholdPruner(upper=1e-9), library_metric(name)
    for pruner, state in ((stops, "PRUNED"), (optuna.pruners.NopPruner(), "COMPLETE")):
        study = optuna.create_study(direction=metric.direction, pruner=pruner)

        def objective(trial: Any) -> float:
            run = Run(trial, metric=metric)
            if library == "xgboost":
                xgb.cv(XGB, xgb.DMatrix(*TRAIN), 3, nfold=2, callbacks=[of_xgboost.RunCallback(run, 3)])
            elif name.startswith("mine"):
                lightgbm(run, 3, "mine", feval=None)
            else:
                callback = of_lightgbm.RunCallback(run, 3)
                lgb.cv(LGB, lgb.Dataset(*TRAIN), 3, nfold=2, callbacks=[callback])
            return run.value

        study.optimize(objective, n_trials=1)
        assert study.trials[0].state.name == state


def test_models_of_scikit_learn_report_too():
    """Both call the callback as `train` does; three classes have three probabilities."""
    target = np.digitize(VALID[0][:, 0], [-0.5, 0.5])
    facts: dict[str, Any] = {"metric": "accuracy", "output": Category(3)}
    run, other = Run(**facts), Run(**facts)
    callback = of_xgboost.RunCallback(run, 4, xgb.DMatrix(VALID[0], target))
    xgb.XGBClassifier(n_estimators=4, n_jobs=1, callbacks=[callback]).fit(VALID[0], target, verbose=False)
    callback = of_lightgbm.RunCallback(other, 4)
    model = lgb.LGBMClassifier(n_estimators=4, n_jobs=1, verbose=-1)
    x, y = VALID[0], target
    model.fit(x, y, eval_X=x[:150], eval_y=y[:150], eval_metric=callback.feval, callbacks=[callback])
    assert len(run.history) == len(other.history) == 4
    assert run.value > 0.9 and other.value > 0.8


def test_numbers_are_read_as_predictions():
    """A model of numbers gives no probabilities."""
    run, valid = Run(metric="rmse", output=Number()), xgb.DMatrix(VALID[0], VALID[0][:, 0])
    callback = of_xgboost.RunCallback(run, 3, valid)
    xgb.train({"nthread": 1}, valid, 3, evals=[(valid, "v")], callbacks=[callback], verbose_eval=False)
    assert run.value == pytest.approx(run.values["v-rmse"], rel=1e-5)


def test_lightgbm_in_the_wrong_direction_is_refused():
    """LightGBM says which way it optimizes; the error names both."""
    with pytest.raises(DirectionError, match="validation-auc must be minimized, but LightGBM maximizes it"):
        lightgbm(Run(metric=Reported("validation-auc", MINIMIZE)))
    with pytest.raises(DirectionError, match="-binary_logloss must be maximized, but LightGBM minimizes it"):
        lightgbm(Run(metric=Reported("validation-binary_logloss", MAXIMIZE)))


def test_a_metric_that_the_library_does_not_evaluate_is_named():
    """With what it does report."""
    run = Run(metric=library_metric("valid_1-auc"))
    lightgbm(run, 2)
    with pytest.raises(
        NoFiniteValueError, match=r"valid_1-auc: none of 2 epochs.* it reported .*validation-auc"
    ):
        run.value  # noqa: B018


def test_a_metric_without_predictions_fails_at_the_first_round():
    """With what is missing, before a round more is trained."""
    callback = of_xgboost.RunCallback(Run(**FACTS), 3)
    with pytest.raises(RunError, match="roc_auc cannot be measured in epoch 0: valid is missing"):
        xgb.train(XGB, xgb.DMatrix(*TRAIN), 3, callbacks=[callback])
    with pytest.raises(RunError, match=r"in epoch 0: feval=callback\.feval is missing"):
        lightgbm(Run(**FACTS), 3, feval=None)
    with pytest.raises(
        RunError, match="in epoch 0: CatBoost does not expose predictions; use library_metric"
    ):
        with of_catboost.RunCallback(Run(**FACTS), 3) as callback:
            goes_on = callback.after_iteration(info(1, 0.5))
    assert not goes_on


def test_several_sets_without_the_one_that_counts_are_refused():
    """LightGBM evaluates the rows of the training as well."""
    train = lgb.Dataset(*TRAIN)
    callback = of_lightgbm.RunCallback(Run(**FACTS), 2)
    sets = [train, lgb.Dataset(*VALID, reference=train)]
    with pytest.raises(RunError, match="measures one data set, but LightGBM evaluates several; pass"):
        lgb.train(LGB, train, 2, valid_sets=sets, feval=callback.feval, callbacks=[callback])


def test_a_number_of_rounds_is_needed():
    """XGBoost does not tell a callback; a pruner must know the last round."""
    callback = of_xgboost.RunCallback(Run(**FACTS))
    with pytest.raises(RunError, match="the number of epochs is missing"):
        xgb.train(XGB, xgb.DMatrix(*TRAIN), 2, callbacks=[callback])


def info(iteration: int, *values: float) -> SimpleNamespace:
    """The values of CatBoost's rounds so far, as it passes them."""
    return SimpleNamespace(iteration=iteration, metrics={"validation": {"AUC": list(values)}})


def test_catboost_is_told_to_stop_and_the_stop_is_raised_behind_it():
    """What a callback raises CatBoost would make an error of its own."""
    study = optuna.create_study(direction="maximize", pruner=STOPS)
    run = Run(study.ask(), metric=library_metric("validation-AUC"))
    with (
        pytest.raises(optuna.TrialPruned, match="after epoch 1"),
        of_catboost.RunCallback(run, 5) as callback,
    ):
        goes_on = [callback.after_iteration(info(n, *[0.5, 0.75][:n])) for n in (1, 2)]
    assert goes_on == [True, False] and callback.monitor() == {"eval_metric": "AUC"}
    assert [record.values["validation-AUC"] for record in run.history] == [0.5, 0.75]


def test_an_interrupt_of_the_user_leaves_catboost_as_it_is():
    """An error of the body may come of the training that has ended; that one is raised with it."""
    for error, leaves in ((KeyboardInterrupt, KeyboardInterrupt), (ValueError, RunError)):
        with pytest.raises(leaves), of_catboost.RunCallback(Run(**FACTS), 3) as callback:
            callback.after_iteration(info(1, 0.5))
            raise error


def test_catboost_without_with_is_refused():
    """Nobody would raise its stop."""
    callback = of_catboost.RunCallback(Run(metric=library_metric("validation-AUC")), 5)
    with pytest.raises(RunError, match="write `with RunCallback"):
        callback.after_iteration(info(1, 0.5))


def test_catboost_ends_with_its_run():
    """Patience stops it without an exception."""
    run = Run(metric=library_metric("validation-AUC"), patience=1)
    with of_catboost.RunCallback(run, 5) as callback:
        assert [callback.after_iteration(info(n, *[0.5] * n)) for n in (1, 2)] == [True, False]
    assert run.value == 0.5


@pytest.mark.parametrize("sets", [1, 2])
def test_catboost_reports_its_rounds_and_continues_after_a_kill(sets, tmp_path):
    """By its own snapshots: no round is trained or reported twice."""
    name = "validation-AUC" if sets == 1 else "validation_1-AUC"

    def fit(run: Run) -> None:
        with of_catboost.RunCallback(run, 6) as callback:
            settings = {"thread_count": 1, "verbose": 0, **callback.monitor(), **callback.snapshot}
            model = catboost.CatBoostClassifier(iterations=6, **settings)
            model.fit(*TRAIN, eval_set=[VALID] * sets, callbacks=[callback])

    with Run(metric=library_metric(name), directory=tmp_path / "whole") as whole:
        fit(whole)
    home = tmp_path / "run"
    with (
        pytest.raises(KeyError, match="killed"),
        Run(Killed(), metric=library_metric(name), directory=home) as run,
    ):
        fit(run)
    with Run(metric=library_metric(name), directory=home) as run:
        fit(run)
    assert len(run.history) == 6
    assert [record.values for record in run.history] == [record.values for record in whole.history]
