"""Ray Tune's schedulers by name, judging the current value in the direction of the metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from operator import attrgetter
from typing import Any, NamedTuple

from ray.tune.experiment import Trial
from ray.tune.schedulers import (
    AsyncHyperBandScheduler,
    FIFOScheduler,
    HyperBandScheduler,
    MedianStoppingRule,
    PopulationBasedTraining,
    PopulationBasedTrainingReplay,
    ResourceChangingScheduler,
    TrialScheduler,
)

from ..._imports import foreign
from ...direction import Direction
from ...exceptions import ConfigError, DirectionError
from ...records.recovery import Losses
from ...records.trial_record import TrialRecord, TrialState
from ...selection.rules import DominanceRule
from ...space.space import Space
from ..plug_in_checks import check_object, check_pruner_options
from ..registry import BACKENDS, POPULATIONS, RAY_SCHEDULERS, REPLAY, find_class, read_spec
from ._internals import base_of, endure, epochs_of, goes_on, metric_and_mode, set_base, stops_for_good
from .pbt import Bandit, History, Population
from .replay import Replay
from .session import EPOCHS, FINAL, NUMBER, UNJUDGED, VALUE


class _Search(NamedTuple):
    """The facts of a search that a scheduler needs, and the name of the scheduler."""

    name: str
    epochs: int | None
    space: Space | None
    seed: int | None
    history: History | None
    direction: Direction


def _halving(arguments: Mapping[str, Any], search: _Search) -> dict[str, Any]:
    if search.epochs is None:
        raise ConfigError(f"{search.name} needs the maximum number of epochs per run; set epochs=")
    brackets = 3 if search.name == "hyperband" else 1
    return {"brackets": brackets, "max_t": search.epochs, "time_attr": EPOCHS, **arguments}


def _median(arguments: Mapping[str, Any], search: _Search) -> dict[str, Any]:
    grace = arguments.get("grace_period", 0)
    if not isinstance(grace, (int, float)):
        raise ConfigError(f"warmup of {search.name} must be a number of epochs, got {grace!r}")
    least = grace + 1  # our warm-up is epochs that are never stopped
    return {"min_samples_required": 5, **arguments, "grace_period": least, "time_attr": EPOCHS}


def _population(arguments: Mapping[str, Any], search: _Search) -> dict[str, Any]:
    if search.space is None:
        raise ConfigError(
            f"{search.name} changes params within their space; create its tuner with RayObjective.tuner"
        )
    return {"space": search.space, "seed": search.seed, "mutate": (), **arguments}


def _bandit(arguments: Mapping[str, Any], search: _Search) -> dict[str, Any]:
    return {**_population(arguments, search), "history": search.history}


def _replay(arguments: Mapping[str, Any], search: _Search) -> dict[str, Any]:
    if search.history is None:
        raise ConfigError(
            f"{search.name} works only within a search; create its tuner with RayObjective.tuner"
        )
    if "run" not in arguments:
        raise ConfigError(
            f"run of {search.name} must be the directory of a search with pbt or pb2, as in runs/pbt"
        )
    return {**arguments, "metric": search.history.metric, "direction": search.direction}


_NEVER_PAUSE = (FIFOScheduler, AsyncHyperBandScheduler, Population, Bandit, Replay)
"""Classes that never pause a trial, and those of populations, which pause a member with its state."""


def _passed_on(name: str) -> Any:
    """Return a method of `Delegated` that calls the one of this name of the other scheduler."""

    def method(self: Delegated, *args: Any, **kwargs: Any) -> Any:
        return getattr(self.scheduler, name)(*args, **kwargs)

    return method


class Delegated(TrialScheduler):
    """A scheduler that leaves every decision to another one.

    Args:
        scheduler: the other one.
    """

    def __init__(self, scheduler: TrialScheduler) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.scheduler = scheduler

    metric = property(attrgetter("scheduler.metric"))
    supports_buffered_results = property(attrgetter("scheduler.supports_buffered_results"))
    set_search_properties = _passed_on("set_search_properties")
    on_trial_add = _passed_on("on_trial_add")
    on_trial_error = _passed_on("on_trial_error")
    on_trial_result = _passed_on("on_trial_result")
    on_trial_complete = _passed_on("on_trial_complete")
    on_trial_remove = _passed_on("on_trial_remove")
    choose_trial_to_run = _passed_on("choose_trial_to_run")
    debug_string = _passed_on("debug_string")
    save = _passed_on("save")
    restore = _passed_on("restore")


class Unpaused(Delegated):
    """A scheduler whose trials continue where it would pause them.

    A pause ends the process of a trial, and a function then starts again at its latest checkpoint, or at its
    first epoch. A scheduler that pauses a trial only to free its resources for another loses nothing.
    """

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Decide whether a trial is stopped; if not, it continues."""
        decision = super().on_trial_result(tune_controller, trial, result)
        return self.CONTINUE if decision == self.PAUSE else decision


class Reallocating(Delegated):
    """A `ResourceChangingScheduler`, which pauses a trial to change its resources.

    The trial continues in another process after its latest epoch, since each epoch has a checkpoint (see
    `Resumable`). After its last epoch it is not paused.
    """

    scheduler: ResourceChangingScheduler

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Decide whether a trial is stopped, or is paused for other resources."""
        if result.get(FINAL):
            return str(base_of(self.scheduler).on_trial_result(tune_controller, trial, result))
        return str(super().on_trial_result(tune_controller, trial, result))


class EndedTrial(NamedTuple):
    """A trial that ended before a fit, and the reports by which a scheduler would have judged it."""

    record: TrialRecord
    reports: Sequence[Mapping[str, Any]]


class Settled(Delegated):
    """A scheduler with a metric and a mode of its own, whatever the `TuneConfig` has.

    It gets each epoch of a trial once, and does not learn of a lost worker if the trial continues.

    Args:
        scheduler: the one that judges.
        losses: decides whether a trial that has lost its worker continues; if None, Tune alone does.
        earlier: the trials that ended before this fit, which count as if they had ended in it; of no use
            unless `judge_of` finds who judges.
    """

    def __init__(
        self, scheduler: TrialScheduler, losses: Losses | None = None, earlier: Sequence[EndedTrial] = ()
    ) -> None:
        super().__init__(scheduler)
        self._losses, self._earlier = losses, earlier

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_earlier": ()}  # each worker reads the file of the Tuner

    def on_trial_add(self, tune_controller: Any, trial: Trial) -> None:
        """Pass on a trial that is new, not one that continues; before the first, those of earlier fits."""
        earlier, self._earlier = self._earlier, ()
        for one in earlier:
            self._add_ended(tune_controller, one)
        if self._losses is None or endure(trial, self._losses):
            super().on_trial_add(tune_controller, trial)

    def _add_ended(self, tune_controller: Any, ended: EndedTrial) -> None:
        """Pass on a trial that has ended, with all its reports."""
        judge, (record, reports) = judge_of(self.scheduler), ended
        if judge is None or not reports:
            return
        trial = Trial("ended", stub=True, trial_id=f"ended-{record.number}", config={NUMBER: record.number})
        judge.on_trial_add(tune_controller, trial)
        halves = isinstance(judge, AsyncHyperBandScheduler)  # the others need not compare to note a report
        note = judge.on_trial_result if halves else judge.on_trial_complete
        for report in reports:
            note(tune_controller, trial, dict(report))
        if record.state is TrialState.FAILED:
            judge.on_trial_error(tune_controller, trial)
        else:
            judge.on_trial_complete(tune_controller, trial, dict(reports[-1]))

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Pass on a trial that failed, not one that continues."""
        if not goes_on(trial):
            super().on_trial_error(tune_controller, trial)

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Decide after an epoch that the trial has not had before, and that can be judged."""
        if 0 < result.get(EPOCHS, 0) <= epochs_of(trial) or result.get(UNJUDGED):
            return self.CONTINUE
        return str(super().on_trial_result(tune_controller, trial, result))

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Leave the scheduler as it is; the searcher and the results use the metric and the mode."""
        return True


class DominanceScheduler(FIFOScheduler):
    """Stops trials by a `DominanceRule`.

    Args:
        rule: the rule.
        judged: the direction of each objective, by name.
    """

    def __init__(self, rule: DominanceRule, judged: Mapping[str, Direction]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._rule, self._judged = rule, judged
        self._values: dict[int, dict[int, tuple[float, ...]]] = {}  # by epoch and number of the trial

    def on_trial_result(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> str:
        """Decide whether a trial is stopped after an epoch."""
        self.on_trial_complete(tune_controller, trial, result)
        number, epoch = trial.config[NUMBER], result[EPOCHS] - 1
        at_epoch = self._values[epoch]
        others = [one for other, one in at_epoch.items() if other != number]
        stops = self._rule.stops(epoch, at_epoch[number], others, self._judged.values())
        return str(self.STOP if stops else self.CONTINUE)

    def on_trial_complete(self, tune_controller: Any, trial: Trial, result: dict[str, Any]) -> None:
        """Note the values of an epoch; a trial without any has no result."""
        if self._judged.keys() <= result.keys():
            values = tuple(result[name] for name in self._judged)
            self._values.setdefault(result[EPOCHS] - 1, {})[trial.config[NUMBER]] = values

    def on_trial_error(self, tune_controller: Any, trial: Trial) -> None:
        """Forget a trial that failed."""
        for values in self._values.values():
            values.pop(trial.config[NUMBER], None)


def judge_of(scheduler: TrialScheduler) -> TrialScheduler | None:
    """Return the scheduler that compares trials by their reports alone; None for any other one.

    A population reads the records of earlier trials itself, and a class of the user's own may do anything.
    """
    if isinstance(scheduler, Delegated):
        return judge_of(scheduler.scheduler)
    if isinstance(scheduler, ResourceChangingScheduler):
        return judge_of(base_of(scheduler))
    comparing = type(scheduler) in (AsyncHyperBandScheduler, MedianStoppingRule, DominanceScheduler)
    return scheduler if comparing else None


def _without_pauses(scheduler: TrialScheduler) -> TrialScheduler:
    """Return a scheduler that never pauses a trial that would then be trained again.

    Raises:
        ConfigError: the scheduler cannot work without pauses.
    """
    kind = type(scheduler).__name__
    if isinstance(scheduler, HyperBandScheduler):
        raise ConfigError(
            f"a {kind} pauses trials, which ends their processes; use 'hyperband', whose brackets run side "
            "by side, or 'asha'"
        )
    if isinstance(scheduler, PopulationBasedTrainingReplay):
        raise ConfigError(
            f"a {kind} reads Ray's own files and changes recorded params; use "
            "{'pbt_replay': {'run': 'runs/pbt'}}"
        )
    if isinstance(scheduler, MedianStoppingRule) and not stops_for_good(scheduler):
        raise ConfigError(f"a {kind} with hard_stop=False resumes the trials that it stopped; leave it out")
    return scheduler if type(scheduler) in _NEVER_PAUSE else Unpaused(scheduler)


_COMPLETED = {
    "asha": _halving,
    "hyperband": _halving,
    "median": _median,
    "pbt": _population,
    "pb2": _bandit,
    REPLAY: _replay,
}
"""Functions that add to the arguments of a scheduler those that they lack."""


def make_scheduler(
    spec: object,
    direction: Direction,
    epochs: int | None = None,
    space: Space | None = None,
    seed: int | None = None,
    key: str = VALUE,
    history: History | None = None,
) -> TrialScheduler:
    """Create a scheduler that judges the current value in the metric's direction; a new one for every fit.

    Args:
        spec: a name (see `RAY_SCHEDULERS`), `{name: {argument: value}}`, `module:Class`, an object (it is
            copied) or None for no scheduling.
        direction: the direction of the metric.
        epochs: the most epochs a run can have; halving needs them.
        space: the space of the trials' params; `pbt` and `pb2` need it.
        seed: seeds the changes of `pbt` and `pb2`.
        key: the key of the reports that has the value.
        history: has the records that `pb2` learns from.

    Raises:
        DirectionError: an object has another metric or mode.
        ConfigError: there is no such scheduler or argument, the scheduler has to pause trials, or halving has
            no `epochs`.
    """
    if isinstance(spec, PopulationBasedTraining) and not isinstance(spec, Population):
        kind = type(spec).__name__
        raise ConfigError(f"your own {kind} would change recorded params; use {{'pbt': {{'mutate': [...]}}}}")
    if isinstance(spec, ResourceChangingScheduler):
        return _reallocating(deepcopy(spec), direction, key)
    if isinstance(spec, TrialScheduler):
        return _without_pauses(_adopted(deepcopy(spec), direction, key))
    name, options = read_spec("scheduler", "none" if spec is None else spec)
    check_pruner_options(name, options, epochs if name in BACKENDS["ray"].needs_epochs else None)
    scheduler_class, arguments = find_class("scheduler", "none" if spec is None else spec, RAY_SCHEDULERS)
    if name in _COMPLETED:
        arguments = _COMPLETED[name](arguments, _Search(name, epochs, space, seed, history, direction))
    with foreign(f"scheduler {name!r} cannot be created"):
        try:
            scheduler = scheduler_class(**arguments)
            check_object("scheduler", name, scheduler)
            return _without_pauses(_adopted(scheduler, direction, key))
        except ConfigError:
            raise
        except (AssertionError, TypeError, ValueError) as err:
            raise ConfigError(f"scheduler {name!r}: {err}") from err


def _reallocating(scheduler: ResourceChangingScheduler, direction: Direction, key: str) -> Reallocating:
    """Return a scheduler that changes the resources of trials; its base judges the metric.

    Raises:
        DirectionError: the base has another metric or mode.
        ConfigError: the base pauses trials.
    """
    base = base_of(scheduler)
    if isinstance(base, (PopulationBasedTraining, ResourceChangingScheduler)):
        raise ConfigError(
            f"a ResourceChangingScheduler cannot change the trials of a {type(base).__name__}; set "
            "base_scheduler to one that never pauses a trial, such as ASHAScheduler, or to None"
        )
    set_base(scheduler, _without_pauses(_adopted(base, direction, key)))
    scheduler.set_search_properties(key, direction.mode)
    return Reallocating(scheduler)


def check_scheduler(spec: object, epochs: int | None) -> None:
    """Check the arguments of a scheduler; one that needs more than its arguments is made with its tuner.

    Raises:
        ConfigError: see `make_scheduler`.
    """
    name, _ = read_spec("scheduler", spec)
    if name not in (*POPULATIONS, REPLAY):
        make_scheduler(spec, Direction.MINIMIZE, epochs)


def _adopted(scheduler: TrialScheduler, direction: Direction, key: str) -> TrialScheduler:
    """Return a scheduler that judges the current value of the metric in its direction.

    Raises:
        DirectionError: it has another metric or mode.
    """
    metric, mode = metric_and_mode(scheduler)
    kind = type(scheduler).__name__
    if mode is not None and Direction.parse(mode) is not direction:
        raise DirectionError(
            f"the metric must be {direction.value}d, but the {kind} has mode={mode!r}; leave it out"
        )
    if metric not in (None, key):
        raise DirectionError(
            f"the {kind} has metric={metric!r}; leave it out, because the scheduler receives the current "
            "value of the metric"
        )
    if metric is None:
        scheduler.set_search_properties(key, None if mode else direction.mode)
    return scheduler
