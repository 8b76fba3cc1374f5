"""GPUs of a machine are shared out among the workers of a sweep; no GPU is needed to see it."""

from __future__ import annotations

import os

import pytest
from sample_sweeps import SWEEP, changed, plan_of, problems_of

from hpometrics.config import backend_section
from hpometrics.config.backend_section import VISIBLE, check_gpus, gpu_shares, restricted_to
from hpometrics.exceptions import ConfigError
from hpometrics.results.run_directory import RunDirectory
from hpometrics.results.summary import overview

EIGHT = [str(gpu) for gpu in range(8)]


@pytest.fixture
def machine(monkeypatch):
    """Call it with a number of GPUs: that many are in this machine, and the environment names none."""

    def have(count: int) -> None:
        monkeypatch.delenv(VISIBLE, raising=False)
        monkeypatch.setattr(backend_section, "_count_gpus", lambda: count)

    return have


@pytest.mark.parametrize(
    ("count", "workers", "shares"),
    [
        (4, 4, ["0", "1", "2", "3"]),
        (2, 4, ["0", "1", "0", "1"]),
        (8, 3, ["0,1", "2,3,4", "5,6,7"]),
        (4, 2, ["0,1", "2,3"]),
        (1, 3, ["0", "0", "0"]),
        (0, 4, None),
        (4, 1, None),
    ],
)
def test_shares_of_a_machine(machine, count, workers, shares):
    """Each worker gets its own as far as they go; one worker alone sees all."""
    machine(count)
    assert gpu_shares("auto", workers) == shares
    assert gpu_shares("all", workers) is None


@pytest.mark.parametrize("workers", range(1, 12))
def test_every_gpu_is_used_and_none_is_favored(machine, workers):
    """Shares differ by one GPU at most, and so do the workers of a GPU."""
    machine(8)
    shares = gpu_shares("auto", workers)
    seen = [share.split(",") for share in shares or [",".join(EIGHT)]]
    assert len(seen) == workers and sorted({gpu for share in seen for gpu in share}) == EIGHT
    sizes = [len(share) for share in seen]
    users = [sum(gpu in share for share in seen) for gpu in EIGHT]
    assert max(sizes) - min(sizes) <= 1 and max(users) - min(users) <= 1


def test_the_environment_says_which_gpus_there_are(machine, monkeypatch):
    """A scheduler such as Slurm names those of the job; ids of MIG are shared out like numbers."""
    machine(8)
    monkeypatch.setenv(VISIBLE, "2, 5,7")
    assert gpu_shares("auto", 3) == ["2", "5", "7"]
    monkeypatch.setenv(VISIBLE, "MIG-1,MIG-2")
    assert gpu_shares("auto", 2) == ["MIG-1", "MIG-2"]
    monkeypatch.setenv(VISIBLE, "3,-1,5")  # CUDA hides what follows a -1
    assert gpu_shares("auto", 2) == ["3", "3"]
    for nothing in ("", "-1"):
        monkeypatch.setenv(VISIBLE, nothing)
        assert gpu_shares("auto", 2) is None


def test_a_list_says_which_are_shared_out(machine):
    """By number or by id."""
    machine(4)
    check_gpus([1, 3])
    assert gpu_shares([1, 3], 2) == ["1", "3"]
    assert gpu_shares(["GPU-8f2a", 0], 1) == ["GPU-8f2a,0"]
    with pytest.raises(ConfigError, match=r"gpus: there is no GPU 4; this machine has GPUs 0 to 3"):
        check_gpus([0, 4])
    machine(0)
    with pytest.raises(ConfigError, match="there is no GPU 0; torch finds no GPU on this machine"):
        check_gpus([0])


@pytest.mark.parametrize(("visible", "left"), [("2,3", "2, 3"), ("", "no GPU"), ("MIG-1", "MIG-1")])
def test_a_list_keeps_to_what_the_environment_leaves(machine, monkeypatch, visible, left):
    """The other GPUs of a shared machine are those of others."""
    machine(4)
    monkeypatch.setenv(VISIBLE, visible)
    with pytest.raises(ConfigError, match=f"there is no GPU 1; CUDA_VISIBLE_DEVICES leaves {left}"):
        check_gpus([1, 2])
    check_gpus(visible.split(",") if "MIG" in visible else "auto")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("4", "expected auto, all, or a list of GPUs such as"),
        ("[]", "expected auto, all, or a list of GPUs such as"),
        ("[-1]", "-1 is not a GPU"),
        ("[true]", "True is not a GPU"),
        ("['0,1']", "'0,1' is not a GPU"),
        ("[0, 1, 0]", "names a GPU twice"),
    ],
)
def test_what_names_no_gpus_is_refused(value, said):
    """With what would."""
    problems = problems_of(f"{SWEEP}backend: {{optuna: {{gpus: {value}}}}}\n")
    assert len(problems) == 1 and "backend.optuna.gpus" in problems[0] and said in problems[0]


def test_a_backend_that_does_not_exist_is_repeated():
    """With the names of those that do."""
    [problem] = problems_of(f"{SWEEP}backend: slurm\n")
    assert "backend: 'slurm' is not a backend; choose optuna, ray or list" in problem


def test_the_plan_shows_the_shares(machine):
    """Where there are GPUs and several workers."""
    machine(2)
    plan = plan_of(f"{SWEEP}backend: {{optuna: {{workers: 3}}}}\n")
    assert dict(overview(plan))["backend"].endswith("3 workers, which see GPU 0, 1")
    machine(0)
    assert dict(overview(plan))["backend"].endswith("3 workers")


def test_a_share_is_seen_for_a_while(monkeypatch):
    """The environment is put back, whatever happens."""
    monkeypatch.delenv(VISIBLE, raising=False)
    with pytest.raises(ZeroDivisionError), restricted_to("3"):
        assert os.environ[VISIBLE] == "3"
        1 / 0  # noqa: B018
    assert VISIBLE not in os.environ
    monkeypatch.setenv(VISIBLE, "0,1")
    with restricted_to("1"):
        assert os.environ[VISIBLE] == "1"
    assert os.environ[VISIBLE] == "0,1"


def test_an_engine_that_has_used_a_gpu_is_told(monkeypatch):
    """CUDA reads the variable when it starts, and no more."""
    monkeypatch.setattr("torch.cuda.is_initialized", lambda: True)
    with (
        pytest.warns(UserWarning, match="CUDA started before the GPUs were assigned to the"),
        restricted_to("1"),
    ):
        pass


def test_each_worker_trains_on_its_own(sweep, folder, monkeypatch):
    """All trials of a process see one GPU, those of another one the other; the command's own is put back."""
    monkeypatch.setenv(VISIBLE, "4,6")
    text = changed("toy_engine:train", "toy_engine:see_gpus").replace("trials: 4", "trials: 8")
    os.mkfifo("meeting")
    assert sweep(f"{text}backend: {{optuna: {{workers: 2}}}}\n").exit_code == 0
    lines = [line.split() for line in (folder / "gpus.txt").read_text().splitlines()]
    assert len(lines) == len(RunDirectory(folder / "runs/sweep").records()) == 8
    of_process = {process: {gpu for one, gpu in lines if one == process} for process, _ in lines}
    assert of_process.pop(str(os.getpid())) == {"4"}
    assert list(of_process.values()) == [{"6"}]
    assert os.environ[VISIBLE] == "4,6"


def test_the_only_worker_trains_on_the_named_gpu(sweep, folder, monkeypatch):
    """A list of GPUs counts for one worker too, as the plan says."""
    monkeypatch.setenv(VISIBLE, "4,6")
    text = changed("toy_engine:train", "toy_engine:see_gpus")
    assert sweep(f"{text}backend: {{optuna: {{gpus: [6]}}}}\n").exit_code == 0
    assert {line.split()[1] for line in (folder / "gpus.txt").read_text().splitlines()} == {"6"}
