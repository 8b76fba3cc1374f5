"""The commands of an evaluation: `eval`, and `replay`, which evaluates what a `best.json` holds again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TextIO

import click

from .._formatting import json_text
from .._imports import Kind, as_target, aside, import_target, split_target
from .._text import printable_lines
from ..exceptions import RecordError
from ..records._files import read_whole
from ..records._json import finite, read_json
from ..records.reproduction import Replayed
from .cache import PrefixCache
from .engine_params import EngineParams
from .evaluation import Evaluation
from .evaluator import Tell
from .records import BEST_FILE, INSTANCE_FILE, RESULTS_FILE, RESULTS_FORMS, Origins, Provenance
from .result import Failure
from .tuple_metrics import Number

_FILES = (BEST_FILE, *(f"{RESULTS_FILE}.{form}" for form in RESULTS_FORMS), INSTANCE_FILE)

_OF_A_SWEEP = "sweep.resolved.yaml"
"""A file in the directory of every sweep, which is replayed by its trials."""


@dataclass(frozen=True)
class Options:
    """The options of `eval`; None leaves a setting to the evaluation.

    `directory` is the directory of the files; default: that of the evaluation, or `runs/NAME`.
    """

    directory: Path | None = None
    batch: str = ""
    as_json: bool = False
    quiet: bool = False
    cache: bool | None = None
    workers: int | None = None
    seed: int | None = None


def eval_command(target: str, generator: str | None, options: Options) -> None:
    """Evaluate a list of engine params; print every score and the best.

    Args:
        target: the evaluation, `package.module:Name`, or with dots alone as in PredictionIO.
        generator: its list, likewise; None: the evaluation's own.
        options: the options of the command.

    Raises:
        ConfigError, EngineError, EngineParamsError: a name leads to something else.
        NoFiniteValueError: no engine params has a finite score.
    """
    target = as_target(target)
    generator = None if generator is None else as_target(generator)
    with aside():
        evaluation = import_evaluation(target)
        params = None if generator is None else import_target(generator, LIST, import_folders())
    directory = options.directory or evaluation.evaluator.directory or Path("runs", split_target(target)[1])
    run_evaluation(
        evaluation,
        params,
        directory,
        options,
        Origins(_name_of(evaluation.engine, target), target, generator or ""),
    )


def run_evaluation(
    evaluation: Evaluation, params: Any, directory: Path, options: Options, origins: Origins
) -> None:
    """Evaluate a list of engine params; print every score and the best.

    Args:
        evaluation: the evaluation.
        params: the list, see `Evaluation.evaluate`.
        directory: the directory of the files.
        options: the options of the command.
        origins: the names of engine, evaluation and list.

    Raises:
        NoFiniteValueError: no engine params has a finite score.
        EngineError, EngineParamsError: there is no list, or it has other entries than engine params.
    """
    with aside() as stdout:
        result = evaluation.evaluate(
            params,
            directory=directory,
            tell=_printer(options, stdout),
            cache=options.cache,
            seed=options.seed,
            workers=options.workers,
            origins=origins,
            batch=options.batch,
        )
    if options.as_json:
        click.echo(json_text(result.to_json()))
        return
    if options.quiet:
        click.echo(printable_lines(str(result)))
    click.echo(f"saved {', '.join(_FILES)} in {directory}")


def import_evaluation(target: str, folders: Sequence[str] = ()) -> Evaluation:
    """Import an evaluation, from the current folder or what is installed.

    Args:
        target: `package.module:Name`, or with dots alone.
        folders: folders to search too, after the current one.

    Raises:
        ConfigError: it cannot be imported, or is something else; the message has those of the module.
        EngineError: it has no engine or no metric.
    """
    return Evaluation.of(import_target(as_target(target), EVALUATION, [*import_folders(), *folders]))


def import_folders() -> list[str]:
    """Return the folders to search for modules before the installed packages."""
    return [str(Path.cwd())]


def _is_evaluation(value: Any) -> bool:
    if isinstance(value, type):
        return issubclass(value, Evaluation) and value is not Evaluation
    return isinstance(value, Evaluation)


def _may_be_list(value: Any) -> bool:
    """Return whether `params_list` may read a value; its entries are checked when they are read."""
    if hasattr(value, "engine_params_list"):
        return True
    return not isinstance(value, (type, str, bytes, Mapping)) and (
        callable(value) or isinstance(value, Iterable)
    )


EVALUATION = Kind("evaluation", _is_evaluation)
LIST = Kind("list of engine params", _may_be_list)


def _printer(options: Options, stdout: TextIO) -> Tell:
    """Return a function that prints a line: to stderr with `--json`, which has the output for itself."""
    if options.quiet:
        return lambda line: None
    return lambda line: click.echo(printable_lines(line), file=sys.stderr if options.as_json else stdout)


def _name_of(engine: Any, target: str) -> str:
    """Return the name of an engine in the module of its evaluation, if it is an object there."""
    module, _ = split_target(target)
    names = (name for name, value in vars(sys.modules[module]).items() if value is engine)
    return next((f"{module}:{name}" for name in names), "")


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
            raise RecordError(f"{self.path}: does not name its evaluation; {self._remedy}")
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
                f"{self.path}: has scores of {', '.join(scores)}, but {name} optimizes {headers[0]}; "
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
        return f"name the evaluation that wrote it: hpometrics replay {self.path} module:Evaluation"


def _as_recorded(score: Number | None, recorded: Number | None) -> Number | None:
    """Return a score as it was recorded: a sweep stores whole numbers as floats."""
    return float(score) if isinstance(recorded, float) and isinstance(score, int) else score


def _read_best(path: Path) -> Mapping[str, Any]:
    try:
        content = read_json(read_whole(path))
    except ValueError as err:
        raise RecordError(f"{path}: a best.json must be JSON: {err}") from err
    if not isinstance(content, Mapping):
        raise RecordError(f"{path}: a best.json must be a mapping, got a {type(content).__name__}")
    return content
