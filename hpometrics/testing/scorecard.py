"""A scorecard of metrics and laws as a grid, with the exemptions and the broken laws by name."""

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
from .laws import LAWS, Law, check_device, check_direction
from .subjects import Subject, is_here, subjects_of

T = TypeVar("T")

KEPT, EXEMPTED, BROKEN = ".", "e", "F"
OURS = tuple(law for law in LAWS if law is not check_device or torch.cuda.is_available())
"""The laws for our metrics; that of a device needs an accelerator."""
THEIRS = tuple(check_stated_direction if law is check_direction else law for law in BARE_LAWS)
"""The laws for torchmetrics' own classes, each of which must have a direction."""


@dataclass(frozen=True)
class LawResults:
    """The results of all laws for one metric.

    Attributes:
        name: the name of the metric and its feature.
        marks: by law: kept, exempt by nature, or broken.
        messages: the message of each law that is broken.
    """

    name: str
    marks: Mapping[str, str]
    messages: Mapping[str, str]


def judge_ours(workers: int) -> list[LawResults]:
    """Try every use of every registered metric whose packages are installed."""
    names = [(entry.name, entry.feature_type) for entry in all_entries() if is_here(entry)]
    return _judge_all(_judge_entry, names, workers)


def judge_bare(workers: int) -> list[LawResults]:
    """Try torchmetrics' own classes."""
    return _judge_all(_judge_bare, list(range(len(bare_subjects()))), workers)


def judge(
    name: str, subjects: Sequence[Subject], laws: Iterable[Law], exempt: Iterable[str] = ()
) -> LawResults:
    """Try the uses of one metric.

    Args:
        name: the name of the metric in the grid.
        subjects: its uses.
        laws: the laws to try.
        exempt: the names of laws that it breaks by nature.
    """
    marks, messages = {}, {}
    for law in laws:
        if law.__name__ in exempt:
            marks[law.__name__] = EXEMPTED
            continue
        reason = next((message for subject in subjects if (message := _break_of(law, subject))), None)
        marks[law.__name__] = KEPT if reason is None else BROKEN
        if reason is not None:
            messages[law.__name__] = reason
    return LawResults(name, marks, messages)


def grid(results: Sequence[LawResults], laws: Sequence[Law]) -> Iterator[str]:
    """Yield the lines of a grid of metrics and laws, a character for each."""
    width = max((len(one.name) for one in results), default=0)
    yield f"{'':{width}}  {KEPT} kept  {EXEMPTED} exempt by nature  {BROKEN} broken"
    for place, law in enumerate(laws):
        yield f"{'':{width}}  {'|' * place}{law_name(law)}"
    for one in results:
        yield f"{one.name:{width}}  {''.join(one.marks[law.__name__] for law in laws)}"


def summary(ours: Sequence[LawResults], theirs: Sequence[LawResults]) -> Iterator[str]:
    """Yield lines with how many metrics keep each law, and how many of torchmetrics' own classes."""
    label = f"{len(ours)} metrics of ours"
    yield f"{'':20}{label:>27}   {len(theirs)} classes of torchmetrics, as they are"
    yield f"{'law':20}{'kept':>9}{'exempt':>9}{'broken':>9}   {'kept':>9}{'broken':>9}"
    beside = {law_name(law): law.__name__ for law in THEIRS}
    for law in OURS:
        marks = Counter(one.marks[law.__name__] for one in ours)
        row = f"{law_name(law):20}{marks[KEPT]:9}{marks[EXEMPTED]:9}{marks[BROKEN]:9}"
        if (name := beside.get(law_name(law))) is not None:
            bare = Counter(one.marks[name] for one in theirs)
            row += f"   {bare[KEPT]:9}{bare[BROKEN]:9}"
        yield row


def reasons(ours: Sequence[LawResults], theirs: Sequence[LawResults]) -> Iterator[str]:
    """Yield a line for each exemption with its reason, and for each metric that breaks a law."""
    for law, exempt in EXEMPT.items():
        for name, reason in exempt.items():
            yield f"exempt from {_format_name(law)}: {name}: {reason}"
    for one in ours:
        for law, message in one.messages.items():
            yield f"BROKEN {_format_name(law)}: {message}"
    for their_law in THEIRS:
        names = [one.name for one in theirs if their_law.__name__ in one.messages]
        if names:
            yield f"torchmetrics, {law_name(their_law)}: {', '.join(names)}"


def law_name(law: Law) -> str:
    """Return the name of a law in the grid."""
    return _format_name(law.__name__)


def _format_name(name: str) -> str:
    return name.removeprefix("check_").removeprefix("stated_")


def _break_of(law: Law, subject: Subject) -> str | None:
    try:
        law(subject)
    except Exception as err:  # a metric that fails in any other way does not keep the law either
        return str(err) or type(err).__name__
    return None


def _judge_entry(key: tuple[str, str]) -> LawResults:
    entry = next(entry for entry in all_entries() if (entry.name, entry.feature_type) == key)
    exempt = [law for law, names in EXEMPT.items() if {entry.name, str(entry)} & names.keys()]
    return judge(str(entry), subjects_of(entry), OURS, exempt)


def _judge_bare(place: int) -> LawResults:
    subject = bare_subjects()[place]
    return judge(str(subject.entry), [subject], THEIRS)


def _judge_all(work: Callable[[T], LawResults], items: Sequence[T], workers: int) -> list[LawResults]:
    with ProcessPoolExecutor(workers, initializer=_alone) as pool:
        return list(pool.map(work, items, chunksize=4))


def _alone() -> None:
    """Set this process to one thread, and silence warnings."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
