"""The engine of a sweep: imported only to run, with the sweep file's own folder on the import path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..exceptions import ConfigError
from ..messages import one_line
from ..metrics.features import Output, OutputFeature, parse_feature
from ..metrics.places import check_output_name
from ..run.spec import engine_facts
from ..target import Kind, import_target
from .outputs import Outputs
from .plan import Plan, make_plan
from .problems import Problem, SweepFileError

Train = Callable[..., Any]
FUNCTION = Kind("function train(params, run)", callable)


class ImportedEngine:
    """A `train(params, run)` named by `module:function`; wherever it is unpickled, it is imported anew.

    Args:
        target: `module:function`.
        folders: put in front of the import path, the first one first.

    Raises:
        ConfigError: it cannot be imported, or is nothing to call.
    """

    def __init__(self, target: str, folders: tuple[str, ...]) -> None:
        self.target, self.folders = target, folders
        self.train: Train = import_target(target, FUNCTION, folders)

    def __call__(self, params: dict[str, Any], run: Any) -> Any:
        """Train."""
        return self.train(params, run)

    @property
    def output(self) -> Outputs | None:
        """What the engine itself says that it predicts; functions that give an output are called.

        Raises:
            ConfigError: such a function raised.
        """
        told = engine_facts(self.train).get("output")
        if told is None:
            return None
        if isinstance(told, Mapping) and told:
            return {name: self._made(one, name) for name, one in told.items()}
        return self._made(told)

    def _made(self, output: Output, name: str | None = None) -> OutputFeature:
        try:
            if name is not None:
                check_output_name(name)
            return parse_feature(output)
        except Exception as err:  # it reads the user's data
            which = "" if name is None else f" {name!r}"
            raise ConfigError(
                f"the output{which} of {self.target} cannot be had: {type(err).__name__}: {one_line(err)}"
            ) from err

    def __reduce__(self) -> tuple[type[ImportedEngine], tuple[str, tuple[str, ...]]]:
        return type(self), (self.target, self.folders)


def import_engine(plan: Plan) -> ImportedEngine:
    """Import the engine of a plan, from the sweep file's own folder, the current one, or what is installed.

    Raises:
        SweepFileError: it cannot be imported, or is nothing to call.
    """
    folders = (str(plan.file.resolve().parent), str(Path.cwd()))
    with _at_target(plan):
        return ImportedEngine(plan.config.engine.target or "", folders)


def settle(plan: Plan, engine: ImportedEngine) -> Plan:
    """Return the plan with nothing left open: the engine says what it predicts.

    Raises:
        SweepFileError: it cannot say it, or contradicts the file.
    """
    with _at_target(plan):
        output = engine.output
    return make_plan(plan.document, output, settle=True)


@contextmanager
def _at_target(plan: Plan) -> Iterator[None]:
    """Say of an error of the engine where the file names it."""
    try:
        yield
    except ConfigError as err:
        path = ("engine", "target")
        raise SweepFileError([Problem(plan.document.mark(path), path, str(err))]) from err
