"""Searchers of Ray Tune that need no package."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from ray.tune.search import Searcher


class NearBestSearcher(Searcher):
    """Suggests its first points, then points near the best one, by the global streams of NumPy and Python.

    Args:
        points_to_evaluate: the points to begin with.
        spread: the part of each range that a suggestion may be away from the best.
    """

    def __init__(self, points_to_evaluate: list[dict[str, Any]] | None = None, spread: float = 0.2) -> None:
        super().__init__()
        self.first, self.spread = points_to_evaluate or [], spread
        self.suggested: dict[str, dict[str, Any]] = {}
        self.results: list[tuple[float, dict[str, Any], dict[str, Any]]] = []

    def set_search_properties(self, metric: str, mode: str, config: dict[str, Any], **spec: Any) -> bool:
        """Keep the space, and which way is better."""
        self.key, self.sign, self.domains = metric, 1 if mode == "min" else -1, config
        return True

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """Return the next point."""
        self.suggested[trial_id] = self.first.pop(0) if self.first else self._draw()
        return self.suggested[trial_id]

    def on_trial_complete(self, trial_id: str, result: Any = None, error: bool = False) -> None:
        """Keep the result."""
        self.results.append((self.sign * result[self.key], self.suggested[trial_id], result))

    def _draw(self) -> dict[str, Any]:
        best = min(self.results, key=lambda one: one[0], default=(0.0, {}, {}))[1]
        return {name: self._near(domain, best.get(name)) for name, domain in self.domains.items()}

    def _near(self, domain: Any, best: Any) -> Any:
        if best is None or hasattr(domain, "categories"):
            return random.choice(domain.categories) if hasattr(domain, "categories") else domain.sample()
        away = self.spread * (domain.upper - domain.lower) * np.random.uniform(-1, 1)
        whole = isinstance(best, int)
        value = min(max(best + away, domain.lower), domain.upper - whole)
        return round(value) if whole else value


class PlainSearcher(Searcher):
    """A searcher that cannot be told where to begin."""


class OwnOrder(NearBestSearcher):
    """A searcher that does not begin with its first points."""

    def suggest(self, trial_id: str) -> dict[str, Any]:
        """Return a point of its own."""
        self.suggested[trial_id] = self._draw()
        return self.suggested[trial_id]
