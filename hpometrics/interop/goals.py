"""Goals: the metric that a foreign file optimises, with the direction that is the metric's own."""

from __future__ import annotations

import re
from typing import Any

from ..direction import MINIMIZE, Objective
from ..exceptions import HpometricsError
from ..metrics.registry.lookup import find_metric
from ..metrics.registry.names import MetricName
from .directions import known_direction
from .notes import Section

_NO_NAME = re.compile(r"[^A-Za-z0-9_./-]+")


def read_goal(metric: Section, name: str, tool: str) -> Objective:
    """Settle the direction of a metric; a goal that is another, or missing where it matters, is remarked on.

    Args:
        metric: has the goal.
        name: of the metric.
        tool: which minimizes where no goal is given.
    """
    known = known_direction(name)
    stated = metric.word("goal")
    if stated not in ("", "minimize", "maximize"):
        metric.notes.refuse((*metric.path, "goal"), f"a goal is minimize or maximize, got {stated!r}")
        stated = ""
    goal = Objective.parse(stated) if stated else MINIMIZE
    if known is None:
        if not stated:
            metric.say("goal", f"is missing, so {tool} minimizes {name}", "no-goal", "minimize is written")
        return goal
    called, objective = known
    if goal is not objective:
        said = f"{stated} contradicts" if stated else f"is missing, so {tool} minimizes, which contradicts"
        of = name if called == name else f"{name}: {called}"
        metric.say("goal", f"{said} {of} is to {objective}", "direction", f"{objective} is written")
    return objective


def as_reported(name: str, objective: Objective, metric: Section) -> str | dict[str, Any]:
    """Write a metric that a program tells: its name if the registry knows it, else with its direction."""
    if _is_ours(name, objective):
        return name
    written = _NO_NAME.sub("_", name).strip("_./-") or "score"
    if not _parses(written):
        written = re.sub(r"[^A-Za-z0-9_]+", "_", written)
    if written != name:
        metric.say("name", f"{name!r} is no name here; tell it as {written}")
    return {"metric": written, "direction": objective.value}


def _is_ours(name: str, objective: Objective) -> bool:
    try:
        return find_metric(MetricName.parse(name).bare).objective is objective
    except HpometricsError:
        return False


def _parses(name: str) -> bool:
    try:
        MetricName.parse(name)
    except HpometricsError:
        return False
    return True
