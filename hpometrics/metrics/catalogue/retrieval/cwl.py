"""Ranking metrics of readers who may stop at any rank (C/W/L): the average worth of the items looked at.

A reader begins at the first rank and continues from each rank with some chance, C. L, the product of C over
all ranks before, is the chance that an item is looked at. An item is worth g. The value is the mean worth of
the items looked at: the sum over ranks of L g over the sum of L.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ...retrieval.lists import Cut, earlier
from ._table import RowMetric, list_metric


class CWLMetric(RowMetric):
    """A metric of one kind of reader, who looks for items as far as k, whether there are as many or not.

    An item of grade r is worth (r - min_rel) / (max_rel - min_rel), from 0 to 1, which is also the worth of a
    grade above max_rel. The chance L is the patience
    for a place, times the chance that no item before it has stopped the reader. A reader is a `patience`,
    its `rest` for lists without end, and `stops`; or a `looked_at` and an `endless` of its own.

    Shape: scores, target (users, items), grades from 0.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item.
    """

    direction = MAXIMIZE
    family = "readers"
    stops: ClassVar[bool] = False  # whether an item stops the reader, with a chance that is its worth
    least_goal: ClassVar[float] = 0.0  # T, how much a reader wants, lies above it
    min_rel, max_rel, T, p = 0, 1, 1.0, 0.9
    patience: Callable[[Tensor], Tensor]  # returns the chance to get to a place if no item stops; 0 at inf

    def rules(self) -> Iterable[tuple[bool, str]]:
        """Return those of the scale of grades, of T and of p."""
        low, high, goal = self.min_rel, self.max_rel, self.least_goal
        yield (
            0 <= low < high,
            f"min_rel must be a grade of at least 0 and max_rel a higher grade, got {low!r} and {high!r}",
        )
        yield goal < self.T < float("inf"), f"T must be a number above {goal:g}, got {self.T!r}"
        yield 0 < self.p < 1, f"p must be a probability between 0 and 1, both excluded, got {self.p!r}"

    def values(self, cut: Cut) -> Tensor:
        """Divide what items are worth by how many are looked at."""
        places, grades = cut.lists.places, cut.lists.grades.double()
        worth = (grades.clamp(self.min_rel, self.max_rel) - self.min_rel) / (self.max_rel - self.min_rel)
        looked_at = self.looked_at(places, worth)
        items = self.endless(places, worth) if cut.lists.endless else cut.sum(looked_at)
        return cut.sum(looked_at * worth) / items

    def looked_at(self, places: Tensor, worth: Tensor) -> Tensor:
        """Return the chance that the item at each place is looked at, (rows, depth) float64; 0 at inf."""
        return self.patience(places) * self._survival(worth)

    def endless(self, places: Tensor, worth: Tensor) -> Tensor:
        """Return how many items are looked at in a list without end, (rows, 1)."""
        stopped = self._survival(worth) * (worth * self.stops)  # behind such an item, patience is lost
        lost = (stopped * self.rest(places + 1)).sum(1, keepdim=True)
        return self.rest(places.new_ones(1, 1)) - lost

    def rest(self, places: Tensor) -> Tensor:
        """Return the sum of the patience for a place and all behind it; 0 at inf."""
        raise NotImplementedError(f"{type(self).__name__} has no value without k")

    def _survival(self, worth: Tensor) -> Tensor:
        """Return the chance that no item before each place has stopped the reader, (rows, depth)."""
        return earlier((1 - worth * self.stops).cumprod(1), 1.0)


def trigamma(x: Tensor) -> Tensor:
    """Return the sum of 1 / (x + n)^2 for n from 0 on; 0 at inf."""
    total: Tensor = torch.special.polygamma(1, x)
    return total


def _adaptive_scale(self: CWLMetric, places: Tensor, worth: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the scale at and behind each place and a there, all (rows, depth), for `inst`.

    Between two finds all factors of L but two cancel: at rank i it is scale / (i + a - 1)^2.
    """
    own, first = 2 * self.T - worth.cumsum(1), 4 * self.T**2
    change = ((places - 1 + own) / (places - 1 + own + worth)).square()
    scale = first * torch.where(places < torch.inf, change, 1.0).cumprod(1)
    return earlier(scale, first), scale, own


def _adaptive(self: CWLMetric, places: Tensor, worth: Tensor) -> Tensor:
    scale, _, own = _adaptive_scale(self, places, worth)
    return scale / (places - 1 + own + worth).square()


def _adaptive_endless(self: CWLMetric, places: Tensor, worth: Tensor) -> Tensor:
    """Add up these inverse squares, by the trigamma function, from each find to the next."""
    before, behind, own = _adaptive_scale(self, places, worth)
    after, until = behind * trigamma(places + own), before * trigamma(places + own + worth)
    changes = (after - until).sum(1, keepdim=True)
    return 4 * self.T**2 * trigamma(places.new_full((1, 1), 2 * self.T)) + changes


_SCALE = {"min_rel": 0, "max_rel": int}
_GOAL: dict[str, Any] = {  # C is ((i + 2T - 1) / (i + 2T))^2: in a product all factors but two cancel
    "params": {"k": None, "T": 1.0, **_SCALE},
    "patience": lambda self, rank: (2 * self.T / (rank + 2 * self.T - 1)).square(),
    "rest": lambda self, rank: trigamma(rank + 2 * self.T - 1) * (4 * self.T**2),
}
_LIST = "mean over users of the sum of g L over the first k, divided by the sum of L"
_RANKS = "mean over users of the sum of g L over ranks, divided by the sum of L"
_WORTH = "g is (grade - min_rel) / (max_rel - min_rel), from 0 to 1"
_STOPS = f"the product of 1 - g over all ranks before; {_WORTH}"
_BOUNDS = "min_rel is below 0, or max_rel is not above it."
_ENDS = "cwl_eval, which ir_measures asks, ends every list at rank 1000, which is"
_NERR = "Azzopardi, Mackenzie & Moffat 2021, ICTIR, equation"
_FIRST = "torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]])"
_SECOND = "torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1, 0]])"
_BOTH = "torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]])"
_reader = partial(list_metric, CWLMetric)

READERS = (
    _reader("sdcg", "ScaledDCG",
        "Discounted gain of the first k items over that of k items of the highest grade, averaged over "
        "users.\n\nUnlike `ndcg`, it ignores how many items are relevant: a user with few cannot reach 1.",
        "mean over users of the sum of g / log2(rank + 1) over the first k, divided by the sum of "
        f"1 / log2(rank + 1); {_WORTH}",
        "Jarvelin & Kekalainen 2002, ACM TOIS 20(4); scaled: Azzopardi, Thomas & Moffat 2019, SIGIR.",
        ("0.3869", "(1 / log2(3)) / (1 + 1 / log2(3))", "k=2, max_rel=1", _SECOND),
        deviates='ir_measures counts users without a relevant item as 0, as `Ranking(empty="neg")`.',
        aliases=["SDCG"], params={"k": int, **_SCALE}, raises=_BOUNDS,
        patience=lambda self, rank: 1 / (rank + 1).log2()),
    _reader("insq", "InverseSquares",
        "Worth of an item to a reader who wants T of them and loses patience with the square of the rank."
        "\n\nWithout k, of a list without end; averaged over users.",
        f"{_RANKS} = (2T / (rank + 2T - 1))^2; {_WORTH}", "Moffat, Scholer & Thomas 2012, ADCS.",
        ("0.6923", "1 / (1 + (2 / 3)**2)", "k=2, max_rel=1", _FIRST), aliases={"INSQ": "insq@1000"},
        deviates=f"{_ENDS} `insq@1000`.", raises=f"T is not above 0, {_BOUNDS}", **_GOAL),
    _reader("nerr8", "NearlyERR8",
        "Worth of an item to a reader whom each stops as often as it is worth, at rank k at the latest."
        "\n\nA relative of `err`, averaged over users.", f"{_LIST}, {_STOPS}", f"{_NERR} 8.",
        ("0.375", "(0.5 + 0.5 * 0.5) / (1 + 0.5 + 0.5)", "k=3, max_rel=2", _BOTH), aliases=["NERR8"],
        params={"k": int, **_SCALE}, raises=_BOUNDS, stops=True, patience=lambda self, rank: rank**0),
    _reader("nerr9", "NearlyERR9", "`nerr8` of a reader who also loses patience, as 1 / rank.",
        f"{_LIST}, 1 / rank times {_STOPS}", f"{_NERR} 9.",
        ("0.4118", "(0.5 + 0.5 * 0.5 / 3) / (1 + 0.5 / 2 + 0.5 / 3)", "k=3, max_rel=2", _BOTH),
        aliases=["NERR9"], params={"k": int, **_SCALE}, raises=_BOUNDS, stops=True,
        patience=lambda self, rank: 1 / rank),
    _reader("nerr10", "NearlyERR10",
        "`nerr8` of a reader who also goes on with chance p at most; without k, in a list without end.",
        f"{_RANKS}, p^(rank - 1) times {_STOPS}", f"{_NERR} 10.",
        ("0.3333", "0.5 / (1 + 0.5 * (0.5 + 0.25 + 0.125 + ...))", "p=0.5, max_rel=2", _FIRST),
        deviates=f"{_ENDS} `nerr10@1000`.", aliases={"NERR10": "nerr10@1000"},
        params={"k": None, "p": 0.9, **_SCALE}, raises=f"p does not lie between 0 and 1, {_BOUNDS}",
        stops=True, patience=lambda self, rank: self.p ** (rank - 1),
        rest=lambda self, rank: self.p ** (rank - 1) / (1 - self.p)),
    _reader("nerr11", "NearlyERR11",
        "`nerr8` of a reader who also loses patience as for `insq`; without k, in a list without end.",
        f"{_RANKS}, (2T / (rank + 2T - 1))^2 times {_STOPS}", f"{_NERR} 11.",
        ("0.4091", "0.5 / (1 + 0.5 * (2 / 3)**2)", "k=2, max_rel=2", _FIRST), stops=True,
        aliases={"NERR11": "nerr11@1000"}, deviates=f"{_ENDS} `nerr11@1000`.",
        raises=f"T is not above 0, {_BOUNDS}", **_GOAL),
    _reader("bpm", "BejeweledPlayerModel",
        "Worth of an item to a reader who stops once T is found, at rank k at the latest, mean over users.",
        "mean over users of the sum of g over the first n items, divided by n, which is the rank where the "
        f"sum of g reaches T, and k where it does not; {_WORTH}", "Zhang et al. 2017, SIGIR.",
        ("0.5", "found at the second rank", "k=3, max_rel=1", _SECOND),
        deviates="this is the static model of the paper; T and k of the dynamic one change with each item.",
        aliases=["BPM"], params={"k": int, "T": 1.0, **_SCALE}, raises=f"T is not above 0, {_BOUNDS}",
        looked_at=lambda self, _, worth: (earlier(worth.cumsum(1), 0.0) < self.T).double()),
    _reader("inst", "GoalAdaptive",
        "Worth of an item to a reader who wants T, and loses patience with every rank and every find.\n"
        "\nWithout k, of a list without end; averaged over users.",
        f"{_RANKS}, the product over all ranks before of ((rank + a - 1) / (rank + a))^2, where a is 2T less "
        f"the sum of g up to that rank; {_WORTH}", "Moffat, Bailey, Scholer & Thomas 2015, ADCS.",
        ("0.8", "1 / (1 + ((1 + 1 - 1) / (1 + 1))**2)", "k=2, max_rel=1", _FIRST), params=_GOAL["params"],
        deviates=f"{_ENDS} `inst@1000`.", aliases={"INST": "inst@1000"}, least_goal=0.5,
        raises=f"T is not above 0.5, below which chances would exceed 1; {_BOUNDS}",
        looked_at=_adaptive, endless=_adaptive_endless),
)  # fmt: skip
globals().update({cls.__name__: cls for cls in READERS})  # each class is an attribute of this module
