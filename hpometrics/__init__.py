"""hpometrics: any metric by name, measured exactly, optimized in its own direction under Optuna and Ray Tune.

Names are loaded when they are first used: importing the package loads neither torch nor optuna nor ray.
`__init__.pyi` lists them.
"""

from __future__ import annotations

from ._imports import lazy_names

__getattr__, _HOME_OF = lazy_names(__name__, __file__)

_HIDING = {"Sequence", "Set", "Text"}
"""Public names that `from hpometrics import *` leaves out, since they would hide those of `typing`.

It leaves out the names of the built-in metrics too, which are constants, as `TOKEN_ACCURACY`. Ludwig's are
there as well: `MEAN_SQUARED_ERROR` is the name here of the metric that Ludwig calls so, `mse`.
"""

__all__ = sorted(_HOME_OF.keys() - _HIDING)
__version__ = "0.1.0"


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOME_OF})
