"""Several outputs and tasks, combinations and the default group, said in a sweep file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sample_sweeps import changed, plan_of, problems_of

from hpometrics.config.document import SweepFileError, parse_document, read_document
from hpometrics.config.metric_section import Measure
from hpometrics.config.overrides import override
from hpometrics.config.plan import Plan, make_plan
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.metrics.features import Category, Number, Sequence
from hpometrics.metrics.registry.diagnostics import DIAGNOSTICS
from hpometrics.results.manifest import Resolved, changes, read_resolved, resolve
from hpometrics.results.run_directory import RunDirectory

BOTH = """\
engine: {target: toy_engine:talk, output: {intent: category, reply: sequence(vocab_size=9)}}
space: {lr: {float: [0.1, 0.9]}}
metrics: {optimize: accuracy, track: [perplexity]}
search: {sampler: random, seed: 3}
budget: {trials: 3, epochs: 2}
"""
UNSAID = changed(", output: {intent: category, reply: sequence(vocab_size=9)}", "", BOTH)
WORTH = "{combine: {intent.accuracy: 2, reply.perplexity: 0.5}, name: worth}"
OF_ONE_TASK = """{combine: {intent.accuracy: 2, hello_avg: {weight: 0.5, direction: minimize}}, name: worth,
  task: b}"""
TOLD = {"intent": Category(3), "reply": Sequence(9, ignore_index=0)}


def of(metric: str, text: str = BOTH) -> Measure:
    """What a sweep optimizes if the file names this."""
    return plan_of(changed("optimize: accuracy", f"optimize: {metric}", text)).optimize


def told(text: str, output: object) -> Plan:
    """The plan of a sweep whose engine has been asked what it predicts."""
    return make_plan(parse_document(text, "sweep.yaml"), output, settle=True)


def test_a_file_says_several_outputs():
    """By name, each with its facts; a metric that one output has need not say which."""
    plan = plan_of(BOTH)
    assert plan.output == {"intent": Category(), "reply": Sequence(9)}
    assert (plan.optimize.name, plan.track[0].name) == ("intent.accuracy", "reply.perplexity")
    assert resolve(plan).output == {"intent": "category", "reply": "sequence(vocab_size=9)"}
    assert plan_of(UNSAID).output is None


def test_file_and_engine_settle_each_output_together():
    """Facts of the file count, the others are the engine's; the file may leave all outputs to it."""
    assert told(BOTH, TOLD).output == {"intent": Category(3), "reply": Sequence(9, ignore_index=0)}
    assert told(UNSAID, TOLD).optimize.name == "intent.accuracy"
    assert str(told(BOTH, {**TOLD, "reply": Sequence()}).output["reply"]) == "sequence(vocab_size=9)"


@pytest.mark.parametrize(
    ("engine", "problem"),
    [
        ({"intent": Category()}, "but the engine states intent: category\n"),
        (Category(), "the file states intent: category, reply: sequence.*, but the engine states category"),
        ({**TOLD, "reply": Number()}, "but the engine states intent: .*, reply: number"),
    ],
)
def test_file_and_engine_have_the_same_outputs(engine, problem):
    """Names and types; a name would mean another metric otherwise."""
    with pytest.raises(SweepFileError, match=rf"engine\.output: .*{problem}"):
        told(BOTH, engine)


@pytest.mark.parametrize(
    ("output", "problem"),
    [
        ("{intent: binry}", "engine.output.intent: 'binry' is not an output feature; did you mean 'binary'?"),
        ("{combined: number}", "engine.output: the name of an output must be"),
        ("{intent: 3}", "engine.output: intent: expected an output such as category, got 3"),
        ("{}", "engine.output: write what the engine predicts, as in category, or name each output"),
        ("[category]", "engine.output: write what the engine predicts"),
    ],
)
def test_an_output_that_is_none_is_one_problem(output, problem):
    """At its place."""
    text = UNSAID.replace("toy_engine:talk", f"toy_engine:talk, output: {output}")
    [found] = [line for line in problems_of(text) if "engine.output" in line]
    assert problem in found


def test_one_output_is_overridden_by_its_name():
    """`--set engine.output.intent=...` leaves the others as they are."""
    document = parse_document(BOTH, "sweep.yaml")
    override(document, ["engine.output.intent=category(num_classes=4)"])
    assert make_plan(document).output == {"intent": Category(4), "reply": Sequence(9)}


@pytest.mark.parametrize(
    ("metric", "name", "direction"),
    [
        ("convai2/intent.f1(average=macro)", "convai2/intent.f1(average=macro)", MAXIMIZE),
        ("{metric: f1, average: macro, feature: intent, task: convai2}", "convai2/intent.f1(average=macro)",
         MAXIMIZE),
        ("all/intent.accuracy", "all/intent.accuracy", MAXIMIZE),
        ("perplexity(tasks=micro)", "reply.perplexity(tasks=micro)", MINIMIZE),
        ("validation:intent.loss", "intent.loss", MINIMIZE),
        ("combined.loss", "combined.loss", MINIMIZE),
        ("a/combined.loss", "a/combined.loss", MINIMIZE),
        ("all/combined.loss", "all/combined.loss", MINIMIZE),
        ("{metric: combined.loss, task: a}", "a/combined.loss", MINIMIZE),
        (WORTH, "combined.worth", MAXIMIZE),
        (OF_ONE_TASK, "b/combined.worth", MAXIMIZE),
        ("{combine: {gpu_mem: {weight: 1, direction: min}, step_time: 2}}", "combined.score", MINIMIZE),
        ("{combine: {intent.loss: 1, perplexity: 2}}", "combined.score", MINIMIZE),
        ("{metric: convai2/hello_avg, direction: maximize}", "convai2/hello_avg", MAXIMIZE),
    ],
)  # fmt: skip
def test_any_place_can_steer(metric, name, direction):
    """Tasks, outputs, combinations, values of the engine's own: settled without an import of the engine."""
    measure = of(metric)
    assert (measure.name, measure.direction) == (name, direction)
    assert measure.reported is ("hello_avg" in name)


@pytest.mark.parametrize(
    ("metric", "name", "direction"),
    [
        ("convai2/intent.accuracy", "convai2/intent.accuracy", MAXIMIZE),
        ("combined.loss", "combined.loss", MINIMIZE),
        ("a/combined.loss", "a/combined.loss", MINIMIZE),
        ("{combine: {intent.accuracy: 1, reply.perplexity: 1}}", "combined.score", MAXIMIZE),
    ],
)
def test_a_name_waits_for_its_output(metric, name, direction):
    """Where neither is known yet, a direction that all features share is enough; `run` settles the rest."""
    measure = of(metric, UNSAID)
    assert (measure.name, measure.direction) == (name, direction)
    settled = told(changed("optimize: accuracy", f"optimize: {metric}", UNSAID), TOLD).optimize
    assert (settled.name, settled.direction) == (name, direction)


def test_a_formula_says_what_is_combined():
    """Every term with its weight and sign; where the direction comes from."""
    worth = of(WORTH)
    assert (worth.formula, worth.origin) == ("2 intent.accuracy - 0.5 reply.perplexity", "mixed")
    loss = of("combined.loss")
    assert (loss.formula, loss.origin) == ("intent.loss + reply.log_loss", "registry")
    assert of("{combine: {intent.accuracy: 1, reply.perplexity: 1}, direction: minimize}").origin == "stated"
    assert of("b/combined.loss").formula == "b/intent.loss + b/reply.log_loss"
    assert of(OF_ONE_TASK).formula == "2 b/intent.accuracy - 0.5 b/hello_avg"
    assert of("combined.loss", UNSAID).formula is None


def test_what_is_tracked_may_be_of_any_place():
    """Splits, tasks, groups of one output or of all, combinations."""
    track = f"[train:reply.perplexity, test:convai2/intent.f1_macro, reply.default, a/default, {WORTH}]"
    names = [measure.name for measure in plan_of(changed("[perplexity]", track, BOTH)).track]
    assert names[:3] == [
        "train:reply.perplexity",
        "test:convai2/intent.f1(average=macro)",
        "reply.token_accuracy",
    ]
    assert {"a/intent.accuracy", "a/reply.perplexity", "combined.worth"} <= set(names)


@pytest.mark.parametrize(
    ("metric", "problem"),
    [
        ("loss", "loss is a metric of several outputs; choose one: intent.loss, reply.loss"),
        ("price.mae", "price.mae: there is no output 'price'; the outputs are intent, reply"),
        ("bleu_4", "no output has a metric 'bleu_4'; the metrics are intent (category), reply (sequence)"),
        ("a/accuracy(tasks=micro)", "tasks=micro covers all tasks; leave out either it or the task a"),
        ("test:combined.loss", "a combination uses validation values; write combined.loss"),
        (
            "{metric: combined.loss, direction: maximize}",
            "combined.loss must be minimized, but direction maximizes it",
        ),
        ("{combine: {}}", "combine needs a weight for each metric"),
        ("{combine: {accuracy: -1}}", "the weight of accuracy must be a number above 0, got -1"),
        (
            "{combine: {accuracy: 1}, weight: 2}",
            "combine allows only the keys name, direction and task beside it, got weight",
        ),
        ("{combine: {acuracy: 1}}", "no output has a metric 'acuracy'"),
        ("{combine: {cost: 1}}", "the engine reports it, state its direction: {cost: {weight: 1, direction:"),
        (
            "{combine: {gpu_mem: 0.5}}",
            "gpu_mem has no direction, so its sign is unknown; state one: {gpu",
        ),
        ("{combine: {accuracy: {weight: 1, direction: min}}}", "but direction minimizes it"),
        ("{combine: {accuracy: {wait: 1}}}", "accuracy must have a weight and a direction, got wait"),
        (
            "{combine: {accuracy: 1, intent.accuracy: 1}}",
            "are the same value, intent.accuracy; give it one weight",
        ),
        (
            "{combine: {a/accuracy: 1}, task: b}",
            "b, but a/intent.accuracy names a row itself; leave one",
        ),
        ("{combine: {accuracy: 1}, task: a b}", "the name of a task must be text without"),
        ("{metric: a/f1, task: b}", "a/f1: its task is 'a', but task= is 'b'"),
        ("{metric: f1, task: ''}", "no part of a name can be ''"),
        ("f1(average=none)", "has one value per class, but a search optimizes one number"),
    ],
)
def test_what_cannot_steer_says_why(metric, problem):
    """In one line, in the words of Python's `RunSpec`."""
    [found] = problems_of(changed("optimize: accuracy", f"optimize: {metric}", BOTH))
    assert "metrics.optimize" in found
    assert problem in found


def test_an_output_without_a_name_has_none():
    """Where the file gives one output, or nobody gives any."""
    text = UNSAID.replace("toy_engine:talk", "toy_engine:talk, output: category").replace(
        "perplexity", "log_loss"
    )
    [found] = problems_of(text.replace("optimize: accuracy", "optimize: intent.accuracy"))
    assert "intent.accuracy: the only output has no name; write accuracy" in found
    with pytest.raises(SweepFileError, match="the only output has no name"):
        told(changed("optimize: accuracy", "optimize: intent.mcc", UNSAID), None)


def test_python_and_the_file_name_a_metric_alike():
    """The same mapping in `RunSpec` and in the sweep, tracked combinations included."""
    from hpometrics.run import RunSpec

    parts = {"metric": "f1", "average": "macro", "feature": "intent", "task": "convai2"}
    combined = {"combine": {"intent.accuracy": 2, "reply.perplexity": 0.5}, "name": "worth"}
    spec = RunSpec(parts, output=TOLD, track=[combined, {"metric": "perplexity", "tasks": "micro"}])
    assert spec.name == of(json.dumps(parts)).name
    assert [one.name for one in spec.combined] == [of(json.dumps(combined)).name]


def test_check_prints_outputs_and_formulas(sweep):
    """Without an import of the engine."""
    text = changed("accuracy, track: [perplexity]", f"{WORTH}, defaults: false", BOTH)
    result = sweep(text, command="check")
    assert result.exit_code == 0, result.output
    assert "output intent: category, reply: sequence(vocab_size=9)" in result.stdout
    assert (
        "combined.worth   maximize <- terms with both directions   reads predictions, probabilities"
        in result.stdout
    )
    assert "formula    combined.worth = 2 intent.accuracy - 0.5 reply.perplexity\n" in result.stdout
    assert "defaults   off\n" in result.stdout
    facts = json.loads(sweep(text, "--json", command="check").stdout)["plan"]
    assert facts["output"] == {"intent": "category", "reply": "sequence(vocab_size=9)"}
    assert facts["optimize"]["formula"] == "2 intent.accuracy - 0.5 reply.perplexity"


RUN = changed(
    "accuracy, track: [perplexity]", f"{WORTH}, track: [a/intent.accuracy, perplexity, 'test:accuracy']", BOTH
)


def last_values(folder: Path, trial: int = 0) -> dict[str, object]:
    """Everything that the record of a trial's last epoch holds."""
    return dict(RunDirectory(folder / "runs" / "sweep").records()[trial].epochs[-1].values)


def test_two_outputs_and_two_tasks_run(sweep, folder):
    """The value is that of the formula; table and files have what the file names, the record has all."""
    result = sweep(RUN)
    assert result.exit_code == 0, result.output
    values = last_values(folder)
    assert values["combined.worth"] == 2 * values["intent.accuracy"] - 0.5 * values["reply.perplexity"]
    assert values["intent.accuracy"] == (values["a/intent.accuracy"] + values["b/intent.accuracy"]) / 2
    assert {"a/combined.worth", "b/reply.perplexity", "intent.f1(average=macro)"} <= set(values)
    head = (folder / "runs" / "sweep" / "trials.csv").read_text().splitlines()[0]
    assert [name for name in head.split(",") if name.startswith("values.")] == [
        "values.combined.worth", "values.a/intent.accuracy", "values.reply.perplexity",
        "values.test:intent.accuracy",
    ]  # fmt: skip
    assert "(maximize)  = 2 intent.accuracy - 0.5 reply.perplexity\n" in result.stdout
    best = read_document(folder / "runs" / "sweep" / "best.yaml").data
    assert best["output"] == {"intent": "category(num_classes=3)", "reply": "sequence(vocab_size=9)"}


def test_a_sweep_of_several_outputs_goes_on(sweep, folder):
    """Run again nothing happens, with a larger budget it goes on; another formula is another sweep."""
    sweep(RUN, "--set", "budget.trials=2")
    first = last_values(folder)
    result = sweep(RUN)
    assert "resuming: 2 of 3 done" in result.stderr
    assert last_values(folder) == first
    refused = sweep(RUN, "--set", "metrics.optimize.combine.intent.accuracy=3")
    assert refused.exit_code == 2
    assert "formula: 2 intent.accuracy - 0.5 reply.perplexity -> 3 intent.accuracy" in refused.stderr


def test_a_task_or_a_value_of_the_engine_steers(sweep, folder):
    """A list of params, `a/...` of the registry and a value that the engine logs, with a task in front."""
    text = changed("search: {sampler: random, seed: 3}", "backend: {list: [{lr: 0.2}, {lr: 0.7}]}", BOTH)
    metrics = ("b/intent.accuracy", "{metric: b/hello_avg, direction: minimize}", "b/combined.log_loss")
    for metric in (OF_ONE_TASK, *metrics):
        result = sweep(changed("optimize: accuracy", f"optimize: {metric}", text), "--fresh", "-q")
        assert result.exit_code == 0, result.output
    values = [last_values(folder, trial) for trial in (0, 1)]
    assert [one["b/hello_avg"] for one in values] == [0.2, 0.7]
    assert all(
        one["b/combined.log_loss"] == one["b/intent.log_loss"] + one["b/reply.log_loss"] for one in values
    )
    assert all(one["combined.log_loss"] == one["intent.log_loss"] + one["reply.log_loss"] for one in values)


def test_the_default_group_is_turned_off(sweep, folder):
    """By the file; by the engine too, unless the file turns it on."""
    few = changed("perplexity]", "perplexity], defaults: false", BOTH).replace("trials: 3", "trials: 1")
    assert sweep(few).exit_code == 0
    kinds = {name.rpartition("/")[2].removeprefix("test:") for name in last_values(folder)}
    assert kinds - set(DIAGNOSTICS) == {"intent.accuracy", "reply.perplexity", "hello_avg"}
    assert "exs" not in kinds
    alone = few.replace(", track: [perplexity]", "")  # nothing is asked of the updates of `reply`
    assert sweep(alone, "--fresh").exit_code == 0
    assert not any("reply" in name for name in last_values(folder))
    quiet = few.replace("talk", "talk_quietly")
    for said, some in ((", defaults: false", False), ("", False), (", defaults: true", True)):
        sweep(quiet.replace(", defaults: false", said), "--fresh", "-q")
        assert ("intent.f1(average=macro)" in last_values(folder)) is some


def test_an_output_of_the_mapping_that_cannot_be_had_is_named(sweep):
    """A function gives it, and its data are missing."""
    result = sweep(UNSAID.replace("toy_engine:talk", "toy_engine:lost"))
    assert result.exit_code == 2
    assert "the output 'items' of toy_engine:lost cannot be read: FileNotFoundError" in result.stderr


def test_a_record_of_an_earlier_version_reads_back(tmp_path):
    """One output as text, no formulas."""
    resolved = resolve(plan_of(changed("optimize: accuracy", f"optimize: {WORTH}", BOTH)))
    path = tmp_path / "sweep.resolved.yaml"
    path.write_text(resolved.to_yaml())
    assert read_resolved(path) == resolved
    assert resolved.formula == "2 intent.accuracy - 0.5 reply.perplexity"
    path.write_text(path.read_text().partition("formulas:")[0])
    older: Resolved = read_resolved(path)
    assert older.formula is None
    assert [change.key for change in changes(older, resolved)] == ["formula"]
