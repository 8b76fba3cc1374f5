"""Checks of a sampler or pruner by its name, class and options; none of them loads Optuna or Ray."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from ..exceptions import ConfigError, MissingExtraError, missing_extra

_MODULES = {
    "optuna.samplers": "sampler",
    "ray.tune.search": "sampler",
    "optuna.pruners": "pruner",
    "ray.tune.schedulers": "scheduler",
}
"""The kind of the classes of each module."""
_BASES = {
    ("optuna.samplers", "BaseSampler"): "sampler",
    ("ray.tune.search", "Searcher"): "sampler",
    ("optuna.pruners", "BasePruner"): "pruner",
    ("ray.tune.schedulers", "TrialScheduler"): "scheduler",
}
"""The kind of the classes that are derived from each class, by the package and the name of the latter."""
_DERIVE = {
    "sampler": "derive it from optuna.samplers.BaseSampler, or name a searcher of ray.tune.search",
    "pruner": "derive it from optuna.pruners.BasePruner",
    "scheduler": "derive it from ray.tune.schedulers.TrialScheduler",
}
_PACKAGES = {
    "ax": ("ax", "ax-platform"),
    "bayesopt": ("bayes_opt", "bayesian-optimization"),
    "bohb": ("hpbandster", "hpbandster ConfigSpace"),
    "hebo": ("hebo", "HEBO"),
    "hyperopt": ("hyperopt", "hyperopt"),
    "nevergrad": ("nevergrad", "nevergrad"),
    "zoopt": ("zoopt", "zoopt"),
}
"""The package that each module of `ray.tune.search` imports, and what pip calls it."""
NOT_INSTALLABLE: Mapping[str, str] = {
    "hebo": ": HEBO 0.3.6, its newest release, requires numpy<1.25, but hpometrics requires numpy>=1.26, so "
    "pip cannot install both. Choose gp or botorch, which have the most similar models.",
}
"""Samplers of other libraries that cannot be used, each with the reason and what to choose."""
_LEAST = {"warmup": 0, "min_trials": 0, "min_epochs": 1, "interval": 1}
"""The least value of each option that has the same name on every backend."""
_NEEDED = {
    "percentile": (("percentile",), "percentile: 25"),
    "patient": (("patience",), "patience: 5"),
    "threshold": (("lower", "upper"), "upper: 10"),
}
"""The options of which each pruner needs one, and an example."""


def check_class_name(what: str, name: str) -> None:
    """Refuse `module:Class` of a library whose classes are of another kind, as far as its name shows.

    Args:
        what: `sampler`, `pruner` or `scheduler`.
        name: the name.

    Raises:
        ConfigError: the module has classes of another kind.
    """
    _check_kind(what, name, next((kind for module, kind in _MODULES.items() if _is_in(name, module)), what))


def check_class(what: str, name: str, cls: type) -> None:
    """Refuse a class that is of another kind; one of no kind may create an object of this kind.

    Raises:
        ConfigError: it is derived from a class of another kind.
    """
    _check_kind(what, name, _kind_of(cls) or what)


def check_object(what: str, name: str, created: object) -> None:
    """Refuse an object that is not of a kind.

    Raises:
        ConfigError: its class is not derived from one of that kind.
    """
    _check_kind(what, name, _kind_of(type(created)))


def _kind_of(cls: type) -> str | None:
    kinds = (
        kind
        for one in cls.__mro__
        for (module, base), kind in _BASES.items()
        if one.__name__ == base and _is_in(one.__module__, module)
    )
    return next(kinds, None)


def _is_in(name: str, module: str) -> bool:
    return name.startswith((f"{module}.", f"{module}:")) or name == module


def _check_kind(what: str, name: str, kind: str | None) -> None:
    if kind == what:
        return
    if kind is None:
        raise ConfigError(f"{what} {name!r} is a class whose objects are not {what}s; {_DERIVE[what]}")
    if {kind, what} == {"pruner", "scheduler"}:
        place = {"pruner": "on Optuna", "scheduler": "on Ray"}
        raise ConfigError(
            f"{name!r} is a {kind}, which stops trials {place[kind]}; {place[what]}, name a {what}: "
            f"asha, median or a class of {next(module for module, one in _MODULES.items() if one == what)}"
        )
    key = "sampler" if kind == "sampler" else "pruner"
    raise ConfigError(f"{name!r} is a {kind}, not a {what}; did you mean search: {{{key}: {name!r}}}?")


def missing_searcher_package(name: str) -> MissingExtraError | None:
    """Return the error of a searcher of Ray Tune whose package is not installed; None for any other class.

    >>> missing_searcher_package("my.samplers:Own")
    """
    module = name.partition(":")[0].removeprefix("ray.tune.search.").partition(".")[0]
    if not _is_in(name, "ray.tune.search") or module not in _PACKAGES:
        return None
    package, title = _PACKAGES[module]
    if find_spec(package) is not None:
        return None
    if module in NOT_INSTALLABLE:
        reason = NOT_INSTALLABLE[module]
        return MissingExtraError(f"the sampler {name!r} needs {title}, which is not installed{reason}")
    return missing_extra(f"the sampler {name!r}", title, extra=None)


def check_pruner_options(name: str, options: Mapping[str, Any], epochs: int | None = None) -> None:
    """Refuse options of a named pruner with which no backend can use it.

    Args:
        name: the name of the pruner.
        options: its options under our names.
        epochs: the most epochs that a trial can have, if they are known and the pruner divides them.

    Raises:
        ConfigError: a number lies outside its range, or an option is missing.
    """
    for word, least in _LEAST.items():
        if _number(options, word, least) < least:
            raise ConfigError(f"{word} of {name} must be at least {least}, got {options[word]}")
    if _number(options, "eta", 2) <= 1:
        raise ConfigError(
            f"eta of {name} must be above 1, as 1/eta of the trials continue, got {options['eta']}"
        )
    if epochs is not None and (first := _number(options, "min_epochs", 0)) > epochs:
        raise ConfigError(
            f"min_epochs of {name} must be at most the number of epochs per trial, {epochs}, got {first}"
        )
    words, example = _NEEDED.get(name, ((), ""))
    if words and all(options.get(word) is None for word in words):
        lack = " or ".join(words)
        raise ConfigError(f"{name} needs {lack}; write {{{name}: {{{example}}}}}, for example")


def _number(options: Mapping[str, Any], word: str, default: float) -> float:
    """Return the value of an option; the default if it is not a number, which its backend checks."""
    value = options.get(word, default)
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else default
