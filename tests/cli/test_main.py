from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from forked import hpometrics
from matrix import EXHAUSTIVE

from hpometrics import __version__
from hpometrics.cli.main import main
from hpometrics.metrics.registry.index import all_entries

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))

BAD = """\
engine: {target: toy:train, output: binary}
space: {lr: {flaot: [1, 2]}}
metrics: {optimize: roc_acu}
budget: {trials: 3}
"""


def call(*arguments: object) -> Result:
    """Call the command in this process."""
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.name)
def test_every_shipped_config_checks(config):
    """The plan shows the direction and where it comes from; nothing is run."""
    result = call("check", config)
    assert result.exit_code == 0, result.stderr
    assert "<- registry" in result.stdout
    assert "ok: nothing was run." in result.stdout


def test_check_shows_the_plan(tmp_path):
    """Every section in a line or two, defaults included."""
    (tmp_path / "my sweep.yaml").write_text(
        "engine: {target: a.b:train, output: category, params: {batch: 64}}\n"
        "space:\n"
        "  lr: {float: [1e-4, 1e-1], log: true}\n"
        "  optimizer: {choice: [sgd, adam]}\n"
        "  momentum: {float: [0, 0.9], step: 0.1, when: {optimizer: sgd}}\n"
        "  size: {choice: {small: {depth: 1}, large: {depth: 3}}}\n"
        "metrics: {optimize: f1_macro, track: [accuracy, log_loss]}\n"
        "search: {pruner: {median: {warmup: 3}}, seed: 7}\n"
        "budget: {trials: 100, time: 2h, epochs: 30, target: 0.99, patience: 5}\n"
    )
    result = call("check", tmp_path / "my sweep.yaml")
    assert result.stdout.splitlines()[:-1] == [
        "sweep        my-sweep   in runs/my-sweep",
        "engine       a.b:train   output category   seed 7",
        "  fixed      batch: 64",
        "objective    f1(average=macro)   maximize <- registry   reads predictions",
        "at           the best epoch",
        "track        accuracy ^  log_loss v",
        "defaults     also the default group of each output, unless the engine sets other metrics",
        "space        4 dimensions, 1 conditional, 1 bundle",
        "  lr         float from 0.0001 to 0.1 log",
        "  optimizer  one of sgd, adam",
        "  momentum   float from 0 to 0.9 step 0.1   when optimizer is sgd",
        "  size       one of small, large",
        "search       sampler tpe   pruner median(warmup=3)   seed 7",
        "backend      optuna   storage sqlite, 1 worker",
        "budget       100 trials in all (0 done), at most 2h00m, at most 30 epochs, "
        "until a trial reaches 0.99, patience 5 epochs",
        "results      checkpoints best, small statistics, on disk after every epoch",
        f"lacks        there is no module 'a' in {tmp_path}, in the current folder or installed",
    ]


def test_check_lists_what_is_wrong(tmp_path):
    """On stderr with exit code 2; as JSON on stdout."""
    path = tmp_path / "bad.yaml"
    path.write_text(BAD)
    result = call("check", path)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.splitlines()[-1] == "2 errors - nothing was run."
    assert f"{path}:2:9: space.lr: a search dimension needs one of" in result.stderr
    told = json.loads(call("check", path, "--json").stdout)
    assert (told["ok"], [problem["line"] for problem in told["problems"]]) == (False, [2, 3])


def test_errors_fit_a_terminal(tmp_path, monkeypatch):
    """Wrapped at spaces, so that none is cut within a word; a pipe gets each in one line."""
    file = tmp_path / "bad.yaml"
    file.write_text(BAD)
    whole = call("check", file).stderr
    monkeypatch.setattr("hpometrics.cli.console.terminal_width", lambda stream: 60)
    narrow = call("check", file).stderr
    assert max(map(len, whole.splitlines())) > 60
    assert all(len(line) <= 60 or " " not in line for line in narrow.splitlines())
    assert narrow.split() == whole.split()


def test_check_tells_the_plan_as_json():
    """With the config, every default spelled out."""
    told = json.loads(call("check", CONFIGS[0], "--json").stdout)
    assert told["ok"]
    assert told["plan"]["optimize"]["objective"] in ("minimize", "maximize")
    assert told["plan"]["config"]["results"]["checkpoints"] == "best"


@pytest.mark.parametrize(
    ("engine", "text"),
    [
        ("{target: nowhere.engine:train}", "there is no module 'nowhere' in {}, in the current folder or"),
        (
            "{command: [python, app.py, '{args}']}",
            "cannot find the script 'app.py' in {}; copy it there, or write its path from there",
        ),
        (
            "{choice: {one: json:dumps, other: nowhere:train}}",
            "there is no module 'nowhere' in {}, in the current",
        ),
    ],
    ids=["module", "script", "several"],
)
def test_a_check_says_what_a_run_would_lack(tmp_path, monkeypatch, engine, text):
    """It is no error: the file may be checked on another machine."""
    monkeypatch.chdir(tmp_path)
    space = "space: {lr: {float: [0.1, 1]}}\nmetrics: {optimize: {metric: gap, direction: minimize}}\n"
    Path("sweep.yaml").write_text(f"engine: {engine}\n{space}budget: {{trials: 2, epochs: 4}}\n")
    checked = CliRunner().invoke(main, ["check", "sweep.yaml"])
    assert checked.exit_code == 0 and text.format(tmp_path) in checked.output, checked.output
    facts = json.loads(CliRunner().invoke(main, ["check", "sweep.yaml", "--json"]).stdout)
    assert facts["ok"] and len(facts["lacks"]) == 1


@pytest.mark.parametrize("command", ["run", "check"])
def test_a_file_that_is_not_there_is_one_line(command):
    """No traceback."""
    result = call(command, "nowhere.yaml")
    assert result.exit_code == 2
    assert (
        result.stderr
        == "nowhere.yaml: cannot be read: No such file or directory\n1 error - nothing was run.\n"
    )


def test_best_of_what_is_no_run_directory(tmp_path):
    """Said in one line."""
    result = call("best", tmp_path)
    assert (result.exit_code, result.stderr) == (
        2,
        f"{tmp_path}: is not a run directory; it has no sweep.resolved.yaml\n",
    )


def test_metrics_are_listed_from_the_registry():
    """Every name and every feature of it."""
    text = call("metrics", "list").stdout
    assert all(entry.name in text and entry.feature_type in text for entry in all_entries())


def test_metrics_are_filtered():
    """Each filter that is given must hold."""
    result = call(
        "metrics", "list", "--feature", "binary", "--inputs", "probabilities", "--objective", "minimize"
    )
    names = {line.split()[0] for line in result.stdout.splitlines()[2:-1]}
    assert {"log_loss", "brier"} <= names
    assert "roc_auc" not in names
    assert call("metrics", "list", "--feature", "binery").stderr.startswith(
        "'binery' is not an output feature"
    )


def test_a_metric_is_shown_by_name_or_alias():
    """What it means, which way it goes, what it reads, its parameters, its source."""
    text = call("metrics", "show", "f1", "--feature", "category").stdout
    for part in (
        "direction  maximize; by experiment: 1 (perfect), ",
        "reads      predictions",
        "average: one of micro, macro",
        "f1_macro = f1(average=macro)",
    ):
        assert part in text
    assert call("metrics", "show", "cross_entropy").stdout.startswith("log_loss\n")
    unknown = call("metrics", "show", "f1_marco")
    assert (unknown.exit_code, "Did you mean 'f1_macro'?" in unknown.stderr) == (2, True)


def test_metrics_are_listed_as_json():
    """For programs; a filter holds there as well."""
    rows = json.loads(call("metrics", "list", "--family", "calibration", "--json").stdout)
    assert {"ece", "brier"} <= {row["name"] for row in rows}
    assert all("calibration" in row["families"] for row in rows)


def test_a_metric_is_shown_as_json():
    """Every fact of the page; of an alias what it means, of a diagnostic what measures it."""
    (told,) = json.loads(call("metrics", "show", "f1_macro", "--feature", "category", "--json").stdout)
    assert (told["name"], told["meant"], told["objective"]) == ("f1", "f1(average=macro)", "maximize")
    assert told["evidence"]["category"]["0.0"] == 1.0
    (told,) = json.loads(call("metrics", "show", "gnorm", "--json").stdout)
    assert (told["diagnostic"], told["comes_from"]) == (True, "run.watch(model, optimizer)")


@pytest.fixture
def predictions(tmp_path):
    """Three rows of a binary output."""
    path = tmp_path / "predictions.csv"
    path.write_text("target,probability\n0,0.2\n1,0.7\n1,0.4\n")
    return path


def test_predictions_are_measured(predictions):
    """The values by name, with what is better."""
    result = call("measure", predictions, "--output", "binary", "--metrics", "accuracy,log_loss")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [line.split() for line in result.stdout.splitlines()[-2:]] == [
        ["accuracy", "^", "0.66666667"],
        ["log_loss", "v", "0.49870308"],
    ]


def in_a_fresh_process(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run `python -m hpometrics ...`."""
    command = [sys.executable, "-m", "hpometrics", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def in_a_fork(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the same in a process that has loaded torch."""
    return hpometrics(*arguments).result()


@pytest.mark.parametrize("run", [in_a_fork, pytest.param(in_a_fresh_process, marks=EXHAUSTIVE)])
def test_predictions_are_measured_in_a_process_of_their_own(run, predictions):
    """As JSON."""
    ran = run("measure", predictions, "--output", "binary", "-f", "json")
    assert json.loads(ran.stdout)["values"]["all"]["accuracy"] == pytest.approx(2 / 3), ran.stderr
    again = call("measure", predictions, "--output", "binary", "--json")
    assert json.loads(again.stdout) == json.loads(ran.stdout)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "the output of the model is unknown; set --output"),
        (("--output", "binery"), "'binery' is not an output feature; did you mean 'binary'?"),
        (("--output", "binary", "--metrics", "acuracy"), "Did you mean 'accuracy'?"),
        (("--output", "binary", "--by", "tsk"), "there is no column 'tsk' (--by)"),
    ],
)
def test_what_cannot_be_measured_is_one_line(arguments, message, predictions):
    """Exit code 2 and no traceback."""
    result = call("measure", predictions, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert message in result.stderr


def test_the_schema_is_printed_or_written(tmp_path):
    """The same text either way."""
    path = tmp_path / "sweep.schema.json"
    assert call("schema", "-o", path).exit_code == 0
    assert path.read_text() == call("schema").stdout


def test_the_command_says_who_it_is():
    """Version, and help with the exit codes."""
    version = f"hpometrics, version {__version__}\n"
    assert call("--version").stdout == in_a_fresh_process("--version").stdout == version
    assert "Run a sweep again to resume it" in " ".join(call("-h").stdout.split())


def test_a_plan_without_conditions_does_not_count_them(tmp_path):
    """Nothing is said of what is not there."""
    (tmp_path / "plain.yaml").write_text(BAD.replace("flaot", "float").replace("acu", "auc"))
    assert "space      1 dimension\n" in call("check", tmp_path / "plain.yaml").stdout


def test_a_long_list_of_options_is_cut(tmp_path):
    """The plan stays readable, and is there at once."""
    text = BAD.replace("{flaot: [1, 2]}", f"{{choice: {list(range(2_000))}}}").replace("acu", "auc")
    (tmp_path / "long.yaml").write_text(text)
    assert "18, 19 ... 2000 in all\n" in call("check", tmp_path / "long.yaml").stdout


@pytest.mark.parametrize("command", ["run", "schema"])
def test_a_path_that_cannot_be_written_is_one_line(command, tmp_path):
    """Exit code 2, and what is in the way, no traceback."""
    if command == "schema":
        result = call("schema", "-o", tmp_path / "nowhere" / "x")
        assert result.stderr == f"error: {tmp_path}/nowhere/x: No such file or directory\n"
    else:
        sweep = tmp_path / "bad.yaml"
        (tmp_path / "an_engine.py").write_text("def train(params, run): ...")
        text = BAD.replace("flaot", "float").replace("acu", "auc").replace("toy:", "an_engine:")
        sweep.write_text(text + f"results: {{dir: {sweep}/x}}\n")
        result = call("run", sweep)
        assert result.stderr == f"{sweep}: is a file, but a directory is needed; name another one\n"
    assert result.exit_code == 2
