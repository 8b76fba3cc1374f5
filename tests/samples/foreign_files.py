"""Files of other tools, as their examples of 2026 have them, and their conversion."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from hpometrics.cli.main import main
from hpometrics.config.plan import read_plan
from hpometrics.interop.first_files import read_foreign
from hpometrics.runner.context import SweepContext, make_context


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
    """The sections that a file becomes, which `run` accepts, and the remarks on it."""
    file = folder / name
    file.write_text(text)
    conversion = read_foreign(file)
    home = folder / "settled"
    home.mkdir(exist_ok=True)
    (home / "sweep.yaml").write_text(conversion.text())
    settle(home / "sweep.yaml")
    return conversion.config, "\n".join(map(str, conversion.notes.sorted()))


def settle(file: Path) -> SweepContext:
    """Settle a sweep file as `run` does before its first trial, for an engine that states no output."""
    plan = read_plan(file)
    (file.parent / "training.py").write_text("def train(params, run):\n    ...\n")
    for script in (part for part in plan.config.engine.command_line if part.endswith(".py")):
        (file.parent / script).parent.mkdir(exist_ok=True)
        (file.parent / script).touch()
    before = sys.path[:]
    sys.modules.pop("training", None)
    try:
        return make_context(plan)
    finally:
        sys.path[:] = before
        sys.modules.pop("training", None)


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
"""The config of `examples/hyperopt/README_optuna.md` of Ludwig, with three of its eleven input features."""
WINE_LOSS = {
    "model_type": "ecd",
    "input_features": WINE["input_features"],
    "output_features": [{"name": "quality", "type": "binary"}],
    "trainer": {"epochs": 20},
    "hyperopt": {
        "executor": {
            "type": "optuna",
            "num_samples": 20,
            "sampler": "auto",
            "pruner": "hyperband",
            "storage": "sqlite:///optuna_results.db",
        },
        "parameters": {
            "trainer.learning_rate": {"space": "loguniform", "lower": 1e-5, "upper": 1e-2},
            "trainer.batch_size": {"space": "int", "lower": 16, "upper": 256},
            "trainer.optimizer.type": {
                "space": "choice",
                "categories": ["adam", "adamw", "radam", "schedule_free_adamw"],
            },
        },
        "goal": "minimize",
        "metric": "validation.combined.loss",
        "split": "validation",
    },
}
"""`examples/hyperopt/config_optuna.yaml` of Ludwig 0.17.8, whose own metric Ludwig rejects."""
EXAMPLES = {
    "readme_optuna.yaml": yaml.safe_dump(WINE, sort_keys=False),
    "config_optuna.yaml": yaml.safe_dump(WINE_LOSS, sort_keys=False),
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


def tune_state_since(file: Path, home: Path) -> bool:
    """Say whether Tune has written a whole state of the experiment since a file was written."""
    states = sorted(home.glob("experiment_state-*.json"))
    if not states or states[-1].stat().st_mtime_ns <= file.stat().st_mtime_ns:
        return False
    try:
        return bool(json.loads(states[-1].read_bytes()))
    except ValueError:
        return False  # Tune is writing it
