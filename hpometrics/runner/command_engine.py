"""An engine in any language: a program that reads its params from a file and prints a line per epoch."""

from __future__ import annotations

import codecs
import io
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Timer
from typing import IO, Any

from .._formatting import json_text
from .._redaction import excerpt
from ..config.engine_section import requested_name
from ..config.placeholders import CHECKPOINT, Filling, fill, placeholders, program_of, program_path
from ..exceptions import NoFiniteValueError, ProgramEndError, ProgramError, RunError
from ..records._files import writing
from ..records.epoch_log import read_trial
from ..records.program_log import VARIABLE
from ..run.run import Run
from .programs.orphan import end_orphan, is_group_running, kill_group, note_process
from .programs.sources import LOG_FILE, Epoch, Source, make_source

GRACE = 10.0
"""Seconds for processes that print after the end of the program, as `tee` does."""

_OUTPUT = "output.txt"
_MAX_EPOCHS = 2**31  # where the budget has no number: the program ends by itself
_KILL_GRACE = 10.0  # seconds between a request to end and the end
_NOTED = 20  # lines of the output that an error has
_SHELL = 128  # a shell adds it to the number of the signal that has killed a program
_NOTHING_TO_RUN = (126, 127)  # the exit codes of a shell and of env
_OUT_OF_MEMORY = re.compile(
    r"\bMemoryError\b|OutOfMemoryError|bad_alloc|\bout of memory\b|cannot allocate memory", re.IGNORECASE
)
_EXCEPTION = re.compile(r"([A-Za-z_]\w*\.)*[A-Z]\w*(Error|Exception)(: .+)?")
"""The line with which Python ends a traceback."""
_ADVICE = re.compile(r"Set the environment variable HYDRA_FULL_ERROR=1\b.*")
"""The last line of every error of Hydra; the first line of the message above it says why."""
_WHY = re.compile(r"\b(could not|cannot|can't|missing|must|not found|error|mismatched)\b", re.IGNORECASE)
_POLL_INTERVAL = 0.1  # seconds between two looks at files and at whether a silent program still runs


@dataclass(frozen=True)
class Program:
    """An engine that runs a command for each trial, in the folder of the sweep file.

    The placeholders of the command are filled in for each trial, see `config.placeholders`, and its directory
    has the params as `params.json`; `HPOMETRICS_SEED` and `HPOMETRICS_TRIAL` are in the environment. Each
    line of the output that is a JSON object is an epoch: values by name, `null` for an undefined value,
    optionally `epoch` (counted from 0). Everything else that the program prints goes to `output.txt` beside
    the record of the trial. If the trial ends first, or its time is up within an epoch,
    the program and its child processes get SIGTERM, and SIGKILL after ten seconds. The trial ends with the
    program itself, even if its child processes still run. A trial that was interrupted goes on after its last
    epoch if there is a checkpoint at the path that `{checkpoint}` names.

    Args:
        command: the program and its arguments.
        folder: its working directory.
        metrics_from: the source of its values, see `MetricsFrom`; its output unless given.
    """

    command: tuple[str, ...]
    folder: str
    metrics_from: Mapping[str, Any] = field(default_factory=dict)

    @property
    def train(self) -> Program:
        """The engine itself, because it is called like a training function."""
        return self

    @property
    def output(self) -> None:
        """No output, because a program measures its values itself."""
        return

    @property
    def _name(self) -> str:
        """The name of the program in an error message."""
        return program_of(self.command)[0]

    @property
    def _keeps_state(self) -> bool:
        """Whether the program is given a path for its checkpoint."""
        return any(CHECKPOINT in placeholders(part) for part in self.command)

    def __call__(self, params: Mapping[str, Any], run: Run) -> None:
        """Run the program.

        Raises:
            ProgramError: it cannot be started.
            ProgramEndError: a signal ended it, or it has printed no epoch when the time of the trial is up.
            RunError: its exit code is not 0, or it prints another epoch than the next one.
            NoFiniteValueError: it has ended without an epoch.
            BaseException: the backend stops the trial.
        """
        home = TemporaryDirectory() if run.directory is None else nullcontext(str(run.directory))
        with home as folder, _open_log(Path(folder, _OUTPUT)) as log:
            start = log.tell()  # an earlier attempt may have left its own
            filling = Filling(params, run.seed, Path(folder).absolute())
            text = json_text(params)
            filling.params_file.write_text(text, encoding="utf8")
            end_orphan(filling.directory, _KILL_GRACE)
            first = run.resume_record() if self._keeps_state and filling.checkpoint.exists() else 0
            source = make_source(self.metrics_from, filling, Path(self.folder), run.spec, first)
            with self._running(filling, source, log, run) as process, _timed(process, run) as late:
                epochs = _from_epoch(first, _read_epochs(process, source, log))
                for number in run.epochs(run.spec.epochs or _MAX_EPOCHS):
                    epoch = next(epochs, None)
                    if epoch is not None:
                        _check_number(epoch, number)
                        _record(epoch.values, run)
                    elif late.is_set():
                        _end_late(run)
                        break
                    else:
                        self._check_end(process.wait(), log, start, run)
                        _check_reported(source, run)
                        break

    @contextmanager
    def _running(
        self, filling: Filling, source: Source, log: IO[str], run: Run
    ) -> Iterator[subprocess.Popen[bytes]]:
        command = fill(self.command, filling)
        if not command:
            raise ProgramError(f"the program {self._name!r} is empty, because the trial has no such param")
        try:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT if source.reads_errors else log,
                env={**os.environ, **source.prepare(filling), **_environment(filling, run)},
                bufsize=0,
                start_new_session=True,
            )
        except OSError as err:
            raise ProgramError(f"the program {self._name!r} cannot be started: {err.strerror}") from err
        try:
            note_process(filling.directory, process.pid)
            yield process
        finally:
            with process:
                _stop(process, log)

    def _check_end(self, code: int, log: IO[str], start: int, run: Run) -> None:
        """Check the exit code of a program that has ended by itself.

        Raises:
            ProgramError: a shell or `env` has found nothing to run.
            ProgramEndError: the program was killed, or is out of memory.
            RunError: it has failed.
        """
        if not code:
            return
        printed = _read_lines(log, start)  # of its stderr: the lines of its stdout are still buffered
        log.flush()
        printed = printed or _read_lines(log, start)
        text = f"the program {self._name!r} {format_end(code, printed)}{_format_cause(printed)}"
        kind: type[Exception] = ProgramEndError if _is_killed(code, printed) else RunError
        if code in _NOTHING_TO_RUN and not run.history:
            kind = ProgramError
        error = kind(text)
        if len(printed) > 1:
            error.add_note("\n".join(("The end of its output:", *printed[-_NOTED:])))
        raise error


def _format_cause(printed: Sequence[str]) -> str:
    """Return the line that says why a program failed: of its last ones that of an exception, or the last.

    Hydra prints no exception where it cannot compose a config, and advice behind its message.
    """
    last = [line for line in printed[-_NOTED:] if line.strip()]
    message = [line for line in last if not _ADVICE.fullmatch(line.strip())]
    if exceptions := [line for line in last if _EXCEPTION.fullmatch(line)]:
        return f": {exceptions[-1]}"
    if len(message) < len(last) and (reasons := [line for line in message if _WHY.search(line)]):
        return f": {reasons[0].strip()}"
    return f": {(message or last)[-1]}" if last else ""


def _read_epochs(process: subprocess.Popen[bytes], source: Source, log: IO[str]) -> Iterator[Epoch]:
    """Yield each epoch of a program as soon as it has ended, and log the lines that are not epochs."""
    next_poll = 0.0
    for line in _read_lines_and_pauses(process):
        if line:
            epochs = source.read_line(line)
            if source.reads_errors or not epochs:
                log.write(line)
            yield from epochs
        if time.monotonic() >= next_poll:
            next_poll = time.monotonic() + _POLL_INTERVAL
            yield from source.poll()
    yield from source.poll(last=True)


def _from_epoch(first: int, epochs: Iterator[Epoch]) -> Iterator[Epoch]:
    """Yield the epochs that a program with a checkpoint adds to those that the record has.

    It repeats epochs if its checkpoint is older than the record. If the checkpoint is newer, because the
    sweep was killed before it had read the epoch, the numbers that follow are moved down.
    """
    gap: int | None = None
    for epoch in epochs:
        if first and isinstance(epoch.number, int):
            if epoch.number < first:
                continue
            gap = epoch.number - first if gap is None else gap
            epoch = replace(epoch, number=epoch.number - gap)
        yield epoch


def _is_killed(code: int, printed: Sequence[str]) -> bool:
    """Return whether something else than its own failure has ended a program."""
    by_signal = code < 0 or _signal_name(code - _SHELL) is not None
    return by_signal or _is_out_of_memory(printed)


def _is_out_of_memory(printed: Sequence[str]) -> bool:
    return any(_OUT_OF_MEMORY.search(line) for line in printed[-_NOTED:])


def format_end(code: int, printed: Sequence[str] = ()) -> str:
    """Return how a program has ended that has not ended well."""
    out_of_memory = _is_out_of_memory(printed)
    suffix = ", out of memory" if out_of_memory else ""
    name = _signal_name(-code if code < 0 else code - _SHELL)
    if name == "SIGKILL" and not out_of_memory:
        suffix = ", which the system does when memory runs out"
    if code < 0:
        return f"was killed by {name or f'signal {-code}'}{suffix}"
    by_signal = f" ({name})" if name else ""
    return f"ended with exit code {code}{by_signal}{suffix}"


def _signal_name(number: int) -> str | None:
    try:
        return signal.Signals(number).name
    except ValueError:
        return None


def _read_lines_and_pauses(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield each line of a program's output, and an empty text where it prints nothing for a while.

    A line comes as soon as it is complete; the last one may have no newline. The lines end with the program
    if no process has the output open, or soon after it: its child processes, such as a service or a worker
    that hangs, may keep the output open for ever.
    """
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf8")("replace"), translate=True)
    pieces: list[str] = []
    for chunk in _read_chunks(process):
        if not chunk:
            yield ""
            continue
        pieces.append(decoder.decode(chunk))
        if "\n" in pieces[-1]:
            *lines, rest = "".join(pieces).split("\n")
            pieces = [rest]
            yield from (f"{line}\n" for line in lines)
    if rest := "".join([*pieces, decoder.decode(b"", final=True)]):
        yield rest


def _read_chunks(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """Yield what a program prints, and nothing where it prints nothing for a while.

    A program that has closed its output, as `exec > train.log` of a shell does, may still run.
    """
    if process.stdout is None:
        return
    deadline = None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while deadline is None or deadline > time.monotonic():
            left = _POLL_INTERVAL if deadline is None else deadline - time.monotonic()
            if selector.select(max(0.0, min(_POLL_INTERVAL, left))):
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    break
                yield chunk
            else:
                yield b""
            if deadline is None and process.poll() is not None:
                deadline = time.monotonic() + GRACE
    while process.poll() is None:
        yield b""
        with suppress(subprocess.TimeoutExpired):
            process.wait(_POLL_INTERVAL)


@contextmanager
def _open_log(path: Path) -> Iterator[IO[str]]:
    """Open the file for the output of a program that is not an epoch."""
    with writing(path), path.open("a", encoding="utf8") as file:
        yield file


def _read_lines(log: IO[str], start: int) -> list[str]:
    """Read the lines of a file from a position on."""
    with Path(log.name).open("rb") as file:
        file.seek(start)
        return file.read().decode("utf8", "replace").splitlines()


def _environment(filling: Filling, run: Run) -> dict[str, str]:
    """Return the environment variables that describe a trial to its program."""
    record = None if run.directory is None else read_trial(run.directory)
    facts = {"PATH": program_path(), VARIABLE: str(filling.directory / LOG_FILE)}
    if run.seed is not None:
        facts["HPOMETRICS_SEED"] = str(run.seed)
    if record is not None:
        facts["HPOMETRICS_TRIAL"] = str(record.number)
    return facts


def _check_number(epoch: Epoch, number: int) -> None:
    """Check that an epoch with a number is the next one."""
    if epoch.number not in (None, number):
        text = excerpt(epoch.text, 80)
        raise RunError(f"the next epoch is {number}, but the program printed: {text}")


def _check_reported(source: Source, run: Run) -> None:
    """Check that a program that has ended well has reported an epoch."""
    if not run.history:
        raise NoFiniteValueError(f"the program ended without a value of {run.spec.name}: {source.absence()}")


def _record(values: Mapping[str, Any], run: Run) -> None:
    """Record the values of an epoch, each by the name that the sweep file has for it."""
    requested = {spec.name for spec in run.spec.requested}
    by_name = {requested_name(name, requested): value for name, value in values.items()}
    run.log(**{name: value for name, value in by_name.items() if value is not None})
    undefined = {name: "the program printed null" for name, value in by_name.items() if value is None}
    if undefined:
        run.undefined(**undefined)


@contextmanager
def _timed(process: subprocess.Popen[bytes], run: Run) -> Iterator[Event]:
    """Stop the program when the time of its trial is up; the event is then set."""
    late, seconds = Event(), run.seconds_left

    def stop() -> None:
        if process.poll() is None:
            late.set()
            _stop(process)

    if seconds is None:
        yield late
        return
    timer = Timer(seconds, stop)
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
        timer.join()


def _end_late(run: Run) -> None:
    """End a run whose time is up within an epoch; the epochs before it count."""
    if not run.history:
        raise ProgramEndError(
            f"trial_time: the program printed no epoch within {run.spec.trial_time:g} seconds"
        )
    run.end_late()


def _stop(process: subprocess.Popen[bytes], log: IO[str] | None = None) -> None:
    """Stop a program that is still running, with its child processes.

    Args:
        process: the program.
        log: receives what they print until their end; None if the output is read elsewhere.
    """
    if process.poll() is not None:
        return
    deadline = time.monotonic() + _KILL_GRACE
    with suppress(ProcessLookupError, PermissionError):  # it may have ended in the meantime
        os.killpg(process.pid, signal.SIGTERM)
        if log is not None:
            _drain(process, log, deadline)
        kill_group(process.pid, deadline)


def _drain(process: subprocess.Popen[bytes], log: IO[str], deadline: float) -> None:
    """Log what a program and its child processes print until they have ended or their time is up."""
    for chunk in _read_chunks(process):
        log.write(chunk.decode("utf8", "replace"))
        if time.monotonic() > deadline or not (chunk or is_group_running(process.pid)):
            return
