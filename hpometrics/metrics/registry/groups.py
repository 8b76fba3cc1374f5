"""Groups of metrics, whose one name may stand in any list of metrics.

`default` is a short choice for each output feature, `words` is the one for texts given as strings. `all` is
every metric of the feature that has a direction, can be built as it is (without parameters, further inputs
or packages) and could measure an ordinary batch: msle, which reads no negative numbers, has to be named. For
a text, `all` reads token ids and strings side by side. A family, such as `rouge`, `calibration` or
`regression`, is declared by its metrics (`family`) or is the module that defines them; a metric that requires
a choice (`average=`) is in it with each choice that gives one number.

If a metric of the output feature has the name of a family, the name means the metric; the family is then
written `bleu_family`, as any family can be.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from typing import TypeVar

from ...exceptions import MetricNameError
from ..features import OutputFeature, parse_feature
from .index import MetricEntry, alias_meaning, all_entries, entries_of, needs_of, observed_of
from .names import MetricName, parse_import_path

T = TypeVar("T")

DEFAULT = {
    "binary": "accuracy f1 roc_auc average_precision log_loss ece",
    "category": "accuracy f1(average=macro) roc_auc log_loss ece",
    "set": "accuracy f1(average=macro) f1(average=micro) roc_auc hamming log_loss",
    "number": "mae rmse r2",
    "vector": "mae rmse r2",
    "timeseries": "mae rmse smape",
    "sequence": "token_accuracy sequence_accuracy perplexity",
    "text": "token_accuracy sequence_accuracy perplexity",
    "image": "psnr ssim",
    "audio": "snr si_sdr",
    "boxes": "map",
    "mask": "pixel_accuracy iou(average=macro) dice(average=macro)",
    "ranking": "ndcg@10 recall@10 precision@10 hit_rate@10 mrr@10 map@10",
    "clusters": "adjusted_rand adjusted_mutual_information v_measure",
}
WORDS = {"text": "accuracy f1 bleu_4 rouge_l(measure=f) chrf"}
"""The choices of metrics that are written by hand; there are no others."""

_SUFFIX = "_family"
_CHOICES = {"default": DEFAULT, "words": WORDS}
_OWN = ("all", *_CHOICES)


def expand(metrics: Iterable[T], output: OutputFeature | str | None) -> list[T | MetricName]:
    """Replace every group by its members; anything else stays as it is, and each metric stands once.

    Args:
        metrics: names and groups (`test:default` is the group on a split), metric objects and classes.
        output: the output feature, or None where it is not known.

    Raises:
        MetricNameError: a group whose members depend on an output that is not given, or that has none.

    >>> [str(name) for name in expand(["mape", "default"], "number")]
    ['mape', 'mae', 'rmse', 'r2']
    """
    feature_type = None if output is None else parse_feature(output).type
    expanded: dict[object, T | MetricName] = {}
    for metric in metrics:
        group = group_named(metric, feature_type)
        members: list[T | MetricName] = [metric]
        if group is not None:
            members = [
                replace(name, split=group.split, task=group.task, feature=group.feature)
                for name in members_of(group.metric, feature_type)
            ]
        for member in members:
            is_name = isinstance(member, (str, MetricName))
            expanded.setdefault(str(member) if is_name else id(member), member)
    return list(expanded.values())


def group_named(metric: object, feature_type: str | None = None) -> MetricName | None:
    """Return the parsed name of a group; None for anything else, such as a metric of that name."""
    if not isinstance(metric, (str, MetricName)) or (isinstance(metric, str) and parse_import_path(metric)):
        return None
    name = MetricName.parse(metric)
    is_group = not name.params and name.k is None and _is_group(name.metric, feature_type)
    return name if is_group else None


def group_names(feature_type: str | None = None) -> list[str]:
    """Return the names of all groups, or of those of one feature, sorted."""
    families = _families(feature_type)
    plain = {name for name in families if not _is_metric(name, feature_type)}
    own = [name for name in _OWN if feature_type in (None, *_CHOICES.get(name, [feature_type]))]
    return sorted({*own, *plain, *(f"{name}{_SUFFIX}" for name in families)})


def family_of(group: str) -> str:
    """Return the family of a group; the name itself if the group is not a family."""
    return group.removesuffix(_SUFFIX)


def members_of(group: str, feature_type: str | None) -> list[MetricName]:
    """Return the metrics of a group, in the order of their names (those of `default` in its own).

    Raises:
        MetricNameError: there is no output feature, or no metric of the group can be built as it is.
    """
    if feature_type is None:
        raise MetricNameError(f"the group {group!r} differs between output features; set output=")
    if group in _CHOICES:
        if feature_type not in _CHOICES[group]:
            raise MetricNameError(
                f"there is no group {group!r} for a {feature_type} output; name the metrics"
            )
        return [MetricName.parse(name) for name in _CHOICES[group][feature_type].split()]
    entries = all_entries(feature_type)
    if group == "all":
        members = [MetricName(entry.name) for entry in entries if _is_ready(entry)]
    else:
        entries = tuple(e for e in entries if family_of(group) in e.families)
        members = [use for entry in entries for use in _uses(entry)]
    if not members:
        needy = ", ".join(str(entry.example) for entry in entries) or "nothing"
        raise MetricNameError(
            f"every metric of the group {group!r} for a {feature_type} output needs parameters or "
            f"further inputs; name the metrics, such as {needy}"
        )
    return members


def _is_group(word: str, feature_type: str | None) -> bool:
    if word in _OWN or word.endswith(_SUFFIX):
        return word in _OWN or word.removesuffix(_SUFFIX) in _families(feature_type)
    return not _is_metric(word, feature_type) and word in _families(feature_type)


def _families(feature_type: str | None) -> set[str]:
    return {family for entry in all_entries(feature_type) for family in entry.families}


def _is_ready(entry: MetricEntry) -> bool:
    """Return whether a metric can be built as it is, measures ordinary data, and can be optimized."""
    needy = needs_of(entry) or entry.requires or entry.needed
    observed = observed_of(entry)
    return entry.direction is not None and not needy and (observed is None or not observed.refuses)


def _uses(entry: MetricEntry) -> list[MetricName]:
    """Return a name for each choice of the required parameters; none if one of them has no choices."""
    if needs_of(entry):
        return []
    needed = entry.needed
    choices = [[choice for choice in param.settings if choice != "none"] for param in needed]
    names = [param.name for param in needed]
    return [MetricName(entry.name, tuple(zip(names, use, strict=True))) for use in product(*choices)]


def _is_metric(name: str, feature_type: str | None) -> bool:
    return bool(entries_of(name, feature_type)) or alias_meaning(name, feature_type) is not None
