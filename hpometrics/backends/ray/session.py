"""The session of Ray: keys of reports, its start, private directory, environment, signals, resources."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from warnings import catch_warnings, filterwarnings

import ray
from ray.tune.result import AUTO_RESULT_KEYS

from ..._imports import environment
from ...exceptions import ConfigError
from ...records._files import make_private

VALUE = "value"
PICKED = "picked"
EPOCH, PICKED_EPOCH = "epoch", "picked_epoch"
EPOCHS = "epochs"
"""How many epochs are done, which schedulers take for the time of a report."""
STEP = "step"
FINAL = "final"
VALUES = "values"
"""The measured values whose names mean something else in a report, by name."""
VOID = "void"
FULL = "full"
JUDGED = "judged"
"""The value of the metric that `prune_by` names, which a scheduler judges."""
UNJUDGED = "unjudged"
"""True if a judged value was not measured in this epoch, which no scheduler judges then."""
CHECKPOINT_SCORE = "checkpoint_score"
"""Beside a checkpoint: its epoch, from 1, if that is the picked one, else 0. So the picked epoch has the
greatest."""
TAKEN = frozenset(
    {
        *(VALUE, PICKED, EPOCH, PICKED_EPOCH, EPOCHS, STEP, FINAL, VALUES, VOID, FULL, JUDGED, UNJUDGED),
        *(CHECKPOINT_SCORE, "done", "trial_id", "experiment_tag", "should_checkpoint", *AUTO_RESULT_KEYS),
    }
)
"""The keys of a report that no measured value has: ours and Tune's."""

NUMBER, PARAMS = "number", "params"
GIVEN = "given"
"""The params that a trial started with, where the current ones differ."""
DONOR, SINCE = "donor", "since"
"""For a trial that has just exploited another: the number of that trial, and the epoch it continues from."""

LEFT_BY_RAY = ("PYTHONBREAKPOINT", "TUNE_RESULT_BUFFER_LENGTH", "CRC32C_SW_MODE")
"""The environment variables that Ray, Tune or what they load set in this process.

`RAY_AUTH_MODE` stays as Ray sets it: by it child processes can join a Ray that asks for a token.
"""
_SIGNALS = ("SIGINT", "SIGTERM", "SIGUSR1")
"""The signals for which Ray or Tune sets handlers of its own."""
_SHORT = 24  # characters of a folder below which Ray's sockets have names of at most 107

_STARTED_WITH = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths in train mean what they mean elsewhere
}
_QUIET = {
    "RAY_AIR_NEW_OUTPUT": "0",  # the new output prints to stdout even with verbose=0
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",  # with CheckpointConfig(num_to_keep=1)
}
_NO_LOGGERS = {"TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1"}


def flat(values: Mapping[str, float]) -> dict[str, Any]:
    """Return values as keys of a report: each under its name; those whose name is taken are in `values`.

    >>> flat({"ece": 0.1, "pid": 3.0})
    {'ece': 0.1, 'values': {'pid': 3.0}}
    """
    beside = {name: value for name, value in values.items() if _is_taken(name)}
    report: dict[str, Any] = {name: value for name, value in values.items() if name not in beside}
    return {**report, VALUES: beside} if beside else report


def measured(report: Mapping[str, Any]) -> dict[str, float]:
    """Return the values of a report as Tune passes it on, where nested keys are joined by a slash.

    >>> measured({"ece": 0.1, "values/pid": 3.0, "pid": 417, "epoch": 2})
    {'ece': 0.1, 'pid': 3.0}
    """
    own = {name: value for name, value in report.items() if not _is_taken(name)}
    front = f"{VALUES}/"
    own |= {name.removeprefix(front): value for name, value in report.items() if name.startswith(front)}
    return {name: value for name, value in own.items() if isinstance(value, float | int)}


def _is_taken(name: str) -> bool:
    return name in TAKEN or name.startswith(("config/", f"{VALUES}/"))


@contextmanager
def signal_handlers() -> Iterator[None]:
    """Restore the signal handlers of this process afterwards; only the main thread can set any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: it was not set by Python, which cannot set it again
                signal.signal(number, handler)


def session_arguments() -> dict[str, Any]:
    """Return the arguments of `ray.init` for a cluster that it starts; `RAY_TMPDIR` takes precedence.

    Every user may write to Ray's own directory, so it is created inside a private one.

    Raises:
        ConfigError: the environment lets everyone join without a token, or the directory is not private.
    """
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "disabled":
        raise ConfigError(
            "RAY_AUTH_MODE=disabled lets anyone who reaches this machine run code in Ray; unset it, so "
            "that Ray requires a token"
        )
    if os.name != "posix" or "RAY_TMPDIR" in os.environ:
        return {}
    folder = tempfile.gettempdir()
    home = Path(folder if len(folder) <= _SHORT else "/tmp") / f"hpometrics-{os.getuid()}"
    if not home.is_file():
        make_private(home)
    facts = home.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise ConfigError(
            f"{home}: is not a directory that only this user can write to, which Ray's files need; remove "
            "it, or set RAY_TMPDIR to another one"
        )
    return {"_temp_dir": str(home / "ray")}


def start_ray(**arguments: Any) -> None:
    """Start Ray unless it runs, without dashboard and usage statistics; `arguments` are `ray.init`'s.

    The environment and the signal handlers of this process stay as they are, except for the `RAY_AUTH_MODE`
    by which child processes can join.

    Raises:
        ConfigError: other users could join it; see `session_arguments`.
    """
    if ray.is_initialized():
        return
    address = arguments.get("address", os.environ.get("RAY_ADDRESS"))
    ours = session_arguments() if address in (None, "local") else {}
    with environment(_unset(_STARTED_WITH), LEFT_BY_RAY), signal_handlers(), catch_warnings():
        filterwarnings("ignore", "Tip: In future versions of Ray", FutureWarning)  # at each start of Ray 2.50
        ray.init(**{"include_dashboard": False, "log_to_driver": False, **ours, **arguments})


@contextmanager
def fitting(quiet: bool, loggers: bool) -> Iterator[None]:
    """Set the environment for the fit of a Tuner, and restore it and the signal handlers afterwards.

    Args:
        quiet: whether nothing is printed.
        loggers: whether Tune adds its own loggers (JSON, CSV, TensorBoard).
    """
    settings = _STARTED_WITH | (_QUIET if quiet else {}) | ({} if loggers else _NO_LOGGERS)
    with environment(_unset(settings), LEFT_BY_RAY), signal_handlers():
        yield


def loggers_on() -> bool:
    """Return whether the environment lets Tune add its own loggers."""
    return all(os.environ.get(name) != value for name, value in _NO_LOGGERS.items())


def _unset(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for which the user has set no environment variable."""
    return {name: value for name, value in settings.items() if name not in os.environ}


def check_resources(resources: Mapping[str, float]) -> None:
    """Refuse resources for one trial that no machine of the cluster has; Ray would wait for ever.

    Raises:
        ConfigError: the largest machine has less of one, or none has all of them.
    """
    names = {name: {"cpu": "CPU", "gpu": "GPU"}.get(name, name) for name in resources}
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
    machines = [{name: node.get(names[name], 0) for name in names} for node in nodes]
    if any(all(amount <= machine[name] for name, amount in resources.items()) for machine in machines):
        return
    for name, amount in resources.items():
        most = max((machine[name] for machine in machines), default=0)
        if amount > most:
            raise ConfigError(
                f"a trial requests {name}: {amount:g}, but the largest machine of the Ray cluster has "
                f"{most:g}"
            )
    amounts = ", ".join(f"{name}: {amount:g}" for name, amount in resources.items())
    raise ConfigError(f"a trial requests {amounts}, but no machine of the Ray cluster has all of them")
