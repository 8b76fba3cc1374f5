"""Population based training of a sweep: what of the file does not go together with it."""

from __future__ import annotations

from collections.abc import Iterator

from ..exceptions import ConfigError
from ..space.space import Space
from .document import Document
from .models import Draft
from .problems import Path

PBT = "pbt"


def check_population(config: Draft, space: Space | None, document: Document) -> None:
    """Note what keeps the trials of a sweep from exploiting each other; see `search.population`."""
    pruner = config.search.pruner
    if pruner is None or pruner.name != PBT:
        return
    for path, text in _kept_apart(config):
        document.add(path, text)
    if space is None:
        return
    from ..space.mutation import mutable  # of which few files have need

    try:
        mutable(space, pruner.options.get("mutate"))
    except ConfigError as err:
        document.add(("search", "pruner"), str(err))


def _kept_apart(config: Draft) -> Iterator[tuple[Path, str]]:
    if config.backend.ray is not None and config.backend.ray.workers is not None:
        yield (
            ("backend", "ray", "workers"),
            "the trials of pbt wait for each other, so all are at work; leave workers out: how many train at "
            "a time is a matter of resources",
        )
    if config.budget is not None and config.budget.repeats > 1:
        yield (
            ("budget", "repeats"),
            "pbt changes params in training, which no other seed would repeat; leave it out",
        )
    if config.results.checkpoints == "none":
        yield ("results", "checkpoints"), "pbt hands on checkpoints; let the latest be kept: last or best"
