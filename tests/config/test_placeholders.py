"""The placeholders of a program's command: what each becomes, and what `check` says of a wrong one."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from sample_sweeps import plan_of, problems_of

from hpometrics.config.placeholders import Filling, fill, program_path
from hpometrics.exceptions import ConfigError

PARAMS = {
    "lr": 0.02,
    "width": 64,
    "nesterov": True,
    "amsgrad": False,
    "decay": None,
    "layers": [64, "x y"],
    "note": 'it\'s $HOME; `ls` "{lr}"',
    "optimizer": {"type": "adam", "eps": 1e-08},
    "empty": "",
    "token": {"secret": "HUB_TOKEN"},
    "hub": {"keys": [{"secret": "HUB_TOKEN"}], "user": "ada"},
}
TRIAL = Filling(PARAMS, 7, Path("/runs/a b/trials/0003"))
SWEEP = """\
engine: {command: COMMAND, params: {token: {secret: HUB_TOKEN}, optimizer: {type: adam}}}
space:
  lr: {float: [0.1, 1]}
  size: {choice: {small: {depth: 2}, large: {depth: 3, width: 8}}}
  momentum: {float: [0, 1], when: {lr: 0.1}}
metrics: {optimize: accuracy}
budget: {trials: 2, epochs: 3}
"""


def sweep(*command: str) -> str:
    """A sweep of a program with this command."""
    return SWEEP.replace("COMMAND", json.dumps(command)).replace("when: {lr: 0.1}", "when: {size: small}")


def test_arguments_are_one_for_each_param():
    """Nulls and secrets are left out, nested params have dotted names, and no text is read by a shell."""
    assert fill(["{args}"], TRIAL) == [
        "--lr=0.02",
        "--width=64",
        "--nesterov=true",
        "--amsgrad=false",
        '--layers=[64,"x y"]',
        f"--note={PARAMS['note']}",
        "--optimizer.type=adam",
        "--optimizer.eps=1e-08",
        "--empty=",
        "--hub.user=ada",
    ]


def test_booleans_may_be_flags():
    """One that is false is left out."""
    flags = fill(["{args_boolean_flags}"], TRIAL)
    assert flags[:3] == ["--lr=0.02", "--width=64", "--nesterov"]
    assert not any("amsgrad" in flag for flag in flags)


def test_hydra_reads_names_without_hyphens():
    """A null is a value there."""
    arguments = fill(["{args_no_hyphens}"], TRIAL)
    assert arguments[:5] == ["lr=0.02", "width=64", "nesterov=true", "amsgrad=false", "decay=null"]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        ("{lr}", ["0.02"]),
        ("--lr={lr}", ["--lr=0.02"]),
        ("{optimizer.type}-{width}", ["adam-64"]),
        ("--decay={decay}", []),
        ("{momentum}", []),
        ('{"lr": {lr}, "decay": {decay}, "m": {momentum}}', ['{"lr": 0.02, "decay": null, "m": null}']),
        ("--empty={empty}", ["--empty="]),
        ("{seed}", ["7"]),
        ("{dir}/log.csv", ["/runs/a b/trials/0003/log.csv"]),
        ("{checkpoint}", ["/runs/a b/trials/0003/checkpoint"]),
        ("{params_file}", ["/runs/a b/trials/0003/params.json"]),
        ("{{lr}}", ["{lr}"]),
        ("{{{lr}}}", ["{{lr}}"]),
        ("${{args}}", ["${args}"]),
        ("{}", ["{}"]),
        ("{ print $1 }", ["{ print $1 }"]),
        ("a{2}", ["a{2}"]),
        ("$HOME ${HOME}", ["$HOME ${HOME}"]),
    ],
)
def test_a_placeholder_within_an_argument(part, expected):
    """The argument of an absent or null param is left out; braces around other text stand for themselves."""
    assert fill([part], TRIAL) == expected


def test_macros_of_wandb_mean_the_same(monkeypatch):
    """Values are as Python prints them; a variable of the environment is filled in."""
    trial = Filling({"lr": 0.1, "on": True, "off": False, "none": None, "sizes": [1, 2]}, 7, Path("/t"))
    assert fill(["${args}"], trial) == [
        "--lr=0.1",
        "--on=True",
        "--off=False",
        "--none=None",
        "--sizes=[1, 2]",
    ]
    assert fill(["${args_no_hyphens}"], trial)[:2] == ["lr=0.1", "on=True"]
    assert fill(["${args_no_boolean_flags}"], trial) == ["--lr=0.1", "--on", "--none=None", "--sizes=[1, 2]"]
    assert fill(["${args_no_equals}"], trial)[:4] == ["--lr", "0.1", "--on", "True"]
    assert fill(["${args_append_hydra}", "${args_override_hydra}"], trial)[::5] == ["+lr=0.1", "++lr=0.1"]
    assert json.loads(fill(["${args_json}"], trial)[0]) == dict(trial.params)
    assert fill(["${args_json_file}"], trial) == ["/t/params.json"]
    assert fill(["${env}", "${interpreter}"], trial) == ["/usr/bin/env", sys.executable]
    monkeypatch.setenv("DATA", "/data set")
    assert fill(["--data=${envvar:DATA}"], trial) == ["--data=/data set"]
    monkeypatch.delenv("DATA")
    with pytest.raises(ConfigError, match="the environment variable DATA"):
        fill(["--data=${envvar:DATA}"], trial)


def test_the_path_of_a_program_begins_with_the_interpreter_of_hpometrics(monkeypatch):
    """So `python` has what is installed beside hpometrics, unless the user has activated an environment."""
    home = str(Path(sys.executable).parent)
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    assert program_path() == f"{home}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", f"/usr/bin:{home}/")
    assert program_path() == f"/usr/bin:{home}/"
    monkeypatch.setenv("PATH", "/usr/bin")
    monkeypatch.setenv("VIRTUAL_ENV", "/home/ada/project")
    assert program_path() == "/usr/bin"


@pytest.mark.parametrize("part", ["{seed}", "{optimizer.type}", "{checkpoint}", "${interpreter}"])
def test_a_command_that_passes_no_param_of_the_space_is_refused(part):
    """Its trials would all be the same, and one of them the best; a fixed param is no other trial."""
    [problem] = problems_of(sweep("python", "train.py", part))
    assert "engine.command: does not pass any param of the space (lr, " in problem
    assert "write" not in problem and "add {args}, --lr={lr} or {params_file}" in problem


@pytest.mark.parametrize("part", ["{args}", "--lr={lr}", "{depth}", "{params_file}", "{dir}", "${args_json}"])
def test_a_command_that_passes_a_param_is_a_sweep(part):
    """By an argument, the file of the params or its directory."""
    assert problems_of(sweep("python", "train.py", part)) == []


def test_a_command_whose_params_are_in_wandb_config_is_a_sweep():
    """With `metrics_from: wandb` the program reads them from `wandb.config`."""
    text = sweep("python", "train.py").replace('"train.py"]', '"train.py"], metrics_from: wandb')
    assert problems_of(text) == []


def test_a_param_of_the_same_name_comes_first():
    """A sweep over seeds passes its own."""
    assert fill(["--seed={seed}"], Filling({"seed": 11}, 7, Path("/t"))) == ["--seed=11"]
    assert fill(["--seed={seed}", "x"], Filling({"seed": None}, 7, Path("/t"))) == ["x"]


@pytest.mark.parametrize(
    ("part", "problem"),
    [
        ("{larr}", "{larr} is not a param of the sweep or a placeholder; did you mean 'lr'?"),
        ("{arg}", "did you mean 'args'?; write {{arg}} for the text"),
        ("{zzz}", "it is none of optimizer.type, lr, depth, width, momentum, args"),
        ("{size}", "{size} is not a param of the sweep"),
        ("x{args}", "{args} expands to several arguments; make it a separate argument"),
        ("x${args}", "${args} expands to several arguments"),
        ("${arg}", "${arg} is not a placeholder; did you mean 'args'?; write ${{arg}} for the text"),
        ("${program}", "${program} stands for engine.program, which is missing; add program: train.py"),
        ("${progam}", "${progam} is not a placeholder; did you mean 'program'?"),
        ("{program}", "{program} is not a param of the sweep or a placeholder; did you mean '${program}'?"),
        ("--token={token}", "{token} is a secret, and other users of the machine can see arguments"),
    ],
)
def test_check_names_a_wrong_placeholder(part, problem):
    """With its place, and what was probably meant."""
    problems = problems_of(sweep("python", part))
    assert len(problems) == 1 and problem in problems[0] and "engine.command[1]: " in problems[0]


def engine(**keys: object) -> str:
    """A sweep with this section `engine`."""
    text = SWEEP.replace(SWEEP.splitlines()[0], f"engine: {json.dumps(keys)}")
    return text.replace("when: {lr: 0.1}", "when: {size: small}")


@pytest.mark.parametrize(
    ("keys", "command"),
    [
        ({}, ["/usr/bin/env", sys.executable, "train.py", "--lr=0.1", "--on=True"]),
        ({"command": ["sh", "-c", "${program} {lr}"]}, ["sh", "-c", "train.py 0.1"]),
        ({"command": ["${program}", "${{program}}", "{lr}"]}, ["train.py", "${program}", "0.1"]),
    ],
)
def test_a_program_stands_in_its_command(keys, command):
    """In that of W&B unless the file has another."""
    line = plan_of(engine(program="train.py", **keys)).config.engine.command_line
    assert fill(line, Filling({"lr": 0.1, "on": True}, 7, Path("/t"))) == command


@pytest.mark.parametrize(
    ("keys", "problem"),
    [
        ({"command": ["python", "b.py", "{args}"]}, "engine.program: command does not contain ${program}"),
        ({"target": "a:train"}, "engine: an engine is one of target and program, not several"),
        ({"target": "a:b", "command": ["${program}", "{args}"]}, "an engine is one of target and program"),
        ({"program": "{larr}.py"}, "engine.program: {larr} is not a param of the sweep or a placeholder"),
        ({"program": "{args}"}, "engine.program: {args} expands to several arguments"),
        ({"program": "${program}"}, "engine.program: ${program} stands only in engine.command"),
        ({"program": ["train.py"]}, "engine.program: expected text, got a list"),
        ({"program": ""}, "engine.program: "),
        ({"program": None}, "engine: an engine needs one of target, choice, program, command"),
    ],
)
def test_check_names_what_is_wrong_with_a_program(keys, problem):
    """A program and a command are one way to train, and each needs to fit the other."""
    problems = problems_of(engine(**{"program": "train.py", **keys}))
    assert len(problems) == 1 and problem in problems[0], problems


def test_a_param_may_be_called_program():
    """`{program}` is the param, and `${program}` the program."""
    text = engine(program="train.py", params={"program": "x"}, command=["${program}", "{program}", "{lr}"])
    line = plan_of(text).config.engine.command_line
    assert fill(line, Filling({"program": "x", "lr": 0.1}, 7, Path("/t"))) == ["train.py", "x", "0.1"]


@pytest.mark.parametrize("part", ["{args}", "${args}"])
def test_the_program_comes_first(part):
    """Its first param would be run."""
    (problem,) = problems_of(sweep(part))
    assert f"engine.command[0]: {part} comes after the program, as in [python, train.py, '{part}']" in problem


def test_check_accepts_what_a_trial_fills_in():
    """Params of bundles and conditional ones, and variables of a shell."""
    parts = ["{args}", "{lr}", "--depth={depth}", "{width}", "{momentum}", "{optimizer.type}", "${HOME}"]
    assert problems_of(sweep("python", "{{typo}}", "{dir}", *parts)) == []
