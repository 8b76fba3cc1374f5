"""Picked file: what is kept of the picked epoch, in a file that follows a run through kills and resumes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ..records.atomic import atomic_write

Write = Callable[[BinaryIO], object]


class PickedFile:
    """`name-0003.jsonl` has what is kept of epoch 3 while that is the picked one.

    A run that goes on after its checkpoint may have picked an earlier epoch by then, so the file of that one
    stays until the next checkpoint is written.

    Args:
        directory: the trial's own; None writes nothing.
        name: the file's, without epoch and ending.
        ending: with its dot.
    """

    def __init__(self, directory: Path | None, name: str, ending: str) -> None:
        self.directory = directory
        self._name, self._ending = name, ending
        self._picked: int | None = None
        self._at_checkpoint: int | None = None
        self._found: set[Path] | None = None

    def follow(self, epoch: int, picked: int | None, write: Write | None) -> None:
        """Write what is kept of a closed epoch if that is the picked one now, and there is anything."""
        self._picked = picked
        if picked == epoch and write is not None and self.directory is not None:
            path = self.path(self.directory, epoch)
            with atomic_write(path) as file:
                write(file)
            self._files.add(path)
        self.prune(picked, self._at_checkpoint)

    def checkpointed(self) -> None:
        """Note that the run can go on from here: what was picked before is of no use any more."""
        self._at_checkpoint = self._picked
        self.prune(self._picked)

    def restore(self, picked: int | None) -> Path | None:
        """Go on after a checkpoint at which this epoch was the picked one; return its file, if it has one."""
        self._picked = self._at_checkpoint = picked
        if self.directory is None or picked is None:
            return None
        path = self.path(self.directory, picked)
        return path if path.exists() else None

    def prune(self, *epochs: int | None) -> None:
        """Delete the files of all other epochs."""
        if self.directory is None or not self._files:
            return
        kept = {self.path(self.directory, epoch) for epoch in epochs if epoch is not None}
        for path in self._files - kept:
            path.unlink(missing_ok=True)
        self._files.intersection_update(kept)

    @property
    def _files(self) -> set[Path]:
        """Those there are; the directory is looked at once, for what an earlier process left."""
        if self._found is None:
            pattern = f"{self._name}-*{self._ending}"
            self._found = set() if self.directory is None else set(self.directory.glob(pattern))
        return self._found

    def path(self, directory: Path, epoch: int) -> Path:
        """Where the file of an epoch is."""
        return directory / f"{self._name}-{epoch:04d}{self._ending}"
