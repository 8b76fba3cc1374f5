"""Program: an engine in any language, which is told its params by a file and tells an epoch per line."""

from __future__ import annotations

import codecs
import io
import json
import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Timer
from typing import IO, Any

from .._redaction import excerpt
from ..exceptions import HpometricsError, RunError
from ..metrics.registry.lookup import find_metric
from ..metrics.registry.names import MetricName
from ..records._files import writing
from ..records.epoch_log import read_trial
from ..run.run import Run

GRACE = 10.0  # seconds for what goes on printing after the program, as `tee` does
_LOOK = 1.0  # seconds between two looks at whether a silent program is still there


def lines_of(process: subprocess.Popen[bytes]) -> Iterator[str]:
    """Give each line as soon as it is there; the last one may have no end.

    They end when nobody can print more, or soon after the program itself: what it has started and left, a
    service or a worker that hangs, may keep its output open for ever.
    """
    decoder = io.IncrementalNewlineDecoder(codecs.getincrementaldecoder("utf8")("replace"), translate=True)
    begun: list[str] = []
    for chunk in _chunks(process):
        begun.append(decoder.decode(chunk))
        if "\n" in begun[-1]:
            *lines, rest = "".join(begun).split("\n")
            begun = [rest]
            yield from (f"{line}\n" for line in lines)
    if rest := "".join([*begun, decoder.decode(b"", final=True)]):
        yield rest


def _chunks(process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    if process.stdout is None:
        return
    left = None
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        while left is None or left > time.monotonic():
            if waiting.select(_LOOK if left is None else max(0.0, left - time.monotonic())):
                chunk = os.read(process.stdout.fileno(), 1 << 16)
                if not chunk:
                    return
                yield chunk
            if left is None and process.poll() is not None:
                left = time.monotonic() + GRACE


PARAMS_FILE = "{params_file}"
"""Stands in a command for the path of the params of the trial, as JSON."""

_OUTPUT = "output.txt"
_MOST = 2**31  # epochs, where the budget says no number: the program ends by itself
_GRACE = 10.0  # seconds between a request to end and the end


@dataclass(frozen=True)
class Program:
    """Carries out a command for each trial, in the folder of the sweep file.

    Its params are in the file whose path stands for `{params_file}`; `HPOMETRICS_SEED` and
    `HPOMETRICS_TRIAL` are in its environment. Each line of its output that is a JSON object is an epoch:
    values by name, `null` for one that is undefined, `epoch` (counted from 0) if it likes. What else it
    prints is kept as `output.txt` beside the record of the trial. Where the trial ends first, or its time is
    up in the midst of an epoch, the program and what it started are asked to end, and after ten seconds
    made to. The trial ends with the program itself, whatever that has left at work.

    Args:
        command: the program and its arguments.
        folder: where it runs.
    """

    command: tuple[str, ...]
    folder: str

    @property
    def train(self) -> Program:
        """Itself: it is called as a training function is."""
        return self

    @property
    def output(self) -> None:
        """It says nothing of what it predicts: it measures its values itself."""
        return

    def __call__(self, params: Mapping[str, Any], run: Run) -> None:
        """Run the program.

        Raises:
            RunError: it cannot be started, ends with another exit code than 0, tells what is no epoch, or has
                told none when the time of the trial is up.
            BaseException: the host's stop.
        """
        with _place(run.directory) as place, _kept(place / _OUTPUT) as kept:
            since = kept.tell()  # an earlier attempt may have left its own
            file = place / "params.json"
            file.write_text(json.dumps(params, indent=1, allow_nan=False), encoding="utf8")
            with self._started(file, kept, run.directory) as process, _timed(process, run) as late:
                lines = lines_of(process)
                for epoch in run.epochs(run.spec.epochs or _MOST):
                    told = _next_epoch(lines, kept, epoch)
                    if told is not None:
                        _record(told, run)
                    elif late.is_set():
                        _end_late(run)
                        break
                    else:
                        self._check_end(process.wait(), kept, since)
                        break

    @contextmanager
    def _started(self, params: Path, kept: IO[str], home: Path | None) -> Iterator[subprocess.Popen[bytes]]:
        command = [part.replace(PARAMS_FILE, str(params.absolute())) for part in self.command]
        try:
            process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=kept,
                env={**os.environ, **_facts(home)},
                bufsize=0,
                start_new_session=True,
            )
        except OSError as err:
            raise RunError(f"the program {self.command[0]!r} cannot be started: {err.strerror}") from err
        try:
            yield process
        finally:
            _end(process)

    def _check_end(self, code: int, kept: IO[str], since: int) -> None:
        if code:
            printed = _lines_from(kept, since)  # of its stderr, as lines of its stdout wait in the buffer
            kept.flush()
            printed = printed or _lines_from(kept, since)
            last = f": {printed[-1]}" if printed else ""
            raise RunError(f"the program {self.command[0]!r} ended with exit code {code}{last}")


@contextmanager
def _place(directory: Path | None) -> Iterator[Path]:
    """Where files of a trial lie: its directory, or one that goes with it."""
    if directory is not None:
        yield directory
        return
    with tempfile.TemporaryDirectory() as own:
        yield Path(own)


@contextmanager
def _kept(path: Path) -> Iterator[IO[str]]:
    """Open the file of what a program prints beside its epochs.

    Raises:
        DiskError: it cannot be written.
    """
    with writing(path), path.open("a", encoding="utf8") as file:
        yield file


def _lines_from(kept: IO[str], since: int) -> list[str]:
    """Read what is in a file from a place on."""
    with Path(kept.name).open("rb") as file:
        file.seek(since)
        return file.read().decode("utf8", "replace").splitlines()


def _facts(home: Path | None) -> dict[str, str]:
    """What the environment of a program says of its trial."""
    record = None if home is None else read_trial(home)
    if record is None or record.seed is None:
        return {}
    return {"HPOMETRICS_SEED": str(record.seed), "HPOMETRICS_TRIAL": str(record.number)}


def _next_epoch(lines: Iterator[str], kept: IO[str], epoch: int) -> dict[str, Any] | None:
    """Read on to the next line that is an epoch, and keep the others; None where there is none.

    Raises:
        RunError: the line is of another epoch.
    """
    for line in lines:
        told = _object_in(line)
        if told is None:
            kept.write(line)
            continue
        if told.pop("epoch", epoch) != epoch:
            raise RunError(f"the next epoch is {epoch}, but the program tells: {excerpt(line.strip(), 80)}")
        return told
    return None


def _object_in(line: str) -> dict[str, Any] | None:
    if not line.lstrip().startswith("{"):
        return None
    try:
        told = json.loads(line)
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _record(told: Mapping[str, Any], run: Run) -> None:
    """Record the values of an epoch, each under its canonical name."""
    named = {_called(name): value for name, value in told.items()}
    run.log(**{name: value for name, value in named.items() if value is not None})
    undefined = {name: "the program told null" for name, value in named.items() if value is None}
    if undefined:
        run.undefined(**undefined)


def _called(name: str) -> str:
    """The canonical name of a metric that is registered; any other name as it is."""
    try:
        read = MetricName.parse(name)
        return str(find_metric(read.bare).name.like(read))
    except HpometricsError:
        return name


@contextmanager
def _timed(process: subprocess.Popen[bytes], run: Run) -> Iterator[Event]:
    """Stop the program when the time of its trial is up; the event says that it was."""
    late, left = Event(), run.seconds_left

    def stop() -> None:
        if process.poll() is None:
            late.set()
            _stop(process)

    if left is None:
        yield late
        return
    timer = Timer(left, stop)
    timer.start()
    try:
        yield late
    finally:
        timer.cancel()
        timer.join()


def _end_late(run: Run) -> None:
    """Note that the time was up in the midst of an epoch; those before it stand.

    Raises:
        RunError: there is none.
    """
    if not run.history:
        raise RunError(f"trial_time: the program has told no epoch in {run.spec.trial_time:g} seconds")
    run.end_late()


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program that is still at work, with what it has started."""
    with process:
        _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    with suppress(ProcessLookupError):  # it may end in this very moment
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(_GRACE)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
