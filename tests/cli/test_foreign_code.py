"""Commands that import the code of a sweep file or a run directory, and the pages that list them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from reading_commands import HOME, READERS, call
from sample_records import FOUR, written
from sample_sweeps import changed

from hpometrics.cli.main import main

FOREIGN = """\
from pathlib import Path

Path("sprung").touch()


def train(params, run):
    for _ in run.epochs(1):
        run.log(roc_auc=0.5, accuracy=0.5)
"""
IMPORTING = {
    "run": ["run", "sweep.yaml"],
    "worker": ["worker", HOME],
    "confirm": ["confirm", HOME],
    "replay": ["replay", HOME],
    "verify": ["verify", HOME],
    "eval": ["eval", "sweep.yaml"],
    "check --probe": ["check", "sweep.yaml", "--probe"],
}
"""The commands that import what a file or a directory names, in the order of the pages."""
NOT_IMPORTING = {
    **READERS,
    "best by another metric": ["best", HOME, "--metric", "mcc"],
    "best with an interval": ["best", HOME, "--interval", "0.9"],
    "best as arguments": ["best", HOME, "-f", "args"],
    "compare": ["compare", HOME, HOME],
    "check": ["check", "sweep.yaml"],
    "run --dry-run": ["run", "sweep.yaml", "--dry-run"],
    "init": ["init", "other", "--from", "sweep.yaml"],
    **{name: [name, HOME] for name in ("audit", "ls", "pause", "resume", "stop")},
    "tag": ["tag", HOME, "foreign"],
    "add": ["add", HOME, "lr=0.01"],
}
"""Commands that import none of it."""
NAMING_NO_SWEEP = {"measure", "metrics", "schema"}
SERVERS = {"dashboard"}
"""Commands that run until they are stopped; `serve_dashboard` reads the name and the study of a directory."""
PAGES = {
    "docs/how-to/sweeps.md": (
        r"names code, and so does a run directory\.\s(.*?)\simport",
        r"\n\n(`check`,[^.]*?)\simport none of this code",
    ),
    "docs/how-to/own-metrics.md": (
        r"\n\| the engine's module,[^|]*\|[^|]*\| (.*?) \|",
        r"\n\n(`check`,[^.]*?)\simport no code",
    ),
    "SECURITY.md": (
        r"\n- ([^.:]*?)\simport and run the engine",
        r"must not run code\.\s([^.]*?)\simport no code",
    ),
}
"""The pages that list the commands, those that import and those that do not."""


@pytest.fixture
def foreign(folder, monkeypatch) -> Iterator[Path]:
    """A run directory and a sweep file that name code of the current folder in each place where one can."""
    monkeypatch.delitem(sys.modules, "foreign_engine", raising=False)
    (folder / "foreign_engine.py").write_text(FOREIGN)
    text = changed("toy_engine:train", "foreign_engine:train", changed("accuracy]", "foreign_engine:Odd]"))
    (folder / "sweep.yaml").write_text(text)
    home = written(folder / HOME, FOUR[:3], changed("toy_engine:train", "foreign_engine:train"))
    resolved = home / "sweep.resolved.yaml"
    resolved.write_text(resolved.read_text().replace("track: [accuracy]", "track: ['foreign_engine:Odd']"))
    yield home
    sys.modules.pop("foreign_engine", None)


def test_no_reader_imports_what_a_directory_names(foreign):
    """Neither the engine nor a metric of it."""
    for arguments in NOT_IMPORTING.values():
        result = call(*arguments)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        assert not Path("sprung").exists(), arguments


@pytest.mark.parametrize("name", IMPORTING)
def test_a_command_imports_what_a_directory_names(name, foreign):
    """None of them is listed for nothing."""
    call(*IMPORTING[name])
    assert Path("sprung").exists()


def test_each_command_is_tried():
    """With and without the option that decides where both hold: `run` and `check`."""
    importing, others = (
        {arguments[0] for arguments in table.values()} for table in (IMPORTING, NOT_IMPORTING)
    )
    assert importing & others == {"run", "check"}
    assert importing | others | NAMING_NO_SWEEP | SERVERS == {*main.commands}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_names_each_command_that_imports(page):
    """A reader of any page knows which ones a foreign directory must not be given to."""
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf8")
    importing, others = (
        [re.findall(r"`(.*?)`", one) for one in re.findall(pattern, text, re.DOTALL)]
        for pattern in PAGES[page]
    )
    assert importing == [[*IMPORTING]]
    assert len(others) == 1
    assert {*others[0]} <= {arguments[0] for arguments in NOT_IMPORTING.values()} | SERVERS
