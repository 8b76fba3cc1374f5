"""An engine in any language: a program that reads its params from a file and prints a line per epoch."""

from __future__ import annotations

import codecs
import io
import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Timer
from typing import IO, Any

from .._redaction import excerpt
from ..config.placeholders import Filling, fill
from ..exceptions import HpometricsError, RunError
from ..metrics.registry.lookup import find_metric
from ..metrics.registry.names import MetricName
from ..records._files import writing
from ..records.epoch_log import read_trial
from ..run.run import Run

GRACE = 10.0
"""Seconds for processes that print after the end of the program, as `tee` does."""

_OUTPUT = "output.txt"
_MAX_EPOCHS = 2**31  # where the budget has no number: the program ends by itself
_KILL_GRACE = 10.0  # seconds between a request to end and the end
_POLL_INTERVAL = 1.0  # seconds between two checks of whether a silent program is still running


@dataclass(frozen=True)
class Program:
    """An engine that runs a command for each trial, in the folder of the sweep file.

    The placeholders of the command are filled in for each trial, see `config.placeholders`, and its directory
    has the params as `params.json`; `HPOMETRICS_SEED` and `HPOMETRICS_TRIAL` are in the environment. Each
    line of the output that is a JSON object is an epoch: values by name, `null` for an undefined value,
    optionally `epoch` (counted from 0). Everything else that the program prints goes to `output.txt` beside
    the record of the trial. If the trial ends first, or its time is up within an epoch,
    the program and its child processes get SIGTERM, and SIGKILL after ten seconds. The trial ends with the
    program itself, even if its child processes still run.

    Args:
        command: the program and its arguments.
        folder: its working directory.
    """

    command: tuple[str, ...]
    folder: str

    @property
    def train(self) -> Program:
        """The engine itself, because it is called like a training function."""
        return self

    @property
    def output(self) -> None:
        """No output, because a program measures its values itself."""
        return

    def __call__(self, params: Mapping[str, Any], run: Run) -> None:
        """Run the program.

        Raises:
            RunError: it cannot be started, its exit code is not 0, it prints another epoch than the next one,
                or has printed none when the time of the trial is up.
            BaseException: the backend stops the trial.
        """
        home = TemporaryDirectory() if run.directory is None else nullcontext(str(run.directory))
        with home as folder, _open_log(Path(folder, _OUTPUT)) as log:
            start = log.tell()  # an earlier attempt may have left its own
            filling = Filling(params, run.seed, Path(folder).absolute())
            text = json.dumps(params, indent=1, allow_nan=False)
            filling.params_file.write_text(text, encoding="utf8")
            with self._running(filling, log, run) as process, _timed(process, run) as late:
                lines = lines_of(process)
                for epoch in run.epochs(run.spec.epochs or _MAX_EPOCHS):
                    values = _next_epoch(lines, log, epoch)
                    if values is not None:
                        _record(values, run)
                    elif late.is_set():
                        _end_late(run)
                        break
                    else:
                        self._check_end(process.wait(), log, start)
                        break

    @contextmanager
    def _running(self, filling: Filling, log: IO[str], run: Run) -> Iterator[subprocess.Popen[bytes]]:
        try:
            process = subprocess.Popen(
                fill(self.command, filling),
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**os.environ, **_environment(run)},
                bufsize=0,
                start_new_session=True,
            )
        except OSError as err:
            raise RunError(f"the program {self.command[0]!r} cannot be started: {err.strerror}") from err
        try:
            yield process
        finally:
            with process:
                _stop(process)

    def _check_end(self, code: int, log: IO[str], start: int) -> None:
        if code:
            printed = _read_lines(log, start)  # of its stderr: the lines of its stdout are still buffered
            log.flush()
            printed = printed or _read_lines(log, start)
            last = f": {printed[-1]}" if printed else ""
            raise RunError(f"the program {self.command[0]!r} ended with exit code {code}{last}")


def lines_of(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Yield each line of a program's output as soon as it is complete; the last one may have no newline.

    The lines end when all processes have closed the output, or soon after the end of the program itself: its
    child processes, such as a service or a worker that hangs, may keep the output open for ever.
    """
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf8")("replace"), translate=True)
    pieces: list[str] = []
    for chunk in _read_chunks(process):
        pieces.append(decoder.decode(chunk))
        if "\n" in pieces[-1]:
            *lines, rest = "".join(pieces).split("\n")
            pieces = [rest]
            yield from (f"{line}\n" for line in lines)
    if rest := "".join([*pieces, decoder.decode(b"", final=True)]):
        yield rest


def _read_chunks(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    if process.stdout is None:
        return
    deadline = None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while deadline is None or deadline > time.monotonic():
            if selector.select(_POLL_INTERVAL if deadline is None else max(0.0, deadline - time.monotonic())):
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    return
                yield chunk
            if deadline is None and process.poll() is not None:
                deadline = time.monotonic() + GRACE


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


def _environment(run: Run) -> dict[str, str]:
    """Return the environment variables that describe a trial to its program."""
    record = None if run.directory is None else read_trial(run.directory)
    seed = {} if run.seed is None else {"HPOMETRICS_SEED": str(run.seed)}
    return seed if record is None else {**seed, "HPOMETRICS_TRIAL": str(record.number)}


def _next_epoch(lines: Iterator[str], log: IO[str], epoch: int) -> dict[str, Any] | None:
    """Return the values of the next epoch, and log the lines before it; None if there is no further epoch."""
    for line in lines:
        values = _parse_object(line)
        if values is None:
            log.write(line)
            continue
        if values.pop("epoch", epoch) != epoch:
            raise RunError(f"the next epoch is {epoch}, but the program printed: {excerpt(line.strip(), 80)}")
        return values
    return None


def _parse_object(line: str) -> dict[str, Any] | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _record(values: Mapping[str, Any], run: Run) -> None:
    """Record the values of an epoch, each under its canonical name."""
    by_name = {_canonical_name(name): value for name, value in values.items()}
    run.log(**{name: value for name, value in by_name.items() if value is not None})
    undefined = {name: "the program printed null" for name, value in by_name.items() if value is None}
    if undefined:
        run.undefined(**undefined)


def _canonical_name(name: str) -> str:
    """Return the canonical name of a registered metric; any other name is returned unchanged."""
    try:
        parsed = MetricName.parse(name)
        return str(find_metric(parsed.bare).name.like(parsed))
    except HpometricsError:
        return name


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
        raise RunError(f"trial_time: the program has printed no epoch in {run.spec.trial_time:g} seconds")
    run.end_late()


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Stop a program that is still running, with its child processes."""
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError):  # it may have ended in the meantime
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_KILL_GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
