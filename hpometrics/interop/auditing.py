"""Auditing: what a path is, what is found in it, and how that is told."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from .._redaction import redacted
from .._text import printable
from ..direction import Objective
from ..exceptions import ConfigError
from ..records._files import STORAGE_LIMIT, open_regular
from .audit import findings_of
from .importing import read_foreign
from .ray_results import is_experiment, read_results
from .search import Audited, Finding, Search

_STUDIES = ("study.db", "study.journal")
"""Where a run directory has its study."""
_SQLITE = "sqlite:///"
_YAML = (".yaml", ".yml")
_REMEDIES = {
    "direction": "say the goal that the metric has",
    "no-goal": "say the goal",
    "no-end": "give run_cap",
    "no-metric": "name the metric that the program logs",
    "exponents": "write log_uniform_values, or the logarithms of the bounds",
    "unknown-key": "correct the key, or leave it out",
    "no-such-metric": "name a metric of the output",
    "epoch": "give both the same metric",
    "split": "leave split at validation",
    "inert": "use the ray executor, or a study of your own",
}


@dataclass(frozen=True)
class Request:
    """What is to be audited.

    Args:
        path: an Optuna storage, a folder of Ray's results, a W&B sweep, a Ludwig config.
        study: the one of this name in a storage.
        metric: what is optimised, where the tool does not keep it.
        direction: what the search was told, where the tool does not keep it.
        budget: how many trials were asked for.
        ignore: codes of findings to leave out.
    """

    path: Path
    study: str | None = None
    metric: str | None = None
    direction: str | None = None
    budget: int | None = None
    ignore: tuple[str, ...] = ()


def path_of(place: str) -> Path:
    """The path that a user means, which may be written as the URL of an SQLite file.

    Raises:
        ConfigError: it is the URL of a server.

    >>> path_of("sqlite:///study.db").name
    'study.db'
    """
    if "://" in place and not place.startswith(_SQLITE):
        raise ConfigError(
            f"{redacted(place)}: audit reads files; copy the study into one by optuna.copy_study and name it"
        )
    return Path(place.removeprefix(_SQLITE))


def audited(request: Request) -> list[Audited]:
    """Look through what is at a path; nothing there is changed.

    Raises:
        ConfigError: it is nothing that can be audited.
        RecordError: it is damaged.
    """
    path = request.path
    if path.suffix in _YAML:
        return [_audited_file(request)]
    torn = None
    study = next((path / name for name in _STUDIES if os.path.lexists(path / name)), None)
    if path.is_dir() and study is None:
        if not is_experiment(path):
            raise ConfigError(
                f"{path}: holds no {' or '.join(_STUDIES)}, and no folder of a trial with Ray's result.json"
            )
        told = None if request.direction is None else Objective.parse(request.direction)
        searches = [read_results(path, request.metric, told)]
    elif path.exists():
        from .optuna_storage import SQLITE, read_storage, torn as torn_in

        file = study or path
        with open_regular(file, STORAGE_LIMIT, follow=file == path) as opened:
            torn = None if opened.read(len(SQLITE)) == SQLITE else torn_in(file)
        searches = read_storage(file, request.study, request.metric)
    else:
        raise ConfigError(f"{path}: is not there")
    first = [] if torn is None else [torn]
    return [
        Audited(
            one.tool,
            one.path,
            tuple(_about(one)),
            _kept([*first, *findings_of(one, request.budget)], request),
        )
        for one in searches
    ]


def _audited_file(request: Request) -> Audited:
    carried = read_foreign(request.path)
    found = [
        Finding(
            note.code,
            ".".join(map(str, note.problem.path)) + f" {note.problem.text}",
            _REMEDIES[note.code],
            place=str(note.problem.mark),
        )
        for note in carried.notes.sorted()
        if note.code
    ]
    return Audited(f"{carried.tool} sweep", str(request.path), (), _kept(found, request))


def _kept(findings: Sequence[Finding], request: Request) -> tuple[Finding, ...]:
    return tuple(one for one in findings if one.code not in request.ignore)


def _about(search: Search) -> Iterator[str]:
    states = Counter(one.state.value for one in search.trials)
    yield f"{len(search.trials)} trials: " + (
        ", ".join(f"{s} {n}" for s, n in sorted(states.items())) or "none"
    )
    if search.metric is None:
        yield "its metric is not known; --metric NAME says it"
    else:
        way = "" if search.stated is None else f", told to {search.stated}"
        own = "not known to the registry" if search.known is None else f"to {search.known[1]}"
        yield f"metric {printable(search.metric)} ({search.metric_from}), {own}{way}"


def audit_text(found: Sequence[Audited]) -> str:
    """Print what was looked through, and each finding with what to do."""
    lines: list[str] = []
    for one in found:
        lines.append(f"{one.path}  {printable(one.what)}")
        lines += [f"  {text}" for text in one.about]
        for finding in one.findings:
            where = f"{finding.place}: " if finding.place else ""
            lines += [f"{finding.code}: {where}{printable(finding.text)}", f"  -> {finding.remedy}"]
    count = sum(len(one.findings) for one in found)
    return "\n".join([*lines, f"{count} finding{'' if count == 1 else 's'}"])


def audit_json(found: Sequence[Audited]) -> str:
    """Give the same as JSON."""
    told: list[dict[str, Any]] = [asdict(one) for one in found]
    return json.dumps(told, indent=1)
