"""The source of a program's values: its output, a CSV or JSON Lines file, files of TensorBoard or W&B."""

from __future__ import annotations

import csv
import json
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._redaction import excerpt
from ..._text import did_you_mean
from ...config.engine_section import canonical_name, requested_name
from ...config.placeholders import Filling, fill_text
from ...exceptions import RunError
from ...run.spec import RunSpec
from .logger_files import EventFiles, HistoryFiles, offline_variables, write_params
from .tail import Lines

EPOCH = "epoch"
LOG_FILE = "log.jsonl"
"""The file in the directory of a trial that `hpometrics.log` writes."""

_DELIMITERS = ",;\t"
_NAMES = 20  # of a source that a message lists
_FLUSH_INTERVAL = 120.0  # seconds between two writes of a writer of TensorBoard, unless it is set otherwise


@dataclass(frozen=True)
class Epoch:
    """The values of an epoch.

    Args:
        values: by name; None is an undefined value.
        number: its number as the program states it; None unless it counts from 0.
        text: what the program wrote.
    """

    values: Mapping[str, Any]
    number: Any = None
    text: str = ""


class Source(ABC):
    """A source of values.

    Attributes:
        reads_errors: whether it reads what the program prints to stderr too.
    """

    reads_errors = False

    def prepare(self, filling: Filling) -> Mapping[str, str]:
        """Write what the program of a trial needs, and return variables for its environment."""
        return {}

    def read_line(self, line: str) -> list[Epoch]:
        """Return the epochs that a line of the output ends."""
        return []

    def poll(self, last: bool = False) -> list[Epoch]:
        """Return the epochs that have ended since the last call; at last also one that is still open."""
        return []

    @abstractmethod
    def skip(self, count: int) -> None:
        """Leave out the first epochs that an earlier attempt wrote; those behind them are read by `poll`."""

    @abstractmethod
    def absence(self) -> str:
        """Return what the source has instead of values."""


class Grouping:
    """Groups values by epoch: one ends when it has every value, when the next begins, or with the program.

    Only groups with all optimized values are epochs. A value that comes before them, such as a training loss,
    goes with the next group.

    Args:
        spec: the metrics of the sweep; other values are left out.
        names: the name in the source of each value that is called otherwise there.
    """

    def __init__(self, spec: RunSpec, names: Mapping[str, str]) -> None:
        self._optimized = set(spec.optimized)
        self._wanted = {one.name for one in spec.requested}
        self._own = {other: canonical_name(name) for name, other in names.items()}
        self._renamed = {canonical_name(name) for name in names}
        self._label: Any = None
        self._values: dict[str, float] = {}
        self._ended = False
        self._skips = self._count = 0
        self._labels: set[Any] = set()
        self._ignores_labels = self._resumed = False
        self.seen: dict[str, None] = {}

    def name_of(self, name: str) -> str | None:
        """Return the name here of a value in the source; None if the sweep does not name it."""
        if len(self.seen) < _NAMES:
            self.seen.setdefault(name)
        own = self._own.get(name)
        if own is None:
            own = requested_name(name, self._wanted)
            own = "" if own in self._renamed else own
        return own if own in self._wanted else None

    def resume(self) -> None:
        """Go on: the program may repeat epochs with labels that were read already."""
        self._ignores_labels = self._resumed = True

    def restart(self) -> None:
        """Begin again: the file was written anew, and repeats the epochs that were read already."""
        self._skips = 0 if self._labels or self._resumed else self._count
        self._values, self._label, self._ended, self._ignores_labels = {}, None, False, True

    def add(self, label: Any, values: Mapping[str, float]) -> Iterator[Epoch]:
        """Add values by their names here, and yield each epoch that has ended.

        Args:
            label: what the source calls the epoch; None if it has no number for it.
            values: by name.
        """
        if self._ignores_labels and label is not None and label in self._labels:
            return
        repeated = label is None and self.is_whole(self._values) and self._optimized & values.keys()
        follows = self._ended and label is None
        if repeated or follows or (label is not None and label != self._label):
            yield from self.flush()
            self._label = label
        self._values |= values
        if not self._ended and self.is_complete(self._values):
            yield from self._end()

    def is_complete(self, values: Mapping[str, float]) -> bool:
        """Return whether values are all that the sweep names."""
        return self._wanted <= values.keys()

    def flush(self) -> Iterator[Epoch]:
        """Yield the open epoch if it has the optimized values, and begin the next one."""
        if self.is_whole(self._values) and not self._ended:
            yield from self._end()
        if self._ended:
            self._values, self._ended = {}, False

    def is_whole(self, names: Collection[str]) -> bool:
        """Return whether all optimized values are among some names."""
        return self._optimized <= {*names}

    def _end(self) -> Iterator[Epoch]:
        self._ended = True
        if self._label is not None:
            self._labels.add(self._label)
        if self._skips:
            self._skips -= 1
            return
        self._count += 1
        yield Epoch(dict(self._values))

    def absence(self) -> str:
        """Return the names that the source has instead."""
        missing = next((name for name in self._optimized), "")
        names = ", ".join(self.seen)
        return f"it has {names or 'no value'}{did_you_mean(missing, self.seen)}"


class PrintedObjects(Source):
    """JSON objects that a program prints, and those that `hpometrics.log` writes to a file.

    Args:
        path: that file.
    """

    def __init__(self, path: Path) -> None:
        self._lines = Lines(path, skips=False)
        self._waiting: list[Epoch] = []

    def skip(self, count: int) -> None:
        """Leave out the first epochs of the file."""
        self._waiting = self.poll()[count:]

    def read_line(self, line: str) -> list[Epoch]:
        """Return the epoch of an object."""
        epoch = _epoch_of(line)
        return [] if epoch is None else [epoch]

    def poll(self, last: bool = False) -> list[Epoch]:
        """Return the epochs in the file."""
        lines, _ = self._lines.read(last)
        waiting, self._waiting = self._waiting, []
        return [*waiting, *(epoch for line in lines if (epoch := _epoch_of(line)) is not None)]

    def absence(self) -> str:
        """Return what it has not done."""
        return (
            "it does not print a JSON object or call hpometrics.log; set engine.metrics_from for another "
            "source"
        )


def _epoch_of(line: str) -> Epoch | None:
    values = _parse_object(line)
    if values is None:
        return None
    number = values.pop(EPOCH, None)
    return Epoch({canonical_name(name): value for name, value in values.items()}, number, line.strip())


def _parse_object(line: str) -> dict[str, Any] | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


class MatchedLines(Source):
    """Lines of the output that match patterns, whose groups name values.

    Args:
        patterns: the patterns.
        grouping: groups the values.
    """

    reads_errors = True

    def __init__(self, patterns: Iterable[str], grouping: Grouping) -> None:
        self._patterns = [re.compile(pattern) for pattern in patterns]
        self._grouping = grouping
        self._label: str | None = None  # a later line may have the values

    def skip(self, count: int) -> None:
        """Leave out nothing: the output is that of this attempt."""

    def read_line(self, line: str) -> list[Epoch]:
        """Return the epochs that a line ends."""
        epochs: list[Epoch] = []
        for pattern in self._patterns:
            for match in pattern.finditer(line):
                epochs += self._add(
                    {name: text for name, text in match.groupdict().items() if text is not None}
                )
        return epochs

    def _add(self, texts: dict[str, str]) -> Iterator[Epoch]:
        self._label = texts.pop(EPOCH, self._label)
        yield from self._grouping.add(
            self._label, _numbers(texts, self._grouping, "the output of the program")
        )

    def poll(self, last: bool = False) -> list[Epoch]:
        """Return the last epoch, at the end."""
        return [*self._grouping.flush()] if last else []

    def absence(self) -> str:
        """Return which lines are missing."""
        return (
            "no line of its output matches engine.metrics_from.regex"
            if not self._grouping.seen
            else (f"in the matching lines, {self._grouping.absence()}")
        )


def _numbers(texts: Mapping[str, Any], grouping: Grouping, place: str) -> dict[str, float]:
    """Return the numbers among texts that the sweep names, by their names here; empty texts are left out."""
    numbers = {}
    for name, text in texts.items():
        own = grouping.name_of(name)
        if own is None or text is None or (isinstance(text, str) and not text.strip()):
            continue
        try:
            numbers[own] = float(text)
        except (TypeError, ValueError):
            raise RunError(f"{place}: {name} must be a number, got {excerpt(repr(text), 80)}") from None
    return numbers


class Growing(Source):
    """A file or directory that a program writes.

    Args:
        path: its path.
        grouping: groups the values.
        skips: whether what is there now is left out.
    """

    def __init__(self, path: Path, grouping: Grouping, skips: bool) -> None:
        self._path, self._grouping, self._skips = path, grouping, skips
        self._waiting: list[Epoch] = []

    def skip(self, count: int) -> None:
        """Leave out the first epochs of the file."""
        self._waiting = self.poll()[count:]
        self._grouping.resume()

    def poll(self, last: bool = False) -> list[Epoch]:
        """Return the epochs that have ended since the last call; at last also one that is still open."""
        waiting, self._waiting = self._waiting, []
        return [*waiting, *self._read(last), *(self._grouping.flush() if last else ())]

    @abstractmethod
    def _read(self, last: bool) -> Iterator[Epoch]:
        """Yield the epochs that have ended since the last call."""

    def absence(self) -> str:
        """Return the names of the values."""
        path = self._path
        return f"{path}: {self._grouping.absence()}" if path.exists() else f"there is no {path}"


class GrowingLines(Growing):
    """A file whose lines are rows of values."""

    def __init__(self, path: Path, grouping: Grouping, skips: bool) -> None:
        super().__init__(path, grouping, skips)
        self._lines = Lines(path, skips)

    def _read(self, last: bool) -> Iterator[Epoch]:
        lines, anew = self._lines.read(last)
        if anew:
            self._grouping.restart()
        for label, row in self._rows(lines):
            yield from self._grouping.add(label, _numbers(row, self._grouping, str(self._path)))

    @abstractmethod
    def _rows(self, lines: Iterable[str]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        """Yield the label of the epoch of each row, if it has one, and its values."""


class Table(GrowingLines):
    """The rows of a CSV file whose header names values."""

    def _rows(self, lines: Iterable[str]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        first = self._lines.first
        delimiter = max(_DELIMITERS, key=first.count)
        header = _cells(first, delimiter)
        for line in lines:
            cells = _cells(line, delimiter)
            if line.strip() and cells != header:
                row = dict(zip(header, cells, strict=False))
                label = next((row.pop(name) for name in list(row) if name.lower() == EPOCH), None)
                yield label or None, row


def _cells(line: str, delimiter: str) -> list[str]:
    return [cell.strip() for row in csv.reader([line], delimiter=delimiter) for cell in row]


class ObjectLines(GrowingLines):
    """The lines of a JSON Lines file."""

    def _rows(self, lines: Iterable[str]) -> Iterator[tuple[Any, Mapping[str, Any]]]:
        for row in filter(None, map(_parse_object, lines)):
            yield row.pop(EPOCH, None), row


class Scalars(Growing):
    """The scalars in the event files of a directory and those below it."""

    def __init__(self, path: Path, grouping: Grouping, skips: bool) -> None:
        super().__init__(path, grouping, skips)
        self._files = EventFiles(path, skips)
        self._folders: dict[str, str] = {}
        self._steps: dict[int, tuple[float, dict[str, float]]] = {}  # with the time of the first value
        self._latest: dict[str, int] = {}  # step of each folder that has values
        self._whole: set[int] = set()  # steps that have all optimized values

    def _read(self, last: bool) -> Iterator[Epoch]:
        for scalar in self._files.read(last):
            name = self._grouping.name_of(f"{scalar.folder}/{scalar.tag}") if scalar.folder else None
            name = name or self._name_of_tag(scalar.tag, scalar.folder)
            if name is not None:
                _, values = self._steps.setdefault(scalar.step, (time.monotonic(), {}))
                values[name] = scalar.value
                if self._grouping.is_whole(values):
                    self._whole.add(scalar.step)
                self._latest[scalar.folder] = max(scalar.step, self._latest.get(scalar.folder, scalar.step))
        ended = self._steps if last else [step for step in self._whole if self._has_ended(step)]
        latest = max(ended, default=None)
        for step in sorted(step for step in self._steps if latest is not None and step <= latest):
            self._whole.discard(step)
            yield from self._grouping.add(step, self._steps.pop(step)[1])
            yield from self._grouping.flush()

    def _has_ended(self, step: int) -> bool:
        """Return whether no value of a step is missing: each folder has a later one, or had time to write it.

        The writers of several folders write at different times.
        """
        since, values = self._steps[step]
        if self._grouping.is_complete(values) or step < min(self._latest.values()):
            return True
        return step < max(self._latest.values()) and time.monotonic() - since > _FLUSH_INTERVAL

    def _name_of_tag(self, tag: str, folder: str) -> str | None:
        name = self._grouping.name_of(tag)
        if name is not None and self._folders.setdefault(name, folder) != folder:
            raise RunError(
                f"{self._path}: {tag} is in both {self._folders[name] or '.'} and {folder or '.'}; choose "
                f"one: metrics_from: {{tensorboard: ..., names: {{{name}: {folder}/{tag}}}}}"
            )
        return name


class History(Growing):
    """The values that a program logs by `wandb.log`, in the offline files of W&B below a directory."""

    def __init__(self, path: Path, grouping: Grouping, skips: bool) -> None:
        super().__init__(path, grouping, skips)
        self._files = HistoryFiles(path, skips)

    def prepare(self, filling: Filling) -> Mapping[str, str]:
        """Write the params of the trial, and return the variables by which W&B writes below the directory."""
        self._path.mkdir(parents=True, exist_ok=True)  # W&B would write elsewhere if it were not there
        params_file = write_params(filling.directory, filling.by_name)
        return offline_variables(self._path.absolute(), params_file)

    def _read(self, last: bool) -> Iterator[Epoch]:
        for row in self._files.read(last):
            label = row.pop(EPOCH, None)
            yield from self._grouping.add(label, _numbers(row, self._grouping, "wandb.log"))

    def absence(self) -> str:
        """Return the names of the values."""
        if self._grouping.seen:
            return f"of wandb.log, {self._grouping.absence()}"
        return f"no file of wandb.log appeared below {self._path}; set engine.metrics_from for another source"


def make_source(
    settings: Mapping[str, Any], filling: Filling, folder: Path, spec: RunSpec, first: int
) -> Source:
    """Create the source of a trial, before its program starts.

    Args:
        settings: `engine.metrics_from` without what is left out; nothing is the output.
        filling: the values of placeholders.
        folder: the folder of the program, to which paths are relative.
        spec: the metrics of the sweep.
        first: the number of epochs after which the program goes on; what its earlier attempt wrote behind
            them counts.
    """
    source = _make_source(settings, filling, folder, spec, skips=not first)
    if first:
        source.skip(first)
    return source


def _make_source(
    settings: Mapping[str, Any], filling: Filling, folder: Path, spec: RunSpec, skips: bool
) -> Source:
    if not settings:
        log = filling.directory / LOG_FILE
        if skips:
            log.unlink(missing_ok=True)  # of an earlier attempt
        return PrintedObjects(log)
    grouping = Grouping(spec, settings.get("names", {}))
    if "regex" in settings:
        return MatchedLines(settings["regex"], grouping)
    kind, make = next((kind, make) for kind, make in _FILES.items() if kind in settings)
    return make(folder / fill_text(settings[kind], filling), grouping, skips)


_FILES: Mapping[str, Callable[[Path, Grouping, bool], Source]] = {
    "csv": Table,
    "jsonl": ObjectLines,
    "tensorboard": Scalars,
    "wandb": History,
}
