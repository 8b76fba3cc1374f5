"""Seeds: the random stream of a trial is a function of (seed, trial number, repeat), so no two share one."""

from __future__ import annotations

import hashlib


def derive_seed(seed: int, number: int, repeat: int = 0, name: str | None = None) -> int:
    """Return the 32-bit seed of one repeat of one trial, the same on every machine and in every version.

    With a `name` it is that of one of its params.

    >>> derive_seed(7, 0), derive_seed(7, 1)
    (1470615247, 1214197947)
    """
    whole = f"hpometrics:{seed}:{number}:{repeat}"
    digest = hashlib.sha256((whole if name is None else f"{whole}:{name}").encode()).digest()
    return int.from_bytes(digest[:4], "little")
