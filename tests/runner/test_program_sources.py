"""Sources of a program's values, read piece by piece as a program writes them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tensorboardX import SummaryWriter

from hpometrics import Reported, RunSpec
from hpometrics.config.placeholders import Filling
from hpometrics.exceptions import RunError
from hpometrics.runner.programs import sources, tail
from hpometrics.runner.programs.sources import LOG_FILE, Source, make_source
from hpometrics.runner.programs.tail import Tail

SPEC = RunSpec(Reported("accuracy", "maximize"), track=[Reported("loss", "minimize")], defaults=False)


def source_of(folder: Path, first: int = 0, **settings: object) -> Source:
    """The source of a trial in a folder, after so many epochs."""
    return make_source(settings, Filling({}, 7, folder), folder, SPEC, first)


def read(source: Source, last: bool = False, *lines: str) -> list[float]:
    """The accuracy of each epoch that has ended."""
    epochs = [epoch for line in lines for epoch in source.read_line(line)]
    return [epoch.values["accuracy"] for epoch in (*epochs, *source.poll(last))]


def append(path: Path, *lines: str) -> None:
    """Add lines to a file as they are."""
    with path.open("a") as file:
        file.write("".join(lines))


def test_a_row_counts_when_it_is_complete(tmp_path):
    """An epoch ends with its last value, with the next one, or with the program."""
    source, path = source_of(tmp_path, csv="log.csv"), tmp_path / "log.csv"
    assert read(source) == []
    append(path, "Epoch;accuracy;loss\n1;0.5;0.")
    assert read(source) == []
    append(path, "25\n2;0.75;\n")
    assert read(source) == [0.5]
    append(path, "3;0.8")
    assert read(source) == []
    assert read(source, last=True) == [0.75, 0.8]


def test_values_before_the_optimized_one_go_with_it(tmp_path):
    """With a number for the epoch or without; an epoch without an optimized value is none."""
    source = source_of(tmp_path, regex=["loss=(?P<loss>\\S+)", "acc=(?P<accuracy>\\S+)"])
    assert read(source, False, "loss=3", "loss=2", "acc=0.5", "loss=1", "acc=0.75", "other") == [0.5, 0.75]
    source = source_of(tmp_path, jsonl="log.jsonl")
    rows = [{"epoch": 0, "loss": 3}, {"epoch": 1, "loss": 2}, {"epoch": 1, "accuracy": 0.5}]
    append(tmp_path / "log.jsonl", *(f"{json.dumps(row)}\n" for row in rows), "no object\n", "{}\n")
    (epoch,) = source.poll()
    assert epoch.values == {"accuracy": 0.5, "loss": 2.0}


def test_a_file_may_be_written_anew(tmp_path):
    """What it repeats is not read twice, by its numbers or by its place."""
    for header, number in (("epoch,accuracy", "{0},"), ("accuracy", "")):
        path = tmp_path / f"{header}.csv"
        source = source_of(tmp_path, csv=path.name)
        rows = [f"{number.format(epoch)}0.{epoch + 1}\n" for epoch in range(4)]
        append(path, f"{header}\n", *rows[:2])
        first = read(source)
        path.write_text(f"{header},more\n{''.join(rows)}")
        assert first + read(source, last=True) == [0.1, 0.2, 0.3, 0.4]


def test_epochs_behind_the_record_are_read_on_resumption(tmp_path):
    """A program may outlive its sweep for a while; repeated numbers are left out."""
    append(tmp_path / LOG_FILE, *(f'{{"accuracy": 0.{n}}}\n' for n in range(1, 5)))
    source = source_of(tmp_path, first=2)
    assert read(source) == [0.3, 0.4]
    append(tmp_path / LOG_FILE, '{"accuracy": 0.5}\n')
    assert read(source) == [0.5]
    path = tmp_path / "log.csv"
    append(path, "epoch,accuracy,loss\n", *(f"{n},0.{n},1\n" for n in range(1, 5)))
    source = source_of(tmp_path, first=2, csv="log.csv")
    assert read(source) == [0.3, 0.4]
    append(path, "4,0.9,1\n", "5,0.5,1\n")
    assert read(source) == [0.5]
    path.write_text("epoch,accuracy,loss\n5,0.9,1\n6,0.6,1\n")
    assert read(source, last=True) == [0.6]


def test_a_new_attempt_leaves_out_what_is_there(tmp_path):
    """Without a checkpoint a program begins again."""
    append(tmp_path / LOG_FILE, '{"accuracy": 0.5}\n')
    assert read(source_of(tmp_path), last=True) == []
    append(tmp_path / "log.csv", "accuracy\n0.5\n")
    source = source_of(tmp_path, csv="log.csv")
    append(tmp_path / "log.csv", "accuracy\n0.75\n")
    assert read(source, last=True) == [0.75]


def test_scalars_are_read_as_events_are_written(tmp_path):
    """Whatever came before the optimized value goes with it; other events are left out."""
    source = source_of(tmp_path, tensorboard="events")
    assert read(source) == []
    with SummaryWriter(str(tmp_path / "events")) as writer:
        writer.add_text("note", "x", 0)
        for step in (10, 20):
            writer.add_scalar("loss", 9.0, step)
        writer.add_scalar("accuracy", 0.5, 20)
    assert read(source, last=True) == [0.5]
    with SummaryWriter(str(tmp_path / "events"), filename_suffix=".more") as writer:
        writer.add_scalar("accuracy", 0.75, 40)
    source.poll()
    assert read(source, last=True) == [0.75]


def log(folder: Path, name: str, *steps: int) -> None:
    """Write a scalar whose values are its steps, to another file of a folder each time."""
    with SummaryWriter(str(folder), filename_suffix=f".{steps[0]}") as writer:
        for step in steps:
            writer.add_scalar(name, step, step)


def test_folders_may_be_written_at_different_times(tmp_path, monkeypatch):
    """An epoch has the values of its own step; one that is missing for long is left out."""
    monkeypatch.setattr(tail, "_SEARCH_INTERVAL", 0.0)
    train, validation = tmp_path / "events" / "train", tmp_path / "events" / "validation"
    source = source_of(tmp_path, tensorboard="events")
    log(train, "loss", 0, 1, 2)
    assert source.poll() == []
    log(validation, "accuracy", 0, 1, 2, 3)
    assert [one.values for one in source.poll()] == [{"loss": step, "accuracy": step} for step in range(3)]
    log(validation, "accuracy", 4)
    assert source.poll() == []
    monkeypatch.setattr(sources, "_FLUSH_INTERVAL", -1.0)
    assert [one.values for one in source.poll()] == [{"accuracy": 3}]
    assert [one.values for one in source.poll(last=True)] == [{"accuracy": 4}]


@pytest.mark.parametrize("torn", [5, 13, 40])
def test_a_torn_event_is_read_when_it_is_whole(tmp_path, torn):
    """Any byte may be the last that is there."""
    with SummaryWriter(str(tmp_path / "whole")) as writer:
        writer.add_scalar("accuracy", 0.5, 1)
        writer.add_scalar("loss", 0.25, 1)
    (whole,) = (tmp_path / "whole").iterdir()
    content = whole.read_bytes()
    (tmp_path / "events").mkdir()
    path = tmp_path / "events" / whole.name
    source = source_of(tmp_path, tensorboard="events")
    path.write_bytes(content[:-torn])
    assert read(source, last=False) == []
    with path.open("ab") as file:
        file.write(content[-torn:])
    assert read(source) == [0.5]


def test_what_is_not_a_file_is_refused(tmp_path):
    """A program could wait for ever at a pipe."""
    (tmp_path / "log.csv").mkdir()
    with pytest.raises(RunError, match=r"log.csv: is not a file"):
        source_of(tmp_path, csv="log.csv")


def test_a_file_of_the_same_size_has_changed(tmp_path):
    """Its time says so."""
    path = tmp_path / "log.csv"
    path.write_bytes(b"a\n1\n")
    tail = Tail(path, skips=True)
    assert tail.read() == (b"", False)
    path.write_bytes(b"a\n2\n")
    assert tail.read() == (b"a\n2\n", True)
