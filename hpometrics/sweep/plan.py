"""The plan: a sweep file that was understood in every part; what `check` prints and `run` carries out."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..exceptions import HpometricsError, SpaceError
from ..metrics.features import OutputFeature, parse_feature
from ..objective import Objective
from ..search.dimensions import Choice, Float, Int, Value
from ..search.selection import At
from ..search.space import Space
from .config import Backend, Draft, Metrics, Sweep
from .dimensions import AnyDimension, ChoiceDimension, FloatDimension, IntDimension
from .forms import Metric
from .loader import Document, read_document
from .measures import Measure, MeasureError, read_measure
from .overrides import override
from .problems import Path, one_line
from .structure import read_config
from .support import check_support

_SPACE_PATH = re.compile(r"space\.(?P<rest>.*?): (?P<text>.*)", re.DOTALL)


@dataclass(frozen=True)
class Plan:
    """Everything that a sweep file says, resolved; nothing of it imports the engine."""

    file: pathlib.Path
    text: str
    config: Sweep
    document: Document
    name: str
    directory: pathlib.Path
    output: OutputFeature | None
    optimize: Measure
    track: tuple[Measure, ...]
    space: Space
    start: tuple[Mapping[str, Any], ...]
    points: tuple[Mapping[str, Any], ...] | None

    @property
    def at(self) -> At:
        """Which epoch's value counts."""
        return At(self.config.metrics.at)

    @property
    def trials(self) -> int | None:
        """The total number of trials; None where only time or target end the sweep."""
        asked = self.config.budget.trials
        if self.points is None:
            return asked
        return len(self.points) if asked is None else min(asked, len(self.points))
