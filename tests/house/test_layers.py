"""Imports only point down the rooms of the house, counting those inside functions too."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "hpometrics"

ROOT = PACKAGE.parent
PAGE = ROOT / "docs" / "ARCHITECTURE.md"
_ROWS = re.findall(r"^\| ((?:`\w+` ?)+)\|", PAGE.read_text(encoding="utf8"), re.MULTILINE)
FLOORS = {room: floor for floor, row in enumerate(_ROWS) for room in re.findall(r"`(\w+)`", row)}
"""Each room with its floor, from the ground up, as the page has them."""

UPWARD = {("run.reporter", "backends.optuna.reporter")}
"""A trial of Optuna that is passed to `Run` is made a reporter by its backend, which is imported then."""

FOREIGN = {
    "metrics": {"optuna", "ray", "click", "pydantic", "yaml"},
    "space": {"torch", "torchmetrics", "click", "pydantic", "yaml"},
    "records": {"torch", "torchmetrics", "optuna", "ray", "click", "pydantic", "yaml"},
    "selection": {"torch", "torchmetrics", "optuna", "ray", "click", "pydantic", "yaml"},
    "loggers": {"torch", "torchmetrics", "optuna", "ray", "click", "pydantic", "yaml"},
    "direction": {"torch", "optuna", "ray"},
    "exceptions": {"torch", "optuna", "ray"},
}


def modules() -> dict[str, Path]:
    """Every module of the package by its dotted name below it."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)] = path
    return found


MODULES = modules()


def room(module: str) -> str:
    """The folder or file right below the package."""
    return module.partition(".")[0]


@cache
def imports_of(module: str) -> tuple[str, ...]:
    """The absolute names that a module imports, wherever in the file, `if TYPE_CHECKING:` left out."""
    path = MODULES[module]
    package = ["hpometrics", *path.relative_to(PACKAGE).parts[:-1]]
    found: list[str] = []
    waiting: list[ast.AST] = [ast.parse(path.read_text(encoding="utf8"))]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            waiting.extend(node.orelse)
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            front = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*front, *([node.module] if node.module else [])])
            found += [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            waiting.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))
    return tuple(found)


@cache
def own_imports(module: str) -> set[str]:
    """The modules of this package that a module imports."""
    names = (
        name.removeprefix("hpometrics.") for name in imports_of(module) if name.startswith("hpometrics.")
    )
    return {name for name in names if name in MODULES and (module, name) not in UPWARD} - {module}


def test_every_module_has_a_room():
    """A new room gets its floor on the page before anything is built in it; the page names no other."""
    assert {room(module) for module in MODULES} == FLOORS.keys()


def test_the_page_names_files_that_there_are():
    """Whoever looks where it leads finds the file or the folder."""
    text = PAGE.read_text(encoding="utf8")
    paths = re.findall(r"`((?:\w+/)+(?:\w+\.py)?|\w+\.py)`", text)
    assert len(paths) > 40
    assert not [
        path
        for path in paths
        if not any((root / path).exists() for root in (PACKAGE, ROOT))
        and not any((folder / path).exists() for folder in PACKAGE.iterdir() if folder.is_dir())
    ]


def test_the_page_names_what_its_files_define():
    """`NAME` in `file.py`: a function, a class or a variable of that name is there."""
    text = PAGE.read_text(encoding="utf8")
    lists = re.findall(r"((?:`\w+`(?:, | and )?)+) in `((?:\w+/)*\w+\.py)`", text)
    pairs = [(name, path) for names, path in lists for name in re.findall(r"\w+", names) if name != "and"]
    assert len(pairs) > 40
    assert [pair for pair in pairs if not _defines(*pair)] == []


def _defines(name: str, path: str) -> bool:
    roots = (PACKAGE, ROOT, *(folder for folder in PACKAGE.iterdir() if folder.is_dir()))
    text = next((root / path).read_text(encoding="utf8") for root in roots if (root / path).exists())
    return (
        re.search(rf"(?m)^\s*(?:(?:def|class) {name}\b|{name}(?:: [^=\n]+)? = |{name}: )", text) is not None
    )


def test_other_pages_name_files_that_there_are():
    """Those that say where something is done: the figures of the benchmarks, and what contributors read."""
    for name in ("benchmarks/README.md", "CONTRIBUTING.md"):
        paths = re.findall(r"`((?:\w+/)*\w+\.py)`", (ROOT / name).read_text(encoding="utf8"))
        assert paths
        roots = (PACKAGE, ROOT, ROOT / "benchmarks")
        assert not [path for path in paths if not any((root / path).exists() for root in roots)], name


def test_imports_point_down():
    """A module imports from its own room and from lower floors, never sideways or up."""
    wrong = [
        f"{module} imports {name}"
        for module in MODULES
        for name in own_imports(module)
        if room(name) != room(module) and FLOORS[room(name)] >= FLOORS[room(module)]
    ]
    assert wrong == []


def test_the_wings_keep_to_their_trade():
    """Measuring knows no trials, searching knows no tensors."""
    wrong = [
        f"{module} imports {name}"
        for module in MODULES
        for name in imports_of(module)
        if name.partition(".")[0] in FOREIGN.get(room(module), ())
    ]
    assert wrong == []


def test_no_modules_import_each_other():
    """Taking away, again and again, the modules that import nothing that is left, leaves none."""
    left = {module: own_imports(module) for module in MODULES}
    while free := {module for module, needs in left.items() if not needs & left.keys()}:
        left = {module: needs for module, needs in left.items() if module not in free}
    assert not left


def test_an_import_inside_a_function_counts():
    """`parse_feature` imports the names' grammar where it needs it; the law sees it."""
    assert "metrics.registry.names" in own_imports("metrics.features")
