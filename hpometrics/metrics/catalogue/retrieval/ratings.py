"""Error metrics of scores that predict ratings."""

from __future__ import annotations

from typing import Any, Literal

from torch import Tensor

from ....direction import MINIMIZE
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import RatingMetric

_AVERAGES = ("user", "pooled")


def _aliases(name: str) -> dict[str, str]:
    spelled = {f"{name}_{average}": f"{name}(average={average})" for average in _AVERAGES}
    return {**spelled, name.upper(): spelled[f"{name}_user"]}  # WarpRec's


class _RatingError(RatingMetric):
    direction = MINIMIZE
    family = "rating"

    def __init__(self, average: Literal["user", "pooled"], **kwargs: Any) -> None:
        super().__init__(average, **kwargs)


@register_metric("mae", [RANKING], aliases=_aliases("mae"))
class RatingMAE(_RatingError):
    """Mean absolute error of scores taken for ratings, over the rated items.

    `average=user` is the mean over users of each user's error, `average=pooled` that over all ratings.

    Value: float from 0, in units of the ratings, 0 is best; nan when nothing rated is ranked.
    Formula: mean over users of the mean of |score - rating|, or the mean over all ratings.
    Deviates: an item whose score is -inf is not a candidate and is left out; WarpRec's is `average=user`.
    Source: Herlocker et al. 2004, ACM TOIS 22(1).

    >>> import torch
    >>> metric = RatingMAE(average="user")
    >>> metric.update(torch.tensor([[4.0, 1.0], [3.0, 5.0]]), torch.tensor([[5, 0], [3, 2]]))
    >>> metric.compute().item()  # the mean of 1 and (0 + 3) / 2
    1.25
    """

    def compute_errors(self, preds: Tensor, target: Tensor) -> Tensor:
        """Return absolute gaps."""
        return (preds - target).abs()


@register_metric("mse", [RANKING], aliases=_aliases("mse"))
class RatingMSE(_RatingError):
    """Mean squared error of scores taken for ratings, over the rated items.

    `average=user` is the mean over users of each user's error, `average=pooled` that over all ratings.

    Value: float from 0, in squared units of the ratings, 0 is best; nan when nothing rated is ranked.
    Formula: mean over users of the mean of (score - rating)^2, or the mean over all ratings.
    Deviates: an item whose score is -inf is not a candidate and is left out; WarpRec's is `average=user`.
    Source: Herlocker et al. 2004, ACM TOIS 22(1).

    >>> import torch
    >>> metric = RatingMSE(average="pooled")
    >>> metric.update(torch.tensor([[4.0, 1.0], [3.0, 5.0]]), torch.tensor([[5, 0], [3, 2]]))
    >>> round(metric.compute().item(), 4)  # (1 + 0 + 9) / 3
    3.3333
    """

    def compute_errors(self, preds: Tensor, target: Tensor) -> Tensor:
        """Square the gaps."""
        return (preds - target).square()


@register_metric("rmse", [RANKING], aliases=_aliases("rmse"))
class RatingRMSE(RatingMSE):
    """Root mean squared error of scores taken for ratings, over the rated items.

    `average=user` takes the root of each user's error, then the mean over users; `average=pooled` the root of
    the mean over all ratings. The two are different numbers.

    Value: float from 0, in units of the ratings, 0 is best; nan when nothing rated is ranked.
    Formula: mean over users of sqrt(mean of (score - rating)^2), or sqrt(mean over all ratings).
    Deviates: an item whose score is -inf is not a candidate and is left out; WarpRec's is `average=user`.
    Source: Herlocker et al. 2004, ACM TOIS 22(1); pooled: Bennett & Lanning 2007, The Netflix Prize, KDD Cup.

    >>> import torch
    >>> metric = RatingRMSE(average="user")
    >>> metric.update(torch.tensor([[4.0, 1.0], [3.0, 5.0]]), torch.tensor([[5, 0], [3, 2]]))
    >>> round(metric.compute().item(), 4)  # the mean of 1 and sqrt(9 / 2)
    1.5607
    """

    def of_user(self, mean: Tensor) -> Tensor:
        """Return the root of a user's error."""
        return mean.sqrt()

    def compute(self) -> Tensor:
        """Return the root of the pooled error."""
        mean = super().compute()
        return mean.sqrt() if self.average == "pooled" else mean
