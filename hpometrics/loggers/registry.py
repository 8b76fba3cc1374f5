"""The loggers of a run: their protocol, those that have a name, and the calls at each epoch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from .._text import did_you_mean, text_of
from ..exceptions import ConfigError, DiskError, LoggerError, MissingExtraError, RunError, missing_extra
from ..records._files import is_of_disk

if TYPE_CHECKING:
    from ..records.trial_record import EpochRecord  # which `check` need not load


@dataclass(frozen=True)
class Standing:
    """The state of a run as its loggers see it. The sequences grow with the run; copy what you keep.

    Attributes:
        metric: the name of what is optimized.
        given: the params of the run itself; a logger reads `params`.
        directory: the trial's own; None if the run keeps nothing on disk.
        history: every closed epoch in order, those before a restart included.
        picks: for each of them, the epoch whose value counted by then; None where none had a finite value.
        impatience: epochs since the last improvement.
        complete: whether the run has come to its end; one that failed or was stopped has not.
    """

    metric: str
    given: Mapping[str, Any]
    directory: Path | None
    history: Sequence[EpochRecord]
    picks: Sequence[int | None]
    impatience: int = 0
    complete: bool = False

    @property
    def params(self) -> dict[str, Any]:
        """A copy of the params of the run: nobody else sees what a logger changes in it."""
        return deepcopy(dict(self.given))

    @property
    def picked(self) -> int | None:
        """The epoch whose value counts so far."""
        return self.picks[-1] if self.picks else None

    def value_at(self, index: int) -> float | None:
        """Return the value that counted when the epoch at this index of the history had closed."""
        pick = self.picks[index]
        value = math.nan if pick is None else self.history[pick].number(self.metric)
        return value if math.isfinite(value) else None


class EpochLogger(Protocol):
    """Follows runs. One object may follow several, one after the other; a class is made anew for each.

    On Ray each trial has a copy of its own, in the worker.

    What it raises ends the trial as failed, with the logger's name; the record and the other loggers
    already have the epoch.
    """

    def begin(self, run: Standing) -> None:
        """Begin before the first epoch is logged.

        For a run that resumes after a kill, `run.history` has the epochs already done. Whatever was logged of
        this run earlier is void: it may hold epochs that the run will repeat.
        """

    def epoch(self, run: Standing) -> None:
        """Log the epoch that has just closed, `run.history[-1]`."""

    def end(self, run: Standing) -> None:
        """Close what is open; `run.complete` says how the run ended."""


LoggerLike: TypeAlias = str | Mapping[str, Mapping[str, Any]] | EpochLogger | type[EpochLogger]
"""A name, a name with its options (`{"mlflow": {"uri": ...}}`), an object, a class."""

ALWAYS = "trainstats"
LOGGERS: dict[str, tuple[str, str]] = {
    "csv": ("csv", "CsvLogger"),
    "table": ("table", "TableLogger"),
    "tensorboard": ("tensorboard", "TensorBoardLogger"),
    "mlflow": ("mlflow", "MlflowLogger"),
    "wandb": ("wandb", "WandbLogger"),
    ALWAYS: ("trainstats", "TrainStats"),
}
"""The module and the class of each, which is loaded when a run has one."""
_PACKAGES = {
    "tensorboard": ("tensorboardX", None),
    "mlflow": ("mlflow", "mlflow"),
    "wandb": ("wandb", "wandb"),
}
"""The package that a logger needs, and the extra that brings it; tensorboardX comes with Ray Tune."""
_METHODS = ("begin", "epoch", "end")
_TRIALS = "trials"


def place_in_sweep(directory: Path) -> tuple[str, str]:
    """Return the name of the folder of a sweep, and where a run is below its `trials`: `0007/repeats/1`.

    Outside of a sweep it is the name of the folder above, and that of the directory.

    >>> place_in_sweep(Path("/runs/digits/trials/0007/confirm/0")), place_in_sweep(Path("/runs/digits"))
    (('digits', '0007/confirm/0'), ('runs', 'digits'))
    """
    home = directory.absolute()
    trials = next((folder for folder in home.parents if folder.name == _TRIALS), None)
    if trials is None:
        return home.parent.name, home.name
    return trials.parent.name, home.relative_to(trials).as_posix()


def check_logger(logger: object, directory: Path | None) -> None:
    """Check, before the first trial, that a logger can log.

    Raises:
        ConfigError: the name is unknown, or the object lacks a method of a logger.
        MissingExtraError: its package is not installed.
        RunError: it writes files, and the run has no directory.
    """
    if not isinstance(logger, (str, Mapping)):
        if not all(callable(getattr(logger, method, None)) for method in _METHODS):
            raise ConfigError(
                f"a logger must be one of {', '.join(LOGGERS)}, or have the methods {', '.join(_METHODS)}, "
                f"got {logger!r}"
            )
        return
    name, options = _parse_logger(logger)
    if name not in LOGGERS:
        raise ConfigError(f"{name!r} is not a logger{_near(name, LOGGERS)}")
    check_options(name, options)
    missing = missing_package(name)
    if missing is not None:
        raise missing
    if directory is None:
        raise RunError(f"the logger {name} writes into the directory of the run; set directory= too")


def check_loggers(loggers: Iterable[object], directory: Path | None) -> None:
    """Check, before the first trial, that loggers can log together.

    Raises:
        ConfigError: two have the same name; see also `check_logger`.
        MissingExtraError, RunError: see `check_logger`.
    """
    names = []
    for logger in loggers:
        check_logger(logger, directory)
        if isinstance(logger, (str, Mapping)):
            names.append(_parse_logger(logger)[0])
            if names[-1] in names[:-1]:
                raise ConfigError(f"the logger {names[-1]} is listed twice; leave one of the two out")


def check_options(name: str, options: Mapping[str, Any]) -> None:
    """Check that a logger takes these options; all of them are texts.

    Raises:
        ConfigError: the option does not exist, or is not a text.
    """
    if not options:
        return
    parameters = signature(_class_of(name)).parameters.values()
    option_names = [one.name for one in parameters if one.kind is Parameter.KEYWORD_ONLY]
    for option, value in options.items():
        if option not in option_names:
            takes = _near(option, option_names) if option_names else "; it has no options"
            raise ConfigError(f"the logger {name} has no option {option!r}{takes}")
        if not isinstance(value, str):
            raise ConfigError(f"the logger {name}: {option} must be text, got {value!r}")


def missing_package(name: str) -> MissingExtraError | None:
    """Return the error of a logger whose package is not installed; None if it can log."""
    package, extra = _PACKAGES.get(name, (None, None))
    if package is None or find_spec(package) is not None:
        return None
    return missing_extra(f"the logger {name}", package, extra)


def make_loggers(loggers: Iterable[LoggerLike], directory: Path | None) -> list[EpochLogger]:
    """Make the loggers of one run; with a directory, `.trainstats` is always among them.

    Args:
        loggers: names, objects, or classes, of which the run gets an object of its own.
        directory: the trial's own.

    Raises:
        ConfigError, MissingExtraError, RunError: see `check_loggers`.
    """
    requested = list(loggers)
    if not requested and directory is None:
        return []
    check_loggers(requested, directory)
    by_name = [_parse_logger(logger) for logger in requested if isinstance(logger, (str, Mapping))]
    options = dict([_parse_logger(ALWAYS), *by_name])
    ours = [] if directory is None else [_class_of(name)(directory, **options[name]) for name in options]
    others = [logger for logger in requested if not isinstance(logger, (str, Mapping))]
    return ours + [logger() if isinstance(logger, type) else logger for logger in others]


def _class_of(name: str) -> Callable[..., EpochLogger]:
    module, attribute = LOGGERS[name]
    logger_class: Callable[..., EpochLogger] = getattr(import_module(f".{module}", __package__), attribute)
    return logger_class


def _parse_logger(logger: str | Mapping[str, Mapping[str, Any]]) -> tuple[str, Mapping[str, Any]]:
    """Split a logger into its name and options.

    Raises:
        ConfigError: it is a mapping of another form.
    """
    if isinstance(logger, str):
        return logger, {}
    if len(logger) == 1:
        ((name, options),) = logger.items()
        if isinstance(options, Mapping):
            return name, options
    raise ConfigError(f"a logger with options must be {{name: {{option: value}}}}, got {dict(logger)!r}")


def _near(word: str, names: Iterable[str]) -> str:
    return did_you_mean(word, names) or f"; choose from {', '.join(names)}"


class Loggers:
    """The loggers of one run, called in turn at each epoch; the first epoch begins them.

    Args:
        loggers: as `make_loggers` makes them.
    """

    def __init__(self, loggers: Sequence[EpochLogger]) -> None:
        self._all = loggers
        self._begun = False

    def epoch(self, run: Standing) -> None:
        """Log the last epoch of the history.

        Raises:
            LoggerError: one of them failed; the others have the epoch.
            DiskError: one of them could not write.
        """
        before = None if self._begun else replace(run, history=run.history[:-1], picks=run.picks[:-1])
        self._begun = True

        def call(logger: EpochLogger) -> None:
            if before is not None:
                logger.begin(before)
            logger.epoch(run)

        self._call_all(call, run)

    def end(self, run: Standing) -> None:
        """End them, once.

        Raises:
            LoggerError: one of them failed; the others have ended.
            DiskError: one of them could not write.
        """
        restored = bool(run.history) and not self._begun

        def call(logger: EpochLogger) -> None:
            if restored:
                logger.begin(run)
            logger.end(run)

        if restored or self._begun:
            self._call_all(call, run)

    def _call_all(self, call: Callable[[EpochLogger], None], run: Standing) -> None:
        failures: list[LoggerError | DiskError] = []
        for logger in self._all:
            try:
                call(logger)
            except Exception as err:  # whatever it is, the other loggers come first
                failures.append(_failure(logger, err, run.history[-1].epoch))
        failures.sort(key=lambda failure: not isinstance(failure, DiskError))
        for failure in failures[1:]:
            failures[0].add_note(str(failure))
        if failures:
            raise failures[0]


def _failure(logger: EpochLogger, error: Exception, epoch: int) -> LoggerError | DiskError:
    """Create the error of a logger; a full disk is not the fault of the trial."""
    logger_class = type(logger)
    places = {(f"{__package__}.{module}", of): name for name, (module, of) in LOGGERS.items()}
    name = places.get((logger_class.__module__, logger_class.__qualname__), logger_class.__qualname__)
    kind = DiskError if is_of_disk(error) else LoggerError
    failed = kind(
        f"the logger {name} failed at epoch {epoch}: {type(error).__name__}: {text_of(error)}; "
        "the record has the epoch"
    )
    failed.__cause__ = error
    return failed
