"""The result of an evaluation: the scores of every engine params, and the best, as text, JSON and a page."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from .._pages import page
from ..direction import Direction
from ..metrics.registry.ludwig_names import ReadableObjective
from ..records._json import finite
from .engine import STAGES, Stage
from .engine_params import EngineParams
from .json_layout import plain
from .tuple_metrics import Number, Score


def differences(candidates: Sequence[EngineParams]) -> list[str]:
    """Return the stages of each engine params that differ; if all are the same, every stage with a param.

    A stage is called by its name, if it has one; several algorithms are joined by `+`.

    >>> differences([EngineParams({"folds": 5}, algorithms=[("naive", {"lambda": x})]) for x in (1.0, 2.0)])
    ['naive(lambda=1.0)', 'naive(lambda=2.0)']
    """
    stages = [_format_stages(one) for one in candidates]
    vary = [stage for stage in STAGES if len({one[stage] for one in stages}) > 1] or [
        stage for stage in STAGES if any(one[stage] != f"{stage}()" for one in stages)
    ]
    return [", ".join(one[stage] for stage in vary) for one in stages]


def _format_stages(params: EngineParams) -> dict[str, str]:
    single = {
        stage: _format_stage(getattr(params, stage), stage) for stage in STAGES if stage != "algorithms"
    }
    return {**single, "algorithms": " + ".join(_format_stage(one, "algorithms") for one in params.algorithms)}


def _format_stage(stage: Stage, kind: str) -> str:
    described = plain(stage.params, kind, repr)
    values = ", ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in described.items())
    return f"{stage.name or kind}({values})"


@dataclass(frozen=True)
class Failure:
    """The reason why engine params have no score: the exception as text."""

    type: str
    text: str
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> Self:
        """Return what can be written of an exception; its frames would keep their data alive."""
        return cls(type(error).__name__, str(error), "".join(traceback.format_exception(error)))

    def __str__(self) -> str:
        return f"{self.type}: {self.text}" if self.text else self.type


@dataclass(frozen=True)
class MetricScores:
    """The scores of one engine params.

    Args:
        primary: the score by the metric that is optimized.
        others: the scores by the other metrics, in their order.
        failure: the reason if there are none.
        seconds: the time of the evaluation; stages from the cache take next to nothing.

    >>> print(MetricScores(Score(0.75), (Score(0.5), Score(2))))
    MetricScores(0.75,List(0.5, 2))
    """

    primary: Score
    others: tuple[Score, ...] = ()
    failure: Failure | None = None
    seconds: float = 0.0

    @property
    def score(self) -> Number:
        """The value that is optimized; nan where it is undefined and of engine params that failed."""
        return self.primary.value

    @property
    def other_scores(self) -> tuple[Number, ...]:
        """The values of the other metrics."""
        return tuple(score.value for score in self.others)

    @property
    def all(self) -> tuple[Score, ...]:
        """The scores by all metrics, the primary one first."""
        return self.primary, *self.others

    @property
    def state(self) -> str:
        """`ok`, `undefined` if the score is not finite, or `failed`."""
        if self.failure is not None:
            return "failed"
        return "ok" if math.isfinite(self.score) else "undefined"

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON: PredictionIO's two entries, and further facts beside them."""
        return {
            "score": finite(self.score),
            "otherScores": [finite(value) for value in self.other_scores],
            "state": self.state,
            "seconds": self.seconds,
            "failure": vars(self.failure) if self.failure else None,
            "measured": [score.to_json() for score in self.all],
        }

    def __str__(self) -> str:
        return f"MetricScores({self.score},List({', '.join(map(str, self.other_scores))}))"


@dataclass(frozen=True)
class MetricEvaluatorResult(ReadableObjective):
    """The best of a list of engine params, and the scores of all of them in the order of the list.

    `str()` is the block that is printed at the end of an evaluation.

    Args:
        best_score: the best value of the metric.
        best_engine_params: the engine params with it; of equal ones the earliest.
        best_index: its index in the list, from 0.
        metric_header, other_metric_headers: the names of the metrics.
        engine_params_scores: every engine params with its scores.
        direction: the direction of the metric.
        output_path: the file that holds the best engine params; None if none was written.
    """

    best_score: Number
    best_engine_params: EngineParams
    best_index: int
    metric_header: str
    other_metric_headers: tuple[str, ...]
    engine_params_scores: tuple[tuple[EngineParams, MetricScores], ...]
    direction: Direction
    output_path: str | None = None

    @property
    def headers(self) -> tuple[str, ...]:
        """The names of all metrics, the primary one first."""
        return self.metric_header, *self.other_metric_headers

    @property
    def best_scores(self) -> MetricScores:
        """All scores of the best engine params."""
        return self.engine_params_scores[self.best_index][1]

    def __str__(self) -> str:
        scores = zip(self.headers, self.best_scores.all, strict=True)
        lines = [
            "MetricEvaluatorResult:",
            f"  # engine params evaluated: {evaluated([s for _, s in self.engine_params_scores])}",
            "Optimal Engine Params:",
            f"  {self.best_engine_params.pretty()}",
            "Metrics:",
            *(f"  {header}: {score.value}" for header, score in scores),
        ]
        if self.output_path is not None:
            lines.append(f"The best variant params are in {self.output_path}")
        return "\n".join(lines)

    def one_liner(self) -> str:
        """Return one line with the index and the score of the best."""
        return f"Best Params Index: {self.best_index} Score: {self.best_score}"

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON in PredictionIO's layout; null is a number that is not finite."""
        return {
            "bestScore": self.best_scores.to_json(),
            "bestEngineParams": self.best_engine_params.to_json(default=repr),
            "bestIdx": self.best_index,
            "metricHeader": self.metric_header,
            "otherMetricHeaders": list(self.other_metric_headers),
            "engineParamsScores": scores_to_json(self.engine_params_scores),
            "objective": self.direction.value,
            "outputPath": self.output_path,
        }

    def to_html(self) -> str:
        """Return one self-contained HTML page: a row per engine params, which a click opens."""
        labels = differences([params for params, _ in self.engine_params_scores])
        return page("engines", "result.html", result=self, decimals=_format_decimals, differences=labels)


def evaluated(scores: Sequence[MetricScores]) -> str:
    """Return the number of engine params; if not all are ok, also the number in each state.

    >>> evaluated([MetricScores(Score(0.5)), MetricScores(Score.undefined("no tuple counted"))])
    '2 (1 ok, 1 undefined)'
    """
    states = [score.state for score in scores]
    counts = [f"{states.count(s)} {s}" for s in ("ok", "undefined", "failed") if s in states]
    return str(len(states)) if states.count("ok") == len(states) else f"{len(states)} ({', '.join(counts)})"


def scores_to_json(scored: Sequence[tuple[EngineParams, MetricScores]]) -> list[dict[str, Any]]:
    """Return strict JSON of engine params with their scores, as pairs in PredictionIO's layout."""
    return [{"_1": params.to_json(default=repr), "_2": scores.to_json()} for params, scores in scored]


def _format_decimals(value: Number) -> str:
    return f"{value:.4f}" if math.isfinite(value) else "undefined"
