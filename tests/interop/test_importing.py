from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner, Result
from foreign_files import converted, settle

from hpometrics.cli.main import main
from hpometrics.config.document import read_document
from hpometrics.config.plan import read_plan
from hpometrics.interop.first_files import read_foreign

FILES = sorted((Path(__file__).parent / "files").glob("*.yaml"))
PROGRAM = """\
import json, sys
params = json.load(open(sys.argv[-1]))
for epoch in range(2):
    print(json.dumps({"Test_Accuracy": params["lr"] + epoch / 100}), flush=True)
"""


def init(source: Path, directory: Path) -> Result:
    """Call `hpometrics init DIRECTORY --from SOURCE` in this process."""
    return CliRunner().invoke(main, ["init", str(directory), "--from", str(source)])


def carried(tmp_path: Path, text: str) -> tuple[dict, list[str]]:
    """The sections that a foreign text becomes, and what is said of it."""
    config, remarks = converted(tmp_path, "foreign.yaml", text)
    return config, [line.removeprefix(f"{tmp_path / 'foreign.yaml'}:") for line in remarks.splitlines()]


def wandb(tmp_path: Path, parameter: str) -> tuple[object, list[str]]:
    """What one parameter `x` of a W&B sweep becomes; a fixed one is its value."""
    head = "program: a.py\nmethod: random\nmetric: {name: loss, goal: minimize}\nrun_cap: 3\n"
    config, notes = carried(tmp_path, f"{head}parameters:\n  x: {parameter}\n  y: {{values: [1, 2]}}\n")
    found = {**config["space"], **config["engine"].get("params", {})}
    found.pop("y")
    return found.get("x", found), [note for note in notes if "parameters.x" in note]


def ludwig(tmp_path: Path, parameter: str) -> object:
    """What one parameter `trainer.x` of a Ludwig config becomes."""
    config, _ = carried(tmp_path, f"hyperopt:\n  goal: minimize\n  parameters: {{trainer.x: {parameter}}}\n")
    return config["space"].get("trainer.x", config["space"])


def test_the_table_of_wandb_has_another_epoch(tmp_path):
    """The last one; here a trial counts by its best, which a line changes."""
    metric = "{name: val_acc, goal: maximize}"
    text = f"program: a.py\nmethod: random\nmetric: {metric}\nparameters: {{x: {{values: [1, 2]}}}}\n"
    _, notes = carried(tmp_path, text)
    assert any("metric.name: counts at its best epoch" in note and "{at: last}" in note for note in notes)


def test_a_tagged_bound_of_wandb_is_a_number(tmp_path):
    """As W&B's users write `1e-5`, which PyYAML would read as text."""
    dimension, _ = wandb(tmp_path, "{distribution: log_uniform_values, min: !!float 1e-5, max: !!float 1e-1}")
    assert dimension == {"float": [1e-5, 0.1], "log": True}


@pytest.mark.parametrize(
    ("keys", "engine", "line"),
    [
        ("program: a.py", {"program": "a.py"}, ["${env}", "${interpreter}", "a.py", "${args}"]),
        ("command: []", {"program": "train.py"}, ["${env}", "${interpreter}", "train.py", "${args}"]),
        (
            "program: a.py\ncommand: [python, -u, '${program}', '${args}']",
            {"command": ["python", "-u", "a.py", "${args}"]},
            ["python", "-u", "a.py", "${args}"],
        ),
        ("command: [make, '${args}']", {"command": ["make", "${args}"]}, ["make", "${args}"]),
    ],
)
def test_the_program_of_wandb_is_one_here(keys, engine, line, tmp_path):
    """It runs by the same command, which only a file with another states."""
    rest = "method: grid\nmetric: {name: loss, goal: minimize}\nparameters: {x: {values: [1, 2]}}\n"
    config, _ = carried(tmp_path, f"{keys}\n{rest}")
    assert config["engine"] == {**engine, "metrics_from": "wandb"}
    (tmp_path / "sweep.yaml").write_text(read_foreign(tmp_path / "foreign.yaml").text())
    assert read_plan(tmp_path / "sweep.yaml").config.engine.command_line == line


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_written_checks(file, tmp_path):
    """`check` and `run` take the file as it is; what was not carried over is printed, and heads the file."""
    result = init(file, tmp_path / "mine")
    assert result.exit_code == 0, result.output
    written = tmp_path / "mine" / "sweep.yaml"
    assert read_plan(written).trials is not None or read_plan(written).config.budget.target
    assert settle(written).plan.objectives == read_plan(written).objectives
    said = [line for line in result.stdout.splitlines() if line.startswith(f"{file}:")]
    assert said and all(f"# {line}" in written.read_text() for line in said)
    assert re.search(
        rf"^{len(said)} settings? changed or dropped during import:$", result.stdout, re.MULTILINE
    )
    assert (tmp_path / "mine" / "sweep.schema.json").exists()


def test_a_carried_sweep_runs(tmp_path, monkeypatch):
    """A grid whose program takes a JSON file, as W&B fills in ${args_json_file}: it is told the params."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    assert init(Path(__file__).parent / "files/wandb_grid.yaml", tmp_path).exit_code == 0
    python = f'engine.command=["{sys.executable}", "train.py", "--config", "{{params_file}}"]'
    settings = python, "engine.metrics_from=stdout", "budget.target=9.0"
    result = CliRunner().invoke(main, ["run", "sweep.yaml", *(f"--set={one}" for one in settings)])
    assert result.exit_code == 0, result.output
    assert "# engine params evaluated: 9  (ok 9)" in result.stdout
    assert read_document(tmp_path / "runs" / tmp_path.name / "best.yaml").data["params"]["lr"] == 0.1


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("{value: 3}", 3),
        ("{values: [a, b, a]}", {"choice": ["a", "b"], "weights": [2, 1]}),
        ("{values: [a, b, b, a]}", {"choice": ["a", "b"]}),
        ("{min: 1, max: 9}", {"int": [1, 9]}),
        ("{min: 0.0, max: 1}", {"float": [0.0, 1.0]}),
        ("{distribution: uniform, min: 0, max: 1}", {"float": [0.0, 1.0]}),
        ("{distribution: int_uniform, min: 2, max: 2}", 2),
        ("{distribution: q_uniform, min: 0, max: 1, q: 0.25}", {"float": [0.0, 1.0], "step": 0.25}),
        ("{distribution: q_uniform, min: 30, max: 260, q: 32}", {"int": [32, 256], "step": 32}),
        ("{distribution: log_uniform_values, min: 1e-5, max: 0.1}", {"float": [1e-5, 0.1], "log": True}),
        ("{distribution: inv_log_uniform_values, min: 1e-5, max: 0.1}", {"float": [1e-5, 0.1], "log": True}),
        ("{distribution: log_uniform, min: 0, max: 2.302585093}", {"float": [1.0, 10.0], "log": True}),
        ("{distribution: inv_log_uniform, min: 0, max: 2.302585093}", {"float": [0.1, 1.0], "log": True}),
        (
            "{distribution: q_log_uniform_values, min: 8, max: 64, q: 8}",
            {"int": [8, 64], "log": True, "step": 8},
        ),
        (
            "{distribution: q_log_uniform_values, min: 0.0001, max: 0.1, q: 0.001}",
            {"float": [0.001, 0.1], "log": True, "step": 0.001},
        ),
        ("{distribution: q_log_uniform, min: 0, max: 4.60517}", {"int": [1, 100], "log": True}),
        ("{distribution: normal, mu: 1, sigma: 0.5}", {"normal": [1.0, 0.5]}),
        ("{distribution: normal, mu: 1, sigma: 0}", 1),
        ("{distribution: q_normal, mu: 0, sigma: 1}", {"normal": [0.0, 1.0], "step": 1}),
        ("{distribution: q_normal, mu: 0, sigma: 1, q: 0.5}", {"normal": [0.0, 1.0], "step": 0.5}),
        ("{distribution: log_normal, mu: 0, sigma: 1}", {"normal": [0.0, 1.0], "log": True}),
        ("{distribution: q_log_normal, mu: 3, q: 8}", {"normal": [3.0, 1.0], "log": True, "step": 8}),
        (
            "{distribution: categorical, values: [a, b, a], probabilities: [0.2, 0.5, 0.3]}",
            {"choice": ["a", "b"], "weights": [0.5, 0.5]},
        ),
        (
            "{values: [a, b, c], probabilities: [0.2, 0.0, 0.8]}",
            {"choice": ["a", "c"], "weights": [0.2, 0.8]},
        ),
        ("{values: [a, b], probabilities: [0, 1]}", {"choice": ["b"]}),
        ("{distribution: beta, a: 1, b: 2}", {"float": [0.0, 1.0]}),
        ("{parameters: {lr: {value: 0.1}}}", {"x.lr": 0.1}),
    ],
)
def test_every_distribution_of_wandb(parameter, expected, tmp_path):
    """By hand: exponents become values, steps count from a multiple, bounds are kept."""
    assert wandb(tmp_path, parameter)[0] == expected


def test_a_grid_of_wandb_that_becomes_random_ends(tmp_path):
    """A grid ends by itself, but a continuous parameter has none."""
    head = "program: a.py\nmethod: grid\nmetric: {name: loss, goal: minimize}\n"
    config, notes = carried(tmp_path, f"{head}parameters: {{lr: {{min: 0.1, max: 1.0}}}}\n")
    assert config["search"] == {"sampler": "random"} and config["budget"] == {"trials": 20}
    assert any("run_cap: is missing" in note for note in notes)
    config, _ = carried(tmp_path, f"{head}parameters: {{lr: {{values: [0.1, 1.0]}}}}\n")
    assert config["search"] == {"sampler": "grid"} and config["budget"] == {}


def test_a_description_of_wandb_is_the_note(tmp_path):
    """One that is too long is cut, and named; the remark on values that are not tracked names the key."""
    text = "method: grid\nmetric: {name: loss, goal: minimize}\nparameters: {x: {values: [1, 2]}}\n"
    config, notes = carried(tmp_path, f"{text}description: first try\n")
    assert config["note"] == "first try" and not [note for note in notes if "description" in note]
    assert any("name them in metrics.track, as in track: [{metric: val/acc, " in note for note in notes)
    config, notes = carried(tmp_path, f"{text}description: {'x' * 1001}\n")
    assert config["note"] == "x" * 1000 and any("4:1: description: is too long" in note for note in notes)


@pytest.mark.parametrize(("low", "count"), [("0.0001", 1), ("0.001", 0)])
def test_steps_of_a_logarithm_that_round_to_zero_are_remarked_on(tmp_path, low, count):
    """Zero has no logarithm; a range that begins at a step has no remark."""
    parameter = f"{{distribution: q_log_uniform_values, min: {low}, max: 0.1, q: 0.001}}"
    space, notes = wandb(tmp_path, parameter)
    assert space == {"float": [0.001, 0.1], "log": True, "step": 0.001}
    assert [
        note for note in notes if "rounds its lowest draws to 0; here the lowest value is 0.001" in note
    ] == notes
    assert len(notes) == count


@pytest.mark.parametrize(
    ("parameter", "text"),
    [
        ("{values: [a, b], probabilities: [0.5]}", "expected 2 numbers, got [0.5]"),
        ("{values: [a, b], probabilities: half}", "expected 2 numbers, got 'half'"),
        ("{distribution: normal, mu: 0, sigma: -1}", "a deviation must be at least 0, got -1"),
    ],
)
def test_a_distribution_that_cannot_be_is_an_error(tmp_path, parameter, text):
    """It says what was wanted and what came."""
    file = tmp_path / "given.yaml"
    file.write_text(
        "program: a.py\nmethod: random\nmetric: {name: loss, goal: minimize}\nrun_cap: 3\n"
        f"parameters: {{x: {parameter}}}\n"
    )
    result = init(file, tmp_path)
    assert result.exit_code == 2
    assert text in result.output


def test_lists_are_bundles(tmp_path):
    """A choice among lists sets the param by the label of a bundle."""
    space, notes = wandb(tmp_path, "{values: [[1, 2], [3]]}")
    assert space == {"x_choice": {"choice": {"[1, 2]": {"x": [1, 2]}, "[3]": {"x": [3]}}}}
    assert notes == [
        "6:7: parameters.x.values: a choice among lists or mappings becomes a choice of bundles, x_choice"
    ]


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("{space: choice, categories: [a, b]}", {"choice": ["a", "b"]}),
        ("{space: choice, categories: [a, a, b]}", {"choice": ["a", "b"], "weights": [2, 1]}),
        ("{space: grid_search, values: [1, 2]}", {"choice": [1, 2]}),
        ("{space: grid_search, values: [1, 1, 2]}", {"choice": [1, 2]}),
        ("{space: uniform, lower: 0, upper: 1}", {"float": [0.0, 1.0]}),
        ("{space: quniform, lower: 0, upper: 1, q: 0.5}", {"float": [0.0, 1.0], "step": 0.5}),
        ("{space: loguniform, lower: 0.001, upper: 1, base: 10}", {"float": [0.001, 1.0], "log": True}),
        (
            "{space: qloguniform, lower: 0.5, upper: 1, q: 0.1}",
            {"float": [0.5, 1.0], "log": True, "step": 0.1},
        ),
        ("{space: randn, mean: 0, sd: 2}", {"normal": [0, 2]}),
        ("{space: qrandn, mean: 0, sd: 2, q: 2}", {"normal": [0, 2], "step": 2}),
        ("{space: randint, lower: 1, upper: 4}", {"int": [1, 3]}),
        ("{space: qrandint, lower: 16, upper: 64, q: 16}", {"int": [16, 64], "step": 16}),
        ("{space: lograndint, lower: 1, upper: 100}", {"int": [1, 99], "log": True}),
        (
            "{space: qlograndint, lower: 8, upper: 64, q: 8}",
            {"int": [8, 64], "log": True, "step": 8},
        ),
        (
            "{space: choice, categories: [[1], {a: 2}]}",
            {
                "trainer.x_choice": {
                    "choice": {"[1]": {"trainer.x": [1]}, '{"a": 2}': {"trainer.x": {"a": 2}}}
                }
            },
        ),
    ],
)
def test_every_space_of_ludwig(parameter, expected, tmp_path):
    """The upper bound is left out where Ray leaves it out, and kept where there is a step."""
    assert ludwig(tmp_path, parameter) == expected


@pytest.mark.parametrize(
    ("metric", "optimize", "said"),
    [
        (
            "{name: accuracy, goal: minimize}",
            "accuracy",
            "minimize contradicts accuracy, which must be maximized",
        ),
        ("{name: val_f1}", {"metric": "val_f1", "direction": "maximize"}, "is missing, so W&B minimizes"),
        (
            "{name: eval/loss, goal: maximize}",
            "eval/loss",
            "contradicts eval/loss: loss, which must be minimized",
        ),
        ("{name: reward, goal: maximize}", {"metric": "reward", "direction": "maximize"}, ""),
        ("{name: reward}", {"metric": "reward", "direction": "minimize"}, "the import writes minimize"),
        ("{name: my score!, goal: maximize}", {"metric": "my_score", "direction": "maximize"}, "as my_score"),
    ],
)  # fmt: skip
def test_a_goal_that_contradicts_the_metric_is_named(metric, optimize, said, tmp_path):
    """The direction that is written is the metric's own, as far as the registry knows it."""
    head = "program: a.py\nmethod: random\nrun_cap: 3\n"
    text = f"{head}metric: {metric}\nparameters: {{x: {{values: [1, 2]}}}}\n"
    config, notes = carried(tmp_path, text)
    assert config["metrics"] == {"optimize": optimize}
    about = [note for note in notes if note.startswith("4:") and "counts at its best epoch" not in note]
    assert any(said in note for note in about) if said else not about


def test_exponents_that_were_meant_as_values_are_named(tmp_path):
    """`log_uniform` from 1e-5 to 0.1 draws around 1, which nobody wants of a learning rate."""
    space, notes = wandb(tmp_path, "{distribution: log_uniform, min: 1e-5, max: 0.1}")
    assert space == {"float": [1.00001, 1.10517], "log": True}
    assert any(
        "6:7: parameters.x.distribution: exponents 1e-05 to 0.1 mean values 1.00001 to 1.10517" in n
        for n in notes
    )


def population(folder: Path, scheduler: str) -> tuple[dict[str, object], list[str]]:
    """The sections and remarks that a Ludwig config with a scheduler becomes."""
    return carried(
        folder,
        "output_features: [{name: a, type: binary}]\n"
        "hyperopt:\n  metric: roc_auc\n  goal: maximize\n  output_feature: a\n"
        "  parameters:\n    trainer.x: {space: uniform, lower: 0, upper: 1}\n"
        "    trainer.kind: {space: choice, categories: [a, b]}\n"
        f"  executor: {{num_samples: 4, max_concurrent_trials: 2, scheduler: {scheduler}}}\n",
    )


def test_the_populations_of_ludwig_are_populations_here(tmp_path):
    """With the params that change and the options of the same name, on Ray."""
    options = "quantile_fraction: 0.5, resample_probability: 0.1, perturbation_factors: [0.7, 1.3]"
    mutations = "hyperparam_mutations: {trainer: {x: [0, 1]}, trainer.kind: [a, b], trainer.new: [1, 2, 4]}"
    interval = "time_attr: training_iteration, perturbation_interval: 3"
    text = f"{{type: pbt, {interval}, {mutations}, {options}, synch: true, burn_in_period: 60}}"
    config, notes = population(tmp_path, text)
    assert config["search"]["pruner"] == {
        "pbt": {
            "mutate": ["trainer.x", "trainer.kind", "trainer.new"],
            "perturbation_interval": 3,
            "quantile_fraction": 0.5,
            "resample_probability": 0.1,
            "perturbation_factors": [0.7, 1.3],
        }
    }
    assert config["space"]["trainer.new"] == {"choice": [1, 2, 4]} and config["backend"] == "ray"
    assert any("burn_in_period: dropped" in one for one in notes)
    assert any("max_concurrent_trials: dropped: all trials of a population" in one for one in notes)
    assert not any("synch" in one or "asha" in one for one in notes)


def test_a_bandit_of_ludwig_models_numbers(tmp_path):
    """A choice is left out by name; an interval in seconds is not one of epochs."""
    bounds = "{trainer.x: [0, 2], trainer.kind: [0, 1], y: [1.5, 3]}"
    config, notes = population(
        tmp_path, f"{{type: pb2, perturbation_interval: 60, hyperparam_bounds: {bounds}}}"
    )
    assert config["search"]["pruner"] == {"pb2": {"mutate": ["trainer.x", "y"], "perturbation_interval": 4}}
    assert config["space"]["y"] == {"float": [1.5, 3.0]}
    assert any(
        "perturbation_interval: counts time_total_s, not epochs; the import writes 4 epochs" in n
        for n in notes
    )
    assert any(
        "trainer.x stays within its dimension in space, [0.0, 1.0], not within [0, 2]" in n for n in notes
    )
    assert any("trainer.kind is dropped: pb2 cannot change it" in n for n in notes)
    assert any("synch: here all trials wait for each other" in one for one in notes)


@pytest.mark.parametrize("kind", ["pbt, hyperparam_mutations", "pb2, hyperparam_bounds"])
def test_a_population_of_ludwig_passes_the_check(kind, tmp_path):
    """The file that is written is a sweep on Ray as it is."""
    population(tmp_path, f"{{type: {kind}: {{trainer.x: [0, 1]}}}}")
    assert init(tmp_path / "foreign.yaml", tmp_path / "mine").exit_code == 0
    plan = read_plan(tmp_path / "mine" / "sweep.yaml")
    assert plan.config.backend.name == "ray" and plan.pruner == kind[:3]


@pytest.mark.parametrize(
    ("scheduler", "remark"),
    [
        ("{type: pbt}", "pbt is dropped: hyperparam_mutations names no param that can change"),
        (
            "{type: pbt_replay, policy_file: a.txt}",
            "pbt_replay is dropped: here pbt_replay reads a run directory",
        ),
        ("{type: resource_changing}", "stop early; in Python, use objective.tuner(50, scheduler=...)"),
    ],
)
def test_a_scheduler_of_ludwig_that_is_left_out_is_named(scheduler, remark, tmp_path):
    """With the reason; the rest of the search is written."""
    config, notes = population(tmp_path, scheduler)
    assert "pruner" not in config["search"] and any(remark in one for one in notes)


@pytest.mark.parametrize(
    ("scheduler", "pruner"),
    [
        ("{type: median_stopping_rule, grace_period: 3}", {"median": {"warmup": 2, "min_trials": 3}}),
        ("{type: async_hyperband, grace_period: 3}", {"asha": {"min_epochs": 3, "eta": 4}}),
    ],
)
def test_a_grace_period_of_ludwig_ends_with_the_same_epoch(scheduler, pruner, tmp_path):
    """Ray judges the epoch that completes it; a warm-up is not judged, so it is one shorter."""
    config, _ = population(tmp_path, scheduler)
    assert config["search"]["pruner"] == pruner


@pytest.mark.parametrize(("installed", "sampler"), [(True, "bohb"), (False, "tpe")])
def test_bohb_is_written_where_it_can_run(installed, sampler, tmp_path, monkeypatch):
    """Else the remark has the line that installs it."""
    monkeypatch.setitem(sys.modules, "ConfigSpace", ModuleType("ConfigSpace"))
    monkeypatch.setitem(sys.modules, "hpbandster", ModuleType("hpbandster") if installed else None)
    config, notes = carried(
        tmp_path,
        "output_features: [{name: a, type: binary}]\n"
        "hyperopt: {parameters: {x: {space: uniform, lower: 0, upper: 1}}, search_alg: {type: bohb}}\n",
    )
    assert config["search"]["sampler"] == sampler
    assert (
        any("needs hpbandster, which is not installed: pip install" in one for one in notes) is not installed
    )


def test_metrics_of_ludwig_have_their_names_here(tmp_path):
    """Its accuracy of a category is the mean over classes; one that is of no such output is named."""
    text = (
        "output_features: [{name: a, type: category}, {name: b, type: binary}, {name: c, type: timeseries}]\n"
        "hyperopt:\n  metric: METRIC\n  output_feature: FEATURE\n"
        "  parameters: {trainer.x: {space: uniform, lower: 0, upper: 1}}\n"
    )
    said = {
        ("accuracy", "a"): (
            "a.recall(average=macro)",
            "Ludwig's accuracy of a category is recall(average=macro) here",
        ),
        ("hits_at_k", "a"): (
            "a.hits(average=macro)@3",
            "Ludwig's hits_at_k of a category is hits(average=macro)@3 here",
        ),
        ("root_mean_squared_error", "c"): (
            "c.rmse(multioutput=pooled)",
            "Ludwig's root_mean_squared_error of a timeseries is rmse(multioutput=pooled) here",
        ),
        ("accuracy_micro", "a"): ("a.accuracy", "goal: is missing, so Ludwig minimizes"),
        ("loss", "b"): ("b.log_loss", "the loss of a binary is log_loss, unless"),
        ("loss", "combined"): ("combined.loss", ""),
        ("r2", "b"): (
            {"metric": "ludwig_r2", "direction": "maximize"},
            "'r2' does not exist for a binary output",
        ),
    }
    for (metric, feature), (optimize, note) in said.items():
        config, notes = carried(tmp_path, text.replace("METRIC", metric).replace("FEATURE", feature))
        assert config["metrics"]["optimize"] == optimize
        assert any(note in one for one in notes)


@pytest.mark.parametrize(
    ("outputs", "metric", "name", "direction"),
    [
        ("[]", "{output_feature: combined", "loss", "minimize"),
        (
            "[{name: a, type: category}, {name: b, type: anomaly}]",
            "{metric: accuracy_micro, output_feature: a",
            "accuracy",
            "maximize",
        ),
        ("[{name: a, type: anomaly}]", "{metric: loss", "ludwig_loss", "minimize"),
    ],
)
def test_a_metric_of_ludwig_without_an_output_has_a_direction(outputs, metric, name, direction, tmp_path):
    """Only the engine can state the output; one that states none logs the value."""
    hyperopt = f"hyperopt: {metric}, parameters: {{x: {{space: choice, categories: [1, 2]}}}}}}"
    config, _ = carried(tmp_path, f"output_features: {outputs}\n{hyperopt}\n")
    assert config["metrics"]["optimize"] == {"metric": name, "direction": direction}
    assert "output" not in config["engine"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\n", "must be one of a Ludwig config with hyperopt:, a W&B sweep with parameters:, a Hydra"),
        (
            "method: random\nparameters: {x: {min: 3, max: 1}}\n",
            "2:18: parameters.x.min: min 3 is above max 1",
        ),
        (
            "method: bayse\nparameters: {x: {values: [1, 2]}}\n",
            "1:1: method: expected grid, random, bayes or custom",
        ),
        (
            "method: grid\nparameters: {x: 3}\n",
            "2:14: parameters.x: expected a mapping such as {value: ...}, got 3",
        ),
        ("method: grid\nparameters: {x: {distribution: gauss}}\n", "gauss is not one of W&B's distributions"),
        ("hyperopt: {parameters: {x: {space: uniform, lower: 0}}}\n", "parameters.x.upper: upper is missing"),
        (
            "hyperopt: {parameters: {x: {space: unifrom}}}\n",
            "unifrom is not one of Ludwig's spaces: choice, grid_search",
        ),
        ("hyperopt: {parameters: {}}\n", "hyperopt.parameters: needs a param to search"),
        ("parameters: {x: &a {values: [1, 2]}}\n", "anchors and aliases are not supported"),
    ],
)
def test_what_is_not_well_formed_is_refused_with_its_line(text, message, tmp_path):
    """Exit code 2, and nothing is written."""
    (tmp_path / "foreign.yaml").write_text(text)
    result = init(tmp_path / "foreign.yaml", tmp_path / "mine")
    assert result.exit_code == 2 and message in result.stderr
    assert not (tmp_path / "mine").exists()
