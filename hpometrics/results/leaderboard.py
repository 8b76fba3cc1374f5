"""What a sweep prints at its end: the result table and the block of the optimal engine params."""

from __future__ import annotations

import json
import math
import shlex
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from .._formatting import aligned, column, duration, number, spread
from .._text import did_you_mean, printable
from ..config.secrets import SECRET, is_secret
from ..config.yaml_writer import exact, short
from ..direction import ARROWS, Objective
from ..exceptions import ConfigError
from ..records.trial_record import TrialRecord, TrialState, to_json
from ..selection.pareto import front_trials
from ..selection.selection import Best, ranked_by
from .export import best_facts, held_out, least_facts, trials_csv, values_shown
from .manifest import Resolved
from .run_directory import RunDirectory

WORDS = {TrialState.COMPLETE: "ok", TrialState.INFEASIBLE: "infeas."}
_ROWS = 10


def word(state: TrialState) -> str:
    """Give the short word for a state."""
    return WORDS.get(state, state.value)


def spread_of(record: TrialRecord) -> str:
    """Print the value of a trial as a column wants it."""
    return spread(column(record.value), record.deviation, len(record.repeats))


def result_table(records: Sequence[TrialRecord], resolved: Resolved, rows: int = _ROWS) -> str:
    """Print the best trials, best first."""
    order = ranked_by(records, resolved.optimized)
    more = f"\n ... {len(order) - rows} more in trials.csv" if len(order) > rows else ""
    return aligned(ranked_rows(order[:rows], resolved)) + more


def ranked_rows(order: Sequence[TrialRecord], resolved: Resolved) -> list[list[str]]:
    """Give the rows of the best trials, best first, with their ranks; only complete ones rank.

    Of several objectives those of the front come first and are marked; no trial ranks.
    """
    head, *rows = trial_rows(order, resolved)
    if resolved.others:
        front = {record.number for record in front_trials(order, resolved.optimized)}
        marks = ("*" if record.number in front else "" for record in order)
        return [["front", *head], *([mark, *row] for mark, row in zip(marks, rows, strict=True))]
    ranks = (str(n) if record.state is TrialState.COMPLETE else "-" for n, record in enumerate(order, 1))
    return [["rank", *head], *([rank, *row] for rank, row in zip(ranks, rows, strict=True))]


def trial_rows(records: Sequence[TrialRecord], resolved: Resolved) -> list[list[str]]:
    """Give the head of a table of trials and a row for each, in the order given."""
    seen = {name: None for record in records for name in record.params}
    params = [name for name in resolved.ordered(seen) if name not in resolved.fixed]
    objectives = values_shown(records, resolved)
    values = [
        " ".join([f"{name}{ARROWS[objective]}", *(bound.limit for bound in resolved.bounds_of(name))])
        for name, objective in objectives.items()
    ]
    head = ["trial", *values, "epochs", *map(printable, params), "state"]
    return [head, *(_row(record, list(objectives)[1:], params) for record in records)]


def _row(record: TrialRecord, beside: Sequence[str], params: Sequence[str]) -> list[str]:
    return [
        str(record.number),
        spread_of(record),
        *(column(record.picked_values.get(name)) for name in beside),
        str(len(record.epochs)),
        *(short(record.params[name]) if name in record.params else "-" for name in params),
        word(record.state),
    ]


def optimal(best: Best, records: Sequence[TrialRecord], resolved: Resolved) -> str:
    """Print the block of the optimal engine params."""
    params, values = optimal_params(best, resolved), optimal_values(best, resolved)
    lines = [
        evaluated(records),
        f"Optimal Engine Params: ({where(best, resolved)}):",
        *_noted([(f"{name}: {value}", note and f"# {note}") for name, value, note in params]),
        "Metrics:",
        *_noted([(f"{name}: {value}", note) for name, value, note in values]),
    ]
    return "\n".join(lines)


def where(best: Best, resolved: Resolved) -> str:
    """Say which trial and epoch it is; of several runs whose, and of several ways to pick by which."""
    run = f" of the first of {best.repeats} repeats" if best.repeats > 1 else ""
    rule = "" if resolved.pick == "best" else f", by {resolved.pick}"
    if resolved.others:
        rule = ", the knee of the Pareto front" if resolved.pick == "knee" else ", on the Pareto front"
    return f"trial {best.trial}, epoch {best.epoch}{run}{rule}"


def optimal_params(best: Best, resolved: Resolved) -> list[tuple[str, str, str]]:
    """Give each param of the best trial: name, value, and `fixed` or the bundle that set it."""
    params = resolved.ordered(best.params)
    return [(printable(k), exact(v), _origin(k, params, resolved)) for k, v in params.items()]


def optimal_values(best: Best, resolved: Resolved) -> list[tuple[str, str, str]]:
    """Give each metric of the best trial: name, value, and its direction and formula.

    The test value of the optimized one comes second, with what it says of the pick.
    """
    tested = held_out(best.values, best.metric, best.objective, best.value)
    value = spread(number(best.value), best.deviation, best.repeats)
    told = [(best.metric, value, _about(best.metric, best.objective, resolved))]
    if tested is not None:
        told.append((tested.name, number(tested.value), f"({tested.words})"))
    told_already = {name for name, *_ in told}
    for name, objective in resolved.beside.items():
        if name not in told_already:
            told.append((name, number(best.values.get(name)), _about(name, objective, resolved)))
    return told


def _about(name: str, objective: Objective | None, resolved: Resolved) -> str:
    """Say which way a value is to go, what bounds it keeps and, if it is combined, of what."""
    kept = "  ".join(f"({bound.limit} ok)" for bound in resolved.bounds_of(name))
    formula = f"= {resolved.formulas[name]}" if name in resolved.formulas else ""
    return "  ".join(part for part in (f"({objective})" if objective else "", kept, formula) if part)


def evaluated(records: Iterable[TrialRecord]) -> str:
    """Print how many engine params were evaluated, by state, and how long their trials took in all."""
    records = list(records)
    states = Counter(record.state for record in records)
    told = ", ".join(f"{word(state)} {states[state]}" for state in TrialState if states[state])
    seconds = sum(record.seconds for record in records)
    return f"# engine params evaluated: {len(records)}  ({told or 'none'})  {duration(seconds)} of training"


def params_line(params: Mapping[str, Any], resolved: Resolved) -> str:
    """Print the params that vary on one line."""
    ordered = resolved.ordered(params)
    return " ".join(f"{printable(k)}={short(v)}" for k, v in ordered.items() if k not in resolved.fixed)


def _origin(name: str, params: Mapping[str, Any], resolved: Resolved) -> str:
    return "fixed" if name in resolved.fixed else printable(resolved.bundle_of(name, params) or "")


def _noted(lines: Sequence[tuple[str, str]]) -> list[str]:
    width = max((len(text) for text, note in lines if note), default=0)
    return [f"  {text:<{width}}  {note}".rstrip() for text, note in lines]


def leaders(records: Sequence[TrialRecord], resolved: Resolved, count: int) -> list[TrialRecord]:
    """Give so many of the best trials, the feasible ones first; fewer if no more ran to their end."""
    ended = (TrialState.COMPLETE, TrialState.INFEASIBLE)
    order = ranked_by(records, resolved.optimized)
    ranks = [r for r in order if r.state in ended and r.value is not None and math.isfinite(r.value)]
    return ranks[:count]


def leaders_text(best: Best, records: Sequence[TrialRecord], resolved: Resolved, count: int) -> str:
    """Print them as the table of results does, and which one is picked."""
    rows = aligned(ranked_rows(leaders(records, resolved, count), resolved))
    return "\n".join([evaluated(records), rows, f"picked: {where(best, resolved)}"])


def leaders_facts(
    records: Sequence[TrialRecord], resolved: Resolved, count: int, home: Path
) -> list[dict[str, Any]]:
    """Give each as plain JSON: all of a feasible one, and of others what they break."""
    return [
        best_facts(Best.of(record, resolved.optimized), record, resolved, home)
        if record.state is TrialState.COMPLETE
        else least_facts(record, resolved, record.reason or "")
        for record in leaders(records, resolved, count)
    ]


def leaders_arguments(records: Sequence[TrialRecord], resolved: Resolved, count: int) -> str:
    """Print the params of each feasible one on a line, see `arguments`.

    Raises:
        ConfigError: see `arguments`.
    """
    feasible = (r for r in leaders(records, resolved, count) if r.state is TrialState.COMPLETE)
    return "\n".join(arguments(resolved.ordered(record.params)) for record in feasible)


def arguments(params: Mapping[str, Any]) -> str:
    """Print params as a shell takes them behind a command: texts as they are, other values as JSON.

    A secret is left to the shell, which reads its variable.

    Raises:
        ConfigError: a value has characters that do not belong on a line.

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


FORMS = ("table", "json", "csv")
_FACTS: dict[str, Callable[[TrialRecord], Any]] = {
    "trial": lambda record: record.number,
    "state": lambda record: record.state.value,
    "epoch": lambda record: record.epoch,
    "epochs": lambda record: len(record.epochs),
    "seconds": lambda record: record.seconds,
}
BEST = "value"


def trials_text(
    directory: Path, form: str = "table", sort: str = "trial", states: Collection[str] = ()
) -> str:
    """List trials.

    Args:
        directory: of the run.
        form: one of `FORMS`.
        sort: `trial`, `state`, `epoch`, `epochs`, `seconds` or a param, smallest first; `value`, the metric
            that is optimized or one that is tracked, best first.
        states: only trials in one of these, as in `complete`; all, if there are none.

    Raises:
        ConfigError: it is no run directory, or there is nothing of that name to sort by.
        RecordError: a file of it is damaged.
    """
    home = RunDirectory(directory)
    resolved, records = home.read(), home.records()
    order = _sorted(records, resolved, sort)
    chosen = [record for record in order if not states or record.state.value in states]
    if form == "csv":
        return trials_csv(chosen, resolved).rstrip("\n")
    if form == "json":
        front = front_trials(records, resolved.optimized) if resolved.others else []
        there = {record.number for record in front}
        told = [_facts(record, directory, resolved, there) for record in chosen]
        return json.dumps(told, indent=1, allow_nan=False)
    return aligned(trial_rows(chosen, resolved))


def _sorted(records: Sequence[TrialRecord], resolved: Resolved, by: str) -> list[TrialRecord]:
    if by in (BEST, resolved.metric):
        return ranked_by(records, resolved.optimized)
    if by in resolved.beside:
        return sorted(records, key=lambda record: _goodness(record, by, resolved))
    if by in _FACTS:
        return _ascending(records, _FACTS[by])
    params = {name for record in records for name in record.params}
    if by in params:
        return _ascending(records, lambda record: record.params.get(by))
    known = [*_FACTS, BEST, resolved.metric, *resolved.beside, *sorted(params)]
    raise ConfigError(f"no column {by!r} to sort by{did_you_mean(by, known)}; there are {', '.join(known)}")


def _goodness(record: TrialRecord, name: str, resolved: Resolved) -> float:
    value, objective = record.picked_values.get(name), resolved.beside[name]
    if value is None or isinstance(value, list):
        return math.inf
    return value if objective is None else objective.sort_key(value)


def _ascending(records: Sequence[TrialRecord], fact: Callable[[TrialRecord], Any]) -> list[TrialRecord]:
    """Sort numbers before texts; what a trial does not have comes last."""

    def key(record: TrialRecord) -> tuple[int, float, str]:
        value = fact(record)
        if value is None:
            return 2, 0.0, ""
        if isinstance(value, (int, float)):
            return 0, value, ""
        return 1, 0.0, value if isinstance(value, str) else json.dumps(value)

    return sorted(records, key=key)


def _facts(
    record: TrialRecord, directory: Path, resolved: Resolved, front: Collection[int]
) -> dict[str, Any]:
    """Give a trial as strict JSON, with the values of its picked epoch."""
    values = {name: to_json(value) for name, value in record.picked_values.items()}
    tested = held_out(record.picked_values, resolved.metric, resolved.objective, record.value)
    return {
        **record.to_json(directory),
        "deviation": record.deviation,
        "test": None if tested is None else tested.to_json(),
        "params": resolved.ordered(record.params),
        "values": values,
        **({"front": record.number in front} if resolved.others else {}),
    }
