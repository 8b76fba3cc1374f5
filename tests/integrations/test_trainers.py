"""What holds of every trainer that there is a callback for, and of the plain loop: one law, one test."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import lightning.pytorch as pl
import optuna
import pytest
import torch
import transformers
from ignite.engine import Events
from ignite.handlers import EarlyStopping as IgniteEarlyStopping
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from small_fits import (
    Fit,
    Killed,
    Labeled,
    Module,
    hf_trainer,
    hugging_face,
    ignite,
    lightning,
    plain,
)
from torch import nn

from hpometrics.backends.optuna.reporter import OptunaReporter
from hpometrics.backends.ray.reporter import StoppedByTune
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import RunError
from hpometrics.integrations.transformers import RunCallback as TransformersCallback
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Category
from hpometrics.records.trial_record import TrialState
from hpometrics.run import Reported, Run, RunSpec
from hpometrics.run.checkpoint import load_checkpoint
from hpometrics.run.reporter import ListReporter
from hpometrics.run.trial import run_trial

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:FutureWarning"),  # torch's, of Lightning
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),  # Lightning's advice for larger data
]

TRAINERS = ["lightning", "transformers", "ignite"]
FACTS: dict[str, Any] = {
    "metric": "f1(average=macro)",
    "output": Category(3),
    "track": ["accuracy", "roc_auc", "ece", "log_loss"],
}
MEASURED = ["f1(average=macro)", "accuracy", "roc_auc", "ece"]


@pytest.fixture
def fits(tmp_path) -> dict[str, Fit]:
    """Each way to train the same network."""
    return {
        "plain": plain,
        "lightning": lightning,
        "transformers": partial(hugging_face, directory=tmp_path / "transformers"),
        "ignite": ignite,
    }


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_same_model_and_seed_give_the_same_reported_values(trainer, fits):
    """To the last digit what is counted or ranked; a mean over rows but for the order of its sum."""
    want, got = ListReporter(), ListReporter()
    right = fits["plain"](Run(want, **FACTS), 4)
    model = fits[trainer](Run(got, **FACTS), 4)
    assert len(want.reports) == len({report.value for report in want.reports}) == 4
    for one, other in zip(want.reports, got.reports, strict=True):
        assert (other.epoch, other.value, other.picked, other.final) == (
            one.epoch, one.value, one.picked, one.final,
        )  # fmt: skip
        assert [other.values[name] for name in MEASURED] == [one.values[name] for name in MEASURED]
        assert other.values["log_loss"] == pytest.approx(one.values["log_loss"], rel=1e-12)
    assert all(map(torch.equal, weights(right), weights(model)))


def weights(model: nn.Module | dict[str, torch.Tensor]) -> list[torch.Tensor]:
    """All weights in order, whatever the trainer calls them."""
    return list((model if isinstance(model, dict) else model.state_dict()).values())


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_hosts_stop_ends_training(trainer, fits):
    """The pruner says so after epoch 1 of 4: it is raised out of the trainer, and the trial is pruned."""
    study = optuna.create_study(
        direction="maximize", pruner=optuna.pruners.ThresholdPruner(lower=2.0, n_warmup_steps=1)
    )
    record = run_trial(
        lambda params, run: fits[trainer](run, 4), {}, RunSpec(**FACTS), OptunaReporter(study.ask())
    )
    assert (record.state, len(record.epochs)) == (TrialState.PRUNED, 2)
    assert "stopped trial 0 after epoch 1" in record.reason
    assert len(study.trials[0].intermediate_values) == 2


class Exits(ListReporter):
    """Stops the run after epoch 1 as Ray Tune does, by an exit."""

    def report(self, epoch: int, *told: Any) -> None:
        super().report(epoch, *told)
        if epoch == 1:
            raise StoppedByTune("enough")


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_stop_that_is_an_exit_ends_training(trainer, fits):
    """No trainer takes it for an interrupt or an error of its own, and the run does not go on after it."""
    run = Run(Exits(stops=(StoppedByTune,)), **FACTS)
    with pytest.raises(StoppedByTune, match="enough"):
        fits[trainer](run, 4)
    assert len(run.history) == 2
    with pytest.raises(StoppedByTune, match="enough"):
        next(run.epochs(4))


@pytest.mark.parametrize("facts", [{"epochs": 2}, {"patience": 1, "tol": 9.0}, {"target": 0.0}], ids=str)
@pytest.mark.parametrize("trainer", TRAINERS)
def test_budget_patience_and_target_end_training(trainer, facts, fits):
    """As they end the loop: with the same epochs, the last of them told as final."""
    want, got = ListReporter(), ListReporter()
    right = fits["plain"](Run(want, **FACTS, **facts), 4)
    model = fits[trainer](Run(got, **FACTS, **facts), 4)
    assert len(want.reports) < 4
    assert [(r.epoch, r.value, r.final) for r in got.reports] == [
        (r.epoch, r.value, r.final) for r in want.reports
    ]
    assert all(map(torch.equal, weights(right), weights(model)))  # not a step more


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_checkpoint_is_of_the_picked_epoch(trainer, fits, tmp_path):
    """Its weights are those of a training that ended with that epoch."""
    with Run(directory=tmp_path / "run", **FACTS) as run:
        fits[trainer](run, 6)
    assert run.best_epoch is not None and run.best_epoch < 5
    stored = load_checkpoint(run.best_checkpoint)["states"]
    assert stored["optimizer"]["state"]
    right = fits["plain"](Run(**FACTS), run.best_epoch + 1)
    assert all(map(torch.equal, weights(right), weights(stored["model"])))


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_run_that_was_killed_goes_on(trainer, fits, tmp_path):
    """Weights and momentum come back: the same values as without, and no epoch twice."""
    want, got = ListReporter(), ListReporter()
    fits["plain"](Run(want, **FACTS), 4)
    home = tmp_path / "run"
    with pytest.raises(KeyError, match="killed"), Run(Killed(), directory=home, **FACTS) as run:
        fits[trainer](run, 4)
    with Run(got, directory=home, **FACTS) as run:
        fits[trainer](run, 4)
    assert [(r.epoch, r.value, r.final) for r in got.reports] == [
        (r.epoch, r.value, r.final) for r in want.reports
    ]
    assert [record.attempt for record in run.history] == [1, 1, 2, 2]


@pytest.mark.parametrize("trainer", TRAINERS)
def test_a_run_that_was_whole_trains_no_further(trainer, fits, tmp_path):
    """No step behind the last epoch: the weights are those that the run ended with."""
    models = []
    for _ in range(2):
        with Run(directory=tmp_path / "run", **FACTS) as run:
            models.append(fits[trainer](run, 2))
        assert len(run.history) == 2
    assert all(map(torch.equal, *map(weights, models)))


@pytest.mark.parametrize("trainer", ["lightning", "transformers"])
def test_what_is_logged_can_be_optimized(trainer, fits):
    """A run that measures nothing reads no batch, and the trainer's own loss steers it."""
    name = {"lightning": "val_loss", "transformers": "eval_loss"}[trainer]
    run = Run(metric=Reported(name, MINIMIZE))
    fits[trainer](run, 3)
    measured = Run(metric="log_loss", output=Category(3))
    fits["plain"](measured, 3)
    assert run.value == pytest.approx(measured.value, rel=1e-6)  # theirs are sums in float32
    logged = {"lightning": "train_loss", "transformers": "loss"}[trainer]
    assert len({record.values[logged] for record in run.history}) == 3


@pytest.mark.parametrize(
    ("trainer", "settings", "text"),
    [
        ("lightning", {"limit_val_batches": 0}, "this fit has no validation to measure; set validation_step"),
        (
            "transformers",
            {"eval_strategy": "no", "eval_on_start": False},
            "needs evaluations; set eval_strategy to 'epoch' or 'steps', not",
        ),
        ("ignite", {"passes": 2}, "one ended in epoch 1 of the trainer while the run is at epoch 2"),
    ],
)
def test_a_run_measures_one_validation_per_epoch(trainer, settings, text, fits):
    """Another rhythm is refused, and the error says which it is."""
    with pytest.raises(RunError, match=text):
        fits[trainer](Run(**FACTS), 4, **settings)


def watchers(seen: list[dict[str, float]]) -> dict[str, Any]:
    """A callback of each trainer's own that keeps the values it sees of each pass."""

    class OfLightning(pl.Callback):
        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            seen.append({name: value.item() for name, value in trainer.callback_metrics.items()})

    class OfTransformers(transformers.TrainerCallback):
        def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            seen.append({name.removeprefix("eval_"): value for name, value in kwargs["metrics"].items()})

    def of_ignite(trainer: Any, evaluator: Any) -> None:
        evaluator.add_event_handler(Events.COMPLETED, lambda: seen.append(dict(evaluator.state.metrics)))

    return {"lightning": OfLightning(), "transformers": OfTransformers(), "ignite": of_ignite}


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_trainers_own_callbacks_see_the_values_of_the_pass(trainer, fits, monkeypatch):
    """The numbers of the record, which are computed once a pass; those before and after training, too."""
    computed = []
    plain_compute = MetricCollection.compute
    monkeypatch.setattr(
        MetricCollection, "compute", lambda self, **how: computed.append(self) or plain_compute(self, **how)
    )
    run, seen = Run(**FACTS), []
    fits[trainer](run, 4, callbacks=[watchers(seen)[trainer]])
    before, *epochs, after = seen if trainer != "ignite" else seen[1:]
    for told, record in zip(epochs, run.history, strict=True):
        assert [told[name] for name in FACTS["track"]] == [record.values[name] for name in FACTS["track"]]
    assert before["accuracy"] != run.history[0].values["accuracy"]
    assert after["accuracy"] == run.history[-1].values["accuracy"]
    assert len(computed) == len(seen)


def test_lightning_stops_early_and_keeps_the_best_by_a_measured_value(tmp_path):
    """Both callbacks find it by the name of the record, on whichever side of the run's own they stand."""
    run = Run(**FACTS)
    kept = ModelCheckpoint(tmp_path, monitor="accuracy", mode="max")
    early = EarlyStopping("accuracy", mode="max", patience=1)
    lightning(run, 8, callbacks=[early, kept], enable_checkpointing=True)
    values = [record.values["accuracy"] for record in run.history]
    assert len(values) < 8 and values[-1] <= values[-2] == max(values)
    assert kept.best_model_score == max(values)


def test_transformers_picks_its_best_model_by_a_measured_value(fits):
    """As `metric_for_best_model` and its early stopping name it."""
    run = Run(**FACTS)
    fits["transformers"](
        run, 8, metric_for_best_model="accuracy", greater_is_better=True, save_strategy="best",
        callbacks=[transformers.EarlyStoppingCallback(1)],
    )  # fmt: skip
    values = [record.values["accuracy"] for record in run.history]
    assert len(values) < 8 and values[-1] <= values[-2] == max(values)


def test_ignite_stops_early_by_a_measured_value(fits):
    """Its handler reads `evaluator.state.metrics`, as of a metric of Ignite's own."""
    run = Run(**FACTS)

    def early(trainer: Any, evaluator: Any) -> None:
        stopping = IgniteEarlyStopping(1, lambda engine: engine.state.metrics["accuracy"], trainer)
        trainer.add_event_handler(
            Events.EPOCH_STARTED(once=1),
            lambda: evaluator.add_event_handler(Events.COMPLETED, stopping),
        )

    fits["ignite"](run, 8, callbacks=[early])
    values = [record.values["accuracy"] for record in run.history]
    assert len(values) < 8 and values[-1] <= values[-2] == max(values)


def test_a_hyperparameter_search_of_transformers_reads_the_measured_value(tmp_path):
    """Each trial trains a run of its own; what it returns is the last value of the run."""
    runs: list[Run] = []
    callback = TransformersCallback(lambda: runs.append(Run(**FACTS)) or runs[-1])
    trainer = hf_trainer(callback, 2, tmp_path, None, model_init=Labeled)
    best = trainer.hyperparameter_search(
        lambda trial: {"learning_rate": trial.suggest_float("learning_rate", 1e-4, 0.5, log=True)},
        lambda metrics: metrics["eval_accuracy"],
        n_trials=2, direction="maximize", sampler=optuna.samplers.RandomSampler(0),
    )  # fmt: skip
    last = [run.history[-1].values["accuracy"] for run in runs]
    assert [len(run.history) for run in runs] == [2, 2]
    assert best.objective == max(last)


class Silent(Module):
    """A module whose validation step logs and returns nothing."""

    def validation_step(self, batch: Any, index: int) -> Any:
        super().validation_step(batch, index)


@pytest.mark.parametrize(
    "pruner", [optuna.pruners.NopPruner(), optuna.pruners.MedianPruner(0, 0)], ids=["no pruner", "median"]
)
@pytest.mark.parametrize(
    ("trainer", "settings", "text"),
    [
        ("lightning", {"module": Silent}, "in epoch 0: validation_step returned None"),
        (
            "transformers",
            {"compute_metrics": None},
            "in epoch 0: the trainer lacks compute_metrics",
        ),
        ("ignite", {"read": lambda output: None}, "in epoch 0: output_transform returned None"),
    ],
    ids=TRAINERS,
)
def test_a_validation_without_outputs_fails_at_once(trainer, settings, text, pruner, fits):
    """At the first validation, with what to return; no pruner judges it."""
    study = optuna.create_study(direction="maximize", pruner=pruner)
    for value in (0.5, 0.6):
        other = study.ask()
        other.report(value, 0)
        study.tell(other, value)
    record = run_trial(
        lambda params, run: fits[trainer](run, 4, **settings),
        {},
        RunSpec(**FACTS),
        OptunaReporter(study.ask()),
    )
    assert (record.state, record.epochs) == (TrialState.FAILED, ())
    assert re.search(text, record.reason) and "keywords of run.update" in record.reason
