"""On a disk, of two processes that write one version of a table one wins, and a version is whole or not there.

The log store runs in JVMs without Spark, which start in a second; Spark's sessions have the same class from the same jar.
"""

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, write_deltalake
from py4j.java_gateway import GatewayParameters, JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.sql import SparkSession
from pyspark.sql.types import LongType, StructType

from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.log.commit_log import commit_file, log_of, logged_versions
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.spark_session import class_path
from strandline_infra import home, java, linear

ROUNDS = 60
LINES = ("one", "two")
OWN, BESIDE = 8, 20
WITHOUT = """
#include <errno.h>
int link(const char *from, const char *to) { errno = EPERM; return -1; }
"""
"""A file system without hard links, such as VFAT, answers so."""
KILLED = """
#include <signal.h>
#include <unistd.h>
int %s { return kill(getpid(), SIGKILL); }
"""
BEFORE_LINK, BEFORE_REMOVE = "link(const char *from, const char *to)", "unlink(const char *path)"


class Writer:
    """A process that writes versions as Spark's driver does."""

    def __init__(self, said: Path) -> None:
        """Start it; what it says goes to a file."""
        folder, spark = java.recorded(home.home()), home.spark_folder(home.home())
        assert folder is not None
        assert spark is not None
        jars = os.pathsep.join([*class_path(settings()), f"{spark}/*"])
        logs = (home.PACKAGE / "spark" / "log4j2.properties").as_uri()
        options = (
            *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
            *(f"-Dlog4j2.configurationFile={logs}", f"-Dstrandline.log={said}"),
        )
        server = "py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0"
        self._process = subprocess.Popen(
            [folder / "bin" / "java", *options, "-cp", jars, *server],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        port, token = (self._process.stdout.readline().strip() for _ in range(2))
        self._gateway = JavaGateway(
            gateway_parameters=GatewayParameters(port=int(port), auth_token=token)
        )
        self._jvm: Any = self._gateway.jvm
        self._hadoop = self._jvm.org.apache.hadoop.conf.Configuration(False)
        bare = "com.globalmentor.apache.hadoop.fs.BareLocalFileSystem"
        self._hadoop.set("fs.file.impl", bare)
        self._store = self._jvm.strandline.LinkedLogStore(self._hadoop)

    def write(self, path: Place, version: int, *lines: str) -> bool:
        """Write a version; return False where it exists."""
        found = self._jvm.java.util.ArrayList()
        for line in lines:
            found.add(line)
        file = self._jvm.org.apache.hadoop.fs.Path(f"file:{commit_file(path, version)}")
        try:
            self._store.write(file, found.iterator(), False, self._hadoop)
        except Py4JJavaError as error:
            if "java.nio.file.FileAlreadyExistsException" not in str(error):
                raise
            return False
        return True

    def listed(self, path: Place) -> list[str]:
        """Return the names that Delta's listing finds."""
        first = self._jvm.org.apache.hadoop.fs.Path(f"file:{commit_file(path, 0)}")
        found, names = self._store.listFrom(first, self._hadoop), []
        while found.hasNext():
            names.append(str(found.next().getPath().getName()))
        return names

    def end(self) -> None:
        """End it, also one that was killed."""
        self._gateway.close()
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def table(tmp_path: Path) -> Place:
    """Return the folder of a table with an empty log."""
    path = Place.of(tmp_path / "a table, with spaces & ümlauts")
    log_of(path).make()
    return path


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[Writer]:
    """Return a process that writes versions."""
    found = Writer(tmp_path / "said.log")
    yield found
    found.end()


def preloaded(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Writer:
    """Return a process in which the kernel's answers are others; skip the test where none can be made."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("only Linux with a C compiler can change what the kernel answers")
    source, library = folder / "answers.c", folder / "answers.so"
    source.write_text(code)
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, source], check=True)
    with monkeypatch.context() as patch:
        patch.setenv("LD_PRELOAD", str(library))
        return Writer(folder / "said.log")


def drafts(path: Place) -> list[str]:
    return [name for name in log_of(path).names() if name.startswith(".")]


def test_spark_writes_by_it(spark: SparkSession) -> None:
    """The other tests are of a class that a session might not use."""
    assert spark.conf.get("spark.delta.logStore.file.impl") == linear.LOG_STORE


def test_of_two_processes_that_write_a_version_one_wins(
    table: Place, writer: Writer, tmp_path: Path
) -> None:
    """Delta's own store lets both win: of 400 versions it lost 50 to 118, and no writer saw an error."""
    another, together = Writer(tmp_path / "another.log"), threading.Barrier(2)

    def won(process: Writer, name: str) -> list[bool]:
        found = []
        for version in range(ROUNDS):
            together.wait()
            found.append(process.write(table, version, f"{name} {version}"))
        return found

    with ThreadPoolExecutor(2) as pool:
        found = [*pool.map(won, (writer, another), "ab")]
    another.end()

    for version, results in enumerate(zip(*found, strict=True)):
        assert sum(results) == 1
        assert commit_file(table, version).text() == f"{'ab'[results.index(True)]} {version}\n"
    assert all(map(any, found)), "they never met"
    assert drafts(table) == []


def test_a_version_that_another_program_has_linked_is_left(table: Place, writer: Writer) -> None:
    """delta-rs gives names so, and so do we where no JVM runs."""
    assert commit_file(table, 0).create("another")

    assert not writer.write(table, 0, *LINES)
    assert commit_file(table, 0).text() == "another"


def test_a_process_that_is_killed_before_a_version_has_its_name_leaves_none(
    table: Place, writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its draft is no version for any reader, and the next one writes the version."""
    assert writer.write(table, 0, *LINES)
    killed = preloaded(KILLED % BEFORE_LINK, tmp_path, monkeypatch)
    with pytest.raises(Py4JError):
        killed.write(table, 1, *LINES)
    killed.end()

    assert len(drafts(table)) == 1
    assert logged_versions(table) == [0]
    assert latest_version(table) == 0
    assert writer.listed(table) == [commit_file(table, 0).name]
    assert writer.write(table, 1, "other")
    assert commit_file(table, 1).text() == "other\n"


def test_a_process_that_is_killed_before_its_draft_is_removed_has_written_its_version(
    table: Place, writer: Writer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft is another name of the version, and changes nothing."""
    killed = preloaded(KILLED % BEFORE_REMOVE, tmp_path, monkeypatch)
    with pytest.raises(Py4JError):
        killed.write(table, 0, *LINES)
    killed.end()

    assert len(drafts(table)) == 1
    assert not writer.write(table, 0, "other")
    assert writer.write(table, 1, "other")
    assert writer.listed(table) == [commit_file(table, version).name for version in (0, 1)]
    assert commit_file(table, 0).text() == "one\ntwo\n"


def test_where_a_file_can_have_one_name_only_it_is_renamed_and_the_log_says_so(
    table: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as on a USB stick: what is there is not replaced, and no draft is left."""
    writer = preloaded(WITHOUT, tmp_path, monkeypatch)
    try:
        assert [writer.write(table, version, *LINES) for version in (0, 1, 1)] == [
            True,
            True,
            False,
        ]
        assert commit_file(table, 1).text() == "one\ntwo\n"
        assert drafts(table) == []
        assert (tmp_path / "said.log").read_text().count("no hard links") == 1
    finally:
        writer.end()


def test_a_log_without_its_folder_is_no_success(tmp_path: Path, writer: Writer) -> None:
    """Retention or a restore may have removed it meanwhile."""
    with pytest.raises(Py4JJavaError, match="FileNotFoundException"):
        writer.write(Place.of(tmp_path / "none"), 0, *LINES)


def test_another_program_appends_beside_and_no_row_is_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    """delta-rs takes no turn: the store decides whose version it is, and the other one tries the next."""
    path = Place.of(tmp_path / "table")
    create_table.create(spark, path, StructType().add("n", LongType()))
    rows = spark.range(1).selectExpr("id AS n").coalesce(1)
    other = spark.range(1).selectExpr("id + 1 AS n").toArrow()
    appended = []

    def append() -> None:
        while len(appended) < BESIDE and not done.is_set():
            write_deltalake(str(path), other, mode="append")
            appended.append(1)

    done = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        beside = pool.submit(append)
        try:
            for _ in range(OWN):
                commit = delta_commit.Commit(spark, path)
                commit.write(rows)
                commit.commit("{}")
        finally:
            done.set()
        beside.result()

    found = DeltaTable(str(path)).to_pyarrow_table()["n"].to_pylist()
    assert len(appended) > 1
    assert found.count(0) == OWN
    assert found.count(1) == len(appended)
    assert latest_version(path) == OWN + len(appended)
