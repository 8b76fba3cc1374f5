"""The values that a program logs to TensorBoard or W&B, read from their files while it writes them.

Source: TFRecord and `event.proto` of TensorFlow: the length of an event (8 bytes), a checksum (4), the event,
a checksum (4). The transaction log of W&B: a header of 7 bytes, then the log format of LevelDB. Its blocks of
32 KiB hold chunks: a checksum (4 bytes), a length (2), a kind (1), the data. A record is a chunk or several.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .tail import Files, Tail

_EVENTS = "*.tfevents.*"
_LENGTH = struct.Struct("<Q")
_HEAD, _FOOT = 12, 4
_FORMATS = {1: "f", 2: "d", 3: "i", 9: "q"}  # of TensorFlow's types: float, double, int32, int64

_HISTORY = "*wandb/*run-*/run-*.wandb"  # `latest-run`, a link, is left out
_HEADER, _BLOCK = 7, 2**15
_CHUNK = struct.Struct("<IHB")
_WHOLE, _LAST = 1, 4  # the kinds of chunks that end a record
_PARAMS_FILE = "wandb-params.yaml"
_FLUSH_INTERVAL = "0.5"  # seconds


@dataclass(frozen=True)
class Scalar:
    """A value of a tag at a step; `folder` is that of its file, below the directory that is read."""

    tag: str
    step: int
    value: float
    folder: str


class EventFiles:
    """The event files of a directory and those below it.

    Args:
        directory: the directory, which need not exist yet.
        skips: whether what they hold now is left out.
    """

    def __init__(self, directory: Path, skips: bool) -> None:
        self._directory = directory
        self._files = Files(lambda: directory.rglob(_EVENTS), EventFile, skips)

    def read(self, last: bool = False) -> list[Scalar]:
        """Return the scalars that are new, file by file; at last also of files of the last second."""
        return [
            Scalar(tag, step, value, self._folder(path))
            for path, file in self._files.read(last)
            for tag, step, value in file.read()
        ]

    def _folder(self, path: Path) -> str:
        folder = path.parent.relative_to(self._directory).as_posix()
        return "" if folder == "." else folder


class EventFile:
    """One event file.

    Args:
        path: the file.
        skips: whether what it holds now is left out.
    """

    def __init__(self, path: Path, skips: bool) -> None:
        self._tail = Tail(path, skips)
        self._rest = b""

    def read(self) -> Iterator[tuple[str, int, float]]:
        """Yield tag, step and value of each scalar that is new."""
        from tensorboardX.proto.event_pb2 import Event  # an optional package

        content, anew = self._tail.read()
        self._rest = (b"" if anew else self._rest) + content
        while len(self._rest) >= _HEAD:
            (length,) = _LENGTH.unpack_from(self._rest)
            end = _HEAD + length
            if len(self._rest) < end + _FOOT:
                return
            event = Event.FromString(self._rest[_HEAD:end])
            self._rest = self._rest[end + _FOOT :]
            for value in event.summary.value:
                number = _number(value)
                if number is not None:
                    yield value.tag, event.step, number


def _number(value: Any) -> float | None:
    """Return a scalar, as a number or a tensor of one number; None for a figure, a text or a histogram."""
    kind = value.WhichOneof("value")
    if kind == "simple_value":
        return float(value.simple_value)
    if kind != "tensor" or any(one.size != 1 for one in value.tensor.tensor_shape.dim):
        return None
    tensor = value.tensor
    if tensor.tensor_content and tensor.dtype in _FORMATS:
        form = struct.Struct(f"<{_FORMATS[tensor.dtype]}")
        return (
            float(form.unpack(tensor.tensor_content)[0]) if len(tensor.tensor_content) == form.size else None
        )
    numbers = [*tensor.float_val, *tensor.double_val, *tensor.int_val, *tensor.int64_val]
    return float(numbers[0]) if len(numbers) == 1 else None


def write_params(folder: Path, params: Mapping[str, Any]) -> Path:
    """Write the params of a trial as W&B's agent does, for `wandb.config`; return the path of the file.

    W&B passes nested `parameters` as mappings, and a name with a dot as it is. A sweep file has dotted names
    for both, so a param with a dot is there in both forms.
    """
    path = folder / _PARAMS_FILE
    values = {**_nested(params), **params}
    facts = {"wandb_version": 1, **{name: {"value": value} for name, value in values.items()}}
    path.write_text(json.dumps(facts), encoding="utf8")  # which is YAML too
    return path


def _nested(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params with dotted names as nested mappings, but for those below another param."""
    values: dict[str, Any] = {}
    for name, value in params.items():
        *parents, last = name.split(".")
        fronts = (".".join(parents[: count + 1]) for count in range(len(parents)))
        if not all((*parents, last)) or not parents or any(front in params for front in fronts):
            continue
        inner = values
        for parent in parents:
            inner = inner.setdefault(parent, {})
        inner[last] = value
    return values


def offline_variables(directory: Path, params_file: Path) -> dict[str, str]:
    """Return the variables of the environment by which W&B writes its files into a directory, and often.

    `WANDB_SERVICE` names the writing process of a logger in this process, where one logs to W&B. The program
    starts its own, for which it waits at its end: when it has ended, its files are complete.

    Args:
        directory: the directory.
        params_file: the file of `write_params`.
    """
    return {
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(directory),
        "WANDB_SERVICE": "",
        "WANDB_SWEEP_PARAM_PATH": str(params_file),
        "WANDB_X_TRANSACTION_LOG_FLUSH_INTERVAL": _FLUSH_INTERVAL,
    }


class HistoryFiles:
    """The offline files of W&B below a directory.

    Args:
        directory: the directory, which need not exist yet.
        skips: whether what they hold now is left out.
    """

    def __init__(self, directory: Path, skips: bool) -> None:
        self._files = Files(lambda: directory.glob(_HISTORY), HistoryFile, skips)

    def read(self, last: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the rows that are new, file by file: what was logged at a step, by name."""
        for _, file in self._files.read(last):
            yield from file.read()


class HistoryFile:
    """One offline file of W&B.

    Args:
        path: the file.
        skips: whether what it holds now is left out.
    """

    def __init__(self, path: Path, skips: bool) -> None:
        self._tail = Tail(path, skips=False)
        self._rest, self._position, self._parts = b"", 0, b""
        if skips:
            for _ in self._records():
                pass

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the values of each step that is new."""
        from wandb.proto.wandb_internal_pb2 import Record  # an optional package

        for content in self._records():
            record = Record.FromString(content)
            if record.HasField("history"):
                items = {".".join(item.nested_key) or item.key: item for item in record.history.item}
                names = sorted(name for name in items if name[:1] != "_")  # the file has them in any order
                yield {name: json.loads(items[name].value_json) for name in names}

    def _records(self) -> Iterator[bytes]:
        content, anew = self._tail.read()
        if anew:
            self._rest, self._position, self._parts = b"", 0, b""
        self._rest += content
        if not self._position and not self._skip(_HEADER):
            return
        while True:
            room = _BLOCK - self._position % _BLOCK
            if room < _CHUNK.size:  # a block ends in bytes that hold no chunk
                if not self._skip(room):
                    return
                continue
            if len(self._rest) < _CHUNK.size:
                return
            _, length, kind = _CHUNK.unpack_from(self._rest)
            end = _CHUNK.size + length
            if len(self._rest) < end:
                return
            self._parts += self._rest[_CHUNK.size : end]
            self._skip(end)
            if kind in (_WHOLE, _LAST):
                record, self._parts = self._parts, b""
                yield record

    def _skip(self, count: int) -> bool:
        """Leave out bytes; return whether they were there."""
        if len(self._rest) < count:
            return False
        self._rest, self._position = self._rest[count:], self._position + count
        return True
