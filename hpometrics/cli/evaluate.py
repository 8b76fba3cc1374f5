"""The `eval FILE` command: the candidates of a sweep file evaluated as a list of engine params."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from .._imports import aside
from ..config.document import SweepFileError
from ..config.plan import Plan, read_plan
from ..engines.command import Options, run_evaluation
from ..run.spec import RunSpec
from ..runner.context import spec_facts
from ..runner.imported_engine import check_space, import_engine, settle
from ..runner.staged_engine import StagedEngine


def eval_file(file: Path, options: Options) -> None:
    """Evaluate the engine params of a sweep file, a list or a grid; print every score and the best.

    Args:
        file: the sweep file.
        options: the options of the command; unless they name a directory, the files go to `NAME-eval`, beside
            the directory of `run`.

    Raises:
        SweepFileError: the file is wrong, or it cannot be evaluated as a list.
        NoFiniteValueError: no engine params has a finite score.
    """
    plan = read_plan(file)
    with aside():
        engine = import_engine(plan)
        if not isinstance(engine, StagedEngine):
            text = f"is not an engine with stages; train it with hpometrics run {file}"
            raise SweepFileError([plan.document.problem(("engine", "target"), text)])
        plan = settle(plan, engine)
        _check_listed(plan)
        check_space(plan, engine, RunSpec(**spec_facts(plan, engine)))
    run_evaluation(
        engine.train.evaluation,
        [engine.train.engine_params(plan.space.decode(point)) for point in plan.points[: plan.trials]],
        options.directory or plan.directory.with_name(f"{plan.directory.name}-eval"),
        options,
        replace(engine.origins, engine_params=str(file)),
    )


def _check_listed(plan: Plan) -> None:
    if plan.sampler not in ("list", "grid"):
        text = (
            f"{plan.sampler} draws points that cannot be listed in advance; choose grid, give a list, "
            f"backend: {{list: [...]}}, or search with hpometrics run {plan.file}"
        )
        raise SweepFileError([plan.document.problem(("search", "sampler"), text)])
    if plan.bounds:
        text = f"an evaluation of a list does not support constraints; hpometrics run {plan.file} does"
        raise SweepFileError([plan.document.problem(("metrics", "constraints"), text)])
