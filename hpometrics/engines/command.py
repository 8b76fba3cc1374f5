"""The `eval` command: import an evaluation and its list of engine params, evaluate them, print the result."""

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
    directory = options.directory or evaluation.evaluator.directory or Path("runs", target.partition(":")[2])
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
        click.echo(json.dumps(result.to_json(), indent=1, allow_nan=False))
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
    module = target.partition(":")[0]
    names = (name for name, value in vars(sys.modules[module]).items() if value is engine)
    return next((f"{module}:{name}" for name in names), "")
