"""Convert the config of a Hydra application whose sweeper is that of Optuna, Nevergrad or Ax."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from .._redaction import excerpt
from ..backends.storage_url import redact_storage, storage_problem
from ..config.document import SweepFileError, parse_value
from ..config.yaml_text import ScalarError, read_plain
from ..direction import Direction
from ..exceptions import DirectionError
from ..space.values import is_number, is_whole
from .hydra_sweepers import NAMELESS, SPACES, read_ax, read_nevergrad, read_seed, read_trials, typed
from .notes import ConvertedSweep, Notes, Section
from .terms import Dimension, between, choice, split_fixed, stepped_between, whole_between

TOOL = "Hydra"
_KEYS = {
    "optuna": (
        "_target_ defaults sampler direction storage study_name n_trials n_jobs max_failure_rate params "
        "custom_search_space search_space"
    ),
    "nevergrad": "_target_ defaults optim parametrization params version",
    "ax": "_target_ defaults ax_config max_batch_size params",
}
"""The keys of each sweeper of Hydra that is read."""
_LEFT_OUT = {"custom_search_space": "the import runs no code; write its params into space"}
_SAMPLERS = {
    **{name: name for name in ("tpe", "random", "cmaes", "grid", "gp", "qmc")},
    **{"nsgaii": "nsga2", "motpe": "tpe"},
}
_SAMPLER_KEY = re.compile(r"(override )?/?(hydra/sweeper/)?sampler")
_SWEEPER_KEY = re.compile(r"(override )?/?hydra/sweeper")
_COMMAND = ["python", "train.py", "{args_no_hyphens}", "hydra.run.dir={dir}"]
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
_WORD = re.compile(r"\s*(start|stop|end|step|sweep|value|list|reverse)\s*=(?P<value>.*)", re.DOTALL)
_DEEPEST = 8  # calls within calls
_MOST = 1000  # options of a shuffled range


class _GrammarError(ValueError):
    """A text is not an override of Hydra that can be converted."""


def is_hydra(data: Mapping[str, Any]) -> bool:
    """Return whether a file has a sweeper of Hydra, below `hydra.sweeper` or as the file of that group."""
    hydra = data.get("hydra")
    has_sweeper = isinstance(hydra, dict) and isinstance(hydra.get("sweeper"), dict)
    classes = (".OptunaSweeper", ".NevergradSweeper", ".AxSweeper")
    return has_sweeper or str(data.get("_target_")).endswith(classes)


def read_hydra(notes: Notes) -> ConvertedSweep:
    """Read the sweeper of a Hydra config; the application itself runs as a program.

    Raises:
        ImportRefused: nothing varies, or a part of it is not well formed.
    """
    top = Section(notes.document.data, (), notes)
    sweeper = top.section("hydra").section("sweeper") if "hydra" in top.mapping else top
    kind = _kind(top, sweeper)
    if kind in _KEYS:
        sweeper.remark_unknown(_KEYS[kind].split(), f"Hydra's {kind} sweeper")
    sweeper.remark_left_out(_LEFT_OUT)
    space, fixed, start = _read_space(sweeper, kind)
    if not (space or notes.errors):
        sections = f"params and {SPACES[kind]}" if kind in SPACES else "params"
        notes.add_error(
            (*sweeper.path, "params"),
            "needs a param to search, as in lr: interval(0.001, 0.1); "
            f"the import reads {sections} of the {kind} sweeper",
        )
    guess = " ".join(_COMMAND[:2])
    notes.remark(
        (), f"the application runs as a program: {guess} is a guess, and outputs go to the trial's directory"
    )
    engine: dict[str, Any] = {"command": list(_COMMAND)}
    if fixed:
        engine["params"] = fixed
    read = {"nevergrad": read_nevergrad, "ax": read_ax}.get(kind)
    config: dict[str, Any] = {"engine": engine, "space": space}
    if read is None:
        sampler, seed = _sampler(top, sweeper, space)
        config["metrics"] = {"optimize": _read_direction(sweeper)}
        config["search"] = {"sampler": sampler, **seed}
        config["backend"], config["budget"] = _backend(sweeper), _budget(sweeper)
    else:
        config |= read(sweeper)
    if start:
        config["search"]["start"] = [start]
    notes.check()
    return ConvertedSweep(TOOL, sweeper.mapping.get("study_name"), config, notes)


def _kind(top: Section, sweeper: Section) -> str:
    """Return the name of the sweeper: by its keys, its class or the defaults list."""
    keys = {"optim": "nevergrad", "parametrization": "nevergrad", "ax_config": "ax"}
    named = [name for key, name in keys.items() if key in sweeper.mapping]
    target = str(sweeper.mapping.get("_target_", "")).rpartition(".")[2].removesuffix("Sweeper").lower()
    chosen = [*_defaults(top, _SWEEPER_KEY)]
    return next(iter((*named, *([target] if target else ()), *reversed(chosen))), "optuna")


def _read_space(sweeper: Section, kind: str) -> tuple[dict[str, Dimension], dict[str, Any], dict[str, Any]]:
    """Return what varies, the values of what does not, and the point that the sweeper begins at."""
    start: dict[str, Any] = {}
    own, params = sweeper, sweeper.section("params")
    for key in SPACES.get(kind, "").split(".") if kind in SPACES else ():
        own = own.section(key)
    dimensions = dict(typed(kind, name, own, start) for name in (own.mapping if kind in SPACES else ()))
    own_names = [
        name for name, value in params.mapping.items() if kind != "optuna" and isinstance(value, dict)
    ]  # Nevergrad's scalars stand in params since Hydra 1.4
    dimensions |= dict(typed(kind, name, params, start) for name in own_names)
    plain = {name: value for name, value in params.mapping.items() if name not in own_names}
    others = _read_params(Section(plain, params.path, params.notes))
    space, fixed = split_fixed([*dimensions.items(), *others])
    fixed = {name: value for name, value in fixed.items() if name not in space}
    return space, fixed, {name: value for name, value in start.items() if name in space}


def _read_direction(sweeper: Section) -> dict[str, str] | list[dict[str, str]]:
    """Return a metric per direction; what a Hydra application returns has no name."""
    value = sweeper.mapping.get("direction", "minimize")
    words = value if isinstance(value, list) else [value]
    try:
        directions = [Direction.parse(word) for word in words]
    except DirectionError as err:
        sweeper.notes.add_error((*sweeper.path, "direction"), str(err))
        directions = []
    names = ["score"] if len(words) == 1 else [f"score_{number}" for number in range(1, len(words) + 1)]
    example = ", ".join(f'"{name}": ...' for name in names)
    sweeper.remark("direction", NAMELESS.format(example))
    metrics = [
        {"metric": name, "direction": direction.value}
        for name, direction in zip(names, directions, strict=False)
    ]
    return metrics if len(metrics) > 1 else metrics[0] if metrics else {}


def _sampler(top: Section, sweeper: Section, space: Mapping[str, Dimension]) -> tuple[Any, dict[str, int]]:
    """Return the sampler with its options, and the seed."""
    section = sweeper.section("sampler")
    target = str(section.mapping.get("_target_", "")).rpartition(".")[2].removesuffix("Sampler").lower()
    defaults = [*_defaults(top, _SAMPLER_KEY), *_defaults(sweeper, _SAMPLER_KEY)]
    name = target or (defaults or ["tpe"])[-1]
    if name not in _SAMPLERS:
        section.remark("_target_", f"{name} is not available here; the import writes tpe")
    elif name == "grid" and any("choice" not in one for one in space.values()):
        sweeper.remark("sampler", "Hydra's grid omits the last value of a range; here the grid includes it")
    ours = _SAMPLERS.get(name, "tpe")
    options = {
        key: value
        for key, value in section.mapping.items()
        if value is not None and key not in ("_target_", "_partial_", "seed") and name in _SAMPLERS
    }
    return {ours: options} if options and ours != "grid" else ours, read_seed(section, "seed")


def _defaults(section: Section, group: re.Pattern[str]) -> Iterator[str]:
    """Yield the names that the defaults list of a section chooses in a group."""
    entries = section.mapping.get("defaults")
    for entry in entries if isinstance(entries, list) else ():
        for key, value in entry.items() if isinstance(entry, dict) else ():
            if group.fullmatch(key):
                yield str(value)


def _backend(sweeper: Section) -> dict[str, Any] | str:
    settings: dict[str, Any] = {}
    workers = sweeper.whole("n_jobs")
    if workers is not None and workers > 1:
        settings["workers"] = workers
    storage = sweeper.mapping.get("storage")
    if isinstance(storage, str) and not storage_problem(storage) and redact_storage(storage) == storage:
        settings["storage"] = storage
    elif storage is not None:
        text = "the study is in the run directory; name a server by its URL, with ${NAME} for the password"
        sweeper.remark("storage", f"dropped: {text}")
    return {"optuna": settings} if settings else "optuna"


def _budget(sweeper: Section) -> dict[str, int]:
    trials = read_trials(sweeper, "n_trials", "optuna")
    rate = sweeper.mapping.get("max_failure_rate")
    if rate not in (None, 0):
        sweeper.remark("max_failure_rate", "dropped: budget.failures is a number of trials, not a rate")
    return {"trials": trials, **({"failures": 1} if rate == 0 else {})}


def _read_params(params: Section) -> Iterator[tuple[str, Dimension]]:
    """Yield the params of the grammar, each with its dimension."""
    for name, value in params.mapping.items():
        if name.startswith("~"):
            params.remark(name, "dropped: delete the key in the config of the application")
            continue
        try:
            sweep = _read_sweep(value) if isinstance(value, str) else None
            if sweep is not None:
                yield _dimension(name, sweep, params)
            else:
                yield name, {"value": _element(value) if isinstance(value, str) else value}
        except (_GrammarError, ScalarError, SweepFileError) as err:
            params.notes.add_error((*params.path, name), str(err).splitlines()[0])


@dataclass(frozen=True)
class _Sweep:
    """A sweep of Hydra's grammar: `kind` is choice, range or interval."""

    kind: str
    values: tuple[Any, ...]
    tags: tuple[str, ...] = ()
    shuffle: bool = False


def _read_sweep(text: str, depth: int = 0) -> _Sweep | None:
    """Return the sweep that a text means; None for a plain value.

    >>> _read_sweep("tag(log, interval(1, 10))")
    _Sweep(kind='interval', values=(1.0, 10.0), tags=('log',), shuffle=False)
    >>> _read_sweep("a,b").values, _read_sweep("range(5)").values, _read_sweep("0.1")
    (('a', 'b'), (0, 5, 1), None)
    """
    parts = _split(text)
    if len(parts) > 1:
        return _Sweep("choice", tuple(map(_element, parts)))
    call = _CALL.fullmatch(text)
    if call is None:
        return None
    if depth > _DEEPEST:
        raise _GrammarError(f"calls are nested deeper than {_DEEPEST}; write a dimension into space instead")
    name, arguments = call[1], _split(call[2])
    if name in ("tag", "int", "float", "sort", "shuffle"):
        return _around(name, arguments, depth)
    words = {match[1]: match["value"] for part in arguments if (match := _WORD.fullmatch(part))}
    plain = [part for part in arguments if not _WORD.fullmatch(part)]
    if name == "choice" and arguments and not words:
        inner = _read_sweep(plain[0], depth + 1) if len(plain) == 1 else None
        return inner or _Sweep("choice", tuple(map(_element, plain)))
    if name in ("range", "interval"):
        return _ranged(
            name, [_number(part) for part in plain], {key: _number(one) for key, one in words.items()}
        )
    raise _GrammarError(
        f"{name}({excerpt(call[2], 40)}) cannot be converted; write a dimension into space instead"
    )


def _around(name: str, arguments: list[str], depth: int) -> _Sweep:
    """Return the sweep within `tag`, a cast, `sort` or `shuffle`, with what they change."""
    *tags, last = arguments or [""]
    if name != "tag":
        last, tags = ",".join(part for part in arguments if not part.strip().startswith("reverse")), []
    last = match["value"] if (match := _WORD.fullmatch(last)) else last
    sweep = _read_sweep(last, depth + 1)
    if sweep is None:
        raise _GrammarError(f"{name}({excerpt(last, 40)}) needs a choice, range or interval")
    if name in ("int", "float"):
        if not all(map(is_number, sweep.values)):
            raise _GrammarError(f"{name} needs numbers, got {excerpt(last, 40)}")
        return replace(
            sweep, values=tuple((int if name == "int" else float)(value) for value in sweep.values)
        )
    if name == "tag":
        return replace(sweep, tags=tuple(part.strip() for part in tags))
    return replace(sweep, shuffle=sweep.shuffle or name == "shuffle")


def _ranged(name: str, plain: list[Any], words: Mapping[str, Any]) -> _Sweep:
    if name == "interval":
        names = ("start", "end")
        ends = {**dict(zip(names, plain, strict=False)), **words}
        if len(plain) > 2 or ends.keys() != set(names):
            raise _GrammarError(f"interval needs start and end, got {len(plain) + len(words)} values")
        return _Sweep("interval", (float(ends["start"]), float(ends["end"])))
    ends = {"step": 1, **dict(zip(("start", "stop", "step"), plain, strict=False)), **words}
    if "stop" not in ends and "start" in ends:
        ends["start"], ends["stop"] = 0, ends["start"]
    if len(plain) > 3 or ends.keys() != {"start", "stop", "step"} or ends["step"] <= 0:
        raise _GrammarError("range needs start, stop and a step above 0")
    return _Sweep("range", (ends["start"], ends["stop"], ends["step"]))


def _dimension(name: str, sweep: _Sweep, params: Section) -> tuple[str, Dimension]:
    """Return the dimension for the distribution that Hydra's sweeper passes to Optuna.

    It includes the end of a range, unless it is shuffled.
    """
    if sweep.tags and (sweep.kind != "interval" or sweep.tags != ("log",)):
        params.remark(
            name, f"Hydra's sweeper reads only the tag log of an interval, not {', '.join(sweep.tags)}"
        )
    if sweep.kind == "choice":
        return choice(name, sweep.values, params, name)
    low, high, *steps = sweep.values
    if low > high:
        raise _GrammarError(f"the lower bound {low} is above the upper bound {high}")
    is_log, is_int = "log" in sweep.tags and not steps, all(map(is_whole, sweep.values))
    if is_log and low <= 0:
        raise _GrammarError(f"a log scale needs bounds above 0, got {low}")
    if steps and sweep.shuffle:
        return choice(name, _values(*sweep.values), params, name)
    if is_int:
        return name, whole_between(low, high, is_log, *steps)
    return name, stepped_between(low, high, *steps) if steps else between(low, high, is_log)


def _values(start: Any, stop: Any, step: Any) -> list[Any]:
    """Return the values of a range as Hydra counts them, without its end."""
    first, last, size = (Decimal(str(value)) for value in (start, stop, step))
    count = -(-(last - first) // size)
    if not 0 < count <= _MOST:
        raise _GrammarError(f"a shuffled range of {count} values cannot be converted; write a dimension")
    kind = int if all(map(is_whole, (start, stop, step))) else float
    return [kind(first + size * index) for index in range(int(count))]


def _split(text: str) -> list[str]:
    """Split a text at its commas, but for those in brackets and quotes."""
    parts, depth, quote, begin = list[str](), 0, "", 0
    for place, char in enumerate(text):
        if quote:
            quote = "" if char == quote and text[place - 1] != "\\" else quote
        elif char in "\"'":
            quote = char
        elif char == "," and not depth:
            parts.append(text[begin:place])
            begin = place + 1
        else:
            depth += (char in "([{") - (char in ")]}")
    if depth or quote:
        raise _GrammarError(f"{excerpt(text, 40)}: a bracket or a quote is not closed")
    return [*parts, text[begin:]] if text.strip() else []


def _element(text: str) -> Any:
    """Return the value of an element: a quoted text, a list or mapping, or a plain scalar."""
    text = text.strip()
    if text[:1] in ("[", "{"):
        return parse_value(re.sub(r":(?=\S)", ": ", text) if text[0] == "{" else text, "params")
    if len(text) > 1 and text[0] in "\"'" and text[-1] == text[0]:
        return text[1:-1].replace(f"\\{text[0]}", text[0])
    return read_plain(text)


def _number(text: str) -> Any:
    value = _element(text)
    if not is_number(value):
        raise _GrammarError(f"expected a number, got {excerpt(text.strip(), 40)!r}")
    return value
