"""The scalars of TensorBoard's event files, read while a program writes them.

Source: TFRecord and `event.proto` of TensorFlow: the length of an event (8 bytes), a checksum (4), the event,
a checksum (4).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .tail import Files, Tail

PATTERN = "*.tfevents.*"

_LENGTH = struct.Struct("<Q")
_HEAD, _FOOT = 12, 4
_FORMATS = {1: "f", 2: "d", 3: "i", 9: "q"}  # of TensorFlow's types: float, double, int32, int64


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
        self._files = Files(lambda: directory.rglob(PATTERN), EventFile, skips)

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
