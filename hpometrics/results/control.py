"""The control of a sweep by other processes: pause it, resume it, stop it."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..exceptions import ConfigError, NewerFormatError, RecordError
from ..records._files import read_whole, write_text
from ..records._json import FORMAT, FORMAT_KEY, read_sealed, sealed
from .run_directory import RunDirectory, file_lock

_SECONDS = 0.5
"""The time between two readings of the requests."""


@dataclass(frozen=True)
class Control:
    """The requests of other processes to those that run a sweep, in `control.json` of its directory.

    Args:
        paused: whether no further trial may begin.
        stops: the number of stop requests; a process obeys those made after its own start.
    """

    paused: bool = False
    stops: int = 0

    @classmethod
    def read(cls, home: RunDirectory) -> Control:
        """Read the requests; without a file there are none.

        Raises:
            RecordError: the file is damaged.
            NewerFormatError: a newer version wrote it.
        """
        if not os.path.lexists(home.control):
            return cls()
        place = home.display_path(home.control)
        try:
            content: dict[str, Any] = read_sealed(read_whole(home.control).decode(), place)
            return cls(bool(content["paused"]), int(content["stops"]))
        except NewerFormatError:
            raise
        except (ValueError, KeyError, TypeError) as err:
            raise RecordError(f"{place}: is damaged; hpometrics run sets it aside") from err

    def write(self, home: RunDirectory) -> None:
        """Write the requests."""
        content = {FORMAT_KEY: FORMAT, "paused": self.paused, "stops": self.stops}
        write_text(home.control, sealed(json.dumps(content)) + "\n")


class ControlListener:
    """The requests to this process: read between trials and, for a stop, all the time.

    Args:
        home: the run directory.
    """

    def __init__(self, home: RunDirectory) -> None:
        self._home, self._stops = home, 0
        self._stops = self._asked().stops

    @property
    def paused(self) -> bool:
        """Whether no further trial may begin."""
        return self._asked().paused

    @property
    def stopped(self) -> bool:
        """Whether another process has requested a stop since this one began."""
        stops = self._asked().stops
        self._stops = min(self._stops, stops)  # a file that is gone has forgotten them
        return stops > self._stops

    def _asked(self) -> Control:
        """Read the requests; move a damaged file aside, as if it held none."""
        return self._home.recover(self._home.control, lambda: Control.read(self._home), Control())

    def wait(self, say: Callable[[str], object]) -> float:
        """Wait while the sweep is paused, and return the seconds that it took."""
        if not self.paused:
            return 0.0
        began, place = time.monotonic(), shlex.quote(str(self._home.label))
        say(f"paused; hpometrics resume {place} goes on")
        while self.paused:
            time.sleep(_SECONDS)
        say("resumed")
        return time.monotonic() - began


def pause(home: RunDirectory) -> str:
    """Hold back further trials, and return a line that says so; of a complete sweep change nothing."""
    _known(home)
    if not home.is_at_work and home.read().is_complete(home.records()):
        return f"{home.label}: the sweep is complete, so there is nothing to pause"
    _change(home, lambda control: replace(control, paused=True))
    return f"{home.label}: no further trial starts; running trials continue{_workers(home)}"


def resume(home: RunDirectory) -> str:
    """Release further trials, and return a line that says so.

    Raises:
        ConfigError: the sweep is not paused.
    """
    if not Control.read(_known(home)).paused:
        raise ConfigError(f"{home.label}: is not paused; resume a stopped sweep with hpometrics run")
    _change(home, lambda control: replace(control, paused=False))
    return f"{home.label}: trials begin again{_workers(home)}"


def stop(home: RunDirectory) -> str:
    """Interrupt the processes at work as Ctrl-C does, and return a line that says so."""
    _change(_known(home), lambda control: replace(control, stops=control.stops + 1))
    if not home.is_at_work:
        return f"{home.label}: no process is at work in it"
    return f"{home.label}: its processes save their progress and end; hpometrics run resumes the sweep"


def _change(home: RunDirectory, change: Callable[[Control], Control]) -> None:
    """Change the requests; those that another process makes at the same time stay."""
    with file_lock(home.path / ".control.lock", blocking=True):
        change(Control.read(home)).write(home)


def _known(home: RunDirectory) -> RunDirectory:
    home.read()
    home.check_private()
    return home


def _workers(home: RunDirectory) -> str:
    return "" if home.is_at_work else "; no process is at work in it"
