"""Pages with a terminal are true: their files are written, their commands run, their output is printed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from forked import hpometrics
from loaded_python import loaded_python
from shipped import without_numbers

from docs._generate.pictures import NOTEBOOK, notebook_of, run_notebook

ROOT = Path(__file__).parents[2]
WALKTHROUGHS = {
    path.stem: path.read_text(encoding="utf8")
    for path in sorted((ROOT / "docs").rglob("*.md"))
    if "```console\n$ " in path.read_text(encoding="utf8")
}
STEP = re.compile(
    r"```(?:(?:python|yaml)\n# (?P<file>mine/\S+)\n(?P<content>.*?)|console\n(?P<session>.*?))```", re.DOTALL
)
"""A block that begins with the name of its file, or a session in a terminal."""


@pytest.mark.parametrize("page", WALKTHROUGHS)
def test_a_walkthrough_goes_as_it_says(page, folder, monkeypatch):
    """Each block follows those before it, in a folder with the examples; numbers are those of one machine."""
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=":")
    for name in ("examples", "configs"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for step in STEP.finditer(WALKTHROUGHS[page]):
        if step["file"]:
            file = folder / step["file"]
            file.parent.mkdir(exist_ok=True, parents=True)
            file.write_text(step["content"], encoding="utf8")
            continue
        for part in ("\n" + step["session"]).split("\n$ ")[1:]:
            command, *expected = part.rstrip("\n").split("\n")
            printed = iter(without_numbers(run(command, folder, monkeypatch)).splitlines())
            for line in expected:
                assert line == "..." or without_numbers(line) in printed, f"{command}: {line}"


def test_the_page_of_a_notebook_runs_in_a_kernel(folder):
    """The live line is updated in place; the result shows its headline, its tables and its figures."""
    notebook = notebook_of(NOTEBOOK)
    run_notebook(notebook, folder)
    cells = {cell.source: cell.outputs for cell in notebook.cells}
    (line,) = (one for one in cells["result = sweep.run()"] if one.output_type == "display_data")
    assert line.data["text/plain"].startswith("8/8  best ")
    streams = [one for one in cells["result = sweep.run()"] if one.output_type == "stream"]
    assert {one.name for one in streams} == {"stdout"} and " #7 " in "".join(one.text for one in streams)
    (shown,) = cells["result"]
    page = shown.data["text/html"]
    assert re.search(r"<h4>notebook</h4><p><b>Trial \d is best: accuracy 0\.\d+", page)
    assert {"lr", "width", "roc_auc"} <= set(re.findall(r"<td>(.*?)</td>", page)) and "<script" in page


def run(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a command and return its output; it must end with the exit code that its comment names, or 0."""
    words = shlex.split(command, comments=True)
    if words[0] == "export":
        monkeypatch.setenv(*words[1].split("=", 1))
        return ""
    if words[0] == "hpometrics":
        ran = hpometrics(*words[1:], folder=folder, python=loaded_python()).result()
    else:
        ran = subprocess.run(words, cwd=folder, env=os.environ, capture_output=True, text=True, timeout=100)
    code = re.search(r"# exit code (\d+)", command)
    assert ran.returncode == int(code[1] if code else 0), f"{command}: {ran.stdout}{ran.stderr}"
    return ran.stdout + ran.stderr
