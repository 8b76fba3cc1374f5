"""Lookup: from a name as it is written to the metric it means, its parameters checked."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial

from ...direction import Objective
from ...exceptions import MetricNameError, ObjectiveError, UnknownMetricError
from ..features import BINARY, FEATURES, PREDICTIONS, RANKING, SET, InputType, check_feature_type
from .aliases import also_called, called_here
from .entry import MetricEntry
from .groups import group_named, group_names
from .index import (
    alias_meaning,
    alias_names,
    all_entries,
    catalogue_entry,
    entry_at,
    load_plugins,
    metric_names,
    names_in_any_case,
)
from .names import MetricName, Scalar
from .params import Param
from .torchmetrics_names import class_argument, class_meaning

_OF_A_CLASS = re.compile(r"class_(?P<index>\d+)_(?P<metric>[a-z]\w*)\Z")
_SHORT = {"prec": "precision"}
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_TASKS = re.compile(r"(?:binary|multiclass|multilabel)_")
_ENDS = re.compile(r"_(?:score|display|matrix)\Z")
_SPLIT_OF_A_LOG = re.compile(r"(?:(?:val|valid|validation|eval|dev|test|train|mean|avg|best)[_/])+")
_SHORTEST_IN_ANY_CASE = 3  # `p` and `r` are names of much else than precision and recall
_FEW = 5  # metrics that are named as those that take a parameter, at most
_SHORTEST, _NEAR, _NEAR_OF_SHORT = 6, 0.75, 0.6  # how alike a word is that may have been meant


@dataclass(frozen=True)
class FoundMetric:
    """A name that the registry knows, with what it means for each output feature that it may be about.

    Args:
        name: canonical; as it was asked for where its canonical name is another for each feature (`auc` is
            `roc_auc` of a category).
        meanings: the canonical name and the entry of each output feature.
    """

    name: MetricName
    meanings: tuple[tuple[MetricName, MetricEntry], ...]

    @property
    def entries(self) -> tuple[MetricEntry, ...]:
        """The entry of each output feature."""
        return tuple(entry for _, entry in self.meanings)

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

    @property
    def reads(self) -> str:
        """The model outputs that it reads, of all features that may be meant."""
        return " or ".join(dict.fromkeys(entry.inputs.value for entry in self.entries))

    def among(self, feature_types: Iterable[str]) -> FoundMetric:
        """What the name means for some output features, which may be nothing."""
        kept = [meaning for meaning in self.meanings if meaning[1].feature_type in feature_types]
        return _found(kept, self.name)


@dataclass(frozen=True)
class _Reading:
    """What a spelling is for one output feature: the name of an entry, or an alias with a meaning.

    `replaced` is the built-in entry whose name a user's own has taken: it still answers to what the own
    one cannot be, as `f1(average=macro)` and `f1_macro` where the own `f1` takes no average.
    """

    spelling: MetricName
    first: MetricEntry
    meaning: MetricName | None
    replaced: MetricEntry | None = None

    @property
    def resolved(self) -> MetricName:
        """The spelling, an alias replaced by what it means."""
        return self.spelling if self.meaning is None else _meant(self.spelling, self.meaning)

    @property
    def entry(self) -> MetricEntry:
        """The entry that can be what is written."""
        if self.replaced is None or _takes(self.first, self.resolved):
            return self.first
        return self.replaced if _takes(self.replaced, self.resolved) else self.first

    @property
    def means(self) -> str:
        """What it means, parameters that are given aside."""
        return self.first.name if self.meaning is None else str(self.meaning)

    @property
    def unknown(self) -> int:
        """How many of the parameters that are given it does not have."""
        return len(_given(self.spelling) - {param.name for param in self.first.params})


def find_metric(name: str | MetricName, feature_type: str | None = None) -> FoundMetric:
    """Look a name up: resolve aliases, check its parameters, drop those at their default.

    `bleu-4` reads as `bleu_4`, and ParlAI's `class_3_f1` as `f1(class=3)`. A name of a ranking may be in any
    case that leaves its meaning clear: `shannonentropy` does, `NDCG` may be `ndcg` or WarpRec's `nDCG`.

    Where no feature is given, a name stands for all that it can be: what a feature needs besides (its k) is
    asked for if none can do without.

    Raises:
        MetricNameError: the grammar, or a parameter that is unknown, missing or out of its choices.
        UnknownMetricError: no such metric for the feature; the message suggests near names.
    """
    asked = MetricName.parse(name)
    if feature_type is not None:
        check_feature_type(feature_type)
    readings = _readings(asked, feature_type)
    if not readings:
        raise UnknownMetricError(partial(_unknown, asked, feature_type))
    fitting, refused = [], []
    for reading in readings:
        try:
            fitting.append((canonical(reading.resolved, reading.entry), reading.entry))
        except MetricNameError as err:
            refused.append((reading.unknown, err))
    if not fitting:
        raise min(refused, key=lambda one: one[0])[1]
    return _found(fitting, readings[0].spelling)


def possible_meanings(
    name: str | MetricName, feature_type: str | None = None
) -> tuple[tuple[MetricName, MetricEntry], ...]:
    """Return all that a name may mean, whether or not it says all that each of them needs.

    Raises:
        MetricNameError: the grammar, or a parameter that contradicts what an alias means.
    """
    readings = _readings(MetricName.parse(name), feature_type)
    return tuple((reading.resolved, reading.entry) for reading in readings)


def is_registered(name: str | MetricName) -> bool:
    """Return whether any output feature has the metric, so that it cannot be a name of the engine's own."""
    try:
        find_metric(MetricName.parse(name).bare)
    except UnknownMetricError:
        return False
    except MetricNameError:  # it is there, with other parameters
        return True
    return True


def canonical(name: MetricName, entry: MetricEntry) -> MetricName:
    """Return the one spelling of a name: parameters typed and checked, those at their default left out.

    What the field disagrees on is never left out: `rouge_1`, which is ParlAI's name, is `rouge_1(measure=r)`.

    Raises:
        MetricNameError: a parameter that is unknown, missing or out of its choices.
    """
    given = _usual(entry) | dict(name.params)
    if name.k is not None and given.setdefault("k", name.k) != name.k:
        raise MetricNameError(f"{name}: k is {given['k']} and {name.k}; write {entry.name}@{name.k}")
    known = {param.name: param for param in entry.params}
    for key in given:
        if key not in known:
            hint = _of_the_output(key, entry) or suggestion(key, known) or _of_another(name, key, entry)
            takes = ", ".join(known) or "no parameters"
            raise MetricNameError(f"{entry} takes no {key!r}; it takes {takes}.{hint}".removesuffix("."))
    values = {key: known[key].check(value, str(entry)) for key, value in given.items()}
    _check_given(entry, values)
    kept = {key: value for key, value in values.items() if value != known[key].default or known[key].required}
    k = kept.pop("k", None)
    return replace(name, params=tuple(kept.items()), k=None if k is None else int(k))


def _usual(entry: MetricEntry) -> dict[str, Scalar]:
    """Return the parameters that the name of a metric means where they are left out, as one of its aliases says."""
    meaning = (entry.aliases or {}).get(entry.name)
    return {} if meaning is None else dict(MetricName.parse(meaning).params)


def _of_the_output(key: str, entry: MetricEntry) -> str:
    """Return where a threshold is told, which is a fact of the output; empty for another parameter."""
    decides = entry.feature_type in (BINARY, SET) and entry.inputs is PREDICTIONS
    told = f"{entry.feature_type}(threshold=0.3)"
    return f" The threshold is that of the output, as in {told}" if key == "threshold" and decides else ""


def _of_another(name: MetricName, key: str, entry: MetricEntry) -> str:
    """Name the metrics of the same output that take the parameter, where they are few."""
    called = also_called(str(name.bare)) if key == "k" else None
    if called and entry_at((called.partition("@")[0], entry.feature_type)):
        return f" Did you mean {called!r}?"
    takes = [
        other.name
        for other in all_entries(entry.feature_type)
        if key in (param.name for param in other.params)
    ]
    if not takes or len(takes) > _FEW:
        return ""
    *some, last = (f"{name}({key}=...)" for name in sorted(takes))
    return f" It is a parameter of {', '.join(some)}{' and ' if some else ''}{last}"


def suggestion(word: str, known: Iterable[str], likeness: bool = True) -> str:
    """Return ` Did you mean ...?` for the nearest known name, case and hyphens aside; empty if none is near.

    Of names that differ in case or hyphens alone, the lowercase one without hyphens is suggested. A prefix of
    logs, as in `val_accuracy` or `mean_accuracy`, is ignored where no name has it.

    Args:
        word: as it was written.
        known: the names that there are.
        likeness: whether a name that only looks like the word may be meant.
    """
    ordered = sorted(known, key=lambda name: (name.islower(), "-" not in name))
    folded = {name.lower().replace("-", "_"): name for name in ordered}
    plain = _TASKS.sub("", _HUMP.sub("_", word).lower().replace("-", "_"))
    bare = _SPLIT_OF_A_LOG.sub("", plain) if plain not in folded else plain
    called = next((told for one in (plain, word, bare) if (told := also_called(one)) is not None), None)
    if called == "" or (called and re.split("[(@]", called)[0] in folded):
        return called and f" Did you mean {called!r}?"
    readings = dict.fromkeys((word.lower(), plain, _ENDS.sub("", plain), bare, _ENDS.sub("", bare)))
    near = _NEAR if len(plain) >= _SHORTEST else _NEAR_OF_SHORT
    exact = [one for one in readings if one in folded]
    like = (name for one in readings for name in get_close_matches(one, folded, 1, near))
    close = exact[0] if exact else next(like, None) if likeness else None
    return f" Did you mean {folded[close]!r}?" if close else ""


def _found(meanings: Sequence[tuple[MetricName, MetricEntry]], asked: MetricName) -> FoundMetric:
    names = {name for name, _ in meanings}
    return FoundMetric(names.pop() if len(names) == 1 else asked, tuple(meanings))


def _readings(asked: MetricName, feature_type: str | None) -> list[_Reading]:
    """Return what a name is for each output feature, in the first of its spellings that any of them has."""
    types = [feature_type] if feature_type else sorted(FEATURES)
    for spelling in _spellings(asked):
        found = [reading for kind in types for reading in _read(spelling, kind)]
        if found:
            return found
    folded = _in_another_case(asked, types)
    return folded[:1] if len({reading.means for reading in folded}) == 1 else []


def _in_another_case(asked: MetricName, types: Iterable[str]) -> list[_Reading]:
    """Return what a name of a ranking is when case is left aside; nothing where it may be of another feature.

    Elsewhere a capital makes another name: `Accuracy` of torchmetrics is not `accuracy`.
    """
    if len(asked.metric) < _SHORTEST_IN_ANY_CASE:
        return []
    spellings = [replace(asked, metric=name) for name in names_in_any_case(asked.metric)]
    found = [reading for spelling in spellings for kind in types for reading in _read(spelling, kind)]
    return found if all(reading.first.feature_type == RANKING for reading in found) else []


def _read(spelling: MetricName, feature_type: str) -> Iterator[_Reading]:
    """Read a spelling as the name of an entry, else as an alias or a class of torchmetrics."""
    meaning = None
    spelling = class_argument(spelling, feature_type)
    key = (spelling.metric, feature_type)
    if (entry := entry_at(key)) is None and (meaning := _meaning_of(spelling, feature_type)) is not None:
        key = (meaning.metric, feature_type)
        entry = entry_at(key)
    if entry is not None:
        yield _Reading(spelling, entry, meaning, None if entry.is_built_in else catalogue_entry(key))


def _meaning_of(spelling: MetricName, feature_type: str) -> MetricName | None:
    """Return the meaning of an alias; for a class, with the defaults of its parameters that are left out."""
    if (alias := alias_meaning(spelling.metric, feature_type)) is not None:
        return MetricName.parse(alias)
    if (alias := class_meaning(spelling.metric, feature_type)) is None:
        return None
    meaning, given = MetricName.parse(alias), _given(spelling)
    return replace(meaning, params=tuple(param for param in meaning.params if param[0] not in given))


def _takes(entry: MetricEntry, name: MetricName) -> bool:
    """Return whether a name is one of the metric, as far as its parameters say."""
    try:
        canonical(name, entry)
    except MetricNameError:
        return False
    return True


def _given(name: MetricName) -> set[str]:
    """Return the parameters that a name gives, its k among them."""
    return {key for key, _ in name.params} | ({"k"} if name.k is not None else set())


def _spellings(asked: MetricName) -> Iterator[MetricName]:
    """Yield the readings of a name: as it is, with packages loaded, without dashes, ParlAI's classes."""
    yield asked
    load_plugins()
    yield asked
    plain = replace(asked, metric=asked.metric.replace("-", "_"))
    yield plain
    of_a_class = _OF_A_CLASS.match(plain.metric)
    if of_a_class:
        metric = _SHORT.get(of_a_class["metric"], of_a_class["metric"])
        yield _meant(plain, MetricName(metric, (("class", int(of_a_class["index"])),)))


def _meant(asked: MetricName, meaning: MetricName) -> MetricName:
    """Replace an alias by what it means; what the user wrote beside it must not contradict that."""
    params = dict(meaning.params)
    for key, value in asked.params:
        if params.setdefault(key, value) != value:
            raise MetricNameError(f"{asked}: {asked.metric} means {meaning}, which fixes {key}")
    k = meaning.k if asked.k is None else asked.k
    return replace(asked, metric=meaning.metric, params=tuple(params.items()), k=k)


def _check_given(entry: MetricEntry, values: dict[str, Scalar]) -> None:
    """Refuse a parameter that is missing, and any but one of those that exclude each other."""
    for param in entry.params:
        if param.required and param.name not in values:
            raise MetricNameError(_missing(entry, (param,)))
    given = [key for key in entry.one_of if values.get(key) is not None]
    if len(given) > 1:
        raise MetricNameError(f"{entry} takes one of {', '.join(entry.one_of)}, got {' and '.join(given)}")
    if entry.one_of and not given:
        raise MetricNameError(_missing(entry, [p for p in entry.params if p.name in entry.one_of]))


def _missing(entry: MetricEntry, params: Iterable[Param]) -> str:
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
        f"{entry} needs {' or '.join(f'{name}=' for name in names)}, since the field disagrees on a default; "
        f"choose one of {', '.join([*aliases, *spelled])}"
    )


def _unknown(asked: MetricName, feature_type: str | None) -> str:
    where = f" for a {feature_type} output" if feature_type else ""
    elsewhere = [reading.first.feature_type for reading in _readings(asked, None)]
    names = metric_names(feature_type)
    known = [*names, *alias_names(feature_type), *group_names(feature_type)]
    called = called_here(asked.metric, feature_type)
    here = f" Did you mean {called!r}?" if called else ""
    if elsewhere:
        hint = here or suggestion(asked.metric, known, likeness=False)
        there = f"it is a metric of {', '.join(sorted(elsewhere))}"
        return f"{asked.metric!r} does not exist{where}; {there}{hint and f'.{hint}'}"
    if group_named(asked, feature_type):
        return f"{asked.metric!r} is a group of metrics, not a metric; it may stand in a list of them"
    if group_named(asked):
        having = ", ".join(kind for kind in FEATURES if group_named(asked, kind))
        return f"{asked.metric!r} is no group{where}; it is one of {having}"
    hint = here or _told_apart(asked, feature_type) or suggestion(asked.metric, known)
    listing = f"hpometrics metrics list{f' --feature {feature_type}' if feature_type else ''}"
    return f"no metric {asked.metric!r}{where}.{hint} `{listing}` lists all {len(names)}"


def _told_apart(asked: MetricName, feature_type: str | None) -> str:
    """Ask which of the names was meant that case alone tells apart; empty where there are no two."""
    readings = _in_another_case(asked, [feature_type] if feature_type else FEATURES)
    meanings = {reading.means: reading.spelling.metric for reading in readings}
    told = [
        repr(name) if name == means else f"{name!r}, which is {means}" for means, name in meanings.items()
    ]
    return f" Did you mean {' or '.join(sorted(told, key=len))}?" if len(told) > 1 else ""
