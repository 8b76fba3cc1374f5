"""The `check` command: the plan of a sweep file; on request its first trials, and the values of one epoch."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from importlib.machinery import PathFinder
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._formatting import duration, number
from .._imports import aside, own_folders
from .._text import printable
from ..config.document import ProbeError, Problem, SweepFileError, show_path
from ..config.placeholders import Filling, check_program, fill
from ..config.plan import Plan, read_plan
from ..config.yaml_text import format_exact
from ..exceptions import ConfigError
from ..results.summary import overview, overview_text, plan_facts
from ..space.draws import derive_seed

if TYPE_CHECKING:
    from ..runner.dry_run import Probe
    from ..runner.planned_trials import Sample

_MAX_MODULES = 500  # of a folder; the others are not read
Lines = Iterator[tuple[str, str]]


@dataclass(frozen=True)
class Check:
    """A check of a sweep file.

    Args:
        file: the sweep file.
        assignments: `key=value` texts that change it.
        sample: the number of trials whose params are drawn.
        probe: whether to train the first one for an epoch.
        workers: the number of workers of its backend, instead of the number in the file.
    """

    file: Path
    assignments: tuple[str, ...] = ()
    sample: int = 0
    probe: bool = False
    workers: int | None = None

    def text(self) -> tuple[str, ProbeError | None]:
        """Return a description of the sweep, and an error if the probed epoch lacks a value.

        Raises:
            SweepFileError: anything is wrong with the file.
        """
        plan, sampled, probed = self._run()
        lines = list(overview(plan, _count_finished(plan)))
        lines += [("lacks", printable(text)) for text in _lacks(plan)]
        lines += [] if sampled is None else _sample_lines(sampled, plan)
        lines += [] if probed is None else _probe_lines(probed)
        if probed is not None and probed.problems:
            return overview_text(lines), ProbeError(probed.problems)
        ran = "nothing was run" if probed is None else ProbeError.ran
        return overview_text(lines, f"ok: {ran}. Run it with: hpometrics run {self.file}"), None

    def facts(self) -> dict[str, Any]:
        """Return the same as plain JSON: `ok`, the problems, the plan if there is one."""
        try:
            plan, sampled, probed = self._run()
        except SweepFileError as err:
            return {"ok": False, "problems": [_problem_facts(problem) for problem in err.problems]}
        problems = () if probed is None else probed.problems
        content: dict[str, Any] = {
            "ok": not problems,
            "problems": list(map(_problem_facts, problems)),
            "plan": plan_facts(plan, _count_finished(plan)),
            "lacks": list(_lacks(plan)),
        }
        if sampled is not None:
            content["sample"] = {"params": list(sampled.params), "learner": sampled.learner}
            content["sample"] |= {"earlier": list(sampled.earlier)} if sampled.earlier else {}
            if plan.config.engine.command_line and sampled.params:
                content["sample"]["command"] = _command(plan, sampled.params[0])
        if probed is not None:
            content["probe"] = probed.to_json()
        return content

    def _run(self) -> tuple[Plan, Sample | None, Probe | None]:
        plan = read_plan(self.file, self.assignments, self.workers, partial(names_beside, self.file))
        sampled = probed = None
        if self.sample:
            from ..runner.planned_trials import sample  # with optuna

            sampled = sample(plan, self.sample)
        if self.probe:
            from ..runner.dry_run import probe  # with torch

            with aside():
                probed = probe(plan)
        return plan, sampled, probed


def _count_finished(plan: Plan) -> int:
    """Return the number of trials of earlier runs that have ended."""
    if not plan.directory.exists():
        return 0
    from ..results.run_directory import RunDirectory  # with the records, which a first check does not need

    return RunDirectory(plan.directory).count_finished()


def _lacks(plan: Plan) -> Iterator[str]:
    """Yield each file or earlier sweep that `run` needs and this machine lacks; no code is imported."""
    home, engine = plan.file.resolve().parent, plan.config.engine
    targets = (engine.target, *(engine.choice or {}).values())
    for target in (target for target in targets if target is not None):
        name = target.partition(":")[0].partition(".")[0]
        if PathFinder.find_spec(name, [str(home), str(Path.cwd()), *sys.path]) is None:
            yield f"there is no module {name!r} in {home}, in the current folder or installed"
    for path in (Path(source.partition("#")[0]) for source in plan.earlier):
        if not path.exists():
            yield f"{path} does not exist: run that sweep first"
    for command in filter(None, (engine.command_line, plan.config.on_end)):
        try:
            check_program(command, home)
        except ConfigError as err:
            yield str(err)


def _problem_facts(problem: Problem) -> dict[str, Any]:
    return {**asdict(problem.mark), "path": show_path(problem.path), "text": problem.text}


def _sample_lines(sampled: Sample, plan: Plan) -> Lines:
    yield "sample", "the first trials that run would draw"
    for trial, params in enumerate(sampled.params):
        varied = {name: value for name, value in params.items() if name not in plan.config.engine.params}
        yield (
            f"  #{trial}",
            "  ".join(f"{printable(name)}={format_exact(value)}" for name, value in varied.items()),
        )
        if trial == 0 and plan.config.engine.command_line:
            yield "  command", printable(shlex.join(_command(plan, params)))
    if sampled.earlier:
        yield "  #0 ...", f"{printable(', '.join(sampled.earlier))}: run reads their params at the start"
    if sampled.learner is not None:
        how = (
            "is imported only by run"
            if ":" in sampled.learner
            else "draws depending on the values of earlier trials"
        )
        yield f"  #{len(sampled.params)} ...", f"{printable(sampled.learner)} {how}"


def _command(plan: Plan, params: Mapping[str, Any]) -> list[str]:
    """Return the command of trial 0."""
    home = plan.directory.absolute() / "trials" / "0000"
    return fill(plan.config.engine.command_line, Filling(params, derive_seed(plan.engine_seed, 0), home))


def _probe_lines(probed: Probe) -> Lines:
    yield "probe", f"one epoch of trial 0 in {duration(probed.seconds)}, nothing is saved"
    for name, value in probed.values.items():
        reason = probed.reasons.get(name)
        yield f"  {printable(name)}", number(value) + (f"   {printable(reason)}" if reason else "")


def names_beside(file: Path, name: str) -> bool:
    """Return whether a module beside a sweep file contains a name in quotes, and so may register a metric.

    The check imports nothing, so it cannot know more.
    """
    quoted = (f'"{name}"', f"'{name}'")
    modules = islice(_own_modules(file.absolute().parent), _MAX_MODULES)
    return any(text in _source(module) for module in modules for text in quoted)


def _own_modules(home: Path) -> Iterator[Path]:
    """Yield the modules in a folder and those below it, without installed ones."""
    for folder, folders, names in os.walk(home):
        folders[:] = own_folders(folders)
        yield from (Path(folder, name) for name in sorted(names) if name.endswith(".py"))


def _source(module: Path) -> str:
    try:
        return module.read_text(encoding="utf8", errors="replace")
    except OSError:
        return ""
