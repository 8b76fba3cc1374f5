"""Checkpoints of a run without a directory: they go to Ray Tune with the report of their epoch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from ray import tune

from ...records.epoch_log import EPOCHS_FILE, read_epochs
from ...records.trial_record import EpochRecord


class Carried:
    """The checkpoint of the open epoch, until Tune has it, and the one that Tune has given the trial.

    Tune copies the folder of a checkpoint to its storage before a report returns. The folder holds what the
    directory of a run would hold: `epoch-0003.pt`, and the epochs so far, which a restored run goes on after.

    Args:
        latest: returns the checkpoint that a restored trial goes on from.

    Attributes:
        done: epochs up to the checkpoint that the trial goes on from; Tune has their reports.
        score: of the checkpoint of the open epoch, see `CHECKPOINT_SCORE`; None where it has none.
    """

    def __init__(self, latest: Callable[[], tune.Checkpoint | None] = tune.get_checkpoint) -> None:
        self._latest = latest
        self.done = 0
        self.score: int | None = None
        self._lines: list[str] = []
        self._folder: TemporaryDirectory[str] | None = None

    def append(self, record: EpochRecord) -> None:
        """Add an epoch that has closed."""
        self._lines.append(record.to_line())

    def folder(self, picked: bool) -> Path:
        """Return a new folder for the checkpoint of the last epoch.

        Args:
            picked: whether that is the picked epoch now.
        """
        self._clear()
        self.score = len(self._lines) if picked else 0
        self._folder = TemporaryDirectory(prefix="hpometrics-")
        home = Path(self._folder.name)
        (home / EPOCHS_FILE).write_text("".join(f"{line}\n" for line in self._lines), encoding="utf8")
        return home

    @contextmanager
    def handed_over(self) -> Iterator[tune.Checkpoint | None]:
        """Yield the checkpoint for a report, None where the epoch has none; delete the copy afterwards."""
        try:
            folder = self._folder
            yield None if folder is None else tune.Checkpoint(folder.name)
        finally:
            self._clear()

    @contextmanager
    def received(self) -> Iterator[tuple[Path, tuple[EpochRecord, ...]] | None]:
        """Yield a folder with the checkpoint that the trial goes on from, and the epochs up to it."""
        checkpoint = self._latest()
        if checkpoint is None:
            yield None
            return
        with checkpoint.as_directory() as folder:
            epochs = read_epochs(Path(folder))
            self.done, self._lines = len(epochs), [record.to_line() for record in epochs]
            yield Path(folder), epochs

    def _clear(self) -> None:
        self.score = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
