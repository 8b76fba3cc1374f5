"""A dimension as a Ray Tune domain: ints inclusive, steps counted from low, bundles by label."""

from __future__ import annotations

from typing import Any

from ray import tune

from .dimensions import Choice, Dimension, Float, Int


def ray_domain(dimension: Dimension) -> Any:
    """Return the Ray Tune domain of a dimension's stored form; a constant is itself.

    Ray counts its quantized domains from zero, so what has a step becomes a choice of its points.
    """
    if isinstance(dimension, Choice):
        return tune.choice(list(dimension.options))
    if isinstance(dimension, Float) and dimension.step is None:
        return (tune.loguniform if dimension.log else tune.uniform)(dimension.low, dimension.high)
    if isinstance(dimension, Int) and dimension.step == 1:
        return (tune.lograndint if dimension.log else tune.randint)(dimension.low, dimension.high + 1)
    if isinstance(dimension, (Float, Int)):
        return tune.choice(list(dimension.points()))
    return dimension.value
