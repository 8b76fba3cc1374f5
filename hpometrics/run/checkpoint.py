"""The checkpoints of a run: its state at the end of the picked and of the latest epoch."""

from __future__ import annotations

import errno
import random
import sys
import warnings
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol
from zipfile import ZipFile

import numpy as np
import torch
from torch import Tensor

from .._redaction import excerpt
from .._text import lacks_memory
from ..exceptions import DiskError, RecordError, RunError
from ..records._files import Limit, atomic_write, check_regular, is_draft, make_private
from ..records._json import FORMAT, FORMAT_KEY, check_format
from ..records.recovery import quarantine

_PARTS = {"epoch", "random", "states"}
_ABOVE_RESTORE = 8  # frames up to the caller of `run.restore`
_LIMIT = Limit("a checkpoint", None, 0, "")  # a model may have any size
_PLAIN = (str, bytes, int, float, bool, type(None))
_OF_FILE = (errno.ENOENT, errno.EINVAL)  # it is missing, or a place in it is below 0


class Keep(StrEnum):
    """Which checkpoints of a run are kept.

    `BEST` keeps that of the picked epoch and the latest, `LAST` the latest, `ALL` every one. `NONE` writes
    none, so a run that is killed begins again.
    """

    BEST = "best"
    LAST = "last"
    ALL = "all"
    NONE = "none"


class Stateful(Protocol):
    """An object with a state that can be read and loaded: a model, an optimizer, a schedule."""

    def state_dict(self) -> Any:
        """Return the state."""

    def load_state_dict(self, state_dict: Any) -> Any:
        """Load a state."""


class Checkpoints:
    """The checkpoints of one trial: `epoch-0003.pt` holds the state at the end of epoch 3, counted from 0.

    Args:
        directory: their own; made when the first is written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def path(self, epoch: int) -> Path | None:
        """Return the checkpoint of an epoch, if there is one."""
        path = self._path(epoch)
        return path if path.exists() else None

    def save(self, epoch: int, states: Mapping[str, Any], random: Sequence[Any]) -> None:
        """Write copied states together with the random states of every rank, whole or not at all."""
        make_private(self.directory)
        self._write(self._path(epoch), epoch, states, random)

    def adopt(self, epoch: int, donated: Path, seed: int | None) -> None:
        """Store the state of another trial, to resume from it instead of the own one at the end of an epoch.

        The own checkpoint stays, as its epoch may be the picked one. Random streams start anew: two trials
        never share one.

        Args:
            epoch: the last epoch of this trial.
            donated: a directory with the checkpoint of the other trial; of several the newest counts.
            seed: of the random streams.

        Raises:
            RecordError: there is none, or it is damaged.
        """
        other = Checkpoints(donated)
        newest = other.latest(before=sys.maxsize)
        if newest is None:
            raise RecordError(f"{donated}: has no checkpoint that a trial can continue from")
        states = other.load(newest)["states"]
        if seed is not None:
            seed_all(seed)
        make_private(self.directory)
        self._write(self._adopted_path(epoch), epoch, states, [random_states()], adopted=True)

    def check_restored(self, epoch: int) -> None:
        """Check that an adopted state was restored before this epoch.

        Raises:
            RunError: it was not.
        """
        if any(adopted >= epoch for adopted in self._epochs("adopted")):
            raise RunError(
                "this trial continues from the state of another trial, but train did not restore it: call "
                "run.restore(model=model, ...) before the loop over run.epochs()"
            )

    def keep(self, *epochs: int | None) -> None:
        """Delete all checkpoints but those of these epochs, and the drafts of a process that was killed."""
        for epoch in self._epochs():
            if epoch not in epochs:
                self._path(epoch).unlink()
        for path in list(self.directory.iterdir()):
            if is_draft(path.name) or path.match("adopted-*.pt"):
                path.unlink()

    def drop(self, start: int) -> None:
        """Delete those of this epoch and of later ones."""
        for epoch in self._epochs():
            if epoch >= start:
                self._path(epoch).unlink()

    def latest(self, before: int) -> int | None:
        """Return the newest epoch below `before` that has a checkpoint; None if there is none."""
        return max((epoch for epoch in self._epochs() if epoch < before), default=None)

    def load(self, epoch: int) -> Mapping[str, Any]:
        """Read a checkpoint, or what was adopted in its place; only plain data and tensors are accepted.

        Raises:
            RecordError: the file is damaged or not ours.
            NewerFormatError: a newer version has written it.
        """
        adopted = self._adopted_path(epoch)
        path = adopted if adopted.exists() else self._path(epoch)
        content = load_checkpoint(path)
        if content["epoch"] != epoch:
            raise RecordError(
                f"{path}: is the checkpoint of epoch {excerpt(content['epoch'], 40)}, not of {epoch}"
            )
        return content

    def load_latest(self, before: int) -> Mapping[str, Any] | None:
        """Read the newest checkpoint below `before`; None if there is none.

        A damaged one is moved aside, with a warning, and the one before it is read. An adopted one has none
        before it.

        Raises:
            RecordError: what was adopted is damaged.
            NewerFormatError: a newer version has written it.
        """
        epoch = self.latest(before)
        while epoch is not None:
            try:
                return self.load(epoch)
            except RecordError as err:
                if self._adopted_path(epoch).exists():
                    raise
                aside, epoch = quarantine(self._path(epoch)).name, self.latest(epoch)
                start = "begins again" if epoch is None else f"continues after epoch {epoch}"
                text = f"{err}; kept as {aside}, the trial {start}"
                warnings.warn(text, stacklevel=_ABOVE_RESTORE)
        return None

    def _write(
        self, path: Path, epoch: int, states: Mapping[str, Any], random: Sequence[Any], adopted: bool = False
    ) -> None:
        own, *others = random
        content = {FORMAT_KEY: FORMAT, "epoch": epoch, "random": own, "states": dict(states)}
        if others:
            content["random_of_others"] = others
        if adopted:
            content["adopted"] = True
        with atomic_write(path) as file:
            torch.save(content, file)

    def _path(self, epoch: int) -> Path:
        return self.directory / f"epoch-{epoch:04d}.pt"

    def _adopted_path(self, epoch: int) -> Path:
        return self.directory / f"adopted-{epoch:04d}.pt"

    def _epochs(self, kind: str = "epoch") -> list[int]:
        names = [path.stem.removeprefix(f"{kind}-") for path in self.directory.glob(f"{kind}-*.pt")]
        return [int(name) for name in names if name.isdigit()]


def random_of_ranks(stored: Mapping[str, Any]) -> list[Any]:
    """Return the random states that a checkpoint holds, in the order of ranks."""
    return [stored["random"], *stored.get("random_of_others", ())]


def load_checkpoint(path: Path) -> Mapping[str, Any]:
    """Read `{"epoch": int, "random": ..., "states": {name: state_dict}}` from a file, onto the CPU.

    Raises:
        RecordError: the file is damaged or not ours.
        NewerFormatError: a newer version has written it.
        DiskError: the disk cannot be read.
        MemoryError, RuntimeError: it does not fit into memory.
    """
    try:
        check_regular(path, _LIMIT, follow=True)
        _check_sums(path)  # torch writes them and does not look at them
        content = torch.load(path, weights_only=True, map_location="cpu")
    except RecordError:
        raise
    except Exception as err:  # damaged bytes fail in whatever way they happen to be read
        if lacks_memory(err):
            raise
        if isinstance(err, OSError) and err.errno and err.errno not in _OF_FILE:
            raise DiskError(
                f"{path}: cannot be read: {err.strerror}; the file stays; run again when the disk can be read"
            ) from err
        raise RecordError(f"{path}: is not a checkpoint: {err}") from err
    check_format(content, path)
    if not isinstance(content, dict) or not content.keys() >= _PARTS:
        raise RecordError(f"{path}: is not a checkpoint: it must contain {', '.join(sorted(_PARTS))}")
    return content


def _check_sums(path: Path) -> None:
    with ZipFile(path) as archive:
        damaged = archive.testzip()
    if damaged is not None:
        raise ValueError(f"its part {damaged} has changed since it was written")


def copy_states(objects: Mapping[str, Stateful]) -> dict[str, Any]:
    """Copy the state of each object, tensors to the CPU, so that further training does not touch it.

    Raises:
        RunError: an object has no `state_dict`, or its state holds more than plain data and tensors.
    """
    states = {}
    for name, thing in objects.items():
        if not hasattr(thing, "state_dict"):
            raise RunError(
                f"checkpoint({name}=...) needs an object with state_dict, got {type(thing).__name__}"
            )
        states[name] = _copy(name, thing.state_dict())
    return states


def put_states(objects: Mapping[str, Stateful], states: Mapping[str, Any], adopted: bool = False) -> None:
    """Load the state of each object.

    Args:
        objects: by the names they were checkpointed under.
        states: of the checkpoint.
        adopted: whether it is another trial's: then an optimizer keeps its own options, which come from the
            params.

    Raises:
        RunError: the checkpoint has no state of that name.
    """
    for name, thing in objects.items():
        if name not in states:
            raise RunError(f"{name}=...: the checkpoint contains {', '.join(states) or 'no state'}")
        groups = [dict(group) for group in getattr(thing, "param_groups", ())] if adopted else []
        thing.load_state_dict(states[name])
        for group, own in zip(getattr(thing, "param_groups", ()), groups, strict=False):
            group.update({option: value for option, value in own.items() if option != "params"})


def random_states() -> dict[str, Any]:
    """Collect the state of every random stream: python, numpy, torch and each cuda device."""
    kind, keys, position, has_gauss, gauss = np.random.get_state(legacy=True)
    return {
        "python": random.getstate(),
        "numpy": (str(kind), np.asarray(keys).tolist(), int(position), int(has_gauss), float(gauss)),
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def set_random_states(states: Mapping[str, Any]) -> None:
    """Restore every random stream to the state that `random_states` collected."""
    random.setstate(states["python"])
    kind, keys, position, has_gauss, gauss = states["numpy"]
    np.random.set_state((kind, np.array(keys, dtype=np.uint32), position, has_gauss, gauss))
    torch.set_rng_state(states["torch"])
    for device, state in enumerate(states["cuda"][: torch.cuda.device_count()]):
        torch.cuda.set_rng_state(state, device)


def seed_all(seed: int) -> None:
    """Start every random stream from a seed."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    if torch.accelerator.is_available():
        torch.manual_seed(seed)
    else:  # torch would keep a traceback for every kind of device that it was built without
        torch.default_generator.manual_seed(seed)


def _copy(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        parts = [_copy(name, part) for part in value]
        return parts if isinstance(value, list) else tuple(parts)
    if isinstance(value, Mapping):
        return _copy_mapping(name, value)
    if type(value) in _PLAIN:
        return value
    raise RunError(
        f"checkpoint({name}=...): its state contains a {type(value).__name__}, which cannot be stored safely"
    )


def _copy_mapping(name: str, value: Mapping[Any, Any]) -> Any:
    copied = OrderedDict((key, _copy(name, part)) for key, part in value.items())
    if isinstance(value, Counter):  # of the milestones of a schedule
        return Counter(copied)
    if not isinstance(value, OrderedDict):
        return dict(copied)
    copied.__dict__.update(value.__dict__)  # a module's versions, which its load_state_dict reads
    return copied
