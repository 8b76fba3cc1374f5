"""Ranks: the processes of the default process group, and what each of them has."""

from __future__ import annotations

from typing import TypeVar

import torch

T = TypeVar("T")


def world_size() -> int:
    """The number of ranks of the default process group; 1 without one."""
    distributed = torch.distributed
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def process() -> int:
    """The rank of this process in the default process group; 0 without one."""
    return torch.distributed.get_rank() if world_size() > 1 else 0


def gathered(own: T) -> list[T]:
    """What every rank has, in the order of ranks, by one collective that each of them must take part in."""
    if world_size() == 1:
        return [own]
    found: list[T | None] = [None] * world_size()
    torch.distributed.all_gather_object(found, own)
    return [one for one in found if one is not None]
