"""Windows: metrics and objectives work there, and what starts processes refuses in one sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest
from shipped import CONFIGS, call

CODE = """
import sys
import optuna, ray  # Ray of Linux reads `resource` itself
import os
for name in ("fork", "forkpty", "geteuid", "getpgid", "getuid", "killpg", "setpgid", "setsid"):
    delattr(os, name)
for name in ("fcntl", "grp", "pwd", "resource", "termios"):
    sys.modules[name] = None

import torch
import hpometrics
from hpometrics import *

assert all(hasattr(hpometrics, name) for name in hpometrics.__all__)
target = torch.tensor([0, 1, 1, 0])
logits = torch.tensor([-1.0, 2.0, 0.5, 1.0])
panel = MetricCollection(["accuracy", "roc_auc"], output=Binary())
panel.update(logits=logits, target=target)
assert panel.compute()["accuracy"] == 0.75


@engine(output=Binary())
def train(params, run):
    for _ in run.epochs(2):
        run.update(logits=logits * params["scale"], target=target)


space = {"scale": Float(0.5, 2.0)}
objective = OptunaObjective(train, space, metric="log_loss", directory=sys.argv[1], seed=7)
study = objective.create_study()
study.optimize(objective, n_trials=2)
best = objective.best(study)
print(f"{len(study.trials)} trials, epoch {best.epoch}")
"""


def test_metrics_and_objectives_need_no_posix(tmp_path):
    """Without the functions and modules that Windows lacks: every public name, a panel, a study on disk."""
    ran = subprocess.run(
        [sys.executable, "-c", CODE, str(tmp_path)], capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout == "2 trials, epoch 0\n"


@pytest.mark.parametrize("command", [("run", CONFIGS[0]), ("worker", ".")], ids=lambda command: command[0])
def test_a_sweep_is_refused_where_the_system_is_not_posix(command, monkeypatch):
    """It says what it needs, what it got and what works instead; a check works everywhere."""
    monkeypatch.delattr("os.killpg")
    monkeypatch.setattr("sys.platform", "win32")
    refused = call(*command)
    assert refused.exit_code == 2
    assert f"hpometrics {command[0]} needs a POSIX system such as Linux, got win32; use WSL" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_a_dry_run_needs_no_posix(monkeypatch):
    """It starts nothing."""
    monkeypatch.delattr("os.killpg")
    assert call("run", CONFIGS[0], "--dry-run").exit_code == 0
