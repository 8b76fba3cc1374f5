"""Wrapper: a torchmetrics class as one of our metrics, with our facts, our state and our refusals."""

from __future__ import annotations

import importlib
import inspect
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
import torchmetrics
from torch import Tensor
from torchmetrics.utilities.data import dim_zero_sum

from ....exceptions import MetricInputError, MissingExtraError, missing_extra
from ..._device import number, runs_ahead
from ...batch import Outputs
from ...features import CATEGORY, CLUSTERS, IMAGE, MASK, OutputFeature
from ...metric import Metric
from ...statistics.statistic import SUM, Kept, Statistic, Taken
from ..regression._extras import check_finite
from ._packing import Given, given_by, pack, unpack
from ._row import Row
from .images import check_range, range_rule

_SUMS = f"{SUM}states"


def read_states(inner: torchmetrics.Metric, wide: bool) -> Taken:
    """Give its sums as one float64 tensor, and each of its lists as one; wide lists are float64 as well."""
    sums = [getattr(inner, name).double().flatten() for name in _sums_in(inner)]
    lists = {name: getattr(inner, name) for name, kept in inner._defaults.items() if isinstance(kept, list)}
    joined = {f"list {name}": _joined(values) for name, values in lists.items() if values}
    taken = {name: value.double() if wide else value for name, value in joined.items()}
    return {**({_SUMS: torch.cat(sums)} if sums else {}), **taken}


def write_states(inner: torchmetrics.Metric, states: Taken) -> None:
    """Put what `read_states` gave, added up or joined, into an empty object."""
    for name, value in states.items():
        if name.startswith("list "):
            setattr(inner, name.removeprefix("list "), [value])
    names = _sums_in(inner)
    held = [getattr(inner, name) for name in names]
    sums = torch.split(states[_SUMS], [like.numel() for like in held]) if held else ()
    for name, like, value in zip(names, held, sums, strict=True):
        setattr(inner, name, value.reshape(like.shape).to(like.dtype))
    inner._update_count, inner._computed = 1, None


def _sums_in(inner: torchmetrics.Metric) -> list[str]:
    return [
        name
        for name, reduction in inner._reductions.items()
        if reduction is dim_zero_sum and isinstance(getattr(inner, name), Tensor)
    ]


def _joined(values: list[Tensor]) -> Tensor:
    return torch.cat([value if value.ndim else value[None] for value in values])


_REFUSALS = (ValueError, TypeError, RuntimeError, IndexError, AssertionError)  # what torchmetrics raises
_MEANINGLESS = re.compile(r"meaningless|[Nn]o (positive|negative)")
_BEYOND = f"{SUM}beyond the range"
_FACTS = ("num_classes", "num_labels", "num_outputs")


class Reference(Metric):
    """A torchmetrics class under our facts; its subclasses are made of the rows of the tables.

    What the class keeps in sums is added up batch by batch in float64; where it keeps anything else, the rows
    themselves are kept, shared by all such metrics of a collection, and measured once.
    """

    row: ClassVar[Row]
    defaults: ClassVar[Mapping[str, Any]] = {}

    def __init__(self, **params: Any) -> None:
        super().__init__()
        if missing := self.row.missing_packages:
            raise missing_extra(self.row.name, " and ".join(missing), self.row.requires)
        self.params = {**self.defaults, **params}
        self.__dict__.update(self.params)
        self._inner: list[tuple[int | None, torchmetrics.Metric]] = []  # in a list: it is no submodule

    def statistics(self) -> dict[str, Statistic]:
        """Keep the sums of the class, or the rows; beside rows, those that the class was tried on."""
        row = self.row
        if row.keeps == "states":
            return {"states": Kept(f"states of {self.name}", self._states_of)}
        read = ", ".join([row.inputs, *row.extras, *row.optional])
        return {
            "tried": Kept(f"rows that {self.name} took", self._tried),
            "rows": Kept(f"rows of {read}", _Rows(row)),
        }

    def compute(self) -> Tensor:
        """Let the class compute; what it cannot measure is undefined, with its reason."""
        if (void := self._why_void()) is not None:
            return self.undefined(void)
        try:
            with _quiet() as caught:
                result = self._measured().compute()
                value = self._one_of(result)
        except MetricInputError:
            raise
        except _REFUSALS as err:
            return self.undefined(f"torchmetrics cannot measure it: {_first_line(err)}")
        told = [str(warning.message) for warning in caught]
        meaningless = next((text for text in told if _MEANINGLESS.search(text)), None)
        if value.numel() > 1:
            return value
        if self.row.sentinel is not None and value == self.row.sentinel[0]:
            return self.undefined(self.row.sentinel[1])
        if value.isnan() or meaningless:
            return self.undefined(meaningless or "torchmetrics gives nan for these rows")
        return value

    def build(self, classes: int | None = None) -> torchmetrics.Metric:
        """Make the object of the torchmetrics class that measures this output.

        Raises:
            MissingExtraError: the installed torchmetrics lacks the class, or one of its arguments.
        """
        name = self.row.class_name(self.output.type)
        try:
            cls = getattr(importlib.import_module(f"torchmetrics.{self.row.module}"), name)
        except (ModuleNotFoundError, AttributeError) as err:
            raise self._too_old(name) from err
        renamed = {self.row.renamed.get(name, name): value for name, value in self.params.items()}
        renamed.pop("component", None)
        if "average" not in inspect.signature(cls).parameters:  # a binary class has none
            renamed.pop("average", None)
        try:
            made = self.row.make(cls, {**self._facts(cls, classes), **renamed})
        except (TypeError, ValueError) as err:
            if "nexpected keyword" not in str(err):
                raise
            raise self._too_old(f"an argument of {name}") from err
        made._to_sync = False  # the rows of all ranks are gathered before it sees them
        return made.set_dtype(torch.float64) if self.row.wide else made

    def _too_old(self, what: str) -> MissingExtraError:
        return MissingExtraError(
            f"{self.name} needs {what}, which torchmetrics {torchmetrics.__version__} does not have: "
            "pip install -U torchmetrics"
        )

    def _facts(self, cls: type, classes: int | None) -> dict[str, Any]:
        wanted = inspect.signature(cls).parameters
        known = {name: value for name, value in self.row.fixed.items() if name in wanted}
        for name in _FACTS:
            if name in wanted and classes is not None:
                known[name] = classes
            elif name in wanted and name == "num_classes":
                raise MetricInputError(
                    f"{self.name} needs the number of classes, as in {self.output.type}({name}=3)"
                )
        ignored = getattr(self.output, "ignore_index", None)
        if self.row.keeps_ignored and ignored is not None and "ignore_index" in wanted:
            known["ignore_index"] = ignored
        return known

    def _ready(self, classes: int | None, device: torch.device) -> torchmetrics.Metric:
        """An empty object of the class, made once."""
        if not self._inner or self._inner[0][0] != classes:
            self._inner = [(classes, self.build(classes))]
        inner = self._inner[0][1]
        if inner.device != device:
            inner.to(device, non_blocking=runs_ahead(device))
        inner.reset()
        return inner

    def _fed(self, given: Given, classes: int | None) -> torchmetrics.Metric:
        """The class, having measured what was given."""
        inner = self._ready(classes, _device_of(given))
        self.row.feed(inner, _cast(given, self.row.wide, self.row.reads_signals))
        return inner

    def _given(self, batch: Outputs) -> Given:
        missing = [name for name in self.row.extras if batch.extras.get(name) is None]
        if missing:
            wanted, lacking = (
                ", ".join(f"{name}=" for name in names) for names in (self.row.extras, missing)
            )
            raise MetricInputError(
                f"{self.name} reads {wanted} beside predictions and target; {lacking} is missing"
            )
        if batch.feature.type == MASK and batch.has_target and not bool(batch.counted.all()):
            raise MetricInputError(
                f"{self.name} cannot leave out pixels; it is measured without ignore_index"
            )
        given = given_by(batch, self.row.inputs, (*self.row.extras, *self.row.optional))
        for name, value in (("predictions", given.preds), *given.extras.items()):
            if len(value) != len(batch):
                raise MetricInputError(f"{self.name}: the target has {len(batch)} rows, {name} {len(value)}")
            if name in given.extras and isinstance(value, Tensor):
                check_finite(self, name, value)
        return given

    def _beyond(self, batch: Outputs) -> Taken:
        """How many kinds of pictures of a batch are wider than the range that is read; `compute` reads it."""
        if batch.feature.type != IMAGE:
            return {}
        found = check_range(self.row, self.params, batch)
        return {} if found is None else {_BEYOND: found}

    def _refusing(self, batch: Outputs) -> torchmetrics.Metric:
        """Feed the class one batch.

        Raises:
            MetricInputError: torchmetrics refuses it.
        """
        given = self._given(batch)
        classes = _stated_classes(self.output) or batch.num_classes or _shown_classes(given)
        if classes is None and self.row.keeps == "rows":
            classes = _counted_classes(given, self.output)
        try:
            with _quiet():
                return self._fed(given, classes)
        except MetricInputError:
            raise
        except _REFUSALS as err:
            raise MetricInputError(f"{self.name} refused the batch: {_first_line(err)}") from err

    def _tried(self, batch: Outputs) -> Taken:
        beyond = self._beyond(batch)
        self._refusing(batch)
        return {**beyond, f"{SUM}rows": number(len(batch), batch.target, torch.int64)}

    def _states_of(self, batch: Outputs) -> Taken:
        beyond = self._beyond(batch)
        inner = self._refusing(batch)
        classes = self._inner[0][0]
        shown = {} if classes is None else {"classes": number(classes, batch.target, torch.int64).view(1)}
        return {**shown, **beyond, **read_states(inner, self.row.wide)}

    def _measured(self) -> torchmetrics.Metric:
        """The class, in the state of everything measured."""
        if self.row.keeps == "rows":
            given = unpack(self.statistic(Kept, "rows").tensors)
            shown = _stated_classes(self.output) or _shown_classes(given)
            return self._fed(given, shown or _counted_classes(given, self.output))
        tensors = self.statistic(Kept, "states").tensors
        classes = int(tensors["classes"].max()) if "classes" in tensors else None
        inner = self._ready(classes, next(iter(tensors.values())).device)
        write_states(inner, tensors)
        return inner

    def _why_void(self) -> str | None:
        checked = self.statistic(Kept, "states" if self.row.keeps == "states" else "tried").tensors
        if _BEYOND in checked and bool(checked[_BEYOND]):
            return f"{range_rule(self.row, self.params)}, and some were of a wider range"
        if self.row.void is None:
            return None
        return self.row.void(unpack(self.statistic(Kept, "rows").tensors), self.params)

    def _one_of(self, result: Any) -> Tensor:
        """Take the component of a result that is its value.

        Raises:
            MetricInputError: it has several numbers and none of them was chosen.
        """
        chosen = self.params.get("component")
        first = () if chosen is None else (self.row.entries.get(chosen, chosen),)
        for step in (*first, *self.row.component):
            result = _STEPS[step](result) if step in _STEPS else result[step]
        value = torch.as_tensor(result).detach().double()
        if value.numel() > 1 and self.params.get("average") != "none":
            raise MetricInputError(f"{self.name} gives values of shape {tuple(value.shape)}")
        return value.reshape(()) if value.numel() == 1 else value


class _Rows:
    """Packs the rows of a batch; a class, so that it can be pickled."""

    def __init__(self, row: Row) -> None:
        self.inputs, self.extras = row.inputs, (*row.extras, *row.optional)

    def __call__(self, batch: Outputs) -> Taken:
        return pack(given_by(batch, self.inputs, self.extras))


def _mean(result: Tensor) -> Tensor:
    value = result.double()
    return value[~value.isnan()].mean()


def _least(result: Mapping[str, Tensor]) -> Tensor:
    return torch.stack([value.double() for value in result.values()]).min()


_STEPS: dict[Any, Callable[[Any], Tensor]] = {"mean": _mean, "least": _least}


@contextmanager
def _quiet() -> Iterator[list[warnings.WarningMessage]]:
    """Catch warnings, and give the random numbers that a class draws on the CPU the same seed each time."""
    with warnings.catch_warnings(record=True) as caught, torch.random.fork_rng(devices=[]):
        warnings.simplefilter("always")
        torch.default_generator.manual_seed(0)  # `torch.manual_seed` would seed a training's devices too
        yield caught


def _stated_classes(output: OutputFeature) -> int | None:
    facts = ("num_classes", "num_labels", "size", "horizon", "vocab_size")
    return next((value for fact in facts if (value := getattr(output, fact, None)) is not None), None)


def _shown_classes(given: Given) -> int | None:
    """The number of columns of scores, labels or values."""
    shown = given.preds if isinstance(given.preds, Tensor) else None
    return shown.shape[1] if shown is not None and shown.ndim == 2 else None


def _counted_classes(given: Given, output: OutputFeature) -> int | None:
    """The number of classes that the labels of a category, mask or clusters show."""
    if output.type not in (CATEGORY, CLUSTERS, MASK):
        return None
    return int(max(given.preds.max(), given.target.max())) + 1


def _device_of(given: Given) -> torch.device:
    found = next((x for x in (given.preds, given.target) if isinstance(x, Tensor)), None)
    return torch.device("cpu") if found is None else found.device


def _cast(given: Given, wide: bool, signals: bool) -> Given:
    """Widen the tensors, which may stand in lists and mappings."""

    def cast(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.to(_widened(value.dtype, wide, signals))
        if isinstance(value, dict):
            return {key: cast(entry) for key, entry in value.items()}
        return [cast(entry) for entry in value] if isinstance(value, list) else value

    return Given(cast(given.preds), cast(given.target), {key: cast(x) for key, x in given.extras.items()})


def _widened(dtype: torch.dtype, wide: bool, signals: bool) -> torch.dtype:
    """Give the type to measure in: whole numbers of a signal would wrap around, others are classes."""
    if dtype.is_complex or (dtype is torch.bool and not signals):
        return dtype
    if not (signals or dtype.is_floating_point):
        return torch.int64
    if wide:
        return torch.float64
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


def _first_line(err: Exception) -> str:
    return str(err).strip().partition("\n")[0] or type(err).__name__
