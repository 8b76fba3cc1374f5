from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import optuna
import pytest
from forked import Forked
from optuna.trial import TrialState as OptunaState

from hpometrics.backends.optuna.pruners import make_pruner
from hpometrics.backends.optuna.reporter import OptunaReporter
from hpometrics.backends.optuna.samplers import make_sampler
from hpometrics.backends.optuna.storage import close_storage, open_storage
from hpometrics.backends.optuna.study import open_study, study_records, tell
from hpometrics.backends.optuna.trial_queue import claim, open_trials, reclaim, reserve
from hpometrics.direction import MAXIMIZE, MINIMIZE, Direction
from hpometrics.exceptions import DirectionError, RecordError, RunError
from hpometrics.records.trial_record import TrialRecord, TrialState
from hpometrics.run.reporter import ListReporter, Report, as_reporter
from hpometrics.space.dimensions import Choice, Float, Int
from hpometrics.space.draws import derive_seed
from hpometrics.space.space import Space

SPACE = Space({"lr": Float(1e-4, 1e-1, log=True), "width": Int(1, 64), "optimizer": Choice(["sgd", "adam"])})


@pytest.fixture
def storage(tmp_path):
    """An SQLite storage in a fresh directory."""
    opened = open_storage(tmp_path / "study.db")
    yield opened
    close_storage(opened)


def report_all(reporter: OptunaReporter, values: list[float]) -> None:
    """Report a run of these values, each of which was measured."""
    study = getattr(reporter.trial, "study", None)  # a fixed trial has none
    reporter.check({"loss": MINIMIZE if study is None else Direction.parse(study.direction.name)})
    for epoch, value in enumerate(values):
        reporter.report(epoch, value, value, {"loss": value}, final=epoch == len(values) - 1)


def test_a_list_keeps_the_reports():
    """Each report as it was made, and never a stop."""
    reporter = ListReporter()
    reporter.report(0, 0.5, 0.5, {"f1": 0.5}, final=True)
    assert reporter.reports == [Report(0, 0.5, 0.5, {"f1": 0.5}, True)]


def test_a_run_takes_what_the_user_has_in_hand():
    """Nothing, a reporter, any kind of Optuna trial; all else is refused."""
    assert isinstance(as_reporter(None), ListReporter)
    mine = ListReporter()
    assert as_reporter(mine) is mine
    for trial in (optuna.create_study().ask(), optuna.trial.FixedTrial({"lr": 0.1})):
        assert isinstance(as_reporter(trial), OptunaReporter)
    with pytest.raises(RunError, match="to an Optuna trial or a Reporter, got int"):
        as_reporter(3)


def test_a_worse_trial_is_pruned_by_the_median():
    """Two good trials, then one that is worse by its values: it ends at its first report."""
    study = optuna.create_study(direction="maximize", pruner=make_pruner({"median": {"min_trials": 2}}))
    for _ in range(2):
        trial = study.ask()
        report_all(OptunaReporter(trial), [0.8, 0.9])
        study.tell(trial, 0.9)
    reporter = OptunaReporter(study.ask())
    with pytest.raises(optuna.TrialPruned, match=r"stopped trial 2 after epoch 0 at 0\.1"):
        report_all(reporter, [0.1, 0.2])
    assert reporter.stops == (optuna.TrialPruned,)


def test_the_final_epoch_is_never_pruned():
    """A run that has all its epochs is complete, however bad."""
    study = optuna.create_study(direction="maximize", pruner=make_pruner({"threshold": {"lower": 0.5}}))
    report_all(OptunaReporter(study.ask()), [0.1])
    [trial] = study.trials
    assert trial.state is OptunaState.RUNNING
    assert (trial.intermediate_values, trial.user_attrs) == ({0: 0.1}, {})


@pytest.mark.filterwarnings("ignore:Sample size too small")  # of SciPy 1.14, which Optuna's pruner calls
@pytest.mark.parametrize(
    ("pruner", "epochs"),
    [
        ({"asha": {"min_epochs": 3}}, 3),
        ({"hyperband": {"min_epochs": 3, "eta": 4}}, 3),
        ({"median": {"warmup": 3, "min_trials": 2}}, 4),
        ({"median": {"warmup": 3, "min_trials": 2, "interval": 2}}, 4),
        ({"percentile": {"percentile": 30, "warmup": 3, "min_trials": 2}}, 4),
        ({"threshold": {"lower": 0.3, "warmup": 3}}, 4),
        ({"patient": {"patience": 3}}, 5),
        ({"patient": {"patience": 1, "pruner": {"median": {"warmup": 3, "min_trials": 2}}}}, 4),
        ({"wilcoxon": {"p_threshold": 0.2, "warmup": 4}}, 5),
    ],
    ids=lambda one: next(iter(one)) if isinstance(one, dict) else str(one),
)
def test_options_count_epochs(pruner, epochs):
    """The first epoch after which a trial may stop: `min_epochs` were trained, or `warmup` left out."""
    study = optuna.create_study(direction="maximize", pruner=make_pruner(pruner, 9))
    for _ in range(2):
        trial = study.ask()
        report_all(OptunaReporter(trial), [0.9] * 9)
        study.tell(trial, 0.9)
    with pytest.raises(optuna.TrialPruned):
        report_all(OptunaReporter(study.ask()), [0.1 - epoch / 100 for epoch in range(9)])
    assert list(study.trials[2].intermediate_values) == list(range(epochs))


def test_each_bracket_has_rungs_in_epochs():
    """Of 18 epochs with eta 3: from 2, 6 or 18 epochs on; to a sampler it is the hyperband of Optuna."""
    pruner = make_pruner({"hyperband": {"min_epochs": 2, "eta": 3}}, 18)
    assert isinstance(pruner, optuna.pruners.HyperbandPruner)
    study = optuna.create_study(direction="maximize", pruner=pruner, study_name="one")
    for number in range(30):  # each is worse than those before
        with suppress(optuna.TrialPruned):
            report_all(OptunaReporter(study.ask()), [1 - number / 30] * 18)
    assert {len(one.intermediate_values) for one in study.trials} == {2, 6, 18}


def test_a_pruner_that_stops_nothing_is_not_asked(monkeypatch):
    """To be asked it would have a copy of the trial made at every epoch; the reports are all there."""
    asked = []
    monkeypatch.setattr(optuna.trial.Trial, "should_prune", lambda trial: bool(asked.append(trial.number)))
    for pruner in (make_pruner(None), make_pruner("median")):
        study = optuna.create_study(pruner=pruner)
        report_all(OptunaReporter(study.ask()), [0.8, 0.9, 0.7])
        assert study.trials[0].intermediate_values == {0: 0.8, 1: 0.9, 2: 0.7}
    assert asked == [0, 0]


def test_epochs_that_the_trial_already_has_are_skipped_in_silence(storage):
    """A trial that goes on reports the old epochs again: no warning, the first values stay."""
    study = open_study(storage, "s", {"loss": MINIMIZE})
    trial = study.ask()
    report_all(OptunaReporter(trial), [0.5, math.nan])
    again = OptunaReporter(optuna.trial.Trial(study, trial._trial_id))
    report_all(again, [0.7, 0.6, 0.4])
    told = study.trials[0].intermediate_values
    assert (told[0], told[2]) == (0.5, 0.4) and math.isnan(told[1])


@pytest.mark.parametrize("pruner", [{"threshold": {"upper": 0.5}}, {"asha": {"min_epochs": 1, "eta": 2}}])
def test_a_trial_killed_after_its_prune_stays_pruned(storage, pruner):
    """The pruner is asked again at the newest epoch that the trial has, and not before it."""
    study = open_study(storage, "s", {"loss": MINIMIZE}, pruner=make_pruner(pruner))
    report_all(OptunaReporter(study.ask()), [0.1, 0.1, 0.1])
    trial = study.ask()
    with pytest.raises(optuna.TrialPruned):
        report_all(OptunaReporter(trial), [0.2, 0.9, 0.9, 0.9])
    newest = max(study.trials[1].intermediate_values)
    again = OptunaReporter(optuna.trial.Trial(study, trial._trial_id))
    with pytest.raises(optuna.TrialPruned, match=f"stopped trial 1 after epoch {newest}"):
        report_all(again, [0.2, 0.9, 0.9, 0.9])
    assert max(study.trials[1].intermediate_values) == newest


def test_a_fixed_trial_replays_params():
    """The same train function runs on fixed params and is never stopped."""
    trial = optuna.trial.FixedTrial({"lr": 0.1}, number=4)
    trial.suggest_float("lr", 0.0, 1.0)
    reporter = OptunaReporter(trial)
    report_all(reporter, [0.5, 0.1])
    assert (reporter.number, reporter.params, trial.user_attrs) == (4, {"lr": 0.1}, {})


def test_a_study_of_the_other_direction_is_refused():
    """Both facts are in the message; a study of several objectives is none of one."""
    reporter = OptunaReporter(optuna.create_study(direction="minimize", study_name="digits").ask())
    with pytest.raises(
        DirectionError, match="f1 must be maximized, but the study 'digits' is set to minimize"
    ):
        reporter.check({"f1": MAXIMIZE})
    reporter.check({"loss": MINIMIZE})
    OptunaReporter(optuna.trial.FixedTrial({})).check({"f1": MAXIMIZE})
    with pytest.raises(DirectionError, match=r"loss must be .* set to minimize, minimize"):
        OptunaReporter(optuna.create_study(directions=["minimize"] * 2).ask()).check({"loss": MINIMIZE})


def test_a_stored_study_is_about_one_metric(storage):
    """Reopened with another direction, metric or fact it is refused."""
    facts = {"constraints": "abc"}
    open_study(storage, "s", {"loss": MINIMIZE}, facts=facts)
    open_study(storage, "s", {"loss": MINIMIZE}, facts=facts)
    with pytest.raises(DirectionError, match="f1 must be maximized, but the study 's' is set to minimize"):
        open_study(storage, "s", {"f1": MAXIMIZE})
    with pytest.raises(RecordError, match="created with metric 'loss', but metric is 'mae' now"):
        open_study(storage, "s", {"mae": MINIMIZE})
    with pytest.raises(RecordError, match="created with constraints 'abc', but constraints is 'xyz' now"):
        open_study(storage, "s", {"loss": MINIMIZE}, facts={"constraints": "xyz"})


def test_the_storage_has_a_write_ahead_log(tmp_path, storage):
    """Readers do not wait for writers."""
    with sqlite3.connect(tmp_path / "study.db") as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
    assert isinstance(open_storage("memory"), optuna.storages.InMemoryStorage)


def test_a_file_that_is_no_study_is_named(tmp_path):
    """It is left as it is."""
    path = tmp_path / "study.db"
    path.write_text("garbage\n" * 99)
    with pytest.raises(
        RecordError, match=r"study\.db: is not a study, or it is damaged: file is not a database"
    ):
        open_storage(path)
    assert path.read_text() == "garbage\n" * 99


def test_reserved_slots_are_the_budget(storage):
    """The total is a total: reserving again adds nothing; points come first; no slot is left at the end."""
    study = open_study(storage, "s", {"loss": MINIMIZE})
    points = [{"lr": 0.01, "width": 8, "optimizer": "sgd"}]
    assert reserve(study, 3, points) == 3
    assert reserve(study, 3, points) == 0
    claimed = [claim(study) for _ in range(4)]
    assert [trial.number if trial else None for trial in claimed] == [0, 1, 2, None]
    assert SPACE.suggest(claimed[0]) == points[0]
    assert reserve(study, 4) == 1


def test_a_slot_that_another_worker_holds_is_left_alone():
    """`take` decides before the slot is claimed."""
    study = optuna.create_study()
    reserve(study, 2)
    assert claim(study, take=lambda number: number == 1).number == 1
    assert claim(study, take=lambda number: number == 1) is None


def test_a_new_slot_is_added_as_it_is_taken(storage):
    """Slots that wait come first; then there are as many new ones as the total has room for, none waiting."""
    study = open_study(storage, "s", {"loss": MINIMIZE})
    points = [{"lr": 0.01, "width": 8, "optimizer": "sgd"}, {"lr": 0.02, "width": 16, "optimizer": "adam"}]
    reserve(study, 1, points)
    claimed = [claim(study, total=3, points=points) for _ in range(4)]
    assert [trial.number if trial else None for trial in claimed] == [0, 1, 2, None]
    assert [SPACE.suggest(trial) for trial in claimed[:2]] == points
    assert claim(study, take=lambda number: False, total=9) is None
    assert len(study.trials) == 3 and all(t.state is OptunaState.RUNNING for t in study.trials)


def test_a_new_slot_is_taken_under_its_own_number():
    """Who adds trials without the study's lock may come between; the trial that was added is locked then."""
    study, taken = optuna.create_study(), []

    def take(number: int) -> bool:
        taken.append(number)
        if len(taken) == 1:
            study.ask()
        return True

    assert claim(study, take, total=9).number == 1
    assert taken == [0, 1]


def test_what_turns_out_to_be_another_s_is_given_up(monkeypatch):
    """A slot that another has just claimed, one that the storage fails to give, a trial that has ended."""
    study, taken, released = optuna.create_study(), [], []
    reserve(study, 1)

    def take(number: int) -> bool:
        taken.append(number)
        return True

    with monkeypatch.context() as patched:
        patched.setattr(study._storage, "set_trial_state_values", lambda *_: False)
        assert claim(study, take, release=released.append) is None
    with monkeypatch.context() as patched:
        patched.setattr(study._storage, "set_trial_state_values", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            claim(study, take, release=released.append)
    trial = claim(study, take, release=released.append)
    (left,) = open_trials(study)[1]
    study.tell(trial, 0.5)
    monkeypatch.setattr("hpometrics.backends.optuna.trial_queue.open_trials", lambda study: (1, [left]))
    assert reclaim(study, take, released.append) is None
    assert (taken, released) == ([0, 0, 0, 0], [0, 0, 0])


def test_a_sampler_sees_what_others_finished():
    """Each claim reads the study anew, as `study.ask` does."""
    study = optuna.create_study()
    reserve(study, 3)
    seen = []
    for value in (1.0, 2.0, 3.0):
        trial = claim(study)
        seen.append(sum(t.state.is_finished() for t in study._get_trials(deepcopy=False, use_cache=True)))
        study.tell(trial, value)
    assert seen == [0, 1, 2]


def test_a_trial_of_a_dead_worker_goes_on_under_its_number(storage):
    """Its params and reports are there; a trial whose lock is held, or that is done, is left alone."""
    study = open_study(storage, "s", {"loss": MINIMIZE})
    reserve(study, 3)
    dead, alive, done = claim(study), claim(study), claim(study)
    params = SPACE.suggest(dead)
    dead.report(0.5, 0)
    study.tell(done, 1.0)
    again = reclaim(study, take=lambda number: number != alive.number)
    assert again.number == dead.number
    assert SPACE.suggest(again) == params
    assert reclaim(study, take=lambda number: False) is None


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_a_kill_between_two_draws_does_not_change_the_params(sampler):
    """Each param has a stream of its own: those not yet drawn come out as they would have."""

    def drawn(killed: bool) -> dict[str, object]:
        study = optuna.create_study(sampler=make_sampler(sampler, 7))
        reserve(study, 1)
        trial = claim(study)
        if killed:
            trial.suggest_float("lr", 1e-4, 1e-1, log=True)
            study = optuna.load_study(
                study_name=study.study_name, storage=study._storage, sampler=make_sampler(sampler, 7)
            )
            trial = reclaim(study, take=lambda number: True)
        return SPACE.suggest(trial)

    assert drawn(killed=True) == drawn(killed=False)


def work(path: Path, answer: Path) -> None:
    """Carry out trials as long as there are any; note the number and the param of each."""
    storage = open_storage(path)
    study = open_study(storage, "s", {"loss": MINIMIZE}, make_sampler("random", 7))
    reserve(study, 12)
    space = Space({"x": Float(0, 1)})
    with answer.open("w") as file:
        while (trial := claim(study)) is not None:
            x = space.suggest(trial)["x"]
            trial.report(x, 0)
            study.tell(trial, x)
            print(trial.number, x, file=file)
    close_storage(storage)


def test_processes_that_start_at_once_share_the_budget(tmp_path):
    """Four create the file, the study and the slots: 12 trials in all, each claimed once, each its own."""
    answers = [tmp_path / f"answer{number}" for number in range(4)]
    workers = [Forked(tmp_path, work, tmp_path / "study.db", answer) for answer in answers]
    assert [worker.ended() for worker in workers] == [0] * 4
    lines = [line.split() for answer in answers for line in answer.read_text().splitlines()]
    assert sorted(int(number) for number, _ in lines) == list(range(12))
    assert set(Counter(x for _, x in lines).values()) == {1}


def test_random_streams_belong_to_trials_not_to_workers():
    """Trial 5 draws the same params in any process and order; two trials never draw the same."""

    def drawn(skip: int) -> dict[int, float]:
        study = optuna.create_study(sampler=make_sampler("random", 7))
        reserve(study, 6)
        trials = [claim(study, take=lambda number: number >= skip) for _ in range(6 - skip)]
        return {trial.number: SPACE.suggest(trial)["lr"] for trial in trials}

    everything, some = drawn(0), drawn(3)
    assert some == {number: everything[number] for number in some}
    assert len(set(everything.values())) == 6
    assert len({derive_seed(7, n, r) for n in range(50) for r in range(3)}) == 150


@pytest.mark.parametrize(
    ("record", "state"),
    [
        (TrialRecord(0, {"lr": 0.1}, TrialState.COMPLETE, 0.5, 1, seed=3), OptunaState.COMPLETE),
        (TrialRecord(0, {"lr": 0.1}, TrialState.PRUNED, 0.5, 1, reason="median"), OptunaState.PRUNED),
        (TrialRecord(0, {"lr": 0.1}, TrialState.FAILED, reason="RuntimeError: shape"), OptunaState.FAIL),
    ],
)
def test_a_study_gives_back_the_record_it_was_told(record, state):
    """Params, state, picked epoch and reason survive in the study; the reason has a field of its own."""
    study = optuna.create_study()
    trial = study.ask()
    tell(study, trial, record)
    assert study.trials[0].state is state
    assert study.trials[0].user_attrs.get("hpometrics:reason") == record.reason
    assert study_records(study) == [record]


def test_an_interrupted_trial_stays_to_be_continued():
    """It is neither failed nor complete; its number stays its own."""
    study = optuna.create_study()
    trial = study.ask()
    tell(study, trial, TrialRecord(0, {}, TrialState.INTERRUPTED, reason="KeyboardInterrupt"))
    assert study.trials[0].state is OptunaState.RUNNING
    assert study_records(study)[0].state is TrialState.RUNNING


def test_a_foreign_study_reads_as_records():
    """Trials that were never ours have their params, state and reported values."""
    study = optuna.create_study()
    study.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=1)
    record = study_records(study)[0]
    assert (record.state, record.value) == (TrialState.COMPLETE, study.trials[0].value)
    assert record.params == study.trials[0].params


def test_the_search_room_is_light():
    """Space, selection and record load no optuna, torch or ray; the Optuna side loads no torch, no ray."""
    records = "records.trial_record records.epoch_log"
    light = f"space.space selection.selection {records} run.reporter backends.registry"
    code = (
        "import sys, importlib\n"
        f"for name in '{light}'.split(): importlib.import_module(f'hpometrics.{{name}}')\n"
        "print([m for m in ('optuna', 'torch', 'ray') if m in sys.modules])\n"
        "import hpometrics.backends.optuna.reporter\n"
        "print([m for m in ('torch', 'ray') if m in sys.modules])\n"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.split("\n")[:2] == ["[]", "[]"]
