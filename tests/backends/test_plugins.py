from __future__ import annotations

import re
import sys
from types import ModuleType

import optuna
import pytest

from hpometrics._imports import Kind, import_target
from hpometrics.backends.optuna.pruners import make_pruner
from hpometrics.backends.optuna.samplers import SeededSampler, make_sampler
from hpometrics.backends.registry import (
    ALSO_CALLED,
    OPTUNA_PRUNERS as PRUNERS,
    SAMPLERS,
    check_spec,
    find_class,
    meaning_elsewhere,
    pruner_names,
)
from hpometrics.exceptions import ConfigError, MetricNameError, MissingExtraError, pip_line
from hpometrics.metrics.registry.register import get_metric


@pytest.mark.parametrize("name", SAMPLERS)
def test_every_sampler_can_be_made_by_name(name):
    """Or says which package it needs and how to get it."""
    if SAMPLERS[name].missing(name):
        line = re.escape(pip_line(SAMPLERS[name].extra))
        with pytest.raises(MissingExtraError, match=f"'{name}' needs .*, which is not installed: {line}$"):
            make_sampler(name, 7)
    else:
        assert isinstance(make_sampler(name, 7), SeededSampler)


@pytest.mark.parametrize("name", PRUNERS)
def test_every_pruner_can_be_made_by_name(name):
    """Those that need an argument get it."""
    arguments = {"percentile": {"percentile": 25.0}, "patient": {"patience": 2}, "threshold": {"upper": 1.0}}
    spec = {name: arguments[name]} if name in arguments else name
    assert isinstance(make_pruner(spec, 10), optuna.pruners.BasePruner)


def test_a_package_that_replaces_itself_is_installed(monkeypatch):
    """As optuna_integration does when it is imported; its module has no spec."""
    for package in SAMPLERS["botorch"].needs:
        monkeypatch.setitem(sys.modules, package, ModuleType(package))
    assert SAMPLERS["botorch"].missing("botorch") is None
    monkeypatch.setitem(sys.modules, "botorch", None)
    assert "needs botorch, which is not installed" in str(SAMPLERS["botorch"].missing("botorch"))


def test_a_class_without_a_seed_is_created_once(tmp_path, monkeypatch):
    """Its draws are its own matter; one with a seed has a stream for each trial."""
    head = "from optuna.samplers import RandomSampler\nclass Own(RandomSampler):\n"
    body = f"{head}    def __init__(self): super().__init__()\n"
    (tmp_path / "unseeded.py").write_text(body)
    monkeypatch.syspath_prepend(tmp_path)
    assert type(make_sampler("unseeded:Own", 7)).__name__ == "Own"
    assert isinstance(make_sampler("optuna.samplers:RandomSampler", 7), SeededSampler)


def test_our_words_become_the_hosts():
    """`warmup` of a median is Optuna's n_warmup_steps."""
    pruner = make_pruner({"median": {"warmup": 3, "min_trials": 2}})
    assert (pruner._n_warmup_steps, pruner._n_startup_trials) == (3, 2)


def test_a_class_by_path_and_an_object_are_taken_as_they_are():
    """Plug-ins of others need no entry in the table."""
    spec = {"optuna.samplers:TPESampler": {"n_startup_trials": 3}}
    assert isinstance(make_sampler(spec), optuna.samplers.TPESampler)
    sampler, pruner = optuna.samplers.RandomSampler(), optuna.pruners.NopPruner()
    assert make_sampler(sampler, 7) is sampler and make_pruner(pruner) is pruner
    assert isinstance(make_pruner(None), optuna.pruners.NopPruner)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: make_sampler("tpee", 1), "'tpee' is not a sampler; did you mean 'tpe'?"),
        (
            lambda: make_sampler({"tpe": {"n_startup": 3}}, 1),
            "no argument 'n_startup'; did you mean 'n_startup_trials'",
        ),
        (lambda: make_sampler({"tpe": {"seed": 3}}, 1), "sampler 'tpe' has no argument 'seed'"),
        (
            lambda: make_sampler(["tpe"]),
            r"a sampler must be a name or \{name: \{argument: value\}\}, got \['tpe'\]",
        ),
        (lambda: make_pruner({"median": {"warm": 3}}), "no argument 'warm'; did you mean 'warmup'"),
        (lambda: make_pruner({"median": {"warmup": -1}}), "pruner: Number of warmup steps"),
        (lambda: make_pruner("percentile"), "pruner: .*percentile"),
        (lambda: make_pruner("optuna.pruners:None_"), "cannot be imported"),
        (lambda: make_pruner("optuna.logging:get_verbosity"), "is not a class, but a function"),
        (lambda: check_spec("pruner", "mediam", PRUNERS), "did you mean 'median'"),
        (lambda: make_sampler("bayes"), "did you mean 'tpe'"),
        (lambda: make_sampler("CmaEsSampler"), "did you mean 'cmaes'"),
        (lambda: make_sampler("NSGAIIISampler"), "did you mean 'nsga3'"),
        (lambda: make_sampler("TuneBOHB"), "did you mean 'bohb'"),
        (
            lambda: make_sampler("hebo"),
            "'hebo' is not a sampler: HEBO 0.3.6.* numpy<1.25.* Choose gp or botorch",
        ),
        (lambda: make_sampler("HEBOSearch"), "requires numpy<1.25"),
        (lambda: make_sampler({"nsga3": {"reference_points": []}}), "no argument 'reference_points'"),
        (lambda: make_pruner("WilcoxonPruner"), "did you mean 'wilcoxon'"),
        (lambda: make_pruner({"wilcoxon": {"warmup": -1}}), "pruner: n_startup_steps must be nonnegative"),
        (
            lambda: make_sampler("ASHAScheduler"),
            r"'asha' is a pruner, as in search: \{pruner: asha\}\.",
        ),
        (lambda: make_pruner("successive_halving"), "did you mean 'asha'"),
        (lambda: make_pruner("MedianStoppingRule"), "did you mean 'median'"),
        (lambda: make_pruner("random_search"), "'random' is a sampler"),
    ],
)
def test_a_wrong_spec_is_refused_with_what_was_meant(make, text):
    """At construction, never at the first trial."""
    with pytest.raises(ConfigError, match=text):
        make()


ENDS = {
    "exit": "import sys; sys.exit(7)",
    "panic": "raise type('Panic', (BaseException,), {})('lost')",
    "error": "raise OSError(5, 'broken')",
}


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("when", ["imported", "created"])
def test_a_plug_in_that_ends_the_program_is_named(end, when, tmp_path, monkeypatch):
    """By an exit, or an exception that no `except Exception` takes: no command ends without a word."""
    body = f"class Odd:\n    def __init__(self, seed=0, **_): {ENDS[end]}\n"
    (tmp_path / "ending.py").write_text(f"{ENDS[end]}\n" if when == "imported" else body)
    monkeypatch.syspath_prepend(tmp_path)
    told = {"exit": "SystemExit: 7", "panic": "Panic: lost", "error": r"OSError: \[Errno 5\] broken"}[end]
    for make in (lambda: make_sampler("ending:Odd", 1), lambda: make_pruner("ending:Odd")):
        monkeypatch.delitem(sys.modules, "ending", raising=False)
        with pytest.raises(ConfigError, match=rf"'ending:Odd' cannot be {when}: {told}"):
            make()
    if when == "imported":
        with pytest.raises(MetricNameError, match=rf"'ending:Odd' cannot be imported .*: {told}"):
            get_metric("ending:Odd")
        with pytest.raises(ConfigError, match=rf"importing ending failed: {told}"):
            import_target("ending:Odd", Kind("class", lambda found: True))


@pytest.mark.parametrize("when", ["imported", "created"])
def test_an_interrupt_goes_through_a_plug_in(when, tmp_path, monkeypatch):
    """Whoever waits for one to be loaded can leave."""
    end = "raise KeyboardInterrupt"
    body = f"class Odd:\n    def __init__(self, seed=0, **_): {end}\n"
    (tmp_path / "ending.py").write_text(f"{end}\n" if when == "imported" else body)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "ending", raising=False)
    with pytest.raises(KeyboardInterrupt):
        make_pruner("ending:Odd")


def test_every_name_of_a_plug_in_elsewhere_is_one_here():
    """By its name, or by the path of a class that exists; of Optuna's own classes none is missing."""
    tables = {"sampler": SAMPLERS, "pruner": pruner_names()}
    for what, names in ALSO_CALLED.items():
        for called in names.values():
            assert called in tables[what] or find_class(what, called, {})
    for what, module in (("sampler", optuna.samplers), ("pruner", optuna.pruners)):
        classes = [name for name in module.__all__ if name.endswith(what.capitalize())]
        unknown = [name for name in classes if meaning_elsewhere(what, name) is None]
        assert {*unknown} <= {"BaseSampler", "BaseGASampler", "BasePruner", "PartialFixedSampler"}
