"""Trials of earlier searches as prior knowledge: what a sampler learns from them, and points to try first.

They never enter the study: only the sampler sees them, before the trials that the study has. So pruners do
not compare with them, and they count in no budget, no best trial and no confirmation.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from threading import get_ident
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, TrialState as OptunaState, create_trial

from ..._text import one_line
from ...direction import Direction
from ...exceptions import ConfigError, RecordError, SpaceError
from ...records.epoch_log import read_trial
from ...records.trial_record import EpochRecord, TrialRecord, TrialState
from ...selection.rules import At
from ...selection.selection import front_trials, ranked
from ...selection.trial_attempts import repicked
from ...space.dimensions import Value
from ...space.space import Space
from ..registry import learns
from ._internals import storage_of
from .restore import distribution_of
from .samplers import excess_arguments
from .study import PREFIX, check_direction, get_attribute, metrics_of, put_attribute, study_records

if TYPE_CHECKING:
    from ...run.spec import RunSpec  # with torch, which adding a trial need not load

PRIOR = f"{PREFIX}prior"
Source: TypeAlias = optuna.Study | Path | str
MOST = 1000
"""Trials of one earlier search that a sampler learns from: the last ones."""
_UNNAMED = "value"  # see `metrics_of`

_log = logging.getLogger("hpometrics")


@dataclass(frozen=True)
class PriorTrial:
    """A trial of an earlier search, in the space and by the objectives of this one.

    Args:
        point: its stored params.
        values: the value of each objective; empty for a pruned trial.
        reports: the values of a pruned trial by epoch.
        excesses: by how much it exceeds each bound.
    """

    point: Mapping[str, Any]
    values: Sequence[float] = ()
    reports: Mapping[int, float] = field(default_factory=dict)
    excesses: Mapping[str, float] = field(default_factory=dict)

    def frozen(self, number: int, space: Space) -> FrozenTrial:
        """Return the trial as a sampler sees it.

        Raises:
            SpaceError: the space has changed, and does not contain it any more.
        """
        space.decode(self.point)
        distributions = {name: distribution_of(space.dimensions[name]) for name in self.point}
        trial = create_trial(
            state=OptunaState.COMPLETE if self.values else OptunaState.PRUNED,
            values=self.values or None,
            params=dict(self.point),
            distributions={name: one for name, one in distributions.items() if one is not None},
            intermediate_values=dict(self.reports),
            **excess_arguments(self.excesses),
        )
        trial.number = number
        return trial


@dataclass(frozen=True)
class Prior:
    """The prior knowledge from one earlier search.

    Args:
        line: what was taken and what was left out.
        trials: those that the sampler learns from.
        first: the stored points to try first.
    """

    line: str
    trials: Sequence[PriorTrial] = ()
    first: Sequence[Mapping[str, Any]] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as plain JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Self:
        """Read what `to_json` returned.

        Raises:
            RecordError: it is something else.
        """
        try:
            trials = []
            for facts in content["trials"]:
                reports = {int(epoch): float(value) for epoch, value in facts["reports"].items()}
                trials.append(
                    PriorTrial(dict(facts["point"]), tuple(facts["values"]), reports, dict(facts["excesses"]))
                )
            return cls(str(content["line"]), trials, [dict(point) for point in content["first"]])
        except (KeyError, TypeError, ValueError, AttributeError) as err:
            raise RecordError(f"cannot read the trials of an earlier search: {one_line(err)}") from err


def gather(
    source: str,
    records: Iterable[TrialRecord],
    space: Space,
    optimized: Mapping[str, Direction],
    *,
    enqueue: int = 1,
    unlearned: str | None = None,
    fixed: Container[str] = (),
    bounds: Container[str] = (),
) -> Prior:
    """Gather the trials of an earlier search that are of use to this one.

    Args:
        source: the name of the earlier search in the line.
        records: its trials, with the values of this search's objectives.
        space: the space of this search.
        optimized: the direction of each objective by name.
        enqueue: the number of the best trials whose params are tried first.
        unlearned: why the sampler does not learn from the values; None if it does.
        fixed: names of params that did not vary; those that this space does not vary either are left out.
        bounds: the constraints of this search.
    """
    ended = [record for record in records if record.state.finished]
    lost: Counter[str] = Counter()
    points: dict[int, Mapping[str, Any]] = {}
    whole: list[TrialRecord] = []
    for record in ended:
        if reason := _uselessness(record, optimized):
            lost[reason] += 1
            continue
        try:
            points[record.number], is_whole = _fit(record.params, space, fixed)
            whole += [record] if is_whole else []
        except SpaceError as err:
            lost[str(err).removeprefix("space.").partition(", got")[0].replace(": ", " ", 1)] += 1
    known = [record for record in ended if record.number in points]
    first = _leaders([one for one in known if one.state is TrialState.COMPLETE], optimized)[:enqueue]
    learned = [] if unlearned is not None else whole[-MOST:]
    left_out = "".join(f", {count} left out: {why}" for why, count in lost.items())
    facts = [unlearned or f"the sampler learns from {len(learned)}"]
    partial = len(known) - len(whole)
    facts += [f"{partial} do not have the params of this space"] if partial else []
    facts += [f"tried first: {', '.join(f'trial {one.number}' for one in first)}"] if first else []
    return Prior(
        f"{len(known)} of {len(ended)} trials of {source}{left_out}; {'; '.join(facts)}",
        [_prior_trial(record, points[record.number], optimized, bounds) for record in learned],
        [points[record.number] for record in first],
    )


def _uselessness(record: TrialRecord, optimized: Mapping[str, Direction]) -> str:
    """Return why a trial is of no use; empty if it is of use."""
    if record.state is TrialState.FAILED:
        return "failed"
    if record.exploits:
        return "params that changed in training"
    if record.state is TrialState.PRUNED:
        return "" if len(optimized) == 1 and _reports(record, optimized) else "pruned"
    return "" if all(map(math.isfinite, record.scores(optimized))) else "no value"


def _reports(record: TrialRecord, optimized: Mapping[str, Direction]) -> dict[int, float]:
    numbers = {epoch.epoch: epoch.number(next(iter(optimized))) for epoch in record.epochs}
    return {epoch: number for epoch, number in numbers.items() if math.isfinite(number)}


def _fit(params: Mapping[str, Any], space: Space, fixed: Container[str]) -> tuple[dict[str, Any], bool]:
    """Return the stored point of params, and whether it has all of them and each dimension.

    Raises:
        SpaceError: one lies outside of the space.
    """
    varied = {*space.params, *space.dimensions}
    varied -= {name for name, one in space.dimensions.items() if isinstance(one, Value) and name in fixed}
    own = {name: value for name, value in params.items() if name in varied}
    point = space.encode(own)
    try:
        space.decode(point)
    except SpaceError:
        return point, False
    return point, all(name in own or name in fixed for name in params)


def _leaders(records: Sequence[TrialRecord], optimized: Mapping[str, Direction]) -> list[TrialRecord]:
    """Return trials best first; with several objectives those of the front."""
    if len(optimized) > 1:
        return front_trials(records, optimized)
    return ranked(records, next(iter(optimized.values())))


def _prior_trial(
    record: TrialRecord, point: Mapping[str, Any], optimized: Mapping[str, Direction], bounds: Container[str]
) -> PriorTrial:
    if record.state is TrialState.PRUNED:
        return PriorTrial(point, reports=_reports(record, optimized))
    excesses = {bound: excess for bound, excess in record.constraints.items() if bound in bounds}
    return PriorTrial(point, record.scores(optimized), excesses=excesses)


class PriorSampler(BaseSampler):
    """A sampler that sees trials of earlier searches before those of the study.

    Args:
        example: the sampler that draws.
        trials: the earlier trials.
    """

    def __init__(self, example: BaseSampler, trials: Sequence[FrozenTrial]) -> None:
        self.example, self._trials = example, trials
        self._seen: dict[int, tuple[int, optuna.Study]] = {}

    @property
    def kind(self) -> str:
        """The name of the class that draws."""
        return getattr(self.example, "kind", type(self.example).__name__)

    def infer_relative_search_space(
        self, study: optuna.Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        """Pass on, with the earlier trials."""
        return self.example.infer_relative_search_space(self._with_prior(study, trial), trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Pass on, with the earlier trials."""
        return self.example.sample_relative(self._with_prior(study, trial), trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Pass on, with the earlier trials."""
        seen = self._with_prior(study, trial)
        return self.example.sample_independent(seen, trial, param_name, param_distribution)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Pass on."""
        self.example.before_trial(study, trial)

    def after_trial(
        self, study: optuna.Study, trial: FrozenTrial, state: OptunaState, values: Sequence[float] | None
    ) -> None:
        """Pass on."""
        self.example.after_trial(study, trial, state, values)

    def reseed_rng(self) -> None:
        """Pass on."""
        self.example.reseed_rng()

    def _with_prior(self, study: optuna.Study, trial: FrozenTrial) -> optuna.Study:
        """Return the study with the earlier trials, read once for each trial that this thread draws."""
        number, seen = self._seen.get(get_ident(), (None, study))
        if number != trial.number:
            storage: Any = _PriorView(storage_of(study), self._trials)
            seen = optuna.load_study(
                study_name=study.study_name, storage=storage, sampler=study.sampler, pruner=study.pruner
            )
            self._seen[get_ident()] = trial.number, seen
        return seen


class _PriorView:
    """A storage that lists earlier trials before its own."""

    def __init__(self, storage: BaseStorage, trials: Sequence[FrozenTrial]) -> None:
        self._inner, self._trials = storage, trials

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[OptunaState] | None = None
    ) -> list[FrozenTrial]:
        prior = [trial for trial in self._trials if states is None or trial.state in states]
        return [*prior, *self._inner.get_all_trials(study_id, deepcopy, states)]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def with_prior(sampler: BaseSampler, priors: Iterable[Prior], space: Space) -> BaseSampler:
    """Return a sampler that learns from earlier searches; itself if there is nothing to learn.

    Trials that a changed space does not contain any more are left out.
    """
    trials: list[FrozenTrial] = []
    known = [trial for prior in priors for trial in prior.trials]
    for number, trial in enumerate(known, -len(known)):  # before those of the study, the first of which is 0
        try:
            trials.append(trial.frozen(number, space))
        except SpaceError:
            continue
    inner = sampler.example if isinstance(sampler, PriorSampler) else sampler
    return PriorSampler(inner, trials) if trials else inner


def first_points(
    priors: Iterable[Prior], space: Space, others: Iterable[Mapping[str, Any]] = ()
) -> list[Any]:
    """Return the points of earlier searches to try first, each once, without those among `others`."""
    points: list[Mapping[str, Any]] = []
    for point in (point for prior in priors for point in prior.first):
        if point not in (*points, *others) and _lies_in(point, space):
            points.append(point)
    return points


def _lies_in(point: Mapping[str, Any], space: Space) -> bool:
    try:
        for name, stored in point.items():
            space.value_of(name, stored)
    except SpaceError:
        return False
    return True


def name_values(
    records: Iterable[TrialRecord], metrics: Sequence[str], names: Sequence[str]
) -> list[TrialRecord]:
    """Return trials of a study whose values have no name under the names of the objectives.

    Raises:
        ConfigError: the study says that they are of other metrics.
    """
    if list(metrics) == list(names):
        return list(records)
    if list(metrics) != [_UNNAMED]:
        raise ConfigError(f"its values are those of {', '.join(metrics)}, not of {', '.join(names)}")
    if len(names) > 1:
        raise ConfigError(
            f"its values have no names, so the values of {', '.join(names)} cannot be told apart"
        )
    return [
        replace(one, epochs=tuple(EpochRecord(e.epoch, {names[0]: e.number(_UNNAMED)}) for e in one.epochs))
        for one in records
    ]


def warm_start(
    study: optuna.Study, sources: Sequence[Source], space: Space, spec: RunSpec, enqueue: int = 1
) -> list[Mapping[str, Any]]:
    """Show earlier searches to the sampler of a study, and return the points to try first.

    Args:
        study: its sampler is replaced. It keeps what it learned from whom, which holds from then on.
        sources: studies, and directories of objectives or sweeps.
        space: the space of this search.
        spec: what this search measures.
        enqueue: the number of the best trials of each to try first.

    Raises:
        ConfigError: a source has no values of the metrics.
        DirectionError: a study has another direction.
    """
    stored = get_attribute(study.user_attrs, PRIOR)
    if stored is None:
        priors = [_read(source, space, spec, enqueue, learns(study.sampler)) for source in sources]
        put_attribute(study.set_user_attr, PRIOR, [prior.to_json() for prior in priors])
        for prior in priors:
            _log.warning("warm start: %s", prior.line)
    else:
        priors = [Prior.from_json(content) for content in stored]
    study.sampler = with_prior(study.sampler, priors, space)
    return first_points(priors, space)


def _read(source: Source, space: Space, spec: RunSpec, enqueue: int, is_learning: bool) -> Prior:
    """Read the trials of an earlier search for an objective."""
    names = list(spec.optimized)
    if isinstance(source, optuna.Study):
        label = f"the study {source.study_name!r}"
        check_direction(source, spec.optimized)
        try:
            records = name_values(study_records(source), metrics_of(source), names)
        except ConfigError as err:
            raise ConfigError(f"warm_start: {label}: {err}") from None
    else:
        label = str(source)
        folders = [one for one in Path(source).glob("trials/*") if one.name.isdecimal()]
        folders.sort(key=lambda folder: int(folder.name))
        read = [record for record in map(read_trial, folders) if record is not None]
        if not any(names[0] in epoch.values for record in read for epoch in record.epochs):
            raise ConfigError(f"warm_start: {label}: has no trial with values for {names[0]}")
        records = [repicked(record, spec.optimized, At(spec.at), spec.bounds) for record in read]
    unlearned = None if is_learning else "this sampler does not learn from trials"
    bounds = list(map(str, spec.bounds))
    return gather(label, records, space, spec.optimized, enqueue=enqueue, unlearned=unlearned, bounds=bounds)
