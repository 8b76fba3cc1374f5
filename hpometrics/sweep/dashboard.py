"""The `dashboard` command: optuna-dashboard on the study of a run directory."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from ..exceptions import ConfigError, missing_extra
from .directory import RunDirectory

_HOST = "127.0.0.1"


def serve_dashboard(directory: Path, port: int, say: Callable[[str], object]) -> None:
    """Serve the dashboard until it is interrupted.

    Args:
        directory: of the run.
        port: of this machine; no other machine reaches it.
        say: told where it is to be seen.

    Raises:
        ConfigError: it is no run directory, or one whose study is not on disk.
        MissingExtraError: optuna-dashboard is not installed.
    """
    home = RunDirectory(directory)
    home.read()
    if not home.study.is_file():
        raise ConfigError(f"{home.study}: is not there, the sweep kept its study elsewhere; see `report`")
    if find_spec("optuna_dashboard") is None:
        raise missing_extra("the dashboard", "optuna-dashboard", "dashboard")
    from optuna_dashboard import run_server

    say(f"http://{_HOST}:{port}/ until Ctrl-C")
    run_server(f"sqlite:///{home.study.absolute()}", host=_HOST, port=port)
