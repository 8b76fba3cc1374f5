from __future__ import annotations

import sys

import pytest

from hpometrics import ConfigError
from hpometrics._imports import Kind, import_target, is_target

FUNCTION = Kind("function", callable)
NUMBER = Kind("number", lambda found: isinstance(found, int))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a module, not yet on the import path."""
    code = "from textwrap import dedent\nSIZE = 3\n_HIDDEN = 4\ndef train(params, run): ...\n"
    (tmp_path / "targets_of_mine.py").write_text(code)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield str(tmp_path)
    sys.modules.pop("targets_of_mine", None)


def test_a_target_is_imported_from_the_folders_given(folder):
    """In front of the import path, once."""
    assert import_target("targets_of_mine:SIZE", NUMBER, [folder]) == 3
    assert import_target("targets_of_mine:train", FUNCTION, [folder, folder]).__name__ == "train"
    assert sys.path.count(folder) == 1 and sys.path[0] == folder


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("targets_of_mine:trian", "targets_of_mine has no 'trian'; did you mean 'train'"),
        ("targets_of_mine:xyz", "targets_of_mine has no 'xyz'; targets_of_mine has train$"),
        (
            "targets_of_mine:SIZE",
            "targets_of_mine:SIZE is an int, not a function; targets_of_mine has train$",
        ),
        ("targets_of_mine", "'targets_of_mine' is not a target; write package.module:Name"),
        ("no_such_module:train", "importing no_such_module failed: ModuleNotFoundError"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(target, message, folder):
    """Of the module's own names those that would do, not what it imports."""
    with pytest.raises(ConfigError, match=message):
        import_target(target, FUNCTION, [folder])


def test_an_error_of_the_module_is_told_in_one_line(folder, tmp_path):
    """Whatever it is."""
    (tmp_path / "breaks_when_imported.py").write_text("raise ValueError('a\\nb')\n")
    with pytest.raises(ConfigError, match=r"importing breaks_when_imported failed: ValueError: a b$"):
        import_target("breaks_when_imported:x", FUNCTION, [folder])


@pytest.mark.parametrize("text", ["a:b", "a.b_1:C"])
def test_the_grammar_of_targets(text):
    """A module's path, a colon, a name; nothing of Python's own."""
    assert is_target(text)
    assert not any(map(is_target, (text[1:], f"{text}.c", f"{text}__class__", f"{text}()", text[:-2])))


def test_a_function_of_other_arguments_is_refused_by_its_arguments(folder):
    """`train(params, run)` is what it must accept."""
    kind = Kind("function train(params, run)", lambda found: False, "train(params, run)")
    with pytest.raises(ConfigError, match=r"^targets_of_mine:train must accept two arguments: train\(params"):
        import_target("targets_of_mine:train", kind, [folder])
