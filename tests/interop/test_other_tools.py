"""Files of Hydra, Ludwig, Ray Tune, WarpRec, RecBole and KerasTuner: what their examples of 2026 mean here.

The examples are facts, keys and values, that were read from the tools' public repositories.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from foreign_files import (
    EXAMPLES,
    GRID,
    WINE,
    WINE_LOSS,
    converted,
    init,
    oracle,
    ray,
    settle,
    sweeper,
    warprec,
)
from hypothesis import given, settings, strategies as st

from hpometrics.config.document import SweepFileError
from hpometrics.config.plan import read_plan
from hpometrics.exceptions import ConfigError
from hpometrics.interop.first_files import read_foreign


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_an_example_becomes_is_a_sweep(name, tmp_path):
    """`check` and `run` take the file as it is; each remark is printed, and stands at its head."""
    result = init(tmp_path, name, EXAMPLES[name])
    assert result.exit_code == 0, result.output
    written = tmp_path / "mine" / "sweep.yaml"
    assert read_plan(written).trials and settle(written).plan.trials == read_plan(written).trials
    remarks = [line for line in result.stdout.splitlines() if line.startswith(str(tmp_path / name))]
    assert remarks and all(f"# {line}" in written.read_text() for line in remarks)


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
    assert config["budget"] == {"trials": 20, "time": "0.5h", "epochs": 15, "patience": 5}
    assert "mean_squared_error" not in remarks  # the trainer's, by which the same epoch is the best
    assert "sampler: is Optuna's AutoSampler; the import writes tpe" in remarks


def test_a_metric_of_ludwig_with_its_path(tmp_path):
    """As its own example has it, which Ludwig rejects: the loss of the only output, also for the patience."""
    config, remarks = converted(tmp_path, "config_optuna.yaml", yaml.safe_dump(WINE_LOSS))
    assert config["metrics"] == {"optimize": "log_loss"} and config["search"]["pruner"] == "hyperband"
    assert "metric: Ludwig rejects validation.combined.loss: its metric has no path" in remarks
    assert "early_stop: dropped: it watches roc_auc, not loss" in remarks


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


@pytest.mark.parametrize(
    ("trainer", "metric", "expected"),
    [
        ({"early_stop": 3}, "roc_auc", 3),
        ({"early_stop": 3, "checkpoints_per_epoch": 1}, "roc_auc", 3),
        ({}, "roc_auc", "is missing; the import writes Ludwig's default, patience 5"),
        ({"early_stop": -1}, "roc_auc", None),
        ({"early_stop": 8}, "roc_auc", None),
        ({"early_stop": 3, "steps_per_checkpoint": 50}, "roc_auc", "dropped: it counts evaluations"),
        ({"early_stop": 3}, "accuracy", "dropped: it watches roc_auc, not accuracy"),
        ({"early_stop": 3, "validation_metric": "accuracy"}, "accuracy", 3),
    ],
)
def test_early_stop_of_ludwig_is_patience(trainer, metric, expected, tmp_path):
    """Where it counts epochs of the optimized metric, and a trial of 8 epochs can reach it."""
    config, remarks = converted(
        tmp_path,
        "config.yaml",
        yaml.safe_dump(
            {
                "output_features": [{"name": "spam", "type": "binary"}],
                "trainer": {"epochs": 8, **trainer},
                "hyperopt": {
                    "metric": metric,
                    "output_feature": "spam",
                    "goal": "maximize",
                    "parameters": {"trainer.x": {"space": "uniform", "lower": 0, "upper": 1}},
                },
            }
        ),
    )
    written = {} if expected is None else {"patience": expected if isinstance(expected, int) else 5}
    if isinstance(expected, str):
        assert f"early_stop: {expected}" in remarks
        written = {} if "dropped" in expected else written
    else:
        assert "early_stop: " not in remarks
    assert config["budget"] == {"trials": 10, "time": "1h", "epochs": 8, **written}


def test_early_stop_of_ludwig_may_watch_another_output(tmp_path):
    """With several, unless `validation_field` names the one that is optimized."""
    config = {
        "output_features": [{"name": "spam", "type": "binary"}, {"name": "price", "type": "number"}],
        "trainer": {"early_stop": 3},
        "hyperopt": {
            "metric": "roc_auc",
            "output_feature": "spam",
            "goal": "maximize",
            "parameters": {"trainer.x": {"space": "uniform", "lower": 0, "upper": 1}},
        },
    }
    written, remarks = converted(tmp_path, "config.yaml", yaml.safe_dump(config))
    assert "patience" not in written["budget"] and "early_stop: dropped: it may watch another" in remarks
    config["trainer"]["validation_field"] = "spam"
    assert converted(tmp_path, "config.yaml", yaml.safe_dump(config))[0]["budget"]["patience"] == 3


def test_a_grid_of_rllib(tmp_path):
    """Each sample goes through the grid; the result that ends a trial is the metric."""
    config, remarks = converted(
        tmp_path, "c.yaml", ray(GRID, env="CartPole-v1", num_samples=3, stop={"episode_reward_mean": 200})
    )
    assert config["engine"]["params"] == {"env": "CartPole-v1", "num_workers": 2}
    assert config["space"] == {"num_sgd_iter": {"choice": [1, 4]}, "size": {"choice": [128, 256, 512]}}
    assert config["search"] == {"sampler": "grid"} and config["budget"] == {"repeats": 3}
    assert config["metrics"]["optimize"] == {"metric": "episode_reward_mean", "direction": "maximize"}
    assert "maximize is a guess" in remarks and "the import writes repeats" in remarks


@pytest.mark.parametrize(
    ("name", "direction", "remark"),
    [
        ("accuracy", "maximize", "accuracy: ends a trial at 0.9"),
        ("mean_accuracy", "maximize", "mean_accuracy: ends a trial at 0.9"),
        ("loss", "minimize", "loss: ends a trial from below, but loss must be minimized; the import writes"),
        ("reward", "maximize", "reward: ends a trial from below, so maximize is a guess"),
    ],
)
def test_the_metric_of_ray_has_the_direction_of_its_name(name, direction, remark, tmp_path):
    """Which is written, because no file of Ray says what the model predicts."""
    config, remarks = converted(tmp_path, "c.yaml", ray(GRID, stop={name: 0.9}))
    assert config["metrics"]["optimize"] == {"metric": name, "direction": direction}
    assert remark in remarks and ("guess; correct" in remarks) == (name == "reward")


def test_a_nested_config_of_ray_has_dotted_names(tmp_path):
    """Samples of a grid beside a drawn value are trials; code is not run."""
    nested = {
        "model": {"dim": {"grid_search": [1, 2]}},
        "lr": {"eval": "random.uniform(1e-4, 1e-3)"},
        "gamma": {"eval": "spec.config.lr * 2"},
    }
    stop = {"training_iteration": 7, "timesteps_total": 100, "time_total_s": 1e6}
    text = ray(nested, num_samples=4, stop=stop, time_budget_s=1234567)
    config, remarks = converted(tmp_path, "c.yaml", text)
    assert config["space"] == {"model.dim": {"choice": [1, 2]}, "lr": {"float": [1e-4, 1e-3]}}
    assert config["search"] == {"sampler": "random"}
    limits = {"time": "1234567s", "trial_time": "1000000s"}
    assert config["budget"] == {"trials": 8, "epochs": 7, **limits}
    for text in ("gamma: dropped: eval runs code", "timesteps_total: dropped", "names no metric"):
        assert text in remarks


def test_a_drawn_choice_of_ray_is_not_a_grid(tmp_path):
    """Its options do not multiply the samples."""
    drawn = {"lr": {"eval": "tune.loguniform(1e-4, 1e-1)"}, "act": {"eval": "tune.choice(['a', 'b'])"}}
    config, remarks = converted(tmp_path, "c.yaml", ray(drawn, num_samples=10))
    assert config["space"]["act"] == {"choice": ["a", "b"]}
    assert config["budget"] == {"trials": 10} and "becomes a choice" not in remarks
    config, _ = converted(tmp_path, "c.yaml", ray({"act": drawn["act"]}, num_samples=10))
    assert config["search"] == {"sampler": "random"} and config["budget"] == {"trials": 10}


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
    assert "early_stopping.grace_period: dropped" in remarks


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
    assert "epochs: budget.epochs is 5, the smaller of epochs and max_t (5)" in remarks


def test_the_file_of_recbole(tmp_path):
    """Bounds are exponents of e; lists in quotes stay texts, which RecBole reads itself."""
    config, remarks = converted(tmp_path, "hyper.test", EXAMPLES["hyper.test"])
    assert config["space"]["learning_rate"] == {"float": [0.000335463, 1.0], "log": True}
    assert config["space"]["mlp_hidden_size"] == {"choice": ["[64,64,64]", "[128,128]"]}
    assert config["metrics"] == {"optimize": {"metric": "best_valid_score", "direction": "maximize"}}
    assert config["search"] == {"sampler": "tpe"} and "with run.log(best_valid_score=...)" in remarks
    assert config["budget"] == {"trials": 100, "stale": 10}
    assert "hyper.test:1:1: learning_rate: in RecBole, bounds of loguniform are exponents" in remarks


def test_choices_of_recbole_are_a_grid(tmp_path):
    """As RecBole searches them unless asked otherwise; a step and a single value too."""
    lines = ("a choice ['x', 'y']", "b choice [1]", "", "two words", "c choice [[1], [2]]")
    config, remarks = converted(tmp_path, "hyper.test", "\n".join(lines))
    assert config["space"]["c_choice"] == {"choice": {"[1]": {"c": [1]}, "[2]": {"c": [2]}}}
    assert config["search"] == {"sampler": "grid"} and config["budget"] == {"stale": 10}
    assert "hyper.test:4:1: two: dropped: RecBole skips lines with fewer than three words" in remarks
    config, _ = converted(tmp_path, "hyper.test", "p quniform 0,1,0.25\nq uniform 0,1")
    assert config["space"] == {"p": {"float": [0.0, 1.0], "step": 0.25}, "q": {"float": [0.0, 1.0]}}


def test_a_file_of_recbole_may_begin_with_comments(tmp_path):
    """Comments and blank lines are passed over in silence, and the lines keep their numbers."""
    text = "# the ranges that the paper names\n\n  # learning rates\nlr loguniform -5,0\n"
    config, remarks = converted(tmp_path, "hyper.test", text)
    assert (
        list(config["space"]) == ["lr"] and "hyper.test:4:1: lr: in RecBole, bounds of loguniform" in remarks
    )
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
        ("Int", NUMBERS | {"sampling": "reverse_log", "step": 4}, {"choice": [2, 8, 32]}),
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
    value = converted_config["space"].get("x", params.get("x"))
    assert repr(value) == repr(expected)  # 8 is not 8.0


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
    assert "dropped: the space already has gate under another condition" in remarks


def test_what_kind_of_oracle_it_was_shows(tmp_path):
    """By the keys that it alone has; the metric is in no file and is a guess."""
    hyperband = {"brackets": [], "max_epochs": 30, "min_epochs": 3, "factor": 3, "start_order": []}
    config, remarks = converted(tmp_path, "oracle.json", oracle(("Boolean", {"name": "y"}), **hyperband))
    assert config["search"] == {"sampler": "random", "pruner": {"hyperband": {"min_epochs": 3, "eta": 3}}}
    assert config["budget"] == {"trials": 20, "epochs": 30}
    assert "val_loss, minimized, is a guess" in remarks
    assert "replace it, for example by optimize: {metric: val_accuracy, direction: maximize}" in remarks
    bayesian = {"alpha": 1e-4, "beta": 2.6, "num_initial_points": None}
    config, _ = converted(tmp_path, "oracle.json", oracle(("Boolean", {"name": "y"}), **bayesian))
    assert config["search"] == {"sampler": "tpe"}


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.yaml", sweeper(params={"x": "glob(*)"}), "params.x: glob(*) cannot be converted; write a"),
        ("c.yaml", sweeper(params={"x": "choice(1, 2"}), "choice(1, 2: a bracket or a quote is not closed"),
        ("c.yaml", sweeper(params={"x": "interval(1)"}), "interval needs start and end, got 1 values"),
        (
            "c.yaml",
            sweeper(params={"x": "range(5, 1)"}),
            "params.x: the lower bound 5 is above the upper bound 1",
        ),
        (
            "c.yaml",
            sweeper(params={"x": "tag(log, interval(0, 1))"}),
            "a log scale needs bounds above 0, got 0.0",
        ),
        ("c.yaml", sweeper(params={"x": "int(" * 99 + ")" * 99}), "calls are nested deeper than 8"),
        (
            "c.yaml",
            sweeper(params={"x": "shuffle(range(100000000))"}),
            "a shuffled range of 100000000 values",
        ),
        ("c.yaml", sweeper(params={"x": 3}), "hydra.sweeper.params: needs a param to search"),
        (
            "c.yaml",
            sweeper(params={"x": 3}),
            "the import reads params and search_space of the optuna sweeper",
        ),
        ("c.yaml", sweeper(_target_="my.OrionSweeper"), "the import reads params of the orion sweeper"),
        ("c.yaml", sweeper(search_space={"x": 3}), "expected a mapping, as in {type: float, low: 0, high"),
        (
            "c.yaml",
            sweeper(search_space={"x": {"type": "normal"}}),
            "categorical, int or float, got 'normal'",
        ),
        (
            "c.yaml",
            sweeper(parametrization={"x": {"lower": 1}}),
            "parametrization.x: lower needs upper; set both, or only init",
        ),
        (
            "c.yaml",
            sweeper(ax_config={"params": {"x": {"type": "range", "bounds": 3}}}),
            "ax_config.params.x.bounds: expected [low, high], got 3",
        ),
        (
            "c.yaml",
            sweeper(params={"x": "a,b"}, direction="up"),
            "a direction must be 'minimize' or 'maximize', got 'up'",
        ),
        ("c.yaml", ray({"lr": 1}), "cartpole-ppo.config: needs a param to search, as in lr: {grid_search"),
        ("c.yml", warprec({"l2": 3}), "models.EASE: needs a param to search, as in l2: [10, 50, 100]"),
        (
            "c.yml",
            warprec({"l2": ["uniform", 1, 2]}),
            "EASE.l2: a grid needs options, not uniform; set another strategy",
        ),
        (
            "c.yml",
            warprec({"optimization": {"strategy": "tpe"}, "l2": [1, 2]}),
            "strategy: expected grid, random, hopt, optuna, bohb, got 'tpe'",
        ),
        (
            "c.yml",
            warprec({"optimization": {"strategy": "random"}, "l2": ["uniform", 1, 2, 3]}),
            "uniform needs lower, upper, got 3 values",
        ),
        (
            "hyper.test",
            "a choice [1,\nb normal 0,1",
            "hyper.test:1:1: a: choice needs a list, as in [64,128], got [1,",
        ),
        (
            "hyper.test",
            "a choice [1,2]\nb normal 0,1",
            "hyper.test:2:1: b: expected choice, uniform, quniform",
        ),
        ("hyper.test", "a uniform 0", "a: uniform needs 2 numbers, lower,upper, got 0"),
        (
            "oracle.json",
            oracle(("Fixed", {"name": "x", "value": 1})),
            "space: needs a hyperparameter to search",
        ),
        (
            "oracle.json",
            oracle(("Text", {"name": "x"})),
            "Text is not one of Choice, Boolean, Fixed, Int, Float",
        ),
        (
            "oracle.json",
            oracle(("Int", NUMBERS | {"step": 1, "sampling": "log"})),
            "config.step: a step must be above 1, got 1",
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
