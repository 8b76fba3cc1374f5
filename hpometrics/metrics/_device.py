"""Where tensors are: on the host, where reading a value costs nothing, or on a device, where it is a wait.

A copy between the two is a wait as well, unless it starts in pinned memory and nobody asks for its end: so
what is made on the host is sent, and a number that the host knows is filled in where it is wanted.
"""

from __future__ import annotations

import torch
from torch import Tensor


def on_host(tensor: Tensor) -> bool:
    """Whether a value of the tensor can be read without waiting for a device."""
    return tensor.is_cpu


def runs_ahead(device: torch.device | str) -> bool:
    """Whether the host need not wait for a copy to the device.

    MPS reads the memory of the host when its turn comes, though it may hold something else by then.
    """
    return torch.device(device).type != "mps"


def sent(tensor: Tensor, device: torch.device | str) -> Tensor:
    """Return the tensor on a device, without waiting for a copy of the host's, which its owner may change."""
    device = torch.device(device)
    if device.type == "cpu" or not on_host(tensor):
        return tensor.to(device)
    if device.type == "cuda":  # from memory that torch holds until the copy is done, which nobody writes into
        tensor = torch.empty_like(tensor, pin_memory=True).copy_(tensor)
    return tensor.to(device, non_blocking=runs_ahead(device))


def number(value: float, like: Tensor, dtype: torch.dtype) -> Tensor:
    """Return a number as a 0-d tensor where another tensor is, without a copy from the host."""
    return torch.full((), value, dtype=dtype, device=like.device)
