"""The errors of the package: each is an HpometricsError and stays catchable by a builtin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class HpometricsError(Exception):
    """The parent of every error this package raises on purpose."""


class DirectionError(HpometricsError, ValueError):
    """A direction is missing, unknown or stated twice in different words."""


class NoFiniteValueError(HpometricsError, ValueError):
    """There is no finite value to choose from."""


class NoFeasibleTrialError(NoFiniteValueError):
    """Every complete trial breaks a constraint; the message names the one that breaks them least."""


class ConstraintError(HpometricsError, ValueError):
    """A constraint is not well formed, or is about what cannot be bounded."""


class MetricNameError(HpometricsError, ValueError):
    """A metric's name does not follow the grammar, or its parameters do not fit the metric."""


class UnknownMetricError(HpometricsError, KeyError):
    """No metric of this name exists for this output feature.

    Args:
        message: the text, or a function that builds it when it is read: if the error is caught, because the
            name is one of the engine's own, no near names are searched.
    """

    def __init__(self, message: str | Callable[[], str]) -> None:
        super().__init__(message)

    def __str__(self) -> str:
        if callable(self.args[0]):
            self.args = (self.args[0](),)
        return str(self.args[0])  # KeyError would show the repr

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __reduce__(self) -> tuple[type[UnknownMetricError], tuple[str]]:
        return type(self), (str(self),)


class RegistrationError(HpometricsError, ValueError):
    """A metric cannot be registered: its facts are missing or disagree, or its name is taken."""


class MetricInputError(HpometricsError, ValueError):
    """A batch is not what the metric reads."""


class NonFiniteError(MetricInputError):
    """A model output or target holds nan or infinity."""


class AdditionError(HpometricsError, TypeError):
    """Two values of different types are added."""


class StateError(HpometricsError, ValueError):
    """A stored or foreign state does not fit the metric that should take it in."""


class SpaceError(HpometricsError, ValueError):
    """A search space is not well formed, or does not fit the params it is given."""


class RunError(HpometricsError, ValueError):
    """A run is used in an order or with values that have no meaning."""


class ProgramEndError(RunError):
    """A program was ended from outside, by a signal or because its time was up."""


class LoggerError(RunError):
    """A logger failed at an epoch that the record has."""


class RankError(RunError):
    """Another rank of the process group has failed, or is gone."""


class EngineParamsError(HpometricsError, ValueError):
    """Engine params are not well formed, or hold a value without a type."""


class EngineError(HpometricsError, ValueError):
    """An engine lacks a stage, or a stage returns a value that the next one cannot accept."""


class RecordError(HpometricsError, ValueError):
    """A record on disk does not read back, or belongs to another sweep."""


class NewerFormatError(HpometricsError, ValueError):
    """A file was written by a newer version of this package; the file is valid and was not changed."""


class DiskError(HpometricsError, OSError):
    """A sweep cannot write its record; earlier records stay valid."""


class NotKeptError(HpometricsError, ValueError):
    """A question about a finished run needs more than was stored of it."""


class ConfigError(HpometricsError, ValueError):
    """A setting, an argument or a file is wrong; for a sweep file the message has a line per error."""


class ProgramError(ConfigError):
    """The program of a sweep cannot be started at all; the sweep ends, and its trial goes on later."""


class MissingExtraError(HpometricsError, ImportError):
    """A feature needs a package that is not installed; the message has the pip line."""


def pip_line(extra: str) -> str:
    """Return the command that installs the packages of an extra, as the installed metadata states them.

    It names the packages, not this one: a checkout may have no release that an index would find. Each release
    of torchvision and torchaudio fits one release of torch; beside them the installed torch is named too, so
    that pip does not replace it.
    """
    from importlib.metadata import PackageNotFoundError, requires, version  # read only for an error

    try:
        requirements = requires("hpometrics") or []
        suffix = f'extra == "{extra}"'
        lines = [line.partition(";")[0].strip() for line in requirements if line.endswith(suffix)]
        if any(line.startswith(("torchvision", "torchaudio")) for line in lines):
            lines.append(f"torch=={version('torch').partition('+')[0]}")
    except PackageNotFoundError:  # the package runs from its source tree
        lines = []
    return "pip install " + (" ".join(f"'{one}'" for one in lines) or f"-e '.[{extra}]'")


def missing_extra(what: str, package: str, extra: str | None) -> MissingExtraError:
    """Return the error that names the feature, the package it needs and how to install it.

    Args:
        what: the feature that needs the package.
        package: the name of the package, as it is printed.
        extra: the extra that installs the package; None if there is none.
    """
    line = f"pip install {package}" if extra is None else pip_line(extra)
    return MissingExtraError(f"{what} needs {package}, which is not installed: {line}")
