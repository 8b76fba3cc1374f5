"""The registry: what is known of every metric, by name and output feature, without loading torch.

Built-in metrics are read from `index.json`, which is generated from the classes themselves; a class is
imported when it is first needed. Other packages register through the entry-point group
`hpometrics.metrics`.
"""

from __future__ import annotations

import importlib
import json
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..exceptions import (
    MetricNameError,
    ObjectiveError,
    RegistrationError,
    UnknownMetricError,
)
from ..objective import Objective
from .facts import UNSTATED, Facts, Param, facts_of
from .features import InputType, OutputFeature, check_feature_type, parse_feature
from .names import MetricName, Scalar, parse_import_path

if TYPE_CHECKING:
    from .metric import Metric

ENTRY_POINT_GROUP = "hpometrics.metrics"
INDEX = Path(__file__).with_name("index.json")

M = TypeVar("M", bound=type)
Key = tuple[str, str]


@dataclass(frozen=True)
class MetricEntry:
    """All facts about one metric of one output feature; whatever is printed of a metric comes from here."""

    name: str
    feature_type: str
    objective: Objective | None
    inputs: InputType
    path: str
    params: tuple[Param, ...] = ()
    aliases: Mapping[str, str] | None = None
    summary: str = ""
    value: str = ""
    source: str = ""

    def __str__(self) -> str:
        return f"{self.name} of {self.feature_type}"

    def load(self) -> type[Metric]:
        """Import the metric's class."""
        if self.path in _live_classes:
            return _live_classes[self.path]
        module, _, attribute = self.path.partition(":")
        found: Any = importlib.import_module(module)
        for part in attribute.split("."):
            found = getattr(found, part)
        return found  # type: ignore[no-any-return]  # the registry holds metric classes only


@dataclass(frozen=True)
class FoundMetric:
    """A name that the registry knows: canonical, with the entry of each output feature it may mean."""

    name: MetricName
    entries: tuple[MetricEntry, ...]

    @property
    def objective(self) -> Objective | None:
        """The direction that all its entries share.

        Raises:
            ObjectiveError: it depends on the output feature, which was not given.
        """
        objectives = {entry.objective for entry in self.entries}
        if len(objectives) > 1:
            said = ", ".join(f"{e.objective or 'none'} for {e.feature_type}" for e in self.entries)
            raise ObjectiveError(
                f"the direction of {self.name} depends on the output feature ({said}); name it"
            )
        return objectives.pop()

    @property
    def inputs(self) -> InputType:
        """The model output that the metric reads (of the first feature, when several are meant)."""
        return self.entries[0].inputs


_live: dict[Key, MetricEntry] = {}
_live_aliases: dict[Key, str] = {}
_live_classes: dict[str, type[Metric]] = {}


def register_metric(
    name: str,
    feature_types: Iterable[str],
    objective: Objective | str | None = UNSTATED,
    inputs: InputType | str = UNSTATED,
    *,
    aliases: Mapping[str, str] | Iterable[str] = (),
    override: bool = False,
) -> Callable[[M], M]:
    """Register a metric class under a name, for the output features it serves.

    Objective and inputs may be stated here, as class attributes (`objective = MAXIMIZE`), or by the
    classmethods `get_objective` and `get_inputs`; whatever is stated twice must agree. A metric that has no
    direction says so with `objective = None`.

    Args:
        name: canonical name, `[a-z][a-z0-9_]*`.
        feature_types: type constants such as `[SEQUENCE, TEXT]`.
        objective: `MINIMIZE`, `MAXIMIZE` or None (measured, never optimised).
        inputs: `PREDICTIONS`, `PROBABILITIES` or `LOGITS`.
        aliases: other names: a list, or a mapping to what each means (`{"f1_macro": "f1(average=macro)"}`).
        override: replace an entry that another class holds.

    Raises:
        RegistrationError: a fact is missing or contradicted, the name is malformed or taken.
    """
    types = [feature_types] if isinstance(feature_types, str) else list(feature_types)
    listed = [aliases] if isinstance(aliases, str) else aliases
    meanings = dict(listed) if isinstance(listed, Mapping) else dict.fromkeys(listed, name)

    def register(cls: M) -> M:
        facts = facts_of(cls, name, objective, inputs)
        if not types:
            raise RegistrationError(
                f"{name}: name at least one output feature, as in register_metric({name!r}, [BINARY])"
            )
        entries = [
            _entry(cls, name, check_feature_type(feature_type), facts, meanings) for feature_type in types
        ]
        for entry in entries:
            _check_free(entry, override)
        for entry in entries:
            _add(entry)
        _live_classes[_path(cls)] = cls
        return cls

    return register


def find_metric(name: str | MetricName, feature_type: str | None = None) -> FoundMetric:
    """Look a name up: resolve aliases, check its parameters, drop those at their default.

    Raises:
        MetricNameError: the grammar, or a parameter that is unknown, missing or out of its choices.
        UnknownMetricError: no such metric for the feature; the message suggests near names.
    """
    asked = MetricName.parse(name)
    if feature_type is not None:
        check_feature_type(feature_type)
    resolved = _resolve(asked, feature_type)
    entries = _entries_of(resolved.metric, feature_type)
    if not entries:
        raise UnknownMetricError(_unknown(asked, feature_type))
    fitting, errors = [], []
    for entry in entries:
        try:
            fitting.append((_canonical(resolved, entry), entry))
        except MetricNameError as err:
            errors.append(err)
    if not fitting:
        raise errors[0]
    canonical = fitting[0][0]
    return FoundMetric(canonical, tuple(entry for own, entry in fitting if own == canonical))


def get_metric(name: str | MetricName, output: OutputFeature | str | None = None) -> Metric:
    """Build the metric of this name, ready for `update`.

    Args:
        name: `f1(average=macro)`, `hits@5`, an alias, or `package.module:Class`.
        output: the output feature it is to serve, as an object or text (`category(num_classes=10)`).

    Raises:
        MetricNameError, UnknownMetricError: see `find_metric`.
        MetricNameError: the name means different metrics for different features and `output` is missing.
    """
    feature = None if output is None else parse_feature(output)
    if isinstance(name, str) and parse_import_path(name):
        found = import_metric(name)
    else:
        found = find_metric(_bare(name), None if feature is None else feature.type)
    possible = found.entries if feature is not None else _entries_of(found.name.metric, None)
    if len({entry.path for entry in possible}) > 1:
        choices = ", ".join(entry.feature_type for entry in possible)
        raise MetricNameError(
            f"{found.name} is another metric for each output feature; give output= one of {choices}"
        )
    entry = _entry_for(found, feature)
    metric = entry.load()(**_arguments(found.name))
    metric.name = str(found.name.bare)
    metric.output = feature if feature is not None else parse_feature(entry.feature_type)
    return metric


def import_metric(path: str) -> FoundMetric:
    """Import `package.module:Class`, a class that `register_metric` has registered.

    Raises:
        MetricNameError: there is no such class, it is not registered, or it needs parameters.
    """
    module, attribute = parse_import_path(path) or ("", "")
    try:
        cls = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as err:
        raise MetricNameError(f"{path!r} cannot be imported as package.module:Class: {err}") from err
    entries = tuple(e for e in _live.values() if isinstance(cls, type) and e.path == _path(cls))
    if not entries:
        raise MetricNameError(
            f"{path!r} is not registered; decorate the class with @register_metric(name, [FEATURES])"
        )
    return FoundMetric(_canonical(MetricName(entries[0].name), entries[0]), entries)


def all_entries(feature_type: str | None = None) -> tuple[MetricEntry, ...]:
    """Every entry, sorted by name and feature; of one feature when asked."""
    _load_plugins()
    entries = {**_index(), **_live}
    chosen = [e for e in entries.values() if feature_type in (None, e.feature_type)]
    return tuple(sorted(chosen, key=lambda e: (e.name, e.feature_type)))


def metric_names(feature_type: str | None = None) -> list[str]:
    """The canonical names, sorted; of one feature when asked."""
    return sorted({entry.name for entry in all_entries(feature_type)})


def alias_names(feature_type: str | None = None) -> list[str]:
    """The aliases, sorted; of one feature when asked."""
    return sorted({alias for entry in all_entries(feature_type) for alias in entry.aliases or ()})


def printed_name(cls: type, values: Mapping[str, Any]) -> str | None:
    """The canonical name of an object of a registered class, by its parameters' values; else None."""
    entry = next((entry for entry in _live.values() if entry.path == _path(cls)), None)
    if entry is None:
        return None
    given = {p.name: values[p.name] for p in entry.params if p.name in values}
    name = MetricName(entry.name, tuple(given.items()))
    return str(_canonical(name, entry) if not any(p.kind == "any" for p in entry.params) else entry.name)


def registered_types(cls: type) -> tuple[str, ...]:
    """The output features that a class is registered for, in the order of registration."""
    return tuple(entry.feature_type for entry in _live.values() if entry.path == _path(cls))


def build_index() -> str:
    """Give the text of `index.json`: every built-in entry, from its class."""
    importlib.import_module("hpometrics.metrics.catalogue")
    own = [e for e in _live.values() if e.path.startswith("hpometrics.")]
    rows = [asdict(entry) for entry in sorted(own, key=lambda e: (e.name, e.feature_type))]
    return json.dumps(rows, indent=1, sort_keys=True) + "\n"


def _path(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _entry(cls: type, name: str, feature_type: str, facts: Facts, aliases: Mapping[str, str]) -> MetricEntry:
    return MetricEntry(
        name=name,
        feature_type=feature_type,
        objective=facts.objective,
        inputs=facts.inputs,
        path=_path(cls),
        params=facts.params,
        aliases=dict(aliases) or None,
        summary=facts.summary,
        value=facts.value,
        source=facts.source,
    )


def _add(entry: MetricEntry) -> None:
    _live[entry.name, entry.feature_type] = entry
    for alias, meaning in (entry.aliases or {}).items():
        _live_aliases[alias, entry.feature_type] = meaning


def _check_free(entry: MetricEntry, override: bool) -> None:
    """Refuse a name or alias that means something else already, and an alias that could not be read."""
    key = (entry.name, entry.feature_type)
    holder = _live.get(key) or (None if _is_built_in(entry) else _index().get(key))
    if holder is not None and holder.path != entry.path and not override:
        raise RegistrationError(
            f"{entry} is taken by {holder.path}; {entry.path} needs another name, "
            "or override=True to replace it"
        )
    meaning = _live_aliases.get(key) if _is_built_in(entry) else _alias_meaning(*key)
    if meaning is not None and not override:
        raise RegistrationError(f"{entry} is taken: it is an alias of {meaning}; choose another name")
    for alias, meaning in (entry.aliases or {}).items():
        _check_alias(alias, meaning, entry, override)


def _check_alias(alias: str, meaning: str, entry: MetricEntry, override: bool) -> None:
    key = (alias, entry.feature_type)
    if (
        str(MetricName(alias)) != str(MetricName.parse(alias))
        or MetricName.parse(meaning).metric != entry.name
    ):
        raise RegistrationError(
            f"{entry}: an alias is a bare name that means the metric itself, got {alias!r}: {meaning!r}"
        )
    indexed = {} if _is_built_in(entry) else _index()
    held = _live_aliases.get(key) or (_index_aliases().get(key) if indexed else None)
    if (held not in (None, meaning) or key in _live or key in indexed) and not override:
        raise RegistrationError(f"{entry}: its alias {alias!r} already means {held or alias}")


def _is_built_in(entry: MetricEntry) -> bool:
    """Whether the index is written from this entry, which may then differ from a stale one."""
    return entry.path.startswith("hpometrics.")


@cache
def _index() -> dict[Key, MetricEntry]:
    if not INDEX.exists():
        return {}
    rows = json.loads(INDEX.read_text(encoding="utf8"))
    return {(row["name"], row["feature_type"]): _read_entry(row) for row in rows}


def _read_entry(row: dict[str, Any]) -> MetricEntry:
    return MetricEntry(**{
        **row,
        "objective": row["objective"] and Objective(row["objective"]),
        "inputs": InputType(row["inputs"]),
        "params": tuple(Param(**{**param, "choices": tuple(param["choices"])}) for param in row["params"]),
    })  # fmt: skip


@cache
def _index_aliases() -> dict[Key, str]:
    return {
        (alias, entry.feature_type): meaning
        for entry in _index().values()
        for alias, meaning in (entry.aliases or {}).items()
    }


@cache
def _load_plugins() -> None:
    for plugin in entry_points(group=ENTRY_POINT_GROUP):
        try:
            plugin.load()
        except Exception as err:  # one broken package must not take the registry with it
            warnings.warn(
                f"the metrics of {plugin.value!r} are left out: {err}", RuntimeWarning, stacklevel=3
            )


def _entries_of(metric: str, feature_type: str | None) -> list[MetricEntry]:
    known = {**_index(), **_live}
    types = [feature_type] if feature_type else sorted(kind for name, kind in known if name == metric)
    return [known[metric, kind] for kind in types if (metric, kind) in known]


def _resolve(asked: MetricName, feature_type: str | None) -> MetricName:
    """Replace an alias by what it means; what the user wrote beside it must not contradict that."""
    if _entries_of(asked.metric, feature_type):
        return asked
    meaning = _alias_meaning(asked.metric, feature_type)
    if meaning is None:
        _load_plugins()
        meaning = _alias_meaning(asked.metric, feature_type)
    if meaning is None:
        return asked
    alias = MetricName.parse(meaning)
    params = dict(alias.params)
    for key, value in asked.params:
        if params.setdefault(key, value) != value:
            raise MetricNameError(f"{asked}: {asked.metric} means {meaning}, which fixes {key}")
    return replace(
        asked, metric=alias.metric, params=tuple(params.items()), k=alias.k if asked.k is None else asked.k
    )


def _alias_meaning(alias: str, feature_type: str | None) -> str | None:
    known = {**_index_aliases(), **_live_aliases}
    if feature_type is not None:
        return known.get((alias, feature_type))
    return next((meaning for (name, _), meaning in known.items() if name == alias), None)


def _canonical(name: MetricName, entry: MetricEntry) -> MetricName:
    given = dict(name.params)
    if name.k is not None and given.setdefault("k", name.k) != name.k:
        raise MetricNameError(f"{name}: k is {given['k']} and {name.k}; write {entry.name}@{name.k}")
    known = {param.name: param for param in entry.params}
    for key in given:
        if key not in known:
            raise MetricNameError(f"{entry} takes no {key!r}; it takes {', '.join(known) or 'no parameters'}")
    values: dict[str, Scalar] = {}
    for param in entry.params:
        if param.name in given:
            values[param.name] = param.check(given[param.name], str(entry))
        elif param.required:
            raise MetricNameError(_missing(entry, param))
    kept = {key: value for key, value in values.items() if value != known[key].default or known[key].required}
    k = kept.pop("k", None)
    return replace(name, params=tuple(kept.items()), k=None if k is None else int(k))


def _missing(entry: MetricEntry, param: Param) -> str:
    if param.name == "k":
        return f"{entry} needs its k, as in {entry.name}@5"
    aliases = [alias for alias, meaning in (entry.aliases or {}).items() if f"{param.name}=" in meaning]
    choices = [*aliases, *(f"{entry.name}({param.name}={choice})" for choice in param.choices)]
    return (
        f"{entry} needs {param.name}=, since the field disagrees on a default; "
        f"choose one of {', '.join(choices)}"
    )


def suggestion(word: str, known: Iterable[str]) -> str:
    """Give ` Did you mean ...?` for the nearest known name, case and hyphens aside; empty if none is near."""
    folded = {name.lower().replace("-", "_"): name for name in known}
    close = get_close_matches(word.lower().replace("-", "_"), folded, 1)
    return f" Did you mean {folded[close[0]]!r}?" if close else ""


def _unknown(asked: MetricName, feature_type: str | None) -> str:
    where = f" for a {feature_type} output" if feature_type else ""
    elsewhere = [entry.feature_type for entry in _entries_of(_resolve(asked, None).metric, None)]
    if elsewhere:
        return f"{asked.metric!r} does not exist{where}; it is a metric of {', '.join(sorted(elsewhere))}"
    names = metric_names(feature_type)
    hint = suggestion(asked.metric, [*names, *alias_names(feature_type)])
    listing = f"hpometrics metrics list{f' --feature {feature_type}' if feature_type else ''}"
    return f"no metric {asked.metric!r}{where}.{hint} `{listing}` lists all {len(names)}"


def _entry_for(found: FoundMetric, feature: OutputFeature | None) -> MetricEntry:
    for entry in found.entries:
        if feature is None or entry.feature_type == feature.type:
            return entry
    raise UnknownMetricError(
        f"{found.name} is a metric of {found.entries[0].feature_type}, the output is {feature}"
    )


def _bare(name: str | MetricName) -> MetricName:
    parsed = MetricName.parse(name)
    if parsed != parsed.bare:
        raise MetricNameError(
            f"{name}: one metric measures one output on one split; leave split, task and feature to the run"
        )
    return parsed


def _arguments(name: MetricName) -> dict[str, Any]:
    return {**dict(name.params), **({} if name.k is None else {"k": name.k})}
