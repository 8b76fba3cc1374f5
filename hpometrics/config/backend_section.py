"""The sections of the backends in a sweep file, and the GPUs of a machine divided among workers.

Workers get their GPUs by the variable that CUDA and ROCm read when they start.
"""

from __future__ import annotations

import os
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from itertools import pairwise, takewhile
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from .._formatting import plural
from .._imports import environment
from .._redaction import redacted
from ..backends.storage_url import MEMORY, check_driver, known_url, redact_storage
from ..exceptions import ConfigError, HpometricsError
from ..space.values import is_whole
from .document import Path
from .fields import Directory, Duration, Params, StorageForm, Strict, nothing_by_name, wrong


class BackendSection(Strict, ABC):
    """The settings of a backend."""

    @abstractmethod
    def facts(self, threads: int) -> str:
        """Return the settings as `check` prints them.

        Args:
            threads: the threads of a trial.
        """

    def problems(self) -> Iterator[tuple[Path, str]]:
        """Yield the settings that cannot be used here, each with its path in the section."""
        yield from ()


VISIBLE = "CUDA_VISIBLE_DEVICES"
"""The variable of the environment that names the GPUs of a process."""


def _check_form(value: Any) -> Any:
    if value in ("auto", "all"):
        return value
    if not isinstance(value, list) or not value:
        raise wrong(f"expected auto, all, or a list of GPUs such as [0, 1], got {value!r}")
    for one in value:
        number = is_whole(one) and one >= 0
        if not number and not (isinstance(one, str) and one.startswith(("GPU-", "MIG-")) and "," not in one):
            raise wrong(f"{one!r} is not a GPU; write its number, or its id from nvidia-smi -L")
    if len(set(map(str, value))) < len(value):
        raise wrong(
            f"{value} names a GPU twice; workers already share GPUs if there are more workers than GPUs"
        )
    return value


_GpusShape = Literal["auto", "all"] | list[int | str]
GpusForm = Annotated[
    Literal["auto", "all"] | list[int | str], BeforeValidator(_check_form, json_schema_input_type=_GpusShape)
]


class OptunaBackend(BackendSection):
    """Trials in processes on this machine, drawn by Optuna."""

    storage: StorageForm = "sqlite"
    """`sqlite` (study.db in the run directory), `journal` (study.journal there), `memory`, or a storage that
    machines share: `postgresql://ada:${PGPASSWORD}@host/database`, `mysql+pymysql://...`, `grpc://host:port`."""
    workers: Annotated[int, Field(ge=1)] = 1
    """Processes that work on trials; `hpometrics worker DIR|URL` adds one at any time."""
    gpus: GpusForm = "auto"
    """How several workers share the GPUs of the machine: `auto` gives each worker its own as far as there are
    enough, `all` lets each see all of them, and a list names the GPUs to divide. CUDA_VISIBLE_DEVICES holds
    the GPUs of a worker."""
    heartbeat: Duration = 15.0
    """The interval at which workers that share only the storage write a heartbeat; after four intervals
    without one the trial of a worker resumes elsewhere."""

    def facts(self, threads: int) -> str:
        """Return the storage, the number of workers and their GPUs."""
        shares = gpu_shares(self.gpus, self.workers)
        gpus = "" if shares is None else f", which see GPU {', '.join(dict.fromkeys(shares))}"
        return f"storage {redact_storage(self.storage)}, {plural(self.workers, 'worker')}{gpus}"

    def problems(self) -> Iterator[tuple[Path, str]]:
        """Yield a storage that workers cannot share, or that this machine cannot open."""
        if self.workers > 1 and self.storage == MEMORY:
            yield ("storage",), "workers share a storage, but memory belongs to one process"
        url = known_url(self.storage)
        if url is not None:
            try:
                check_driver(url)
            except HpometricsError as err:
                yield ("storage",), str(err)


def _check_custom(amounts: dict[str, float]) -> dict[str, float]:
    for name in amounts:
        if name.lower() in ("cpu", "gpu"):
            raise wrong(f"{name} is a standard resource; write {name.lower()} beside custom")
    return amounts


class Resources(Strict):
    """The resources of one trial in a Ray cluster."""

    cpu: Annotated[float, Field(gt=0)] | None = None
    """CPU cores; `engine.threads` unless given."""
    gpu: Annotated[float, Field(ge=0)] = 0.0
    """GPUs."""
    custom: Annotated[dict[str, Annotated[float, Field(gt=0)]], AfterValidator(_check_custom)] = Field(
        default_factory=nothing_by_name
    )
    """Other resources of a node, by name: `{TPU: 4}`, or `{memory: 8e9}` in bytes."""

    def of_trial(self, threads: int) -> dict[str, float]:
        """Return all amounts by name; one core per thread unless `cpu` is given."""
        return {"cpu": self.cpu or threads, "gpu": self.gpu, **self.custom}


def _check_address(value: str) -> str:
    if value.startswith("ray://"):
        raise wrong(
            f"{redacted(value)}: with the Ray client, the search would run on the head node, away from the "
            "study; run it on a machine of the cluster with address: auto, or submit it: ray job submit -- "
            "hpometrics run FILE"
        )
    if value != "auto" and not re.fullmatch(r"[\w.\-\[\]:]+:[0-9]{1,5}", value):
        raise wrong(f"{redacted(value)!r} is not an address of a Ray cluster; write auto, or host:6379")
    return value


Address = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_check_address)]


class RayBackend(BackendSection):
    """Trials as Ray Tune workers, drawn by the same samplers."""

    workers: Annotated[int, Field(ge=1)] | None = None
    """Number of trials at the same time; as many as fit unless given."""
    resources: Resources = Resources.model_construct()
    """The resources of one trial."""
    reuse_actors: bool | None = None
    """Whether a worker trains one trial after another, until one fails in it; unless given, only where trials
    use no GPU, because all memory of a GPU is freed only when the process ends."""
    storage: Directory | None = None
    """Place of Ray's own files, a path or a URI such as `s3://bucket/ray`; `ray` in the run directory
    unless given. Every machine of a cluster must see it, and the run directory. Checkpoints are kept in the
    run directory, not there; `results.copy_to` copies them to an object store."""
    address: Address | None = None
    """A running cluster: `auto` finds the one of this machine, `host:6379` names its head; unless given, a
    cluster is started on this machine."""

    def facts(self, threads: int) -> str:
        """Return the number of workers and the resources of each."""
        amounts = self.resources.of_trial(threads)
        *most, last = (f"{amount:g} {name}" for name, amount in amounts.items())
        return f"workers {self.workers or 'as many as fit'}, each with {', '.join(most)} and {last}"


Points = Annotated[list[Params], Field(min_length=1)]
"""The params to try, in order."""


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


def restricted_to(share: str) -> AbstractContextManager[None]:
    """Restrict this process, and the processes that it starts, to a share of the GPUs."""
    import torch

    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        warnings.warn(
            "CUDA started before the GPUs were assigned to the workers, so this process sees all of them; "
            "do not use a GPU while the engine's module is imported",
            stacklevel=2,
        )
    return environment({VISIBLE: share})


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
