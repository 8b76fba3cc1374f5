"""A loop with Accelerate reports, stops, resumes and picks as the plain loop does, on one process or two."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import optuna
import pytest
import torch
from accelerate import Accelerator, DistributedType
from accelerate.state import AcceleratorState
from ranks import on_ranks
from small_fits import LOSS, TRAIN, VALID, Killed, loader, network, optimizer_of, plain

from hpometrics.direction import MAXIMIZE
from hpometrics.exceptions import DirectionError, NoFiniteValueError, RunError
from hpometrics.integrations.accelerate import RunTracker
from hpometrics.integrations.directions import library_metric
from hpometrics.metrics.features import Category
from hpometrics.run import Run
from hpometrics.run.checkpoint import load_checkpoint
from hpometrics.run.reporter import ListReporter

FACTS: dict[str, Any] = {"metric": "f1(average=macro)", "output": Category(3), "track": ["log_loss"]}
ACCURACY = library_metric("val_accuracy")


@pytest.fixture(autouse=True)
def own_state():
    """Leave no state of Accelerate to the next test."""
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def fit(run: Run, epochs: int = 4, measured: bool = True, **settings: Any) -> torch.nn.Module:
    """By the loop of a user of Accelerate, who logs the accuracy of each epoch and the loss of each batch."""
    accelerator = settings.pop("accelerator", None) or Accelerator(cpu=True)
    model = network()
    net, optimizer, train, valid = accelerator.prepare(
        model, optimizer_of(model), loader(TRAIN), loader(VALID)
    )
    tracker, step = RunTracker(run, accelerator), 0
    for epoch in tracker.epochs(epochs, model=net, optimizer=optimizer):
        for x, y in train:
            optimizer.zero_grad()
            loss = LOSS(net(x), y)
            accelerator.backward(loss)
            optimizer.step()
            step += 1
            accelerator.log({"train_loss": loss.detach(), "epoch": epoch, "phase": "training"}, step=step)
        right = rows = 0
        with torch.no_grad():
            for x, y in valid:
                if measured:
                    tracker.update(logits=net(x), target=y)
                guesses, target = accelerator.gather_for_metrics((net(x).argmax(1), y))
                right, rows = right + int((guesses == target).sum()), rows + len(target)
        accelerator.log(tracker.measure() | {"val_accuracy": right / rows}, step=epoch)
    assert accelerator.trackers == []
    return model


def weights(model: torch.nn.Module) -> list[torch.Tensor]:
    """All weights in order."""
    return list(model.state_dict().values())


@pytest.mark.parametrize("facts", [{}, {"epochs": 2}, {"patience": 1, "tol": 9.0}, {"target": 0.0}], ids=str)
def test_the_values_are_those_of_the_plain_loop(facts):
    """With as many epochs, whatever ends them, and not a step more."""
    want, got = Run(**FACTS, **facts), Run(**FACTS, **facts)
    right, model = plain(want, 4), fit(got)
    assert [record.values["f1(average=macro)"] for record in got.history] == [
        record.values["f1(average=macro)"] for record in want.history
    ]
    assert got.values["log_loss"] == pytest.approx(want.values["log_loss"], rel=1e-12)
    assert got.values["val_accuracy"] == got.values["accuracy"]
    assert not {"epoch", "phase"} & got.values.keys()
    assert all(map(torch.equal, weights(right), weights(model)))


def test_the_last_loss_of_an_epoch_is_recorded():
    """Of the many that a loop logs."""
    run = Run(metric=library_metric("train_loss"))
    fit(run, 2, measured=False)
    values = [record.values["train_loss"] for record in run.history]
    assert len({*values}) == 2 and run.value == min(values)


@pytest.mark.parametrize(
    ("pruner", "state"),
    [(optuna.pruners.ThresholdPruner(lower=2.0), "PRUNED"), (optuna.pruners.NopPruner(), "COMPLETE")],
)
def test_a_logged_accuracy_steers_a_search(pruner, state):
    """The direction is that of its name; the pruner's stop ends the loop of the user."""
    study = optuna.create_study(direction=ACCURACY.direction, pruner=pruner)
    accelerator = Accelerator(cpu=True)  # as users do: one for all trials

    def objective(trial: optuna.Trial) -> float:
        run = Run(trial, metric=ACCURACY)
        fit(run, 2, measured=False, accelerator=accelerator)
        return run.value

    study.optimize(objective, n_trials=2)
    assert [trial.state.name for trial in study.trials] == [state] * 2 and ACCURACY.direction is MAXIMIZE
    assert accelerator.trackers == []


def test_a_study_in_the_other_direction_is_refused():
    """Before the first step."""
    trial = optuna.create_study(direction="minimize").ask()
    with pytest.raises(DirectionError, match="val_accuracy must be maximized"):
        Run(trial, metric=ACCURACY)


def test_a_loop_that_was_killed_goes_on(tmp_path):
    """With weights and momentum; a run that is whole trains no further."""
    want = Run(**FACTS)
    right = plain(want, 4)
    with pytest.raises(KeyError, match="killed"), Run(Killed(), directory=tmp_path, **FACTS) as run:
        fit(run)
    for _ in range(2):
        with Run(directory=tmp_path, **FACTS) as run:
            model = fit(run)
        assert [record.values["f1(average=macro)"] for record in run.history] == [
            record.values["f1(average=macro)"] for record in want.history
        ]
        assert [record.attempt for record in run.history] == [1, 1, 2, 2]
        assert all(map(torch.equal, weights(right), weights(model)))


def test_the_checkpoint_is_of_the_picked_epoch(tmp_path):
    """Its weights are those of a training that ended with that epoch."""
    with Run(directory=tmp_path, **FACTS) as run:
        fit(run, 6)
    assert run.best_epoch is not None and run.best_epoch < 5
    stored = load_checkpoint(run.best_checkpoint)["states"]
    right = plain(Run(**FACTS), run.best_epoch + 1)
    assert stored["optimizer"]["state"]
    assert all(map(torch.equal, weights(right), stored["model"].values()))


def test_a_break_keeps_the_values_of_its_epoch():
    """As in the plain loop: the run closes the epoch, which is the best here."""
    accelerator, run = Accelerator(cpu=True), Run(metric=ACCURACY)
    for epoch in RunTracker(run, accelerator).epochs(9):
        accelerator.log({"val_accuracy": epoch / 10}, step=epoch)
        if epoch == 2:
            break
    assert (run.value, run.best_epoch, accelerator.trackers) == (0.2, 2, [])


def test_other_trackers_get_the_same_values(tmp_path):
    """Beside the run, within the loop alone; by its name the accelerator has the run."""
    accelerator = Accelerator(cpu=True, log_with="tensorboard", project_dir=tmp_path)
    accelerator.init_trackers("mine")
    run = Run(metric=ACCURACY)
    accelerator.log({"val_accuracy": 9.0}, step=0)
    for epoch in RunTracker(run, accelerator).epochs(2):
        assert accelerator.get_tracker("hpometrics", unwrap=True) is run
        accelerator.log({"val_accuracy": epoch / 2}, step=epoch)
    accelerator.end_training()
    assert [record.values for record in run.history] == [{"val_accuracy": 0.0}, {"val_accuracy": 0.5}]
    assert len(accelerator.trackers) == 1 and list(tmp_path.rglob("events.out.tfevents.*"))


def test_a_loop_without_an_update_is_refused():
    """In the first epoch, with the method that is missing."""
    with pytest.raises(RunError, match=r"in epoch 0: tracker\.update was not called"):
        fit(Run(**FACTS), measured=False)


def test_a_value_that_is_never_logged_is_named():
    """The error lists what was logged."""
    accelerator, run = Accelerator(cpu=True), Run(metric=library_metric("val_f1(average=macro)"))
    for _ in RunTracker(run, accelerator).epochs(2):
        accelerator.log({"val_accuracy": 0.5})
    with pytest.raises(NoFiniteValueError, match=r"(?s)val_f1.*val_accuracy"):
        _ = run.value


def test_a_model_in_shards_has_no_checkpoint(tmp_path, monkeypatch):
    """Each process has a part of it alone; without objects the loop runs."""
    monkeypatch.setattr(Accelerator, "distributed_type", DistributedType.FSDP)
    accelerator, model = Accelerator(cpu=True), network()
    with Run(metric=ACCURACY, directory=tmp_path) as run:
        with pytest.raises(RunError, match=r"in shards \(FSDP\); leave the objects of tracker.epochs"):
            next(RunTracker(run, accelerator).epochs(2, model=model))
        assert next(RunTracker(run, accelerator).epochs(2)) == 0


def start(rank: int) -> Accelerator:
    """The accelerator of a process of two, which has joined its group."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    os.environ |= {"ACCELERATE_USE_CPU": "true", "OMP_NUM_THREADS": "1"}
    accelerator = Accelerator(cpu=True)
    assert accelerator.num_processes == 2
    return accelerator


def measured_by_two(rank: int) -> list[dict[str, float]]:
    """The values of a training by two processes."""
    run = Run(**FACTS)
    fit(run, 3, accelerator=start(rank))
    return [dict(record.values) for record in run.history]


def scored_again(rank: int) -> list[dict[str, float]]:
    """The values of the untrained network: 41 rows, two processes, batches of 16."""
    accelerator, run = start(rank), Run(**FACTS)
    model, valid = accelerator.prepare(network(), loader(VALID))
    tracker = RunTracker(run, accelerator)
    for _ in tracker.epochs(1):
        with torch.no_grad():
            for x, y in valid:
                tracker.update(logits=model(x), target=y)
    return [dict(record.values) for record in run.history]


def test_two_processes_measure_each_row_once():
    """Accelerate repeats rows to fill the last batch, which do not count; both record the same."""
    first, second = on_ranks(2, scored_again)
    model = network()
    alone = Run(**FACTS)
    for _ in alone.epochs(1):
        alone.update(logits=model(VALID[0]).detach(), target=VALID[1])
    assert first == second
    names = ["f1(average=macro)", "accuracy"]
    assert [first[0][name] for name in names] == [alone.values[name] for name in names]


def test_two_processes_train_as_one_loop():
    """Three epochs, in which the logged accuracy is the measured one; the first process alone logs."""
    first, second = on_ranks(2, measured_by_two)
    assert first == second and len(first) == 3
    assert all(values["val_accuracy"] == pytest.approx(values["accuracy"], rel=1e-12) for values in first)


class Stops(ListReporter):
    """A host that stops the run after epoch 1."""

    def report(self, epoch: int, *values: Any) -> None:
        super().report(epoch, *values)
        if epoch == 1:
            raise optuna.TrialPruned("enough")


def pruned(rank: int, home: Path) -> tuple[str, int, int]:
    """How a loop ends whose host, that of the first process, stops it; what it kept, and where it went on."""
    accelerator, ended = start(rank), ""
    stops = Stops(stops=(optuna.TrialPruned,)) if rank == 0 else None
    with suppress(optuna.TrialPruned), Run(stops, directory=home, metric=ACCURACY) as run:
        fit(run, 4, measured=False, accelerator=accelerator)
        ended = "not stopped"
    with Run(directory=home, metric=ACCURACY) as again:
        fit(again, 4, measured=False, accelerator=accelerator)
    return ended, len(run.history), len(again.history)


def test_a_stop_of_the_first_process_reaches_both(tmp_path):
    """At the same epoch, by an exception; both resume from the checkpoint of the first."""
    assert on_ranks(2, pruned, tmp_path) == [("", 2, 4)] * 2


def broken_off(rank: int) -> tuple[float, int]:
    """The value and the epochs of a loop that every process leaves in its second epoch."""
    accelerator, run = start(rank), Run(**FACTS)
    model = network()
    tracker = RunTracker(run, accelerator)
    for epoch in tracker.epochs(9):
        tracker.update(logits=model(VALID[0]).detach(), target=VALID[1])
        accelerator.log({"seen": epoch})
        if epoch == 1:
            break
    return run.value, len(run.history)


def test_a_break_on_both_processes_waits_for_none():
    """Both close the epoch that it leaves open."""
    first, second = on_ranks(2, broken_off)
    assert first == second and first[1] == 2
