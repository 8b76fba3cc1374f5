"""A learner of fastai reports, stops, resumes and watches as the plain loop does."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import optuna
import pytest
import torch
from fastai.basics import (
    Callback,
    CancelValidException,
    DataLoader,
    DataLoaders,
    Learner,
    MSELossFlat,
    OptimWrapper,
    TensorCategory,
    TensorImage,
    accuracy,
)
from fastai.callback.all import CSVLogger, EarlyStoppingCallback, ReduceLROnPlateau, SaveModelCallback
from fastai.optimizer import Adam, ranger
from small_fits import BATCH, LOSS, LR, TRAIN, VALID, Killed, network, plain
from torch.utils.data import TensorDataset

from hpometrics.backends.ray.reporter import StoppedByTune
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import DirectionError, RunError
from hpometrics.integrations.directions import library_metric
from hpometrics.integrations.fastai import RunCallback
from hpometrics.metrics.features import Category, Number
from hpometrics.run import Run
from hpometrics.run.checkpoint import load_checkpoint
from hpometrics.run.reporter import ListReporter

pytestmark = pytest.mark.filterwarnings("ignore:numpy.core is deprecated")  # where fastai loads a model

FACTS: dict[str, Any] = {"metric": "f1(average=macro)", "output": Category(3), "track": ["log_loss"]}
SGD = partial(OptimWrapper, opt=torch.optim.SGD)
VALID_LOSS = library_metric("valid_loss")


def learner(folder: Any, opt_func: Any = SGD, **settings: Any) -> Learner:
    """The network of all trainers, without a progress bar and a table."""
    loaders = (DataLoader(TensorDataset(*data), bs=BATCH, num_workers=0) for data in (TRAIN, VALID))
    facts: dict[str, Any] = {"loss_func": LOSS, "lr": LR, "metrics": [accuracy], "train_bn": False}
    made = Learner(DataLoaders(*loaders, path=folder), network(), opt_func=opt_func, **{**facts, **settings})
    made.remove_cbs([cb for cb in made.cbs if cb.name == "progress"])
    made.logger = lambda line: None
    return made


@pytest.fixture
def fit(tmp_path) -> Any:
    """Train by a learner, with the momentum of the plain loop."""

    def fit(run: Run, epochs: int = 4, callbacks: Any = (), **settings: Any) -> Learner:
        settings.setdefault("opt_func", partial(SGD, momentum=0.9))
        learn = learner(tmp_path, **settings)
        callback = RunCallback(run, "logits")
        learn.fit(epochs, cbs=[callback, *(make(callback) for make in callbacks)])
        assert all(cb.name != "hpometrics" for cb in learn.cbs) and len(learn.metrics) == 1
        return learn

    return fit


def same_weights(learn: Learner, model: torch.nn.Module) -> bool:
    """Whether both have the same weights."""
    return all(map(torch.equal, learn.model.state_dict().values(), model.state_dict().values()))


def curve(run: Run) -> list[Any]:
    """The optimized value of each epoch."""
    return [record.values[run.spec.name] for record in run.history]


@pytest.mark.parametrize("facts", [{}, {"epochs": 2}, {"patience": 1, "tol": 9.0}, {"target": 0.0}], ids=str)
def test_the_values_are_those_of_the_plain_loop(facts, fit):
    """With as many epochs, whatever ends them, and not a step more; fastai has them in its recorder."""
    want, got = Run(**FACTS, **facts), Run(**FACTS, **facts)
    model, learn = plain(want, 4), fit(got)
    assert curve(got) == curve(want) and same_weights(learn, model)
    assert got.values["log_loss"] == pytest.approx(want.values["log_loss"], rel=1e-12)
    assert got.values["valid_loss"] == pytest.approx(got.values["log_loss"], rel=1e-5)
    assert {"train_loss", "accuracy"} < got.values.keys() and "epoch" not in got.values
    place = learn.recorder.metric_names.index("f1(average=macro)") - 1
    assert [line[place] for line in learn.recorder.values] == curve(got)


OPTIMIZERS = {"torch": partial(SGD, momentum=0.9), "adam": Adam, "ranger": ranger}


@pytest.mark.parametrize("opt_func", OPTIMIZERS.values(), ids=OPTIMIZERS.keys())
def test_a_learner_that_was_killed_goes_on(opt_func, fit, tmp_path):
    """With weights and moments; a run that is whole trains no further."""
    home, want = tmp_path / "run", Run(**FACTS)
    whole = fit(want, opt_func=opt_func)
    with pytest.raises(KeyError, match=r"^'killed'$"), Run(Killed(), directory=home, **FACTS) as run:
        fit(run, opt_func=opt_func)
    for _ in range(2):
        with Run(directory=home, **FACTS) as run:
            learn = fit(run, opt_func=opt_func)
        assert curve(run) == curve(want) and same_weights(learn, whole.model)
        assert [record.attempt for record in run.history] == [1, 1, 2, 2]
        assert [line[0] for line in learn.recorder.values] == [
            record.values["train_loss"] for record in run.history
        ]


def halve(learn: Learner, callback: RunCallback) -> None:
    """Halve the learning rate after each epoch but the first, which is the best by so wide a margin."""
    learn.fit(4, 0.1, cbs=[callback, ReduceLROnPlateau("valid_loss", min_delta=9.0, factor=2)])


def one_cycle(learn: Learner, callback: RunCallback) -> None:
    """Train by a schedule over all epochs."""
    learn.fit_one_cycle(4, 0.1, cbs=callback)


def two_fits(learn: Learner, callback: RunCallback) -> None:
    """Train as `fine_tune` does, an epoch and three others by schedules of their own."""
    learn.fine_tune(3, 0.1, cbs=callback)


@pytest.mark.parametrize("way", [one_cycle, halve, two_fits])
def test_a_schedule_goes_on_where_it_was(way, tmp_path):
    """A callback that counts epochs sees the recorded values of those that are skipped."""

    def train(run: Run) -> Learner:
        learn = learner(tmp_path, Adam, splitter=lambda model: [[*one.parameters()] for one in model[::2]])
        way(learn, RunCallback(run, "logits", epochs=4))
        return learn

    whole = train(Run(**FACTS))
    with pytest.raises(KeyError, match="killed"), Run(Killed(), directory=tmp_path, **FACTS) as run:
        train(run)
    with Run(directory=tmp_path, **FACTS) as run:
        assert same_weights(train(run), whole.model)
        assert [record.attempt for record in run.history] == [1, 1, 2, 2]


def test_several_fits_need_the_number_of_their_epochs(tmp_path):
    """Where the first would be taken for all."""
    with pytest.raises(RunError, match="ended with an earlier fit; pass the epochs of all fits as epochs="):
        two_fits(learner(tmp_path), RunCallback(Run(**FACTS), "logits"))


def test_the_checkpoint_is_of_the_picked_epoch(fit, tmp_path):
    """Its weights are those of a training that ended with that epoch."""
    with Run(directory=tmp_path / "run", **FACTS) as run:
        fit(run, 6)
    assert run.best_epoch is not None and run.best_epoch < 5
    stored = load_checkpoint(run.best_checkpoint)["states"]["model"]
    right = plain(Run(**FACTS), run.best_epoch + 1)
    assert all(map(torch.equal, right.state_dict().values(), stored.values()))


@pytest.mark.parametrize(
    ("pruner", "state"),
    [(optuna.pruners.ThresholdPruner(upper=-1.0), "PRUNED"), (optuna.pruners.NopPruner(), "COMPLETE")],
)
def test_its_own_loss_steers_a_search(pruner, state, fit):
    """The direction is that of its name; a pruned trial trains no further."""
    study = optuna.create_study(direction=VALID_LOSS.direction, pruner=pruner)
    study.optimize(lambda trial: (run := Run(trial, metric=VALID_LOSS), fit(run, 2))[0].value, 1)
    assert study.trials[0].state.name == state and VALID_LOSS.direction is MINIMIZE
    assert len(study.trials[0].intermediate_values) == (1 if state == "PRUNED" else 2)


class Exits(ListReporter):
    """Stops the run after epoch 1 as Ray Tune does, by an exit."""

    def report(self, epoch: int, *values: Any) -> None:
        super().report(epoch, *values)
        if epoch == 1:
            raise StoppedByTune("enough")


@pytest.mark.parametrize("epochs", [2, 9])
def test_other_callbacks_end_before_the_stop_leaves(epochs, fit, tmp_path):
    """They see the last epoch, close their files and load the best model; the exit is as it was raised."""
    run, logger = Run(Exits(stops=(StoppedByTune,)), **FACTS), CSVLogger()
    saved: list[SaveModelCallback] = []

    def saving(callback: RunCallback) -> SaveModelCallback:
        saved.append(SaveModelCallback(**callback.monitor()))
        return saved[0]

    with pytest.raises(StoppedByTune, match=r"^enough$"):
        fit(run, epochs, [lambda _: logger, saving])
    assert len(run.history) == 2 and logger.file.closed and saved[0].best == run.value
    assert len((tmp_path / "history.csv").read_text(encoding="utf8").splitlines()) == 3


def test_callbacks_of_fastai_watch_a_measured_value(fit):
    """In its direction: the training ends two epochs behind the best one, whose model is loaded."""
    run = Run(**FACTS)

    def watchers(kind: Any, **settings: Any) -> Any:
        return lambda callback: kind(**callback.monitor(), **settings)

    learn = fit(run, 9, [watchers(EarlyStoppingCallback, patience=2), watchers(SaveModelCallback)])
    values = curve(run)
    assert len(values) < 9 and values[-3] == max(values) == run.value
    assert same_weights(learn, plain(Run(**FACTS), len(values) - 2))


def test_the_wrong_direction_is_refused(fit):
    """By default fastai takes more for better unless a name contains `loss` or `error`."""
    run = Run(metric="ece", output=Category(3))
    text = r"ece must be minimized, but EarlyStoppingCallback\(comp='greater'\) maximizes it"
    with pytest.raises(DirectionError, match=text):
        fit(run, 2, [lambda _: EarlyStoppingCallback("ece")])
    assert run.history == ()
    assert RunCallback(run, "logits").monitor() == {"monitor": "ece", "comp": np.less}


def test_passes_outside_of_fit_do_not_count(tmp_path):
    """Nor does the search of a learning rate; a validation has the measured values, as those of fastai."""
    run = Run(**FACTS)
    learn = learner(tmp_path, cbs=RunCallback(run, "logits"))
    before = learn.validate()
    learn.lr_find(num_it=6, show_plot=False)
    learn.get_preds()
    learn.fit(2)
    after = learn.validate()
    place = learn.recorder.metric_names.index("f1(average=macro)") - 1
    learn.get_preds(dl=learn.dls.test_dl([*zip(*VALID, strict=True)], with_labels=False))
    assert len(run.history) == 2
    assert before[place - 1] != curve(run)[0] and after[place - 1] == curve(run)[1]


def test_a_learner_without_validation_is_refused(fit):
    """In the first epoch."""
    with pytest.raises(RunError, match="in epoch 0: the learner has no validation data"):
        fit(Run(**FACTS), 2, [lambda _: NoValidation()])


class NoValidation(Callback):
    """Skips the validation."""

    def before_validate(self) -> None:
        raise CancelValidException


def test_a_metric_of_training_rows_is_that_of_fastai(fit):
    """What the run measures has no value there."""
    run = Run(**FACTS)
    fit(run, 1, [lambda _: Callback(before_fit=lambda self: setattr(self.recorder, "train_metrics", True))])
    assert run.values["train_accuracy"] > 0 and "train_f1(average=macro)" not in run.values


def test_targets_of_fastai_are_plain_tensors(tmp_path):
    """A learner has tensors of classes of its own, which no metric reads."""
    run = Run(metric="mae", output=Number())
    data = [(TensorImage(x), TensorCategory(float(y))) for x, y in zip(*TRAIN, strict=True)]
    learn = learner(tmp_path, metrics=[], loss_func=MSELossFlat())
    learn.dls = DataLoaders(*(DataLoader(data, bs=BATCH, num_workers=0) for _ in range(2)))
    learn.model = torch.nn.Sequential(torch.nn.Linear(4, 1))
    learn.fit(1, 0.1, cbs=RunCallback(run, lambda pred, y: {"predictions": pred[:, 0], "target": y}))
    assert run.value > 0
