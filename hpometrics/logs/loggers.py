"""Loggers: those of one run, chosen by name or given as objects, and what a failing one means."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from ..exceptions import ConfigError, LoggerError, MissingExtraError, RunError, missing_extra
from .logger import EpochLogger, Standing
from .table import TableLogger
from .tensorboard import TensorBoardLogger
from .trainstats import TrainStats

LoggerLike: TypeAlias = str | EpochLogger | type[EpochLogger]

ALWAYS = "trainstats"
LOGGERS: dict[str, Callable[[Path], EpochLogger]] = {
    "table": TableLogger,
    "tensorboard": TensorBoardLogger,
    ALWAYS: TrainStats,
}
_PACKAGES = {"tensorboard": "tensorboardX"}  # of an extra that is called like the logger
_METHODS = ("begin", "epoch", "end")


def check_logger(logger: object, directory: Path | None) -> None:
    """Refuse, before the first trial, a logger that could not log.

    Raises:
        ConfigError: there is none of this name, or it has not the methods of one.
        MissingExtraError: its package is not installed.
        RunError: it writes files, and the run has no directory.
    """
    if not isinstance(logger, str):
        if not all(callable(getattr(logger, method, None)) for method in _METHODS):
            raise ConfigError(
                f"a logger is one of {', '.join(LOGGERS)}, or has the methods {', '.join(_METHODS)}, "
                f"got {logger!r}"
            )
        return
    if logger not in LOGGERS:
        near = get_close_matches(logger, LOGGERS, 1)
        advice = f"; did you mean {near[0]!r}?" if near else f"; choose from {', '.join(LOGGERS)}"
        raise ConfigError(f"{logger!r} is not a logger{advice}")
    missing = missing_package(logger)
    if missing is not None:
        raise missing
    if directory is None:
        raise RunError(f"the logger {logger} writes into the run's directory; give directory= too")


def missing_package(name: str) -> MissingExtraError | None:
    """Give the error of a logger whose package is not installed; None if it can log."""
    package = _PACKAGES.get(name)
    if package is None or find_spec(package) is not None:
        return None
    return missing_extra(f"the logger {name}", package, name)


def make_loggers(loggers: Iterable[LoggerLike], directory: Path | None) -> list[EpochLogger]:
    """Make the loggers of one run; with a directory, `.trainstats` is always among them.

    Args:
        loggers: names, objects, or classes, of which the run gets an object of its own.
        directory: the trial's own.

    Raises:
        ConfigError, MissingExtraError, RunError: see `check_logger`.
    """
    given = list(loggers)
    for logger in given:
        check_logger(logger, directory)
    names = [logger for logger in given if isinstance(logger, str)]
    always = [] if directory is None else [ALWAYS]
    ours = [] if directory is None else [LOGGERS[name](directory) for name in dict.fromkeys(always + names)]
    return ours + [made() if isinstance(made, type) else made for made in given if not isinstance(made, str)]


class Loggers:
    """The loggers of one run, told of each epoch in turn; the first epoch begins them.

    Args:
        loggers: see `make_loggers`.
        directory: the trial's own.
    """

    def __init__(self, loggers: Sequence[LoggerLike], directory: Path | None) -> None:
        self._all = make_loggers(loggers, directory)
        self._begun = False

    def __bool__(self) -> bool:
        return bool(self._all)

    def epoch(self, run: Standing) -> None:
        """Log the last epoch of the history.

        Raises:
            LoggerError: one of them failed; the others have the epoch.
        """
        before = replace(run, history=run.history[:-1], picks=run.picks[:-1])
        first, self._begun = not self._begun, True

        def tell(logger: EpochLogger) -> None:
            if first:
                logger.begin(before)
            logger.epoch(run)

        self._tell_all(tell, run)

    def end(self, run: Standing) -> None:
        """End them; nothing more is logged.

        Raises:
            LoggerError: one of them failed; the others have ended.
        """
        restored = bool(run.history) and not self._begun

        def tell(logger: EpochLogger) -> None:
            if restored:
                logger.begin(run)
            logger.end(run)

        try:
            if restored or self._begun:
                self._tell_all(tell, run)
        finally:
            self._all = []

    def _tell_all(self, tell: Callable[[EpochLogger], None], run: Standing) -> None:
        failed: LoggerError | None = None
        for logger in self._all:
            try:
                tell(logger)
            except Exception as err:  # whatever it is, the other loggers come first
                failure = _failure(logger, err, run.history[-1].epoch)
                if failed is None:
                    failed = failure
                else:
                    failed.add_note(str(failure))
        if failed is not None:
            raise failed


def _failure(logger: EpochLogger, error: Exception, epoch: int) -> LoggerError:
    names = {made: name for name, made in LOGGERS.items()}
    name = names.get(type(logger), type(logger).__qualname__)
    failed = LoggerError(
        f"the logger {name} failed at epoch {epoch}: {type(error).__name__}: {error}; "
        "the record has the epoch"
    )
    failed.__cause__ = error
    return failed
