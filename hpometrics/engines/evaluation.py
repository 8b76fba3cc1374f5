"""Evaluations: an engine with its metrics, independent of the engine params that are tried."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ..exceptions import EngineError
from .engine_params import EngineParams
from .evaluator import MetricEvaluator, Tell, engine_of, location
from .records import NO_ORIGINS, Origins
from .result import MetricEvaluatorResult

if TYPE_CHECKING:
    from .tunable import TunableEvaluation

_FORMS = ("engine_metric", "engine_metrics", "engine_evaluator")


class Evaluation:
    """An engine and its metrics; the same list of engine params serves several evaluations.

    Created from an engine and its metrics, or written as a class with one of `engine_metric`,
    `engine_metrics`, `engine_evaluator`:

        class PrecisionEvaluation(Evaluation):
            engine_metric = (ClassificationEngine(), Precision(label=1.0))

    A class may have its own `engine_params_list` too.

    Args:
        engine: an engine, or its class.
        metric, other_metrics, output: see `MetricEvaluator`; in their place one of these.

    Attributes:
        engine_metric: (engine, metric).
        engine_metrics: (engine, metric, other metrics).
        engine_evaluator: (engine, evaluator).
        output: what the engine predicts, for metrics given by name.

    Raises:
        EngineError: engine and metric are missing, or are defined in two ways.
    """

    engine_metric: ClassVar[tuple[Any, Any] | None] = None
    engine_metrics: ClassVar[tuple[Any, Any, Iterable[Any]] | None] = None
    engine_evaluator: ClassVar[tuple[Any, MetricEvaluator] | None] = None
    output: Any = None

    def __init__(
        self, engine: Any = None, metric: Any = None, other_metrics: Iterable[Any] = (), *, output: Any = None
    ) -> None:
        if output is not None:
            self.output = output
        engine_source, primary, *others = self._engine_and_metrics(engine, metric, tuple(other_metrics))
        self.engine = engine_of(engine_source)
        self.evaluator = (
            primary
            if isinstance(primary, MetricEvaluator)
            else MetricEvaluator(primary, *others, output=self.output)
        )

    @classmethod
    def of(cls, source: Any) -> Evaluation:
        """Return an evaluation, from itself or from its class.

        Raises:
            EngineError: it is something else.
        """
        evaluation = source() if isinstance(source, type) and issubclass(source, Evaluation) else source
        if not isinstance(evaluation, Evaluation):
            raise EngineError(
                f"an evaluation must be Evaluation(engine, metric) or a subclass, got {evaluation!r}"
            )
        return evaluation

    def evaluate(
        self,
        engine_params_list: Any = None,
        *,
        directory: Path | str | None = None,
        tell: Tell | None = None,
        cache: bool | None = None,
        seed: int | None = None,
        workers: int | None = None,
        origins: Origins = NO_ORIGINS,
        batch: str = "",
    ) -> MetricEvaluatorResult:
        """Evaluate a list of engine params.

        Args:
            engine_params_list: what `params_list` reads; default: the evaluation's own.
            directory: replaces the evaluator's own, see `MetricEvaluator`.
            tell: replaces the evaluator's own.
            cache: replaces the evaluator's own.
            seed: replaces the evaluator's own.
            workers: replaces the evaluator's own.
            origins: the names of engine, evaluation and list for the records.
            batch: a text of the user for the record.

        Raises:
            EngineError: there is no list.
            NoFiniteValueError, EngineParamsError, KeyboardInterrupt: see `MetricEvaluator.evaluate`.
        """
        candidates = self if engine_params_list is None else engine_params_list
        if candidates is self and not hasattr(self, "engine_params_list"):
            raise EngineError(
                f"{type(self).__qualname__} has no engine_params_list; pass the list to evaluate"
            )
        used = self.evaluator.changed(directory=directory, cache=cache, seed=seed, workers=workers, tell=tell)
        return used.evaluate(
            self.engine,
            candidates,
            origins=replace(origins, evaluation=origins.evaluation or self.origin),
            batch=batch,
        )

    def vary(self, base: EngineParams | None = None, *, keep: int = 4) -> TunableEvaluation:
        """Create a training function for Optuna, Ray or a list: a trial's params are set in the base.

        `OptunaObjective(evaluation.vary(base), {"algorithms.naive.lambda": Float(1, 1000, log=True)})` needs
        no `metric=`; with the result of `objective.best(study)`, `base.with_values(best.params)` are the
        optimal engine params. This loads torch, as every run does.

        Args:
            base: the engine params whose values a space of paths varies; None: the space has all values.
            keep: how many outputs of each stage are kept for later trials.

        Raises:
            MetricNameError, EngineParamsError: see `TunableEvaluation`.
        """
        from .tunable import TunableEvaluation

        return TunableEvaluation(self, base, keep=keep)

    @property
    def origin(self) -> str:
        """Its name, `package.module:Name`; empty where no other process could import it."""
        cls = type(self)
        is_importable = cls is not Evaluation and cls.__module__ != "__main__" and "<" not in cls.__qualname__
        return location(cls) if is_importable else ""

    def _engine_and_metrics(self, engine: Any, metric: Any, others: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the engine and its evaluator, or the engine, its metric and the others."""
        forms = {name: getattr(self, name) for name in _FORMS if getattr(self, name) is not None}
        if engine is not None or metric is not None:
            forms["Evaluation(engine, metric)"] = (engine, metric, others)
        if len(forms) != 1 or any(part is None for part in next(iter(forms.values()))[:2]):
            raise EngineError(
                f"{type(self).__qualname__} states its engine and metric in "
                f"{' and '.join(forms) or 'no way'}; state both in one place: Evaluation(engine, metric), "
                f"or a class with {', '.join(_FORMS)}"
            )
        chosen: tuple[Any, ...]
        (chosen,) = forms.values()
        return chosen
