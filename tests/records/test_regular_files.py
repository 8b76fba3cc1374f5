"""A record is read from a regular file of bounded size; whatever else lies there is named and left alone."""

from __future__ import annotations

import os
import socket

import pytest

from hpometrics.exceptions import RecordError
from hpometrics.records._files import RECORD_LIMIT, Limit, read_lines, read_whole
from hpometrics.records.epoch_log import EPOCHS_FILE, EpochLog, read_epochs
from hpometrics.records.trial_record import EpochRecord

SMALL = Limit("a sample", 8, 4, "write less")


@pytest.fixture
def path(tmp_path):
    """The place of a file."""
    return tmp_path / "file"


def test_a_file_is_read_as_it_is(path):
    """Whole, or by lines with their ends, up to the limit itself."""
    path.write_bytes(b"abc\n12\n3")
    assert read_whole(path, SMALL) == b"abc\n12\n3"
    assert list(read_lines(path, SMALL)) == [b"abc\n", b"12\n", b"3"]


@pytest.mark.parametrize("read", [read_whole, lambda path, limit: list(read_lines(path, limit))])
def test_a_file_that_is_too_large_names_its_limit(path, read):
    """With the size that came, and what to do."""
    path.write_bytes(b"123456789")
    text = r"file: has 9 bytes, but the limit for a sample is 8; move it away .*, otherwise write less"
    with pytest.raises(RecordError, match=text):
        read(path, SMALL)


def test_a_line_that_is_too_long_names_its_limit(path):
    """What is read one line at a time has no limit in all."""
    path.write_bytes(b"123\n" * 5 + b"1234\n")
    with pytest.raises(RecordError, match="has a line of more than 4 bytes, but the limit for a sample"):
        list(read_lines(path, Limit("a sample", None, 4, "write less")))


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="it has no pipes in directories")
def test_what_is_no_file_is_named(path, monkeypatch):
    """Nothing is waited for."""
    os.mkfifo(path)
    with pytest.raises(RecordError, match="file: is a pipe, not a file; move it away"):
        read_whole(path)
    path.unlink()
    path.mkdir()
    with pytest.raises(RecordError, match="file: is a directory, not a file"):
        read_whole(path)
    path.rmdir()
    monkeypatch.chdir(path.parent)  # the name of a socket is short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path.name)
        with pytest.raises(RecordError, match="file: is a socket, not a file"):
            read_whole(path)


def test_a_link_is_followed_where_the_user_has_named_it(path):
    """A link that escapes of a terminal lead to shows them."""
    target = path.with_name("the\x1b[2Jother")
    target.write_text("mine")
    path.symlink_to(target)
    assert read_whole(path, follow=True) == b"mine"
    with pytest.raises(RecordError, match=r"file: is a symbolic link to .*the\\x1b\[2Jother; a"):
        read_whole(path)
    with pytest.raises(FileNotFoundError):
        read_whole(path.with_name("none"), RECORD_LIMIT)


def test_long_trials_are_read(tmp_path):
    """A thousand epochs of five hundred values."""
    log = EpochLog(tmp_path, fsync="trial")
    values = {f"a_metric_of_some_class_{number}": number / 7 for number in range(500)}
    for epoch in range(1000):
        log.append(EpochRecord(epoch, values))
    log.close()
    assert (tmp_path / EPOCHS_FILE).stat().st_size > 15 << 20
    assert len(read_epochs(tmp_path)) == 1000
