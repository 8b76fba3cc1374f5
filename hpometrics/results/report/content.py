"""The report of a run directory: its facts in words and tables, written as Markdown or HTML."""

from __future__ import annotations

import gzip
import json
import lzma
import math
import os
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any
from uuid import uuid4

from ..._formatting import Rounded, aligned, column, duration, first_of
from ..._pages import page
from ..._text import printable
from ...backends.trial_lines import word
from ...config.yaml_writer import dump_yaml, format_short
from ...direction import ARROWS, LEGEND
from ...exceptions import ConfigError
from ...records._files import write_text
from ...records.trial_record import TrialRecord, TrialState, place_text
from ...selection.confirmation import Confirmation
from ...selection.selection import ranked_by
from ..best import MetricPick, pick_of_sweep, picks_by_metric, record_of
from ..leaderboard import optimal_block, optimal_params, optimal_values, ranked_rows
from ..run_directory import RunDirectory
from ..status import Outcome, format_end
from .drawing import data_rows
from .figures import report_figures

_ORIGINS = {
    "registry": "The registry states the direction of the metric.",
    "stated": "The sweep file states the direction, because the metric has none.",
    "engine": "The metric of the engine states the direction.",
    "mixed": "Each term has the direction of its metric or, if there is none, the one in the sweep file.",
}
_MEANINGS = {
    TrialState.COMPLETE: "trained to the end; only these trials are ranked",
    TrialState.PRUNED: "stopped early, because others were better at the same epoch",
    TrialState.FAILED: "ended with an error",
    TrialState.INFEASIBLE: "trained to the end, but breaks a constraint",
    TrialState.INTERRUPTED: "stopped with the sweep; resumes when you run the sweep again",
    TrialState.RUNNING: "running, or its process died; resumes when you run the sweep again",
    TrialState.WAITING: "not begun",
}
_PLOTLY = "plotly.min.js.xz"
"""The traces that the figures have, as `make plotly` bundles them, packed; the page unpacks it."""

_DRAW = """(async ([place, drawings, packed]) => {
  const bytes = Uint8Array.from(atob(packed), (one) => one.charCodeAt(0));
  const unpacked = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const text = await new Response(unpacked).text();
  const module = { exports: {} }; // plotly's own, whatever loads modules in this page
  new Function("module", "exports", "define", text)(module, module.exports);
  const config = { displaylogo: false, plotlyServerURL: "", responsive: true, showSendToCloud: false };
  document.getElementById(place).querySelectorAll("[data-figure]").forEach((one, n) =>
    module.exports.newPlot(one, drawings[n].data, drawings[n].layout, config));
})(%s)"""
"""Draws the figures of a notebook: the id of their parent, the drawings, and plotly, packed."""

_MOST_ROWS = 1000
_PRINTED_ROWS = 25
_MOST_REASONS = 200
_NUMBERS = 20


@dataclass(frozen=True)
class State:
    """The trials of one state: their count, the meaning of the state, and the reasons with their trials."""

    word: str
    meaning: str
    count: int
    reasons: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Report(Outcome):
    """The result of a sweep in the words and tables of a report."""

    @property
    def summary(self) -> str:
        """The number of trials, by state, and their time."""
        counts = ", ".join(f"{state.word} {state.count}" for state in self.states)
        seconds = sum(record.seconds for record in self.records)
        text = f"{len(self.records)} engine params evaluated ({counts or 'none'})"
        text = f"{text}, {duration(seconds)} of training"
        used_up = self.resolved.is_used_up(self.records)
        return f"{text}; {format_end(self.records, self.resolved)}" if used_up else text

    @property
    def direction(self) -> str:
        """The direction of the metric, its source, and the epoch whose value counts."""
        sweep, unit = self.resolved, self.unit
        formula = f" = {sweep.formula}" if sweep.formula else ""
        count = (
            "epochs count from 0" if unit == "epoch" else "its step is the number of steps completed by then"
        )
        which = f"{sweep.at} {'epoch' if unit == 'epoch' else 'report'}"
        epoch = f"The value of a trial is the value of its {which}; {count}."
        seeds = sweep.config["budget"].get("repeats", 1)
        mean = f" It is the mean over {seeds} seeds, +- their deviation." if seeds > 1 else ""
        if sweep.others:
            objectives = "; ".join(f"to {way}: {name}" for name, way in sweep.optimized.items())
            by = f" by {sweep.metric}" if sweep.at == "best" else ""
            epoch = f"The values of a trial are the values of its {which}{by}; {count}."
            return f"Several objectives, {objectives}. {epoch}{mean}"
        return (
            f"To {sweep.direction}: {sweep.metric}{formula}. {_ORIGINS[sweep.direction_from]} {epoch}{mean}"
        )

    @property
    def unit(self) -> str:
        """The word for what the trials count: `epoch` or `step`."""
        return next((record.unit for record in self.records if record.epochs), "epoch")

    @property
    def params(self) -> list[tuple[str, str, str]]:
        """The optimal engine params: name, value, origin."""
        return [] if self.best is None else optimal_params(self.best, self.resolved)

    @property
    def rounded_params(self) -> list[tuple[str, Rounded, str]]:
        """The optimal engine params to three digits, with the exact ones."""
        params = {} if self.best is None else self.best.params
        short = {printable(name): format_short(value) for name, value in params.items()}
        return [(name, Rounded(short[name], value), note) for name, value, note in self.params]

    @property
    def values(self) -> list[tuple[str, str, str]]:
        """The values of the best trial: name, value, direction."""
        return [] if self.best is None else optimal_values(self.best, self.resolved, self.records)

    @property
    def rounded_values(self) -> list[tuple[str, Rounded, str]]:
        """The values of the best trial to the digits that are known, with the exact ones."""
        return [(name, self._round(name, text), note) for name, text, note in self.values]

    def _round(self, name: str, text: str) -> Rounded:
        """Return a value of the best trial: the optimized one by its interval, others to four digits."""
        best, end = self.best, self.confirmation
        value = None if best is None else best.value if name == best.metric else best.values.get(name)
        if best is None or not isinstance(value, float) or not math.isfinite(value):
            return Rounded(text, text)
        if name != best.metric:
            return Rounded(f"{value:.4g}", repr(value))
        honest = end.honest if isinstance(end, Confirmation) else None
        interval = self.interval if honest is None else honest.interval
        if interval is None or best.deviation is not None:
            return Rounded(text, repr(value))
        return Rounded(interval.format(value), repr(value))

    @property
    def origin(self) -> str:
        """The best trial, and the place of its model."""
        if self.best is None:
            return str(self.reason)
        model, record = self.best.checkpoint, record_of(self.best, self.records)
        whose = "its model" if model == record.checkpoint else "the model of its median training"
        model_text = "" if model is None else f"; {whose} is {os.path.relpath(model, self.directory)}"
        rule = ", the knee of the Pareto front" if self.resolved.pick == "knee" else ""
        place = place_text(self.best.epoch, self.best.step)
        return f"trial {self.best.trial}, {place}, seed {record.seed}{rule}{model_text}"

    @property
    def table(self) -> list[list[str]]:
        """A head and a row for each of the best trials, best first."""
        return ranked_rows(ranked_by(self.records, self.resolved.optimized)[:_MOST_ROWS], self.resolved)

    @property
    def legend(self) -> str:
        """The marks of the directions in tables and sentences."""
        return f"{LEGEND}."

    @property
    def printed_rows(self) -> int:
        """The most rows of the table on paper, as `report.css` has it."""
        return _PRINTED_ROWS

    @property
    def picks(self) -> list[list[str]]:
        """A head and a row for the pick of each metric with a direction; empty for one metric alone.

        The winner of a confirmation, or the pick by a rule, stands in a last row of its own.
        """
        if self.best is None:
            return []
        picks = picks_by_metric(self.records, self.resolved)
        if len(picks) < 2:
            return []
        head = ["picked by", "trial", self.unit, "its value", self.resolved.metric, "gives up"]
        rows = [_pick_row(pick, f"{pick.metric}{ARROWS[pick.direction]}") for pick in picks]
        if self._chooser:
            winner = pick_of_sweep(self.records, self.resolved, self.best.trial)
            rows.append(_pick_row(winner, self._chooser))
        return [head, *rows]

    @property
    def _chooser(self) -> str:
        """The name of what chose the best trial, if that was not the optimized metric alone."""
        if self.confirmation is not None:
            return "confirmed winner"
        pick = self.resolved.pick
        return "" if pick == "best" else f"pick: {pick}"

    @property
    def pick_remark(self) -> str:
        """A sentence on the last row of `picks`; empty if that is a metric's."""
        if not self._chooser:
            return ""
        row = f"The last row, {self._chooser}, is the trial that the sweep selected"
        return f" {row}, with its value in the search."

    @property
    def extent(self) -> str:
        """A sentence on the trials that the table leaves out; empty if it has every trial."""
        if len(self.records) <= _MOST_ROWS:
            return ""
        which = "first" if self.resolved.others else "best"
        return (
            f"The table shows the {which} {_MOST_ROWS:,} of {len(self.records):,} trials; trials.csv has all."
        )

    @property
    def states(self) -> list[State]:
        """The states of the trials with their reasons."""
        by_state = {state: [r for r in self.records if r.state is state] for state in TrialState}
        return [
            State(word(state), _MEANINGS[state], len(records), _reasons(records))
            for state, records in by_state.items()
            if records
        ]

    @property
    def config(self) -> str:
        """The sweep file with every default spelled out."""
        return dump_yaml(self.resolved.config)

    @property
    def commands(self) -> list[tuple[str, str]]:
        """The commands that give these results again, each with its effect."""
        pick = " --pick knee" if self.resolved.others else ""
        return [
            (f"hpometrics best {self.directory}{pick}", "the optimal engine params again"),
            (f"hpometrics replay {self.directory}", "train the best trial again and compare its value"),
        ]


def _pick_row(pick: MetricPick, name: str) -> list[str]:
    """Return a row for the pick of a metric, which has this name there."""
    if pick.best is None:
        return [name, *["-"] * 5]
    best = pick.best
    return [
        name,
        str(best.trial),
        str(best.epoch if best.step is None else best.step),
        column(best.value),
        column(pick.optimized),
        f"{pick.loss:.3g}" if math.isfinite(pick.loss) else "-",
    ]


def _reasons(records: Sequence[TrialRecord]) -> list[tuple[str, str]]:
    """Return each reason with the trials that have it; only the first of many."""
    trials_by_reason: dict[str, list[int]] = defaultdict(list)
    for record in records:
        if record.reason:
            trials_by_reason[printable(record.reason.partition("\n")[0])].append(record.number)
    return [
        (reason, first_of(numbers, _NUMBERS))
        for reason, numbers in list(trials_by_reason.items())[:_MOST_REASONS]
    ]


def _markdown(report: Report) -> Iterator[str]:
    """Yield lines of Markdown whose tables are code blocks, as the terminal shows them."""
    yield f"# {report.resolved.name}\n"
    if report.resolved.annotation:
        yield f"{report.resolved.annotation}\n"
    yield f"{report.summary}. {report.direction}\n"
    yield f"## Optimal engine params\n\n{report.origin}\n"
    if report.best is not None:
        yield _block(
            "\n".join([optimal_block(report.best, report.records, report.resolved), *report.sureness])
        )
    yield "## Trials\n"
    if report.extent:
        yield f"{report.extent}\n"
    yield _block(aligned(report.table))
    yield f"{report.legend}\n"
    if report.picks:
        yield "## What each metric would have picked\n"
        yield f"All picks are from the same trials; epochs count from 0.{report.pick_remark}\n"
        yield _block(aligned(report.picks))
    yield "## How trials ended\n"
    for state in report.states:
        yield f"- {state.word} {state.count}: {state.meaning}"
        yield from (f"  - `{reason}`: {trials}" for reason, trials in state.reasons)
    yield "\n## Reproduce\n"
    yield _block("\n".join(f"{command}  # {what}" for command, what in report.commands))
    yield "The sweep file with all defaults:\n"
    yield _block(report.config)
    yield "Versions:\n"
    yield _block(aligned([["package", "version"], *map(list, report.resolved.versions.items())], "<"))


def _block(text: str) -> str:
    """Return a block of code by indentation: no text in it can end it, as it could end a fence."""
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines()) + "\n"


def write_report(directory: Path, kind: str = "html", to: Path | None = None) -> Path:
    """Write the report of a run directory from its record, and return its path.

    Args:
        directory: the run directory.
        kind: `html` or `md`.
        to: the file; by default, `report.html` or `report.md` in the directory.

    Raises:
        ConfigError: the directory is not a run directory, or the file cannot be written at that place.
        RecordError: one of its files is damaged.
    """
    report, file = Report.read(directory), to or RunDirectory(directory).report(kind)
    if file.is_dir() or not file.parent.is_dir():
        raise ConfigError(f"{file}: is not a file in an existing folder; name one")
    if kind == "md":
        write_text(file, "\n".join([*_markdown(report), ""]))
    else:
        write_text(file, _html(report))
    return file


def _html(report: Report) -> str:
    """Return the page of a report. Its tables hold all facts without JavaScript; the figures need it."""
    from markupsafe import Markup  # with Jinja

    plotly, script = _plotly(), files(__package__).joinpath("report.js").read_text("utf8")
    return page(
        "results/report",
        "report.html",
        report=report,
        data_rows=data_rows,
        figures=[replace(figure, drawings=_plain(figure.drawings)) for figure in report_figures(report)],
        plotly=Markup(_packed(plotly)),
        script=Markup(script),
        policy=_policy(script.encode(), plotly),
    )


def notebook_figures(report: Report) -> Iterator[str]:
    """Yield the figures of a report as HTML for a notebook; one script draws all, without a network."""
    place, drawings = f"figures-{uuid4().hex}", list[Any]()
    yield f'<div id="{place}">'
    for figure in report_figures(report):
        yield f"<h5>{escape(figure.title)}</h5><p>{escape(figure.caption)}</p>"
        drawings += (_plain(drawing) for drawing in figure.drawings)
        yield "<div data-figure></div>" * len(figure.drawings)
    content = json.dumps([place, drawings, _packed(_plotly())], allow_nan=False)
    content = content.replace("<", r"\u003c")  # a text of a trial cannot end the script
    yield f"</div><script>{_DRAW % content}</script>"


def _plotly() -> bytes:
    """Return plotly's script, which the package holds in fewer bytes than a browser can unpack."""
    return lzma.decompress(files(__package__).joinpath(_PLOTLY).read_bytes())


def _packed(script: bytes) -> str:
    """Return a script as a page holds it."""
    return b64encode(gzip.compress(script, mtime=0)).decode()


def _plain(value: Any) -> Any:
    """Return a drawing in strict JSON, its numbers rounded to six digits, more than a figure can show."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: _plain(one) for key, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, (list, tuple)) else value


def _policy(*scripts: bytes) -> str:
    """Allow these scripts and no others, no network, and the images that plotly makes of a figure."""
    hashes = " ".join(f"'sha256-{b64encode(sha256(script).digest()).decode()}'" for script in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
