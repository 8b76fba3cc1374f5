"""What a Ray worker loads: Tune starts the next one only when this one has loaded what it is to call."""

from __future__ import annotations

import pickle
import subprocess
import sys

from hpometrics.ray_objective import train_one


def printed(code: str) -> str:
    """What a process of its own prints."""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_what_tune_calls_is_loaded_before_what_measures():
    """Workers would start one after the other if each first loaded torch."""
    code = """
import sys, ray.tune, hpometrics.run.ray_trial
print({"torch", "torchmetrics", "optuna", "sqlalchemy", "hpometrics.run.trials"} & set(sys.modules))
"""
    assert printed(code) == "set()"


def test_the_function_of_a_tuner_is_found_by_its_name():
    """By value it would take with it all that measures, which the trials bring by Ray's object store."""
    assert train_one.__module__ == "hpometrics.run.ray_trial"
    assert len(pickle.dumps(train_one)) < 100


def test_a_worker_trains_without_optuna_and_records_its_version():
    """The driver draws the params; the version that drew them is in the record as it was."""
    code = """
import sys, ray.tune, hpometrics.run.ray_trial, hpometrics.run.trials
from hpometrics.run.conditions import versions
from importlib.metadata import version
print({"optuna", "sqlalchemy"} & set(sys.modules), versions()["optuna"] == version("optuna"))
"""
    assert printed(code) == "set() True"
