"""What is Ignite's own: its engines go on with the draws of those that were killed."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from ignite.engine import Events
from small_fits import BATCH, TRAIN, VALID, Killed, engines, loader, network, optimizer_of
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from hpometrics.exceptions import RunError
from hpometrics.integrations.ignite import RunHandler
from hpometrics.metrics.features import Category
from hpometrics.run import Run

FACTS: dict[str, Any] = {"metric": "log_loss", "output": Category(3)}


def fit(run: Run, told: bool = True) -> int:
    """Train with dropout and shuffles, and return the trainer's last iteration."""
    model = nn.Sequential(nn.Dropout(0.3), *network())
    optimizer = optimizer_of(model)
    trainer, evaluator = engines(model, optimizer)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(loader(VALID)))
    read = (lambda output: {"logits": output[0], "target": output[1]}) if told else None
    RunHandler(run, read, to_save={"model": model, "optimizer": optimizer}).attach(trainer, evaluator)
    trainer.run(DataLoader(TensorDataset(*TRAIN), batch_size=BATCH, shuffle=True), max_epochs=4)
    return trainer.state.iteration


def test_engines_that_go_on_draw_as_if_they_had_never_stopped(tmp_path):
    """Shuffles and dropout are those of a training without a break, and iterations are counted on."""
    whole = Run(**FACTS)
    iterations = fit(whole)
    with pytest.raises(KeyError, match="killed"), Run(Killed(), directory=tmp_path, **FACTS) as run:
        fit(run)
    torch.manual_seed(9)
    with Run(directory=tmp_path, **FACTS) as run:
        assert fit(run) == iterations
    assert len({record.values["log_loss"] for record in whole.history}) == 4
    assert [record.values for record in run.history] == [record.values for record in whole.history]


def test_engines_without_a_checkpoint_begin_again(tmp_path):
    """There is no state to go on from: all epochs are those of the second start."""
    for killed in (True, False):
        trainer, evaluator = engines(model := network(), optimizer_of(model))
        run = Run(Killed() if killed else None, directory=tmp_path, **FACTS)
        trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda _, one=evaluator: one.run(loader(VALID)))
        handler = RunHandler(run, lambda output: {"logits": output[0], "target": output[1]})
        handler.attach(trainer, evaluator)
        with run, nullcontext() if not killed else pytest.raises(KeyError, match="killed"):
            trainer.run(loader(TRAIN), max_epochs=4)
    assert [record.attempt for record in run.history] == [2] * 4


def test_an_output_is_read_as_the_user_says():
    """A pair is none of a run's keywords; nothing is guessed from its order."""
    with pytest.raises(RunError, match=r"needs a mapping such as \{'logits': logits, .*got tuple"):
        fit(Run(**FACTS), told=False)
