"""Searchers of Ray Tune as samplers of Optuna, on every backend: `SearcherSampler(HyperOptSearch)`, `bohb`.

A searcher keeps what it has learned in its process. Here a new one is made for each trial, and learns all
finished trials of the study again. So it draws the same point in any worker, and in a search that goes on.
"""

from __future__ import annotations

import inspect
import math
import random
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import optuna
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.samplers import BaseSampler, RandomSampler
from optuna.search_space import intersection_search_space
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState
from ray import tune
from ray.tune.search import Searcher

from ..._imports import foreign
from ..._text import did_you_mean
from ...exceptions import ConfigError
from ...space.draws import derive_seed
from ..optuna._internals import storage_of, study_id_of

_VALUE = "value"  # the key of the objective in the results that a searcher gets
_SEEDS = ("seed", "random_state_seed", "random_state")
"""The arguments by which searchers are seeded."""
_SET = ("space", "metric", "mode", "points_to_evaluate", "evaluated_rewards", "max_concurrent", *_SEEDS)
"""The arguments of searchers that are set here."""
_streams = RLock()


class _Outcome(NamedTuple):
    """A finished trial as a searcher learns it: its point in the domains of Tune, and how good it was."""

    point: dict[str, Any]
    value: float
    epochs: int


class SearcherSampler(BaseSampler):
    """A sampler that draws as a searcher of Ray Tune does, for one objective.

    Conditional params, and the first trial, are drawn at random. The searcher learns a complete trial by its
    value, as one that was trained in full, and a pruned one by its last report and the number of its reports.

    Args:
        searcher: a class of `ray.tune.search`, or one of your own with its argument `points_to_evaluate`.
        seed: seeds its random streams, those of NumPy and Python included; None leaves them unseeded.
        arguments: further arguments of the class, except those that say space, metric, mode and points.

    Raises:
        ConfigError: it is not such a class, or has no such argument.
    """

    def __init__(self, searcher: type[Searcher], *, seed: int | None = None, **arguments: Any) -> None:
        if not isinstance(searcher, type) or not issubclass(searcher, Searcher):
            raise ConfigError(
                f"SearcherSampler expects a class of ray.tune.search and its arguments, got {searcher!r}; "
                "write SearcherSampler(HyperOptSearch, n_initial_points=5), for example"
            )
        self._searcher, self._seed, self._arguments = searcher, seed, arguments
        self._known = inspect.signature(searcher).parameters
        _check_arguments(searcher, self._known, arguments)
        self._random = RandomSampler(seed)

    def check(self) -> None:
        """Create a searcher, so that what it lacks is an error now and not at the second trial.

        Raises:
            ConfigError: it cannot be created, because its package is missing for example.
        """
        with _seeded(self._seed), foreign(f"the searcher {self._searcher.__name__} cannot be created"):
            self._create(self._seed, [])

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the params that all earlier trials have, those with a single value left out."""
        if len(study.directions) > 1:
            raise ConfigError(
                f"{self._searcher.__name__} supports one objective, but the study has "
                f"{len(study.directions)}; choose tpe, gp, botorch, nsga2 or nsga3"
            )
        space = intersection_search_space(_trials_of(study), include_pruned=True)
        return {name: one for name, one in space.items() if not one.single()}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Return the point that a new searcher suggests after it has learned the finished trials."""
        if not search_space:
            return {}
        outcomes = [*_outcomes(study, search_space)]
        seed = None if self._seed is None else derive_seed(self._seed, trial.number)
        name = self._searcher.__name__
        with _seeded(seed), foreign(f"the searcher {name} failed"):
            searcher = self._make(study, search_space, outcomes, seed)
            for index, outcome in enumerate(outcomes):
                _teach(searcher, str(index), outcome)
            suggested = searcher.suggest(str(len(outcomes)))
        if not isinstance(suggested, Mapping):
            raise ConfigError(f"the searcher {name} did not suggest another point, but {suggested!r}")
        return {name: _from_searcher(suggested[name], one) for name, one in search_space.items()}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Draw a value at random."""
        return self._random.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        """Seed the streams anew, as Optuna does for each of several threads."""
        self._random.reseed_rng()

    def _make(
        self,
        study: optuna.Study,
        space: Mapping[str, BaseDistribution],
        outcomes: Sequence[_Outcome],
        seed: int | None,
    ) -> Searcher:
        """Return a searcher that suggests the points of these trials first."""
        searcher = self._create(seed, [dict(one.point) for one in outcomes])
        mode = "min" if study.direction == StudyDirection.MINIMIZE else "max"
        domains = {name: _domain(one) for name, one in space.items()}
        if not searcher.set_search_properties(_VALUE, mode, domains):
            raise ConfigError("it must be created without its own search space")
        return searcher

    def _create(self, seed: int | None, points: list[dict[str, Any]]) -> Searcher:
        seeds = {} if seed is None else dict.fromkeys((one for one in _SEEDS if one in self._known), seed)
        make: Callable[..., Searcher] = self._searcher
        return make(**self._arguments, **seeds, points_to_evaluate=points or None)


class BohbSampler(SearcherSampler):
    """BOHB (Falkner et al. 2018), by Ray's `TuneBOHB`: kernel densities of the good and the bad trials.

    The densities are those of the most epochs that enough trials have reached. With the pruner hyperband the
    search is that of the paper.

    Args:
        min_points_in_model: the trials that a model needs; default: one more than params.
        top_n_percent: the share of trials that count as good.
        num_samples: the points that are compared for each draw.
        random_fraction: the share of trials that are drawn at random.
        bandwidth_factor: widens the densities that points are drawn from.
        min_bandwidth: the narrowest density.
        seed: see `SearcherSampler`.
    """

    def __init__(
        self,
        min_points_in_model: int | None = None,
        top_n_percent: int = 15,
        num_samples: int = 64,
        random_fraction: float = 1 / 3,
        bandwidth_factor: float = 3.0,
        min_bandwidth: float = 1e-3,
        seed: int | None = None,
    ) -> None:
        from ray.tune.search.bohb import TuneBOHB

        options = {
            "min_points_in_model": min_points_in_model,
            "top_n_percent": top_n_percent,
            "num_samples": num_samples,
            "random_fraction": random_fraction,
            "bandwidth_factor": bandwidth_factor,
            "min_bandwidth": min_bandwidth,
        }
        super().__init__(TuneBOHB, seed=seed, bohb_config=options)


def as_sampler(searcher: type[Searcher]) -> Callable[..., SearcherSampler]:
    """Return the function that creates the sampler of a class of searchers."""

    def make(seed: int | None = None, **arguments: Any) -> SearcherSampler:
        return SearcherSampler(searcher, seed=seed, **arguments)

    return make


def _check_arguments(
    searcher: type[Searcher], known: Mapping[str, inspect.Parameter], arguments: Mapping[str, Any]
) -> None:
    name = searcher.__name__
    if "points_to_evaluate" not in known:
        raise ConfigError(
            f"{name} has no argument points_to_evaluate, which passes earlier trials to a new searcher"
        )
    words = [word for word in known if word not in _SET]
    is_open = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
    for word in arguments:
        if word in _SET:
            raise ConfigError(f"{word} of {name} is set by the search; leave it out")
        if word not in words and not is_open:
            hint = did_you_mean(word, words) or "."
            raise ConfigError(f"{name} has no argument {word!r}{hint} It knows {', '.join(words)}")


def _trials_of(study: optuna.Study) -> list[FrozenTrial]:
    """Return all trials of a study; with hyperband, a sampler gets one that shows those of a bracket."""
    return storage_of(study).get_all_trials(study_id_of(study), deepcopy=False)


def _outcomes(study: optuna.Study, space: Mapping[str, BaseDistribution]) -> Iterator[_Outcome]:
    """Yield what the finished trials that have all params say, in the order of their numbers."""
    states = (TrialState.COMPLETE, TrialState.PRUNED)
    ended = [one for one in _trials_of(study) if one.state in states and space.keys() <= one.params.keys()]
    full = max((len(one.intermediate_values) for one in ended), default=0)
    for trial in ended:
        pruned = trial.state is TrialState.PRUNED
        reported = trial.intermediate_values
        value = reported.get(max(reported, default=-1)) if pruned else trial.value
        if value is not None and math.isfinite(value):
            # Trials that end early by themselves would be budgets of their own, with too few for a model.
            point = {name: _to_searcher(trial.params[name], one) for name, one in space.items()}
            yield _Outcome(point, value, max(1, len(reported) if pruned else full))


def _teach(searcher: Searcher, trial_id: str, outcome: _Outcome) -> None:
    suggested, point = searcher.suggest(trial_id), outcome.point
    if not isinstance(suggested, Mapping) or not all(_is_same(suggested.get(n), point[n]) for n in point):
        raise ConfigError(
            f"it does not begin with its points_to_evaluate: expected {point}, got {suggested!r}"
        )
    result = {
        _VALUE: outcome.value,
        "training_iteration": outcome.epochs,
        "time_total_s": float(outcome.epochs),
        "hyperband_info": {"budget": outcome.epochs},
        "done": True,
        "config": dict(suggested),
    }
    searcher.on_trial_result(trial_id, result)
    searcher.on_trial_complete(trial_id, result)


def _is_same(suggested: Any, value: float) -> bool:
    return suggested is not None and math.isclose(suggested, value, rel_tol=1e-6, abs_tol=1e-9)


def _domain(distribution: BaseDistribution) -> Any:
    """Return the domain of Tune; steps and choices are searched by index, so that any value survives."""
    if isinstance(distribution, CategoricalDistribution):
        return tune.choice([*range(len(distribution.choices))])
    if isinstance(distribution, FloatDistribution) and distribution.step is None:
        make = tune.loguniform if distribution.log else tune.uniform
        return make(distribution.low, distribution.high)
    if isinstance(distribution, IntDistribution) and distribution.step == 1:
        draw = tune.lograndint if distribution.log else tune.randint
        return draw(distribution.low, distribution.high + 1)
    return tune.randint(0, _count(distribution))


def _count(distribution: Any) -> int:
    count: int = round((distribution.high - distribution.low) / distribution.step) + 1
    return count


def _to_searcher(value: Any, distribution: BaseDistribution) -> Any:
    """Return the value of a trial within its domain of Tune."""
    if isinstance(distribution, CategoricalDistribution):
        return int(distribution.to_internal_repr(value))
    if isinstance(distribution, (FloatDistribution, IntDistribution)) and _has_steps(distribution):
        return round((value - distribution.low) / (distribution.step or 1))
    return value


def _from_searcher(value: Any, distribution: BaseDistribution) -> Any:
    """Return the value for a trial that a searcher suggests."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices[int(value)]
    if not isinstance(distribution, (FloatDistribution, IntDistribution)):
        raise ConfigError(f"no searcher supports {type(distribution).__name__}")
    if _has_steps(distribution):
        value = distribution.low + int(value) * (distribution.step or 1)
    kind = int if isinstance(distribution, IntDistribution) else float
    return min(max(kind(value), distribution.low), distribution.high)


def _has_steps(distribution: FloatDistribution | IntDistribution) -> bool:
    return distribution.step is not None and (
        isinstance(distribution, FloatDistribution) or distribution.step > 1
    )


@contextmanager
def _seeded(seed: int | None) -> Iterator[None]:
    """Seed the streams of NumPy and Python in this context, and restore them; one thread at a time.

    Searchers draw from them, and the training does too. The warnings of a searcher are its library's own.
    """
    with _streams, warnings.catch_warnings(action="ignore"):
        states = np.random.get_state(), random.getstate()
        try:
            if seed is not None:
                np.random.seed(seed % 2**32)
                random.seed(seed)
            yield
        finally:
            np.random.set_state(states[0])
            random.setstate(states[1])
