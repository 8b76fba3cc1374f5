from __future__ import annotations

from contextlib import suppress
from typing import Any, get_args

import pytest
from hypothesis import given, settings, strategies as st
from sample_sweeps import SWEEP, changed, plan_of, problems_of

from hpometrics.config import validate
from hpometrics.config.dimension_models import MODELS as DIMENSIONS
from hpometrics.config.document import Path, SweepFileError, parse_document
from hpometrics.config.fields import Strict
from hpometrics.config.models import Sweep
from hpometrics.config.plan import make_plan
from hpometrics.config.yaml_text import dump_yaml
from hpometrics.results.manifest import resolve

FULL = """\
version: 1
name: full
engine: {target: toy_engine:train, output: binary, params: {a: 1}, seed: 1}
space:
  lr: {float: [1e-4, 1e-1], log: true}
  size: {choice: {small: {depth: 1}, large: {depth: 3}}}
  layers: {int: [1, 4], step: 1, when: {size: large}}
  fixed: 3
metrics: {optimize: {metric: roc_auc, direction: max}, track: [f1], at: last, constraints: []}
search: {sampler: {tpe: {n_startup_trials: 3}}, pruner: median, seed: 3, start: [{lr: 0.1}]}
backend: {ray: {workers: 1, resources: {cpu: 1}}}
budget: {trials: 4, time: 1h, epochs: 3, patience: 2, target: 0.9}
results: {dir: runs/x, loggers: [csv], fsync: trial}
"""

BAD = """\
engine: {target: examples.mnist:train, output: category}
space:
  lr: {flaot: [1e-5, 1e-1], log: true}
  width: {int: [256, 16], step: 16}
  beta: {float: ["1e-4", 2], stp: 3}
  widths: [1, 2]
  momentum: {float: [0, 1], when: {optimizr: sgd}}
  optimizer: {choice: [sgd, adam]}
metrics:
  optimize: f1_marco
search: {sampler: tpee, pruner: {median: {warmupp: 3}}}
results: {trials: 3}
bugdet: {trials: 20}
space: 3
"""


def test_all_problems_come_in_one_go_with_their_places():
    """Structure and meaning are checked in the same go; one mistake is one message."""
    found = problems_of(BAD.removesuffix("space: 3\n"))
    expected = [
        "sweep.yaml:3:3: space.lr: a search dimension needs one of float, int, normal, choice, value; "
        "did you mean 'float' for 'flaot'?",
        "sweep.yaml:4:11: space.width.int: low 256 must not be greater than high 16",
        "sweep.yaml:5:18: space.beta.float[0]: expected a number, got '1e-4' (text); "
        "write it without quotes and underscores",
        "sweep.yaml:5:30: space.beta: unknown key 'stp'; did you mean 'step'?",
        "sweep.yaml:6:3: space.widths: a bare list is ambiguous; "
        "write {choice: [...]}, {float: [low, high]} or {int: [low, high]}",
        "sweep.yaml:7:29: space.momentum.when: no param 'optimizr' in the space; did you mean 'optimizer'?",
        "sweep.yaml:10:3: metrics.optimize: no metric 'f1_marco' for a category output.",
        "sweep.yaml:11:10: search.sampler: 'tpee' is not a sampler; did you mean 'tpe'?",
        "sweep.yaml:12:11: results: unknown key 'trials'; 'trials' belongs to budget",
        "sweep.yaml:13:1: unknown key 'bugdet'; did you mean 'budget'?",
    ]
    assert [line[: len(wanted)] for line, wanted in zip(found, expected, strict=True)] == expected


def test_a_duplicate_section_is_reported_with_the_rest():
    """What the reader notes does not hide what the model finds."""
    found = problems_of(BAD)
    assert "sweep.yaml:14:1: duplicate key 'space' (first at line 2)" in found
    assert "sweep.yaml:13:1: unknown key 'bugdet'; did you mean 'budget'?" in found


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "engine: {target: toy_engine:train,",
            "engine: {taget: a:b,",
            "1:1: engine: an engine needs one of target",
        ),
        ("toy_engine:train", "toy_engine.train", "'toy_engine.train' is not a target; write module:function"),
        ("target: toy_engine:train", "choice: {net: a:b}", "engine.choice: needs at least 2 entries, got 1"),
        ("toy_engine:train", "../toy:train", "is not a target"),
        ("toy_engine:train", "a.b:c.__globals__", "is not a target"),
        ("toy_engine:train", "a:__import__", "is not a target"),
        (
            "output: binary",
            "output: binry",
            "engine.output: 'binry' is not an output feature; did you mean 'binary'?",
        ),
        ("output: binary", "output: binary(x=1)", "engine.output: binary has no 'x'"),
        ("output: binary", "params: {lr: 1}", "engine.params.lr: is fixed here and varied by space.lr"),
        (
            "output: binary",
            "params: {width: 1}",
            "engine.params.width: is fixed here and varied by space.size",
        ),
        ("output: binary", "seed: -1", "engine.seed: must be at least 0, got -1"),
        ("[1e-4, 1e-1]", "[1e-4]", "space.lr.float: expected [low, high], got [0.0001]"),
        (
            "{float: [1e-4, 1e-1], log: true}",
            "{normal: [1]}",
            "space.lr.normal: expected [mean, deviation], got [1]",
        ),
        ("[1e-4, 1e-1]", "[0, 1]", "space.lr.float: log requires low above 0, got 0.0"),
        ("[1e-4, 1e-1]", "[true, 1]", "space.lr.float[0]: expected a number, got True"),
        ("[1e-4, 1e-1], log: true", "[0, 1], step: 2", "space.lr.float: step must be positive and at most"),
        ("log: true", "log: 1", "space.lr.log: expected true or false, got 1"),
        ("log: true", "when: {}", "space.lr.when: must not be empty"),
        ("log: true", "when: {size: tiny}", "space.lr.when: 'size' can never be 'tiny'"),
        ("log: true", "when: {size: null}", "space.lr.when: 'size' can never be null"),
        (
            "log: true",
            "when: {size: [[]]}",
            "space.lr.when.size: expected text, a number, true, false or null",
        ),
        ("log: true", "when: {lr: 1}", "space.lr.when: 'lr' is a float"),
        (
            "{float: [1e-4, 1e-1], log: true}",
            "{float: [1, 2], int: [1, 2]}",
            "is one of float and int, not several",
        ),
        ("{float: [1e-4, 1e-1], log: true}", "{int: [0, 9000000000000000000]}", "is above 2**53"),
        ("{float: [1e-4, 1e-1], log: true}", "{float: [-1e308, 1e308]}", "is too wide"),
        (
            "{float: [1e-4, 1e-1], log: true}",
            "{choice: [[1], 2]}",
            "space.lr.choice[0]: an option must be text, a number",
        ),
        ("{float: [1e-4, 1e-1], log: true}", "{choice: []}", "space.lr.choice: must not be empty"),
        (
            "{float: [1e-4, 1e-1], log: true}",
            "{choice: [1, 1]}",
            "space.lr.choice: a choice has the option 1 twice",
        ),
        (
            "{float: [1e-4, 1e-1], log: true}",
            "{choice: {a: 3}}",
            "space.lr.choice.a: expected a mapping, got 3",
        ),
        ("{float: [1e-4, 1e-1], log: true}", "{choice: 3}", "space.lr.choice: expected a list of values"),
        ("{float: [1e-4, 1e-1], log: true}", "", "space.lr: a search dimension needs one of"),
        (
            "{float: [1e-4, 1e-1], log: true}",
            "{decay: {float: [0, 1]}}",
            "space.lr: a nested param has a dotted name; write a dimension whose name ends in '.decay'",
        ),
        (
            "optimize: roc_auc",
            "optimise: roc_auc",
            "5:11: metrics: unknown key 'optimise'; did you mean 'optimize'?",
        ),
        (
            "roc_auc",
            "{metric: f1, average: [a]}",
            "metrics.optimize: average must be text, a number, true or false",
        ),
        ("roc_auc", "f1(average=", "metrics.optimize: 'f1(average=' is not a metric name"),
        ("[accuracy]", "accuracy", "metrics.track: expected a list, got 'accuracy' (text)"),
        ("[accuracy]", "[accuracy], at: bets", "'bets' is not one of best, last; did you mean 'best'?"),
        ("sampler: random", "sampler: {tpe: 3}", "search.sampler: write a name, as in tpe"),
        ("sampler: random", "sampler: {tpe: {n_startup: 3}}", "sampler 'tpe' has no argument 'n_startup'"),
        (
            "seed: 3",
            "from: {sweeps: [old], enque: 3}",
            "search.from: unknown key 'enque'; did you mean 'enqueue'?",
        ),
        ("seed: 3", "start: [{lr: 2}]", "search.start[0]: lr: must lie in [0.0001, 0.1], got 2"),
        ("seed: 3", "start: [{rl: 0.1}]", "search.start[0]: rl: no such param"),
        ("{trials: 4, epochs: 3}", "{epochs: 3}", "7:1: budget: needs one of trials, time, target"),
        ("trials: 4", "time: 10", "budget.time: 10 has no unit; write 10s, 10m, 10h or 10d"),
        ("trials: 4", "time: 2 hours", "budget.time: '2 hours' is not a duration"),
        ("trials: 4", "trials: 4.5", "budget.trials: expected a whole number, got 4.5"),
        ("trials: 4", "trials: 0", "budget.trials: must be at least 1, got 0"),
        ("epochs: 3}", "epochs: 3}\nresults: {loggers: [tensorbord]}", "did you mean 'tensorboard'?"),
        (
            "epochs: 3}",
            "epochs: 3}\nresults: {loggers: [{table: {width: 80}}]}",
            "results.loggers[0]: the logger table has no option 'width'; it has no options",
        ),
        (
            "epochs: 3}",
            "epochs: 3}\nresults: {loggers: [csv, csv]}",
            "results.loggers[1]: the logger csv is listed twice; leave one of the two out",
        ),
        ("epochs: 3}", "epochs: 3}\nname: ../escaped", "name: '../escaped' is not a valid name"),
        ("epochs: 3}", "epochs: 3}\nname: .hidden", "name: '.hidden' is not a valid name"),
        ("epochs: 3}", "epochs: 3}\nversion: 2", "version: 2 is not one of 1"),
        ("epochs: 3}", "epochs: 3}\nbackend: optunaa", "'optunaa' is not a backend; did you mean 'optuna'?"),
        ("epochs: 3}", "epochs: 3}\nbackend: list", "backend: the list backend needs its list"),
        ("epochs: 3}", "epochs: 3}\nbackend: {ray: {wokers: 2}}", "backend.ray: unknown key 'wokers'"),
    ],
)
def test_a_mistake_is_one_message(old, new, problem):
    """Each says where, what was wanted and what came."""
    found = problems_of(changed(old, new))
    assert len(found) == 1, found
    assert problem in found[0]


BROKEN = """\
engine: {target: toy_engine:train, output: binary, params: {lr: 1}, threads: .nan}
space: {lr: {float: [1e-4, 1e-1]}, width: {int: [0, .inf]}, depth: &depth {int: [4, 1]}}
metrics: {optimize: roc_auc, at: bets, track: [3, f1_marco]}
search: {seed: x, sampler: tpee, start: [7, {rl: 1}]}
budget: {trials: 4.5, retries: -2, patience: !int 3}
results: {dri: x, loggers: [tensorbord]}
"""


def models_in(kind: object) -> set[type[Strict]]:
    """The models of mappings in a type, but for those of dimensions, which a key in them names."""
    if not isinstance(kind, type) or not issubclass(kind, Strict):
        return {model for part in get_args(kind) for model in models_in(part)}
    fields = (field.annotation for field in kind.model_fields.values())
    return set().union({kind} - {*DIMENSIONS.values()}, *map(models_in, fields))


def test_an_unknown_key_has_suggestions_in_every_mapping():
    """Each model is in the table by which keys are looked up."""
    assert models_in(Sweep) == {*validate._MODELS.values(), *validate._INNER.values()}


def test_a_mistake_does_not_hide_the_others_of_its_section():
    """Only the bad key or item is left out; what depends on it is not guessed at."""
    found = problems_of(BROKEN)
    expected = [
        "sweep.yaml:1:61: engine.params.lr: is fixed here and varied by space.lr",
        "sweep.yaml:1:78: .nan is not a value",
        "sweep.yaml:2:53: .inf is not a value",
        "sweep.yaml:2:68: anchors and aliases",
        "sweep.yaml:2:76: space.depth.int: low 4 must not be greater than high 1",
        "sweep.yaml:3:30: metrics.at: 'bets' is not one of best, last",
        "sweep.yaml:3:48: metrics.track[0]: write a metric's name",
        "sweep.yaml:3:51: metrics.track[1]: no metric 'f1_marco' for a binary output",
        "sweep.yaml:4:10: search.seed: expected a whole number",
        "sweep.yaml:4:19: search.sampler: 'tpee' is not a sampler",
        "sweep.yaml:4:42: search.start[0]: expected a mapping",
        "sweep.yaml:5:10: budget.trials: expected a whole number",
        "sweep.yaml:5:23: budget.retries: must be at least 0, got -2",
        "sweep.yaml:5:46: the tag !int is not supported",
        "sweep.yaml:6:11: results: unknown key 'dri'; did you mean 'dir'?",
        "sweep.yaml:6:29: results.loggers[0]: 'tensorbord' is not a logger",
    ]
    assert [line[: len(wanted)] for line, wanted in zip(found, expected, strict=True)] == expected


def test_places_in_lists_are_those_of_the_file():
    """Though a broken item before is left out."""
    found = problems_of(changed("seed: 3", "start: [7, {rl: 1}]"))
    assert [line.split(": ")[1] for line in found] == ["search.start[0]", "search.start[1]"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "random",
            "{tpe: {n_startup_trials: abc}}",
            "sampler: n_startup_trials of tpe expects a whole number",
        ),
        ("random", "{tpe: {multivariate: 1}}", "sampler: multivariate of tpe expects true or false, got 1"),
        ("random", "{tpe: {gamma: x}}", "sampler: gamma of tpe must be a function, which a file cannot hold"),
        ("random", "{qmc: {qmc_type: x}}", "search.sampler: "),
        (
            "random",
            "random, pruner: {median: {warmup: x}}",
            "pruner: warmup of median expects a whole number",
        ),
        ("random", "random, pruner: {percentile: {percentile: x}}", "percentile expects a number, got 'x'"),
        ("random", "random, pruner: {median: {warmup: -1}}", "warmup of median must be at least 0, got -1"),
    ],
)
def test_an_option_of_another_type_is_found_before_the_first_trial(old, new, problem):
    """Hosts look at some of their options in the first trial only."""
    [found] = problems_of(changed(f"sampler: {old}", f"sampler: {new}"))
    assert problem in found


@pytest.mark.parametrize("options", ["n_startup_trials: 3", "n_ei_candidates: 9, multivariate: true"])
def test_options_of_the_right_type_are_taken(options):
    """A whole number is a number."""
    assert problems_of(changed("sampler: random", f"sampler: {{tpe: {{{options}}}}}")) == []


def test_a_long_list_of_choices_is_checked_at_once():
    """Also whether each is there once, a bundle included."""
    options = ", ".join(map(str, range(2_000)))
    assert problems_of(changed("{float: [1e-4, 1e-1], log: true}", f"{{choice: [{options}]}}")) == []
    [found] = problems_of(changed("{float: [1e-4, 1e-1], log: true}", f"{{choice: [{options}, 7.0]}}"))
    assert "a choice has the option 7.0 and 7, which are equal" in found
    [found] = problems_of(changed("{small: {depth: 1, width: 8}", "{small: {width: 32.0, depth: 3}"))
    assert "the bundle 'large' sets the same params as another" in found


def test_short_and_long_forms_mean_the_same():
    """A bare name is a mapping of one key without options; a scalar is a value."""
    short = plan_of(changed("track: [accuracy]", "track: [f1]"))
    long = plan_of(
        SWEEP.replace("[accuracy]", "[{metric: f1}]").replace("sampler: random", "sampler: {random: {}}")
        + "version: 1\nname: sweep\nbackend: {optuna: {storage: sqlite}}\n"
    )
    assert (short.config, short.optimize, short.space) == (
        long.config.model_copy(update={"name": None}),
        long.optimize,
        long.space,
    )


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("1.5m", 90), ("2h", 7200), ("1d", 86400)])
def test_durations_have_units(text, seconds):
    """A number and its unit."""
    assert plan_of(changed("trials: 4", f"time: {text}")).config.budget.time == seconds


@pytest.mark.parametrize("seconds", ["0.000001s", "0.1s", "600s", "12345678.5s"])
def test_durations_read_back(seconds):
    """As they are written down: exactly, without an exponent."""
    plan = plan_of(changed("trials: 4", f"time: {seconds}"))
    assert resolve(plan).config["budget"]["time"] == seconds


def test_the_resolved_config_is_a_config():
    """Every default spelled out reads back as the same sweep."""
    plan = plan_of(SWEEP)
    again = plan_of(dump_yaml(resolve(plan).config))
    assert (again.space, again.optimize, again.trials) == (plan.space, plan.optimize, plan.trials)


ODD = st.sampled_from([None, True, 0, -1, 1.5, "", "x", "1e-5", [], [[]], [0], {}, {"x": None}, {"float": 3}])


def places(data: object, path: Path = ()) -> list[Path]:
    """Every path into the data."""
    inner = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [path, *(place for key, item in inner for place in places(item, (*path, key)))]


@settings(deadline=None)  # how long it takes is not its matter
@given(st.data())
def test_no_file_ends_in_a_traceback(data):
    """Whatever stands in place of any part, it is a plan or a list of problems."""
    document = parse_document(FULL, "sweep.yaml")
    path = data.draw(st.sampled_from(places(document.data)[1:]))
    inner: Any = document.data
    for part in path[:-1]:
        inner = inner[part]
    inner[path[-1]] = data.draw(ODD)
    with suppress(SweepFileError):
        make_plan(document)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"backend: ray": "backend: optuna"}, "search.pruner: pbt runs on ray only; on optuna choose"),
        ({"[lr]": "[lrr]"}, "search.pruner: mutate: there is no param 'lrr'; did you mean 'lr'?"),
        ({"[lr]": "[size]"}, "search.pruner: mutate: size is a bundle, which cannot change"),
        ({"{mutate: [lr]}": "{}"}, "search.pruner: mutate must list the params that change during training"),
        ({"backend: ray": "backend: {ray: {workers: 2}}"}, "backend.ray.workers: the trials of pbt wait"),
        ({"epochs: 3}": "epochs: 3, repeats: 2}"}, "budget.repeats: pbt changes params during training"),
        (
            {"backend: ray": "backend: ray\nresults: {checkpoints: none}"},
            "results.checkpoints: pbt passes checkpoints on",
        ),
        ({"pbt: {": "pb2: {"}, None),
        (
            {"pbt: {": "pb2: {", "backend: ray": "backend: {ray: {workers: 2}}"},
            "backend.ray.workers: the trials of pb2 wait",
        ),
    ],
)
def test_a_population_is_checked_before_it_trains(changes, said):
    """What params there are, and what keeps trials apart."""
    text = changed("seed: 3}", "seed: 3, pruner: {pbt: {mutate: [lr]}}}") + "backend: ray\n"
    for old, new in changes.items():
        text = changed(old, new, text)
    found = problems_of(text)
    assert (said is None and not found) or (len(found) == 1 and said in found[0]), found


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, None),
        ({"backend: ray": "backend: {ray: {workers: 2}}"}, None),
        ({"backend: ray": "backend: optuna"}, "search.pruner: pbt_replay runs on ray only"),
        ({"run: runs/pbt": "run: 3"}, "search.pruner: run of pbt_replay must be the directory of a sweep"),
        ({"{run: runs/pbt}": "{}"}, "search.pruner: run of pbt_replay must be the directory of a sweep"),
        (
            {"runs/pbt": "runs/pbt, trial: best"},
            "search.pruner: trial of pbt_replay must be a trial number",
        ),
        (
            {"runs/pbt": "runs/pbt, epoch: 3"},
            "search.pruner: pbt_replay has no argument 'epoch'",
        ),
        (
            {"epochs: 3}": "epochs: 3, repeats: 2}"},
            "budget.repeats: pbt_replay trains each trial with",
        ),
        (
            {"backend: ray": "backend: ray\nresults: {checkpoints: none}"},
            "results.checkpoints: pbt_replay",
        ),
        (
            {"seed: 3,": "seed: 3, start: [{lr: 0.1}],"},
            "search.start: pbt_replay starts with the first",
        ),
    ],
)
def test_a_replay_is_checked_before_it_trains(changes, said):
    """Its options, and what would begin with other params or could not change them."""
    text = changed("seed: 3}", "seed: 3, pruner: {pbt_replay: {run: runs/pbt}}}") + "backend: ray\n"
    for old, new in changes.items():
        text = changed(old, new, text)
    found = problems_of(text)
    assert (said is None and not found) or (len(found) == 1 and said in found[0]), found
