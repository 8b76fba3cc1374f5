"""`hpometrics best -k 3`, and its params as another command takes them."""

from __future__ import annotations

import argparse
import json
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result
from sample_records import FOUR, trial, written
from sample_sweeps import SEVERAL, SWEEP, changed

from hpometrics import MAXIMIZE, MINIMIZE
from hpometrics.backends.fresh_runs import write_confirmation
from hpometrics.cli.main import main
from hpometrics.config.document import parse_value
from hpometrics.records.trial_record import EpochRecord, TrialState
from hpometrics.selection.confirmation import CONFIRM_FILE
from hpometrics.selection.front_confirmation import FrontConfirmation, FrontMember
from hpometrics.selection.intervals import Interval

INFEASIBLE = replace(trial(5, [0.99], TrialState.INFEASIBLE, lr=0.5), reason="accuracy 0.89 > 0.75")
BOUND = changed("track: [accuracy]", 'track: [accuracy], constraints: ["accuracy <= 0.75"]')
FIXED = changed("output: binary}", "output: binary, params: {token: {secret: HUB_TOKEN}}}")
GOALS = {"roc_auc": MAXIMIZE, "cost": MINIMIZE}


def best(*arguments: str) -> Result:
    """Call `hpometrics best run ...` in this process."""
    return CliRunner().invoke(main, ["best", "run", *arguments])


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Two complete trials, of which 1 is the best, one pruned, one failed and one infeasible."""
    monkeypatch.chdir(tmp_path)
    return written(tmp_path / "run", [*FOUR, INFEASIBLE], BOUND)


def test_another_metric_is_not_confirmed(run):
    """A confirmation decides by the optimized metric, so that no other pick is told to ask for one."""
    assert "hpometrics confirm" in best().stdout
    assert "hpometrics confirm" not in best("--metric", "accuracy").stdout


def test_the_best_trials_rank_as_in_the_table(run):
    """Feasible ones first; what was pruned or failed is none of the best."""
    result = best("-k", "3")
    assert result.exit_code == 0, result.output
    head, columns, rule, *rows, picked = result.stdout.splitlines()
    assert head.startswith("# engine params evaluated: 5")
    assert columns.split()[:2] == ["rank", "trial"] and set(rule.strip()) == {"-"}
    assert [row.split()[:2] for row in rows] == [["1", "1"], ["2", "0"], ["-", "5"]]
    assert rows[-1].endswith("infeas.")
    assert picked == "picked: trial 1, epoch 2"
    assert len(best("-k", "99").stdout.splitlines()) == 7
    assert len(best("-k", "1").stdout.splitlines()) == 5


@pytest.mark.parametrize("option", [("--json",), ("-f", "json"), ("-f", "yaml")], ids=" ".join)
def test_they_are_a_list_for_programs(run, option):
    """Each as `best` says all of one; one that breaks a constraint says so."""
    text = best("-k", "3", *option).stdout
    told = parse_value(text, "best") if "yaml" in option else json.loads(text)
    assert [one["trial"] for one in told] == [1, 0, 5]
    alone = best(*option).stdout
    first = parse_value(alone, "best") if "yaml" in option else json.loads(alone)
    assert told[0]["params"] == first["params"] and told[0]["value"] == first["value"] == 0.8
    assert [one.get("feasible") for one in told] == [None, None, False]
    assert told[2]["reason"] == "accuracy 0.89 > 0.75"


def test_params_can_be_pasted_behind_a_training_script(run):
    """They come back as they were; with -k a line each, of feasible trials alone."""
    text = best("-f", "args").stdout
    parser = argparse.ArgumentParser()
    for name, kind in (("lr", float), ("depth", int), ("width", int)):
        parser.add_argument(f"--{name}", type=kind)
    assert vars(parser.parse_args(shlex.split(text))) == json.loads(best("--json").stdout)["params"]
    lines = best("-f", "args", "-k", "3").stdout.splitlines()
    assert len(lines) == 2 and lines[0] == text.strip()


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("sgd", "--x sgd"),
        ("it's $HOME", """--x 'it'"'"'s $HOME'"""),
        ("", "--x ''"),
        (True, "--x true"),
        (None, "--x null"),
        ([3, 3], "--x '[3, 3]'"),
        (-1e-5, "--x=-1e-05"),
        ("-v", "--x=-v"),
    ],
)
def test_values_are_quoted_for_the_shell(run, value, told):
    """Texts as they are, others as JSON; what begins with a dash is no option of its own."""
    written(run, [replace(trial(0, [0.5]), params={"x": value})])
    assert best("-f", "args", "-k", "9").stdout.splitlines()[-1] == told


def test_a_secret_is_read_by_the_shell(run):
    """Its value stands nowhere."""
    record = replace(trial(6, [0.6, 0.95]), params={"lr": 0.1, "token": {"secret": "HUB_TOKEN"}})
    written(run, [record], FIXED)
    assert best("-f", "args").stdout == '--lr 0.1 --token "$HUB_TOKEN"\n'


def test_what_a_terminal_would_obey_is_not_printed(run):
    """JSON escapes it."""
    written(run, [replace(trial(6, [0.95]), params={"x": "\x1b[2J"})])
    result = best("-f", "args")
    assert result.exit_code == 2 and "x: cannot be printed on a line; --json has it" in result.stderr


def test_they_rank_by_another_metric_or_epoch_too(run):
    """As the pick does."""
    told = json.loads(best("-k", "2", "--at", "last", "--metric", "accuracy", "--json").stdout)
    assert [(one["trial"], one["metric"]) for one in told] == [(1, "accuracy"), (0, "accuracy")]
    assert "The sweep optimized:" in best("-k", "2", "--metric", "accuracy").stdout


def test_where_none_is_feasible_nothing_can_be_pasted(tmp_path, monkeypatch):
    """The exit code is 3, as without -k; JSON names the nearest, which with -k is a list too."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "run", [INFEASIBLE], BOUND)
    for options in (("-f", "args"), ("-k", "2"), ("-k", "2", "-f", "args")):
        result = best(*options)
        assert (result.exit_code, result.stdout) == (3, "")
    (nearest,) = json.loads(best("-k", "2", "--json").stdout)
    assert nearest == json.loads(best("--json").stdout) and nearest["feasible"] is False


def test_of_several_objectives_there_is_no_order(sweep, folder):
    """The front, a trial of it, or the order by one metric."""
    assert sweep(SEVERAL).exit_code == 0
    (folder / "runs" / "sweep").rename(folder / "run")
    assert "do not order trials" in best("-k", "2").stderr
    assert "--pick knee" in best("-f", "args").stderr
    assert best("-f", "args", "--pick", "knee").stdout.startswith("--size ")
    assert len(json.loads(best("-k", "2", "--metric", "accuracy", "--json").stdout)) == 2


def test_a_confirmed_knee_stays_the_knee_when_a_later_trial_dominates_it(tmp_path, monkeypatch):
    """The search went on: by its values, lucky ones, the knee of the means is not on its front any more."""
    monkeypatch.chdir(tmp_path)
    points = {0: (0.9, 9.0), 1: (0.5, 1.0), 2: (0.8, 3.0), 3: (0.85, 2.0)}
    records = [
        replace(trial(number, [auc]), epochs=(EpochRecord(0, {"roc_auc": auc, "cost": cost}),))
        for number, (auc, cost) in points.items()
    ]
    home = written(tmp_path / "run", records, f"{SEVERAL}confirm: {{top: 3, repeats: 3}}\n")
    members = tuple(
        FrontMember(
            number,
            points[number][0],
            dict(zip(GOALS, [Interval(one, one - 0.1, one + 0.1) for one in points[number]], strict=True)),
            dict.fromkeys(GOALS, 0.01),
            3,
            1.0,
            on_front=True,
        )
        for number in (0, 2, 1)
    )
    end = FrontConfirmation(GOALS, members, knee=2, level=0.05, trainings=9, planned=9)
    write_confirmation(home / CONFIRM_FILE, [], end)
    facts = json.loads(best("--json").stdout)
    assert (facts["knee"], [one["trial"] for one in facts["front"]]) == (2, [0, 3, 1])
    assert json.loads(best("--pick", "knee", "--json").stdout)["trial"] == 2
    assert "  the knee\n" in best().stdout
    status = CliRunner().invoke(main, ["status", "run", "--json"])
    assert json.loads(status.stdout)["best"]["trial"] == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--json", "-f", "yaml"), "--json and -f yaml"),
        (("--json", "-f", "args"), "--json and -f args"),
        (("--json", "-f", "text"), "--json and -f text"),
        (("-k", "2", "--pick", "knee"), "-k selects several trials and --pick one"),
        (("-k", "2", "--interval", "0.9"), "--interval compares the winner"),
        (("-f", "args", "--interval", "0.9"), "--interval compares the winner"),
        (("-k", "0"), "x>=1"),
    ],
)
def test_what_contradicts_itself_is_refused(run, arguments, message):
    """Before anything is read."""
    result = best(*arguments)
    assert result.exit_code == 2 and message in " ".join(result.stderr.split())


def test_json_said_twice_is_no_contradiction(run):
    """Both mean the same."""
    assert best("--json", "-f", "json").stdout == best("--json").stdout


@pytest.mark.parametrize("options", [("-k", "3"), ("-f", "args"), ("-k", "3", "--json")], ids=" ".join)
def test_the_record_is_enough(run, options):
    """Neither torch nor a host is loaded, nor the model of the file."""
    code = (
        "import sys; from hpometrics.cli.main import main; main(sys.argv[1:], standalone_mode=False)\n"
        "print(sorted({'torch', 'optuna', 'ray', 'pydantic', 'numpy'} & set(sys.modules)))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code, "best", "run", *options], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "[]"


def test_the_list_of_a_sweep_is_that_of_its_table(swept, folder):
    """What `run` prints, in the same order."""
    printed = swept(SWEEP).stdout
    (folder / "runs" / "sweep").rename(folder / "run")
    rows = [line for line in best("-k", "2").stdout.splitlines() if line.startswith(("    1", "    2"))]
    assert len(rows) == 2 and all(row.split() in [r.split() for r in printed.splitlines()] for row in rows)
