"""The pytest fixture ``stream``: pytest finds it by itself where the engine is installed (an entry point in pyproject.toml).

A suite that does not ask for it pays for this module alone: nothing of the engine is imported before the first test that does, and
no Spark starts. With it, one small Spark serves the whole session of pytest; under xdist each worker has its own.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from strandline.core.table import Table
    from strandline.testing.scenario import Moments, Scenario, Scenarios

MODES = ("batch", "catch-up", "stream")
"""Of a scenario, as jobs/strandline/testing/scenario.py has them; written twice, because that module imports Spark."""

MARK = "stream_modes"
SECONDS = "stream_seconds"
TAKEN = "strandline: seconds of "
"""How the names begin by which a test's report has the seconds of a verb."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that prints what the verbs of scenarios took."""
    parser.getgroup("strandline").addoption(
        "--stream-seconds",
        action="store_true",
        dest=SECONDS,
        help="print how long each verb of the scenarios of `stream` took",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Describe the mark, for ``pytest --markers`` and ``--strict-markers``."""
    config.addinivalue_line(
        "markers",
        f"{MARK}(*modes): the modes in which a test of `stream` runs, of {', '.join(MODES)}; all without it",
    )
    if config.getoption(SECONDS):
        config.pluginmanager.register(Seconds(), "strandline-seconds")


class Seconds:
    """What the verbs of all scenarios took, those of other workers too."""

    def __init__(self) -> None:
        """Begin with none."""
        self._spent: dict[str, list[float]] = defaultdict(list)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Gather those of a test."""
        for name, seconds in report.user_properties if report.when == "teardown" else ():
            if name.startswith(TAKEN):
                self._spent[name.removeprefix(TAKEN)].append(float(str(seconds)))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print a line for each verb in a mode."""
        if self._spent:
            terminalreporter.section("seconds of the verbs of stream")
            terminalreporter.write_line(f"{'':24} calls  median  longest")
        for name, taken in sorted(self._spent.items()):
            terminalreporter.write_line(
                f"{name:24} {len(taken):5}  {median(taken):6.2f}  {max(taken):7.2f}"
            )


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for ``stream`` once in each mode."""
    if "_stream_mode" not in metafunc.fixturenames:
        return
    mark = metafunc.definition.get_closest_marker(MARK)
    chosen: Sequence[Any] = mark.args if mark else MODES
    if not chosen or not set(chosen) <= set(MODES):
        raise pytest.UsageError(
            f"{metafunc.definition.nodeid}: {MARK} takes {', '.join(map(repr, MODES))}, and not {', '.join(map(repr, chosen)) or 'nothing'}"
        )
    metafunc.parametrize("_stream_mode", list(chosen), ids=list(chosen), indirect=True)


@pytest.fixture
def _stream_mode(request: pytest.FixtureRequest) -> str:
    """Return the mode of this run of a test."""
    return str(request.param)


@pytest.fixture(scope="session")
def _strandline_spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """Return the one Spark of a suite that has none of its own."""
    from strandline.operate.session import trial_spark  # noqa: PLC0415  # only where a scenario runs

    with trial_spark(tmp_path_factory.mktemp("spark")) as session:
        yield session


@pytest.fixture
def stream(
    _stream_mode: str, request: pytest.FixtureRequest, tmp_path: Path
) -> "Iterator[Scenarios]":
    """Give what begins a scenario of a table.

    ``s = stream(TABLE)``, then ``s.send(…)`` and other verbs, at the end ``s.expect(…)``.

    Verbs: send, late, duplicate, advance, stop_at, restart_with, expect, rows. A test that asks for it runs in each mode, as a batch,
    a catch-up and a stream; ``@pytest.mark.stream_modes("stream")`` chooses.
    """
    from strandline.testing.scenario import Scenario  # noqa: PLC0415  # as above

    spark = _spark(request)
    begun: list[Scenario] = []

    def heard(verb: str, seconds: float) -> None:
        if request.config.getoption(SECONDS):
            request.node.user_properties.append((f"{TAKEN}{verb}, {_stream_mode}", seconds))

    def begin(table: "Table", *, time: "Moments | None" = None) -> "Scenario":
        made = Scenario(
            table,
            spark=spark,
            folder=tmp_path / f"lake-{len(begun) + 1}",
            mode=_stream_mode,
            time=time,
            heard=heard,
        )
        begun.append(made)
        return made

    yield begin
    for scenario in begun:
        scenario.close()


def _spark(request: pytest.FixtureRequest) -> "SparkSession":
    """Return the suite's own Spark, which there is one of in a process, or else ours."""
    from strandline.testing.scenario import fitting  # noqa: PLC0415  # as above

    try:
        own = request.getfixturevalue("spark")
    except pytest.FixtureLookupError:
        own = request.getfixturevalue("_strandline_spark")
    return fitting(own)
