"""Replaying an evaluation: the engine params of a `best.json` are evaluated again, from the file alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..exceptions import RecordError
from ..records._files import read_whole
from ..records._json import read_json
from ..records.reproduction import Replayed
from .cache import PrefixCache
from .command import import_evaluation
from .engine_params import EngineParams
from .evaluation import Evaluation
from .evaluator import Tell
from .records import BEST_FILE, INSTANCE_FILE, Provenance
from .result import Failure
from .tuple_metrics import Number, finite

_OF_A_SWEEP = "sweep.resolved.yaml"
"""A file in the directory of every sweep, which is replayed by its trials."""


def best_file(path: Path) -> Path | None:
    """Return the `best.json` of a path: itself, or the one in the directory of an evaluation."""
    inside = path / BEST_FILE
    evaluated = (path / INSTANCE_FILE).is_file() or not (path / _OF_A_SWEEP).is_file()
    if path.is_dir() and inside.is_file() and evaluated:
        return inside
    return path if path.suffix == ".json" else None


@dataclass(frozen=True)
class BestReplay:
    """The engine params of a `best.json`, ready to be evaluated again; nothing is written.

    Args:
        path: the file.
        params: its engine params.
        provenance: the origin of its evaluation; None if the file has none.
    """

    path: Path
    params: EngineParams
    provenance: Provenance | None

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a file.

        Raises:
            RecordError: it is not a `best.json`.
            NewerFormatError: a newer version wrote it.
            EngineParamsError: its engine params cannot be parsed.
        """
        content = _read_best(path)
        evaluation, place = content.get("evaluation"), f"{path}: evaluation"
        provenance = None if evaluation is None else Provenance.from_json(evaluation, place)
        return cls(path, EngineParams.from_json(content), provenance)

    @property
    def sweep_description(self) -> Mapping[str, Any] | None:
        """The evaluation as a sweep file describes it, if it was one of a sweep file."""
        return None if self.provenance is None else self.provenance.stated

    def load_evaluation(self, target: str | None) -> tuple[str, Evaluation]:
        """Import an evaluation: `package.module:Name`; None: the one that the file names.

        Raises:
            RecordError: the file names none.
            ConfigError: it cannot be imported.
        """
        name = target or (self.provenance.evaluation if self.provenance else "")
        if not name:
            raise RecordError(f"{self.path}: does not say by which evaluation; {self._remedy}")
        beside = Path(str((self.sweep_description or {}).get("file", "."))).parent
        return name, import_evaluation(name, [str(beside)])

    def run(
        self,
        name: str,
        evaluation: Evaluation,
        tell: Tell,
        tell_facts: Callable[[dict[str, Any]], object] | None = None,
    ) -> int:
        """Evaluate, print whether the scores are the same, and return the exit code for that.

        Args:
            name: the name of the evaluation.
            evaluation: the evaluation.
            tell: a function called with every line.
            tell_facts: a function called once, with the same as plain JSON.

        Raises:
            RecordError: the scores of the file are by other metrics.
        """
        provenance = self.provenance
        seed = provenance.seed if provenance else evaluation.evaluator.seed
        tell(f"replaying {self.path}: {name}, seed {seed}")
        versions = provenance.versions if provenance else {}
        recorded = self._recorded(name, evaluation)
        try:
            scores = self._scores(evaluation, seed)
            again = {header: _as_recorded(score, recorded.get(header)) for header, score in scores.items()}
            replayed = Replayed(recorded, again, versions)
        except Exception as err:  # a stage may raise anything
            replayed = Replayed(recorded, {}, versions, str(Failure.of(err)))
        tell(str(replayed))
        if tell_facts is not None:
            tell_facts({"file": str(self.path), "evaluation": name, "seed": seed, **replayed.to_json()})
        return replayed.code

    def _recorded(self, name: str, evaluation: Evaluation) -> Mapping[str, Number | None]:
        """Return the recorded scores by the metrics of the evaluation, the one that decides first."""
        if self.provenance is None:
            return {}
        scores = self.provenance.scores
        headers = [metric.header for metric in evaluation.evaluator.panel.all]
        if headers[0] not in scores:
            raise RecordError(
                f"{self.path}: has scores by {', '.join(scores)}, and {name} judges by {headers[0]}; "
                f"{self._remedy}"
            )
        return {header: scores[header] for header in headers if header in scores}

    def _scores(self, evaluation: Evaluation, seed: int | None) -> dict[str, Number | None]:
        panel = evaluation.evaluator.panel
        folds = PrefixCache(evaluation.engine, [self.params], seed=seed).folds(self.params)
        values = [finite(score.value) for score in panel.measure(folds).all]
        return dict(zip([metric.header for metric in panel.all], values, strict=True))

    @property
    def _remedy(self) -> str:
        return f"name the one that made it: hpometrics replay {self.path} module:Evaluation"


def _as_recorded(score: Number | None, recorded: Number | None) -> Number | None:
    """Return a score as it was recorded: a sweep stores whole numbers as floats."""
    return float(score) if isinstance(recorded, float) and isinstance(score, int) else score


def _read_best(path: Path) -> Mapping[str, Any]:
    try:
        content = read_json(read_whole(path))
    except ValueError as err:
        raise RecordError(f"{path}: a best.json is JSON: {err}") from err
    if not isinstance(content, Mapping):
        raise RecordError(f"{path}: a best.json is a mapping, got a {type(content).__name__}")
    return content
