"""Example files: the examples of the picked epoch, kept by a run and left as `examples.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from ..exceptions import RecordError
from ..records._files import EPOCHS_LIMIT, read_lines
from ..records._json import read_json
from ..records.atomic import atomic_write
from .lines import Line
from .picked_file import PickedFile

EXAMPLES = "examples"


class ExampleFiles:
    """Follows the picked epoch of one run, as `UserTables` does.

    Args:
        directory: the trial's own; None holds the lines in memory alone.
    """

    def __init__(self, directory: Path | None) -> None:
        self.lines: tuple[Line, ...] = ()
        self._directory = directory
        self._drafts = PickedFile(self._directory, EXAMPLES, ".jsonl")

    def follow(self, epoch: int, picked: int | None, lines: Sequence[Line]) -> None:
        """Take the examples of a closed epoch if that is the picked one now."""
        if picked == epoch:
            self.lines = tuple({"epoch": epoch, **line} for line in lines)
        self._drafts.follow(epoch, picked, self._write if self.lines else None)

    def checkpointed(self) -> None:
        """Note that the run can go on from here."""
        self._drafts.checkpointed()

    def restore(self, picked: int | None) -> None:
        """Go on after a checkpoint at which this epoch was the picked one.

        Raises:
            RecordError: its file is damaged.
        """
        path = self._drafts.restore(picked)
        self.lines = () if path is None else read_examples(path)

    def export(self) -> None:
        """Leave the lines as `examples.jsonl`, and nothing else."""
        if self.lines and self._directory is not None:
            with atomic_write(self._directory / f"{EXAMPLES}.jsonl") as file:
                self._write(file)
            self._drafts.prune()

    def _write(self, file: BinaryIO) -> None:
        for line in self.lines:
            text = json.dumps(line, allow_nan=False, ensure_ascii=False)
            file.write(
                f"{text}\n".encode(errors="backslashreplace")
            )  # half a surrogate becomes JSON's escape


def read_examples(path: Path) -> tuple[Line, ...]:
    """Read what a run left.

    Raises:
        RecordError: a line is damaged; the message names it.
    """
    found = []
    for number, line in enumerate(read_lines(path, EPOCHS_LIMIT), 1):
        try:
            found.append(read_json(line))
        except ValueError as err:
            raise RecordError(f"{path}:{number}: holds no example: {err}") from err
    return tuple(found)
