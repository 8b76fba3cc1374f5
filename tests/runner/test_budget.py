"""Budgets of a trial: its time, its retries, its seeds; and of failures; what is kept of it."""

from __future__ import annotations

import csv
import json
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import yaml
from click.testing import CliRunner
from matrix import EXHAUSTIVE
from sample_sweeps import SWEEP, changed, problems_of

from hpometrics._formatting import spread
from hpometrics.cli.main import main
from hpometrics.config.document import read_document
from hpometrics.direction import MAXIMIZE
from hpometrics.records.trial_record import TrialRecord, TrialState, write_trial
from hpometrics.results.run_directory import RunDirectory
from hpometrics.selection.selection import pick_trial, simplest_within_error
from hpometrics.space.draws import derive_seed


def records(folder, name="sweep"):
    """The trials of the sweep in this folder."""
    return RunDirectory(folder / "runs" / name).records()


def test_the_time_of_a_trial_ends_it_after_an_epoch(sweep, folder):
    """It is complete with what it has; record and line say why there is one epoch of three."""
    result = sweep(changed("epochs: 3", "epochs: 3, trial_time: 0.000001s"))
    assert result.exit_code == 0, result.output
    assert {(r.state, len(r.epochs), r.ended_by) for r in records(folder)} == {
        (TrialState.COMPLETE, 1, "trial_time")
    }
    assert result.stderr.count("  1 ep (trial_time)  ") == 4


def test_check_says_how_long_a_trial_may_take(sweep):
    """Beside the other budgets."""
    result = sweep(changed("epochs: 3", "epochs: 3, trial_time: 10m"), command="check")
    assert "at most 10m00s per trial, at most 3 epochs" in result.stdout


def test_trials_side_by_side_have_used_their_time_once(sweep, swept, folder):
    """Each of the four took 400 seconds; a resumed sweep has the other half of its time."""
    swept(SWEEP)
    home, noon = RunDirectory(folder / "runs/sweep"), datetime(2030, 1, 1, 12, tzinfo=UTC)
    for record in home.records():
        ended = noon + timedelta(seconds=25 * record.number)
        write_trial(home.trial(record.number), replace(record, ended=ended, seconds=400.0))
    result = sweep(changed("trials: 4", "trials: 5, time: 1000s"))
    assert result.exit_code == 0, result.output
    assert len(home.records()) == 5


def test_another_time_per_trial_makes_other_trials(sweep, swept):
    """As another number of epochs does: a sweep goes on with it only where that is said."""
    assert swept(SWEEP).exit_code == 0
    refused = sweep(changed("epochs: 3", "epochs: 3, trial_time: 1h"))
    assert refused.exit_code == 2
    assert "budget.trial_time: (not there) -> 3600s" in refused.stderr


def test_the_file_says_which_checkpoints_are_kept(sweep, folder):
    """Those of all three epochs; the engine that gives them knows nothing of it."""
    text = changed("toy_engine:train", "toy_engine:learn").replace("trials: 4", "trials: 1")
    sweep(f"{text}results: {{checkpoints: all}}\n")
    assert len(list((folder / "runs/sweep/trials/0000/checkpoints").iterdir())) == 3
    sweep(f"name: without\n{text}results: {{checkpoints: none}}\n")
    assert not (folder / "runs/without/trials/0000/checkpoints").exists()


STUMBLE = changed("toy_engine:train", "toy_engine:stumble")
POINTS = "backend: {list: [{lr: 0.01}, {lr: 0.02}]}\n"


def told(record: TrialRecord) -> tuple[object, ...]:
    """What a trial came to, whoever ran it."""
    runs = [(repeat.seed, repeat.value, repeat.epoch) for repeat in record.repeats]
    return record.number, record.params, record.state, record.value, record.failed_attempts, runs


@pytest.mark.parametrize("backend", ["", POINTS])
def test_a_failed_trial_is_tried_again(sweep, folder, backend):
    """Its line says so, its values are those of one that never failed; the budget has all its trials."""
    text = "".join(line for line in STUMBLE.splitlines(keepends=True) if "size" not in line) + backend
    text = text.replace("sampler: random, ", "")
    result = sweep(text.replace("epochs: 3", "epochs: 3, retries: 2"))
    assert result.exit_code == 0, result.output
    count = 2 if backend else 4
    assert f"# engine params evaluated: {count}  (ok {count})" in result.stdout
    assert result.stderr.count("  retry 1/2  3 ep") == count
    assert {record.failed_attempts for record in records(folder)} == {("OSError: the disk was away",)}
    sweep(f"name: smooth\n{text.replace('stumble', 'train')}")
    assert [r.value for r in records(folder)] == [r.value for r in records(folder, "smooth")]


def test_a_trial_has_failed_after_its_last_retry(sweep, folder):
    """One state for all its attempts, one line."""
    text = changed("toy_engine:train", "toy_engine:always_fail")
    result = sweep(text.replace("epochs: 3", "retries: 1, failures: 9"))
    assert result.exit_code == 3
    lines = [line for line in result.stderr.splitlines() if line.startswith(" #")]
    assert len(lines) == 4 and all(
        "ValueError: never works" in line and "retry 1/1" in line for line in lines
    )
    assert {record.failed_attempts for record in records(folder)} == {("ValueError: never works",)}


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=EXHAUSTIVE)])
def test_a_sweep_ends_with_its_failures(sweep, folder, workers):
    """Exit code 4 with each reason once, and no worker that joins has anything to do; raised, it goes on."""
    text = changed("toy_engine:train", "toy_engine:always_fail").replace(
        "trials: 4", "trials: 9, failures: 2"
    )
    text += f"backend: {{optuna: {{workers: {workers}}}}}\n"
    result = sweep(text)
    assert result.exit_code == 4, result.output
    count = len(records(folder))
    assert count in ([2] if workers == 1 else [2, 3])  # one that is at work comes to its end
    numbers = ", ".join(map(str, range(count)))
    assert f"{count} trials have failed, as many as budget.failures allows; raise it" in result.stderr
    assert f"\n  ValueError: never works (trial {numbers})\n" in result.stderr
    assert sweep(text).exit_code == 4
    CliRunner().invoke(main, ["worker", "runs/sweep"])
    assert len(records(folder)) == count
    assert sweep(text, "--set", "budget.failures=99").exit_code == 3
    assert [record.number for record in records(folder)] == list(range(9))


def test_failures_do_not_hide_the_best(sweep, folder):
    """What is complete is written and printed all the same."""
    points = "start: [{lr: 0.001, size: small}, {lr: 0.01, size: small}]"
    text = changed("toy_engine:train", "toy_engine:fail").replace("seed: 3", points)
    result = sweep(text.replace("epochs: 3", "epochs: 3, failures: 1"))
    assert result.exit_code == 4
    assert "# engine params evaluated: 2  (ok 1, failed 1)" in result.stdout
    assert (folder / "runs/sweep/best.yaml").exists()


BROKEN = """\
from pathlib import Path

from hpometrics import Binary, engine


@engine(output=Binary())
def train(params, run):
    if not Path("mended").exists():
        params["rate"]
    for epoch in run.epochs():
        run.update(probabilities=[0.9, 0.2 + params["lr"]], target=[1, 0])


@engine(output=Binary())
def idle(params, run):
    for epoch in run.epochs():
        run.log(loss=0.5)


@engine(output=Binary())
def silent(params, run):
    pass


@engine(output=Binary())
def sphere(params, run):
    return params["lr"] ** 2


@engine(output=Binary())
def hungry(params, run):
    raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")


@engine(output=Binary())
def two_ways(params, run):
    if params["width"] == 8:
        raise ValueError("one")
    raise ValueError("two")
"""


@pytest.fixture
def broken(sweep, folder, monkeypatch):
    """Run a sweep over an engine that fails in each trial; the second text is its section of the backend."""
    (folder / "broken.py").write_text(BROKEN)

    def call(name="train", *arguments, backend=""):
        monkeypatch.delitem(sys.modules, "broken", raising=False)
        text = changed("{target: toy_engine:train, output: binary}", f"broken:{name}")
        if "list" in backend:
            text = "".join(line for line in text.splitlines(True) if "lr" not in line and "size" not in line)
            text = text.replace("space:\n", "").replace("sampler: random, ", "")
        return sweep(text + backend, *arguments)

    return call


THREE = "backend: {list: [{lr: 0.01}, {lr: 0.02}, {lr: 0.03}]}\n"


@pytest.mark.parametrize("backend", ["", THREE, "backend: {optuna: {workers: 2, storage: journal}}\n"])
def test_an_engine_that_fails_in_each_trial_ends_its_sweep(broken, folder, backend):
    """Its error stands once, whole, with its line and the params that exist; mended, it starts over."""
    result = broken(backend=backend)
    assert result.exit_code == 4, result.output
    assert len(records(folder)) in ((2, 3) if "workers" in backend else (2,))
    assert result.stderr.count("KeyError: 'rate'; the params are lr") == 1
    assert '\n  broken.py:9: params["rate"]\n  traceback: runs/sweep/trials/0000/' in result.stderr
    assert broken("train", "-q", backend=backend).exit_code == 4
    (folder / "mended").touch()
    again = broken(backend=backend)
    assert again.exit_code == 0, again.output
    assert "failed with the same error; kept as sweep.old-2" in again.stderr
    assert (folder / "runs/sweep.old-1/trials/0000/error.txt").is_file()
    count = 3 if backend == THREE else 4
    assert [(r.number, r.state) for r in records(folder)] == [(n, TrialState.COMPLETE) for n in range(count)]


def test_an_engine_that_returns_its_value_ends_its_sweep(broken, folder):
    """Each trial returns another number, as an objective of Optuna does; the fault is the same."""
    result = broken("sphere")
    assert result.exit_code == 4, result.output
    assert [record.fault for record in records(folder)] == [
        "RunError: train reported no epoch and returned #, but no returned value is used; report roc_auc by "
        "run.log(...), or call run.update(...), which measures it"
    ] * 2
    assert "train reported no epoch and returned 1.09" in result.stderr


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        (
            "idle",
            "nothing was measured; the engine must call run.update(...) in each epoch; it reported loss",
        ),
        ("silent", "run.update(...) in each epoch, in the body of: for epoch in run.epochs(n)"),
    ],
)
def test_an_engine_that_measures_nothing_is_told_the_call_that_it_lacks(broken, name, missing):
    """Even quiet; epochs without a value are not what a pruner or another trial could make better."""
    result = broken(name, "-q")
    assert result.exit_code == 4
    assert missing in result.stderr


def test_failures_that_other_params_may_spare_do_not_end_a_sweep(broken, folder):
    """A lack of memory, two errors of two lines, and whatever the file allows by its own limit."""
    assert broken("hungry").exit_code == 3
    assert len(records(folder)) == 4
    start = "search.start=[{lr: 0.01, size: small}, {lr: 0.01, size: large}]"
    assert broken("two_ways", "--fresh", "--set", start).exit_code == 3
    assert len(records(folder)) == 4
    goes_on = broken("train", "--fresh", "--set", "budget.failures=9")
    assert goes_on.exit_code == 3 and len(records(folder)) == 4
    assert "failed        KeyError: 'rate'; the params are lr" in goes_on.stderr


def test_a_broken_engine_may_be_mended_in_its_space(broken, sweep, folder):
    """The trials that trained nothing are of no space; failures that the file allows stay."""
    assert broken().exit_code == 4
    text = changed("{target: toy_engine:train, output: binary}", "broken:train")
    mended = sweep(text.replace("  lr: {float: [1e-4, 1e-1], log: true}", "  lr: 0.1\n  rate: {int: [1, 5]}"))
    assert mended.exit_code == 0, mended.output
    assert len(records(folder)) == 4


REPEATED = changed("epochs: 3", "epochs: 3, repeats: 3")


def test_a_trial_with_repeats_is_a_mean_everywhere(swept, folder):
    """Record, line, table, block, `best.yaml` and list say the same value, deviation and number."""
    result = swept(REPEATED)
    assert result.exit_code == 0, result.output
    home = folder / "runs/sweep"
    best = read_document(home / "best.yaml").data
    record = records(folder)[best["trial"]]
    assert [repeat["seed"] for repeat in best["repeats"]] == [
        derive_seed(3, best["trial"], n) for n in range(3)
    ]
    assert (best["value"], best["deviation"]) == (record.value, record.deviation)
    assert best["values"]["accuracy"] == pytest.approx(
        sum(repeat.values["accuracy"] for repeat in record.repeats) / 3
    )
    shown = spread(record.value, record.deviation, 3)
    listed = CliRunner().invoke(main, ["trials", "runs/sweep"]).stdout
    for text in (result.stderr, result.stdout, listed):
        assert shown in text
    assert f"epoch {best['epoch']} from the first of 3 repeats):" in result.stdout
    assert "+- " in CliRunner().invoke(main, ["status", "runs/sweep"]).stdout
    rows = list(csv.DictReader((home / "trials.csv").read_text().splitlines()))
    assert (float(rows[record.number]["deviation"]), rows[record.number]["repeats"]) == (
        record.deviation,
        "3",
    )


def test_another_metric_is_answered_by_the_first_repeat(swept, folder):
    """It says so; the intervals of the value itself give way to its deviation."""
    result = swept(REPEATED)
    assert "its value is a mean over 3 seeds; their deviation shows the uncertainty" in result.stdout
    told = CliRunner().invoke(main, ["best", "runs/sweep", "--metric", "accuracy", "-f", "json"])
    answer = json.loads(told.stdout)
    record = records(folder)[answer["trial"]]
    values = [epoch.values["accuracy"] for epoch in record.epochs]
    assert (answer["value"], answer["repeats"]) == (max(values), [])
    text = CliRunner().invoke(main, ["best", "runs/sweep", "--metric", "accuracy"]).stdout
    assert "for each trial the command uses the first of its 3 repeats" in text


@EXHAUSTIVE
def test_repeats_are_the_same_in_one_process_and_in_two(sweep, folder):
    """Seeds, values and means of every trial."""
    sweep(REPEATED)
    result = sweep(f"name: shared\n{REPEATED}backend: {{optuna: {{workers: 2}}}}\n")
    assert result.exit_code == 0, result.output
    assert [told(r) for r in records(folder, "shared")] == [told(r) for r in records(folder)]


def test_a_trial_with_repeats_is_replayed_with_all_of_them(sweep, folder):
    """The mean comes out to the last digit, and each seed has its line; one more seed is one more run."""
    sweep(REPEATED.replace("epochs: 3", "epochs: 3, trial_time: 0.000001s"))
    record = records(folder)[2]
    assert [repeat.epochs for repeat in record.repeats] == [1, 1, 1]
    result = CliRunner().invoke(main, ["replay", "runs/sweep", "--trial", "2", "--seeds", "4"])
    assert result.exit_code == 0, result.output
    assert "roc_auc matches the record, to the last digit" in result.output
    for repeat in record.repeats:
        assert f"  seed {repeat.seed}: {repeat.value}\n" in result.output
    assert f"  seed {derive_seed(3, 2, 3)}: " in result.output
    assert "roc_auc over 4 seeds: mean " in result.output


def test_the_rule_of_one_standard_error_picks(sweep, folder):
    """Run, file and command pick the same trial, and say by which rule."""
    text = changed("[accuracy]", "[accuracy], pick: one_se").replace("epochs: 3", "epochs: 3, repeats: 3")
    result = sweep(text)
    assert result.exit_code == 0, result.output
    best = read_document(folder / "runs/sweep/best.yaml").data
    found = records(folder)
    top = pick_trial(found, MAXIMIZE)
    picked = simplest_within_error(top, found, MAXIMIZE)
    assert best["trial"] == picked.number
    where = f"trial {picked.number}, epoch {picked.epoch} from the first of 3 repeats, by one_se"
    assert f"Optimal Engine Params: ({where}):" in result.stdout
    again = CliRunner().invoke(main, ["best", "runs/sweep"]).stdout
    assert again.strip() in result.stdout


def test_check_says_what_is_repeated(sweep):
    """Seeds, retries, failures, and the rule."""
    text = changed("epochs: 3", "epochs: 3, repeats: 3, retries: 1, failures: 5")
    told = sweep(text.replace("[accuracy]", "[accuracy], pick: one_se"), command="check").stdout
    assert "3 seeds per trial, 1 retry per trial, until 5 trials failed" in told
    assert (
        "pick       of the trials within one standard error of the best, the one with the fewest epochs"
        in told
    )


def test_one_standard_error_wants_repeats():
    """One run has no error."""
    [found] = problems_of(changed("[accuracy]", "[accuracy], pick: one_se"))
    assert "metrics.pick: one_se needs the standard error over seeds; set budget.repeats" in found


def test_an_engine_of_stages_has_no_repeats(sweep, folder):
    """It draws from one seed, so they would all be the same; nothing was run."""
    text = "engine: toy_stages:GuessEvaluation\nspace: {algorithms.once.guess: {choice: [1.0, 2.5]}}\n"
    result = sweep(f"{text}budget: {{trials: 2, repeats: 2}}\n")
    assert result.exit_code == 2
    assert "budget.repeats: stages use only engine.seed, so all repeats" in result.stderr
    assert not (folder / "runs").exists()


STEPS = changed("toy_engine:train", "toy_engine:learn").replace("epochs: 3", "steps: 5, every: 2")


def test_a_trial_may_count_steps(sweep, folder):
    """Lines, tables, files and readers have the steps of the reports; what counts reports stays as it is."""
    assert "at most 5 steps, a report every 2" in sweep(STEPS, command="check").stdout
    result = sweep(f"{STEPS}results: {{report: md, loggers: [csv, table]}}\n")
    assert result.exit_code == 0, result.output
    assert result.stderr.count("  5 steps  ") == 4
    home = folder / "runs/sweep"
    best = yaml.safe_load((home / "best.yaml").read_text())
    assert best["step"] == min(2 * (best["epoch"] + 1), 5)
    assert f"(trial {best['trial']}, step {best['step']})" in result.stdout
    assert [[epoch.step for epoch in record.epochs] for record in records(folder)] == [[2, 4, 5]] * 4
    rows = list(csv.DictReader((home / "trials.csv").read_text().splitlines()))
    assert {(row["step"], row["epochs"]) for row in rows} <= {("2", "3"), ("4", "3"), ("5", "3")}
    logged = list(csv.DictReader((home / "trials/0000/epochs.csv").read_text().splitlines()))
    assert [(row["epoch"], row["step"]) for row in logged] == [("0", "2"), ("1", "4"), ("2", "5")]
    assert (home / "trials/0000/report.txt").read_text().startswith("step:2 time:")
    assert json.loads((home / "trials/0000/.trainstats").read_text())["train_steps"] == 5
    assert f"trial {best['trial']}, step {best['step']}" in (home / "report.md").read_text()

    def call(*arguments):
        return CliRunner().invoke(main, [*arguments])

    assert f"step {best['step']}" in call("status", "runs/sweep").stdout
    assert "\nstep:4 time:" in call("epochs", "runs/sweep", "0", "--epoch", "4").stdout
    assert "has no step 3; there are 2 to 5" in call("epochs", "runs/sweep", "0", "--epoch", "3").stderr
    assert f"(trial {best['trial']}, step" in call("best", "runs/sweep", "--metric", "mcc").stdout


def test_other_steps_make_other_trials(sweep):
    """As another number of epochs does."""
    assert sweep(STEPS.replace("trials: 4", "trials: 1")).exit_code == 0
    refused = sweep(STEPS.replace("every: 2", "every: 1"))
    assert refused.exit_code == 2 and "budget.every: 2 -> 1" in refused.stderr


def test_extend_refuses_reports_at_other_steps(sweep, folder):
    """They would stand in one table with those of the earlier trials; nothing is changed."""
    assert sweep(STEPS.replace("trials: 4", "trials: 1")).exit_code == 0
    written = (folder / "runs/sweep/sweep.resolved.yaml").read_text()
    refused = sweep(STEPS.replace("every: 2", "every: 1"), "--extend")
    assert refused.exit_code == 2
    assert "budget.every: 2 -> 1; all trials of a directory must report at the same steps; " in refused.stderr
    assert "give the sweep another name or results.dir" in refused.stderr
    assert "--extend resumes it" not in refused.stderr
    assert (folder / "runs/sweep/sweep.resolved.yaml").read_text() == written


def test_extend_refuses_steps_whose_last_report_would_not_come_again(sweep):
    """A training from the start to 8 steps by 2 has no report at step 5, so none could be compared."""
    assert sweep(STEPS.replace("trials: 4", "trials: 1")).exit_code == 0
    refused = sweep(STEPS.replace("steps: 5", "steps: 8"), "--extend")
    assert refused.exit_code == 2
    assert (
        "budget.steps: 5 -> 8; 2 does not divide 5, the interval at which the trials reported before: "
        in refused.stderr
    )
    assert "give the sweep another name or results.dir" in refused.stderr
    assert sweep(STEPS.replace("steps: 5", "steps: 4"), "--extend").exit_code == 0  # the trial stays


@pytest.mark.parametrize(
    ("budget", "problem"),
    [
        ("steps: 5", "budget.steps: 5 also needs the number of steps between reports; set every"),
        ("every: 5", "budget.every: every: 5 needs the total number of steps; set steps"),
        ("steps: 5, every: 6", "budget.every: must be at most steps, 5, got 6"),
        ("steps: 5, every: 0", "budget.every: must be at least 1, got 0"),
        ("steps: 5, every: 30s", "budget.every: expected a whole number, got '30s'"),
        ("epochs: 2, steps: 5, every: 2", "budget.epochs: a trial counts epochs or steps; leave out"),
    ],
)
def test_a_budget_counts_epochs_or_steps(budget, problem):
    """One problem each, at the key that is to change."""
    [found] = problems_of(changed("epochs: 3", budget))
    assert problem in found


def test_hyperband_divides_the_reports_of_a_trial():
    """It needs their number, and steps give it."""
    text = STEPS.replace("seed: 3", "seed: 3, pruner: hyperband")
    assert problems_of(text) == []
    [problem] = problems_of(text.replace(", steps: 5, every: 2", ""))
    assert "set budget.epochs, or budget.steps with every" in problem


def test_a_program_has_no_steps():
    """It makes a report when it likes."""
    text = STEPS.replace(
        "target: toy_engine:learn, output: binary", "command: [python3, program.py, '{args}']"
    )
    text = text.replace("optimize: roc_auc, track: [accuracy]", "optimize: roc_auc")
    [problem] = problems_of(text)
    assert "budget.steps: a program decides when to report; set epochs" in problem


@pytest.mark.parametrize(
    ("engine", "length", "reason"),
    [
        ("train", "steps: 5, every: 2", "the budget counts steps (steps 5, every 2), but the engine calls"),
        ("stride", "epochs: 5", "the budget counts epochs (epochs 5), but the engine calls run.steps()"),
    ],
)
def test_an_engine_with_the_other_loop_fails_by_name(sweep, engine, length, reason):
    """Each trial would fail alike, so two end the sweep."""
    result = sweep(changed("toy_engine:train", f"toy_engine:{engine}").replace("epochs: 3", length))
    assert result.exit_code != 0 and reason in result.output
