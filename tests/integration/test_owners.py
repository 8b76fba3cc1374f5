from __future__ import annotations

import os
import tempfile

import pytest
from sample_sweeps import SWEEP

from hpometrics.backends.ray.session import session_arguments
from hpometrics.exceptions import ConfigError
from hpometrics.records._files import check_own, make_private

STRANGER = 65534
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")


@AS_ROOT
def test_a_sweep_does_not_go_on_in_the_directory_of_another_user(folder, sweep, swept):
    """Whoever wrote it says what is imported; it is left alone until it is made the caller's own."""
    assert swept(SWEEP).exit_code == 0
    home = folder / "runs/sweep"
    os.chown(home, STRANGER, STRANGER)
    for arguments in ([], ["--fresh"]):
        refused = sweep(SWEEP, *arguments)
        assert refused.exit_code == 2
        assert f"runs/sweep: belongs to user {STRANGER}, who can make it run any code" in refused.stderr
    assert not list(folder.glob("runs/sweep.old-*"))
    os.chown(home, 0, 0)
    assert sweep(SWEEP).exit_code == 0


@pytest.mark.parametrize("mode", [0o770, 0o702])
def test_a_sweep_does_not_go_on_where_others_may_write(folder, sweep, swept, mode):
    """Be it the group or everyone."""
    assert swept(SWEEP).exit_code == 0
    home = folder / "runs/sweep"
    home.chmod(mode)
    refused = sweep(SWEEP)
    assert refused.exit_code == 2
    assert f"runs/sweep: other users can write to it (mode {mode:04o})" in refused.stderr
    home.chmod(0o755)
    assert sweep(SWEEP).exit_code == 0


def test_what_is_not_there_is_nobodys(tmp_path):
    """It is made, private, by whoever needs it."""
    home = tmp_path / "new"
    check_own(home)
    assert not home.exists()
    make_private(home)
    check_own(home)
    assert home.stat().st_mode & 0o777 == 0o700


def test_ray_without_a_token_is_refused(monkeypatch):
    """Before anything of it is started."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    with pytest.raises(ConfigError, match="RAY_AUTH_MODE=disabled lets anyone who reaches this machine run"):
        session_arguments()


def test_the_session_of_ray_is_in_a_private_directory(monkeypatch, tmp_path):
    """It is made where temporary files are, unless sockets get too long names; a place asked for stands."""
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        home = session_arguments()["_temp_dir"].removesuffix("/ray")
        assert home == f"{short}/hpometrics-{os.getuid()}"
        assert os.stat(home).st_mode & 0o777 == 0o700
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * 20)))
    assert session_arguments()["_temp_dir"].startswith("/tmp/")
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    assert session_arguments() == {}


@pytest.mark.parametrize("kind", ["open", "link", "file"])
def test_a_private_directory_that_is_none_is_refused(monkeypatch, kind):
    """Whoever was there before may read along, or have Ray write elsewhere."""
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        place = os.path.join(short, f"hpometrics-{os.getuid()}")
        if kind == "open":
            os.mkdir(place)
            os.chmod(place, 0o755)
        elif kind == "link":
            os.mkdir(place + "-elsewhere", 0o700)
            os.symlink(place + "-elsewhere", place)
        else:
            open(place, "w").close()
        with pytest.raises(
            ConfigError, match="is not a directory that only this user can write to, which Ray's files need"
        ):
            session_arguments()
