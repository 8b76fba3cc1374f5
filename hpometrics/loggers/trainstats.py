"""TrainStats writes `.trainstats`, the history of a run in the shape of ParlAI's file, as strict JSON."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ..metrics.registry.scope import VALIDATION
from ..records._files import atomic_write
from ..records.trial_record import EpochRecord, numbers_of
from .registry import Standing
from .table import split_name

TRAINSTATS_FILE = ".trainstats"
_NULL = "null"
_json = json.JSONEncoder(allow_nan=False).encode


class Totals(NamedTuple):
    """The totals of a run; None where the record does not have them.

    `total_exs` adds up `train:exs`, `train_steps` is the step of the report, or `total_train_updates` if no
    steps are counted, and `train_time` are the seconds of the epochs, their validation included.
    """

    parleys: None = None
    train_time: float = 0.0
    train_steps: float | None = None
    total_epochs: int = 0
    total_exs: float | None = 0

    def after(self, record: EpochRecord) -> Totals:
        """Add an epoch."""
        numbers = numbers_of(record.values)
        examples = _whole(numbers.get("train:exs"))
        updates = numbers.get("train:total_train_updates", numbers.get("total_train_updates"))
        return Totals(
            total_epochs=record.epoch + 1,
            total_exs=None if examples is None or self.total_exs is None else self.total_exs + examples,
            train_steps=_whole(updates) if record.step is None else record.step,
            train_time=round(self.train_time + record.seconds, 6),
        )


class TrainStats:
    """Writes `.trainstats` whole or not at all, every few seconds while the run trains and when it ends.

    So the file of a run that is killed may lack its last seconds; an error or a stop of the host leaves all.
    `epochs.jsonl` has every epoch at once, and a run that resumes writes the file anew from it.

    Every epoch is a report in `train_reports` and `valid_reports`: its values that are one number, by name,
    and the totals by then. A value that is not finite is null there, and `reasons` says why. The final
    reports are those of the picked epoch, once the run has come to its end. Unknown values are null:
    `parleys`, and `final_extra_valid_report`.

    Args:
        directory: the trial's own.
        every: seconds between two writes; 0 writes after each epoch.
    """

    def __init__(self, directory: Path, every: float = 10.0) -> None:
        self.path = directory / TRAINSTATS_FILE
        self._every = every
        self._clear()

    def begin(self, run: Standing) -> None:
        """Write the epochs before a restart."""
        self._clear()
        if run.history:
            self._write(run)

    def epoch(self, run: Standing) -> None:
        """Write the file again if it is time; until then an epoch costs nothing."""
        if time.monotonic() >= self._written_at + self._every:
            self._write(run)

    def end(self, run: Standing) -> None:
        """Write what is left, and the final reports of a run that is complete."""
        if run.complete or len(run.history) > self._written:
            self._write(run)

    def _clear(self) -> None:
        self._totals = Totals()
        self._written = 0  # epochs that the file holds
        self._written_at = time.monotonic()
        self._reports: dict[str, dict[int, str]] = {}  # by split and epoch, each encoded once
        self._reasons: list[str] = []

    def _take(self, record: EpochRecord) -> None:
        self._totals = self._totals.after(record)
        totals = self._totals._asdict()
        defined = {name: total for name, total in totals.items() if total is not None}
        for split, numbers in _by_split(record).items():  # among them may be a total that the engine logs
            self._reports.setdefault(split, {})[record.epoch] = _json({**totals, **numbers, **defined})
        self._reasons += map(_json, _reasons(record))

    def _write(self, run: Standing) -> None:
        for record in run.history[self._written :]:
            self._take(record)
        picked = run.picked if run.complete else None
        facts = {
            **{name: _json(value) for name, value in self._totals._asdict().items() if name != "total_exs"},
            "train_reports": _list(self._reports.get("train", {}).values()),
            "valid_reports": _list(self._reports.get(VALIDATION, {}).values()),
            "best_valid": _json(run.value_at(-1)) if run.picks else _NULL,
            "impatience": _json(run.impatience),
            "final_valid_report": self._final(VALIDATION, picked),
            "final_test_report": self._final("test", picked),
            "final_extra_valid_report": _NULL,
            "reasons": _list(self._reasons),
        }
        lines = ",\n".join(f"{_json(name)}: {text}" for name, text in facts.items())
        with atomic_write(self.path, sync=run.complete, last=False) as file:  # the trial's record follows
            file.write(f"{{\n{lines}\n}}\n".encode())
        self._written, self._written_at = len(run.history), time.monotonic()

    def _final(self, split: str, picked: int | None) -> str:
        return _NULL if picked is None else self._reports.get(split, {}).get(picked, _NULL)


def _by_split(record: EpochRecord) -> Mapping[str, Mapping[str, float | None]]:
    """Return the numbers of each split that has values, and of validation at any rate."""
    splits: dict[str, dict[str, float | None]] = {VALIDATION: {}}
    for name, value in record.values.items():
        split = split_name(name)[0]
        numbers = splits.setdefault(split, {})
        if not isinstance(value, list):
            numbers[name.removeprefix(f"{split}:")] = value if math.isfinite(value) else None
    return splits


def _reasons(record: EpochRecord) -> Iterable[dict[str, Any]]:
    for name, value in numbers_of(record.values).items():
        if not math.isfinite(value):
            reason = record.reasons.get(name, f"the value is {value}")
            yield {"epoch": record.epoch, "name": name, "reason": reason}


def _whole(number: float | None) -> float | None:
    if number is None or not math.isfinite(number):
        return None
    return int(number) if number == int(number) else number


def _list(texts: Iterable[str]) -> str:
    inside = ",\n".join(texts)
    return f"[\n{inside}\n]" if inside else "[]"
