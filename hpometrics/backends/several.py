"""Several objectives: which samplers, pruners and schedulers cannot search for them, found before a trial."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..exceptions import ConfigError

_ONE_OBJECTIVE = ("cmaes", "CmaEsSampler")
_NO_PRUNING = ("none", "NopPruner", "FIFOScheduler")


def check_several(
    optimised: Collection[str], sampler: object = None, pruner: object = None, what: str = "pruner"
) -> None:
    """Refuse what knows one objective where there are several.

    Args:
        optimised: the names of what is optimised.
        sampler: a name, `{name: {argument: value}}`, `module:Class` or an object; None for none.
        pruner: likewise, or a scheduler.
        what: `pruner` or `scheduler`.

    Raises:
        ConfigError: there are several, and one of the two is for one.
    """
    if len(optimised) < 2:
        return
    told = f"{', '.join(optimised)} are {len(optimised)} objectives"
    if searches_for_one(sampler):
        name = _name_of(sampler)
        raise ConfigError(f"the sampler {name} searches for one objective; {told}. Choose tpe, gp or nsga2")
    if pruner is not None and (name := _name_of(pruner)) not in _NO_PRUNING:
        raise ConfigError(f"the {what} {name} judges one value; {told}. Leave it out")


def searches_for_one(sampler: object) -> bool:
    """Say whether a sampler knows one objective only."""
    return sampler is not None and _name_of(sampler) in _ONE_OBJECTIVE


def _name_of(spec: object) -> str:
    """The name of a plug-in; of `module:Class` and of an object that of the class."""
    if isinstance(spec, Mapping) and spec:
        spec = next(iter(spec))
    return spec.rpartition(":")[2] if isinstance(spec, str) else _kind_of(spec)


def _kind_of(plug_in: object) -> str:
    return str(getattr(plug_in, "kind", type(plug_in).__name__))
