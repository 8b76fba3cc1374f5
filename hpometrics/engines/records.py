"""EvaluationInstance: the record of one evaluation, from before it starts until it ended, and how."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from .._imports import installed_versions
from .._redaction import excerpt
from ..exceptions import RecordError
from ..records._files import atomic_write, make_private, read_whole
from ..records._json import FORMAT, FORMAT_KEY, check_format, read_json
from ..space.dimensions import is_whole
from .engine_params import EngineParams
from .metrics import Number, finite
from .result import MetricEvaluatorResult


@dataclass(frozen=True)
class Origins:
    """Names for the records of an evaluation; nothing is imported by them until it is replayed.

    Args:
        engine: `package.module:Name`; its class unless given.
        evaluation: likewise; its class, or that of the engine, unless given.
        engine_params: where the list comes from: a name, or a file.
        stated: what a sweep file says of the evaluation, by which it is made again; strict JSON.
    """

    engine: str = ""
    evaluation: str = ""
    engine_params: str = ""
    stated: Mapping[str, Any] | None = None


NO_ORIGINS = Origins()


_STATED = "stated"


@dataclass(frozen=True)
class Provenance:
    """Where the best engine params come from, and what they scored.

    Args:
        evaluation: its class or the name of its object, `package.module:Name`; nothing where it has none.
        objective: which way the first score is better.
        scores: by the header of the metric, the optimized one first; None is a number that is not finite.
        seed: of what the stages draw, see `PrefixCache`.
        versions: of what scores depend on.
        stated: what a sweep file says of the evaluation, see `Origins`.
    """

    evaluation: str
    objective: str
    scores: Mapping[str, Number | None]
    seed: int | None
    versions: Mapping[str, str] = field(default_factory=installed_versions)
    stated: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls,
        result: MetricEvaluatorResult,
        evaluation: str,
        seed: int | None,
        stated: Mapping[str, Any] | None = None,
    ) -> Self:
        """Say where a result comes from."""
        scores = zip(result.headers, result.best_scores.all, strict=True)
        return cls(
            evaluation,
            result.objective.value,
            {header: finite(score.value) for header, score in scores},
            seed,
            stated=stated,
        )

    def to_json(self) -> dict[str, Any]:
        """Give strict JSON."""
        return {
            FORMAT_KEY: FORMAT,
            "class": self.evaluation,
            "objective": self.objective,
            "scores": dict(self.scores),
            "seed": self.seed,
            "versions": dict(self.versions),
            **({} if self.stated is None else {_STATED: dict(self.stated)}),
        }

    @classmethod
    def from_json(cls, told: Any, place: str = "evaluation") -> Self:
        """Read what `to_json` gave.

        Args:
            told: the content.
            place: of it, as an error names it.

        Raises:
            RecordError: it is something else.
            NewerFormatError: a newer version wrote it.
        """
        check_format(told, place)
        try:
            scores, seed = dict(told["scores"]), told["seed"]
            if not scores or not (seed is None or is_whole(seed)):
                raise ValueError(f"scores {scores}, seed {seed!r}")
            return cls(
                str(told["class"]),
                told["objective"],
                scores,
                seed,
                dict(told["versions"]),
                dict(told[_STATED]) if _STATED in told else None,
            )
        except (KeyError, TypeError, ValueError) as err:
            raise RecordError(
                f"{place}: does not say what was evaluated ({err!r}): {excerpt(repr(told), 80)}"
            ) from err


BEST_FILE = "best.json"
RESULTS_FILE = "evaluator_results"
RESULTS_FORMS = ("txt", "json", "html")


def variant(params: EngineParams, evaluation: str, engine: str, start: datetime) -> dict[str, Any]:
    """Give engine params in the layout of PredictionIO's `engine.json`; `EngineParams.from_json` reads it.

    Args:
        params: what to write.
        evaluation: its class, `package.module:Name`.
        engine: its class.
        start: when the evaluation began, which makes the id one of its own.

    Raises:
        EngineParamsError: a value has no form in JSON.
    """
    name = evaluation.replace(":", ".").rpartition(".")[2]
    return {
        "id": f"{name} {start.isoformat(timespec='seconds')}",
        "description": "",
        "engineFactory": engine,
        **params.to_variant(),
    }


def write_results(directory: Path, result: MetricEvaluatorResult) -> None:
    """Write `evaluator_results.txt`, `.json` and `.html`."""
    write_text(directory / f"{RESULTS_FILE}.txt", str(result))
    write_json(directory / f"{RESULTS_FILE}.json", result.to_json())
    write_text(directory / f"{RESULTS_FILE}.html", result.to_html())


def write_json(path: Path, told: Mapping[str, Any]) -> None:
    """Write strict JSON whole or not at all."""
    write_text(path, json.dumps(told, allow_nan=False, ensure_ascii=False, indent=2))


def write_text(path: Path, text: str) -> None:
    """Write a text whole or not at all."""
    make_private(path.parent)
    with atomic_write(path) as file:
        file.write(f"{text}\n".encode())


INSTANCE_FILE = "instance.json"


class Status(StrEnum):
    """How an evaluation stands; one that still says EVALUATING when nothing runs was killed."""

    INIT = "INIT"
    EVALUATING = "EVALUATING"
    EVALCOMPLETED = "EVALCOMPLETED"
    EVALFAILED = "EVALFAILED"


def _new_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class EvaluationInstance:
    """One evaluation: what was evaluated, when, and what came of it. Nothing of the environment is kept.

    Args:
        evaluation_class, generator_class: where the evaluation and its list of engine params come from.
        batch: the user's own words for it.
        reason: why it failed.
        results: strict JSON: a one-liner and the whole result; of one that failed, what was done until then.

    >>> instance = EvaluationInstance(batch="nightly")
    >>> EvaluationInstance.from_json(instance.to_json()) == instance, instance.status.value
    (True, 'INIT')
    """

    evaluation_class: str = ""
    generator_class: str = ""
    batch: str = ""
    id: str = field(default_factory=_new_id)
    status: Status = Status.INIT
    start: datetime = field(default_factory=_now)
    end: datetime | None = None
    reason: str | None = None
    results: Mapping[str, Any] | None = None

    def started(self) -> Self:
        """The same evaluation once its list is read and the first engine params begins."""
        return replace(self, status=Status.EVALUATING)

    def completed(self, results: Mapping[str, Any]) -> Self:
        """The same evaluation at its end."""
        return replace(self, status=Status.EVALCOMPLETED, end=_now(), results=results)

    def failed(self, reason: str, results: Mapping[str, Any]) -> Self:
        """The same evaluation when it ended without a best."""
        return replace(self, status=Status.EVALFAILED, end=_now(), reason=reason, results=results)

    def to_json(self) -> dict[str, Any]:
        """Give strict JSON under PredictionIO's names."""
        return {
            "id": self.id,
            "status": self.status.value,
            "startTime": self.start.isoformat(),
            "endTime": None if self.end is None else self.end.isoformat(),
            "evaluationClass": self.evaluation_class,
            "engineParamsGeneratorClass": self.generator_class,
            "batch": self.batch,
            "reason": self.reason,
            "evaluatorResults": self.results,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Read what `to_json` gave.

        Raises:
            RecordError: it is something else.
        """
        try:
            return cls(
                told["evaluationClass"],
                told["engineParamsGeneratorClass"],
                told["batch"],
                told["id"],
                Status(told["status"]),
                datetime.fromisoformat(told["startTime"]),
                None if told["endTime"] is None else datetime.fromisoformat(told["endTime"]),
                told["reason"],
                told["evaluatorResults"],
            )
        except (KeyError, TypeError, ValueError) as err:
            raise RecordError(f"no record of an evaluation ({err!r}): {excerpt(told, 80)}") from err

    def write(self, directory: Path) -> None:
        """Write `instance.json` whole or not at all."""
        write_json(directory / INSTANCE_FILE, {FORMAT_KEY: FORMAT, **self.to_json()})

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read the record of the last evaluation in a directory.

        Raises:
            RecordError: there is none, or it does not read.
            NewerFormatError: a newer version wrote it.
        """
        path = directory / INSTANCE_FILE
        try:
            content = read_json(read_whole(path))
        except (OSError, ValueError) as err:
            raise RecordError(f"{path} is no record of an evaluation: {err}") from err
        check_format(content, path)
        try:
            return cls.from_json(content)
        except RecordError as err:
            raise RecordError(f"{path} is no record of an evaluation: {err}") from err
