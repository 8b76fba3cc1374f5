"""Read a folder of Ray Tune results from its JSON files; no pickle is loaded."""

from __future__ import annotations

import csv
import io
import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._redaction import excerpt
from .._text import flat
from ..direction import Direction
from ..exceptions import RecordError
from ..records._files import EPOCHS_LIMIT, check_no_link, read_lines, read_whole
from ..records.trial_record import TrialState
from .search import ForeignTrial, Search

_RESULTS, _TABLE = "result.json", "progress.csv"
_PARAMS, _ERROR, _STATE = "params.json", "error.txt", "experiment_state-*.json"
_EPOCH = "training_iteration"
_PICKED, _VALUE, _VOID = "picked", "value", "void"
"""The keys of a report of `hpometrics`: the picked value, the current one, and whether that is missing."""
_NO_METRIC = frozenset(
    f"{_PICKED} {_VALUE} judged epoch picked_epoch epochs step {_EPOCH} iterations_since_restore".split()
)
"""Keys of its reports that may equal the current value by chance."""
_OURS = frozenset({"number", "params"})
"""The config of a trial of `RayObjective`."""
_STATES = {
    "TERMINATED": TrialState.COMPLETE,
    "ERROR": TrialState.FAILED,
    "RUNNING": TrialState.RUNNING,
    "PENDING": TrialState.WAITING,
    "PAUSED": TrialState.RUNNING,
}


def is_experiment(path: Path) -> bool:
    """Return whether a folder holds folders of trials."""
    return any(path.glob(f"*/{_RESULTS}")) or any(path.glob(f"*/{_TABLE}"))


@dataclass
class _Experiment:
    """The start of an experiment, the status of each trial by folder, and the metric."""

    begun: str
    states: dict[str, str]
    metric: str | None


def read_results(path: Path, metric: str | None = None, direction: Direction | None = None) -> list[Search]:
    """Read the experiments of a folder: two that were given one name have left their trials side by side.

    Args:
        path: a folder with one folder per trial.
        metric: the optimized metric; by default, the one that the experiment's state names.
        direction: the direction of the tuner; the folder does not store it.

    Raises:
        RecordError: one of its files is damaged.
    """
    experiments = _experiments(path) or [_Experiment("", {}, None)]
    folders = sorted({file.parent for name in (_PARAMS, _RESULTS, _TABLE) for file in path.glob(f"*/{name}")})
    older = {name for experiment in experiments[:-1] for name in experiment.states}
    searches = []
    for experiment in experiments:
        is_last = experiment is experiments[-1]
        own = [
            one for one in folders if (one.name not in older if is_last else one.name in experiment.states)
        ]
        is_ours = experiment.metric == _PICKED
        reported = _reported_metric(own) if is_ours and metric is None else None
        called = metric or reported or experiment.metric
        files = [*path.glob(_STATE), *(file for folder in own for file in folder.iterdir())]
        search = Search(
            f"Ray Tune experiment{f' of {experiment.begun}' if len(experiments) > 1 else ''}",
            str(path),
            tuple(_read_trial(folder, experiment.states.get(folder.name), called, is_ours) for folder in own),
            called,
            "--metric" if metric else "its reports" if reported else "the tuner",
            direction,
            time.time() - max((file.lstat().st_mtime for file in files), default=time.time()),
            judge="a scheduler",
        )
        searches.append(search)
    return searches


def _experiments(path: Path) -> list[_Experiment]:
    """Read the experiments of a folder, the oldest first; one that went on has several states."""
    experiments: list[_Experiment] = []
    for file in sorted(path.glob(_STATE)):
        state = _parse_json(read_whole(file, EPOCHS_LIMIT), file)
        statuses = {}
        for entry in state.get("trial_data", ()):
            trial = _parse_json(entry[0] if isinstance(entry, list) and entry else entry, file)
            statuses[str(trial.get("relative_logdir"))] = str(trial.get("status"))
        stored = state.get("runner_data", {}).get("_metric")
        metric = stored if isinstance(stored, str) else None
        same = next((one for one in experiments if one.states.keys() & statuses.keys()), None)
        if same is None:
            begun = file.stem.removeprefix("experiment_state-")
            experiments.append(_Experiment(begun, statuses, metric))
        else:
            same.states |= statuses
            same.metric = metric or same.metric
    return [one for one in experiments if one.states] or experiments[-1:]


def _reported_metric(folders: Iterable[Path]) -> str | None:
    """Return the metric of trials that report by `hpometrics`: the only key that always has the value.

    None if there is no such key, or several.
    """
    names: set[str] | None = None
    for folder in folders:
        for row in _reports(folder):
            if not row.get(_VOID):
                current = row.get(_VALUE, math.nan)
                same = {name for name, value in row.items() if isinstance(value, float) and value == current}
                names = same - _NO_METRIC if names is None else names & same
        if names is not None and len(names) <= 1:
            break
    return next(iter(names)) if names is not None and len(names) == 1 else None


def _reports(folder: Path) -> Iterable[dict[str, Any]]:
    check_no_link(folder)
    return _rows(folder / _RESULTS) if os.path.lexists(folder / _RESULTS) else _table(folder / _TABLE)


def _read_trial(folder: Path, status: str | None, metric: str | None, is_ours: bool) -> ForeignTrial:
    """Read a trial; one of `hpometrics` counts by its picked value, which the tuner compares."""
    rows = list(_reports(folder))
    epochs: dict[int, float] = {}
    repeated: dict[int, None] = {}
    for row in rows:
        epoch = int(row.get(_EPOCH, len(epochs) + 1)) - 1
        if epoch in epochs:
            repeated[epoch] = None
        epochs[epoch] = _number(row, metric)
    failed = (folder / _ERROR).exists()
    state = TrialState.FAILED if failed else _STATES.get(status or "TERMINATED", TrialState.FAILED)
    has_values = metric is not None and any(not math.isnan(value) for value in epochs.values())
    value = _number(rows[-1], _PICKED) if is_ours and rows else epochs[max(epochs)] if epochs else math.nan
    config = _params(folder / _PARAMS)
    params = config["params"] if _OURS <= config.keys() and isinstance(config["params"], dict) else config
    return ForeignTrial(
        name=str(rows[-1].get("trial_id", folder.name)) if rows else folder.name,
        params=dict(flat(params, "/")),
        state=state,
        value=value if has_values else None,
        epochs=epochs,
        repeated=tuple(repeated),
    )


def _params(file: Path) -> dict[str, Any]:
    try:
        return _parse_json(read_whole(file), file)
    except FileNotFoundError:
        return {}


def _table(file: Path) -> Iterable[dict[str, Any]]:
    """Read the CSV table that Ray writes beside its lines of JSON, or instead of them."""
    try:
        text = read_whole(file, EPOCHS_LIMIT).decode()
        for row in csv.DictReader(io.StringIO(text, newline="")):
            yield {name: _parse_number(text) for name, text in row.items() if text not in (None, "")}
    except FileNotFoundError:
        return
    except (UnicodeDecodeError, csv.Error) as err:
        raise RecordError(f"{file}: cannot be read as CSV: {err}") from err


def _parse_number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _rows(file: Path) -> Iterable[dict[str, Any]]:
    for line in read_lines(file, EPOCHS_LIMIT):
        if line.endswith(b"\n"):  # what follows the last newline is still being written
            yield _parse_json(line, file)


def _number(row: Mapping[str, Any], metric: str | None) -> float:
    value: Any = row
    for key in (metric or "").split("/") if metric not in row else [metric]:
        value = value.get(key) if isinstance(value, Mapping) else None
    return float(value) if isinstance(value, (int, float)) else math.nan


def _parse_json(text: str | bytes, file: Path) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except RecursionError:
        raise RecordError(f"{file}: is not JSON: it is nested too deep") from None
    except (ValueError, TypeError) as err:
        raise RecordError(f"{file}: is not JSON: {err}") from err
    if not isinstance(document, dict):
        raise RecordError(f"{file}: expected an object, got {excerpt(text, 40)!r}")
    return document
