"""`python -m hpometrics.testing`: metrics x laws, and the same laws over torchmetrics' own classes."""

from __future__ import annotations

import os
import sys

from .scorecard import BROKEN, OURS, grid, judge_bare, judge_ours, reasons, summary


def main() -> int:
    """Print the scorecard; return 1 if a metric of the registry breaks a law, else 0."""
    workers = os.cpu_count() or 1
    ours, theirs = judge_ours(workers), judge_bare(workers)
    for lines in (grid(ours, OURS), reasons(ours, theirs), summary(ours, theirs)):
        print("\n".join(lines), end="\n\n")
    return int(any(BROKEN in one.marks.values() for one in ours))


if __name__ == "__main__":
    sys.exit(main())
