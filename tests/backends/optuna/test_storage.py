from __future__ import annotations

import signal
import sqlite3
from contextlib import closing
from zlib import crc32

import optuna
import pytest
from filelock import FileLock, Timeout
from forked import Forked
from optuna.storages import RDBStorage
from sqlalchemy import text

from hpometrics.backends import storage_url as drivers
from hpometrics.backends.optuna.restore import check_trials, is_sound, read_trials
from hpometrics.backends.optuna.storage import (
    _TABLES,
    JournalLock,
    close_storage,
    exclusive,
    foreign_part,
    open_storage,
    storing,
)
from hpometrics.backends.optuna.study import open_study
from hpometrics.backends.optuna.trial_queue import claim, reserve, with_point
from hpometrics.backends.storage_url import check_driver, grpc_address, redact_file, url_of
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import ConfigError, DiskError, MissingExtraError, RecordError
from hpometrics.space.dimensions import Float
from hpometrics.space.space import Space


def study_in(path):
    """The study of a journal, opened as another process would."""
    return open_study(open_storage(path), "s", {"loss": MINIMIZE})


def hold(path, sign):
    """Take the lock of a journal, say so, and never give it up."""
    JournalLock(path).acquire()
    sign.touch()
    signal.pause()


def take_all(path, answer):
    """Claim trials until there are none; note their numbers."""
    study = study_in(path)
    reserve(study, 30)
    numbers = []
    while trial := claim(study):
        numbers.append(trial.number)
        study.tell(trial, 0.0)
    answer.write_text(" ".join(map(str, numbers)))


@pytest.mark.parametrize("torn", [b'{"op_code": 6, "tri', b"\x00" * 64, b"garbage"])
def test_a_torn_line_of_a_journal_is_cut_off_before_the_next(tmp_path, torn):
    """A process died while it wrote; whoever writes next loses nothing, and so does everyone after."""
    path = tmp_path / "study.journal"
    reserve(study_in(path), 2)
    with path.open("ab") as file:
        file.write(torn)
    assert is_sound(path)
    reserve(study_in(path), 4)
    assert [trial.number for trial in study_in(path).trials] == [0, 1, 2, 3]
    assert torn not in path.read_bytes()


def test_a_journal_that_is_damaged_says_so(tmp_path):
    """In its midst no line can be left out."""
    path = tmp_path / "study.journal"
    reserve(study_in(path), 2)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([lines[0], b"{}x\n", *lines[1:]]))
    assert not is_sound(path)
    with pytest.raises(RecordError, match=r"study\.journal: is not a study journal, or it is damaged"):
        open_storage(path)


def test_the_lock_of_a_journal_falls_with_its_holder(tmp_path):
    """Killed while it held it; the next has it at once."""
    path, sign = tmp_path / "study.journal", tmp_path / "sign"
    reserve(study_in(path), 1)
    holder = Forked(tmp_path, hold, path, sign)
    assert holder.waits_for(sign.exists)
    assert holder.killed() == -signal.SIGKILL
    reserve(study_in(path), 2)
    assert len(study_in(path).trials) == 2


def test_processes_share_a_journal(tmp_path):
    """Three add slots up to thirty and claim them: thirty, each once."""
    path = tmp_path / "study.journal"
    answers = [tmp_path / f"answer{number}" for number in range(3)]
    workers = [Forked(tmp_path, take_all, path, answer) for answer in answers]
    assert [worker.ended() for worker in workers] == [0] * 3
    numbers = sorted(int(number) for answer in answers for number in answer.read_text().split())
    assert numbers == list(range(30))


@pytest.mark.parametrize(
    ("kind", "free", "key"),
    [
        ("postgresql", "SELECT pg_try_advisory_xact_lock(:key)", crc32(b"s")),
        ("mysql", "SELECT IS_FREE_LOCK(:key)", "hpometrics:s"),
    ],
    ids=["postgresql", "mysql"],
)
def test_only_one_adds_slots_to_a_database_at_a_time(new_database, kind, free, key):
    """A second connection does not get the advisory lock while the first has it, and gets it afterwards."""
    storage = open_storage(new_database(kind))
    with storage.engine.connect() as other:
        with exclusive(storage, "s"):
            assert not other.execute(text(free), {"key": key}).scalar()
        assert other.execute(text(free), {"key": key}).scalar()
    close_storage(storage)


@pytest.mark.parametrize("url", ["sqlite+pysqlite:///study.db", "sqlite:///study.db?timeout=9"])
def test_a_file_is_locked_whatever_its_url_says_besides(tmp_path, monkeypatch, url):
    """A user's own URL may name the driver, or have settings."""
    monkeypatch.chdir(tmp_path)
    storage = RDBStorage(url)
    with exclusive(storage, "s"), pytest.raises(Timeout):
        FileLock(tmp_path / "study.db.lock", blocking=False).acquire()
    close_storage(storage)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:"])
def test_a_database_in_memory_leaves_no_lock_on_the_disk(tmp_path, monkeypatch, url):
    """No other process can open it."""
    monkeypatch.chdir(tmp_path)
    storage = RDBStorage(url)
    assert reserve(open_study(storage, "s", {"loss": MINIMIZE}), 2) == 2
    close_storage(storage)
    assert not [*tmp_path.iterdir()]


def test_a_trial_that_is_added_while_a_study_is_read_is_no_damage(monkeypatch):
    """A worker adds one after each reading: two readings of one study would differ."""
    study = open_study(open_storage("memory"), "s", {"loss": MINIMIZE})
    reserve(study, 1)
    read = study.get_trials

    def get_trials(**settings):
        trials = [*read(**settings)]
        study.enqueue_trial({})
        return trials

    monkeypatch.setattr(study, "get_trials", get_trials)
    assert [*read_trials(study, Space({"x": Float(0, 1)}))] == [0]
    check_trials(study)


def test_the_copy_of_a_sweep_file_has_no_password():
    """However its quotes write it, and not in a comment; a name of the environment stays."""
    url = url_of("postgresql://ada:it's-me@db/s")
    for quoted in ("'postgresql://ada:it''s-me@db/s'", r'"postgresql://ada:it\x27s-me@db/s"', url):
        assert "s-me" not in redact_file(f"storage: {quoted}\n", url)
    named = "storage: postgresql://ada:${PGPASSWORD}@db/s  # postgresql://ada:older@db/s\n"
    assert redact_file(named, "postgresql://ada:${PGPASSWORD}@db/s") == named.replace("ada:older", "***")


def test_a_point_belongs_to_its_number():
    """Where two processes have added slots at once, whoever claims a slot puts its own point right."""
    study = open_study(open_storage("memory"), "s", {"loss": MINIMIZE})
    study.enqueue_trial({"lr": 0.2})
    trial = with_point(study, claim(study), {"lr": 0.1})
    assert trial.suggest_float("lr", 0.0, 1.0) == 0.1


def test_slots_that_others_add_meanwhile_count():
    """Where nothing locks, there is at most one too many for each of them."""

    class Shared(optuna.storages.InMemoryStorage):
        def create_new_trial(self, study_id, template_trial=None):
            super().create_new_trial(study_id, template_trial)
            return super().create_new_trial(study_id, template_trial)

    study = open_study(Shared(), "s", {"loss": MINIMIZE})
    reserve(study, 9)
    assert len(study.trials) == 10


def test_what_a_storage_needs_is_named(monkeypatch):
    """With the line that installs it."""
    monkeypatch.setattr(drivers, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"grpc needs grpcio, .*: pip install 'grpcio>="):
        check_driver("grpc://localhost")
    with pytest.raises(MissingExtraError, match="needs asyncpg, which is not installed: pip install asyncpg"):
        check_driver("postgresql+asyncpg://h/x")


@pytest.mark.parametrize("url", ["grpc://", "grpc://h:0x1", "grpc://h/path", "grpc://me@h", "grpc://h:99999"])
def test_the_address_of_a_proxy_is_host_and_port(url):
    """The port may be left out; nothing else fits."""
    assert grpc_address("grpc://[::1]") == ("::1", 13000)
    with pytest.raises(ConfigError, match="name the storage proxy as grpc://host:port"):
        grpc_address(url)


def test_a_database_that_cannot_be_reached_is_no_fault_of_a_trial():
    """The message is that of the driver, without the password."""
    pytest.importorskip("psycopg", reason="it comes with the extra postgresql")
    with pytest.raises(DiskError, match="the study cannot be reached") as told:
        open_storage("postgresql://ada:pw-s3cret@localhost:1/studies")
    assert "pw-s3cret" not in str(told.value)


@pytest.mark.filterwarnings("ignore:GrpcStorageProxy is experimental")
def test_a_proxy_that_is_gone_is_no_fault_of_a_trial():
    """What it answers is told, not the page that gRPC makes of it."""
    pytest.importorskip("grpc", reason="it comes with the extra grpc")
    storage = optuna.storages.GrpcStorageProxy(host="localhost", port=1)
    with pytest.raises(
        DiskError, match=r"the study cannot be read or written: .*; earlier records are kept$"
    ):
        with storing():
            storage.get_all_studies()
    storage.close()


@pytest.mark.parametrize("name", ["{lr}", "{", "a?b=c", "per%41cent", "ha#sh", "all {of} %7B them?"])
def test_a_directory_may_be_called_anything(tmp_path, name):
    """Neither Optuna nor SQLAlchemy reads a path as a pattern or as the query of a URL."""
    folder = tmp_path / "here" / name
    study = study_in(folder / "study.db")
    reserve(study, 2)
    close_storage(study._storage)
    assert len(study_in(folder / "study.db").trials) == 2
    assert [path.name for path in (tmp_path / "here").iterdir()] == [name]


def test_a_password_may_have_braces():
    """The server is looked for; no part of the URL is taken for a field to fill in."""
    pytest.importorskip("psycopg", reason="it comes with the extra postgresql")
    with pytest.raises(DiskError, match="the study cannot be reached"):
        open_storage("postgresql+psycopg://ada:{secret}@localhost:1/studies")


def test_the_tables_that_a_study_has_are_those_of_optuna(tmp_path):
    """What else a database holds is a user's own; an Optuna with another table is noticed."""
    close_storage(open_storage(tmp_path / "study.db"))
    with closing(sqlite3.connect(tmp_path / "study.db")) as connection:
        tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        assert {name for (name,) in tables if not name.startswith("sqlite_")} == _TABLES
        assert foreign_part(connection) is None
