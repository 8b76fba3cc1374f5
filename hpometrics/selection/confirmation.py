"""The confirmation of a winner: its record, and how it ended.

The best trials of a search are trained again under seeds that they share, until one is decided, they are
practically tied, or the trainings are spent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias

from .._formatting import first_of, format_p, html_lines, listed, plural
from ..direction import ARROWS, Direction
from .confirm_settings import ConfirmSettings
from .intervals import Interval, Scale
from .rules import Constraint

if TYPE_CHECKING:  # commands that print a confirmation do not load NumPy
    import numpy as np
    from numpy.typing import NDArray

    from ..records.trial_record import Reading

Rows: TypeAlias = "NDArray[np.float64]"
RowTables: TypeAlias = Mapping[int, Rows]
"""The row values of the epochs of each trial of a search, of shape (epochs, rows)."""

CONFIRM_FILE = "confirm.json"
CONFIRM = "confirm"
"""The folder of a trial's fresh runs, each in a folder with the number of its seed."""

UNCORRECTED = "picking on these rows makes it look better than it is"
"""The limit of a value whose rows were not kept."""
_MOST_NEAR = 5
_CHEAPER = 0.9


class ConfirmationState(StrEnum):
    """How a confirmation ended."""

    DECIDED = "decided"
    TIED = "tied"
    SPENT = "spent"
    UNCONFIRMED = "unconfirmed"


class Contender(NamedTuple):
    """A trial that is trained again."""

    trial: int
    value: float
    """Its value in the search."""


@dataclass(frozen=True)
class FreshRun:
    """A contender trained once more.

    Args:
        value: at its picked epoch; None if it failed.
        rows: the row values of each epoch that could be picked, of shape (epochs, rows), where kept.
        picked: the place of the picked epoch among those.
        rows_id: identifies the rows and their order; runs with different rows are not paired.
        values: all values of the picked epoch, for constraints.
        seconds: the time that it took.
        reason: why it failed.
        held_out: the row values of its picked epoch on the test split, where kept, of shape (rows,).
        held_out_id: identifies those rows.
    """

    value: float | None
    rows: Rows | None = None
    picked: int = 0
    rows_id: str | None = None
    values: Mapping[str, Reading] = field(default_factory=dict)
    seconds: float = 0.0
    reason: str | None = None
    held_out: Rows | None = None
    held_out_id: str | None = None

    @property
    def picked_rows(self) -> Rows:
        """The row values of its picked epoch."""
        if self.rows is None:
            raise ValueError("this run stored no row values")
        rows: Rows = self.rows[self.picked]
        return rows


class ConfirmationPlan(NamedTuple):
    """The contenders, and the settings that were in force when they were chosen."""

    settings: ConfirmSettings
    contenders: tuple[Contender, ...]
    """The best complete trials of the search, best first."""


@dataclass(frozen=True)
class ConfirmationRecord:
    """All that a confirmation decides by.

    Args:
        metric: its name.
        direction: of the metric.
        plans: the first plan, and those of its extensions.
        runs: the runs that ended, by trial and number of the seed, counted from 1.
        others: the complete trials that are not contenders.
        bounds: constraints, which the means over the seeds have to keep.
        search: the row values of the trials of the search, where they were kept.
        scale: of the metric's values.
        clustered: whether rows are sums of clusters.
        timed_out: whether no further run may begin.
    """

    metric: str
    direction: Direction
    plans: Sequence[ConfirmationPlan]
    runs: Mapping[tuple[int, int], FreshRun] = field(default_factory=dict)
    others: Sequence[Contender] = ()
    bounds: Sequence[Constraint] = ()
    search: RowTables | None = None
    scale: Scale = Scale.IDENTITY
    clustered: bool = False
    timed_out: bool = False

    @property
    def contenders(self) -> dict[int, float]:
        """The contenders of all plans in the order in which they enter, with their values in the search."""
        return {trial: value for plan in self.plans for trial, value in plan.contenders}

    def runs_of(self, trial: int, seeds: int) -> list[FreshRun]:
        """Return the runs of a contender up to a seed, as far as they ended."""
        numbers = range(1, seeds + 1)
        return [self.runs[trial, number] for number in numbers if (trial, number) in self.runs]

    def seeds_of(self, trial: int, most: int) -> int:
        """Return under how many of its first seeds, at most so many, a contender was trained."""
        missing = (number for number in range(1, most + 1) if (trial, number) not in self.runs)
        return next(missing, most + 1) - 1


@dataclass(frozen=True)
class Pair:
    """The leader of a look beside another contender; a difference above 0 speaks for the leader."""

    leader: int
    trial: int
    difference: float
    half: float
    p_value: float
    level: float
    may_be_better: float
    """The most by which the other one may be better than the leader."""
    seeds_wanted: int | None = None
    """How many seeds would separate the two in an extension; None if no number would, or if these do."""
    rows_wanted: int | None = None
    """How many rows it takes before seeds can do that."""
    paired: bool = True
    """False if the two were measured on other rows, or in another order, so that each adds its variance."""
    seeds_alone: bool = False
    """True if the rows of a trial, or their order, differ between its seeds; seeds alone are compared."""

    @property
    def separated(self) -> bool:
        """Whether the other one is worse at the level of the look, and leaves."""
        return self.difference > self.half

    @property
    def interval(self) -> Interval:
        """The difference with the interval of this look."""
        return Interval(self.difference, self.difference - self.half, self.difference + self.half)


@dataclass(frozen=True)
class Look:
    """One comparison of the contenders after the same number of seeds of each."""

    seeds: int
    leader: int
    pairs: tuple[Pair, ...]
    equivalence: float
    may_lose: float
    """With confidence, no contender that is left is better than the leader by more than this."""
    failed: Mapping[int, str] = field(default_factory=dict)
    """Why contenders left that were not compared, by trial."""
    seeds_matter: bool = True
    """False if every contender gave the same under all of its seeds."""

    @property
    def left(self) -> tuple[int, ...]:
        """The trials that left at this look as worse than the leader."""
        return tuple(pair.trial for pair in self.pairs if pair.separated)


@dataclass(frozen=True)
class Standing:
    """A contender at the end; its mean is None if none of its runs counts."""

    trial: int
    search_value: float
    mean: float | None
    deviation: float | None
    seeds: int
    seconds: float
    """The mean time of a training."""
    left_at: int | None = None
    reason: str | None = None
    pair: Pair | None = None
    """Its last comparison with a leader; None for the winner."""
    values: tuple[float, ...] = ()
    """The values of its fresh runs, in the order of their seeds."""

    @property
    def difference(self) -> Interval | None:
        """By how much that leader is better, with the interval of that look; None for the winner."""
        return None if self.pair is None else self.pair.interval

    @property
    def p_value(self) -> float | None:
        """Two-sided, that the true difference is 0; None for the winner."""
        return None if self.pair is None else self.pair.p_value


@dataclass(frozen=True)
class HonestValue:
    """The value of the winner's params on new rows, trained under a new seed.

    Attributes:
        interval: the corrected value with its interval.
        mean: of the fresh runs, which picked their epochs on the rows that they are measured on.
        bias: by how much picking on these rows makes the mean look better; 0 where no rows were kept.
        limits: what the interval leaves out.
        held_out: the mean of the fresh runs on the test split, where nothing was picked; None without one.
        held_out_rows: the rows behind its interval; 0 if that is over seeds alone.
    """

    interval: Interval
    mean: float
    bias: float
    limits: tuple[str, ...] = ()
    held_out: Interval | None = None
    held_out_rows: int = 0

    @property
    def is_corrected(self) -> bool:
        """Whether rows were kept, so that the value is corrected for picking, if only by 0."""
        return UNCORRECTED not in self.limits


@dataclass(frozen=True)
class Confirmation:
    """The end of a confirmation.

    Attributes:
        metric: its name.
        direction: of the metric.
        state: `decided`: every other contender is worse than the winner; `tied`: none can be better by more
            than the equivalence; `spent`: all seeds are trained; `unconfirmed`: no contender is left.
        winner: the trial.
        may_lose: with confidence, no other contender is better by more than this; None if unconfirmed.
        equivalence: the difference that does not matter, in the metric's unit.
        level: the share of confirmations that may decide wrongly.
        standings: the contenders, the winner first, then by mean.
        looks: the comparisons that were made.
        honest: the value of the winner's params without the luck of picking; None if unconfirmed.
        trainings, planned: the fresh runs that count, and the most there could have been.
        others: the number of complete trials that are not contenders.
        near: those of them whose value in the search, with the luck of a seed, reaches the winner's mean.
        extended: how often more was asked for.
        reason: why it is unconfirmed, or ended early.
        clustered: whether rows with the same id counted as one.
    """

    metric: str
    direction: Direction
    state: ConfirmationState
    winner: int
    may_lose: float | None
    equivalence: float | None
    level: float
    standings: tuple[Standing, ...]
    looks: tuple[Look, ...]
    honest: HonestValue | None
    trainings: int
    planned: int
    others: int = 0
    near: tuple[int, ...] = ()
    extended: int = 0
    reason: str | None = None
    clustered: bool = False

    @property
    def standing(self) -> Standing:
        """The winner."""
        return self.standings[0]

    @property
    def open_pairs(self) -> list[Pair]:
        """The comparisons of the winner with the contenders that are left, the closest first."""
        left = [one.pair for one in self.standings if one.left_at is None and one.pair is not None]
        return sorted(left, key=lambda pair: -pair.may_be_better)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read what `dataclasses.asdict` made of one.

        Raises:
            KeyError, TypeError, ValueError: it is something else.
        """
        facts = {each.name: content[each.name] for each in fields(cls) if each.name in content}
        return cls(
            **{
                **facts,
                "direction": Direction(facts["direction"]),
                "state": ConfirmationState(facts["state"]),
                "standings": tuple(map(_standing, facts["standings"])),
                "looks": tuple(map(_look, facts["looks"])),
                "honest": facts["honest"] and _honest_value(facts["honest"]),
                "near": tuple(facts["near"]),
            }
        )

    def lines(self, params: str = "", more: Callable[[int], str] = "confirm(repeats={})".format) -> list[str]:
        """Return it in words, a line each.

        Args:
            params: the winner's, as they are printed behind the headline.
            more: returns how to ask for so many repeats.
        """
        head = f"Winner: trial {self.winner}, {self._headline()}"
        lines = [f"{head}   {params}".rstrip()]
        if self.honest is None:
            return [*lines, f"  {self.reason}; this is the best trial of the search, unconfirmed"]
        lines += [*self._held_out_lines(self.honest), self._value_line(self.honest), self._reason_line()]
        trainings = f"  {plural(self.trainings, 'training')} of up to {self.planned}"
        lines.append(trainings + (f"; {self.reason}" if self.reason else "") + self._others_text())
        return [*lines, *self._departures(), *self._advice(more), *extension_lines(self.extended, self.level)]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return html_lines(str(self))

    def _headline(self) -> str:
        pairs = self.open_pairs
        if self.state is ConfirmationState.TIED:
            return f"practically tied with {listed(str(pair.trial) for pair in pairs)}"
        if self.state is ConfirmationState.SPENT:
            return f"not decided after {plural(self.trainings, 'training')}"
        return self.state.value

    def _held_out_lines(self, honest: HonestValue) -> list[str]:
        """Return the value on the test split, if there is one."""
        if honest.held_out is None:
            return []
        rows = f"{plural(honest.held_out_rows, 'id' if self.clustered else 'row')} that no pick used"
        rows = rows if honest.held_out_rows else "test rows, over seeds alone"
        value = f"{honest.held_out.format(honest.held_out.value)} test:{self.metric}{ARROWS[self.direction]}"
        sure = f"({100 * (1 - self.level):g}%: {honest.held_out.bounds})"
        return [f"  {value}, the mean of {self.standing.seeds} fresh trainings on {rows} {sure}"]

    def _value_line(self, honest: HonestValue) -> str:
        interval = honest.interval
        value = f"{interval.format(interval.value)} {self.metric}{ARROWS[self.direction]}"
        sure = f" ({100 * (1 - self.level):g}%: {interval.bounds})" if interval.high > interval.low else ""
        searched = f"the search had measured {interval.format(self.standing.search_value)}"
        if honest.is_corrected:
            words = [f"expected for these params on new rows{sure}", searched, *honest.limits]
            return f"  {value}, {'; '.join(words)}"
        fresh = f"the mean of {self.standing.seeds} fresh trainings on these validation rows"
        return f"  {value}, {fresh}{sure}; {'; '.join([searched, *honest.limits])}"

    def _reason_line(self) -> str:
        pairs = self.open_pairs
        if self.state is ConfirmationState.DECIDED:
            beaten = [one.pair for one in self.standings if one.pair is not None and one.pair.separated]
            if not beaten:
                return "  all other contenders left"
            nearest = min(beaten, key=lambda pair: pair.difference - pair.half)
            level = f"{100 * (1 - nearest.level):g}%"
            gap = nearest.interval.format(nearest.difference)
            if nearest.half > 0:
                gap += f" ({level}: {nearest.interval.bounds})"
            count = (
                "the other contender" if len(beaten) == 1 else f"each of the {len(beaten)} other contenders"
            )
            return (
                f"  better than {count} under the same seeds; than trial {nearest.trial}, the nearest, "
                f"by {gap}, {format_p(nearest.p_value)}"
            )
        most = f"{self.may_lose or 0.0:.3g}"
        level = f"({100 * (1 - self.level):g}%)"
        if self.state is ConfirmationState.TIED:
            luck = f"a difference below {self.equivalence or 0.0:.3g} does not matter"
            return f"  no other contender is better by more than {most} {level}; {luck}"
        left = [str(one.trial) for one in self.standings if one.left_at is not None]
        text = f"  another contender may be better by up to {most} {level}"
        if not self.may_lose:
            text = f"  no other contender is better {level}, but not all are shown to be worse"
        text += f"; still in: {listed(str(pair.trial) for pair in pairs)}"
        return text + (f"; out: {listed(left)}" if left else "")

    def _others_text(self) -> str:
        if not self.others:
            return ""
        were = "was" if self.others == 1 else "were"
        near = f"{first_of(self.near, _MOST_NEAR)} may" if self.near else "none can"
        others = plural(self.others, "other complete trial")
        return f"; {others} {were} not trained again: {near} be as good with a luckier seed"

    def _departures(self) -> list[str]:
        """Return which contenders left without being compared, and which were measured on other rows."""
        failed = {trial: reason for look in self.looks for trial, reason in look.failed.items()}
        lines = [f"  trial {trial} left: {reason.partition(chr(10))[0]}" for trial, reason in failed.items()]
        others = [pair.trial for pair in self.looks[-1].pairs if not pair.paired] if self.looks else []
        if others:
            trials = f"trial{'s' * (len(others) > 1)} {listed(map(str, others))}"
            lines.append(f"  {trials} had other validation rows, or another order, so rows are not paired")
        if self.looks and any(pair.half == 0 for pair in self.looks[-1].pairs):
            lines.append(
                "  neither seeds nor stored row values vary, so this holds only for these validation rows"
            )
        if self.looks and any(pair.seeds_alone for pair in self.looks[-1].pairs):
            lines.append(
                "  validation rows or their order differ between seeds, so only seeds are compared; if only "
                "the order differs, the intervals leave out the luck of these rows"
            )
        return lines

    def _advice(self, more: Callable[[int], str]) -> list[str]:
        """Return what to do when nothing is decided."""
        pairs = self.open_pairs
        if self.looks and not self.looks[-1].seeds_matter:
            return ["  training does not depend on its seed, so more trainings cannot decide"]
        if self.state is ConfirmationState.TIED:
            tied = {self.winner, *(pair.trial for pair in pairs)}
            cheapest = min((one for one in self.standings if one.trial in tied), key=lambda one: one.seconds)
            if cheapest.trial == self.winner or not self.standing.seconds:
                return []
            share = cheapest.seconds / self.standing.seconds
            return [f"  trial {cheapest.trial} trains in {share:.2g} of the time"] if share < _CHEAPER else []
        if self.state is not ConfirmationState.SPENT or not pairs:
            return []
        pair = pairs[0]
        if pair.seeds_wanted is not None:
            wanted = pair.seeds_wanted
            if self.extended:
                return ["  a further extension cannot decide"] if self.extended == 1 else []
            advice = "allow more time" if self.reason else more(wanted)
            return [f"  about {wanted} seeds would separate {self.winner} from {pair.trial}: {advice}"]
        if pair.rows_wanted:
            what = "ids" if self.clustered else "rows"
            return [
                f"  more seeds cannot separate {self.winner} from {pair.trial} on these {what}; about "
                f"{pair.rows_wanted:,} {what} would"
            ]
        return [f"  these trainings show no difference between {self.winner} and {pair.trial}"]


def extension_lines(extended: int, level: float) -> list[str]:
    """Return what it means for the verdicts at a level that more was asked for, so often."""
    if extended > 1:
        return [f"  extended {extended} times: trainings after the first extension cannot decide"]
    wrong, usual = (f"{100 * share:g}%" for share in (1.5 * level, level))
    return [f"  extended once: about {wrong} of such verdicts may be wrong, not {usual}"] if extended else []


def _standing(content: Mapping[str, Any]) -> Standing:
    pair, values = content["pair"], tuple(content.get("values", ()))
    return Standing(**{**content, "pair": pair and Pair(**pair), "values": values})


def _honest_value(content: Mapping[str, Any]) -> HonestValue:
    interval, held_out = Interval(**content["interval"]), content.get("held_out")
    facts = {**content, "interval": interval, "limits": tuple(content["limits"])}
    return HonestValue(**{**facts, "held_out": held_out and Interval(**held_out)})


def _look(content: Mapping[str, Any]) -> Look:
    pairs = tuple(Pair(**pair) for pair in content["pairs"])
    failed = {int(trial): str(reason) for trial, reason in content["failed"].items()}
    return Look(**{**content, "pairs": pairs, "failed": failed})
