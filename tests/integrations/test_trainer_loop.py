"""The epochs of a run, advanced by a trainer."""

from __future__ import annotations

from pathlib import Path

import pytest

from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import RunError
from hpometrics.integrations import trainer_loop
from hpometrics.integrations.trainer_loop import TrainerLoop
from hpometrics.run import Reported, Run

LOSS = Reported("loss", MINIMIZE)


def test_what_is_said_outside_of_an_epoch_counts_for_nothing():
    """Before the first, between two, behind the last: three epochs, each with what was logged inside."""
    run = Run(metric=LOSS)
    loop = TrainerLoop(run)
    loop.log({"loss": 9.0})
    loop.begin(3, {})
    loop.log({"loss": 9.0})
    loop.end_epoch(0, {})  # a pass before the first
    for count in (1, 2, 3):
        loop.start_epoch()
        loop.log({"loss": 1.0 / count})
        loop.end_epoch(count, {})
        loop.log({"loss": 0.0})
    assert loop.over
    loop.start_epoch()
    loop.log({"loss": 0.0})
    loop.end_epoch(4, {})
    run.close()
    assert [record.values["loss"] for record in run.history] == [1.0, 1.0 / 2, 1.0 / 3]


def test_a_loop_that_is_left_ends_the_run():
    """The trainer ends after one of three: nothing is open, and nothing can be added."""
    run = Run(metric=LOSS)
    loop = TrainerLoop(run)
    loop.begin(3, {})
    loop.start_epoch()
    loop.log({"loss": 1.0})
    loop.end_epoch(1, {})
    loop.leave()
    run.close()
    assert (run.value, len(run.history), loop.over) == (1.0, 1, True)
    with pytest.raises(RunError, match="comes after the last epoch"):
        run.log(loss=0.0)


def test_a_trainer_that_counts_otherwise_is_refused():
    """A second end of the same epoch would be an epoch of its own."""
    loop = TrainerLoop(Run(metric=LOSS))
    loop.begin(3, {})
    loop.start_epoch()
    loop.end_epoch(1, {})
    with pytest.raises(RunError, match="one ended in epoch 1 of the trainer while the run is at epoch 2"):
        loop.end_epoch(1, {})


@pytest.mark.parametrize(
    "trainer",
    "accelerate catboost fastai ignite keras lightgbm lightning skorch transformers xgboost".split(),
)
def test_a_callback_leaves_the_loop_to_the_shared_file(trainer):
    """What all trainers share is in `trainer_loop.py`; a callback can be read, and copied, as one page."""
    source = Path(trainer_loop.__file__).with_name(f"{trainer}.py").read_text(encoding="utf8")
    assert "TrainerLoop(" in source and len(source.splitlines()) <= 150
