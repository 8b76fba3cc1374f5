from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial, partialmethod
from importlib.util import find_spec
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click.testing
import matrix
import one_metric
import pytest
import works_with
from click.testing import CliRunner, Result
from forked import program
from hypothesis import HealthCheck, settings
from loaded_python import COLLECTIONS, loaded_python, start_cluster
from matrix import EXHAUSTIVE

from hpometrics.exceptions import HpometricsError
from hpometrics.metrics.registry.index import MetricEntry, all_entries

if TYPE_CHECKING:
    from servers import Server

pytest_plugins = ["metric_fixtures", "sweep_fixtures"]

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is loaded: the workers are as many as the cores
# At Ray's niceness of 15 a trial starves for minutes beside a busy test.
os.environ.setdefault("RAY_worker_niceness", "0")
os.environ.setdefault("KERAS_BACKEND", "torch")  # its default is TensorFlow

gc.set_threshold(*COLLECTIONS)
MEMORY = Path("/dev/shm")
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > 2**31:  # tests write many small files
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))

settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")  # how long an example takes is the machine's matter

if "mix_stderr" in signature(CliRunner).parameters:  # click 8.1: have its results hold what 8.2's do
    CliRunner.__init__ = partialmethod(CliRunner.__init__, mix_stderr=False)  # type: ignore[method-assign]
    Result.output = property(lambda result: result.stdout + result.stderr)  # type: ignore[assignment]
    click.testing._NamedTextIOWrapper = partial(click.testing._NamedTextIOWrapper, line_buffering=True)

STAGE = pytest.StashKey[str | None]()
LAWS = pytest.StashKey[list[str]]()
"""The lines on the laws for the summary, which a worker sends."""

SUITES = {"not exhaustive": "short", "exhaustive": "exhaustive"}
"""The suite that a selection of markers runs."""
PROGRAMS = ("house", "integration")
"""Folders of tests that start whole programs."""
PART = 40
"""Tests that a worker is given at a time: one by one, each would cost a look at all that are done."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Know `--faults` and `--metric` wherever pytest is started."""
    told = "try every fault many times, on bare hosts too, and print the scorecard"
    parser.addoption("--faults", action="store_true", help=told)
    parser.addoption("--metric", help="run the tests that concern one metric alone, by its name or an alias")


def pytest_configure(config: pytest.Config) -> None:
    """Note the stage that this session is, before a test starts a session of its own.

    Collect only the cases of the asked suite, and only the tests of the metric that `--metric` names.

    The first worker starts with the tests on Ray. The other workers run at a lower priority: Ray's processes
    wait for each other, and each wait would cost a time slice of a busy worker.
    """
    config.stash[STAGE] = os.environ.pop(works_with.STAGE, None)
    if getattr(config, "workerinput", {}).get("workerid", "gw0") != "gw0":
        os.nice(10)
    if config.option.markexpr in SUITES and not any("[" in arg for arg in config.args):
        matrix.collect(SUITES[config.option.markexpr])
    if (name := config.getoption("--metric")) is None:
        return
    try:
        chosen = one_metric.entries_named(name)
    except HpometricsError as err:
        raise pytest.UsageError(f"--metric {name}: {err}") from None
    matrix.choose(chosen, partial(one_metric.may_concern, chosen))
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        config.args = list(map(str, one_metric.files_about(chosen)))


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path: Path) -> Iterator[Any]:
    """Look for examples only in files that have some."""
    collectors = yield
    if b">>>" in file_path.read_bytes():
        return collectors
    return [one for one in collectors if type(one) is pytest.Module]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(specs: list[Any]) -> None:
    """Fork the workers from the loaded process."""
    for spec in specs:
        spec.python = str(loaded_python())


def pytest_unconfigure() -> None:
    """Undo what `pytest_configure` chose: a test may run a session inside of another one."""
    matrix.choose(())
    matrix.collect(*SUITES.values())


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep all tests on Ray together, and cut the rest into parts.

    Ray comes first: a worker waits for it most of the time, and the others use the cores meanwhile. Then come
    the folders of whole programs, and folders within folders last: what ends last is short.
    """
    if config.getoption("--metric") is not None:
        _keep_those_about(matrix.entries(), config, items)
    elif SUITES.get(config.option.markexpr) == "short":
        matrix.check_cases(item.nodeid for item in items)
    items.sort(
        key=lambda item: (
            not item.get_closest_marker("ray"),
            item.path.parent.name not in PROGRAMS,
            len(item.path.parts),
        )
    )
    places: Counter[bool] = Counter()  # of the exhaustive cases and of the others, which never run together
    for item in items:
        exhaustive = item.get_closest_marker("exhaustive") is not None
        part = f"part{exhaustive}{places[exhaustive] // PART}"
        item.add_marker(pytest.mark.xdist_group("ray" if item.get_closest_marker("ray") else part))
        places[exhaustive] += 1


def _keep_those_about(
    chosen: tuple[MetricEntry, ...], config: pytest.Config, items: list[pytest.Item]
) -> None:
    """Deselect the tests that do not concern a metric."""
    kept, others = [], []
    for item in items:
        (kept if one_metric.is_about(item, chosen) else others).append(item)
    items[:] = kept
    config.hook.pytest_deselected(items=others)


def pytest_collection_finish() -> None:
    """Leave the collected tests out of garbage collection."""
    gc.freeze()


@pytest.fixture(scope="session")
def entries() -> tuple[MetricEntry, ...]:
    """Every entry of the registry, or those of the metric that `--metric` names."""
    return matrix.entries()


@pytest.fixture(autouse=True)
def forget_secrets() -> Iterator[None]:
    """Forget what a test was told in secret, which its process would hide in the words of others too."""
    from hpometrics import _redaction

    known = _redaction._revealed.copy()
    yield
    _redaction._revealed = known


@pytest.fixture(autouse=True)
def forget_engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Forget the modules that a test wrote and imported: another test may have an engine of the same name.

    The fixture is set up before `monkeypatch` and so comes after it, which may bring such a module back.
    """
    before = set(sys.modules)
    yield
    written = f"{tmp_path_factory.getbasetemp()}/"
    for name in sys.modules.keys() - before:
        if str(getattr(sys.modules[name], "__dict__", {}).get("__file__")).startswith(written):
            del sys.modules[name]


@pytest.fixture(autouse=True)
def heed_interrupt() -> None:
    """Let each test begin with Python's handler of Ctrl-C.

    Tune sets its own, which stops Tune alone, and a test run started in the background ignores Ctrl-C.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def ray_launcher() -> Path:
    """The script that starts the workers of a Ray cluster, as forks of a process that has loaded torch."""
    return loaded_python()


@pytest.fixture(scope="session")
def ray_started() -> Iterator[None]:
    """A Ray cluster of two CPUs."""
    import ray

    start_cluster()
    yield
    ray.shutdown()


@pytest.fixture
def ray_cluster(ray_started: None) -> str:
    """The cluster of all tests that need one; its address, for other processes."""
    import ray

    return ray.get_runtime_context().gcs_address


@pytest.fixture(scope="session")
def started_servers() -> Iterator[dict[str, Server]]:
    """The database servers that tests of this process have asked for, by kind."""
    started: dict[str, Server] = {}
    yield started
    for server in started.values():
        server.end()


@pytest.fixture
def new_database(started_servers: dict[str, Server]) -> Callable[[str], str]:
    """Return the URL of an empty database of a kind, or of the one that the environment names."""
    from servers import SERVERS

    def create(kind: str) -> str:
        needed = SERVERS[kind]
        if url := os.environ.get(needed.variable):
            return url
        if missing := needed.missing():
            pytest.skip(missing)
        if kind not in started_servers:
            started_servers[kind] = needed()
        return started_servers[kind].new_database()

    return create


@pytest.fixture(params=["forked", pytest.param("fresh", marks=EXHAUSTIVE)])
def python(request: pytest.FixtureRequest) -> Callable[[Path, Path], subprocess.CompletedProcess[str]]:
    """Run a file in a folder; where all is tried, also in an interpreter that has loaded nothing yet."""

    def run(file: Path, folder: Path) -> subprocess.CompletedProcess[str]:
        if request.param == "forked":
            return program(file, folder=folder).result()
        command = [sys.executable, str(file)]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)

    return run


@pytest.fixture
def suggested_for(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of metrics for which near ones have been looked for."""
    from hpometrics.metrics.registry import lookup

    names, suggestion = [], lookup.suggestion

    def counted(name: str, known: Iterable[str]) -> str:
        names.append(name)
        return suggestion(name, known)

    monkeypatch.setattr(lookup, "suggestion", counted)
    return names


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say what tests miss here, how many metrics there are, and which are exempt from which law."""
    if (stage := config.stash.get(STAGE, None)) is not None:
        works_with.note(stage, {name: len(ended) for name, ended in terminalreporter.stats.items()})
    skipped = terminalreporter.stats.get("skipped", [])
    missing = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if missing:
        terminalreporter.section("missing here")
    for reason, tests in missing.most_common():
        terminalreporter.line(f"{reason}: {tests} test{'s' * (tests > 1)} skipped")
    if lines := config.stash.get(LAWS, None) or _laws():
        terminalreporter.section("laws of the metrics")
    for line in lines:
        terminalreporter.line(line)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Send the lines on the laws from a worker, which has loaded them, to the controller."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["laws"] = _laws()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Keep the lines that a worker has sent."""
    if lines := getattr(node, "workeroutput", {}).get("laws"):
        node.config.stash[LAWS] = lines


def _laws() -> list[str]:
    """Return the lines on the laws for the summary; none where the part is tested that needs no torch."""
    if find_spec("torch") is None:
        return []
    from hpometrics.testing.exemptions import EXEMPT, NO_DIRECTION

    entries = all_entries()
    directed = sum(entry.direction is not None for entry in entries)
    return [
        f"{len(entries)} metrics, {directed} with a direction; without one, each with its reason: "
        f"{len(NO_DIRECTION)} names",
        *(f"{law}: {len(exempt)} exempt by nature: {', '.join(exempt)}" for law, exempt in EXEMPT.items()),
    ]
