"""The overview of a plan in a dozen lines, every default shown."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .._formatting import duration, plural
from .._text import printable
from ..config.metric_section import OWN, Measure, format_outputs, outputs_of, suggest_value
from ..config.models import WarmStart
from ..config.plan import Plan
from ..config.space_section import LIST, may_cut
from ..config.yaml_text import format_exact
from ..direction import ARROWS
from ..selection.rules import At, CostUnit
from ..space.dimensions import Choice, Dimension, Int, Normal, Value

_OPTIONS = 20
_WORDS = {
    "registry": "<- registry",
    "stated": "<- this file",
    "mixed": "<- terms with both directions",
    "engine": "<- the engine",
    "run": "<- settled by run",
}
_PICKS: dict[str | int, str] = {
    "best": "no single trial; the output shows the Pareto front, and best.yaml holds its knee",
    "one_se": "of the trials within one standard error of the best, the one with the fewest epochs",
    "cheapest_within_se": "of the trials within one standard error of the best, the cheapest one",
    "knee": "the knee of the Pareto front",
}
_DEFAULTS = {
    None: "also the default group of each output, unless the engine sets other metrics",
    True: "also the default group of each output",
    False: "off",
}


def plan_facts(plan: Plan, finished: int = 0) -> dict[str, Any]:
    """Return the plan as plain JSON; `finished` trials have ended before."""
    return {
        "name": plan.name,
        "directory": str(plan.directory),
        "output": plan.plain_output,
        "optimize": _measure_facts(plan.optimize),
        "others": [_measure_facts(measure) for measure in plan.objectives[1:]],
        "track": [_measure_facts(measure) for measure in plan.track],
        "constraints": [str(bound.constraint) for bound in plan.bounds],
        "at": plan.at.value,
        "space": {"fingerprint": plan.space.fingerprint(), "dimensions": plan.space.to_json()},
        "trials": plan.trials,
        "done": finished,
        "config": plan.to_config(),
    }


def _measure_facts(measure: Measure) -> dict[str, Any]:
    facts = {key: value for key, value in vars(measure).items() if key != "combined"}
    return {**facts, "objective": measure.direction and measure.direction.value}


def overview_text(lines: Sequence[tuple[str, str]], *ending: str) -> str:
    """Return the lines of an overview in two columns, and those of its ending."""
    width = max(len(head) for head, _ in lines)
    return "\n".join([*(f"{head:<{width}}  {text}".rstrip() for head, text in lines), *ending])


def overview(plan: Plan, finished: int = 0) -> Iterator[tuple[str, str]]:
    """Yield the plan line by line, each a word and its text; `finished` trials have ended before."""
    config, best = plan.config, plan.optimize
    output = "as the engine states" if plan.output is None else format_outputs(plan.output)
    threads = f"   threads {config.engine.threads}" if config.engine.threads else ""
    yield "sweep", f"{plan.name}   in {plan.directory}"
    if config.tags:
        yield "tags", ", ".join(config.tags)
    if config.note:
        yield "note", printable(" ".join(config.note.split()))
    yield "engine", f"{config.engine}   output {output}   seed {plan.engine_seed}{threads}"
    if config.plugins:
        yield "plugins", _plugins_text(plan)
    for name, value in config.engine.params.items():
        yield "  fixed", f"{printable(name)}: {format_exact(value)}"
    for measure in plan.objectives:
        direction = f"{measure.direction or 'direction'} {_WORDS[measure.origin]}"
        yield "objective", f"{measure.name}   {direction}   reads {_reads(measure)}"
    several = len(plan.objectives) > 1
    by = f" by {best.name}" if several and plan.at is At.BEST else ""
    yield "at", f"the {plan.at.value} epoch{by}"
    if several or config.metrics.pick != "best":
        yield "pick", _PICKS.get(config.metrics.pick, f"trial {config.metrics.pick}, if it is on the front")
    if plan.track:
        yield "track", "  ".join(f"{measure.name}{ARROWS[measure.direction]}" for measure in plan.track)
    if apart := _without_common_output(plan):
        names = " and ".join(apart)
        yield (
            "  open",
            f"no single output has {best.name} and {names}; the engine states its outputs: run check --probe",
        )
    for bound in plan.bounds:
        yield (
            "constraint",
            f"{bound.constraint}   reads {_reads(bound.measure)}{_near_name(bound.measure, plan)}",
        )
    for measure in (*plan.objectives, *plan.track):
        if measure.formula is not None:
            yield "formula", f"{measure.name} = {measure.formula}"
    yield "defaults", _DEFAULTS[config.metrics.defaults]
    yield "space", _space_text(plan)
    for name, dimension in plan.space.dimensions.items():
        if name != LIST and name not in config.engine.params:
            yield f"  {printable(name)}", _dimension(dimension)
    sampler = "" if plan.replays else f"{_plugin_text('sampler', plan)}   "
    yield "search", f"{sampler}{_pruner_text(plan)}   seed {config.search.seed}"
    if config.search.warm_start is not None:
        yield "from", _warm_start_text(config.search.warm_start)
    yield "backend", _backend(plan)
    yield "budget", ", ".join(_budget(plan, finished))
    if config.confirm is not None:
        yield "confirm", _confirm_text(plan)
    yield "results", ", ".join(_results(plan))
    if config.on_end is not None:
        yield "on_end", printable(shlex.join(config.on_end))


def _without_common_output(plan: Plan) -> list[str]:
    """Return the metrics that no output has beside the optimized one, where the file states no output."""
    if plan.output is not None or plan.config.engine.command_line:
        return []
    every = (one for one in (*plan.objectives, *plan.track) if one is not OWN)
    measures = [one for one in every if "." not in one.name.partition("(")[0]]
    outputs = {one.name: of for one in measures if (of := outputs_of(one))}
    own = outputs.get(plan.optimize.name, set())
    return [name for name, of in outputs.items() if own and not own & of]


def _reads(measure: Measure) -> str:
    if measure.unknown:
        return "what the engine or a plug-in registers; check imports neither, so run judges it"
    return "what the engine reports" if measure.reported else measure.inputs or "what run finds"


def _plugins_text(plan: Plan) -> str:
    """Return the modules of metrics, and the names that only their import can judge."""
    names = [one.name for one in (*plan.objectives, *plan.track) if one.unknown]
    hints = (_suggest(name, (), plan) for name in names)
    may = [f"{name}{hint and f' ({hint[1:]})'}" for name, hint in zip(names, hints, strict=True)]
    judged = f"; may register {' and '.join(may)}" if names else ""
    return f"{' '.join(plan.config.plugins)}   imported by run alone{judged}"


def _near_name(measure: Measure, plan: Plan) -> str:
    """Return the nearest metric name: a value that no engine reports makes every trial infeasible."""
    if not measure.reported:
        return ""
    names = [one.name for one in (*plan.objectives, *plan.track) if one.name != measure.name]
    near = _suggest(measure.name, names, plan)
    return f", as no metric has that name.{near}" if near else ""


def _suggest(name: str, names: Sequence[str], plan: Plan) -> str:
    """Return the hint at the name nearest to one, among the metrics of the output of a plan and others."""
    output = None if plan.output is None or isinstance(plan.output, Mapping) else plan.output.type
    return suggest_value(name, names, output)


def _space_text(plan: Plan) -> str:
    if plan.sampler in ("list", "grid"):
        excluded = len(plan.points) - (plan.trials or 0)
        cut = f", of which {excluded} are left out" if excluded else ""
        shuffled = plan.sampler == "grid" and may_cut(plan.config.budget, len(plan.points))
        order = f", in an order drawn by seed {plan.config.search.seed}" if shuffled else ""
        return f"{plural(len(plan.points), 'point')} of the {plan.sampler}{order}{cut}"
    dimensions = [d for d in plan.space.dimensions.values() if not isinstance(d, Value)]
    conditional = sum(d.when is not None for d in dimensions)
    bundles = sum(isinstance(d, Choice) and d.bundles is not None for d in dimensions)
    counts = [plural(len(dimensions), "dimension")]
    counts += [f"{conditional} conditional"] if conditional else []
    counts += [plural(bundles, "bundle")] if bundles else []
    counts += [f"{plural(len(plan.points), 'point')} to start with"] if plan.points else []
    return ", ".join(counts)


def _dimension(dimension: Dimension) -> str:
    if isinstance(dimension, Value):
        return f"= {format_exact(dimension.value)}"
    if isinstance(dimension, Choice):
        shares = dimension.weights or ()
        percent = [f" ({weight / sum(shares):.3g})" for weight in shares] or [""] * len(dimension.options)
        options = [f"{format_exact(o)}{p}" for o, p in zip(dimension.options, percent, strict=True)]
        text = f"one of {', '.join(options[:_OPTIONS])}"
        text += f" ... {len(dimension.options)} in all" if len(dimension.options) > _OPTIONS else ""
    elif isinstance(dimension, Normal):
        what = "exp of normal" if dimension.log else "normal"
        text = f"{what}, mean {dimension.mean:g}, deviation {dimension.deviation:g}"
        text += f" step {dimension.step:g}" if dimension.step is not None else ""
    else:
        text = f"{dimension.kind} from {dimension.low:g} to {dimension.high:g}"
        text += " log" if dimension.log else ""
        text += f" step {dimension.step:g}" if dimension.step not in (None, 1) else ""
        if isinstance(dimension, Int) and dimension.power is not None:
            text += f" by powers of {dimension.power}"
    when = ", ".join(f"{name} is {format_exact(value)}" for name, value in (dimension.when or {}).items())
    return f"{text}   when {when}" if when else text


def _plugin_text(kind: str, plan: Plan) -> str:
    plugin = getattr(plan.config.search, kind)
    options = "" if plugin is None else ", ".join(f"{k}={format_exact(v)}" for k, v in plugin.options.items())
    return f"{kind} {getattr(plan, kind)}{f'({options})' if options else ''}"


def _pruner_text(plan: Plan) -> str:
    by = plan.config.search.prune_by
    return _plugin_text("pruner", plan) + ("" if by is None else f" by {by}")


def _warm_start_text(warm: WarmStart) -> str:
    learned = {True: "the sampler uses their values", False: "their values are not used"}
    values = learned.get(bool(warm.values)) if warm.values is not None else "values if the engine is the same"
    tried = f"the best {warm.enqueue or 'none'} of each tried first"
    return f"{', '.join(map(printable, warm.sweeps))}   {tried}, {values}"


def _backend(plan: Plan) -> str:
    backend = plan.config.backend
    if backend.points is not None:
        return f"{backend.name} one after another"
    return f"{backend.name}   {backend.section.facts(plan.config.engine.threads or 1)}"


def _budget(plan: Plan, finished: int) -> Iterator[str]:
    budget = plan.config.budget
    yield f"{plan.trials or 'any number of'} trials in all ({finished} done)"
    if budget.time is not None:
        yield f"at most {duration(budget.time)}"
    if budget.trial_time is not None:
        yield f"at most {duration(budget.trial_time)} per trial"
    if budget.steps:
        yield f"at most {budget.steps} steps, a report every {budget.every}"
    else:
        yield f"at most {budget.epochs} epochs" if budget.epochs else "epochs as the engine states"
    if budget.repeats > 1:
        yield f"{budget.repeats} seeds per trial"
    if budget.retries:
        yield f"{budget.retries} {'retry' if budget.retries == 1 else 'retries'} per trial"
    if budget.failures is not None:
        yield f"until {plural(budget.failures, 'trial')} failed"
    if budget.target is not None:
        yield f"until a trial reaches {budget.target:g}"
    if budget.stale is not None:
        yield f"until {plural(budget.stale, 'trial')} in a row bring no new best"
    if budget.tol:
        yield f"an improvement is more than {budget.tol:g}"
    unit = CostUnit.parse(budget.cost_unit or "seconds")
    if budget.cost is not None:
        yield f"until the trials cost {unit.format(budget.cost)}"
    elif budget.cost_unit is not None:
        yield f"cost in {unit.words}"
    if budget.patience is not None:
        yield f"patience {plural(budget.patience, 'report' if budget.steps else 'epoch')}"


def _confirm_text(plan: Plan) -> str:
    confirm = plan.config.confirm
    if confirm is None:
        return "off"
    searched = f"the {plan.trials} of the search" if plan.trials else "as in the search"
    top = min(confirm.top, plan.trials or confirm.top)
    text = f"up to {top} x {confirm.repeats} = {top * confirm.repeats} trainings after {searched}"
    if len(plan.objectives) > 1:
        return f"{text}, of the trials on the front"
    return text if confirm.until == "spent" else f"{text}, until the winner is decided or tied"


def _results(plan: Plan) -> Iterator[str]:
    results = plan.config.results
    yield f"checkpoints {results.checkpoints}"
    yield f"{results.statistics} statistics"
    yield f"on disk after every {results.fsync}"
    if results.loggers:
        yield f"loggers {' '.join(logger.name for logger in results.loggers)}"
    if results.report != "none":
        yield f"report.{results.report}"
    if results.copy_to is not None:
        yield f"copied to {printable(results.copy_to)}"
