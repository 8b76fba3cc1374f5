"""Optuna's samplers and pruners by name, each trial with a random stream of its own."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from copy import copy
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from threading import get_ident
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, RandomSampler
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import BaseTrial, FrozenTrial, Trial, TrialState

from ..._imports import foreign, load_path
from ...direction import Direction
from ...exceptions import ConfigError
from ...selection.rules import DOMINANCE, DominanceRule
from ...space.draws import derive_seed
from ..plug_in_checks import check_object, check_pruner_options
from ..registry import (
    OPTUNA_PRUNERS as PRUNERS,
    SAMPLERS,
    SEARCHER_SAMPLER,
    check_prune_by,
    dominance_rule,
    find_class,
    is_searcher,
    name_of,
    read_spec,
)
from ._internals import random_streams, storage_of, trial_id_of

T = TypeVar("T")

_JUDGED = "hpometrics:judged:"
_views: WeakKeyDictionary[optuna.Study, dict[str, optuna.Study]] = WeakKeyDictionary()
"""The views of each study, by metric; all trials share what was read of the finished ones."""
_Ended = dict[int, dict[int, dict[str, float]]]
_ended: WeakKeyDictionary[optuna.Study, _Ended] = WeakKeyDictionary()
"""The judged values of the finished trials of each study, by the trial's id and the epoch."""

_LOGS_DRAWS = "warn_independent_sampling"
"""The argument by which Optuna logs a line for each param of each trial that is not drawn with the others."""
_CONSTRAINTS = "constraints"  # the system attribute of Optuna 4
HAS_NAMES = hasattr(Trial, "set_constraint")
"""Whether this Optuna stores constraints by name."""


def make_sampler(spec: object, seed: int | None = None, constrained: bool = False) -> BaseSampler:
    """Create a sampler: a name (see `SAMPLERS`), `{name: {argument: value}}`, a class or an object.

    A class is `module:Class`, or `hub:PATH` for a package of OptunaHub in a local folder. It may be a
    searcher of Ray Tune, see `SearcherSampler`. One without an argument `seed` is created once for all
    trials.

    `grid` draws nothing itself: enqueue the points of `space.grid()` (see `reserve`).

    Args:
        spec: the sampler.
        seed: seeds its random streams; None leaves them unseeded.
        constrained: whether trials have constraints.

    Raises:
        ConfigError: there is no such sampler or argument.
        MissingExtraError: the sampler needs a package that is not installed.
    """
    if isinstance(spec, BaseSampler):
        return spec
    _check_no_searcher(spec)
    sampler_class, arguments = find_class("sampler", spec, SAMPLERS)
    if is_searcher(sampler_class):
        sampler_class = load_path(SEARCHER_SAMPLER)(sampler_class)  # with Ray
        if not is_searcher(spec):  # by its name, in a file
            sampler_class(seed=0, **arguments).check()
    make: Callable[..., BaseSampler] = partial(sampler_class, **{**_without_log(sampler_class), **arguments})
    if constrained:
        make = minding_constraints(make)
    if seed is None or not _takes(sampler_class, "seed"):
        return _create("sampler", spec, make)
    if name_of(spec) == "qmc":  # one sequence for all workers; what it cannot draw is random
        return SeededSampler(partial(_make_qmc, make, seed), seed)
    _create("sampler", spec, partial(make, seed=0))  # errors now, not at the first trial
    return SeededSampler(make, seed)


def _check_no_searcher(spec: object) -> None:
    if is_searcher(type(spec)):
        name = type(spec).__name__
        raise ConfigError(
            "the sampler is an instance of a Ray searcher, but each study needs a new one; pass its class, "
            f"sampler={name}, or with arguments sampler=SearcherSampler({name}, ...)"
        )


def _takes(function: Callable[..., Any], argument: str) -> bool:
    parameters = inspect.signature(function).parameters
    return argument in parameters or any(one.kind is one.VAR_KEYWORD for one in parameters.values())


def make_pruner(spec: object, epochs: int | None = None, prune_by: str | None = None) -> BasePruner:
    """Create a pruner: a name (see `PRUNERS`), `{name: {argument: value}}`, a class or an object.

    A class is `module:Class`, or `hub:PATH` for a package of OptunaHub in a local folder.

    Args:
        spec: the pruner; None means no pruning.
        epochs: the most epochs a run can have; hyperband needs them to set up its brackets.
        prune_by: what it judges by, see `RunSpec`.

    Raises:
        ConfigError: there is no such pruner or argument, or it does not judge by that.
    """
    check_prune_by(prune_by, spec)
    if prune_by == DOMINANCE and not isinstance(spec, BasePruner):
        return DominancePruner(**asdict(dominance_rule(spec)))
    if spec is None:
        return NopPruner()
    if isinstance(spec, BasePruner):
        return spec
    name, options = read_spec("pruner", spec)
    pruner_class, arguments = find_class("pruner", spec, PRUNERS)
    if name == "hyperband" and epochs is not None:
        arguments.setdefault("max_resource", epochs)
    if name == "asha":
        arguments.setdefault("min_resource", 1)
    if name == "patient":
        inner = arguments.get("wrapped_pruner")
        arguments["wrapped_pruner"] = None if inner is None else make_pruner(inner, epochs)
    make: Callable[..., BasePruner] = partial(pruner_class, **arguments)
    pruner = _create("pruner", spec, make)
    check_pruner_options(name, options, epochs if name == "hyperband" else None)
    return pruner


def own_pruner(study: optuna.Study) -> BasePruner | None:
    """Return the pruner that the user gave a study; None for the default of Optuna."""
    return None if type(study.pruner) is MedianPruner else study.pruner


class SeededSampler(BaseSampler):
    """A sampler whose random stream for a trial depends on (seed, trial number) alone, and so for each param.

    Workers with one seed never draw the same point, and a sweep that goes on does not repeat its start.

    Args:
        make: creates the sampler of one trial from `seed=`; it learns all else from the study.
        seed: the seed of the sweep.
    """

    def __init__(self, make: Callable[..., BaseSampler], seed: int) -> None:
        self._make, self._seed = make, seed
        self._by_trial: dict[int, BaseSampler] = {}
        self._by_thread: dict[int, BaseSampler] = {}

    @cached_property
    def example(self) -> BaseSampler:
        """One of the samplers that draw."""
        return _quiet(partial(self._make, seed=self._seed))

    @property
    def kind(self) -> str:
        """The name of the class that draws."""
        return type(self.example).__name__

    def of(self, trial: FrozenTrial) -> BaseSampler:
        """Return the sampler of a trial."""
        if trial.number not in self._by_trial:
            own = self._restarted(derive_seed(self._seed, trial.number))
            if type(own) is RandomSampler:  # it stores nothing about a trial
                return own
            self._by_trial[trial.number] = own
            self._by_thread.pop(get_ident(), None)
        return self._by_trial[trial.number]

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Pass on to the trial's sampler."""
        return self.of(trial).infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Pass on to the trial's sampler; one that is not Optuna's own may be experimental at each draw."""
        draw = partial(self.of(trial).sample_relative, study, trial, search_space)
        return draw() if is_plain(self.of(trial)) else _quiet(draw)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw from a stream of the param's own: a resumed trial does not repeat its earlier params."""
        own = self._restarted(derive_seed(self._seed, trial.number, name=param_name))
        return own.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Pass on to the trial's sampler."""
        self.of(trial).before_trial(study, trial)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """Pass on to the trial's sampler, and forget it."""
        self.of(trial).after_trial(study, trial, state, values)
        self._by_trial.pop(trial.number, None)

    def _restarted(self, seed: int) -> BaseSampler:
        """Return a sampler in the state of a new one with this seed: this thread's, or a new one."""
        thread = get_ident()
        sampler = self._by_thread.get(thread)
        if sampler is None or not restart(sampler, seed):
            sampler = self._by_thread[thread] = _quiet(partial(self._make, seed=seed))
        return sampler


def _guarded(name: str) -> Any:
    """Return a method of `OwnSampler` that calls the one of this name of its example."""

    def method(self: OwnSampler, *args: Any, **kwargs: Any) -> Any:
        with foreign(self.problem):
            return getattr(self.example, name)(*args, **kwargs)

    return method


class OwnSampler(BaseSampler):
    """A sampler of the user's own; an error that it raises names it, in place of a traceback.

    Args:
        example: the sampler that draws.
        name: its name in the sweep file.
    """

    def __init__(self, example: BaseSampler, name: str) -> None:
        self.example, self.kind = example, name_of(example)
        self.problem = (
            f"search.sampler: {name} raises an error; correct the class, its options or the space, "
            "or choose another sampler"
        )

    infer_relative_search_space = _guarded("infer_relative_search_space")
    sample_relative = _guarded("sample_relative")
    sample_independent = _guarded("sample_independent")
    before_trial = _guarded("before_trial")
    after_trial = _guarded("after_trial")
    reseed_rng = _guarded("reseed_rng")


def _class_of(sampler: BaseSampler) -> type[BaseSampler]:
    """Return the class that draws, within samplers that pass on to an example."""
    while isinstance(example := getattr(sampler, "example", None), BaseSampler):
        sampler = example
    return type(sampler)


def is_plain(sampler: BaseSampler) -> bool:
    """Return whether a sampler is one of Optuna's own: when a trial ends, these read its local copy alone."""
    return _class_of(sampler).__module__.startswith("optuna.samplers.")


def draws_alone(sampler: BaseSampler) -> bool:
    """Return whether a sampler can draw before the trial exists, as it neither reads nor writes the study."""
    return _class_of(sampler) is RandomSampler


def restart(sampler: BaseSampler, seed: int) -> bool:
    """Seed the random streams of a sampler anew, as if it had just been created with a seed.

    Creating one takes longer than a draw: its streams are seeded from the system first.

    Returns:
        False if nothing was done, since the streams of the sampler are not known.
    """
    streams = random_streams(sampler)
    for stream in streams:
        stream.seed(seed)
    return bool(streams)


def set_excesses(trial: BaseTrial, excesses: Mapping[str, float]) -> None:
    """Store with a trial by how much it exceeds each bound; one above 0 makes it infeasible."""
    if not excesses:
        return
    if not HAS_NAMES:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # Optuna 5 removes it
            trial.set_system_attr(_CONSTRAINTS, list(excesses.values()))  # type: ignore[attr-defined]
        return
    for text, excess in excesses.items():
        trial.set_constraint(text, excess)


def excess_arguments(excesses: Mapping[str, float]) -> dict[str, Any]:
    """Return the arguments of `create_trial` that stand for what `set_excesses` stores."""
    if not excesses:
        return {}
    return (
        {"constraints": dict(excesses)}
        if HAS_NAMES
        else {"system_attrs": {_CONSTRAINTS: [*excesses.values()]}}
    )


def is_infeasible(trial: FrozenTrial) -> bool:
    """Return whether a trial breaks a constraint; a trial without constraints breaks none."""
    excesses = trial.constraints.values() if HAS_NAMES else _excesses(trial)
    return any(excess > 0 for excess in excesses)


def minding_constraints(make: Callable[..., T]) -> Callable[..., T]:
    """Make a sampler read what `set_excesses` stores: Optuna 4 needs a function, Optuna 5 reads it itself.

    Args:
        make: its class, with arguments; a class without constraints stays as it is.
    """
    cls: Any = make.func if isinstance(make, partial) else make
    arguments = make.keywords if isinstance(make, partial) else {}
    parameters = inspect.signature(cls).parameters
    if HAS_NAMES or "constraints_func" in arguments or "constraints_func" not in parameters:
        return make
    return partial(make, constraints_func=_excesses)


def _excesses(trial: FrozenTrial) -> Sequence[float]:
    return tuple(trial.system_attrs.get(_CONSTRAINTS) or ())


def _without_log(sampler_class: Callable[..., BaseSampler]) -> dict[str, bool]:
    """Return the argument that keeps a sampler from logging each draw, if it logs by default."""
    argument = inspect.signature(sampler_class).parameters.get(_LOGS_DRAWS)
    return {} if argument is None or argument.default is not True else {_LOGS_DRAWS: False}


def _create(what: str, spec: object, make: Callable[[], T]) -> T:
    name = spec.__name__ if isinstance(spec, type) else read_spec(what, spec)[0]
    with foreign(f"{what} {name!r} cannot be created"):
        try:
            created = _quiet(make)
        except (TypeError, ValueError) as err:
            raise ConfigError(f"{what}: {err}") from err
    check_object(what, name, created)
    return created


def _quiet(make: Callable[[], T]) -> T:
    with warnings.catch_warnings():  # the user has chosen an experimental class by naming it
        warnings.simplefilter("ignore", ExperimentalWarning)
        return make()


def _make_qmc(make: Callable[..., BaseSampler], shared_seed: int, seed: int) -> BaseSampler:
    return make(seed=shared_seed, independent_sampler=RandomSampler(seed))


def write_judged(trial: BaseTrial, epoch: int, values: Mapping[str, float]) -> None:
    """Write the judged values of an epoch to a running trial; null for one that is not finite."""
    numbers = {name: value if math.isfinite(value) else None for name, value in values.items()}
    trial.set_user_attr(f"{_JUDGED}{epoch}", numbers)


def judged_values(trial: FrozenTrial) -> dict[int, dict[str, float]]:
    """Return the judged values of each epoch of a trial, by name."""
    return {
        int(key.removeprefix(_JUDGED)): {name: math.nan if v is None else v for name, v in values.items()}
        for key, values in trial.user_attrs.items()
        if key.startswith(_JUDGED)
    }


@dataclass(frozen=True)
class DominancePruner(DominanceRule, BasePruner):
    """The pruner of a `Run` with `prune_by="dominance"`; see `DominanceRule` for its arguments."""

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Return whether a trial is stopped after its newest epoch."""
        own, ended = judged_values(trial), _ended.setdefault(study, {})
        epoch = max(own, default=-1)
        others = [
            tuple(values[epoch].values())
            for one in study.get_trials(deepcopy=False)
            if one.number != trial.number and one.state is not TrialState.FAIL
            if epoch in (values := _values_of(one, ended))
        ]
        directions = [Direction.parse(one.name) for one in study.directions]
        return epoch >= 0 and self.stops(epoch, tuple(own[epoch].values()), others, directions)


def _values_of(trial: FrozenTrial, ended: _Ended) -> dict[int, dict[str, float]]:
    """Return the judged values of a trial of a study; those of a finished one are read once."""
    values = ended.get(trial_id_of(trial)) or judged_values(trial)
    if trial.state.is_finished():
        ended[trial_id_of(trial)] = values
    return values


class Judge:
    """Asks the pruner of a study about the judged values of a running trial.

    Args:
        trial: the trial.
        judged: see `RunSpec`.

    Raises:
        ConfigError: the study has no pruner that judges by them.
    """

    def __init__(self, trial: Trial, judged: Mapping[str, Direction]) -> None:
        self._trial, self._names = trial, tuple(judged)
        self._study, self._pruner = trial.study, trial.study.pruner
        name, *others = judged
        check_prune_by(DOMINANCE if others else name, self._pruner)
        if not others:
            self._study = _view_of(trial.study, name, judged[name])

    def values_in(self, values: Mapping[str, float]) -> dict[str, float] | None:
        """Return those of the values of an epoch that are judged; None if one was not measured."""
        judged = {name: values[name] for name in self._names if name in values}
        return judged if len(judged) == len(self._names) else None

    def stops(self) -> bool:
        """Return whether the pruner stops the trial after the newest epoch that was written."""
        return self._pruner.prune(self._study, storage_of(self._study).get_trial(trial_id_of(self._trial)))


def _view_of(study: optuna.Study, name: str, direction: Direction) -> optuna.Study:
    """Return a study as it would be if it searched for one metric alone."""
    views = _views.setdefault(study, {})
    if name not in views:
        storage: Any = _MetricView(storage_of(study), name, StudyDirection[direction.name])
        views[name] = optuna.load_study(
            study_name=study.study_name, storage=storage, sampler=study.sampler, pruner=study.pruner
        )
    return views[name]


class _MetricView:
    """A storage whose trials have one judged metric as their reports; what a pruner writes, it passes on."""

    def __init__(self, storage: BaseStorage, name: str, direction: StudyDirection) -> None:
        self._inner, self._name, self._direction = storage, name, direction
        self._ended: dict[int, FrozenTrial] = {}

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        return [self._direction]

    def get_trial(self, trial_id: int) -> FrozenTrial:
        return self._shown(self._inner.get_trial(trial_id))

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        return [self._shown(trial) for trial in self._inner.get_all_trials(study_id, False, states)]

    def get_best_trial(self, study_id: int) -> FrozenTrial:
        complete = self.get_all_trials(study_id, states=(TrialState.COMPLETE,))
        valued = [(one, one.values[0]) for one in complete if one.values and math.isfinite(one.values[0])]
        if not valued:
            raise ValueError("No trials are completed yet.")  # as Optuna's storages do
        best = Direction.parse(self._direction.name).best_index(value for _, value in valued)
        return valued[best][0]

    def _shown(self, trial: FrozenTrial) -> FrozenTrial:
        shown = self._ended.get(trial_id_of(trial))
        if shown is not None:
            return shown
        shown, judged = copy(trial), judged_values(trial)
        shown.intermediate_values = {
            epoch: values[self._name] for epoch, values in judged.items() if self._name in values
        }
        last = shown.last_step
        shown.values = None if last is None or not trial.values else [shown.intermediate_values[last]]
        if trial.state.is_finished():
            self._ended[trial_id_of(trial)] = shown
        return shown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
