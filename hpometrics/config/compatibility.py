"""Support: which sampler, pruner and setting runs on which backend.

One table, so that a combination that cannot run is an error of `check` and never a surprise of `run`.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings

from .._imports import missing_report
from .._text import did_you_mean, one_line
from ..backends.plugins import searches_for_one
from ..direction import Objective
from ..exceptions import ConfigError, HpometricsError, missing_extra
from ..space.space import Space
from .document import Document, Path
from .fields import Plugin
from .models import Draft
from .storage_url import known_url

if TYPE_CHECKING:
    from ..backends.plugins import Table


PBT = "pbt"


def check_population(config: Draft, space: Space | None, document: Document) -> None:
    """Note what keeps the trials of a sweep from exploiting each other; see `search.population`."""
    pruner = config.search.pruner
    if pruner is None or pruner.name != PBT:
        return
    for path, text in _kept_apart(config):
        document.add(path, text)
    if space is None:
        return
    from ..space.space import mutable  # of which few files have need

    try:
        mutable(space, pruner.options.get("mutate"))
    except ConfigError as err:
        document.add(("search", "pruner"), str(err))


def _kept_apart(config: Draft) -> Iterator[tuple[Path, str]]:
    if config.backend.ray is not None and config.backend.ray.workers is not None:
        yield (
            ("backend", "ray", "workers"),
            "the trials of pbt wait for each other, so all are at work; leave workers out: how many train at "
            "a time is a matter of resources",
        )
    if config.budget is not None and config.budget.repeats > 1:
        yield (
            ("budget", "repeats"),
            "pbt changes params in training, which no other seed would repeat; leave it out",
        )
    if config.results.checkpoints == "none":
        yield ("results", "checkpoints"), "pbt hands on checkpoints; let the latest be kept: last or best"


SAMPLERS = ("tpe", "gp", "cmaes", "random", "grid", "qmc", "nsga2")
PRUNERS: dict[str, tuple[str, ...]] = {
    "median": ("optuna", "ray"),
    "asha": ("optuna", "ray"),
    "hyperband": ("optuna", "ray"),
    "percentile": ("optuna",),
    "patient": ("optuna",),
    "threshold": ("optuna",),
    "pbt": ("ray",),
    "none": ("optuna", "ray", "list"),
}
_STORAGE: Path = ("backend", "optuna", "storage")
_PACKAGES = {"gp": ("scipy",), "qmc": ("scipy",), "cmaes": ("cmaes",)}
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "None": "null",
}
_NEED_EPOCHS = (("hyperband", "optuna"), ("hyperband", "ray"), ("asha", "ray"))


def check_support(sweep: Draft, document: Document, settle: bool = False) -> None:
    """Note every setting that this version, this backend or this environment cannot carry out.

    Args:
        sweep: as much of it as is well formed.
        document: takes the notes.
        settle: Ray may be loaded to ask it about options; Optuna is, wherever options are given.
    """
    before = len(document.problems)
    backends = (_program, _list_backend, _optuna_backend, _ray_backend)
    for check in (_sampler, _pruner, _pick, _objectives, _loggers, _report, *backends):
        for path, text in check(sweep):
            document.add(path, text)
    for path, text in _pruner_epochs(sweep, document):
        document.add(path, text)
    if len(document.problems) == before:
        for path, text in _options(sweep, settle):
            document.add(path, text)


def _options(sweep: Draft, settle: bool) -> Iterator[tuple[Path, str]]:
    """Build the plug-ins that have options: their host knows which there are."""
    for kind in ("sampler", "pruner"):
        plugin: Plugin | None = getattr(sweep.search, kind)
        on_ray = kind == "pruner" and sweep.backend.name == "ray"
        if plugin is None or not plugin.options or (on_ray and not settle):
            continue
        try:
            _build(kind, plugin, on_ray, sweep)
        except (HpometricsError, TypeError, ValueError) as err:
            yield ("search", kind), one_line(err)


def _build(kind: str, plugin: Plugin, on_ray: bool, sweep: Draft) -> None:
    from ..backends.plugins import find_class

    epochs = None if sweep.budget is None else sweep.budget.epochs
    if on_ray:
        from ..backends.ray.schedulers import SCHEDULERS, make_scheduler  # a host is loaded only to be asked

        _check_types(kind, plugin, SCHEDULERS)
        if plugin.name == PBT:
            return  # it wants the space; its tuner is made before the first trial
        make_scheduler(plugin.spec, Objective.MINIMIZE, epochs)
        return
    from optuna.exceptions import ExperimentalWarning

    from ..backends.optuna import samplers as host

    _check_types(kind, plugin, host.SAMPLERS if kind == "sampler" else host.PRUNERS)
    if kind == "pruner":
        host.make_pruner(plugin.spec, epochs)
    else:
        host.make_sampler(plugin.spec, sweep.search.seed)
        found, arguments = find_class(kind, plugin.spec, host.SAMPLERS)
        with catch_warnings(action="ignore", category=ExperimentalWarning):
            found(**arguments, seed=0)  # some are built for the first trial only


def _check_types(kind: str, plugin: Plugin, table: Table) -> None:
    """Refuse an option of another type than its host declares: hosts themselves look at their first trial.

    Raises:
        ConfigError: it is of another type, or there is no such option.
    """
    from ..backends.plugins import find_class

    found, _ = find_class(kind, plugin.spec, table)
    declared = inspect.signature(found).parameters
    for option, value in plugin.options.items():
        annotation = declared[table[plugin.name].words.get(option, option)].annotation
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        words = text.split(" | ")
        if set(words) <= _TYPES.keys() and not any(_fits(value, word) for word in words):
            wanted = " or ".join(_TYPES[word] for word in words if word != "None")
            raise ConfigError(f"{option} of {plugin.name} wants {wanted}, got {value!r}")
        if text.startswith("Callable") and not (value is None and "None" in words):
            raise ConfigError(f"{option} of {plugin.name} wants a function, which a file cannot hold")


def _fits(value: Any, word: str) -> bool:
    if isinstance(value, bool) or word == "bool":
        return isinstance(value, bool) and word == "bool"
    if word == "float":
        return isinstance(value, (int, float))
    return type(value).__name__.removesuffix("Type") == word


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
    elif backend not in PRUNERS[pruner.name] and backend != "list":
        fitting = [name for name, backends in PRUNERS.items() if backend in backends]
        where = " and ".join(PRUNERS[pruner.name])
        yield path, f"{pruner.name} runs on {where} only; on {backend} choose {', '.join(fitting)}"
    elif _several(sweep) and pruner.name != "none":
        yield path, f"{pruner.name} judges one value; with several objectives leave it out"


def _pruner_epochs(sweep: Draft, document: Document) -> Iterator[tuple[Path, str]]:
    pruner, budget = sweep.search.pruner, sweep.budget
    if pruner is None or budget is None or ("budget", "epochs") in document.broken:
        return
    if (pruner.name, sweep.backend.name) in _NEED_EPOCHS and budget.epochs is None:
        yield ("search", "pruner"), f"{pruner.name} divides a number of epochs; give budget.epochs"


def _pick(sweep: Draft) -> Iterator[tuple[Path, str]]:
    repeats = 1 if sweep.budget is None else sweep.budget.repeats
    path, pick = ("metrics", "pick"), "best" if sweep.metrics is None else sweep.metrics.pick
    if _several(sweep) and pick == "one_se":
        yield path, "one_se is for one objective; of several say knee, or the number of a trial"
    elif not _several(sweep) and pick not in ("best", "one_se"):
        yield path, f"{pick} picks from the front of several objectives, and there is one; say best or one_se"
    elif pick == "one_se" and repeats < 2:
        yield path, "one_se takes the error of a value over seeds; give budget.repeats: 3, say"


def _several(sweep: Draft) -> bool:
    return sweep.metrics is not None and len(sweep.metrics.optimize) > 1


def _objectives(sweep: Draft) -> Iterator[tuple[Path, str]]:
    """Say what knows one objective where there are several."""
    sampler, budget = sweep.search.sampler, sweep.budget
    if not _several(sweep):
        return
    if sampler is not None and searches_for_one(sampler.name):
        fitting = ", ".join(name for name in SAMPLERS if not searches_for_one(name))
        yield (
            ("search", "sampler"),
            f"{sampler.name} searches for one objective, and there are several; choose {fitting}",
        )
    if budget is not None and budget.target is not None:
        yield ("budget", "target"), "is in the unit of one metric; with several objectives leave it out"


def _loggers(sweep: Draft) -> Iterator[tuple[Path, str]]:
    if not sweep.results.loggers:
        return
    from ..loggers import registry  # of which few files have need

    for index, logger in enumerate(sweep.results.loggers):
        path = ("results", "loggers", index)
        if logger.name not in registry.LOGGERS:
            yield path, _unknown(logger, "logger", registry.LOGGERS)
            continue
        try:
            registry.check_options(logger.name, logger.options)
        except ConfigError as err:
            yield path, str(err)
        if missing := registry.missing_package(logger.name):
            yield path, str(missing)


def _report(sweep: Draft) -> Iterator[tuple[Path, str]]:
    missing = missing_report(sweep.results.report)
    if missing is not None:
        yield ("results", "report"), f"{missing}; md needs no package"


def _program(sweep: Draft) -> Iterator[tuple[Path, str]]:
    if sweep.engine is None or sweep.engine.command is None or sweep.metrics is None:
        return
    if sweep.metrics.track_examples is not None:
        yield ("metrics", "track_examples"), "a program tells values, no examples; leave it out"
    if not sweep.metrics.optimize:
        yield ("metrics",), "does not say what is optimized; a program has no metric of its own"


def _list_backend(sweep: Draft) -> Iterator[tuple[Path, str]]:
    if sweep.backend.name != "list":
        return
    for key, given in (
        ("sampler", sweep.search.sampler),
        ("pruner", sweep.search.pruner),
        ("start", sweep.search.start),
    ):
        if given and getattr(given, "name", "") != "none":
            yield ("search", key), f"the list backend runs its list as it is; leave {key} out"


def _optuna_backend(sweep: Draft) -> Iterator[tuple[Path, str]]:
    settings = sweep.backend.optuna
    if settings is None:
        return
    if settings.workers > 1 and settings.storage == "memory":
        yield _STORAGE, "workers share a storage; memory is one process's own"
    url = known_url(settings.storage)
    if url is not None:
        from ..backends.optuna.storage import check_driver

        try:
            check_driver(url)
        except HpometricsError as err:
            yield _STORAGE, str(err)


def _ray_backend(sweep: Draft) -> Iterator[tuple[Path, str]]:
    grid = sweep.search.sampler is not None and sweep.search.sampler.name == "grid"
    if sweep.backend.name == "ray" and sweep.budget is not None and sweep.budget.trials is None and not grid:
        yield ("budget",), "Ray counts its trials beforehand; give trials too"


def _unknown(plugin: Plugin, kind: str, known: Iterable[str]) -> str:
    near = did_you_mean(plugin.name, known)
    return f"{plugin.name!r} is not a {kind}{near or '; choose from ' + ', '.join(known)}"
