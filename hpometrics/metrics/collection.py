"""Several metrics of one output feature, measured in one pass over the statistics that they share."""

from __future__ import annotations

import math
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, Self

import torch
from torch import Tensor

from ..direction import Direction
from ..exceptions import MetricInputError, MetricNameError, NonFiniteError, StateError, UnknownMetricError
from ._buffer import BatchBuffer
from ._derive import expect
from ._device import gather_from_ranks, without_autograd, world_size
from ._state import all_or_none
from ._validation import BatchValidator, NonFinite, batch_of
from .batch import KEYWORDS, Outputs
from .features import OutputFeature, parse_feature
from .metric import Metric, facts_table, overrides_update
from .registry.groups import expand
from .registry.lookup import is_named_in_full, registered_types
from .registry.names import MetricName
from .registry.register import get_metric
from .registry.suggestions import suggestion
from .retrieval.per_user import PerUser
from .statistics.statistic import Statistic
from .statistics.user_values import UserValues

MetricLike = str | MetricName | Metric | type[Metric]


class MetricCollection:
    """Metrics of one output feature, updated together.

    For each batch every model output is derived once and every statistic updated once, however many metrics
    read it. Under `torch.distributed`, `compute` gathers the states of all ranks once and returns the values
    of all the data on every rank. `reset` frees the stored data at once; the data of a collection without
    references is freed by Python's garbage collector, as for any torchmetrics.Metric. `keeps_users` is
    whether `per_user` has values, once users were measured.

    Args:
        metrics: names (`"f1(average=macro)"`), groups (`"default"`, `"calibration"`), metric objects or
            classes; the same name twice is one metric.
        output: the output feature; may be left out if every metric is an object with an output.
        non_finite: the policy for a batch with nan or infinite values: `error` refuses it, `propagate` makes
            every value nan with the reason, `ignore` leaves out the rows concerned (`rows_left_out`).

    Raises:
        UnknownMetricError, MetricNameError: a name that does not fit the output.

    >>> from hpometrics.metrics.features import Binary
    >>> panel = MetricCollection(["accuracy", "brier"], output=Binary())
    >>> panel.update(probabilities=torch.tensor([0.9, 0.2]), target=torch.tensor([1, 1]))
    >>> {name: round(value.item(), 3) for name, value in panel.compute().items()}
    {'accuracy': 0.5, 'brier': 0.325}
    """

    def __init__(
        self,
        metrics: Iterable[MetricLike],
        output: OutputFeature | str | None = None,
        *,
        non_finite: NonFinite = "error",
    ) -> None:
        if isinstance(metrics, str):
            raise MetricNameError(f"a collection needs a list of metrics; write [{metrics!r}]")
        if not isinstance(metrics, Iterable):
            raise MetricInputError(f"a collection needs a list of metrics, got {type(metrics).__name__}")
        feature = None if output is None else parse_feature(output)
        self._metrics = _by_name(metric_of(metric, feature) for metric in expand(metrics, feature))
        self.output = feature or _common_output(self._metrics.values())
        members = self._metrics.values()
        self._statistics, self._batch_buffer = _share(members)
        self.keeps_users = any(isinstance(statistic, UserValues) for statistic in self._statistics.values())
        self._alone = [m for m in members if overrides_update(m)]
        self._resetting = [m for m in members if overrides_update(m) or m.resets_itself]
        self._preparing = [m for m in members if type(m).prepare is not Metric.prepare]
        self._expected = frozenset().union(*(metric.expects for metric in members))
        self._validator = BatchValidator(non_finite)
        self._readable: set[frozenset[str]] = set()
        self._values: tuple[dict[str, Tensor], dict[str, str]] | None = None
        self.rows = 0
        self.reasons: dict[str, str] = {}

    def __repr__(self) -> str:
        return f"MetricCollection({list(self._metrics)}, output={self.output})"

    def _repr_html_(self) -> str:
        return facts_table(self._metrics.values())

    @property
    def names(self) -> tuple[str, ...]:
        """The canonical names, in the order of the metrics."""
        return tuple(self._metrics)

    @property
    def statistics(self) -> tuple[Statistic, ...]:
        """The statistics, each once, in the order in which the metrics need them."""
        self._batch_buffer.flush()
        return tuple(self._statistics.values())

    def __getitem__(self, name: str) -> Metric:
        if name not in self._metrics:
            raise UnknownMetricError(f"the metrics are {', '.join(self._metrics)}; there is no {name!r}")
        return self._metrics[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._metrics)

    def __contains__(self, name: object) -> bool:
        return name in self._metrics

    def keys(self) -> KeysView[str]:
        """Return the canonical names, as of a mapping from them to the metrics."""
        return self._metrics.keys()

    def values(self) -> ValuesView[Metric]:
        """Return the metrics, in their order; `compute` has their values."""
        return self._metrics.values()

    def items(self) -> ItemsView[str, Metric]:
        """Return each canonical name with its metric."""
        return self._metrics.items()

    @property
    def rows_left_out(self) -> int:
        """The number of rows that the policy `ignore` left out for their nan or infinite values."""
        return self._validator.left_out

    @property
    def complaint(self) -> str | None:
        """The reason why all values are nan, if a batch was invalid; on a device this waits for it."""
        return self._validator.verdict()

    def direction_of(self, name: str) -> Direction | None:
        """Return the direction of one of its metrics."""
        return self._metrics[name].direction

    def update(
        self,
        *positional: Any,
        logits: Any = None,
        probabilities: Any = None,
        predictions: Any = None,
        target: Any = None,
        target_probabilities: Any = None,
        sample_weight: Any = None,
        **extras: Any,
    ) -> None:
        """Add one batch to every metric.

        Args:
            positional: must be empty; the keyword says which output a tensor is.
            logits: the output of the model before any sigmoid or softmax, in the shape of the output feature.
            probabilities: or its probabilities,
            predictions: or its predictions: any one of the three, or several forms of the same output. Each
                metric reads the form that it names as it is. If there are logits and probabilities, a metric
                that ranks, decides or takes a logarithm reads the logits. Whether the two contradict each
                other is not checked.
            target: the right answers.
            target_probabilities: soft labels, in the shape of the probabilities, for the metrics that read
                them; beside `target`, or alone if all do.
            sample_weight: the weight of each row, (N,) from 0.
            extras: further keywords; at least one metric must read each of them. A `Ranking` reads `scores=`
                (its logits), `users=`, `items=`, `queries=`, `user_factors=` and `item_factors=`.

        Raises:
            MetricInputError: the metrics cannot read the batch; the state of none of them changes.
        """
        if positional:
            raise MetricInputError(
                "pass each output to update by keyword: update(logits=..., target=...), or probabilities= "
                f"or predictions=; got {len(positional)} without one"
            )
        arguments = {
            "logits": logits, "probabilities": probabilities, "predictions": predictions, "target": target,
            "target_probabilities": target_probabilities, "sample_weight": sample_weight, **extras,
        }  # fmt: skip
        given = {name: value for name, value in arguments.items() if value is not None or name in extras}
        self.add_batch(given)

    def add_batch(self, arguments: Mapping[str, Any]) -> None:
        """Add one batch, by the keyword arguments of `update`."""
        try:
            rows = 0 if self._alone else self._batch_buffer.add_similar(arguments)
        except NonFiniteError as err:
            self._validator.handle_non_finite(err, self._batch_buffer.batches)
            return
        if rows:
            self._count(rows)
        else:
            self._validate_and_add(batch_of(self.output, **arguments))

    def would_take(self, **arguments: Any) -> bool:
        """Return whether a batch is sound and has the signature of a measured one, so that it cannot fail."""
        return not self._alone and self._batch_buffer.accepts(arguments)

    def compute(self, *, synchronize: bool = True) -> dict[str, Tensor]:
        """Compute the value of each metric over all rows since the last reset; nan where it is undefined.

        Afterwards `reasons` has, by name, the reason for each value that is nan.

        Args:
            synchronize: include the rows of the other ranks of a process group, which all have to call this.
        """
        if synchronize and world_size() > 1:
            merged = self._over_all_ranks()
            merged_values, self.reasons = merged.compute(synchronize=False), merged.reasons
            return merged_values
        complaint = self._validator.verdict()
        if self._values is None or complaint or self._batch_buffer.members_changed:
            self._values = self._compute_values(complaint)
        values, reasons = self._values
        self.reasons = dict(reasons)
        return dict(values)

    def per_user(self, *, synchronize: bool = True) -> PerUser:
        """Return the value of each user by metric, which the collection of a `Ranking(per_user=True)` stores.

        Args:
            synchronize: as for `compute`.

        Raises:
            MetricInputError: no values of users are stored.
        """
        measured = self._over_all_ranks() if synchronize and world_size() > 1 else self
        return PerUser.of(measured._metrics)

    def reset(self) -> None:
        """Drop everything measured."""
        members_changed = self._batch_buffer.members_changed
        self._batch_buffer.reset()
        for statistic in self._statistics.values():
            statistic.reset()
        for metric in self._metrics.values() if members_changed else self._resetting:
            metric.reset_member()
        self._validator.reset()
        self._values = None
        self.rows = 0
        self.reasons = {}

    def fresh(self, further: Iterable[MetricLike] = (), names: Iterable[str] | None = None) -> Self:
        """Return an empty collection of the same metrics, or only of some by name, and of further ones."""
        members = [self._metrics[name].alone() for name in (self._metrics if names is None else names)]
        return type(self)([*members, *further], self.output, non_finite=self._validator.non_finite)

    def learn_from(self, other: MetricCollection) -> None:
        """Accept a first batch like one that another collection of the same metrics has validated."""
        self._batch_buffer.learn_from(other._batch_buffer)

    def merge(self, other: MetricCollection) -> None:
        """Merge the state of another collection of the same metrics, which does not change.

        Raises:
            StateError: the other collection has other metrics, or measures another output.
        """
        if not isinstance(other, MetricCollection):
            raise StateError(
                f"a collection can merge only with another collection, got {type(other).__name__}"
            )
        self.merge_state(other.state_dict())

    def merge_state(self, state: Mapping[str, Any]) -> None:
        """Merge the `state_dict` of another collection of the same metrics.

        Raises:
            StateError: the state is of other metrics, or of another output; what was measured stays.
        """
        self._check_state(state)
        statistics = self._by_label().items()
        for name, statistic in statistics:
            statistic.check_merge(state["statistics"][name])
        with all_or_none(self._metrics.values()):
            for name, metric in self._metrics.items():
                metric.merge_own(state["metrics"][name], state["updates"])
        for name, statistic in statistics:
            statistic.merge_state(state["statistics"][name])
        self._values = None
        self.rows += state["rows"]
        self._validator.add_complaint(state["complaint"], state.get("left_out", 0))

    def state_dict(self) -> dict[str, Any]:
        """Return the state as plain tensors and numbers, which `torch.load(weights_only=True)` reads."""
        return {
            "output": self.output.facts,
            "rows": self.rows,
            "updates": max((metric.update_count for metric in self._metrics.values()), default=0),
            "complaint": self._validator.verdict(),
            "left_out": self._validator.left_out,
            "statistics": {name: statistic.state() for name, statistic in self._by_label().items()},
            "metrics": {name: metric.own_state() for name, metric in self._metrics.items()},
        }

    def part_of(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Return the part of the `state_dict` of a larger collection that belongs to this one."""
        names_by_part: dict[str, Iterable[str]] = {"statistics": self._by_label(), "metrics": self._metrics}
        parts = {
            part: {name: state[part][name] for name in names if name in state[part]}
            for part, names in names_by_part.items()
        }
        return {**state, **parts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Replace everything measured by the result of `state_dict`.

        Raises:
            StateError: the state is of other metrics, or of another output.
        """
        self.fresh().merge_state(state)  # a state that does not fit is refused before the reset
        self.reset()
        self.merge_state(state)

    def to(self, device: torch.device | str) -> Self:
        """Move every state to a device."""
        self._batch_buffer.flush()
        for statistic in self._statistics.values():
            statistic.to(device)
        for metric in self._metrics.values():
            metric.to(device)
        self._values = None
        return self

    def _validate_and_add(self, batch: Outputs) -> None:
        """Validate a batch and add it."""
        expect(batch, self._expected)
        self._check_readable(batch)
        admitted = self._validator.validate(batch, self._batch_buffer.batches)
        if admitted is None:
            return
        if admitted is not batch:
            self._check_readable(admitted)  # on a device, rows left out are rows of weight 0
        try:
            with without_autograd():
                self._observe(admitted)
        except NonFiniteError as err:
            self._validator.handle_non_finite(err, self._batch_buffer.batches)

    def _count(self, rows: int) -> None:
        """Count added rows and drop the computed values."""
        if self._batch_buffer.members_changed:  # to visit all takes longer than to measure some of them
            for metric in self._metrics.values():
                metric.count_updates(0)
        self._values = None
        self.rows += rows

    def _observe(self, batch: Outputs) -> None:
        """Add a batch; all steps that may refuse it come first, so that a refusal changes no state."""
        for metric in self._preparing:
            metric.prepare(batch)
        self._batch_buffer.check(batch)
        if self._alone:
            self._observe_alone(batch)
        self._batch_buffer.add(batch)
        self._count(len(batch))

    def _observe_alone(self, batch: Outputs) -> None:
        """Update the metrics that measure on their own; if one of them refuses, restore those before it."""
        before = [(metric, metric.snapshot()) for metric in self._alone]
        try:
            for metric in self._alone:
                metric.observe(batch)
        except Exception:
            for metric, snapshot in before:
                metric.restore(snapshot)
            raise

    def _check_readable(self, batch: Outputs) -> None:
        keywords = frozenset([*batch.given, *batch.records, *batch.extras, *_requests_of(batch)])
        if keywords in self._readable:
            return
        for metric in self._metrics.values():
            metric.require(batch)
        unwanted = [
            key for key in batch.extras if not any(m.wanted({key: 0}) for m in self._metrics.values())
        ]
        if unwanted:
            hint = suggestion(unwanted[0], KEYWORDS)
            raise MetricInputError(
                f"no metric of {', '.join(self._metrics)} accepts {', '.join(unwanted)}"
                + (f".{hint}" if hint else "; leave it out, or name a metric whose update takes it")
            )
        self._readable.add(keywords)

    def _compute_values(self, complaint: str | None) -> tuple[dict[str, Tensor], dict[str, str]]:
        """Compute the value of each metric, and the reasons for those that are nan."""
        values: dict[str, Tensor] = {}
        with without_autograd():  # once for all
            for name, metric in self._metrics.items():
                value = metric.undefined(complaint) if complaint else metric.compute_defined()
                values[name] = value if getattr(value, "dtype", None) is torch.float64 else _double(value)
        nan = [name for name, value in values.items() if value.ndim == 0 and math.isnan(value)]
        reasons = {name: self._metrics[name].undefined_reason or "the metric returned nan" for name in nan}
        return values, reasons

    def _over_all_ranks(self) -> Self:
        merged = self.fresh()
        for state in gather_from_ranks(self.state_dict()):
            merged.merge_state(state)
        return merged

    def _by_label(self) -> dict[str, Statistic]:
        return {statistic.label: statistic for statistic in self.statistics}

    def _check_state(self, state: Mapping[str, Any]) -> None:
        if not isinstance(state, Mapping):
            raise StateError(f"a state must be the result of state_dict(), got {type(state).__name__}")
        metrics, statistics = state.get("metrics", {}), state.get("statistics", {})
        if missing := {"rows", "updates", "complaint", "metrics", "statistics"} - set(state):
            raise StateError(f"{', '.join(sorted(missing))} missing from the state of {self}")
        self.output.refuse_other(state.get("output", {}), ", ".join(self._metrics))
        if list(metrics) != list(self._metrics) or set(statistics) != set(self._by_label()):
            raise StateError(f"the state of {', '.join(metrics) or 'nothing'} does not match {self}")


def _requests_of(batch: Outputs) -> tuple[str, ...]:
    """Return what a batch requires of the metrics beside its outputs: weights, and soft labels alone."""
    weighted = ("sample_weight",) if batch.weight is not None else ()
    return (*weighted, "soft labels alone") if batch.target is batch.soft else weighted


def _double(value: Any) -> Tensor:
    return torch.as_tensor(value).double()


def metric_of(metric: MetricLike, output: OutputFeature | None) -> Metric:
    """Create a member of a collection from its name, class or object.

    Raises:
        MetricInputError, MetricNameError, UnknownMetricError: it is not a metric, or not of this output.
        StateError: it has measured already or belongs to a collection.
    """
    if isinstance(metric, (str, MetricName)):
        return get_metric(metric, output)
    member = metric() if isinstance(metric, type) else metric
    if not isinstance(member, Metric):
        raise MetricInputError(
            f"a collection needs metrics of hpometrics, got {type(member).__name__}; convert it with "
            f"as_metric({type(member).__name__}(...), direction=..., inputs=...)"
        )
    if member.kept_by_others or member.update_count:
        raise StateError(
            f"{member.name} has already measured or belongs to another collection; pass a new metric"
        )
    if output is not None and member._output is not output:  # as that of a copy is
        types = registered_types(type(member))
        if types and output.type not in types:
            raise MetricInputError(f"{member.name} is a metric of {', '.join(types)}, the output is {output}")
        member.output = output
    return member


def _by_name(metrics: Iterator[Metric]) -> dict[str, Metric]:
    members: dict[str, Metric] = {}
    for metric in metrics:
        first = members.setdefault(metric.name, metric)
        full = (is_named_in_full(type(one), vars(one)) for one in (first, metric))
        if first is not metric and not (type(first) is type(metric) and all(full)):
            raise MetricInputError(
                f"two different metrics are named {metric.name!r}; give one of them another .name"
            )
    return members


def _common_output(metrics: Iterable[Metric]) -> OutputFeature:
    outputs = {metric.output for metric in metrics}
    if len(outputs) != 1:
        raise MetricInputError(
            f"pass output=: the metrics support {', '.join(map(str, outputs)) or 'no output'}"
        )
    return outputs.pop()


def _share(metrics: Iterable[Metric]) -> tuple[dict[Any, Statistic], BatchBuffer]:
    """Share one statistic of each identity and one buffer among all metrics, and return both."""
    shared: dict[Any, Statistic] = {}
    needs = [(metric, metric.statistics()) for metric in metrics]
    for statistic in (statistic for _, required in needs for statistic in required.values()):
        first = shared.setdefault(statistic.key, statistic)
        if first is not statistic:
            first.join(statistic)
    buffer = BatchBuffer(shared.values())
    for metric, required in needs:
        metric.share({name: shared[statistic.key] for name, statistic in required.items()}, buffer)
    return shared, buffer
