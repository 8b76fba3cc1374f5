"""What the error of a missing package tells the user to install exists, and installs from anywhere."""

from __future__ import annotations

import ast
import importlib
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import hpometrics
from hpometrics.backends.registry import SAMPLERS
from hpometrics.exceptions import MissingExtraError, pip_line
from hpometrics.metrics.registry.index import all_entries

ROOT = Path(__file__).parents[2]
PACKAGE = Path(hpometrics.__file__).parent
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"][
    "optional-dependencies"
]
OF_DEVELOPERS = {"mutants", "test"}
LEAVES = EXTRAS.keys() - {"all"}


def names_in(extra: str) -> list[str]:
    """The packages that an extra states, sorted."""
    return sorted(Requirement(line).name for line in EXTRAS[extra])


@pytest.mark.parametrize("extra", sorted(LEAVES))
def test_the_line_installs_what_the_extra_states(extra):
    """It names packages of an index, not this one, which an index may not have; a shell reads it right."""
    start, *quoted = re.findall(r"^pip install|'[^']+'", pip_line(extra))
    assert f"{start} {' '.join(quoted)}" == pip_line(extra)
    named = [Requirement(one.strip("'")) for one in quoted]
    assert [str(one) for one in named if one.name != "torch"] == [
        str(Requirement(one)) for one in EXTRAS[extra]
    ]


@pytest.mark.parametrize("extra", sorted(LEAVES))
def test_an_extra_keeps_the_torch_that_is_there(extra, monkeypatch):
    """Beside torchvision or torchaudio, which fit one torch only, the line names the torch of the user."""
    monkeypatch.setattr("importlib.metadata.version", lambda name: "2.13.0+cpu")
    bound = {"torchaudio", "torchvision"} & {*names_in(extra)}
    assert pip_line(extra).endswith(" 'torch==2.13.0'") == bool(bound)


def test_a_source_tree_without_metadata_names_its_extra(monkeypatch):
    """There no packages are known; its folder has them."""

    def none(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.requires", none)
    assert pip_line("report") == "pip install -e '.[report]'"


def test_every_extra_brings_something_of_its_own():
    """None is what is required anyway, and no two are the same."""
    required = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]["dependencies"]
    always = {Requirement(line).name for line in required} | {"tensorboardX"}  # that of ray[tune]
    brought = {extra: frozenset(names_in(extra)) - always for extra in LEAVES}
    assert all(brought.values())
    assert len({*brought.values()}) == len(brought)


def test_all_is_all_that_users_need():
    """Every extra but those of this repository's developers."""
    assert set().union(*(Requirement(line).extras for line in EXTRAS["all"])) == LEAVES - OF_DEVELOPERS


def test_every_extra_that_an_error_names_is_declared():
    """In each call of `missing_extra` and `pip_line` that names one."""
    named = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("missing_extra", "pip_line"):
                stated = [one.value for one in node.keywords if one.arg == "extra"] or node.args[-1:]
                named |= {one.value for one in stated if isinstance(one, ast.Constant) and one.value}
    named |= {plug_in.extra for plug_in in SAMPLERS.values()}  # `PlugIn.missing` names it
    assert named >= {"bohb", "botorch", "dashboard", "grpc", "mysql", "report", "samplers", "sklearn", "text"}
    assert named <= EXTRAS.keys()


def test_no_text_names_this_package_to_pip():
    """From a checkout it would be looked up in an index: all go through `pip_line`, or say the same as it."""
    texts = {
        path: path.read_text(encoding="utf8")
        for path in PACKAGE.rglob("*.*")
        if path.suffix in (".py", ".yaml")
    }
    assert not [path for path, text in texts.items() if re.search(r"install\W+hpometrics", text)]


def test_every_extra_that_a_metric_names_exists():
    """Each of them is declared."""
    named = {entry.requires for entry in all_entries() if entry.requires}
    assert named >= {"audio", "detection", "image", "multimodal", "transformers", "video"}
    assert named <= EXTRAS.keys()


def test_every_extra_that_a_page_names_is_declared():
    """After the word extra, or in brackets after the name of this package."""
    forms = re.compile(r"\bextras? ((?:`\w+`(?:, | and )?)+)|\(extra (\w+)\)|\bhpometrics\[([\w,]+)\]")
    named: dict[str, str] = {}
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")):
        for parts in forms.findall(" ".join(path.read_text(encoding="utf8").split())):
            named |= dict.fromkeys({*re.findall(r"\w+", " ".join(parts))} - {"and"}, path.name)
    assert named.keys() >= {"dashboard", "grpc", "keras", "mlflow", "report", "samplers", "wandb"}
    assert {name: page for name, page in named.items() if name not in EXTRAS} == {}


def test_the_table_of_extras_has_all_of_them():
    """With the packages that each brings."""
    page = (ROOT / "docs/how-to/install.md").read_text(encoding="utf8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    assert [extra for extra, *_ in rows] == sorted(EXTRAS)
    for extra, packages, *_ in rows:
        if extra not in {"all", *OF_DEVELOPERS}:
            assert sorted(packages.split(", ")) == names_in(extra)


@pytest.mark.parametrize(
    ("integration", "library", "extra"),
    [
        ("accelerate", "accelerate", "accelerate"),
        ("lightning", "lightning.pytorch", "lightning"),
        ("transformers", "transformers", "transformers"),
        ("ignite", "ignite.engine", "ignite"),
        ("fastai", "fastai", None),
        ("keras", "keras", "keras"),
        ("lightgbm", "lightgbm", "boosting"),
        ("skorch", "skorch.callbacks", "skorch"),
        ("xgboost", "xgboost", "boosting"),
    ],
)
def test_a_missing_trainer_is_named_with_its_extra(integration, library, extra, monkeypatch):
    """Importing the callback says what brings the library; fastai is too large for an extra."""
    module = f"hpometrics.integrations.{integration}"
    monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.setitem(sys.modules, library, None)
    line = f"pip install {library}" if extra is None else pip_line(extra)
    with pytest.raises(MissingExtraError, match=f": {re.escape(line)}$"):
        importlib.import_module(module)
