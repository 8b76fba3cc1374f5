"""The second `run` of a finished sweep: it prints what it would find, and in doubt it looks for itself."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from forked import hpometrics
from matrix import EXHAUSTIVE, failures
from sample_sweeps import changed

from hpometrics.cli.main import main
from hpometrics.config.document import parse_document
from hpometrics.config.overrides import read_with_overrides
from hpometrics.config.plan import make_plan
from hpometrics.results.stamp import path_of, question_of

HOME = Path("runs/sweep")
STAMP = HOME / ".finished"
CONFIGS = Path(__file__).parents[2] / "configs"
SMALL = changed("trials: 4, epochs: 3", "trials: 2, epochs: 1")
SEVERAL = """\
engine: {target: toy_engine:trade, output: binary}
space: {size: {int: [1, 9]}}
metrics: {optimize: [roc_auc, {metric: cost, direction: minimize}], track: [accuracy]}
search: {sampler: random, seed: 3}
budget: {trials: 3, epochs: 1}
"""
STAGED = """\
engine: {target: toy_stages:Guesser, output: number, params: {data_source.scale: 2.0}}
space: {algorithms.once.guess: {choice: [1.0, 2.5, 7.0]}}
metrics: {optimize: mae, track: [toy_stages:Distance, rmse]}
search: {sampler: grid}
budget: {trials: 3}
"""
LISTED = changed(
    "search: {sampler: random, seed: 3}", "backend: {list: [{lr: 0.1, size: small}, {lr: 0.01, size: large}]}"
).replace("{trials: 4, epochs: 3}", "{epochs: 1}")
SWEEPS = {
    "one objective": SMALL,
    "several objectives": SEVERAL,
    "the knee of several": SEVERAL.replace("track:", "pick: knee, track:"),
    "an engine of stages": STAGED,
    "a list": LISTED,
    "a journal and a report": SMALL + "backend: {optuna: {storage: journal}}\nresults: {report: md}\n",
    "a target": SMALL.replace("trials: 2", "trials: 9, target: 0.1"),
    "a trial that failed": changed("toy_engine:train", "toy_engine:fail"),
    "a combination": SMALL.replace("optimize: roc_auc", "optimize: {combine: {roc_auc: 2, accuracy: 1}}"),
    "a constraint": SMALL.replace("track:", "constraints: [accuracy >= 0.1], track:"),
}


def again(*arguments: str) -> tuple[Result, bool]:
    """Run the sweep of the current folder once more, and say whether its engine was imported."""
    for name in ("toy_engine", "toy_stages"):
        sys.modules.pop(name, None)
    result = CliRunner().invoke(main, ["run", "sweep.yaml", *arguments])
    return result, bool({"toy_engine", "toy_stages"} & sys.modules.keys())


def printed(result: Result) -> tuple[int, str, str]:
    """What a user sees of it."""
    return result.exit_code, result.stdout, result.stderr


FLAGS = [("--json",), ("-q",), ("-q", "--json"), ("-v",)]
CALLS = {what: [(), *FLAGS] if what in ("one objective", "several objectives") else [()] for what in SWEEPS}


FIRST_OF_A_KIND = (
    "one objective",
    "several objectives",
    "an engine of stages",
    "a list",
    "a trial that failed",
)
"""Sweeps that print another kind of result; the others differ by what one of these has besides."""


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=() if what in FIRST_OF_A_KIND else EXHAUSTIVE) for what in SWEEPS]
)
def test_it_prints_byte_for_byte_what_a_look_at_all_would_print(what, sweep):
    """The engine is not imported; without the stamp it is, and all else is the same."""

    def check(arguments: tuple[str, ...]) -> None:
        result, imported = again(*arguments)
        assert not imported
        STAMP.unlink()
        whole, imported = again(*arguments)
        assert imported
        assert printed(result) == printed(whole)
        assert STAMP.is_file()  # and the next one need not look

    assert sweep(SWEEPS[what]).exit_code == 0
    assert failures(CALLS[what], check) == []


@pytest.fixture
def restore(sweep, folder, tmp_path_factory) -> Callable[[], None]:
    """Run a sweep; restore the folder as it was left then, with the size and the time of every file."""
    assert sweep(SMALL).exit_code == 0
    kept = shutil.copytree(folder, tmp_path_factory.mktemp("finished"), dirs_exist_ok=True)

    def restored() -> None:
        for path in folder.iterdir():
            path.unlink() if path.is_symlink() or path.is_file() else shutil.rmtree(path)
        shutil.copytree(kept, folder, dirs_exist_ok=True)

    return restored


def replaced(**facts: object) -> Callable[[], object]:
    """Change facts of the stamp."""
    return lambda: STAMP.write_text(json.dumps({**json.loads(STAMP.read_text()), **facts}))


def appended(path: Path, text: str = "\n") -> Callable[[], object]:
    """Add text to a file, which may be new."""
    return lambda: path.write_text((path.read_text() if path.exists() else "") + text)


FIRST = HOME / "trials" / "0000"
CHANGES: dict[str, Callable[[], object]] = {
    "no best.yaml": lambda: (HOME / "best.yaml").unlink(),
    "no verdict.json": lambda: (HOME / "verdict.json").unlink(),
    "no sweep.resolved.yaml": lambda: (HOME / "sweep.resolved.yaml").unlink(),
    "no study.db": lambda: (HOME / "study.db").unlink(),
    "study.db touched": lambda: os.utime(HOME / "study.db"),
    "trials.csv emptied": lambda: (HOME / "trials.csv").write_text(""),
    "another epoch": appended(FIRST / "epochs.jsonl"),
    "another file of a trial": appended(FIRST / "notes.txt"),
    "no trial 0": lambda: shutil.rmtree(FIRST),
    "no trial.json": lambda: (FIRST / "trial.json").unlink(),
    "another trial": lambda: shutil.copytree(FIRST, HOME / "trials" / "0002"),
    "another engine": appended(Path("toy_engine.py")),
    "another file": appended(Path("sweep.yaml"), "# with a comment\n"),
    "another budget": lambda: Path("sweep.yaml").write_text(SMALL.replace("trials: 2", "trials: 3")),
    "an empty stamp": lambda: STAMP.write_text(""),
    "a stamp that is a list": lambda: STAMP.write_text("[1, 2]"),
    "a stamp of less": lambda: STAMP.write_text("{}"),
    "a stamp of depth": lambda: STAMP.write_text("[" * 100_000),
    "a stamp of a newer format": replaced(format=2),
    "a stamp of a newer format with more": replaced(format=2, more=1),
    "a stamp of another question": replaced(question="0"),
    "a stamp of an engine that is none": replaced(engine=3),
    "a stamp of an engine without a path": replaced(engine="\0"),
    "a stamp of an engine that is gone": replaced(engine="gone.py"),
    "a stamp that is a directory": lambda: (STAMP.unlink(), STAMP.mkdir()),
}


def test_after_any_change_it_looks_for_itself(restore):
    """As if there had never been a stamp."""

    def check(change: str) -> None:
        restore()
        assert STAMP.is_file()
        CHANGES[change]()
        assert again()[1]

    restore()
    assert not again()[1]
    assert failures(CHANGES, check) == []


QUESTIONS = [
    ("--fresh",),
    ("--extend",),
    ("--set", "budget.trials=3"),
    ("--set", "metrics.track=[]"),
    ("--set", "results.dir=runs/other"),
    ("--workers", "1"),
]


def test_another_question_is_looked_into(restore):
    """Also if its answer turns out to be the same."""

    def check(flags: tuple[str, ...]) -> None:
        restore()
        shutil.copytree(HOME, "runs/other")
        assert again(*flags)[1]

    assert failures(QUESTIONS, check) == []


def test_another_version_looks_for_itself(sweep, monkeypatch):
    """It may understand the file in another way."""
    sweep(SMALL)
    monkeypatch.setattr("hpometrics.results.stamp.__version__", "0.0.1")
    assert again()[1]


def test_what_was_set_is_part_of_the_question(sweep):
    """The file alone asks for more."""
    flags = ("--set", "budget.trials=1")
    sweep(SMALL, *flags)
    assert not again(*flags)[1]
    result, imported = again()
    assert imported and "resuming: 1 of 2 done" in result.stderr


def test_a_directory_that_leads_elsewhere_is_refused(restore):
    """With or without a stamp, in the same words."""

    def check(place: Path) -> None:
        restore()
        place.rename("elsewhere")
        place.symlink_to(Path("elsewhere").absolute())
        refused, _ = again()
        STAMP.unlink()
        assert refused.exit_code == 2 and "is a symbolic link" in refused.stderr
        assert printed(refused) == printed(again()[0])

    assert failures([HOME, HOME / "best.yaml", FIRST, FIRST / "trial.json"], check) == []


def test_a_directory_that_others_may_write_in_is_refused(sweep):
    """What it says may be theirs."""
    sweep(SMALL)
    HOME.chmod(0o777)
    result, imported = again()
    assert (result.exit_code, imported) == (2, False)
    assert "other users can write to it" in result.stderr


FAILS_ALWAYS = changed("toy_engine:train", "toy_engine:always_fail")
FAILS_ONCE = changed("toy_engine:train", "toy_engine:fail").replace("epochs: 3", "failures: 1")
UNFINISHED = {
    "nothing complete": (FAILS_ALWAYS.replace("epochs: 3", "failures: 9"), 3),
    "a broken engine": (FAILS_ALWAYS, 4),
    "too many failed": (FAILS_ONCE, 4),
    "interrupted": (changed("toy_engine:train", "toy_engine:interrupt"), 130),
    "the time is up": (SMALL.replace("trials: 2", "time: 3s"), 0),
    "a study in memory": (SMALL + "backend: {optuna: {storage: memory}}\n", 0),
}


@pytest.mark.parametrize(("text", "code"), UNFINISHED.values(), ids=UNFINISHED)
def test_a_sweep_that_may_go_on_has_no_stamp(text, code, sweep):
    """Another run of it has something to do, or to refuse."""
    assert sweep(text).exit_code == code
    assert (HOME / "trials").is_dir() and not STAMP.exists()


def test_a_run_that_is_killed_leaves_no_stamp(folder, monkeypatch):
    """Neither does one that goes on with a sweep which was finished; the last one stamps it again."""
    learn = changed("toy_engine:train", "toy_engine:learn").replace("trials: 4", "trials: 1")
    (folder / "sweep.yaml").write_text(learn)
    more = ("--set", "budget.trials=2")
    assert again()[0].exit_code == 0 and STAMP.is_file()
    monkeypatch.setenv("KILL_AT", "1")
    assert hpometrics("run", "sweep.yaml", *more).ended() == -signal.SIGKILL
    assert not STAMP.exists()
    monkeypatch.delenv("KILL_AT")
    result, imported = again(*more)
    assert imported and "resuming: 1 of 2 done" in result.stderr
    assert not again(*more)[1]


def test_a_worker_that_finds_nothing_to_do_changes_nothing(sweep):
    """It joins and leaves; what is printed then is what was printed before."""
    sweep(SMALL)
    before, _ = again()
    assert CliRunner().invoke(main, ["worker", str(HOME)]).exit_code == 0
    assert printed(again()[0]) == printed(before)


def test_readers_and_check_take_no_notice_of_it(sweep):
    """What they print is the same without it."""
    sweep(SMALL)
    calls = (["best", str(HOME)], ["status", str(HOME)], ["trials", str(HOME)], ["check", "sweep.yaml"])
    before = [CliRunner().invoke(main, call).output for call in calls]
    STAMP.unlink()
    assert [CliRunner().invoke(main, call).output for call in calls] == before


@pytest.mark.parametrize("file", sorted(CONFIGS.glob("*.yaml")), ids=lambda path: path.name)
def test_it_is_looked_for_where_the_plan_puts_the_directory(file):
    """And to make a plan of a document does not change what it asks."""
    document = read_with_overrides(file)
    question = question_of(document)
    assert path_of(document) == make_plan(document).directory
    assert question_of(document) == question


@pytest.mark.parametrize(
    "line", ["name: one", "results: {dir: some/where}", "name: two\nresults: {dir: ../there}"]
)
def test_a_directory_of_its_own_is_found_too(line):
    """By the name or the place that the file says."""
    document = parse_document(f"{SMALL}{line}\n", "my sweep.yaml")
    assert path_of(document) == make_plan(document).directory
    assert path_of(parse_document(SMALL, "my sweep.yaml")) == Path("runs/my-sweep")
