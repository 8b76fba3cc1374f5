from __future__ import annotations

import math
import sys

import pytest
from event_files import events_of, params_of, scalars_of

from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import MissingExtraError
from hpometrics.loggers.tensorboard import Tags
from hpometrics.run import Reported, Run

LOSS = Reported("loss", MINIMIZE)


def test_every_value_has_a_tag_and_every_epoch_a_step(tmp_path):
    """`metric/setting` with the task in front; a nan is a point too; the value that counts is beside them."""
    with Run(metric=LOSS, directory=tmp_path, loggers=["tensorboard"]) as run:
        for epoch in run.epochs(3):
            run.log(loss=[0.5, math.nan, 0.25][epoch], **{"convai2/loss": 1.0, "train:hits@1": 0.75})
    scalars = scalars_of(tmp_path)
    assert scalars.keys() == {"loss/valid", "convai2/loss/valid", "hits_1/train", "loss/picked"}
    assert [step for step, _ in scalars["loss/valid"]] == [0, 1, 2]
    assert math.isnan(scalars["loss/valid"][1][1])
    assert scalars["loss/picked"] == [(0, 0.5), (1, 0.5), (2, 0.25)]
    assert scalars["hits_1/train"] == [(0, 0.75), (1, 0.75), (2, 0.75)]


def test_params_are_there_before_the_run_ends(tmp_path):
    """Numbers, text and truth values as they are, what is more complex as its JSON."""
    params = {"lr": 0.1, "deep": True, "name": "adam", "widths": [8, 16], "none": None}
    with Run(metric=LOSS, directory=tmp_path, params=params, loggers=["tensorboard"]) as run:
        for epoch in run.epochs(2):
            if epoch == 1:
                told = params_of(tmp_path)
            run.log(loss=0.5)
    assert told == {"lr": 0.1, "deep": True, "name": "adam", "widths": "[8, 16]", "none": "null"}


def test_an_epoch_is_in_the_file_when_the_next_begins(tmp_path):
    """Whoever watches a run need not wait for its end."""
    with Run(metric=LOSS, directory=tmp_path, loggers=["tensorboard"]) as run:
        for epoch in run.epochs(3):
            assert epoch == 0 or len(scalars_of(tmp_path)["loss/valid"]) == epoch
            run.log(loss=0.5)


def test_two_names_never_share_a_tag():
    """A name that is its tag keeps it, in whatever order they come; a later epoch changes no tag."""
    tags = Tags()
    first = tags.of(["hits@1", "hits_1", "hits(1"])
    assert first == {"hits_1": "hits_1/valid", "hits(1": "hits_1_2/valid", "hits@1": "hits_1_3/valid"}
    assert tags.of(["hits_1_2", "hits@1"]) == {"hits_1_2": "hits_1_2_2/valid", "hits@1": "hits_1_3/valid"}


def test_a_title_is_the_name_as_it_was(tmp_path):
    """The tag had to change, the title need not."""
    with Run(metric=LOSS, directory=tmp_path, loggers=["tensorboard"]) as run:
        for _ in run.epochs(1):
            run.log(loss=0.5, **{"f1(average=macro)": 0.25})
    titles = {v.tag: v.metadata.display_name for event in events_of(tmp_path) for v in event.summary.value}
    assert titles["f1_average_macro_/valid"] == "f1(average=macro)/valid"


def test_a_missing_package_is_an_error_before_the_first_epoch(tmp_path, monkeypatch):
    """With the line that installs it; the directory stays free for the next run."""
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(MissingExtraError, match=r"pip install tensorboardX") as refused:
        Run(metric=LOSS, directory=tmp_path, loggers=["tensorboard"])
    assert refused.traceback and not list(tmp_path.iterdir())
    Run(metric=LOSS, directory=tmp_path).close()
