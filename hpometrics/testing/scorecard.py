"""Scorecard: which metric keeps which law, in a grid, with what is exempt or broken by name."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch

from ..metrics.registry.index import all_entries
from .bare import BARE_LAWS, bare_subjects, check_stated_direction
from .exemptions import EXEMPT
from .laws import LAWS, check_device, check_direction
from .subjects import Subject, is_here, subjects_of

Law = Callable[[Subject], None]
T = TypeVar("T")

KEPT, EXEMPTED, BROKEN = ".", "e", "F"
OURS = tuple(law for law in LAWS if law is not check_device or torch.cuda.is_available())
"""The laws for our metrics; that of a device has nothing to look at without an accelerator."""
THEIRS = tuple(check_stated_direction if law is check_direction else law for law in BARE_LAWS)
"""The laws for torchmetrics' own classes: a class also says which way is better."""


@dataclass(frozen=True)
class Judged:
    """One metric before the laws.

    Attributes:
        name: of the metric and its feature.
        marks: by law: kept, exempt by nature, or broken.
        said: by law that is broken, what it says.
    """

    name: str
    marks: Mapping[str, str]
    said: Mapping[str, str]


def judge_ours(workers: int) -> list[Judged]:
    """Try every use of every registered metric whose packages are installed."""
    names = [(entry.name, entry.feature_type) for entry in all_entries() if is_here(entry)]
    return _spread(_judge_entry, names, workers)


def judge_bare(workers: int) -> list[Judged]:
    """Try torchmetrics' own classes."""
    return _spread(_judge_bare, list(range(len(bare_subjects()))), workers)


def judge(name: str, subjects: Sequence[Subject], laws: Iterable[Law], exempt: Iterable[str] = ()) -> Judged:
    """Try the uses of one metric.

    Args:
        name: what the metric is called in the grid.
        subjects: its uses.
        laws: which are tried.
        exempt: names of laws that it breaks by nature.
    """
    marks, said = {}, {}
    for law in laws:
        if law.__name__ in exempt:
            marks[law.__name__] = EXEMPTED
            continue
        reason = next((told for subject in subjects if (told := _broken(law, subject))), None)
        marks[law.__name__] = KEPT if reason is None else BROKEN
        if reason is not None:
            said[law.__name__] = reason
    return Judged(name, marks, said)


def grid(judged: Sequence[Judged], laws: Sequence[Law]) -> Iterator[str]:
    """Print metrics x laws, a character for each."""
    width = max((len(one.name) for one in judged), default=0)
    yield f"{'':{width}}  {KEPT} kept  {EXEMPTED} exempt by nature  {BROKEN} broken"
    for place, law in enumerate(laws):
        yield f"{'':{width}}  {'|' * place}{law_name(law)}"
    for one in judged:
        yield f"{one.name:{width}}  {''.join(one.marks[law.__name__] for law in laws)}"


def summary(ours: Sequence[Judged], theirs: Sequence[Judged]) -> Iterator[str]:
    """Print how many metrics keep each law, and torchmetrics' own classes beside them."""
    counted = f"{len(ours)} metrics of ours"
    yield f"{'':20}{counted:>27}   {len(theirs)} classes of torchmetrics, as they are"
    yield f"{'law':20}{'kept':>9}{'exempt':>9}{'broken':>9}   {'kept':>9}{'broken':>9}"
    beside = {law_name(law): law.__name__ for law in THEIRS}
    for law in OURS:
        marks = Counter(one.marks[law.__name__] for one in ours)
        row = f"{law_name(law):20}{marks[KEPT]:9}{marks[EXEMPTED]:9}{marks[BROKEN]:9}"
        if (told := beside.get(law_name(law))) is not None:
            bare = Counter(one.marks[told] for one in theirs)
            row += f"   {bare[KEPT]:9}{bare[BROKEN]:9}"
        yield row


def reasons(ours: Sequence[Judged], theirs: Sequence[Judged]) -> Iterator[str]:
    """Print who is exempt and why, whoever of ours breaks a law, and who of torchmetrics does."""
    for law, exempt in EXEMPT.items():
        for name, reason in exempt.items():
            yield f"exempt from {_called(law)}: {name}: {reason}"
    for one in ours:
        for law, told in one.said.items():
            yield f"BROKEN {_called(law)}: {told}"
    for their_law in THEIRS:
        names = [one.name for one in theirs if their_law.__name__ in one.said]
        if names:
            yield f"torchmetrics, {law_name(their_law)}: {', '.join(names)}"


def law_name(law: Law) -> str:
    """What a law is called in the grid."""
    return _called(law.__name__)


def _called(name: str) -> str:
    return name.removeprefix("check_").removeprefix("stated_")


def _broken(law: Law, subject: Subject) -> str | None:
    try:
        law(subject)
    except Exception as err:  # a metric that fails in any other way does not keep the law either
        return str(err) or type(err).__name__
    return None


def _judge_entry(key: tuple[str, str]) -> Judged:
    entry = next(entry for entry in all_entries() if (entry.name, entry.feature_type) == key)
    exempt = [law for law, names in EXEMPT.items() if {entry.name, str(entry)} & names.keys()]
    return judge(str(entry), subjects_of(entry), OURS, exempt)


def _judge_bare(place: int) -> Judged:
    subject = bare_subjects()[place]
    return judge(str(subject.entry), [subject], THEIRS)


def _spread(work: Callable[[T], Judged], items: Sequence[T], workers: int) -> list[Judged]:
    with ProcessPoolExecutor(workers, initializer=_alone) as pool:
        return list(pool.map(work, items, chunksize=4))


def _alone() -> None:
    """One thread a process, and no word of what a metric warns of."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
