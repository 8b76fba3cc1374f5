from __future__ import annotations

import signal

from forked import hpometrics
from sample_sweeps import changed

from hpometrics.search.record import TrialState
from hpometrics.sweep.directory import RunDirectory

LEARN = changed("toy_engine:train", "toy_engine:learn").replace("epochs: 3", "epochs: 6")


def finished(*arguments: str) -> tuple[int, str, str]:
    """Run the command to its end: exit code, stdout, stderr."""
    ran = hpometrics(*arguments).result()
    return ran.returncode, ran.stdout, ran.stderr


def test_a_killed_sweep_goes_on_and_ends_as_if_nothing_had_happened(folder, monkeypatch):
    """Killed in epoch 3 of the second trial, it goes on there with weights, optimizer and random states.

    Earlier trials are not run again, none stays running, and every value is that of an undisturbed sweep.
    """
    (folder / "sweep.yaml").write_text(LEARN)
    (folder / "whole.yaml").write_text(LEARN)
    monkeypatch.setenv("KILL_AT", "3")
    code, _, _ = finished("run", "sweep.yaml")
    assert code == -signal.SIGKILL
    home = RunDirectory(folder / "runs" / "sweep")
    assert [record.state for record in home.records()] == [TrialState.COMPLETE, TrialState.RUNNING]
    assert len(home.records()[1].epochs) == 3
    monkeypatch.delenv("KILL_AT")
    code, _out, err = finished("run", "sweep.yaml")
    assert code == 0, err
    assert "going on: 1 of 4 done" in err
    assert finished("run", "whole.yaml")[0] == 0
    killed, whole = home.records(), RunDirectory(folder / "runs" / "whole").records()
    assert [r.state for r in killed] == [TrialState.COMPLETE] * 4
    assert [e.attempt for e in killed[1].epochs] == [1, 1, 1, 2, 2, 2]
    assert [[e.values for e in r.epochs] for r in killed] == [[e.values for e in r.epochs] for r in whole]
    assert [r.params for r in killed] == [r.params for r in whole]
    assert [r.value for r in killed] == [r.value for r in whole]
