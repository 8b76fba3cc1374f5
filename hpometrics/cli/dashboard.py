"""The `dashboard` command: optuna-dashboard for the study of a run directory."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from ..backends.storage_url import MEMORY, STORAGE_FILES, is_shared, url_of
from ..exceptions import ConfigError, missing_extra
from ..results.run_directory import RunDirectory

_HOST = "127.0.0.1"


def serve_dashboard(directory: Path, port: int, say: Callable[[str], object]) -> None:
    """Serve the dashboard until it is interrupted.

    Args:
        directory: the run directory.
        port: a port of this machine; other machines cannot reach it.
        say: called with the line that has its address.

    Raises:
        ConfigError: the directory is not a run directory, its study is not on disk, or the environment lacks
            a variable that the storage names.
        MissingExtraError: optuna-dashboard is not installed.
    """
    home = RunDirectory(directory)
    place = _study_place(home)
    if find_spec("optuna_dashboard") is None:
        raise missing_extra("the dashboard", "optuna-dashboard", "dashboard")
    from wsgiref import simple_server

    from optuna_dashboard import wsgi

    from ..backends.optuna.restore import is_sound  # with Optuna, which an error need not load
    from ..backends.optuna.storage import open_storage, storing

    class Silent(simple_server.WSGIRequestHandler):
        def log_message(self, *args: object) -> None:
            pass

    with storing():
        if isinstance(place, Path) and not is_sound(place):
            raise ConfigError(f"{place}: is damaged; hpometrics run rebuilds it from the trials")
        storage = open_storage(f"sqlite:///{place.absolute()}" if place == home.study else place)
        number = storage.get_study_id_from_name(home.read().name)
    with (
        suppress(KeyboardInterrupt),
        simple_server.make_server(_HOST, port, wsgi(storage), handler_class=Silent) as server,
    ):
        say(f"http://{_HOST}:{port}/dashboard/studies/{number} until Ctrl-C")
        server.serve_forever()


def _study_place(home: RunDirectory) -> str | Path:
    storage = home.read().storage
    if storage == MEMORY:
        raise ConfigError(f"{home.path}: the sweep kept its study in memory; use `report` instead")
    if is_shared(storage):
        return url_of(storage)
    path = home.path / STORAGE_FILES[storage]
    if not path.is_file():
        raise ConfigError(
            f"{path}: not found, because the sweep kept its study elsewhere; use `report` instead"
        )
    return path
