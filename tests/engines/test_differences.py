from __future__ import annotations

from hpometrics import EngineParams
from hpometrics.engines.result import differences


def test_only_what_differs_is_said():
    """Stages by their names; several algorithms joined."""
    found = differences(
        [
            EngineParams({"folds": 3}, ("words", {"n": 1}), [("a", {"x": 0.1})]),
            EngineParams({"folds": 3}, ("words", {"n": 2}), [("a", {"x": 0.1}), ("b", {})]),
        ]
    )
    assert found == ["words(n=1), a(x=0.1)", "words(n=2), a(x=0.1) + b()"]


def test_where_nothing_differs_all_is_said():
    """Stages without params and name say nothing."""
    assert (
        differences([EngineParams({"folds": 3}, algorithms=("a", {}))] * 2)
        == ["data_source(folds=3), a()"] * 2
    )
    assert differences([EngineParams()]) == [""]


def test_any_value_is_said():
    """As JSON where it has one."""
    params = [EngineParams(algorithms={"of": value}) for value in ([1, "é"], {"k": None}, int)]
    assert differences(params) == [
        'algorithms(of=[1, "é"])',
        'algorithms(of={"k": null})',
        "algorithms(of=\"<class 'int'>\")",
    ]
