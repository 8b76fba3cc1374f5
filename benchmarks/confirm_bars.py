"""Figures of the confirmation benchmark with their standard errors, the bars for them, and its output."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

Facts = dict[str, float]
"""What one world says of one way to spend the trainings."""
Columns = dict[str, np.ndarray]
"""The same of all worlds, by fact."""
OUTPUT = Path(__file__).with_name("confirm.json")
"""The output of the last whole run, from which the documentation has its figures."""


class Figure(NamedTuple):
    """A figure of the benchmark; without an error, it does not vary from world to world."""

    value: float
    error: float | None = None

    def __str__(self) -> str:
        return f"{self.value:.3g}" if self.error is None else f"{self.value:.3g} +- {self.error:.2g}"


def mean_of(values: np.ndarray, times: float = 1.0) -> Figure:
    """Return the mean over worlds, multiplied, as in per cent.

    >>> print(mean_of(np.array([1.0, 0.0, 0.0, 0.0]), 100))
    25 +- 25
    """
    error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else math.nan
    return Figure(times * float(values.mean()), times * float(error))


def ratio_of(values: np.ndarray, base: np.ndarray) -> Figure:
    """Return the ratio of two means over the same worlds, with its error by the delta method."""
    if not base.mean():
        return Figure(math.nan)
    ratio = float(values.mean() / base.mean())
    return Figure(ratio, float(mean_of(values - ratio * base).error or 0.0) / abs(float(base.mean())))


def bias_of(values: np.ndarray) -> Figure:
    """Return the size of a mean difference in points."""
    figure = mean_of(values, 100)
    return figure._replace(value=abs(figure.value))


def columns(worlds: Sequence[Mapping[str, Facts]]) -> dict[str, Columns]:
    """Return each fact of each way over all worlds."""
    return {
        way: {fact: np.array([float(world[way][fact]) for world in worlds]) for fact in worlds[0][way]}
        for way in worlds[0]
    }


class Output:
    """Prints tables and bars, and writes them to a file.

    Args:
        settings: the sizes of the run, for the file; None writes none.
        path: of the file. Each table is written when it is there, so that a run that is stopped leaves them.
    """

    def __init__(self, settings: Mapping[str, Any] | None = None, path: Path = OUTPUT) -> None:
        self._settings, self._path = settings, path
        self.tables: dict[str, dict[str, dict[str, Figure]]] = {}
        self.bars: list[dict[str, Any]] = []

    @property
    def missed(self) -> list[str]:
        """The names of the bars that are missed."""
        return [bar["name"] for bar in self.bars if not bar["kept"]]

    def hold(self, name: str, figure: Figure, most: float, unit: str = "") -> None:
        """Print a figure that may not exceed a bar."""
        self._add(name, figure, figure.value <= most, unit, at_most=most)

    def reach(self, name: str, figure: Figure, least: float, unit: str = "") -> None:
        """Print a figure that must reach a bar."""
        self._add(name, figure, figure.value >= least, unit, at_least=least)

    def _add(self, name: str, figure: Figure, kept: bool, unit: str, **limit: float) -> None:
        ((side, bound),) = limit.items()
        word = "kept" if kept else "MISSED"
        print(f"  {word:<6} {name}: {figure}{unit} ({side.replace('_', ' ')} {bound:.3g}{unit})", flush=True)
        self.bars.append({"name": name, **figure._asdict(), "unit": unit.strip(), **limit, "kept": kept})

    def show(self, title: str, found: Mapping[str, Columns], facts: Sequence[str]) -> None:
        """Print a table: a line for each way, a column for the mean of each fact; shares in per cent."""
        table = self.tables.setdefault(title, {way: {} for way in found})
        print(f"\n{title}")
        width = max(map(len, found))
        print(" " * width, *(f"{fact:>{max(8, len(fact))}}" for fact in facts), sep="  ")
        for way, values in found.items():
            figures = {
                fact: mean_of(values[fact], 1 if fact == "trainings" else 100)
                for fact in facts
                if fact in values
            }
            table[way] |= figures
            cells = [f"{_cell(fact, figures.get(fact)):>{max(8, len(fact))}}" for fact in facts]
            print(f"{way:<{width}}", *cells, sep="  ", flush=True)
        self._write(is_whole=False)

    def close(self) -> None:
        """Print which bars are missed."""
        missed = self.missed
        print(f"\n{len(missed)} of {len(self.bars)} bars missed{':' if missed else ''}")
        print("\n".join(f"  {name}" for name in missed), flush=True)
        self._write(is_whole=True)

    def _write(self, is_whole: bool) -> None:
        """Write the tables, with a mean and its error for each fact, and the bars."""
        if self._settings is None:
            return
        tables = {
            title: {
                way: {fact: [_rounded(number) for number in figure] for fact, figure in facts.items()}
                for way, facts in table.items()
            }
            for title, table in self.tables.items()
        }
        bars = [{name: _rounded(fact) for name, fact in bar.items()} for bar in self.bars]
        content = {"settings": {**self._settings, "whole": is_whole}, "tables": tables, "bars": bars}
        self._path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf8")


def _rounded(fact: Any) -> Any:
    return float(f"{fact:.6g}") if isinstance(fact, float) else fact


def _cell(fact: str, figure: Figure | None) -> str:
    if figure is None:
        return "-"
    if fact == "trainings":
        return f"{figure.value:.1f}"
    return f"{figure.value:.{3 if fact in ('loss', 'honest half') or 'bias' in fact else 1}f}"
