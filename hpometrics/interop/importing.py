"""Reading: which tool a file is of, the sweep of ours that it becomes, and where that is written."""

from __future__ import annotations

from pathlib import Path

from ..config.document import parse_document, read_document
from ..config.plan import make_plan
from ..exceptions import ConfigError
from ..runner.init import write_first
from .ludwig import read_ludwig
from .notes import Carried, Notes
from .wandb import read_wandb

SWEEP = "sweep.yaml"


def read_foreign(file: Path) -> Carried:
    """Read a sweep file of W&B, or a Ludwig config with a `hyperopt:` section.

    Raises:
        SweepFileError: it cannot be read, or is not well formed.
        ConfigError: it is neither.
    """
    document = read_document(file)
    if "hyperopt" in document.data:
        carried = read_ludwig(Notes(document))
    elif "parameters" in document.data:
        carried = read_wandb(Notes(document))
    else:
        raise ConfigError(
            f"{file}: is no sweep of W&B, which has parameters:, and no Ludwig config with hyperopt:"
        )
    make_plan(parse_document(carried.text(), f"{file} as a sweep"))
    return carried


def write_imported(file: Path, directory: Path) -> str:
    """Write the sweep that a foreign file becomes, and say what could not be carried over.

    Raises:
        ConfigError: a file is there already, and see `read_foreign`.
    """
    carried = read_foreign(file)
    saved = write_first(directory, {SWEEP: carried.text()})
    notes = carried.notes.sorted()
    told = [
        f"{len(notes)} of its settings are not carried over as they are:" if notes else "all is carried over"
    ]
    return "\n".join([saved, *told, *map(str, notes), f"next: hpometrics check {directory / SWEEP}"])
