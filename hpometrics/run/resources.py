"""Resources: what an epoch took of the clock and of memory."""

from __future__ import annotations

import sys
import time

import torch

try:
    import resource
except ImportError:  # there is none on Windows
    resource = None  # type: ignore[assignment]

_MIB = 2**20
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 2**10  # bytes there, KiB elsewhere


class Resources:
    """Measures epochs, one after the other."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin an epoch; the peak of the GPU memory is that of this epoch, so `torch`'s own is reset."""
        self._began = time.perf_counter()
        for device in _gpus_in_use():
            torch.cuda.reset_peak_memory_stats(device)

    def close(self) -> dict[str, float]:
        """Return this epoch's values and begin the next one.

        `epoch_time` in seconds; `peak_rss`, of the process since it began, in MiB, where the system tells;
        `gpu_mem`, peak of what torch had allocated as a share of the GPUs it has used, where it has used any.
        """
        values = {"epoch_time": time.perf_counter() - self._began}
        if resource is not None:
            values["peak_rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT / _MIB
        if gpus := _gpus_in_use():
            total = sum(torch.cuda.get_device_properties(gpu).total_memory for gpu in gpus)
            values["gpu_mem"] = sum(torch.cuda.max_memory_allocated(gpu) for gpu in gpus) / total
        self.restart()
        return values


def _gpus_in_use() -> list[int]:
    """Those that torch has allocated memory on; to ask must not start CUDA in a run that does not use it."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return []
    return [gpu for gpu in range(torch.cuda.device_count()) if torch.cuda.max_memory_allocated(gpu)]
