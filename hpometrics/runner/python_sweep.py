"""A sweep described in Python: the keys of a sweep file as arguments, run as `hpometrics run` does."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from numbers import Integral, Real
from pathlib import Path, PurePath
from typing import Any, Self

from pydantic import BaseModel

from .._imports import code_of, is_local, is_target, not_importable
from .._text import did_you_mean, printable_lines, slug_of
from ..config import models
from ..config.document import Document, Mark, Problem, SweepFileError
from ..config.engine_section import Engine
from ..config.metric_section import anything, nothing
from ..config.overrides import override, read_layers, set_workers
from ..config.plan import make_plan
from ..config.space_section import form_of
from ..config.yaml_text import dump_yaml, flow_yaml
from ..exceptions import ConfigError, HpometricsError
from ..metrics.features import parse_feature
from ..results.run_directory import RunDirectory
from ..results.stamp import is_finished, question_of
from ..results.status import opening
from ..results.summary import overview, overview_text
from ..results.sweep_result import SweepResult
from ..space.dimensions import Dimension, Value
from ..space.space import Space
from ..space.values import named_fields, plain_config
from .signals import check_posix

_SECTIONS: Mapping[str, type[BaseModel]] = {
    "engine": Engine,
    "results": models.Results,
    "budget": models.Budget,
    "search": models.Search,
    "metrics": models.Metrics,
}
PLACES: Mapping[str, str] = {
    **{
        key: f"{name}.{field.alias or key}"
        for name, model in _SECTIONS.items()
        for key, field in model.model_fields.items()
    },
    **{key: key for key in models.Draft.model_fields if key not in ("version", "include", *_SECTIONS)},
    "train": "engine.target",
    "metric": "metrics.optimize",
    "directory": "results.dir",
    "workers": "backend",
}
"""The key of a sweep file for each argument; `seed` is that of the search, `target` that of the budget."""


class Sweep:
    """A sweep described in Python. It leaves the run directory of a sweep file, which all commands read.

    `run` resumes an earlier run of the same sweep, even in another process.

    Args:
        train: `train(params, run)`, or its place `module:function`; None with `choice`, several places.
        space: a `Space` or the mapping of one; a dimension may also be written as in a sweep file. `space`
            and `params` may be a config of OmegaConf or a dataclass.
        metric, track, constraints: the metric to optimize, or several; others to record; bounds on values.
        output: what the engine predicts; several by name.
        trials, epochs: the total number of trials, and the most epochs of one.
        sampler, pruner, seed: the search, as in the section `search` of a sweep file. A sampler object cannot
            be written down; pass it to `OptunaObjective`.
        warm_start: earlier sweeps to learn from, as `from` in that section.
        confirm: whether the best trials are trained again until the winner is decided: true, or a mapping.
        backend, workers: `optuna`, `ray` or a mapping as in a sweep file; the number of trials at a time.
        name: the name of the sweep; that of the function unless given.
        directory: the run directory; `runs/{name}` unless given.
        settings: any other key of `engine`, `metrics`, `search`, `budget` or `results` in a sweep file, such
            as `params`, `at`, `patience`, `time` and `report`. Also `tags`, `note` and `on_end`.

    Raises:
        SweepFileError: anything is wrong; it names the argument of each problem.
    """

    def __init__(
        self,
        train: Any = None,
        space: Any = None,
        *,
        metric: Any = None,
        track: Sequence[Any] | None = None,
        constraints: Sequence[str] | None = None,
        output: Any = None,
        trials: int | None = None,
        epochs: int | None = None,
        sampler: str | Mapping[str, Any] | None = None,
        pruner: str | Mapping[str, Any] | None = None,
        seed: int | None = None,
        warm_start: Any = None,
        confirm: bool | Mapping[str, Any] | None = None,
        backend: str | Mapping[str, Any] | None = None,
        workers: int | None = None,
        name: str | None = None,
        directory: Path | str | None = None,
        **settings: Any,
    ) -> None:
        target, home = _place_of(train)
        self._train = _local_of(train)
        name = name or slug_of(target.rpartition(":")[2]) or "sweep"
        document = Document(str(home / f"{name}.yaml"), marks={(): Mark("Sweep()", 0, 0)})
        engine = {"name": name, "train": train, "output": output, "space": space}
        metrics = {"metric": metric, "track": track, "constraints": constraints}
        search = {"sampler": sampler, "pruner": pruner, "seed": seed, "warm_start": warm_start}
        budget = {"trials": trials, "epochs": epochs, "confirm": confirm}
        place = {"backend": backend, "workers": workers, "directory": directory}
        _fill(document, engine | metrics | search | budget | place | settings)
        document.text = dump_yaml(document.data)
        self._plan = make_plan(document, registers=anything if isinstance(train, str | None) else nothing)

    @classmethod
    def from_file(cls, file: Path | str, **settings: Any) -> Self:
        """Create the sweep of a sweep file.

        Args:
            file: the YAML file.
            settings: arguments of `Sweep` that replace what the file says.

        Raises:
            SweepFileError: anything is wrong.
        """
        document = read_layers(Path(file))
        _fill(document, settings)
        sweep = cls.__new__(cls)
        sweep._train = _local_of(settings.get("train"))
        sweep._plan = make_plan(document, registers=anything)
        return sweep

    def __repr__(self) -> str:
        return f"Sweep({self._plan.name!r}, in {self.directory})"

    @property
    def directory(self) -> Path:
        """The run directory."""
        return self._plan.directory

    def check(self) -> None:
        """Print what the sweep would do, as `hpometrics check` does; nothing is called."""
        lines = list(overview(self._plan, RunDirectory(self.directory).count_finished()))
        print(overview_text(lines, "ok: nothing was run. Run it with: run()"))

    def to_yaml(self) -> str:
        """Return the sweep file, which `hpometrics run` runs to the same trials.

        Raises:
            ConfigError: no process can import the engine.
        """
        if self._train is not None:
            raise not_importable(str(self._plan.config.engine.target))
        return dump_yaml(self._plan.document.data)

    def run(self, *, progress: bool = True, fresh: bool = False, extend: bool = False) -> SweepResult:
        """Run the sweep, or go on with it, up to the trials of its budget; a finished one trains nothing.

        Args:
            progress: whether to print a line per trial to stderr; a terminal and a notebook have a live line.
            fresh: put the results of earlier runs aside and start over.
            extend: go on although the space or the engine has changed.

        Raises:
            RunError: the engine fails in each trial, or as often as `failures` allows.
            KeyboardInterrupt: the user interrupted it; the next call goes on.
            HpometricsError: something else is wrong; it is raised before the first trial.
        """
        check_posix("Sweep.run")
        home = RunDirectory(self.directory)
        code = "" if self._train is None else code_of(self._train)
        if fresh or extend or not is_finished(home, question_of(self._plan.document, code)):
            from .sweep import Options, run_command  # with torch

            run_command(self._plan, Options(fresh, extend, not progress, python=True), self._train)
        elif progress:
            line = opening(home, home.read(), home.records())
            print(printable_lines(line), file=sys.stderr, flush=True)
        return SweepResult.read(self.directory)


def _place_of(train: Any) -> tuple[str, Path]:
    """Return the target of an engine, and the folder from which any process imports it.

    The target of an engine that no other process can import is in `__main__`.
    """
    if train is None or isinstance(train, str):
        return train or "", Path.cwd()
    name, qualified = getattr(train, "__module__", None), getattr(train, "__qualname__", "")
    target, module = f"{name}:{qualified}", sys.modules.get(str(name))
    file = getattr(module, "__file__", None)
    if is_target(target) and file is not None and getattr(module, qualified, None) is train:
        path = Path(file).resolve().with_suffix("")
        parts = str(name).split(".") + ["__init__"] * (path.name == "__init__")
        if list(path.parts[-len(parts) :]) == parts:
            return target, path.parents[len(parts) - 1]
    own = getattr(train, "__name__", type(train).__name__)  # a lambda's is no name
    local = f"__main__:{own}"
    return local if is_local(local) else "__main__:train", Path.cwd()


def _local_of(train: Any) -> Callable[..., Any] | None:
    """Return an engine that no other process can import; None for any other."""
    return train if not isinstance(train, str) and is_local(_place_of(train)[0]) else None


def _fill(document: Document, arguments: Mapping[str, Any]) -> None:
    """Set the keys of a document by arguments; None leaves a key as it is.

    Raises:
        SweepFileError: an argument is not known, or is nothing that a sweep file can hold.
    """
    for name, value in arguments.items():
        if name not in PLACES:
            hint = "; pass it to run(progress=...)" if name == "progress" else did_you_mean(name, PLACES)
            raise _problem(name, f"unknown key {name!r}{hint}")
        if value is None:
            continue
        source = f"Sweep({name}=)"
        try:
            plain = _FORMS.get(name, _plain)(value)
        except (HpometricsError, TypeError) as err:
            raise _problem(name, str(err)) from err
        if name == "workers":
            set_workers(document, plain, source)
        else:
            override(document, [f"{PLACES[name]}={flow_yaml(plain)}"], source)


def _problem(name: str, text: str) -> SweepFileError:
    return SweepFileError([Problem(Mark(f"Sweep({name}=)", 0, 0), (), text)])


def _plain(value: Any) -> Any:
    """Return a value as a sweep file can hold it.

    Raises:
        TypeError: it cannot hold it.
    """
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        return [_plain(one) for one in value]
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, type):
        return f"{value.__module__}:{value.__qualname__}"
    if value is None or isinstance(value, (bool, str, PurePath)):
        return str(value) if isinstance(value, PurePath) else value
    if isinstance(value, Real):  # NumPy's too
        return int(value) if isinstance(value, Integral) else float(value)
    raise TypeError(
        f"expected text, numbers, true or false, or lists and mappings of these, got {type(value).__name__}"
    )


def _plain_space(space: Any) -> Any:
    dimensions = space.dimensions if isinstance(space, Space) else named_fields(space)
    if not isinstance(dimensions, Mapping):
        return _plain(dimensions)
    return {name: _plain_dimension(one) for name, one in dimensions.items()}


def _plain_dimension(dimension: Any) -> Any:
    if dimension is None:  # a constant; a file writes it as a value, because an empty key may be a slip
        return form_of(Value(None))
    return _plain(form_of(dimension) if isinstance(dimension, Dimension) else plain_config(dimension))


def _plain_output(output: Any) -> Any:
    if isinstance(output, Mapping):
        return {name: _plain_output(one) for name, one in output.items()}
    if isinstance(output, str):
        return output
    feature = parse_feature(output)
    if parse_feature(str(feature)) != feature:
        raise ConfigError(
            "a sweep file cannot contain its side data; state the output with @engine(output=...)"
        )
    return str(feature)


_FORMS = {
    "train": lambda train: _place_of(train)[0],
    "space": _plain_space,
    "params": lambda params: _plain(plain_config(params)),
    "start": lambda points: _plain(plain_config(points)),
    "output": _plain_output,
}
