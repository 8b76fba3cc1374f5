"""The whole table: every piece of work beside its peer or its floor, in turns, in one process on one thread.

python benchmarks/scoreboard.py                       # every row
python benchmarks/scoreboard.py --only kendall        # rows whose name contains it
python benchmarks/scoreboard.py --metric ndcg         # rows that measure a metric
python benchmarks/scoreboard.py --write               # and keep the table in benchmarks/README.md
python benchmarks/scoreboard.py --compare main        # this version and another one, in turns
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from importlib import import_module
from pathlib import Path

from rows.references import reference_rows
from rows.row import ROWS, Figure, Row, figure_of, quiet

for family in ("classes", "curves", "detection", "door", "regression", "retrieval", "sequences", "text"):
    import_module(f"rows.{family}")  # each adds its rows

ROOT = Path(__file__).resolve().parents[1]
WORSE = 1.3
"""How much more than before a row may take."""
NEAR = 0.02
"""Ratios, and microseconds, that are too small to compare."""


def whole(size: int) -> int:
    """Return a size as it is."""
    return size


def chosen_rows(only: str | None, metric: str | None) -> list[Row]:
    """Return the rows whose name contains a text, and those of a metric; where it has none, its oracles'.

    Raises:
        SystemExit: There are none.
    """
    rows = [
        row
        for row in ROWS.values()
        if (not only or only in row.name) and (metric is None or metric in row.metrics)
    ]
    if metric is not None:
        rows = rows or reference_rows(metric)
    if not rows:
        raise SystemExit(
            f"no row for {metric or only!r}: add one in benchmarks/rows; it has {', '.join(ROWS)}"
        )
    return rows


def figures_of(rows: list[Row], turns: int | None, memory: bool) -> Iterator[Figure]:
    """Measure rows, and print each as it is done; a row whose peer is missing is named and left out."""
    for row in rows:
        try:
            with quiet():
                figure = figure_of(row, whole, turns, memory or row.memory is not None)
        except ImportError as err:
            print(f"| {row.name} | {row.work} | {row.peer} is not installed: {err} |", flush=True)
            continue
        print(line_of(figure), flush=True)
        yield figure


def line_of(figure: Figure) -> str:
    """Return the row of the table."""
    row = figure.row
    unit = "" if row.unit is None else " us"
    memory = "" if figure.memory is None else f"{figure.memory:.0f}, {figure.their_memory or 0:.0f}"
    if row.memory is not None:
        memory += f" (<= {row.memory:.0f})"
    digits = 0 if row.unit is not None else 2
    missed = " **missed**" if figure.missed else ""
    return (
        f"| {row.name} | {row.work} | {row.peer} | {1e3 * figure.ours:.1f} | {1e3 * figure.theirs:.1f} "
        f"| {figure.value:.{digits}f}{unit}{missed} | {row.wanted:g}{unit} | {memory} |"
    )


HEAD = """\
| row | work | peer | ours, CPU ms | peer, CPU ms | ours / peer | wanted | MiB: ours, peer |
|---|---|---|---|---|---|---|---|"""

MARK = "<!-- scoreboard -->"
"""Before and after the table in benchmarks/README.md."""


@contextmanager
def checkout(revision: str) -> Iterator[Path]:
    """A checkout of another version, which is removed again."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "checkout"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(place), revision], check=True)
        try:
            yield place
        finally:
            subprocess.run([*git, "remove", "--force", str(place)], check=True)


def compare(rows: list[Row], revision: str, turns: int) -> int:
    """Measure each row with this version and another one, by the benchmarks of this one, in turns.

    Returns:
        How many rows take more than `WORSE` times what they took.
    """
    print(f"| row | at {revision} | here | here / there |\n|---|---|---|---|")
    worse = 0
    with checkout(revision) as other:
        for row in rows:
            before, after = [], []
            for _ in range(turns):
                before.append(value_in(other, row))
                after.append(value_in(ROOT, row))
            there, here = min(before), min(after)
            grown = here / there if there > NEAR else 1.0
            worse += grown > WORSE
            verdict = " **worse**" if grown > WORSE else ""
            print(f"| {row.name} | {there:.3g} | {here:.3g} | {grown:.2f}{verdict} |", flush=True)
    return worse


def value_in(root: Path, row: Row) -> float:
    """Measure a row in a process of its own, with the package of a checkout."""
    code = f"import sys; sys.path[:0] = [{str(root)!r}, {str(ROOT / 'benchmarks')!r}]; import scoreboard; "
    code += f"scoreboard.print_value({row.name!r})"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    if answer.returncode:
        raise SystemExit(f"{row.name} in {root}:\n{answer.stderr[-2000:]}")
    return json.loads(answer.stdout.splitlines()[-1])


def print_value(name: str) -> None:
    """Print the value of a row as JSON."""
    with quiet():
        print(json.dumps(figure_of(ROWS[name], whole, 3).value))


def main() -> None:
    """Print the table, or that of two versions."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", help="rows whose name contains this")
    parser.add_argument("--metric", help="rows that measure this metric")
    parser.add_argument("--turns", type=int, help="how often both are measured")
    parser.add_argument(
        "--memory", action="store_true", help="memory of every row, not only where it is bounded"
    )
    parser.add_argument("--write", action="store_true", help="write the table into benchmarks/README.md")
    parser.add_argument("--compare", metavar="REVISION", help="compare with another version")
    options = parser.parse_args()
    rows = chosen_rows(options.only, options.metric)
    if options.compare:
        worse = compare(rows, options.compare, options.turns or 2)
        if worse:
            raise SystemExit(f"{worse} rows take more than {WORSE} times what they took at {options.compare}")
        return
    print(f"{HEAD}")
    figures = list(figures_of(rows, options.turns, options.memory))
    if options.write:
        write(figures)
    missed = [figure.row.name for figure in figures if figure.missed]
    print(f"\n{len(rows)} rows, {len(missed)} missed" + (f": {', '.join(missed)}" if missed else ""))


def write(figures: Sequence[Figure]) -> None:
    """Write the table into benchmarks/README.md, with its date and machine."""
    page = ROOT / "benchmarks" / "README.md"
    before, mark, rest = page.read_text(encoding="utf8").partition(MARK)
    after = rest.partition(MARK)[2]
    lines = [
        f"{date.today()}, {machine()}, one thread, medians of the turns:",
        "",
        HEAD,
        *map(line_of, figures),
    ]
    table = "\n".join(lines)
    page.write_text(f"{before}{mark}\n{table}\n{mark}{after}", encoding="utf8")


def machine() -> str:
    """Return the name of the processor and the number of cores."""
    facts = Path("/proc/cpuinfo")
    lines = facts.read_text(encoding="utf8").splitlines() if facts.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
