"""The tools of the matrices: what the short suite runs of one, and what `make metric` runs of all tests."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import matrix
import pytest
from forked import Forked
from matrix import EXHAUSTIVE, covering, failures

ROOT = Path(__file__).parents[2]
LAWS, PAGE = "tests/testing/test_laws.py", "tests/cli/test_metric_pages.py"
VALUES = "tests/metrics/references/test_worked_values.py"
CASES = [("f1", "binary"), ("f1", "set"), ("mcc", "binary"), ("mcc", "set")]


@pytest.fixture(autouse=True)
def every_suite(monkeypatch):
    """Make the cases of both suites, whichever this session has."""
    monkeypatch.setattr(matrix, "_suites", {"short", "exhaustive"})
    monkeypatch.setattr(matrix, "_concern", None)


def test_the_short_suite_has_every_kind():
    """In a few cases, chosen by the most new kinds each time, the first of several; all others are left."""
    parameters = covering(CASES, lambda case: case, ids="-".join)
    assert [one.values for one in parameters] == CASES
    assert [one.id for one in parameters if not one.marks] == ["f1-binary", "mcc-set"]
    assert [mark.name for mark in parameters[1].marks] == ["exhaustive"]
    kinds = {1: "ab", 2: "abc", 3: "", 4: "cd", 5: "d"}
    few = [one.values[0] for one in covering(kinds, kinds.__getitem__) if not one.marks]
    assert few == [2, 4]


def test_a_suite_has_its_own_cases():
    """A suite makes no case that it would deselect; the two suites together make each case once."""
    made = []
    for suite in ("short", "exhaustive"):
        matrix.collect(suite)
        made += [one.values for one in covering(CASES, lambda case: case)]
    assert sorted(made) == CASES and made[:2] == [CASES[0], CASES[3]]


@pytest.mark.parametrize(("name", "made"), [("mcc", CASES[2:]), ("rmse", CASES)])
def test_one_metric_has_its_own_cases(name, made):
    """A test with no case of the metric keeps all, which are deselected later."""
    matrix.choose((), lambda values: name in values)
    assert [one.values for one in covering(CASES, lambda case: case)] == made


def test_pairs_tell_places_apart():
    """Two facets that are alike in other places are another pair."""
    assert set(matrix.pairs(1, 2, 2)) == {((0, 1), (1, 2)), ((0, 1), (2, 2)), ((1, 2), (2, 2))}


def test_one_failure_hides_no_other():
    """Each case that fails is there with what was said, whichever way it failed."""

    def check(number):
        assert number, "nothing"
        with pytest.raises(ZeroDivisionError):
            assert 1 / (number - 1)

    said = failures([0, 1, 2], check)
    assert [line.partition(": ")[0] for line in said] == ["0", "2"]
    assert "nothing" in said[0] and "DID NOT RAISE" in said[1]


class Selected:
    """A plugin that keeps the ids of the tests that would run."""

    ids: list[str]

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Keep them."""
        self.ids = [item.nodeid for item in session.items]


def selected(name: str, *files: str) -> list[str]:
    """The ids of the tests that `make metric` runs for a metric, in some files or in all."""
    plugin, paths = Selected(), [str(ROOT / file) for file in files]
    loaded = _unload()  # their cases are those of this session
    options = ["-n", "0", "-m", "", "-qq", "--collect-only", "--rootdir", str(ROOT), "--metric", name]
    assert pytest.main([*options, *paths], plugins=[plugin]) == pytest.ExitCode.OK
    _unload()
    sys.modules.update(loaded)
    return plugin.ids


def _unload() -> dict[str, ModuleType]:
    """Remove the test modules from `sys.modules`, so that a session imports them anew; return them."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.startswith("test_")}


@pytest.mark.parametrize(
    ("name", "use"),
    [("nDCG", "ndcg(gain=exp)-ranking"), ("root_mean_squared_error", "rmse-vector")],
)
def test_one_metric_has_its_laws(name, use):
    """Every use of it with every law and its range, and what goes over all metrics; nothing of another's."""
    ids = selected(name, LAWS, PAGE)
    assert f"{LAWS}::test_every_law[{use}]" in ids
    assert f"{LAWS}::test_values_lie_in_the_stated_range[{use}]" in ids
    assert f"{PAGE}::test_every_entry_has_a_page" in ids
    assert not [one for one in ids if "[mae-number]" in one or "MeanOfMeans" in one]


@EXHAUSTIVE
@pytest.mark.parametrize("name", ["ndcg", "fid"])
def test_one_metric_has_its_files(name):
    """What is collected without files are those of its oracles, its module and its documentation too."""
    files = {one.partition("::")[0] for one in selected(name)}
    assert {PAGE, "tests/metrics/registry/test_index.py", VALUES} <= files
    assert any(file.startswith("tests/metrics/catalogue/") for file in files)
    tried = {LAWS, "tests/testing/test_symmetry.py"} | {file for file in files if "hpometrics" in file}
    assert (tried <= files) != (name == "fid")  # which downloads a trained network


def test_a_test_without_a_case_is_refused():
    """A list of cases that is chosen by a file name is empty once the file has moved, and pytest skips it."""
    matrix.check_cases(["test_a.py::test_b[NOT]", "test_a.py::test_c"])
    with pytest.raises(pytest.UsageError, match=r"no case matches .* test_a\.py::test_b\[NOTSET\]"):
        matrix.check_cases(["test_a.py::test_b[NOTSET]", "test_a.py::test_c"])


def run_one_metric(name: str) -> None:
    """Run what `make metric` runs, in this process."""
    sys.exit(pytest.main(["-n", "0", "-m", "", "-q", "--metric", name]))


@EXHAUSTIVE
def test_what_concerns_one_metric_passes():
    """`make metric` passes, though it leaves out the cases of all other metrics."""
    ran = Forked(ROOT, run_one_metric, "mcc").result()
    assert ran.returncode == 0, ran.stdout
    assert " passed" in ran.stdout


def test_one_metric_is_one_that_there_is(capsys):
    """A name that is none is refused with the near one."""
    assert pytest.main(["-n", "0", "--metric", "acuracy", str(ROOT / LAWS)]) == pytest.ExitCode.USAGE_ERROR
    assert "--metric acuracy: no metric 'acuracy'. Did you mean 'accuracy'?" in capsys.readouterr().err
