"""The figures of the report: Optuna's own, of the trials of the record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any
from warnings import catch_warnings

import optuna
from optuna import visualization
from optuna.distributions import CategoricalDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.importance import PedAnovaImportanceEvaluator

from ...backends.optuna.optuna_constraints import is_infeasible
from ...direction import Objective
from ...records.trial_record import TrialRecord
from ..manifest import Resolved
from .curves import curves_figure
from .figure import Figure, count_whole, drawing, thin
from .study import space_of, study_of, study_of_several

_ENOUGH = 30
"""Importances of fewer complete trials swing from one run to the next."""

_MOST_PARAMS = 12
_DRAWN_TOGETHER = 3
_CROSSED = 3
_MOST_LINES = 200
_MOST_CROSSED = 200
"""Of a contour, whose grid has a row and a column for each trial."""

_COLOURBAR = {"title": None, "thickness": 10, "outlinewidth": 0}
_FRONT, _OTHERS = "#2ca02c", "rgba(31, 119, 180, 0.55)"


def figures_of(records: Sequence[TrialRecord], resolved: Resolved, best: int | None) -> list[Figure]:
    """Give all figures of a sweep, in the order of the page."""
    everything = study_of(records, resolved, infeasible=True)
    found = [_front(records, resolved)] if resolved.others else []
    found += [_history(everything, resolved.metric), curves_figure(records, resolved, best)]
    space = space_of(resolved)
    if space is None:
        return [
            *found,
            Figure("params", "Params", "A list of params was tried; there is no space to look at."),
        ]
    study = study_of(records, resolved, space)
    everything = study_of(records, resolved, space, infeasible=True)
    params = _varied(study, list(space.dimensions))
    weights = _importances(study, params)
    return [
        *found,
        _importance_figure(study, params, weights, resolved.metric),
        _parallel(study, params, resolved.metric, _infeasible(everything)),
        _slices(everything, _varied(everything, list(space.dimensions)), resolved.metric),
        _contours(study, sorted(params, key=lambda name: -weights.get(name, 0.0)), resolved.metric),
    ]


def _complete(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))


def _infeasible(study: optuna.Study) -> int:
    """Count the trials that break a constraint."""
    return sum(map(is_infeasible, _complete(study)))


def _greyed(study: optuna.Study) -> str:
    """Say what the trials are that Optuna draws in grey."""
    count = _infeasible(study)
    return f" Grey ones, {count}, are infeasible: they break a constraint." if count else ""


def _best_of(study: optuna.Study, most: int) -> optuna.Study:
    """Give a study of the best trials, in the order of the whole one."""
    trials = _complete(study)
    if len(trials) <= most:
        return study
    objective = Objective.parse(study.direction.name)
    kept = sorted(trials, key=lambda trial: objective.sort_key(trial.value or 0.0))[:most]
    return _part(study, sorted(kept, key=lambda trial: trial.number))


def _part(study: optuna.Study, trials: Sequence[optuna.trial.FrozenTrial]) -> optuna.Study:
    """Return a study of some trials of another one."""
    part = optuna.create_study(direction=study.direction)
    part.add_trials(trials)
    return part


def _varied(study: optuna.Study, order: Sequence[str]) -> list[str]:
    """Name the params that have more than one value among the complete trials."""
    trials = _complete(study)
    return [n for n in order if len({repr(t.params[n]) for t in trials if n in t.params}) > 1]


def _importances(study: optuna.Study, params: Sequence[str]) -> Mapping[str, float]:
    """Weigh the params that every complete trial has; none where there are too few trials, or one param."""
    trials = _complete(study)
    weighed = [name for name in params if all(name in trial.params for trial in trials)]
    if len(trials) < _ENOUGH or len(weighed) < 2:
        return {}
    return optuna.importance.get_param_importances(study, evaluator=_evaluator(), params=weighed)


def _evaluator() -> PedAnovaImportanceEvaluator:
    with catch_warnings(action="ignore", category=ExperimentalWarning):  # before Optuna 5
        return PedAnovaImportanceEvaluator()


def _front(records: Sequence[TrialRecord], resolved: Resolved) -> Figure:
    """Draw the front of two or three objectives; the figures after it are of the first alone."""
    title, names = "Pareto front", list(resolved.optimised)
    study = study_of_several(records, resolved)
    if not _complete(study):
        return Figure("front", title, "No trial is complete.")
    if len(names) > _DRAWN_TOGETHER:
        return Figure("front", title, f"Not drawn: {len(names)} objectives have no place on a page.")
    figure = visualization.plot_pareto_front(study, target_names=names)
    figure.for_each_trace(_in_one_colour)
    caption = f"A dot is a complete trial; those of the front are dominated by no other one.{thin(figure)}"
    return Figure("front", title, f"{caption} The figures below are of {names[0]}.", (drawing(figure, 420),))


def _in_one_colour(trace: Any) -> None:
    """Tell the trials of the front by one colour; Optuna's shades tell numbers, and the first are white."""
    front = trace.marker.colorbar.title.text == "Best Trial"
    trace.name, trace.showlegend = "front" if front else "other trials", True
    trace.marker = {"color": _FRONT if front else _OTHERS, "size": 9 if front else 6, "showscale": False}


def _history(study: optuna.Study, metric: str) -> Figure:
    title = "History"
    if not _complete(study):
        return Figure("history", title, "No trial is complete.")
    figure = visualization.plot_optimization_history(study, target_name=metric)
    count_whole(figure, len(study.get_trials(deepcopy=False)))
    caption = f"A dot is a complete trial, the line the best value so far.{_greyed(study)}{thin(figure)}"
    return Figure("history", title, caption, (drawing(figure),))


def _importance_figure(
    study: optuna.Study, params: Sequence[str], weights: Mapping[str, float], metric: str
) -> Figure:
    title, count = "Importances", len(_complete(study))
    if count < _ENOUGH:
        told = f"Not shown: {count} trials are complete, and importances of fewer than {_ENOUGH} say little."
        return Figure("importances", title, told)
    if not weights:
        told = "Not shown: fewer than two params vary in all complete trials."
        return Figure("importances", title, told)
    figure = visualization.plot_param_importances(
        study, evaluator=_evaluator(), params=list(weights), target_name=metric
    )
    figure.update_layout(yaxis_title=None)
    left = [name for name in params if name not in weights]
    caption = f"How much each param decides whether a trial is among the best (PED-ANOVA), of {count} trials."
    caption += f" Not weighed, as not every trial has them: {', '.join(left)}." if left else ""
    return Figure("importances", title, caption, (drawing(figure, 120 + 36 * len(weights)),))


def _parallel(study: optuna.Study, params: Sequence[str], metric: str, infeasible: int) -> Figure:
    title, trials = "Parallel coordinates", _complete(study)
    common = [name for name in params if all(name in trial.params for trial in trials)]
    if not common:
        return Figure("parallel", title, _nothing(study))
    drawn = _best_of(study, _MOST_LINES)
    figure = visualization.plot_parallel_coordinate(drawn, params=common[:_MOST_PARAMS], target_name=metric)
    figure.update_traces(marker_colorbar=_COLOURBAR, selector={"mode": "markers"})
    caption = "A line is a complete trial, the darker the better."
    caption += f" The best {_MOST_LINES} are drawn." if len(trials) > _MOST_LINES else ""
    caption += f" Infeasible trials, {infeasible} of them, are left out." if infeasible else ""
    return Figure("parallel", title, caption, (drawing(figure, 420),))


def _slices(study: optuna.Study, params: Sequence[str], metric: str) -> Figure:
    title = "Slices"
    if not params:
        return Figure("slices", title, _nothing(study))
    plots = [
        visualization.plot_slice(study, params=[name], target_name=metric) for name in params[:_MOST_PARAMS]
    ]
    left = max((thin(plot) for plot in plots), key=len)
    caption = f"A dot is a complete trial, the darker the later.{_greyed(study)}{left}"
    choices = [name for name in params if not _is_number(study, name)]
    if choices and _infeasible(study):  # Optuna loses them where the values are no numbers
        caption += f" They are missing for {', '.join(choices)}."
    drawn = [_slice(plot, study, name) for plot, name in zip(plots, params, strict=False)]
    return Figure("slices", title, caption, tuple(drawn))


def _slice(figure: Any, study: optuna.Study, name: str) -> dict[str, Any]:
    """Label the axis of a slice and return its drawing."""
    if not _is_number(study, name):  # whose choices Optuna 5 puts in quotes here, though not elsewhere
        choices = _distribution(study, name).choices
        places, drawn = [*map(repr, choices)], {x for trace in figure.data for x in trace.x}
        written = [*map(str, choices)]
        figure.update_xaxes(tickvals=places if drawn <= {*places} else written, ticktext=written)
    return drawing(figure.update_traces(marker_showscale=False), 300)


def _contours(study: optuna.Study, params: Sequence[str], metric: str) -> Figure:
    title = "Contours"
    numbers = [name for name in params if _is_number(study, name)]
    if len(numbers) < 2:
        return Figure("contours", title, "Fewer than two numbers vary among the complete trials.")
    pairs = {pair: _with_both(study, pair) for pair in combinations(numbers[:_CROSSED], 2)}
    varied = {pair: trials for pair, trials in pairs.items() if _vary_together(trials, pair)}
    if not varied:
        return Figure("contours", title, "No two numbers vary together in the complete trials.")
    drawn = [_contour(_part(study, _spread(trials)), list(pair), metric) for pair, trials in varied.items()]
    caption = f"Values of {metric} between the complete trials, which are the dots, by two params at a time."
    most = max(map(len, varied.values()))
    caption += (
        f" Of {most:,} trials {_MOST_CROSSED} are drawn, evenly spread." if most > _MOST_CROSSED else ""
    )
    return Figure("contours", title, caption, tuple(drawn))


def _with_both(study: optuna.Study, pair: Sequence[str]) -> list[optuna.trial.FrozenTrial]:
    """Return the complete trials that have two params, which may be conditional."""
    return [trial for trial in _complete(study) if all(name in trial.params for name in pair)]


def _spread(trials: Sequence[optuna.trial.FrozenTrial]) -> Sequence[optuna.trial.FrozenTrial]:
    """Return trials at equal distances, no more than a contour takes."""
    most = min(len(trials), _MOST_CROSSED)
    return [trials[place * len(trials) // most] for place in range(most)]


def _vary_together(trials: Sequence[optuna.trial.FrozenTrial], pair: Sequence[str]) -> bool:
    """Whether each of two params varies among the trials of a contour."""
    return all(len({trial.params[name] for trial in _spread(trials)}) > 1 for name in pair)


def _is_number(study: optuna.Study, name: str) -> bool:
    return not isinstance(_distribution(study, name), CategoricalDistribution)


def _distribution(study: optuna.Study, name: str) -> Any:
    return next(trial.distributions[name] for trial in _complete(study) if name in trial.params)


def _contour(study: optuna.Study, pair: list[str], metric: str) -> dict[str, Any]:
    figure = visualization.plot_contour(study, params=pair, target_name=metric)
    return drawing(figure.update_traces(colorbar=_COLOURBAR, selector={"type": "contour"}))


def _nothing(study: optuna.Study) -> str:
    return (
        "No trial is complete." if not _complete(study) else "Too few params vary among the complete trials."
    )
