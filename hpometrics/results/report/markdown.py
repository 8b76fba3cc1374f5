"""The report as text: the facts of the page without its figures."""

from __future__ import annotations

from collections.abc import Iterator

from ..formatting import aligned
from ..leaderboard import optimal
from .facts import Report


def markdown_of(report: Report) -> str:
    """Give Markdown whose tables are set in code blocks, as the terminal shows them."""
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
    """Indent a block of code: no text in it can end it, as it could a fence."""
    return "\n".join(f"    {line}".rstrip() for line in text.splitlines()) + "\n"
