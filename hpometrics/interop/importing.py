"""Convert a sweep file of another tool and write it as a sweep file."""

from __future__ import annotations

from pathlib import Path

from ..config.document import parse_document, read_document
from ..config.plan import make_plan
from ..exceptions import ConfigError
from ..runner.init import write_first
from .ludwig_config import read_ludwig
from .notes import ConvertedSweep, Notes
from .wandb_sweep import read_wandb

SWEEP = "sweep.yaml"


def read_foreign(file: Path) -> ConvertedSweep:
    """Read a sweep file of W&B, or a Ludwig config with a `hyperopt:` section.

    Raises:
        SweepFileError: the file cannot be read, or is not well formed.
        ConfigError: the file is neither of the two.
    """
    document = read_document(file)
    if "hyperopt" in document.data:
        conversion = read_ludwig(Notes(document))
    elif "parameters" in document.data:
        conversion = read_wandb(Notes(document))
    else:
        raise ConfigError(
            f"{file}: is neither a sweep of W&B, which has parameters:, nor a Ludwig config with hyperopt:"
        )
    make_plan(parse_document(conversion.text(), f"{file} as a sweep"))
    return conversion


def write_imported(file: Path, directory: Path) -> str:
    """Write the converted sweep and return a text with the settings that could not be converted.

    Raises:
        ConfigError: the sweep file exists already; see also `read_foreign`.
    """
    conversion = read_foreign(file)
    saved = write_first(directory, {SWEEP: conversion.text()})
    notes = conversion.notes.sorted()
    summary = [
        f"{len(notes)} of its settings are not carried over as they are:" if notes else "all is carried over"
    ]
    return "\n".join([saved, *summary, *map(str, notes), f"next: hpometrics check {directory / SWEEP}"])
