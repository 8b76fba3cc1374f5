"""The privates of Optuna that `backends/optuna/_internals.py` touches; a failure names the one that moved."""

from __future__ import annotations

import inspect

import optuna
import pytest
from optuna.samplers import CmaEsSampler, RandomSampler, TPESampler
from optuna.storages import InMemoryStorage, RDBStorage, get_storage
from optuna.storages.journal import JournalFileBackend, JournalStorage

from hpometrics.backends.optuna import _internals as internals
from hpometrics.backends.optuna.database import ReconnectingStorage
from hpometrics.backends.optuna.samplers import is_plain, make_sampler


def require(holds: bool, private: str) -> None:
    """Fail with the name of what Optuna has moved and the file to mend."""
    if not holds:
        pytest.fail(
            f"Optuna {optuna.__version__} has moved {private}; mend hpometrics/backends/optuna/_internals.py"
        )


@pytest.fixture
def study():
    """A study in memory with one trial at work."""
    study = optuna.create_study(storage=InMemoryStorage())
    study.ask().suggest_float("a", 0.0, 1.0)
    return study


def test_a_study_has_its_storage_its_id_and_what_a_thread_has_read(study):
    """`study_id_of` and the other functions return or set nothing else."""
    for private in ("_storage", "_study_id", "_thread_local"):
        require(hasattr(study, private), f"Study.{private}")
    storage, study_id = internals.storage_of(study), internals.study_id_of(study)
    assert storage.get_study_name_from_id(study_id) == study.study_name
    assert [trial.params for trial in storage.get_all_trials(study_id)] == [study.trials[0].params]


def test_a_study_forgets_what_a_thread_has_read(study):
    """The next look at the trials reads the storage again."""
    require(hasattr(study._thread_local, "cached_all_trials"), "Study._thread_local.cached_all_trials")
    study._thread_local.cached_all_trials = []
    internals.forget_trials(study)
    assert len(study._get_trials(deepcopy=False, use_cache=True)) == 1


def test_a_study_reads_the_storage_that_it_is_given(study):
    """The copy alone; the study itself keeps its own."""
    empty = InMemoryStorage()
    empty.create_new_study(directions=study.directions)
    other = internals.with_storage(study, empty)
    require(other.get_trials() == [], "the storage that Study.get_trials reads from Study._storage")
    assert internals.storage_of(study) is not empty and len(study.get_trials()) == 1


def test_a_trial_has_its_id_and_a_copy_of_itself(study):
    """The copy has what was suggested and reported through the trial, without a look at the storage."""
    trial = study.ask()
    require(hasattr(trial, "_trial_id"), "Trial._trial_id")
    require(hasattr(trial, "_cached_frozen_trial"), "Trial._cached_frozen_trial")
    trial.suggest_float("a", 0.0, 1.0)
    trial.report(0.5, 3)
    copy = internals.local_copy_of(trial)
    require(
        list(copy.params) == ["a"] and copy.intermediate_values == {3: 0.5}, "what a trial keeps of itself"
    )
    storage = internals.storage_of(study)
    found = storage.get_trial_id_from_study_id_trial_number(internals.study_id_of(study), trial.number)
    assert internals.trial_id_of(trial) == internals.trial_id_of(copy) == found


def test_a_frozen_trial_gets_the_id_of_its_storage(study):
    """A trial that is created before its storage has it."""
    [trial] = study.get_trials()
    require("_trial_id" in vars(trial), "FrozenTrial._trial_id")
    internals.set_trial_id(trial, 17)
    assert internals.trial_id_of(trial) == 17


def test_a_storage_has_a_backend(tmp_path):
    """Optuna wraps a database; a journal has its file; memory is its own."""
    database = get_storage(f"sqlite:///{tmp_path / 'study.db'}")
    require(isinstance(internals.backend_of(database), RDBStorage), "the _backend of a database's storage")
    path = str(tmp_path / "study.journal")
    journal = internals.backend_of(JournalStorage(JournalFileBackend(path)))
    require(isinstance(journal, JournalFileBackend), "JournalStorage._backend")
    require(hasattr(journal, "_file_path"), "JournalFileBackend._file_path")
    assert internals.journal_path(journal) == path
    memory = InMemoryStorage()
    assert internals.backend_of(memory) is memory


def test_a_database_has_tables_of_trials_and_of_their_attributes():
    """With the columns that the package reads and writes."""
    trial, attribute = internals.database_models()
    assert (trial.__tablename__, attribute.__tablename__) == ("trials", "trial_system_attributes")
    assert {"study_id", "trial_id", "number", "state"} <= set(trial.__table__.columns.keys())
    assert {"trial_id", "key", "value_json"} <= set(attribute.__table__.columns.keys())


@pytest.mark.parametrize("name", ["_create_new_trial", "_get_prepared_new_trial"])
def test_a_database_creates_trials_by_the_methods_that_mark_them(name):
    """`ReconnectingStorage` overrides them under the arguments that Optuna passes."""
    require(hasattr(RDBStorage, name), f"RDBStorage.{name}")
    own, theirs = (
        list(inspect.signature(getattr(cls, name)).parameters) for cls in (ReconnectingStorage, RDBStorage)
    )
    assert own == theirs, f"Optuna {optuna.__version__} has other arguments of RDBStorage.{name}"


def test_a_distribution_knows_its_values():
    """Inside and outside; a value of another kind raises, as `restore` expects."""
    distribution = optuna.distributions.IntDistribution(1, 8)
    require(hasattr(distribution, "_contains"), "BaseDistribution._contains")
    assert internals.has_value(distribution, 8) and not internals.has_value(distribution, 9)
    with pytest.raises(ValueError, match="abc"):
        internals.has_value(distribution, "abc")


@pytest.mark.parametrize(("make", "count"), [(RandomSampler, 1), (TPESampler, 2)])
def test_a_sampler_has_its_random_streams(make, count):
    """Else each draw would create a sampler, and a sweep would take more time without an error."""
    streams = internals.random_streams(make(seed=7))
    require(len(streams) == count, f"the random streams of {make.__name__}")
    assert all(hasattr(stream, "seed") for stream in streams)


def test_the_streams_of_other_samplers_are_not_known():
    """They may draw by something else too."""
    assert internals.random_streams(CmaEsSampler(seed=7)) == []


@pytest.mark.parametrize("name", ["tpe", "random", "nsga2", "qmc"])
def test_optunas_own_samplers_are_in_its_package(name):
    """By it `is_plain` knows them."""
    sampler = make_sampler(name)
    assert is_plain(sampler), f"Optuna {optuna.__version__} has {name} in {type(sampler).__module__}"


@pytest.mark.filterwarnings("ignore:Argument ``heartbeat_interval`` is an experimental")
@pytest.mark.filterwarnings("ignore:Heartbeat of storage is supposed")
def test_a_trial_that_is_run_by_hand_has_heartbeats_and_may_stop_its_study(tmp_path, monkeypatch):
    """As in `study.optimize`, whose other processes would otherwise fail it."""
    beats = []
    monkeypatch.setattr(RDBStorage, "record_heartbeat", lambda storage, trial_id: beats.append(trial_id))
    storage = RDBStorage(f"sqlite:///{tmp_path}/study.db", heartbeat_interval=60)
    study = optuna.create_study(storage=storage)
    trial = study.ask()
    with internals.optimizing(study, trial):
        require(study._thread_local.in_optimize_loop, "Study._thread_local.in_optimize_loop")
        assert not internals.is_stopped(study)
        study.stop()
    assert internals.is_stopped(study) and beats == [internals.trial_id_of(trial)]
    with pytest.raises(RuntimeError, match=r"Study\.stop"):
        study.stop()
