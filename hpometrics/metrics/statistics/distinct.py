"""Distinct n-grams: the set of all n-grams of a corpus, and how many there were."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ..batch import Outputs
from .statistic import Reduction, Statistic
from .text_counts import ngrams, predicted_words


class DistinctNgrams(Statistic):
    """The n-grams of the predicted texts, normalised: each once, and the (weighted) count of all.

    An n-gram of texts that weigh less than 1 together counts as much as they weigh. The state then has these
    n-grams apart, with their weights.

    The set is kept as Python holds it, so that adding costs what the batch has, not what the corpus has; as
    a state it is one tensor of UTF-8, an n-gram a line.

    >>> from hpometrics.metrics.features import Text
    >>> distinct = DistinctNgrams(1)
    >>> distinct.update(Outputs(Text(), predictions=["to be or", "not to be"], target=["", ""]))
    >>> distinct.distinct, distinct.total
    (4, 6.0)
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"ngrams": "own", "total": "own"}
    weighted: ClassVar[bool] = True
    pools_tasks: ClassVar[bool] = True
    grows: ClassVar[bool] = True

    def __init__(self, n: int) -> None:
        super().__init__(n=n)
        self.reset()

    def reset(self) -> None:
        """Forget every row."""
        super().reset()
        self._seen: set[tuple[str, ...]] = set()
        self._light: dict[tuple[str, ...], float] = {}  # those of texts that weigh less than 1, with the sum
        self.total = 0.0
        self._empty = True

    @property
    def empty(self) -> bool:
        """True until the first row."""
        return self._empty

    @property
    def distinct(self) -> float:
        """How many different n-grams there are."""
        light = (min(weight, 1.0) for gram, weight in self._light.items() if gram not in self._seen)
        return len(self._seen) + math.fsum(light) if self._light else len(self._seen)

    def check(self, batch: Outputs) -> None:
        """Read the texts; nothing is added yet, so that they may be refused.

        Raises:
            MetricInputError: they are none.
        """
        predicted_words(batch)

    def update(self, batch: Outputs) -> None:
        """Add one batch; rows of weight 0 add nothing."""
        n, see = self.params["n"], self._seen.update
        weights = [1.0] * len(batch) if batch.weight is None else batch.weight.tolist()
        for text, weight in zip(predicted_words(batch), weights, strict=True):
            if weight:
                found = ngrams(text, n)
                if weight < 1:
                    self._weigh(found, weight)
                else:
                    see(found)
                self.total += weight * len(found)
        self._empty = False

    def _weigh(self, found: Iterable[tuple[str, ...]], weight: float) -> None:
        for gram in found:
            self._light[gram] = self._light.get(gram, 0.0) + weight

    def state(self) -> dict[str, Tensor]:
        """The n-grams as one text and their count; empty before the first row."""
        if self._empty:
            return {}
        total = torch.tensor(self.total, dtype=torch.float64)
        state = {"ngrams": _encoded(sorted(self._seen)), "total": total}
        if self._light:
            weights = torch.tensor([*self._light.values()], dtype=torch.float64)
            state |= {"light": _encoded(self._light), "weights": weights}
        return state

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Replace what was seen by that of a state."""
        self.reset()
        self.merge_state(state)

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Take in what `state()` of another one gave."""
        self._check_state({name: state[name] for name in state if name not in ("light", "weights")})
        if state:
            self._seen.update(_decoded(state["ngrams"]))
            self.total += float(state["total"])
            self._empty = False
        if "light" in state:
            for gram, weight in zip(_decoded(state["light"]), state["weights"].tolist(), strict=True):
                self._weigh([gram], weight)

    def to(self, device: torch.device | str) -> None:
        """Stay: texts are on no device."""


def _encoded(grams: Iterable[tuple[str, ...]]) -> Tensor:
    lines = "\n".join(map(" ".join, grams))
    return torch.from_numpy(np.frombuffer(lines.encode("utf8", "surrogatepass"), np.uint8).copy())


def _decoded(encoded: Tensor) -> Iterator[tuple[str, ...]]:
    lines = encoded.cpu().numpy().tobytes().decode("utf8", "surrogatepass")
    return (tuple(line.split(" ")) for line in lines.split("\n") if line)
