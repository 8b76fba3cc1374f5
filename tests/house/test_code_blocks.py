"""Blocks of code in README and docs that no other test runs are read by what they are for.

`test_readme` has `python` blocks and excerpts of examples, `test_walkthroughs` terminals and their files,
`test_migration_pages` files of other tools. A `py` block is part of a program, as some sweep files are parts.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

import hpometrics
from hpometrics.cli.main import main
from hpometrics.config.plan import read_plan
from hpometrics.integrations.trainer_loop import TrainerLoop

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
READ_ELSEWHERE = re.compile(r"# \S+[./]\S+\n|apiVersion: batch/v1\n")
"""The first line of blocks that other tests read: the name of a file, and the job for Kubernetes."""
METHODS = {
    "run": [hpometrics.Run],
    "loop": [TrainerLoop],
    "objective": [hpometrics.OptunaObjective, hpometrics.RayObjective],
}
"""Names by which pages call objects of this package, with their classes."""
ENVIRONMENT = {"PGPASSWORD": "secret", "STUDIES": "postgresql://db/studies", "TRIALS": "8", "DATA": "data"}

PROSE = [re.sub(r"```.*?```", "", path.read_text(encoding="utf8"), flags=re.DOTALL) for path in PAGES]
COMMANDS = sorted(
    {line for page in PROSE for line in re.findall(r"^    (hpometrics .*[^\\\n])$", page, re.MULTILINE)}
)
"""Commands that stand alone, outside of a terminal."""


def blocks(language: str) -> list[Any]:
    """Return the blocks of a language as test parameters, named by page and number."""
    return [
        pytest.param(block, id=f"{path.stem}-{number}")
        for path in PAGES
        for number, block in enumerate(
            re.findall(rf"```{language}\n(.*?)```", path.read_text(encoding="utf8"), re.DOTALL)
        )
        if not READ_ELSEWHERE.match(block)
    ]


@pytest.mark.parametrize("block", blocks("yaml"))
def test_a_sweep_file_passes_its_check(block, tmp_path, monkeypatch):
    """What a part leaves out is that of the quickstart; so is the first file that it includes."""
    for name in ("examples", "configs"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    content = yaml.safe_load(block.replace("s3://bucket", f"file://{tmp_path}"))
    base = yaml.safe_load((ROOT / "configs/quickstart.yaml").read_text(encoding="utf8"))
    base["engine"] = {"target": base["engine"]}
    for name in content.get("include", ()):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(yaml.safe_dump(base), encoding="utf8")
        base = {}
    file = tmp_path / "sweep.yaml"
    file.write_text(yaml.safe_dump(base | content), encoding="utf8")
    assert read_plan(file).name == content.get("name", "sweep")


@pytest.mark.parametrize("block", blocks("py"))
def test_a_part_of_a_program_calls_what_there_is(block):
    """It parses; public names and methods that it calls exist and take these arguments."""
    for call in (node for node in ast.walk(ast.parse(block)) if isinstance(node, ast.Call)):
        called = _called(call.func)
        if called is None or any(isinstance(argument, ast.Starred) for argument in call.args):
            continue
        named = {keyword.arg: None for keyword in call.keywords if keyword.arg is not None}
        inspect.signature(called).bind_partial(*[None] * len(call.args), **named)


def _called(function: ast.expr) -> Any:
    """Return what a call calls, if it is of this package.

    Raises:
        AttributeError: there is no such method.
    """
    if isinstance(function, ast.Name):
        return getattr(hpometrics, function.id) if function.id in hpometrics.__all__ else None
    if not isinstance(function, ast.Attribute):
        return None
    owner = function.value.attr if isinstance(function.value, ast.Attribute) else ast.unparse(function.value)
    if owner == "hpometrics":
        return getattr(hpometrics, function.attr)
    owners = METHODS.get(owner, [])
    having = [cls for cls in owners if hasattr(cls, function.attr)]
    return getattr((having or owners)[0], function.attr) if owners else None


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_parses(command, tmp_path, monkeypatch):
    """With each of its options; the files that it names are there."""
    monkeypatch.chdir(tmp_path)
    words = shlex.split(command, comments=True)[1:]
    for word in (word for word in words if re.fullmatch(r"[\w./-]+", word)):
        path = tmp_path / word
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch() if path.suffix else path.mkdir(exist_ok=True)
    parent, context = main, click.Context(main, **main.context_settings)
    while isinstance(parent, click.Group):
        name, parent, words = parent.resolve_command(context, words)
        context = click.Context(parent, parent=context, info_name=name)
    parent.make_context(parent.name, words, parent=context.parent)
