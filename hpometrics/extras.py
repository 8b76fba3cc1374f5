"""Extras: the packages that each of them brings, as the installed metadata states them."""

from __future__ import annotations

import re

_BOUND = re.compile(r"torch(vision|audio)\b")
"""Each release of these fits one release of torch, which pip replaces unless it is named too."""


def pip_line(extra: str) -> str:
    """Return the command that installs the packages of an extra.

    It names the packages, not this one: a checkout may have no release that an index would find. Where one
    of them is bound to a release of torch, the installed torch is named too, so that it stays.
    """
    from importlib.metadata import PackageNotFoundError, requires, version  # read only for an error

    try:
        stated = requires("hpometrics") or []
        suffix = f'extra == "{extra}"'
        wanted = [line.partition(";")[0].strip() for line in stated if line.endswith(suffix)]
        if any(map(_BOUND.match, wanted)):
            wanted.append(f"torch=={version('torch').partition('+')[0]}")
    except PackageNotFoundError:  # it is run from its source tree
        wanted = []
    return "pip install " + (" ".join(f"'{one}'" for one in wanted) or f"-e '.[{extra}]'")
