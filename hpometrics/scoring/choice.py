"""Choice: which of the metrics that are asked for a file can serve."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .._redaction import excerpt
from ..exceptions import MetricInputError
from ..metrics._derive import derivable
from ..metrics.features import TEXT, InputType, OutputFeature
from ..metrics.registry.groups import expand, group_named
from ..metrics.registry.index import metric_names
from ..metrics.registry.lookup import FoundMetric, find_metric
from ..metrics.registry.names import MetricName
from ..metrics.registry.register import get_metric
from .roles import WEIGHT, Roles
from .source import PredictionsError, Source


@dataclass(frozen=True)
class Choice:
    """The metrics to be measured, those that a group brought, and why others of a group are left out."""

    names: tuple[MetricName, ...]
    grouped: frozenset[MetricName] = frozenset()
    left_out: tuple[str, ...] = ()

    def extras(self, output: OutputFeature) -> set[str]:
        """The further keyword arguments that they read."""
        found = (find_metric(name, output.type) for name in self.names)
        return {extra for one in found for entry in one.entries for extra in entry.extras}

    def tried(self, output: OutputFeature, tensors: Mapping[str, Any], source: Source) -> Choice:
        """Leave out what refuses a batch: of a text, some metrics read the words and others token ids.

        Raises:
            PredictionsError: nothing is left.
        """
        refused = {name: why for name in self.names if (why := self._refusal(name, output, tensors))}
        told = (f"{name} ({why})" for name, why in refused.items())
        names = tuple(name for name in self.names if name not in refused)
        return _checked(Choice(names, self.grouped, (*self.left_out, *told)), output, source)

    def _refusal(self, name: MetricName, output: OutputFeature, tensors: Mapping[str, Any]) -> str:
        if output.type != TEXT or name not in self.grouped:
            return ""
        try:
            get_metric(name, output).update(**tensors)
        except MetricInputError as err:
            return "reads token ids" if "cannot be had" in str(err) else str(err).removeprefix(f"{name} ")
        except (IndexError, TypeError, RuntimeError) as err:  # told beside the values
            return f"cannot read it: {err}"
        return ""


def choose(asked: Iterable[str], output: OutputFeature, roles: Roles, source: Source) -> Choice:
    """Look the metrics up; what the file cannot serve is left out of a group, refused where it is named.

    Raises:
        PredictionsError: a metric that is named reads what the file does not have, or nothing is left.
        UnknownMetricError, MetricNameError: a metric does not exist for the output.
    """
    names: dict[MetricName, bool] = {}
    left_out: list[str] = []
    for word in asked:
        grouped = group_named(word, output.type) is not None
        for metric in expand([_of_words(word, output)], output):
            found = find_metric(MetricName.parse(str(metric)), output.type)
            obstacle = _obstacle(found, output, roles, source)
            if obstacle is None:
                names[found.name] = grouped and names.get(found.name, True)
            elif grouped:
                left_out.append(f"{found.name} ({obstacle.short})")
            else:
                raise PredictionsError(f"{source.path}: {found.name} {obstacle.full}")
    grouped_names = frozenset(name for name, grouped in names.items() if grouped)
    return _checked(Choice(tuple(names), grouped_names, tuple(left_out)), output, source)


class _Obstacle(NamedTuple):
    """Why the file cannot serve a metric: in brief, and with what to do."""

    short: str
    full: str


def _obstacle(found: FoundMetric, output: OutputFeature, roles: Roles, source: Source) -> _Obstacle | None:
    if not derivable(found.inputs, frozenset(map(InputType, roles.given)), output):
        short = f"reads {found.inputs}"
        there = excerpt(", ".join(source.columns), 500)
        return _Obstacle(short, f"{short}, and there is no column for that; its columns are {there}")
    if roles.weight is not None and not get_metric(found.name, output).takes_weights:
        short = "cannot weigh rows"
        return _Obstacle(
            short,
            f"{short}, and the column {roles.weight!r} says how much each counts; leave out the metric, or "
            f"the weights: the option --weights, or the column {WEIGHT}",
        )
    return None


def _of_words(word: str, output: OutputFeature) -> str:
    """Give the default of strings, which is what a file of texts holds."""
    return "words" if word == "default" and output.type == TEXT else word


def _checked(choice: Choice, output: OutputFeature, source: Source) -> Choice:
    if not choice.names:
        left_out = "; ".join(choice.left_out)
        why = f"none of the metrics can be measured: {left_out}." if left_out else "no metric is named;"
        listing = f"`hpometrics metrics list --feature {output.type}`"
        raise PredictionsError(f"{source.path}: {why} {listing} lists all {len(metric_names(output.type))}")
    return choice
