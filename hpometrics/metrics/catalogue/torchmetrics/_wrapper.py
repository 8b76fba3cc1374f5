"""Wrap a torchmetrics class as a metric with a direction, mergeable state and checked inputs.

Rows of any kind are stored, merged, saved and moved as plain tensors: texts become their UTF-8 bytes and
lengths; mappings (the boxes of a picture) become the rows of each entry and their number.
"""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import accumulate, pairwise
from typing import Any, ClassVar

import numpy as np
import torch
import torchmetrics
from torch import Tensor
from torchmetrics.utilities.data import dim_zero_sum

from ....exceptions import MetricInputError, MissingExtraError, missing_extra
from ..._device import number, on_host, runs_ahead
from ..._state import disable_sync, reductions_of, set_update_count
from ...aggregation import RowValues, weighed_rows
from ...batch import Outputs, as_tensor
from ...features import CATEGORY, CLUSTERS, IMAGE, MASK, TEXT, InputType, OutputFeature
from ...metric import Metric
from ...statistics.statistic import SUM, Kept, NamedTensors, Statistic, Sums
from ..regression.errors import check_finite
from ._row import MetricInputs, Row, widened
from .images import check_range, range_rule

_SUMS = f"{SUM}states"
_OUT_OF_RANGE = f"{SUM}beyond the range"
REFUSALS = (ValueError, TypeError, RuntimeError, IndexError, AssertionError)  # what torchmetrics raises
_MEANINGLESS = re.compile(r"meaningless|[Nn]o (positive|negative)")
_FACTS = ("num_classes", "num_labels", "num_outputs")


def read_states(inner: torchmetrics.Metric, wide: bool, pieces: bool = False) -> NamedTensors:
    """Return the sums as one float64 tensor and each list as one tensor, in float64 if `wide`.

    With `pieces` the sizes of the tensors in a list are returned as well, and their types do not change.
    """
    sums = [getattr(inner, name).double().flatten() for name in _sums_in(inner)]
    lists = {name: state for name, state in inner.metric_state.items() if isinstance(state, list)}
    if pieces:
        return {part: x for name, parts in lists.items() if parts for part, x in _packed(name, parts).items()}
    tensors = {f"list {name}": _join(values) for name, values in lists.items() if values}
    tensors = {name: value.double() if wide else value for name, value in tensors.items()}
    return {**({_SUMS: torch.cat(sums)} if sums else {}), **tensors}


def write_states(inner: torchmetrics.Metric, states: NamedTensors) -> None:
    """Write the states that `read_states` returned, added up or concatenated, to an empty object."""
    for name, value in states.items():
        if name.startswith("list "):
            setattr(inner, name.removeprefix("list "), [value])
        elif name.startswith("rows of "):
            key = name.removeprefix("rows of ")
            setattr(inner, key, list(torch.split(value, states[f"sizes of {key}"].tolist())))
    names = _sums_in(inner)
    templates = [getattr(inner, name) for name in names]
    sums = torch.split(states[_SUMS], [like.numel() for like in templates]) if templates else ()
    for name, like, value in zip(names, templates, sums, strict=True):
        setattr(inner, name, value.reshape(like.shape).to(like.dtype))
    set_update_count(inner, 1)


def _sums_in(inner: torchmetrics.Metric) -> list[str]:
    return [
        name
        for name, reduction in reductions_of(inner).items()
        if reduction is dim_zero_sum and isinstance(getattr(inner, name), Tensor)
    ]


def _join(values: list[Tensor]) -> Tensor:
    return torch.cat([value if value.ndim else value[None] for value in values])


class Reference(Metric):
    """Base class of metrics from torchmetrics; its subclasses are created from the rows of the tables.

    Sums in the state of the class are added up batch by batch in float64; where it has other states, the rows
    themselves are stored, shared by all such metrics of a collection, and measured once.
    """

    row: ClassVar[Row]
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **params: Any) -> None:
        super().__init__()
        if missing := self.row.missing_packages:
            raise missing_extra(self.row.name, " and ".join(missing), self.row.requires)
        self.params = {**self.defaults, **params}
        self.__dict__.update(self.params)
        self._inner: list[
            tuple[int | None, torchmetrics.Metric]
        ] = []  # in a list, so that it is not a submodule
        self._empty: dict[str, Any] | None = None  # the states of the object without rows

    def statistics(self) -> dict[str, Statistic]:
        """Return the sums of the class, or the rows, each batch of which the class must accept."""
        row = self.row
        name = f"states of {self.name}"
        if row.sums is not None:
            return {"states": Sums(name, self._states_of, self._numbers_of, _state_of_sums)}
        if row.keeps != "rows":
            return {"states": Kept(name, self._states_of)}
        read = ", ".join([row.inputs, *row.extras, *row.optional])
        return {
            "tried": Kept(f"rows that {self.name} accepted", self._check_rows),
            "rows": Kept(f"rows of {read}", _Rows(row)),
        }

    def values_by_row(self, batch: Outputs) -> RowValues | None:
        """Return the value of each row, as `row_values` of a class that can compute them at once."""
        if self.row.by_row is None or not on_host(batch.target):
            return None
        self._out_of_range(batch)
        values = self.row.by_row(self._inputs_of(batch), self.params)
        return None if values is None else weighed_rows(values, batch.target, self.name)

    def compute(self) -> Tensor:
        """Return the value of the class; nan with a reason where it cannot be measured."""
        if (reason := self._void_reason()) is not None:
            return self.undefined(reason)
        try:
            with _quiet(self.row) as caught:
                value = self._value_of_sums()
                if value is None:
                    value = self._select_component(self._restored_inner().compute())
        except MetricInputError:
            raise
        except REFUSALS as err:
            return self.undefined(f"torchmetrics cannot measure it: {_first_line(err)}")
        messages = [str(warning.message) for warning in caught]
        meaningless = next((text for text in messages if _MEANINGLESS.search(text)), None)
        if value.numel() > 1:
            return value
        if self.row.sentinel is not None and value == self.row.sentinel[0]:
            return self.undefined(self.row.sentinel[1])
        if value.isnan() or meaningless:
            return self.undefined(meaningless or "torchmetrics returns nan for these rows")
        return value

    def build(self, classes: int | None = None) -> torchmetrics.Metric:
        """Create the object of the torchmetrics class that measures this output.

        Raises:
            MissingExtraError: the installed torchmetrics lacks the class, or one of its arguments.
        """
        name = self.row.class_name(self.output.type)
        try:
            cls = getattr(importlib.import_module(f"torchmetrics.{self.row.module}"), name)
        except (ModuleNotFoundError, AttributeError) as err:
            raise self._too_old(name) from err
        arguments = {self.row.argument_names.get(name, name): value for name, value in self.params.items()}
        arguments.pop("component", None)
        if "average" not in inspect.signature(cls).parameters:  # a binary class has none
            arguments.pop("average", None)
        try:
            inner = self.row.make(cls, {**self._facts(cls, classes), **arguments})
        except (TypeError, ValueError) as err:
            if "nexpected keyword" not in str(err):
                raise
            raise self._too_old(f"an argument of {name}") from err
        disable_sync(inner)  # it receives the rows of all ranks
        return inner.set_dtype(torch.float64) if self.row.wide else inner

    def _too_old(self, what: str) -> MissingExtraError:
        return MissingExtraError(
            f"{self.name} needs {what}, which torchmetrics {torchmetrics.__version__} does not have: "
            "pip install -U torchmetrics"
        )

    def _facts(self, cls: type, classes: int | None) -> dict[str, Any]:
        """Return the constructor arguments that follow from the row and the output."""
        parameters = inspect.signature(cls).parameters
        facts = {name: value for name, value in self.row.fixed.items() if name in parameters}
        for name in _FACTS:
            if name in parameters and classes is not None:
                facts[name] = classes
            elif name in parameters and name == "num_classes":
                raise MetricInputError(
                    f"{self.name} needs the number of classes, as in {self.output.type}({name}=3)"
                )
        ignored = getattr(self.output, "ignore_index", None)
        if self.row.keeps_ignored and ignored is not None and "ignore_index" in parameters:
            facts["ignore_index"] = ignored
        return facts

    def _empty_inner(self, classes: int | None, device: torch.device) -> torchmetrics.Metric:
        """Return an empty object of the class, which is created once."""
        if not self._inner or self._inner[0][0] != classes:
            self._inner = [(classes, self.build(classes))]
            self._empty = None
        inner = self._inner[0][1]
        if inner.device != device:
            inner.to(device, non_blocking=runs_ahead(device))
            self._empty = None
        if self._empty is None or type(inner).reset is not torchmetrics.Metric.reset:
            inner.reset()
            self._empty = dict(inner.metric_state)
        for name, value in self._empty.items():  # `reset` would pass each by the checks of a module
            vars(inner)[name] = value.clone() if isinstance(value, Tensor) else []
        return inner

    def _update_inner(self, inputs: MetricInputs, classes: int | None) -> torchmetrics.Metric:
        """Return the object of the class after an update with the inputs."""
        inner = self._empty_inner(classes, _device_of(inputs))
        self.row.feed(inner, widened(inputs, self.row.wide, self.row.reads_signals))
        return inner

    def _inputs_of(self, batch: Outputs) -> MetricInputs:
        """Return the inputs that the class reads from a batch, checked."""
        if missing := [name for name in self.row.extras if batch.extras.get(name) is None]:
            needed, lacking = (
                ", ".join(f"{name}=" for name in names) for names in (self.row.extras, missing)
            )
            raise MetricInputError(
                f"{self.name} needs {needed} beside predictions and target; {lacking} is missing"
            )
        if batch.feature.type == MASK and batch.has_target and not bool(batch.counted.all()):
            raise MetricInputError(f"{self.name} cannot ignore pixels; leave out ignore_index")
        inputs = read_inputs(batch, self.row.inputs, (*self.row.extras, *self.row.optional))
        for name, value in (("predictions", inputs.preds), *inputs.extras.items()):
            if len(value) != len(batch):
                raise MetricInputError(f"{self.name}: target has {len(batch)} rows, but {name} {len(value)}")
            if name in inputs.extras and isinstance(value, Tensor):
                check_finite(self, name, value)
        return inputs

    def _out_of_range(self, batch: Outputs) -> NamedTensors:
        """Count the kinds of pictures of a batch that exceed the range; `compute` reads the count."""
        if batch.feature.type != IMAGE:
            return {}
        count = check_range(self.row, self.params, batch)
        return {} if count is None else {_OUT_OF_RANGE: count}

    def _measure_batch(self, batch: Outputs) -> torchmetrics.Metric:
        """Return the object of the class after an update with one batch.

        Raises:
            MetricInputError: torchmetrics refuses it.
        """
        inputs = self._inputs_of(batch)
        classes = _num_classes(self.output) or batch.num_classes or _num_columns(inputs)
        if classes is None and self.row.keeps == "rows":
            classes = _count_classes(inputs, self.output)
        try:
            with _quiet(self.row):
                return self._update_inner(inputs, classes)
        except MetricInputError:
            raise
        except REFUSALS as err:
            raise MetricInputError(f"{self.name} rejected the batch: {_first_line(err)}") from err

    def _check_rows(self, batch: Outputs) -> NamedTensors:
        excess = self._out_of_range(batch)
        self._measure_batch(batch)
        return {**excess, f"{SUM}rows": number(len(batch), batch.target, torch.int64)}

    def _states_of(self, batch: Outputs) -> NamedTensors:
        excess = self._out_of_range(batch)
        inner = self._measure_batch(batch)
        classes = self._inner[0][0]
        count = {} if classes is None else {"classes": number(classes, batch.target, torch.int64).view(1)}
        return {**count, **excess, **read_states(inner, self.row.wide, self.row.keeps == "lists")}

    def _numbers_of(self, batch: Outputs) -> list[float] | None:
        """Return the sums of the class as plain numbers; None where only the class can measure a batch."""
        if self.row.sums is None or not on_host(batch.target):
            return None
        self._out_of_range(batch)
        return self.row.sums(MetricInputs(batch[self.row.inputs], batch.answer, {}), self.params)

    def _value_of_sums(self) -> Tensor | None:
        """Return the value that follows from the sums alone; None where only the class can compute it."""
        if self.row.of_sums is None:
            return None
        return self.row.of_sums(self.statistic(Kept, "states").tensors[_SUMS], self.params)

    def _restored_inner(self) -> torchmetrics.Metric:
        """Return the object of the class in the state of all rows."""
        if self.row.keeps == "rows":
            inputs = unpack(self.statistic(Kept, "rows").tensors)
            count = _num_classes(self.output) or _num_columns(inputs)
            return self._update_inner(inputs, count or _count_classes(inputs, self.output))
        tensors = self.statistic(Kept, "states").tensors
        classes = int(tensors["classes"].max()) if "classes" in tensors else None
        inner = self._empty_inner(classes, next(iter(tensors.values())).device)
        write_states(inner, tensors)
        return inner

    def _void_reason(self) -> str | None:
        tensors = self.statistic(Kept, "tried" if self.row.keeps == "rows" else "states").tensors
        if _OUT_OF_RANGE in tensors and bool(tensors[_OUT_OF_RANGE]):
            return f"{range_rule(self.row, self.params)}, and some had a wider range"
        if self.row.void is None:
            return None
        return self.row.void(unpack(self.statistic(Kept, "rows").tensors), self.params)

    def _select_component(self, result: Any) -> Tensor:
        """Return the component of a result that is its value.

        Raises:
            MetricInputError: it has several numbers and no component is chosen.
        """
        component = self.params.get("component")
        first = () if component is None else (self.row.entries.get(component, component),)
        for step in (*first, *self.row.component):
            result = _STEPS[step](result) if step in _STEPS else result[step]
        value = torch.as_tensor(result).detach().double()
        if value.numel() > 1 and self.params.get("average") != "none":
            raise MetricInputError(f"{self.name} returns values of shape {tuple(value.shape)}")
        return value.reshape(()) if value.numel() == 1 else value


class _Rows:
    """Packs the rows of a batch; it is a class so that it can be pickled."""

    def __init__(self, row: Row) -> None:
        self.inputs, self.extras = row.inputs, (*row.extras, *row.optional)

    def __call__(self, batch: Outputs) -> NamedTensors:
        return pack(read_inputs(batch, self.inputs, self.extras))


def _state_of_sums(numbers: list[float]) -> NamedTensors:
    """Return the state of plain sums of pictures, none of which exceeds the range."""
    return {_OUT_OF_RANGE: torch.tensor(0), _SUMS: torch.tensor(numbers, dtype=torch.float64)}


def _mean(result: Tensor) -> Tensor:
    value = result.double()
    return value[~value.isnan()].mean()


def _least(result: Mapping[str, Tensor]) -> Tensor:
    return torch.stack([value.double() for value in result.values()]).min()


_STEPS: dict[Any, Callable[[Any], Tensor]] = {"mean": _mean, "least": _least}


@contextmanager
def _quiet(row: Row) -> Iterator[list[warnings.WarningMessage]]:
    """Catch warnings, and seed the random numbers that a class draws on the CPU the same each time."""
    with warnings.catch_warnings(record=True) as caught, _seeded() if row.draws else nullcontext():
        warnings.simplefilter("always")
        yield caught


@contextmanager
def _seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(0)  # `torch.manual_seed` would seed a training's devices too
        yield


def _num_classes(output: OutputFeature) -> int | None:
    facts = ("num_classes", "num_labels", "size", "horizon", "vocab_size")
    return next((value for fact in facts if (value := getattr(output, fact, None)) is not None), None)


def _num_columns(inputs: MetricInputs) -> int | None:
    """Return the number of columns of scores, labels or values."""
    preds = inputs.preds if isinstance(inputs.preds, Tensor) else None
    return preds.shape[1] if preds is not None and preds.ndim == 2 else None


def _count_classes(inputs: MetricInputs, output: OutputFeature) -> int | None:
    """Count the classes in the labels of a category, mask or clusters."""
    if output.type not in (CATEGORY, CLUSTERS, MASK):
        return None
    return int(max(inputs.preds.max(), inputs.target.max())) + 1


def _device_of(inputs: MetricInputs) -> torch.device:
    tensor = next((x for x in (inputs.preds, inputs.target) if isinstance(x, Tensor)), None)
    return torch.device("cpu") if tensor is None else tensor.device


def _first_line(err: Exception) -> str:
    return str(err).strip().partition("\n")[0] or type(err).__name__


def read_inputs(batch: Outputs, inputs: InputType, extras: Sequence[str]) -> MetricInputs:
    """Return the inputs of a batch; for a text output passed as texts, the texts and their references."""
    values = {name: _plain(batch.extras[name]) for name in extras if name in batch.extras}
    if batch.feature.type == TEXT and inputs is InputType.PREDICTIONS:
        return MetricInputs(batch.texts, batch.references, values)
    return MetricInputs(batch[inputs], batch.answer, values)


def _plain(value: Any) -> Any:
    """Return an extra unchanged if it holds texts or mappings, else as a tensor."""
    return value if _is_records(value) else as_tensor(value)


def _is_records(value: Any) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and isinstance(value[0], (str, tuple, dict))


def pack(inputs: MetricInputs) -> NamedTensors:
    """Return the inputs as tensors, which are copies.

    Raises:
        MetricInputError: an extra does not have an entry per row.
    """
    packed = {**_pack_value("preds", inputs.preds), **_pack_value("target", inputs.target)}
    for name, value in inputs.extras.items():
        if len(value) != len(inputs.preds):
            raise MetricInputError(
                f"{name}= must have one entry per row, {len(inputs.preds)}; got {len(value)}"
            )
        packed |= _pack_value(f"extra {name}", value)
    return packed


def unpack(packed: NamedTensors) -> MetricInputs:
    """Return the inputs that `pack` packed."""
    roles: dict[str, dict[str, Tensor]] = {}
    for name, tensor in packed.items():
        role, _, part = name.partition("/")
        roles.setdefault(role, {})[part] = tensor
    values = {role: _unpack_value(parts) for role, parts in roles.items()}
    extras = {
        role.removeprefix("extra "): value for role, value in values.items() if role.startswith("extra ")
    }
    return MetricInputs(values["preds"], values["target"], extras)


def _pack_value(role: str, value: Any) -> NamedTensors:
    if not _is_records(value):
        return {f"{role}/": as_tensor(value).clone()}
    if isinstance(value[0], dict):
        return {f"{role}/{part}": tensor for part, tensor in _pack_mappings(value).items()}
    is_nested = isinstance(value[0], tuple)
    counts = {"counts": torch.tensor([len(texts) for texts in value])} if is_nested else {}
    texts = _pack_texts([text for texts in value for text in texts] if is_nested else list(value))
    return {f"{role}/{part}": tensor for part, tensor in {**texts, **counts}.items()}


def _pack_texts(texts: list[str]) -> NamedTensors:
    encoded = [text.encode("utf8", "surrogatepass") for text in texts]
    letters = torch.from_numpy(np.frombuffer(b"".join(encoded), dtype=np.uint8).copy())
    return {"letters": letters, "lengths": torch.tensor([len(text) for text in encoded])}


def _pack_mappings(rows: Sequence[Mapping[str, Any]]) -> NamedTensors:
    packed: NamedTensors = {}
    for key in rows[0]:
        if any(row.keys() != rows[0].keys() for row in rows):
            raise MetricInputError(
                f"every mapping of a batch must have the same keys; the first has {list(rows[0])}"
            )
        tensors = [as_tensor(row[key]) for row in rows]
        packed |= _packed(key, tensors)
    return packed


def _packed(key: str, tensors: Sequence[Tensor]) -> NamedTensors:
    """Return the rows of tensors as one, and how many each has."""
    sizes = torch.tensor([len(tensor) for tensor in tensors])
    return {f"rows of {key}": torch.cat(list(tensors)), f"sizes of {key}": sizes}


def _unpack_value(parts: NamedTensors) -> Any:
    if "" in parts:
        return parts[""]
    if "letters" not in parts:
        keys = [part.removeprefix("rows of ") for part in parts if part.startswith("rows of ")]
        sizes = {key: parts[f"sizes of {key}"].tolist() for key in keys}
        columns = {key: torch.split(parts[f"rows of {key}"], sizes[key]) for key in keys}
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    letters = parts["letters"].cpu().numpy().tobytes()
    ends = [0, *accumulate(parts["lengths"].tolist())]
    texts = [letters[start:end].decode("utf8", "surrogatepass") for start, end in pairwise(ends)]
    if "counts" not in parts:
        return texts
    places = [0, *accumulate(parts["counts"].tolist())]
    return [tuple(texts[start:end]) for start, end in pairwise(places)]
