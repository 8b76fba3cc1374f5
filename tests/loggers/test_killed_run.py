"""A run is killed in an epoch, with one behind it that no checkpoint holds, and goes on."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

import pytest
from event_files import params_of, scalars_of
from forked import program

SCRIPT = Path(__file__).with_name("killed_run.py")


def run(*arguments: object) -> int:
    """Run the script in a process of its own; its exit code."""
    return program(SCRIPT, *arguments).ended()


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> tuple[Path, Path]:
    """A trial that was killed in epoch 4, with epoch 3 after its checkpoint, and one that was not."""
    killed, whole = tmp_path_factory.mktemp("killed"), tmp_path_factory.mktemp("whole")
    assert run(killed, 4) == -signal.SIGKILL
    assert [step for step, _ in scalars_of(killed)["loss/valid"]] == [0, 1, 2, 3]
    assert run(killed) == run(whole) == 0
    return killed, whole


def timeless(told: Any) -> Any:
    """The same without times."""
    if isinstance(told, dict):
        return {name: timeless(value) for name, value in told.items() if name != "train_time"}
    return [timeless(value) for value in told] if isinstance(told, list) else told


def test_events_have_every_step_once(folders):
    """One file, no gap, no repeat; the values are those of a run that was not disturbed."""
    killed, _ = folders
    for points in scalars_of(killed).values():
        assert [step for step, _ in points] == [0, 1, 2, 3, 4, 5]
    points, undisturbed = (sorted(scalars_of(folder).items()) for folder in folders)
    assert str(points) == str(undisturbed)  # nan is unlike itself, its text is not
    assert params_of(killed) == {"lr": 0.1}


def test_trainstats_have_the_whole_history(folders):
    """But for the times they are those of a run that was not disturbed."""
    killed, whole = (timeless(json.loads((folder / ".trainstats").read_text())) for folder in folders)
    assert [report["loss"] for report in killed["valid_reports"]] == [0.5, None, 0.25, 0.375, 0.125, 0.1875]
    assert killed == whole
    assert (killed["best_valid"], killed["impatience"]) == (0.125, 1)


def test_the_tables_repeat_no_epoch(folders):
    """Line by line those of a run that was not disturbed, but for the times."""
    killed, whole = (re.sub(r"time:\S+", "", (folder / "report.txt").read_text()) for folder in folders)
    assert killed == whole
    assert re.findall(r"^epoch:(\d+)", killed, re.MULTILINE) == list("012345")
