"""The engine of a sweep, imported only for a run, with the sweep file's own folder on the import path."""

from __future__ import annotations

import inspect
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import BuiltinFunctionType
from typing import TYPE_CHECKING, Any, BinaryIO

from .._imports import Kind, import_modules, import_target, is_local, not_importable, same_folder
from .._redaction import reveal_secrets
from .._text import one_line
from ..backends.registry import BACKENDS
from ..config.document import ENGINE_PARAM, SweepFileError
from ..config.metric_section import Outputs
from ..config.placeholders import check_environment, check_program
from ..config.plan import Plan, make_plan
from ..exceptions import ConfigError, HpometricsError
from ..metrics.features import Output, OutputFeature, parse_feature
from ..metrics.registry.scope import check_output_name
from ..run.spec import RunSpec, engine, engine_facts
from ..run.trials import check_search
from .command_engine import Program

if TYPE_CHECKING:
    from .staged_engine import StagedEngine  # with the evaluation of engine params, which few sweeps have

Train = Callable[..., Any]


def _can_train(target: object) -> bool:
    """Return whether an object can be called with params and a run; functions written in C do not train."""
    if not callable(target) or isinstance(target, BuiltinFunctionType):
        return False
    try:
        inspect.signature(target).bind({}, None)
    except TypeError:
        return False
    except ValueError:  # it has no signature
        return True
    return True


def _staged_class(target: object) -> type[StagedEngine] | None:
    """Return the class for an engine of stages; None for another object."""
    if "hpometrics.engines.engine" not in sys.modules:  # the object would have loaded its base class
        return None
    from .staged_engine import StagedEngine, is_staged  # with the evaluation of engine params

    return StagedEngine if is_staged(target) else None


FUNCTION = Kind("function train(params, run)", _can_train, "train(params, run)")
ENGINE = FUNCTION._replace(fits=lambda target: _staged_class(target) is not None or _can_train(target))


class ImportedEngine:
    """A `train(params, run)` named by `module:function`; unpickling imports it again.

    Args:
        target: `module:function`.
        folders: put in front of the import path, the first one first.
        plugins: the modules of metrics that are imported before it.

    Raises:
        ConfigError: it cannot be imported, or cannot be called.
    """

    def __init__(self, target: str, folders: tuple[str, ...], plugins: tuple[str, ...] = ()) -> None:
        self.target, self.folders, self.plugins = target, folders, plugins
        import_modules(plugins, folders)
        self.train: Train = import_target(target, FUNCTION, folders)

    def __call__(self, params: dict[str, Any], run: Any) -> Any:
        """Train with the secrets, which only the training function receives, in the params."""
        return self.train(reveal_secrets(params), run)

    @property
    def output(self) -> Outputs | None:
        """The outputs that the engine itself states; functions that return an output are called.

        Raises:
            ConfigError: such a function raised.
        """
        output = engine_facts(self.train).get("output")
        if output is None:
            return None
        if isinstance(output, Mapping) and output:
            return {name: self._parse(one, name) for name, one in output.items()}
        return self._parse(output)

    def _parse(self, output: Output, name: str | None = None) -> OutputFeature:
        try:
            if name is not None:
                check_output_name(name)
            with same_folder():
                return parse_feature(output)
        except KeyboardInterrupt:
            raise
        except BaseException as err:  # the function is the user's and may read data
            which = "" if name is None else f" {name!r}"
            raise ConfigError(
                f"the output{which} of {self.target} cannot be read: {type(err).__name__}: {one_line(err)}"
            ) from err

    def __reduce__(self) -> tuple[type[ImportedEngine], tuple[Any, ...]]:
        return type(self), (self.target, self.folders, self.plugins)


class ChosenEngine(ImportedEngine):
    """Several functions `train(params, run)`; the param `engine` names the one that trains.

    Args:
        targets: `module:function` of each by its label.
        folders, plugins: see `ImportedEngine`.

    Raises:
        ConfigError: one cannot be imported, or two state different facts.
    """

    def __init__(
        self, targets: Mapping[str, str], folders: tuple[str, ...], plugins: tuple[str, ...] = ()
    ) -> None:
        self.targets, self.folders, self.plugins = dict(targets), folders, plugins
        self.engines = {label: ImportedEngine(one, folders, plugins) for label, one in targets.items()}
        self.target = " or ".join(targets.values())
        self.train = engine(**self._shared_facts())(partial(self._train))

    def _train(self, params: dict[str, Any], run: Any) -> Any:
        own = dict(params)
        return self.engines[own.pop(ENGINE_PARAM)].train(own, run)

    def _shared_facts(self) -> dict[str, Any]:
        shared: dict[str, tuple[str, Any]] = {}
        for one in self.engines.values():
            for name, fact in engine_facts(one.train).items():
                target, other = shared.setdefault(name, (one.target, fact))
                if other != fact:
                    raise ConfigError(
                        f"{target} states {name} {other}, and {one.target} {fact}; all engines of a sweep "
                        "are measured in the same way, so state it once, in one engine or in the sweep file"
                    )
        return {name: fact for name, (_, fact) in shared.items()}

    def __reduce__(self) -> tuple[type[ImportedEngine], tuple[Any, ...]]:
        return type(self), (self.targets, self.folders, self.plugins)


class LocalEngine(ImportedEngine):
    """A `train(params, run)` of a notebook, a script or another function, which no process can import.

    Args:
        target: its name, as in `__main__:train`.
        train: the function.
        folders, plugins: see `ImportedEngine`.
    """

    def __init__(
        self, target: str, train: Train, folders: tuple[str, ...] = (), plugins: tuple[str, ...] = ()
    ) -> None:
        self.target, self.folders, self.plugins, self.train = target, folders, plugins, train
        import_modules(plugins, folders)

    def dumped(self) -> bytes:
        """Return it, and the import path that it needs, for another process of this machine.

        Raises:
            ConfigError: something that the function uses cannot be sent there.
        """
        from ray import cloudpickle  # with Ray

        try:
            return pickle.dumps(sys.path) + bytes(cloudpickle.dumps(self.train))  # type: ignore[no-untyped-call]
        except Exception as err:  # an object may raise anything
            why = f"it cannot be sent to a worker: {type(err).__name__}: {one_line(err)}"
            raise ConfigError(f"{not_importable(self.target)}, or leave workers out; {why}") from err

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.target, self.train, self.folders, self.plugins)


def load_local(file: BinaryIO) -> Train:
    """Read the function that `LocalEngine.dumped` has written, and use its import path."""
    sys.path[:] = pickle.load(file)
    train: Train = pickle.load(file)
    return train


PlainEngine = ImportedEngine | Program
if TYPE_CHECKING:
    SweepEngine = PlainEngine | StagedEngine


def import_engine(plan: Plan, train: Train | None = None) -> SweepEngine:
    """Import the engine of a plan, from the sweep file's own folder, the current one, or what is installed.

    Its plug-ins are imported first. A command is not imported: it runs in the folder of the sweep file.

    Args:
        plan: the plan.
        train: the engine itself, if no process can import it.

    Raises:
        SweepFileError: the target or a plug-in cannot be imported, the target is neither a function nor an
            engine of stages, or cannot be measured as the file states.
    """
    home = str(plan.file.resolve().parent)
    folders, plugins = (home, str(Path.cwd())), tuple(plan.config.plugins)
    for index, plugin in enumerate(plugins):
        with _at(plan, "plugins", index):
            import_modules([plugin], folders)
    if plan.config.on_end is not None:
        with _at(plan, "on_end"):
            check_program(plan.config.on_end, Path(home))
    if command := plan.config.engine.command_line:
        with _at(plan, "engine", plan.config.engine.place):
            check_environment(command)
            if not BACKENDS[plan.config.backend.name].is_remote:
                check_program(command, Path(home))
        source = plan.config.engine.metrics_from
        return Program(
            tuple(command),
            home,
            {} if source is None else source.model_dump(exclude_none=True),
        )
    choice = plan.config.engine.choice
    if choice is not None:
        with _at(plan, "engine", "choice"):
            if local := next(filter(is_local, choice.values()), None):
                raise not_importable(local)
            return ChosenEngine(choice, folders, plugins)
    target = plan.config.engine.target or ""
    with _at(plan, "engine", "target"):
        if is_local(target):
            if train is None or _staged_class(train) is not None:
                raise not_importable(target)
            if not FUNCTION.fits(train):
                raise ConfigError(f"expected a {FUNCTION.name}, got {type(train).__name__}")
            return LocalEngine(target, train, folders, plugins)
        staged = _staged_class(import_target(target, ENGINE, folders))
        if staged is None:
            return ImportedEngine(target, folders, plugins)
    with _at(plan, "metrics") if plan.config.metrics.optimize else _at(plan, "engine", "target"):
        return staged.of(target, folders, plan)


def settle(plan: Plan, engine: SweepEngine) -> Plan:
    """Return the plan with the outputs that the engine states, and nothing left open.

    Raises:
        SweepFileError: the engine cannot state its outputs, or contradicts the file.
    """
    _check_secrets(plan, engine)
    with _at(plan, "engine", plan.config.engine.place):
        output = engine.output
    if isinstance(engine, PlainEngine):
        return make_plan(plan.document, output, settle=True)
    plan = make_plan(plan.document, output, settle=True, measures=engine.measures)
    with _at(plan, "metrics", "constraints"):
        engine.check_bounds(plan)
    return plan


def _check_secrets(plan: Plan, engine: SweepEngine) -> None:
    """Check that the environment has all secrets, and that the engine does not write them to files."""
    params = plan.config.engine.params
    with _at(plan, "engine", "params"):
        if reveal_secrets(params) != params and not isinstance(engine, PlainEngine):
            raise ConfigError("engine params are stored in plain text; let the stage read its secret itself")


def check_space(plan: Plan, engine: SweepEngine, spec: RunSpec) -> None:
    """Check the space of a plan against an engine that knows its params, and the number of repeats.

    Raises:
        SweepFileError: the engine does not have a param, or all repeats would be the same.
    """
    if plan.config.budget.repeats > 1 and not isinstance(engine, PlainEngine):
        with _at(plan, "budget", "repeats"):
            raise ConfigError("stages use only engine.seed, so all repeats would be identical")
    try:
        check_search(engine, spec, plan.space.params)
    except HpometricsError as err:
        text = one_line(err)
        name = next((name for name in plan.space.params if text.startswith(f"{name}: ")), "")
        fixed = name in plan.config.engine.params
        path = (*(("engine", "params") if fixed else ("space",)), *([name] if name else []))
        raise SweepFileError([plan.document.problem(path, text.removeprefix(f"{name}: "))]) from err


@contextmanager
def _at(plan: Plan, *path: str | int) -> Iterator[None]:
    """Raise errors as problems at a path of the sweep file."""
    try:
        yield
    except HpometricsError as err:
        raise SweepFileError([plan.document.problem(path, one_line(err))]) from err
