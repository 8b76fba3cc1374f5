from __future__ import annotations

from hpometrics.messages import did_you_mean, one_line, printable


def test_the_nearest_name_is_proposed():
    """And nothing where none is near."""
    assert did_you_mean("trian", ["train", "other"]) == "; did you mean 'train'?"
    assert did_you_mean("xyz", ["train"]) == did_you_mean(3, []) == ""


def test_an_error_becomes_one_line():
    """Its type where it has no text."""
    assert one_line(ValueError("a\n  b\t\x1b[31m")) == r"a b \x1b[31m"
    assert one_line(KeyError()) == "KeyError"


def test_what_would_steer_a_terminal_is_escaped():
    """Letters of any script stay."""
    assert printable("é\x07\u202e") == r"é\x07\u202e"
