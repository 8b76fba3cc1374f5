"""Find the metric that a name means, and check its parameters."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from ..._formatting import listed
from ..._imports import foreign
from ...direction import Direction
from ...exceptions import ConfigError, DirectionError, MetricNameError, UnknownMetricError
from ..features import BINARY, FEATURES, PREDICTIONS, RANKING, SET, InputType, check_feature_type
from .aliases import (
    logged_metric,
    meaning_elsewhere,
    meaning_for_output,
    split_of_log,
    value_of_a_task,
)
from .facts import Param
from .groups import group_named, group_names
from .index import (
    MetricEntry,
    alias_meaning,
    alias_names,
    all_entries,
    catalogue_entry,
    entry_at,
    load_plugins,
    metric_names,
    names_in_any_case,
    registry,
)
from .names import MetricName, Scalar, parse_import_path
from .suggestions import hint_name, meaning_on_other_outputs, suggestion
from .torchmetrics_names import class_argument, class_meaning

_OF_A_CLASS = re.compile(r"class_(?P<index>\d+)_(?P<metric>[a-z]\w*)\Z")
_SHORT = {"prec": "precision"}
_SHORTEST_IN_ANY_CASE = 3  # `p` and `r` are names of much else than precision and recall
_FEW = 5  # metrics that are named as those that take a parameter, at most


@dataclass(frozen=True, repr=False)
class FoundMetric:
    """A name in the registry, with its meaning for each output feature that it may be about.

    Args:
        name: the canonical name; the requested one if the canonical name depends on the output feature
            (`auc` is `roc_auc` for a category).
        meanings: the canonical name and the entry for each output feature.
    """

    name: MetricName
    meanings: tuple[tuple[MetricName, MetricEntry], ...]

    def __repr__(self) -> str:
        of = ", ".join(f"{entry.feature_type} {entry.direction or '-'}" for entry in self.entries)
        return f"FoundMetric({self.name}: {of})"

    @property
    def entries(self) -> tuple[MetricEntry, ...]:
        """The entry of each output feature."""
        return tuple(entry for _, entry in self.meanings)

    @property
    def direction(self) -> Direction | None:
        """The direction that all its entries share.

        Raises:
            DirectionError: it depends on the output feature, which is missing.
        """
        directions = {entry.direction for entry in self.entries}
        if len(directions) > 1:
            each = ", ".join(f"{e.direction or 'none'} for {e.feature_type}" for e in self.entries)
            raise DirectionError(
                f"the direction of {self.name} depends on the output feature ({each}); name the feature"
            )
        return directions.pop()

    @property
    def inputs(self) -> InputType:
        """The model output that the metric reads, for the first of its output features."""
        return self.entries[0].inputs

    @property
    def reads(self) -> str:
        """The model outputs that the metric reads, for all its output features."""
        return " or ".join(dict.fromkeys(entry.inputs.value for entry in self.entries))

    def among(self, feature_types: Iterable[str]) -> FoundMetric:
        """Return the meanings of the name for some output features, of which there may be none."""
        meanings = [meaning for meaning in self.meanings if meaning[1].feature_type in feature_types]
        return _found_metric(meanings, self.name)


@dataclass(frozen=True)
class _Interpretation:
    """The meaning of a spelling for one output feature: the name of an entry, or an alias.

    `replaced` is the built-in entry that an entry of the user replaces. It still serves the names that the
    replacement cannot, such as `f1(average=macro)` and `f1_macro` if the user's `f1` takes no average.
    """

    spelling: MetricName
    first: MetricEntry
    meaning: MetricName | None
    replaced: MetricEntry | None = None

    @property
    def resolved(self) -> MetricName:
        """The spelling, with an alias replaced by its meaning."""
        return self.spelling if self.meaning is None else _apply_meaning(self.spelling, self.meaning)

    @property
    def entry(self) -> MetricEntry:
        """The entry that takes the parameters of the spelling."""
        if self.replaced is None or _takes(self.first, self.resolved):
            return self.first
        return self.replaced if _takes(self.replaced, self.resolved) else self.first

    @property
    def means(self) -> str:
        """The meaning without the parameters of the spelling."""
        return self.first.name if self.meaning is None else str(self.meaning)

    @property
    def unknown(self) -> int:
        """The number of parameters of the spelling that the entry does not have."""
        return len(_parameters_of(self.spelling) - {param.name for param in self.first.params})


def find_metric(name: str | MetricName, feature_type: str | None = None) -> FoundMetric:
    """Find a metric by name: resolve aliases, check its parameters, drop those at their default.

    `bleu-4` reads as `bleu_4`, and ParlAI's `class_3_f1` as `f1(class=3)`. A name of a ranking may be in any
    case that leaves its meaning clear: `shannonentropy` does, `NDCG` may be `ndcg` or WarpRec's `nDCG`.

    Without a feature, a name stands for all its meanings; a parameter that only some of them require (such
    as k) may be missing.

    Raises:
        MetricNameError: the name breaks the grammar; or a parameter is unknown, missing or invalid.
        UnknownMetricError: the feature has no such metric; the message suggests near names.
    """
    requested = MetricName.parse(name)
    if feature_type is not None:
        check_feature_type(feature_type)
    readings = _interpretations(requested, feature_type)
    if not readings:
        raise UnknownMetricError(partial(_format_unknown, requested, feature_type))
    fitting, refused = [], []
    for reading in readings:
        try:
            fitting.append((canonical(reading.resolved, reading.entry), reading.entry))
        except MetricNameError as err:
            refused.append((reading.unknown, err))
    if not fitting:
        raise min(refused, key=lambda one: one[0])[1]
    return _found_metric(fitting, readings[0].spelling)


def possible_meanings(
    name: str | MetricName, feature_type: str | None = None
) -> tuple[tuple[MetricName, MetricEntry], ...]:
    """Return all meanings of a name, whether or not it has the parameters that they require.

    Raises:
        MetricNameError: the name breaks the grammar, or a parameter contradicts the meaning of an alias.
    """
    readings = _interpretations(MetricName.parse(name), feature_type)
    return tuple((reading.resolved, reading.entry) for reading in readings)


def measured_by(name: MetricName, feature_type: str | None = None) -> MetricName | None:
    """Return the metric that a logged name such as `val_accuracy` stands for; None if there is none.

    A name of the registry stands for itself. An engine may still report a value of the logged name.
    """
    metric = logged_metric(name.metric)
    if metric is None or name.split is not None or is_registered(name, feature_type):
        return None
    plain = replace(name, metric=metric)
    return plain if is_registered(plain, feature_type) else None


def is_registered(name: str | MetricName, feature_type: str | None = None) -> bool:
    """Return whether an output feature, or any, has the metric, so that the engine cannot use its name."""
    try:
        find_metric(MetricName.parse(name).bare, feature_type)
    except UnknownMetricError:
        return False
    except MetricNameError:  # the metric exists, with other parameters
        return True
    return True


def canonical(name: MetricName, entry: MetricEntry) -> MetricName:
    """Return the canonical name: parameters typed and checked, without those at their default.

    A parameter on whose default the field disagrees is never left out: ParlAI's `rouge_1` is
    `rouge_1(measure=r)`.

    Raises:
        MetricNameError: a parameter is unknown, missing or out of its choices.
    """
    arguments = _default_params(entry) | dict(name.params)
    if name.k is not None and arguments.setdefault("k", name.k) != name.k:
        raise MetricNameError(f"{name}: k is both {arguments['k']} and {name.k}; write {entry.name}@{name.k}")
    params = {param.name: param for param in entry.params}
    for key in arguments:
        if key not in params:
            hint = (
                _hint_output(key, entry) or suggestion(key, params) or _hint_other_metrics(name, key, entry)
            )
            takes = ", ".join(params) or "no parameters"
            raise MetricNameError(
                f"{entry} has no parameter {key!r}; it has {takes}.{hint}".removesuffix(".")
            )
    values = {key: params[key].check(value, str(entry)) for key, value in arguments.items()}
    _check_required(entry, values)
    settings = {
        key: value for key, value in values.items() if value != params[key].default or params[key].required
    }
    k = settings.pop("k", None)
    return replace(name, params=tuple(settings.items()), k=None if k is None else int(k))


def import_metric(path: str) -> FoundMetric:
    """Import `package.module:Class`, a class that `register_metric` has registered.

    Raises:
        MetricNameError: there is no such class, it is not registered, or it needs parameters.
    """
    module, attribute = parse_import_path(path) or ("", "")
    try:
        with foreign(f"{path!r} cannot be imported as package.module:Class"):
            cls = getattr(importlib.import_module(module), attribute)
    except ConfigError as err:
        raise MetricNameError(str(err)) from err
    entries = registry.entries_of_class(cls) if isinstance(cls, type) else ()
    if not entries:
        raise MetricNameError(
            f"{path!r} is not registered; decorate the class with @register_metric(name, [FEATURES])"
        )
    name = canonical(MetricName(entries[0].name), entries[0])
    return FoundMetric(name, tuple((name, entry) for entry in entries))


def printed_name(cls: type, values: Mapping[str, Any]) -> str | None:
    """Return the canonical name of an object of a registered class, by its parameters' values; else None.

    A value that no name can have, such as a list, is left out.
    """
    entries = registry.entries_of_class(cls)
    if not entries:
        return None
    entry = entries[0]
    params = tuple(p for p in entry.params if p.kind != "any" or isinstance(values.get(p.keyword), Scalar))
    if params != entry.params:
        entry = replace(entry, params=params, one_of=())
    values_by_name = {p.name: values[p.keyword] for p in params if p.keyword in values}
    return str(canonical(MetricName(entry.name, tuple(values_by_name.items())), entry))


def is_named_in_full(cls: type, values: Mapping[str, Any]) -> bool:
    """Return whether the name of an object of a registered class states all its parameters."""
    entries = registry.entries_of_class(cls)
    return bool(entries) and all(
        isinstance(values.get(param.keyword, ()), Scalar | None) for param in entries[0].params
    )


def registered_types(cls: type) -> tuple[str, ...]:
    """Return the output features that a class is registered for, in the order of registration."""
    return tuple(entry.feature_type for entry in registry.entries_of_class(cls))


def _default_params(entry: MetricEntry) -> dict[str, Scalar]:
    """Return the parameters that the bare name of a metric stands for, by an alias of the same name."""
    meaning = (entry.aliases or {}).get(entry.name)
    return {} if meaning is None else dict(MetricName.parse(meaning).params)


def _hint_output(key: str, entry: MetricEntry) -> str:
    """Return a hint that a threshold belongs to the output; empty for another parameter."""
    decides = entry.feature_type in (BINARY, SET) and entry.inputs is PREDICTIONS
    example = f"{entry.feature_type}(threshold=0.3)"
    return f" Set the threshold on the output, as in {example}" if key == "threshold" and decides else ""


def _hint_other_metrics(name: MetricName, key: str, entry: MetricEntry) -> str:
    """Return a hint with the metrics of the same output that take the parameter, if they are few."""
    called = meaning_elsewhere(str(name.bare)) if key == "k" else None
    if called and entry_at((called.partition("@")[0], entry.feature_type)):
        return hint_name(called)
    takes = [
        other.name
        for other in all_entries(entry.feature_type)
        if key in (param.name for param in other.params)
    ]
    if not takes or len(takes) > _FEW:
        return ""
    return f" It is a parameter of {listed(f'{name}({key}=...)' for name in sorted(takes))}"


def _found_metric(meanings: Sequence[tuple[MetricName, MetricEntry]], requested: MetricName) -> FoundMetric:
    names = {name for name, _ in meanings}
    return FoundMetric(names.pop() if len(names) == 1 else requested, tuple(meanings))


def _interpretations(requested: MetricName, feature_type: str | None) -> list[_Interpretation]:
    """Return the meaning of a name for each output feature, by its first spelling that any of them has."""
    types = [feature_type] if feature_type else sorted(FEATURES)
    for spelling in _spellings(requested):
        readings = [reading for kind in types for reading in _read_spelling(spelling, kind)]
        if readings:
            return readings
    folded = _in_another_case(requested, types)
    return folded[:1] if len({reading.means for reading in folded}) == 1 else []


def _in_another_case(requested: MetricName, types: Iterable[str]) -> list[_Interpretation]:
    """Return the meanings of a name of a ranking in any case; none if another feature has the name too.

    For other features a capital makes another name: `Accuracy` of torchmetrics is not `accuracy`.
    """
    if len(requested.metric) < _SHORTEST_IN_ANY_CASE:
        return []
    spellings = [replace(requested, metric=name) for name in names_in_any_case(requested.metric)]
    readings = [
        reading for spelling in spellings for kind in types for reading in _read_spelling(spelling, kind)
    ]
    return readings if all(reading.first.feature_type == RANKING for reading in readings) else []


def _read_spelling(spelling: MetricName, feature_type: str) -> Iterator[_Interpretation]:
    """Yield the meaning of a spelling: the name of an entry, an alias or a class of torchmetrics."""
    meaning = None
    spelling = class_argument(spelling, feature_type)
    key = (spelling.metric, feature_type)
    if (entry := entry_at(key)) is None and (meaning := _meaning_of(spelling, feature_type)) is not None:
        key = (meaning.metric, feature_type)
        entry = entry_at(key)
    if entry is not None:
        yield _Interpretation(spelling, entry, meaning, None if entry.is_built_in else catalogue_entry(key))


def _meaning_of(spelling: MetricName, feature_type: str) -> MetricName | None:
    """Return the meaning of an alias; for a class of torchmetrics, with the defaults of its parameters."""
    if (alias := alias_meaning(spelling.metric, feature_type)) is not None:
        return MetricName.parse(alias)
    if (alias := class_meaning(spelling.metric, feature_type)) is None:
        return None
    meaning, names = MetricName.parse(alias), _parameters_of(spelling)
    return replace(meaning, params=tuple(param for param in meaning.params if param[0] not in names))


def _takes(entry: MetricEntry, name: MetricName) -> bool:
    """Return whether the metric takes the parameters of a name."""
    try:
        canonical(name, entry)
    except MetricNameError:
        return False
    return True


def _parameters_of(name: MetricName) -> set[str]:
    """Return the keys of the parameters of a name, its k among them."""
    return {key for key, _ in name.params} | ({"k"} if name.k is not None else set())


def _spellings(requested: MetricName) -> Iterator[MetricName]:
    """Yield the spellings of a name: as it is, with packages loaded, without dashes, ParlAI's classes."""
    yield requested
    load_plugins()
    yield requested
    plain = replace(requested, metric=requested.metric.replace("-", "_"))
    yield plain
    of_a_class = _OF_A_CLASS.match(plain.metric)
    if of_a_class:
        metric = _SHORT.get(of_a_class["metric"], of_a_class["metric"])
        yield _apply_meaning(plain, MetricName(metric, (("class", int(of_a_class["index"])),)))


def _apply_meaning(requested: MetricName, meaning: MetricName) -> MetricName:
    """Replace an alias by its meaning, which the parameters beside it must not contradict."""
    params = dict(meaning.params)
    for key, value in requested.params:
        if params.setdefault(key, value) != value:
            raise MetricNameError(f"{requested}: {requested.metric} means {meaning}, which fixes {key}")
    k = meaning.k if requested.k is None else requested.k
    return replace(requested, metric=meaning.metric, params=tuple(params.items()), k=k)


def _check_required(entry: MetricEntry, values: dict[str, Scalar]) -> None:
    """Raise if a required parameter is missing, or if there are several that exclude each other."""
    for param in entry.params:
        if param.required and param.name not in values:
            raise MetricNameError(_format_missing(entry, (param,)))
    chosen = [key for key in entry.one_of if values.get(key) is not None]
    if len(chosen) > 1:
        raise MetricNameError(f"{entry} needs one of {', '.join(entry.one_of)}, got {' and '.join(chosen)}")
    if entry.one_of and not chosen:
        raise MetricNameError(_format_missing(entry, [p for p in entry.params if p.name in entry.one_of]))


def _format_missing(entry: MetricEntry, params: Iterable[Param]) -> str:
    names = [param.name for param in params]
    if names == ["k"]:
        return f"{entry} needs its k, as in {entry.name}@5"
    aliases = [
        alias
        for alias, meaning in (entry.aliases or {}).items()
        if any(key in names for key, _ in MetricName.parse(meaning).params)
    ]
    spelled = [
        f"{entry.name}({param.name}={choice})"
        for param in params
        for choice in param.choices or (param.example,)
    ]
    return (
        f"{entry} needs {' or '.join(f'{name}=' for name in names)}, because there is no common default; "
        f"choose one of {', '.join([*aliases, *spelled])}"
    )


def _format_unknown(requested: MetricName, feature_type: str | None) -> str:
    where = f" for a {feature_type} output" if feature_type else ""
    elsewhere = [reading.first.feature_type for reading in _interpretations(requested, None)]
    names = metric_names(feature_type)
    all_names = [*names, *alias_names(feature_type), *group_names(feature_type)]
    own_hint = hint_name(meaning_for_output(requested.metric, feature_type))
    if elsewhere:
        hint = own_hint or suggestion(requested.metric, all_names, likeness=False)
        place = f"it is a metric of {', '.join(sorted(elsewhere))}"
        return f"{requested.metric!r} does not exist{where}; {place}{hint and f'.{hint}'}"
    if group_named(requested, feature_type):
        return f"{requested.metric!r} is a group of metrics, not a metric; use it only in a list of metrics"
    if group_named(requested):
        having = ", ".join(kind for kind in FEATURES if group_named(requested, kind))
        return f"{requested.metric!r} is not a group{where}; the groups are {having}"
    own_hint = own_hint or _suggest_split(requested, feature_type)
    own_hint = own_hint or meaning_on_other_outputs(requested.metric, feature_type)
    hint = own_hint or _suggest_by_case(requested, feature_type) or suggestion(requested.metric, all_names)
    hint = _with_cut_off(hint, requested, feature_type) or value_of_a_task(requested.metric)
    listing = f"hpometrics metrics list{f' --feature {feature_type}' if feature_type else ''}"
    return f"no metric {requested.metric!r}{where}.{hint} `{listing}` lists all {len(names)}"


def _with_cut_off(hint: str, requested: MetricName, feature_type: str | None) -> str:
    """Return a hint whose name has the cut-off that was requested, if the metric takes one."""
    match = re.fullmatch(r" Did you mean '([^'@]+)'\?", hint)
    if match is None or requested.k is None:
        return hint
    name = replace(MetricName.parse(match[1]), k=requested.k)
    return hint_name(str(name)) if _interpretations(name, feature_type) else hint


def _suggest_split(requested: MetricName, feature_type: str | None) -> str:
    """Suggest `test:accuracy` for `test_accuracy`; empty for another name."""
    split, metric = split_of_log(requested.metric) or ("", "")
    if not split or not _interpretations(replace(requested, metric=metric), feature_type):
        return ""
    named = hint_name(str(replace(requested, metric=metric, split=split)))
    return f"{named} It can be tracked; {split} data cannot steer a search."


def _suggest_by_case(requested: MetricName, feature_type: str | None) -> str:
    """Suggest the names that differ in case only; empty if there are not two of them."""
    readings = _in_another_case(requested, [feature_type] if feature_type else FEATURES)
    meanings = {reading.means: reading.spelling.metric for reading in readings}
    choices = [
        repr(name) if name == means else f"{name!r}, which is {means}" for means, name in meanings.items()
    ]
    return f" Did you mean {' or '.join(sorted(choices, key=len))}?" if len(choices) > 1 else ""
