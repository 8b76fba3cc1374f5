"""The written records of an evaluation: `best.json`, the results, and the state in `instance.json`."""

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
from ..records._files import make_private, read_whole, write_text
from ..records._json import FORMAT, FORMAT_KEY, check_format, read_json
from ..space.values import is_whole
from .engine_params import EngineParams
from .result import MetricEvaluatorResult
from .tuple_metrics import Number

BEST_FILE = "best.json"
RESULTS_FILE = "evaluator_results"
RESULTS_FORMS = ("txt", "json", "html")
INSTANCE_FILE = "instance.json"
_STATED = "stated"


@dataclass(frozen=True)
class Origins:
    """Names for the records of an evaluation; nothing is imported by them until it is replayed.

    Args:
        engine: `package.module:Name`; default: its class.
        evaluation: likewise; default: its class, or that of the engine.
        engine_params: the origin of the list: a name, or a file.
        stated: the evaluation as a sweep file describes it, which can create it again; strict JSON.
    """

    engine: str = ""
    evaluation: str = ""
    engine_params: str = ""
    stated: Mapping[str, Any] | None = None


NO_ORIGINS = Origins()


@dataclass(frozen=True)
class Provenance:
    """The origin of the best engine params, and their scores.

    Args:
        evaluation: its class or the name of its object, `package.module:Name`; empty if it has none.
        direction: that of the first score.
        scores: by the header of the metric, the optimized one first; None is a number that is not finite.
        seed: the seed of what the stages draw, see `PrefixCache`.
        versions: the versions of the packages that scores depend on.
        stated: the evaluation as a sweep file describes it, see `Origins`.
    """

    evaluation: str
    direction: str
    scores: Mapping[str, Number | None]
    seed: int | None
    versions: Mapping[str, str] = field(default_factory=installed_versions)
    stated: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON."""
        return {
            FORMAT_KEY: FORMAT,
            "class": self.evaluation,
            "objective": self.direction,
            "scores": dict(self.scores),
            "seed": self.seed,
            "versions": dict(self.versions),
            **({} if self.stated is None else {_STATED: dict(self.stated)}),
        }

    @classmethod
    def from_json(cls, content: Any, place: str = "evaluation") -> Self:
        """Parse what `to_json` returned.

        Args:
            content: the JSON.
            place: its place, as an error names it.

        Raises:
            RecordError: it is something else.
            NewerFormatError: a newer version wrote it.
        """
        check_format(content, place)
        try:
            scores, seed = dict(content["scores"]), content["seed"]
            if not scores or not (seed is None or is_whole(seed)):
                raise ValueError(f"scores {scores}, seed {seed!r}")
            return cls(
                str(content["class"]),
                content["objective"],
                scores,
                seed,
                dict(content["versions"]),
                dict(content[_STATED]) if _STATED in content else None,
            )
        except (KeyError, TypeError, ValueError) as err:
            raise RecordError(
                f"{place}: does not name what was evaluated ({err!r}): {excerpt(repr(content), 80)}"
            ) from err


def write_best(
    directory: Path, params: EngineParams, origins: Origins, provenance: Provenance, start: datetime
) -> Path:
    """Write engine params as `best.json`, in the layout of PredictionIO's `engine.json`; return its path.

    Args:
        directory: the directory of the file.
        params: the engine params; `EngineParams.from_json` parses them.
        origins: the names of engine and evaluation.
        provenance: the origin of the engine params.
        start: the start of the evaluation, which makes the id unique.

    Raises:
        EngineParamsError: a value has no form in JSON.
    """
    name = (origins.evaluation or origins.engine).replace(":", ".").rpartition(".")[2]
    path = directory / BEST_FILE
    content = {
        "id": f"{name} {start.isoformat(timespec='seconds')}",
        "description": "",
        "engineFactory": origins.engine,
        **params.to_variant(),
        "evaluation": provenance.to_json(),
    }
    write_json(path, content)
    return path


def write_results(directory: Path, result: MetricEvaluatorResult) -> None:
    """Write `evaluator_results.txt`, `.json` and `.html`."""
    _write_page(directory / f"{RESULTS_FILE}.txt", str(result))
    write_json(directory / f"{RESULTS_FILE}.json", result.to_json())
    _write_page(directory / f"{RESULTS_FILE}.html", result.to_html())


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write strict JSON, as a whole or not at all."""
    _write_page(path, json.dumps(content, allow_nan=False, ensure_ascii=False, indent=2))


def _write_page(path: Path, text: str) -> None:
    make_private(path.parent)
    write_text(path, f"{text}\n")


class Status(StrEnum):
    """The state of an evaluation; one that is EVALUATING while nothing runs was killed."""

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
    """One evaluation: its names, times, state and results. Nothing of the environment is stored.

    Args:
        evaluation_class, generator_class: the names of the evaluation and of its list of engine params.
        batch: a text of the user.
        reason: the reason if it failed.
        results: strict JSON: a one-liner and the whole result; of one that failed, the scores until then.

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
        """Return the evaluation after its list was read, when the first engine params starts."""
        return replace(self, status=Status.EVALUATING)

    def completed(self, results: Mapping[str, Any]) -> Self:
        """Return the evaluation at its end, with its results."""
        return replace(self, status=Status.EVALCOMPLETED, end=_now(), results=results)

    def failed(self, reason: str, results: Mapping[str, Any]) -> Self:
        """Return the evaluation after it ended without a best."""
        return replace(self, status=Status.EVALFAILED, end=_now(), reason=reason, results=results)

    def to_json(self) -> dict[str, Any]:
        """Return strict JSON under PredictionIO's names."""
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
    def from_json(cls, content: Mapping[str, Any], place: str = "instance") -> Self:
        """Parse what `to_json` returned.

        Args:
            content: the JSON.
            place: its place, as an error names it.

        Raises:
            RecordError: it is something else.
        """
        try:
            return cls(
                content["evaluationClass"],
                content["engineParamsGeneratorClass"],
                content["batch"],
                content["id"],
                Status(content["status"]),
                datetime.fromisoformat(content["startTime"]),
                None if content["endTime"] is None else datetime.fromisoformat(content["endTime"]),
                content["reason"],
                content["evaluatorResults"],
            )
        except (KeyError, TypeError, ValueError) as err:
            raise RecordError(f"{place}: not an evaluation record ({err!r}): {excerpt(content, 80)}") from err

    def write(self, directory: Path) -> None:
        """Write `instance.json`, as a whole or not at all."""
        write_json(directory / INSTANCE_FILE, {FORMAT_KEY: FORMAT, **self.to_json()})

    @classmethod
    def read(cls, directory: Path) -> Self:
        """Read the record of the last evaluation in a directory.

        Raises:
            RecordError: there is none, or it cannot be parsed.
            NewerFormatError: a newer version wrote it.
        """
        path = directory / INSTANCE_FILE
        try:
            content = read_json(read_whole(path))
        except (OSError, ValueError) as err:
            raise RecordError(f"{path}: not an evaluation record: {err}") from err
        check_format(content, path)
        return cls.from_json(content, str(path))
