"""Write the report of a run directory as Markdown or HTML."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ..._formatting import aligned
from ..._imports import missing_report
from ...config.yaml_writer import write_text
from ...exceptions import ConfigError
from ..leaderboard import optimal
from ..run_directory import RunDirectory
from .content import Report


def markdown_of(report: Report) -> str:
    """Return Markdown whose tables are code blocks, as the terminal shows them."""
    return "\n".join(_lines(report)) + "\n"


def _lines(report: Report) -> Iterator[str]:
    yield f"# {report.resolved.name}\n\n{report.summary}. {report.direction}\n"
    yield f"## Optimal engine params\n\n{report.origin}\n"
    if report.best is not None:
        yield _block("\n".join([optimal(report.best, report.records, report.resolved), *report.sureness]))
    yield "## Trials\n"
    if report.extent:
        yield f"{report.extent}\n"
    yield _block(aligned(report.table))
    if report.picks:
        yield "## What each metric would have picked\n\nOf the same trials; epochs count from 0.\n"
        yield _block(aligned(report.picks))
    yield "## How trials ended\n"
    for state in report.states:
        yield f"- {state.word} {state.count}: {state.meaning}"
        yield from (f"  - `{reason}`: {trials}" for reason, trials in state.reasons)
    yield "\n## Again\n"
    yield _block("\n".join(f"{command}  # {what}" for command, what in report.commands))
    yield "The sweep file, with every default spelled out:\n"
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
        MissingExtraError: plotly is not installed.
    """
    missing = missing_report(kind)
    if missing is not None:
        raise missing
    report, file = Report.of(directory), to or RunDirectory(directory).report(kind)
    if file.is_dir() or not file.parent.is_dir():
        raise ConfigError(f"{file}: is a folder, or in none; name a file in a folder that is there")
    if kind == "md":
        write_text(file, markdown_of(report))
    else:
        from .html import html_of  # with plotly and Optuna

        write_text(file, html_of(report))
    return file
