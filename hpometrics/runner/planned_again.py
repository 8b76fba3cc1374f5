"""A plan made again from what a run directory has recorded: for workers that join it and for replays."""

from __future__ import annotations

from collections.abc import Iterable

from ..config.document import parse_document
from ..config.metric_section import anything
from ..config.overrides import override
from ..config.plan import Plan, make_plan
from ..config.yaml_writer import dump_yaml
from ..results.run_directory import RunDirectory


def planned_again(home: RunDirectory, assignments: Iterable[str] = ()) -> Plan:
    """Plan the sweep of a run directory from all that was settled when it was made; errors name its file.

    Args:
        home: the run directory.
        assignments: `key=value` texts that change it.

    Raises:
        ConfigError: it is no run directory.
        SweepFileError: what it holds can no longer be carried out.
    """
    resolved = home.read()
    document = parse_document(dump_yaml(resolved.config), resolved.file or str(home.resolved))
    override(document, assignments)
    return make_plan(document, registers=anything)
