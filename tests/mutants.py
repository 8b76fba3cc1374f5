"""Mutants: small faults drawn into the code that decides, each of which the short suite has to find.

`python tests/mutants.py` (or `make mutants`) draws them with a seed from the modules of `AREAS`, by the
operators of cosmic-ray, puts each into a clone of the repository's last commit and runs the tests there until
one fails: for every mutant those in and nearest to the module first, then the whole short suite for what they
miss. What is found and what survives is printed, and added to a file of JSON lines, from which a run that was
interrupted goes on.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = "hpometrics"
LONG = 1800.0
"""Seconds after which tests that do not end have found a mutant: it made something run forever."""


@dataclass(frozen=True)
class Area:
    """Modules that decide one thing, and the tests to run first."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


AREAS = {
    "direction": Area(("direction.py",), ("tests/test_direction.py", "tests/selection")),
    "selection": Area(
        ("selection/*.py", "backends/registry.py"),
        (
            *("tests/selection", "tests/backends/test_plugins.py", "tests/results/test_verdict.py"),
            "tests/runner/test_several_objectives_sweep.py",
        ),
    ),
    "statistics": Area(
        ("metrics/statistics/*.py",),
        (
            "tests/metrics/statistics",
            "tests/testing/test_laws.py",
            "tests/metrics/references/test_oracles.py",
        ),
    ),
    "run": Area(
        ("run/*.py",),
        (
            "tests/run",
            "tests/backends/optuna/test_optuna_objective.py",
            "tests/backends/optuna/test_search_directory.py",
        ),
    ),
    "epoch log": Area(
        ("records/*.py", "selection/trial_attempts.py"),
        ("tests/records", "tests/selection", "tests/run/test_recorded_values.py", "tests/faults"),
    ),
    "storage": Area(
        (
            "backends/storage_url.py",
            *(f"backends/optuna/{name}.py" for name in ("restore", "storage", "study", "trial_queue")),
        ),
        ("tests/backends/optuna", "tests/records", "tests/runner/test_resume.py", "tests/faults"),
    ),
}

_COMPARISONS = {
    "Eq": ["NotEq"], "NotEq": ["Eq"], "Lt": ["LtE", "GtE"], "LtE": ["Lt", "Gt"], "Gt": ["GtE", "LtE"],
    "GtE": ["Gt", "Lt"], "Is": ["IsNot"], "IsNot": ["Is"],
}  # fmt: skip
_ARITHMETIC = {
    "Add": ["Sub"],
    "Sub": ["Add"],
    "Mul": ["Div"],
    "Div": ["Mul"],
    "Pow": ["Mul"],
    "BitAnd": ["BitOr"],
}
OPERATORS = [
    *(f"ReplaceComparisonOperator_{one}_{two}" for one, others in _COMPARISONS.items() for two in others),
    *(f"ReplaceBinaryOperator_{one}_{two}" for one, others in _ARITHMETIC.items() for two in others),
    "AddNot", "NumberReplacer", "ReplaceAndWithOr", "ReplaceBreakWithContinue", "ReplaceContinueWithBreak",
    "ReplaceFalseWithTrue", "ReplaceOrWithAnd", "ReplaceTrueWithFalse", "ReplaceUnaryOperator_Delete_Not",
    "ReplaceUnaryOperator_Delete_USub", "ZeroIterationForLoop",
]  # fmt: skip
"""Of cosmic-ray's operators those whose mutants are faults that people make."""


@dataclass(frozen=True)
class Mutant:
    """One fault: an occurrence of an operator in a module."""

    area: str
    module: str
    operator: str
    occurrence: int

    def text(self, source: str) -> str:
        """Return the source of the module with the fault in it."""
        from cosmic_ray.mutating import mutate_code
        from cosmic_ray.plugins import get_operator

        return str(mutate_code(source, get_operator(f"core/{self.operator}")(), self.occurrence))


@dataclass(frozen=True)
class Outcome:
    """What came of a mutant: the test that found it, or None where it survived."""

    mutant: Mutant
    change: str
    test: str | None
    seconds: float


def sites(area: str, root: Path) -> list[Mutant]:
    """Return every place of an area where an operator can work, in a fixed order."""
    from cosmic_ray.ast import ast_nodes, get_ast
    from cosmic_ray.plugins import get_operator

    found = []
    for path in (path for pattern in AREAS[area].modules for path in sorted((root / PACKAGE).glob(pattern))):
        nodes = list(ast_nodes(get_ast(path.read_text(encoding="utf8"))))
        for name in OPERATORS:
            operator = get_operator(f"core/{name}")()
            places = sum(1 for node in nodes for _ in operator.mutation_positions(node))
            module = str(path.relative_to(root))
            found += [Mutant(area, module, name, occurrence) for occurrence in range(places)]
    return found


def draw(seed: int, count: int, root: Path) -> list[Mutant]:
    """Draw mutants that change what the program does, as many from each area as from the others."""
    chosen: list[Mutant] = []
    for number, area in enumerate(AREAS):
        share = count // len(AREAS) + (number < count % len(AREAS))
        every = sites(area, root)
        random.Random(f"{seed} {area}").shuffle(every)
        chosen += islice((one for one in every if _is_fault(one, root)), share)
    return chosen


def _is_fault(mutant: Mutant, root: Path) -> bool:
    """Whether a mutant is a program, and another one than without it."""
    source = (root / mutant.module).read_text(encoding="utf8")
    try:
        return _program(mutant.text(source)) != _program(source)
    except SyntaxError:  # the star of an argument was taken for a product
        return False


def _program(source: str) -> str:
    """The program but for the annotations of its functions, which nothing evaluates."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
    return ast.dump(tree)


def attempt(mutant: Mutant, clone: Path, run: Callable[[], str | None]) -> Outcome:
    """Put a mutant into the clone, run tests, and put the module back."""
    path = clone / mutant.module
    source = path.read_text(encoding="utf8")
    mutated = mutant.text(source)
    began = time.monotonic()
    path.write_text(mutated, encoding="utf8")
    try:
        test = run()
    finally:
        path.write_text(source, encoding="utf8")
    return Outcome(mutant, _change(source, mutated), test, round(time.monotonic() - began, 1))


def failing_test(clone: Path, *tests: str) -> str | None:
    """Run tests of the clone until one fails, and return its name; None where all pass."""
    paths = os.pathsep.join(filter(None, [str(clone), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": paths}
    try:
        done = subprocess.run(
            command, cwd=clone, env=environment, capture_output=True, text=True, timeout=LONG
        )
    except subprocess.TimeoutExpired:
        return "no end"
    if done.returncode == 0:
        return None
    named = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return named[1] if named else f"exit code {done.returncode}: {(done.stderr or done.stdout)[-200:]}"


def _change(source: str, mutated: str) -> str:
    """The line of the fault, before and after, with its number."""
    before, after = source.splitlines(), mutated.splitlines()
    for number, (old, new) in enumerate(zip(before, after, strict=False), start=1):
        if old != new:
            return f"{number}: {old.strip()} -> {new.strip()}"
    return "?"


def outcomes(path: Path) -> Iterator[Outcome]:
    """Read what came of mutants in an earlier run."""
    for line in path.read_text(encoding="utf8").splitlines() if path.exists() else []:
        facts = json.loads(line)
        yield Outcome(**{**facts, "mutant": Mutant(**facts["mutant"])})


def report(found: list[Outcome]) -> str:
    """Return a line for each mutant, and the share that was found."""
    lines = [
        f"{one.mutant.area:<10} {one.mutant.module.removeprefix('hpometrics/')}:{one.change}\n"
        f"{'':<10} {'SURVIVED' if one.test is None else one.test}  ({one.seconds:.0f} s)"
        for one in found
    ]
    dead = sum(one.test is not None for one in found)
    share = f" = {dead / len(found):.0%}" if found else ""
    return "\n".join([*lines, f"{dead} of {len(found)} mutants found{share}"])


def main() -> None:
    """Draw the mutants, try those that an earlier run has not tried, and print what came of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--list", action="store_true", help="print what would be tried, and try nothing")
    parser.add_argument("--results", type=Path, default=ROOT / "build" / "mutants.jsonl")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder, "clone")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        drawn = draw(asked.seed, asked.count, clone)
        if asked.list:
            for one in drawn:
                source = (clone / one.module).read_text(encoding="utf8")
                print(f"{one.area:<10} {one.module}:{_change(source, one.text(source))}")
            return
        asked.results.parent.mkdir(exist_ok=True)
        known = {one.mutant: one for one in outcomes(asked.results)}
        suites = [*(area.tests for area in AREAS.values()), ()]
        for tests in suites if not known else []:
            if (broken := failing_test(clone, *tests)) is not None:
                sys.exit(f"without any mutant {broken} fails: there is nothing to find")
        for nearest in (True, False):
            for mutant in drawn:
                if mutant in known:
                    continue
                tests = (mutant.module, *AREAS[mutant.area].tests) if nearest else ()
                outcome = attempt(mutant, clone, lambda tests=tests: failing_test(clone, *tests))
                print(report([outcome]), flush=True)
                if outcome.test is not None or not nearest:
                    known[mutant] = outcome
                    with asked.results.open("a", encoding="utf8") as file:
                        file.write(json.dumps(asdict(outcome)) + "\n")
    print(report([known[mutant] for mutant in drawn]))


if __name__ == "__main__":
    main()
