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


_ALL_TRIALS: Mapping[str, PlugIn] = {"none": OPTUNA_PRUNERS["none"]}


@dataclass(frozen=True)
class BackendEntry:
    """The facts of a backend. What is heavy is a path, `package.module:name`, and loads when it is used.

    Args:
        summary: its description in the reference of the sweep file.
        section: path of the type of its section in a sweep file, a `BackendSection` or a list of params.
        start: path of the function that runs the trials, called with the context of the sweep and `verbose`.
        pruners: its pruners by name.
        make_pruner: path of a function that creates a pruner of its spec and the number of epochs, to check
            its arguments.
        schedules: whether a scheduler of its own stops trials; the pruner of the study does not.
        needs_epochs: the pruners that need the number of epochs of a trial.
        needs_trials: whether it needs the number of trials.
        has_workers: whether its section has `workers`, the number of trials at the same time.
        has_storage: whether its section has `storage`, the place of the study.
        has_points: whether its section is the list of params to try; nothing is sampled.
    """

    summary: str
    section: str
    start: str
    pruners: Mapping[str, PlugIn] = field(default_factory=lambda: _ALL_TRIALS)
    make_pruner: str = "hpometrics.backends.optuna.samplers:make_pruner"
    schedules: bool = False
    needs_epochs: tuple[str, ...] = ()
    needs_trials: bool = False
    has_workers: bool = False
    has_storage: bool = False
    has_points: bool = False


BACKENDS: dict[str, BackendEntry] = {
    "optuna": BackendEntry(
        "Trials in this process.",
        section="hpometrics.config.backend_section:OptunaBackend",
        start="hpometrics.runner.processes:run_optuna",
        pruners=OPTUNA_PRUNERS,
        needs_epochs=("hyperband",),
        has_workers=True,
        has_storage=True,
    ),
    "ray": BackendEntry(
        "Trials as Ray Tune workers.",
        section="hpometrics.config.backend_section:RayBackend",
        start="hpometrics.runner.ray_sweep:run_on_ray",
        pruners=RAY_SCHEDULERS,
        make_pruner="hpometrics.backends.ray.schedulers:check_scheduler",
        schedules=True,
        needs_epochs=("hyperband", "asha"),
        needs_trials=True,
        has_workers=True,
    ),
    "list": BackendEntry(
        "A list of params, tried in order. Nothing is sampled; each lies in the space, if there is one.",
        section="hpometrics.config.backend_section:Points",
        start="hpometrics.runner.processes:run_in_process",
        has_points=True,
    ),
}
"""The backends by their key in a sweep file, the default first; a line adds one."""

DEFAULT = next(iter(BACKENDS))


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
