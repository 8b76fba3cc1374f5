"""A sampler that draws near the best trial of the study."""

from __future__ import annotations

from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution, FloatDistribution
from optuna.samplers import BaseSampler, RandomSampler

from ._spread import SPREAD


class NearBest(BaseSampler):
    """Numbers are drawn near those of the trial with the least first value, all else at random."""

    def __init__(self, spread: float = SPREAD, seed: int | None = None) -> None:
        self._spread, self._rng, self._random = spread, np.random.RandomState(seed), RandomSampler(seed)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: optuna.trial.FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Return the numbers that all trials have."""
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
        best: Any = min(ended, key=lambda one: one.values[0]).params
        return {
            name: float(np.clip(best[name] + self._spread * self._rng.normal(), one.low, one.high))
            for name, one in search_space.items()
            if isinstance(one, FloatDistribution)
        }

    def sample_independent(self, *args: Any) -> Any:
        """Draw at random."""
        return self._random.sample_independent(*args)
