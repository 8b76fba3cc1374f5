"""Register metric classes under names, and create metrics by name; torch is loaded with the first metric."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, TypeVar

from ...direction import UNSTATED, Direction
from ...exceptions import MetricNameError, RegistrationError, UnknownMetricError
from ..features import InputType, OutputFeature, check_feature_type, parse_feature
from .facts import facts_of
from .index import MetricEntry, ReplacedWarning, alias_meaning, entry_at, path_of, registry
from .lookup import FoundMetric, find_metric, import_metric, possible_meanings
from .ludwig_names import one_direction
from .names import MetricName, parse_import_path

if TYPE_CHECKING:
    from ..metric import Metric

M = TypeVar("M", bound=type)


def register_metric(
    name: str,
    feature_types: Iterable[str],
    direction: Direction | str | None = UNSTATED,
    inputs: InputType | str = UNSTATED,
    *,
    aliases: Mapping[str, str] | Iterable[str] = (),
    override: bool = False,
    objective: Direction | str | None = UNSTATED,
) -> Callable[[M], M]:
    """Register a metric class under a name, for the output features it serves.

    Direction and inputs may be stated here or as class attributes (`direction = MAXIMIZE`), by Ludwig's names
    (`objective`, `get_objective()`, `get_inputs()`) too; two statements of one fact must agree. A metric
    without a direction states `direction = None`.

    Args:
        name: the canonical name, `[a-z][a-z0-9_]*`.
        feature_types: type constants such as `[SEQUENCE, TEXT]`.
        direction: `MINIMIZE`, `MAXIMIZE` or None (measured, never optimized).
        inputs: `PREDICTIONS`, `PROBABILITIES` or `LOGITS`.
        aliases: other names: a list, or a mapping to the meaning of each (`{"f1_macro":
            "f1(average=macro)"}`); for the name itself, its meaning without a required parameter.
        override: replace the entry of another class. A user's own class replaces a built-in one without it
            too, with a warning; the class of an installed package does not.
        objective: Ludwig's word for `direction`.

    Raises:
        RegistrationError: a fact is missing or contradicted, the name is malformed or taken.
        DirectionError: `direction` and `objective` differ.
    """
    stated = one_direction(name, direction, objective)
    types = [feature_types] if isinstance(feature_types, str) else list(feature_types)
    listed = [aliases] if isinstance(aliases, str) else aliases
    meanings = dict(listed) if isinstance(listed, Mapping) else dict.fromkeys(listed, name)

    def register(cls: M) -> M:
        facts = facts_of(cls, name, stated, inputs)
        if not types:
            raise RegistrationError(
                f"{name}: name at least one output feature, as in register_metric({name!r}, [BINARY])"
            )
        entries = [
            MetricEntry(
                name=name,
                feature_type=check_feature_type(feature_type),
                path=path_of(cls),
                aliases=dict(meanings) or None,
                **vars(facts),
            )
            for feature_type in types
        ]
        for entry in entries:
            _check_free(entry, override)
        replaced = [str(one) for one in entries if _replaces(one, entry_at((name, one.feature_type)))]
        if replaced and not override:
            warnings.warn(
                f"{' and '.join(replaced)} will be measured by {path_of(cls)} instead of the built-in "
                "metric; pass override=True to confirm",
                ReplacedWarning,
                stacklevel=2,
            )
        for entry in entries:
            registry.add(entry, cls)
        return cls

    return register


def get_metric(name: str | MetricName, output: OutputFeature | str | None = None) -> Metric:
    """Create the metric of this name, ready for `update`.

    Args:
        name: `f1(average=macro)`, `hits@5`, an alias, or `package.module:Class`.
        output: the output feature of the metric, as an object or text (`category(num_classes=10)`).

    Raises:
        MetricNameError, UnknownMetricError: see `find_metric`.
        MetricNameError: the name means different metrics for different features and `output` is missing.
    """
    feature = None if output is None else parse_feature(output)
    if isinstance(name, str) and parse_import_path(name):
        match = import_metric(name)
    else:
        match = find_metric(_bare(name), None if feature is None else feature.type)
    if feature is None:
        _check_one(match.name)
    entry = _entry_for(match, feature)
    values = {**dict(match.name.params), **({} if match.name.k is None else {"k": match.name.k})}
    arguments = {param.keyword: values[param.name] for param in entry.params if param.name in values}
    metric: Metric = entry.load()(**arguments)
    metric.name = str(match.name.bare)
    metric.output = feature if feature is not None else parse_feature(entry.feature_type)
    return metric


def _check_free(entry: MetricEntry, override: bool) -> None:
    """Raise if a name or alias has another meaning already, or if an alias cannot be parsed.

    A built-in metric is compared with the built-in ones only: a user's metric that was registered before its
    import has been compared with the index.
    """
    key = (entry.name, entry.feature_type)
    holder = registry.built_in.entries.get(key) if entry.is_built_in else entry_at(key)
    if holder is not None and holder.path != entry.path and not (override or _replaces(entry, holder)):
        raise RegistrationError(
            f"{entry} is already the name of {holder.path}; {entry.path} needs another name, or "
            "override=True to replace it"
        )
    meaning = registry.built_in.aliases.get(key) if entry.is_built_in else alias_meaning(*key)
    if meaning is not None and MetricName.parse(meaning).metric != entry.name and not override:
        raise RegistrationError(f"{entry} is already an alias of {meaning}; choose another name")
    for alias, meaning in (entry.aliases or {}).items():
        _check_alias(alias, meaning, entry, override)


def _replaces(entry: MetricEntry, holder: MetricEntry | None) -> bool:
    """Return whether a user's metric has the name of a built-in one."""
    return holder is not None and holder.is_built_in and not entry.is_built_in


def _check_alias(alias: str, meaning: str, entry: MetricEntry, override: bool) -> None:
    key = (alias, entry.feature_type)
    if (
        str(MetricName(alias)) != str(MetricName.parse(alias))
        or MetricName.parse(meaning).metric != entry.name
    ):
        raise RegistrationError(
            f"{entry}: an alias must be a plain name of the metric itself, got {alias!r}: {meaning!r}"
        )
    if entry.is_built_in:
        other, is_name = registry.built_in.aliases.get(key), key in registry.built_in.entries
    else:
        other, is_name = alias_meaning(*key), entry_at(key) is not None
    if is_name and alias != entry.name:
        raise RegistrationError(
            f"{entry}: its alias {alias!r} is the name of another metric; register the class under that name"
        )
    if other not in (None, meaning) and not override:
        raise RegistrationError(f"{entry}: its alias {alias!r} already stands for {other}")


def _check_one(name: MetricName) -> None:
    """Raise if a name without an output feature means another metric for each of them."""
    possible = [entry for _, entry in possible_meanings(name)]
    if len({entry.path for entry in possible}) > 1:
        choices = ", ".join(entry.feature_type for entry in possible)
        raise MetricNameError(
            f"{name} means a different metric for each output feature; set output= to one of {choices}"
        )


def _entry_for(match: FoundMetric, feature: OutputFeature | None) -> MetricEntry:
    for entry in match.entries:
        if feature is None or entry.feature_type == feature.type:
            return entry
    raise UnknownMetricError(
        f"{match.name} is a metric of {match.entries[0].feature_type}, the output is {feature}"
    )


def _bare(name: str | MetricName) -> MetricName:
    parsed = MetricName.parse(name)
    if parsed != parsed.bare:
        raise MetricNameError(
            f"{name}: a single metric measures one output on one split; set split, task, feature and "
            "tasks= in a run"
        )
    return parsed
