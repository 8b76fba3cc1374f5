"""Train six epochs in the folder given; the second argument is the epoch in which it kills itself."""

from __future__ import annotations

import math
import os
import signal
import sys

import torch

from hpometrics import Reported, Run


def main(folder: str, last: int | None) -> None:
    """Train; the values are the same in every run."""
    model = torch.nn.Linear(1, 1)
    loss = Reported("loss", "minimize")
    with Run(metric=loss, directory=folder, params={"lr": 0.1}, loggers=["table", "tensorboard"]) as run:
        run.restore(model=model)
        for epoch in run.epochs(6):
            run.log(loss=[0.5, math.nan, 0.25, 0.375, 0.125, 0.1875][epoch], **{"a/loss": epoch / 8})
            if epoch % 2 == 0:
                run.checkpoint(model=model)
            if epoch == last:
                os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
