"""What a Ray worker loads: Tune starts the next one only when this one has loaded what it is to call."""

from __future__ import annotations

import pickle
import subprocess
import sys

from matrix import EXHAUSTIVE

from hpometrics.backends.ray.trainable import train_shared


def printed(code: str) -> str:
    """What a process of its own prints."""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()


def test_what_tune_calls_is_loaded_before_what_measures():
    """Workers would start one after the other if each first loaded torch."""
    code = """
import sys, ray.tune, hpometrics.backends.ray.trainable
print({"torch", "torchmetrics", "optuna", "sqlalchemy", "hpometrics.run.trials"} & set(sys.modules))
"""
    assert printed(code) == "set()"


def test_the_function_of_a_tuner_is_found_by_its_name():
    """By value it would take with it all that measures, which the trials bring by Ray's object store."""
    assert train_shared.__module__ == "hpometrics.backends.ray.trainable"
    assert len(pickle.dumps(train_shared)) < 100


@EXHAUSTIVE
def test_a_worker_trains_without_optuna_and_records_its_version():
    """The driver draws the params; a Tuner of your own draws them without Optuna, and counts no trials."""
    code = """
import sys
from hpometrics import Reported
from hpometrics.run.spec import RunSpec
from hpometrics.run.trial import run_trial
from hpometrics.backends.ray.reporter import TuneReporter
from importlib.metadata import version
spec = RunSpec(metric=Reported("loss", "minimize"))
def versions(number):
    return run_trial(lambda params, run: None, {}, spec, TuneReporter(number)).versions
drawn, given = versions(0), versions(None)
print({"optuna", "sqlalchemy"} & set(sys.modules), drawn["optuna"] == version("optuna"), sorted(given))
"""
    assert printed(code) == "set() True ['python', 'ray', 'torch']"
