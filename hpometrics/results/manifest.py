"""The resolved sweep of a run directory, with every default and the source of each direction.

`sweep.resolved.yaml` holds it, so reading results needs neither the sweep file nor the engine.
"""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from .._imports import installed_versions
from .._text import flat, one_line
from ..backends.registry import BACKENDS
from ..backends.storage_url import is_shared
from ..config.document import ENGINE_PARAM, Document, engine_text, parse_document, read_document
from ..config.placeholders import fill_environment
from ..config.yaml_text import dump_yaml
from ..direction import Direction
from ..exceptions import ConfigError, NewerFormatError, RecordError
from ..records._files import read_whole
from ..records._json import FORMAT, FORMAT_KEY, check_format, digest_of
from ..records.trial_record import TrialRecord
from ..selection.limits import Limits, trials_since_best
from ..selection.rules import CHEAPEST, Constraint, CostUnit, Pick, is_amount
from .annotations import NONE, Annotation, Annotations

if TYPE_CHECKING:
    from ..config.plan import Plan  # with pydantic, which readers of results need not load


_DIGEST = "# sha256 of what follows: "
_ORIGINS = ("registry", "stated", "mixed", "engine")  # of the direction of the metric
_HEADER = "# Written by hpometrics: the sweep as it was understood, every default spelled out.\n"
_COMPARED = (
    "engine.",
    "space.",
    *(f"backend.{name}" for name, entry in BACKENDS.items() if entry.has_points),
    "budget.epochs",
    "budget.steps",
    "budget.every",
    "budget.patience",
    "budget.tol",
    "budget.trial_time",
    "budget.repeats",
    "budget.cost_unit.logged",
)
_OTHER_REPORTS = (
    "all trials of a directory must report at the same steps; give the sweep another name or results.dir"
)
_FATAL = ("name", "metric", "direction", "others", "formula", "constraints", "at")
_KINDS = {
    **dict.fromkeys(("name", "metric", "space", "at"), str),
    **dict.fromkeys(("track", "seeds", "versions", "config", "formulas", "others", "sources", "prior"), dict),
}
"""The types of values on which readers rely."""
_KEYS = {"direction": "objective", "direction_from": "objective_from"}
"""The keys of `sweep.resolved.yaml` that differ from the names of their fields."""


@dataclass(frozen=True)
class Resolved:
    """A sweep with every default filled in.

    `metric` is the optimized metric; with several objectives it is the first, and `others` are the directions
    of the further ones, in their order. `config` is the sweep file with all defaults; `track` maps each
    tracked metric to its direction or None; `output` is one text, or a text for each output by name;
    `formulas` are the formulas of combined values; `constraints` are bounds under the names of `track`;
    `file` is the sweep file, beside which the engine is; `sources` are the files of the engine by digest, see
    `sources_of`; `home` is the earlier path of the run directory; `tol` is the largest change of the metric
    that is not an improvement; `cost_unit` is what a trial costs; `prior` is what was taken from each
    earlier sweep, in JSON; `annotations` are the tags and notes of its run directory, which another file
    holds.
    """

    name: str
    metric: str
    direction: Direction
    direction_from: str
    reads: str | None
    at: str
    output: str | Mapping[str, str] | None
    track: Mapping[str, Direction | None]
    trials: int | None
    seeds: Mapping[str, int]
    space: str
    versions: Mapping[str, str]
    config: Mapping[str, Any]
    formulas: Mapping[str, str] = field(default_factory=dict)
    constraints: tuple[str, ...] = ()
    file: str | None = None
    others: Mapping[str, Direction] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    home: str | None = None
    tol: float = 0.0
    cost_unit: str | Mapping[str, Any] = "seconds"
    prior: Mapping[str, str] = field(default_factory=dict)
    annotations: Annotations = NONE

    def to_yaml(self) -> str:
        """Return the text of `sweep.resolved.yaml`."""
        content = {_KEYS.get(name, name): value for name, value in asdict(self).items()}
        content["objective"] = self.direction.value
        del content["annotations"]
        content["constraints"] = list(self.constraints)
        content["track"] = {name: direction and direction.value for name, direction in self.track.items()}
        content["others"] = {name: direction.value for name, direction in self.others.items()}
        if not self.prior:
            del content["prior"]
        text = dump_yaml({FORMAT_KEY: FORMAT, **content})
        return f"{_HEADER}{_DIGEST}{digest_of(text)}\n{text}"

    @property
    def formula(self) -> str | None:
        """The formula of a combined metric; None for another metric."""
        return self.formulas.get(self.metric)

    @property
    def engine(self) -> str:
        """The trained engine: `module:function`, several of them, or the command line of a program."""
        return engine_text(self.config["engine"])

    @property
    def backend(self) -> str:
        """The name of the backend."""
        return str(next(iter(self.config["backend"])))

    @property
    def annotation(self) -> Annotation:
        """The tags of the sweep file and those of its run directory; the latter's note, if it has one."""
        own, file = self.annotations.sweep, Annotation.of(self.config)
        return Annotation(tuple(dict.fromkeys((*file.tags, *own.tags))), own.note or file.note)

    @property
    def storage(self) -> str:
        """The storage of the study; the environment of this process has the variables of `${env:NAME}`.

        Raises:
            SweepFileError: it lacks one.
        """
        has_storage = BACKENDS[self.backend].has_storage
        storage = self.config["backend"][self.backend].get("storage", "sqlite") if has_storage else "sqlite"
        document = Document("sweep.resolved.yaml", data={"backend": {self.backend: {"storage": storage}}})
        filled = fill_environment(document)
        document.raise_problems()
        return str(filled["backend"][self.backend]["storage"])

    @property
    def is_shared(self) -> bool:
        """Whether the study is in a storage that others share, not in the run directory."""
        return is_shared(self.storage)

    @property
    def optimized(self) -> dict[str, Direction]:
        """The direction of each objective."""
        return {self.metric: self.direction, **self.others}

    @property
    def beside(self) -> dict[str, Direction | None]:
        """The direction of each value shown beside the metric: of further objectives, of tracked metrics."""
        return {**self.others, **self.track}

    @property
    def pick(self) -> Pick:
        """The rule that picks a trial, see `Pick`; by default the knee for several objectives."""
        pick: Pick = self.config["metrics"].get("pick", "best")
        return "knee" if self.others and pick == "best" else pick

    @property
    def is_picked(self) -> bool:
        """Whether one trial is picked; for several objectives only if the file states a rule."""
        return not self.others or self.config["metrics"].get("pick", "best") != "best"

    @property
    def stale(self) -> int | None:
        """The trials without a new best after which none starts; None if there is no such limit."""
        stale: int | None = self.config["budget"].get("stale")
        return stale

    def picked_by(self, pick: Pick) -> Resolved:
        """Return the sweep with another rule to pick."""
        return replace(self, config={**self.config, "metrics": {**self.config["metrics"], "pick": pick}})

    @property
    def unit(self) -> CostUnit:
        """The unit of what a trial costs."""
        return CostUnit.parse(self.cost_unit)

    @property
    def most_cost(self) -> float | None:
        """The limit on the cost of the trials, after which none starts; None without a limit."""
        cost: float | None = self.config["budget"].get("cost")
        return cost

    @property
    def weighs_cost(self) -> bool:
        """Whether the cost of a trial counts in any way."""
        return self.most_cost is not None or self.cost_unit != "seconds" or self.pick == CHEAPEST

    @property
    def limits(self) -> Limits:
        """The limits of the search by what its trials bring and cost."""
        is_open = self.trials is None and "time" not in self.config["budget"]
        return Limits(self.optimized, self.tol, self.unit, self.stale, self.most_cost, is_open)

    def is_used_up(self, records: Collection[TrialRecord]) -> bool:
        """Return whether `budget.stale` or `budget.cost` is used up, so that no further trial starts."""
        return self.limits.reached(records) is not None

    def is_complete(self, records: Collection[TrialRecord]) -> bool:
        """Return whether all trials have ended and no further one starts, by their number or `is_used_up`."""
        if not all(record.state.finished for record in records):
            return False
        return (self.trials is not None and len(records) >= self.trials) or self.is_used_up(records)

    def since_best(self, records: Iterable[TrialRecord]) -> int:
        """Return how many complete trials have ended since the last new best; see `trials_since_best`."""
        return trials_since_best(records, self.optimized, self.tol)

    def bounds_of(self, name: str) -> list[Constraint]:
        """Return the constraints on a value."""
        return [bound for bound in self.bounds if bound.name == name]

    @property
    def bounds(self) -> list[Constraint]:
        """The constraints."""
        return [Constraint.parse(text) for text in self.constraints]

    @property
    def fixed(self) -> Mapping[str, Any]:
        """The fixed params of the engine."""
        return self.config["engine"]["params"]  # type: ignore[no-any-return]  # checked when it was written

    def ordered(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return params in the order of the sweep file, the fixed ones last."""
        order = [param for name in self.config["space"] for param in (name, *self._bundled(name))]
        chosen = [ENGINE_PARAM] if "choice" in self.config["engine"] else []
        names = [name for name in (*chosen, *order, *params) if name in params and name not in self.fixed]
        return {name: params[name] for name in (*dict.fromkeys(names), *self.fixed) if name in params}

    def _bundled(self, name: str) -> list[str]:
        dimension = self.config["space"][name]
        choice = dimension.get("choice") if isinstance(dimension, dict) else None
        bundles = choice.values() if isinstance(choice, dict) else ()
        return [param for bundle in bundles for param in bundle]

    def bundle_of(self, param: str, params: Mapping[str, Any]) -> str | None:
        """Return `model=small` if that bundle set the param."""
        for name, dimension in self.config["space"].items():
            choice = dimension.get("choice") if isinstance(dimension, dict) else None
            for label, bundle in choice.items() if isinstance(choice, dict) else ():
                if param in bundle and bundle.items() <= params.items():
                    return f"{name}={label}"
        return None


def resolve(plan: Plan) -> Resolved:
    """Create the resolved sweep of a plan.

    Raises:
        ConfigError: the metric has no direction yet, or the record cannot hold the name of a folder.
    """
    _check_folder(plan.file)
    optimized = _optimized(plan)
    best = plan.optimize
    return Resolved(
        name=plan.name,
        metric=best.name,
        direction=optimized[best.name],
        direction_from=best.origin,
        reads=best.inputs,
        at=plan.at.value,
        output=plan.plain_output,
        track={measure.name: measure.direction for measure in plan.track},
        trials=plan.trials,
        seeds={"engine": plan.engine_seed, "search": plan.config.search.seed},
        space=plan.space.fingerprint(),
        versions=installed_versions(),
        config=plan.to_config(),
        formulas={m.name: m.formula for m in (*plan.objectives, *plan.track) if m.formula is not None},
        constraints=tuple(str(bound.constraint) for bound in plan.bounds),
        file=str(plan.file.absolute()),
        others={name: direction for name, direction in optimized.items() if name != best.name},
    )


def _check_folder(file: pathlib.Path) -> None:
    """Raise if the name of a folder is not text in this locale: the record is text, and names it."""
    try:
        str(file.absolute()).encode()
    except UnicodeEncodeError as err:
        raise ConfigError(
            f"{file.absolute()}: the name of a folder is not text in the encoding of this locale, "
            f"{sys.getfilesystemencoding()}; rename the folder, or set PYTHONUTF8=1, or LC_ALL=C.UTF-8"
        ) from err


def _optimized(plan: Plan) -> dict[str, Direction]:
    directions = {}
    for measure in plan.objectives:
        if measure.direction is None:
            raise ConfigError(f"{plan.file}: metrics.optimize: the direction of {measure.name} is not known")
        directions[measure.name] = measure.direction
    return directions


def read_resolved(path: pathlib.Path, check: bool = False) -> Resolved:
    """Read `sweep.resolved.yaml`.

    Args:
        path: the path of the file.
        check: whether to raise if the file was changed; a file of an earlier version has no digest.

    Raises:
        RecordError: the file is damaged.
        NewerFormatError: a newer version has written it.
    """
    resolved = _parse(lambda: read_document(path, recorded=True), str(path))
    if check:
        _check_digest(read_whole(path).decode(), str(path))
    return resolved


def _check_digest(text: str, source: str) -> None:
    digest, content = _split(text)
    if digest is not None and digest != digest_of(content):
        raise RecordError(f"{source}: has changed since it was written")


def _split(text: str) -> tuple[str | None, str]:
    """Split the text of a resolved sweep into its digest, if it has one, and the text that it covers."""
    head, mark, rest = text.partition(_DIGEST)
    digest, _, content = rest.partition("\n")
    return (digest, content) if mark and head == _HEADER else (None, text)


def parse_resolved(text: str, source: str) -> Resolved:
    """Parse the text of `sweep.resolved.yaml`.

    Raises:
        RecordError: the text is damaged.
        NewerFormatError: a newer version has written it.
    """
    return _parse(lambda: parse_document(text, source), source)


def _parse(read: Callable[[], Document], source: str) -> Resolved:
    try:
        document = read()
        document.raise_problems()
        content = document.data
        _check_format(document)
        content.pop(FORMAT_KEY, None)
        content.pop("annotations", None)
        _check_kinds(content)
        content |= {name: content.pop(key) for name, key in _KEYS.items()}
        content["direction"] = Direction.parse(content["direction"])
        content["track"] = {name: word and Direction.parse(word) for name, word in content["track"].items()}
        content["others"] = {name: Direction.parse(word) for name, word in content.get("others", {}).items()}
        content["constraints"] = tuple(content.get("constraints", ()))
        return Resolved(**content)
    except (NewerFormatError, RecordError):
        raise  # it names the file itself
    except (ConfigError, KeyError, TypeError, AttributeError, ValueError) as err:
        raise RecordError(f"{source}: is not a valid resolved sweep: {one_line(err)}") from err


def _check_format(document: Document) -> None:
    try:
        check_format(document.data, document.source)
    except NewerFormatError:
        _check_digest(document.text, document.source)  # whose number is damaged is not newer
        raise


def _check_kinds(content: Mapping[str, Any]) -> None:
    """Raise if a value is of another type than `to_yaml` writes, as far as readers rely on it."""
    if content["objective_from"] not in _ORIGINS:
        raise ValueError(
            f"objective_from must be one of {', '.join(_ORIGINS)}, got {content['objective_from']!r}"
        )
    for key, kind in _KINDS.items():
        if not isinstance(content.get(key, kind()), kind):
            raise TypeError(f"{key} is not {'text' if kind is str else 'a mapping'}")
    config = content["config"]
    if not {"target", "choice", "program", "command"} & config["engine"].keys():
        raise KeyError("config.engine.target")
    parts = {key: config[key] for key in ("engine", "space", "metrics", "budget")}
    for key, part in {**parts, "engine.params": config["engine"].get("params")}.items():
        if not isinstance(part, Mapping):
            raise TypeError(f"config.{key} is not a mapping")
    Annotation.of(config)
    budget = config["budget"]
    whole = all(isinstance(budget.get(key, 1), int) for key in ("repeats", "stale"))
    if not whole or not is_amount(budget.get("cost", 1)):
        raise TypeError("config.budget: repeats, stale or cost is not a number")
    CostUnit.parse(content.get("cost_unit", "seconds"))
    if not isinstance(content.get("tol", 0.0), (int, float)) or not content.get("tol", 0.0) >= 0:
        raise ValueError(f"tol is not a number from 0: {content['tol']!r}")
    names = (content[key] for key in ("name", "metric", "at"))
    for name in (*names, *(name for key in ("track", "formulas", "others") for name in content.get(key, ()))):
        if not str(name).isprintable():
            raise ValueError(f"{name!r} cannot be printed on a line")


@dataclass(frozen=True)
class Change:
    """A fact that differs between the record and the sweep file; `fatal` ones make values incomparable.

    `reason` is why one directory cannot hold both, and what to do, where the change alone does not say it.
    """

    key: str
    before: Any
    now: Any
    fatal: bool
    reason: str = ""

    def __str__(self) -> str:
        return f"  {self.key}: {_format_value(self.before)} -> {_format_value(self.now)}"


def changes(before: Resolved, now: Resolved) -> list[Change]:
    """Compare the meaning of the trials of two sweeps; budgets, samplers, pruners and results may differ."""
    compared = [Change(key, getattr(before, key), getattr(now, key), True) for key in _FATAL]
    old, new = dict(flat(before.config)), dict(flat(now.config))
    frozen = tuple(_frozen(before.config["space"], now.config["space"]))
    for key in sorted({*old, *new}):
        if key.startswith(_COMPARED):
            reason = _reason(key, old, new)
            fatal = key.startswith(frozen) or bool(reason)
            compared.append(Change(key, old.get(key), new.get(key), fatal, reason))
    return [change for change in compared if change.before != change.now]


def _reason(key: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> str:
    """Return why the reports of one directory would be at different steps; empty if they would not."""
    if key == "budget.every":
        return _OTHER_REPORTS
    steps, every = old.get("budget.steps"), old.get("budget.every")
    if key != "budget.steps" or not every or steps % every == 0 or new.get(key, 0) <= steps:
        return ""
    return (
        f"{every} does not divide {steps}, the interval at which the trials reported before: {_OTHER_REPORTS}"
    )


def format_changes(changes: Iterable[Change]) -> str:
    """Return a line for each change, with its reason."""
    return "\n".join(f"{change}; {change.reason}" if change.reason else str(change) for change in changes)


def _frozen(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Return the dimensions whose kind, scale or choices changed, which no search can continue with."""
    for name in before.keys() & now.keys():
        old, new = (space[name] for space in (before, now))
        if _searched(old) and _searched(new) and _searched(old) != _searched(new):
            yield f"space.{name}."


def _searched(dimension: Any) -> tuple[Any, ...]:
    kinds = [kind for kind in ("float", "int", "normal", "choice") if kind in dimension]
    if "normal" in dimension or {"weights", "power"} & dimension.keys():
        facts = {key: fact for key, fact in dimension.items() if key != "when"}
        return *kinds, facts  # each value is stored as a draw, which would mean another one
    is_rounded = bool(dimension.get("log")) and dimension.get("step") not in (None, 1)
    grid = (dimension[kinds[0]], dimension["step"]) if is_rounded else None
    return (*kinds, dimension.get("log"), dimension.get("choice"), grid) if kinds else ()


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{name} ({fact})" for name, fact in value.items()) or "(not there)"
    return "(not there)" if value is None else str(value)
