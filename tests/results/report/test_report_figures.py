from __future__ import annotations

import math
from dataclasses import replace

import pytest
from sample_records import FOUR, many, trial
from sample_sweeps import SWEEP, changed, plan_of

from hpometrics.records.trial_record import EpochRecord, TrialState
from hpometrics.results.manifest import resolve
from hpometrics.results.report.figures import curves_figure, figures_of
from hpometrics.results.report.optuna_study import space_of, study_of
from hpometrics.results.report.winner_figure import leaders_figure
from hpometrics.selection.intervals import Interval, Significance, TrialInterval

RESOLVED = resolve(plan_of(SWEEP))


def figures(records, resolved=RESOLVED, best=1):
    """The figures by name."""
    return {figure.name: figure for figure in figures_of(records, resolved, best)}


def test_the_study_has_the_numbers_params_and_values_of_the_record():
    """Bundles by label; what is not complete keeps its place and nothing else."""
    study = study_of([FOUR[1], FOUR[3]], RESOLVED, space_of(RESOLVED))
    assert [t.state.name for t in study.trials] == ["FAIL", "COMPLETE", "FAIL", "FAIL"]
    assert study.trials[1].params == {"lr": FOUR[1].params["lr"], "size": "large"}
    assert (study.best_value, study.direction.name) == (0.8, "MAXIMIZE")


def test_a_trial_of_an_earlier_space_is_left_out_where_params_are_drawn():
    """It stays in the history."""
    records = [trial(0, [0.5]), trial(1, [0.9], lr=5.0)]
    assert [t.state.name for t in study_of(records, RESOLVED, space_of(RESOLVED)).trials] == [
        "COMPLETE",
        "FAIL",
    ]
    assert study_of(records, RESOLVED).best_value == 0.9


@pytest.mark.parametrize("here", [None, "/elsewhere"])
def test_figures_need_no_variable_of_the_environment(monkeypatch, here):
    """Of another machine it may not be set here, or to another value; the trials keep theirs."""
    monkeypatch.setenv("DATA", "/scratch")
    params = "output: binary, params: {data: '${env:DATA}'}}"
    resolved = resolve(plan_of(changed("output: binary}", params)))
    records = [replace(one, params={**one.params, "data": "/scratch"}) for one in FOUR[:2]]
    monkeypatch.delenv("DATA") if here is None else monkeypatch.setenv("DATA", here)
    study = study_of(records, resolved, space_of(resolved))
    assert [t.state.name for t in study.trials] == ["COMPLETE", "COMPLETE"]
    assert study.trials[1].params == {"lr": FOUR[1].params["lr"], "size": "large"}
    assert figures(records, resolved)["parallel"].drawings


def test_an_infeasible_trial_is_gray_or_left_out_with_a_note():
    """History and slices draw it apart from the best ones; parallel coordinates say that it is missing."""
    broken = replace(trial(1, [0.9]), state=TrialState.INFEASIBLE, constraints={"ece <= 0.1": 0.2})
    drawn = figures([trial(0, [0.5]), broken, trial(2, [0.6])])
    history = drawn["history"].drawings[0]["data"]
    names = [trace["name"] for trace in history]
    assert history[names.index("infeasible")]["y"] == [0.9]
    assert history[names.index("best so far")]["y"][-1] == 0.6
    assert "Gray dots break a constraint" in drawn["history"].caption
    for place, param in ((0, "lr"), (1, "size")):
        (point,) = [one for one in drawn["slices"].drawings[place]["data"] if one["name"] == "infeasible"]
        assert point["y"] == [0.9] and point["x"] == [broken.params.get(param, "large")]
    assert "Gray ones, 1, are infeasible" in drawn["slices"].caption
    assert drawn["parallel"].caption.endswith("Infeasible trials left out: 1.")


def test_choices_are_written_as_in_the_sweep_file():
    """Without the quotes of Python, in slices too."""
    *_, axis = [one["layout"]["xaxis"] for one in figures(FOUR)["slices"].drawings]
    assert axis["categoryarray"] == ["small", "large"]


def test_choices_that_read_alike_are_told_apart():
    """Null is no None, a number is not its text: on axes and where the mouse is, as in tables."""
    options = [None, True, 2, "2"]
    text = changed("metrics:", "  option: {choice: [null, true, 2, '2']}\nmetrics:")
    records = [trial(number, [number / 50]) for number in range(4)]
    for record in records:
        record.params["option"] = options[record.number]
    drawn = figures(records, resolve(plan_of(text)))
    slice_of_option = drawn["slices"].drawings[2]
    choices = slice_of_option["layout"]["xaxis"]["categoryarray"]
    assert choices == ["null", "true", "2", '"2"']
    assert {x for trace in slice_of_option["data"] for x in trace["x"]} == {*choices}
    (parallel,) = drawn["parallel"].drawings
    labels = [note["text"] for note in parallel["layout"]["annotations"] if note["x"] == 3]
    assert labels == choices


def test_outliers_do_not_squeeze_an_axis():
    """They stand at its edge, as triangles with their values; the side that is better is whole."""
    records = [trial(n, [value]) for n, value in enumerate([0.96, 0.97, 0.98, 0.975, 0.965, 0.1])]
    drawn = figures(records, best=2)
    for figure in (drawn["history"], drawn["slices"]):
        low, high = figure.drawings[0]["layout"]["yaxis"]["range"]
        assert 0.9 < low < 0.96 and 0.98 < high < 1
        assert figure.drawings[0]["layout"]["meta"]["spans"] == {"yaxis": (low, high)}
        (outside,) = [one for one in figure.drawings[0]["data"] if one.get("meta") == "outside"]
        assert (outside["y"], outside["text"]) == ([low], ["trial 5: 0.1"])
        assert "Triangles at the edge, 1, are trials" in figure.caption
    assert "spans" not in figures(records[:5])["history"].drawings[0]["layout"]["meta"]


def test_one_long_trial_does_not_squeeze_the_costs():
    """It stands at the right edge with its own cost and value."""
    records = [replace(trial(n, [0.9 + n / 100]), seconds=1 + n / 10) for n in range(8)]
    records[0] = replace(records[0], seconds=100.0)
    (drawn,) = figures(records)["cost"].drawings
    (outside,) = [one for one in drawn["data"] if one.get("meta") == "outside"]
    high = drawn["layout"]["xaxis"]["range"][1]
    assert high < 2 and outside["x"] == [high] and outside["y"] == [0.9]
    assert outside["customdata"] == [100.0] and outside["marker"]["symbol"] == ["triangle-right"]


def test_parallel_lines_beyond_their_axis_are_marked():
    """A triangle at its end; a second set of lines over the whole axis waits for the switch."""
    records = [trial(n, [value]) for n, value in enumerate([0.96, 0.97, 0.98, 0.975, 0.965, 0.1])]
    (drawn,) = figures(records, best=2)["parallel"].drawings
    (outside,) = [one for one in drawn["data"] if one.get("meta") == "outside"]
    assert (outside["x"], outside["y"], outside["text"]) == (["roc_auc"], [0.0], ["trial 5: 0.1"])
    whole = [one for one in drawn["data"] if one.get("meta") == "all"]
    assert len(whole) == 3 and not any(one["visible"] for one in whole)
    assert drawn["layout"]["meta"]["ends"]["all"] == ["0.1", "0.98"]


def test_a_bad_trial_does_not_squeeze_the_intervals_of_the_best():
    """Their bars are whole; its triangle is at the left edge."""
    records = [trial(n, [value]) for n, value in enumerate([0.96, 0.97, 0.98, 0.975, 0.965, 0.1])]
    winner = TrialInterval(2, 0, 0.98, Interval(0.98, 0.95, 0.99))
    (drawn,) = leaders_figure(records, RESOLVED, Significance("roc_auc", winner), 2).drawings
    low, high = drawn["layout"]["xaxis"]["range"]
    assert 0.9 < low < 0.95 and 0.99 < high < 1
    (outside,) = [one for one in drawn["data"] if one.get("meta") == "outside"]
    assert (outside["x"], outside["y"], outside["text"]) == ([low], ["trial 5"], ["0.1"])


def test_no_button_uploads_a_figure():
    """Wherever it is drawn: its layout leaves the button of plotly's cloud out, by both of its names."""
    for figure in figures(many(31)).values():
        for one in figure.drawings:
            assert one["layout"]["modebar"]["remove"] == ["sendChartToCloud", "sendDataToCloud"]


def test_the_winner_is_marked():
    """By a star, which the legend names."""
    drawn = figures(many(31), best=6)
    for name in ("history", "slices", "parallel"):
        traces = {trace["name"]: trace for trace in drawn[name].drawings[0]["data"]}
        assert traces["winner (trial 6)"]
    assert traces["winner (trial 6)"]["customdata"][0] == 6


def test_axes_of_params_cover_the_space():
    """Not the values that were tried alone; a log one by its exponents."""
    axis = figures(FOUR)["slices"].drawings[0]["layout"]["xaxis"]
    assert axis["type"] == "log" and axis["range"] == pytest.approx([-4.12, -0.88])
    (parallel,) = figures(FOUR)["parallel"].drawings
    assert [one["text"] for one in parallel["layout"]["annotations"] if one["x"] == 1] == ["0.0001", "0.1"]


def test_contours_are_drawn_of_what_varies_together():
    """Not of two conditional params that one trial alone has both of."""
    text = changed(
        "metrics:",
        "  momentum: {float: [0, 1], when: {size: small}}\n  decay: {float: [0, 1]}\nmetrics:",
    )
    records = [trial(number, [number / 50], lr=0.01) for number in range(6)]
    for record in records:
        record.params["decay"] = record.number / 10 if record.number % 2 else 0.5
        record.params.update({} if record.number % 2 else {"momentum": record.number / 10})
    assert figures(records, resolve(plan_of(text)))["contours"].drawings == ()


@pytest.mark.parametrize("figure", ["history", "curves"])
def test_few_trials_and_epochs_are_counted_in_whole_numbers(figure):
    """There is no trial 0.5; of many, plotly chooses the numbers itself."""
    assert figures(FOUR)[figure].drawings[0]["layout"]["xaxis"]["dtick"] == 1
    long = [trial(number, [0.5] * 49 + [number / 50]) for number in range(50)]
    assert "dtick" not in figures(long)[figure].drawings[0]["layout"]["xaxis"]


def test_the_end_of_a_diverged_trial_is_marked_where_its_line_ends():
    """Its last epochs are nan, which has no place on the page."""
    diverged = trial(1, [0.5, 0.6, math.nan, math.nan], TrialState.FAILED)
    (drawn,) = curves_figure([diverged], RESOLVED, best=None).drawings
    (ends,) = (trace for trace in drawn["data"] if trace.get("marker", {}).get("symbol") == "x")
    assert (ends["x"], ends["y"]) == ([1], [0.6])


def test_few_trials_have_no_importances():
    """Nor contours. The reason is said; from thirty complete trials on they are drawn."""
    for name in ("importances", "contours"):
        few = figures(many(29))[name]
        assert few.drawings == () and few.caption.startswith("Not shown: 29 trials are complete")
    assert len(figures(many(30))["importances"].drawings) == 1


def test_what_not_every_trial_has_is_not_weighed():
    """Importances of a conditional param swing; it is named instead."""
    text = changed("metrics:", "  momentum: {float: [0, 1], when: {size: small}}\nmetrics:")
    records = [trial(number, [number / 50]) for number in range(40)]
    for record in records[::2]:
        record.params["momentum"] = record.value
    figure = figures(records, resolve(plan_of(text)))["importances"]
    assert figure.caption.endswith("from 40 trials. Not ranked, because some trials lack them: momentum.")
    assert sorted(figure.drawings[0]["data"][0]["y"]) == ["lr", "size"]


def test_nothing_complete_leaves_reasons_and_curves():
    """Each figure that has no drawing says why."""
    found = figures(FOUR[2:], best=None)
    assert [name for name, figure in found.items() if figure.drawings] == ["curves"]
    assert all(figure.caption for figure in found.values())


def test_a_list_has_no_figures_of_params():
    """There is no space that it was drawn from."""
    text = "engine: {target: a:b, output: binary}\nmetrics: {optimize: roc_auc}\nbudget: {}\n"
    listed = resolve(plan_of(text + "backend: {list: [{lr: 0.1}, {lr: 0.2}]}\n"))
    assert list(figures([trial(0, [0.5])], listed)) == ["curves", "history", "cost", "params"]


def test_curves_mark_what_was_stopped():
    """A trace of lines per state, the best by itself, an x at the end of a pruned trial; nan is a gap."""
    records = [*FOUR, trial(4, [0.3, math.nan, 0.4])]
    (drawn,) = curves_figure(records, RESOLVED, best=1).drawings
    named = [(trace["name"], trace["mode"]) for trace in drawn["data"] if "legendgroup" in trace]
    assert named == [("ok (2)", "lines"), ("pruned (1)", "lines+markers"), ("winner (trial 1)", "lines")]
    (ends,) = (trace for trace in drawn["data"] if trace.get("marker", {}).get("symbol") == "x")
    assert (ends["x"], ends["y"], ends["text"]) == ([0], [0.4], ["trial 2 pruned"])


@pytest.mark.parametrize("pruned", [10, 250])
def test_many_curves_are_thinned_to_the_best_and_the_latest(pruned):
    """Two hundred: the best complete ones, then the last of the others; the caption says so."""
    records = [*many(250), *(trial(250 + n, [0.1], TrialState.PRUNED) for n in range(pruned))]
    figure = curves_figure(records, RESOLVED, best=None)
    (drawn,) = figure.drawings
    names = [trace["name"] for trace in drawn["data"] if "legendgroup" in trace]
    shown = min(100, pruned)
    assert names == [f"ok ({200 - shown})", f"pruned ({shown})"]
    assert figure.caption.endswith(f"200 of {250 + pruned} trials are drawn.")


def test_many_dots_are_thinned(monkeypatch):
    """The first, the last and the winner are there; captions say so."""
    monkeypatch.setattr("hpometrics.results.report.drawing._MOST_DOTS", 4)
    drawn = figures(many(10), best=5)
    history = {trace["name"]: trace["x"] for trace in drawn["history"].drawings[0]["data"]}
    assert history["complete"] == [0, 3, 6, 9] and history["winner (trial 5)"] == [5]
    assert history["best so far"] == [0, 3, 5, 6, 9]
    rates = drawn["slices"].drawings[0]["data"][0]
    assert rates["x"] == [trial(number, [0.5]).params["lr"] for number in (0, 3, 6, 9)]
    for name in ("history", "slices"):
        assert drawn[name].caption.endswith("5 of 10 dots are drawn, evenly spread.")


def test_a_contour_has_a_grid_of_a_limited_size(monkeypatch):
    """Its grid has a row and a column for each of its trials: unlimited it grows with their square."""
    monkeypatch.setattr("hpometrics.results.report.param_figures._MOST_CROSSED", 5)
    resolved = resolve(plan_of(changed("metrics:", "  drop: {float: [0.0, 1.0]}\nmetrics:")))
    records = many(60)
    for record in records:
        record.params["drop"] = record.number / 60
    figure = figures(records, resolved)["contours"]
    (contour,) = [trace for trace in figure.drawings[0]["data"] if trace["type"] == "contour"]
    assert len(contour["x"]) <= 5 and len(contour["y"]) == 5
    assert figure.caption.endswith("5 of 60 trials are drawn, evenly spread.")


def test_the_front_has_a_color_of_its_own():
    """Its trials are told from the others by one color, and not by shades of their numbers."""
    resolved = resolve(plan_of(changed("optimize: roc_auc", "optimize: [roc_auc, log_loss]")))
    values = [(0.9, 0.5), (0.7, 0.2), (0.6, 0.4)]
    records = [
        replace(trial(n, [value]), epochs=(EpochRecord(0, {"roc_auc": value, "log_loss": loss}),))
        for n, (value, loss) in enumerate(values)
    ]
    records.append(replace(trial(3, [0.85]), epochs=(EpochRecord(0, {"roc_auc": 0.85, "log_loss": 0.3}),)))
    others, front, knee = figures(records, resolved, best=3)["front"].drawings[0]["data"]
    assert (others["name"], front["name"], knee["name"]) == ("other trials", "front", "knee (trial 3)")
    assert sorted(zip(front["x"], front["y"], strict=True)) == [(0.7, 0.2), (0.9, 0.5)]
    assert (knee["x"], knee["y"], others["text"]) == ([0.85], [0.3], ["trial 2"])
    assert front["marker"]["color"] != others["marker"]["color"]
    front, knee = figures(records, resolved, best=2)["front"].drawings[0]["data"]
    assert (len(front["x"]), knee["name"]) == (3, "knee (trial 2)")  # fresh trainings chose it


def test_a_knee_is_called_a_knee():
    """In every figure: no trial of several objectives is the winner."""
    text = changed("optimize: roc_auc", "optimize: [roc_auc, log_loss]")
    resolved = resolve(plan_of(text.replace("metrics:", "  drop: {float: [0.0, 1.0]}\nmetrics:", 1)))
    records = [
        replace(trial(n, [n / 50]), epochs=(EpochRecord(0, {"roc_auc": n / 50, "log_loss": n / 50}),))
        for n in range(31)
    ]
    for record in records:
        record.params["drop"] = record.number / 60
    drawn = figures(records, resolved, best=6)
    assert "and the star is the knee" in drawn["slices"].caption
    for name in ("front", "curves", "history", "cost", "parallel", "slices", "contours"):
        (star,) = [trace for trace in drawn[name].drawings[0]["data"] if "(trial 6)" in trace.get("name", "")]
        assert star["name"] == "knee (trial 6)"


def test_three_objectives_are_drawn_two_by_two():
    """A page has two dimensions; each drawing has a label of its own."""
    resolved = resolve(plan_of(changed("optimize: roc_auc", "optimize: [roc_auc, log_loss, accuracy]")))
    values = {"roc_auc": 0.9, "log_loss": 0.5, "accuracy": 0.8}
    drawings = figures([replace(trial(0, [0.9]), epochs=(EpochRecord(0, values),))], resolved)[
        "front"
    ].drawings
    assert [one["layout"]["meta"]["label"].partition(",")[0] for one in drawings] == [
        "log_loss by roc_auc",
        "accuracy by roc_auc",
        "accuracy by log_loss",
    ]
