from __future__ import annotations

import html
import json
import sys
from base64 import b64encode
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner
from sample_sweeps import changed, problems_of

from hpometrics._redaction import HIDDEN
from hpometrics.cli.main import main

TOKEN = "hf-0123456789.secret"
ENGINE = """\
import os


def train(params, run):
    assert params["token"] == os.environ["HUB_TOKEN"] == params["nested"]["a"][0]
    print("trained as", run.params["token"])
    for epoch in run.epochs(1):
        run.log(gap=params["lr"])
    if run.params.get("fails"):
        raise RuntimeError(f"401 Unauthorized for https://ada:pw@hub/x with {params['token']}")
"""
TEXT = """\
engine:
  target: secretive:train
  params: {token: {secret: HUB_TOKEN}, nested: {a: [{secret: HUB_TOKEN}]}}
space: {lr: {choice: [0.5, 0.25]}}
metrics: {optimize: {metric: gap, direction: minimize}}
search: {sampler: grid}
budget: {epochs: 1}
results: {report: md, loggers: [table]}
"""
STAGED = """\
engine: {target: toy_stages:Guesser, output: number, params: {algorithms.once.token: {secret: HUB_TOKEN}}}
space: {algorithms.once.guess: {choice: [1.0, 2.5]}}
metrics: {optimize: mae}
search: {sampler: grid}
budget: {trials: 2}
"""


@pytest.fixture
def secretive(folder, monkeypatch) -> Path:
    """A folder with an engine that wants a token, which is in the environment."""
    monkeypatch.setattr("hpometrics._redaction._revealed", set())
    monkeypatch.setenv("HUB_TOKEN", TOKEN)
    monkeypatch.delitem(sys.modules, "secretive", raising=False)
    (folder / "secretive.py").write_text(ENGINE)
    return folder


def everything_in(folder: Path) -> bytes:
    """All bytes of all files."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_secret_reaches_the_training_function_and_nothing_else(secretive, sweep):
    """Files hold the name of the variable, tables stars; best.yaml has what `engine.params` takes."""
    result = sweep(TEXT)
    assert result.exit_code == 0, result.stderr
    assert "trained as {'secret': 'HUB_TOKEN'}" in result.stderr
    assert "token: ***" in result.stdout
    told = everything_in(secretive) + (result.stdout + result.stderr).encode()
    assert TOKEN.encode() not in told
    record = json.loads((secretive / "runs/sweep/trials/0000/trial.json").read_text())
    assert record["params"]["token"] == {"secret": "HUB_TOKEN"}
    assert "token: {secret: HUB_TOKEN}" in (secretive / "runs/sweep/best.yaml").read_text()


def test_a_secret_in_an_error_is_hidden(secretive, sweep):
    """In the reason, in the traceback beside the record, on the terminal, in the study."""
    result = sweep(TEXT.replace("params: {", "params: {fails: true, "))
    assert result.exit_code == 3, result.stderr
    trial = secretive / "runs/sweep/trials/0000"
    reason = json.loads((trial / "trial.json").read_text())["reason"]
    assert reason == "RuntimeError: 401 Unauthorized for https://***@hub/x with ***"
    assert "401 Unauthorized for https://***@hub/x with ***" in (trial / "error.txt").read_text()
    told = everything_in(secretive / "runs") + (result.stdout + result.stderr).encode()
    assert TOKEN.encode() not in told and b"ada:pw" not in told


HARD_TOKEN = """it's\\n "7" ß€𝄞
-----BEGIN KEY-----
MIIEvQIBADANBgkqhkiG9w0BAQEF+/ASC"""
"""A secret with all that is escaped."""
LEAKING = """\
import base64
import json
from urllib.parse import quote

import optuna


def train(params, run):
    token, where = params["token"], run.params["where"]
    forms = (token, {"a": [token]}, token.encode(), json.dumps({"a": repr(token)}), quote(token))
    text = f"{forms} {base64.b64encode(b'u:' + token.encode()).decode()} {ascii(token)}"
    if where == "return":
        return ["x" * 50 + token, params]
    for epoch in run.epochs(2):
        run.undefined(other=text)
        if where == "name":
            run.log(**{token.splitlines()[-1]: 1.0})
        if where == "logged":
            run.log(late=token)
        run.log(gap=0.5)
        if where == "pruned":
            raise optuna.TrialPruned(text)
    if where == "raise":
        raise KeyError(text) from OSError(2, text, token)
"""


@pytest.mark.parametrize("where", ["raise", "pruned", "return", "name", "logged", "undefined"])
def test_a_secret_is_in_no_file_in_any_form(where, secretive, sweep, monkeypatch):
    """However the engine leaks it: no line of it is in a file, the study, the report, or on the terminal."""
    monkeypatch.setenv("HUB_TOKEN", HARD_TOKEN)
    (secretive / "secretive.py").write_text(LEAKING)
    text = TEXT.replace("params: {", f"params: {{where: {where}, ").replace("report: md", "report: html")
    text = text.replace(
        "direction: minimize}}", "direction: minimize}, track: [{metric: other, direction: minimize}]}"
    )
    result = sweep(text.replace("epochs: 1", "epochs: 2"))
    code = {"undefined": 0, "raise": 3, "pruned": 3}.get(where, 4)  # the others fail before an epoch
    assert result.exit_code == code, result.stderr
    told = result.stdout + result.stderr
    home = secretive / "runs/sweep"
    for command in (["trials"], ["epochs", "0"], ["report", "-f", "md"], ["status"], ["report"]):
        told += CliRunner().invoke(main, [command[0], str(home), *command[1:]]).output
    told = (told.encode() + everything_in(secretive / "runs")).decode("utf8", "backslashreplace")
    assert HIDDEN in told
    for line in HARD_TOKEN.splitlines():
        for form in (
            line,
            repr(line)[1:-1],
            ascii(line)[1:-1],
            json.dumps(line)[1:-1],
            quote(line),
            html.escape(line),
        ):
            assert form not in told
    for part in ("MIIEvQ", "BEGIN", "wMAQEF", b64encode(b"EGIN KEY").decode()[2:-4], "it's", '7\\" '):
        assert part not in told, part


def test_a_missing_variable_ends_before_the_first_trial(secretive, sweep, monkeypatch):
    """It is named with its place in the file; `check` does not look."""
    monkeypatch.delenv("HUB_TOKEN")
    assert sweep(TEXT, command="check").exit_code == 0
    result = sweep(TEXT)
    assert result.exit_code == 2
    assert "sweep.yaml:3:3: engine.params: the environment variable HUB_TOKEN" in result.stderr
    assert not (secretive / "runs").exists()


@pytest.mark.parametrize(
    "secret", ["{secret: hf_abc}", "{secret: 3}", "{secret: A, x: 1}", "{a: [{secret: ''}]}"]
)
def test_the_name_of_a_variable_is_wanted(secret):
    """What looks like the secret itself is refused before anything is written."""
    [found] = problems_of(changed("output: binary", f"output: binary, params: {{token: {secret}}}"))
    assert "engine.params: token expected {secret: NAME}, where NAME is an environment" in found


def test_an_engine_of_stages_takes_no_secret(secretive, sweep):
    """Its engine params are written to best.json as they are."""
    result = sweep(STAGED)
    assert result.exit_code == 2
    assert "engine.params: engine params are stored in plain text; let the stage read" in result.stderr
    assert not (secretive / "runs").exists()
