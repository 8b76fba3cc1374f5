"""The section `backend` of a sweep file: its model, made of the sections of all backends."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    create_model,
    model_serializer,
    model_validator,
)

from .._formatting import plural
from .._redaction import redacted
from ..backends.registry import BACKENDS, DEFAULT, load
from ..exceptions import HpometricsError
from .document import Path
from .fields import Directory, Duration, Params, StorageForm, Strict, nothing_by_name, one_key, wrong
from .gpus import GpusForm, gpu_shares
from .storage_url import known_url, redact_storage


class BackendSection(Strict):
    """The settings of a backend."""

    def facts(self, threads: int) -> str:
        """Return the settings as `check` prints them.

        Args:
            threads: the threads of a trial.
        """
        raise NotImplementedError(f"{type(self).__name__} must say how it runs trials")

    def problems(self) -> Iterator[tuple[Path, str]]:
        """Yield the settings that cannot be used here, each with its path in the section."""
        yield from ()


class OptunaBackend(BackendSection):
    """Trials in processes on this machine, drawn by Optuna."""

    storage: StorageForm = "sqlite"
    """`sqlite` (study.db in the run directory), `journal` (study.journal there), `memory`, or a storage that
    machines share: `postgresql://ada:${PGPASSWORD}@host/database`, `mysql+pymysql://...`, `grpc://host:port`."""
    workers: Annotated[int, Field(ge=1)] = 1
    """Processes that work on trials; `hpometrics worker DIR|URL` adds one at any time."""
    gpus: GpusForm = "auto"
    """How several workers share the GPUs of the machine: `auto` gives each worker its own as far as there are
    enough, `all` lets each see all of them, and a list names the GPUs to divide. CUDA_VISIBLE_DEVICES holds
    the GPUs of a worker."""
    heartbeat: Duration = 15.0
    """The interval at which workers that share only the storage write a heartbeat; after four intervals
    without one the trial of a worker goes on elsewhere."""

    def facts(self, threads: int) -> str:
        """Return the storage, the number of workers and their GPUs."""
        shares = gpu_shares(self.gpus, self.workers)
        gpus = "" if shares is None else f", which see GPU {', '.join(dict.fromkeys(shares))}"
        return f"storage {redact_storage(self.storage)}, {plural(self.workers, 'worker')}{gpus}"

    def problems(self) -> Iterator[tuple[Path, str]]:
        """Yield a storage that workers cannot share, or that this machine cannot open."""
        if self.workers > 1 and self.storage == "memory":
            yield ("storage",), "workers share a storage; memory is one process's own"
        url = known_url(self.storage)
        if url is not None:
            from ..backends.optuna.storage import check_driver  # loads Optuna

            try:
                check_driver(url)
            except HpometricsError as err:
                yield ("storage",), str(err)


def _check_custom(amounts: dict[str, float]) -> dict[str, float]:
    for name in amounts:
        if name.lower() in ("cpu", "gpu"):
            raise wrong(f"{name} is none of the cluster's own; write {name.lower()} beside custom")
    return amounts


class Resources(Strict):
    """The resources of one trial in a Ray cluster."""

    cpu: Annotated[float, Field(gt=0)] | None = None
    """CPU cores; `engine.threads` unless given."""
    gpu: Annotated[float, Field(ge=0)] = 0.0
    """GPUs."""
    custom: Annotated[dict[str, Annotated[float, Field(gt=0)]], AfterValidator(_check_custom)] = Field(
        default_factory=nothing_by_name
    )
    """Other resources of a node, by name: `{TPU: 4}`, or `{memory: 8e9}` in bytes."""

    def of_trial(self, threads: int) -> dict[str, float]:
        """Return all amounts by name; one core per thread unless `cpu` is given."""
        return {"cpu": self.cpu or threads, "gpu": self.gpu, **self.custom}


def _check_address(value: str) -> str:
    if value.startswith("ray://"):
        raise wrong(
            f"{redacted(value)}: through Ray's client the search would run on the head node, away from the "
            "study; run on a machine of the cluster with address: auto, or submit it: "
            "ray job submit -- hpometrics run FILE"
        )
    if value != "auto" and not re.fullmatch(r"[\w.\-\[\]:]+:[0-9]{1,5}", value):
        raise wrong(f"{redacted(value)!r} is not an address of a Ray cluster; write auto, or host:6379")
    return value


Address = Annotated[str, Field(min_length=1, max_length=256), AfterValidator(_check_address)]


class RayBackend(BackendSection):
    """Trials as Ray Tune workers, drawn by the same samplers."""

    workers: Annotated[int, Field(ge=1)] | None = None
    """Number of trials at the same time; as many as fit unless given."""
    resources: Resources = Resources.model_construct()
    """The resources of one trial."""
    reuse_actors: bool | None = None
    """Whether a worker trains one trial after another, until one fails in it; unless given, only where trials
    use no GPU, because all memory of a GPU is freed only when the process ends."""
    storage: Directory | None = None
    """Place of Ray's own files, a path or a URI such as `s3://bucket/ray`; `ray` in the run directory
    unless given. Every machine of a cluster must see it, and the run directory."""
    address: Address | None = None
    """A running cluster: `auto` finds the one of this machine, `host:6379` names its head; unless given, a
    cluster is started on this machine."""

    def facts(self, threads: int) -> str:
        """Return the number of workers and the resources of each."""
        amounts = self.resources.of_trial(threads)
        *most, last = (f"{amount:g} {name}" for name, amount in amounts.items())
        return f"workers {self.workers or 'as many as fit'}, each with {', '.join(most)} and {last}"


Points = Annotated[list[Params], Field(min_length=1)]
"""The params to try, in order."""


class OneBackend(Strict):
    """The backend that runs the trials: one of its keys."""

    @model_validator(mode="before")
    @classmethod
    def _one_key(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        name = one_key(value, tuple(BACKENDS), "a backend")
        return {**value, name: _with_defaults(name)} if value[name] is None else value

    @property
    def name(self) -> str:
        """The key of the backend."""
        return next(name for name in BACKENDS if getattr(self, name) is not None)

    @property
    def section(self) -> Any:
        """The settings of the backend, or its list of params."""
        return getattr(self, self.name)

    @property
    def points(self) -> list[dict[str, Any]] | None:
        """The list of params to try; None if params are sampled."""
        points: list[dict[str, Any]] | None = self.section if BACKENDS[self.name].has_points else None
        return points

    @property
    def storage(self) -> str:
        """The storage of the study; unless the section says it, a file in the run directory."""
        return str(self.section.storage) if BACKENDS[self.name].has_storage else "sqlite"

    @model_serializer
    def _dump(self) -> dict[str, Any]:
        section = self.section
        is_list = self.points is not None
        return {self.name: section if is_list else section.model_dump(by_alias=True, exclude_none=True)}


def _with_defaults(name: str) -> dict[str, Any]:
    """Return the section of a backend without settings."""
    if name in BACKENDS and BACKENDS[name].has_points:
        raise wrong(f"the {name} backend wants its list: {{{name}: [{{lr: 0.1}}, {{lr: 0.01}}]}}")
    return {}


def _parse_backend(value: Any) -> Any:
    return {value: _with_defaults(value)} if isinstance(value, str) else value


_SECTIONS: Mapping[str, Any] = {name: load(entry.section) for name, entry in BACKENDS.items()}
_BY_NAME = [name for name, entry in BACKENDS.items() if not entry.has_points]

if TYPE_CHECKING:
    Backend = OneBackend
else:
    Backend = create_model(
        "Backend",
        __base__=OneBackend,
        __doc__=OneBackend.__doc__,
        **{name: (section | None, None) for name, section in _SECTIONS.items()},
    )

_Name = Annotated[str, Field(json_schema_extra={"enum": list(_BY_NAME)})]
BackendForm = Annotated[Backend, BeforeValidator(_parse_backend, json_schema_input_type=_Name | Backend)]


def default_backend() -> Backend:
    """Return the backend of a file that names none."""
    return Backend.model_construct(**{DEFAULT: _SECTIONS[DEFAULT].model_construct()})


def backend_texts() -> tuple[str, dict[str, str]]:
    """Return the description of the section, and that of each of its keys."""
    names = ", ".join(f"`{name}`" for name in _BY_NAME)
    text = f"The backend that runs the trials: {names}, or a mapping of one key."
    return text, {name: entry.summary for name, entry in BACKENDS.items()}


def section_models() -> dict[str, type[BaseModel]]:
    """Return the model of each mapping in the section, by its place in the file: `backend.ray.resources`."""
    models: dict[str, type[BaseModel]] = {}
    for name in _BY_NAME:
        models |= _nested(f"backend.{name}", _SECTIONS[name])
    return models


def _nested(place: str, model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    models = {place: model}
    for key, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            models |= _nested(f"{place}.{key}", field.annotation)
    return models
