"""A search that a test injures: its folder, its processes, the ledger of its engine, the toll of it all."""

from __future__ import annotations

import json
import signal
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from random import Random

from forked import Forked
from ledger_engine import HARM, LEDGER
from toll import Toll

EPOCHS = 3
TRIALS = 6


class Patient(ABC):
    """A search by some host.

    Args:
        folder: the current folder of its processes.
        trials: its budget.

    Attributes:
        host: who searches.
    """

    host: str

    def __init__(self, folder: Path, trials: int = TRIALS) -> None:
        self.folder, self.trials = folder, trials
        self._finished: list[tuple[int, set[int]]] = []

    @abstractmethod
    def start(self) -> Forked:
        """Start the search, or go on with it."""

    @abstractmethod
    def join(self) -> Forked:
        """Start one more process on a search that has been started."""

    @abstractmethod
    def written(self) -> Counter[tuple[int, int]]:
        """How often each trial and epoch is in the record."""

    @abstractmethod
    def finished(self) -> set[int]:
        """The trials that have ended."""

    @abstractmethod
    def whole(self) -> set[int]:
        """The trials that are complete, with all that they should have."""

    @abstractmethod
    def running(self) -> set[int]:
        """The trials that the host takes for running."""

    @abstractmethod
    def begun(self) -> int:
        """How many trials there are."""

    def run(self) -> int:
        """Start it, wait for its end and return the exit code."""
        return self.start().ended()

    def harm(self, kind: str, trial: int = 2, epoch: int = 1) -> None:
        """Let a trial come to harm in an epoch, see `ledger_engine`."""
        self.harm_all([(trial, epoch, kind)])

    def harm_all(self, harms: Sequence[tuple[int, int, str]]) -> None:
        """Let several trials come to harm: trial, epoch, kind."""
        (self.folder / HARM).write_text(json.dumps(harms))

    def heal(self) -> None:
        """Let all go well from now on."""
        (self.folder / HARM).unlink()

    def ledger(self) -> list[tuple[str, int, int, int]]:
        """What the engine noted: what, trial, epoch, process."""
        path = self.folder / LEDGER
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    def noted(self, what: str, trial: int, epoch: int) -> bool:
        """Say whether the engine has come so far."""
        return any((noted, *at) == (what, trial, epoch) for noted, *at, _ in self.ledger())

    def trained(self, what: str = "began") -> Counter[tuple[int, int]]:
        """How often the engine noted this of each trial and epoch."""
        return Counter((number, epoch) for noted, number, epoch, _ in self.ledger() if noted == what)

    def worker_of(self, trial: int) -> int:
        """The process that has been at a trial last."""
        return next(pid for _, number, _, pid in reversed(self.ledger()) if number == trial)

    def is_at_work(self, process: Forked) -> bool:
        """Say whether a process has begun an epoch."""
        return any(pid == process.pid for _, _, _, pid in self.ledger())

    def note_finished(self) -> None:
        """Take note of the trials that are finished by now: none of them is to begin an epoch any more.

        They are read first: what others finish meanwhile has its epochs in the ledger by then.
        """
        finished = self.finished()
        self._finished.append((len(self.ledger()), finished))

    def interrupted(self, number: signal.Signals, trial: int = 2, epoch: int = 1) -> int:
        """Send the host a signal while a trial hangs, and return its exit code; then all goes well again."""
        self.harm("hang", trial, epoch)
        process = self.start()
        assert process.waits_for(lambda: self.noted("began", trial, epoch)), self.err()
        process.send(number)
        code = process.ended()
        self.note_finished()
        self.heal()
        return code

    def kill(self, process: Forked) -> int:
        """Kill a process at once and return the trial that it was at; -1 if it was at none."""
        process.killed()
        self.note_finished()
        return max((number for _, number, _, pid in self.ledger() if pid == process.pid), default=-1)

    def kill_workers(self, rounds: int, random: Random) -> list[int]:
        """Kill one of two processes at a random moment, again and again; return the trials they were at."""
        at_work, trials = [self.join(), self.join()], []
        for _ in range(rounds):
            victim = at_work.pop(0)
            if not victim.waits_for(lambda victim=victim: self.is_at_work(victim)):
                break  # nothing is left to do
            victim.lives(random.uniform(0.0, 0.4))
            trials.append(self.kill(victim))
            at_work.append(self.join())
        for process in at_work:
            process.ended()
        return trials

    def kill_all(self, rounds: int, random: Random) -> list[int]:
        """Kill the only process at a random moment, be it at work or not, again and again."""
        trials = []
        for _ in range(rounds):
            process = self.start()
            process.lives(random.uniform(0.1, 2.0))
            trials.append(self.kill(process))
        return trials

    def toll(
        self, fault: str, tried: int, survived: int, taken: int = 0, trials: Collection[int] | None = None
    ) -> Toll:
        """Count what faults cost, once the search has been run to its end.

        Args:
            fault: its name.
            tried: how often.
            survived: see `Toll`.
            taken: epochs that the fault itself erased from the record.
            trials: that the fault was done to, where others came to other harm; all unless given.
        """
        lost = self.trained("reported") - self.written()
        hit = range(len(self.ledger())) if trials is None else trials
        return Toll(
            fault,
            self.host,
            tried,
            int(survived),
            again=sum(number in hit for number in self._run_again()),
            lost=sum(count for (number, _), count in lost.items() if number in hit) - taken,
            zombies=sum(number in hit for number in self.running()),
            over=max(0, self.begun() - self.trials),
        )

    def err(self) -> str:
        """What the processes have said on stderr."""
        return (self.folder / "err").read_text()

    def _run_again(self) -> set[int]:
        ledger = self.ledger()
        return set().union(
            *({number for _, number, _, _ in ledger[told:]} & done for told, done in self._finished)
        )
