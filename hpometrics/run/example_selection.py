"""Which examples a run selects, by which metric, and the line of each."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
from torch import Tensor

from .._redaction import excerpt
from ..direction import Direction
from ..exceptions import MetricInputError, RunError
from ..metrics._derive import class_dim, derivable
from ..metrics.batch import Outputs
from ..metrics.collection import MetricCollection
from ..metrics.features import (
    AUDIO,
    BINARY,
    CATEGORY,
    FEATURES,
    IMAGE,
    LOGITS,
    MASK,
    PREDICTIONS,
    PROBABILITIES,
    RANKING,
    SET,
    TEXT,
)
from ..metrics.metric import Metric
from ..metrics.registry.groups import DEFAULT, WORDS, members_of
from ..metrics.registry.names import MetricName
from ..metrics.registry.register import get_metric
from ..metrics.retrieval.ranking_batch import RankingBatch
from ..metrics.row_values.by_row import is_mean_of_rows
from ..metrics.sample_data import OUTPUTS, Draw, draw, draw_of
from ..records._json import finite
from ..records.trial_record import to_json
from ..selection.two_way import ids_of_rows

Line = dict[str, Any]

MOST_CLASSES = 100
"""A line with scores of more classes has `left_out` in their place."""

DEFAULT_COUNT = 20  # at either end, by default
_encode = json.JSONEncoder(allow_nan=False).encode
_TRIED, _FEW = 40, 6  # rows of a batch on which a metric is tried; of pictures and sounds, which take long
_NOISES = (0.0, 0.2, 0.5, 0.8)  # of those batches, each with a seed of its own
_NAMED = 5  # other metrics in an error
_FORMS = "true, a number, or a mapping such as {worst: 20, best: 20, metric: log_loss}"


def lines_of(batch: Outputs) -> list[Line]:
    """Return a line for each row of a batch, which has few rows: target, prediction and model outputs.

    Scores of more than 100 classes are left out, and `left_out` has the reason.

    >>> from hpometrics.metrics.features import Category
    >>> lines_of(Outputs(Category(), logits=[[0.5, 1.5, 0.0]], target=[1]))
    [{'target': 1, 'prediction': 1, 'logits': [0.5, 1.5, 0.0]}]
    """
    facts = _ranking(batch) if isinstance(batch, RankingBatch) else dict(_facts_of(batch))
    scores, left_out = _scores(batch)
    columns = {**facts, **scores}
    rows = [{name: values[row] for name, values in columns.items()} for row in range(len(batch))]
    return [{**row, "left_out": left_out} for row in rows] if left_out else rows


def entries_of(examples: Any, rows: int) -> list[Any]:
    """Return the user's entry for each row, as plain JSON.

    Raises:
        MetricInputError: there are more or fewer than rows, or strict JSON cannot hold one.
    """
    check_entries(examples, rows)
    entries = []
    for entry in examples.tolist() if isinstance(examples, (Tensor, np.ndarray)) else examples:
        entries.append(entry.tolist() if isinstance(entry, (Tensor, np.ndarray, np.generic)) else entry)
    for row, entry in enumerate(entries):
        try:
            _encode(entry)
        except (TypeError, ValueError) as err:
            raise MetricInputError(
                f"examples= must be strict JSON values (text, a number, a list, a mapping), got "
                f"{type(entry).__name__} {excerpt(entry, 60)} in row {row}: {err}"
            ) from None
    return entries


def check_entries(examples: Any, rows: int, name: str = "examples") -> None:
    """Check that there is one entry per row in what is given by a name.

    Raises:
        MetricInputError: there are more or fewer, or it is something else.
    """
    listed = isinstance(examples, (Sequence, Tensor, np.ndarray)) and not isinstance(examples, (str, bytes))
    if not listed or len(examples) != rows:
        came = f"{len(examples)} of them" if listed else type(examples).__name__
        raise MetricInputError(f"{name}= needs one entry per row, and the batch has {rows} rows; got {came}")


def ids_of(by: Any, rows: int) -> list[Hashable]:
    """Return the id of each row, of what the row belongs to.

    Raises:
        MetricInputError: there are more or fewer than rows, or one is neither a text nor a number.
    """
    check_entries(by, rows, "by")
    try:
        return ids_of_rows(by.tolist() if isinstance(by, (Tensor, np.ndarray)) else by)
    except ValueError as err:
        raise MetricInputError(str(err)) from None


def _facts_of(batch: Outputs) -> Iterator[tuple[str, list[Any]]]:
    if batch.has_target or "target" in batch.records:
        yield "target", _plain(batch.answer)
    if batch.soft is not None:
        yield "target_probabilities", _plain(batch.soft)
    if PREDICTIONS in batch.records:
        yield "prediction", _plain(batch.records[PREDICTIONS])
    elif derivable(PREDICTIONS, frozenset(batch.given), batch.feature):
        yield "prediction", _plain(batch.predictions)
    for extra in ("texts", "references"):
        if batch.feature.type == TEXT and extra in batch.extras:  # beside token ids
            yield extra, _plain(list(batch.extras[extra]))


def _ranking(batch: RankingBatch) -> dict[str, list[Any]]:
    """Return the relevant items, and the best ones as deep as a metric has looked."""
    right = batch.relevant_items
    rows, items = right.row_of.tolist(), right.items.tolist()
    relevant: list[list[int]] = [[] for _ in range(len(batch))]
    for row, item in zip(rows, items, strict=True):
        relevant[row].append(item)
    best = [[item for item in row if item >= 0] for row in batch.lists.items.tolist()]
    users = {} if batch.users is None else {"user": batch.users.tolist()}
    return {**users, "target": relevant, "prediction": best}


def _scores(batch: Outputs) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Return the scores of the batch, by row, and why some are not written."""
    written, left_out = {}, {}
    for kind in (LOGITS, PROBABILITIES):
        outputs = batch.given.get(kind)
        if outputs is None:
            continue
        one = batch.feature.type == BINARY or outputs.ndim < 2
        classes = 1 if one else outputs.shape[class_dim(batch.feature)]
        if classes > MOST_CLASSES:
            left_out[kind.value] = f"{classes} classes; at most {MOST_CLASSES} are written"
        else:
            written[kind.value] = _plain(outputs)
    return written, left_out


def _plain(value: Any) -> Any:
    """Convert to plain JSON: lists for tensors, null for a number that is not finite."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        return to_json(value.tolist()) if _may_be_odd(value) else value.tolist()
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return finite(value) if isinstance(value, float) else value


def _may_be_odd(value: Any) -> bool:
    return value.dtype.is_floating_point if isinstance(value, Tensor) else value.dtype.kind == "f"


def host(tensors: Mapping[str, Any]) -> dict[str, Any]:
    """Copy tensors of a device to the host; what else there is stays."""
    return {name: x.detach().cpu() if isinstance(x, Tensor) else x for name, x in tensors.items()}


@dataclass(frozen=True)
class ExamplePlan:
    """The examples of an epoch to keep.

    Args:
        worst, best: how many of each.
        metric: by whose values they are ranked.
        direction: its direction.
        names: the measured metrics that have a value per example, all of which are written.
        untried: those among them that no drawn batch fits; the first batch of a run shows whether they have.
    """

    worst: int
    best: int
    metric: str
    direction: Direction
    names: tuple[str, ...]
    untried: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Settings:
    worst: int = DEFAULT_COUNT
    best: int = DEFAULT_COUNT
    metric: str | None = None


def resolve_examples(
    request: Any, optimized: str, direction: Direction, collection: MetricCollection | None
) -> ExamplePlan | None:
    """Resolve the setting `track_examples`; None if no examples are tracked.

    Args:
        request: false, true, how many at either end, or a mapping of `worst`, `best` and `metric`.
        optimized: the name of the metric that is optimized; it ranks the examples unless `metric` does.
        direction: its direction.
        collection: what is measured on the validation split; None if nothing is.

    Raises:
        RunError: the form is another one, or the metric is not measured or has no value per example.

    >>> from hpometrics.metrics.features import Binary
    >>> from hpometrics.direction import MINIMIZE
    >>> collection = MetricCollection(["log_loss", "roc_auc"], output=Binary())
    >>> plan = resolve_examples(5, "log_loss", MINIMIZE, collection)
    >>> plan.worst, plan.metric, plan.names
    (5, 'log_loss', ('log_loss',))
    """
    if isinstance(request, ExamplePlan):
        request = {"worst": request.worst, "best": request.best, "metric": request.metric}
    settings = _parse_request(request)
    if settings is None:
        return None
    name = optimized if settings.metric is None else _measured_name(settings.metric, collection)
    if collection is None or name not in collection.names:
        raise RunError(
            f"track_examples ranks examples by {name}, which the engine reports instead of measuring; "
            "track a metric that has a value per example, and name it: track_examples: {metric: NAME}"
        )
    verdicts = {name: has_row_values(collection[name]) for name in collection.names}
    if verdicts[name] is False:
        raise RunError(_refusal(name, collection, verdicts))
    ranks_by = direction if name == optimized else collection.direction_of(name)
    if ranks_by is None:
        raise RunError(
            f"track_examples cannot rank examples by {name}, which has no direction; name a metric that "
            "has one"
        )
    names = tuple(name for name, verdict in verdicts.items() if verdict is not False)
    untried = frozenset(name for name, verdict in verdicts.items() if verdict is None)
    return ExamplePlan(settings.worst, settings.best, name, ranks_by, names, untried)


def has_row_values(metric: Metric) -> bool | None:
    """Check whether a metric is a mean of values per example; None if it cannot be tried.

    This is tried on generated batches, since a batch of the user's may show it by chance: if every row is
    right, the F1 of the batch is that of each row. One batch that shows the contrary is enough.
    """
    probe = metric.alone()
    if probe.output.type == RANKING:
        probe.output = OUTPUTS[RANKING]  # the user's side data are too large to be drawn for
    result: bool | None = None
    for source in dict.fromkeys((draw_of(type(metric)), draw)):
        for seed, noise in enumerate(_NOISES):
            if (verdict := _holds(probe, source, noise, seed)) is False:
                return False
            result = result or verdict
    return result


def _holds(metric: Metric, source: Draw, noise: float, seed: int) -> bool | None:
    rows = _FEW if metric.output.type in (IMAGE, AUDIO) else _TRIED
    try:
        tensors = source(metric.output, rows, noise, seed)
        target = tensors.pop("target")
        return is_mean_of_rows(metric, metric.batch(None, target, tensors))
    except Exception:  # a metric may refuse drawn data in whatever way, and there may be none for its output
        return None


def _parse_request(request: Any) -> _Settings | None:
    if request is None or request is False:
        return None
    if request is True:
        return _Settings()
    if isinstance(request, int):
        request = {"worst": request, "best": request}
    if not isinstance(request, Mapping) or not request.keys() <= {"worst", "best", "metric"}:
        raise RunError(f"track_examples must be {_FORMS}; got {request!r}")
    settings = _Settings(**request)
    counts = (settings.worst, settings.best)
    if any(type(count) is not int or count < 0 for count in counts) or not any(counts):
        raise RunError(f"track_examples expects whole numbers of examples from 0; got {request!r}")
    return settings


def _measured_name(metric: str, collection: MetricCollection | None) -> str:
    """Return the name under which a metric is measured, whatever spelling it was given in."""
    names = () if collection is None else collection.names
    if metric in names or collection is None:
        return metric
    name = get_metric(MetricName.parse(metric), collection.output).name
    if name not in names:
        raise RunError(
            f"track_examples ranks examples by {name}, which is not measured; track it, or name one of "
            f"{', '.join(names)}"
        )
    return name


def _refusal(name: str, collection: MetricCollection, verdicts: Mapping[str, bool | None]) -> str:
    measured = [collection[other] for other in verdicts if verdicts[other] and collection.direction_of(other)]
    others = [*measured, *islice(_others(collection), _NAMED)]
    names = list(dict.fromkeys(metric.name for metric in sorted(others, key=_only_decides)))
    head = (
        f"track_examples ranks examples by {name}, which has no value per example: it is not a "
        "mean over examples"
    )
    if not names:
        return f"{head}; track a metric that has one, and name it: track_examples: {{metric: NAME}}"
    return (
        f"{head}; track one of {', '.join(names)} and name it, as in track_examples: {{metric: {names[0]}}}"
    )


def _only_decides(metric: Metric) -> bool:
    """Check whether a metric only tells right from wrong, which ranks examples less finely than a score."""
    return metric.output.type in (BINARY, CATEGORY, SET, MASK) and metric.inputs is PREDICTIONS


def _others(collection: MetricCollection) -> Iterator[Metric]:
    """Yield metrics of the output that have a value per example, the usual ones first."""
    kind = collection.output.type
    if kind not in FEATURES:
        return
    usual = f"{WORDS.get(kind, '')} {DEFAULT.get(kind, '')}".split()
    for name in dict.fromkeys([*usual, *map(str, members_of("all", kind))]):
        metric = get_metric(name, collection.output)
        if has_row_values(metric):
            yield metric
