"""Random sample batches of any output feature, with a chosen share of wrong answers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import torch
from torch import Tensor

from ..exceptions import MetricInputError
from .catalogue._batches import (
    Batch as Batch,
    Recipe,
    confident_logits,
    draw_answers,
    normal,
    shape_of,
    uniform,
)
from .features import (
    AUDIO,
    BINARY,
    CATEGORY,
    CLUSTERS,
    IMAGE,
    MASK,
    NUMBER,
    RANKING,
    SEQUENCE,
    SET,
    TEXT,
    TIMESERIES,
    VECTOR,
    Category,
    Mask,
    OutputFeature,
    Ranking,
    Sequence,
    Set,
    Text,
    Timeseries,
    Vector,
)
from .metric import Metric

Draw = Callable[[OutputFeature, int, float, int], Batch]

_ITEMS, _USERS = 20, 1000
_ORDINARY_NOISE = 0.3


def _rankings() -> Ranking:
    """Return a small catalog: item 0 is the most popular, and each user has seen one of the first three."""
    popularity = 1000 / torch.arange(1, _ITEMS + 1, dtype=torch.float64)
    return Ranking(
        num_items=_ITEMS,
        seen=[[user % 3] for user in range(_USERS)],
        item_popularity=popularity.round(),
        item_groups=(torch.arange(_ITEMS) >= 6).long(),
        user_groups=torch.arange(_USERS) % 2,
        item_features=torch.nn.functional.one_hot(torch.arange(_ITEMS) % 7),
        propensity=(popularity / popularity.max()).sqrt(),
    )


OUTPUTS: Mapping[str, OutputFeature] = {
    CATEGORY: Category(4),
    SET: Set(3),
    VECTOR: Vector(3),
    TIMESERIES: Timeseries(5),
    SEQUENCE: Sequence(7),
    TEXT: Text(7),
    MASK: Mask(4),
    RANKING: _rankings(),
}
"""The output for which the laws draw batches of a feature type; without facts if it is not listed."""


def draw(output: OutputFeature, rows: int, noise: float = 0.3, seed: int = 0) -> Batch:
    """Draw a batch of a confident model whose answers are right, but for a random share `noise` of them.

    Returns:
        Keyword arguments for `update`: `logits` if the feature has any, else `predictions`, and `target`.

    Raises:
        MetricInputError: the feature has no recipe; pass a `draw` to `Subject`.
    """
    recipe = _RECIPES.get(output.type)
    if recipe is None:
        raise MetricInputError(
            f"no batch can be drawn for a {output.type} output; pass your own Subject(..., draw=)"
        )
    return recipe(output, rows, noise, torch.Generator().manual_seed(seed))


def draw_of(cls: type[Metric]) -> Draw:
    """Return the function that draws batches for a metric: its own `draw_batch`, or the usual `draw`."""
    own = getattr(cls, "draw_batch", None)
    return draw if own is None else _seeded(own)


@cache
def _seeded(own: Recipe) -> Draw:
    """Return one function for all metrics that share a method, which then draw equal batches."""

    def draw_seeded(output: OutputFeature, rows: int, noise: float = 0.3, seed: int = 0) -> Batch:
        return own(output, rows, noise, torch.Generator().manual_seed(seed))

    return draw_seeded


def size_of(batch: Batch) -> int:
    """Return the number of rows of a batch."""
    return len(batch["target"])


def rows_of(batch: Batch, index: slice | Tensor) -> Batch:
    """Return some rows of a batch: of its tensors and of its lists."""
    return {name: _entries(value, index) for name, value in batch.items()}


def _entries(value: Any, index: slice | Tensor) -> Any:
    if isinstance(value, Tensor) or (isinstance(value, list) and isinstance(index, slice)):
        return value[index]
    return [value[i] for i in index.tolist()] if isinstance(value, list) else value  # type: ignore[union-attr]  # a tensor


def cut(batch: Batch, sizes: Iterable[int]) -> list[Batch]:
    """Split a batch into consecutive batches of these sizes."""
    ends = [0, *itertools.accumulate(sizes)]
    return [rows_of(batch, slice(start, end)) for start, end in itertools.pairwise(ends)]


def _yes_or_no(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Draw an answer for each row, or for each label of a row."""
    labels = getattr(output, "num_labels", None) or 3
    shape = (rows, labels) if output.type == SET else (rows,)
    target = (uniform(shape, random) < 0.4).long()
    guess = (uniform(shape, random) < 0.5).long()
    answer = torch.where(uniform(shape, random) < noise, guess, target)
    return {"logits": (2 * answer - 1) * (4 + 4 * uniform(shape, random)), "target": target}


def _category(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    return _one_of(getattr(output, "num_classes", None) or 4, (rows,), noise, random)


def _sequence(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    batch = _one_of(getattr(output, "vocab_size", None) or 7, (rows, 5), noise, random)
    length = torch.randint(1, 6, (rows, 1), generator=random)
    padding = torch.arange(5) >= length
    return {**batch, "target": batch["target"].masked_fill(padding, getattr(output, "ignore_index", -100))}


def _one_of(classes: int, shape: tuple[int, ...], noise: float, random: torch.Generator) -> Batch:
    target, answer = draw_answers(classes, shape, noise, random)
    return {"logits": confident_logits(answer, classes, random), "target": target}


def _values(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Draw positive values around 200, whose squared errors do not fit into half precision."""
    shape = shape_of(output, rows)
    target, guess = 100 + 200 * uniform((2, *shape), random)
    return {"predictions": torch.where(uniform(shape, random) < noise, guess, target), "target": target}


def _mask(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Draw pictures of 6 x 5 pixels, in blocks of two rows of pixels."""
    classes = getattr(output, "num_classes", None) or 4
    target = torch.randint(classes, (rows, 3, 5), generator=random).repeat_interleave(2, 1)
    guess = torch.randint(classes, (rows, 6, 5), generator=random)
    answer = torch.where(uniform(target.shape, random) < noise, guess, target)
    logits = 0.5 * normal((rows, classes, 6, 5), random)
    one_hot = torch.nn.functional.one_hot(answer, classes).movedim(-1, 1)
    return {"logits": logits + 8 * one_hot, "target": target}


def _clusters(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Draw groups, with the groups of the target under other numbers."""
    target, answer = draw_answers(4, (rows,), noise, random)
    return {"predictions": torch.tensor([7, -3, 10**12, 0])[answer], "target": target}


def _ranking(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    """Draw up to three relevant items per user, popular or not; a wrong answer recommends popular items.

    Wrong answers are more frequent for users of odd number. Scores are multiples of 1/64, which are exact in
    half precision.
    """
    users = torch.arange(rows) % _USERS
    grades = torch.randint(1, 4, (rows, 3), generator=random)
    places = 3 + torch.stack([torch.randperm(_ITEMS - 3, generator=random)[:3] for _ in range(rows)])
    target = torch.zeros(rows, _ITEMS, dtype=torch.int64).scatter_(1, places, grades)
    order = torch.stack([torch.randperm(_ITEMS, generator=random) for _ in range(rows)]) / 64
    popular = (_ITEMS - torch.arange(_ITEMS)) / 8 + order / 4
    wrong = uniform((rows, 1), random) < noise * torch.where(users % 2 == 1, 1.0, 0.5).unsqueeze(1)
    return {"logits": torch.where(wrong, popular, target + order), "target": target, "users": users}


_RECIPES: Mapping[str, Recipe] = {
    BINARY: _yes_or_no,
    CATEGORY: _category,
    SET: _yes_or_no,
    NUMBER: _values,
    VECTOR: _values,
    TIMESERIES: _values,
    SEQUENCE: _sequence,
    TEXT: _sequence,
    MASK: _mask,
    CLUSTERS: _clusters,
    RANKING: _ranking,
}

ORDINARY: Mapping[str, OutputFeature] = {**OUTPUTS, RANKING: Ranking()}
"""The outputs of ordinary batches: those of the laws, but a ranking without side data."""


def ordinary(output: OutputFeature, rows: int, seed: int = 0) -> Batch:
    """Draw a batch that is made for no metric in particular: no extras, and numbers of either sign.

    A text has both its forms: token ids, and beside them the texts and the references.

    Raises:
        MetricInputError: there is no recipe for the feature.
    """
    if output.type in _ORDINARY:
        return _ORDINARY[output.type](rows, torch.Generator().manual_seed(seed))
    batch = draw(output, rows, _ORDINARY_NOISE, seed)
    if output.type in (NUMBER, VECTOR, TIMESERIES):
        return {name: values - 200 for name, values in batch.items()}
    if output.type == TEXT:
        ignored: int = output.ignore_index  # type: ignore[attr-defined]  # a text has one
        texts = {"texts": batch["logits"].argmax(-1), "references": batch["target"]}
        return batch | {name: _spell(tokens, ignored) for name, tokens in texts.items()}
    return batch


def _spell(tokens: Tensor, ignored: int) -> list[str]:
    return [" ".join(f"w{token}" for token in row if token != ignored) for row in tokens.tolist()]


def _pictures(rows: int, random: torch.Generator) -> Batch:
    return _mixed(*uniform((2, rows, 3, 48, 48), random))


def _sounds(rows: int, random: torch.Generator) -> Batch:
    """Draw sounds of one speaker, centered."""
    return _mixed(*(2 * uniform((2, rows, 800), random) - 1))


def _plain_rankings(rows: int, random: torch.Generator) -> Batch:
    target = (torch.rand(rows, 12, generator=random) < 0.3).long()
    return {"logits": target + normal((rows, 12), random), "target": target}


def _mixed(target: Tensor, wrong: Tensor) -> Batch:
    return {"predictions": torch.lerp(target, wrong, _ORDINARY_NOISE), "target": target}


_ORDINARY: Mapping[str, Callable[[int, torch.Generator], Batch]] = {
    IMAGE: _pictures,
    AUDIO: _sounds,
    RANKING: _plain_rankings,
}
