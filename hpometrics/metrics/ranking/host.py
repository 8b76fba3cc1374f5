"""Where tensors are: on the host, where reading a value costs nothing, or on a device, where it is a wait."""

from __future__ import annotations

from torch import Tensor


def on_host(tensor: Tensor) -> bool:
    """Whether a value of the tensor can be read without waiting for a device."""
    return tensor.device.type == "cpu"
