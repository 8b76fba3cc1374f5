"""The `eval` command: an evaluation and its list of engine params, imported by name, evaluated, printed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

import click

from .._imports import Kind, as_target, import_target
from .._stdout import aside
from .._text import printable_lines
from .evaluation import Evaluation
from .evaluator import Tell
from .records import BEST_FILE, INSTANCE_FILE, RESULTS_FILE, RESULTS_FORMS, Origins

_FILES = (BEST_FILE, *(f"{RESULTS_FILE}.{form}" for form in RESULTS_FORMS), INSTANCE_FILE)


@dataclass(frozen=True)
class Options:
    """The options of `eval`; None leaves a setting to the evaluation.

    `directory` is where the files go, unless the evaluation says so itself `runs/NAME`.
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
        options: how.

    Raises:
        ConfigError, EngineError, EngineParamsError: what was named is something else.
        NoFiniteValueError: no engine params has a finite score.
    """
    target = as_target(target)
    generator = None if generator is None else as_target(generator)
    with aside():
        evaluation = import_evaluation(target)
        params = None if generator is None else import_target(generator, LIST, here())
    directory = options.directory or evaluation.evaluator.directory or Path("runs", target.partition(":")[2])
    carry_out(
        evaluation,
        params,
        directory,
        options,
        Origins(_name_of(evaluation.engine, target), target, generator or ""),
    )


def carry_out(
    evaluation: Evaluation, params: Any, directory: Path, options: Options, origins: Origins
) -> None:
    """Evaluate a list of engine params; print every score and the best.

    Args:
        evaluation: by what.
        params: the list, see `Evaluation.evaluate`.
        directory: where the files go.
        options: how.
        origins: where engine, evaluation and list come from.

    Raises:
        NoFiniteValueError: no engine params has a finite score.
        EngineError, EngineParamsError: there is no list, or it is none of engine params.
    """
    with aside() as stdout:
        result = evaluation.evaluate(
            params,
            directory=directory,
            tell=_tell(options, stdout),
            cache=options.cache,
            seed=options.seed,
            workers=options.workers,
            origins=origins,
            batch=options.batch,
        )
    if options.as_json:
        click.echo(json.dumps(result.to_json(), indent=1, allow_nan=False))
        return
    if options.quiet:
        click.echo(printable_lines(str(result)))
    click.echo(f"saved {', '.join(_FILES)} in {directory}")


def import_evaluation(target: str, folders: Sequence[str] = ()) -> Evaluation:
    """Import an evaluation, from the current folder or what is installed.

    Args:
        target: `package.module:Name`, or with dots alone.
        folders: where it is looked for too, after the current one.

    Raises:
        ConfigError: it cannot be imported, or is something else; with the evaluations there are.
        EngineError: it states no engine or no metric.
    """
    return Evaluation.of(import_target(as_target(target), EVALUATION, [*here(), *folders]))


def here() -> list[str]:
    """Where modules are looked for before what is installed."""
    return [str(Path.cwd())]


def _is_evaluation(found: Any) -> bool:
    if isinstance(found, type):
        return issubclass(found, Evaluation) and found is not Evaluation
    return isinstance(found, Evaluation)


def _may_be_list(found: Any) -> bool:
    """What `params_list` may read; whether its entries are engine params is seen when they are read."""
    if hasattr(found, "engine_params_list"):
        return True
    return not isinstance(found, (type, str, bytes, Mapping)) and (
        callable(found) or isinstance(found, Iterable)
    )


EVALUATION = Kind("evaluation", _is_evaluation)
LIST = Kind("list of engine params", _may_be_list)


def _tell(options: Options, stdout: TextIO) -> Tell:
    """Give what takes the lines: JSON has the output for itself."""
    if options.quiet:
        return lambda line: None
    return lambda line: click.echo(printable_lines(line), file=sys.stderr if options.as_json else stdout)


def _name_of(engine: Any, target: str) -> str:
    """Give the name that the evaluation's module has for its engine, if it is an object there."""
    module = target.partition(":")[0]
    names = (name for name, value in vars(sys.modules[module]).items() if value is engine)
    return next((f"{module}:{name}" for name in names), "")
