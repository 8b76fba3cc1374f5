from __future__ import annotations

import pytest
from sample_sweeps import SWEEP

from hpometrics.config.document import Document, SweepFileError, parse_document
from hpometrics.config.overrides import override, set_workers
from hpometrics.config.plan import make_plan


def overridden(*assignments: str) -> Document:
    """The sweep with these settings changed."""
    document = parse_document(SWEEP, "sweep.yaml")
    override(document, assignments)
    return document


@pytest.mark.parametrize(
    ("assignment", "path", "value"),
    [
        ("budget.trials=7", ("budget", "trials"), 7),
        ("space.lr.float=[1e-3, .1]", ("space", "lr", "float"), [1e-3, 0.1]),
        ("space.opt.lr=3", ("space", "opt.lr"), 3),
        ("engine.params.opt.decay=1e-4", ("engine", "params", "opt.decay"), 1e-4),
        ("metrics.track.0=f1", ("metrics", "track", 0), "f1"),
        ("results.dir=no", ("results", "dir"), "no"),
        ("backend={list: [{lr: 0.1}]}", ("backend", "list", 0, "lr"), 0.1),
        ("search.sampler.tpe.n_startup_trials=3", ("search", "sampler"), None),
    ],
)
def test_a_key_is_found_and_its_value_read_as_yaml(assignment, path, value):
    """Keys of the space and of the params may hold dots themselves."""
    if value is None:
        with pytest.raises(SweepFileError, match="leads into a value that is not a mapping"):
            overridden(assignment)
        return
    found = overridden(assignment).data
    for part in path:
        found = found[part]
    assert found == value


def test_a_key_below_confirm_true_is_set():
    """`true` stands for the mapping with the defaults."""
    document = parse_document(f"{SWEEP}confirm: true\n", "sweep.yaml")
    override(document, ["confirm.top=8", "confirm.repeats=4"])
    assert document.data["confirm"] == {"top": 8, "repeats": 4}
    assert make_plan(document).config.confirm.top == 8


def test_a_problem_is_shown_at_the_flag():
    """The line of the file would be wrong."""
    with pytest.raises(
        SweepFileError, match=r"^--set budget\.trials=many: budget\.trials: expected a whole number"
    ):
        make_plan(overridden("budget.trials=many"))
    with pytest.raises(SweepFileError, match=r"--set budget\.trails=3: budget: unknown key 'trails'"):
        make_plan(overridden("budget.trails=3"))


def test_an_assignment_has_a_key_and_a_value():
    """Anything else is refused."""
    with pytest.raises(SweepFileError, match=r"^--set budget\.trials: write key=value"):
        overridden("budget.trials")


@pytest.mark.parametrize(
    ("backend", "expected"),
    [
        ("", {"optuna": {"workers": 4}}),
        ("backend: optuna\n", {"optuna": {"workers": 4}}),
        ("backend: ray\n", {"ray": {"workers": 4}}),
        ("backend: {ray: }\n", {"ray": {"workers": 4}}),
        (
            "backend: {ray: {workers: 2, resources: {cpu: 2}}}\n",
            {"ray": {"workers": 4, "resources": {"cpu": 2}}},
        ),
        ("backend: {optuna: {storage: journal}}\n", {"optuna": {"storage": "journal", "workers": 4}}),
    ],
)
def test_workers_are_those_of_the_backend(backend, expected):
    """Whichever it is, in long or in short; its other settings stay."""
    document = parse_document(SWEEP + backend, "sweep.yaml")
    set_workers(document, 4)
    assert document.data["backend"] == expected
    again = parse_document(SWEEP + backend, "sweep.yaml")
    override(again, document.assignments)  # as a sweep that was interrupted is run again
    assert again.data == document.data


def test_a_list_has_no_workers():
    """It is tried in order."""
    document = parse_document(f"{SWEEP}backend: {{list: [{{lr: 0.1}}]}}\n", "sweep.yaml")
    with pytest.raises(
        SweepFileError, match=r"^--workers 4: backend: a list is tried one point after another; "
    ):
        set_workers(document, 4)


@pytest.mark.parametrize(
    "backend", ["backend: optnua\n", "backend: {foo: 3}\n", "backend: 3\n", "backend: [optuna]\n"]
)
def test_a_backend_that_is_wrong_is_left_to_the_check(backend):
    """Which says what is wrong with the file."""
    document = parse_document(SWEEP + backend, "sweep.yaml")
    before = dict(document.data)
    set_workers(document, 4)
    assert document.data == before
    with pytest.raises(SweepFileError, match=r"sweep\.yaml:8:.*backend"):
        make_plan(document)
