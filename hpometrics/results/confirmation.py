"""The confirmation of a sweep's winner in its run directory."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..exceptions import NewerFormatError, RecordError
from ..records._files import read_whole
from ..records._json import read_sealed
from ..records.epoch_log import read_trial
from ..records.trial_record import TrialRecord
from ..selection.confirmation import CONFIRM, Confirmation
from ..selection.front_confirmation import AnyConfirmation, FrontConfirmation
from ..selection.rules import Pick
from ..selection.selection import Best, best_by
from .manifest import Resolved
from .run_directory import RunDirectory

_MOVE_AWAY = "move it away, and `hpometrics confirm` compares the trainings again"


def stored_confirmation(
    home: RunDirectory, records: Sequence[TrialRecord], resolved: Resolved
) -> AnyConfirmation | None:
    """Read how the winner of a sweep was confirmed; None if it was not, or by other trials.

    Raises:
        RecordError: the file is damaged.
        NewerFormatError: a newer version wrote it.
    """
    end = read_confirmation(home) if "confirm" in resolved.config else None
    values = {record.number: record.value for record in records}
    if end is None or any(values.get(one.trial) != one.search_value for one in end.standings):
        return None
    return end


def read_confirmation(home: RunDirectory) -> AnyConfirmation | None:
    """Read the confirmation in a directory; None if there is none, or it has not ended.

    Raises:
        RecordError: the file is damaged.
        NewerFormatError: a newer version wrote it.
    """
    if not os.path.lexists(home.confirmation):
        return None
    place = home.display_path(home.confirmation)
    try:
        content = read_sealed(read_whole(home.confirmation).decode(), place)
        end = content["end"]
        if end is None:
            return None
        return FrontConfirmation.from_json(end) if "members" in end else Confirmation.from_json(end)
    except NewerFormatError:
        raise
    except RecordError as err:
        raise RecordError(f"{place}: {err}" if str(home.path) not in str(err) else str(err)) from err
    except (ValueError, KeyError, TypeError, AttributeError) as err:
        raise RecordError(f"{place}: is damaged; {_MOVE_AWAY}") from err


def sweep_best(
    home: RunDirectory, end: AnyConfirmation | None, records: Sequence[TrialRecord], resolved: Resolved
) -> Best:
    """Return the winner of a sweep: the confirmed one, or else the one that the rule of the sweep picks.

    A confirmed winner has the means of its fresh runs, and the checkpoint of that with the median value, not
    of the luckiest. A trial of a front has what the search measured.

    Args:
        home: its run directory.
        end: how its winner was confirmed, if it was.
        records: its trials.
        resolved: the sweep.

    Raises:
        NoFiniteValueError, ConfigError: as in `best_by`.
    """
    knee = confirmed_knee(end, resolved.pick)
    if knee is not None:
        return best_of(knee, records, resolved)
    if end is None or isinstance(end, FrontConfirmation):
        return best_by(records, resolved.optimized, resolved.pick, resolved.unit)
    best, winner = best_of(end.winner, records, resolved), end.standing
    fresh = [] if end.honest is None else fresh_runs(home, end, end.winner)
    if fresh:
        return best.trained_again(fresh)
    if end.honest is None or winner.mean is None:
        return best
    return replace(  # the record of a fresh run is lost
        best,
        value=winner.mean,
        values={end.metric: winner.mean},
        deviation=winner.deviation,
        repeats=winner.seeds,
        epoch=None,
        step=None,
        seed=None,
        checkpoint=None,
        runs=(),
        confirmed=True,
    )


def fresh_runs(home: RunDirectory, end: AnyConfirmation | None, trial: int) -> list[TrialRecord]:
    """Read the fresh runs of a trial that count; none if one of them failed, or has lost its record."""
    standings = () if end is None else end.standings
    seeds = next((one.seeds for one in standings if one.trial == trial), 0)
    places = (home.trial(trial) / CONFIRM / str(number) for number in range(1, seeds + 1))
    runs = [record for place in places if (record := read_trial(place)) is not None]
    is_whole = len(runs) == seeds and all(run.state.trained and run.value is not None for run in runs)
    return runs if is_whole else []


def confirmed_knee(end: AnyConfirmation | None, pick: Pick | str = "knee") -> int | None:
    """Return the trial at the knee of a front that was trained again, if the knee is picked.

    New trials of the search may dominate it there, where its value and theirs contain luck.
    """
    return end.knee if pick == "knee" and isinstance(end, FrontConfirmation) else None


def best_of(trial: int, records: Sequence[TrialRecord], resolved: Resolved) -> Best:
    """Return a trial of a sweep as its best one."""
    return Best.of(next(one for one in records if one.number == trial), resolved.optimized)


def confirmed_facts(home: RunDirectory, end: AnyConfirmation | None) -> dict[str, Any] | None:
    """Return a confirmation as `best.yaml` has it, with the checkpoints of the winner's fresh runs."""
    if end is None:
        return None
    if isinstance(end, FrontConfirmation):
        return front_end_facts(end)
    winner, interval = end.standing, None if end.honest is None else end.honest.interval
    held_out = None if end.honest is None else end.honest.held_out
    return {
        "state": end.state.value,
        "may_lose": end.may_lose,
        "equivalence": end.equivalence,
        "seeds": winner.seeds,
        "mean": winner.mean,
        "deviation": winner.deviation,
        "honest": None if interval is None else [interval.value, interval.low, interval.high],
        "held_out": None if held_out is None else [held_out.value, held_out.low, held_out.high],
        "search_value": winner.search_value,
        "trainings": end.trainings,
        "checkpoints": [
            {"value": run.value, "checkpoint": os.path.relpath(run.checkpoint, home.path)}
            for run in ([] if end.honest is None else fresh_runs(home, end, end.winner))
            if run.checkpoint is not None
        ],
    }


def front_end_facts(end: FrontConfirmation) -> dict[str, Any]:
    """Return the members of a front that was confirmed, as `best.yaml` has them."""
    members = [
        {
            "trial": member.trial,
            "on_front": member.on_front,
            "beaten_by": member.beaten_by,
            "reason": member.reason,
            "seeds": member.seeds,
            "values": {
                name: {
                    "mean": one.value,
                    "low": one.low,
                    "high": one.high,
                    "deviation": member.deviations[name],
                }
                for name, one in member.values.items()
            },
        }
        for member in end.members
    ]
    return {"knee": end.knee, "trainings": end.trainings, "members": members}
