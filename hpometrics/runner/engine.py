"""The engine of a sweep: imported only to run, with the sweep file's own folder on the import path."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any

from .._imports import Kind, import_target, same_folder
from .._text import one_line
from ..config.document import Problem, SweepFileError
from ..config.outputs import Outputs
from ..config.plan import Plan, make_plan
from ..config.secrets import revealed
from ..exceptions import ConfigError, HpometricsError
from ..metrics.features import Output, OutputFeature, parse_feature
from ..metrics.registry.scope import check_output_name
from ..run.spec import RunSpec, engine_facts
from ..run.trials import check_search
from .command_engine import Program

if TYPE_CHECKING:
    from .engine_params import StagedEngine  # with the evaluation of engine params, which few sweeps have

Train = Callable[..., Any]


def _can_train(found: object) -> bool:
    """Say whether something can be called with params and a run; what is written in C trains nothing."""
    if not callable(found) or isinstance(found, BuiltinFunctionType):
        return False
    try:
        inspect.signature(found).bind({}, None)
    except TypeError:
        return False
    except ValueError:  # it does not say what it takes
        return True
    return True


def _is_staged(found: object) -> bool:
    """Check whether it is an engine of stages; whoever has made one has loaded what it derives from."""
    if "hpometrics.evaluation" not in sys.modules:
        return False
    from .engine_params import is_staged

    return is_staged(found)


FUNCTION = Kind("function train(params, run)", _can_train)
ENGINE = Kind(FUNCTION.name, lambda found: _is_staged(found) or _can_train(found))


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
        """Train; what is secret is told to the training function alone."""
        return self.train(revealed(params), run)

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
            with same_folder():
                return parse_feature(output)
        except KeyboardInterrupt:
            raise
        except BaseException as err:  # it reads the user's data
            which = "" if name is None else f" {name!r}"
            raise ConfigError(
                f"the output{which} of {self.target} cannot be had: {type(err).__name__}: {one_line(err)}"
            ) from err

    def __reduce__(self) -> tuple[type[ImportedEngine], tuple[str, tuple[str, ...]]]:
        return type(self), (self.target, self.folders)


PlainEngine = ImportedEngine | Program
if TYPE_CHECKING:
    SweepEngine = PlainEngine | StagedEngine


def import_engine(plan: Plan) -> SweepEngine:
    """Import the engine of a plan, from the sweep file's own folder, the current one, or what is installed.

    A command is not imported: it is carried out in the folder of the sweep file.

    Raises:
        SweepFileError: it cannot be imported, is nothing to call and no engine of stages, or cannot be judged
            by what the file says.
    """
    home = str(plan.file.resolve().parent)
    if plan.config.engine.command is not None:
        return Program(tuple(plan.config.engine.command), home)
    folders = (home, str(Path.cwd()))
    target = plan.config.engine.target or ""
    with _at(plan, "engine", "target"):
        staged = _is_staged(import_target(target, ENGINE, folders))
        if not staged:
            return ImportedEngine(target, folders)
    from .engine_params import StagedEngine, Stated

    with _at(plan, "metrics") if plan.config.metrics.optimize else _at(plan, "engine", "target"):
        return StagedEngine(target, folders, Stated.of(plan))


def settle(plan: Plan, engine: SweepEngine) -> Plan:
    """Return the plan with nothing left open: the engine says what it predicts.

    Raises:
        SweepFileError: it cannot say it, or contradicts the file.
    """
    _check_secrets(plan, engine)
    with _at(plan, "engine", "target"):
        output = engine.output
    if isinstance(engine, PlainEngine):
        return make_plan(plan.document, output, settle=True)
    plan = make_plan(plan.document, output, settle=True, measures=engine.measures)
    with _at(plan, "metrics", "constraints"):
        engine.check_bounds(plan)
    return plan


def _check_secrets(plan: Plan, engine: SweepEngine) -> None:
    """Refuse secrets that are not in the environment, or that an engine would write down."""
    params = plan.config.engine.params
    with _at(plan, "engine", "params"):
        if revealed(params) != params and not isinstance(engine, PlainEngine):
            raise ConfigError("engine params are written as they are; let the stage read its secret itself")


def check_space(plan: Plan, engine: SweepEngine, spec: RunSpec) -> None:
    """Let an engine that knows its params refuse the space of a plan, and several seeds where it has one.

    Raises:
        SweepFileError: a param leads nowhere, or all repeats would be the same.
    """
    _check_repeats(plan, engine)
    try:
        check_search(engine, spec, plan.space.params)
    except HpometricsError as err:
        text = one_line(err)
        name = next((name for name in plan.space.params if text.startswith(f"{name}: ")), "")
        fixed = name in plan.config.engine.params
        path = (*(("engine", "params") if fixed else ("space",)), *([name] if name else []))
        problem = Problem(plan.document.mark(path), path, text.removeprefix(f"{name}: "))
        raise SweepFileError([problem]) from err


def _check_repeats(plan: Plan, engine: SweepEngine) -> None:
    if plan.config.budget.repeats > 1 and not isinstance(engine, PlainEngine):
        with _at(plan, "budget", "repeats"):
            raise ConfigError("stages draw from engine.seed alone, so that all repeats would be the same")


@contextmanager
def _at(plan: Plan, *path: str) -> Iterator[None]:
    """Say of an error where the file names what is at fault."""
    try:
        yield
    except HpometricsError as err:
        raise SweepFileError([Problem(plan.document.mark(path), path, one_line(err))]) from err
