"""Files of Hydra and its sweepers: what they mean here."""

from __future__ import annotations

import pytest
from foreign_files import EXAMPLES, SPHERE, converted, sweeper


def test_the_sphere_of_hydra(tmp_path):
    """The application runs as a program; the end of a range counts, as in Hydra's sweeper."""
    config, remarks = converted(tmp_path, "c.yaml", EXAMPLES["sphere.yaml"])
    assert config == {
        "engine": {"command": ["python", "train.py", "{args_no_hyphens}", "hydra.run.dir={dir}"]},
        "space": {"x": {"float": [-5.5, 5.5], "step": 0.5}, "y": {"choice": [-5, 0, 5]}},
        "metrics": {"optimize": {"metric": "score", "direction": "minimize"}},
        "search": {"sampler": "tpe", "seed": 123},
        "backend": "optuna",
        "budget": {"trials": 20, "failures": 1},
    }
    assert 'print it as {"score": ...}' in remarks


def test_a_front_of_hydra_has_a_metric_per_direction(tmp_path):
    """In their order; the sampler of the defaults list is taken."""
    text = EXAMPLES["front.yaml"].replace(
        "- override hydra/sweeper: optuna",
        "- override hydra/sweeper: optuna\n- override hydra/sweeper/sampler: nsgaii",
    )
    config, _ = converted(tmp_path, "c.yaml", text)
    assert [one["metric"] for one in config["metrics"]["optimize"]] == ["score_1", "score_2"]
    assert config["search"]["sampler"] == "nsga2"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("interval(0, 1)", {"float": [0.0, 1.0]}),
        ("interval(start=-5.0, end=5.0)", {"float": [-5.0, 5.0]}),
        ("int(interval(-5.0, 5.0))", {"int": [-5, 5]}),
        ("tag(log, interval(1, 10))", {"float": [1.0, 10.0], "log": True}),
        ("tag(log, int(interval(1, 64)))", {"int": [1, 64], "log": True}),
        ("range(1, 4)", {"int": [1, 4]}),
        ("range(8)", {"int": [0, 8]}),
        ("range(-5.0, 5.0)", {"float": [-5.0, 5.0], "step": 1.0}),
        ("float(range(1, 5))", {"float": [1.0, 5.0], "step": 1.0}),
        ("shuffle(range(-1, 3))", {"choice": [-1, 0, 1, 2]}),
        ("sort(choice(3, 1), reverse=true)", {"choice": [3, 1]}),
        ("choice(3, 3, 1)", {"choice": [3, 1], "weights": [2, 1]}),
        (
            "choice(adam, 'a, b', null, true, resnet-18)",
            {"choice": ["adam", "a, b", None, True, "resnet-18"]},
        ),
        ("a,b", {"choice": ["a", "b"]}),
        ("0.1", 0.1),
        ("[1, 2]", [1, 2]),
    ],
)
def test_the_grammar_of_hydra(text, expected, tmp_path):
    """By hand, from the distributions that its Optuna sweeper makes of an override."""
    config, _ = converted(tmp_path, "c.yaml", sweeper(params={"x": text, "y": "choice(1, 2)"}))
    assert config["space"].get("x", config["engine"].get("params", {}).get("x")) == expected


def hydra_space(tmp_path, space, kind="optuna", **keys):
    """What the params of an older section of a sweeper become, with the remarks."""
    section = {"optuna": {"search_space": space}, "nevergrad": {"parametrization": space}}
    own = section.get(kind) or {"ax_config": {"params": space}}
    return converted(tmp_path, "c.yaml", sweeper(**{**own, **keys}))


@pytest.mark.parametrize(
    ("kind", "facts", "expected"),
    [
        (
            "optuna",
            {"type": "float", "low": -5.5, "high": 5.5, "step": 0.5},
            {"float": [-5.5, 5.5], "step": 0.5},
        ),
        ("optuna", {"type": "float", "low": 0.1, "high": 1, "log": True}, {"float": [0.1, 1.0], "log": True}),
        ("optuna", {"type": "int", "low": 1, "high": 9, "step": 2}, {"int": [1, 9], "step": 2}),
        ("optuna", {"type": "int", "low": 1, "high": 9, "log": True}, {"int": [1, 9], "log": True}),
        ("optuna", {"type": "categorical", "choices": [-5, 0, 5]}, {"choice": [-5, 0, 5]}),
        ("nevergrad", ["mnist", "cifar"], {"choice": ["mnist", "cifar"]}),
        ("nevergrad", {"lower": 0.0, "upper": 1.0}, {"float": [0.0, 1.0]}),
        ("nevergrad", {"lower": 4, "upper": 16, "integer": True}, {"int": [4, 16]}),
        ("nevergrad", {"lower": 1e-4, "upper": 1.0, "log": True}, {"float": [1e-4, 1.0], "log": True}),
        (
            "nevergrad",
            {"init": 0.02, "step": 2.0, "log": True},
            {"normal": [-3.91202, 0.693147], "log": True},
        ),
        ("nevergrad", {"init": 8, "step": 2, "integer": True}, {"normal": [8, 2], "step": 1}),
        ("nevergrad", 3, 3),
        (
            "ax",
            {"type": "range", "bounds": [0.001, 1.0], "log_scale": True},
            {"float": [0.001, 1.0], "log": True},
        ),
        ("ax", {"type": "range", "bounds": [1, 10]}, {"int": [1, 10]}),
        ("ax", {"type": "range", "bounds": [1, 10], "value_type": "float"}, {"float": [1.0, 10.0]}),
        ("ax", {"type": "choice", "values": [1, 2]}, {"choice": [1, 2]}),
        ("ax", {"type": "fixed", "value": 3}, 3),
    ],
    ids=str,
)
def test_the_typed_params_of_the_sweepers_of_hydra(kind, facts, expected, tmp_path):
    """By hand: those of search_space, of Nevergrad's parametrization and of Ax."""
    other = {
        "optuna": {"type": "categorical", "choices": [1, 2]},
        "nevergrad": [1, 2],
        "ax": {"type": "choice", "values": [1, 2]},
    }
    config, _ = hydra_space(tmp_path, {"x": facts, "y": other[kind]}, kind)
    assert config["space"].get("x", config["engine"].get("params", {}).get("x")) == expected
    assert config["space"]["y"] == {"choice": [1, 2]}


def test_the_settings_of_nevergrad(tmp_path):
    """A value to begin at is tried first; the width of its mutations is named as left out."""
    optim = {"optimizer": "OnePlusOne", "budget": 40, "num_workers": 2, "maximize": True, "seed": 3}
    facts = {"init": 0.5, "lower": 0.0, "upper": 1.0, "step": 0.1}
    config, remarks = hydra_space(tmp_path, {"x": facts}, "nevergrad", optim=optim)
    assert config["search"] == {"sampler": "tpe", "seed": 3, "start": [{"x": 0.5}]}
    whole = {"init": 3.0, "lower": 1, "upper": 8, "integer": True}
    config_of_whole, _ = hydra_space(tmp_path, {"x": whole}, "nevergrad", optim=optim)
    assert config_of_whole["search"]["start"] == [{"x": 3}]
    assert type(config_of_whole["search"]["start"][0]["x"]) is int
    assert config["metrics"]["optimize"]["direction"] == "maximize"
    assert (config["backend"], config["budget"]) == ({"optuna": {"workers": 2}}, {"trials": 40})
    assert "OnePlusOne is not available here; the import writes tpe" in remarks
    assert "x.step: dropped: it is the width of Nevergrad's mutations" in remarks


def test_scalars_of_nevergrad_stand_in_params_too(tmp_path):
    """As since Hydra 1.4, beside the grammar of overrides."""
    params = {"lr": {"lower": 0.1, "upper": 1.0}, "x": "interval(0, 1)"}
    config, _ = converted(tmp_path, "c.yaml", sweeper(optim={"budget": 9}, params=params))
    assert config["space"] == {"lr": {"float": [0.1, 1.0]}, "x": {"float": [0.0, 1.0]}}


def test_the_settings_of_ax(tmp_path):
    """Its trials, direction, seed and early stop; a constraint on params is named as left out."""
    ax = {
        "max_trials": 12,
        "early_stop": {"minimize": False, "max_epochs_without_improvement": 7},
        "experiment": {"minimize": False, "parameter_constraints": ["x <= y"]},
        "client": {"random_seed": 5},
        "params": {"x": {"type": "range", "bounds": [0.0, 1.0]}},
    }
    config, remarks = converted(tmp_path, "c.yaml", sweeper(ax_config=ax, max_batch_size=4))
    assert config["search"] == {"sampler": "gp", "seed": 5}
    assert config["metrics"]["optimize"] == {"metric": "score", "direction": "maximize"}
    assert config["budget"] == {"trials": 12, "stale": 7}
    assert config["backend"] == {"optuna": {"workers": 4}}
    assert "experiment.parameter_constraints: dropped" in remarks


def test_params_win_over_search_space(tmp_path):
    """As in Hydra's own sweeper; a value in params makes the param a fixed one."""
    space = {"x": {"type": "int", "low": 1, "high": 9}, "y": {"type": "int", "low": 1, "high": 9}}
    config, _ = hydra_space(tmp_path, space, params={"y": "choice(1, 2)"})
    assert config["space"] == {"x": {"int": [1, 9]}, "y": {"choice": [1, 2]}}


def test_the_sampler_storage_and_jobs_of_hydra(tmp_path):
    """Options of a sampler are kept; a URL with a password is not copied."""
    keys = {
        "n_jobs": 4,
        "sampler": {"_target_": "optuna.samplers.TPESampler", "n_startup_trials": 5, "seed": None},
    }
    for storage, kept in (
        ("postgresql://db/x", True),
        ("postgresql://a:pw@db/x", False),
        ("sqlite:///x", False),
    ):
        text = sweeper(**SPHERE | keys | {"storage": storage})
        config, remarks = converted(tmp_path, "c.yaml", text)
        assert config["search"] == {"sampler": {"tpe": {"n_startup_trials": 5}}}
        assert config["backend"] == {"optuna": {"workers": 4, **({"storage": storage} if kept else {})}}
        assert ("storage: dropped" in remarks) is not kept and "pw" not in remarks
