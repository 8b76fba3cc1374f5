"""Keras on torch: the run measures after each epoch, and Keras' own callbacks see its values."""

from __future__ import annotations

import math
from typing import Any

import keras
import numpy as np
import optuna
import pytest
from small_fits import TRAIN, VALID, Killed

from hpometrics.exceptions import RunError
from hpometrics.integrations.directions import library_metric
from hpometrics.integrations.keras import RunCallback
from hpometrics.metrics.features import Category
from hpometrics.run import Run

# Keras' own, where a tensor of torch becomes an array of NumPy 2
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation does:DeprecationWarning")
FACTS: dict[str, Any] = {"metric": "f1(average=macro)", "output": Category(3), "track": ["ece"]}
X, Y = (part.numpy() for part in TRAIN)
X_VALID, Y_VALID = (part.numpy() for part in VALID)


def network() -> Any:
    """The same weights and dropout each time."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential([layers.Dense(8, "tanh"), layers.Dropout(0.2, seed=1), layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"])
    return model


def fit(run: Run, epochs: int = 4, callbacks: Any = (), valid: Any = (X_VALID, Y_VALID)) -> Any:
    """By Keras, the callbacks after that of the run."""
    model, callback = network(), RunCallback(run, valid, "logits")
    model.fit(
        X, Y, batch_size=16, epochs=epochs, shuffle=False, verbose=0, validation_data=(X_VALID, Y_VALID),
        callbacks=[callback, *(make(callback) for make in callbacks)],
    )  # fmt: skip
    return model


def test_what_is_measured_is_that_of_keras():
    """Whole or in batches; the training's own value of the same name is recorded beside it."""
    run, batches = Run(**FACTS), Run(**FACTS)
    model = fit(run)
    fit(batches, valid=[(X_VALID[:9], Y_VALID[:9]), (X_VALID[9:], Y_VALID[9:])])
    last, history = run.history[-1].values, model.history.history
    assert last["accuracy"] == pytest.approx(history["val_accuracy"][-1])
    assert last["log_loss"] == pytest.approx(history["val_loss"][-1], rel=1e-5)
    assert 0 < last["train_accuracy"] != last["accuracy"] and last["loss"] == history["loss"][-1]
    assert [one.values["ece"] for one in batches.history] == pytest.approx(
        [one.values["ece"] for one in run.history]
    )


@pytest.mark.parametrize(
    ("pruner", "state"),
    [(optuna.pruners.ThresholdPruner(upper=-1.0), "PRUNED"), (optuna.pruners.NopPruner(), "COMPLETE")],
)
def test_its_own_loss_steers_a_search(pruner, state):
    """Without validation data for the run, which then only records."""
    metric = library_metric("val_loss")
    study = optuna.create_study(direction=metric.direction, pruner=pruner)
    study.optimize(
        lambda trial: (run := Run(trial, metric=metric), fit(run, 2, valid=None))[0].value, n_trials=1
    )
    assert study.trials[0].state.name == state


@pytest.mark.parametrize("facts", [{"epochs": 2}, {"patience": 1, "tol": 9.0}, {"target": 0.0}], ids=str)
def test_budget_patience_and_target_end_the_training(facts):
    """As many epochs of Keras as of the run."""
    run = Run(**FACTS, **facts)
    assert len(fit(run).history.epoch) == len(run.history) < 4


def test_a_model_that_was_killed_goes_on(tmp_path):
    """With weights, optimizer and the draws of dropout; a run that is whole trains no further."""
    whole, got = Run(**FACTS), []
    want = fit(whole)
    with pytest.raises(KeyError, match="killed"), Run(Killed(), directory=tmp_path, **FACTS) as run:
        fit(run)
    for _ in range(2):
        with Run(directory=tmp_path, **FACTS) as run:
            got = fit(run)
        assert [one.values["ece"] for one in run.history] == [one.values["ece"] for one in whole.history]
        assert all(map(np.array_equal, got.get_weights(), want.get_weights()))


def test_callbacks_of_keras_watch_a_measured_value(tmp_path):
    """In the direction of the metric, which Keras cannot know from the name."""
    run = Run(metric="ece", output=Category(3))

    def kept(one: RunCallback) -> keras.callbacks.Callback:
        return keras.callbacks.ModelCheckpoint(tmp_path / "best.keras", save_best_only=True, **one.monitor())

    def stopping(one: RunCallback) -> keras.callbacks.Callback:
        return keras.callbacks.EarlyStopping(patience=1, **one.monitor())

    fit(run, 9, [stopping, kept])
    values = [record.values["ece"] for record in run.history]
    assert len(values) < 9 and values[-1] >= values[-2] == min(values)
    best = Run(metric="ece", output=Category(3))
    best.update(
        logits=keras.saving.load_model(tmp_path / "best.keras").predict(X_VALID, verbose=0), target=Y_VALID
    )
    assert best.value == pytest.approx(run.value)


def test_a_loss_that_is_not_finite_is_recorded_and_never_wins():
    """Of two epochs the finite one is picked."""
    callback = RunCallback(run := Run(metric=library_metric("loss")))
    callback.set_model(network()), callback.set_params({"epochs": 2})
    callback.model.build((None, 4)), callback.model.optimizer.build(callback.model.trainable_variables)
    callback.on_train_begin()
    for epoch, loss in enumerate((0.5, math.nan)):
        callback.on_epoch_begin(epoch)
        callback.on_epoch_end(epoch, {"loss": loss})
    assert (run.value, len(run.history)) == (0.5, 2)


@pytest.mark.parametrize("valid", [None, iter([(X_VALID, Y_VALID)])], ids=["none", "used up"])
def test_data_that_are_missing_are_named(valid):
    """In the first epoch without them."""
    with pytest.raises(
        RunError, match=r"cannot be measured in epoch [01]: valid is missing, or is an iterator"
    ):
        fit(Run(**FACTS), 2, valid=valid)


def test_what_the_model_gives_is_not_guessed():
    """Logits and probabilities look alike."""
    with pytest.raises(RunError, match="pass read='logits', 'probabilities' or 'predictions'"):
        RunCallback(Run(**FACTS), (X, Y))
