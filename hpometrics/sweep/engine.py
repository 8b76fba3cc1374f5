"""The engine of a sweep: imported only to run, with the sweep file's own folder on the import path."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from .plan import Plan
from .problems import Problem, SweepFileError, did_you_mean, one_line

Train = Callable[..., Any]


@contextmanager
def import_path(folder: Path) -> Iterator[None]:
    """Put a folder first on the import path."""
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)


def import_engine(plan: Plan) -> Train:
    """Import `module:function`; call it inside `import_path`.

    Raises:
        SweepFileError: it cannot be imported, or is nothing to call.
    """
    target = plan.config.engine.target or ""
    module_name, _, name = target.partition(":")
    try:
        module = import_module(module_name)
    except Exception as err:  # the module's own code may raise anything
        raise _problem(
            plan, f"importing {module_name} failed: {type(err).__name__}: {one_line(err)}"
        ) from err
    train = getattr(module, name, None)
    if train is None:
        public = [key for key in vars(module) if not key.startswith("_")]
        raise _problem(plan, f"{module_name} has no {name!r}{did_you_mean(name, public)}")
    if not callable(train):
        raise _problem(plan, f"{target} is a {type(train).__name__}, no function train(params, run)")
    return train  # type: ignore[no-any-return]  # its signature is the user's matter


def _problem(plan: Plan, text: str) -> SweepFileError:
    path = ("engine", "target")
    return SweepFileError([Problem(plan.document.mark(path), path, text)])
