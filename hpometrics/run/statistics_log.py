"""StatisticsLog: `statistics.jsonl`, a line per epoch with the statistics that are kept of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from .._redaction import excerpt
from ..exceptions import NewerFormatError, RecordError
from ..records._files import STATISTICS_LIMIT, read_lines
from ..records._json import FORMAT, FORMAT_KEY, read_sealed, sealed, whole
from ..records.atomic import writing
from ..records.epoch_log import cut_torn_line
from ..records.trial_record import TRIAL_FILE
from .statistics_store import KeptPart

STATISTICS_FILE = "statistics.jsonl"


@dataclass(frozen=True)
class KeptEpoch:
    """What is kept of one epoch. It is that of the record's epoch of the same attempt."""

    attempt: int
    epoch: int
    parts: tuple[KeptPart, ...]

    def to_line(self) -> str:
        """Write it as one line of JSON."""
        parts = [part.to_json() for part in self.parts]
        content = {FORMAT_KEY: FORMAT, "attempt": self.attempt, "epoch": self.epoch, "parts": parts}
        return sealed(json.dumps(content, allow_nan=False))

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Read what `to_line` wrote.

        Raises:
            RecordError: the line is something else, or has changed since it was written.
            NewerFormatError: a newer version wrote it.
        """
        try:
            content = read_sealed(line.decode(), "a kept epoch")
            parts = tuple(KeptPart.from_json(part) for part in content["parts"])
            return cls(whole(content["attempt"]), whole(content["epoch"]), parts)
        except (NewerFormatError, RecordError):
            raise
        except (ValueError, KeyError, TypeError) as err:
            raise RecordError(f"no kept epoch: {excerpt(line, 80)!r}") from err


class StatisticsLog:
    """The statistics of one trial beside its record. An epoch is here before it is in the record.

    What is written outlives the process at once; it is forced to the disk when the trial ends, as the record
    alone is what a run goes on from.

    Args:
        directory: the trial's own; the file is made with its first epoch.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / STATISTICS_FILE
        cut_torn_line(self.path)
        self._written = False

    def append(self, attempt: int, epoch: int, parts: Sequence[KeptPart]) -> None:
        """Write what is kept of an epoch at the end of the file; of nothing, nothing."""
        if not parts:
            return
        line = f"{KeptEpoch(attempt, epoch, tuple(parts)).to_line()}\n".encode()
        with writing(self.path), self.path.open("ab") as file:
            file.write(line)
        self._written = True

    def close(self) -> None:
        """Force what was written to the disk."""
        if self._written:
            with writing(self.path), self.path.open("ab") as file:
                os.fsync(file.fileno())
            self._written = False


def read_kept(directory: Path) -> Iterator[KeptEpoch]:
    """Read what a trial has kept, in the order written; of an epoch that is there twice the later one counts.

    Raises:
        RecordError: a line is damaged; the message names it.
    """
    path = directory / STATISTICS_FILE
    with suppress(FileNotFoundError):
        for number, line in enumerate(read_lines(path, STATISTICS_LIMIT), 1):
            if not line.endswith(b"\n"):
                return  # it is still being written
            try:
                yield KeptEpoch.from_line(line)
            except NewerFormatError:  # whoever reads this has read the trial's file, which is not newer
                raise RecordError(f"{path}:{number}: is damaged: {TRIAL_FILE} has no such format") from None
            except RecordError as err:
                raise RecordError(
                    f"{path}:{number}: {err}; move the file away to read recorded metrics alone"
                ) from err
