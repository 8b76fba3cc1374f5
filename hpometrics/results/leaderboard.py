"""The table of trials, and the block of the optimal engine params."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from .._formatting import aligned, column, duration, fitted, json_text, number, spread
from .._redaction import SECRET, is_secret
from .._text import did_you_mean, printable
from ..backends.trial_lines import spread_of, word
from ..config.yaml_text import format_exact, format_short
from ..direction import ARROWS, LEGEND, Direction
from ..exceptions import ConfigError
from ..records.trial_record import TrialRecord, TrialState, place_text, to_json
from ..selection.selection import Best, front_trials, ranked_by
from .annotation_file import annotated
from .confirmation import stored_confirmation
from .export import cost_fact, held_out, trials_csv, values_shown
from .manifest import Resolved
from .run_directory import RunDirectory

BEST = "value"
_ROWS = 10


def result_table(
    records: Sequence[TrialRecord], resolved: Resolved, rows: int = _ROWS, width: int | None = None
) -> str:
    """Return the table of the best trials, best first; on a terminal, in this width."""
    order = ranked_by(records, resolved.optimized)
    more = [f" ... {len(order) - rows} more in trials.csv"] if len(order) > rows else []
    shown = order[:rows]
    table, notes = ranked_rows(shown, resolved), list[str]()
    if width is not None:
        spare = [place + 1 for place in _spare_columns(shown, resolved)]
        table, notes = _fitted(table, spare, width, "trials.csv has them")
    return "\n".join([aligned(table), *more, *notes])


def _spare_columns(records: Sequence[TrialRecord], resolved: Resolved) -> list[int]:
    """Return the places of columns of `trial_rows` that a narrow terminal can do without, in that order.

    Params go first and the tracked values after the notes, each from the last one on; then the epochs.
    """
    values, params = [*values_shown(records, resolved)], _varied(records, resolved)
    first_param = len(values) + 2
    noted = resolved.annotations.columns([record.number for record in records])
    first_note = first_param + len(params) + 1
    tracked = [i for i, name in enumerate(values, 1) if name not in resolved.optimized]
    return [
        *reversed(range(first_param, first_param + len(params))),
        *reversed(range(first_note, first_note + len(noted))),
        *reversed(tracked),
        first_param - 1,
    ]


def _fitted(
    table: list[list[str]], spare: Sequence[int], width: int, place: str
) -> tuple[list[list[str]], list[str]]:
    """Return a table for a terminal, and the lines below it: what is left out, and the marks."""
    table, left_out = fitted(table, spare, width)
    text = f" omitted at a width of {width} columns: {', '.join(left_out)}; {place}"
    return table, [*(wrap(text, width, subsequent_indent=" ") if left_out else []), f" {LEGEND}"]


def ranked_rows(order: Sequence[TrialRecord], resolved: Resolved) -> list[list[str]]:
    """Return the rows of the best trials, best first, with their ranks; only complete ones rank.

    With several objectives, those of the front come first and are marked; no trial ranks.
    """
    head, *rows = trial_rows(order, resolved)
    if resolved.others:
        front = {record.number for record in front_trials(order, resolved.optimized)}
        marks = ("*" if record.number in front else "" for record in order)
        return [["front", *head], *([mark, *row] for mark, row in zip(marks, rows, strict=True))]
    ranks = (str(n) if record.state is TrialState.COMPLETE else "-" for n, record in enumerate(order, 1))
    return [["rank", *head], *([rank, *row] for rank, row in zip(ranks, rows, strict=True))]


def trial_rows(records: Sequence[TrialRecord], resolved: Resolved) -> list[list[str]]:
    """Return the head of a table of trials and a row for each, in the same order."""
    params = _varied(records, resolved)
    directions = values_shown(records, resolved)
    values = [
        " ".join([f"{name}{ARROWS[direction]}", *(bound.limit for bound in resolved.bounds_of(name))])
        for name, direction in directions.items()
    ]
    unit = next((record.unit for record in records if record.epochs), "epoch")
    noted = resolved.annotations.columns([record.number for record in records])
    head = ["trial", *values, f"{unit}s", *map(printable, params), "state", *noted]
    rows = (_row(record, list(directions)[1:], params) for record in records)
    return [head, *([*row, *(cells[i] for cells in noted.values())] for i, row in enumerate(rows))]


def _varied(records: Sequence[TrialRecord], resolved: Resolved) -> list[str]:
    """Return the params that vary, in the order of the space."""
    names = {name: None for record in records for name in record.params}
    return [name for name in resolved.ordered(names) if name not in resolved.fixed]


def _row(record: TrialRecord, beside: Sequence[str], params: Sequence[str]) -> list[str]:
    return [
        str(record.number),
        spread_of(record),
        *(column(record.picked_values.get(name)) for name in beside),
        str(record.extent),
        *(format_short(record.params[name]) if name in record.params else "-" for name in params),
        word(record.state),
    ]


def optimal_block(best: Best, records: Sequence[TrialRecord], resolved: Resolved) -> str:
    """Return the block of the optimal engine params."""
    params, values = optimal_params(best, resolved), optimal_values(best, resolved, records)
    weighed = [one for one in records if one.number == best.trial and resolved.weighs_cost]
    lines = [
        format_evaluated(records),
        f"Optimal Engine Params: ({where(best, resolved)}):",
        *_with_notes([(f"{name}: {value}", note and f"# {note}") for name, value, note in params]),
        "Metrics:",
        *_with_notes([(f"{name}: {value}", note) for name, value, note in values]),
        *(f"Cost: {resolved.unit.format(resolved.unit.cost_of(one))}" for one in weighed),
    ]
    if annotation := resolved.annotations.trial(best.trial):
        lines.append(f"Trial {best.trial}: {annotation}")
    return "\n".join(lines)


def where(best: Best, resolved: Resolved) -> str:
    """Return the trial and epoch of the best, with the repeat or the rule where there are several."""
    rule = "" if resolved.pick == "best" else f", by {resolved.pick}"
    if resolved.others:
        rule = ", the knee of the Pareto front" if resolved.pick == "knee" else ", on the Pareto front"
    return f"trial {best.trial}, {place_of_best(best)}{rule}"


def place_of_best(best: Best) -> str:
    """Return the epoch of the best, and of which of its trainings that is, where there are several."""
    place = place_text(best.epoch, best.step)
    if best.confirmed:
        count = f"{best.repeats} fresh trainings"
        return f"{place} from the median of {count}" if best.runs else f"the mean of {count}"
    return f"{place} from the first of {best.repeats} repeats" if best.repeats > 1 else place


def optimal_params(best: Best, resolved: Resolved) -> list[tuple[str, str, str]]:
    """Return each param of the best trial: name, value, and `fixed` or the bundle that set it."""
    params = resolved.ordered(best.params)
    return [(printable(k), format_exact(v), _origin(k, params, resolved)) for k, v in params.items()]


def optimal_values(
    best: Best, resolved: Resolved, records: Iterable[TrialRecord]
) -> list[tuple[str, str, str]]:
    """Return each metric of the best trial: name, value, and its direction and formula.

    The test value of the optimized metric comes second, with its comparison in words. A tracked metric that
    is the same in each of two or more complete trials is marked: it does not tell them apart.
    """
    trained = [record.picked_values for record in records if record.state.trained]
    tested = held_out(best.values, best.metric, best.direction, best.value)
    value = spread(best.value, best.deviation, best.repeats)
    values = [(best.metric, value, _value_note(best.metric, best.direction, resolved))]
    if tested is not None:
        values.append((tested.name, number(tested.value), f"({tested.words})"))
    names = {name for name, *_ in values}
    for name, direction in resolved.beside.items():
        if name not in names:
            note = _value_note(name, direction, resolved)
            picked = best.values.get(name)
            is_constant = len(trained) > 1 and all(one.get(name, math.nan) == picked for one in trained)
            each = "each trial" if len(trained) > 2 else "both trials"
            note += f"  (the same in {each})" if is_constant else ""
            values.append((name, number(picked), note))
    return values


def _value_note(name: str, direction: Direction | None, resolved: Resolved) -> str:
    """Return the direction of a value, the bounds it satisfies, and the formula of a combined one."""
    bounds = "  ".join(f"({bound.limit} ok)" for bound in resolved.bounds_of(name))
    formula = f"= {resolved.formulas[name]}" if name in resolved.formulas else ""
    return "  ".join(part for part in (f"({direction})" if direction else "", bounds, formula) if part)


def format_evaluated(records: Iterable[TrialRecord]) -> str:
    """Return how many engine params were evaluated, by state, and how long their trials took in all."""
    records = list(records)
    states = Counter(record.state for record in records)
    counts = ", ".join(f"{word(state)} {states[state]}" for state in TrialState if states[state])
    seconds = sum(record.seconds for record in records)
    return f"# engine params evaluated: {len(records)}  ({counts or 'none'})  {duration(seconds)} of training"


def params_line(params: Mapping[str, Any], resolved: Resolved) -> str:
    """Return the params that vary on one line."""
    ordered = resolved.ordered(params)
    return " ".join(
        f"{printable(k)}={format_short(v)}" for k, v in ordered.items() if k not in resolved.fixed
    )


def _origin(name: str, params: Mapping[str, Any], resolved: Resolved) -> str:
    return "fixed" if name in resolved.fixed else printable(resolved.bundle_of(name, params) or "")


def _with_notes(lines: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(text) for text, note in lines if note), default=0)
    return [f"  {text:<{width}}  {note}".rstrip() for text, note in lines]


def leaders(records: Sequence[TrialRecord], resolved: Resolved, count: int) -> list[TrialRecord]:
    """Return the best trials, the feasible ones first; fewer than `count` if no more ran to their end."""
    order = ranked_by(records, resolved.optimized)
    ranks = [r for r in order if r.state.trained and r.value is not None and math.isfinite(r.value)]
    return ranks[:count]


def arguments(params: Mapping[str, Any]) -> str:
    """Return params as a shell takes them behind a command: texts as they are, other values as JSON.

    For a secret it names the variable, which the shell reads.

    Raises:
        ConfigError: a value has characters that cannot be printed on a line.

    >>> print(arguments({"lr": 0.014, "layers": [64, 32], "shift": -1, "token": {"secret": "HUB_TOKEN"}}))
    --lr 0.014 --layers '[64, 32]' --shift=-1 --token "$HUB_TOKEN"
    """
    return " ".join(_argument(name, value) for name, value in params.items())


def _argument(name: str, value: Any) -> str:
    if is_secret(value):
        return f'{shlex.quote(f"--{name}")} "${value[SECRET]}"'
    text = value if isinstance(value, str) else json.dumps(value)
    if not (name + text).isprintable():
        raise ConfigError(f"{printable(name)}: cannot be printed on a line; --json has it")
    words = [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]
    return shlex.join(words)


_FACTS: dict[str, Callable[[TrialRecord], Any]] = {
    "trial": lambda record: record.number,
    "state": lambda record: record.state.value,
    "epoch": lambda record: record.epoch,
    "epochs": lambda record: len(record.epochs),
    "seconds": lambda record: record.seconds,
}


def trials_text(
    directory: Path,
    form: str = "table",
    sort: str = "trial",
    states: Collection[str] = (),
    tags: Collection[str] = (),
    width: int | None = None,
) -> str:
    """Return a list of the trials.

    Args:
        directory: the run directory.
        form: `table`, `json` or `csv`.
        sort: `trial`, `state`, `epoch`, `epochs`, `seconds`, `cost` or a param, smallest first; `value`, the
            optimized metric or a tracked one, best first.
        states: only trials in one of these states, as in `complete`; by default, all.
        tags: only trials that have all of these tags.
        width: that of the terminal, if the table is printed on one: params are left out first.

    Raises:
        ConfigError: the directory is not a run directory, or has no such column to sort by.
        RecordError: one of its files is damaged.
    """
    home = RunDirectory(directory)
    resolved, records = annotated(home), home.records()
    order = _sorted(records, resolved, sort)
    in_state = [record for record in order if not states or record.state.value in states]
    wanted = set(tags)
    chosen = [one for one in in_state if wanted <= set(resolved.annotations.trial(one.number).tags)]
    if form == "csv":
        return trials_csv(chosen, resolved, stored_confirmation(home, records, resolved)).rstrip("\n")
    if form == "json":
        front = front_trials(records, resolved.optimized) if resolved.others else []
        front_numbers = {record.number for record in front}
        rows = [_facts(record, directory, resolved, front_numbers) for record in chosen]
        return json_text(rows)
    table = _with_column(sort, chosen, resolved)
    if width is None:
        return aligned(table)
    spare = [place for place in _spare_columns(chosen, resolved) if table[0][place] != printable(sort)]
    table, notes = _fitted(table, spare, width, "-f csv has them")
    return "\n".join([aligned(table), *notes])


def _with_column(name: str, records: Sequence[TrialRecord], resolved: Resolved) -> list[list[str]]:
    """Return the table of trials, with the fact that sorts it as a further column if it shows it nowhere."""
    table = trial_rows(records, resolved)
    formats: dict[str, Callable[[TrialRecord], str]] = {
        "epoch": lambda record: "-" if record.epoch is None else str(record.epoch),
        "seconds": lambda record: duration(record.seconds),
        "cost": lambda record: resolved.unit.format(resolved.unit.cost_of(record)),
    }
    if name not in formats:
        return table
    cells = [name, *map(formats[name], records)]
    return [[*row, cell] for row, cell in zip(table, cells, strict=True)]


def _sorted(records: Sequence[TrialRecord], resolved: Resolved, by: str) -> list[TrialRecord]:
    if by in (BEST, resolved.metric):
        return ranked_by(records, resolved.optimized)
    if by in resolved.beside:
        return sorted(records, key=lambda record: _goodness(record, by, resolved))
    facts = {**_FACTS, "cost": resolved.unit.cost_of}
    if by in facts:
        return _ascending(records, facts[by])
    params = {name for record in records for name in record.params}
    if by in params:
        return _ascending(records, lambda record: record.params.get(by))
    columns = [*facts, BEST, resolved.metric, *resolved.beside, *sorted(params)]
    raise ConfigError(
        f"no column {by!r} to sort by{did_you_mean(by, columns)}; there are {', '.join(columns)}"
    )


def _goodness(record: TrialRecord, name: str, resolved: Resolved) -> tuple[bool, float]:
    value, direction = record.picked_values.get(name), resolved.beside[name]
    if value is None or isinstance(value, list) or math.isnan(value):
        return True, 0.0
    return False, value if direction is None else direction.sort_key(value)


def _ascending(records: Sequence[TrialRecord], fact: Callable[[TrialRecord], Any]) -> list[TrialRecord]:
    """Sort numbers before texts; trials without the value come last."""

    def key(record: TrialRecord) -> tuple[int, float, str]:
        value = fact(record)
        if value is None or value != value:
            return 2, 0.0, ""
        if isinstance(value, (int, float)):
            return 0, value, ""
        return 1, 0.0, value if isinstance(value, str) else json.dumps(value)

    return sorted(records, key=key)


def _facts(
    record: TrialRecord, directory: Path, resolved: Resolved, front: Collection[int]
) -> dict[str, Any]:
    """Return a trial as strict JSON, with the values of its picked epoch."""
    values = {name: to_json(value) for name, value in record.picked_values.items()}
    tested = held_out(record.picked_values, resolved.metric, resolved.direction, record.value)
    return {
        **record.to_json(directory),
        "deviation": record.deviation,
        **cost_fact(record, resolved),
        "test": None if tested is None else tested.to_json(),
        "params": resolved.ordered(record.params),
        "values": values,
        **resolved.annotations.trial(record.number).facts(),
        **({"front": record.number in front} if resolved.others else {}),
    }
