from __future__ import annotations

import sys
from pathlib import Path

import pytest
from sample_sweeps import SWEEP, changed, plan_of, problems_of

from hpometrics.backends.registry import OPTUNA_PRUNERS, SAMPLERS, SAMPLERS as OPTUNA_SAMPLERS
from hpometrics.config.compatibility import PRUNER_BACKENDS
from hpometrics.config.document import SweepFileError, parse_document
from hpometrics.config.plan import make_plan
from hpometrics.config.space_section import arrange_points
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import pip_line
from hpometrics.metrics.features import Binary, Category, Image, Ranking
from hpometrics.results.summary import overview


def test_a_plan_has_everything_settled():
    """Canonical names, directions with their origin, defaults, the space."""
    plan = plan_of(SWEEP)
    assert (plan.name, str(plan.directory), plan.trials, plan.engine_seed) == ("sweep", "runs/sweep", 4, 3)
    assert (plan.output, plan.sampler, plan.pruner, plan.at) == (Binary(), "random", "none", "best")
    assert (plan.optimize.name, plan.optimize.direction, plan.optimize.origin) == (
        "roc_auc",
        MAXIMIZE,
        "registry",
    )
    assert plan.optimize.inputs == "probabilities"
    assert plan.space.decode({"lr": 0.1, "size": "small"}) == {"lr": 0.1, "depth": 1, "width": 8}


def test_fixed_params_are_constants_of_the_space():
    """Every trial records them, on every backend."""
    plan = plan_of(changed("output: binary", "params: {batch: 64, layers: [1, 2]}"))
    assert plan.space.decode({"lr": 0.1, "size": "small"})["layers"] == [1, 2]


def test_a_metric_is_named_by_alias_or_in_parts():
    """`f1_macro` and the mapping are the same metric."""
    text = changed("output: binary", "output: category")
    alias = plan_of(text.replace("roc_auc", "f1_macro"))
    parts = plan_of(text.replace("roc_auc", "{metric: f1, average: macro}"))
    assert alias.optimize == parts.optimize
    assert alias.optimize.name == "f1(average=macro)"


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        (
            "{metric: roc_auc, direction: minimize}",
            "roc_auc must be maximized, but direction minimizes it",
        ),
        ("rmse", "'rmse' does not exist for a binary output; it is a metric of number"),
        ("{metric: rmse, direction: minimize}", "'rmse' does not exist for a binary output"),
        ("roc_acu", "Did you mean 'roc_auc'?"),
        ("latency_ms", "if the engine reports it, state {metric: latency_ms, direction: ...}"),
        ("{metric: latency_ms, direction: down}", "direction must be minimize or maximize, got 'down'"),
        ("fbeta", "needs"),
        ("test:roc_auc", "only validation values can steer a search; test:roc_auc can only be tracked"),
    ],
)
def test_a_metric_that_cannot_steer_says_why(metric, problem):
    """The direction is the registry's; it is never guessed and never overruled."""
    found = problems_of(changed("optimize: roc_auc", f"optimize: {metric}"))
    assert len(found) == 1
    assert "metrics.optimize" in found[0]
    assert problem in found[0]


def test_the_direction_may_be_repeated_or_supplied():
    """Stating what the registry says is fine; a value that the engine reports needs it."""
    stated = plan_of(changed("optimize: roc_auc", "optimize: {metric: roc_auc, direction: max}"))
    assert stated.optimize.origin == "registry"
    reported = plan_of(changed("optimize: roc_auc", "optimize: {metric: latency_ms, direction: minimize}"))
    assert (reported.optimize.direction, reported.optimize.reported) == (MINIMIZE, True)


def test_without_an_output_shared_directions_are_enough():
    """`check` imports no engine, so that the feature may be unknown."""
    plan = plan_of(changed(", output: binary", ""))
    assert (plan.output, plan.optimize.direction) == (None, MAXIMIZE)


def test_metrics_that_no_output_has_both_are_an_error():
    """Once the engine has said nothing either; `check` leaves them to it, which may have several outputs."""
    text = changed(", output: binary", "").replace("roc_auc", "psnr").replace("accuracy", "ndcg@5")
    document = parse_document(text, "sweep.yaml")
    both = make_plan(document, {"photo": Image(), "items": Ranking()}, settle=True)
    assert [both.optimize.name, both.track[0].name] == ["photo.psnr", "items.ndcg@5"]
    serves = r"track\[0\]: no output fits both: psnr is a metric of image, and ndcg@5 of ranking"
    with pytest.raises(SweepFileError, match=serves):
        make_plan(document, None, settle=True)


def test_a_metric_that_is_another_for_each_output_needs_it():
    """Once the engine has said nothing either; `check` does not ask the engine."""
    document = parse_document(changed(", output: binary", "").replace("roc_auc", "f1"), "sweep.yaml")
    with pytest.raises(SweepFileError, match=r"optimize: f1 means a different metric .* logs"):
        make_plan(document, None, settle=True)


def test_with_a_direction_it_is_a_value_that_the_engine_logs():
    """As in an imported file, whose program reports `loss`; the other direction of the name is refused."""
    text = changed(", output: binary", "").replace("track: [accuracy]", "track: []")
    text = text.replace("roc_auc", "{metric: loss, direction: minimize}")
    plan = make_plan(parse_document(text, "sweep.yaml"), None, settle=True)
    assert plan.optimize.name == "loss" and plan.optimize.reported
    assert not make_plan(parse_document(text, "sweep.yaml"), Binary(), settle=True).optimize.reported
    with pytest.raises(SweepFileError, match="loss must be minimized"):
        make_plan(parse_document(text.replace("minimize}", "maximize}"), "sweep.yaml"), None, settle=True)
    either = parse_document(text.replace("loss", "gini"), "sweep.yaml")  # minimized of rankings alone
    assert make_plan(either, None, settle=True).optimize.direction is MINIMIZE


def test_the_engine_settles_what_the_file_leaves_open():
    """What it says of itself is taken; another output than the file's is a contradiction."""
    told = make_plan(parse_document(changed(", output: binary", ""), "sweep.yaml"), Binary(0.3))
    assert told.output == Binary(0.3)
    assert make_plan(parse_document(SWEEP, "sweep.yaml"), Binary(0.3)).output == Binary(0.3)
    with pytest.raises(SweepFileError, match="the file states binary, but the engine states category"):
        make_plan(parse_document(SWEEP, "sweep.yaml"), Category(3))


def test_the_file_adds_to_what_the_engine_says():
    """Facts in the file count, those that it leaves out are the engine's, and so are all side data."""
    text = changed("binary", "ranking(num_negatives=3)").replace("roc_auc", "ndcg@5")
    told = Ranking(9, relevance_threshold=2.0, item_popularity=(popularity := [1.0] * 9))
    plan = make_plan(parse_document(text.replace("accuracy", "recall@5"), "sweep.yaml"), told)
    assert str(plan.output) == "ranking(num_items=9, relevance_threshold=2.0, num_negatives=3)"
    assert plan.output.item_popularity is popularity


def test_a_metric_that_is_tracked_twice_counts_once():
    """The metric to optimize need not be tracked too."""
    plan = plan_of(changed("[accuracy]", "[accuracy, roc_auc, accuracy, test:accuracy]"))
    assert [measure.name for measure in plan.track] == ["accuracy", "test:accuracy"]


def test_names_of_plug_ins_are_those_of_the_hosts():
    """The table of support knows every sampler and pruner that the search can build."""
    assert set(SAMPLERS) == set(OPTUNA_SAMPLERS)
    assert {name for name, backends in PRUNER_BACKENDS.items() if "optuna" in backends} == set(OPTUNA_PRUNERS)


@pytest.mark.ray
def test_names_of_schedulers_are_those_of_ray():
    """The same for Ray."""
    from hpometrics.backends.ray.schedulers import RAY_SCHEDULERS

    assert {name for name, backends in PRUNER_BACKENDS.items() if "ray" in backends} == set(RAY_SCHEDULERS)


@pytest.mark.parametrize(
    ("pruner", "backend", "problem"),
    [
        ("percentile", "ray", "percentile runs on optuna only; on ray choose median, asha, hyperband, pbt"),
        ("patient", "ray", "patient runs on optuna only"),
        ("hyperband", "optuna", "hyperband divides the number of epochs; set budget.epochs"),
        ("asha", "ray", "asha divides the number of epochs; set budget.epochs"),
        (
            "median",
            "{list: [{lr: 0.1, size: small}]}",
            "the list backend runs its list unchanged; leave pruner out",
        ),
    ],
)
def test_a_pruner_that_cannot_run_names_those_that_can(pruner, backend, problem):
    """Which pruner runs where is a table, checked before anything runs."""
    text = changed("{trials: 4, epochs: 3}", "{trials: 4}") + f"backend: {backend}\n"
    assert any(problem in line for line in problems_of(text.replace("sampler: random", f"pruner: {pruner}")))


@pytest.mark.parametrize(
    ("sampler", "package"), [("cmaes", "cmaes"), ("botorch", "botorch"), ("bohb", "hpbandster")]
)
def test_a_missing_package_is_an_error_of_check(sampler, package, monkeypatch):
    """It names the extra that brings it."""
    monkeypatch.setitem(sys.modules, package, None)
    [problem] = problems_of(changed("sampler: random", f"sampler: {sampler}"))
    assert f"needs {package}, which is not installed: {pip_line(SAMPLERS[sampler].extra)}" in problem


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        ("sampler: hebo", "'hebo' is not a sampler: HEBO 0.3.6"),
        (
            "sampler: 'ray.tune.search.hebo:HEBOSearch'",
            "needs HEBO, which is not installed: HEBO 0.3.6, its newest release, requires numpy<1.25",
        ),
        ("sampler: 'hub:no/such'", "the sampler 'hub:no/such' names a folder that does not exist: "),
        ("sampler: 'hub:bare'", "the sampler 'hub:bare' is not a package: "),
        ("pruner: {'hub:no/such': {x: 1}}", "the pruner 'hub:no/such' names a folder that does not exist: "),
        (
            "sampler: 'no module:x y'",
            "'no module:x y' is not a class; write package.module:Class, or hub:FOLDER",
        ),
        ("sampler: bohb, pruner: hyperbad", "'hyperbad' is not a pruner; did you mean 'hyperband'"),
    ],
)
def test_a_plug_in_that_is_not_there_is_an_error_of_check(plugin, problem, tmp_path, monkeypatch):
    """A package of OptunaHub is looked for and never fetched."""
    monkeypatch.chdir(tmp_path)
    Path("bare").mkdir()
    assert any(problem in line for line in problems_of(changed("sampler: random", plugin)))


SPRUNG = "open('sprung', 'w').close()\n"


@pytest.mark.parametrize("kind", ["sampler", "pruner"])
@pytest.mark.parametrize("name", ["hub:own", "hub:own:Any", "own:Any"])
@pytest.mark.parametrize("options", ["", ": {spread: 3, other: x}"])
def test_a_check_runs_no_class_of_the_users_own(kind, name, options, tmp_path, monkeypatch):
    """Neither to find it nor for its options; it is beside the file."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    Path("own").mkdir()
    Path("own", "__init__.py").write_text(SPRUNG)
    spec = f"{{'{name}'{options}}}" if options else f"'{name}'"
    plan = plan_of(changed("sampler: random", f"{kind}: {spec}"))
    folder = Path(plan.file).parent if name.startswith("hub:") else None
    assert not Path("sprung").exists()
    spec = plan.sampler_spec if kind == "sampler" else plan.pruner_spec
    written = next(iter(spec)) if options else spec
    assert written == (name if folder is None else name.replace("hub:own", f"hub:{tmp_path / 'own'}"))


def test_a_pruner_of_a_package_runs_on_optuna():
    """Ray has schedulers."""
    hub = Path(__file__).parents[1] / "samples" / "two_pruners"
    text = changed("sampler: random", f"pruner: 'hub:{hub}:NopPruner'")
    assert problems_of(text) == []
    [problem] = problems_of(f"{text}backend: ray\n")
    assert "is an Optuna pruner, but ray stops trials with a scheduler" in problem


def test_a_grid_is_counted():
    """Its points are the trials, start points first, each once; a budget may cut it short."""
    grid = changed("{float: [1e-4, 1e-1], log: true}", "{int: [1, 3]}").replace(
        "sampler: random", "sampler: grid"
    )
    assert plan_of(grid.replace("trials: 4, ", "")).trials == 6
    assert plan_of(grid).trials == 4
    first = plan_of(grid.replace("seed: 3", "seed: 3, start: [{lr: 3, size: large}]")).points
    assert first[0] == {"lr": 3, "size": "large"}
    assert len(first) == 6


def test_a_grid_that_may_be_cut_is_in_an_order_of_the_seed():
    """So that what is visited is a sample of it; a whole one is in its own order, start points come first."""
    grid = changed("{float: [1e-4, 1e-1], log: true}", "{int: [1, 3]}").replace("random", "grid")
    whole = plan_of(grid.replace("trials: 4, ", "")).points
    cut = plan_of(grid).points
    assert [point["lr"] for point in whole] == [1, 1, 2, 2, 3, 3]
    assert cut != whole and sorted(map(str, cut)) == sorted(map(str, whole)) and plan_of(grid).points == cut
    assert len({str(plan_of(grid.replace("seed: 3", f"seed: {seed}")).points) for seed in range(9)}) > 3
    for limit in ("time: 1h, ", "target: 0.9, "):
        assert plan_of(grid.replace("trials: 4, ", limit)).points == cut
    started = plan_of(grid.replace("seed: 3", "seed: 3, start: [{lr: 3, size: large}]")).points
    assert started[0] == {"lr": 3, "size": "large"} and sorted(map(str, started)) == sorted(map(str, whole))


def test_check_says_how_many_points_of_a_grid_are_left_out():
    """And by which seed the others are drawn."""
    grid = changed("{float: [1e-4, 1e-1], log: true}", "{int: [1, 3]}").replace("random", "grid")
    told = str([*overview(plan_of(grid))])
    assert "6 points of the grid, in an order drawn by seed 3, of which 2 are left out" in told
    assert "points of the grid, " not in str([*overview(plan_of(grid.replace("trials: 4, ", "")))])


@pytest.mark.parametrize(
    ("taken", "order"),
    [
        ({}, "abcd"),
        ({0: "a", 1: "b"}, "abcd"),
        ({0: "c", 1: "a"}, "cabd"),
        ({1: "d"}, "adbc"),
        ({0: "x"}, "xabcd"),
        ({0: "x", 9: "y"}, "xabcd"),
    ],
)
def test_trials_keep_their_points_of_a_grid(taken, order):
    """Whatever order there was before; no point is left out, none comes twice."""
    points = tuple({"p": name} for name in "abcd")
    found = arrange_points(points, {number: {"p": name} for number, name in taken.items()})
    assert "".join(point["p"] for point in found) == order


def test_a_grid_needs_finite_dimensions():
    """A continuous parameter cannot be enumerated."""
    [problem] = problems_of(changed("sampler: random", "sampler: grid"))
    assert "search.sampler: lr: is continuous; set step to enumerate it" in problem


def test_a_list_needs_no_space():
    """Its points are the params; the whole list is the budget."""
    text = "engine: a:b\nmetrics: {optimize: roc_auc}\nbudget: {}\n"
    plan = plan_of(text + "backend: {list: [{lr: 1, opt: sgd}, {lr: 2}]}\n")
    assert (plan.trials, plan.sampler) == (2, "list")
    assert [plan.space.decode(point) for point in plan.points] == [{"lr": 1, "opt": "sgd"}, {"lr": 2}]


def test_a_list_beside_a_space_lies_in_it():
    """Every point is complete and possible."""
    text = SWEEP.replace("sampler: random, ", "")
    assert plan_of(text + "backend: {list: [{lr: 0.1, size: small}]}\n").points == (
        {"lr": 0.1, "size": "small"},
    )
    [problem] = problems_of(text + "backend: {list: [{lr: 0.1}]}\n")
    assert "backend.list[0]: size: is missing" in problem


def test_start_points_may_be_partial():
    """What they leave open is sampled."""
    assert plan_of(changed("seed: 3", "start: [{lr: 0.01}, {size: large}]")).points == (
        {"lr": 0.01},
        {"size": "large"},
    )


def test_ray_wants_to_know_the_number_of_trials():
    """Time alone does not end a sweep on Ray."""
    [problem] = problems_of(changed("trials: 4", "time: 1m") + "backend: ray\n")
    assert "budget: Ray needs the number of trials in advance" in problem
