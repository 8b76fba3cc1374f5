"""Optuna's samplers by name, each trial with a random stream of its own."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from threading import get_ident
from typing import Any, TypeVar

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.samplers import BaseSampler, RandomSampler
from optuna.trial import BaseTrial, FrozenTrial, Trial, TrialState

from ..._imports import foreign, load_path
from ...exceptions import ConfigError
from ...space.draws import derive_seed
from ..plug_in_checks import check_object
from ..registry import SAMPLERS, SEARCHER_SAMPLER, find_class, is_searcher, name_of, read_spec
from ._internals import random_streams

T = TypeVar("T")

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
        return create_plug_in("sampler", spec, make)
    if name_of(spec) == "qmc":  # one sequence for all workers; what it cannot draw is random
        return SeededSampler(partial(_make_qmc, make, seed), seed)
    create_plug_in("sampler", spec, partial(make, seed=0))  # errors now, not at the first trial
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


def create_plug_in(what: str, spec: object, make: Callable[[], T]) -> T:
    """Create a sampler or a pruner of a spec.

    Raises:
        ConfigError: its class refuses the arguments, or the object is of another kind.
    """
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
