"""What is Lightning's own: its schedulers, its random streams, steps of every form."""

from __future__ import annotations

from typing import Any

import lightning.pytorch as pl
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping
from small_fits import BATCH, QUIET, TRAIN, Killed, Module, network, optimizer_of
from torch import nn
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, TensorDataset

from hpometrics.exceptions import RunError
from hpometrics.integrations.lightning import RunCallback
from hpometrics.metrics.features import Category
from hpometrics.run import Run
from hpometrics.run.checkpoint import load_checkpoint

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.* is deprecated:FutureWarning"),  # torch's, of Lightning
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),  # Lightning's advice for larger data
]
FACTS: dict[str, Any] = {"metric": "log_loss", "output": Category(3)}


def fit(callback: RunCallback, module: Module, epochs: int = 4, *others: pl.Callback) -> pl.Trainer:
    """Train a module that brings its data."""
    trainer = pl.Trainer(callbacks=[callback, *others], max_epochs=epochs, **QUIET)
    trainer.fit(module)
    return trainer


class Restless(Module):
    """Dropout and shuffles draw in every epoch, and the rate falls."""

    def __init__(self, plateau: bool) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Dropout(0.3), *network())
        self.plateau = plateau

    def train_dataloader(self) -> DataLoader[Any]:
        return DataLoader(TensorDataset(*TRAIN), batch_size=BATCH, shuffle=True)

    def on_train_epoch_start(self) -> None:
        self.log("rate", self.trainer.optimizers[0].param_groups[0]["lr"])

    def on_train_epoch_end(self) -> None:
        self.log("late", float(self.current_epoch))  # behind the callback

    def configure_optimizers(self) -> Any:
        optimizer = optimizer_of(self)
        if not self.plateau:
            return [optimizer], [StepLR(optimizer, 1, gamma=0.7)]
        plan = {"scheduler": ReduceLROnPlateau(optimizer, patience=0, threshold=9.0), "monitor": "val_loss"}
        return {"optimizer": optimizer, "lr_scheduler": plan}


@pytest.mark.parametrize("plateau", [False, True])
def test_a_fit_that_goes_on_draws_as_if_it_had_never_stopped(plateau, tmp_path):
    """Shuffles, dropout and the schedule are those of a fit without a break, to the last digit."""
    whole = Run(**FACTS)
    fit(RunCallback(whole), Restless(plateau))
    with pytest.raises(KeyError, match="killed"), Run(Killed(), directory=tmp_path, **FACTS) as run:
        fit(RunCallback(run), Restless(plateau))
    with Run(directory=tmp_path, **FACTS) as run:
        fit(RunCallback(run), Restless(plateau))
    assert len({record.values["log_loss"] for record in whole.history}) == 4
    assert len({record.values["rate"] for record in whole.history}) == 4
    assert not any("late" in record.values for record in whole.history)
    assert [record.values for record in run.history] == [record.values for record in whole.history]


class Late(Restless):
    """Logs what its schedule watches where the epoch is closed already."""

    def configure_optimizers(self) -> Any:
        plan = super().configure_optimizers()
        return {**plan, "lr_scheduler": {**plan["lr_scheduler"], "monitor": "late"}}


def test_a_schedule_that_cannot_go_on_says_why(tmp_path):
    """A step left out in silence would be another training."""
    with pytest.raises(KeyError, match="killed"), Run(Killed(), directory=tmp_path, **FACTS) as run:
        fit(RunCallback(run), Late(plateau=True))
    with pytest.raises(RunError, match="monitors 'late', which is missing from the record of epoch 1, so"):
        with Run(directory=tmp_path, **FACTS) as run:
            fit(RunCallback(run), Late(plateau=True))


class Silent(Module):
    """Updates the run on its own."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self.run = run

    def validation_step(self, batch: Any, index: int) -> None:
        x, y = batch
        if not self.trainer.sanity_checking:
            self.run.update(logits=self.network(x), target=y)


class Pairs(Module):
    """Returns what no run can read without being told."""

    def validation_step(self, batch: Any, index: int) -> Any:
        return tuple(super().validation_step(batch, index).values())


def test_a_module_may_update_the_run_or_return_anything():
    """The same value by the module itself, by what it returns, and by what is made of that."""
    runs = [Run(**FACTS) for _ in range(3)]
    fit(RunCallback(runs[0]), Module())
    fit(RunCallback(runs[1]), Silent(runs[1]))
    fit(RunCallback(runs[2], read=lambda pair: {"logits": pair[0], "target": pair[1]}), Pairs())
    assert runs[0].value == runs[1].value == runs[2].value
    with pytest.raises(
        RunError, match=r"needs a mapping such as \{'logits': logits, .*got tuple; return such"
    ):
        fit(RunCallback(Run(**FACTS)), Pairs())


def test_a_fit_that_lightning_ends_early_is_whole():
    """No epoch is opened behind the last one, and the run has its value."""
    run = Run(**FACTS)
    trainer = fit(RunCallback(run), Module(), 9, EarlyStopping("val_loss", patience=1, min_delta=9.0))
    run.close()
    assert len(run.history) == trainer.current_epoch == 2
    assert run.value == min(record.values["log_loss"] for record in run.history)


def test_a_fit_without_an_end_is_refused():
    """Somebody must say the number of epochs is missing there are; the run may."""
    with pytest.raises(RunError, match="the number of epochs is missing"):
        fit(RunCallback(Run(**FACTS)), Module(), -1)
    run = Run(**FACTS, epochs=2)
    fit(RunCallback(run), Module(), -1)
    assert len(run.history) == 2


class Two(Module):
    """Two optimizers, stepped by hand."""

    automatic_optimization = False

    def training_step(self, batch: Any, index: int) -> None:
        loss = super().training_step(batch, index)
        for optimizer in self.optimizers():
            optimizer.zero_grad()
        self.manual_backward(loss)
        for optimizer in self.optimizers():
            optimizer.step()

    def configure_optimizers(self) -> Any:
        return [torch.optim.Adam(layer.parameters()) for layer in (self.network[0], self.network[2])]


def test_several_optimizers_are_numbered(tmp_path):
    """A checkpoint has each of them, and one that is read back has its state."""
    with Run(directory=tmp_path, **FACTS) as run:
        fit(RunCallback(run), Two(), 1)
    states = load_checkpoint(run.best_checkpoint)["states"]
    assert set(states) == {"model", "optimizer_0", "optimizer_1"}
    with Run(directory=tmp_path, **FACTS) as run:
        fit(RunCallback(run), Two(), 2)
    assert [record.attempt for record in run.history] == [1, 2]
