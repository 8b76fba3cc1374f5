"""The values that a program logs by `wandb.log`, read from the offline files of W&B while it writes them.

Source: the transaction log of W&B: a header of 7 bytes, then the log format of LevelDB. Its blocks of 32 KiB
hold chunks: a checksum (4 bytes), a length (2), a kind (1), the data. A record is one chunk or several.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .tail import Files, Tail

PATTERN = "*wandb/*run-*/run-*.wandb"  # `latest-run`, a link, is left out

_HEADER, _BLOCK = 7, 2**15
_CHUNK = struct.Struct("<IHB")
_WHOLE, _LAST = 1, 4  # the kinds of chunks that end a record
_PARAMS_FILE = "wandb-params.yaml"
_FLUSH_INTERVAL = "0.5"  # seconds


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
        self._files = Files(lambda: directory.glob(PATTERN), HistoryFile, skips)

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
