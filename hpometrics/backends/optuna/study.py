"""Studies of Optuna: opening and checking them, and the records and attributes of their trials."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
from optuna.pruners import BasePruner, HyperbandPruner
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.trial import BaseTrial, FrozenTrial, Trial, TrialState as OptunaState

from ...direction import Direction
from ...exceptions import DirectionError, RecordError, SpaceError
from ...records._files import EPOCHS_LIMIT, atomic_write, make_private, open_regular
from ...records._json import FORMAT, FORMAT_KEY, check_format
from ...records.epoch_log import EPOCHS_FILE, current_epochs
from ...records.trial_record import EpochRecord, TrialRecord, TrialState, numbers_of, write_trial
from ...space.space import Space
from ._internals import forget_trials, local_copy_of, storage_of, trial_id_of
from .database import repeats_turn
from .samplers import is_plain, set_excesses
from .storage import exclusive

PREFIX = "hpometrics:"
STUDY_FORMAT = f"{PREFIX}{FORMAT_KEY}"
METRIC = f"{PREFIX}metric"
SPACE = f"{PREFIX}space"
ROWS = f"{PREFIX}rows"
"""The rows of the first run in a user's own objective, its trial, and the first trial with other rows."""
RESULT = f"{PREFIX}result"
REASON = f"{PREFIX}reason"
PRUNED = f"{PREFIX}pruned"  # the epoch after which the pruner stopped it
PANEL = f"{PREFIX}panel"  # the names of the attributes of a trial that hold one value each
PICKED_EPOCH = "picked_epoch"
PICKED_STEP = "picked_step"
OWNER = f"{PREFIX}owner"
"""The process that works on a trial, and the id of its run directory."""
BEAT = f"{PREFIX}beat"
"""A counter that grows while the owner lives."""

STATES = {
    OptunaState.WAITING: TrialState.WAITING,
    OptunaState.RUNNING: TrialState.RUNNING,
    OptunaState.COMPLETE: TrialState.COMPLETE,
    OptunaState.PRUNED: TrialState.PRUNED,
    OptunaState.FAIL: TrialState.FAILED,
}
"""Optuna's states of a trial, each with ours."""

_NO_EPOCH = -1  # of the values of several objectives, whose epoch is unknown
_LONGEST = 60_000
"""Characters of JSON that every database can store in one attribute."""
_PIECE = _LONGEST // 2 - 1
"""Characters of a piece, in quotes: each of them may have to be escaped."""
_PIECES = "pieces of"


@contextmanager
def without_notices() -> Iterator[None]:
    """Silence all messages of Optuna below warnings."""
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(verbosity, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(verbosity)


@repeats_turn
def open_study(
    storage: BaseStorage,
    name: str,
    optimized: Mapping[str, Direction],
    sampler: BaseSampler | None = None,
    pruner: BasePruner | None = None,
    facts: Mapping[str, str] | None = None,
) -> optuna.Study:
    """Create a study, or load the one of that name if its metrics and facts are the same; see `check_study`.

    Raises:
        DirectionError: the stored study has another direction.
        RecordError: it has another metric or other facts.
    """
    with exclusive(storage, name):
        study = optuna.create_study(
            storage=storage,
            study_name=name,
            sampler=sampler,
            pruner=pruner,
            directions=[direction.value for direction in optimized.values()],
            load_if_exists=True,
        )
        check_study(study, optimized, facts)
    return study


def check_direction(study: optuna.Study, optimized: Mapping[str, Direction]) -> None:
    """Refuse a study that does not search in the directions of the metrics.

    Raises:
        DirectionError: the directions differ; the message has both.
    """
    actual = [direction.name.lower() for direction in study.directions]
    expected = [direction.value for direction in optimized.values()]
    if actual != expected:
        goals = ", ".join(f"{name} must be {one.value}d" for name, one in optimized.items())
        fix = f"direction={expected[0]!r}" if len(expected) == 1 else f"directions={expected}"
        raise DirectionError(
            f"{goals}, but the study {study.study_name!r} is set to {', '.join(actual)}; create it with {fix}"
        )


def check_study(
    study: optuna.Study,
    optimized: Mapping[str, Direction],
    facts: Mapping[str, str] | None = None,
    write: bool = True,
) -> None:
    """Refuse a study with another metric or other facts; write ours to the attributes of a new one.

    Args:
        study: new or stored.
        optimized: the direction of each metric that is optimized, by its canonical name.
        facts: further facts that must stay the same.
        write: whether to write them.

    Raises:
        DirectionError: a direction differs.
        RecordError: a metric or a fact differs.
        NewerFormatError: a newer version of this package has written to the study.
    """
    stored, names = study.user_attrs, list(optimized)
    check_study_format(study.study_name, stored)
    check_direction(study, optimized)
    about = names if len(names) > 1 else names[0]
    for name, fact in {"metric": about, **(facts or {})}.items():
        key = f"{PREFIX}{name}"
        if key in stored and stored[key] != fact:
            raise RecordError(
                f"the study {study.study_name!r} was created with {name} {stored[key]!r}, but {name} is "
                f"{fact!r} now; create another study, or use the {name} of the study"
            )
        if write and stored.get(key) != fact:
            study.set_user_attr(key, fact)
    if write and stored.get(STUDY_FORMAT) != FORMAT:
        study.set_user_attr(STUDY_FORMAT, FORMAT)


def check_study_format(name: str, attributes: Mapping[str, Any]) -> None:
    """Refuse a study that a newer version of this package has written to.

    Args:
        name: the name of the study.
        attributes: its user attributes.

    Raises:
        NewerFormatError: a newer version has.
    """
    check_format({FORMAT_KEY: attributes.get(STUDY_FORMAT, 0)}, f"the study {name!r}")


def check_origin(
    study: optuna.Study, metrics: Sequence[str], space: Space, extend: bool = False, adopt: bool = False
) -> None:
    """Refuse a study whose trials have another space or metric; write the space to a new one.

    Args:
        study: new, stored, or created by hand.
        metrics: the canonical names of what is optimized.
        space: the space from which its next trials are drawn.
        extend: accept a changed space and store it.
        adopt: accept trials that do not say which metric their values are of.

    Raises:
        RecordError: the metrics differ, or the space; the message has each difference.
    """
    name = study.study_name
    if study.metric_names is not None and list(study.metric_names) != list(metrics):
        stored, requested = ", ".join(study.metric_names), ", ".join(metrics)
        raise RecordError(f"the study {name!r} optimizes {stored}, not {requested}; create another study")
    before: Mapping[str, Any] | None = study.user_attrs.get(SPACE)
    now = json.loads(json.dumps(space.to_json(), allow_nan=False))
    if before is None:
        _check_unmarked(study, metrics, space, adopt)
    elif before != now and not extend:
        advice = "create another study, or use the space of this one"
        lines = "\n".join((*_differences(before, now), advice))
        raise RecordError(f"the study {name!r} was created with another space:\n{lines}")
    if before != now:
        study.set_user_attr(SPACE, now)


def _check_unmarked(study: optuna.Study, metrics: Sequence[str], space: Space, adopt: bool) -> None:
    """Refuse trials of another objective, unless they fit and the user says that their metrics do."""
    finished = study.get_trials(deepcopy=False, states=(OptunaState.COMPLETE, OptunaState.PRUNED))
    unmarked = [trial for trial in finished if RESULT not in trial.user_attrs]
    for trial in unmarked:
        try:
            space.decode(trial.params)
        except SpaceError as err:
            raise RecordError(
                f"trial {trial.number} of the study {study.study_name!r} belongs to another space: {err}; "
                "create another study"
            ) from None
    panels = [panel_of(trial) for trial in unmarked]  # of runs in a user's own objective
    foreign = [panel for panel in panels if panel is None or list(panel["metrics"]) != list(metrics)]
    if foreign and study.metric_names is None and not adopt:
        raise RecordError(
            f"the study {study.study_name!r} has {len(foreign)} finished trials that do not name the "
            f"metric of their values; if it is {' and '.join(metrics)}, call objective.attach(study, "
            "adopt=True), otherwise create another study"
        )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            old, new = _format_dimension(before.get(name)), _format_dimension(now.get(name))
            yield f"  space.{name}: {old} -> {new}"


def _format_dimension(dimension: Mapping[str, Any] | None) -> str:
    """Format a dimension as it is written in Python, without defaults such as `log=false`."""
    if dimension is None:
        return "(not there)"
    facts = {name: fact for name, fact in dimension.items() if name != "kind" and fact is not False}
    return f"{dimension['kind']}({', '.join(f'{name}={json.dumps(fact)}' for name, fact in facts.items())})"


def metrics_of(study: optuna.Study) -> list[str]:
    """Return the names of the metrics that a study optimizes, from its attributes; `value` if it has none.

    Raises:
        NewerFormatError: a newer version of this package has written to the study.
    """
    attributes = study.user_attrs
    check_study_format(study.study_name, attributes)
    names = attributes.get(METRIC, "value")
    return list(names) if isinstance(names, list) else [names]


def write_result(trial: BaseTrial, record: TrialRecord) -> None:
    """Write to the trial its result: constraints, params as received, picked epoch, reason, seed."""
    set_excesses(trial, record.constraints)
    put_attribute(trial.set_user_attr, RESULT, _result_of(record))
    if record.reason:
        put_attribute(trial.set_user_attr, REASON, record.reason)


def is_result_of(attributes: Mapping[str, Any], record: TrialRecord) -> bool:
    """Check whether the attributes of a trial hold the result of this record."""
    stored = json.dumps(get_attribute(attributes, RESULT), sort_keys=True)
    return stored == json.dumps(_result_of(record), sort_keys=True)


def _result_of(record: TrialRecord) -> dict[str, Any]:
    picked = {name: v if math.isfinite(v) else None for name, v in numbers_of(record.picked_values).items()}
    return {**record.to_json(), "picked": picked, **({} if record.step is None else {"step": record.step})}


def write_panel(trial: BaseTrial, metrics: Sequence[str] | None, picked: EpochRecord) -> None:
    """Write the values of the picked epoch to attributes of the trial, one each, for tables and dashboards.

    Args:
        trial: a running trial.
        metrics: the names of the optimized metrics; None if `write_result` has written them.
        picked: None replaces a value that is not finite, and those of many numbers are left out.
    """
    numbers = {name: v if math.isfinite(v) else None for name, v in numbers_of(picked.values).items()}
    step = {} if picked.step is None else {PICKED_STEP: picked.step}
    for name, value in {**numbers, PICKED_EPOCH: picked.epoch, **step}.items():
        trial.set_user_attr(name, value)
    if metrics is not None:
        panel = {FORMAT_KEY: FORMAT, "metrics": list(metrics), "values": list(numbers)}
        put_attribute(trial.set_user_attr, PANEL, panel)


def panel_of(trial: FrozenTrial) -> Mapping[str, Any] | None:
    """Read from a trial what `write_panel` has written; None if there is nothing.

    Raises:
        NewerFormatError: a newer version of this package has written it.
    """
    panel: Mapping[str, Any] | None = get_attribute(trial.user_attrs, PANEL)
    check_format(panel, f"trial {trial.number} of the study")
    return panel


def put_attribute(write: Callable[[str, Any], object], key: str, value: Any) -> None:
    """Set an attribute; the pieces of a long one come first, so every reader sees all of it or nothing.

    Args:
        write: sets one attribute of a study or a trial, such as `trial.set_user_attr`.
        key: the name of the attribute.
        value: what JSON can represent.
    """
    text = json.dumps(value)
    if len(text) <= _LONGEST:
        write(key, value)
        return
    digest = hashlib.sha256(text.encode()).hexdigest()
    count = -(-len(text) // _PIECE)
    for index in range(count):
        write(_piece_key(digest, index), text[index * _PIECE : (index + 1) * _PIECE])
    write(key, {_PIECES: digest, "count": count})


def get_attribute(attributes: Mapping[str, Any], key: str) -> Any:
    """Read an attribute that `put_attribute` has set; None if there is none.

    Raises:
        RecordError: a piece is missing, or is not what was written.
    """
    value = attributes.get(key)
    if not (isinstance(value, dict) and _PIECES in value):
        return value
    digest = value[_PIECES]
    text = "".join(str(attributes.get(_piece_key(digest, index), "")) for index in range(value["count"]))
    if hashlib.sha256(text.encode()).hexdigest() != digest:
        raise RecordError(f"the attribute {key!r} is damaged: its pieces differ from those that were written")
    return json.loads(text)


def _piece_key(digest: str, index: int) -> str:
    return f"hpometrics:piece:{digest[:16]}:{index}"


def tell(study: optuna.Study, trial: Trial, record: TrialRecord) -> None:
    """Finish a trial in the state of its record; an interrupted one stays running, to be reclaimed."""
    write_result(trial, record)
    if record.state.trained:
        names = metrics_of(study) if len(study.directions) > 1 else ()  # read only if there are several
        _finish(study, trial, OptunaState.COMPLETE, list(record.scores(names)))
    elif record.state is TrialState.PRUNED:
        _finish(study, trial, OptunaState.PRUNED)
    elif record.state.finished:
        _finish(study, trial, OptunaState.FAIL)


def study_records(study: optuna.Study, ended: dict[int, TrialRecord] | None = None) -> list[TrialRecord]:
    """Read all trials of a study; an epoch has the one value that was reported to Optuna.

    Args:
        study: the study.
        ended: the records of trials that had ended in an earlier call, by number, which never change; those
            that have ended since are added.
    """
    metrics, known = metrics_of(study), {} if ended is None else ended
    records = []
    for trial in study.get_trials(deepcopy=False):
        record = known.get(trial.number)
        if record is None:
            record = record_of(trial, metrics)
            if trial.state.is_finished():
                known[trial.number] = record
        records.append(record)
    return records


def _finish(study: optuna.Study, trial: Trial, state: OptunaState, values: list[float] | None = None) -> None:
    """Finish a trial as `study.tell` does, which reads all of it from the storage, before and after.

    The local copy of the trial has all that was suggested, reported or set through it, and Optuna's samplers
    read nothing else when a trial ends.
    """
    local: FrozenTrial = local_copy_of(trial)
    if state is OptunaState.PRUNED and local.last_step is not None:
        last = local.intermediate_values[local.last_step]
        values = None if math.isnan(last) else [last]
    plain = is_plain(study.sampler) and not isinstance(study.pruner, HyperbandPruner)
    if not plain or any(map(math.isnan, values or ())):
        complete = state is OptunaState.COMPLETE
        study.tell(trial, values if complete else None, None if complete else state)
        return
    forget_trials(study)
    try:
        study.sampler.after_trial(study, local, state, values)
    finally:
        storage_of(study).set_trial_state_values(trial_id_of(trial), state, values)


def record_of(trial: FrozenTrial, metrics: Sequence[str]) -> TrialRecord:
    """Read a trial of a study that optimizes these metrics; see `study_records`."""
    metric = metrics[0]
    epochs = tuple(
        EpochRecord(step, {metric: value}) for step, value in sorted(trial.intermediate_values.items())
    )
    result = get_attribute(trial.user_attrs, RESULT)
    if result is not None and trial.state.is_finished():
        picked = {name: math.nan if v is None else v for name, v in result["picked"].items()}
        if len(metrics) > 1 and result["epoch"] is not None:  # no epoch of it was reported to Optuna
            epochs = (EpochRecord(result["epoch"], picked),)
        at_picked = {"values": picked, "step": result.get("step")}
        epochs = tuple(replace(e, **at_picked) if e.epoch == result["epoch"] else e for e in epochs)
        return TrialRecord.from_json({**result, "number": trial.number}, epochs)
    panel = panel_of(trial)
    if panel is None:
        values = _values_of(trial, metrics, epochs)
    else:
        values = _panel_values(trial, panel, metrics, epochs)
    return TrialRecord(
        number=trial.number,
        params=dict(trial.params),
        state=STATES[trial.state],
        reason=get_attribute(trial.user_attrs, REASON),
        **values,
    )


def _panel_values(
    trial: FrozenTrial, panel: Mapping[str, Any], metrics: Sequence[str], epochs: tuple[EpochRecord, ...]
) -> dict[str, Any]:
    """Return the values of a trial whose run, in a user's own objective, has written its picked epoch."""
    epoch = int(trial.user_attrs[PICKED_EPOCH])
    stored = {name: trial.user_attrs.get(name) for name in panel["values"]}
    values = {name: math.nan if value is None else value for name, value in stored.items()}
    others = [one for one in epochs if one.epoch != epoch]
    picked = EpochRecord(epoch, values, step=trial.user_attrs.get(PICKED_STEP))
    return {
        "value": values.get(metrics[0], trial.value if trial.values and len(trial.values) == 1 else None),
        "epoch": epoch,
        "epochs": tuple(sorted([*others, picked], key=lambda one: one.epoch)),
    }


def _values_of(trial: FrozenTrial, metrics: Sequence[str], epochs: tuple[EpochRecord, ...]) -> dict[str, Any]:
    """Return the values of a trial that another objective has finished, as arguments of `TrialRecord`."""
    if trial.state is not OptunaState.COMPLETE or not trial.values:
        return {"epochs": epochs}
    if len(metrics) == 1:
        return {"value": trial.value, "epochs": epochs}
    values = EpochRecord(_NO_EPOCH, dict(zip(metrics, trial.values, strict=True)))
    return {"value": trial.values[0], "epoch": _NO_EPOCH, "epochs": (values,)}


class EpochSender:
    """Copies the lines of a trial's `epochs.jsonl` into its attributes, each once.

    Args:
        trial: a trial in a shared storage.
        path: the path of the file, which grows while the trial is trained.
        owner: the process that writes it; what another one has written of the trial stays apart.
    """

    def __init__(self, trial: Trial, path: Path, owner: str) -> None:
        self._trial, self._path, self._owner = trial, path, owner
        self._sent = 0

    def send(self) -> None:
        """Copy the lines that are new."""
        with open_regular(self._path, EPOCHS_LIMIT) as file:
            file.seek(self._sent)
            new = file.read()
        for line in new[: new.rfind(b"\n") + 1].splitlines(keepends=True):
            record = EpochRecord.from_line(line.decode())
            put_attribute(self._trial.set_user_attr, _key(self._owner, record.epoch), line.decode().strip())
            self._sent += len(line)


def shared_record(trial: FrozenTrial) -> TrialRecord | None:
    """Read the record of a finished trial from its attributes; None if it has no result there.

    Raises:
        RecordError: an attribute is damaged.
        NewerFormatError: a newer version of this package has trained it.
    """
    result = get_attribute(trial.user_attrs, RESULT)
    if result is None:
        return None
    record = TrialRecord.from_json({**result, "number": trial.number}, current_epochs(list(_epochs(trial))))
    return replace(record, checkpoint=None)  # it lies on the machine that trained the trial


def write_shared(directory: Path, record: TrialRecord) -> None:
    """Write the files of a trial as the process that trained it has written them."""
    make_private(directory)
    with atomic_write(directory / EPOCHS_FILE) as file:
        file.writelines(f"{epoch.to_line()}\n".encode() for epoch in record.epochs)
    write_trial(directory, record)


def _epochs(trial: FrozenTrial) -> Iterator[EpochRecord]:
    owner = trial.user_attrs.get(OWNER, [""])[0]
    front = _key(owner, 0)[:-1]
    numbers = sorted(int(key.removeprefix(front)) for key in trial.user_attrs if key.startswith(front))
    for number in numbers:
        line = get_attribute(trial.user_attrs, _key(owner, number))
        yield EpochRecord.from_line(line, f"trial {trial.number} of the study")


def _key(owner: str, epoch: int) -> str:
    return f"{PREFIX}epoch:{owner}:{epoch}"
