from __future__ import annotations

import sqlite3
import sys
from contextlib import closing, nullcontext
from functools import partial
from types import SimpleNamespace
from wsgiref import simple_server

import pytest
from optuna import create_study
from sample_records import written

from hpometrics.cli import dashboard
from hpometrics.cli.dashboard import serve_dashboard
from hpometrics.exceptions import ConfigError, MissingExtraError
from hpometrics.results.run_directory import RunDirectory


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
    with pytest.raises(ConfigError, match=r"study\.db: not found"):
        serve_dashboard(written(tmp_path), 8080, print)


def test_a_study_that_is_damaged_is_refused(home, monkeypatch):
    """No server reads what may never end."""
    monkeypatch.setattr(dashboard, "find_spec", lambda name: True)
    monkeypatch.setitem(sys.modules, "optuna_dashboard", SimpleNamespace(wsgi=None))
    with closing(sqlite3.connect(home / "study.db")) as connection:
        connection.execute("CREATE VIEW trials AS SELECT 1")
    with pytest.raises(ConfigError, match=r"study\.db: is damaged; hpometrics run rebuilds it"):
        serve_dashboard(home, 8080, print)


def test_the_study_is_served_to_this_machine_alone(home, monkeypatch):
    """The address of the study is printed before the server begins; it logs no request."""
    told: list[object] = []
    create_study(storage=f"sqlite:///{home}/study.db", study_name="another")
    create_study(storage=f"sqlite:///{home}/study.db", study_name=RunDirectory(home).read().name)

    def make_server(host, port, application, handler_class):
        assert handler_class.log_message(None, "%s", "GET /") is None
        told.append((host, port, application))
        return nullcontext(SimpleNamespace(serve_forever=partial(told.append, "serves")))

    monkeypatch.setattr(dashboard, "find_spec", lambda name: True)
    monkeypatch.setattr(simple_server, "make_server", make_server)
    monkeypatch.setitem(sys.modules, "optuna_dashboard", SimpleNamespace(wsgi=lambda storage: "application"))
    serve_dashboard(home, 8123, told.append)
    address = "http://127.0.0.1:8123/dashboard/studies/2 until Ctrl-C"
    assert told == [("127.0.0.1", 8123, "application"), address, "serves"]
