"""Peak memory and time of large rankings: scores of 2,048 users x 50,000 items, and factors of more users.

Each figure comes from a process of its own: how far the resident memory rises above what it was before the
evaluation, once with the code warm. Scores, or factors, are there already. Linux only.

    python benchmarks/ranking_memory.py [--users 1000 --users 2000 --users 4000] [--items 50000] [--width 64]
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import sys
import time
from pathlib import Path

import torch
from memory import resident
from ranking import forty
from rankings import Evaluation

CHUNK = 2048  # users in an update


def from_scores(task: Evaluation) -> None:
    """Evaluate scores that are held."""
    metrics = forty(task)
    for first, last in task.parts:
        metrics.update(
            scores=task.scores[first:last],
            target=task.relevant.part(first, last),
            users=torch.arange(first, last),
        )
    metrics.compute()


def from_factors(task: Evaluation, users: torch.Tensor, items: torch.Tensor) -> None:
    """Evaluate scores that are never held, only the factors that they are products of."""
    metrics = forty(task)
    for first in range(0, task.users, CHUNK):
        last = min(task.users, first + CHUNK)
        metrics.update(
            user_factors=users[first:last],
            item_factors=items,
            target=task.relevant.part(first, last),
            users=torch.arange(first, last),
        )
    metrics.compute()


def measure_alone(users: int, items: int, width: int, factors: bool) -> None:
    """Print MiB beyond the data and CPU seconds."""
    torch.set_num_threads(1)
    random = torch.Generator().manual_seed(1)
    task, small = Evaluation(users, items), Evaluation(256, items)
    user, item = (torch.randn(n, width, generator=random) for n in (users, items))
    _ = task.interactions if factors else task.scores  # drawn before anything is measured
    from_factors(small, user[:256], item) if factors else from_scores(small)
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    Path("/proc/self/clear_refs").write_text("5")
    before, start = resident("VmRSS"), time.process_time()
    from_factors(task, user, item) if factors else from_scores(task)
    print(f"{resident('VmHWM') - before:.1f} {time.process_time() - start:.2f}")


def alone(users: int, items: int, width: int, *flags: str) -> tuple[float, float]:
    """Measure in a process of its own."""
    sizes = f"--users={users}", f"--items={items}", f"--width={width}"
    command = [sys.executable, __file__, "--alone", *sizes, *flags]
    megabytes, seconds = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(megabytes), float(seconds)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", action="append", type=int, help="from factors; several for a table")
    parser.add_argument("--items", type=int, default=50_000)
    parser.add_argument("--width", type=int, default=64, help="how many factors each has")
    parser.add_argument("--alone", action="store_true", help="measure here, the first number of users")
    parser.add_argument("--factors", action="store_true", help="with --alone: from factors")
    options = parser.parse_args()
    sizes = options.users or [1_000, 2_000, 4_000]
    if options.alone:
        measure_alone(sizes[0], options.items, options.width, options.factors)
        return
    print(f"forty values, {options.items:,} items, one thread\n")
    print(f"{'from':10}{'users':>9}{'MiB beyond':>13}{'CPU s':>9}{'us a user':>12}")
    for users, flags in [(2048, ()), *((size, ("--factors",)) for size in sizes)]:
        megabytes, seconds = alone(users, options.items, options.width, *flags)
        kind = "factors" if flags else "scores"
        print(f"{kind:10}{users:9,}{megabytes:13.1f}{seconds:9.2f}{seconds / users * 1e6:12.0f}", flush=True)


if __name__ == "__main__":
    main()
