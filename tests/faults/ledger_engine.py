"""An engine that notes beside the record what it did, and comes to harm where the file `harm` says."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path

LEDGER = "ledger"
HARM = "harm"


class Steps:
    """What the engine has learned: how many epochs it has trained."""

    def __init__(self) -> None:
        self.done = 0

    def state_dict(self):
        """Return the count."""
        return {"done": self.done}

    def load_state_dict(self, state):
        """Take a count back."""
        self.done = state["done"]


def train(params, run):
    """A cost that falls from epoch to epoch, or from report to report; `pause` seconds each."""
    number, steps, closed = int(run.directory.name), Steps(), None
    run.restore(steps=steps)
    every = run.spec.every
    for count in run.epochs() if every is None else run.steps(size=2):
        if closed is not None:
            note("reported", number, closed)
            closed = None
        if not run.due:
            continue
        epoch = count // (every or 1)
        note("began", number, epoch)
        time.sleep(params["pause"])
        steps.done += 1
        cost = come_to_harm(number, epoch, cost_of(params["lr"], steps.done - 1))
        if cost is not None:
            run.log(cost=cost)
        run.checkpoint(steps=steps)
        closed = epoch
    if closed is not None:
        note("reported", number, closed)


def cost_of(lr: float, epoch: int) -> float:
    """The cost of an epoch."""
    return lr + 1 / (1 + epoch)


def note(what: str, number: int, epoch: int) -> None:
    """Add a line to the ledger in one write, which a kill cannot tear."""
    line = json.dumps([what, number, epoch, os.getpid()]) + "\n"
    ledger = os.open(LEDGER, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(ledger, line.encode())
    os.close(ledger)


def come_to_harm(number: int, epoch: int, cost: float) -> float | None:
    """Do what the file says, a list of `[trial, epoch, kind]`; return the cost to log, if any."""
    told = json.loads(Path(HARM).read_text()) if Path(HARM).exists() else []
    for *at, kind in told:
        if at == [number, epoch]:
            return HARMS[kind](cost)
    return cost


def _raise(cost):
    raise ValueError("harmed")


class Stop(BaseException):
    """An exception that means more than an error, as libraries have it."""


class Mute(Exception):
    """An exception that cannot say what it is about."""

    def __str__(self):
        """Fail."""
        raise ValueError("no text")


def _raises(error):
    def harm(cost):
        raise error

    return harm


def _out_of_memory(cost):
    """Ask for more than the process may have, which is a GiB more than it has: other threads need some."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + 2**30, hard))
    try:
        return float(len(bytearray(2**31)))
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def _wait(cost):
    """Hang until a signal raises."""
    while True:
        signal.pause()


def _hold(cost):
    """Stay at work until the harm is over, or for a minute."""
    for _ in range(6000):
        if not Path(HARM).exists():
            break
        time.sleep(0.01)
    return cost


def _clean_up_slowly(cost):
    """Hang, and hang once more on the way out."""
    try:
        note("hanging", 2, 1)
        _wait(cost)
    finally:
        note("cleaning", 2, 1)
        _wait(cost)


def _fill_disk(cost):
    """Leave no byte on the disk that holds `runs`."""
    with contextlib.suppress(OSError), Path("runs/filler").open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    return cost


def _limit_files(cost):
    """Let no file grow beyond 64 KiB."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, resource.RLIM_INFINITY))
    return cost


def _fill_record(cost):
    """Have no room for another line of the record."""
    for handle in Path("/proc/self/fd").iterdir():
        if handle.is_symlink() and os.readlink(handle).endswith("/epochs.jsonl"):
            os.dup2(os.open("/dev/full", os.O_WRONLY), int(handle.name))
    return cost


HARMS = {
    "exception": _raise,
    "a canceled task": _raises(asyncio.CancelledError("harmed")),
    "a BaseException": _raises(Stop("harmed")),
    "a group": _raises(BaseExceptionGroup("harmed", [Stop()])),
    "GeneratorExit": _raises(GeneratorExit()),
    "an exception without text": _raises(Mute()),
    "a text that no file takes": _raises(ValueError("\ud800")),
    "sys.exit": lambda cost: sys.exit(3),
    "out of memory": _out_of_memory,
    "os._exit": lambda cost: os._exit(9),
    "SIGKILL": lambda cost: os.kill(
        os.getpid(), signal.SIGKILL
    ),  # as the system does that has no memory left
    "nan": lambda cost: float("nan"),
    "no metric": lambda cost: None,
    "full disk": _fill_disk,
    "file size limit": _limit_files,
    "full record": _fill_record,
    "hang": _wait,
    "hold": _hold,
    "slow end": _clean_up_slowly,
}
