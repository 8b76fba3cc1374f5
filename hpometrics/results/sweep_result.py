"""The result of a sweep in Python: its best, its trials as a table, its figures, its page in a notebook."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path, PurePath
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Literal

from .._formatting import html_table
from .._text import one_line
from ..exceptions import ConfigError, NoFiniteValueError, NotKeptError, RunError, missing_extra
from ..records.remote_copy import fetch_directory, is_remote
from ..records.trial_record import CHECKPOINTS, TrialRecord
from ..selection.selection import Best
from .export import trial_table
from .leaderboard import optimal_block
from .report.content import Report, notebook_figures, write_report
from .report.figures import report_figures

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from ..run.checkpoint import Stateful
    from .report.drawing import Figure

_ROWS = 10
_FETCHED: dict[str, Path] = {}
"""Copies by their URL, each in a folder that this process removes at its end."""
_REASONS = {
    "front": "one metric was optimized",
    "winner": "no trial is the winner",
}


class SweepResult(Report):
    """The result of a sweep; `SweepResult.read(directory)` reads that of any run directory.

    Attributes:
        best: the best trial, with `params`, `value`, `values`, `epoch` and `checkpoint`; None if no trial is
            complete, and `reason` says why.
        directory: the run directory.
        confirmation: how the winner was confirmed, if it was.
    """

    @property
    def trials(self) -> Sequence[TrialRecord]:
        """The trials by number, with their epochs."""
        return self.records

    @property
    def plot(self) -> Plots:
        """The figures of the report, one by one: `result.plot.curves()`."""
        return Plots(self)

    def to_pandas(self) -> pd.DataFrame:
        """Return a row per trial, by its number, with the columns of `trials.csv`."""
        import pandas as pd  # which takes long to import

        head, *rows = trial_table(self.records, self.resolved, self.confirmation)
        return pd.DataFrame(rows, columns=head).set_index("trial")

    def load_best(self, **objects: Stateful) -> Best:
        """Load the checkpoint of the best trial; see `load_best`."""
        if self.best is None:
            raise NoFiniteValueError(self.reason)
        if objects:
            _load(self.best, objects)
        return self.best

    def report(self, kind: Literal["html", "md"] = "html", to: Path | None = None) -> Path:
        """Write the report and return its path; see `write_report`."""
        return write_report(self.directory, kind, to)

    def __repr__(self) -> str:
        if self.best is None:
            return f"{self.summary}; {self.reason}"
        return "\n".join([optimal_block(self.best, self.records, self.resolved), *self.sureness])

    def _repr_html_(self) -> str:
        parts = [f"<h4>{escape(self.resolved.name)}</h4><p><b>{escape(self.headline)}</b></p>"]
        parts.append(f"<p>{escape(f'{self.summary}. {self.direction}')}</p>")
        if self.best is not None:
            parts += [
                '<pre style="white-space: pre-wrap">',
                *map(escape, self.remarks),
                "</pre>",
            ]
            parts.append(html_table([["metric", "value", ""], *self.rounded_values], self.origin))
            parts.append(html_table([["param", "value", ""], *self.rounded_params]))
        parts.append(html_table(self.table[: _ROWS + 1]))
        parts.append(f"<p>{escape(self.legend)}</p>")
        parts += notebook_figures(self)
        return "\n".join(parts)


def load_best(directory: str | Path, /, **objects: Stateful) -> Best:
    """Load the checkpoint of the best trial of a run directory, at its picked epoch, and return that trial.

    Only tensors and plain data are read: no code of the directory runs. Build the objects from the params of
    the trial first::

        best = load_best("runs/digits")
        model = build(best.params)
        load_best("runs/digits", model=model)

    Args:
        directory: the run directory, or the URL that `results.copy_to` named, as in `s3://bucket/digits`.
        **objects: what the state is loaded into, by the names that `run.checkpoint` was given: `model=model`,
            `optimizer=optimizer`. A model keeps its device.

    Returns:
        The best trial, with `params`, `value`, `values`, `epoch` and `checkpoint`; of a confirmed sweep the
        winner, with the checkpoint of its training whose value is the median.

    Raises:
        ConfigError: the directory is not a run directory, or the URL not a copy of one that can be read.
        NoFiniteValueError: no trial is complete.
        NotKeptError: the trial has no checkpoint.
        RunError: the checkpoint holds no state of that name, or one that does not fit the object.
        RecordError: the checkpoint is damaged, or is not one.
    """
    if not is_remote(directory):
        return SweepResult.read(Path(directory)).load_best(**objects)
    return _load_remote_best(str(directory), objects)


def _load_remote_best(url: str, objects: Mapping[str, Stateful]) -> Best:
    """Fetch the records of a copy and the checkpoint of its best, into a folder as long as this process."""
    home = _FETCHED.get(url) or Path(mkdtemp(prefix="hpometrics-copy-"))
    if url not in _FETCHED:
        _FETCHED[url] = home
        atexit.register(rmtree, home, ignore_errors=True)
    fetch_directory(url, home, lambda name: CHECKPOINTS not in PurePath(name).parts)
    result = SweepResult.read(home)
    kept = None if result.best is None else result.best.checkpoint
    if kept is not None:
        wanted = kept.relative_to(home).as_posix()
        fetch_directory(url, home, lambda name: name == wanted or name.startswith(f"{wanted}/"))
    return result.load_best(**objects)


def _load(best: Best, objects: Mapping[str, Stateful]) -> None:
    from ..run.checkpoint import load_checkpoint, put_states  # with torch, which a table does not need

    if best.checkpoint is None or not best.checkpoint.exists():
        lack = "has no checkpoint" if best.checkpoint is None else f"has lost {best.checkpoint}"
        raise NotKeptError(
            f"trial {best.trial} {lack}; call run.checkpoint(model=model) in each epoch to keep that of "
            "the picked one, unless results.checkpoints is last or none"
        )
    states = load_checkpoint(best.checkpoint)["states"]
    for name, thing in objects.items():
        try:
            put_states({name: thing}, states)
        except RunError:
            raise
        except (RuntimeError, ValueError, KeyError, TypeError) as err:  # as torch has it
            raise RunError(
                f"{best.checkpoint}: the state of trial {best.trial} does not fit {name}=...: {one_line(err)}"
                "; build it from the params of that trial, which load_best returns"
            ) from err


class Plots:
    """The figures of the report as plotly's own, each of which a notebook shows.

    Args:
        result: the result of a sweep.

    Raises:
        ConfigError: the trials make no such figure; the message says why.
        MissingExtraError: plotly is not installed.
    """

    def __init__(self, result: SweepResult) -> None:
        self._result = result

    def winner(self) -> list[go.Figure]:
        """Return the best trials, or the contenders of a confirmation and what could be lost."""
        return self._figures("winner")

    def front(self) -> go.Figure:
        """Return the Pareto front."""
        return self._figures("front")[0]

    def history(self) -> go.Figure:
        """Return the value of each trial, and the best so far."""
        return self._figures("history")[0]

    def cost(self) -> go.Figure:
        """Return the value of each trial by its cost, and the best at no higher cost."""
        return self._figures("cost")[0]

    def curves(self) -> go.Figure:
        """Return the learning curve of each trial."""
        return self._figures("curves")[0]

    def importances(self) -> go.Figure:
        """Return how much each param decides."""
        return self._figures("importances")[0]

    def parallel(self) -> go.Figure:
        """Return the parallel coordinates of the trials."""
        return self._figures("parallel")[0]

    def slices(self) -> list[go.Figure]:
        """Return the values over each param."""
        return self._figures("slices")

    def contours(self) -> list[go.Figure]:
        """Return the values over each two of the most important params."""
        return self._figures("contours")

    def _figures(self, name: str) -> list[go.Figure]:
        if find_spec("plotly") is None:
            raise missing_extra("a figure in Python", "plotly", "report")
        import plotly.graph_objects as go  # which takes long to import

        figure = self._find(name)
        if figure is None or not figure.drawings:
            why = (
                _REASONS.get(name, "a list of params does not define a space")
                if figure is None
                else figure.caption
            )
            raise ConfigError(f"there is no figure {name}: {why}")
        return [go.Figure(drawing) for drawing in figure.drawings]

    def _find(self, name: str) -> Figure | None:
        return next((figure for figure in report_figures(self._result) if figure.name == name), None)
