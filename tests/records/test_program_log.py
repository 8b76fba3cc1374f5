"""`hpometrics.log`, by which a program reports to the sweep that runs it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys

import numpy as np
import pytest
import torch

import hpometrics
from hpometrics.exceptions import RunError
from hpometrics.records import program_log


@pytest.fixture
def file(tmp_path, monkeypatch):
    """The file that the sweep reads."""
    monkeypatch.setenv(program_log.VARIABLE, str(tmp_path / "log.jsonl"))
    for name in ("RANK", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "log.jsonl"


def test_each_call_is_a_line(file):
    """Whatever kind of number a value is."""
    hpometrics.log(accuracy=torch.tensor(0.5), loss=np.float32(0.25), epoch=0)
    hpometrics.log({"val/acc": 1, "f1": None}, mcc=np.array([2.0]))
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines == [{"accuracy": 0.5, "loss": 0.25, "epoch": 0}, {"val/acc": 1, "f1": None, "mcc": 2.0}]


@pytest.mark.parametrize("variable", ["RANK", "LOCAL_RANK"])
def test_the_first_process_reports(file, monkeypatch, variable):
    """The others of a group would report the same epoch again."""
    monkeypatch.setenv(variable, "1")
    hpometrics.log(accuracy=0.5)
    assert not file.exists()
    monkeypatch.setenv(variable, "0")
    hpometrics.log(accuracy=0.5)
    assert file.exists()


def test_without_a_sweep_nothing_happens(monkeypatch):
    """The logger of the package says so once."""
    monkeypatch.delenv(program_log.VARIABLE, raising=False)
    program_log._note_absence.cache_clear()
    notes: list[str] = []
    monkeypatch.setattr(logging.getLogger("hpometrics"), "handle", lambda record: notes.append(record.msg))
    hpometrics.log(accuracy=0.5)
    hpometrics.log(accuracy=0.6)
    assert notes == [
        "hpometrics.log reports to a sweep, but no sweep runs this program; its values are dropped"
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "log needs the values of an epoch"),
        ({"accuracy": "0.5"}, r"log\(accuracy=...\) takes a number or None, got str '0.5'"),
        ({"accuracy": torch.zeros(2)}, r"log\(accuracy=...\) takes a number or None, got Tensor"),
        ({"right": True}, r"log\(right=...\) takes a number or None, got bool True"),
        ({"right": np.bool_(True)}, r"log\(right=...\) takes a number or None, got bool True"),
    ],
)
def test_what_is_not_a_number_is_refused(values, message, file):
    """With or without a sweep."""
    with pytest.raises(RunError, match=message):
        hpometrics.log(values)


@pytest.mark.parametrize("epoch", [2.7, float("nan")])
def test_an_epoch_is_a_whole_number(epoch, file):
    """Some trainers count in fractions; a whole one of theirs will do."""
    with pytest.raises(RunError, match=r"log\(epoch=...\) takes a whole number, got"):
        hpometrics.log(accuracy=0.5, epoch=epoch)
    hpometrics.log(accuracy=0.5, epoch=2.0)
    assert json.loads(file.read_text()) == {"accuracy": 0.5, "epoch": 2}


def test_a_program_loads_little(tmp_path):
    """Neither torch nor a library for configs or searches."""
    heavy = "{'torch', 'numpy', 'optuna', 'ray', 'pydantic', 'yaml'}"
    script = f"import sys, hpometrics\nhpometrics.log(accuracy=1)\nassert not {heavy} & sys.modules.keys()"
    ran = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
