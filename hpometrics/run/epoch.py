"""EpochMeter measures one epoch: its measured, recorded, watched and logged values, or why each is nan."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..exceptions import RunError
from ..metrics._checks import part_of
from ..metrics.additive import Additive
from ..metrics.multitask import by_task
from ..metrics.registry.names import MetricName
from ..metrics.registry.scope import ALL_TASKS, VALIDATION
from ..metrics.reports import Report
from ..metrics.retrieval.per_user import PerUser
from .checkpoint import random_states
from .distributed import Ranks
from .example_finder import Examples, Place, RankExamples
from .example_selection import Line, ids_of
from .logged_values import LastBatch, LoggedValues, reading, together
from .monitor import RankValues, Watch, Watches, over_ranks
from .spec import RunSpec
from .split import (
    EpochValues,
    ObjectiveRows,
    Reasons,
    RowsState,
    SplitMetrics,
    Values,
    name_in_record,
    value_name,
)
from .statistics_store import StatisticsLevel, StatisticsSnapshot, StoredRows, snapshots_of
from .throughput import EXAMPLES, NO_TASK, Throughput

_ODD = (0x9E3779B97F4A7C15 - 2**64, 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)
"""Factors of splitmix64 (Steele et al. 2014, OOPSLA), as int64."""
_WHOLE = 2**64
_SMALL = 1 << 10  # elements of a target that is copied to be hashed with others
_AT_ONCE = 1 << 14

NO_TARGETS = (0, 0)
"""The sums of a `TargetDigest` without a row."""
_ENTRIES = "examples"

Additives = Mapping[str, Mapping[str, Report]]
"""Additive values by split and task."""


class RankState(NamedTuple):
    """The counts, records, logs, watched values and examples of one or several processes, by split.

    `targets` are the sums of one process over the targets of its first pass; None in later epochs.
    `measured` is what one process measured; it is empty if there is no other process. `random` are the random
    states of one process; None unless the epoch is checkpointed. `rows` are the rows of one process whose
    values are kept; none if there is no other process.
    """

    measured: Mapping[str, Mapping[str, Any]]
    counts: Additives
    recorded: Additives
    watched: RankValues
    logged: RankValues
    examples: Sequence[RankExamples]
    targets: tuple[int, int] | None = None
    random: Any = None
    rows: Mapping[str, RowsState] = {}


class EpochMeter:
    """Measures and collects the values of one epoch of a run.

    A split that no tracked name mentions is measured like validation. `per_user` are the values by user of
    the epoch closed last; None where the output does not ask for them. `examples` are its worst and best
    examples; None unless the spec asks for them. `statistics` are those that the spec keeps, `row_values` by
    split those of the optimized metric, where it asks for them and there are some. `updated` is whether the
    open epoch has a batch of the validation split; `targets` identifies the rows of the first epoch that had
    some, see `TargetDigest`.

    Args:
        spec: what is measured.
        ranks: the processes that measure it.
        keeps: whether statistics are written to disk; other ranks than the first write nothing.
    """

    def __init__(self, spec: RunSpec, ranks: Ranks, keeps: bool = True) -> None:
        self._spec = spec
        self._recorded_names = spec.recorded
        self._ranks = ranks
        self._splits: dict[str, SplitMetrics] = {}
        self.logged = LoggedValues()
        self._throughput = Throughput()
        self._examples = Examples(spec.track_examples) if spec.track_examples else None
        self.watches: Watches | None = None
        self._level: StatisticsLevel = spec.statistics if keeps else "none"
        self.per_user: PerUser | None = None
        self.examples: tuple[Line, ...] | None = None
        self.statistics: tuple[StatisticsSnapshot, ...] = ()
        keeps_rows = (keeps or not ranks.leads) and spec.statistics in ("rows", "all")
        self._rows = ObjectiveRows.by_split(spec) if keeps_rows else {}
        self.row_values: dict[str, StoredRows] = {}
        self._by_user = any(getattr(output, "per_user", False) for output in spec.features.values())
        self.updated = False
        self._digest = TargetDigest()
        self.targets: str | None = None
        self._passes = 0
        for split, collections in spec.collections.items():
            if any(collection.names for collection in collections.values()):  # nan without a batch
                self._split(split)

    def update(self, split: str, tensors: dict[str, Any], examples: Any = None, by: Any = None) -> None:
        """Add a batch; a model output or target that is not finite voids the epoch of its task.

        Args:
            split: one of `SPLITS`.
            tensors: the keywords of the update, from which `feature` and `task` are removed.
            examples: the user's entry for each row.
            by: what each row belongs to.

        Raises:
            RunError: the split or output does not exist, or nothing is measured on it.
            MetricInputError: the batch is not what the metrics read.
        """
        feature, task = tensors.pop("feature", None), tensors.pop("task", None)
        metrics = self._splits.get(split) or self._split(split)
        key, live = metrics.find(feature)
        parts, counts, rows = {}, {}, 0
        for of, own in by_task(task, tensors):
            counts[of], parts[of] = self._throughput.read(own, live.output)
            rows += counts[of].rows
        ids = None if by is None else ids_of(by, rows)
        new_examples = {}
        if self._examples is not None:
            for of, own in by_task(task, {_ENTRIES: examples}):
                new_examples[of] = self._examples.read(live.prototype, parts[of], own[_ENTRIES])
        metrics.update(key, parts, tensors)
        self._throughput.add(counts, split, feature)
        if split == VALIDATION:
            self.updated = True
            if not self._passes:
                self._digest.add(tensors.get("target"), feature)
        if split in self._rows and not metrics.void:
            by_part = {of: own["ids"] for of, own in by_task(task, {"ids": ids})}
            self._rows[split].add(key, parts, by_part)
        if self._examples is not None and not metrics.void:
            for of, read in new_examples.items():
                if read is not None:
                    self._examples.add(Place(split, of, feature), live.measured[of], read)
        self.logged.last_batches[split] = LastBatch(task, rows)
        if self.watches is not None:
            self.watches.timer.mark(split)

    def watch(self, *args: Any) -> Watch:
        """Watch an optimizer; see `Watches.add`, whose arguments it takes."""
        watches = self.watches or Watches()
        watch = watches.add(*args)
        self.watches = watches  # now that no argument is out of range
        return watch

    def check_names(self, *names: str) -> None:
        """Check that this run does not measure values of these names itself.

        Raises:
            RunError: naming the first of them.
        """
        if not self._spec.combined and not self._splits:
            return
        own = {combined.name for combined in self._spec.combined}
        own.update(*(metrics.names for metrics in self._splits.values()))
        for name in names:
            if value_name(name) in own:
                raise RunError(
                    f"this run already measures {name!r}; log yours under another name, such as my_{name}"
                )

    def measure(self) -> Values:
        """Return the values measured in the open epoch so far, over all ranks; none before an update.

        Raises:
            RankError: another rank has failed.
        """
        alone = self._ranks.alone
        states = self._ranks.gather(lambda: (self.updated, {} if alone else self._measured_state()))
        if not any(updated for updated, _ in states):
            return {}
        splits = self._splits if alone else self._merge([state for _, state in states])
        values = EpochValues(self._spec, self._tasks_of(splits.values(), ()))
        for metrics in splits.values():
            values.take("measured", *metrics.compute())
        values.combine()
        values.check_finite()
        return values.values

    def close(self, checkpointed: bool) -> tuple[EpochValues, list[Any]]:
        """Return all values of the epoch, over all ranks by one collective, and begin the next.

        Returns:
            The values, and the random states of each rank if the epoch is checkpointed.

        Raises:
            RunError: a value was measured and also recorded, watched or logged.
            RankError: another rank has failed.
        """
        states = self._ranks.gather(partial(self._state, checkpointed))
        splits = self._splits if self._ranks.alone else self._merge([state.measured for state in states])
        state = states[0] if len(states) == 1 else _combine_states(states)
        epoch = EpochValues(self._spec, self._tasks_of(splits.values(), state.recorded.values()))
        for metrics in splits.values():
            epoch.take("measured", *metrics.compute())
        for split, counts in state.counts.items():
            epoch.take("counted", self._read_counts(split, counts, epoch.values), {})
        for split, recorded in state.recorded.items():
            epoch.take("recorded", *self._read_recorded(split, recorded))
        if state.watched[0]:
            epoch.take("watched", *state.watched)
        if state.logged[0]:
            epoch.take("logged", *state.logged)
        if splits:
            self._keep(splits.values(), states, state.examples, epoch.values)
        self._reset()
        if self._spec.combined:
            epoch.combine()
        epoch.settle()
        return epoch, [state.random for state in states]

    def _state(self, checkpointed: bool) -> RankState:
        """Return what this process has collected in the epoch."""
        watches, examples = self.watches, []
        if self._examples is not None:
            examples.append(self._examples.take({s for s, metrics in self._splits.items() if metrics.void}))
        return RankState(
            {} if self._ranks.alone else self._measured_state(),
            self._throughput.state(None if watches is None else watches.timer),
            self.logged.state(),
            ({}, {}) if watches is None else watches.close(),
            self.logged.numbers(),
            examples,
            None if self._passes else self._digest.sums(),
            random_states() if checkpointed else None,
            {} if self._ranks.alone else {split: rows.state() for split, rows in self._rows.items()},
        )

    def _measured_state(self) -> dict[str, dict[str, Any]]:
        """Return what this process has measured in the epoch, which others need."""
        return {split: metrics.state_dict() for split, metrics in self._splits.items()}

    def _keep(
        self,
        splits: Iterable[SplitMetrics],
        states: Sequence[RankState],
        examples: Sequence[RankExamples],
        values: Values,
    ) -> None:
        """Keep of the measured rows what the spec asks for beside their values."""
        if not self._passes and any(state.targets != NO_TARGETS for state in states):
            self.targets = digest_of([state.targets for state in states])
            self._passes = int(self.targets is not None)
        if self._by_user:
            tables = [table for metrics in splits for table in metrics.by_user()]
            self.per_user = PerUser.joined(tables) if tables else None
        if self._examples is not None:
            self.examples = self._examples.close(examples)
        if self._level != "none":
            self.statistics = snapshots_of((one for p in splits for one in p.measured()), self._level)
        self.row_values = {}
        for split, rows in self._rows.items() if self._ranks.leads else ():
            if not self._ranks.alone:
                rows.merge_state(state.rows.get(split) for state in states)
            if (stored := rows.close(values)) is not None:
                self.row_values[split] = stored

    def _merge(self, states: Iterable[Mapping[str, Any]]) -> Mapping[str, SplitMetrics]:
        """Return the metrics of each split, merged over every process."""
        return {split: self._split(split).over(parts) for split, parts in _by_split(states).items()}

    def _read_counts(self, split: str, state: Mapping[str, Report], measured: Values) -> Values:
        """Return the counts of a split; `exs` is one if defaults are measured or it is optimized."""
        values: Values = {}
        for name, count in reading(state, self._recorded_names).items():
            key = name_in_record(split, name)
            is_recorded = (
                self._spec.defaults
                or name in self._spec.optimized
                or MetricName.parse(name).metric != EXAMPLES
            )
            if is_recorded and key not in measured:  # a metric's own gen_n_toks stands
                values[key] = count.value()
        return values

    def _read_recorded(self, split: str, state: Mapping[str, Report]) -> tuple[Values, Reasons]:
        """Return the recorded values of a split."""
        values: Values = {}
        reasons: Reasons = {}
        for name, recorded in reading(state, self._recorded_names).items():
            key = name_in_record(split, name)
            values[key], reason = _read_additive(recorded)
            if reason is not None:
                reasons[key] = reason
        return values, reasons

    def _reset(self) -> None:
        """Begin the next epoch."""
        self.updated = False
        self.logged.reset()
        self._throughput.reset()
        for metrics in self._splits.values():
            metrics.reset()

    def _split(self, split: str) -> SplitMetrics:
        if split not in self._splits:
            prototypes = self._spec.collections.get(split) or self._spec.collections.get(VALIDATION)
            self._splits[split] = SplitMetrics(split, prototypes)
        return self._splits[split]

    def _tasks_of(self, splits: Iterable[SplitMetrics], recorded: Iterable[Mapping[str, Report]]) -> set[str]:
        """Return the tasks that an epoch has met, over which values are combined; none if none are."""
        if not self._spec.combined:
            return set()
        tasks = {task for state in recorded for task in state if task not in (NO_TASK, ALL_TASKS)}
        return tasks.union(*(metrics.tasks for metrics in splits))


def _combine_states(states: Sequence[RankState]) -> RankState:
    """Combine the states of processes in the order of ranks, except `measured`, which the splits merge."""
    return RankState(
        {},
        _add_up(state.counts for state in states),
        _add_up(state.recorded for state in states),
        over_ranks([state.watched for state in states]),
        _first_values([state.logged for state in states]),
        [examples for state in states for examples in state.examples],
    )


def _add_up(states: Iterable[Additives]) -> Additives:
    """Add up additive values of several processes."""
    return {split: together(parts) for split, parts in _by_split(states).items()}


def _by_split(states: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the states of all processes that met a split, by split, sorted."""
    states = list(states)
    splits = sorted({split for state in states for split in state})
    return {split: [state[split] for state in states if split in state] for split in splits}


def _first_values(logged: Sequence[RankValues]) -> RankValues:
    """Return the logged values of the first process that has each: they cannot be added."""
    values: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for own, why in logged:
        reasons |= {name: reason for name, reason in why.items() if name not in values}
        values |= {name: value for name, value in own.items() if name not in values}
    return values, reasons


def _read_additive(value: Additive) -> tuple[float, str | None]:
    """Return the number that an additive value amounts to, and why that is nan."""
    try:
        number = value.value()
    except OverflowError:  # such as that of a perplexity
        return math.nan, f"{value!r} is too large for a number"
    return number, f"{value!r} is undefined" if math.isnan(number) else None


class TargetDigest:
    """The sum of a hash of each row's target, modulo 2^64, and the number of rows.

    Two passes over the same rows have the same digest, in whatever order and batches; other rows have another
    one. Tensors stay on their device, without synchronization before `sums`. Small batches on the CPU are
    copied and hashed together: twenty operations on each would take longer than an update.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._total: int | Tensor = 0
        self._readable = True
        self._waiting: dict[tuple[Any, ...], list[bytes]] = {}  # by output, type and width
        self._waiting_elements = 0

    def add(self, target: Any, output: str | None = None) -> None:
        """Add the targets of a batch, a dense tensor, an array, or a list of numbers or texts.

        Any other target ends the digest: `sums` is None.

        Args:
            target: (N, ...) of one output.
            output: its name, where there are several.
        """
        if not self._readable:
            return
        if type(target) is Tensor and _can_wait(target) and isinstance(part := part_of(target), np.ndarray):
            kind = output, part.dtype, part.shape[1:]
            self._waiting.setdefault(kind, []).append(part.tobytes())
            self._waiting_elements += part.size
            if self._waiting_elements > _AT_ONCE:
                self._add_waiting()
        else:
            self._add_now(target, output)

    def _add_now(self, target: Any, output: str | None) -> None:
        hashes = _hashes_of(target)
        if hashes is None:
            self._readable = False
            return
        self._rows += len(hashes)
        self._total = self._total + _mix(hashes + zlib.crc32((output or "").encode())).sum()

    def _add_waiting(self) -> None:
        for (output, dtype, width), targets in self._waiting.items():
            self._add_now(np.frombuffer(b"".join(targets), dtype).reshape(-1, *width), output)
        self._waiting, self._waiting_elements = {}, 0

    def sums(self) -> tuple[int, int] | None:
        """Return the number of rows and the sum of their hashes; None if a target could not be read."""
        if self._waiting:
            self._add_waiting()
        return (self._rows, int(self._total) % _WHOLE) if self._readable else None


def digest_of(sums: Sequence[tuple[int, int] | None]) -> str | None:
    """Return the digest of the rows of all processes; None without a row, or if a target is unreadable.

    >>> digest = TargetDigest()
    >>> digest.add(torch.tensor([1, 0, 1]))
    >>> digest_of([digest.sums()])
    '3 rows 6553aed60802458c'
    """
    readable = [one for one in sums if one is not None]
    rows = sum(rows for rows, _ in readable)
    if not rows or len(readable) < len(sums):
        return None
    return f"{rows} rows {sum(total for _, total in readable) % _WHOLE:016x}"


def _can_wait(target: Tensor) -> bool:
    """Return whether a tensor is small and plain, so that it may be copied and read with others."""
    plain = target.is_cpu and target.layout is torch.strided and not target.is_nested
    return plain and target.ndim > 0 and 0 < target.numel() <= _SMALL


def _hashes_of(target: Any) -> Tensor | None:
    """Return a hash of each row, (N,) int64; None if the target cannot be read."""
    if isinstance(target, np.ndarray) and target.dtype != object:
        wide = np.float64 if target.dtype.kind == "f" else np.int64  # torch warns of read-only memory
        target = torch.from_numpy(target.astype(wide)) if target.dtype.kind in "biuf" else target.tolist()
    if isinstance(target, (list, tuple)):
        target = _of_list(target)
    if not isinstance(target, Tensor) or target.layout is not torch.strided or not target.ndim:
        return None
    values = target.detach()
    if values.is_complex() or values.is_quantized or values.is_nested:
        return None
    whole = (values.double() + 0.0).view(torch.int64) if values.is_floating_point() else values.long()
    columns = whole.reshape(len(whole), -1) if len(whole) else whole.reshape(0, 1)
    places = torch.arange(1, columns.shape[1] + 1, device=columns.device) * _ODD[0]
    return _mix(columns + places).sum(1)


def _of_list(rows: Sequence[Any]) -> Tensor | None:
    """Convert a list to numbers: texts, and lists of texts, to their checksums."""
    if all(isinstance(row, (str, list, tuple)) for row in rows) and any(_has_text(row) for row in rows):
        return torch.tensor([zlib.crc32(repr(row).encode("utf8", "surrogatepass")) for row in rows])
    try:
        return torch.as_tensor(np.asarray(rows)) if rows else torch.zeros(0)
    except (TypeError, ValueError, RuntimeError):  # ragged, or mappings
        return None


def _has_text(row: Any) -> bool:
    return isinstance(row, str) or any(isinstance(part, str) for part in row)


def _mix(values: Tensor) -> Tensor:
    """Apply the finalizer of splitmix64, whose every output bit depends on every input bit."""
    values = (values ^ (values >> 30)) * _ODD[1]
    values = (values ^ (values >> 27)) * _ODD[2]
    return values ^ (values >> 31)
