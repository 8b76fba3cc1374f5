"""The GPUs of a machine divided among workers, by the variable that CUDA and ROCm read when they start."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise, takewhile
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator

from ..exceptions import ConfigError
from .fields import wrong

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""The variable of the environment that names the GPUs of a process."""


def _check_form(value: Any) -> Any:
    if value in ("auto", "all"):
        return value
    if not isinstance(value, list) or not value:
        raise wrong(f"wants auto, all, or a list of GPUs such as [0, 1], got {value!r}")
    for one in value:
        number = isinstance(one, int) and not isinstance(one, bool) and one >= 0
        if not number and not (isinstance(one, str) and one.startswith(("GPU-", "MIG-")) and "," not in one):
            raise wrong(f"{one!r} is not a GPU; write its number, or its id as nvidia-smi -L prints it")
    if len(set(map(str, value))) < len(value):
        raise wrong(f"{value} names a GPU twice; workers share one where they are more than the GPUs")
    return value


_GpusShape = Literal["auto", "all"] | list[int | str]
GpusForm = Annotated[
    Literal["auto", "all"] | list[int | str], BeforeValidator(_check_form, json_schema_input_type=_GpusShape)
]


def gpu_shares(gpus: str | Sequence[int | str], workers: int) -> list[str] | None:
    """Divide GPUs among workers: return the value of `CUDA_VISIBLE_DEVICES` for each.

    The numbers of GPUs of two workers differ by one at most. If there are more workers than GPUs, the workers
    share them in turn.

    Args:
        gpus: `auto` for those that this process sees, `all`, or a list of GPUs.
        workers: the number of workers, at least 1.

    Returns:
        A text for each worker; None where every worker sees the GPUs that this process sees.
    """
    if gpus == "all" or (gpus == "auto" and workers == 1):
        return None
    names = _visible_gpus() if gpus == "auto" else list(map(str, gpus))
    if not names:
        return None
    if len(names) <= workers:
        return [names[worker % len(names)] for worker in range(workers)]
    ends = [worker * len(names) // workers for worker in range(workers + 1)]
    return [",".join(names[first:last]) for first, last in pairwise(ends)]


def check_gpus(gpus: str | Sequence[int | str]) -> None:
    """Check that the GPUs that a sweep names exist and that this process may use them.

    Raises:
        ConfigError: CUDA_VISIBLE_DEVICES leaves one out, or the machine has no GPU of that number.
    """
    if isinstance(gpus, str):
        return
    if VISIBLE in os.environ:
        hidden = [gpu for gpu in gpus if str(gpu) not in _visible_gpus()]
        have = f"{VISIBLE} leaves {', '.join(_visible_gpus()) or 'no GPU'}"
    else:
        count = _count_gpus()
        hidden = [gpu for gpu in gpus if isinstance(gpu, int) and gpu >= count]
        have = f"this machine has GPUs 0 to {count - 1}" if count else "torch finds no GPU on this machine"
    if hidden:
        raise ConfigError(f"backend.optuna.gpus: there is no GPU {hidden[0]}; {have}")


@contextmanager
def restricted_to(share: str) -> Iterator[None]:
    """Restrict this process, and the processes that it starts, to a share of the GPUs."""
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        warnings.warn(
            "CUDA has started before GPUs are shared out among workers, so that this process sees all of "
            "them; the engine's module should use no GPU while it is imported",
            stacklevel=2,
        )
    before = os.environ.get(VISIBLE)
    os.environ[VISIBLE] = share
    try:
        yield
    finally:
        if before is None:
            del os.environ[VISIBLE]
        else:
            os.environ[VISIBLE] = before


def _visible_gpus() -> list[str]:
    """Return the names of the GPUs that this process sees."""
    visible = os.environ.get(VISIBLE)
    if visible is not None:
        names = map(str.strip, visible.split(","))
        return list(takewhile(lambda name: name not in ("", "-1"), names))  # CUDA hides those after it too
    return list(map(str, range(_count_gpus())))


def _count_gpus() -> int:
    """Return the number of GPUs of the machine, without a start of CUDA."""
    import torch

    return torch.cuda.device_count()
