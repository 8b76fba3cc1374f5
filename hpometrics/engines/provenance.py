"""Provenance: what `best.json` says of its evaluation, so that the file alone is enough to replay it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from .._redaction import excerpt
from ..exceptions import RecordError
from ..records._json import FORMAT, FORMAT_KEY, check_format
from ..space.values import is_whole
from ..versions import installed_versions
from .result import MetricEvaluatorResult
from .score import Number, finite

_STATED = "stated"


@dataclass(frozen=True)
class Provenance:
    """Where the best engine params come from, and what they scored.

    Args:
        evaluation: its class or the name of its object, `package.module:Name`; nothing where it has none.
        objective: which way the first score is better.
        scores: by the header of the metric, the optimised one first; None is a number that is not finite.
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
