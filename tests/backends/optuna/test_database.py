"""A database whose connections drop: each call gets through in the end, and has its effect once."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.exceptions import StorageInternalError
from optuna.storages import RDBStorage
from optuna.storages._cached_storage import _CachedStorage
from optuna.study import StudyDirection
from optuna.trial import TrialState, create_trial
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from hpometrics import MINIMIZE
from hpometrics.backends.optuna import database
from hpometrics.backends.optuna.database import (
    PATIENCE,
    REPEATED,
    ReconnectingStorage,
    TurnLostError,
    at_once,
    is_lost,
    locked,
    repeats_turn,
)
from hpometrics.backends.optuna.study import open_study
from hpometrics.backends.optuna.trial_queue import claim, reserve
from hpometrics.exceptions import DiskError

LR = FloatDistribution(0.0, 1.0)
WHEN = pytest.mark.parametrize("when", ["before", "after"])


def lost(text: str = "server closed the connection unexpectedly") -> OperationalError:
    """What SQLAlchemy raises of a connection that has gone."""
    return OperationalError("SELECT", {}, Exception(text), connection_invalidated=True)


class Clock:
    """Time that passes by pauses alone."""

    def __init__(self) -> None:
        self.now, self.pauses = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the storage."""
    made = Clock()
    monkeypatch.setattr(database, "time", made)
    monkeypatch.setattr("optuna.storages._rdb.storage.time", made)
    return made


class Dropping(ReconnectingStorage):
    """A file whose connection is lost in some transactions, before or after they are committed."""

    def __init__(self, path: Any) -> None:
        super().__init__(f"sqlite:///{path}")
        self.drops: list[str] = []

        class Dropped(Session):
            def commit(session) -> None:
                when = self.drops.pop(0) if self.drops else None
                if when == "before":
                    raise lost()
                super().commit()
                if when == "after":
                    raise lost()

        self.scoped_session = scoped_session(sessionmaker(bind=self.engine, class_=Dropped))


@pytest.fixture
def storage(tmp_path, clock) -> Iterator[Dropping]:
    """One with a study of two trials, the second of which runs."""
    made = filled(Dropping(tmp_path / "dropping.db"))
    yield made
    made.remove_session()
    made.engine.dispose()


def filled(storage: RDBStorage) -> Any:
    """The same beginning for every storage."""
    study = storage.create_new_study([StudyDirection.MINIMIZE], "s")
    storage.create_new_trial(study, create_trial(value=0.5, params={"lr": 0.1}, distributions={"lr": LR}))
    storage.create_new_trial(study)
    return storage


_CALLS: dict[str, Callable[[Any], Any]] = {
    "delete_study": lambda s: s.delete_study(1),
    "set_study_user_attr": lambda s: s.set_study_user_attr(1, "a", 2),
    "set_study_system_attr": lambda s: s.set_study_system_attr(1, "a", 2),
    "get_study_id_from_name": lambda s: s.get_study_id_from_name("s"),
    "get_study_name_from_id": lambda s: s.get_study_name_from_id(1),
    "get_study_directions": lambda s: s.get_study_directions(1),
    "get_study_user_attrs": lambda s: s.get_study_user_attrs(1),
    "get_study_system_attrs": lambda s: s.get_study_system_attrs(1),
    "get_all_studies": lambda s: [one.study_name for one in s.get_all_studies()],
    "get_trial_user_attrs": lambda s: s.get_trial_user_attrs(2),
    "get_trial_system_attrs": lambda s: s.get_trial_system_attrs(2).keys() - {database._MARK},
    "set_trial_param": lambda s: s.set_trial_param(2, "lr", 0.25, LR),
    "_set_trial_param": lambda s: s._set_trial_param(2, "lr", 0.25, LR, LR),
    "get_trial_param": lambda s: s.get_trial_param(1, "lr"),
    "set_trial_intermediate_value": lambda s: s.set_trial_intermediate_value(2, 0, 0.75),
    "set_trial_user_attr": lambda s: s.set_trial_user_attr(2, "a", [1]),
    "set_trial_system_attr": lambda s: s.set_trial_system_attr(2, "a", [1]),
    "get_trial_id_from_study_id_trial_number": lambda s: s.get_trial_id_from_study_id_trial_number(1, 1),
    "get_trial": lambda s: s.get_trial(1).params,
    "get_all_trials": lambda s: [one.number for one in s.get_all_trials(1)],
    "_get_trials": lambda s: [one.number for one in s._get_trials(1, None, set(), 0)],
    "get_best_trial": lambda s: s.get_best_trial(1).number,
    "_get_best_trial_id": lambda s: s._get_best_trial_id(1, StudyDirection.MINIMIZE),
    "create_new_study": lambda s: s.create_new_study([StudyDirection.MAXIMIZE], "t"),
    "_create_new_trial": lambda s: s._create_new_trial(1).number,
    "create_new_trial": lambda s: s.create_new_trial(1, create_trial(state=TrialState.WAITING)),
    "complete": lambda s: s.set_trial_state_values(2, TrialState.COMPLETE, [0.25]),
    "fail": lambda s: s.set_trial_state_values(2, TrialState.FAIL),
}
_PRIVATE = {"_set_trial_param", "_get_best_trial_id"}  # of Optuna 5
CALLS = {name: call for name, call in _CALLS.items() if name not in _PRIVATE or hasattr(RDBStorage, name)}


def contents(storage: RDBStorage) -> list[tuple[Any, ...]]:
    """All that a storage holds but times."""
    return [
        (
            study.study_name,
            study.directions,
            storage.get_study_user_attrs(study._study_id),
            storage.get_study_system_attrs(study._study_id),
            [
                (one.number, one.state, one.values, one.params, one.user_attrs, one.intermediate_values)
                for one in storage.get_all_trials(study._study_id)
            ],
        )
        for study in storage.get_all_studies()
    ]


def test_every_call_of_a_storage_is_repeated():
    """Those of the interface, and those that Optuna's cache makes beside them; no list leaves one out."""
    made = set(re.findall(r"self\._backend\.(\w+)", inspect.getsource(_CachedStorage)))
    asked = made | optuna.storages.BaseStorage.__abstractmethods__
    unused = ("heartbeat", "stale", "failed_trial_callback")  # no storage of ours has any
    silent = {one for one in asked if any(word in one for word in unused)}
    own = vars(ReconnectingStorage).keys()
    assert asked - silent - {"create_new_trial"} <= own  # the last is `_create_new_trial`, and no more
    assert asked - silent - {"set_trial_state_values"} | set(REPEATED) <= CALLS.keys()


@WHEN
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_has_its_effect_once(storage, tmp_path, clock, name, when, times):
    """However often its connection is lost: its result and what is stored are those of a sound one."""
    sound = filled(RDBStorage(f"sqlite:///{tmp_path / 'sound.db'}"))
    storage.drops[:] = [when] * times
    assert CALLS[name](storage) == CALLS[name](sound)
    assert len(storage.drops) < times
    storage.drops.clear()
    assert contents(storage) == contents(sound)
    sound.remove_session()
    sound.engine.dispose()


def test_pauses_grow_up_to_a_limit(storage, clock, capsys):
    """Then the study counts as out of reach; the beginning is said, and not each try."""
    storage.drops[:] = ["before"] * 1000
    text = rf"did not respond for {PATIENCE:g} s: server closed .* earlier records are kept"
    with pytest.raises(DiskError, match=text):
        storage.get_trial(1)
    assert clock.pauses[:4] == [0.1, 0.2, 0.4, 0.8] and max(clock.pauses) == 5
    assert PATIENCE - 5 < clock.now <= PATIENCE
    assert capsys.readouterr().err.splitlines() == [
        "the study does not respond: server closed the connection unexpectedly; retrying for up to 60 s"
    ]


def test_an_answer_is_told(storage, capsys):
    """With how long it was away."""
    storage.drops[:] = ["before", "before"]
    storage.get_trial(1)
    assert capsys.readouterr().err.splitlines()[-1] == "the study responds again after 0.3 s"


def test_what_asks_again_by_itself_waits_for_nothing(storage, clock):
    """As the beats of a lease do."""
    storage.drops[:] = ["before"]
    with at_once(), pytest.raises(StorageInternalError):
        storage.get_trial(1)
    assert clock.pauses == []
    storage.drops[:] = ["before"]
    assert storage.get_trial(1).number == 0


def test_an_error_of_another_kind_is_not_repeated(storage, clock):
    """A study that is not there, a trial that has ended."""
    with pytest.raises(KeyError):
        storage.get_study_id_from_name("other")
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        storage.set_trial_user_attr(1, "a", 1)
    assert clock.pauses == []


@WHEN
def test_a_trial_whose_beginning_was_lost_counts_as_not_begun(storage, when):
    """It may have been begun by another process: it goes on as one whose worker died."""
    waiting = storage.create_new_trial(1, create_trial(state=TrialState.WAITING))
    storage.drops[:] = [when]
    assert storage.set_trial_state_values(waiting, TrialState.RUNNING) is (when == "before")
    assert storage.get_trial(waiting).state is TrialState.RUNNING


@WHEN
def test_an_end_that_another_has_written_stays(storage, when):
    """Another value is no repetition of the call."""
    storage.set_trial_state_values(2, TrialState.COMPLETE, [0.75])
    storage.drops[:] = ["before"]
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        storage.set_trial_state_values(2, TrialState.COMPLETE, [0.25])
    assert storage.get_trial(2).values == [0.75]


@pytest.fixture
def lockable(storage, monkeypatch) -> Dropping:
    """A study whose lock is a statement that SQLite answers, too."""
    monkeypatch.setitem(database._LOCKS, "sqlite", ("SELECT :key", "SELECT :key"))
    return storage


def test_a_call_under_a_lock_that_holds_is_repeated(lockable):
    """Another connection was lost."""
    with locked(lockable, "s"):
        lockable.drops[:] = ["before"]
        assert lockable.get_trial(1).number == 0


@WHEN
def test_a_turn_begins_again_when_its_lock_is_lost(lockable, when):
    """It counts the trials anew, so that there are as many as wanted, whatever was made before the loss."""
    begun = []

    @repeats_turn
    def up_to_four() -> None:
        with locked(lockable, "s"):
            begun.append(len(lockable.get_all_trials(1)))
            for _ in range(begun[-1], 4):
                if len(begun) == 1:
                    lockable.drops[:] = [when]
                    database.thread.lock.invalidate()
                lockable.create_new_trial(1)

    up_to_four()
    assert len(lockable.get_all_trials(1)) == 4
    assert begun == [2, 2 if when == "before" else 3]
    assert database.thread.lock is None


def test_a_lost_lock_ends_the_turn_at_its_next_call(lockable):
    """A read is not repeated then: what it would be compared with may be another's by now."""
    with pytest.raises(TurnLostError), locked(lockable, "s"):
        lockable.drops[:] = ["before"]
        database.thread.lock.invalidate()
        lockable.get_trial(1)


def test_a_lock_within_the_same_lock_needs_no_connection(lockable, monkeypatch):
    """A database gives the lock to a connection: a second one of the same thread would wait for ever."""
    with locked(lockable, "s"):
        outer, inner = database.thread.lock, []
        monkeypatch.setattr(lockable.engine, "connect", raising(AssertionError("a second connection")))
        with locked(lockable, "s"):
            inner.append(database.thread.lock)
        assert inner == [outer] and database.thread.lock is outer
        with pytest.raises(AssertionError, match="a second connection"), locked(lockable, "another study"):
            pass
    assert database.thread.lock is None


def test_a_lost_lock_ends_every_section_that_is_under_it(lockable):
    """An inner section does not have the lock to take again: the outer one is repeated, once."""
    begun = []

    @repeats_turn
    def inner() -> None:
        begun.append("inner")
        with locked(lockable, "s"):
            if len(begun) == 2:
                lockable.drops[:] = ["before"]
                database.thread.lock.invalidate()
            lockable.get_trial(1)

    @repeats_turn
    def outer() -> None:
        begun.append("outer")
        with locked(lockable, "s"):
            inner()

    outer()
    assert begun == ["outer", "inner", "outer", "inner"]
    assert database.thread.lock is None and database.thread.locked is None


@pytest.mark.parametrize("call", ["execute", "close"])
def test_a_lock_may_be_lost_as_it_is_given_up(lockable, monkeypatch, call):
    """What was done under it is done; another may have it."""
    with locked(lockable, "s"):
        name = lockable.get_trial(1).number
        held = database.thread.lock
        monkeypatch.setattr(held, call, raising(lost()))
    assert name == 0 and held.closed is (call == "execute")
    with locked(lockable, "s"):
        assert lockable.get_trial(1).number == 0


def raising(error: Exception) -> Callable[..., Any]:
    """A call that fails."""

    def call(*_: Any, **__: Any) -> Any:
        raise error

    return call


def test_a_lock_is_waited_for(lockable, monkeypatch, clock):
    """Its connection is one like others."""
    connect, tries = lockable.engine.connect, []

    def refused_twice() -> Any:
        tries.append(1)
        if len(tries) < 3:
            raise lost("connection refused")
        return connect()

    monkeypatch.setattr(lockable.engine, "connect", refused_twice)
    with locked(lockable, "s"):
        pass
    assert clock.pauses == [0.1, 0.2]


@pytest.mark.parametrize("seed", range(4))
def test_a_search_has_each_trial_once(tmp_path, clock, seed):
    """With a connection lost in every fourth transaction: the budget is exact, each trial is told once."""
    dropping = Dropping(tmp_path / "dropping.db")
    random = Random(seed)

    class Often(list[str]):
        def __bool__(self) -> bool:
            return random.random() < 0.25

        def pop(self, _: Any = 0) -> str:
            return random.choice(["before", "after"])

    study = open_study(dropping, "s", {"loss": MINIMIZE})
    dropping.drops = Often()
    told = set[int]()
    while len(told) < 6:
        reserve(study, 6)
        trial = claim(study)
        if trial is None:  # begun, and lost: whoever finds it goes on with it
            (number, *_) = [one.number for one in study.trials if one.state is TrialState.RUNNING]
            trial = optuna.Trial(study, study.trials[number]._trial_id)
        trial.suggest_float("lr", 0, 1)
        trial.report(0.5, 0)
        study.tell(trial, 0.25)
        told.add(trial.number)
    assert [one.number for one in study.trials] == [0, 1, 2, 3, 4, 5]
    assert {one.value for one in study.trials} == {0.25}
    dropping.engine.dispose()


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (lost(), True),
        (OperationalError("", {}, type("OperationalError", (Exception,), {"sqlstate": "57P01"})()), True),
        (
            OperationalError("", {}, type("OperationalError", (Exception,), {"sqlstate": None})("refused")),
            True,
        ),
        (OperationalError("", {}, type("DiskFull", (Exception,), {"sqlstate": "53100"})()), False),
        (OperationalError("", {}, type("OperationalError", (Exception,), {})(2013, "lost")), True),
        (OperationalError("", {}, type("OperationalError", (Exception,), {})(1045, "access denied")), False),
        (OperationalError("", {}, type("DatabaseError", (Exception,), {})("syntax")), False),
        (ValueError("x"), False),
    ],
)
def test_what_tells_of_a_lost_connection(error, expected):
    """Codes of PostgreSQL and MySQL, and errors of their clients, which have none."""
    wrapped = StorageInternalError("commit")
    wrapped.__cause__ = error
    assert is_lost(error) is is_lost(wrapped) is expected
