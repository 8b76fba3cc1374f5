"""Choose the requested metrics that can be measured on a file."""

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
    """The metrics to measure, those that came from a group, and why others of a group are left out."""

    names: tuple[MetricName, ...]
    grouped: frozenset[MetricName] = frozenset()
    left_out: tuple[str, ...] = ()

    def extras(self, output: OutputFeature) -> set[str]:
        """Return the further keyword arguments that they read."""
        metrics = (find_metric(name, output.type) for name in self.names)
        return {extra for one in metrics for entry in one.entries for extra in entry.extras}

    def without_refused(self, output: OutputFeature, tensors: Mapping[str, Any], source: Source) -> Choice:
        """Leave out metrics that raise on a batch: for a text, some read words and others token ids.

        Raises:
            PredictionsError: no metric remains.
        """
        refused = {name: why for name in self.names if (why := self._refusal(name, output, tensors))}
        remarks = (f"{name} ({why})" for name, why in refused.items())
        names = tuple(name for name in self.names if name not in refused)
        return _check_choice(Choice(names, self.grouped, (*self.left_out, *remarks)), output, source)

    def _refusal(self, name: MetricName, output: OutputFeature, tensors: Mapping[str, Any]) -> str:
        if output.type != TEXT or name not in self.grouped:
            return ""
        try:
            get_metric(name, output).update(**tensors)
        except MetricInputError as err:
            return "reads token ids" if "cannot be had" in str(err) else str(err).removeprefix(f"{name} ")
        except (IndexError, TypeError, RuntimeError) as err:  # shown beside the values
            return f"cannot read it: {err}"
        return ""


def choose(words: Iterable[str], output: OutputFeature, roles: Roles, source: Source) -> Choice:
    """Return the metrics; one that the file cannot serve is left out of a group, and an error by its name.

    Raises:
        PredictionsError: a metric by name reads a column that the file lacks, or no metric remains.
        UnknownMetricError, MetricNameError: a metric does not exist for the output.
    """
    names: dict[MetricName, bool] = {}
    left_out: list[str] = []
    for word in words:
        grouped = group_named(word, output.type) is not None
        for name in expand([_default_group(word, output)], output):
            metric = find_metric(MetricName.parse(str(name)), output.type)
            obstacle = _obstacle(metric, output, roles, source)
            if obstacle is None:
                names[metric.name] = grouped and names.get(metric.name, True)
            elif grouped:
                left_out.append(f"{metric.name} ({obstacle.short})")
            else:
                raise PredictionsError(f"{source.path}: {metric.name} {obstacle.full}")
    grouped_names = frozenset(name for name, grouped in names.items() if grouped)
    return _check_choice(Choice(tuple(names), grouped_names, tuple(left_out)), output, source)


class _Obstacle(NamedTuple):
    """The reason why the file cannot serve a metric: in brief, and with a remedy."""

    short: str
    full: str


def _obstacle(metric: FoundMetric, output: OutputFeature, roles: Roles, source: Source) -> _Obstacle | None:
    if not derivable(metric.inputs, frozenset(map(InputType, roles.model_outputs)), output):
        short = f"reads {metric.inputs}"
        columns = excerpt(", ".join(source.columns), 500)
        return _Obstacle(short, f"{short}, and there is no column for that; its columns are {columns}")
    if roles.weight is not None and not get_metric(metric.name, output).takes_weights:
        short = "cannot weigh rows"
        return _Obstacle(
            short,
            f"{short}, and the column {roles.weight!r} says how much each counts; leave out the metric, or "
            f"the weights: the option --weights, or the column {WEIGHT}",
        )
    return None


def _default_group(word: str, output: OutputFeature) -> str:
    """Return the default group of strings for a file of texts."""
    return "words" if word == "default" and output.type == TEXT else word


def _check_choice(choice: Choice, output: OutputFeature, source: Source) -> Choice:
    if not choice.names:
        left_out = "; ".join(choice.left_out)
        why = f"none of the metrics can be measured: {left_out}." if left_out else "no metric is named;"
        listing = f"`hpometrics metrics list --feature {output.type}`"
        raise PredictionsError(f"{source.path}: {why} {listing} lists all {len(metric_names(output.type))}")
    return choice
