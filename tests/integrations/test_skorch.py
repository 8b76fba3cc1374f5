"""A net of skorch reports, stops, goes on and watches as the plain loop does."""

from __future__ import annotations

from typing import Any

import optuna
import pytest
import skorch
import torch
from skorch.callbacks import Checkpoint, EarlyStopping
from skorch.helper import predefined_split
from small_fits import BATCH, LR, TRAIN, VALID, Killed, network, plain
from torch.utils.data import TensorDataset

from hpometrics.direction import MAXIMIZE
from hpometrics.exceptions import DirectionError, RunError
from hpometrics.integrations.directions import library_metric
from hpometrics.integrations.skorch import RunCallback
from hpometrics.metrics.features import Category
from hpometrics.run import Run

FACTS: dict[str, Any] = {"metric": "f1(average=macro)", "output": Category(3), "track": ["log_loss"]}


def fit(run: Run, epochs: int = 4, callbacks: Any = ()) -> Any:
    """By skorch, the callbacks after that of the run."""
    callback = RunCallback(run, "logits")
    net = skorch.NeuralNetClassifier(
        network, criterion=torch.nn.CrossEntropyLoss, optimizer=torch.optim.SGD, optimizer__momentum=0.9,
        lr=LR, max_epochs=epochs, batch_size=BATCH, train_split=predefined_split(TensorDataset(*VALID)),
        callbacks=[callback, *(make(callback) for make in callbacks)], verbose=0,
    )  # fmt: skip
    net.fit(*TRAIN)
    return net


def same_weights(net: Any, model: Any) -> bool:
    """Whether both have the same weights."""
    return all(map(torch.equal, net.module_.state_dict().values(), model.state_dict().values()))


@pytest.mark.parametrize("facts", [{}, {"epochs": 2}, {"patience": 1, "tol": 9.0}, {"target": 0.0}], ids=str)
def test_the_values_are_those_of_the_plain_loop(facts):
    """With as many epochs, whatever ends them, and not a step more."""
    want, got = Run(**FACTS, **facts), Run(**FACTS, **facts)
    model, net = plain(want, 4), fit(got)
    assert [record.values["f1(average=macro)"] for record in got.history] == [
        record.values["f1(average=macro)"] for record in want.history
    ]
    assert got.values["log_loss"] == pytest.approx(want.values["log_loss"], rel=1e-12)
    assert got.values["valid_loss"] == pytest.approx(got.values["log_loss"], rel=1e-5)
    assert same_weights(net, model) and len(net.history) == len(want.history)


def test_a_net_that_was_killed_goes_on(tmp_path):
    """With weights and momentum; a run that is whole trains no further."""
    want = Run(**FACTS)
    model = plain(want, 4)
    with pytest.raises(KeyError, match="killed"), Run(Killed(), directory=tmp_path, **FACTS) as run:
        fit(run)
    for _ in range(2):
        with Run(directory=tmp_path, **FACTS) as run:
            net = fit(run)
        assert [record.values["f1(average=macro)"] for record in run.history] == [
            record.values["f1(average=macro)"] for record in want.history
        ]
        assert same_weights(net, model)


@pytest.mark.parametrize(
    ("pruner", "state"),
    [(optuna.pruners.ThresholdPruner(lower=2.0), "PRUNED"), (optuna.pruners.NopPruner(), "COMPLETE")],
)
def test_its_own_accuracy_steers_a_search(pruner, state):
    """The direction is that of its name; the pruner's stop is no interrupt that skorch would swallow."""
    metric = library_metric("valid_acc")
    study = optuna.create_study(direction=metric.direction, pruner=pruner)
    study.optimize(lambda trial: (run := Run(trial, metric=metric), fit(run, 2))[0].value, n_trials=1)
    assert study.trials[0].state.name == state and metric.direction is MAXIMIZE


def test_callbacks_of_skorch_watch_a_measured_value(tmp_path):
    """In its direction: the checkpoint is of the best epoch, after which one more is trained."""
    run = Run(**FACTS)

    def stopping(callback: RunCallback) -> EarlyStopping:
        return EarlyStopping(patience=2, load_best=True, **callback.monitor())

    kept = Checkpoint(monitor="f1(average=macro)_best", dirname=tmp_path)
    net = fit(run, 9, [stopping, lambda _: kept])
    values = [record.values["f1(average=macro)"] for record in run.history]
    assert len(values) < 9 and values[-2] <= max(values) == run.value
    kept_module = network()
    assert not same_weights(net, kept_module)
    kept_module.load_state_dict(torch.load(tmp_path / "params.pt", weights_only=True))
    assert same_weights(net, kept_module)


def test_callbacks_behind_it_see_the_last_epoch(tmp_path):
    """Which is the picked one if the target ends the run, here in its first."""
    run = Run(**FACTS, target=0.0)
    net = fit(run, 9, [lambda _: Checkpoint(monitor="f1(average=macro)_best", dirname=tmp_path)])
    picked = network()
    picked.load_state_dict(torch.load(tmp_path / "params.pt", weights_only=True))
    assert len(run.history) == 1 and same_weights(net, picked)


def test_a_net_without_validation_is_refused():
    """In the first epoch, with the argument that gives it."""
    net = skorch.NeuralNetClassifier(
        network, criterion=torch.nn.CrossEntropyLoss, train_split=None, verbose=0,
        callbacks=[RunCallback(Run(**FACTS), "logits")],
    )  # fmt: skip
    with pytest.raises(RunError, match="in epoch 0: the net has no validation data; set train_split"):
        net.fit(*TRAIN)


class Verbose(torch.nn.Module):
    """Returns its hidden state beside the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.network(x), self.network[0](x)


class FirstOutput(skorch.NeuralNetClassifier):
    """Trains the first output of its module."""

    def get_loss(self, y_pred: Any, *rest: Any, **options: Any) -> Any:
        return super().get_loss(y_pred[0], *rest, **options)


def test_of_several_outputs_the_user_says_which():
    """A name cannot: the error asks for a function, which reads the one that counts."""
    settings: dict[str, Any] = {"criterion": torch.nn.CrossEntropyLoss, "verbose": 0, "max_epochs": 1}
    run = Run(**FACTS)
    with pytest.raises(RunError, match="returns 2 outputs; pass as read= a function that names them, as in"):
        FirstOutput(Verbose, callbacks=[RunCallback(run, "logits")], **settings).fit(*TRAIN)
    run = Run(**FACTS)
    reader = RunCallback(run, lambda outputs, target: {"logits": outputs[0], "target": target})
    FirstOutput(Verbose, callbacks=[reader], **settings).fit(*TRAIN)
    assert len(run.history) == 1


def test_the_wrong_direction_is_refused():
    """Skorch takes less for better unless it is told."""
    run = Run(**FACTS)
    with pytest.raises(DirectionError, match=r"EarlyStopping\(lower_is_better=True\) minimizes it"):
        fit(run, 2, [lambda _: EarlyStopping("f1(average=macro)")])
    assert run.history == ()
