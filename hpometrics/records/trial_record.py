"""The record of a trial: its params, the values of every epoch and how it ended; strict JSON both ways."""

from __future__ import annotations

import json
import math
import statistics
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from types import NoneType
from typing import Any, TypeAlias

from .._redaction import excerpt
from ..exceptions import NewerFormatError, RecordError, RunError
from ._files import atomic_write, make_private
from ._json import FORMAT, FORMAT_KEY, check_format, digest_of, read_sealed, real, sealed, whole

Reading: TypeAlias = float | list["Reading"]

TRIAL_FILE = "trial.json"
CHECKPOINTS = "checkpoints"
"""The folder of the checkpoints of a trial."""
_FIELDS_BEFORE_DIGESTS = frozenset(
    "checkpoint constraints ended_by epoch exploits failed_attempts first_params number params reason "
    "repeats seconds seed started state threads value versions".split()
)
_DIGEST = "digest"
_encode = json.JSONEncoder(allow_nan=False, sort_keys=True).encode
_FIELD_TYPES: Mapping[str, tuple[type, ...]] = {
    "number": (int,),
    "params": (Mapping,),
    "value": (int, float, NoneType),
    "epoch": (int, NoneType),
    "reason": (str, NoneType),
    "ended_by": (str, NoneType),
    "seed": (int, NoneType),
    "threads": (int, NoneType),
    "seconds": (int, float),
    "checkpoint": (str, NoneType),
    "versions": (Mapping,),
    "constraints": (Mapping,),
    "failed_attempts": (list, tuple),
    "repeats": (list, tuple),
    "first_params": (Mapping, NoneType),
    "targets": (str, NoneType),
    "machine": (str, NoneType),
    "fault": (str, NoneType),
    "exploits": (list, tuple),
    "gpus": (int, float, NoneType),
    "cost": (int, float, NoneType),
}
"""The type of each field of a record in JSON; a field that is missing here is checked by its parser."""


def numbers_of(readings: Mapping[str, Reading]) -> dict[str, float]:
    """Return the values that are one number, which is all that a host can take."""
    return {name: value for name, value in readings.items() if not isinstance(value, list)}


def number_in(readings: Mapping[str, Reading], name: str) -> float:
    """Return the number of this name; nan if there is none."""
    value = readings.get(name, math.nan)
    return math.nan if isinstance(value, list) else value


def to_json(reading: Reading) -> Any:
    """Convert to plain JSON; null is a number that is not finite."""
    if isinstance(reading, list):
        return [to_json(inner) for inner in reading]
    return reading if math.isfinite(reading) else None


def from_json(content: Any) -> Reading:
    """Read what `to_json` gave; null is nan.

    Raises:
        ValueError: it is something else.
    """
    if isinstance(content, list):
        return [from_json(inner) for inner in content]
    return math.nan if content is None else real(content)


@dataclass(frozen=True)
class Exploit:
    """From this epoch on a trial trained a copy of its donor's state, under these params.

    `epoch` counts from 0 and is the trial's own; `donor` is the number of the other trial.
    Source: Jaderberg et al., Population Based Training of Neural Networks, 2017 (exploit and explore).
    """

    epoch: int
    donor: int
    params: Mapping[str, Any]

    def to_json(self) -> dict[str, Any]:
        """Write it as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Exploit:
        """Read what `to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        return cls(whole(content["epoch"]), whole(content["donor"]), dict(content["params"]))


@dataclass(frozen=True)
class Repeat:
    """One of several runs of a trial, under a seed of its own.

    `value` and `values` (those that are one number) are of its picked epoch; `epochs` is how many it had.
    """

    seed: int | None
    value: float
    epoch: int
    epochs: int
    seconds: float = 0.0
    ended_by: str | None = None
    values: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Write it as plain JSON."""
        return {**asdict(self), "values": {name: to_json(value) for name, value in self.values.items()}}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Repeat:
        """Read what `to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        values = {str(name): _number(value) for name, value in dict(content["values"]).items()}
        seed, ended_by = content["seed"], content["ended_by"]
        return cls(
            None if seed is None else whole(seed),
            real(content["value"]),
            whole(content["epoch"]),
            whole(content["epochs"]),
            real(content["seconds"]),
            None if ended_by is None else str(ended_by),
            values,
        )


def _number(content: Any) -> float:
    """Read a number; null is nan."""
    return math.nan if content is None else real(content)


def mean(values: Iterable[float]) -> float:
    """Return the mean of values that are all finite, else nan: a part of the repeats stands for none.

    It is rounded once, so that the mean of equal values is that value and keeps the same constraints.

    >>> mean([0.5, 0.75, 1.0]), mean([0.95, 0.95, 0.95]), mean([0.5, math.nan])
    (0.75, 0.95, nan)
    """
    values = list(values)
    return statistics.mean(values) if values and all(map(math.isfinite, values)) else math.nan


def mean_values(repeats: Sequence[Repeat]) -> dict[str, float]:
    """Return the mean of each value over repeats; nan if one of them lacks it."""
    names = dict.fromkeys(name for repeat in repeats for name in repeat.values)
    return {name: mean(repeat.values.get(name, math.nan) for repeat in repeats) for name in names}


def deviation(values: Sequence[float]) -> float | None:
    """Return the standard deviation of a sample (n - 1); None for fewer than two values.

    >>> deviation([0.5, 0.75, 1.0]), deviation([0.5])
    (0.25, None)
    """
    if len(values) < 2:
        return None
    return statistics.stdev(values) if all(map(math.isfinite, values)) else math.nan


class TrialState(StrEnum):
    """How a trial stands or how it ended."""

    WAITING = "waiting"
    RUNNING = "running"
    COMPLETE = "complete"
    PRUNED = "pruned"
    FAILED = "failed"
    INFEASIBLE = "infeasible"
    INTERRUPTED = "interrupted"

    @property
    def finished(self) -> bool:
        """Whether nothing more will come of it; an interrupted trial goes on one day."""
        return self not in (TrialState.WAITING, TrialState.RUNNING, TrialState.INTERRUPTED)

    @property
    def trained(self) -> bool:
        """Whether it was trained to its end, feasible or not."""
        return self in (TrialState.COMPLETE, TrialState.INFEASIBLE)


def place_text(epoch: int | None, step: int | None) -> str:
    """Return how an epoch is called: by its number, or in a run that counts steps by those done at its end.

    >>> place_text(2, None), place_text(2, 1500)
    ('epoch 2', 'step 1500')
    """
    return f"epoch {epoch}" if step is None else f"step {step}"


@dataclass(frozen=True)
class EpochRecord:
    """One epoch: all its values by name, and for each value that is nan the reason.

    A value is a number, or for a curve or a matrix lists of them.
    `epoch` counts from 0, `attempt` from 1; `seconds` is the epoch's wall time. In a run that counts steps an
    epoch is what lies between two reports, and `step` is how many steps are done at its end.

    >>> EpochRecord(0, {"f1": math.nan}, {"f1": "void"}, 2).to_line().partition("format")[0]
    '{"attempt": 1, "epoch": 0, "'
    """

    epoch: int
    values: Mapping[str, Reading]
    reasons: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    attempt: int = 1
    step: int | None = None

    @property
    def place(self) -> int:
        """The place on the axis of a course: the step, or the epoch where no steps are counted."""
        return self.epoch if self.step is None else self.step

    def to_line(self) -> str:
        """Write the epoch as one line of JSON; a value that is not finite is null and has its reason."""
        values = {name: to_json(value) for name, value in self.values.items()}
        odd = {name: str(self.values[name]) for name, content in values.items() if content is None}
        content = {
            "attempt": self.attempt,
            "epoch": self.epoch,
            FORMAT_KEY: FORMAT,
            "seconds": self.seconds,
            "values": values,
            "reasons": {**odd, **self.reasons},
            **({} if self.step is None else {"step": self.step}),
        }
        return sealed(_encode(content))

    def number(self, name: str) -> float:
        """Return the value of a metric; nan if it was not measured in this epoch, or has many numbers."""
        return number_in(self.values, name)

    def with_numbers(self, numbers: Mapping[str, float]) -> EpochRecord:
        """Return a copy with these values."""
        return replace(self, values={**self.values, **numbers})

    @classmethod
    def from_line(cls, line: str, place: str = "an epoch record") -> EpochRecord:
        """Read what `to_line` wrote.

        Args:
            line: the text.
            place: of the text, as an error names it.

        Raises:
            RecordError: the line is something else.
            NewerFormatError: a newer version wrote it.
        """
        try:
            content = read_sealed(line, place)
            values = {str(name): from_json(value) for name, value in content["values"].items()}
            reasons = {str(name): str(reason) for name, reason in content["reasons"].items()}
            epoch, attempt, step = whole(content["epoch"]), whole(content["attempt"]), content.get("step")
            seconds = real(content["seconds"])
            return cls(epoch, values, reasons, seconds, attempt, None if step is None else whole(step))
        except NewerFormatError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError) as err:
            raise RecordError(f"not an epoch record: {excerpt(line, 80)!r}") from err


@dataclass(frozen=True)
class TrialRecord:
    """One trial, on any backend.

    `value` and `epoch` are those of the picked epoch (None before there is one), `reason` says why a trial
    that is not complete ended, `ended_by` the setting that ended one before its last epoch (see `End`),
    `checkpoint` is the state at the end of the picked epoch, if one was kept.
    `constraints` has by how much the picked epoch exceeds each bound: 0 or less keeps it.
    `failed_attempts` are the reasons of runs that were tried again. Of a trial with several `repeats` values
    are means over them, epochs, picked epoch and checkpoint those of the first; a trial with
    a single run has no repeats.
    Where population based training has changed a trial, `exploits` list the changes, `params` are those in
    force at the picked epoch and `first_params` those it began with. `targets` is the digest of the targets
    that it was measured on. `machine` is where its last process ran, by name and start; `ended` is when its
    last run ended there, `gpus` how many GPUs it had; `cost` is the sum of what it logged as its cost, if the
    spec names such a value. `fault` identifies an error before the first epoch, as in
    `KeyError at /home/ada/train.py:12`, or a cost that no epoch logs: where other trials have the same one,
    it is the engine's.
    """

    number: int
    params: Mapping[str, Any]
    state: TrialState = TrialState.WAITING
    value: float | None = None
    epoch: int | None = None
    epochs: tuple[EpochRecord, ...] = ()
    reason: str | None = None
    ended_by: str | None = None
    seed: int | None = None
    threads: int | None = None
    started: datetime | None = None
    seconds: float = 0.0
    checkpoint: Path | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    constraints: Mapping[str, float] = field(default_factory=dict)
    failed_attempts: tuple[str, ...] = ()
    repeats: tuple[Repeat, ...] = ()
    first_params: Mapping[str, Any] | None = None
    exploits: tuple[Exploit, ...] = ()
    targets: str | None = None
    machine: str | None = None
    fault: str | None = None
    ended: datetime | None = None
    gpus: float | None = None
    cost: float | None = None

    @property
    def given(self) -> Mapping[str, Any]:
        """The params that its host drew for it."""
        return self.params if self.first_params is None else self.first_params

    def params_at(self, epoch: int | None) -> Mapping[str, Any]:
        """Return the params in force at an epoch; of None, the current ones."""
        changed = [one.params for one in self.exploits if epoch is None or one.epoch <= epoch]
        return changed[-1] if changed else self.given

    @property
    def step(self) -> int | None:
        """The steps done at the end of the picked epoch, where the run counts them."""
        return next((e.step for e in reversed(self.epochs) if e.epoch == self.epoch), None)

    @property
    def place(self) -> int | None:
        """That of the picked epoch, see `EpochRecord.place`; None before there is one."""
        return self.epoch if self.step is None else self.step

    @property
    def unit(self) -> str:
        """The word for what it counts: `epoch` or `step`."""
        return "step" if self.epochs and self.epochs[-1].step is not None else "epoch"

    @property
    def extent(self) -> int:
        """The number of steps that it was trained, or of epochs where no steps are counted."""
        return self.epochs[-1].place if self.unit == "step" else len(self.epochs)

    @property
    def picked_values(self) -> Mapping[str, Reading]:
        """All values of the picked epoch, by name; over repeats their means, a curve the first one's."""
        picked = next((e.values for e in reversed(self.epochs) if e.epoch == self.epoch), {})
        return {**picked, **mean_values(self.repeats)} if self.repeats else picked

    def scores(self, names: Iterable[str]) -> tuple[float, ...]:
        """Return the values of the optimized metrics, in order; nan if the picked epoch lacks one."""
        first, others = math.nan if self.value is None else self.value, list(names)[1:]
        values = self.picked_values if others else {}
        return (first, *(number_in(values, name) for name in others))

    @property
    def deviation(self) -> float | None:
        """The standard deviation of the value over repeats; None of fewer than two."""
        return deviation([repeat.value for repeat in self.repeats])

    def as_repeat(self) -> Repeat:
        """Return the run as one of several under the same params.

        Raises:
            RunError: it has no value.
        """
        if self.value is None or self.epoch is None:
            raise RunError(f"trial {self.number} is {self.state.value} without a value")
        values = numbers_of(self.picked_values)
        return Repeat(
            self.seed, self.value, self.epoch, len(self.epochs), self.seconds, self.ended_by, values
        )

    def to_json(self, home: Path | None = None) -> dict[str, Any]:
        """Write all but the epochs as plain JSON; a checkpoint below `home` relative to it."""
        content = {name: value for name, value in vars(self).items() if name != "epochs"}
        content["state"] = self.state.value
        content["value"] = self.value if self.value is not None and math.isfinite(self.value) else None
        content["started"] = self.started.isoformat() if self.started else None
        content["ended"] = self.ended.isoformat() if self.ended else None
        content["checkpoint"] = _relative(self.checkpoint, home)
        content["repeats"] = [repeat.to_json() for repeat in self.repeats]
        content["exploits"] = [exploit.to_json() for exploit in self.exploits]
        content["constraints"] = {text: to_json(excess) for text, excess in self.constraints.items()}
        return content

    @classmethod
    def from_json(
        cls, content: Mapping[str, Any], epochs: tuple[EpochRecord, ...] = (), home: Path | None = None
    ) -> TrialRecord:
        """Read what `to_json` wrote; fields that a later version added are left aside.

        Raises:
            RecordError: a field is missing or not what it should be.
        """
        try:
            facts = {f.name: content[f.name] for f in fields(cls) if f.name in content}
            _check_fields(facts)
            facts["state"] = TrialState(content["state"])
            for name in ("started", "ended"):
                if facts.get(name):
                    facts[name] = datetime.fromisoformat(facts[name])
            if facts.get("checkpoint"):
                facts["checkpoint"] = (home or Path()) / facts["checkpoint"]
            facts["failed_attempts"] = tuple(map(str, facts.get("failed_attempts", ())))
            facts["repeats"] = tuple(map(Repeat.from_json, facts.get("repeats", ())))
            facts["exploits"] = tuple(map(Exploit.from_json, facts.get("exploits", ())))
            excesses = facts.get("constraints", {})
            facts["constraints"] = {text: math.inf if x is None else x for text, x in excesses.items()}
            return cls(**{**facts, "epochs": epochs})
        except (ValueError, KeyError, TypeError) as err:
            raise RecordError(f"not a trial record ({err}): {excerpt(content, 80)}") from err


def _check_fields(facts: Mapping[str, Any]) -> None:
    for name, value in facts.items():
        kinds = _FIELD_TYPES.get(name)
        if kinds is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise ValueError(f"{name} cannot be {excerpt(repr(value), 40)}")


def warn_of_other_rows(number: int, rows: str, first: int, first_rows: str) -> None:
    """Warn of a trial that was measured on other validation rows than one before it."""
    warnings.warn(
        f"trial {number} was measured on other validation rows than trial {first} ({rows}, not "
        f"{first_rows}), so their values differ for more reasons than their params; use the same rows in "
        "every trial, for example with a fixed seed for the split",
        stacklevel=4,
    )


def write_trial(directory: Path, record: TrialRecord, *, last: bool = True) -> None:
    """Write `trial.json` whole or not at all; for `last` see `atomic_write`."""
    make_private(directory)
    with atomic_write(directory / TRIAL_FILE, last=last) as file:
        content = {FORMAT_KEY: FORMAT, **record.to_json(directory)}
        file.write(_page({**content, _DIGEST: _digest(content)}).encode())


def is_as_written(content: Mapping[str, Any]) -> bool:
    """Check the content of a `trial.json` against its digest.

    Earlier versions wrote no digest; their files have every field of that time.
    """
    if _DIGEST in content:
        return bool(content[_DIGEST] == _digest(content))
    return FORMAT_KEY not in content and _FIELDS_BEFORE_DIGESTS <= content.keys()


def check_trial_format(content: Any, path: Path) -> None:
    """Check that no newer version has written the content of a `trial.json`.

    Raises:
        NewerFormatError: it has; its digest may be of another kind.
        RecordError: the number is damaged: with a digit turned back, this version's digest fits.
    """
    try:
        check_format(content, path)
    except NewerFormatError:
        if content[FORMAT_KEY] < 10 and content.get(_DIGEST) == _digest({**content, FORMAT_KEY: FORMAT}):
            raise RecordError(f"{path}: has changed since it was written") from None
        raise


def _digest(content: Mapping[str, Any]) -> str:
    return digest_of(_encode({name: value for name, value in content.items() if name != _DIGEST}))


def _page(content: Mapping[str, Any]) -> str:
    """Write a field per line, by the encoder that is written in C, which knows no indent."""
    lines = ",\n".join(f' "{name}": {_encode(value)}' for name, value in sorted(content.items()))
    return f"{{\n{lines}\n}}\n"


def _relative(path: Path | None, home: Path | None) -> str | None:
    if path is None or home is None or not path.absolute().is_relative_to(home.absolute()):
        return None if path is None else str(path)
    return str(path.absolute().relative_to(home.absolute()))
