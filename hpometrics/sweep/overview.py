"""The overview: a plan in a dozen lines, every default shown; what `check` prints."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

from ..search.dimensions import Choice, Dimension, Float, Int
from .measures import Measure
from .plan import Plan
from .problems import printable
from .resolved import Resolved, versions
from .searched import LIST
from .table import duration, exact

_WIDTH = 10


def resolve(plan: Plan, measures: tuple[Measure, ...] | None = None) -> dict[str, Any]: ...
