from __future__ import annotations

from pathlib import Path

import pytest

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConfigError, RecordError
from hpometrics.records.epoch_log import EPOCHS_FILE
from hpometrics.records.schedule import Change, Schedule, read_schedule, schedule_of
from hpometrics.records.trial_record import EpochRecord, Exploit, TrialRecord, TrialState, write_trial


def trial(number: int, *exploits: tuple[int, int, float], epoch: int = 7) -> TrialRecord:
    """A trial of eight epochs that began with lr 0.1 times its number.

    Each exploit is its epoch, the number of the donor and the new lr.
    """
    changes = tuple(Exploit(at, donor, {"lr": lr}) for at, donor, lr in exploits)
    losses = [EpochRecord(at, {"loss": 10.0 + number - at}) for at in range(8)]
    first = {"lr": number / 10}
    return TrialRecord(
        number,
        changes[-1].params if changes else first,
        TrialState.COMPLETE,
        losses[epoch].number("loss"),
        epoch,
        tuple(losses),
        first_params=first if changes else None,
        exploits=changes,
    )


def by_epoch(*trials: TrialRecord, number: int, end: int | None = None) -> list[float]:
    """The lr of each of eight epochs by the schedule of a trial."""
    schedule = schedule_of({one.number: one for one in trials}, number, end)
    return [schedule.params_at(epoch)["lr"] for epoch in range(8)]


def test_a_trial_without_exploits_keeps_its_params():
    """The schedule is one stretch."""
    assert schedule_of({1: trial(1)}, 1) == Schedule({"lr": 0.1})


def test_before_an_exploit_the_params_are_the_donors():
    """Those that it began with, not those of the trial itself."""
    assert by_epoch(trial(1), trial(2, (4, 1, 0.5)), number=2) == [0.1] * 4 + [0.5] * 4


def test_donors_have_donors():
    """Trial 3 continues from 2 at epoch 6, and that from 1 at epoch 2."""
    trials = (trial(1), trial(2, (2, 1, 0.5)), trial(3, (6, 2, 0.7)))
    assert by_epoch(*trials, number=3) == [0.1] * 2 + [0.5] * 4 + [0.7] * 2


def test_what_was_overwritten_does_not_count():
    """Exploits of the trial before its last one, and of the donor from that epoch on, have led elsewhere."""
    trials = (trial(1), trial(2, (6, 1, 0.9)), trial(3, (2, 1, 0.5), (4, 2, 0.7)))
    assert by_epoch(*trials, number=3) == [0.2] * 4 + [0.7] * 4


def test_two_trials_may_exploit_each_other():
    """One after the other; each time the donor's past up to there counts."""
    trials = (trial(1, (4, 2, 0.5)), trial(2, (2, 1, 0.3)))
    assert by_epoch(*trials, number=1) == [0.1] * 2 + [0.3] * 2 + [0.5] * 4


def test_a_schedule_may_end_before_an_exploit():
    """The picked epoch came before the trial continued from another."""
    trials = (trial(1), trial(2, (4, 1, 0.5)))
    assert by_epoch(*trials, number=2, end=4) == [0.2] * 8
    assert by_epoch(*trials, number=2, end=5) == [0.1] * 4 + [0.5] * 4


def test_params_that_stay_are_no_change():
    """As where a bandit has no model yet, or a trial replayed its own schedule."""
    schedule = schedule_of({1: trial(1, (2, 1, 0.1), (4, 1, 0.3))}, 1)
    assert schedule == Schedule({"lr": 0.1}, (Change(4, {"lr": 0.3}),))


def test_a_donor_without_a_record_is_named():
    """Its params are not known."""
    with pytest.raises(RecordError, match="trial 7, which other trials continued from, has no record"):
        schedule_of({2: trial(2, (4, 7, 0.5))}, 2)


def test_the_next_change_follows_those_that_were_made():
    """And none follows the last one; another past is refused."""
    schedule = Schedule({"lr": 0.1}, (Change(2, {"lr": 0.2}), Change(4, {"lr": 0.3})))
    first = Exploit(2, 0, {"lr": 0.2})
    assert schedule.next_change(()) == Change(2, {"lr": 0.2})
    assert schedule.next_change((first,)) == Change(4, {"lr": 0.3})
    assert schedule.next_change((first, Exploit(4, 0, {"lr": 0.3}))) is None
    with pytest.raises(RecordError, match=r"changed to .'lr': 0\.9. at epoch 2, but its schedule has"):
        schedule.next_change((Exploit(2, 0, {"lr": 0.9}),))


@pytest.fixture
def run(tmp_path) -> Path:
    """A directory with three trials, of which trial 1 has the least loss."""
    for record in (trial(1), trial(2, (4, 1, 0.5)), trial(3, (4, 2, 0.7), epoch=3)):
        home = tmp_path / "trials" / f"{record.number:04d}"
        write_trial(home, record)
        (home / EPOCHS_FILE).write_text("".join(f"{one.to_line()}\n" for one in record.epochs), "utf8")
    return tmp_path


def test_the_best_trial_is_that_of_the_metric(run):
    """In its direction; a named trial counts up to its picked epoch."""
    assert read_schedule(run, None, "loss", MINIMIZE) == Schedule({"lr": 0.1})
    assert read_schedule(run, None, "loss", MAXIMIZE) == Schedule({"lr": 0.3})
    assert read_schedule(run, 2, "loss", MINIMIZE) == Schedule({"lr": 0.1}, (Change(4, {"lr": 0.5}),))


@pytest.mark.parametrize(
    ("place", "number", "metric", "text"),
    [
        ("none", None, "loss", "none has no trials; name the directory of a search with pbt or pb2"),
        (".", 9, "loss", "has no trial 9; it has 1, 2, 3"),
        (".", None, "f1", "has no complete trial with a value of f1; name the trial, as in trial: 3"),
    ],
)
def test_a_run_without_a_schedule_is_refused(run, place, number, metric, text):
    """With what is there instead."""
    with pytest.raises(ConfigError, match=text):
        read_schedule(run / place, number, metric, MINIMIZE)
