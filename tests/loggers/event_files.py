"""Reading back the event file of a trial, record by record."""

from __future__ import annotations

import struct
from collections import defaultdict
from pathlib import Path
from typing import Any

from tensorboardX.crc32c import crc32c
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.plugin_hparams_pb2 import HParamsPluginData

START = "_hparams_/session_start_info"


def masked(content: bytes) -> int:
    """The checksum of a record, as the format masks it."""
    crc = crc32c(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def events_of(directory: Path) -> list[Any]:
    """All events of the one file in a directory; lengths and checksums are right."""
    [path] = directory.glob("events.out.tfevents.*")
    content, events = path.read_bytes(), []
    while content:
        length, of_length = struct.unpack("<QI", content[:12])
        data, (of_data,) = content[12 : 12 + length], struct.unpack("<I", content[12 + length : 16 + length])
        assert (of_length, of_data) == (masked(content[:8]), masked(data))
        events.append(Event.FromString(data))
        content = content[16 + length :]
    return events


def scalars_of(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """Step and value of every scalar, by tag, as they were written."""
    found = defaultdict(list)
    for event in events_of(directory):
        for value in event.summary.value:
            if value.metadata.plugin_data.plugin_name == "scalars":
                found[value.tag].append((event.step, round(value.simple_value, 6)))
    return dict(found)


def params_of(directory: Path) -> dict[str, Any]:
    """The params that the tab HPARAMS shows."""
    [start] = [v for event in events_of(directory) for v in event.summary.value if v.tag == START]
    told = HParamsPluginData.FromString(start.metadata.plugin_data.content).session_start_info.hparams
    return {name: getattr(value, value.WhichOneof("kind")) for name, value in told.items()}
