from __future__ import annotations

import os
import signal
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from bare_optuna import BareOptuna
from injured import Injured, InjuredInJournal
from matrix import EXHAUSTIVE
from patient import EPOCHS

from hpometrics.backends.registry import POPULATIONS, REPLAY
from hpometrics.config.compatibility import PRUNER_BACKENDS
from hpometrics.records.trial_record import TrialState

JOURNAL = pytest.param(InjuredInJournal, marks=EXHAUSTIVE)
BARE = pytest.param(BareOptuna, marks=pytest.mark.thorough)

BEST = 0
"""The trial with the least cost in every epoch, which no pruner stops."""
OPTIONS = {
    "median": "{median: {min_trials: 4}}",
    "percentile": "{percentile: {percentile: 50.0}}",
    "patient": "{patient: {pruner: median, patience: 0}}",
    "threshold": "{threshold: {upper: 1.9}}",
    "pbt": "{pbt: {mutate: [lr], perturbation_interval: 2}}",
    "pb2": "{pb2: {mutate: [lr], perturbation_interval: 2}}",
}
STEPS = f"steps: {4 * EPOCHS}, every: 4"
BY_EPOCHS = f"epochs: {EPOCHS}"
SHORT = {("optuna", "median", "none", STEPS), ("ray", "median", "none", BY_EPOCHS)}
SEARCHES = [
    pytest.param(
        backend,
        pruner,
        kept,
        length,
        id=f"{backend}-{pruner}-{kept}-{length.partition(':')[0]}",
        marks=[
            *([] if (backend, pruner, kept, length) in SHORT else [EXHAUSTIVE]),
            *([pytest.mark.ray] if backend == "ray" else []),
            *([pytest.mark.thorough] if (backend, length) == ("ray", STEPS) and pruner != "median" else []),
        ],
    )
    for pruner, backends in PRUNER_BACKENDS.items()
    for backend in backends
    for kept in ("best", "none")
    for length in (BY_EPOCHS, STEPS)
    if backend != "list"
    and pruner != REPLAY
    and not (pruner in POPULATIONS and kept == "none")  # they hand on checkpoints
]
"""Every scheduler of a backend, with and without checkpoints, by epochs and by steps.

Without `--faults`, one of the schedulers of Ray is tried by steps.
"""


@pytest.fixture
def searching(
    tmp_path: Path, request: pytest.FixtureRequest, backend: str, pruner: str, kept: str, length: str
) -> Injured:
    """A folder with one of `SEARCHES`; on Ray the short suite starts a cluster, the others share one."""
    if backend == "ray" and (backend, pruner, kept, length) not in SHORT:
        backend = f"{{ray: {{address: '{request.getfixturevalue('ray_cluster')}'}}}}"
    return Injured(
        tmp_path, backend=backend, pruner=OPTIONS.get(pruner, pruner), checkpoints=kept, length=length
    )


@pytest.mark.parametrize(("backend", "pruner", "kept", "length"), SEARCHES)
def test_each_epoch_that_counts_is_trained_once(searching, pruner):
    """A trial that the search gives way to others, or whose last epoch is over, is not trained again."""
    injured = searching
    assert injured.run() == 0, injured.err()
    records = injured.records()
    assert injured.trained() == Counter(
        (record.number, epoch.epoch) for record in records for epoch in record.epochs
    )
    assert pruner in POPULATIONS or {epoch.attempt for record in records for epoch in record.epochs} == {1}


@pytest.mark.parametrize(("backend", "pruner", "kept", "length"), SEARCHES)
def test_a_kill_repeats_only_what_no_checkpoint_holds(searching, kept):
    """Of each trial that was open; without checkpoints that is all that its killed attempt had trained."""
    injured = searching
    injured.interrupted(signal.SIGKILL, trial=BEST, epoch=1)
    finished, before, reported = injured.finished(), injured.trained(), injured.trained("reported")
    assert injured.run() == 0, injured.err()
    counted = Counter((record.number, epoch.epoch) for record in injured.records() for epoch in record.epochs)
    repeated = injured.trained() - counted
    may = Counter({at: 1 for at in before if at[0] not in finished and (kept == "none" or not reported[at])})
    assert counted <= injured.trained() and repeated <= may, (repeated, may)


@pytest.mark.parametrize("host", [Injured, JOURNAL, BARE])
def test_a_worker_killed_at_any_moment_leaves_its_trial_to_the_others(tmp_path, card, rounds, host):
    """Two workers; one is killed and another joins, again and again; then the sweep is run to its end.

    There are trials enough for every kill, also where many of them end between two.
    """
    tried = rounds(60)
    patient = host(tmp_path, trials=8 * tried)
    first = patient.start()
    first.waits_for(lambda: patient.is_at_work(first))
    patient.kill(first)
    trials = patient.kill_workers(tried, Random(1))
    assert len(trials) == tried
    patient.run()
    whole = patient.whole()
    card(patient.toll("SIGKILL of a worker at any moment", len(trials), sum(one in whole for one in trials)))


@pytest.mark.parametrize("host", [Injured, InjuredInJournal, BARE])
def test_a_sweep_killed_at_any_moment_goes_on(tmp_path, card, rounds, host):
    """Also while it starts, opens its study, or takes its first trial."""
    tried = rounds(20)
    patient = host(tmp_path, trials=3 * tried)
    trials = patient.kill_all(tried, Random(2))
    patient.run()
    whole = patient.whole() | {-1}
    card(patient.toll("SIGKILL of the run at any moment", len(trials), sum(one in whole for one in trials)))


@EXHAUSTIVE
def test_a_sweep_and_the_workers_that_it_hired_killed_together_go_on(tmp_path, card):
    """Hired workers run in sessions of their own; a new run takes up what all of them have left."""
    injured = Injured(tmp_path, trials=12, backend="{optuna: {workers: 2}}")
    injured.harm("hang", trial=0)
    process = injured.start()
    assert process.waits_for(lambda: len({pid for *_, pid in injured.ledger()}) == 2), injured.err()
    [hired] = {pid for *_, pid in injured.ledger()} - {process.pid}
    os.kill(hired, signal.SIGKILL)
    injured.kill(process)
    injured.heal()
    survived = injured.run() == 0 and injured.whole() == set(range(12))
    card(injured.toll("SIGKILL of the run and the workers that it hired", 1, survived))


def test_a_sweep_and_its_workers_killed_together_go_on(tmp_path, card):
    """A run and a worker that has joined it are at a trial each; a new run takes up what both have left."""
    injured = Injured(tmp_path, trials=12)
    injured.harm_all([(0, 1, "hang"), (1, 1, "hang")])
    run = injured.start()
    assert run.waits_for(lambda: injured.is_at_work(run)), injured.err()
    worker = injured.join()
    assert worker.waits_for(lambda: injured.is_at_work(worker)), injured.err()
    worker.killed()
    injured.kill(run)
    injured.heal()
    survived = injured.run() == 0 and injured.whole() == set(range(12))
    card(injured.toll("SIGKILL of the run and its workers", 1, survived))


@pytest.mark.thorough
def test_two_processes_of_bare_optuna_killed_together(tmp_path, card):
    """Both of their trials stay running."""
    bare = BareOptuna(tmp_path, trials=12)
    bare.harm_all([(0, 1, "hang"), (1, 1, "hang")])
    first = bare.start()
    assert first.waits_for(lambda: bare.is_at_work(first)), bare.err()
    second = bare.join()
    assert second.waits_for(lambda: bare.is_at_work(second)), bare.err()
    second.killed()
    bare.kill(first)
    bare.heal()
    survived = bare.run() == 0 and {0, 1} <= bare.whole()
    card(bare.toll("SIGKILL of the run and its workers", 1, survived))


@pytest.mark.parametrize("host", [Injured, JOURNAL, BARE])
def test_a_worker_that_is_paused_goes_on_when_it_is_woken(tmp_path, card, host):
    """It keeps its trial, however long: nobody takes it, and nothing is written twice."""
    patient = host(tmp_path, trials=8)
    paused = patient.start()
    paused.waits_for(lambda: patient.is_at_work(paused))
    paused.send(signal.SIGSTOP)
    other = patient.join()
    other.lives(5.0)
    paused.send(signal.SIGCONT)
    codes = [paused.ended(), other.ended()]
    patient.run()
    card(patient.toll("SIGSTOP for 5 s, then SIGCONT", 1, codes == [0, 0] and len(patient.whole()) >= 8))


FATAL = pytest.mark.parametrize(
    ("kind", "code", "fault"),
    [
        pytest.param("os._exit", 9, "params that end the process", marks=EXHAUSTIVE),
        ("SIGKILL", -9, "params that are killed for their memory"),
    ],
)


@FATAL
def test_params_that_end_the_process_fail_in_the_end(tmp_path, card, kind, code, fault):
    """As those do that the system kills for their memory: three times at the same epoch are enough."""
    injured = Injured(tmp_path)
    injured.harm(kind)
    codes = [injured.run() for _ in range(3)]
    assert codes == [code] * 3
    assert injured.run() == 0
    record = injured.records()[2]
    assert (record.state, record.reason) == (
        TrialState.FAILED,
        "its process died 3 times in epoch 1; did it have enough memory?",
    )
    card(injured.toll(fault, 1, injured.whole() == {0, 1, 3, 4, 5}))


@pytest.mark.thorough
@FATAL
def test_params_that_end_a_process_of_bare_optuna(tmp_path, card, kind, code, fault):
    """Their trial stays running, and another is drawn in its place."""
    bare = BareOptuna(tmp_path)
    bare.harm(kind)
    assert bare.run() == code
    survived = bare.run() == 0 and bare.whole() >= {0, 1, 3, 4, 5}
    card(bare.toll(fault, 1, survived))
