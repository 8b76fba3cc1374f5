from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from types import SimpleNamespace

import pytest
from sample_records import written

from hpometrics.cli import dashboard
from hpometrics.cli.dashboard import serve_dashboard
from hpometrics.exceptions import ConfigError, MissingExtraError


@pytest.fixture
def home(tmp_path):
    """A run directory with a study."""
    (written(tmp_path) / "study.db").touch()
    return tmp_path


def test_a_missing_dashboard_says_which_install_brings_it(home, monkeypatch):
    """The study is found first."""
    monkeypatch.setattr(dashboard, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"optuna-dashboard, .*: pip install 'optuna-d"):
        serve_dashboard(home, 8080, print)


def test_a_sweep_whose_study_is_elsewhere_is_refused(tmp_path):
    """As one in memory; no run directory is an error of its own."""
    with pytest.raises(ConfigError, match="is not a run directory"):
        serve_dashboard(tmp_path, 8080, print)
    with pytest.raises(ConfigError, match=r"study\.db: is not there"):
        serve_dashboard(written(tmp_path), 8080, print)


def test_a_study_that_is_damaged_is_refused(home, monkeypatch):
    """No server reads what may never end."""
    monkeypatch.setattr(dashboard, "find_spec", lambda name: True)
    monkeypatch.setitem(sys.modules, "optuna_dashboard", SimpleNamespace(run_server=None))
    with closing(sqlite3.connect(home / "study.db")) as connection:
        connection.execute("CREATE VIEW trials AS SELECT 1")
    with pytest.raises(ConfigError, match=r"study\.db: is damaged; hpometrics run makes it again"):
        serve_dashboard(home, 8080, print)


def test_the_study_is_served_to_this_machine_alone(home, monkeypatch):
    """The address is said before the server, which does not return, begins."""
    told: list[object] = []
    server = SimpleNamespace(run_server=lambda url, **where: told.append((url, where)))
    monkeypatch.setattr(dashboard, "find_spec", lambda name: True)
    monkeypatch.setitem(sys.modules, "optuna_dashboard", server)
    serve_dashboard(home, 8123, told.append)
    where = {"host": "127.0.0.1", "port": 8123}
    assert told == ["http://127.0.0.1:8123/ until Ctrl-C", (f"sqlite:///{home}/study.db", where)]
