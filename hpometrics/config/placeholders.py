"""The placeholders of a sweep file: `${env:NAME}` anywhere, and those of a program's command.

`{lr}`, `{args}` and W&B's `${args}` in a command are filled in for each trial. Each argument stays one
argument, whatever a value holds: no shell reads it. Braces around anything that is not a name, as in JSON or
`{}`, stand for themselves, and `{{lr}}` is the text `{lr}`.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._redaction import hide, is_secret, mask_secrets
from .._text import did_you_mean
from ..backends.registry import BACKENDS
from ..exceptions import ConfigError
from .document import MAX_BYTES, PROGRAM, Document, Path as Place
from .yaml_text import ScalarError, read_plain

_INTERPRETER = re.compile(r"python|pypy|Rscript|julia|node|bash|sh$|perl|ruby")
_SCRIPTS = (".py", ".R", ".r", ".jl", ".js", ".mjs", ".sh", ".pl", ".rb")
PARAMS_FILE = "params.json"
CHECKPOINT = "checkpoint"

_NAME = r"[^\W\d][\w./@+-]*"
_TOKEN = re.compile(
    rf"\{{\{{(?P<text>{_NAME})\}}\}}"
    r"|\$\{envvar:(?P<variable>\w+)\}"
    r"|\$\{(?P<macro>\w+)\}"
    rf"|\{{(?P<name>{_NAME})\}}"
)
_OPTION = re.compile(rf"(?:[^={{}}]*=)?\{{(?P<name>{_NAME})\}}")


@dataclass(frozen=True)
class Filling:
    """The values that a trial gives to the placeholders.

    Args:
        params: the params of the trial.
        seed: its seed.
        directory: its directory, absolute.
    """

    params: Mapping[str, Any]
    seed: int | None
    directory: Path

    @property
    def params_file(self) -> Path:
        """The file of the params, as JSON."""
        return self.directory / PARAMS_FILE

    @property
    def checkpoint(self) -> Path:
        """The path at which the program may keep its checkpoint, a file or a directory."""
        return self.directory / CHECKPOINT

    @property
    def by_name(self) -> dict[str, Any]:
        """The values of the params by dotted names, without secrets."""
        return split_params(self.params)[0]


_ENVIRONMENT = re.compile(r"\$\{env:(?:(?P<name>[A-Za-z_][A-Za-z0-9_]*)\})?")
_PARAMS = ("engine", "params")
_COMMANDS = (("engine", "command"), ("engine", "program"), ("on_end",))
_PLACES = (
    *(_PARAMS, *_COMMANDS, ("engine", "metrics_from"), ("results", "loggers")),
    *(("backend", name) for name, entry in BACKENDS.items() if not entry.has_points),
)
"""Where files keep the placeholder; elsewhere they hold the value, because results are read by it."""


def fill_environment(document: Document) -> dict[str, Any]:
    """Return the data of a document with the variables of the environment in place of `${env:NAME}`.

    A value that is nothing else is read as if it stood in the file, so that it may be a number. Where files
    keep the placeholder, the text of the variable is a secret, which `redacted` hides from now on; but for
    `engine.params`, whose values are those of the trials. A missing variable is a problem of the document.
    """
    room = MAX_BYTES

    def text_of(match: re.Match[str], path: Place) -> str:
        nonlocal room
        if match["name"] is None:
            raise ConfigError("write an environment variable as ${env:NAME}")
        value = _variable(match["name"], match[0])
        room -= len(value)
        if room < 0:
            raise ConfigError("the variables that this file names are larger than 1 MiB in total")
        if any("\ud800" <= char <= "\udfff" for char in value):
            raise ConfigError(f"the variable {match['name']} is not text in UTF-8")
        if _has_placeholder(path) and path[:2] != _PARAMS:
            hide(value)
        return value

    def fill(value: Any, path: Place) -> Any:
        if isinstance(value, dict):
            return {key: fill(one, (*path, key)) for key, one in value.items()}
        if isinstance(value, list):
            return [fill(one, (*path, index)) for index, one in enumerate(value)]
        if not isinstance(value, str) or "${env:" not in value:
            return value
        try:
            text = _ENVIRONMENT.sub(lambda match: text_of(match, path), value)
            is_word = any(path[: len(command)] == command for command in _COMMANDS)
            is_whole = _ENVIRONMENT.fullmatch(value) is not None and not is_word
            return read_plain(text) if is_whole else text
        except ScalarError:
            text = f"{value} is outside the supported range; whole numbers have 64 bits, others are finite"
        except ConfigError as err:
            text = str(err)
        document.add(path, text)
        document.broken.add(path)
        return None

    return {key: fill(value, (key,)) for key, value in document.data.items()}


def _has_placeholder(path: Place) -> bool:
    return any(path[: len(place)] == place for place in _PLACES)


def keep_placeholders(config: dict[str, Any], data: Any, path: Place = ()) -> None:
    """Restore the placeholders of the environment in a config, where files keep them.

    Args:
        config: the config, which is changed.
        data: the data of the file, or the part of it at the path.
        path: a path in both.
    """
    for key, value in data.items() if isinstance(data, dict) else enumerate(data):
        inner = (*path, key)
        if isinstance(value, (dict, list)):
            keep_placeholders(config, value, inner)
        elif isinstance(value, str) and "${env:" in value and _has_placeholder(inner):
            _put(config, inner, value)


def _put(config: Any, path: Place, text: str) -> None:
    """Replace the text at a path, or any value of the fixed params."""
    *parents, last = path
    try:
        for key in parents:
            config = config[key]
        if isinstance(config[last], str) or path[:2] == _PARAMS:
            config[last] = text
    except (KeyError, IndexError, TypeError):
        return  # the config has the value in another form


def split_params(params: Mapping[str, Any], front: str = "") -> tuple[dict[str, Any], list[str]]:
    """Return the values of params by dotted names, and the names of those that hold a secret.

    >>> split_params({"optimizer": {"lr": 0.1, "key": {"secret": "HUB_TOKEN"}}, "layers": [2]})
    ({'optimizer.lr': 0.1, 'layers': [2]}, ['optimizer.key'])
    """
    values: dict[str, Any] = {}
    secrets: list[str] = []
    for key, value in params.items():
        name = f"{front}{key}"
        if isinstance(value, Mapping) and value and not is_secret(value):
            inner, hidden = split_params(value, f"{name}.")
            values |= inner
            secrets += hidden
        elif mask_secrets(value) != value:
            secrets.append(name)
        else:
            values[name] = value
    return values, secrets


def _args(filling: Filling) -> list[str]:
    values = filling.by_name
    return [f"--{name}={format_value(value)}" for name, value in values.items() if value is not None]


def _args_no_hyphens(filling: Filling) -> list[str]:
    return [f"{name}={format_value(value)}" for name, value in filling.by_name.items()]


def _args_boolean_flags(filling: Filling) -> list[str]:
    values = filling.by_name.items()
    return [
        f"--{name}" if value is True else f"--{name}={format_value(value)}"
        for name, value in values
        if value is not None and value is not False
    ]


def _wandb_args(front: str) -> Callable[[Filling], list[str]]:
    """Return a writer of W&B's arguments, which have values as Python prints them."""
    return lambda filling: [f"{front}{name}={value}" for name, value in filling.by_name.items()]


def _wandb_pairs(filling: Filling) -> list[str]:
    return [part for name, value in filling.by_name.items() for part in (f"--{name}", str(value))]


def _wandb_flags(filling: Filling) -> list[str]:
    return [
        f"--{name}" if value is True else f"--{name}={value}"
        for name, value in filling.by_name.items()
        if value is not False
    ]


_LISTS: Mapping[str, Callable[[Filling], list[str]]] = {
    "args": _args,
    "args_no_hyphens": _args_no_hyphens,
    "args_boolean_flags": _args_boolean_flags,
}
"""Placeholders for several arguments, each of which is a whole argument itself."""
_TEXTS: Mapping[str, Callable[[Filling], str]] = {
    "params_file": lambda filling: str(filling.params_file),
    "seed": lambda filling: "" if filling.seed is None else str(filling.seed),
    "dir": lambda filling: str(filling.directory),
    "checkpoint": lambda filling: str(filling.checkpoint),
}
_MACRO_LISTS: Mapping[str, Callable[[Filling], list[str]]] = {
    "args": _wandb_args("--"),
    "args_no_hyphens": _wandb_args(""),
    "args_no_boolean_flags": _wandb_flags,
    "args_no_equals": _wandb_pairs,
    "args_append_hydra": _wandb_args("+"),
    "args_override_hydra": _wandb_args("++"),
}
_MACRO_TEXTS: Mapping[str, Callable[[Filling], str]] = {
    "args_json": lambda filling: json.dumps(filling.params),
    "args_json_file": lambda filling: str(filling.params_file),
    "env": lambda filling: "/usr/bin/env",
    "interpreter": lambda filling: sys.executable or "python",
}
_FRONT = ("${env}", "${interpreter}")
MACROS = (*_MACRO_LISTS, *_MACRO_TEXTS, "program")
"""W&B's placeholders that have the same meaning here."""


def format_value(value: Any) -> str:
    """Return a param as an argument: a text as it is, all else as compact JSON.

    >>> [format_value(value) for value in ("a b", 0.02, True, None, [64, "x"])]
    ['a b', '0.02', 'true', 'null', '[64,"x"]']
    """
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def fill(command: Iterable[str], filling: Filling) -> list[str]:
    """Return the arguments of a command for one trial.

    An argument that is one param, `{momentum}` or `--momentum={momentum}`, is left out if the trial does not
    have it, because of its `when`, or if it is null. Within other text both are `null`.

    Raises:
        ConfigError: the environment has no variable of that name.
    """
    values = filling.by_name
    return [argument for part in command for argument in _fill_part(part, filling, values)]


def fill_text(text: str, filling: Filling) -> str:
    """Return a text, such as a path, with its placeholders filled in."""
    values = filling.by_name
    return _TOKEN.sub(lambda match: _fill_token(match, filling, values), text)


def _fill_part(part: str, filling: Filling, values: Mapping[str, Any]) -> list[str]:
    whole = _TOKEN.fullmatch(part)
    if whole is not None:
        macro, name = whole["macro"], whole["name"]
        if macro in _MACRO_LISTS:
            return _MACRO_LISTS[macro](filling)
        if name in _LISTS and name not in values:
            return _LISTS[name](filling)
    last = _OPTION.fullmatch(part)
    is_param = last is not None and (last["name"] in values or last["name"] not in _TEXTS)
    if last is not None and is_param and values.get(last["name"]) is None:
        return []
    return [_TOKEN.sub(lambda match: _fill_token(match, filling, values), part)]


def _fill_token(match: re.Match[str], filling: Filling, values: Mapping[str, Any]) -> str:
    text, variable, macro, name = match["text"], match["variable"], match["macro"], match["name"]
    if text is not None:
        return f"{{{text}}}"
    if variable is not None:
        return _variable(variable, match[0])
    if macro is not None:
        return _MACRO_TEXTS[macro](filling) if macro in _MACRO_TEXTS else match[0]
    if name in values or name not in _TEXTS:
        return format_value(values.get(name))
    return _TEXTS[name](filling)


def _variable(name: str, placeholder: str) -> str:
    value = os.environ.get(name)
    if value is None:
        raise ConfigError(
            f"the environment variable {name}, which {placeholder} stands for, is not set; export it"
        )
    return value


def check_environment(command: Iterable[str]) -> None:
    """Check that the environment has every variable that a command names.

    Raises:
        ConfigError: it lacks one.
    """
    for part in command:
        for match in _TOKEN.finditer(part):
            if match["variable"] is not None:
                _variable(match["variable"], match[0])


def program_of(command: Sequence[str]) -> Sequence[str]:
    """Return a command from its program on, without `${env}` and `${interpreter}` in front of it.

    >>> program_of(["${env}", "${interpreter}", "train.py", "${args}"])
    ['train.py', '${args}']
    """
    first = next((index for index, part in enumerate(command) if part not in _FRONT), 0)
    return command[first:]


def program_path() -> str:
    """Return the PATH of a program, by which `python` is the one that runs hpometrics.

    The folder of that interpreter comes first, unless it is in PATH or another environment is activated.
    """
    path = os.environ.get("PATH", os.defpath)
    home = os.path.dirname(sys.executable or "")
    is_activated = any(os.environ.get(name) for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
    if not home or is_activated or home in map(os.path.normpath, path.split(os.pathsep)):
        return path
    return os.pathsep.join((home, path))


def check_program(command: Sequence[str], folder: Path) -> None:
    """Check that there is a program to run, and a script if an interpreter runs one.

    Args:
        command: the command; a program with placeholders is not checked.
        folder: the folder in which it runs.

    Raises:
        ConfigError: there is none.
    """
    runs_python = "${interpreter}" in command[:2]
    program, *arguments = [*[sys.executable or "python"] * runs_python, *program_of(command)]
    if _TOKEN.search(program):
        return
    own = Path(folder, program)
    if os.sep in program and own.exists() and not (own.is_file() and os.access(own, os.X_OK)):
        raise ConfigError(
            f"{program!r} is not executable; run it with its interpreter, or run chmod +x on it"
        )
    if not (own.exists() if os.sep in program else shutil.which(program, path=program_path())):
        place = f"in {folder}" if os.sep in program else "in the folders of PATH"
        hint = f"; there is {own}, which is ./{program}" if os.sep not in program and own.is_file() else ""
        raise ConfigError(f"cannot find the program {program!r} {place}{hint}")
    script = arguments[0] if arguments else ""
    is_script = script.endswith(_SCRIPTS) and not script.startswith("-") and not _TOKEN.search(script)
    if _INTERPRETER.match(Path(program).name) and is_script and not Path(folder, script).exists():
        raise ConfigError(
            f"cannot find the script {script!r} in {folder}; copy it there, or write its path from there"
        )


def placeholders(text: str) -> Iterator[str]:
    """Yield the name of each placeholder `{name}` of a text."""
    yield from (match["name"] for match in _TOKEN.finditer(text) if match["name"] is not None)


def passes_params(command: Iterable[str], params: Iterable[str]) -> bool:
    """Return whether a command passes at least one of these params to its program, or the file of all."""
    names = {*params, *_LISTS, "params_file", "dir"}
    macros = {*_MACRO_LISTS, "args_json", "args_json_file"}
    matches = (match for part in command for match in _TOKEN.finditer(part))
    return any(match["name"] in names or match["macro"] in macros for match in matches)


def objections(
    parts: Sequence[str], params: Iterable[str], secrets: Iterable[str] = (), whole: bool = True
) -> Iterator[tuple[int, str]]:
    """Yield the problems of the placeholders of a command, each with the index of its part.

    Args:
        parts: the command, or paths.
        params: the params that a trial may have, by dotted names.
        secrets: the names of those that are secrets.
        whole: whether a part may become several arguments.
    """
    names, hidden = tuple(params), frozenset(secrets)
    for index, part in enumerate(parts):
        for match in _TOKEN.finditer(part):
            text = _objection(match, part if whole else "", names, hidden, first=not index)
            if text is not None:
                yield index, text


def _objection(
    match: re.Match[str], part: str, params: tuple[str, ...], secrets: frozenset[str], first: bool
) -> str | None:
    macro, name = match["macro"], match["name"]
    alone = match[0] == part
    if match[0] == PROGRAM:
        return None if part else "${program} stands only in engine.command; write the path of the program"
    if macro is not None and macro not in MACROS:  # a variable of a shell, or a slip
        near = did_you_mean(macro, MACROS)
        return (
            f"${{{macro}}} is not a placeholder{near}; write ${{{{{macro}}}}} for the text" if near else None
        )
    if macro in _MACRO_LISTS or (name in _LISTS and name not in params):
        if not alone:
            text = f"{match[0]} expands to several arguments"
            return f"{text}; make it a separate argument" if part else text
        return (
            f"{match[0]} comes after the program, as in [python, train.py, '{match[0]}']" if first else None
        )
    if name in secrets:
        return (
            f"{match[0]} is a secret, and other users of the machine can see arguments; let the program "
            "read the variable from its environment"
        )
    if name is None or name in params or name in _LISTS or name in _TEXTS:
        return None
    choices = [*params, *_LISTS, *_TEXTS]
    of_wandb = [f"${{{macro}}}" for macro in MACROS if macro == name]
    near = did_you_mean(match[0], of_wandb) or did_you_mean(name, choices)
    near = near or f"; it is none of {', '.join(choices)}"
    return f"{match[0]} is not a param of the sweep or a placeholder{near}; write {{{match[0]}}} for the text"
