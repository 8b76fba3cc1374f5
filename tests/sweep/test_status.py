from __future__ import annotations

from pathlib import Path

from click.testing import CliRunner, Result
from sample_records import FOUR, trial, written

from hpometrics.cli import main
from hpometrics.search.record import TrialState


def status(directory: Path) -> Result:
    """Call `hpometrics status` in this process."""
    return CliRunner().invoke(main, ["status", str(directory)])


def test_how_far_a_sweep_is_and_what_is_best(tmp_path):
    """Trials by state, the best with its direction, and what each open trial has done."""
    home = written(tmp_path, [*FOUR[:3], trial(3, [0.3], TrialState.RUNNING, lr=0.01)])
    result = status(home)
    assert result.exit_code == 0
    sweep, trials, best, running = result.stdout.splitlines()
    assert sweep == f"sweep   sweep   in {home}"
    assert trials == "trials  3 of 4 done   running 1   ok 2   pruned 1   12.0s of training"
    assert best.startswith("best    roc_auc 0.8   (maximize)   trial 1, epoch 2   lr=")
    assert running.startswith("  #3    running   1 epoch, last heard of ")
    assert running.endswith("s ago   lr=0.01 depth=3 width=32")


def test_without_a_complete_trial_the_exit_code_says_so(tmp_path):
    """A script can wait for it; no run directory is another code."""
    result = status(written(tmp_path / "run", FOUR[2:]))
    assert result.exit_code == 3 and "no trial is complete, so there is no best" in result.stdout
    assert status(tmp_path).exit_code == 2
