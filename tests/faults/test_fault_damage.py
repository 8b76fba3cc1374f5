from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path
from random import Random

import pytest
from bare_optuna import BareOptuna
from bare_ray import BareRay
from injured import Injured, InjuredInJournal
from matrix import covering
from patient import TRIALS, Patient

from hpometrics.backends.optuna.study import study_records
from hpometrics.config.plan import read_plan
from hpometrics.records.trial_record import TrialRecord, TrialState
from hpometrics.runner.context import make_context
from hpometrics.runner.leases import LocalOwnership
from hpometrics.runner.reclaim import recover
from hpometrics.runner.study import opened_study


def half(path: Path) -> None:
    """Cut a file in the middle."""
    os.truncate(path, path.stat().st_size // 2)


def zeroed(path: Path) -> None:
    """Lose two of four quarters, and keep the beginning and the end."""
    content = path.read_bytes()
    quarter = len(content) // 4
    path.write_bytes(content[:quarter] + bytes(2 * quarter) + content[3 * quarter :])


def empty(path: Path) -> None:
    """Lose all of a file."""
    path.write_bytes(b"")


def removed(path: Path) -> None:
    """Lose the file."""
    path.unlink()


def torn(path: Path) -> None:
    """Lose the end of the last line."""
    os.truncate(path, path.stat().st_size - 7)


def unended(path: Path) -> None:
    """Lose the last byte, which ends the line."""
    os.truncate(path, path.stat().st_size - 1)


def padded(path: Path) -> None:
    """Gain zeros at the end, as file systems leave them at a power cut."""
    path.write_bytes(path.read_bytes() + bytes(64))


def scrawled(path: Path) -> None:
    """Have garbage for the second line."""
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], b"\xff\x00garbage", *lines[2:]]))


NAMES = {
    half: "cut in half",
    zeroed: "zeroed in the middle",
    empty: "emptied",
    removed: "deleted",
    torn: "cut in its last line",
    unended: "cut by its last byte",
    padded: "with zeros at the end",
    scrawled: "with garbage in the middle",
}


def interrupt(patient: Patient) -> None:
    """Stop the search in the last epoch of its third trial."""
    code = patient.interrupted(signal.SIGTERM, epoch=2)
    assert code == 143 or not isinstance(patient, Injured)


@pytest.fixture(scope="module")
def kept() -> dict[type[Injured], Path]:
    """By host the folder of a sweep that was interrupted."""
    return {}


@pytest.fixture
def left(
    kept: dict[type[Injured], Path], tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[type[Injured]], Injured]:
    """Copy what an interrupted sweep has left; of all tests one interrupts it."""

    def copied(host: type[Injured]) -> Injured:
        if host not in kept:
            kept[host] = tmp_path_factory.mktemp("interrupted")
            interrupt(host(kept[host]))
        shutil.copytree(kept[host], tmp_path, dirs_exist_ok=True)
        injured = host(tmp_path)
        injured.note_finished()
        return injured

    return copied


@pytest.fixture
def injured(left: Callable[[type[Injured]], Injured]) -> Injured:
    """A sweep of six trials that was interrupted in its third."""
    return left(Injured)


DAMAGES = [half, zeroed, empty, removed]


@pytest.mark.parametrize(
    ("host", "damage"), covering(product([Injured, InjuredInJournal], DAMAGES), kinds=lambda case: case)
)
def test_a_study_that_is_lost_is_made_again_from_the_record(left, card, host, damage):
    """The finished trials stand, the open one goes on with its params, the damaged file is kept."""
    injured = left(host)
    before = injured.records()
    for beside in injured.home.path.glob("study.db-*"):
        beside.unlink()
    damage(injured.study)
    survived = injured.run() == 0 and injured.whole() == set(range(6))
    after = injured.records()
    assert after[:2] == before[:2] and after[2].params == before[2].params, injured.err()
    assert "rebuilt from the trials" in injured.err()
    told = {one.number: (one.state, one.value, one.params["lr"]) for one in injured.told()}
    assert told == {one.number: (one.state, one.value, one.params["lr"]) for one in after}
    card(injured.toll(f"the study {NAMES[damage]}", 1, survived))


@pytest.mark.thorough
@pytest.mark.parametrize("host", [BareOptuna, pytest.param(BareRay, marks=pytest.mark.ray)])
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_bare_host_has_lost_its_study(tmp_path, card, host, damage):
    """Bare Ray's is the state of the experiment."""
    bare = host(tmp_path)
    interrupt(bare)
    damage(bare.study if host is BareOptuna else bare.state())
    survived = bare.run() == 0 and len(bare.whole()) >= bare.trials
    card(bare.toll(f"the study {NAMES[damage]}", 1, survived))


@pytest.mark.parametrize("damage", [torn, unended, padded, scrawled])
def test_a_damaged_record_of_an_open_trial_is_trained_again_from_there(injured: Injured, card, damage):
    """It goes on from the newest checkpoint before the damage: that of epoch 1, or none any more."""
    damage(injured.home.trial(2) / "epochs.jsonl")
    survived = injured.run() == 0 and injured.whole() == set(range(6))
    begun = [epoch for what, trial, epoch, _ in injured.ledger() if (what, trial) == ("began", 2)]
    taken = damage in (torn, scrawled)
    assert begun == ([0, 1, 2, 0, 1, 2] if taken else [0, 1, 2, 2])
    card(injured.toll(f"epochs.jsonl of an open trial {NAMES[damage]}", 1, survived, taken))


@pytest.mark.parametrize("damage", [unended, scrawled])
def test_a_damaged_record_of_a_finished_trial_keeps_what_steered_the_search(injured: Injured, card, damage):
    """It is not run again: its epochs are those that read, and what the study was told of the others."""
    damage(injured.home.trial(1) / "epochs.jsonl")
    survived = injured.run() == 0 and injured.whole() == set(range(6))
    card(injured.toll(f"epochs.jsonl of a finished trial {NAMES[damage]}", 1, survived))


PARTS: dict[str, str] = {
    "the study": "study.db",
    "the journal": "study.journal",
    "trial.json of a finished trial": "trials/0001/trial.json",
    "trial.json of an open trial": "trials/0002/trial.json",
    "epochs.jsonl of a finished trial": "trials/0001/epochs.jsonl",
    "epochs.jsonl of an open trial": "trials/0002/epochs.jsonl",
    "the checkpoint of an open trial": "trials/0002/checkpoints/epoch-0001.pt",
    "sweep.resolved.yaml": "sweep.resolved.yaml",
    "a finished trial": "trials/0001",
}


@pytest.fixture
def seeds(rounds: Callable[[int], int], request: pytest.FixtureRequest) -> Callable[[int], range]:
    """The seeds of so many damages; those of the short suite and of the others are apart."""
    begin = 0 if "once" in request.node.name else 1000
    return lambda many: range(begin, begin + rounds(many))


def spoil(path: Path, random: Random) -> str:
    """Turn a bit, a digit or a letter, lose or double a piece, lose the file, put a directory there."""
    content = b"" if path.is_dir() else path.read_bytes()
    ways = (
        ["turn a bit"] * 4 + ["turn a digit"] * 4 + ["turn a letter"] * 2 + ["lose a piece", "double a piece"]
    )
    way = random.choice(
        [*ways, "lose half", "lose all", "lose the file", "a directory"] if content else ["lose it"]
    )
    at = random.randrange(len(content)) if content else 0
    piece = random.randrange(1, 64)
    digits = [i for i, byte in enumerate(content) if chr(byte).isdigit()]
    letters = [i for i, byte in enumerate(content) if chr(byte).isascii() and chr(byte).isalpha()]
    if way in ("lose it", "lose the file", "a directory"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        if way == "a directory":
            path.mkdir()
        return way
    turned = bytearray(content)
    if way == "turn a bit":
        turned[at] ^= 1 << random.randrange(8)
    elif way == "turn a digit":
        turned[random.choice(digits)] = random.choice(b"0123456789")
    elif way == "turn a letter":
        turned[random.choice(letters)] = random.choice(b"abcxyzNE")
    kept = {
        "lose a piece": content[:at] + content[at + piece :],
        "double a piece": content[: at + piece] + content[at:],
        "lose half": content[: len(content) // 2],
        "lose all": b"",
    }
    path.write_bytes(kept.get(way, bytes(turned)))
    return f"{way} at {at}"


def facts_of(records: Iterable[TrialRecord]) -> list[tuple[object, ...]]:
    """What decides a sweep, of the trials that have ended."""
    ended = [one for one in records if one.state.finished]
    return [(one.number, one.state, one.value, one.epoch, dict(one.params), len(one.epochs)) for one in ended]


def read_on(folder: Path) -> tuple[list[str], list[TrialRecord], list[TrialRecord]]:
    """Open a sweep as `run` does, before its first trial: what it says, its records, those of its study."""
    os.chdir(folder)
    job = make_context(read_plan(Path("sweep.yaml")))
    job.leads = True
    with job.directory.opened("", job.resolved, fresh=False, extend=False):
        said, _ = recover(job)
        with opened_study(job, LocalOwnership(job.directory, TRIALS)) as study:
            return said, job.directory.records(), study_records(study)


@pytest.mark.parametrize("part", PARTS)
def test_whatever_is_turned_in_a_file_the_sweep_reads_on(left, tmp_path_factory, monkeypatch, seeds, part):
    """No finished trial is lost or changed; what the damage costs is said, and said once."""
    origin = left(InjuredInJournal if part == "the journal" else Injured).folder
    monkeypatch.chdir(origin)
    monkeypatch.syspath_prepend(str(origin))
    _, before, _ = read_on(origin)
    for seed in seeds(100):
        folder = tmp_path_factory.mktemp("spoiled")
        shutil.copytree(origin, folder, dirs_exist_ok=True)
        home = folder / "runs/sweep"
        for beside in home.glob("study.db-*") if part == "the study" else ():
            beside.unlink()
        what = f"{part}, seed {seed}: {spoil(home / PARTS[part], Random(seed))}"
        said, records, told = read_on(folder)
        assert facts_of(records) == facts_of(before), (what, said)
        assert [one[:5] for one in facts_of(told)] == [one[:5] for one in facts_of(before)], (what, said)
        opens = [one for one in records if not one.state.finished]
        assert said or [(one.params, len(one.epochs)) for one in opens] == [
            (one.params, len(one.epochs)) for one in before if not one.state.finished
        ], what
        assert len(told) <= TRIALS and all(len(line.splitlines()) == 1 for line in said), what
        assert all("trained again" in line for line in read_on(folder)[0]), what
        shutil.rmtree(folder)


@pytest.mark.parametrize("part", PARTS)
def test_whatever_is_turned_in_a_file_the_sweep_ends(left, tmp_path, card, seeds, part):
    """All of its budget is done, and no finished trial again."""
    for seed in seeds(5):
        injured = left(InjuredInJournal if part == "the journal" else Injured)
        for beside in injured.home.path.glob("study.db-*"):
            beside.unlink()
        what = spoil(injured.home.path / PARTS[part], Random(1000 + seed))
        survived = injured.run() == 0 and {one.number for one in injured.records()} == set(range(TRIALS))
        assert survived and injured.begun() == TRIALS, (what, injured.err())
        assert "Traceback" not in injured.err(), what
        assert not injured._run_again(), what
        shutil.rmtree(tmp_path / "runs")
        (tmp_path / "ledger").unlink()


def test_a_trial_whose_facts_are_damaged_has_them_from_the_study(injured: Injured, card):
    """That of a finished trial and that of an open one."""
    for number in (1, 2):
        scrawl = injured.home.trial(number) / "trial.json"
        scrawl.write_text("{")
    survived = injured.run() == 0 and injured.whole() == set(range(6))
    assert [one.state for one in injured.records()] == [TrialState.COMPLETE] * 6
    card(injured.toll("trial.json: garbage", 1, survived))
