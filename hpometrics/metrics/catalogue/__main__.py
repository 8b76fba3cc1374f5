"""Write anew what is generated from the registry: `python -m hpometrics.metrics.catalogue [README.md]`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from ..registry import INDEX, all_entries, build_index

_TABLE = re.compile(r"(<!-- metrics:[^\n]*-->\n).*(<!-- /metrics -->)", re.DOTALL)


def table() -> str:
    """Give the table of built-in metrics in Markdown: a row per name and class."""
    rows: dict[tuple[str, str], list[str]] = {}
    for entry in all_entries():
        if entry.path.startswith("hpometrics."):
            rows.setdefault((entry.name, entry.path), []).append(entry.feature_type)
    lines = ["| metric | objective | reads | output features | meaning |", "|---|---|---|---|---|"]
    for (name, path), features in rows.items():
        entry = next(e for e in all_entries() if (e.name, e.path) == (name, path))
        meaning = entry.summary.replace("|", "\\|")
        lines.append(
            f"| `{name}` | {entry.objective or '-'} | {entry.inputs} | {', '.join(features)} | {meaning} |"
        )
    return "\n".join(lines)


def with_table(text: str) -> str:
    """Put the table between its two marks."""
    return _TABLE.sub(lambda match: f"{match[1]}\n{table()}\n\n{match[2]}", text)


def main(readme: str = "README.md") -> None:
    """Write `index.json` and the table of the README, if there is one."""
    INDEX.write_text(build_index(), encoding="utf8")
    path = Path(readme)
    if path.exists():
        path.write_text(with_table(path.read_text(encoding="utf8")), encoding="utf8")


if __name__ == "__main__":
    main(*sys.argv[1:])
