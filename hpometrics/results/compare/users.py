"""Compare two trials of a sweep by the values of the same users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..._formatting import aligned, number
from ..._text import printable
from ...direction import Direction
from ...exceptions import ConfigError
from ...metrics.features import RANKING, parse_feature
from ...metrics.registry.names import MetricName
from ...metrics.retrieval.comparison import Comparison, compare_all, compare_strata
from ...metrics.retrieval.per_user import POPULARITY, PerUser
from ...records.trial_record import TrialRecord, to_json
from ...run.artifacts import PER_USER, read_user_table
from ..confirmation import fresh_runs, stored_confirmation
from ..manifest import Resolved
from ..run_directory import RunDirectory
from ..verdict import rows_lines

_THIRDS = ("low", "middle", "high")  # how popular what users like is
_CHANCE = 0.05  # a p-value from here on is not significant
_HOW = "output: ranking(per_user=true) in the sweep file, or Ranking(per_user=True) as the engine's output"
Row = tuple[tuple[str, ...], Comparison]
"""The compared metric and stratum as cells of a table, and the comparison."""


@dataclass(frozen=True)
class TrialComparison:
    """The comparison of two trials, a row per metric, or per metric and stratum.

    Args:
        trials: their numbers.
        heads: the heads of the cells that name what a row compares.
        rows: the rows of the table.
        sentences: which trial is better, a sentence per row.
        exclusions: the rows, objectives and users that are not in both, in words.
    """

    trials: tuple[int, int]
    heads: tuple[str, ...]
    rows: tuple[Row, ...]
    sentences: tuple[str, ...]
    exclusions: tuple[str, ...]

    def text(self) -> str:
        """Return a table, and in words which trial is better."""
        return "\n".join(
            [_format_table(self.rows, self.heads, self.trials), "", *self.sentences, *self.exclusions]
        )

    def facts(self) -> dict[str, Any]:
        """Return the comparison as plain JSON; an undefined effect is null."""
        rows = zip(self.rows, self.sentences, strict=True)
        return {
            "trials": list(self.trials),
            "compared": [_facts(self.heads, row, sentence) for row, sentence in rows],
            "left_out": list(self.exclusions),
        }


def compare_trials(
    directory: Path, a: int, b: int, metrics: Sequence[str] = (), by: str | None = None
) -> TrialComparison:
    """Compare two trials at their picked epochs.

    Args:
        directory: the run directory.
        a: the number of one trial.
        b: the number of the other.
        metrics: names of metrics; by default, all that both trials have values of.
        by: compare users of each `group`, or of each third by the `popularity` of what they like.

    Raises:
        ConfigError: the directory is not a run directory, or a trial does not exist or has no values by user.
        MetricInputError: the trials measured other users, or the users of the first have no such strata.
    """
    home = RunDirectory(directory)
    resolved = home.read()
    records = [home.trial_record(trial) for trial in (a, b)]
    first, second = (_table(home, record, resolved) for record in records)
    names = _chosen(first, second, metrics, (a, b))
    if by is None:
        comparisons = compare_all(first, second, names)
        rows: list[Row] = [((name,), one) for name, one in comparisons.items()]
        exclusions = _left_out(first, second, comparisons, (a, b))
    else:
        parts = compare_strata(first, second, by, names)
        rows = [((name, _stratum_name(by, stratum)), one) for (name, stratum), one in parts.items()]
        exclusions = _left_out_of_strata(first, second, by, names, parts)
    sentences = [
        _sentence(", ".join(what), one, _objective(one.metric, resolved), (a, b)) for what, one in rows
    ]
    missing_objectives = [] if metrics else _objectives_left_out(resolved, names, records)
    heads = ("metric",) if by is None else ("metric", by)
    return TrialComparison(
        (a, b),
        heads,
        tuple(rows),
        tuple(sentences),
        (*_which_trainings(home, resolved, (a, b)), *rows_lines(records), *missing_objectives, *exclusions),
    )


def _which_trainings(home: RunDirectory, resolved: Resolved, trials: tuple[int, int]) -> list[str]:
    """Return a line on the trainings that are compared, if both trials were trained again."""
    end = stored_confirmation(home, home.records(), resolved)
    if not all(fresh_runs(home, end, trial) for trial in trials):
        return []
    places = " ".join(f"{home.label}:{trial}" for trial in trials)
    command = f"hpometrics compare {places}"
    return [f"compared by the training of each trial in the search; {command} compares their fresh trainings"]


def _facts(heads: Sequence[str], row: Row, sentence: str) -> dict[str, Any]:
    what, one = row
    numbers = {
        name: to_json(value) if isinstance(value, float) else value for name, value in vars(one).items()
    }
    return {**numbers, **dict(zip(heads, what, strict=True)), "said": sentence}


def _table(home: RunDirectory, record: TrialRecord, resolved: Resolved) -> PerUser:
    table = read_user_table(home.trial(record.number), record.epoch)
    if table is None:
        raise ConfigError(
            f"{home.path}: trial {record.number} ({record.state.value}) has no stored values by user. "
            f"{_per_user_hint(resolved)}"
        )
    return table


def _per_user_hint(resolved: Resolved) -> str:
    """Return how to get values by user, or another way to compare if the output has no users."""
    if _may_have_users(resolved):
        return f"To store them, set {_HOW}, and rerun with --fresh"
    return f"Only a ranking has them; the output of this sweep is {resolved.output}"


def has_users(directory: Path, trials: Sequence[int]) -> bool:
    """Return whether the output of a sweep may be a ranking, or one of two trials keeps values by user.

    Raises:
        ConfigError: the directory is not a run directory.
        RecordError: its file is damaged.
    """
    home = RunDirectory(directory)
    if _may_have_users(home.read()):
        return True
    return any(path for trial in trials for path in home.trial(trial).glob(f"{PER_USER}.*"))


def _may_have_users(resolved: Resolved) -> bool:
    outputs = resolved.output.values() if isinstance(resolved.output, Mapping) else [resolved.output]
    return any(one is None or parse_feature(one).type == RANKING for one in outputs)


def _chosen(first: PerUser, second: PerUser, metrics: Sequence[str], trials: tuple[int, int]) -> list[str]:
    """Return the metrics to compare."""
    shared = [name for name in first if name in second]
    for name in metrics:
        if name not in shared:
            raise ConfigError(
                f"trials {trials[0]} and {trials[1]} do not both have values of {name!r} by user; "
                f"they share {', '.join(shared) or 'none'}"
            )
    if not shared:
        raise ConfigError(
            f"trials {trials[0]} and {trials[1]} share no metric: {', '.join(first)}; {', '.join(second)}"
        )
    return list(dict.fromkeys(metrics)) or shared


def _objective(metric: str, resolved: Resolved) -> Direction | None:
    """Return the direction of a metric; for another split or a task, that of the metric itself."""
    directions = {**resolved.track, **resolved.optimized}
    name = MetricName.parse(metric)
    for near in (name, replace(name, split=None), replace(name, split=None, task=None)):
        if str(near) in directions:
            return directions[str(near)]
    return None


def _stratum_name(by: str, stratum: int) -> str:
    return f"{by} {_THIRDS[stratum] if by == POPULARITY else stratum}"


def _sentence(what: str, one: Comparison, direction: Direction | None, trials: tuple[int, int]) -> str:
    """Return which trial is better, if test and interval agree that they differ."""
    sure = one.p_value < _CHANCE and not one.low <= 0 <= one.high
    if not sure:
        return f"{what}: the difference is not statistically significant for these {one.users} users"
    if direction is None:
        more = trials[0] if one.difference > 0 else trials[1]
        return f"{what}: trial {more} has the larger values, but the direction of the metric is unknown"
    better = trials[0] if direction.better(one.mean_a, one.mean_b) else trials[1]
    return f"{what}: trial {better} is better ({direction.value}, p {_p(one.p_value)})"


def _objectives_left_out(
    resolved: Resolved, names: Sequence[str], records: Sequence[TrialRecord]
) -> list[str]:
    """Return the objectives without values by user, with the values of both trials as a whole."""
    optimized = resolved.optimized
    scores = [record.scores(optimized) for record in records]
    return [
        f"{name} has no values by user: trial {records[0].number} has {number(one)}, "
        f"trial {records[1].number} has {number(other)} ({direction.value})"
        for (name, direction), one, other in zip(optimized.items(), *scores, strict=True)
        if name not in names
    ]


def _left_out(
    first: PerUser, second: PerUser, comparisons: Mapping[str, Comparison], trials: tuple[int, int]
) -> list[str]:
    """Return how many users have a value in one trial alone."""
    lines = []
    for name, one in comparisons.items():
        counts = [int((~table[name][1].isnan()).sum()) - one.users for table in (first, second)]
        if any(counts):
            counts_text = " and ".join(
                f"{count} of trial {trial}" for count, trial in zip(counts, trials, strict=True)
            )
            lines.append(f"{name} leaves out users without a value in the other trial: {counts_text}")
    return lines


def _left_out_of_strata(
    first: PerUser, second: PerUser, by: str, names: Iterable[str], compared_strata: Iterable[tuple[str, int]]
) -> list[str]:
    """Return the strata with too few users, and how many users are in no stratum."""
    lines, compare_trials = [], set(compared_strata)
    for name in names:
        strata = first.strata_of(name, by)
        lines += [
            f"{name}, {_stratum_name(by, stratum)}: fewer than two users have a value in both trials"
            for stratum in strata
            if (name, stratum) not in compare_trials
        ]
        users = set(first[name][0].tolist()) & set(second[name][0].tolist())
        if nowhere := len(users - {user for part in strata.values() for user in part.tolist()}):
            lines.append(f"{name} leaves out users without a known {by}: {nowhere}")
    return lines


def _format_table(rows: Sequence[Row], heads: tuple[str, ...], trials: tuple[int, int]) -> str:
    numbers = ("difference", "95% interval", "p", "effect", "users")
    head = [*heads, *(f"trial {trial}" for trial in trials), *numbers]
    return aligned([head, *([*map(printable, what), *_cells(one)] for what, one in rows)])


def _cells(one: Comparison) -> list[str]:
    interval = f"{one.low:+.3g} .. {one.high:+.3g}"
    means = (number(one.mean_a), number(one.mean_b), f"{one.difference:+.3g}")
    effect = "-" if one.effect_size != one.effect_size else f"{one.effect_size:+.2f}"
    return [*means, interval, _p(one.p_value), effect, str(one.users)]


def _p(value: float) -> str:
    return f"{value:.2g}" if value >= 0.0001 else "<0.0001"
