"""The base classes of metrics: a torchmetrics.Metric with a direction, an input and statistics."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from .._formatting import html_table
from .._text import NOTHING_MEASURED
from ..direction import Direction
from ..exceptions import MetricInputError, NonFiniteError, StateError
from ._buffer import BatchBuffer, outside_of_autograd
from ._derive import expect
from ._device import without_autograd
from ._state import StatefulMetric, put_foreign_bases_first, squeeze
from ._validation import BatchValidator, NonFinite, batch_of, reads_pairs
from .aggregation import Average, Measured, RowValues, mask_unknown_labels, weighed, weighed_rows
from .batch import Outputs
from .features import FEATURES, AnyOutput, InputType, OutputFeature
from .registry.facts import unstated, write_facts
from .registry.lookup import printed_name, registered_types
from .registry.ludwig_names import LudwigMetricNames
from .registry.names import Scalar
from .statistics.statistic import Statistic
from .statistics.totals import Sums, WeightedMean


class Metric(LudwigMetricNames, StatefulMetric):
    """Base class of all metrics.

    A subclass states its facts, `direction` (MINIMIZE, MAXIMIZE or None) and `inputs`, as class attributes,
    or in `register_metric`; Ludwig's names (`objective`, `get_objective()`, `get_inputs()`) do as well. It
    measures in one of two ways:

    - over statistics: `statistics()` returns them and `compute()` is a function of them; in a collection
      equal statistics are one object.
    - on its own: `add_state`, `update(preds, target)` and `compute()`, as any torchmetrics.Metric.

    Its parameters are keyword arguments of `__init__`, stored as attributes of the same name.
    """

    direction: ClassVar[Direction | None]
    inputs: ClassVar[InputType]
    extras: ClassVar[tuple[str, ...]] = ()
    """The further keyword arguments of `update` that it reads from `batch.extras`."""
    unread: frozenset[str] = frozenset()
    """The extras of its class that are of no use with its parameters, which it refuses."""
    unstated_output: ClassVar[type[OutputFeature]] = AnyOutput
    """The output of a metric without one, if its class was never registered."""
    reads_soft: ClassVar[bool] = False
    """Whether it measures against soft labels, `target_probabilities=`, if there are any."""
    expects: frozenset[str] = frozenset()
    """The facts of all logits of a batch that it reads: `largest`, `losses`, or none (see `expect`)."""
    full_state_update: bool = False
    _facts_of: ClassVar[type | None] = None
    _reads_tiles: ClassVar[bool] = False  # an `update` of its own gets tiles of a validated batch

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        put_foreign_bases_first(cls, Metric)

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Create a metric; an unpickled one may be the first of its class in a process."""
        cls._write_facts()
        return super().__new__(cls)

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._name: str | None = None
        self._output: OutputFeature | None = None

    @classmethod
    def _write_facts(cls) -> None:
        """Set the attributes of a class, once, to the facts that its classmethods state."""
        if cls._facts_of is not cls:
            write_facts(cls)
            cls._facts_of = cls

    def __getattr__(self, name: str) -> Any:
        if name in ("direction", "inputs"):
            raise unstated(type(self).__qualname__, name)
        return super().__getattr__(name)

    def _repr_html_(self) -> str:
        return facts_table([self])

    @property
    def name(self) -> str:
        """Its canonical name, with the parameters that differ from their defaults; may be set."""
        if self._name is None:
            self._name = printed_name(type(self), vars(self)) or self._class_name
        return self._name

    @name.setter
    def name(self, text: str) -> None:
        self._name = text

    @property
    def _class_name(self) -> str:
        """The name of a metric whose class was never registered."""
        return type(self).__name__

    @property
    def output(self) -> OutputFeature:
        """The output feature of the metric; by default the first one that its class is registered for."""
        if self._output is None:
            types = registered_types(type(self))
            self._output = FEATURES[types[0]]() if types else self.unstated_output()
        return self._output

    @output.setter
    def output(self, feature: OutputFeature) -> None:
        if self.update_count or self.kept_by_others:
            raise StateError(
                f"{self.name} has already measured {self._output}; its output cannot change to {feature}"
            )
        self._output, self._statistics, self._batch_buffer = feature, None, None

    @property
    def _settings(self) -> dict[str, Scalar]:
        """The values of its parameters that attributes of the same name have."""
        names, own = inspect.signature(type(self).__init__).parameters, vars(self)
        return {name: own[name] for name in names if isinstance(own.get(name), Scalar)}

    @property
    def pools_tasks(self) -> bool:
        """Whether its value over several tasks is that of all their rows, not the mean of their values."""
        return any(statistic.pools_tasks for statistic in self._buffered_statistics.values())

    @property
    def non_finite(self) -> NonFinite:
        """The policy for nan and infinite values: `error` (refused), `propagate` or `ignore`; may be set."""
        return self._validator.non_finite

    @non_finite.setter
    def non_finite(self, policy: NonFinite) -> None:
        if self.update_count:
            raise StateError(f"{self.name} has already measured with non_finite={self.non_finite!r}")
        self._validator = BatchValidator(policy)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Add one batch: `update(preds, target)`, or `update(logits=..., target=...)`.

        Args:
            args: preds, the output that the metric reads (`inputs`) in the shape of its output feature;
                target.
            kwargs: the same by name, `logits=`, `probabilities=` or `predictions=` in the place of `preds`;
                `sample_weight=`, (N,) from 0; `target_probabilities=`, soft labels; and the extras that the
                metric reads.

        Raises:
            MetricInputError: the metric cannot read the batch; its state does not change.
        """
        self._validate_and_add(*args, **kwargs)

    def _validate_and_add(self, preds: Any = None, target: Any = None, **tensors: Any) -> None:
        """Validate and add one batch, also for a metric with an `update(preds, target)` of its own."""
        self._refuse_if_shared("update")
        batch = self._validator.validate(passed := self.batch(preds, target, tensors), self.update_count)
        if batch is None:
            return
        if batch.weight is not passed.weight:
            self.require(batch)  # on a device, rows left out are rows of weight 0
        before = self.snapshot() if overrides_update(self) else {}
        try:
            self.observe(batch)
        except Exception as err:
            self.restore(before)
            if not isinstance(err, NonFiniteError):
                raise
            self._validator.handle_non_finite(err, self.update_count)

    def batch(self, preds: Any, target: Any, tensors: Mapping[str, Any]) -> Outputs:
        """Create a batch from the arguments of `update`."""
        if preds is not None and self.inputs.value in tensors:
            raise MetricInputError(
                f"{self.name}: {self.inputs} were passed twice, by position and as {self.inputs}="
            )
        arguments = dict(tensors) if preds is None else {**tensors, self.inputs.value: preds}
        batch = batch_of(self.output, target=target, **arguments)
        expect(batch, self.expects)
        self.refuse_unwanted(batch.extras)
        self.require(batch)
        return batch

    def require(self, batch: Outputs) -> None:
        """Raise unless the metric can read the batch.

        Raises:
            MetricInputError: its input cannot be derived, it needs hard labels, or it cannot weigh rows.
        """
        if not isinstance(self.output, AnyOutput):
            batch.require(self.inputs, self.name)
        if batch.target is batch.soft and not self.reads_soft:
            raise MetricInputError(
                f"{self.name} reads a target, not soft labels; pass target= beside target_probabilities="
            )
        if batch.weight is not None and not self.takes_weights:
            raise MetricInputError(
                f"{self.name} does not support weights; leave out sample_weight=, and on a device "
                "ignore_index= and non_finite='ignore', which set weights to 0"
            )

    @property
    def takes_weights(self) -> bool:
        """Whether rows may have a `sample_weight`."""
        if overrides_update(self):
            names = _extra_names(type(self).update)
            return names is not None and "sample_weight" in names
        return all(statistic.weighted for statistic in self._buffered_statistics.values())

    def prepare(self, batch: Outputs) -> None:
        """Request what the batch has to derive; all metrics do so before any of them measures."""

    def observe(self, batch: Outputs) -> None:
        """Add a validated batch."""
        if overrides_update(self):
            weighed = {"sample_weight": batch.weight} if batch.weight is not None else {}
            type(self).update(self, batch[self.inputs], batch.answer, **self.wanted(batch.extras), **weighed)
            return
        if self._batch_buffer is None:
            self._batch_buffer = BatchBuffer(self._buffered_statistics.values())
        self._batch_buffer.check(batch)
        self._batch_buffer.add(batch)

    def row_values(self, batch: Outputs) -> RowValues | None:
        """Return the value of each row; None if the rows have to be measured one after the other."""
        return None

    def ordered_pairs(self, batch: Outputs) -> tuple[Tensor, Tensor] | None:
        """Return the scores and which rows are of the class, (N,) each, if its value is a share of pairs.

        That is the share of pairs of a row of the class and one outside it in which the first has the higher
        score, as of `roc_auc`. None if the value is anything else, or the rows have weights.
        """
        return None

    @property
    def reader(self) -> Callable[..., Any] | None:
        """The function of its own whose keyword arguments name the extras that it reads; None without one."""
        return type(self).update if overrides_update(self) else None

    def wanted(self, extras: Mapping[str, Any]) -> dict[str, Any]:
        """Return the extra keyword arguments that its `extras` or its own function of a batch names."""
        if not extras:
            return {}
        names = _extra_names(self.reader) if self.reader else ()
        if names is None:
            return dict(extras)
        read = {*names, *self.extras} - self.unread
        return {name: extras[name] for name in extras if name in read}

    def refuse_unwanted(self, extras: Mapping[str, Any]) -> None:
        """Raise if the metric does not read an extra keyword argument, which may be misspelled.

        Raises:
            MetricInputError: naming these arguments.
        """
        unwanted = extras.keys() - self.wanted(extras).keys()
        if unwanted:
            raise MetricInputError(f"{self.name} does not accept {', '.join(sorted(unwanted))}; leave it out")

    def undefined(self, reason: str) -> Tensor:
        """Return nan and store the reason in `undefined_reason`."""
        self.undefined_reason = reason
        self._mark_changed()
        return torch.tensor(torch.nan, dtype=torch.float64)

    def merge(self, other: Metric) -> None:
        """Merge the state of another metric of the same kind, which does not change.

        Raises:
            StateError: the other metric is of another class, has other parameters or another output.
        """
        self._refuse_if_shared("merge")
        same = type(other) is type(self) and other.name == self.name and other._settings == self._settings
        if not same or other.kept.keys() != self.kept.keys():
            got = getattr(other, "name", type(other).__name__)
            raise StateError(f"{self.name} merges only with the same metric with equal parameters; got {got}")
        self.output.refuse_other(other.output.facts, self.name)
        states = {name: statistic.mergeable(other.kept[name]) for name, statistic in self.kept.items()}
        self.merge_own(other.own_state(), other.update_count)
        for name, statistic in self.kept.items():
            statistic.merge_state(states[name])
        self._validator.add_complaint(other._validator.verdict())

    def get_extra_state(self) -> dict[str, Any]:
        """Return the part of `state_dict` beside the states of `add_state`: statistics and their output."""
        return {**super().get_extra_state(), "output": self.output.facts}

    def set_extra_state(self, state: Any) -> None:
        """Load the result of `get_extra_state`.

        Raises:
            StateError: the statistics are those of another metric or another output.
        """
        self.output.refuse_other(state.get("output", {}), self.name)
        super().set_extra_state(state)

    def merge_state(self, incoming_state: Any) -> None:
        """Merge another metric, under torchmetrics' name; a bare state does not tell what it was measured of.

        Raises:
            StateError: it is not a metric of the same kind.
        """
        self.merge(incoming_state)

    def _wrap_update(self, update: Callable[..., Any]) -> Callable[..., None]:
        reads_validated = overrides_update(self) and (self._reads_tiles or reads_pairs(type(self).update))
        add_batch = self._validate_and_add if reads_validated else update

        @functools.wraps(update)
        def wrapped(*args: Any, **kwargs: Any) -> None:
            if len(args) > 2:
                args, kwargs = args[:2], self._arguments_by_name(args[2:], kwargs)
            by_place = {self.inputs: args[0], "target": args[1]} if len(args) == 2 and not kwargs else {}
            arguments: Mapping[Any, Any] = by_place if args else kwargs
            try:
                is_added = not self.kept_by_others and self._add_similar(arguments)
            except NonFiniteError as err:
                self._validator.handle_non_finite(err, self.update_count)
                is_added = True
            if not is_added:
                with without_autograd():  # a state made in inference mode could not be added to later
                    add_batch(*args, **kwargs)
            self.count_updates()

        return wrapped

    def _arguments_by_name(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return keyword arguments, with names from the signature for positions after preds and target."""
        names = (_extra_names(self.reader) if self.reader else None) or ()
        if len(args) > len(names) or not kwargs.keys().isdisjoint(names[: len(args)]):
            takes, keywords = ", ".join(("preds", "target", *names)), ", ".join(kwargs) or "none"
            got = f"{len(args) + 2} arguments by position and by name {keywords}"
            raise MetricInputError(f"{self.name}: update expects {takes}; got {got}")
        return {**dict(zip(names, args, strict=False)), **kwargs}

    def _add_similar(self, tensors: Mapping[Any, Any]) -> bool:
        """Add a batch like the one before, which needs no `Outputs`, and return whether it was one."""
        return self._batch_buffer is not None and self._batch_buffer.add_similar(tensors) > 0

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compute)
        def wrapped() -> Any:
            return self.compute_once(self.compute_defined)

        return wrapped

    def compute_defined(self) -> Any:
        """Compute the value by its class, unless it is undefined for a known reason; nothing is stored."""
        reason, statistics = self._validator.verdict(), self.kept
        if reason is None and statistics:
            for statistic in statistics.values():
                if not statistic.empty:
                    break
            else:
                reason = NOTHING_MEASURED
        if reason is not None:
            return self.undefined(reason)
        self.__dict__["undefined_reason"] = None  # a module's __setattr__ would cost more
        value = type(self).compute(self)
        return squeeze(value) if overrides_update(self) else value


def facts_table(metrics: Iterable[Metric]) -> str:
    """Return the facts of metrics as a table for a notebook."""
    rows = [(metric.name, metric.direction or "", metric.inputs, metric.output) for metric in metrics]
    return html_table([("metric", "direction", "reads", "output"), *rows])


def overrides_update(metric: Metric) -> bool:
    """Return whether a metric measures on its own, by an `update(preds, target)` of its own."""
    return type(metric).update is not Metric.update


@functools.cache
def _extra_names(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the keyword arguments after `self, preds, target`; None if it takes any."""
    parameters = list(inspect.signature(function).parameters.values())
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return None
    return tuple(p.name for p in parameters[3:])


class MeanMetric(Metric):
    """A metric whose value is a mean over rows; a subclass defines `get_current_value`.

    The mean is over rows, never over batches: values are summed in float64 and divided once, so the result
    does not depend on how the data was cut into batches.

    A subclass whose values per row depend on their own row alone, and that refuses no value, may set
    `regroups = True`: small batches are then measured together and very large ones in blocks.

    A subclass with an `update(preds, target)` of its own adds its values by `self.avg.update(value)`.
    """

    regroups: ClassVar[bool] = False
    avg: Average
    """The mean to which an `update` of its own adds; absent without one."""
    _lean: WeightedMean | None = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if overrides_update(self):
            self.avg = Average(self)

    def statistics(self) -> dict[str, Statistic]:
        """Return the weighted sum of its values and the sum of their weights, unless `update` is its own."""
        if overrides_update(self):
            return {}
        return {"mean": WeightedMean(self.name, self.contribution, regroups=self.regroups)}

    def compute(self) -> Tensor:
        """Return the mean; nan with a reason if no row counts."""
        mean = self.avg.mean if overrides_update(self) else self.statistic(WeightedMean).mean
        return self.undefined("no rows were counted") if mean is None else mean

    def get_current_value(self, preds: Tensor, target: Tensor) -> Measured:
        """Measure one batch.

        Args:
            preds: the output named by `inputs`.
            target: the right answers.

        Returns:
            One value per row, or one value for the batch (its weight is then the number of rows), or a pair
            of value and weight, where the weight may be a bool mask of the rows that count. None leaves the
            batch out.
        """
        raise NotImplementedError(f"{type(self).__name__} needs get_current_value(preds, target)")

    def _validate_and_add(self, preds: Any = None, target: Any = None, **tensors: Any) -> None:
        """Validate and add one batch; in a call from an `update` of its own, only add it."""
        if overrides_update(self) and self.avg.is_open:
            self.avg.update(self.get_current_value(preds, target, **tensors))
        else:
            super()._validate_and_add(preds, target, **tensors)

    def measure(self, batch: Outputs) -> Measured:
        """Measure one batch of outputs; override this one to read shared blocks."""
        preds = batch[self.inputs]
        return self.get_current_value(preds, batch.answer, **self.wanted(batch.extras))

    @property
    def reader(self) -> Callable[..., Any]:
        """`get_current_value`, whose signature names the extras that it reads, or an `update` of its own."""
        return super().reader or type(self).get_current_value

    def contribution(self, batch: Outputs) -> Sums:
        """Return the weighted sum and the weight of the batch, 0-d float64, or plain numbers on the CPU.

        Raises:
            MetricInputError: the measured values or weights do not have one entry per row.
        """
        measured = mask_unknown_labels(self.measure(batch), batch.known)
        return weighed(measured, batch.target, batch.weight, self.name)

    def row_values(self, batch: Outputs) -> RowValues | None:
        """Return the value and weight of each row; None if the metric has one value for the whole batch."""
        if overrides_update(self):
            return None
        return weighed_rows(mask_unknown_labels(self.measure(batch), batch.known), batch.target, self.name)

    def observe(self, batch: Outputs) -> None:
        """Add a batch, and store whether `get_current_value` alone can measure the next one like it."""
        if overrides_update(self):
            with self.avg.of(batch):
                super().observe(batch)
            return
        super().observe(batch)
        own, statistics = type(self), list(self._buffered_statistics.values())
        means = [mean for mean in statistics if isinstance(mean, WeightedMean) and not mean.regroups]
        plain = own.measure is MeanMetric.measure and own.contribution is MeanMetric.contribution
        passed = batch.given.get(self.inputs)
        lean = plain and len(means) == len(statistics) == 1 and batch[self.inputs] is passed
        self._lean = means[0] if lean else None

    def _add_similar(self, tensors: Mapping[Any, Any]) -> bool:
        """Measure a batch like the one before at once, as it may be refused, but without `Outputs`."""
        buffer = self._batch_buffer
        if self._lean is None or buffer is None or torch.is_inference_mode_enabled():
            return super()._add_similar(tensors)
        if not buffer.is_similar(tensors):
            return False
        preds, target = (outside_of_autograd(tensors[name]) for name in (self.inputs, "target"))
        with torch.no_grad():
            sums = weighed(self.get_current_value(preds, target), target, None, self.name)
        self._lean.take(sums)
        return True


LudwigMetric = Metric
