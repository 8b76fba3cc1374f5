"""Regenerate the index, the stub and the generated docs: `python -m docs._generate [DIRECTORY]`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hpometrics
from hpometrics.metrics.registry import index

from . import messages, other_names, outputs, sweep_file, texts
from .index import build_index, with_constants
from .markdown import metric_index, rankings_page, with_law_meanings

STUB = Path(hpometrics.__file__).with_suffix(".pyi")


def main(directory: str = ".") -> None:
    """Write `index.json`, the constants, and `docs/reference` and the texts of a directory with a README."""
    _write(index.INDEX, build_index())
    index.forget_index()
    _write(STUB, with_constants(STUB.read_text(encoding="utf8")))
    readme = Path(directory) / "README.md"
    if readme.exists():
        folder = readme.parent / "docs/reference"
        _write(folder / "metrics.md", metric_index())
        _write(folder / "outputs.md", outputs.page())
        _write(folder / "rankings.md", rankings_page())
        _write(folder / "sweep-file.md", sweep_file.page())
        _write(folder / "other-names.md", other_names.page())
        _write(folder / "messages.md", messages.page())
        _write(folder / "cli.md", texts.commands_page())
        laws = readme.parent / "docs/explanation/laws.md"
        _write(laws, with_law_meanings(laws.read_text(encoding="utf8")))
        _write(readme.parent / "tests/house/texts.txt", texts.golden())


def _write(path: Path, text: str) -> None:
    """Replace a file as a whole, so that nobody reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"{path.name}.{os.getpid()}")
    new.write_text(text, encoding="utf8")
    new.replace(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
