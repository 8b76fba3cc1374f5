"""Compare models by a metric, row by row: from predictions in memory or in files, or from run directories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from string import ascii_lowercase
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from ...direction import Direction
from ...exceptions import ConfigError, NotKeptError
from ...metrics.features import OutputFeature, parse_feature
from ...metrics.registry.lookup import find_metric
from ...metrics.retrieval.comparison import Comparison, compare as compare_users
from ...metrics.retrieval.per_user import PerUser
from ...scoring.files import MEMORY
from ...scoring.prediction_sets import (
    PredictionSet,
    align,
    as_clusters,
    as_column,
    cluster_numbers,
    model_rows,
    read_row_values,
    read_sets,
)
from ...selection.intervals import Scale
from ...selection.model_comparison import Correction, ModelComparison, corrected_together
from ...selection.model_rows import ModelRows, compare_models
from ...selection.two_way import numbered
from ..rescoring import MetricRequest, parse_request
from .stored_trial import StoredTrial, fresh_models, scale_of

_LARGEST = 1e150  # whose square is a number too


@overload
def compare(
    a: PerUser,
    b: PerUser,
    metric: str,
    /,
    *,
    confidence: float = ...,
    resamples: int = ...,
    seed: int = ...,
) -> Comparison: ...


@overload
def compare(
    a: Any,
    b: Any,
    /,
    *more: Any,
    metric: str | None = ...,
    output: str | OutputFeature | None = ...,
    target: Any = ...,
    inputs: str | None = ...,
    by: Any = ...,
    sample_weight: Any = ...,
    direction: str | Direction | None = ...,
    names: Sequence[str] | None = ...,
    level: float = ...,
    equivalence: float = ...,
    every: bool = ...,
    correction: Correction = ...,
    test_share: float | None = ...,
) -> ModelComparison: ...


def compare(a: Any, b: Any, /, *more: Any, **options: Any) -> Comparison | ModelComparison:
    """Compare two models or more by one metric on the same rows.

    A model is what it predicts, as an array, a tensor or a list by row, beside the `target` of all; a mapping
    of several outputs by keyword, such as `{"logits": ..., "predictions": ...}`; a tuple of these, for
    several trainings of one model; a path: a file of predictions, a run directory (its pick), or
    `runs/x:34` (a trial of it). Two results of `per_user()` are compared user by user.

    Args:
        a: a model.
        b: another.
        more: further models; each is compared with the first.
        options: `metric`, and those of `compare_predictions` and `RowSource`; for two results of `per_user()`
            those of `hpometrics.metrics.retrieval.comparison.compare`.

    Raises:
        ConfigError: models cannot be compared, or an option is out of range.
        MetricInputError: the metric cannot be measured of what a model predicts.

    >>> target = [1, 1, 1, 1, 0, 0, 0, 0]
    >>> found = compare([1, 1, 1, 1, 0, 0, 0, 1], [1, 0, 0, 1, 1, 0, 1, 1], metric="accuracy",
    ...                 output="binary", target=target)
    >>> print(found)
    a 0.875, b 0.375   accuracy ^ on the same 8 rows
    difference 0.50 (95%: 0.13 .. 0.87), McNemar p = 0.12: no significant difference
    a is better on 4 rows, b on 0; the others are equal
    fewer than 10 rows differ, so the number of rows that would separate them is unknown
    """
    if isinstance(a, PerUser) and isinstance(b, PerUser):
        return compare_users(a, b, *more, **options)
    metric = options.pop("metric", None)
    return compare_predictions([a, b, *more], [] if metric is None else [metric], **options)[0]


def compare_predictions(
    models: Sequence[Any],
    metrics: Sequence[str] = (),
    *,
    names: Sequence[str] | None = None,
    level: float = 0.05,
    equivalence: float = 0.0,
    every: bool = False,
    correction: Correction = "holm",
    **source: Any,
) -> list[ModelComparison]:
    """Compare models on the same rows by each of some metrics, with all p-values corrected together.

    Args:
        models: two or more, see `compare`.
        metrics: their names; by default, the optimized one of run directories. Arrays without a metric are
            row values themselves, whose means are compared: scores of answers, say, or times.
        names: what the models are called; by default, a, b and so on, or the paths.
        level: of tests and intervals.
        equivalence: differences up to it do not count, in the metric's unit.
        every: compare every model with every other, not with the first alone.
        correction: of p-values of several pairs: `holm`, `bh` (Benjamini and Hochberg) or `raw`.
        source: the options of `RowSource`.

    Raises:
        ConfigError: models cannot be compared, or an option does not exist or is out of range.
        PredictionsError: a file cannot be read.
        MetricInputError: a metric cannot be measured of what a model predicts.
    """
    labels = _labels(models, names)
    groups = [list(model) if isinstance(model, tuple) else [model] for model in models]
    for label, group in zip(labels, groups, strict=True):
        _check_trainings(label, group)
    places = [label for label, group in zip(labels, groups, strict=True) for _ in group]
    trainings = [one for group in groups for one in group]
    comparisons = []
    for measured in _row_source(source).measure(trainings, places, list(dict.fromkeys(metrics))):
        parts = iter(measured.trainings)
        comparison = compare_models(
            [_joined(name, [next(parts) for _ in group]) for name, group in zip(labels, groups, strict=True)],
            metric=measured.metric,
            direction=measured.direction,
            level=level,
            equivalence=equivalence,
            every=every,
            correction=correction,
            clusters=measured.clusters,
            test_share=source.get("test_share"),
            scale=measured.scale,
            notes=measured.notes,
        )
        comparisons.append(comparison)
    return corrected_together(comparisons)


class _Measured(NamedTuple):
    """The row values of each training."""

    metric: str
    direction: Direction
    trainings: Sequence[ModelRows]
    clusters: NDArray[np.int64] | None = None
    notes: Sequence[str] = ()
    scale: Scale = Scale.IDENTITY


@dataclass(frozen=True)
class RowSource:
    """Where the rows of models come from, and what is measured of them.

    Args:
        output: the output of the models, such as `binary`.
        target: (n,) the right answers, of arrays.
        inputs: the keyword of `update` that the arrays are, such as `logits`; by default, what the metric
            reads: `predictions` for accuracy, `probabilities` for roc_auc. It is never guessed from values.
        by: (n,) the cluster of each row, such as its user or document; of files, the name of the column.
            Rows of one cluster are not independent.
        sample_weight: (n,) the weight of each row, of arrays.
        direction: of row values; a metric has its own.
        weights: the column of weights of files; by default, `sample_weight`.
        row_id: the column by which the rows of files are joined; by default, `id`.
        values: the column of files that holds row values, in place of a metric.
        test_share: says that row values are those of folds of one data set: how many rows a fold is measured
            on, for each row that it is trained on, such as 1 / 9 of ten folds.
        memory: the limit in GiB for columns of files that are read at once.
    """

    output: str | OutputFeature | None = None
    target: Any = None
    inputs: str | None = None
    by: Any = None
    sample_weight: Any = None
    direction: str | Direction | None = None
    weights: str | None = None
    row_id: str | None = None
    values: str | None = None
    test_share: float | None = None
    memory: float = MEMORY

    def measure(
        self, trainings: Sequence[Any], places: Sequence[str], metrics: Sequence[str]
    ) -> list[_Measured]:
        """Return the row values of trainings by each metric.

        Raises:
            ConfigError: they cannot be measured, or an option does not go with them.
        """
        are_paths = {isinstance(one, (str, Path)) for one in trainings}
        if are_paths == {True, False}:
            raise ConfigError("compare paths with paths, or arrays with arrays: a file has its own target")
        of_files = are_paths == {True}
        if metrics and self.values is not None:
            raise ConfigError("values names a column to compare in place of a metric; pass only one of them")
        reads_metric = bool(metrics) or (of_files and self.values is None)
        self._refuse(
            "applies to arrays; a file has its own columns", ["target", "inputs", "sample_weight"] * of_files
        )
        self._refuse("names a column of files", ["weights", "row_id", "values"] * (not of_files))
        self._refuse("applies to row values; a metric has its own", ["direction"] * reads_metric)
        self._refuse("applies to values per fold; a metric has rows", ["test_share"] * reads_metric)
        unread = ["output", "target", "inputs", "sample_weight", "weights"]
        self._refuse("needs a metric, and none is named", unread * (not reads_metric))
        if of_files and not isinstance(self.by, str | None):
            raise ConfigError("by must be the name of a column, as files have their own rows; got values")
        if not of_files:
            return self._arrays(trainings, places, metrics) if metrics else [self._row_values(trainings)]
        paths = [str(one) for one in trainings]
        return self._paths(paths, metrics) if reads_metric else [self._columns(paths)]

    def _refuse(self, why: str, names: Sequence[str]) -> None:
        """Raise if one of some options is given."""
        for name in names:
            if getattr(self, name) is not None:
                raise ConfigError(f"{name} {why}; remove it")

    def _read(
        self, paths: Sequence[str], metrics: Sequence[str], output: str | OutputFeature | None
    ) -> list[PredictionSet]:
        """Read files of predictions."""
        return read_sets(
            [Path(path) for path in paths],
            None if output is None else str(parse_feature(output)),
            metrics,
            weights=self.weights,
            by=self.by,
            row_id=self.row_id,
            memory=self.memory,
        )

    def _paths(self, paths: Sequence[str], metrics: Sequence[str]) -> list[_Measured]:
        """Measure files of predictions and trials of run directories."""
        runs = {path: StoredTrial.read(path) for path in paths if not Path(path).is_file()}
        if not runs and not metrics:
            raise ConfigError("a comparison of prediction files needs a metric; name one, such as accuracy")
        if runs:
            self._refuse(
                "names a column of files; the rows of a trial have none", ["weights", "by", "row_id"]
            )
            first = next(iter(runs.values())).resolved
            return [self._runs(paths, runs, parse_request(first, name)) for name in metrics or [first.metric]]
        return _measured(metrics, self._read(paths, metrics, self.output))

    def _runs(
        self, paths: Sequence[str], runs: Mapping[str, StoredTrial], request: MetricRequest
    ) -> _Measured:
        """Measure trials, which keep scores or the row values of one metric, and files beside them."""
        files = [path for path in paths if path not in runs]
        fresh, note = fresh_models([runs[path] for path in paths if path in runs], request, bool(files))
        notes = [note] if note else []
        if fresh:
            return _Measured(
                request.name, request.direction, fresh, None, notes, runs[paths[0]].scale(request)
            )
        kept = {path: run.predictions(request) for path, run in runs.items()}
        sets = {path: one for path, one in kept.items() if one is not None}
        if len(sets) < len(runs):
            if files:
                path = next(path for path in runs if path not in sets)
                raise NotKeptError(f"{path} has no stored scores, which a comparison with a file needs")
            rows = [runs[path].rows(request) for path in paths]
            scale = runs[paths[0]].scale(request)
            return _Measured(request.name, request.direction, rows, None, notes, scale)
        beside = next(iter(sets.values())).output if self.output is None else self.output
        sets |= dict(zip(files, self._read(files, [request.measured], beside), strict=True))
        (measured,) = _measured([request.measured], [sets[path] for path in paths])
        return measured._replace(metric=request.name, notes=[*measured.notes, *notes])

    def _arrays(
        self, models: Sequence[Any], places: Sequence[str], metrics: Sequence[str]
    ) -> list[_Measured]:
        """Measure what models predict, in memory."""
        if self.output is None or self.target is None:
            missing = (
                "output, such as output='binary'" if self.output is None else "target, the right answers"
            )
            raise ConfigError(f"a comparison of arrays needs {missing}")
        feature = parse_feature(self.output)
        keyword = self.inputs or str(find_metric(metrics[0], feature.type).inputs)
        shared = {"target": self.target, "sample_weight": self.sample_weight}
        beside = {name: as_column(column) for name, column in shared.items() if column is not None}
        clusters = None if self.by is None else as_clusters(self.by)
        sets = []
        for place, model in zip(places, models, strict=True):
            outputs = model if isinstance(model, Mapping) else {keyword: model}
            values = {**{name: as_column(column) for name, column in outputs.items()}, **beside}
            counts = {name: len(column) for name, column in values.items()}
            counts |= {} if clusters is None else {"by": len(clusters)}
            if len(set(counts.values())) > 1:
                lengths = ", ".join(f"{name} {count}" for name, count in counts.items())
                raise ConfigError(f"all arrays need the same number of rows, got {lengths}")
            if not len(beside["target"]):
                raise ConfigError("there are no rows to compare")
            sets.append(PredictionSet(place, feature, values, clusters=clusters))
        return _measured(metrics, sets)

    def _columns(self, paths: Sequence[str]) -> _Measured:
        """Return row values from a column of files."""
        column = str(self.values)
        files = [Path(path) for path in paths]
        sets, notes = align(
            read_row_values(files, column, by=self.by, row_id=self.row_id, memory=self.memory)
        )
        given = replace(self, by=sets[0].clusters)._row_values([one.values["values"] for one in sets])
        return given._replace(metric=column, notes=notes)

    def _row_values(self, models: Sequence[Any]) -> _Measured:
        """Return row values that come from elsewhere."""
        if self.direction is None:
            raise ConfigError(
                "name a metric, or set the direction of row values: maximize if higher is better, else "
                "minimize"
            )
        try:
            tables = [np.asarray(as_column(model), dtype=np.float64) for model in models]
        except (TypeError, ValueError) as err:
            raise ConfigError(f"row values must be one number for each row: {err}") from err
        shapes = {table.shape for table in tables}
        if len(shapes) > 1 or len(tables[0].shape) != 1 or not tables[0].size:
            got = ", ".join(str(table.shape) for table in tables)
            raise ConfigError(f"row values must be one number for each of the same rows, got shapes {got}")
        if not all((np.abs(table) <= _LARGEST).all() for table in tables):
            raise ConfigError(
                f"row values must be numbers up to {_LARGEST:g}, got nan or a larger one; remove those rows"
            )
        clusters = None if self.by is None else numbered(as_clusters(self.by))
        if clusters is not None and clusters.shape != tables[0].shape:
            raise ConfigError(f"by has {len(clusters)} rows, but the row values have {len(tables[0])}")
        rows = [ModelRows("", table[None]) for table in tables]
        return _Measured("mean", Direction.parse(self.direction), rows, clusters)


def _row_source(options: Mapping[str, Any]) -> RowSource:
    """Return the source that options describe.

    Raises:
        ConfigError: there is no such option.
    """
    names = [each.name for each in fields(RowSource)]
    unknown = next((name for name in options if name not in names), None)
    if unknown is not None:
        raise ConfigError(f"compare has no option {unknown!r}; it has {', '.join(names)}")
    return RowSource(**options)


def _measured(metrics: Sequence[str], sets: Sequence[PredictionSet]) -> list[_Measured]:
    """Measure predictions on the rows that all have."""
    aligned, notes = align(sets)
    output, clusters = aligned[0].output, cluster_numbers(aligned[0])
    measured = []
    for found in (find_metric(metric, output.type) for metric in metrics):
        if found.direction is None:
            raise ConfigError(f"{found.name} has no direction, so neither model can be better")
        name = str(found.name)
        rows = [model_rows(one, name) for one in aligned]
        if len({one.method for one in rows}) > 1:  # the value of one is a mean over its rows by chance
            rows = [model_rows(one, name, own_rows=False) for one in aligned]
        measured.append(_Measured(name, found.direction, rows, clusters, notes, scale_of(name, output)))
    return measured


def _joined(label: str, trainings: Sequence[ModelRows]) -> ModelRows:
    """Return the trainings of one model as one table."""
    first = trainings[0]
    if len({(one.method, one.rows_id, one.table.shape) for one in trainings}) > 1:
        raise ConfigError(f"{label}: its trainings have different rows, or row values of different methods")
    return replace(first, label=label, table=np.concatenate([one.table for one in trainings]))


def _check_trainings(label: str, trainings: Sequence[Any]) -> None:
    """Raise if a model has no training, or a file stands for two of them."""
    if not trainings:
        raise ConfigError("a tuple must contain the trainings of a model, got an empty one")
    paths = [Path(one).resolve() for one in trainings if isinstance(one, (str, Path))]
    if len(set(paths)) < len(paths):
        raise ConfigError(f"{label}: a file is named twice; each training needs its own file")
    if any(isinstance(one, str) and not one for one in trainings):
        raise ConfigError(f"{label}: the name of a file is empty")


def _labels(models: Sequence[Any], names: Sequence[str] | None) -> list[str]:
    """Return the names of models: those given, else their paths, else letters."""
    if names is not None and len(names) != len(models):
        raise ConfigError(f"each model needs a name, got {len(names)} names for {len(models)} models")
    if names is not None:
        return list(names)
    return [
        ",".join(map(str, group)) if group and isinstance(group[0], (str, Path)) else _letter(place)
        for place, group in enumerate(model if isinstance(model, tuple) else (model,) for model in models)
    ]


def _letter(place: int) -> str:
    """Return a, b, ..., z, a1, b1 and so on."""
    return f"{ascii_lowercase[place % 26]}{place // 26 or ''}"
