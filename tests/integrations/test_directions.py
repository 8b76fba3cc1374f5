"""The direction of a value that a trainer watches: from the run's metrics, else from its name."""

from __future__ import annotations

from typing import Any

import optuna
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from small_fits import Labeled, Module, hf_trainer, lightning

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import DirectionError
from hpometrics.integrations.directions import check_monitor, direction_of_name, library_metric, monitor_of
from hpometrics.integrations.ignite import RunHandler
from hpometrics.integrations.lightning import RunCallback as LightningCallback
from hpometrics.integrations.transformers import RunCallback as TransformersCallback
from hpometrics.metrics.features import Category
from hpometrics.run import Reported, Run, RunSpec

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:FutureWarning"),  # torch's, of Lightning
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),  # Lightning's advice for larger data
]
FACTS: dict[str, Any] = {"metric": "ece", "output": Category(3), "track": ["f1(average=macro)"]}
NAMES = {
    MINIMIZE: (
        "val_loss eval_loss train-loss validation-logloss validation_0-mlogloss valid_0-binary_logloss "
        "test-error@0.3 valid-l2 learn-Logloss validation-RMSE validation-MultiClass validation-rmse"
    ),
    MAXIMIZE: "val_accuracy validation-auc valid-aucpr validation-AUC learn-BalancedAccuracy valid_acc t-F1",
}


@pytest.mark.parametrize(("name", "direction"), [(n, d) for d, names in NAMES.items() for n in names.split()])
def test_a_name_of_a_library_shows_its_direction(name, direction):
    """Behind the name of its data, in the words of XGBoost, LightGBM, CatBoost and Keras."""
    assert library_metric(name) == Reported(name, direction)


@pytest.mark.parametrize("name", ["val_gap", "validation-CtrFactor", "lr"])
def test_another_name_is_not_guessed(name):
    """The error shows both ways to state it."""
    assert direction_of_name(name) is None
    with pytest.raises(DirectionError, match=rf"does not show .* Reported\('{name}', 'minimize'\)"):
        library_metric(name)


def test_the_run_knows_better_than_the_name():
    """A tracked value has the direction that the user states, one that is measured that of the registry."""
    spec = RunSpec("accuracy", output=Category(3), track=[Reported("odd_loss", MAXIMIZE)])
    assert monitor_of(spec, None) == ("accuracy", MAXIMIZE)
    assert monitor_of(spec, "odd_loss") == ("odd_loss", MAXIMIZE)
    check_monitor(spec, "odd_loss", MAXIMIZE, "mode='max'")
    check_monitor(spec, "anything", MINIMIZE, "mode='min'")
    spec = RunSpec("accuracy", output=Category(3), constraints=["val_recall >= 0.9"])
    assert monitor_of(spec, "val_recall") == ("val_recall", MAXIMIZE)  # by its name, not by the bound
    check_monitor(spec, "val_recall", MAXIMIZE, "mode='max'")
    with pytest.raises(
        DirectionError, match=r"accuracy must be maximized, but mode='min' minimizes it; .*moni"
    ):
        check_monitor(spec, "accuracy", MINIMIZE, "mode='min'")


def test_callbacks_of_lightning_have_the_direction_of_the_metric(tmp_path):
    """The best checkpoint is that of the least ECE, though nothing says `min`."""
    run = Run(**FACTS)
    kept = ModelCheckpoint(tmp_path, **LightningCallback(Run(**FACTS)).monitor())
    lightning(run, 5, callbacks=[kept], enable_checkpointing=True)
    assert kept.best_model_score == run.value == min(record.values["ece"] for record in run.history)


class Plateau(Module):
    """A schedule that takes a rising F1 for a worse one, as its default does."""

    def configure_optimizers(self) -> Any:
        optimizer = super().configure_optimizers()
        scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        return {
            "optimizer": optimizer,
            "lr_scheduler": {"scheduler": scheduler, "monitor": "f1(average=macro)"},
        }


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"callbacks": [EarlyStopping("f1(average=macro)")]}, r"EarlyStopping\(mode='min'\) minimizes it"),
        ({"callbacks": [ModelCheckpoint(monitor="ece", mode="max")]}, r"ModelCheckpoint\(mode='max'\)"),
        ({"callbacks": [EarlyStopping("val_loss", mode="max")]}, "val_loss must be minimized"),
        ({"module": Plateau}, r"ReduceLROnPlateau\(mode='min'\) minimizes it"),
    ],
    ids=["early stopping", "checkpoint", "logged", "schedule"],
)
def test_lightning_in_the_wrong_direction_is_refused(settings, text):
    """Before a step is trained, by what watches it and what it says."""
    run = Run(**FACTS)
    with pytest.raises(DirectionError, match=text):
        lightning(run, 3, enable_checkpointing=True, **settings)
    assert run.history == ()


def test_transformers_picks_the_best_model_in_the_direction_of_the_metric(tmp_path):
    """Its own default takes the greater for the better unless a name ends in `loss`."""
    callback = TransformersCallback(run := Run(**FACTS))
    assert callback.monitor() == {"metric_for_best_model": "ece", "greater_is_better": False}
    trainer = hf_trainer(callback, 5, tmp_path, Labeled(), save_strategy="best", **callback.monitor())
    trainer.train()
    assert trainer.state.best_metric == run.value == min(record.values["ece"] for record in run.history)


@pytest.mark.parametrize("stated", [{}, {"greater_is_better": True}], ids=["default", "stated"])
def test_transformers_in_the_wrong_direction_is_refused(stated, tmp_path):
    """What it guesses from the name is refused as what the user says."""
    callback = TransformersCallback(Run(**FACTS))
    trainer = hf_trainer(callback, 2, tmp_path, Labeled(), metric_for_best_model="eval_ece", **stated)
    text = r"ece must be minimized, but TrainingArguments\(greater_is_better=True\) maximizes it"
    with pytest.raises(DirectionError, match=text):
        trainer.train()


def test_a_search_of_transformers_has_direction_and_objective_by_name(tmp_path):
    """A trial counts by the picked epoch of its run, and the best trial is the best run."""
    runs: list[Run] = []
    callback = TransformersCallback(lambda: runs.append(Run(**FACTS)) or runs[-1])
    trainer = hf_trainer(callback, 3, tmp_path, None, model_init=Labeled)
    best = trainer.hyperparameter_search(
        lambda trial: {"learning_rate": trial.suggest_float("learning_rate", 1e-4, 0.5, log=True)},
        n_trials=2, sampler=optuna.samplers.RandomSampler(0), **callback.search(),
    )  # fmt: skip
    assert best.objective == min(run.value for run in runs)


def test_a_score_of_ignite_is_greater_where_the_metric_is_better():
    """Its handlers know no other way; the record keeps the value as it is."""
    handler = RunHandler(Run(**FACTS))
    evaluator = type(
        "Evaluator", (), {"state": type("State", (), {"metrics": {"ece": 0.25, "accuracy": 0.5}})}
    )
    assert handler.score_function()(evaluator) == -0.25
    assert handler.score_function("accuracy")(evaluator) == 0.5
