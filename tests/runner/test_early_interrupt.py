"""What a terminal shows of a run before its first trial, and a Ctrl-C in that time."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest
from sample_sweeps import SWEEP
from sweep_fixtures import ENGINES
from terminals import on_terminal, visible_lines

from hpometrics.runner.signals import before_first_trial

LINE = "interrupted before the first trial; nothing was run"


@pytest.fixture
def sweep_folder(tmp_path) -> Path:
    """A folder with a sweep file and its engine."""
    for engine in ENGINES:
        shutil.copy(engine, tmp_path)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    return tmp_path


def test_ctrl_c_during_the_imports_is_answered(sweep_folder):
    """The name stands before torch is imported; a Ctrl-C then says that nothing was run."""
    interrupted = []

    def interrupt(text, process):
        if "sweep  runs/sweep" in text and not interrupted:
            interrupted.append(True)
            os.kill(process.pid, signal.SIGINT)

    code, text = on_terminal("run", "sweep.yaml", folder=sweep_folder, watch=interrupt)
    assert code == 130
    assert text.split("\n") == ["sweep  runs/sweep", LINE, ""]
    assert not (sweep_folder / "runs").exists()


def test_the_name_stands_once(sweep_folder):
    """A run that goes on adds how many trials are done."""
    first = on_terminal("run", "sweep.yaml", "--set", "budget.trials=1", folder=sweep_folder)
    code, text = on_terminal("run", "sweep.yaml", "--set", "budget.trials=2", folder=sweep_folder)
    assert first[0] == code == 0
    assert visible_lines(first[1])[0] == "sweep  runs/sweep"
    assert first[1].count("sweep  runs/sweep") == text.count("sweep  runs/sweep") == 1
    assert visible_lines(text)[:2] == ["sweep  runs/sweep", "resuming: 1 of 2 done"]


@pytest.mark.parametrize("outcome", [RecursionError, None], ids=["another error", "swallowed"])
def test_an_import_that_hides_a_ctrl_c(outcome, capsys):
    """NumPy's half import ends in a RecursionError; other imports go on."""
    before = signal.getsignal(signal.SIGINT)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), before_first_trial():
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                if outcome is not None:
                    raise outcome from None
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)
    assert capsys.readouterr().err == f"{LINE}\n"


def test_other_errors_stay(capsys):
    """Without a line."""
    with pytest.raises(ValueError, match="wrong"), before_first_trial():
        raise ValueError("wrong")
    assert capsys.readouterr().err == ""
