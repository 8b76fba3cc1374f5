"""Writing the report: which kinds there are, what each needs, and where it is put."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from ...exceptions import ConfigError, MissingExtraError, missing_extra

KINDS = ("html", "md")


def missing_package(kind: str) -> MissingExtraError | None:
    """Give the error of a kind of report whose package is not installed; None if it can be written."""
    if kind != "html" or find_spec("plotly") is not None:
        return None
    return missing_extra("the HTML report", "plotly", "report")


def write_report(directory: Path, kind: str = "html", to: Path | None = None) -> Path:
    """Write the report of a run directory from its record, and say where it is.

    Args:
        directory: of the run.
        kind: one of `KINDS`.
        to: the file; `report.html` or `report.md` in the directory unless given.

    Raises:
        ConfigError: it is no run directory, or the file cannot be put where it is asked for.
        RecordError: a file of it is damaged.
        MissingExtraError: plotly is not installed.
    """
    missing = missing_package(kind)
    if missing is not None:
        raise missing
    # check, which asks whether a report can be written, reads no results
    from ...config.yaml_writer import write_text
    from ..run_directory import RunDirectory
    from .facts import Report

    report, file = Report.of(directory), to or RunDirectory(directory).report(kind)
    if file.is_dir() or not file.parent.is_dir():
        raise ConfigError(f"{file}: is a folder, or in none; name a file in a folder that is there")
    if kind == "md":
        from .markdown import markdown_of

        write_text(file, markdown_of(report))
    else:
        from .html import html_of  # with plotly and Optuna

        write_text(file, html_of(report))
    return file
