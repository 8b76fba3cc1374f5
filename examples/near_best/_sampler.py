"""A sampler that draws near the best trial of the study."""

from __future__ import annotations

from math import exp, log
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import BaseSampler, RandomSampler
from optuna.study import StudyDirection


class NearBest(BaseSampler):
    """Draws each real number near that of the best trial by the first objective, all other params at random.

    Args:
        spread: the standard deviation of a draw, as a share of the range, or of its logarithm.
        seed: the seed of the draws.
    """

    def __init__(self, spread: float = 0.1, seed: int | None = None) -> None:
        self._spread, self._rng, self._random = spread, np.random.RandomState(seed), RandomSampler(seed)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the real numbers that all trials have."""
        space = optuna.search_space.intersection_search_space(study.get_trials(deepcopy=False))
        return {name: one for name, one in space.items() if isinstance(one, FloatDistribution)}

    def sample_relative(
        self,
        study: optuna.Study,
        trial: optuna.trial.FrozenTrial,
        search_space: dict[str, BaseDistribution],
    ) -> dict[str, Any]:
        """Draw near the best."""
        ended = [one for one in study.get_trials(deepcopy=False) if one.values]
        if not ended:
            return {}
        sign = 1 if study.directions[0] == StudyDirection.MINIMIZE else -1
        best = min(ended, key=lambda one: sign * one.values[0]).params
        return {
            name: self._near(best[name], one)
            for name, one in search_space.items()
            if isinstance(one, FloatDistribution)
        }

    def _near(self, center: float, dimension: FloatDistribution) -> float:
        to, back = (log, exp) if dimension.log else (float, float)
        low, high = to(dimension.low), to(dimension.high)
        drawn = to(center) + self._spread * (high - low) * self._rng.normal()
        return min(max(back(drawn), dimension.low), dimension.high)

    def sample_independent(self, *args: Any) -> Any:
        """Draw at random."""
        return self._random.sample_independent(*args)
