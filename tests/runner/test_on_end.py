"""The program that `run` starts once a sweep has ended."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from forked import hpometrics
from sample_sweeps import problems_of

from hpometrics import Sweep
from hpometrics.cli.main import main
from hpometrics.config.plan import read_plan
from hpometrics.records._json import sealed
from hpometrics.results.run_directory import RunDirectory
from hpometrics.runner.sweep import Options, run_command

ENGINE = """\
import time
from pathlib import Path

def train(params, run):
    for _ in run.epochs():
        if params["width"] == 9:
            Path("begun").touch()
            time.sleep(60)
        if params["width"] in (8, 10):
            raise ValueError("of this trial")
        run.log(score=params["width"])
"""
PROGRAM = """\
import os
import sys
from pathlib import Path

facts = [os.environ[f"HPOMETRICS_{name}"] for name in ("NAME", "STATE", "METRIC", "TRIAL", "VALUE")]
has_best = Path(os.environ["HPOMETRICS_DIR"], "best.yaml").exists()
with open("ends", "a") as file:
    print(*facts, has_best, *sys.argv[1:], sep=",", file=file)
print("of the program")
"""
SWEEP = """\
engine: ending:train
metrics: {optimize: {metric: score, direction: maximize}}
"""
OPTUNA = "space: {width: {int: [1, 7]}}\n"
LIST = "backend: {list: [{width: 2}, {width: 5}, {width: 3}]}\n"


@pytest.fixture
def place(folder):
    """A folder with the engine and the program, which adds a line to `ends`."""
    (folder / "ending.py").write_text(ENGINE)
    (folder / "notify.py").write_text(PROGRAM)
    return folder


def file(text: str, *words: str) -> str:
    """A sweep with the program at its end."""
    return SWEEP + text + f"on_end: {json.dumps([sys.executable, 'notify.py', *words])}\n"


def ends() -> list[str]:
    """The lines that the program has written."""
    return Path("ends").read_text().splitlines() if Path("ends").exists() else []


def test_it_learns_what_came_of_a_list(place, sweep):
    """Each argument as it is; not again for the same trials."""
    text = file(LIST + "budget: {epochs: 1}\n", "a b", "$HOME")
    result = sweep(text)
    assert (result.exit_code, ends()) == (0, ["sweep,complete,score,1,5.0,True,a b,$HOME"])
    assert sweep(text).exit_code == 0  # by its stamp
    RunDirectory(Path("runs/sweep")).stamp.unlink()
    assert sweep(text).exit_code == 0 and len(ends()) == 1


def test_it_runs_again_after_more_trials(place, sweep):
    """And once for each end of the search."""
    text = file(OPTUNA + "budget: {trials: 1, epochs: 1}\n")
    for trials in (1, 2, 2):
        assert sweep(text, "--set", f"budget.trials={trials}").exit_code == 0
    assert [line.split(",")[1] for line in ends()] == ["complete"] * 2


@pytest.mark.parametrize(
    ("budget", "state"),
    [
        ("{trials: 3, epochs: 1}", "complete"),
        ("{target: 1, epochs: 1}", "target"),
        ("{stale: 2, epochs: 1}", "stale"),
        ("{cost: 3, cost_unit: {logged: score}, epochs: 1}", "cost"),
        ("{time: 1s, epochs: 1}", "time"),
    ],
)
def test_it_learns_why_a_search_has_ended(place, sweep, budget, state):
    """In the folder of the sweep file, wherever `run` is called."""
    (place / "sweep.yaml").write_text(file(OPTUNA + f"search: {{sampler: random}}\nbudget: {budget}\n"))
    assert CliRunner().invoke(main, ["run", str(place / "sweep.yaml")]).exit_code == 0
    assert [line.split(",")[1] for line in ends()] == [state]


@pytest.mark.ray
def test_it_learns_what_came_of_a_search_on_ray(place, sweep, ray_cluster):
    """From the process that leads the sweep."""
    backend = f"backend: {{ray: {{address: '{ray_cluster}'}}}}\n"
    assert sweep(file(f"{OPTUNA}budget: {{trials: 2, epochs: 1}}\n{backend}")).exit_code == 0
    assert [line.split(",")[1] for line in ends()] == ["complete"]


@pytest.mark.parametrize(
    ("widths", "budget", "code", "end"),
    [
        ([8, 10], "{epochs: 1}", 4, "sweep,failed,score,,,False"),
        ([3, 8], "{epochs: 1, failures: 1}", 4, "sweep,failed,score,0,3.0,True"),
        ([8], "{epochs: 1, failures: 9}", 3, "sweep,complete,score,,,False"),
    ],
)
def test_it_learns_of_failures(place, sweep, widths, budget, code, end):
    """The exit code is that of the sweep; without a best trial two facts are empty."""
    points = ", ".join(f"{{width: {width}}}" for width in widths)
    result = sweep(file(f"backend: {{list: [{points}]}}\nbudget: {budget}\n"))
    assert (result.exit_code, ends()) == (code, [end])


def test_a_failed_sweep_in_python_runs_it_too(place):
    """Before the error is raised."""
    (place / "sweep.yaml").write_text(file("backend: {list: [{width: 8}, {width: 10}]}\n"))
    with pytest.raises(ValueError, match="failed with the same error"):
        Sweep.from_file("sweep.yaml", epochs=1).run(progress=False)
    assert ends() == ["sweep,failed,score,,,False"]


def test_an_interrupted_sweep_runs_it(place):
    """Each time that it is interrupted; what is stopped keeps its exit code."""
    points = "backend: {list: [{width: 4}, {width: 9}]}\n"
    (place / "sweep.yaml").write_text(file(f"{points}budget: {{epochs: 1}}\n"))
    for count in (1, 2):
        Path("begun").unlink(missing_ok=True)
        run = hpometrics("run", "sweep.yaml")
        assert run.waits_for(Path("begun").exists)
        assert CliRunner().invoke(main, ["stop", "runs/sweep"]).exit_code == 0
        assert run.ended() == 143
        assert ends() == ["sweep,interrupted,score,0,4.0,True"] * count


def test_an_error_of_the_run_starts_it_too(place, sweep):
    """Such as a file that a newer version has written; what is refused at the door does not."""
    text = file(OPTUNA + "budget: {trials: 1, epochs: 1}\n")
    assert sweep(text).exit_code == 0
    assert sweep(text.replace("[1, 7]", "[1, 5]")).exit_code == 2 and len(ends()) == 1
    RunDirectory(Path("runs/sweep")).annotations.write_text(sealed('{"format": 2, "trials": {}}'))
    assert sweep(text, "--set", "budget.trials=2").exit_code == 2
    assert ends()[1:] == ["sweep,error,score,,,True"]


class Closed(io.StringIO):
    """A stdout that nobody reads any more."""

    def write(self, text: str) -> int:
        """Fail as a pipe does."""
        raise BrokenPipeError


def test_a_closed_pipe_is_no_error_of_the_sweep(place, monkeypatch):
    """As under `hpometrics run FILE | head -1`: the results were written before they were printed."""
    (place / "sweep.yaml").write_text(file(LIST + "budget: {epochs: 1}\n"))
    monkeypatch.setattr(sys, "stdout", Closed())
    with pytest.raises(BrokenPipeError):
        run_command(read_plan(place / "sweep.yaml"), Options(quiet=True))
    assert ends() == ["sweep,complete,score,1,5.0,True"]


@pytest.mark.parametrize(
    ("program", "words"),
    [
        (["sh", "-c", "exit 3"], "on_end: sh ended with exit code 3; "),
        (["sh", "-c", "kill -15 $$"], "on_end: sh was killed by SIGTERM; "),
        (["./plain"], "on_end: ./plain cannot be run: Exec format error; "),
    ],
)
def test_a_program_that_fails_changes_nothing(place, sweep, program, words):
    """A line says so; results and exit code are those of the sweep."""
    (place / "plain").write_text("no program")
    (place / "plain").chmod(0o700)
    result = sweep(SWEEP + LIST + f"budget: {{epochs: 1}}\non_end: {json.dumps(program)}\n", "-q", "--json")
    assert result.exit_code == 0 and json.loads(result.stdout)["best"]["value"] == 5
    assert result.stderr == f"{words}the sweep and its results are unchanged\n"


def test_an_interrupted_program_changes_nothing(place):
    """A stop request ends a program that hangs; the sweep had ended."""
    text = SWEEP + LIST + "budget: {epochs: 1}\non_end: [sh, -c, 'touch begun; exec sleep 60']\n"
    (place / "sweep.yaml").write_text(text)
    run = hpometrics("run", "sweep.yaml")
    assert run.waits_for(Path("begun").exists)
    run.send(2)
    result = run.result()
    assert result.returncode == 0 and "Optimal Engine Params" in result.stdout
    assert result.stderr.splitlines()[-1].startswith("on_end: sh was interrupted; ")


def test_the_directory_is_free_and_stdout_is_not(place):
    """The program may start another run in it; what it prints goes to stderr."""
    (place / "sweep.yaml").write_text(file(LIST + "budget: {epochs: 1}\n"))
    (place / "notify.py").write_text(
        "import os\nfrom pathlib import Path\nfrom hpometrics.results.run_directory import RunDirectory\n"
        "print('led:', RunDirectory(Path(os.environ['HPOMETRICS_DIR'])).is_led)\n"
    )
    result = hpometrics("run", "sweep.yaml", "--json").result()
    assert "led: False" in result.stderr and json.loads(result.stdout)["done"] == 3


def test_the_record_has_no_secret_of_it(place, sweep, monkeypatch):
    """The run directory keeps the placeholder; a worker needs no such variable and runs no program."""
    monkeypatch.setenv("WEBHOOK", "https://example.org/very-secret")
    text = file(LIST + "budget: {epochs: 1}\n", "${env:WEBHOOK}")
    assert sweep(text).exit_code == 0 and ends()[0].endswith(",https://example.org/very-secret")
    for path in filter(Path.is_file, Path("runs").rglob("*")):
        assert b"very-secret" not in path.read_bytes(), path
    assert "very-secret" not in sweep(text, command="check").stdout
    monkeypatch.delenv("WEBHOOK")
    assert CliRunner().invoke(main, ["worker", "runs/sweep"]).exit_code == 0
    assert CliRunner().invoke(main, ["best", "runs/sweep"]).exit_code == 0
    assert len(ends()) == 1


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("notify.sh", "expected a list, got 'notify.sh' (text)"),
        ("[]", "must not be empty"),
        ("[sh, 3]", "expected text, got 3"),
    ],
)
def test_it_is_a_list_of_words(text, problem):
    """A shell is a program like others."""
    found = problems_of(SWEEP + LIST + f"budget: {{epochs: 1}}\non_end: {text}\n")
    assert len(found) == 1 and problem in found[0]


def test_a_program_that_is_not_there_is_said_before_the_first_trial(place, sweep):
    """Not after a long search."""
    result = sweep(SWEEP + LIST + "budget: {epochs: 1}\non_end: [notify-me]\n")
    assert result.exit_code == 2 and not Path("runs").exists()
    assert (
        "sweep.yaml:5:1: on_end: cannot find the program 'notify-me' in the folders of PATH" in result.stderr
    )
