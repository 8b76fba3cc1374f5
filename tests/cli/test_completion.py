from __future__ import annotations

import os
import subprocess
import sys

import pytest
from click.shell_completion import BashComplete

from hpometrics.cli.main import main
from hpometrics.metrics.features import FEATURES
from hpometrics.metrics.registry.index import index, index_aliases

COMPLETE = "_HPOMETRICS_COMPLETE"


def offered(*arguments: str) -> list[tuple[str, str]]:
    """What a shell is told after these arguments, of which the last is being typed: type and text."""
    *before, begun = arguments
    shell = BashComplete(main, {}, "hpometrics", COMPLETE)
    return [(item.type, item.value) for item in shell.get_completions(before, begun)]


def words(*arguments: str) -> list[str]:
    """The texts alone."""
    return [value for _, value in offered(*arguments)]


def test_names_of_metrics_are_offered():
    """Every name and alias of the index that goes on as the word does, in order."""
    known = {name for name, _ in (*index(), *index_aliases())}
    assert words("metrics", "show", "f1_m") == sorted(name for name in known if name.startswith("f1_m"))
    assert "f1_macro" in words("metrics", "show", "f1_m")
    assert "f1_macro" in words("init", "first", "--metric", "f1_m")
    assert words("init", "--backend", "") == ["optuna", "ray"]
    assert len(words("compare", "runs/x", "3", "7", "--metric", "")) == len(known)


def test_a_list_of_metrics_is_completed_at_its_end():
    """What stands before the last comma stays; groups and families are offered there."""
    assert "accuracy,f1_macro" in words("measure", "p.csv", "--metrics", "accuracy,f1_ma")
    assert {"default", "calibration"} <= set(words("measure", "p.csv", "--metrics", ""))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("metrics", "list", "--feature", ""), sorted(FEATURES)),
        (("measure", "p.csv", "--output", "bin"), ["binary"]),
        (("metrics", "list", "--family", "calib"), ["calibration"]),
        (("metrics", "list", "--objective", "mi"), ["minimize"]),
        (("stat",), ["status"]),
    ],
)
def test_other_words_are_offered(arguments, expected):
    """Outputs, families, choices and the commands themselves."""
    assert words(*arguments) == expected


@pytest.mark.parametrize("command", ["status", "best", "trials", "report", "dashboard", "worker", "init"])
def test_run_directories_are_left_to_the_shell(command):
    """It completes directories there, and files where a file is wanted."""
    assert offered(command, "runs/di") == [("dir", "runs/di")]
    assert offered("run", "swe") == [("file", "swe")]
    assert offered("compare", "runs/a", "runs/di") == [("dir", "runs/di")]


def test_the_shell_is_given_its_script():
    """As the README says, and an answer comes without torch."""
    code = "import sys; from hpometrics.cli.main import main; main(prog_name='hpometrics')"

    def told(instruction: str, **more: str) -> str:
        env = {**os.environ, COMPLETE: instruction, **more}
        return subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True).stdout

    assert "_hpometrics_completion" in told("zsh_source")
    asked = told("bash_complete", COMP_WORDS="hpometrics metrics show ndc", COMP_CWORD="3")
    assert "plain,ndcg\n" in asked


def test_completion_loads_neither_torch_nor_a_host():
    """The index is enough."""
    code = (
        "import sys; from click.shell_completion import ZshComplete; from hpometrics.cli.main import main\n"
        "ZshComplete(main, {}, 'hpometrics', 'X').get_completions(['metrics', 'show'], 'f1')\n"
        "print({'torch', 'optuna', 'ray', 'pydantic'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ran.stdout == "set()\n", ran.stderr
