"""Sources: the files of an engine by digest, so that a sweep that goes on knows whether they have changed.

They are the file of the engine and the modules beside it that it has imported; of a command, its files.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..runner.engine import SweepEngine

_MOST_BYTES = 1 << 20
_INSTALLED = {"site-packages", "dist-packages"}


def sources_of(engine: SweepEngine) -> dict[str, str]:
    """Return the digest of each file of an engine's code by its path, its own file first."""
    from ..runner.command_engine import Program  # with torch, which a reader of results need not load

    if isinstance(engine, Program):
        parts = sorted(engine.command, key=lambda part: Path(part).is_absolute())  # its own before a shell
        files: Iterable[Path] = (Path(engine.folder, part) for part in parts)
    else:
        files = _modules(engine.target.partition(":")[0])
    readable = (path for path in dict.fromkeys(files) if path.is_file() and path.stat().st_size < _MOST_BYTES)
    return {str(path): sha256(path.read_bytes()).hexdigest()[:16] for path in readable}


def changed_sources(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Return the names of the files that have changed; a folder that was moved as a whole has not."""
    names = {_beside(path, now): digest for path, digest in now.items()}
    earlier = {_beside(path, before): digest for path, digest in before.items()}
    return [name for name, digest in names.items() if earlier.get(name, digest) != digest]


def other_engine(before: Mapping[str, str], now: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the files of two engines if they are different; that of one that has moved is gone."""
    first, second = next(iter(before), None), next(iter(now), None)
    if first is None or second is None or first == second or not Path(first).exists():
        return None
    return first, second


def _beside(path: str, sources: Mapping[str, str]) -> str:
    """The path of a file as seen from the folder of the engine's own."""
    home = Path(next(iter(sources))).parent
    return str(Path(path).relative_to(home)) if Path(path).is_relative_to(home) else path


def _modules(name: str) -> Iterator[Path]:
    """The files of a module and of all that is imported from its folder and below."""
    own = getattr(sys.modules.get(name), "__file__", None)
    if own is None:
        return
    yield Path(own)
    home = Path(own).parent
    others = (module for key, module in list(sys.modules.items()) if key.partition(".")[0] != "hpometrics")
    found = (getattr(module, "__file__", None) for module in others)
    for path in sorted({Path(file) for file in found if file and Path(file).is_relative_to(home)}):
        if not _INSTALLED & set(path.relative_to(home).parts):
            yield path
