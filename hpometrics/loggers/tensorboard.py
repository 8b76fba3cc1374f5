"""TensorBoardLogger writes one event file per trial: its values, its params and the value that counts."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

from ..metrics.registry.scope import ALL_TASKS, VALIDATION
from ..records.trial_record import EpochRecord, numbers_of
from .registry import Standing
from .table import split_name

EVENT_FILES = "events.out.tfevents.*"
_UNSAFE = re.compile(r"[^-/\w.]")
_SETTINGS = {VALIDATION: "valid"}
PICKED = "picked"


class Tags:
    """The tag of each value of a run: `accuracy/valid`, `convai2/ppl/train`; never two names under one tag.

    >>> Tags().of(["hits@1", "train:convai2/ppl", "f1(average=macro)"])
    {'f1(average=macro)': 'f1_average_macro_/valid', 'hits@1': 'hits_1/valid', \
'train:convai2/ppl': 'convai2/ppl/train'}
    >>> Tags().of(["hits@1", "hits_1"])
    {'hits@1': 'hits_1_2/valid', 'hits_1': 'hits_1/valid'}
    """

    def __init__(self) -> None:
        self._tags: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, names: Iterable[str]) -> dict[str, str]:
        """Return the tags of these names; each keeps its tag, and names that need no change come first."""
        ordered = sorted(names)
        for name in sorted(set(ordered) - self._tags.keys(), key=_as_it_is_first):
            self._tags[name] = self._free(name)
            self._taken.add(self._tags[name])
        return {name: self._tags[name] for name in ordered}

    def _free(self, name: str) -> str:
        front, setting = title_of(name)
        safe = _UNSAFE.sub("_", front)
        tags = (f"{safe}{'' if n == 1 else f'_{n}'}/{setting}" for n in count(1))
        return next(tag for tag in tags if tag not in self._taken)


def _as_it_is_first(name: str) -> tuple[bool, str]:
    return _UNSAFE.search(title_of(name)[0]) is not None, name


def title_of(name: str) -> tuple[str, str]:
    """Return the metric with its task, and the setting: train, valid or test."""
    split, task, metric = split_name(name)
    return metric if task == ALL_TASKS else f"{task}/{metric}", _SETTINGS.get(split, split)


class TensorBoardLogger:
    """Writes the values of an epoch at its step; `tensorboard --logdir DIR/trials` shows all trials.

    A nan is written as nan, which TensorBoard marks: a gap would be drawn over. Curves and matrices are left
    out. The params and `METRIC/picked`, the value that counts so far, make the tab HPARAMS. TensorBoard keeps
    numbers in single precision. A run that resumes writes its file anew with its epochs.

    Args:
        directory: the trial's own.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._writer: Any = None

    def begin(self, run: Standing) -> None:
        """Write the params and the epochs before a restart."""
        from tensorboardX.event_file_writer import EventsWriter  # SummaryWriter's flush waits for no queue
        from tensorboardX.summary import hparams

        for path in self._directory.glob(EVENT_FILES):
            path.unlink()
        self._writer, self._tags = EventsWriter(str(self._directory / "events")), Tags()
        self._write(time.time(), 0, session_log={"status": "START"})  # a viewer forgets what it has read
        _, params, _ = hparams({name: _plain(value) for name, value in run.params.items()}, {})
        self._write(time.time(), 0, summary=params)
        for index, wall_time in enumerate(_wall_times(run.history)):
            self._write_epoch(run, index, wall_time)
        self._writer.flush()

    def epoch(self, run: Standing) -> None:
        """Write an epoch."""
        self._write_epoch(run, len(run.history) - 1, time.time())
        self._writer.flush()

    def end(self, run: Standing) -> None:
        """Log that the run is complete, if it is, and close the file."""
        if self._writer is None:
            return
        from tensorboardX.summary import hparams

        if run.complete:
            *_, end = hparams({}, {})
            self._write(time.time(), len(run.history), summary=end)
        self._writer.close()
        self._writer = None

    def _write_epoch(self, run: Standing, index: int, wall_time: float) -> None:
        record = run.history[index]
        numbers = numbers_of(record.values)
        tags = self._tags.of(numbers)
        scalars = [_scalar(tags[name], "/".join(title_of(name)), number) for name, number in numbers.items()]
        picked = run.value_at(index)
        if picked is not None:
            tag = f"{_UNSAFE.sub('_', run.metric)}/{PICKED}"
            scalars.append(_scalar(tag, f"{run.metric}/{PICKED}", picked))
        self._write(wall_time, record.place, summary={"value": scalars})

    def _write(self, wall_time: float, step: int, **what: Any) -> None:
        from tensorboardX.proto.event_pb2 import Event

        self._writer.write_event(Event(wall_time=wall_time, step=step, **what))


def _scalar(tag: str, title: str, value: float) -> dict[str, Any]:
    metadata = {"display_name": title, "plugin_data": {"plugin_name": "scalars"}}
    return {"tag": tag, "simple_value": value, "metadata": metadata}


def _plain(value: Any) -> str | int | float | bool:
    """Convert a param to what the tab can hold: a list or a mapping to the text of its JSON."""
    return value if isinstance(value, (str, int, float)) else json.dumps(value, default=str)


def _wall_times(history: Sequence[EpochRecord]) -> Iterator[float]:
    """Count back from now by the seconds of the epochs, as if there had been no break."""
    now, remaining = time.time(), sum(record.seconds for record in history)
    for record in history:
        remaining -= record.seconds
        yield now - remaining
