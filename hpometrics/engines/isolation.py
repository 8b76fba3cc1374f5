"""Isolation: what one stage gave is handed to each later one as a copy, or shared to be read only."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import numpy as np

from ..exceptions import EngineError
from .engine import Pairs

SHAREABLE = ("data_source", "preparator", "algorithms", "serving")


class Isolation:
    """Hands out the outputs of stages so that no receiver can change what another one receives.

    A copy is a `copy.deepcopy`: the speed of memory for arrays and tensors, about a microsecond per object in
    lists of Python objects. The stages in `shares` are trusted not to be written to: their output is handed
    out as it is, and a NumPy array in it, however deep in tuples, lists and dicts, as a read-only view.

    Raises:
        EngineError: `shares` names something else.
    """

    def __init__(self, shares: Iterable[str]) -> None:
        self.shares = frozenset(shares)
        if isinstance(shares, str) or not self.shares <= set(SHAREABLE):
            raise EngineError(f"shares names stages, any of {SHAREABLE}, got {shares!r}")

    def hand_out(self, output: Any, stage: str) -> Any:
        """Return the output of a stage for one receiver.

        Raises:
            EngineError: it is not shared and cannot be copied.
        """
        if stage in self.shares:
            return read_only(output)
        try:
            return deepcopy(output)
        except Exception as err:
            raise EngineError(
                f"the output of {stage} cannot be copied for those who read it "
                f"({type(err).__name__}: {err}); return plain data, or declare shares = ({stage!r},) on the "
                "engine if these only read it"
            ) from err


def read_only(value: Any) -> Any:
    """Return the value with its arrays as read-only views, whose data are not copied.

    >>> read_only([np.zeros(3)])[0].flags.writeable
    False
    """
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if type(value) in (list, tuple):
        return type(value)(map(read_only, value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(read_only, value))
    if type(value) is dict:
        return {key: read_only(part) for key, part in value.items()}
    return Pairs(read_only(value.queries), read_only(value.actuals)) if isinstance(value, Pairs) else value
