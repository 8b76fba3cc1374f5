"""A folder with a sweep file and its engine, as a user has it, and the command as a user types it."""

from __future__ import annotations

import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from loaded_python import loaded_python
from matrix import EXHAUSTIVE

from hpometrics.cli.main import main

ENGINES = [Path(__file__).with_name(name) for name in ("toy_engine.py", "toy_stages.py")]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current folder with the toy engines in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for engine in ENGINES:
        shutil.copy(engine, tmp_path)
        monkeypatch.delitem(sys.modules, engine.stem, raising=False)
    return tmp_path


@pytest.fixture(params=["shared", pytest.param("own", marks=EXHAUSTIVE)])
def on_ray(
    request: pytest.FixtureRequest, ray_cluster: str, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., str]:
    """The `backend:` of a sweep on the cluster of the tests; where all are tried, also on one of its own.

    The workers of its own are forks too; the sweeps of configs and pages start whole ones.
    """
    address = f"address: '{ray_cluster}', "
    if request.param == "own":
        address = ""
        monkeypatch.setattr(sys, "executable", str(loaded_python()))
    return lambda workers=2: f"backend: {{ray: {{{address}workers: {workers}}}}}\n"


@pytest.fixture
def sweep(folder: Path) -> Callable[..., Result]:
    """Write a sweep file and call `hpometrics COMMAND sweep.yaml ...` in this process."""

    def call(text: str, *arguments: str, command: str = "run") -> Result:
        (folder / "sweep.yaml").write_text(text)
        signals = signal.getsignal(signal.SIGTERM)
        result = CliRunner().invoke(main, [command, "sweep.yaml", *arguments])
        assert signal.getsignal(signal.SIGTERM) is signals
        return result

    return call


@pytest.fixture(scope="session")
def kept_sweeps() -> dict[tuple[str, str], tuple[Path, Path, Result]]:
    """By file and command what sweeps have left: a copy of the folder, where it was, and what was printed."""
    return {}


@pytest.fixture
def swept(
    sweep: Callable[..., Result],
    folder: Path,
    kept_sweeps: dict[tuple[str, str], tuple[Path, Path, Result]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., Result]:
    """As `sweep`, but of all tests one runs a file: the others have a copy of what it has left.

    The engine has not been imported, and there is no stamp, which is of the place where the sweep was run.
    """

    def call(text: str, command: str = "run") -> Result:
        if (text, command) not in kept_sweeps:
            result = sweep(text, command=command)
            kept = shutil.copytree(folder, tmp_path_factory.mktemp("swept"), dirs_exist_ok=True)
            kept_sweeps[text, command] = kept, folder, result
            for engine in ENGINES:
                sys.modules.pop(engine.stem, None)
        kept, place, result = kept_sweeps[text, command]
        shutil.copytree(kept, folder, dirs_exist_ok=True)
        for file in (*folder.glob("runs/*/sweep.resolved.yaml"), *folder.glob("runs/*/best.json")):
            lines = file.read_text().replace(str(place), str(folder)).splitlines(keepends=True)
            file.write_text("".join(line for line in lines if not line.startswith("# sha256")))
        for stamp in folder.glob("runs/*/.finished"):
            stamp.unlink()
        return result

    return call
