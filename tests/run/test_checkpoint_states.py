from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import RecordError, RunError
from hpometrics.run import Reported, Run
from hpometrics.run.checkpoint import Checkpoints, load_checkpoint, random_states

LOSS = Reported("loss", MINIMIZE)


def parts(lr: float, weight: float) -> dict[str, torch.nn.Module | torch.optim.Optimizer]:
    """A model of one weight, and an optimizer with a momentum buffer."""
    model = torch.nn.Linear(1, 1, bias=False)
    torch.nn.init.constant_(model.weight, weight)
    return {"model": model, "optimizer": torch.optim.SGD(model.parameters(), lr=lr, momentum=0.5)}


def trained(directory: Path, lr: float, weight: float, epochs: int) -> None:
    """Train in a trial's directory, with a checkpoint of every epoch's end."""
    objects = parts(lr, weight)
    run = Run(metric=LOSS, directory=directory, epochs=epochs)
    with run:
        run.restore(**objects)
        for _ in run.epochs():
            objects["optimizer"].zero_grad()
            objects["model"].weight.sum().backward()
            objects["optimizer"].step()
            run.log(
                loss=float(objects["model"].weight.detach()), lr=objects["optimizer"].param_groups[0]["lr"]
            )
            run.checkpoint(**objects)


def test_a_run_goes_on_from_the_state_of_another(tmp_path):
    """Weights and momentum are the donor's, the options of the optimizer the trial's own, its epochs too."""
    trained(tmp_path / "donor", lr=0.01, weight=5.0, epochs=2)
    trained(tmp_path / "own", lr=1.0, weight=-1.0, epochs=2)
    Checkpoints(tmp_path / "own/checkpoints").adopt(1, tmp_path / "donor/checkpoints", seed=3)
    objects = parts(lr=0.5, weight=0.0)
    with Run(metric=LOSS, directory=tmp_path / "own", epochs=3) as run:
        assert run.restore(**objects) == 2
        assert float(objects["model"].weight.detach()) == pytest.approx(5.0 - 0.01 - 0.015)
        assert objects["optimizer"].param_groups[0]["lr"] == 0.5
        assert objects["optimizer"].state_dict()["state"][0]["momentum_buffer"] == pytest.approx(1.5)


def test_the_own_state_of_the_picked_epoch_stays(tmp_path):
    """What is adopted stands beside it, and goes with the next checkpoint."""
    trained(tmp_path / "donor", lr=0.01, weight=5.0, epochs=2)
    trained(tmp_path / "own", lr=1.0, weight=-1.0, epochs=2)
    folder = tmp_path / "own/checkpoints"
    own = load_checkpoint(folder / "epoch-0001.pt")["states"]["model"]["weight"]
    Checkpoints(folder).adopt(1, tmp_path / "donor/checkpoints", seed=3)
    assert load_checkpoint(folder / "epoch-0001.pt")["states"]["model"]["weight"] == own
    assert Checkpoints(folder).load(1)["adopted"]
    trained(tmp_path / "own", lr=0.1, weight=0.0, epochs=3)
    assert [path.name for path in sorted(folder.iterdir())] == ["epoch-0001.pt", "epoch-0002.pt"]


def test_random_streams_start_anew(tmp_path):
    """Two trials that go on from one donor draw different numbers; the same seed gives the same."""
    trained(tmp_path / "donor", lr=0.01, weight=5.0, epochs=1)
    drawn = []
    for place, seed in (("a", 3), ("b", 4), ("c", 3)):
        Checkpoints(tmp_path / place).adopt(0, tmp_path / "donor/checkpoints", seed)
        drawn.append(load_checkpoint(tmp_path / place / "adopted-0000.pt")["random"]["python"])
    assert drawn[0] == drawn[2] != drawn[1]
    random.seed(3)
    assert drawn[0] == random_states()["python"]


def test_a_run_that_does_not_take_the_state_is_refused(tmp_path):
    """Else it would train from scratch under the params of another."""
    trained(tmp_path / "donor", lr=0.01, weight=5.0, epochs=1)
    trained(tmp_path / "own", lr=1.0, weight=-1.0, epochs=1)
    Checkpoints(tmp_path / "own/checkpoints").adopt(0, tmp_path / "donor/checkpoints", seed=3)
    run = Run(metric=LOSS, directory=tmp_path / "own", epochs=2)
    text = r"continues from the state of another trial, .* call run\.restore"
    with pytest.raises(RunError, match=text), run:
        for _ in run.epochs():
            run.log(loss=1.0)


def test_nothing_donated_is_an_error(tmp_path):
    """A directory without a checkpoint is named."""
    with pytest.raises(RecordError, match=f"{tmp_path}: has no checkpoint"):
        Checkpoints(tmp_path / "own").adopt(0, tmp_path, seed=3)
