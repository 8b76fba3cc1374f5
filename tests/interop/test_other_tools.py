"""Files of Hydra, Ludwig, Ray Tune, WarpRec, RecBole and KerasTuner: what their examples of 2026 mean here.

The examples are facts, keys and values, that were read from the tools' public repositories.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given, settings, strategies as st

from hpometrics.cli.main import main
from hpometrics.config.document import SweepFileError
from hpometrics.config.plan import read_plan
from hpometrics.exceptions import ConfigError
from hpometrics.interop.init import read_foreign


def sweeper(**keys: Any) -> str:
    """A Hydra config with the keys of a sweeper."""
    return yaml.safe_dump({"defaults": [{"override hydra/sweeper": "optuna"}], "hydra": {"sweeper": keys}})


def warprec(model: dict[str, Any], **evaluation: Any) -> str:
    """A config of WarpRec with one model."""
    return yaml.safe_dump({"models": {"EASE": model}, "evaluation": evaluation})


def oracle(*space: tuple[str, dict[str, Any]], **state: Any) -> str:
    """The state of an oracle with hyperparameters, each a class and its config."""
    entries = [{"class_name": kind, "config": {"conditions": [], **config}} for kind, config in space]
    return json.dumps({"hyperparameters": {"space": entries, "values": {}}, "start_order": ["00"], **state})


def ray(config: dict[str, Any], **keys: Any) -> str:
    """A file with one experiment of Ray Tune."""
    return yaml.safe_dump({"cartpole-ppo": {"run": "PPO", "config": config, **keys}})


def converted(folder: Path, name: str, text: str) -> tuple[dict[str, Any], str]:
    """The sections that a file becomes, and the remarks on it."""
    file = folder / name
    file.write_text(text)
    conversion = read_foreign(file)
    return conversion.config, "\n".join(map(str, conversion.notes.sorted()))


def init(folder: Path, name: str, text: str) -> Result:
    """Type `hpometrics init mine --from FILE`."""
    (folder / name).write_text(text)
    return CliRunner().invoke(main, ["init", str(folder / "mine"), "--from", str(folder / name)])


SPHERE = {
    "sampler": {"seed": 123},
    "direction": "minimize",
    "study_name": "sphere",
    "storage": None,
    "n_trials": 20,
    "n_jobs": 1,
    "max_failure_rate": 0.0,
    "params": {"x": "range(-5.5, 5.5, step=0.5)", "y": "choice(-5 ,0 ,5)"},
}
FRONT = {
    **SPHERE,
    "direction": ["minimize", "minimize"],
    "params": {"x": "range(0, 5, step=0.5)", "y": "range(0, 3, step=0.5)"},
}
LIGHTGCN = {
    "optimization": {"cpu_per_trial": 4, "gpu_per_trial": 0.25, "strategy": "hopt", "num_samples": 100},
    "early_stopping": {"patience": 20, "grace_period": 10},
    "embedding_size": ["qrandint", 64, 320, 64],
    "n_layers": [1, 2, 3],
    "weight_decay": ["uniform", 0.0, 1e-6],
    "batch_size": ["qrandint", 512, 10240, 512],
    "epochs": 200,
    "learning_rate": ["uniform", 1e-6, 1e-3],
}
GRID = {"num_workers": 2, "num_sgd_iter": {"grid_search": [1, 4]}, "size": {"grid_search": [128, 256, 512]}}
HYPER_TEST = (
    "learning_rate loguniform -8,0",
    "embedding_size choice [64,96,128]",
    "train_batch_size choice [512,1024,2048]",
    "mlp_hidden_size choice ['[64,64,64]','[128,128]']",
)
WINE = {
    "input_features": [{"name": name, "type": "number"} for name in ("alcohol", "density", "pH")],
    "output_features": [{"name": "quality", "type": "number"}],
    "combiner": {"type": "concat", "num_fc_layers": 2, "output_size": 64, "dropout": 0.1},
    "trainer": {"epochs": 15, "batch_size": 128, "learning_rate": 0.001, "early_stop": 5},
    "hyperopt": {
        "executor": {
            "type": "optuna",
            "num_samples": 20,
            "sampler": "auto",
            "pruner": None,
            "study_name": "ludwig_wine_rmse",
            "storage": None,
            "time_budget_s": 1800,
        },
        "parameters": {
            "trainer.learning_rate": {"space": "loguniform", "lower": 0.00001, "upper": 0.1},
            "trainer.batch_size": {"space": "int", "lower": 32, "upper": 256},
            "combiner.num_fc_layers": {"space": "int", "lower": 1, "upper": 4},
            "combiner.output_size": {"space": "choice", "categories": [32, 64, 128, 256]},
        },
        "output_feature": "quality",
        "metric": "root_mean_squared_error",
        "goal": "minimize",
        "split": "validation",
    },
}
"""`examples/hyperopt/config_optuna.yaml` of Ludwig, with three of its eleven input features."""
EXAMPLES = {
    "config_optuna.yaml": yaml.safe_dump(WINE, sort_keys=False),
    "sphere.yaml": sweeper(**SPHERE),
    "front.yaml": sweeper(**FRONT),
    "typed.yaml": sweeper(search_space={"x": {"type": "float", "low": 1e-3, "high": 1, "log": True}}),
    "nevergrad.yaml": sweeper(
        optim={"optimizer": "OnePlusOne", "budget": 100, "num_workers": 10, "maximize": False},
        parametrization={"db": ["mnist", "cifar"], "lr": {"init": 0.02, "step": 2.0, "log": True}},
    ),
    "ax.yaml": sweeper(ax_config={"params": {"x": {"type": "range", "bounds": [-5, 10.1]}}}),
    "rllib.yaml": ray(GRID, env="CartPole-v1", stop={"episode_reward_mean": 200, "time_total_s": 180}),
    "warprec.yml": warprec(LIGHTGCN, top_k=[10, 20], metrics=["nDCG", "Precision", "Recall", "HitRate"]),
    "ease.yml": warprec({"l2": [10, 20, 30, 40]}),
    "hyper.test": "\n".join(HYPER_TEST),
    "oracle.json": oracle(
        ("Int", {"name": "units", "min_value": 32, "max_value": 512, "step": 32, "sampling": "linear"}),
        ("Choice", {"name": "learning_rate", "values": [1e-2, 1e-3, 1e-4], "ordered": True}),
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_an_example_becomes_is_a_sweep(name, tmp_path):
    """`check` takes the file as it is; each remark is printed, and stands at its head."""
    result = init(tmp_path, name, EXAMPLES[name])
    assert result.exit_code == 0, result.output
    written = tmp_path / "mine" / "sweep.yaml"
    assert read_plan(written).trials
    remarks = [line for line in result.stdout.splitlines() if line.startswith(str(tmp_path / name))]
    assert remarks and all(f"# {line}" in written.read_text() for line in remarks)


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
    assert 'have it print {"score": ...}' in remarks


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
    assert config["metrics"]["optimize"]["direction"] == "maximize"
    assert (config["backend"], config["budget"]) == ({"optuna": {"workers": 2}}, {"trials": 40})
    assert "OnePlusOne is not there; tpe is written" in remarks
    assert "x.step: is left out: it is the width of Nevergrad's mutations" in remarks


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
    assert "experiment.parameter_constraints: is left out" in remarks


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
        assert ("storage: is left out" in remarks) is not kept and "pw" not in remarks


def test_the_optuna_executor_of_ludwig(tmp_path):
    """Its whole ranges include both bounds, and its sampler is one of the executor."""
    config, remarks = converted(tmp_path, "config_optuna.yaml", yaml.safe_dump(WINE))
    assert config["space"] == {
        "trainer.learning_rate": {"float": [1e-5, 0.1], "log": True},
        "trainer.batch_size": {"int": [32, 256]},
        "combiner.num_fc_layers": {"int": [1, 4]},
        "combiner.output_size": {"choice": [32, 64, 128, 256]},
    }
    assert config["search"] == {"sampler": "tpe"} and config["backend"] == "optuna"
    assert config["budget"] == {"trials": 20, "time": "0.5h", "epochs": 15}
    assert "sampler: is Optuna's AutoSampler; tpe is written" in remarks


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ({"lower": 0, "upper": 1}, {"float": [0, 1]}),
        ({"space": "float", "lower": 0, "upper": 1}, {"float": [0, 1]}),
        ({"space": "randint", "lower": 1, "upper": 4}, {"int": [1, 4]}),
        ({"space": "categorical", "categories": ["relu", "tanh"]}, {"choice": ["relu", "tanh"]}),
    ],
)
def test_the_spaces_of_the_optuna_executor_of_ludwig(parameter, expected, tmp_path):
    """They are Optuna's: `randint` has its upper bound, and a missing `space` is uniform."""
    hyperopt = {"executor": {"type": "optuna", "sampler": "gp"}, "parameters": {"trainer.x": parameter}}
    config, _ = converted(tmp_path, "config.yaml", yaml.safe_dump({"hyperopt": hyperopt}))
    assert config["space"] == {"trainer.x": expected} and config["search"]["sampler"] == "gp"


def test_a_grid_of_rllib(tmp_path):
    """Each sample goes through the grid; the result that ends a trial is the metric."""
    config, remarks = converted(
        tmp_path, "c.yaml", ray(GRID, env="CartPole-v1", num_samples=3, stop={"episode_reward_mean": 200})
    )
    assert config["engine"]["params"] == {"env": "CartPole-v1", "num_workers": 2}
    assert config["space"] == {"num_sgd_iter": {"choice": [1, 4]}, "size": {"choice": [128, 256, 512]}}
    assert config["search"] == {"sampler": "grid"} and config["budget"] == {"repeats": 3}
    assert config["metrics"]["optimize"] == {"metric": "episode_reward_mean", "direction": "maximize"}
    assert "maximizing it is a guess" in remarks and "repeats is written" in remarks


def test_a_nested_config_of_ray_has_dotted_names(tmp_path):
    """Samples of a grid beside a drawn value are trials; code is not run."""
    nested = {
        "model": {"dim": {"grid_search": [1, 2]}},
        "lr": {"eval": "random.uniform(1e-4, 1e-3)"},
        "gamma": {"eval": "spec.config.lr * 2"},
    }
    stop = {"training_iteration": 7, "timesteps_total": 100}
    config, remarks = converted(tmp_path, "c.yaml", ray(nested, num_samples=4, stop=stop, time_budget_s=90))
    assert config["space"] == {"model.dim": {"choice": [1, 2]}, "lr": {"float": [1e-4, 1e-3]}}
    assert config["search"] == {"sampler": "random"}
    assert config["budget"] == {"trials": 8, "epochs": 7, "time": "90s"}
    for text in ("gamma: is left out: eval runs code", "timesteps_total: is left out", "names no metric"):
        assert text in remarks


def test_a_search_of_warprec(tmp_path):
    """Lists of options, distributions by position; the metric is that of the validation."""
    config, remarks = converted(tmp_path, "c.yml", EXAMPLES["warprec.yml"])
    assert config["space"] == {
        "embedding_size": {"int": [64, 320], "step": 64},
        "n_layers": {"choice": [1, 2, 3]},
        "weight_decay": {"float": [0.0, 1e-6]},
        "batch_size": {"int": [512, 10240], "step": 512},
        "learning_rate": {"float": [1e-6, 1e-3]},
    }
    assert config["metrics"]["optimize"] == "ndcg(gain=warprec)@5"
    assert config["metrics"]["track"][-2:] == ["hit_rate@10", "hit_rate@20"]
    assert config["search"] == {"sampler": "tpe", "seed": 42}
    assert config["backend"] == {"ray": {"resources": {"cpu": 4.0, "gpu": 0.25}}}
    assert config["budget"] == {"trials": 100, "epochs": 200, "patience": 20}
    assert "early_stopping.grace_period: is left out" in remarks


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (3, 3),
        ([3], 3),
        (["choice", 1, 2], {"choice": [1, 2]}),
        (["randint", 1, 4], {"int": [1, 3]}),
        (["loguniform", 1e-5, 1e-2, 10], {"float": [1e-5, 1e-2], "log": True}),
        (["qloguniform", 0.5, 1.0, 0.1, 2], {"float": [0.5, 1.0], "log": True, "step": 0.1}),
        (["randn", 0, 2], {"normal": [0, 2]}),
        (["qrandn", 0, 2, 2], {"normal": [0, 2], "step": 2}),
    ],
)
def test_every_form_of_warprec(value, expected, tmp_path):
    """By hand, from the arguments of Ray's distributions."""
    model = {"optimization": {"strategy": "random"}, "x": value, "y": [1, 2]}
    config, _ = converted(tmp_path, "c.yml", warprec(model))
    assert config["space"].get("x", config["engine"].get("params", {}).get("x")) == expected


def test_a_grid_of_warprec_with_asha(tmp_path):
    """The points are the grid's; the mode that contradicts the metric is named."""
    properties = {"max_t": 20, "grace_period": 5, "reduction_factor": 2.0, "mode": "min"}
    model = {"optimization": {"scheduler": "asha", "properties": properties}, "l2": ["grid", 10, 20]}
    config, remarks = converted(tmp_path, "c.yml", warprec(model, validation_metric="Recall@20"))
    pruner = {"asha": {"min_epochs": 5, "eta": 2}}
    assert config["search"] == {"sampler": "grid", "pruner": pruner, "seed": 42}
    assert config["budget"] == {"epochs": 20} and config["metrics"] == {"optimize": "recall@20"}
    assert "properties.mode: min contradicts Recall@20: recall, which must be maximized" in remarks


def test_the_smaller_limit_of_warprec_is_named(tmp_path):
    """`epochs` of a model and `max_t` of its scheduler are one limit here."""
    properties = {"max_t": 5, "grace_period": 1, "reduction_factor": 2}
    optimization = {"strategy": "optuna", "num_samples": 3, "scheduler": "asha", "properties": properties}
    text = warprec({"optimization": optimization, "epochs": 7, "l2": [1, 2]})
    config, remarks = converted(tmp_path, "warprec.yml", text)
    assert config["budget"]["epochs"] == 5
    assert "epochs: budget.epochs is 5, the smaller of it and max_t, 5" in remarks


def test_the_file_of_recbole(tmp_path):
    """Bounds are exponents of e; lists in quotes stay texts, which RecBole reads itself."""
    config, remarks = converted(tmp_path, "hyper.test", EXAMPLES["hyper.test"])
    assert config["space"]["learning_rate"] == {"float": [0.000335463, 1.0], "log": True}
    assert config["space"]["mlp_hidden_size"] == {"choice": ["[64,64,64]", "[128,128]"]}
    assert config["metrics"] == {"optimize": {"metric": "best_valid_score", "direction": "maximize"}}
    assert config["search"] == {"sampler": "tpe"} and "by run.log(best_valid_score=...)" in remarks
    assert config["budget"] == {"trials": 100, "stale": 10}
    assert "hyper.test:1:1: learning_rate: bounds of loguniform are exponents of e" in remarks


def test_choices_of_recbole_are_a_grid(tmp_path):
    """As RecBole searches them unless asked otherwise; a step and a single value too."""
    lines = ("a choice ['x', 'y']", "b choice [1]", "", "two words", "c choice [[1], [2]]")
    config, remarks = converted(tmp_path, "hyper.test", "\n".join(lines))
    assert config["space"]["c_choice"] == {"choice": {"[1]": {"c": [1]}, "[2]": {"c": [2]}}}
    assert config["search"] == {"sampler": "grid"} and config["budget"] == {"stale": 10}
    assert "hyper.test:4:1: two: is left out: RecBole skips lines of fewer than three words" in remarks
    config, _ = converted(tmp_path, "hyper.test", "p quniform 0,1,0.25\nq uniform 0,1")
    assert config["space"] == {"p": {"float": [0.0, 1.0], "step": 0.25}, "q": {"float": [0.0, 1.0]}}


def test_a_file_of_recbole_may_begin_with_comments(tmp_path):
    """Comments and blank lines are passed over in silence, and the lines keep their numbers."""
    text = "# the ranges that the paper names\n\n  # learning rates\nlr loguniform -5,0\n"
    config, remarks = converted(tmp_path, "hyper.test", text)
    assert list(config["space"]) == ["lr"] and "hyper.test:4:1: lr: bounds of loguniform" in remarks
    assert "#" not in remarks


NUMBERS = {"name": "x", "min_value": 2, "max_value": 32, "step": None, "sampling": "linear"}


@pytest.mark.parametrize(
    ("kind", "config", "expected"),
    [
        ("Int", NUMBERS, {"int": [2, 32]}),
        ("Int", NUMBERS | {"step": 3}, {"int": [2, 32], "step": 3}),
        ("Int", NUMBERS | {"sampling": "log"}, {"int": [2, 32], "log": True}),
        ("Int", NUMBERS | {"sampling": "log", "step": 2}, {"int": [2, 32], "power": 2}),
        ("Int", NUMBERS | {"sampling": "log", "step": 3}, {"int": [2, 18], "power": 3}),
        ("Float", NUMBERS, {"float": [2.0, 32.0]}),
        ("Float", NUMBERS | {"step": 0.5}, {"float": [2.0, 32.0], "step": 0.5}),
        ("Float", NUMBERS | {"step": 10, "sampling": "log", "min_value": 0.1}, {"choice": [0.1, 1.0, 10.0]}),
        ("Boolean", {"name": "x", "default": False}, {"choice": [True, False]}),
        ("Choice", {"name": "x", "values": ["a", "b"]}, {"choice": ["a", "b"]}),
        ("Fixed", {"name": "x", "value": 3}, 3),
    ],
)
def test_every_hyperparameter_of_keras(kind, config, expected, tmp_path):
    """By hand: bounds count, a step of a logarithm is a factor."""
    text = oracle((kind, config), ("Boolean", {"name": "y"}))
    converted_config, _ = converted(tmp_path, "oracle.json", text)
    params = converted_config["engine"].get("params", {})
    assert converted_config["space"].get("x", params.get("x")) == expected


def test_conditions_of_keras_are_when(tmp_path):
    """One on a fixed value is decided; of two with a name the first counts."""

    def under(name: str, *values: object) -> dict[str, Any]:
        return {"conditions": [{"class_name": "Parent", "config": {"name": name, "values": list(values)}}]}

    text = oracle(
        ("Choice", {"name": "model", "values": ["mlp", "cnn", "rnn"]}),
        ("Fixed", {"name": "kind", "value": "a"}),
        ("Boolean", {"name": "bias"} | under("model", "mlp")),
        ("Boolean", {"name": "gate"} | under("model", "cnn", "rnn")),
        ("Boolean", {"name": "gate"} | under("model", "mlp")),
        ("Boolean", {"name": "held"} | under("kind", "a")),
        ("Boolean", {"name": "gone"} | under("kind", "b")),
    )
    config, remarks = converted(tmp_path, "oracle.json", text)
    assert config["space"] == {
        "model": {"choice": ["mlp", "cnn", "rnn"]},
        "bias": {"choice": [True, False], "when": {"model": "mlp"}},
        "gate": {"choice": [True, False], "when": {"model": ["cnn", "rnn"]}},
        "held": {"choice": [True, False]},
    }
    assert "gate stands there under another condition" in remarks


def test_what_kind_of_oracle_it_was_shows(tmp_path):
    """By the keys that it alone has; the metric is in no file and is a guess."""
    hyperband = {"brackets": [], "max_epochs": 30, "min_epochs": 3, "factor": 3, "start_order": []}
    config, remarks = converted(tmp_path, "oracle.json", oracle(("Boolean", {"name": "y"}), **hyperband))
    assert config["search"] == {"sampler": "random", "pruner": {"hyperband": {"min_epochs": 3, "eta": 3}}}
    assert config["budget"] == {"trials": 20, "epochs": 30}
    assert "val_loss, to minimize, is a guess" in remarks
    assert "change it, as to optimize: {metric: val_accuracy, direction: maximize}" in remarks
    bayesian = {"alpha": 1e-4, "beta": 2.6, "num_initial_points": None}
    config, _ = converted(tmp_path, "oracle.json", oracle(("Boolean", {"name": "y"}), **bayesian))
    assert config["search"] == {"sampler": "tpe"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.yaml", sweeper(params={"x": "glob(*)"}), "params.x: glob(*) is not converted; write a dimension"),
        ("c.yaml", sweeper(params={"x": "choice(1, 2"}), "choice(1, 2: a bracket or a quote is open"),
        ("c.yaml", sweeper(params={"x": "interval(1)"}), "interval takes start and end, got 1 values"),
        ("c.yaml", sweeper(params={"x": "range(5, 1)"}), "params.x: 5 is above 1"),
        (
            "c.yaml",
            sweeper(params={"x": "tag(log, interval(0, 1))"}),
            "a logarithm needs a bound above 0, got 0.0",
        ),
        ("c.yaml", sweeper(params={"x": "int(" * 99 + ")" * 99}), "calls nested deeper than 8"),
        (
            "c.yaml",
            sweeper(params={"x": "shuffle(range(100000000))"}),
            "a shuffled range of 100000000 values",
        ),
        ("c.yaml", sweeper(params={"x": 3}), "hydra.sweeper.params: names nothing that varies"),
        ("c.yaml", sweeper(params={"x": 3}), "of the optuna sweeper, params and search_space are read"),
        ("c.yaml", sweeper(_target_="my.OrionSweeper"), "of the orion sweeper, params are read"),
        ("c.yaml", sweeper(search_space={"x": 3}), "expected a mapping, as in {type: float, low: 0, high"),
        (
            "c.yaml",
            sweeper(search_space={"x": {"type": "normal"}}),
            "categorical, int or float, got 'normal'",
        ),
        (
            "c.yaml",
            sweeper(parametrization={"x": {"lower": 1}}),
            "parametrization.x: lower stands without upper; give both, or neither and init",
        ),
        (
            "c.yaml",
            sweeper(ax_config={"params": {"x": {"type": "range", "bounds": 3}}}),
            "ax_config.params.x.bounds: expected [low, high], got 3",
        ),
        (
            "c.yaml",
            sweeper(params={"x": "a,b"}, direction="up"),
            "a direction is 'minimize' or 'maximize', got 'up'",
        ),
        ("c.yaml", ray({"lr": 1}), "cartpole-ppo.config: names nothing that varies, as in lr: {grid_search"),
        ("c.yml", warprec({"l2": 3}), "models.EASE: names nothing that varies, as in l2: [10, 50, 100]"),
        (
            "c.yml",
            warprec({"l2": ["uniform", 1, 2]}),
            "EASE.l2: a grid has options, not uniform; name a strategy",
        ),
        (
            "c.yml",
            warprec({"optimization": {"strategy": "tpe"}, "l2": [1, 2]}),
            "strategy: expected grid, random, hopt, optuna, bohb, got 'tpe'",
        ),
        (
            "c.yml",
            warprec({"optimization": {"strategy": "random"}, "l2": ["uniform", 1, 2, 3]}),
            "uniform takes lower, upper, got 3 values",
        ),
        (
            "hyper.test",
            "a choice [1,\nb normal 0,1",
            "hyper.test:1:1: a: choice takes a list, as in [64,128], got [1,",
        ),
        (
            "hyper.test",
            "a choice [1,2]\nb normal 0,1",
            "hyper.test:2:1: b: expected choice, uniform, quniform",
        ),
        ("hyper.test", "a uniform 0", "a: uniform takes 2 numbers, lower,upper, got 0"),
        ("oracle.json", oracle(("Fixed", {"name": "x", "value": 1})), "space: names nothing that varies"),
        (
            "oracle.json",
            oracle(("Text", {"name": "x"})),
            "Text is not one of Choice, Boolean, Fixed, Int, Float",
        ),
        (
            "oracle.json",
            oracle(("Int", NUMBERS | {"step": 1, "sampling": "log"})),
            "config.step: a step is above 1, got 1",
        ),
        ("tuner0.json", "{}", "the oracle.json of KerasTuner"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_place(name, text, message, tmp_path):
    """Exit code 2, and nothing is written."""
    result = init(tmp_path, name, text)
    assert result.exit_code == 2 and message in result.stderr, result.output
    assert not (tmp_path / "mine").exists()


def test_any_part_of_an_example_is_read_or_refused(tmp_path):
    """Whatever a text of them is replaced by: an error of ours, or a sweep."""
    pieces = st.sampled_from(
        [
            "(",
            ")",
            ",",
            "[",
            "]",
            "{",
            "}",
            ": ",
            "choice",
            "range(",
            "null",
            "-1",
            "1e999",
            "0",
            "'",
            "\\",
            "~",
            "é",
        ]
    )
    files = st.sampled_from(sorted(EXAMPLES.items()))
    parts = st.lists(pieces, min_size=1, max_size=4).map("".join)

    @settings(derandomize=True, max_examples=150, deadline=None)
    @given(files, st.integers(0, 400), st.integers(0, 12), parts)
    def check(example, start, length, part):
        name, text = example
        (tmp_path / name).write_text(text[:start] + part + text[start + length :])
        try:
            assert read_foreign(tmp_path / name).text()
        except (SweepFileError, ConfigError) as err:
            assert str(err)

    check()
