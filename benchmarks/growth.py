"""How time and memory grow with the rows, classes, labels or items of a batch, for each statistic.

python benchmarks/growth.py                      # every statistic of every output
python benchmarks/growth.py --only RankSums      # statistics, metrics or outputs whose name contains it

A statistic is measured by the first metric that keeps it, at sizes ten times apart. The exponent is that of
the last decade: 1 is linear. Where values are sorted, it is the exponent beside `np.sort` of as many numbers;
along what a row has many of, beside a copy of them, which leaves the caches as the batch does.
"""

from __future__ import annotations

import argparse
import gc
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from rows.row import peak, quiet

from hpometrics.exceptions import HpometricsError
from hpometrics.metrics.features import CATEGORY, RANKING, SET, Category, OutputFeature, Ranking, Set
from hpometrics.metrics.sample_data import cut, size_of
from hpometrics.testing import Batch, Subject, all_subjects
from hpometrics.testing.subjects import is_here

WANTED = 1.05
BATCH = 4_096
ROWS, WIDTHS = (1_000, 1_000_000), (10, 10_000)
"""The smallest and the largest size, of rows and of what a row has."""
LONGEST = 2.0
"""CPU seconds of the largest size, or of drawing it: the next one would take ten times as much."""
LEAST_TIME, LEAST_MEMORY = 0.02, 8.0
"""CPU seconds and MiB below which a decade shows calls and pages, not growth."""

WIDE: Mapping[str, tuple[str, Callable[[int], OutputFeature]]] = {
    CATEGORY: ("classes", Category),
    SET: ("labels", Set),
    RANKING: ("items", lambda items: Ranking()),
}
"""By feature type, what a row has many of, and the output that has so many."""


@dataclass(frozen=True)
class Work:
    """A statistic, measured by a metric along one kind of size."""

    statistic: str
    subject: Subject
    along: str
    sorts: bool

    def __str__(self) -> str:
        return f"{self.statistic} of {self.subject.output.type} along {self.along}"

    def measure_at(self, size: int) -> Callable[[], float]:
        """Draw batches of a size, and return the measure of them."""
        subject, batches = self.subject, [self.subject.draw(1)]
        if self.along == "rows":
            batch = subject.draw(size)
            whole, rest = divmod(size_of(batch), BATCH)
            batches = cut(batch, [BATCH] * whole + [rest] * bool(rest))
        else:
            subject = replace(subject, output=WIDE[subject.output.type][1](size))
            batches = [rankings(size) if self.along == "items" else subject.draw(1_000)]
        return lambda: float(subject.measure(*batches).double().sum())


@dataclass(frozen=True)
class Growth:
    """The figures of a work at the largest size, and at a tenth of it."""

    size: int
    seconds: tuple[float, float]
    memory: tuple[float, float]
    floor: tuple[float, float] | None = None
    """The seconds of a sort, or of a copy, at both sizes."""

    @property
    def of_time(self) -> float | None:
        """The exponent of time, beside that of the floor; None where it is too short to tell."""
        if self.seconds[1] < LEAST_TIME:
            return None
        return exponent(self.seconds) - (max(exponent(self.floor) - 1, 0) if self.floor else 0)

    @property
    def of_memory(self) -> float | None:
        """The exponent of memory; None where it is too little to tell."""
        return None if self.memory[1] < LEAST_MEMORY else exponent(self.memory)

    @property
    def missed(self) -> bool:
        """Whether time or memory grows faster than wanted."""
        return max(self.of_time or 0, self.of_memory or 0) > WANTED


def exponent(decade: tuple[float, float]) -> float:
    """Return the exponent by which an amount grows over a decade of the size."""
    return math.log10(decade[1] / max(decade[0], 1e-9))


def rankings(items: int) -> Batch:
    """Draw 100 users with scores of many items, of which ten are relevant."""
    random = torch.Generator().manual_seed(0)
    target = torch.zeros(100, items, dtype=torch.int64)
    target.scatter_(1, torch.randint(items, (100, 10), generator=random), 1)
    return {"logits": torch.randn(100, items, generator=random), "target": target}


def works(only: str) -> Iterator[Work]:
    """Yield each statistic of each output along rows, and along what a row of the output has many of."""
    seen = set()
    for subject in filter(lambda subject: is_here(subject.entry), all_subjects()):
        feature = subject.output.type
        for statistic in subject.make().statistics().values():
            name = type(statistic).__name__
            if (name, feature) in seen or only not in f"{name} {subject.name} {feature}":
                continue
            seen.add((name, feature))
            yield Work(name, subject, "rows", statistic.grows)
            if feature in WIDE:
                yield Work(name, subject, WIDE[feature][0], statistic.grows or feature == RANKING)


def growth_of(work: Work) -> Growth:
    """Measure a work at sizes ten times apart, until one takes long.

    Raises:
        HpometricsError: the metric needs other data than are drawn.
    """
    size, most = ROWS if work.along == "rows" else WIDTHS
    before: tuple[float, float] | None = None
    while True:
        start = time.process_time()
        with quiet():
            measure = work.measure_at(size)
            drawn = time.process_time() - start
            now = seconds_of(measure), peak(measure) or 0.0
        if before is not None and (10 * size > most or max(now[0], drawn) > LONGEST):
            floor = (floor_seconds(work, size // 10), floor_seconds(work, size))
            beside = floor if work.sorts or work.along != "rows" else None
            return Growth(size, (before[0], now[0]), (before[1], now[1]), beside)
        size, before = 10 * size, now


def seconds_of(measure: Callable[[], object]) -> float:
    """Return the CPU seconds of a measure, the least of three."""
    took = []
    for _ in range(3):
        gc.collect()
        start = time.process_time()
        measure()
        took.append(time.process_time() - start)
    return min(took)


def floor_seconds(work: Work, size: int) -> float:
    """Return the CPU seconds in which NumPy sorts, or copies, as many numbers."""
    values = np.random.default_rng(0).random((1 if work.along == "rows" else 1_000, size))
    return seconds_of((lambda: np.sort(values, axis=1)) if work.sorts else values.copy)


def line_of(work: Work, growth: Growth) -> str:
    """Return the row of the table."""
    shown = ["" if one is None else f"{one:.2f}" for one in (growth.of_time, growth.of_memory)]
    beside = ", sorted" if work.sorts else ""
    return (
        f"| {work.statistic} | {work.subject.output.type} | {work.subject.name} | {work.along}{beside} "
        f"| {growth.size:,} | {1e3 * growth.seconds[1]:.1f} | {shown[0]} | {growth.memory[1]:.0f} "
        f"| {shown[1]} |{' **missed**' if growth.missed else ''}"
    )


def main() -> None:
    """Print the table, then what grows faster than wanted."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--only", default="", help="statistics, metrics or outputs whose name contains this")
    options = parser.parse_args()
    print("| statistic | output | metric | along | up to | CPU ms | exponent | MiB | exponent |")
    print("|---|---|---|---|---|---|---|---|---|")
    missed, tried = [], 0
    for work in works(options.only):
        try:
            growth = growth_of(work)
        except HpometricsError as err:
            print(f"| {work.statistic} | {work.subject.output.type} | {work.along} | {err} |", flush=True)
            continue
        print(line_of(work, growth), flush=True)
        tried += 1
        missed += [str(work)] * growth.missed
    print(f"\n{tried} tried, {len(missed)} above {WANTED}: {', '.join(missed) or 'none'}")


if __name__ == "__main__":
    main()
