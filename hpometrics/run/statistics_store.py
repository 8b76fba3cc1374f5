"""The stored statistics of each epoch, from which other metrics are read without training."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import os
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Literal, Self, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .._redaction import excerpt
from ..direction import Direction
from ..exceptions import NewerFormatError, RecordError
from ..metrics.collection import MetricCollection
from ..metrics.features import (
    BINARY,
    CATEGORY,
    NUMBER,
    PREDICTIONS,
    PROBABILITIES,
    SET,
    TIMESERIES,
    VECTOR,
    InputType,
    OutputFeature,
)
from ..metrics.metric import Metric
from ..metrics.statistics.scores import CLASS_SCORES, UNKNOWN, Pooled, Scores
from ..metrics.statistics.statistic import Statistic
from ..records._files import STATISTICS_LIMIT, read_lines, writing
from ..records._json import FORMAT, FORMAT_KEY, read_sealed, real, sealed, whole
from ..records.epoch_log import STATISTICS_FILE, cut_torn_line
from ..records.trial_record import TRIAL_FILE
from ..selection.model_rows import ModelRows

_TYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64,
    )
}  # fmt: skip
_encode = json.JSONEncoder(allow_nan=False).encode
_MOST_AXES = 16
_MOST_OF_A_ROW = 1 << 24  # values: an empty tensor has no bytes to check its shape against

StatisticsLevel = Literal["small", "rows", "all", "none"]
"""`small` is what has a fixed size, up to `MOST_BYTES` an epoch; `rows` also the row values of the optimized
metric; `all` also what grows with the rows."""
STATISTICS_LEVELS: tuple[StatisticsLevel, ...] = get_args(StatisticsLevel)
MOST_BYTES = 1 << 16
State = Mapping[str, Tensor]
GROWS = "it grows with the rows"


def tensor_to_json(tensor: Tensor) -> dict[str, Any]:
    """Write a tensor.

    >>> tensor_to_json(torch.tensor([[3, 1]], dtype=torch.uint8))
    {'type': 'uint8', 'shape': [1, 2], 'bytes': 'AwE='}
    """
    plain = tensor.view(torch.int16) if tensor.dtype is torch.bfloat16 else tensor  # which NumPy lacks
    text = binascii.b2a_base64(plain.numpy(force=True).tobytes(), newline=False).decode("ascii")
    name = str(tensor.dtype).removeprefix("torch.")
    return {"type": name, "shape": list(tensor.shape), "bytes": text}


def tensor_from_json(content: Mapping[str, Any]) -> Tensor:
    """Read what `tensor_to_json` wrote.

    Raises:
        RecordError: it is something else.
    """
    try:
        dtype, shape = _TYPES[content["type"]], [whole(size) for size in content["shape"]]
        raw = base64.b64decode(content["bytes"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error) as err:
        raise RecordError(f"not a tensor: {excerpt(content, 80)}") from err
    if len(shape) > _MOST_AXES or math.prod(shape) * dtype.itemsize != len(raw):
        raise RecordError(
            f"not a tensor: {len(raw)} bytes are not {content['type']} of shape {excerpt(shape, 80)}"
        )
    if not raw:
        if math.prod(filter(None, shape)) > _MOST_OF_A_ROW:
            raise RecordError(f"not a tensor: one row of shape {excerpt(shape, 80)} would fill the memory")
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape)


@dataclass(frozen=True)
class StatisticsSnapshot:
    """The stored statistics of the rows of one task of one output on one split.

    Args:
        split: whose updates.
        output: the name of the output; None of the only one.
        task: None of updates that name none.
        rows: how many there were.
        void: why its values do not count, if they do not.
        statistics: the state of each by its label.
        left_out: why others are not stored, by label.
    """

    split: str
    output: str | None
    task: str | None
    rows: int = 0
    void: str | None = None
    statistics: Mapping[str, State] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Write it as plain JSON."""
        states = {
            label: {name: tensor_to_json(tensor) for name, tensor in state.items()}
            for label, state in self.statistics.items()
        }
        facts = {name: getattr(self, name) for name in ("split", "output", "task", "rows", "void")}
        return {**facts, "statistics": states, "left_out": dict(self.left_out)}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote.

        Raises:
            RecordError: it is something else.
        """
        try:
            states = {
                str(label): {str(name): tensor_from_json(tensor) for name, tensor in state.items()}
                for label, state in content["statistics"].items()
            }
            return cls(**{**content, "statistics": states, "left_out": dict(content["left_out"])})
        except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as err:
            raise RecordError(f"not the statistics of a task: {excerpt(content, 80)}") from err


@dataclass(frozen=True)
class StoredRows:
    """The row values of the optimized metric in one epoch, see `RowMeter`.

    Args:
        metric: its name.
        method: how they were computed.
        digest: identifies the targets and their order, see `RowsDigest`.
        mean: the value of the metric, which is their mean.
        values: (n,) by row, by group of rows, or by what rows belong to.
        clustered: whether rows were summed by what they belong to.
    """

    metric: str
    method: str
    digest: str
    mean: float
    values: NDArray[np.float64]
    clustered: bool = False

    def of_model(self, label: str) -> ModelRows:
        """Return them as the rows of a model that has one training."""
        return ModelRows(label, self.values[None], self.method, rows_id=self.digest, clustered=self.clustered)

    def to_json(self) -> dict[str, Any]:
        """Write them as plain JSON, compressed: bits where all are 0 or 1, else float32 above the mean.

        Sums are float64: they are few, and rounding would break ties between epochs.
        """
        whole_values = self.values.round()
        if np.isin(whole_values, (0, 1)).all() and np.allclose(self.values, whole_values, rtol=0, atol=1e-9):
            kind, raw = "bits", np.packbits(whole_values.astype(bool)).tobytes()
        elif self.clustered:
            kind, raw = "sums", self.values.astype("<f8").tobytes()
        else:
            kind, raw = "deviations", (self.values - self.mean).astype("<f4").tobytes()
        return {
            **{name: getattr(self, name) for name in ("metric", "method", "digest", "mean")},
            "count": len(self.values),
            "clustered": self.clustered,
            kind: base64.b64encode(zlib.compress(raw, 1)).decode("ascii"),
        }

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote.

        Raises:
            RecordError: it is something else.
        """
        try:
            count, kind = whole(content["count"]), next(iter(content.keys() & {"bits", "sums"}), "deviations")
            size = -(-count // 8) if kind == "bits" else (8 if kind == "sums" else 4) * count
            packed = base64.b64decode(content[kind], validate=True)
            raw = zlib.decompressobj().decompress(packed, size + 1)
            mean = real(content["mean"])
            metric, method, digest = (str(content[name]) for name in ("metric", "method", "digest"))
        except (KeyError, TypeError, ValueError, binascii.Error, zlib.error) as err:
            raise RecordError(f"not row values: {excerpt(content, 80)}") from err
        if len(raw) != size:
            raise RecordError(f"not row values: {len(raw)} bytes are not {count} numbers")
        if kind == "bits":
            values = np.unpackbits(np.frombuffer(raw, dtype=np.uint8), count=count).astype(np.float64)
        elif kind == "sums":
            values = np.frombuffer(raw, dtype="<f8").astype(np.float64)
        else:
            values = mean + np.frombuffer(raw, dtype="<f4").astype(np.float64)
        return cls(metric, method, digest, mean, values, content.get("clustered") is True)


class RowsDigest:
    """Identifies the targets of an epoch in their order, however they were cut into batches.

    Values at the same places of two epochs with the same digest are of the same rows. `TargetDigest`, for the
    same targets in any order, is another one.
    """

    def __init__(self) -> None:
        self._hash = hashlib.blake2b(digest_size=8)

    @property
    def text(self) -> str:
        """The digest of the targets so far."""
        return self._hash.hexdigest()

    def add(self, target: Any) -> None:
        """Add the targets of a batch: a tensor or an array, dense or sparse, or a list of anything."""
        if isinstance(target, Tensor) and target.layout is not torch.strided:
            target = target.to_sparse().coalesce()
            self.add([target.indices().T, target.values()])
        elif isinstance(target, Tensor):
            raw = target.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            self._hash.update(raw.numpy().tobytes())
        elif isinstance(target, np.ndarray) and target.dtype != object:
            self._hash.update(np.ascontiguousarray(target).tobytes())
        elif isinstance(target, Mapping):
            self.add(sorted(target.items()))
        elif isinstance(target, (list, tuple, np.ndarray)):
            for one in target:
                self._hash.update(b"[")
                self.add(one)
        else:
            self._hash.update(repr(target).encode("utf8", "surrogatepass"))


@dataclass(frozen=True)
class Measured:
    """The collection of one task of one output on one split, before its reset; None if all was refused."""

    split: str
    output: str | None
    task: str | None
    void: str | None
    collection: MetricCollection | None


def snapshots_of(measured: Iterable[Measured], level: StatisticsLevel) -> tuple[StatisticsSnapshot, ...]:
    """Copy the statistics of an epoch, the smallest first, as many as fit into `MOST_BYTES`."""
    parts, room = list(measured), MOST_BYTES
    candidates: list[tuple[int, int, str, State]] = []  # size, index of the part, label, state
    chosen: list[dict[str, State]] = [{} for _ in parts]
    left_out: list[dict[str, str]] = [{} for _ in parts]
    for index, part in enumerate(parts):
        for statistic in () if part.collection is None else part.collection.statistics:
            if statistic.grows and level != "all":
                left_out[index][statistic.label] = GROWS
                continue
            state: State = statistic.state()
            size = sum(tensor.nbytes for tensor in state.values())
            candidates.append((size, index, statistic.label, state))
    for size, index, label, state in sorted(candidates, key=lambda one: one[:3]):
        if size <= room or level == "all":
            room -= size
            chosen[index][label] = state
        else:
            left_out[index][label] = f"it has {size} bytes, but at most {MOST_BYTES} are stored per epoch"
    return tuple(map(_part, parts, chosen, left_out))


def _part(one: Measured, states: Mapping[str, State], left_out: Mapping[str, str]) -> StatisticsSnapshot:
    live = one.collection
    void = one.void or (None if live is None else live.complaint)
    rows = 0 if live is None else live.rows
    return StatisticsSnapshot(one.split, one.output, one.task, rows, void, states, left_out)


class _StoredRows(Metric):
    """Holds every row; its value is how many there are."""

    direction: ClassVar[Direction | None] = None

    @property
    def _class_name(self) -> str:
        return "kept_rows"


class StoredScores(_StoredRows):
    """The scores and target of every row; its value is how many there are."""

    inputs: ClassVar[InputType] = PROBABILITIES

    def statistics(self) -> Mapping[str, Statistic]:
        """Keep the scores of every row."""
        return {"rows": Scores()}

    def compute(self) -> Tensor:
        """Count them."""
        return torch.tensor(float(self.statistic(Scores).rows))


class StoredPairs(_StoredRows):
    """The predicted and the right numbers of every row; its value is how many there are."""

    inputs: ClassVar[InputType] = PREDICTIONS

    def statistics(self) -> Mapping[str, Statistic]:
        """Keep both numbers of every row."""
        return {"rows": Pooled()}

    def compute(self) -> Tensor:
        """Count them."""
        return torch.tensor(float(len(self.statistic(Pooled).rows.target)))


_ROW_METRICS: Mapping[str, type[Metric]] = {
    **dict.fromkeys((BINARY, CATEGORY, SET), StoredScores),
    **dict.fromkeys((NUMBER, VECTOR, TIMESERIES), StoredPairs),
}


def row_metrics_of(output: OutputFeature) -> tuple[type[Metric], ...]:
    """Return the metric that stores the rows of an output; texts, sequences and rankings have none."""
    metric_class = _ROW_METRICS.get(output.type)
    return () if metric_class is None else (metric_class,)


def stored_rows(output: OutputFeature, statistics: Mapping[str, State]) -> dict[str, Tensor] | None:
    """Return the stored rows as an update takes them; None if there are none.

    Args:
        output: whose rows.
        statistics: the stored states, by label.
    """
    scores, pairs = statistics.get(Scores().label), statistics.get(Pooled().label)
    if scores:
        keyword = "logits" if bool(scores["are_logits"][0]) else "probabilities"
        values = scores["scores"][:, 0] if output.type == BINARY else scores["scores"]
        if scores["are_logits"][0] == CLASS_SCORES:
            values = _log_probabilities(values)
        target = _target_of(output, scores["target"])
        return {keyword: values, "target": target, **_weights(scores["weight"])}
    if pairs:
        values, target = pairs["values"].unbind(1)
        if output.type == NUMBER:
            values, target = values[:, 0], target[:, 0]
        return {"predictions": values, "target": target, **_weights(pairs["weight"])}
    return None


def _log_probabilities(class_scores: Tensor) -> Tensor:
    """Return the logits of stored rows: their log-probabilities have the same ranks and decisions."""
    sure = torch.log1p((-class_scores).exp() / -4)
    return torch.where(class_scores > -math.log(2), sure, class_scores)


def _target_of(output: OutputFeature, target: Tensor) -> Tensor:
    """Return the target of an update: an unknown label has the output's `ignore_index`."""
    ignored: int | None = getattr(output, "ignore_index", None)
    if output.type != SET or ignored is None:
        return target
    return target.masked_fill(target == UNKNOWN, ignored)


def _weights(weight: Tensor) -> dict[str, Tensor]:
    """Return the weights of rows, unless all are 1."""
    return {} if bool((weight == 1).all()) else {"sample_weight": weight}


@dataclass(frozen=True)
class EpochStatistics:
    """The stored statistics of one epoch: that of the record with the same attempt."""

    attempt: int
    epoch: int
    parts: tuple[StatisticsSnapshot, ...]
    rows: StoredRows | None = None
    held_out: StoredRows | None = None
    """Those of the test split."""

    def to_line(self) -> str:
        """Write it as one line of JSON."""
        parts = [part.to_json() for part in self.parts]
        content = {FORMAT_KEY: FORMAT, "attempt": self.attempt, "epoch": self.epoch, "parts": parts}
        for name, rows in (("rows", self.rows), ("held_out", self.held_out)):
            if rows is not None:
                content[name] = rows.to_json()
        return sealed(_encode(content))

    @classmethod
    def from_line(cls, line: bytes) -> Self:
        """Read what `to_line` wrote.

        Raises:
            RecordError: the line is something else, or has changed since it was written.
            NewerFormatError: a newer version wrote it.
        """
        try:
            content = read_sealed(line.decode(), "a kept epoch")
            parts = tuple(StatisticsSnapshot.from_json(part) for part in content["parts"])
            rows, held_out = (
                StoredRows.from_json(content[name]) if name in content else None
                for name in ("rows", "held_out")
            )
            return cls(whole(content["attempt"]), whole(content["epoch"]), parts, rows, held_out)
        except (NewerFormatError, RecordError):
            raise
        except (ValueError, KeyError, TypeError) as err:
            raise RecordError(f"not the statistics of an epoch: {excerpt(line, 80)!r}") from err


class StatisticsLog:
    """The statistics of one trial beside its record. An epoch is here before it is in the record.

    What is written outlives the process at once. It is synced to disk only when the trial ends, as a run
    resumes from the record alone.

    Args:
        directory: the trial's own; the file is created with the first epoch.
    """

    def __init__(self, directory: Path) -> None:
        self.path = directory / STATISTICS_FILE
        cut_torn_line(self.path)
        self._file: BinaryIO | None = None  # until there is something to write

    def append(
        self,
        attempt: int,
        epoch: int,
        parts: Sequence[StatisticsSnapshot],
        rows: StoredRows | None = None,
        held_out: StoredRows | None = None,
    ) -> None:
        """Append the statistics of an epoch and its row values to the file, if there are any."""
        if not parts and rows is None and held_out is None:
            return
        line = f"{EpochStatistics(attempt, epoch, tuple(parts), rows, held_out).to_line()}\n".encode()
        with writing(self.path):
            self._file = self._file or self.path.open("ab")
            self._file.write(line)
            self._file.flush()

    def close(self) -> None:
        """Force what was written to the disk."""
        file, self._file = self._file, None
        if file is not None:
            with writing(self.path), file:
                os.fsync(file.fileno())


def read_statistics(directory: Path) -> Iterator[EpochStatistics]:
    """Read the statistics of a trial, in the order written; of two of one epoch the later one counts.

    Raises:
        RecordError: a line is damaged; the message names it.
    """
    path = directory / STATISTICS_FILE
    with suppress(FileNotFoundError):
        for number, line in enumerate(read_lines(path, STATISTICS_LIMIT), 1):
            if not line.endswith(b"\n"):
                return  # it is still being written
            try:
                yield EpochStatistics.from_line(line)
            except NewerFormatError:  # the trial's file was read before, and is not newer
                raise RecordError(
                    f"{path}:{number}: is damaged: {TRIAL_FILE} does not have this format"
                ) from None
            except RecordError as err:
                raise RecordError(
                    f"{path}:{number}: {err}; move the file away to read only the recorded metrics"
                ) from err
