"""Ranking metrics that combine several others into one number for each user."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricNameError
from ..._device import send_to
from ...features import RANKING
from ...registry.lookup import find_metric
from ...registry.names import MetricName, split_names
from ...registry.register import get_metric, register_metric
from ...retrieval.base import ListMetric
from ...retrieval.ranking_batch import RankingBatch


class Composite(ListMetric):
    """A metric that combines the values of other metrics for each user; a subclass defines `combine`.

    Its parts measure the same lists at the same k and keep nothing. It keeps the state itself, so it resets,
    moves and merges as any other metric. A user to whom a part gives no value has none.

    Args:
        k: the length of lists.
        parts: names of metrics over lists, without their k.

    Raises:
        MetricNameError: a part has a k of its own, or gives no value to each user.
    """

    family = "composite"
    void = "no user has a value for every part"

    def __init__(self, k: int, parts: Sequence[str], **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        if not parts:
            raise MetricNameError(f"{type(self).__name__} combines metrics, got none")
        self._parts = tuple(_part(name, k) for name in parts)

    def combine(self, values: Tensor) -> Tensor:
        """Combine the values of the parts, (parts, users, cut-offs), to one each, (users, cut-offs)."""
        raise NotImplementedError(f"{type(self).__name__} needs combine(values)")

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor:
        """Combine the values of the parts for each user of a batch, at several cut-offs."""
        for part in self._parts:
            part.output = self.output
        values = (part.of_batch(batch, cutoffs) for part in self._parts)
        return self.combine(torch.stack([one[0] if isinstance(one, tuple) else one for one in values]))


def _per_part(numbers: Sequence[float], values: Tensor) -> Tensor:
    """Return a tensor of a number for each part, to be combined with values (parts, users, cut-offs)."""
    return send_to(torch.tensor(numbers, dtype=values.dtype), values.device).view(-1, 1, 1)


def _part(name: str, k: int) -> ListMetric:
    parsed = MetricName.parse(name)
    if parsed.k is not None:
        raise MetricNameError(f"{name}: the parts use the k of the whole; leave out @{parsed.k}")
    canonical = find_metric(MetricName(parsed.metric, parsed.params, k), RANKING).name
    part = get_metric(canonical, RANKING)
    if not isinstance(part, ListMetric):
        raise MetricNameError(
            f"{name} has no value per user and list; combine metrics that have one, such as precision, "
            "recall, ndcg"
        )
    return part


def _numbers(text: str, name: str, metrics: Sequence[str]) -> tuple[float, ...]:
    """Parse comma separated numbers, one for each metric."""
    try:
        numbers = tuple(float(word) for word in text.split(","))
    except ValueError as err:
        raise MetricNameError(f'{name} must be numbers, as in {name}="1, 0"; got {text!r}') from err
    if len(numbers) != len(metrics):
        raise MetricNameError(
            f"{name} needs one number for each of {', '.join(metrics)}, {len(metrics)} in total; got {text!r}"
        )
    return numbers


@register_metric("f_score", [RANKING])
class RankingFScore(Composite):
    """Weighted harmonic mean of two metrics for each user, averaged over users.

    Args:
        k: the length of lists.
        a: one metric over lists, by name without its k.
        b: the other one, which counts `beta` times as much.
        beta: how much more.

    Shape: scores, target (users, items).
    Value: float in [0, 1] if a and b are, 1 is best; nan when no user has a value of both.
    Formula: mean over users of (1 + beta^2) a b / (beta^2 a + b), 0 where both are 0.
    Deviates: it is not the harmonic mean of the two means; WarpRec's carries values over from epoch to epoch.
    Source: van Rijsbergen 1979, Information Retrieval.

    >>> metric = RankingFScore(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> round(metric.compute().item(), 4)  # 2 * 1/2 * 1 / (1/2 + 1)
    0.6667
    """

    direction = MAXIMIZE

    def __init__(
        self, k: int, a: str = "precision", b: str = "recall", beta: float = 1.0, **kwargs: Any
    ) -> None:
        super().__init__(k, (a, b), **kwargs)
        self.a, self.b, self.beta = a, b, beta
        for part in self._parts:
            if part.direction is not MAXIMIZE:
                raise MetricNameError(
                    f"f_score needs metrics with higher-is-better values, got {part.formula}"
                )

    def combine(self, values: Tensor) -> Tensor:
        """Compute the harmonic mean."""
        a, b = values
        weight = self.beta**2
        mean = (1 + weight) * a * b / (weight * a + b)
        return torch.where((a == 0) & (b == 0), 0.0, mean)


@register_metric("euc_distance", [RANKING], aliases=["EucDistance"])
class EuclideanDistance(Composite):
    """Distance of several metrics from a point where all of them are as good as can be, averaged over users.

    Args:
        k: the length of lists.
        metrics: names of metrics over lists without their k, `"ndcg, recall(capped=true)"`.
        utopia: the best value of each, `"1, 1"`.

    Shape: scores, target (users, items).
    Value: float from 0, no unit, 0 is best; nan when no user has a value of all metrics.
    Formula: mean over users of sqrt(sum over metrics of (value - utopia)^2).
    Deviates: WarpRec also takes metrics that are one number for all users; these are users' values alone.
    Source: Paparella et al. 2023, Post-hoc Selection of Pareto-Optimal Solutions in Search and
        Recommendation, CIKM.

    >>> metric = EuclideanDistance(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute().item()  # precision 1/2, recall 1
    0.5
    """

    direction = MINIMIZE

    def __init__(
        self, k: int, metrics: str = "precision, recall", utopia: str = "1, 1", **kwargs: Any
    ) -> None:
        names = split_names(metrics)
        super().__init__(k, names, **kwargs)
        self.metrics, self.utopia = metrics, utopia
        self._utopia = _numbers(utopia, "utopia", names)

    def combine(self, values: Tensor) -> Tensor:
        """Measure the distance."""
        return (values - _per_part(self._utopia, values)).square().sum(0).sqrt()


@register_metric("hypervolume", [RANKING], aliases=["Hypervolume"])
class Hypervolume(Composite):
    """Product of how far several metrics are beyond a point that would not do, averaged over users.

    It is the volume of one box, that between the nadir and the model. It is not the hypervolume of a Pareto
    front, which is a property of several models together.

    Args:
        k: the length of lists.
        metrics: names of metrics over lists without their k, `"ndcg, recall(capped=true)"`; each knows which
            way is better.
        nadir: the worst acceptable value of each, `"0, 0"`.

    Shape: scores, target (users, items).
    Value: float from 0, more is better; nan when no user has a value of all metrics.
    Formula: mean over users of the product over metrics of max(0, value - nadir), of a metric that is
        minimized max(0, nadir - value).
    Deviates: WarpRec also takes metrics that are one number for all users, and has directions typed in.
    Source: Zitzler, Brockhoff & Thiele 2007, The Hypervolume Indicator Revisited, EMO; Paparella et al. 2023,
        CIKM.

    >>> metric = Hypervolume(k=2, nadir="0.25, 0")
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute().item()  # (1/2 - 1/4) * 1
    0.25
    """

    direction = MAXIMIZE

    def __init__(
        self, k: int, metrics: str = "precision, recall", nadir: str = "0, 0", **kwargs: Any
    ) -> None:
        names = split_names(metrics)
        super().__init__(k, names, **kwargs)
        self.metrics, self.nadir = metrics, nadir
        self._nadir = _numbers(nadir, "nadir", names)
        if undirected := [part.formula for part in self._parts if part.direction is None]:
            raise MetricNameError(f"hypervolume needs metrics with a direction, got {', '.join(undirected)}")

    def combine(self, values: Tensor) -> Tensor:
        """Multiply what each metric is beyond its nadir."""
        signs = [1.0 if part.direction is MAXIMIZE else -1.0 for part in self._parts]
        beyond = values - _per_part(self._nadir, values)
        return (beyond * _per_part(signs, values)).clamp(min=0).prod(0)
