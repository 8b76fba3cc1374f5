"""The registry of backends, samplers and pruners by name: `tpe`, `{tpe: {arguments}}` or `module:Class`.

`hub:PATH` names a package in a local folder. The registry loads neither Optuna nor Ray.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

from .._imports import foreign, load_path, same_folder
from .._text import did_you_mean
from ..exceptions import ConfigError, MissingExtraError, missing_extra
from ..selection.rules import DOMINANCE, DominanceRule
from .hub import class_in_name, is_hub, load_hub
from .plug_in_checks import NOT_INSTALLABLE, check_class, missing_searcher_package

POPULATIONS = ("pbt", "pb2")
"""The schedulers of Ray whose trials exploit each other."""
_PBT = ("Population", "PopulationBasedTraining", "Bandit")
REPLAY = "pbt_replay"
"""The scheduler of Ray whose trials train the schedule of params that a population has found."""
_NO_PRUNING = ("none", "NopPruner", "FIFOScheduler", REPLAY)
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


@dataclass(frozen=True)
class PlugIn:
    """The class of a named plug-in and its arguments.

    Args:
        path: `package.module:Class`.
        words: our name of an argument -> the backend's.
        needs: packages that the backend does not install.
        hidden: arguments that are set for the user, who may not pass them.
        extra: the extra that installs those packages.
        learns: of a sampler, whether it learns from all trials, its own, or none.
        one_objective: of a sampler, whether it supports one objective only.
    """

    path: str
    words: Mapping[str, str] = field(default_factory=dict)
    needs: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()
    extra: str = "samplers"
    learns: Literal["all", "own", "none"] = "all"
    one_objective: bool = False

    def missing(self, feature: str) -> MissingExtraError | None:
        """Return the error of the first package that is not installed; None if there is none.

        Args:
            feature: the plug-in, as the message calls it.
        """
        absent = next((package for package in self.needs if not _is_installed(package)), None)
        return None if absent is None else missing_extra(feature, absent, self.extra)


def _is_installed(package: str) -> bool:
    if package in sys.modules:  # some replace themselves by a module that has no spec
        return sys.modules[package] is not None
    return find_spec(package) is not None


Table = Mapping[str, PlugIn]

SAMPLERS: Mapping[str, PlugIn] = {
    "tpe": PlugIn("optuna.samplers:TPESampler", hidden=_SEEDED),
    "gp": PlugIn("optuna.samplers:GPSampler", hidden=_SEEDED),
    "cmaes": PlugIn(
        "optuna.samplers:CmaEsSampler", needs=("cmaes",), hidden=_SEEDED, learns="own", one_objective=True
    ),
    "random": PlugIn("optuna.samplers:RandomSampler", hidden=_SEEDED, learns="none"),
    "grid": PlugIn("optuna.samplers:RandomSampler", hidden=_SEEDED, learns="none"),  # its points are enqueued
    "qmc": PlugIn("optuna.samplers:QMCSampler", hidden=(*_SEEDED, "independent_sampler"), learns="none"),
    "nsga2": PlugIn("optuna.samplers:NSGAIISampler", hidden=_SEEDED, learns="own"),
    "nsga3": PlugIn("optuna.samplers:NSGAIIISampler", hidden=(*_SEEDED, "reference_points"), learns="own"),
    "botorch": PlugIn(
        "optuna_integration.botorch:BoTorchSampler",
        needs=("botorch", "optuna_integration"),
        hidden=(*_SEEDED, "independent_sampler"),
        extra="botorch",
    ),
    "bohb": PlugIn(
        "hpometrics.backends.ray.searcher_sampler:BohbSampler",
        needs=("hpbandster", "ConfigSpace"),
        hidden=_SEEDED,
        extra="bohb",
        one_objective=True,
    ),
}
"""The samplers, which draw the params on every backend."""

_UNNAMED_SAMPLERS = (
    PlugIn("optuna.samplers:GridSampler", learns="none"),
    PlugIn("optuna.samplers:BruteForceSampler", learns="none"),
    PlugIn("hpometrics.backends.ray.searcher_sampler:SearcherSampler", one_objective=True),
)
"""Samplers that a class or an object alone names."""
MAKE_SAMPLER = "hpometrics.backends.optuna.samplers:make_sampler"  # of its spec and a seed
SEARCHER_SAMPLER = "hpometrics.backends.ray.searcher_sampler:as_sampler"  # of a class of searchers

OPTUNA_PRUNERS: Mapping[str, PlugIn] = {
    "median": PlugIn("optuna.pruners:MedianPruner", _OPTUNA_PERCENTILE),
    "asha": PlugIn("hpometrics.backends.optuna.pruners:EpochHalving", _OPTUNA_HALVING),
    "hyperband": PlugIn("hpometrics.backends.optuna.pruners:EpochHyperband", _OPTUNA_HALVING),
    "percentile": PlugIn("optuna.pruners:PercentilePruner", _OPTUNA_PERCENTILE),
    "patient": PlugIn("optuna.pruners:PatientPruner", {"pruner": "wrapped_pruner"}),
    "threshold": PlugIn(
        "optuna.pruners:ThresholdPruner", {"warmup": "n_warmup_steps", "interval": "interval_steps"}
    ),
    "wilcoxon": PlugIn("optuna.pruners:WilcoxonPruner", {"warmup": "n_startup_steps"}),
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
    "pb2": PlugIn(
        "hpometrics.backends.ray.pbt:Bandit",
        needs=("sklearn",),
        hidden=("space", "seed", "history"),
        extra="sklearn",
    ),
    REPLAY: PlugIn("hpometrics.backends.ray.replay:Replay", hidden=("metric", "direction")),
    "none": PlugIn("ray.tune.schedulers:FIFOScheduler"),
}

_DOMINANCE = "hpometrics.selection.rules:DominanceRule"
DOMINANCE_PRUNERS: Mapping[str, PlugIn] = {
    "median": PlugIn(_DOMINANCE, hidden=("percentile",)),
    "percentile": PlugIn(_DOMINANCE),
}
"""The pruners of `prune_by: dominance`, on every backend: they say which quantile."""

ALSO_CALLED: Mapping[str, Mapping[str, str]] = {
    "sampler": {
        "tpe": "tpe", "bayes": "tpe", "bohb": "bohb", "tunebohb": "bohb", "hyperopt": "tpe", "optuna": "tpe",
        "parzen": "tpe", "treeparzenestimator": "tpe", "custom": "tpe",
        "gp": "gp", "bayesian": "gp", "bayesianoptimization": "gp", "bayesopt": "gp", "gaussianprocess": "gp",
        "gpei": "gp", "ax": "gp", "botorch": "botorch", "hebo": "gp", "skopt": "gp", "scikitoptimize": "gp",
        "dragonfly": "gp", "smac": "gp",
        "cmaes": "cmaes", "cma": "cmaes", "nevergrad": "cmaes", "sigopt": "gp",
        "random": "random", "randomsearch": "random", "randomized": "random", "variantgenerator": "random",
        "basicvariantgenerator": "random", "uniform": "random", "zoopt": "cmaes", "blendsearch": "tpe",
        "cfo": "tpe", "flaml": "tpe",
        "grid": "grid", "gridsearch": "grid", "exhaustive": "grid",
        "bruteforce": "optuna.samplers:BruteForceSampler",
        "qmc": "qmc", "sobol": "qmc", "halton": "qmc", "quasirandom": "qmc",
        "nsga2": "nsga2", "nsgaii": "nsga2", "nsga": "nsga2", "genetic": "nsga2", "evolution": "nsga2",
        "evolutionary": "nsga2", "motpe": "tpe",
        "nsga3": "nsga3", "nsgaiii": "nsga3",
    },
    "pruner": {
        "median": "median", "medianstopping": "median", "medianstoppingrule": "median",
        "medianrule": "median",
        "asha": "asha", "sha": "asha", "successivehalving": "asha", "halving": "asha",
        "asynchyperband": "asha", "asynchronoushyperband": "asha", "asyncsha": "asha",
        "hyperband": "hyperband", "hb": "hyperband", "hbbohb": "hyperband", "hyperbandforbohb": "hyperband",
        "bohb": "hyperband",
        "percentile": "percentile", "patient": "patient", "patience": "patient", "earlystopping": "patient",
        "earlystop": "patient", "threshold": "threshold",
        "pbt": "pbt", "populationbasedtraining": "pbt", "population": "pbt",
        "pb2": "pb2", "populationbasedbandits": "pb2", "populationbasedbandit": "pb2",
        "pbtreplay": REPLAY, "populationbasedtrainingreplay": REPLAY,
        "none": "none", "nop": "none", "fifo": "none", "no": "none", "off": "none", "false": "none",
        "wilcoxon": "wilcoxon", "wilcoxonsignedrank": "wilcoxon",
    },
}  # fmt: skip
"""Names of Optuna, Ray Tune, Ludwig, W&B and KerasTuner, letters and digits alone; the nearest one here."""
_KIND = re.compile(r"(?:sampler|pruner|scheduler|search|searcher)\Z")

_ALL_TRIALS: Mapping[str, PlugIn] = {"none": OPTUNA_PRUNERS["none"]}


@dataclass(frozen=True)
class BackendEntry:
    """The facts of a backend. What is heavy is a path, `package.module:name`, and loads when it is used.

    Args:
        summary: its description in the reference of the sweep file.
        section: path of the type of its section in a sweep file, a `BackendSection` or a list of params.
        start: path of the function that runs the trials, called with the context of the sweep and `verbose`.
        pool: path of a context manager, called like `start`, that yields the `TrainingPool` of a
            confirmation; without a path, the processes of this machine train its fresh runs.
        pruners: its pruners by name.
        make_pruner: path of a function that creates a pruner of its spec and the number of epochs, to check
            its arguments.
        schedules: whether a scheduler of its own stops trials; the pruner of the study does not.
        needs_epochs: the pruners that need the number of epochs of a trial.
        needs_trials: whether it needs the number of trials.
        is_remote: whether its trials run at the same time on any machine, which may have other programs.
        has_workers: whether its section has `workers`, the number of trials at the same time.
        has_storage: whether its section has `storage`, the place of the study.
        has_points: whether its section is the list of params to try; nothing is sampled.
    """

    summary: str
    section: str
    start: str
    pool: str | None = None
    pruners: Mapping[str, PlugIn] = field(default_factory=lambda: _ALL_TRIALS)
    make_pruner: str = "hpometrics.backends.optuna.pruners:make_pruner"
    schedules: bool = False
    needs_epochs: tuple[str, ...] = ()
    needs_trials: bool = False
    is_remote: bool = False
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
        pool="hpometrics.runner.ray_sweep:cluster_pool",
        pruners=RAY_SCHEDULERS,
        make_pruner="hpometrics.backends.ray.schedulers:check_scheduler",
        schedules=True,
        needs_epochs=("hyperband", "asha"),
        needs_trials=True,
        is_remote=True,
        has_workers=True,
    ),
    "list": BackendEntry(
        "A list of params, tried in order. Nothing is sampled; if there is a space, each must lie in it.",
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

    >>> pruner_names()[-5:]
    ['wilcoxon', 'pbt', 'pb2', 'pbt_replay', 'none']
    """
    names = dict.fromkeys(name for backend in BACKENDS.values() for name in backend.pruners)
    return [*(name for name in names if name != "none"), "none"]


def read_spec(what: str, spec: object) -> tuple[str, dict[str, Any]]:
    """Split `name` or `{name: {argument: value}}` into name and arguments.

    Raises:
        ConfigError: the spec has neither form.
    """
    if isinstance(spec, str):
        return spec, {}
    if isinstance(spec, Mapping) and len(spec) == 1:
        name, arguments = next(iter(spec.items()))
        if isinstance(name, str) and isinstance(arguments or {}, Mapping):
            return name, dict(arguments or {})
    raise ConfigError(f"a {what} must be a name or {{name: {{argument: value}}}}, got {spec!r}")


def check_spec(what: str, spec: object, table: Table) -> None:
    """Refuse a name that is unknown or needs a package that is missing. Loads nothing.

    Raises:
        ConfigError: the name is unknown; the message has the nearest name.
        MissingExtraError: the package is missing; the message has the pip line.
    """
    name, _ = read_spec(what, spec)
    if ":" in name:
        if error := missing_searcher_package(name):
            raise error
        return
    if name not in table:
        hint = suggest_plug_in(what, name, table) or "."
        raise ConfigError(f"{name!r} is not a {what}{hint} Choose from {', '.join(table)}")
    if error := table[name].missing(f"the {what} {name!r}"):
        raise error


def meaning_elsewhere(what: str, name: str) -> str | None:
    """Return the name here of a sampler or pruner of other libraries, or its `module:Class`; else None.

    >>> meaning_elsewhere("pruner", "SuccessiveHalvingPruner"), meaning_elsewhere("sampler", "cma-es")
    ('asha', 'cmaes')
    """
    plain = _plain(name)
    names = ALSO_CALLED["sampler" if what == "sampler" else "pruner"]
    return names.get(plain) or names.get(_KIND.sub("", plain))


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def suggest_plug_in(what: str, name: str, names: Iterable[str]) -> str:
    """Return `; did you mean 'asha'?` for the name of a sampler or pruner; empty if none is near.

    >>> suggest_plug_in("sampler", "hyperband", SAMPLERS)
    "; 'hyperband' is a pruner, as in search: {pruner: hyperband}."
    """
    names = list(names)
    if what == "sampler" and (reason := NOT_INSTALLABLE.get(_KIND.sub("", _plain(name)))):
        return reason
    called = meaning_elsewhere(what, name)
    if called is not None and (called in names or ":" in called):
        return f"; did you mean {called!r}?"
    other = "pruner" if what == "sampler" else "sampler"
    others = SAMPLERS if other == "sampler" else pruner_names()
    called = name if name in others else meaning_elsewhere(other, name)
    if called in others and called != "none":
        return f"; {called!r} is a {other}, as in search: {{{other}: {called}}}."
    return did_you_mean(name, names)


def find_class(what: str, spec: object, table: Table) -> tuple[Callable[..., Any], dict[str, Any]]:
    """Return the class that a spec names, and its arguments under the backend's names.

    Raises:
        ConfigError: there is no such name, class or argument.
        MissingExtraError: see `check_spec`.
    """
    if is_searcher(spec):
        return spec, {}  # type: ignore[return-value]  # it is a class
    check_spec(what, spec, table)
    name, arguments = read_spec(what, spec)
    plug_in = table.get(name, PlugIn(name))
    cls = load_hub(what, name) if is_hub(name) else _load(what, plug_in.path)
    if ":" in name:
        check_class(what, name, cls)
    theirs = [word for word in inspect.signature(cls).parameters if word not in plug_in.hidden]
    words = [*plug_in.words, *(word for word in theirs if word not in plug_in.words.values())]
    for word in arguments:
        if word not in words:
            hint = did_you_mean(word, words) or "."
            raise ConfigError(f"{what} {name!r} has no argument {word!r}{hint} It knows {', '.join(words)}")
    return cls, {plug_in.words.get(word, word): value for word, value in arguments.items()}


def _load(what: str, path: str) -> type:
    with foreign(f"{what} {path!r} cannot be imported"), same_folder():
        cls = load_path(path)
    if not isinstance(cls, type):
        raise ConfigError(f"{what} {path!r} is not a class, but a {type(cls).__name__}")
    return cls


def is_searcher(spec: object) -> bool:
    """Return whether an object is a class of searchers of Ray Tune; Ray is not loaded to find that out."""
    return isinstance(spec, type) and any(
        one.__name__ == "Searcher" and one.__module__.startswith("ray.tune.search.") for one in spec.__mro__
    )


def check_several(
    optimized: Collection[str], sampler: object = None, pruner: object = None, what: str = "pruner"
) -> None:
    """Refuse a sampler or pruner for one objective where there are several.

    Args:
        optimized: the names of what is optimized.
        sampler: a name, `{name: {argument: value}}`, `module:Class` or an object; None for none.
        pruner: likewise, or a scheduler.
        what: `pruner` or `scheduler`.

    Raises:
        ConfigError: there are several objectives, and one of the two supports one alone.
    """
    if len(optimized) < 2:
        return
    fact = f"{', '.join(optimized)} are {len(optimized)} objectives"
    if searches_for_one(sampler):
        name = name_of(sampler)
        raise ConfigError(
            f"the sampler {name} supports one objective; {fact}. Choose tpe, gp, botorch, nsga2 or nsga3"
        )
    if pruner is not None and (name := name_of(pruner)) not in _NO_PRUNING:
        raise ConfigError(
            f"the {what} {name} judges by one value; {fact}. Leave it out, or name that value: "
            f"prune_by={next(iter(optimized))!r} or prune_by={DOMINANCE!r}"
        )


def dominance_rule(spec: object) -> DominanceRule:
    """Return the rule of `prune_by: dominance` for `median` or `percentile`.

    Raises:
        ConfigError: it has no such argument or value.
    """
    _, arguments = find_class("pruner", spec, DOMINANCE_PRUNERS)
    if read_spec("pruner", spec) == ("percentile", {}):
        raise ConfigError(
            "percentile needs the percentage that counts as better: {percentile: {percentile: 25}}"
        )
    try:
        return DominanceRule(**arguments)
    except TypeError as err:
        raise ConfigError(f"pruner: {err}") from err


def check_prune_by(prune_by: str | None, pruner: object, what: str = "pruner") -> None:
    """Refuse a pruner, see `check_several`, that cannot judge by what `prune_by` says.

    Raises:
        ConfigError: there is none, or it cannot.
    """
    if prune_by is None:
        return
    name = "none" if pruner is None else name_of(pruner)
    if name in _NO_PRUNING:
        raise ConfigError(f"prune_by: {prune_by} needs a {what} that uses it, such as {what}: median")
    if name in (*POPULATIONS, *_PBT):
        raise ConfigError(f"{name} never stops a trial; leave prune_by out")
    if prune_by == DOMINANCE and name not in (*DOMINANCE_PRUNERS, "DominancePruner"):
        raise ConfigError(
            f"{DOMINANCE} compares with a quantile of the other trials, as median or percentile does; "
            f"{name} does not"
        )


def searches_for_one(sampler: object) -> bool:
    """Return whether a sampler supports one objective only."""
    return sampler is not None and _sampler_facts(sampler).one_objective


def learns(sampler: object) -> bool:
    """Return whether a sampler learns from trials of earlier searches; a class of the user's own may.

    Random, grid and qmc learn from none; cmaes and nsga2 only from those that they drew themselves.

    >>> learns("tpe"), learns({"random": {}}), learns("my.samplers:Own")
    (True, False, True)
    """
    return _sampler_facts(sampler).learns == "all"


def draws_blindly(sampler: object) -> bool:
    """Return whether a sampler draws without regard to any value."""
    return _sampler_facts(sampler).learns == "none"


def _sampler_facts(sampler: object) -> PlugIn:
    """Return the row of a sampler; a class of the user's own has one of its own."""
    name = name_of(sampler)
    by_class = {one.path.rpartition(":")[2]: one for one in (*SAMPLERS.values(), *_UNNAMED_SAMPLERS)}
    return SAMPLERS.get(name) or by_class.get(name) or PlugIn(name)


def name_of(spec: object) -> str:
    """Return the name of a plug-in; for `module:Class`, `hub:PATH:Class` and an object that of the class."""
    if isinstance(spec, Mapping) and spec:
        spec = next(iter(spec))
    if isinstance(spec, type):
        return "SearcherSampler" if is_searcher(spec) else spec.__name__
    if isinstance(spec, str) and is_hub(spec):
        return class_in_name(spec) or spec
    return spec.rpartition(":")[2] if isinstance(spec, str) else getattr(spec, "kind", type(spec).__name__)
