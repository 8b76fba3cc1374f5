"""Tensors on the host and on devices, autograd off, and the ranks of the process group.

To read a value costs nothing on the host; on a device the host has to wait for it. A copy between the two
makes it wait as well, unless the copy starts in pinned memory. So a tensor made on the host is sent without
waiting, and a number that the host knows is filled in on the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TypeVar

import torch
from torch import Tensor


def on_host(tensor: Tensor) -> bool:
    """Return whether a value of the tensor can be read without waiting for a device."""
    return tensor.is_cpu


def runs_ahead(device: torch.device | str) -> bool:
    """Return whether the host need not wait for a copy to the device.

    MPS reads the memory of the host when its turn comes, though it may hold something else by then.
    """
    return torch.device(device).type != "mps"


def send_to(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return the tensor on a device, without waiting for the copy; its owner may change the original."""
    device = torch.device(device)
    if device.type == "cpu" or not on_host(tensor):
        return tensor.to(device)
    if device.type == "cuda":  # from memory that torch holds until the copy is done, which nobody writes into
        tensor = torch.empty_like(tensor, pin_memory=True).copy_(tensor)
    return tensor.to(device, non_blocking=runs_ahead(device))


def number(value: float, like: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a number as a 0-d tensor where another tensor is, without a copy from the host."""
    return torch.full((), value, dtype=dtype, device=like.device)


def without_autograd() -> AbstractContextManager[None]:
    """Return a context outside inference mode without gradients; a null context where that is so already.

    >>> with without_autograd():
    ...     torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    (False, False)
    """
    if torch.is_inference_mode_enabled():
        return _outside_inference_mode()
    return torch.no_grad() if torch.is_grad_enabled() else _NOTHING


_NOTHING = nullcontext()


@contextmanager
def _outside_inference_mode() -> Iterator[None]:
    with torch.inference_mode(False), torch.no_grad():
        yield


T = TypeVar("T")


_HAS_RANKS = torch.distributed.is_available()


def world_size() -> int:
    """Return the number of ranks of the default process group; 1 without one."""
    distributed = torch.distributed
    return distributed.get_world_size() if _HAS_RANKS and distributed.is_initialized() else 1


def process() -> int:
    """Return the rank of this process in the default process group; 0 without one."""
    return torch.distributed.get_rank() if world_size() > 1 else 0


def gather_from_ranks(own: T) -> list[T]:
    """Return the values of all ranks in order, by one collective in which every rank must take part."""
    if world_size() == 1:
        return [own]
    parts: list[T | None] = [None] * world_size()
    torch.distributed.all_gather_object(parts, own)
    return [part for part in parts if part is not None]
