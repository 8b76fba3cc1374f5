"""What a sweep prints at its end: the result table and the block of the optimal engine params."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .._text import printable
from ..direction import Objective
from ..records.trial_record import TrialRecord, TrialState
from ..selection.pareto import front_trials
from ..selection.picking import ranked_by
from ..selection.selection import Best
from .formatting import ARROWS, aligned, column, duration, exact, number, short, spread
from .held_out import held_out, values_shown
from .manifest import Resolved

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
    order = ranked_by(records, resolved.optimised)
    more = f"\n ... {len(order) - rows} more in trials.csv" if len(order) > rows else ""
    return aligned(ranked_rows(order[:rows], resolved)) + more


def ranked_rows(order: Sequence[TrialRecord], resolved: Resolved) -> list[list[str]]:
    """Give the rows of the best trials, best first, with their ranks; only complete ones rank.

    Of several objectives those of the front come first and are marked; no trial ranks.
    """
    head, *rows = trial_rows(order, resolved)
    if resolved.others:
        front = {record.number for record in front_trials(order, resolved.optimised)}
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

    The test value of the optimised one comes second, with what it says of the pick.
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
