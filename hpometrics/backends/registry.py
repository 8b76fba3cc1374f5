"""The registry of backends with the samplers and pruners of each; it loads neither Optuna nor Ray."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .plugins import PlugIn

_SEEDED = ("seed",)
_OPTUNA_PERCENTILE = {
    "warmup": "n_warmup_steps",
    "min_trials": "n_startup_trials",
    "interval": "interval_steps",
}
_OPTUNA_HALVING = {"min_epochs": "min_resource", "eta": "reduction_factor"}
_RAY_SET = ("metric", "mode", "time_attr", "max_t")
_RAY_HALVING = {"min_epochs": "grace_period", "eta": "reduction_factor"}
_RAY_ASHA = "ray.tune.schedulers:AsyncHyperBandScheduler"

SAMPLERS: Mapping[str, PlugIn] = {
    "tpe": PlugIn("optuna.samplers:TPESampler", hidden=_SEEDED),
    "gp": PlugIn("optuna.samplers:GPSampler", needs=("scipy",), hidden=_SEEDED),
    "cmaes": PlugIn("optuna.samplers:CmaEsSampler", needs=("cmaes",), hidden=_SEEDED),
    "random": PlugIn("optuna.samplers:RandomSampler", hidden=_SEEDED),
    "grid": PlugIn("optuna.samplers:RandomSampler", hidden=_SEEDED),  # its points are enqueued
    "qmc": PlugIn("optuna.samplers:QMCSampler", needs=("scipy",), hidden=(*_SEEDED, "independent_sampler")),
    "nsga2": PlugIn("optuna.samplers:NSGAIISampler", hidden=_SEEDED),
}
"""The samplers, which draw the params on every backend."""

OPTUNA_PRUNERS: Mapping[str, PlugIn] = {
    "median": PlugIn("optuna.pruners:MedianPruner", _OPTUNA_PERCENTILE),
    "asha": PlugIn("optuna.pruners:SuccessiveHalvingPruner", _OPTUNA_HALVING),
    "hyperband": PlugIn("optuna.pruners:HyperbandPruner", _OPTUNA_HALVING),
    "percentile": PlugIn("optuna.pruners:PercentilePruner", _OPTUNA_PERCENTILE),
    "patient": PlugIn("optuna.pruners:PatientPruner", {"pruner": "wrapped_pruner"}),
    "threshold": PlugIn(
        "optuna.pruners:ThresholdPruner", {"warmup": "n_warmup_steps", "interval": "interval_steps"}
    ),
    "none": PlugIn("optuna.pruners:NopPruner"),
}
RAY_SCHEDULERS: Mapping[str, PlugIn] = {
    "median": PlugIn(
        "ray.tune.schedulers:MedianStoppingRule",
        {"warmup": "grace_period", "min_trials": "min_samples_required"},
        hidden=_RAY_SET,
    ),
    "asha": PlugIn(_RAY_ASHA, _RAY_HALVING, hidden=_RAY_SET),
    "hyperband": PlugIn(_RAY_ASHA, _RAY_HALVING, hidden=_RAY_SET),  # its brackets run at once, without a wait
    "pbt": PlugIn("hpometrics.backends.ray.pbt:Population", hidden=("space", "seed")),
    "none": PlugIn("ray.tune.schedulers:FIFOScheduler"),
}


@dataclass(frozen=True)
class BackendEntry:
    """The features of a backend.

    Args:
        pruners: its pruners by name.
        needs_epochs: the pruners that need the number of epochs of a trial.
        has_workers: whether the number of its workers can be set.
    """

    pruners: Mapping[str, PlugIn] = field(default_factory=dict)
    needs_epochs: tuple[str, ...] = ()
    has_workers: bool = False


BACKENDS: Mapping[str, BackendEntry] = {
    "optuna": BackendEntry(OPTUNA_PRUNERS, ("hyperband",), has_workers=True),
    "ray": BackendEntry(RAY_SCHEDULERS, ("hyperband", "asha"), has_workers=True),
    "list": BackendEntry({"none": PlugIn("")}),
}
"""The backends by their key in a sweep file."""


def backends_of(pruner: str) -> tuple[str, ...]:
    """Return the names of the backends that have a pruner.

    >>> backends_of("median"), backends_of("pbt"), backends_of("unknown")
    (('optuna', 'ray'), ('ray',), ())
    """
    return tuple(name for name, backend in BACKENDS.items() if pruner in backend.pruners)


def pruner_names() -> list[str]:
    """Return the names of the pruners of all backends, `none` last.

    >>> pruner_names()
    ['median', 'asha', 'hyperband', 'percentile', 'patient', 'threshold', 'pbt', 'none']
    """
    names = dict.fromkeys(name for backend in BACKENDS.values() for name in backend.pruners)
    return [*(name for name in names if name != "none"), "none"]
