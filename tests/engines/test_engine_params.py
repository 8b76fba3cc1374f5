"""Engine params: four named stages that do not change, and PredictionIO's layout both ways."""

from __future__ import annotations

import copy
import pickle
import re
import threading
from collections import UserDict, UserList
from dataclasses import FrozenInstanceError, dataclass
from pathlib import PurePosixPath

import numpy as np
import pytest

from hpometrics import EngineParams
from hpometrics.engines.engine import Stage
from hpometrics.engines.engine_params import params_list
from hpometrics.exceptions import EngineParamsError

BASE = EngineParams(data_source={"appId": 19, "evalK": 5}, algorithms=[("naive", {"lambda": 10.0})])

LINE = (
    '{"dataSourceParams":{"":{"appId":19,"evalK":5}},"preparatorParams":{"":{}},'
    '"algorithmParamsList":[{"naive":{"lambda":10.0}}],"servingParams":{"":{}}}'
)

BLOCK = """{
  "dataSourceParams":{
    "":{
      "appId":19,
      "evalK":5
    }
  },
  "preparatorParams":{
    "":{
      #
    }
  },
  "algorithmParamsList":[
    {
      "naive":{
        "lambda":10.0
      }
    }
  ],
  "servingParams":{
    "":{
      #
    }
  }
}""".replace("#", "")  # lines of nothing but spaces


@dataclass
class Size:
    width: int
    kernel: tuple[int, int] = (3, 3)


def test_configs_of_other_libraries_are_params():
    """Mappings and lists that are not dicts and lists, as OmegaConf's, and a dataclass for a stage."""
    params = EngineParams(Size(3), algorithms=[("a", UserDict(layers=UserList([1, UserDict(b=2)])))])
    assert params == EngineParams(
        {"width": 3, "kernel": (3, 3)}, algorithms=[("a", {"layers": [1, {"b": 2}]})]
    )
    assert EngineParams({"size": Size(3)}).data_source.params["size"] == Size(3)  # a value may be one


def test_they_print_as_predictionio_logs_them():
    """One line without spaces, every stage with its name."""
    assert str(BASE) == LINE


def test_the_block_is_predictionio_s_character_by_character():
    """An empty object holds a line of nothing but its indent."""
    assert BASE.pretty() == BLOCK


def test_the_names_default_to_nothing():
    """A stage is its params, or its name and its params."""
    params = EngineParams({"a": 1}, ("tfidf", {"n": 2}), {"lambda": 1.0}, ["vote", {}])
    assert params.data_source == Stage("", {"a": 1})
    assert params.preparator == ("tfidf", {"n": 2})
    assert params.algorithms == (("", {"lambda": 1.0}),)
    assert params.serving == ("vote", {})
    assert (
        EngineParams(algorithms=("naive", {})).algorithms
        == EngineParams(algorithms=[("naive", {})]).algorithms
    )


@pytest.mark.parametrize("write", [EngineParams.to_json, EngineParams.to_variant, str, EngineParams.pretty])
def test_they_are_read_back_from_all_that_they_write(write):
    """Both layouts of PredictionIO, as text or as dicts, give the same engine params, types included."""
    params = BASE.copy(algorithms=[("naive", {"lambda": 1, "deep": [{"on": True, "none": None}]}), ("", {})])
    assert EngineParams.from_json(write(params)) == params


def test_a_variant_is_predictionio_s_engine_json():
    """Its other keys are of no concern; a stage that is left out has no params."""
    variant = {
        "id": "default",
        "engineFactory": "a.b",
        "algorithms": [{"name": "naive", "params": {"lambda": 1.0}}],
    }
    assert EngineParams.from_json(variant) == EngineParams(algorithms=[("naive", {"lambda": 1.0})])


def test_the_json_of_values_that_have_no_json():
    """Arrays and tuples are lists, a dataclass a dict; nan is its name, as strict JSON has none."""
    stage = {"a": np.arange(2), "b": (1, 2), "c": float("nan"), "d": np.float64(0.5), "e": Size(8)}
    written = EngineParams(data_source=stage).to_json()["dataSourceParams"][""]
    assert written == {"a": [0, 1], "b": [1, 2], "c": "nan", "d": 0.5, "e": {"width": 8, "kernel": [3, 3]}}


def test_what_has_no_form_in_json_is_refused_unless_told_how():
    """What could not be read back is named by its path; printed, it is its repr."""
    params = EngineParams(algorithms=[("a", {"path": PurePosixPath("x")})])
    with pytest.raises(
        EngineParamsError, match=r"algorithms\[0\]\.params\.path: a PurePosixPath cannot be stored as"
    ):
        params.to_json()
    assert params.to_json(default=str)["algorithmParamsList"] == [{"a": {"path": "x"}}]
    assert "PurePosixPath('x')" in str(params)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("{", "engine params must be JSON"),
        ("[]", "a mapping of stages, got list"),
        ({"dataSource": {}}, "dataSource: not a stage of engine params; the stages are algorithmParamsList"),
        ({"dataSourceParams": {"a": 1}}, "dataSourceParams: one name with its params"),
        ({"algorithmParamsList": {"naive": {}}}, "algorithmParamsList: expected a list of algorithms"),
        ({"algorithmParamsList": [{"a": {}, "b": {}}]}, r"algorithmParamsList\[0\]: one name"),
        ({"algorithms": [{"nmae": "naive"}]}, r"algorithms\[0\]: {\"name\""),
    ],
)
def test_other_json_is_refused_by_its_place(given, message):
    """What is wrong is named as it is written in the file."""
    with pytest.raises(EngineParamsError, match=message):
        EngineParams.from_json(given)


@pytest.mark.parametrize(
    ("stages", "message"),
    [
        ({"data_source": 3}, r"data_source must be the params of a stage or \(name, params\).*got int: 3"),
        ({"algorithms": []}, "algorithms is empty"),
        ({"algorithms": ["naive"]}, r"algorithms\[0\] must be the params of a stage"),
        ({"data_source": {"lock": threading.Lock()}}, "data_source.params.lock: a lock cannot be copied"),
        ({"serving": {1: 2}}, "serving.params: the name of a param must be text, got int: 1"),
    ],
)
def test_a_stage_that_is_none_is_refused(stages, message):
    """Names and params are checked where they are given."""
    with pytest.raises(EngineParamsError, match=message):
        EngineParams(**stages)


def test_they_do_not_change():
    """Neither by an attribute, nor by a dict in them, nor by the dicts they were made of."""
    given = {"deep": {"a": 1}, "list": [1]}
    params = EngineParams(data_source=given)
    given["deep"]["a"] = given["list"][0] = 9
    assert params.data_source.params == {"deep": {"a": 1}, "list": [1]}
    with pytest.raises(FrozenInstanceError):
        params.serving = ("", {})  # type: ignore[misc]
    for change in (
        lambda: params.data_source.params.update(a=1),
        lambda: params.data_source.params["deep"].pop("a"),
    ):
        with pytest.raises(EngineParamsError, match=r"derive new ones with copy\(\.\.\.\) or with_values"):
            change()


def test_a_copy_of_params_is_an_ordinary_dict():
    """A stage may change what it is given."""
    own = copy.deepcopy(EngineParams(serving={"deep": {"a": 1}}).serving.params)
    own["deep"]["a"] = 2
    assert type(own) is type(own["deep"]) is dict


def test_they_are_equal_by_structure_and_type():
    """They are usable as keys, also in another process; True, 1 and 1.0 are three candidates."""
    values = (True, 1, 1.0, float("nan"))
    candidates = {EngineParams(algorithms={"x": value}) for value in (*values, *values)}
    assert len(candidates) == 4
    assert {pickle.loads(pickle.dumps(params)) for params in candidates} == candidates


def test_a_copy_differs_in_the_stages_named():
    """PredictionIO's `copy(...)`: the base stays what it is."""
    derived = BASE.copy(algorithms=[("tree", {"depth": 3})])
    assert derived.data_source == BASE.data_source
    assert (derived.algorithms, BASE.algorithms[0].name) == ((("tree", {"depth": 3}),), "naive")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("data_source.evalK", ["data_source", "evalK"]),
        ("preparator.tfidf.n", ["preparator", "n"]),
        ("preparator.n", ["preparator", "n"]),
        ("algorithms.naive.lambda", [0, "lambda"]),
        ("algorithms.1.layers.0", [1, "layers", 0]),
        ("algorithms.net.optimizer.lr", [1, "optimizer", "lr"]),
        ("serving.new", ["serving", "new"]),
    ],
)
def test_one_value_is_put_where_its_path_leads(path, expected):
    """By the name of a stage or its place, into dicts and lists; all else stays."""
    nets = [("naive", {"lambda": 1.0}), ("net", {"layers": [8, 4], "optimizer": {"lr": 0.1}})]
    base = EngineParams({"evalK": 5}, ("tfidf", {"n": 1}), nets)
    derived = base.with_values({path: "here"})
    first, *rest = expected
    found = (derived.algorithms[first] if isinstance(first, int) else getattr(derived, first)).params
    for part in rest:
        found = found[part]
    assert found == "here"
    assert str(derived).count("here") == 1
    assert "here" not in str(base)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("algorithm.naive.lambda", "no stage 'algorithm'; did you mean 'algorithms'"),
        (
            "algorithms.tree.depth",
            "no algorithms are named 'tree'; choose one by its position, as in algorithms.0, from 'a'",
        ),
        ("algorithms.a.x", "2 algorithms are named 'a'"),
        ("algorithms.b.deep.x", "there is no 'deep' in {'y': 1}"),
        ("algorithms.b.y.z", "'z' can be set only in a dict or a list, got 1"),
        ("serving", "a stage must be named by text, as in serving: naive; got 1"),
        ("algorithms.0", "names a stage but no param of it; write"),
    ],
)
def test_a_path_that_leads_nowhere_is_refused(path, message):
    """A search over a misspelled param would search nothing."""
    params = EngineParams(algorithms=[("a", {}), ("a", {}), ("b", {"y": 1})])
    with pytest.raises(EngineParamsError, match=message):
        params.with_values({path: 1})


def test_every_value_has_its_path():
    """Put back where they came from they change nothing; algorithms of one name are counted."""
    algorithms = [
        ("tree", {"depth": 2}),
        ("tree", {"depth": 3}),
        ("net", {"layers": [8, 4], "o": {"lr": 0.1}}),
    ]
    params = EngineParams({"evalK": 5}, ("tfidf", {"n": 1}), algorithms)
    assert params.values == {
        "data_source.evalK": 5,
        "preparator.tfidf.n": 1,
        "algorithms.0.depth": 2,
        "algorithms.1.depth": 3,
        "algorithms.net.layers": [8, 4],
        "algorithms.net.o.lr": 0.1,
    }
    assert params.with_values(params.values) == params
    assert EngineParams(algorithms={"x": 1}).values == {"algorithms.x": 1}


@pytest.mark.parametrize(
    "params",
    [
        EngineParams(preparator=("k", {"k": {"x": 1}, "x": 2})),
        EngineParams(algorithms=[("k", {"k": {"x": 1}, "x": 2})]),
        EngineParams(algorithms=[("k", {"k": {"k": {"x": 1}}}), ("net", {"k": 3})]),
        EngineParams(algorithms=[("k", {"k": {"x": 1}}), ("k", {"k": {"x": 2}, "x": 3})]),
    ],
    ids=str,
)
def test_a_param_called_like_its_stage_has_a_path(params):
    """The name of a stage stands in a path once; what follows is a param, whatever it is called."""
    values = {path: value + 10 for path, value in params.values.items()}
    assert params.with_values(values).values == values


def test_a_stage_alone_is_its_name():
    """The stage loses the params of another name and keeps its own; of algorithms that one is left."""
    base = EngineParams(preparator=("count", {"n": 1}), algorithms=[("naive", {"lambda": 1.0}), ("tree", {})])
    assert base.with_values({"preparator": "tfidf"}).preparator == ("tfidf", {})
    assert base.with_values({"preparator.n": 2, "preparator": "count"}).preparator == ("count", {"n": 2})
    assert base.with_values({"algorithms": "naive"}).algorithms == (("naive", {"lambda": 1.0}),)
    assert base.with_values({"algorithms.k": 3, "algorithms": "knn"}).algorithms == (("knn", {"k": 3}),)


def test_engine_params_are_made_of_values_alone():
    """Paths of three parts name the stage; what is a param itself is no name."""
    made = EngineParams.of_values(
        {
            "data_source.evalK": 5,
            "preparator": "tfidf",
            "algorithms.naive.lambda": 10.0,
            "algorithms.tree.depth": 3,
            "serving.blend.weights.0": 2.0,
            "serving.blend.weights": [1.0, 1.0],
        }
    )
    algorithms = [("naive", {"lambda": 10.0}), ("tree", {"depth": 3})]
    assert made == EngineParams({"evalK": 5}, ("tfidf", {}), algorithms, ("blend", {"weights": [2.0, 1.0]}))
    nested = EngineParams.of_values({"algorithms.options": {"depth": 1}, "algorithms.options.depth": 4})
    assert nested == EngineParams(algorithms={"options": {"depth": 4}})
    assert EngineParams.of_values({}) == EngineParams()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"algorithm.x": 1}, "no stage 'algorithm'; did you mean 'algorithms'"),
        (
            {"preparator.a.x": 1, "preparator.b.y": 1},
            "preparator is a single stage; its path is 'a' and 'b'",
        ),
        ({"algorithms": "naive", "algorithms.tree.depth": 1}, "has params, but algorithms is 'naive' here"),
        ({"algorithms": 3}, "a stage must be named by text, as in algorithms: naive; got 3"),
        ({"algorithms.a.x": 1, "algorithms.b.x": 1, "algorithms.x": 1}, "no algorithms are named 'x'"),
    ],
)
def test_values_that_make_no_engine_params_are_refused(values, message):
    """By the path at fault."""
    with pytest.raises(EngineParamsError, match=message):
        EngineParams.of_values(values)


def test_what_is_set_in_a_dict_is_not_set_in_the_given_one():
    """The values that were given are those that are recorded, and given to the next."""
    given = {"serving.d": {"k": 1}, "serving.d.k": 2}
    assert EngineParams(serving={"d": {}}).with_values(given).serving.params == {"d": {"k": 2}}
    assert given == {"serving.d": {"k": 1}, "serving.d.k": 2}


def test_paths_to_nothing_are_named_with_those_there_are():
    """Where a search is to vary what is there."""
    params = EngineParams({"evalK": 5}, algorithms=[("naive", {"lambda": 10.0})])
    params.check_values(["data_source.evalK", "algorithms.naive.lambda", "algorithms.lambda"])
    told = r"algorithms.naive.lamda: there is no 'lamda' .*; the values are at data_source.evalK, algorithms"
    with pytest.raises(EngineParamsError, match=told):
        params.check_values(["algorithms.naive.lamda"])


def test_a_param_that_is_only_searched_needs_a_value():
    """The stage is there and has other params; the message has the line to write."""
    params = EngineParams(algorithms=[("SVC", {"gamma": "auto"})])
    told = (
        "algorithms.SVC.C: there is no 'C' in {'gamma': 'auto'}; the values are at algorithms.SVC.gamma; to "
        "search it, give algorithms.SVC any value of 'C', as in {'gamma': 'auto', 'C': ...}"
    )
    with pytest.raises(EngineParamsError, match=f"^{re.escape(told)}$"):
        params.check_values(["algorithms.SVC.C"])


class Grid:
    """PredictionIO's generator: an object with a list."""

    engine_params_list = [BASE.with_values({"algorithms.naive.lambda": x}) for x in (10.0, 100.0)]  # noqa: RUF012


def generated():
    """A generator function."""
    yield from Grid.engine_params_list


class Method:
    def engine_params_list(self):
        return generated()


@pytest.mark.parametrize(
    "source", [Grid, Grid(), generated, generated(), Method, Method(), Grid.engine_params_list]
)
def test_a_list_comes_in_many_forms(source):
    """A list, a generator, a function that gives one, a class or an object that has one."""
    assert [params.algorithms[0].params["lambda"] for params in params_list(source)] == [10.0, 100.0]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([BASE, BASE.to_json()], "entry 1 of the list of engine params is a dict, not EngineParams"),
        ([], "is empty, so there is nothing to evaluate"),
        (
            3,
            "must be an iterable, a function that returns one or an object with engine_params_list, got "
            "int: 3",
        ),
        (BASE, "got EngineParams"),
    ],
)
def test_another_list_is_refused(source, message):
    """The entry that is wrong is named by its index."""
    with pytest.raises(EngineParamsError, match=message):
        params_list(source)
