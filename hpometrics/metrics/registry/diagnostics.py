"""The diagnostics that a run may record beside its metrics, with unit and direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...direction import MAXIMIZE, MINIMIZE, Direction
from ...exceptions import DirectionError, MetricNameError
from .names import MetricName
from .scope import direction_problem

OverRanks = Literal["sum", "mean", "max", "min", "first", "pooled"]

_WATCH = "run.watch(model, optimizer)"
_UPDATE = "run.update"
_BOTH = "run.watch and run.update"
_TOKENS = "run.update(context_tokens=..., label_tokens=...)"
_CONTEXT, _LABELS = "run.update(context_tokens=...)", "run.update(label_tokens=...)"


@dataclass(frozen=True)
class Diagnostic:
    """One value that describes the progress of a run rather than the quality of its model.

    `unit` is empty for a share or a count, `direction` is None if the value has no direction. A `per_task`
    value exists for each task, all others once for the whole run. `comes_from` names the calls that measure
    it. `over_ranks` is how the values of the ranks of a process group become one: `sum`, `mean`, `max`,
    `min`, `first` (the value of the first rank) or `pooled` (a ratio, whose two parts are added up).

    >>> print(diagnostic("train:convai2/clen"))
    clen
    """

    name: str
    meaning: str
    comes_from: str
    unit: str = ""
    direction: Direction | None = None
    per_task: bool = False
    over_ranks: OverRanks = "pooled"

    def __str__(self) -> str:
        return self.name


def diagnostic(name: str | MetricName) -> Diagnostic | None:
    """Return the diagnostic of a name, whatever its split, task and watch; None if there is none."""
    try:
        parsed = MetricName.parse(name)
    except MetricNameError:
        return None
    return None if parsed.params or parsed.k is not None else DIAGNOSTICS.get(parsed.metric)


def direction_of(name: str | MetricName, entry: Diagnostic, direction: Direction | None) -> Direction:
    """Return the direction in which to optimize a diagnostic.

    Raises:
        DirectionError: neither it nor the caller has a direction, or the two differ.

    >>> direction_of("exps", diagnostic("exps"), None)
    <Direction.MAXIMIZE: 'maximize'>
    """
    own = entry.direction
    if own is None and direction is None:
        raise DirectionError(
            f"{name} has no direction; write {{metric: {name}, direction: minimize}} or maximize"
        )
    if problem := direction_problem(name, own, direction, "direction"):
        raise DirectionError(problem)
    return own or direction  # type: ignore[return-value]  # one of the two is there


_ROWS = (
    Diagnostic("exs", "examples", _UPDATE, per_task=True, over_ranks="sum"),
    Diagnostic("exps", "examples per second", _BOTH, "1/s", MAXIMIZE),
    Diagnostic(
        "ups", "updates of the weights per second of training", _WATCH, "1/s", MAXIMIZE, over_ranks="min"
    ),
    Diagnostic("step_time", "seconds of training per update", _WATCH, "s", MINIMIZE, over_ranks="max"),
    Diagnostic("epoch_time", "seconds of the epoch", _WATCH, "s", MINIMIZE, over_ranks="max"),
    Diagnostic("total_train_updates", "updates of the weights since the run began", _WATCH, over_ranks="max"),
    Diagnostic("lr", "learning rate of the last update, first parameter group", _WATCH, over_ranks="first"),
    Diagnostic(
        "gnorm",
        "L2 norm of the gradient before clipping, mean over measured updates",
        _WATCH,
        over_ranks="mean",
    ),
    Diagnostic(
        "clip",
        "share of updates whose gradient was clipped",
        "run.watch(..., max_norm=...)",
        over_ranks="mean",
    ),
    Diagnostic(
        "gpu_mem",
        "peak of the GPU memory allocated, share of the total",
        f"{_WATCH} on CUDA",
        over_ranks="max",
    ),
    Diagnostic("peak_rss", "peak of the process's memory so far", _WATCH, "MiB", over_ranks="max"),
    Diagnostic("clen", "context tokens per example before truncation", _CONTEXT, "tokens", per_task=True),
    Diagnostic("llen", "label tokens per example before truncation", _LABELS, "tokens", per_task=True),
    Diagnostic(
        "ctrunc",
        "share of examples whose context was truncated",
        "run.update(context_truncated=...)",
        direction=MINIMIZE,
        per_task=True,
    ),
    Diagnostic(
        "ctrunclen",
        "context tokens cut per example",
        "run.update(context_truncated=...)",
        "tokens",
        MINIMIZE,
        per_task=True,
    ),
    Diagnostic(
        "ltrunc",
        "share of examples whose label was truncated",
        "run.update(label_truncated=...)",
        direction=MINIMIZE,
        per_task=True,
    ),
    Diagnostic(
        "ltrunclen",
        "label tokens cut per example",
        "run.update(label_truncated=...)",
        "tokens",
        MINIMIZE,
        per_task=True,
    ),
    Diagnostic("tpb", "context and label tokens per batch", _TOKENS, "tokens"),
    Diagnostic("ctpb", "context tokens per batch", _CONTEXT, "tokens"),
    Diagnostic("ltpb", "label tokens per batch", _LABELS, "tokens"),
    Diagnostic("tps", "context and label tokens per second", f"run.watch and {_TOKENS}", "1/s", MAXIMIZE),
    Diagnostic("ctps", "context tokens per second", f"run.watch and {_CONTEXT}", "1/s", MAXIMIZE),
    Diagnostic("ltps", "label tokens per second", f"run.watch and {_LABELS}", "1/s", MAXIMIZE),
)
DIAGNOSTICS = {row.name: row for row in _ROWS}
