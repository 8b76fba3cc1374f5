"""Origins: where the engine, the evaluation and the engine params of a record come from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Origins:
    """Names for the records of an evaluation; nothing is imported by them until it is replayed.

    Args:
        engine: `package.module:Name`; its class unless given.
        evaluation: likewise; its class, or that of the engine, unless given.
        engine_params: where the list comes from: a name, or a file.
        stated: what a sweep file says of the evaluation, by which it is made again; strict JSON.
    """

    engine: str = ""
    evaluation: str = ""
    engine_params: str = ""
    stated: Mapping[str, Any] | None = None


NO_ORIGINS = Origins()
