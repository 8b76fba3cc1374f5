"""A sweep that confirms its winner: from the file to the last block, with workers, kills and refusals."""

from __future__ import annotations

import csv
import json
import os
import shutil
import signal
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from textwrap import indent
from types import SimpleNamespace

import pytest
import torch
import yaml
from click.testing import CliRunner
from forked import hpometrics
from optuna.storages import InMemoryStorage
from sample_sweeps import SEVERAL, SWEEP, WORKERS, changed, plan_of, problems_of

from hpometrics import Binary, RunError, SweepResult, get_metric, load_best
from hpometrics._formatting import spread
from hpometrics.backends.optuna.fresh_study import FreshStudy
from hpometrics.backends.optuna.trial_queue import claim
from hpometrics.cli.main import main
from hpometrics.records.epoch_log import read_trial
from hpometrics.records.trial_record import TrialRecord, TrialState, mean, write_trial
from hpometrics.results.run_directory import RunDirectory
from hpometrics.runner.confirm import _SharedQueue
from hpometrics.runner.context import make_context
from hpometrics.selection.limits import seconds_at_work

CONFIRMED = f"{SWEEP}confirm: {{top: 3, repeats: 4, equivalence: 0}}\n"
LEARNED = changed("toy_engine:train", "toy_engine:learn", CONFIRMED)
HOME = Path("runs/sweep")


def command(*arguments):
    """Call the command in this process."""
    return CliRunner().invoke(main, list(map(str, arguments)))


def decision(home: Path = HOME) -> dict:
    """What the confirmation came to, without the seconds that it took."""
    end = json.loads((home / "confirm.json").read_text())["end"]
    for standing in end["standings"]:
        standing["seconds"] = 0.0
    return end


def fresh_runs(home: Path = HOME) -> list[str]:
    """The trainings after the search, by trial and number of the seed."""
    return sorted(f"{path.parent.parent.name}/{path.name}" for path in home.glob("trials/*/confirm/*"))


def test_the_last_block_names_the_winner_and_what_decided_it(sweep, folder):
    """The params are those of the winner; best.yaml, status and best say the same."""
    result = sweep(CONFIRMED)
    assert result.exit_code == 0, result.output
    end = decision()
    head = f"Winner: trial {end['winner']}, "
    block = result.stdout[result.stdout.index("Optimal Engine Params:") :]
    assert block.startswith(f"Optimal Engine Params: (trial {end['winner']}, epoch ")
    lines = block.splitlines()
    place = next(number for number, line in enumerate(lines) if line.startswith(head))
    assert "Verdict" not in block and lines[place + 1].startswith("  0.")
    assert lines[place:] == [*command("best", HOME).stdout.splitlines()[-len(lines) + place + 1 :], lines[-1]]
    best = yaml.safe_load((HOME / "best.yaml").read_text())
    assert (best["trial"], best["confirmed"]["state"]) == (end["winner"], end["state"])
    assert best["confirmed"]["mean"] == end["standings"][0]["mean"]
    assert json.loads(command("status", HOME, "--json").stdout)["best"]["confirmed"] == best["confirmed"]
    status = [line.removeprefix("winner").strip() for line in command("status", HOME).stdout.splitlines()]
    assert lines[place + 1].strip() in status
    assert any(line.startswith(f"trial {end['winner']}, ") and line in lines[place] for line in status)
    assert len(fresh_runs()) == end["trainings"]
    rows = list(csv.DictReader((HOME / "trials.csv").read_text().splitlines()))
    assert rows == list(csv.DictReader(command("trials", HOME, "-f", "csv").stdout.splitlines()))
    standings = {one["trial"]: one for one in end["standings"]}
    for row in rows:
        one = standings.get(int(row["trial"]), {"mean": "", "seeds": "", "left_at": ""})
        told = (row["confirmed_mean"], row["confirmed_seeds"], row["left_at"])
        assert told == tuple(
            "" if one[name] is None else str(one[name]) for name in ("mean", "seeds", "left_at")
        )


def test_the_report_names_the_same_winner(sweep, folder):
    """With the lines of the last block, and no verdict on the search."""
    result = sweep(f"{CONFIRMED}results: {{report: md}}\n")
    text = (HOME / "report.md").read_text()
    block = result.stdout[result.stdout.index("# engine params") : result.stdout.index("\nsaved ")]
    assert indent(block, "    ") in text and "Winner: trial" in block and "Verdict" not in text
    assert not (HOME / "verdict.json").exists()


def test_each_training_is_a_line(sweep, folder):
    """With its trial, its seed and its value; run again, nothing is trained."""
    result = sweep(CONFIRMED)
    lines = [line.split() for line in result.stderr.splitlines() if " seed " in line]
    assert "confirm  up to 12 trainings, 9 before the next comparison" in result.stderr
    assert sorted((line[0], line[2]) for line in lines) == sorted(
        (f"#{int(run.partition('/')[0])}", run.rpartition("/")[2]) for run in fresh_runs()
    )
    again = sweep(CONFIRMED)
    assert " seed " not in again.stderr and again.stdout == result.stdout


def test_the_median_training_of_the_winner_is_loaded(sweep, folder):
    """The checkpoint of best.yaml is not the luckiest; the model that holds it has the value of its run."""
    assert sweep(LEARNED).exit_code == 0
    best = yaml.safe_load((HOME / "best.yaml").read_text())
    kept = {one["checkpoint"]: one["value"] for one in best["confirmed"]["checkpoints"]}
    values = sorted(kept.values(), reverse=True)
    assert len(kept) == best["confirmed"]["seeds"]
    assert kept[best["checkpoint"]] == values[len(values) // 2]
    model = torch.nn.Linear(4, 1)
    loaded = load_best(HOME, model=model)
    assert loaded.checkpoint == HOME / best["checkpoint"] and loaded.params == best["params"]
    place = f"epoch {best['epoch']} from the median of {len(kept)} fresh trainings"
    origin = f"trial {best['trial']}, {place}, seed {best['seed']}; its model is {best['checkpoint']}"
    assert SweepResult.read(HOME).origin == origin
    rows = torch.linspace(-1, 1, 256).reshape(64, 4)
    roc_auc = get_metric("roc_auc", output=Binary())
    roc_auc.update(logits=model(rows)[:, 0].detach(), target=(rows.sum(1) > 0).long())
    assert float(roc_auc.compute()) == kept[best["checkpoint"]]
    with pytest.raises(RunError, match=r"scheduler=\.\.\.: the checkpoint contains model, optimizer"):
        SweepResult.read(HOME).load_best(scheduler=model)


def test_the_best_is_of_the_fresh_trainings_wherever_it_is_read(sweep, folder):
    """Means of all, with the epoch and seed of the median; the search's own value is `search_value`."""
    result = sweep(LEARNED)
    best = yaml.safe_load((HOME / "best.yaml").read_text())
    runs = [read_trial(HOME / f"trials/{run[:4]}/confirm/{run[5:]}") for run in fresh_runs()]
    runs = [run for run in runs if run.params == best["params"]]
    median = next(run for run in runs if run.checkpoint == HOME / best["checkpoint"])
    assert best["repeats"] == [{"seed": run.seed, "value": run.value, "epoch": run.epoch} for run in runs]
    assert best["value"] == mean(run.value for run in runs) == best["confirmed"]["mean"]
    assert best["values"] == {
        name: mean(run.picked_values[name] for run in runs) for name in median.picked_values
    }
    assert (best["epoch"], best["seed"]) == (median.epoch, median.seed)
    searched = RunDirectory(HOME).trial_record(best["trial"])
    assert searched.value == best["confirmed"]["search_value"] and searched.seed != best["seed"]
    shown = f"roc_auc: {spread(best['value'], best['deviation'], len(runs))}"
    assert shown in result.stdout and shown.replace(":", "") in command("status", HOME).stdout
    read = SweepResult.read(HOME).best
    assert (read.value, read.values, read.seed) == (best["value"], best["values"], best["seed"])
    for arguments in (("best", HOME, "-f", "json"), ("status", HOME, "--json")):
        facts = json.loads(command(*arguments).stdout)
        assert facts.get("best", facts) == best
    shutil.rmtree(HOME / f"trials/{best['trial']:04}/confirm")
    lost = SweepResult.read(HOME).best
    assert (lost.value, lost.epoch, lost.seed, lost.checkpoint) == (best["value"], None, None, None)


def test_other_picks_beside_a_confirmation(sweep, folder):
    """Without the advice to confirm; an interval of the search needs the name of its metric."""
    assert sweep(CONFIRMED).exit_code == 0
    for arguments in (("--at", "last"), ("--pick", "best"), ("--metric", "roc_auc", "--interval", "0.9")):
        result = command("best", HOME, *arguments)
        assert result.exit_code == 0 and "Verdict" in result.stdout, result.output
        assert "hpometrics confirm" not in result.stdout
    for form in ("text", "json"):
        refused = command("best", HOME, "--interval", "0.9", "-f", form)
        assert refused.exit_code == 2 and not refused.stdout
        assert f"the confirmation of {HOME} has fresh ones" in " ".join(refused.stderr.split())


@pytest.mark.parametrize("workers", WORKERS)
def test_workers_decide_what_one_does(sweep, folder, workers):
    """No training twice, and the same end to the last digit."""
    sweep(CONFIRMED)
    alone, runs = decision(), fresh_runs()
    parallel = f"{CONFIRMED}results: {{dir: runs/shared}}\nbackend: {{optuna: {{workers: {workers}}}}}\n"
    result = sweep(parallel)
    assert result.exit_code == 0, result.output
    assert (decision(Path("runs/shared")), fresh_runs(Path("runs/shared"))) == (alone, runs)


SLOW = """\
import os, time

def train(params, run):
    for _ in run.epochs():
        time.sleep(0.4)
        run.log(score=params["lr"])
    with open("trained.txt", "a") as file:
        file.write(f"{os.getpid()} {run.seed}\\n")
"""
SHARED = """\
engine: slow:train
space: {lr: {float: [0, 1]}}
metrics: {optimize: {metric: score, direction: maximize}}
search: {sampler: random, seed: 3}
budget: {trials: 2, epochs: 1}
confirm: {top: 2, repeats: 12, until: spent}
"""


def test_a_worker_joins_the_confirmation(folder):
    """One that has found no trial left: it trains contenders beside the run, each of them once."""
    (folder / "slow.py").write_text(SLOW)
    (folder / "sweep.yaml").write_text(SHARED)
    run = hpometrics("run", "sweep.yaml")
    run.waits_for(lambda: (HOME / "confirm.json").exists())
    worker = hpometrics("worker", HOME)
    assert (run.ended(), worker.ended()) == (0, 0)
    trained = [line.split() for line in (folder / "trained.txt").read_text().splitlines()]
    assert len(trained) == 2 + 24 and len({pid for pid, _ in trained}) == 2
    assert json.loads((HOME / "confirm.json").read_text())["end"]["trainings"] == 24


def test_a_list_and_ray_confirm_too(sweep, folder, on_ray):
    """The same params under the same seeds: the same end, whatever ran the search."""
    points = "backend: {list: [{lr: 0.01}, {lr: 0.02}, {lr: 0.09}]}\n"
    text = changed(
        "  size: {choice: {small: {depth: 1, width: 8}, large: {depth: 3, width: 32}}}\n", "", CONFIRMED
    )
    text = changed("search: {sampler: random, seed: 3}\n", "search: {seed: 3}\n", text)
    text = changed("trials: 4, ", "", text)
    assert sweep(text + points).exit_code == 0
    listed = decision()
    start = "search: {sampler: random, seed: 3, start: [{lr: 0.01}, {lr: 0.02}, {lr: 0.09}]}\n"
    on_tune = changed("search: {seed: 3}\n", start, text)
    on_tune = changed("budget: {", "budget: {trials: 3, ", on_tune)
    result = sweep(f"{on_tune}results: {{dir: runs/ray}}\n{on_ray()}")
    assert result.exit_code == 0, result.output
    assert decision(Path("runs/ray")) == listed


IN_RAY = """\
import os

import toy_engine

from hpometrics import Binary, engine


@engine(output=Binary())
def train(params, run):
    if "confirm" in run.directory.parts:
        with open(run.directory.parents[3] / "processes", "a") as file:
            file.write(f"{os.getpid()}\\n")
    toy_engine.train(params, run)
"""


@pytest.mark.ray
def test_ray_on_this_machine_trains_the_contenders(sweep, folder, ray_cluster):
    """With the resources of a trial; the process of the run, which would see all GPUs, trains none."""
    (folder / "in_ray.py").write_text(IN_RAY)
    result = sweep(changed("toy_engine:train", "in_ray:train", CONFIRMED) + "backend: ray\n")
    assert result.exit_code == 0, result.output
    trained = (HOME / "processes").read_text().splitlines()
    assert len(trained) == decision()["trainings"] and str(os.getpid()) not in trained


@pytest.mark.parametrize("moment", ["0001/confirm/1", "0003/confirm/3"])
def test_a_killed_confirmation_goes_on(sweep, folder, moment):
    """Killed once that training has begun, and run again: the same decision, nothing trained twice."""
    sweep(LEARNED)
    expected, runs = decision(), fresh_runs()
    (folder / "sweep.yaml").write_text(f"{LEARNED}results: {{dir: runs/killed}}\n")
    started = runs[0] if moment.startswith("0001") else runs[-1]
    process = hpometrics("run", "sweep.yaml", folder=folder)
    place = folder / "runs/killed/trials" / started.replace("/", "/confirm/")
    process.waits_for(lambda: (place / "trial.json").exists())
    assert process.killed() in (-signal.SIGKILL, 0)
    result = command("run", "sweep.yaml")
    assert result.exit_code == 0, result.output
    killed = Path("runs/killed")
    assert (decision(killed), fresh_runs(killed)) == (expected, runs)


def test_a_fresh_run_is_replayed(sweep, folder):
    """Under its own seed, to the last digit; another number is answered with those that there are."""
    assert sweep(LEARNED).exit_code == 0
    trial, number = (int(part) for part in fresh_runs()[-1].split("/"))
    result = command("replay", HOME, "--trial", trial, "--confirm", number)
    assert result.exit_code == 0, result.output
    assert f"replaying trial {trial}, seed {number} of its confirmation, of sweep" in result.output
    missing = command("replay", HOME, "--trial", trial, "--confirm", 99)
    assert missing.exit_code == 2 and f"trial {trial} has no fresh run 99" in missing.stderr
    assert command("replay", HOME, "--confirm", 1, "--seeds", 2).exit_code == 2


def test_a_sweep_that_is_over_is_confirmed_later(sweep, folder):
    """And asked for more it goes on; its file stays as it was."""
    sweep(SWEEP)
    before = command("best", HOME).stdout
    result = command("confirm", HOME, "--top", 2, "--repeats", 3, "--equivalence", 0)
    assert result.exit_code == 0, result.output
    assert "Winner: trial" in result.stdout and "Verdict" in before
    assert (HOME / "sweep.yaml").read_text() == SWEEP
    assert RunDirectory(HOME).read().config["confirm"]["repeats"] == 3
    count = len(fresh_runs())
    more = command("confirm", HOME, "--top", 3, "--repeats", 5, "-q")
    assert more.exit_code == 0, more.output
    assert len(fresh_runs()) > count
    assert "extended once: about 7.5% of such verdicts may be wrong, not 5%" in more.stdout


@pytest.mark.parametrize(
    ("flag", "value"), [("--equivalence", 0.5), ("--until", "spent"), ("--equivalence", "luck")]
)
def test_settings_that_come_too_late_are_refused(sweep, folder, flag, value):
    """All comparisons are made: with more seeds they count, alone they are refused in a line."""
    sweep(changed("repeats: 4", "repeats: 3", CONFIRMED))
    resolved, expected = RunDirectory(HOME).read().config, decision()
    result = command("confirm", HOME, flag, value, "-q")
    assert result.exit_code == 2, result.output
    assert f"{flag} takes effect at" in result.output or f"{flag} has no effect" in result.output
    assert (RunDirectory(HOME).read().config, decision()) == (resolved, expected)
    if expected["state"] == "spent":
        assert (
            f"{flag} takes effect at the next comparison, but all 3 seeds are already trained; add"
            in result.output
        )
        more = command("confirm", HOME, flag, value, "--repeats", 4, "-q")
        assert more.exit_code == 0 and decision()["extended"] == 1, more.output


def test_settings_of_the_file_that_come_too_late_are_answered(sweep, folder):
    """Once, by the run that reads them."""
    said = "confirm  the changed settings have no effect: "
    assert said not in sweep(changed("repeats: 4", "repeats: 3", CONFIRMED)).stderr
    later = changed("repeats: 4, equivalence: 0", "repeats: 3, equivalence: 9", CONFIRMED)
    expected = decision()
    result = sweep(later)
    assert result.exit_code == 0 and decision() == expected, result.output
    reason = "the winner is decided" if expected["state"] == "decided" else "all seeds are trained; raise"
    assert said + reason in result.stderr
    assert said not in sweep(later, "-v").stderr


def test_check_says_what_it_costs(sweep, folder):
    """The trainings come on top of the trials."""
    text = f"{SWEEP}confirm: true\n"
    line = next(one for one in sweep(text, command="check").stdout.splitlines() if one.startswith("confirm"))
    assert "up to 4 x 8 = 32 trainings after the 4 of the search" in line
    more = changed("trials: 4", "trials: 9", text)
    assert "up to 5 x 8 = 40 trainings after the 9" in sweep(more, command="check").stdout
    assert "confirm" not in sweep(f"{SWEEP}confirm: false\n", command="check").stdout


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            f"{SEVERAL}confirm: {{until: decided}}\n",
            "confirm.until: decides by one metric, but several objectives have a front",
        ),
        (f"{SEVERAL}confirm: {{equivalence: 0.1}}\n", "confirm.equivalence: decides by one metric"),
        (f"{SWEEP}confirm: {{top: 1}}\n", "confirm.top: "),
        (
            changed("track:", "pick: one_se, track:", CONFIRMED),
            "metrics.pick: one_se picks by the repeats of",
        ),
        (f"{SWEEP}confirm: {{repeats: 2}}\n", "confirm.repeats: "),
        (f"{SWEEP}confirm: {{level: 0.2}}\n", "confirm.level: must be one of 0.01, 0.05, 0.1, got 0.2"),
        (f"{SWEEP}confirm: {{tops: 3}}\n", "did you mean 'top'"),
        (f"{SWEEP}confirm: {{equivalence: much}}\n", "confirm.equivalence: "),
    ],
)
def test_what_cannot_be_confirmed_is_refused(text, problem):
    """With its line, before anything is trained."""
    assert any(problem.lower() in one.lower() for one in problems_of(text)), problems_of(text)


def test_a_front_is_confirmed_wherever_it_is_read(sweep, folder):
    """The same knee and the same means in the last block, `best`, `best.yaml`, `status` and `trials.csv`."""
    text = f"{SEVERAL}confirm: {{top: 3, repeats: 3}}\nresults: {{report: md}}\n"
    result = sweep(text)
    assert result.exit_code == 0, result.output
    end = json.loads((HOME / "confirm.json").read_text())["end"]
    knee, members = end["knee"], {one["trial"]: one for one in end["members"]}
    head = "Front of roc_auc and cost after 3 fresh trainings of each:"
    report = (HOME / "report.md").read_text()
    assert head in result.stdout and head in report and head in command("best", HOME).stdout
    facts = yaml.safe_load((HOME / "best.yaml").read_text())
    assert facts["trial"] == facts["confirmed"]["knee"] == knee
    assert json.loads(command("best", HOME, "--pick", "knee", "--json").stdout)["trial"] == knee
    assert json.loads(command("status", HOME, "--json").stdout)["confirmed"]["knee"] == knee
    for row in csv.DictReader((HOME / "trials.csv").read_text().splitlines()):
        member = members.get(int(row["trial"]))
        mean = row["confirmed_mean.cost"]
        assert mean == "" if member is None else float(mean) == member["values"]["cost"]["value"]
    assert "of the trials on the front" in sweep(text, command="check").stdout
    runs = fresh_runs()
    more = command("confirm", HOME, "--repeats", 4, "-q")
    assert more.exit_code == 0 and "after 4 fresh trainings" in more.stdout, more.output
    assert set(runs) < set(fresh_runs())


def test_without_a_front_the_sweep_ends_as_without_a_confirmation(sweep, folder):
    """With its table, and the trial that breaks the constraint least."""
    bound = changed("track: [accuracy]", "track: [accuracy], constraints: [cost <= -1]", SEVERAL)
    result = sweep(f"{bound}confirm: {{top: 3, repeats: 3}}\n")
    assert result.exit_code == 3, result.output
    assert "confirm needs a front of at least two trials, got 0 trials" in result.stderr
    assert "comes closest" in result.stderr and (HOME / "trials.csv").exists()


def test_an_engine_of_stages_is_refused(sweep, folder):
    """Its trainings do not depend on a seed."""
    text = """\
engine: {target: toy_stages:Guesser, output: number, params: {data_source.scale: 2.0}}
space: {algorithms.guess: {float: [0, 4]}}
metrics: {optimize: mae}
budget: {trials: 2}
confirm: true
"""
    result = sweep(text)
    assert result.exit_code == 2
    assert "confirm trains under other seeds, and an engine of stages has none" in result.output


def test_one_complete_trial_has_nobody_to_be_compared_with(sweep, folder):
    """The sweep ends with its verdict, and says why."""
    result = sweep(changed("trials: 4", "trials: 1", CONFIRMED))
    assert result.exit_code == 0
    assert "confirm needs at least two complete trials" in result.stderr
    assert "Verdict" in result.stdout and not (HOME / "confirm.json").exists()


def test_no_training_begins_when_the_time_is_up(sweep, folder, monkeypatch):
    """The search's own winner stands, unconfirmed."""
    clock = iter(range(0, 10_000, 100))
    patched = SimpleNamespace(monotonic=lambda: next(clock), sleep=time.sleep)
    monkeypatch.setattr("hpometrics.runner.confirm.time", patched)
    result = sweep(changed("confirm: {", "confirm: {time: 1m, ", CONFIRMED))
    assert result.exit_code == 0, result.output
    assert ", unconfirmed" in result.stdout and "the time is up; this is the best trial" in result.stdout
    assert decision()["trainings"] == 0 == len(fresh_runs())


def test_the_time_of_a_confirmation_is_that_of_a_clock():
    """Trainings at once, a pause, another one: the seconds in which any of them ran."""
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    spans = [(0, 60), (30, 70), (50, 55), (100, 110)]
    records = [
        TrialRecord(number, {}, TrialState.COMPLETE, seconds=end - start, ended=noon + timedelta(seconds=end))
        for number, (start, end) in enumerate(spans, 1)
    ]
    assert seconds_at_work(records) == seconds_at_work(records[::-1]) == 80


def test_a_file_in_the_place_of_fresh_runs_is_put_aside(sweep, folder):
    """The run goes on, says so, and decides the same."""
    sweep(CONFIRMED)
    expected, place = decision(), HOME / "trials" / fresh_runs()[0].partition("/")[0] / "confirm"
    shutil.rmtree(place)
    place.write_text("")
    (HOME / "confirm.json").unlink()
    result = sweep(CONFIRMED)
    assert f"{place}: is a file, kept as confirm.damaged-1" in result.output
    assert decision() == expected


def flip(file):
    """Change one bit in the middle of a file."""
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2] ^= 1
    file.write_bytes(raw)


@pytest.mark.parametrize("name", ["confirm.json", "trial.json", "epochs.jsonl"])
def test_a_run_mends_what_is_damaged(sweep, folder, name):
    """It says which file, and decides the same; what readers need they name before."""
    sweep(CONFIRMED)
    expected = decision()
    trial, _, number = fresh_runs()[0].partition("/")
    file = HOME / name if name == "confirm.json" else HOME / "trials" / trial / "confirm" / number / name
    flip(file)
    if name == "confirm.json":
        refused = command("best", HOME)
        assert (refused.exit_code, f"{file}: " in refused.output) == (2, True)
    result = sweep(CONFIRMED)
    assert result.exit_code == 0, result.output
    assert str(file) in result.stderr and "damaged" in result.stderr
    assert decision() == expected


@pytest.mark.parametrize("intruder", ["a directory", "a link"])
def test_readers_refuse_what_is_no_file(sweep, folder, intruder):
    """By its name."""
    sweep(CONFIRMED)
    file = HOME / "confirm.json"
    file.rename(folder / "elsewhere")
    file.mkdir() if intruder == "a directory" else file.symlink_to(folder / "elsewhere")
    for reader in ("best", "status", "report"):
        result = command(reader, HOME)
        assert result.exit_code == 2, (reader, result.output)
        assert f"{file}: is " in result.stderr


def test_a_fresh_run_that_fails_before_its_first_epoch_has_failed(folder):
    """Its process has died three times, each time in another directory: this one has no file of it."""
    context = make_context(plan_of(CONFIRMED))
    write_trial(context.directory.trial(0), TrialRecord(0, {"lr": 0.5}, TrialState.COMPLETE))
    study = FreshStudy(InMemoryStorage(), "s", context.resolved.optimized, context.plan.space)
    queue = _SharedQueue(context, study, 3600.0)
    with closing(queue.ownership) as owner:
        study.offer({(0, 1): {"lr": 0.5}})
        trial = claim(study.study, owner.take)
        trial.set_user_attr("hpometrics:deaths", (2, 0))
        owner.own(trial)
        owner.release(trial.number)
        assert queue.train_next([])
    [ended] = study.finished()
    assert ended.state.name == "FAIL" and "3 times" in ended.user_attrs["hpometrics:reason"]
