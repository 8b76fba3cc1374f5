"""States: what a torchmetrics object keeps, as tensors that add up or grow, and back into such an object."""

from __future__ import annotations

import torch
import torchmetrics
from torch import Tensor
from torchmetrics.utilities.data import dim_zero_sum

from ...statistics.kept import SUM, Taken

_SUMS = f"{SUM}states"


def read_states(inner: torchmetrics.Metric, wide: bool) -> Taken:
    """Give its sums as one float64 tensor, and each of its lists as one; wide lists are float64 as well."""
    sums = [getattr(inner, name).double().flatten() for name in _sums_in(inner)]
    lists = {name: getattr(inner, name) for name, kept in inner._defaults.items() if isinstance(kept, list)}
    joined = {f"list {name}": _joined(values) for name, values in lists.items() if values}
    taken = {name: value.double() if wide else value for name, value in joined.items()}
    return {**({_SUMS: torch.cat(sums)} if sums else {}), **taken}


def write_states(inner: torchmetrics.Metric, states: Taken) -> None:
    """Put what `read_states` gave, added up or joined, into an empty object."""
    for name, value in states.items():
        if name.startswith("list "):
            setattr(inner, name.removeprefix("list "), [value])
    names = _sums_in(inner)
    held = [getattr(inner, name) for name in names]
    sums = torch.split(states[_SUMS], [like.numel() for like in held]) if held else ()
    for name, like, value in zip(names, held, sums, strict=True):
        setattr(inner, name, value.reshape(like.shape).to(like.dtype))
    inner._update_count, inner._computed = 1, None


def _sums_in(inner: torchmetrics.Metric) -> list[str]:
    return [
        name
        for name, reduction in inner._reductions.items()
        if reduction is dim_zero_sum and isinstance(getattr(inner, name), Tensor)
    ]


def _joined(values: list[Tensor]) -> Tensor:
    return torch.cat([value if value.ndim else value[None] for value in values])
