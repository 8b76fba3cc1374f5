"""Budgets of single trials: the time of one, and what is kept of it."""

from __future__ import annotations

from sample_sweeps import SWEEP, changed

from hpometrics.search.record import TrialState
from hpometrics.sweep.directory import RunDirectory


def records(folder, name="sweep"):
    """The trials of the sweep in this folder."""
    return RunDirectory(folder / "runs" / name).records()


def test_the_time_of_a_trial_ends_it_after_an_epoch(sweep, folder):
    """It is complete with what it has; record and line say why there is one epoch of three."""
    result = sweep(changed("epochs: 3", "epochs: 3, trial_time: 0.000001s"))
    assert result.exit_code == 0, result.output
    assert {(r.state, len(r.epochs), r.ended_by) for r in records(folder)} == {
        (TrialState.COMPLETE, 1, "trial_time")
    }
    assert result.stderr.count("  1 ep (trial_time)  ") == 4


def test_check_says_how_long_a_trial_may_take(sweep):
    """Beside the other budgets."""
    result = sweep(changed("epochs: 3", "epochs: 3, trial_time: 10m"), command="check")
    assert "at most 10m00s per trial, at most 3 epochs" in result.stdout


def test_another_time_per_trial_makes_other_trials(sweep):
    """As another number of epochs does: a sweep goes on with it only where that is said."""
    assert sweep(SWEEP).exit_code == 0
    refused = sweep(changed("epochs: 3", "epochs: 3, trial_time: 1h"))
    assert refused.exit_code == 2
    assert "budget.trial_time: (not there) -> 3600s" in refused.stderr


def test_the_file_says_which_checkpoints_are_kept(sweep, folder):
    """Those of all three epochs; the engine that gives them knows nothing of it."""
    text = changed("toy_engine:train", "toy_engine:learn").replace("trials: 4", "trials: 1")
    sweep(f"{text}results: {{checkpoints: all}}\n")
    assert len(list((folder / "runs/sweep/trials/0000/checkpoints").iterdir())) == 3
    sweep(f"name: without\n{text}results: {{checkpoints: none}}\n")
    assert not (folder / "runs/without/trials/0000/checkpoints").exists()
