"""Optuna's storages, opened safely by many processes and locked by one of them at a time."""

from __future__ import annotations

import os
import re
import shutil
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote, unquote
from warnings import catch_warnings

import optuna
from filelock import FileLock
from optuna.exceptions import ExperimentalWarning
from optuna.storages import BaseStorage, GrpcStorageProxy, InMemoryStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock, JournalStorage

from ..._text import printable
from ...exceptions import DiskError, HpometricsError, RecordError
from ...records._files import STORAGE_LIMIT, check_regular, read_lines
from ...records._json import read_json
from ...records.epoch_log import cut_torn_line
from ..storage_url import MEMORY, check_driver, grpc_address
from ._internals import backend_of, journal_path, storage_of
from .database import ReconnectingStorage, cause_of, database_errors, is_lost, locked

JOURNAL = ".journal"
"""The suffix of a journal file."""

SQLITE = b"SQLite format 3\0"
"""The first bytes of an SQLite file."""

FRESH_RUNS = ":confirm"
"""The end of the name of a study of fresh runs, after the name of the search's study."""

_SQLITE = "sqlite:///"
_WAL = b"\x02\x02"  # bytes 18 and 19 of a file with a write-ahead log
_BESIDE = ("-wal", "-shm", "-journal")
_SAME = {"pool_use_lifo": True}  # the connection that wrote last has its pages at hand; another reads them
_TRIES, _PAUSE = 8, 0.25  # to open a database whose tables another process is creating
_RACES = ("already exists", "duplicate", "unique constraint")  # of the tables, or the row of their version
_TABLES = {
    "alembic_version", "version_info", "studies", "study_directions", "study_user_attributes",
    "study_system_attributes", "trials", "trial_user_attributes", "trial_system_attributes", "trial_params",
    "trial_values", "trial_intermediate_values", "trial_heartbeats",
}  # fmt: skip
"""The tables that Optuna reads; a user may add others and views."""
_OPTUNAS_CHECK = re.compile(r"CHECK \((version_info_id ?= ?1|\w+ IN \(('\w+',? ?)+\))\)")
_EXPRESSION = re.compile(r"\bCHECK\b|\bDEFAULT\s*\(", re.IGNORECASE)
_PLAIN_INDEX = re.compile(r"CREATE (UNIQUE )?INDEX \w+ ON \w+ \(\w+(, \w+)*\)")
_PASSING = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_NOMEM,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN,
}
"""The error codes by which SQLite reports another process, the memory, the disk or permissions."""


def open_storage(place: str | Path) -> BaseStorage:
    """Open a storage.

    Files are opened under a lock beside them, so any number of processes may open one at the same moment.

    Args:
        place: `memory`; an SQLite file, a path or `sqlite:///path`; a journal, a path that ends in
            `.journal`; the URL of a database; `grpc://host:port` of Optuna's storage proxy.

    Raises:
        RecordError: the file is damaged, or is not a study.
        ConfigError: there is no such storage.
        MissingExtraError: its driver is not installed.
        DiskError: the storage cannot be reached.
    """
    text = str(place)
    if text == MEMORY:
        return InMemoryStorage()
    if text.startswith("grpc:"):
        return _proxy(text)
    if "://" in text and not text.startswith(_SQLITE):
        return _database(text)
    path = Path(text.removeprefix(_SQLITE)).absolute()
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == JOURNAL:
        return _journal(path)
    with FileLock(f"{path}.lock"):
        _prepare(path)
        return _file(path)


def close_storage(storage: BaseStorage) -> None:
    """Close the connections of a storage; the files stay."""
    storage.remove_session()
    backend = backend_of(storage)
    if isinstance(backend, RDBStorage):
        backend.engine.dispose()
    elif isinstance(backend, GrpcStorageProxy):
        backend.close()


def search_names(storage: BaseStorage) -> list[str]:
    """Return the names of the studies of a storage, without those of the fresh runs of a confirmation."""
    names = [one.study_name for one in storage.get_all_studies()]
    return [one for one in names if not (one.endswith(FRESH_RUNS) and one.removesuffix(FRESH_RUNS) in names)]


@contextmanager
def exclusive(storage: BaseStorage, study: str) -> Iterator[None]:
    """Lock a study, so that no other process adds or claims trials; a process that dies releases the lock.

    What is behind a proxy cannot be locked: processes that use one may add more trials than needed. A
    database in memory belongs to this process.
    """
    backend = backend_of(storage)
    if isinstance(backend, JournalFileBackend):
        with _lock(f"{journal_path(backend)}.slots.lock"):
            yield
    elif not isinstance(backend, RDBStorage):
        yield
    elif backend.engine.dialect.name != "sqlite":
        with locked(backend, study):
            yield
    else:
        path = unquote(backend.url.partition(":///")[2].partition("?")[0])
        with nullcontext() if path in ("", ":memory:") else _lock(f"{path}.lock"):
            yield


def exclusive_study(study: optuna.Study) -> AbstractContextManager[None]:
    """Lock a study in its storage; see `exclusive`."""
    return exclusive(storage_of(study), study.study_name)


def is_lockable(study: optuna.Study) -> bool:
    """Return whether `exclusive_study` keeps other processes out."""
    return isinstance(backend_of(storage_of(study)), (JournalFileBackend, RDBStorage))


class storing:
    """Turn an error of the storage into a `DiskError`, which does not fail the trial; a class as `writing`.

    Raises:
        DiskError: the study cannot be read or written.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is not None and isinstance(error, storage_failures()):
            raise storage_error(error) from error


def storage_error(error: BaseException) -> DiskError:
    """Return the error of a trial whose storage has failed, which does not fail the trial."""
    return DiskError(f"the study cannot be read or written: {cause_of(error)}; earlier records are kept")


def is_damage(error: BaseException | None) -> bool:
    """Return whether an error raised by reading a study is about the content of its file.

    Otherwise another process has locked the file, or the system does not let it be read.
    """
    while error is not None:
        code = getattr(error, "sqlite_errorcode", None)
        if code is not None and code != sqlite3.SQLITE_IOERR_SHORT_READ and code & 0xFF in _PASSING:
            return False
        if isinstance(error, OSError) and not isinstance(error, DiskError):
            return False
        error = error.__cause__ or error.__context__
    return True


def foreign_part(connection: sqlite3.Connection) -> str | None:
    """Return what a database computes when it is read or checked, which may never end.

    That is a view, a virtual table or a computed column in the place of a table of Optuna, or a trigger, a
    constraint or an index of any table that holds an expression.
    """
    for kind, name, sql in connection.execute("SELECT type, name, sql FROM sqlite_master").fetchall():
        if kind == "trigger":
            return f"trigger {name}"
        if kind == "table" and _EXPRESSION.search(_OPTUNAS_CHECK.sub("", str(sql))):
            return f"constraint of {name}"
        if kind == "index" and sql is not None and not _PLAIN_INDEX.fullmatch(str(sql)):
            return f"index {name}"
        if kind == "index" or str(name).lower() not in _TABLES:
            continue
        if kind != "table" or not str(sql).startswith("CREATE TABLE "):
            return f"{kind} {name}"
        for _, column, *_, hidden in connection.execute(f"PRAGMA table_xinfo({name})"):
            if hidden:
                return f"computed column {name}.{column}"
    return None


def files_of(path: Path) -> list[Path]:
    """Return the file of a storage, and those that SQLite has beside it."""
    return [path, *(beside for end in _BESIDE if os.path.lexists(beside := Path(f"{path}{end}")))]


@contextmanager
def opened_copy(path: Path) -> Iterator[BaseStorage]:
    """Open a copy of an SQLite file or a journal, as it is now; the file itself is opened read-only.

    Raises:
        RecordError: it cannot be read as a storage.
    """
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with TemporaryDirectory(prefix="hpometrics-") as folder:
        copy = Path(folder) / "copy"
        try:
            for file in files_of(path):
                check_regular(file, STORAGE_LIMIT, follow=file == path)
            with path.open("rb") as opened:
                head = opened.read(20)
            if head.startswith(SQLITE):
                _copy_database(path, copy, head[18:20] == _WAL)
                storage: BaseStorage = RDBStorage(f"{_SQLITE}{copy}")
            else:
                _check_journal(path)
                shutil.copyfile(path, copy)
                storage = JournalStorage(JournalFileBackend(str(copy)))
            try:
                yield storage
            finally:
                close_storage(storage)
        except (
            sqlite3.Error,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            AssertionError,
            RuntimeError,
        ) as err:
            if isinstance(err, HpometricsError):
                raise
            raise RecordError(
                f"{path}: cannot be read as an Optuna storage: {type(err).__name__}: {err}"
            ) from err
        finally:
            optuna.logging.set_verbosity(verbosity)


def _check_journal(path: Path) -> None:
    """Raise if a file is not a journal: Optuna reads a file whose only line is damaged as an empty one."""
    for number, line in enumerate(read_lines(path, STORAGE_LIMIT, follow=True)):
        if number == 0 and "op_code" not in read_json(line):
            raise ValueError("its first line is not a journal operation")


def _copy_database(path: Path, copy: Path, logs_ahead: bool) -> None:
    """Copy a database as it is now, even while others write to it; create no file beside it."""
    idle = logs_ahead and files_of(path) == [path]
    how = "immutable=1" if idle else "mode=ro"
    with (
        closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?{how}", uri=True)) as source,
        closing(sqlite3.connect(copy)) as target,
    ):
        source.backup(target)
        foreign = foreign_part(target)
    if foreign is not None:
        raise ValueError(f"it has the {printable(foreign)}, which Optuna never creates; copy the tables only")


def _prepare(path: Path) -> None:
    """Make an SQLite file log ahead; refuse one that computes what Optuna would read."""
    with closing(sqlite3.connect(path)) as connection:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            foreign = foreign_part(connection)
        except sqlite3.OperationalError:
            raise  # it is busy, or cannot be written to
        except sqlite3.DatabaseError as err:
            raise RecordError(f"{path}: is not a study, or it is damaged: {err}") from err
    if foreign is not None:
        raise RecordError(f"{path}: has the {printable(foreign)}, which Optuna never creates")


def _file(path: Path) -> BaseStorage:
    """Open an SQLite file, by the path itself where that cannot stand in a URL."""
    url, engine_kwargs = str(path), dict[str, Any](connect_args={"timeout": 60})
    if "?" in url or "%" in url:
        connect = partial(sqlite3.connect, url, timeout=60, check_same_thread=False)
        url, engine_kwargs = quote(url), {"creator": connect}
    return RDBStorage(_as_template(f"{_SQLITE}{url}"), engine_kwargs={**engine_kwargs, **_SAME})


def _as_template(url: str) -> str:
    """Escape a URL, since Optuna formats it."""
    return url.replace("{", "{{").replace("}", "}}")


@cache
def _lock(path: str) -> FileLock:
    """Return the lock of a study, cached: creating one takes longer than acquiring it."""
    return FileLock(path)


class JournalLock(JournalFileOpenLock):
    """The lock of a journal, which the system releases when its process dies; then a torn line is cut off.

    Optuna's own locks are files that a dead process leaves behind, and what follows a torn line is lost.

    Args:
        path: the path of the journal.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path, self._file_lock = path, FileLock(f"{path}.lock")

    def acquire(self) -> bool:
        """Wait for the lock."""
        self._file_lock.acquire()
        cut_torn_line(self._path)
        return True

    def release(self) -> None:
        """Release the lock."""
        self._file_lock.release()


def _journal(path: Path) -> BaseStorage:
    try:
        return JournalStorage(JournalFileBackend(str(path), lock_obj=JournalLock(path)))
    except (ValueError, KeyError, AssertionError) as err:
        raise RecordError(f"{path}: is not a study journal, or it is damaged: {err}") from err


def _proxy(url: str) -> BaseStorage:
    check_driver(url)
    host, port = grpc_address(url)
    with catch_warnings(action="ignore", category=ExperimentalWarning):
        storage = GrpcStorageProxy(host=host, port=port)
    try:
        storage.wait_server_ready(timeout=30)
    except ConnectionError:
        raise DiskError(
            f"{url}: no storage proxy responds there; start one with optuna.storages.run_grpc_proxy_server"
        ) from None
    return storage


def _database(url: str) -> BaseStorage:
    """Open a database; wait while another process creates its tables, or after the connection is dropped."""
    check_driver(url)
    for remaining in reversed(range(_TRIES)):
        try:
            return ReconnectingStorage(_as_template(url), engine_kwargs={"pool_pre_ping": True})
        except database_errors() as err:
            is_race = any(word in str(err).lower() for word in _RACES)
            if remaining == 0 or not (is_race or is_lost(err)):
                raise DiskError(f"the study cannot be reached: {cause_of(err)}") from err
            time.sleep(_PAUSE)
    raise AssertionError("the last try returns or raises")


def storage_failures() -> tuple[type[BaseException], ...]:
    """Return the errors of all storages; a library that is not loaded has raised none."""
    grpc = sys.modules.get("grpc")
    errors = (*database_errors(), sqlite3.OperationalError)
    return errors if grpc is None else (*errors, grpc.RpcError)
