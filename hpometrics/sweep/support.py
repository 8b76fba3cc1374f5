"""Support: which sampler, pruner and setting runs on which backend, and what waits for a later version.

One table, so that a combination that cannot run is an error of `check` and never a surprise of `run`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.util import find_spec

from ..exceptions import missing_extra
from .config import Draft
from .forms import Plugin
from .loader import Document
from .measures import NOT_YET
from .problems import Path, did_you_mean

SAMPLERS = ("tpe", "gp", "cmaes", "random", "grid", "qmc", "nsga2")
PRUNERS: dict[str, tuple[str, ...]] = {
    "median": ("optuna", "ray"),
    "asha": ("optuna", "ray"),
    "hyperband": ("optuna", "ray"),
    "percentile": ("optuna",),
    "patient": ("optuna",),
    "threshold": ("optuna",),
    "pbt": (),
    "none": ("optuna", "ray", "list"),
}
LOGGERS = ("csv", "tensorboard", "mlflow", "wandb")
_PACKAGES = {"gp": ("scipy",), "qmc": ("scipy",), "cmaes": ("cmaes",)}
_NEEDS_EPOCHS = ("hyperband",)

_Test = Callable[[Draft], bool]
_LATER: dict[Path, tuple[_Test, str]] = {
    ("engine", "command"): (lambda s: s.engine is not None and s.engine.command is not None, "a command as engine"),
    ("engine", "output"): (
        lambda s: s.engine is not None and isinstance(s.engine.output, dict),
        "an engine of several, named outputs",
    ),
    ("metrics", "optimize"): (
        lambda s: s.metrics is not None and len(s.metrics.optimize) > 1,
        "a search for several objectives",
    ),
    ("metrics", "constraints"): (lambda s: s.metrics is not None and bool(s.metrics.constraints), "a constraint"),
    ("backend", "optuna", "workers"): (
        lambda s: s.backend.optuna is not None and s.backend.optuna.workers > 1,
        "more than one worker on optuna",
    ),
    ("backend", "optuna", "storage"): (
        lambda s: s.backend.optuna is not None and s.backend.optuna.storage not in ("sqlite", "memory"),
        "a storage other than sqlite and memory",
    ),
    ("backend", "ray", "address"): (
        lambda s: s.backend.ray is not None and s.backend.ray.address is not None,
        "a running Ray cluster",
    ),
    ("budget", "trial_time"): (lambda s: s.budget is not None and s.budget.trial_time is not None, "a limit per trial"),
    ("budget", "retries"): (lambda s: s.budget is not None and s.budget.retries > 0, "a retry"),
    ("budget", "failures"): (lambda s: s.budget is not None and s.budget.failures is not None, "a limit of failures"),
    ("budget", "repeats"): (lambda s: s.budget is not None and s.budget.repeats > 1, "more than one seed per params"),
    ("results", "report"): (lambda s: s.results.report != "none", "a report"),
    ("results", "checkpoints"): (lambda s: s.results.checkpoints != "best", "another choice of checkpoints than best"),
}


def check_support(sweep: Draft, document: Document) -> None:
    """Note every setting that this version, this backend or this environment cannot carry out."""
    for path, (asked, what) in _LATER.items():
        if asked(sweep):
            document.add(path, f"{what} {NOT_YET}")
    for place, text in (*_sampler(sweep), *_pruner(sweep), *_loggers(sweep), *_list_backend(sweep)):
        document.add(place, text)


def _sampler(sweep: Draft) -> Iterator[tuple[Path, str]]:
    path, sampler = ("search", "sampler"), sweep.search.sampler
    if sampler is None:
        return
    if sampler.name not in SAMPLERS:
        yield path, _unknown(sampler, "sampler", SAMPLERS)
    for package in _PACKAGES.get(sampler.name, ()):
        if find_spec(package) is None:
            yield path, str(missing_extra(f"the sampler {sampler.name}", package, "samplers"))


def _pruner(sweep: Draft) -> Iterator[tuple[Path, str]]:
    path, pruner, backend = ("search", "pruner"), sweep.search.pruner, sweep.backend.name
    if pruner is None:
        return
    if pruner.name not in PRUNERS:
        yield path, _unknown(pruner, "pruner", PRUNERS)
    elif not PRUNERS[pruner.name]:
        yield path, f"{pruner.name} {NOT_YET}; asha and hyperband stop early too"
    elif backend not in PRUNERS[pruner.name] and backend != "list":
        fitting = [name for name, backends in PRUNERS.items() if backend in backends]
        where = " and ".join(PRUNERS[pruner.name])
        yield path, f"{pruner.name} runs on {where} only; on {backend} choose {', '.join(fitting)}"
    elif sweep.metrics is not None and len(sweep.metrics.optimize) > 1 and pruner.name != "none":
        yield path, "a pruner judges one value; with several objectives leave it out"
    elif pruner.name in _NEEDS_EPOCHS and sweep.budget is not None and sweep.budget.epochs is None:
        yield path, f"{pruner.name} divides a number of epochs; give budget.epochs"


def _loggers(sweep: Draft) -> Iterator[tuple[Path, str]]:
    for index, logger in enumerate(sweep.results.loggers):
        path = ("results", "loggers", index)
        if logger.name not in LOGGERS:
            yield path, _unknown(logger, "logger", LOGGERS)
        elif logger.name != "csv" or logger.options:
            yield path, f"the logger {logger.name} {'with options ' if logger.options else ''}{NOT_YET}"


def _list_backend(sweep: Draft) -> Iterator[tuple[Path, str]]:
    if sweep.backend.name != "list":
        return
    for key, given in (("sampler", sweep.search.sampler), ("pruner", sweep.search.pruner), ("start", sweep.search.start)):
        if given and getattr(given, "name", "") != "none":
            yield ("search", key), f"the list backend runs its list as it is; leave {key} out"


def _unknown(plugin: Plugin, kind: str, known: object) -> str:
    names = list(known)  # type: ignore[call-overload]
    near = did_you_mean(plugin.name, names)
    return f"{plugin.name!r} is not a {kind}{near or '; choose from ' + ', '.join(names)}"
