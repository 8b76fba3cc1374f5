"""The role of each column of a file: target, output of the model, weight, task."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from ..metrics.features import BOXES, SEQUENCE, SET, TEXT, TIMESERIES, VECTOR
from .source import PredictionsError, Source, missing_column

WORDS = {
    "target": ("target", "targets"),
    "predictions": ("prediction", "predictions"),
    "probabilities": ("probability", "probabilities"),
    "logits": ("logit", "logits"),
    "references": ("reference", "references"),
}
WEIGHT, TASK = "sample_weight", "task"
WIDE = (SET, VECTOR, TIMESERIES)


@dataclass(frozen=True)
class Role:
    """The columns of one keyword of `update`: one column, or several that differ in their suffix."""

    keyword: str
    columns: tuple[str, ...]
    suffixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Roles:
    """The roles of the columns of a file; unused columns carry the reason if their name does not show it."""

    target: Role
    model_outputs: dict[str, Role]
    weight: str | None = None
    task: str | None = None
    extras: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


def read_roles(
    source: Source,
    feature_type: str,
    weight: str | None = None,
    task: str | None = None,
    extras: Collection[str] = (),
) -> Roles:
    """Return the roles of the columns by their names.

    Args:
        source: the file.
        feature_type: the output of the model.
        weight: the column of weights; by default `sample_weight`, if there is one.
        task: the column of tasks; by default `task`, if there is one.
        extras: further keywords that the metrics read.

    Raises:
        PredictionsError: a column is missing; the message lists the columns.
    """
    if feature_type == BOXES:
        raise PredictionsError(f"{source.path}: boxes cannot be read from a file; update a MetricCollection")
    outputs = {keyword: role for keyword in WORDS if (role := _role(source, keyword)) is not None}
    target = outputs.pop("references", None) if feature_type == TEXT else None
    target = target or outputs.pop("target", None)
    outputs.pop("target", None)
    if target is None:
        raise missing_column(source, "target_0" if feature_type == SET else "target", "what was right")
    outputs.pop("references", None)
    if not outputs:
        raise missing_column(source, "prediction", "or probability_* or logit_*: what the model gave")
    for role in outputs.values():
        _check_suffixes(source, feature_type, target, role)
    if feature_type in WIDE:
        outputs = {keyword: _aligned(role, target) for keyword, role in outputs.items()}
    used: set[str | None] = {column for role in (target, *outputs.values()) for column in role.columns}
    optional = {
        "weight": _chosen(source, weight, WEIGHT, "--weights"),
        "task": _chosen(source, task, TASK, "--by"),
    }
    more = tuple(extra for extra in source.columns if extra in extras)
    used |= {*optional.values(), *more, "output"}
    rest = [column for column in source.columns if column not in used]
    return Roles(target, outputs, optional["weight"], optional["task"], more, tuple(rest))


def logits_alone(roles: Roles) -> Roles:
    """Return the roles without probabilities beside logits, so that every metric reads the same output."""
    if not {"logits", "probabilities"} <= roles.model_outputs.keys():
        return roles
    outputs = {keyword: role for keyword, role in roles.model_outputs.items() if keyword != "probabilities"}
    unread = (f"{column} (the logits are read)" for column in roles.model_outputs["probabilities"].columns)
    return replace(roles, model_outputs=outputs, unused=(*unread, *roles.unused))


def _role(source: Source, keyword: str) -> Role | None:
    singular, plural = WORDS[keyword]
    for column in (keyword, singular, plural):
        if column in source.columns:
            return Role(keyword, (column,))
    front = f"{singular}_"
    by_suffix = {name.removeprefix(front): name for name in source.columns if name.startswith(front)}
    if not by_suffix:
        return None
    suffixes = _in_order(source, singular, by_suffix)
    return Role(keyword, tuple(by_suffix[suffix] for suffix in suffixes), suffixes)


def _in_order(source: Source, word: str, by_suffix: Iterable[str]) -> tuple[str, ...]:
    """Return numbered columns in the order of their numbers, which must be 0 to C - 1; others as they are."""
    suffixes = tuple(by_suffix)
    if not all(suffix.isdecimal() for suffix in suffixes):
        return suffixes
    ordered = tuple(sorted(suffixes, key=int))
    start = int(ordered[0])
    if [int(suffix) for suffix in ordered] != list(range(start, start + len(ordered))) or start > 1:
        names = ", ".join(f"{word}_{suffix}" for suffix in ordered)
        raise PredictionsError(
            f"{source.path}: columns numbered by class run from {word}_0 without a gap, got {names}"
        )
    return ordered


def _check_suffixes(source: Source, feature_type: str, target: Role, role: Role) -> None:
    """Raise unless the columns of an output are those of the target, one by one."""
    if feature_type in WIDE and set(role.suffixes) != set(target.suffixes):
        odd = sorted(set(role.suffixes) ^ set(target.suffixes))
        if role.suffixes and target.suffixes:
            raise PredictionsError(
                f"{source.path}: the columns {target.columns[0]} ... and {role.columns[0]} ... are of other "
                f"labels; only one of them has {', '.join(odd)}"
            )
    if feature_type == SEQUENCE and role.suffixes:
        raise PredictionsError(
            f"{source.path}: a sequence is a list of tokens in one column, as JSON lines and npz have it, "
            f"got {role.columns[0]} ..."
        )


def _aligned(role: Role, target: Role) -> Role:
    """Return the columns of an output in the order of the target's."""
    if not (role.suffixes and target.suffixes):
        return role
    columns = dict(zip(role.suffixes, role.columns, strict=True))
    return Role(role.keyword, tuple(columns[suffix] for suffix in target.suffixes), target.suffixes)


def _chosen(source: Source, requested: str | None, usual: str, option: str) -> str | None:
    if requested is None:
        return usual if usual in source.columns else None
    if requested not in source.columns:
        raise missing_column(source, requested, option)
    return requested
