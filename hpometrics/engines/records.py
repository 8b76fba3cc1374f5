"""EvaluationInstance: the record of one evaluation, from before it starts until it ended, and how."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Self

from .._redaction import excerpt
from ..exceptions import RecordError
from ..records._files import read_whole
from ..records._json import FORMAT, FORMAT_KEY, check_format, read_json
from .files import write_json

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
