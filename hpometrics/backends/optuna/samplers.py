"""Samplers and pruners by name, each trial with a random stream of its own."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from inspect import signature
from operator import attrgetter
from threading import get_ident
from typing import Any, TypeVar

import optuna
from optuna.distributions import BaseDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import BasePruner, MedianPruner, NopPruner
from optuna.samplers import BaseSampler, RandomSampler, TPESampler
from optuna.trial import BaseTrial, FrozenTrial, Trial, TrialState

from ..._imports import foreign
from ...exceptions import ConfigError
from ...run.reporter import derive_seed
from ..plugins import PlugIn, find_class, read_spec

T = TypeVar("T")

_LISTED = "constraints"  # the system attribute of Optuna 4
HAS_NAMES = hasattr(Trial, "set_constraint")
"""Whether this Optuna keeps constraints by name."""


def set_excesses(trial: BaseTrial, excesses: Mapping[str, float]) -> None:
    """Keep with a trial by how much it exceeds each bound; one above 0 makes it infeasible."""
    if not excesses:
        return
    if not HAS_NAMES:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # Optuna 5 takes it away
            trial.set_system_attr(_LISTED, list(excesses.values()))  # type: ignore[attr-defined]
        return
    for text, excess in excesses.items():
        trial.set_constraint(text, excess)


def is_infeasible(trial: FrozenTrial) -> bool:
    """Check whether a trial breaks a constraint; one that knows of none breaks none."""
    excesses = trial.constraints.values() if HAS_NAMES else _listed(trial)
    return any(excess > 0 for excess in excesses)


def minding_constraints(make: Callable[..., T]) -> Callable[..., T]:
    """Have a sampler mind what `set_excesses` keeps: Optuna 4 wants a function, Optuna 5 reads it itself.

    Args:
        make: its class, with arguments; one that knows no constraints stays as it is.
    """
    found: Any = make.func if isinstance(make, partial) else make
    given = make.keywords if isinstance(make, partial) else {}
    if HAS_NAMES or "constraints_func" in given or "constraints_func" not in signature(found).parameters:
        return make
    return partial(make, constraints_func=_listed)


def _listed(trial: FrozenTrial) -> Sequence[float]:
    return tuple(trial.system_attrs.get(_LISTED) or ())


_SEEDED = ("seed",)
_PERCENTILE = {"warmup": "n_warmup_steps", "min_trials": "n_startup_trials", "interval": "interval_steps"}
_HALVING = {"min_epochs": "min_resource", "eta": "reduction_factor"}

SAMPLERS: Mapping[str, PlugIn] = {
    "tpe": PlugIn("optuna.samplers:TPESampler", hidden=_SEEDED),
    "random": PlugIn("optuna.samplers:RandomSampler", hidden=_SEEDED),
    "grid": PlugIn("optuna.samplers:RandomSampler", hidden=_SEEDED),  # its points are enqueued
    "gp": PlugIn("optuna.samplers:GPSampler", needs=("scipy",), hidden=_SEEDED),
    "cmaes": PlugIn("optuna.samplers:CmaEsSampler", needs=("cmaes",), hidden=_SEEDED),
    "qmc": PlugIn("optuna.samplers:QMCSampler", needs=("scipy",), hidden=(*_SEEDED, "independent_sampler")),
    "nsga2": PlugIn("optuna.samplers:NSGAIISampler", hidden=_SEEDED),
}

PRUNERS: Mapping[str, PlugIn] = {
    "none": PlugIn("optuna.pruners:NopPruner"),
    "median": PlugIn("optuna.pruners:MedianPruner", _PERCENTILE),
    "percentile": PlugIn("optuna.pruners:PercentilePruner", _PERCENTILE),
    "asha": PlugIn("optuna.pruners:SuccessiveHalvingPruner", _HALVING),
    "hyperband": PlugIn("optuna.pruners:HyperbandPruner", _HALVING),
    "patient": PlugIn("optuna.pruners:PatientPruner", {"pruner": "wrapped_pruner"}),
    "threshold": PlugIn(
        "optuna.pruners:ThresholdPruner", {"warmup": "n_warmup_steps", "interval": "interval_steps"}
    ),
}


_LOGS_DRAWS = "warn_independent_sampling"
"""The argument by which Optuna logs a line for each param of each trial that is not drawn with the others."""

_STREAMS: Mapping[type[BaseSampler], tuple[Callable[[BaseSampler], Any], ...]] = {
    RandomSampler: (attrgetter("_rng.rng"),),
    TPESampler: (attrgetter("_rng.rng"), attrgetter("_random_sampler._rng.rng")),
}
"""The random streams of samplers that draw a param by nothing else of their own."""


class SeededSampler(BaseSampler):
    """A sampler whose random stream for a trial is a function of (seed, trial number) alone; for a param too.

    Workers with one seed never draw the same point, and a sweep that goes on does not repeat its start.

    Args:
        make: builds the sampler of one trial from its seed; what it knows, it knows from the study.
        seed: of the sweep.
    """

    def __init__(self, make: Callable[[int], BaseSampler], seed: int) -> None:
        self._make, self._seed = make, seed
        self._by_trial: dict[int, BaseSampler] = {}
        self._by_thread: dict[int, BaseSampler] = {}

    @property
    def kind(self) -> str:
        """The name of the class that draws."""
        return type(_quiet(partial(self._make, self._seed))).__name__

    @cached_property
    def is_plain(self) -> bool:
        """Whether the samplers that draw are; see the function of this name."""
        return is_plain(_quiet(partial(self._make, self._seed)))

    @cached_property
    def draws_alone(self) -> bool:
        """Whether the samplers that draw do; see the function of this name."""
        return draws_alone(_quiet(partial(self._make, self._seed)))

    def of(self, trial: FrozenTrial) -> BaseSampler:
        """Return the sampler of a trial."""
        if trial.number not in self._by_trial:
            own = self._restarted(derive_seed(self._seed, trial.number))
            if type(own) is RandomSampler:  # it keeps nothing of a trial
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
        """Pass on to the trial's sampler."""
        return self.of(trial).sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw from a stream of the param's own: a trial that goes on does not repeat those before it."""
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
        """Give a sampler as if it had just been made with a seed: this thread's, or a new one."""
        thread = get_ident()
        known = self._by_thread.get(thread)
        if known is None or not restart(known, seed):
            known = self._by_thread[thread] = _quiet(partial(self._make, seed))
        return known


def make_sampler(spec: object, seed: int | None = None, constrained: bool = False) -> BaseSampler:
    """Build a sampler: a name (see `SAMPLERS`), `{name: {argument: value}}`, `module:Class` or an object.

    `grid` draws nothing itself: enqueue the points of `space.grid()` (see `reserve`).

    Args:
        spec: of the sampler.
        seed: of its random streams; none unless given.
        constrained: whether trials have constraints.

    Raises:
        ConfigError: no such sampler or argument.
        MissingExtraError: it needs a package that is not installed.
    """
    if isinstance(spec, BaseSampler):
        return spec
    found, arguments = find_class("sampler", spec, SAMPLERS)
    make: Callable[..., BaseSampler] = partial(found, **{**_without_log(found), **arguments})
    if constrained:
        make = minding_constraints(make)
    if seed is None:
        return _built("sampler", spec, make)
    if read_spec("sampler", spec)[0] == "qmc":  # one sequence for all workers; what it cannot draw is random
        return SeededSampler(partial(_make_qmc, make, seed), seed)
    _built("sampler", spec, partial(make, seed=0))  # errors now, not at the first trial
    return SeededSampler(partial(_make_seeded, make), seed)


def make_pruner(spec: object, epochs: int | None = None) -> BasePruner:
    """Build a pruner: a name (see `PRUNERS`), `{name: {argument: value}}`, `module:Class` or an object.

    Args:
        spec: None means no pruning.
        epochs: the most epochs a run can have; hyperband needs them to set up its brackets.

    Raises:
        ConfigError: no such pruner or argument.
    """
    if spec is None:
        return NopPruner()
    if isinstance(spec, BasePruner):
        return spec
    name, _ = read_spec("pruner", spec)
    found, arguments = find_class("pruner", spec, PRUNERS)
    if name == "hyperband" and epochs is not None:
        arguments.setdefault("max_resource", epochs)
    if name == "asha":
        arguments.setdefault("min_resource", 1)
    if name == "patient":
        inner = arguments.get("wrapped_pruner")
        arguments["wrapped_pruner"] = None if inner is None else make_pruner(inner, epochs)
    make: Callable[..., BasePruner] = partial(found, **arguments)
    return _built("pruner", spec, make)


def is_plain(sampler: BaseSampler) -> bool:
    """Say whether a sampler is one of Optuna's own; of a trial that ends they read what its own copy has."""
    if isinstance(sampler, SeededSampler):
        return sampler.is_plain
    return type(sampler).__module__.startswith("optuna.samplers.")


def draws_alone(sampler: BaseSampler) -> bool:
    """Say whether a sampler draws without a look at the study or a note in it: before there is the trial."""
    if isinstance(sampler, SeededSampler):
        return sampler.draws_alone
    return type(sampler) is RandomSampler


def restart(sampler: BaseSampler, seed: int) -> bool:
    """Start the random streams of a sampler anew, as if it had just been made with a seed.

    To make one takes longer than the draw: the streams are seeded from the system first.

    Returns:
        False where nothing was done, as its streams are not known.
    """
    try:
        streams = [stream(sampler) for stream in _STREAMS[type(sampler)]]
    except (KeyError, AttributeError):  # the latter: of another version of Optuna
        return False
    for stream in streams:
        stream.seed(seed)
    return True


def own_pruner(study: optuna.Study) -> BasePruner | None:
    """Return the pruner that somebody gave a study; None of the one that Optuna gives to every other."""
    return None if type(study.pruner) is MedianPruner else study.pruner


def _without_log(found: Callable[..., BaseSampler]) -> dict[str, bool]:
    """Return the argument that keeps a sampler from logging each draw, if it logs by default."""
    argument = inspect.signature(found).parameters.get(_LOGS_DRAWS)
    return {} if argument is None or argument.default is not True else {_LOGS_DRAWS: False}


def _built(what: str, spec: object, make: Callable[[], T]) -> T:
    with foreign(f"{what} {read_spec(what, spec)[0]!r} cannot be made"):
        try:
            return _quiet(make)
        except (TypeError, ValueError) as err:
            raise ConfigError(f"{what}: {err}") from err


def _quiet(make: Callable[[], T]) -> T:
    with warnings.catch_warnings():  # who names an experimental class has chosen it
        warnings.simplefilter("ignore", ExperimentalWarning)
        return make()


def _make_seeded(make: Callable[..., BaseSampler], seed: int) -> BaseSampler:
    return make(seed=seed)


def _make_qmc(make: Callable[..., BaseSampler], shared_seed: int, seed: int) -> BaseSampler:
    return make(seed=shared_seed, independent_sampler=RandomSampler(seed))
