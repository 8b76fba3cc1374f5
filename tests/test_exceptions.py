from __future__ import annotations

import inspect
import pickle

import pytest

from hpometrics import exceptions
from hpometrics.exceptions import HpometricsError, UnknownMetricError, missing_extra

CLASSES = [cls for _, cls in inspect.getmembers(exceptions, inspect.isclass) if cls is not HpometricsError]


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_every_error_is_ours_and_a_builtin(cls):
    """One `except HpometricsError` catches all; so does the builtin that a user would think of."""
    assert issubclass(cls, HpometricsError)
    assert issubclass(cls, (ValueError, KeyError, TypeError, ImportError, OSError))


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_an_error_crosses_processes(cls):
    """A worker's error reaches its parent as the same error with the same text."""
    error = pickle.loads(pickle.dumps(cls("no metric 'brir'")))
    assert type(error) is cls
    assert str(error) == "no metric 'brir'"


def test_an_unknown_metric_prints_its_sentence():
    """KeyError would print the repr, with quotes around the sentence."""
    assert str(UnknownMetricError("no metric 'brir'")) == "no metric 'brir'"


def test_a_missing_extra_has_the_pip_line():
    """The error names what needs which package, and how to get it."""
    assert str(missing_extra("results.report", "plotly", "report")) == (
        "results.report needs plotly, which is not installed: pip install 'plotly>=6'"
    )
