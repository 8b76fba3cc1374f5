"""The page of a group of metrics: what it is, and its members for each output feature."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from ..exceptions import MetricNameError
from ..metrics.features import FEATURES
from ..metrics.registry.entry import MetricEntry
from ..metrics.registry.groups import family_of, group_names, members_of
from ..metrics.registry.index import all_entries
from ..metrics.registry.lookup import find_metric
from ..metrics.registry.names import MetricName
from .listing import lined_up, way
from .metric_list import form, wrapped

_HEAD = ("name", "objective", "reads", "meaning")
_MEANINGS = {
    "default": "a group: a short choice of metrics for each output",
    "words": "a group: a short choice of metrics for texts that are given as strings",
    "all": "a group: every metric of an output that needs nothing further and has a direction",
}

Member = tuple[MetricName, MetricEntry]


def group_text(group: str, feature: str | None = None, width: int | None = None) -> str:
    """Print what a group is, and its members: for one output feature, or for each that has it.

    Raises:
        MetricNameError: there is none for the output feature.
    """
    members = _by_feature(group, feature)
    facts = [("", group), ("meaning", _meaning(group)), *_usage(group, members)]
    parts = ["\n".join(wrapped(facts, width))]
    return "\n\n".join([*parts, *(_part(group, kind, chosen, width) for kind, chosen in members.items())])


def group_json(group: str, feature: str | None = None) -> str:
    """Give the same as JSON.

    Raises:
        MetricNameError: see `group_text`.
    """
    members = {
        kind: [
            {
                "name": str(name),
                "objective": entry.objective and entry.objective.value,
                "inputs": entry.inputs.value,
                "summary": entry.summary,
            }
            for name, entry in chosen
        ]
        for kind, chosen in _by_feature(group, feature).items()
    }
    return json.dumps([{"group": group, "meaning": _meaning(group), "members": members}], indent=1)


def _by_feature(group: str, feature: str | None) -> dict[str, list[Member]]:
    """The members of a group by output feature, of one or of all that have it."""
    kinds = [kind for kind in (FEATURES if feature is None else [feature]) if group in group_names(kind)]
    members = {kind: _members(group, kind) for kind in kinds}
    found = {kind: chosen for kind, chosen in members.items() if chosen or _left_out(group, kind, chosen)}
    if feature is not None and not found:
        members_of(group, feature)  # which says why there is none
    return found


def _usage(group: str, members: Mapping[str, list[Member]]) -> Iterator[tuple[str, str]]:
    """Say where the group may be written, if any list may have it."""
    for kind in (kind for kind, chosen in members.items() if chosen):
        yield "in YAML", f"metrics: {{track: [{group}]}}"
        yield "in Python", f'MetricCollection(["{group}"], output="{kind}")'
        return


def _part(group: str, kind: str, chosen: list[Member], width: int | None) -> str:
    """The members for one output feature, and what of the family is none."""
    rows = [(str(name), way(entry), entry.inputs.value, entry.summary) for name, entry in chosen]
    left = _left_out(group, kind, chosen)
    head, *more = wrapped([("", f"{kind}: {len(chosen)}"), *([("without", left)] if left else [])], width)
    return "\n".join([head, *([lined_up(_HEAD, rows, width)] if rows else []), *more])


def _members(group: str, kind: str) -> list[Member]:
    """The members for one output feature; none where each of them needs something further."""
    try:
        names = members_of(group, kind)
    except MetricNameError:
        return []
    return [(name, find_metric(name, kind).entries[0]) for name in names]


def _meaning(group: str) -> str:
    family = family_of(group)
    return _MEANINGS.get(
        group, f"a group: the metrics of the family {family}, with each choice that they need"
    )


def _left_out(group: str, kind: str, chosen: list[Member]) -> str:
    """Name the metrics of a family that are to be named themselves, since they need something further."""
    within = {entry.name for _, entry in chosen}
    entries = [entry for entry in all_entries(kind) if family_of(group) in entry.families]
    left = ", ".join(form(entry) for entry in entries if entry.name not in within)
    return left and f"{left}, which need something further"
