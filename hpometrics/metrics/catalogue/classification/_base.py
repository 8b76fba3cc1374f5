"""Base classes of metrics over confusion counts, with averages over classes, labels or rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal, TypeVar, get_args

import torch
from torch import Tensor

from ....direction import MINIMIZE
from ....exceptions import MetricNameError
from ...batch import Outputs
from ...features import BINARY, CATEGORY, PREDICTIONS, SEQUENCE, SET
from ...metric import Metric
from ...registry.register import register_metric
from ...statistics.confusion import ClassTotals, Confusion, Counts, confusion_of
from ...statistics.statistic import Statistic
from ...statistics.totals import WeightedMean

Average = Literal["micro", "macro", "weighted", "none"]
BinaryAverage = Literal["binary", "micro", "macro", "weighted"]
SetAverage = Literal["micro", "macro", "weighted", "samples", "none"]

R = TypeVar("R", bound="Ratio")

_FACTS = ("num_classes", "num_labels", "vocab_size")
_WIDE = 4096  # with more classes, a confusion matrix takes more memory than most epochs


class ConfusionMetric(Metric):
    """Base class of metrics that are computed from confusion counts.

    For a sequence, and for a category with very many classes, it keeps the totals of each class instead of a
    matrix, unless the metric reads which class was mistaken for which.
    """

    inputs = PREDICTIONS
    family: ClassVar[str] = "confusion"
    reads_matrix: bool = False

    def statistics(self) -> dict[str, Statistic]:
        """Return the confusion counts of the output."""
        return {"confusion": ClassTotals() if self._keeps_totals else confusion_of(self.output)}

    @property
    def expects(self) -> frozenset[str]:  # type: ignore[override]  # it depends on the output
        """The predicted classes, if all of a batch are counted together."""
        return frozenset({"largest"} if self._keeps_totals else ())

    @property
    def _keeps_totals(self) -> bool:
        classes = getattr(self.output, "num_classes", None) or 0
        wide = self.output.type == CATEGORY and classes > _WIDE and not self.reads_matrix
        return wide or self.output.type == SEQUENCE

    @property
    def matrix(self) -> Tensor:
        """The confusion matrix, float64 (C, C); rows are targets."""
        return self.statistic(Confusion).matrix

    @property
    def counts(self) -> Counts:
        """The confusion counts per class or label."""
        statistic: Any = self.kept["confusion"]
        counts: Counts = statistic.counts
        return counts


class Ratio(ConfusionMetric):
    """Base class of ratios of counts per class; a subclass defines numerator and denominator in `parts`.

    Exactly one of the two parameters must be given. `average=micro` pools the counts of all classes, `macro`
    averages the ratios of the classes that occur in target or predictions, `weighted` weighs them by their
    rows in the target, `none` returns one value per class; for a set, `samples` averages the ratios of the
    rows. In an average a denominator of 0 counts as the worst value, as in scikit-learn, and a class that
    does not occur is left out (with `none`, it is nan), except a label of a set that has a denominator above
    0, such as that of a specificity. `class=3` is the ratio of that class alone, undefined where its
    denominator is 0; without parameters, a binary output has the ratio of class 1.

    Shape:
        preds, target: (N,) int, or (N, L) of 0 and 1 of a set.

    Raises:
        MetricNameError: average and class are both given, or neither.
    """

    one_of: ClassVar[tuple[str, ...]] = ("average", "class")
    averages: ClassVar[tuple[str, ...]] = get_args(Average)
    word: ClassVar[str]
    needs: ClassVar[str]
    Binary: ClassVar[type[Metric]]
    Set: ClassVar[type[Metric]]

    def __init__(self, *, average: Average | None = None, class_: int | None = None) -> None:
        super().__init__()
        self.average: str | None = average
        self.class_ = class_
        self._check_choice()

    def parts(self, counts: Counts) -> tuple[Tensor, Tensor]:
        """Return the numerator and denominator per class, label or row."""
        raise NotImplementedError(f"{type(self).__name__} needs parts(counts)")

    def ratios(self, counts: Counts) -> Tensor:
        """Return the ratios; where the denominator is 0, the worst value."""
        numerator, denominator = self.parts(counts)
        worst = 1.0 if self.direction is MINIMIZE else 0.0
        return (numerator / denominator).masked_fill_(~(denominator > 0), worst)

    def statistics(self) -> dict[str, Statistic]:
        """Return the confusion counts or, for `average=samples`, the sum of the ratios of the rows."""
        sizes: list[int | None] = [getattr(self.output, fact, None) for fact in _FACTS]
        for size in filter(None, sizes):
            if self.class_ is not None and self.class_ >= size:
                raise MetricNameError(f"{self.name}: {self.output} has classes 0 to {size - 1}")
        if self.average == "samples":
            return {"rows": WeightedMean(self.name, self._sum_over_rows)}
        return super().statistics()

    def compute(self) -> Tensor:
        """Return the ratio of one class or the average; nan with a reason where the denominator is 0."""
        if self.class_ is not None:
            return self._of_class(self.class_)
        if self.average == "samples":
            rows = self.statistic(WeightedMean)
            return rows.total / rows.weight if rows.weight > 0 else self.undefined("no rows were counted")
        counts = self.counts.pooled() if self.average == "micro" else self.counts
        ratios, counted = self.ratios(counts), self._counted(counts)
        if self.average == "none":
            return torch.where(counted, ratios, torch.nan)
        weight, needs = counted.double(), self.needs
        if self.average == "weighted":
            weight, needs = counts.support, "row whose target is positive"
        total = weight.sum()
        return ratios @ weight / total if total.item() > 0 else self.undefined(f"there is no {needs}")

    def _counted(self, counts: Counts) -> Tensor:
        """Return which classes an average includes: those that occur, and labels that have a denominator."""
        pooled = self.average == "micro" or self.output.type == SET
        return counts.present | (self.parts(counts)[1] > 0) if pooled else counts.present

    def _of_class(self, index: int) -> Tensor:
        counts = self.counts
        if index < len(counts.tp):
            numerator, denominator = (part[index] for part in self.parts(counts))
            if denominator > 0:
                return numerator / denominator
            if counts.present[index] or self.output.type == BINARY:
                return self.undefined(f"there is no {self.needs}")
        return self.undefined(f"class {index} occurs neither in target nor predictions")

    def _sum_over_rows(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        ratios = self.ratios(batch.block("row_counts", _row_counts))
        weight = torch.ones_like(ratios) if batch.weight is None else batch.weight
        return ratios @ weight, weight.sum()

    def _check_choice(self) -> None:
        choices = [value for value in (self.average, self.class_) if value is not None]
        if len(choices) != 1:
            raise MetricNameError(
                f"{self.word} needs exactly one of average= ({', '.join(self.averages)}) and class=, as in "
                f"{self.word}(average=macro) or {self.word}(class=0); got {'both' if choices else 'neither'}"
            )
        if self.average is not None and self.average not in self.averages:
            raise MetricNameError(
                f"{self.word}: average must be one of {', '.join(self.averages)}, got {self.average!r}"
            )
        if self.class_ is not None and self.class_ < 0:
            raise MetricNameError(
                f"{self.word}: class must be a class index of at least 0, got {self.class_}"
            )


class BinaryRatio(Ratio):
    """The ratio of class 1 of a binary output, of another class, or averaged over both."""

    one_of: ClassVar[tuple[str, ...]] = ()
    averages: ClassVar[tuple[str, ...]] = get_args(BinaryAverage)

    def __init__(self, *, average: BinaryAverage = "binary", class_: int | None = None) -> None:
        super().__init__(average=average, class_=class_)  # type: ignore[arg-type]  # more choices

    def compute(self) -> Tensor:
        """Return the ratio of class 1 unless the parameters request another."""
        requested = self.class_ is not None or self.average != "binary"
        return super().compute() if requested else self._of_class(1)

    def _check_choice(self) -> None:
        if self.class_ is None or self.average != "binary":
            super()._check_choice()
        elif self.class_ not in (0, 1):
            raise MetricNameError(
                f"{self.word}: a binary output has classes 0 and 1, got class={self.class_}"
            )


class SetRatio(Ratio):
    """The ratio of one label of a set, or averaged over labels or rows."""

    averages: ClassVar[tuple[str, ...]] = get_args(SetAverage)

    def __init__(self, *, average: SetAverage | None = None, class_: int | None = None) -> None:
        super().__init__(average=average, class_=class_)  # type: ignore[arg-type]  # more choices


def register_ratio(
    name: str, aliases: Mapping[str, str] | Iterable[str] = (), *, tokens: bool = False
) -> Callable[[type[R]], type[R]]:
    """Register a ratio under one name for binary, category and set outputs, which differ in `average` only.

    The decorated class serves a category; its attributes `Binary` and `Set` are subclasses made from it.

    Args:
        name: the registered name; `name_macro` and the other averages become aliases, as in scikit-learn.
        aliases: other names, as a list or as a mapping from each to its meaning.
        tokens: whether to register it as `token_name` for a sequence as well.
    """

    def register(cls: type[R]) -> type[R]:
        cls.word = name
        register_metric(name, [CATEGORY], aliases=_aliases(name, cls, aliases))(cls)
        if tokens:
            register_metric(f"token_{name}", [SEQUENCE], aliases=_aliases(f"token_{name}", cls))(cls)
        for label, base, feature in (("Binary", BinaryRatio, BINARY), ("Set", SetRatio, SET)):
            location = {"__module__": cls.__module__, "__qualname__": f"{cls.__qualname__}.{label}"}
            subclass = type(label, (base, cls), {**location, "__doc__": cls.__doc__})
            setattr(cls, label, subclass)
            register_metric(name, [feature], aliases=_aliases(name, base, aliases))(subclass)
        return cls

    return register


def averages(name: str, choices: Iterable[str] = ("micro", "macro", "weighted")) -> dict[str, str]:
    """Return the aliases of an averaged metric: `f1_macro` for `f1(average=macro)`, as in scikit-learn."""
    return {f"{name}_{average}": f"{name}(average={average})" for average in choices}


def _aliases(name: str, cls: type[Ratio], others: Mapping[str, str] | Iterable[str] = ()) -> dict[str, str]:
    aliases = dict(others) if isinstance(others, Mapping) else dict.fromkeys(others, name)
    return averages(name, (a for a in cls.averages if a not in ("none", "binary"))) | aliases


def check_beta(name: str, beta: float) -> float:
    """Check that an F-beta score's beta is positive, and return it.

    Raises:
        MetricNameError: it is not above 0.
    """
    if not beta > 0:
        raise MetricNameError(f"{name}: beta must be a number above 0, got {beta:g}")
    return beta


def _row_counts(batch: Outputs) -> Counts:
    predicted, right = batch.label_flags
    tp, positives, actual = (flags.sum(1).double() for flags in (predicted * right, predicted, right))
    labels = predicted.shape[1] if batch.known is None else batch.known.sum(1)
    return Counts(tp, positives - tp, actual - tp, labels - positives - actual + tp)
