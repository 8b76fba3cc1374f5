from __future__ import annotations

import json
import time
from pathlib import Path

from click.testing import CliRunner, Result
from sample_records import FOUR, trial, written

from hpometrics.cli.main import main
from hpometrics.records.trial_record import TrialState
from hpometrics.results.annotation_file import annotated
from hpometrics.results.run_directory import RunDirectory
from hpometrics.results.status import results_text


def status(directory: Path, *arguments: str) -> Result:
    """Call `hpometrics status` in this process."""
    return CliRunner().invoke(main, ["status", str(directory), *arguments])


def test_how_far_a_sweep_is_and_what_is_best(tmp_path):
    """Trials by state, the best with its direction, and what each open trial has done."""
    home = written(tmp_path, [*FOUR[:3], trial(3, [0.3], TrialState.RUNNING, lr=0.01)])
    result = status(home)
    assert result.exit_code == 0
    sweep, trials, best, running = result.stdout.splitlines()
    assert sweep == f"sweep   sweep   in {home}"
    assert trials == "trials  3 of 4 done   running 1   ok 2   pruned 1   12.0s of training"
    assert best.startswith("best    roc_auc 0.8   (maximize)   trial 1, epoch 2   lr=")
    assert running.startswith("  #3    running   1 epoch, last update ")
    assert running.endswith("s ago   lr=0.01 depth=3 width=32")


def test_more_trials_than_the_budget_asks_for_are_not_so_many_of_it(tmp_path):
    """As where it was lowered."""
    home = written(tmp_path / "run", [trial(number, [0.5]) for number in range(5)])
    assert "trials  5 done   ok 5" in status(home).stdout


def test_without_a_complete_trial_the_exit_code_says_so(tmp_path):
    """A script can wait for it; no run directory is another code."""
    result = status(written(tmp_path / "run", FOUR[2:]))
    assert result.exit_code == 3 and "no trial is complete yet" in result.stdout
    assert status(tmp_path).exit_code == 2


def test_the_same_as_json(tmp_path):
    """States counted, the best as `best` gives it, what each open trial does."""
    home = written(tmp_path, [*FOUR[:3], trial(3, [0.3], TrialState.RUNNING, lr=0.01)])
    told = json.loads(status(home, "--json").stdout)
    assert (told["trials"], told["done"], told["states"]["pruned"], told["states"]["failed"]) == (4, 3, 1, 0)
    best = CliRunner().invoke(main, ["best", str(home), "--json"])
    assert told["best"] == json.loads(best.stdout)
    (running,) = told["open"]
    assert (running["trial"], running["state"], running["params"]["lr"]) == (3, "running", 0.01)


def test_without_a_best_json_has_the_reason(tmp_path):
    """And the exit code is the same."""
    result = status(written(tmp_path, FOUR[2:]), "--json")
    told = json.loads(result.stdout)
    assert (result.exit_code, told["best"]) == (3, None)
    assert "no trial is complete" in told["reason"]


def test_the_last_lines_fit_a_terminal(tmp_path):
    """Wrapped at spaces, further lines as far indented as the first; a pipe gets them whole."""
    home = RunDirectory(written(tmp_path / "run", FOUR))
    resolved, records = annotated(home), home.records()
    whole, narrow = (results_text(home, resolved, records, width) for width in (None, 40))
    (verdict,) = (line for line in whole.splitlines() if line.startswith("Verdict: "))
    assert len(verdict) > 40
    assert all(len(line) <= 40 or " " not in line.strip() for line in narrow.splitlines()[-6:])
    assert " ".join(narrow.split("Verdict: ")[1].split()) == " ".join(whole.split("Verdict: ")[1].split())


def test_the_status_fits_a_terminal(tmp_path, monkeypatch):
    """Wrapped at spaces, further lines below the first one's text; a pipe gets one line each."""
    home = written(tmp_path, [*FOUR[:3], trial(3, [0.3], TrialState.RUNNING, lr=0.01)])
    now = time.time()
    monkeypatch.setattr("time.time", lambda: now)  # else the age of the last update may differ by a second
    whole = status(home).stdout
    assert max(map(len, whole.splitlines())) > 48
    monkeypatch.setattr("hpometrics.cli.results.terminal_width", lambda: 48)
    lines = status(home).stdout.splitlines()
    assert all(len(line) <= 48 or " " not in line.strip() for line in lines)
    assert {line[:8] for line in lines} == {"sweep   ", "trials  ", "best    ", "  #3    ", " " * 8}
    assert " ".join(" ".join(lines).split()) == " ".join(whole.split())
