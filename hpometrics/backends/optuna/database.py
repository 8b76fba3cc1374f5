"""A database storage that repeats calls whose connection dropped, and the lock of a study in it."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import wraps
from threading import local
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar
from uuid import uuid4
from zlib import crc32

from optuna.exceptions import DuplicatedStudyError, StorageInternalError
from optuna.storages import BaseStorage, RDBStorage
from optuna.trial import FrozenTrial, TrialState

from ...exceptions import DiskError
from ._internals import database_models

if TYPE_CHECKING:
    from sqlalchemy import Connection

P = ParamSpec("P")
T = TypeVar("T")

PATIENCE = 60.0
"""Seconds for which a call is repeated while the database does not answer."""

_FIRST, _LONGEST = 0.1, 5.0  # seconds between two tries; each pause is twice the one before
_STATES = ("08", "57P", "40001", "40P01")
"""Prefixes of PostgreSQL's codes for a lost connection, a stopping server, a transaction to repeat."""
_NUMBERS = {1040, 1053, 1205, 1213, 2002, 2003, 2006, 2013, 2055}
"""The codes of MySQL and its client for the same."""

_MYSQL = ("SELECT GET_LOCK(:key, 3600)", "SELECT RELEASE_LOCK(:key)")
_LOCKS = {
    "postgresql": ("SELECT pg_advisory_lock(:key)", "SELECT pg_advisory_unlock(:key)"),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
}

_MARK = "hpometrics:made_by"

_log = logging.getLogger("hpometrics")


class TurnLostError(StorageInternalError):
    """The lock of a study was lost with its connection: all that was done under it must be repeated."""


class Thread(local):
    """State of a thread that its storage calls share.

    Attributes:
        lock: the connection with which the thread has locked a study.
        locked: the engine of the database and the key of that study.
        calls: whether the thread is in a call that makes others.
        waits: whether its calls are repeated.
        making: the mark of the trial that the thread creates, once more for each try so far.
    """

    def __init__(self) -> None:
        self.lock: Any = None
        self.locked: tuple[Any, Any] | None = None
        self.calls, self.waits = False, True
        self.making: list[str] = []


thread = Thread()


def database_errors() -> tuple[type[BaseException], ...]:
    """Return the errors of databases; SQLAlchemy has raised none before it is loaded, which takes long."""
    loaded = sys.modules.get("sqlalchemy.exc")
    return (StorageInternalError,) if loaded is None else (StorageInternalError, loaded.SQLAlchemyError)


def repeats_turn(section: Callable[P, T]) -> Callable[P, T]:
    """Repeat a section that has lost its lock; each of its effects may happen twice.

    It ends: locking waits for the database, and gives up after a while. A section within another has no lock
    of its own to take again, so the outer one is repeated.
    """

    @wraps(section)
    def again(*args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                return section(*args, **kwargs)
            except TurnLostError:
                if thread.lock is not None:
                    raise

    return again


def repeated(storage: BaseStorage, call: Callable[[], T]) -> T:
    """Call a function that reads a storage directly; a `ReconnectingStorage` repeats it like its methods."""
    repeat = getattr(storage, "repeated", None)
    return call() if repeat is None else repeat(call)


@contextmanager
def at_once() -> Iterator[None]:
    """Do not repeat calls of this thread, for callers that try again by themselves."""
    thread.waits = False
    try:
        yield
    finally:
        thread.waits = True


class ReconnectingStorage(RDBStorage):
    """A database storage that outlives dropped connections and a server that was away.

    A call that a lost connection has ended is repeated with growing pauses, for `PATIENCE` seconds at most.
    All that Optuna writes may be written twice, except a new trial and the end of one. A new trial has a
    mark, and the end of one is read, before they are written again. Whether this call or another process has
    started a trial cannot be distinguished: the trial counts as not started, and is resumed as one whose
    worker died. A section in which a call fails because the lock of the study was lost with its
    connection is repeated (`repeats_turn`); `locked` says which losses pass unnoticed.

    Raises:
        DiskError: in any call, the database did not answer for that long.
    """

    def repeated(self, call: Callable[[], T], again: Callable[[], T] | None = None) -> T:
        """Repeat a call until it succeeds.

        Args:
            call: reads or writes something; it takes effect as a whole or not at all.
            again: the call to repeat, where it is another.

        Raises:
            TurnLostError: this thread had locked a study, and has lost the lock.
            DiskError: the database did not answer for `PATIENCE` seconds.
        """
        if thread.calls:
            return call()
        thread.calls = True
        try:
            return self._repeated(call, again or call)
        finally:
            thread.calls = False

    def _repeated(self, call: Callable[[], T], again: Callable[[], T]) -> T:
        since, pause = None, _FIRST
        while True:
            try:
                result = call() if since is None else again()
            except TurnLostError:
                raise
            except database_errors() as error:
                if not (thread.waits and is_lost(error)):
                    raise
                if thread.lock is not None and not _is_alive(thread.lock):
                    raise TurnLostError(str(error)) from error
                if since is None:
                    since = time.monotonic()
                    _log.warning(
                        "the study does not respond: %s; retrying for up to %g s",
                        cause_of(error),
                        PATIENCE,
                    )
                if time.monotonic() + pause - since > PATIENCE:
                    raise DiskError(
                        f"the study did not respond for {PATIENCE:g} s: {cause_of(error)}; earlier records "
                        "are kept"
                    ) from error
                time.sleep(pause)
                pause = min(2 * pause, _LONGEST)
                continue
            if since is not None:
                _log.warning("the study responds again after %.1f s", time.monotonic() - since)
            return result

    def create_new_study(self, *args: Any, **kwargs: Any) -> int:
        """Create a study; when the call is repeated, a study of this name counts as created by it."""
        create = super().create_new_study
        name = kwargs.get("study_name", args[1] if len(args) > 1 else None)

        def again() -> int:
            try:
                return create(*args, **kwargs)
            except DuplicatedStudyError:
                return self.get_study_id_from_name(str(name))

        return self.repeated(lambda: create(*args, **kwargs), again)

    def delete_study(self, study_id: int) -> None:
        """Delete a study; when the call is repeated, a missing study counts as deleted by it."""
        delete = super().delete_study

        def again() -> None:
            with suppress(KeyError):
                delete(study_id)

        self.repeated(lambda: delete(study_id), again)

    def _create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> Any:
        """Create a trial with a mark, by which a repeated call finds it."""
        make = super()._create_new_trial
        outer, thread.making = thread.making, [uuid4().hex]
        try:
            return self.repeated(lambda: make(study_id, template_trial))
        finally:
            thread.making = outer

    def _get_prepared_new_trial(self, study_id: int, template_trial: Any, session: Any) -> Any:
        """Create the rows of a trial, in a transaction that Optuna itself may repeat."""
        trial_model, attribute_model = database_models()
        mark, *tries = thread.making
        thread.making.append(mark)
        if tries:
            if thread.lock is not None and not _is_alive(thread.lock):
                raise TurnLostError("the lock of the study was lost")
            of_study = (
                session.query(trial_model).join(attribute_model).filter(trial_model.study_id == study_id)
            )
            trial = of_study.filter(
                attribute_model.key == _MARK, attribute_model.value_json == json.dumps(mark)
            ).one_or_none()
            if trial is not None:
                return trial
        trial = super()._get_prepared_new_trial(study_id, template_trial, session)
        session.add(attribute_model(trial_id=trial.trial_id, key=_MARK, value_json=json.dumps(mark)))
        return trial

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """Start or end a trial; a repeated call first reads what the lost one has done."""
        write = super().set_trial_state_values

        def again() -> bool:
            stored = self.get_trial(trial_id)
            if stored.state is state and stored.state is TrialState.RUNNING:
                return False  # by this call, or by another process
            expected = None if values is None else [float(value) for value in values]
            if stored.state is state and stored.state.is_finished() and stored.values == expected:
                return True
            return write(trial_id, state, values)

        return self.repeated(lambda: write(trial_id, state, values), again)


def _repeating(name: str) -> Callable[..., Any]:
    method = getattr(RDBStorage, name)

    @wraps(method)
    def repeating(self: ReconnectingStorage, *args: Any, **kwargs: Any) -> Any:
        return self.repeated(lambda: method(self, *args, **kwargs))

    return repeating


_REPEATED = (
    *("set_study_user_attr", "set_study_system_attr", "get_study_id_from_name"),
    *("get_study_name_from_id", "get_study_directions", "get_study_user_attrs", "get_study_system_attrs"),
    *("get_all_studies", "get_trial_user_attrs", "get_trial_system_attrs", "set_trial_param"),
    *("_set_trial_param", "get_trial_param", "set_trial_intermediate_value", "set_trial_user_attr"),
    *("set_trial_system_attr", "get_trial_id_from_study_id_trial_number", "get_trial", "get_all_trials"),
    *("_get_trials", "get_best_trial", "_get_best_trial_id"),
)
REPEATED = tuple(name for name in _REPEATED if hasattr(RDBStorage, name))  # Optuna 4 lacks some
"""The calls that may be made twice with the effect of one."""

for _name in REPEATED:
    setattr(ReconnectingStorage, _name, _repeating(_name))


@contextmanager
def locked(storage: RDBStorage, study: str) -> Iterator[None]:
    """Lock a study in a database.

    A lock ends with its connection. Only a call of this thread that itself fails for a lost connection then
    looks for the lock and raises `TurnLostError`. A call on a new connection, which the pool makes where the
    old one is dead (`pool_pre_ping`), succeeds without the lock: another process may hold it meanwhile.

    The lock belongs to a connection, and another one waits for it, even in the same thread. So a thread that
    has locked the study already continues under that lock.
    """
    from sqlalchemy import text  # needed for a database alone

    kind = storage.engine.dialect.name
    lock, unlock = map(text, _LOCKS[kind])
    key: Any = crc32(study.encode()) if kind == "postgresql" else f"hpometrics:{study}"[:64]
    if thread.locked == (storage.engine, key):
        yield
        return

    def connect() -> Connection:
        connection = storage.engine.connect()
        try:
            connection.execute(lock, {"key": key})
        except BaseException:
            connection.invalidate()  # it may get the lock yet
            connection.close()
            raise
        return connection

    connection = repeated(storage, connect)
    outer = thread.lock, thread.locked
    thread.lock, thread.locked = connection, (storage.engine, key)
    try:
        yield
    finally:
        thread.lock, thread.locked = outer
        try:
            connection.execute(unlock, {"key": key})
            connection.close()
        except database_errors():  # the lock has ended with its connection, or ends now
            with suppress(*database_errors()):
                connection.invalidate()
                connection.close()


def is_lost(error: BaseException | None) -> bool:
    """Return whether an error means a lost connection or a transaction that must be repeated."""
    while error is not None:
        is_invalid = getattr(error, "connection_invalidated", None)
        if is_invalid is not None:  # it is SQLAlchemy's, about an error of the driver
            if is_invalid:
                return True
            inner = getattr(error, "orig", None)
            state = getattr(inner, "sqlstate", None) or getattr(inner, "pgcode", None)
            number = next(iter(getattr(inner, "args", ())), None)
            if isinstance(state, str):
                return state.startswith(_STATES)
            if isinstance(number, int):
                return number in _NUMBERS
            return type(inner).__name__ in ("OperationalError", "InterfaceError")  # of the client itself
        error = error.__cause__ or error.__context__
    return False


def _is_alive(connection: Connection) -> bool:
    """Return whether the connection of a lock is alive; the lock ends with it."""
    if connection.closed or connection.invalidated:
        return False
    try:
        connection.exec_driver_sql("SELECT 1")
    except database_errors():
        return False
    return True


def cause_of(error: BaseException) -> str:
    """Return on one line what has made a storage fail."""
    while error.__cause__ is not None:
        error = error.__cause__
    details = getattr(error, "details", None)  # of a remote call, whose text is a page
    cause = details() if callable(details) else getattr(error, "orig", error)
    return str(cause).strip().partition("\n")[0]
