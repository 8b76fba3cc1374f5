"""Checks of which sampler, pruner and setting runs on which backend.

A combination that cannot run is an error of `check`, never a surprise of `run`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from pathlib import Path as FilePath
from typing import Any
from warnings import catch_warnings

from .._imports import is_target, load_path
from .._text import did_you_mean, one_line
from ..backends.hub import find_hub, is_hub
from ..backends.plug_in_checks import check_class_name, check_pruner_options, missing_searcher_package
from ..backends.registry import (
    BACKENDS,
    DOMINANCE_PRUNERS,
    MAKE_SAMPLER,
    POPULATIONS,
    REPLAY,
    SAMPLERS,
    BackendEntry,
    PlugIn,
    Table,
    backends_of,
    check_prune_by,
    dominance_rule,
    find_class,
    learns,
    pruner_names,
    searches_for_one,
    suggest_plug_in,
)
from ..backends.storage_url import redact_storage
from ..exceptions import ConfigError, HpometricsError
from ..loggers.registry import LOGGERS, check_options, missing_package
from ..selection.confirm_settings import LUCK
from ..selection.rules import DOMINANCE, WITHIN_ERROR
from ..space.space import Space, mutable
from ..space.values import is_whole
from .document import Document, Path
from .fields import Plugin
from .models import Draft

Notes = Iterator[tuple[Path, str]]
"""Problems, each with the path in the file that it is about."""

_LENGTHS = {("budget", name) for name in ("epochs", "steps", "every")}
"""The keys that limit the length of a trial."""
PRUNER_BACKENDS: Mapping[str, tuple[str, ...]] = {name: backends_of(name) for name in pruner_names()}
"""The backends of each pruner."""
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text",
    "None": "null",
}


def check_support(sweep: Draft, document: Document) -> None:
    """Check every setting against what this version, this backend and this environment can run.

    Args:
        sweep: the well-formed part of the sweep file.
        document: receives the problems.

    The backend is loaded where a sampler or a pruner has options, which only it knows.
    """
    before = len(document.problems)
    notes = (
        _check_sampler(sweep, document),
        _check_pruner(sweep, document),
        _check_prune_by(sweep),
        _check_pick(sweep),
        _check_objectives(sweep),
        _check_confirm(sweep),
        _check_loggers(sweep),
        _check_command(sweep),
        _check_points(sweep),
        _check_warm_start(sweep),
        _check_section(sweep),
        _check_trials(sweep),
        _check_pruner_epochs(sweep, document),
        _check_steps(sweep, document),
    )
    for path, text in chain(*notes):
        document.add(path, text)
    if len(document.problems) == before:
        for path, text in _check_options(sweep):
            document.add(path, text)


def check_population(config: Draft, space: Space | None, document: Document) -> None:
    """Check the settings and the space of a sweep whose trials change their params in training."""
    pruner = config.search.pruner
    if pruner is not None and pruner.name == REPLAY:
        for path, text in _check_replay(config, pruner):
            document.add(path, text)
    if pruner is None or pruner.name not in POPULATIONS:
        return
    for path, text in _check_exploits(config, pruner.name):
        document.add(path, text)
    if space is None:
        return
    try:
        mutable(space, pruner.options.get("mutate"), numbers_only=pruner.name == "pb2")
    except ConfigError as err:
        document.add(("search", "pruner"), str(err))


def _check_exploits(config: Draft, pruner: str) -> Notes:
    name = config.backend.name
    if pruner in BACKENDS[name].pruners and config.backend.section.workers is not None:
        yield (
            ("backend", name, "workers"),
            f"the trials of {pruner} wait for each other, so all run at once; leave workers out: the "
            "resources decide how many train at a time",
        )
    if config.budget is not None and config.budget.repeats > 1:
        yield (
            ("budget", "repeats"),
            f"{pruner} changes params during training, which another seed would not repeat; leave it out",
        )
    if config.results.checkpoints == "none":
        yield (
            ("results", "checkpoints"),
            f"{pruner} passes checkpoints on; set results.checkpoints to last or best",
        )


def _check_replay(config: Draft, pruner: Plugin) -> Notes:
    path, options = ("search", "pruner"), pruner.options
    run, trial = options.get("run"), options.get("trial")
    if unknown := [word for word in options if word not in ("run", "trial")]:
        yield path, f"{REPLAY} has no argument {unknown[0]!r}; it knows run, trial"
    if not isinstance(run, str):
        yield (
            path,
            f"run of {REPLAY} must be the directory of a sweep with pbt or pb2, as in runs/pbt, got {run!r}",
        )
    if trial is not None and not is_whole(trial):
        yield (
            path,
            f"trial of {REPLAY} must be a trial number, as in 3, or be left out for the best; got {trial!r}",
        )
    if trial is None and _has_several_objectives(config):
        yield path, f"several objectives have no single best trial; set the trial of {REPLAY}"
    if config.budget is not None and config.budget.repeats > 1:
        why = f"{REPLAY} trains each trial with its own seed; leave it out and set trials"
        yield ("budget", "repeats"), why
    if config.results.checkpoints == "none":
        why = f"{REPLAY} continues from checkpoints; set results.checkpoints to last or best"
        yield ("results", "checkpoints"), why
    for key, setting in (("start", config.search.start), ("from", config.search.warm_start)):
        if setting:
            yield ("search", key), f"{REPLAY} starts with the first params of its schedule; leave {key} out"
    if config.search.sampler is not None and config.search.sampler.name == "grid":
        yield ("search", "sampler"), f"{REPLAY} starts with the first params of its schedule; leave grid out"


def _check_options(sweep: Draft) -> Notes:
    """Build the plug-ins that have options, because only their backend knows its options."""
    backend, epochs = BACKENDS[sweep.backend.name], None if sweep.budget is None else sweep.budget.reports
    sampler, pruner = sweep.search.sampler, sweep.search.pruner
    try:
        if sampler is not None and sampler.options and ":" not in sampler.name:
            _check_sampler_options(sampler, sweep.search.seed)
    except (HpometricsError, TypeError, ValueError) as err:
        yield ("search", "sampler"), one_line(err)
    try:
        if pruner is not None and sweep.search.prune_by == DOMINANCE:
            _check_types("pruner", pruner, DOMINANCE_PRUNERS)
            dominance_rule(pruner.spec)
        elif pruner is not None and ":" in pruner.name:
            return  # code of the user, which is imported by what runs it
        elif pruner is not None:
            check_pruner_options(
                pruner.name, pruner.options, epochs if pruner.name in backend.needs_epochs else None
            )
            if pruner.options and pruner.name != REPLAY and (make := _maker(backend)) is not None:
                _check_types("pruner", pruner, backend.pruners)
                make(pruner.spec, epochs)
    except (HpometricsError, TypeError, ValueError) as err:
        yield ("search", "pruner"), one_line(err)


def _maker(backend: BackendEntry) -> Callable[..., object] | None:
    """Return the function that creates a pruner of a backend; None where the backend cannot be imported."""
    try:
        maker: Callable[..., object] = load_path(backend.make_pruner)
    except ImportError:
        return None
    return maker


def _check_sampler_options(sampler: Plugin, seed: int) -> None:
    from optuna.exceptions import ExperimentalWarning

    _check_types("sampler", sampler, SAMPLERS)
    load_path(MAKE_SAMPLER)(sampler.spec, seed)
    sampler_class, arguments = find_class("sampler", sampler.spec, SAMPLERS)
    with catch_warnings(action="ignore", category=ExperimentalWarning):
        sampler_class(**arguments, seed=0)  # `make_sampler` builds some only for the first trial


def _check_types(kind: str, plugin: Plugin, table: Table) -> None:
    """Check each option against the type that its backend declares; backends look only at the first trial."""
    plugin_class, _ = find_class(kind, plugin.spec, table)
    declared = inspect.signature(plugin_class).parameters
    for option, value in plugin.options.items():
        annotation = declared[table[plugin.name].words.get(option, option)].annotation
        text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
        words = text.split(" | ")
        if set(words) <= _TYPES.keys() and not any(_fits(value, word) for word in words):
            expected = " or ".join(_TYPES[word] for word in words if word != "None")
            raise ConfigError(f"{option} of {plugin.name} expects {expected}, got {value!r}")
        if text.startswith("Callable") and not (value is None and "None" in words):
            raise ConfigError(f"{option} of {plugin.name} must be a function, which a file cannot hold")


def _fits(value: Any, word: str) -> bool:
    if isinstance(value, bool) or word == "bool":
        return isinstance(value, bool) and word == "bool"
    if word == "float":
        return isinstance(value, (int, float))
    return type(value).__name__.removesuffix("Type") == word


def _check_sampler(sweep: Draft, document: Document) -> Notes:
    path, sampler = ("search", "sampler"), sweep.search.sampler
    if sampler is None:
        return
    if ":" in sampler.name:
        yield from _check_class(path, sampler, "sampler", document)
        if error := missing_searcher_package(sampler.name):
            yield path, str(error)
    elif sampler.name not in SAMPLERS:
        yield path, _format_unknown(sampler, "sampler", SAMPLERS)
    elif error := SAMPLERS[sampler.name].missing(f"the sampler {sampler.name}"):
        yield path, str(error)


def _check_class(path: Path, plugin: Plugin, kind: str, document: Document) -> Notes:
    """Yield why a class of the user's own cannot be found; nothing of it is imported."""
    if is_hub(plugin.name):
        try:
            find_hub(kind, plugin.name, (FilePath(document.source).parent,))
        except ConfigError as err:
            yield path, str(err)
    elif not is_target(plugin.name):
        yield path, f"{plugin.name!r} is not a class; write package.module:Class, or hub:FOLDER"
    else:
        try:
            check_class_name(kind, plugin.name)
        except ConfigError as err:
            yield path, str(err)


def _check_pruner(sweep: Draft, document: Document) -> Notes:
    path, pruner, backend = ("search", "pruner"), sweep.search.pruner, sweep.backend.name
    if pruner is None:
        return
    if ":" in pruner.name:
        kind = "scheduler" if BACKENDS[backend].schedules and not is_hub(pruner.name) else "pruner"
        yield from _check_class(path, pruner, kind, document)
    elif pruner.name not in PRUNER_BACKENDS:
        yield path, _format_unknown(pruner, "pruner", PRUNER_BACKENDS)
        return
    if sweep.search.prune_by == DOMINANCE:
        return
    if is_hub(pruner.name) and BACKENDS[backend].schedules:
        yield (
            path,
            f"{pruner.name} is an Optuna pruner, but {backend} stops trials with a scheduler",
        )
    elif (
        pruner.name in PRUNER_BACKENDS
        and backend not in PRUNER_BACKENDS[pruner.name]
        and sweep.backend.points is None
    ):
        fitting = [name for name, backends in PRUNER_BACKENDS.items() if backend in backends]
        where = " and ".join(PRUNER_BACKENDS[pruner.name])
        yield path, f"{pruner.name} runs on {where} only; on {backend} choose {', '.join(fitting)}"
    elif (
        _has_several_objectives(sweep)
        and pruner.name not in ("none", REPLAY)
        and sweep.search.prune_by is None
    ):
        yield (
            path,
            f"{pruner.name} judges by one value; with several objectives, leave it out or set "
            f"search.prune_by to a metric, or {DOMINANCE}",
        )
    else:
        plug_in = BACKENDS[backend].pruners.get(pruner.name, PlugIn(pruner.name))
        if error := plug_in.missing(f"the pruner {pruner.name}"):
            yield path, str(error)


def _check_prune_by(sweep: Draft) -> Notes:
    path, by, pruner = ("search", "prune_by"), sweep.search.prune_by, sweep.search.pruner
    if by is None or (pruner is not None and pruner.name not in PRUNER_BACKENDS and ":" not in pruner.name):
        return
    if sweep.backend.points is not None:
        yield path, f"the {sweep.backend.name} backend runs its list without pruning; leave prune_by out"
    elif by == DOMINANCE and sweep.metrics is not None and len(sweep.metrics.optimize) == 1:
        yield (
            path,
            f"{DOMINANCE} compares several objectives, but there is only one; name the metric to prune by",
        )
    else:
        try:
            check_prune_by(by, "none" if pruner is None else pruner.name)
        except ConfigError as err:
            yield path, str(err)


def _check_pruner_epochs(sweep: Draft, document: Document) -> Notes:
    pruner, budget = sweep.search.pruner, sweep.budget
    if pruner is None or budget is None or _LENGTHS & document.broken:
        return
    if pruner.name in BACKENDS[sweep.backend.name].needs_epochs and budget.reports is None:
        yield (
            ("search", "pruner"),
            f"{pruner.name} divides the number of epochs; set budget.epochs, or budget.steps with every",
        )


def _check_steps(sweep: Draft, document: Document) -> Notes:
    budget = sweep.budget
    if budget is None or _LENGTHS & document.broken or budget.steps is budget.every is None:
        return
    if budget.steps is None:
        yield ("budget", "every"), f"every: {budget.every} needs the total number of steps; set steps"
    elif budget.every is None:
        yield ("budget", "steps"), f"{budget.steps} also needs the number of steps between reports; set every"
    elif budget.every > budget.steps:
        yield ("budget", "every"), f"must be at most steps, {budget.steps}, got {budget.every}"
    if budget.epochs is not None:
        yield ("budget", "epochs"), "a trial counts epochs or steps; leave out epochs, or steps and every"
    if sweep.engine is not None and sweep.engine.command_line:
        yield (
            ("budget", "steps"),
            "a program decides when to report; set epochs to its maximum number of reports",
        )


def _check_pick(sweep: Draft) -> Notes:
    repeats = 1 if sweep.budget is None else sweep.budget.repeats
    path, pick = ("metrics", "pick"), "best" if sweep.metrics is None else sweep.metrics.pick
    rules = ("best", *WITHIN_ERROR)
    if _has_several_objectives(sweep) and pick in WITHIN_ERROR:
        yield path, f"{pick} works for one objective; with several, use knee or a trial number"
    elif not _has_several_objectives(sweep) and pick not in rules:
        yield (
            path,
            f"{pick} picks from the front of several objectives, but there is only one; use "
            f"{' or '.join(rules)}",
        )
    elif pick in WITHIN_ERROR and repeats < 2:
        yield path, f"{pick} needs the standard error over seeds; set budget.repeats, for example to 3"


def _has_several_objectives(sweep: Draft) -> bool:
    return sweep.metrics is not None and len(sweep.metrics.optimize) > 1


def _check_objectives(sweep: Draft) -> Notes:
    """Yield the settings that support one objective only, where there are several."""
    sampler, budget = sweep.search.sampler, sweep.budget
    if not _has_several_objectives(sweep):
        return
    if sampler is not None and searches_for_one(sampler.name):
        fitting = ", ".join(name for name in SAMPLERS if not searches_for_one(name))
        yield (
            ("search", "sampler"),
            f"{sampler.name} supports one objective, but there are several; choose {fitting}",
        )
    if budget is None:
        return
    for key, is_set in (("target", budget.target is not None), ("tol", bool(budget.tol))):
        if is_set:
            yield ("budget", key), "is in the unit of one metric; leave it out with several objectives"


def _check_confirm(sweep: Draft) -> Notes:
    """Yield why the winner of a sweep cannot be confirmed."""
    if sweep.confirm is None:
        return
    if _has_several_objectives(sweep):
        why = "decides by one metric, but several objectives have a front instead of a winner; leave it out"
        if sweep.confirm.until == "decided":
            yield ("confirm", "until"), why
        if sweep.confirm.equivalence != LUCK:
            yield ("confirm", "equivalence"), why
    if sweep.metrics is not None and sweep.metrics.pick in WITHIN_ERROR:
        yield (
            ("metrics", "pick"),
            f"{sweep.metrics.pick} picks by the repeats of the search, but confirm picks by fresh "
            "trainings; leave one of the two out (if contenders tie, the output of confirm names the "
            "cheapest)",
        )
    if sweep.search.pruner is not None and (name := sweep.search.pruner.name) in (*POPULATIONS, REPLAY):
        why = f"retrains fixed params, but {name} changes params during training; leave one of the two out"
        yield ("confirm",), why


def _check_loggers(sweep: Draft) -> Notes:
    for index, logger in enumerate(sweep.results.loggers):
        path = ("results", "loggers", index)
        if logger.name not in LOGGERS:
            yield path, _format_unknown(logger, "logger", LOGGERS)
            continue
        try:
            check_options(logger.name, logger.options)
        except ConfigError as err:
            yield path, str(err)
        if missing := missing_package(logger.name):
            yield path, str(missing)
        if logger.name in [other.name for other in sweep.results.loggers[:index]]:
            yield path, f"the logger {logger.name} is listed twice; leave one of the two out"


def _check_command(sweep: Draft) -> Notes:
    if sweep.engine is None or not sweep.engine.command_line or sweep.metrics is None:
        return
    if sweep.metrics.track_examples is not None:
        yield ("metrics", "track_examples"), "a program reports values, not single examples; leave it out"
    if not sweep.metrics.optimize:
        yield ("metrics",), "does not name the metric to optimize, and a program cannot name one"


def _check_points(sweep: Draft) -> Notes:
    if sweep.backend.points is None:
        return
    for key, setting in (
        ("sampler", sweep.search.sampler),
        ("pruner", sweep.search.pruner),
        ("start", sweep.search.start),
        ("from", sweep.search.warm_start),
    ):
        if setting and getattr(setting, "name", "") != "none":
            yield (
                ("search", key),
                f"the {sweep.backend.name} backend runs its list unchanged; leave {key} out",
            )


def _check_warm_start(sweep: Draft) -> Notes:
    """Yield why earlier sweeps cannot be read, as far as the file shows."""
    warm, sampler = sweep.search.warm_start, sweep.search.sampler
    if warm is None:
        return
    if sampler is not None and sampler.name == "grid":
        yield (
            ("search", "from"),
            "a grid visits all of its points regardless of earlier trials; leave from out",
        )
    for index, source in enumerate(warm.sweeps):
        if "://" in source:
            yield (
                ("search", "from", index),
                f"{redact_storage(source)} is a URL; name a run directory, or a file as in study.db#name",
            )
    if warm.values and not learns("tpe" if sampler is None else sampler.spec):
        yield (
            ("search", "from"),
            f"{sampler and sampler.name} learns only from its own trials; choose tpe or gp",
        )


def _check_section(sweep: Draft) -> Notes:
    backend = sweep.backend
    for path, text in () if backend.points is not None else backend.section.problems():
        yield ("backend", backend.name, *path), text


def _check_trials(sweep: Draft) -> Notes:
    name, sampler, budget = sweep.backend.name, sweep.search.sampler, sweep.budget
    is_grid = sampler is not None and sampler.name == "grid"
    if BACKENDS[name].needs_trials and budget is not None and budget.trials is None and not is_grid:
        yield ("budget",), f"{name.capitalize()} needs the number of trials in advance; set trials too"


def _format_unknown(plugin: Plugin, kind: str, names: Iterable[str]) -> str:
    near = suggest_plug_in(kind, plugin.name, names) if kind in ("sampler", "pruner") else ""
    near = near or did_you_mean(plugin.name, names)
    return f"{plugin.name!r} is not a {kind}{near or '; choose from ' + ', '.join(names)}"
