"""Panels: all values of one epoch, measured, recorded, watched and logged, with the reason of each nan."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from itertools import combinations
from typing import Any

import torch

from ..exceptions import RunError
from ..metrics.additive import Additive
from ..metrics.diagnostics import diagnostic
from ..metrics.names import MetricName
from ..metrics.places import VALIDATION
from ..metrics.ranking.per_user import PerUser
from ..metrics.ranks import gathered, world_size
from ..metrics.report import Report
from ..metrics.task_rows import by_task
from ..search.readings import shape_of
from .examples.extremes import Place
from .examples.finder import Examples
from .examples.lines import Line
from .recorded import Recorded, reading, together
from .spec import RunSpec
from .split_panel import Reasons, SplitPanel, Values, called_of, check_split
from .tallies import EXAMPLES, KEYWORDS, Tallies
from .watch import Watches

_ENTRIES = "examples"

Told = Mapping[str, Mapping[str, Report]]
"""Additive values by split and task."""


class Panels:
    """What one run measures and notes.

    A split that no tracked name mentions is measured like validation. `per_user` are the values by user of
    the epoch closed last; None where the output does not ask for them. `examples` are its worst and best
    examples; none unless the spec asks for them.
    """

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._splits: dict[str, SplitPanel] = {}
        self._recorded: dict[str, Recorded] = {}
        self._logged: dict[str, Any] = {}
        self._tallies = Tallies()
        self.watches = Watches()
        self.per_user: PerUser | None = None
        self.examples: tuple[Line, ...] = ()
        self._examples = Examples(spec.track_examples) if spec.track_examples else None
        self._tasks: list[str] = []
        self._void: dict[str, str] = {}
        for split in spec.collections:
            self._split(split)

    def update(self, split: str, tensors: Mapping[str, Any], examples: Any = None) -> None:
        """Add a batch; a model output or target that is not finite voids the split's epoch.

        Args:
            split: one of `SPLITS`.
            tensors: what the collection is given.
            examples: what the user says of each row.

        Raises:
            RunError: there is no such split or output, or nothing is measured on it.
            MetricInputError: the batch is not what the metrics read.
        """
        given = dict(tensors)
        feature, task = given.pop("feature", None), given.pop("task", None)
        panel = self._split(split)
        output = panel.output_of(feature)
        tallies = {of: self._tallies.read(rows, output)[0] for of, rows in by_task(task, given)}
        tensors = {name: value for name, value in given.items() if name not in KEYWORDS}
        panel.update(feature, task, tensors)
        for of, tally in tallies.items():
            self._tallies.add(tally, split, of, feature)
        if self._examples is not None and not panel.void:
            for of, rows in by_task(task, {**tensors, _ENTRIES: examples}):
                self._look(Place(split, of, feature), rows)
        self.recorded(split).batch(task, sum(tally.rows for tally in tallies.values()))
        if self.watches.laps is not None:
            self.watches.laps.mark(split)

    def _look(self, place: Place, rows: Mapping[str, Any]) -> None:
        """Look for the worst and the best examples among rows that were measured."""
        live = self._splits[place.split].collection(place.feature, place.task)
        tensors = {name: value for name, value in rows.items() if name != _ENTRIES}
        if self._examples is not None:
            self._examples.add(place, live, tensors, rows[_ENTRIES])

    def recorded(self, split: str) -> Recorded:
        """What the engine and its data sets record of a split.

        Raises:
            RunError: there is no such split.
        """
        check_split(split)
        return self._recorded.setdefault(split, Recorded())

    def refuse_measured(self, name: str) -> None:
        """Refuse a name that this run gives to a value of its own.

        Raises:
            RunError: saying so.
        """
        if any(name in panel.names for panel in self._splits.values()):
            raise RunError(f"{name!r} is measured by this run; call yours by another name")

    def log(self, values: Mapping[str, Any]) -> None:
        """Keep values as they are until the epoch closes.

        Raises:
            RunError: a value is no number, or its name is measured here.
        """
        for name, value in values.items():
            self.refuse_measured(name)
            self._logged[name] = _number(name, value)

    def close(self) -> tuple[Values, Reasons]:
        """Give all values of the epoch and begin the next; what is not finite is nan and has its reason."""
        values, reasons, logged = self._measure()
        watched, why = self.watches.close()
        self._logged = {}
        _check_apart(recorded=values, watched=watched, logged=logged)
        values.update(watched)
        reasons.update(why)
        values.update(logged)
        self._combine(values, reasons)
        self._settle(values, reasons)
        return values, reasons

    def _measure(self) -> tuple[Values, Reasons, Values]:
        values: Values = {}
        reasons: Reasons = {}
        panels, counted, recorded, logged = self._over_all_ranks()
        self._tasks = sorted({task for panel in panels.values() for task in panel.tasks})
        self._void = {split: panel.void for split, panel in panels.items() if panel.void is not None}
        self.per_user = _by_user(panels.values())
        void = {split for split, panel in self._splits.items() if panel.void}
        self.examples = () if self._examples is None else self._examples.close(void)
        for panel in panels.values():
            found, why = panel.close()
            values.update(found)
            reasons.update(why)
        for split, state in counted.items():
            for name, tally in reading(state, self._spec.name).items():
                if self._wants(name):  # a metric's own gen_n_toks stands
                    values.setdefault(called_of(split, name), tally.value())
        for split, state in recorded.items():
            self._read(split, state, values, reasons)
        for panel in self._splits.values():
            panel.reset()
        for noted in self._recorded.values():
            noted.reset()
        self._tallies.reset()
        return values, reasons, logged

    def _wants(self, name: str) -> bool:
        """Whether a count is to be recorded: examples are not where nothing is that nobody asked for."""
        return self._spec.defaults or name == self._spec.name or MetricName.parse(name).metric != EXAMPLES

    def _read(self, split: str, state: Mapping[str, Report], values: Values, reasons: Reasons) -> None:
        """Put what was recorded of a split beside what was measured."""
        for name, recorded in reading(state, self._spec.name).items():
            called = called_of(split, name)
            if called in values:
                raise RunError(f"{called!r} is both measured and recorded; call yours by another name")
            values[called], reason = _read_additive(recorded)
            if reason is not None:
                reasons[called] = reason

    def _over_all_ranks(self) -> tuple[dict[str, SplitPanel], Told, Told, Values]:
        """What all processes measured, counted, recorded and logged, gathered at once, whatever each met.

        Logged numbers cannot be added: the first process that has one says it, so that all stop as one.
        """
        counted = self._tallies.state(self.watches.laps)
        recorded = {split: recorded.state() for split, recorded in self._recorded.items()}
        logged: Values = {name: float(value) for name, value in self._logged.items()}
        if world_size() == 1:
            return self._splits, counted, recorded, logged
        measured = {split: panel.state_dict() for split, panel in self._splits.items()}
        states = gathered((measured, counted, recorded, logged))
        *parts, numbers = zip(*states, strict=True)
        panels, *reports = (_by_split(part) for part in parts)
        merged = {split: self._split(split).over(parts) for split, parts in panels.items()}
        counted, recorded = ({split: together(parts) for split, parts in part.items()} for part in reports)
        return merged, counted, recorded, {k: v for each in reversed(numbers) for k, v in each.items()}

    def _combine(self, values: Values, reasons: Reasons) -> None:
        """Put each combination beside its terms: over all tasks, and of every task that has all its terms."""
        for combined in self._spec.combined:
            for task in (None, *self._tasks):
                found = combined.value(values, task)
                if found is None:
                    continue
                _check_apart(combined={combined.at(task): found}, logged=values)
                values[combined.at(task)], reason = found
                if reason is not None:
                    reasons[combined.at(task)] = reason

    def _settle(self, values: Values, reasons: Reasons) -> None:
        """See to it that the optimised value is there, and that what is not finite is nan."""
        name = self._spec.name
        if name not in values:
            values[name], reasons[name] = math.nan, self._why_missing()
        for name, value in values.items():
            if isinstance(value, list) and name == self._spec.name:
                values[name] = math.nan
                reasons[name] = f"a search optimises one number, and this is {shape_of(value)}"
            elif not isinstance(value, list) and not math.isfinite(value):
                values[name] = math.nan
                reasons.setdefault(name, f"the value is {value}")

    def _why_missing(self) -> str:
        if (known := diagnostic(self._spec.name)) is not None:
            return f"was not measured in this epoch; it comes from {known.comes_from}"
        if self._spec.reported:
            return "was not logged in this epoch"
        if self._spec.asked.split in self._void:
            return self._void[self._spec.asked.split]
        task = self._spec.asked.task
        return f"no update of this epoch names the task {task!r}" if task else "was not measured"

    def _split(self, split: str) -> SplitPanel:
        if split not in self._splits:
            prototypes = self._spec.collections.get(split) or self._spec.collections.get(VALIDATION)
            self._splits[split] = SplitPanel(split, prototypes)
        return self._splits[split]


def _check_apart(**kinds: Mapping[str, Any]) -> None:
    """Refuse a name that values of two kinds have.

    Raises:
        RunError: naming it and both kinds.
    """
    for (one, values), (other, others) in combinations(kinds.items(), 2):
        if clash := sorted(values.keys() & others.keys()):
            raise RunError(f"{', '.join(clash)}: both {one} and {other}; name them apart")


def _by_split(states: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The states of all processes that met a split, by split in one order."""
    states = list(states)
    splits = sorted({split for state in states for split in state})
    return {split: [state[split] for state in states if split in state] for split in splits}


def _by_user(panels: Iterable[SplitPanel]) -> PerUser | None:
    tables = [table for panel in panels if (table := panel.by_user()) is not None]
    return PerUser.joined(tables) if tables else None


def _read_additive(value: Additive) -> tuple[float, str | None]:
    """What a value comes to, and why that is nan."""
    try:
        number = value.value()
    except OverflowError:  # such as that of a perplexity
        return math.nan, f"{value!r} is too large for a number"
    return number, f"{value!r} is undefined" if math.isnan(number) else None


def _number(name: str, value: Any) -> Any:
    """Accept what is one number; a tensor stays where it is until the epoch closes."""
    if type(value) is float:
        return value
    if isinstance(value, torch.Tensor) and value.numel() == 1 and not value.is_complex():
        return value.detach()
    if isinstance(value, (int, float)) or (hasattr(value, "item") and getattr(value, "size", 0) == 1):
        return float(value)
    raise RunError(f"log({name}=...) takes one number, got {type(value).__name__} {str(value)[:60]}")
