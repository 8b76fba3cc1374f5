"""What can go wrong, by name: every error is an HpometricsError and stays catchable by a builtin."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class HpometricsError(Exception):
    """The parent of every error this package raises on purpose."""


class ObjectiveError(HpometricsError, ValueError):
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
        message: the text, or what makes it once it is read: an error that is caught, since the name is one
            of the engine's own, looks for no near names.
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
    """A metric cannot be registered: its facts are missing, disagree or are taken."""


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


class LoggerError(RunError):
    """A logger failed at an epoch that the record has."""


class RankError(RunError):
    """Another rank of the process group has failed, or is gone."""


class EngineParamsError(HpometricsError, ValueError):
    """Engine params are not well formed, or hold a value that says nothing of what it is."""


class EngineError(HpometricsError, ValueError):
    """An engine lacks a stage, or a stage gives what the next one cannot take."""


class RecordError(HpometricsError, ValueError):
    """A record on disk does not read back, or belongs to another sweep."""


class NewerFormatError(HpometricsError, ValueError):
    """A file was written by a newer version of this package; it is sound, and nothing of it was changed."""


class DiskError(HpometricsError, OSError):
    """What a sweep records cannot be written; what it has recorded before stands."""


class NotKeptError(HpometricsError, ValueError):
    """A question about a run that is over needs more than was kept of it."""


class ConfigError(HpometricsError, ValueError):
    """A sweep file has errors; the message lists all of them, one per line."""


class NotYetError(HpometricsError, ValueError):
    """A setting that the schema knows and this version does not carry out."""


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
        stated = requires("hpometrics") or []
        suffix = f'extra == "{extra}"'
        wanted = [line.partition(";")[0].strip() for line in stated if line.endswith(suffix)]
        if any(line.startswith(("torchvision", "torchaudio")) for line in wanted):
            wanted.append(f"torch=={version('torch').partition('+')[0]}")
    except PackageNotFoundError:  # it is run from its source tree
        wanted = []
    return "pip install " + (" ".join(f"'{one}'" for one in wanted) or f"-e '.[{extra}]'")


def missing_extra(what: str, package: str, extra: str | None) -> MissingExtraError:
    """Build the one sentence that names what needs which package and how to get it.

    Args:
        what: needs the package.
        package: its name, as it is printed.
        extra: brings the package; None where no extra does.
    """
    line = f"pip install {package}" if extra is None else pip_line(extra)
    return MissingExtraError(f"{what} needs {package}, which is not installed: {line}")
