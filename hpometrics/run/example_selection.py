"""Example plan: how many examples are kept, ranked by which metric; settled before the first trial."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ..direction import Objective
from ..exceptions import RunError
from ..metrics.collection import MetricCollection
from ..metrics.features import AUDIO, BINARY, CATEGORY, FEATURES, IMAGE, MASK, PREDICTIONS, RANKING, SET
from ..metrics.metric import Metric
from ..metrics.registry.groups import DEFAULT, WORDS, members_of
from ..metrics.registry.names import MetricName
from ..metrics.registry.register import get_metric
from ..metrics.row_values import is_mean_of_rows
from ..metrics.sample_data import OUTPUTS, Draw, draw, draw_of

KEPT = 20  # at either end, unless said otherwise
_TRIED, _FEW = 40, 6  # rows of a batch on which a metric is tried; of pictures and sounds, which take long
_NOISES = (0.0, 0.2, 0.5, 0.8)  # of those batches, each with a seed of its own
_NAMED = 5  # other metrics in an error
_FORMS = "true, a number, or a mapping such as {worst: 20, best: 20, metric: log_loss}"


@dataclass(frozen=True)
class ExamplePlan:
    """Which examples of an epoch are kept.

    Args:
        worst, best: how many of each.
        metric: by whose values they are ranked.
        objective: its direction.
        names: the measured metrics that have a value per example, all of which are written.
        untried: those among them that no drawn batch fits; the first batch of a run shows whether they have.
    """

    worst: int
    best: int
    metric: str
    objective: Objective
    names: tuple[str, ...]
    untried: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Asked:
    worst: int = KEPT
    best: int = KEPT
    metric: str | None = None


def settle_examples(
    asked: Any, optimised: str, objective: Objective, collection: MetricCollection | None
) -> ExamplePlan | None:
    """Settle what `track_examples` asks for; None where it asks for nothing.

    Args:
        asked: false, true, how many at either end, or a mapping of `worst`, `best` and `metric`.
        optimised: the name of the metric that is optimised; it ranks the examples unless `metric` does.
        objective: its direction.
        collection: what is measured on the validation split; None if nothing is.

    Raises:
        RunError: the form is another, or the metric is not measured here or has no value per example.

    >>> from hpometrics.metrics.features import Binary
    >>> from hpometrics.direction import MINIMIZE
    >>> panel = MetricCollection(["log_loss", "roc_auc"], output=Binary())
    >>> plan = settle_examples(5, "log_loss", MINIMIZE, panel)
    >>> plan.worst, plan.metric, plan.names
    (5, 'log_loss', ('log_loss',))
    """
    if isinstance(asked, ExamplePlan):
        asked = {"worst": asked.worst, "best": asked.best, "metric": asked.metric}
    wanted = _read(asked)
    if wanted is None:
        return None
    name = optimised if wanted.metric is None else _measured_name(wanted.metric, collection)
    if collection is None or name not in collection.names:
        raise RunError(
            f"track_examples ranks examples by {name}, which the engine reports and nobody measures here; "
            "track a metric that has a value per example and name it, track_examples: {metric: NAME}"
        )
    found = {name: has_row_values(collection[name]) for name in collection.names}
    if found[name] is False:
        raise RunError(_refusal(name, collection, found))
    direction = objective if name == optimised else collection.objective_of(name)
    if direction is None:
        raise RunError(
            f"track_examples cannot rank examples by {name}, which has no direction; name a metric that has"
        )
    names = tuple(name for name, verdict in found.items() if verdict is not False)
    untried = frozenset(name for name, verdict in found.items() if verdict is None)
    return ExamplePlan(wanted.worst, wanted.best, name, direction, names, untried)


def has_row_values(metric: Metric) -> bool | None:
    """Whether a metric has a value per example, of which it is the mean; None if it cannot be tried.

    That is tried on drawn batches, since a batch of the user's may show it by chance: where every row is
    right, the F1 of the batch is that of each row. One batch that shows the contrary is enough.
    """
    probe = metric.alone()
    if probe.output.type == RANKING:
        probe.output = OUTPUTS[RANKING]  # the user's side data are too large to be drawn for
    shown: bool | None = None
    for source in dict.fromkeys((draw_of(type(metric)), draw)):
        for seed, noise in enumerate(_NOISES):
            if (held := _holds(probe, source, noise, seed)) is False:
                return False
            shown = shown or held
    return shown


def _holds(metric: Metric, source: Draw, noise: float, seed: int) -> bool | None:
    rows = _FEW if metric.output.type in (IMAGE, AUDIO) else _TRIED
    try:
        drawn = source(metric.output, rows, noise, seed)
        target = drawn.pop("target")
        return is_mean_of_rows(metric, metric.batch(None, target, drawn))
    except Exception:  # a metric may refuse drawn data in whatever way, and there may be none for its output
        return None


def _read(asked: Any) -> _Asked | None:
    if asked is None or asked is False:
        return None
    if asked is True:
        return _Asked()
    if isinstance(asked, int):
        asked = {"worst": asked, "best": asked}
    if not isinstance(asked, Mapping) or not asked.keys() <= {"worst", "best", "metric"}:
        raise RunError(f"track_examples is {_FORMS}; got {asked!r}")
    wanted = _Asked(**asked)
    counts = (wanted.worst, wanted.best)
    if any(type(count) is not int or count < 0 for count in counts) or not any(counts):
        raise RunError(f"track_examples keeps so many examples, whole numbers from 0; got {asked!r}")
    return wanted


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


def _refusal(name: str, collection: MetricCollection, found: Mapping[str, bool | None]) -> str:
    here = [collection[other] for other in found if found[other] and collection.objective_of(other)]
    others = [*here, *islice(_others(collection), _NAMED)]
    names = list(dict.fromkeys(metric.name for metric in sorted(others, key=_only_decides)))
    told = f"track_examples ranks examples by {name}, which has no value per example: it is no mean over them"
    if not names:
        return f"{told}; track a metric that has, and name it: track_examples: {{metric: NAME}}"
    return (
        f"{told}; name a metric that has, as in track_examples: {{metric: {names[0]}}}, and track it; "
        f"{', '.join(names)} have one"
    )


def _only_decides(metric: Metric) -> bool:
    """Whether it tells right from wrong and no more, which ranks examples less finely than a score."""
    return metric.output.type in (BINARY, CATEGORY, SET, MASK) and metric.inputs is PREDICTIONS


def _others(collection: MetricCollection) -> Iterator[Metric]:
    """Metrics of the output that have a value per example, the usual ones first."""
    kind = collection.output.type
    if kind not in FEATURES:
        return
    usual = f"{WORDS.get(kind, '')} {DEFAULT.get(kind, '')}".split()
    for name in dict.fromkeys([*usual, *map(str, members_of("all", kind))]):
        metric = get_metric(name, collection.output)
        if has_row_values(metric):
            yield metric
