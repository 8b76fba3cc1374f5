"""The privates of Ray that `backends/ray/_internals.py` touches; a failure names the one that moved."""

from __future__ import annotations

import inspect
from importlib import import_module

import pytest

ray = pytest.importorskip("ray")

PLACE = "mend hpometrics/backends/ray/_internals.py"
IMPORTED = [
    "ray._private.state:actors",
    "ray.air.constants:EXPR_ERROR_PICKLE_FILE",
    "ray.cloudpickle:loads",
    "ray.train._internal.session:get_session",
    "ray.train.v2._internal.execution.train_fn_utils:get_train_fn_utils",
    "ray.tune.utils.util:SafeFallbackEncoder",
]


def require(holds: bool, private: str) -> None:
    """Fail with the name of what Ray has moved and the file to mend."""
    if not holds:
        pytest.fail(f"Ray {ray.__version__} has moved {private}; {PLACE}")


@pytest.fixture
def trial(tmp_path):
    """A trial of Tune that has not run."""
    from ray.train._internal.storage import StorageContext
    from ray.tune.experiment import Trial

    storage = StorageContext(storage_path=str(tmp_path), experiment_dir_name="experiment")
    return Trial("toy", stub=True, storage=storage)


@pytest.mark.parametrize("place", IMPORTED)
def test_ray_has_what_is_imported(place):
    """Each name in its module; the message of a failed import would not name the file to mend."""
    name, _, attribute = place.partition(":")
    try:
        module = import_module(name)
    except ImportError:
        module = None
    require(hasattr(module, attribute), place)


def test_a_worker_without_ray_train_has_no_function_of_it():
    """`in_train_worker` takes the RuntimeError for its answer."""
    from ray.train.v2._internal.execution.train_fn_utils import get_train_fn_utils

    from hpometrics.backends.ray._internals import in_train_worker

    with pytest.raises(RuntimeError):
        get_train_fn_utils()
    assert in_train_worker() is False


@pytest.mark.parametrize(
    "name",
    [
        "metric_analysis", "temporary_state", "run_metadata", "num_failures", "max_failures",
        "pickled_error_file", "should_recover", "handle_error", "invalidate_json_state",
    ],
)  # fmt: skip
def test_a_trial_has_what_enduring_reads(trial, name):
    """Its failures, its error and its state."""
    require(name in dir(trial), f"Trial.{name}")  # a property may need a run


def test_a_trial_stores_the_name_of_its_error(trial):
    """`Enduring` sets it, or removes it."""
    require(
        hasattr(trial.run_metadata, "pickled_error_filename"), "Trial.run_metadata.pickled_error_filename"
    )


def test_a_trial_goes_on_while_its_failures_are_not_its_own(trial):
    """Tune judges by the two counts, which `Enduring` keeps equal."""
    from hpometrics.backends.ray._internals import endure, goes_on
    from hpometrics.records.recovery import Losses

    assert not goes_on(trial)
    assert endure(trial, Losses(lambda number: 0)) and not endure(trial, Losses(lambda number: 0))
    trial.run_metadata.num_failures = trial.max_failures = 1
    require(goes_on(trial), "how Trial.should_recover compares num_failures with max_failures")
    trial.run_metadata.num_failures = 2
    require(not goes_on(trial), "how Trial.should_recover compares num_failures with max_failures")


def test_schedulers_have_their_metric_and_mode():
    """Under `_metric` and `_mode`, by which a wrong one is refused."""
    from ray.tune.schedulers import AsyncHyperBandScheduler
    from ray.tune.search.basic_variant import BasicVariantGenerator

    from hpometrics.backends.ray._internals import metric_and_mode

    scheduler = AsyncHyperBandScheduler(metric="loss", mode="min")
    require(metric_and_mode(scheduler) == ("loss", "min"), "TrialScheduler._metric and _mode")
    assert metric_and_mode(BasicVariantGenerator()) == (None, None)


def test_the_median_rule_says_whether_it_stops_for_good():
    """Under `_hard_stop`."""
    from ray.tune.schedulers import MedianStoppingRule

    from hpometrics.backends.ray._internals import stops_for_good

    require(not stops_for_good(MedianStoppingRule(hard_stop=False)), "MedianStoppingRule._hard_stop")
    assert stops_for_good(MedianStoppingRule())


def test_a_population_has_its_intervals_and_states():
    """When its members wait for each other, and the state of each."""
    from ray.tune.schedulers import PopulationBasedTraining

    from hpometrics.backends.ray import _internals as internals

    population = PopulationBasedTraining(
        metric="loss", mode="min", perturbation_interval=3, hyperparam_mutations={"lr": [0.1, 0.2]}
    )
    for name in ("_perturbation_interval", "_next_perturbation_sync", "_trial_state"):
        require(hasattr(population, name), f"PopulationBasedTraining.{name}")
    assert internals.perturbation_interval(population) == internals.next_perturbation(population) == 3
    assert internals.members_of(population) == []
    internals.postpone(population, 7)
    assert internals.next_perturbation(population) == 7


def test_a_scheduler_of_resources_has_its_base():
    """Under `_base_scheduler`."""
    from ray.tune.schedulers import FIFOScheduler, ResourceChangingScheduler

    from hpometrics.backends.ray._internals import base_of, set_base

    scheduler, base = ResourceChangingScheduler(), FIFOScheduler()
    require(hasattr(scheduler, "_base_scheduler"), "ResourceChangingScheduler._base_scheduler")
    set_base(scheduler, base)
    assert base_of(scheduler) is base


def test_the_bandit_has_its_model():
    """`bandit_point` calls `_select_config`, with its arguments in this order; the point is in bounds."""
    from ray.tune.schedulers import pb2

    from hpometrics.backends.ray._internals import bandit_point

    wanted = ["Xraw", "yraw", "current", "newpoint", "bounds", "num_f"]
    require(list(inspect.signature(pb2._select_config).parameters) == wanted, "pb2._select_config")
    observed = [[4, 0.5, 2.0], [4, 0.5, 3.0], [8, 0.7, 2.5]]
    point = bandit_point(observed, [0.1, 0.3, 0.2], [[2.2]], [8, 0.7], {"lr": (2.0, 3.0)})
    require(point is not None and len(point) == 1 and 2 <= point[0] <= 3, "what pb2._select_config returns")
    observed[0][1] = float("nan")
    assert bandit_point(observed, [0.1, 0.3, 0.2], [], [8, 0.7], {"lr": (2.0, 3.0)}) is None


def test_a_session_has_its_storage():
    """By which a trial finds the settings of its Tuner; there is none outside of a trial."""
    from ray.train._internal.session import _TrainSession
    from ray.train._internal.storage import StorageContext

    from hpometrics.backends.ray._internals import metric_modes

    require("self.storage" in inspect.getsource(_TrainSession), "_TrainSession.storage")
    for name in ("experiment_fs_path", "storage_filesystem"):
        source = inspect.getsource(StorageContext)
        require(name in source, f"StorageContext.{name}")
    assert metric_modes() == ()


def test_a_tuner_stores_its_settings():
    """In `tuner.pkl`, under the key that `metric_modes` reads."""
    from ray.tune.impl import tuner_internal

    source = inspect.getsource(tuner_internal)
    require('"tuner.pkl"' in source and "_tune_config" in source, "tuner.pkl and its _tune_config")


def test_a_report_is_a_line_of_json():
    """What has no form in JSON is text."""
    from hpometrics.backends.ray._internals import json_line

    assert json_line({"value": 0.5, "of": object}).startswith('{"value": 0.5, "of": "')
