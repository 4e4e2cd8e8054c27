"""A Spark driver of its own over a lake on an object store, which does what it reads from its standard input, line by line.

Tests start two of them, suspend one, or put a proxy between one and the server.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from strandline import catalog

from strandline.core.errors import LakeError
from strandline.core.table import Table
from strandline.engine.lake.commit.create_table import create
from strandline.engine.lake.commit.delta_commit import Commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.place import Place
from strandline.engine.runtime.jvm import jvm
from strandline.engine.runtime.settings import settings
from strandline.engine.runtime.spark_session import start

SCHEMA = "number BIGINT, writer STRING"
RACERS = 8


class StoreDriver:
    """Such a driver, as its test sees it."""

    def __init__(self, lake: str, table: Table, log: Path, environment: Mapping[str, str]) -> None:
        """Start it; it answers when its Spark is there."""
        command = [sys.executable, "-m", "tests.support.store_driver", lake, table.id, str(log)]
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stream,
                env={**os.environ, **environment},
            )
        self._jvm = int(self.answer())

    def ask(self, do: str, **values: object) -> Any:  # noqa: ANN401  # JSON
        """Let it do something, and return its answer."""
        self.order(do, **values)
        return self.answer()

    def order(self, do: str, **values: object) -> None:
        """Let it do something, and do not wait."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **values}).encode() + b"\n")
        self._process.stdin.flush()

    def answer(self) -> Any:  # noqa: ANN401  # JSON
        """Wait for the answer to an order."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise EOFError("the driver ended; its log says why")
        return json.loads(line)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to it and to its JVM."""
        for pid in (self._process.pid, self._jvm):
            os.kill(pid, number)

    def end(self) -> None:
        """End it with its JVM."""
        for pid in (self._process.pid, self._jvm):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()


class Actions:
    """What such a driver does."""

    def __init__(self, address: str, name: str, log: str) -> None:
        """Start its Spark."""
        self._lake = Lake(Place.of(address))
        self._table = catalog.find(name)
        self._path = self._lake.table(self._table)
        found = settings(lake=address, memory="512m")
        self._spark = start(found, Path(f"{log}.spark"), is_brief=True)
        self._jvm = jvm(self._spark)
        self._held, self._begun = ExitStack(), list[Commit]()

    def pid(self) -> int:
        """Return the JVM's process."""
        return int(self._jvm.java.lang.ProcessHandle.current().pid())

    def make(self) -> None:
        """Create the table."""
        create(self._spark, self._path, self._rows("", 0).schema)

    def append(self, writer: str, times: int) -> int:
        """Append by Delta's own writer, as any Spark job does; return how many it has acknowledged."""
        for number in range(times):
            rows = self._rows(writer, number)
            rows.write.format("delta").mode("append").save(str(self._path))
        return times

    def rows(self) -> list[tuple[str, int]]:
        """Read the table with Spark, all of its columns."""
        found = self._spark.read.format("delta").load(str(self._path)).collect()
        return sorted((row["writer"], row["number"]) for row in found)

    def take(self) -> None:
        """Become the table's writer."""
        self._held.enter_context(lease(self._spark, self._table, self._lake))

    def begin(self, writer: str, number: int) -> None:
        """Write the files of a batch."""
        self._begun[:] = [Commit(self._spark, self._path)]
        self._begun[0].write(self._rows(writer, number))

    def commit(self) -> int:
        """Commit them."""
        entry = Entry(table=self._table.id, mode="test", stream="test", batch=0, source="test")
        return self._begun[0].commit(entry.encoded())

    def leave(self) -> None:
        """Release the lease."""
        self._held.close()

    def write(self, first: int, count: int) -> list[str]:
        """Write commits one after the other with the log store, and return what became of each."""
        return [self._written(number, f"only {number}") for number in range(first, first + count)]

    def race(self, first: int, rounds: int) -> list[int]:
        """Let writers write one version at once, and return for each round how many of them won."""
        return [self._won(number) for number in range(first, first + rounds)]

    def plan(self, name: str, content: str, *, is_new: bool, is_kept: bool = True) -> str:
        """Write a file of a checkpoint as Spark does, and return what became of it."""
        hadoop = self._spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]  # there is no public way
        file = self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{name}")
        stream = self._jvm.strandline.ConditionalCheckpointFiles(file, hadoop).createAtomic(
            file, not is_new
        )
        stream.write(bytearray(content.encode()))
        try:
            stream.close() if is_kept else stream.cancel()
        except Exception as error:  # noqa: BLE001  # py4j's has the name in its text
            return "lost" if "hadoop.fs.FileAlreadyExistsException" in str(error) else str(error)
        return "won"

    def is_planned(self, name: str) -> bool:
        """Return whether Spark finds a file of a checkpoint."""
        hadoop = self._spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]  # there is no public way
        file = self._jvm.org.apache.hadoop.fs.Path(f"{self._path}/{name}")
        return bool(self._jvm.strandline.ConditionalCheckpointFiles(file, hadoop).exists(file))

    def _rows(self, writer: str, number: int) -> DataFrame:
        return self._spark.createDataFrame([(number, writer)], SCHEMA).coalesce(1)

    def _written(self, number: int, content: str) -> str:
        hadoop = self._spark._jsc.hadoopConfiguration()  # type: ignore[attr-defined]  # there is no public way
        store = self._jvm.strandline.ConditionalLogStore(hadoop)
        lines = self._jvm.java.util.ArrayList()
        lines.add(content)
        file = self._jvm.org.apache.hadoop.fs.Path(str(commit_file(self._path, number)))
        try:
            store.write(file, lines.iterator(), False, hadoop)
        except Exception as error:  # noqa: BLE001  # py4j's has the name in its text
            return "lost" if "FileAlreadyExistsException" in str(error) else str(error)
        return "won"

    def _won(self, number: int) -> int:
        together = threading.Barrier(RACERS)

        def one(writer: int) -> str:
            together.wait()
            return self._written(number, f"writer {writer}")

        with ThreadPoolExecutor(RACERS) as pool:
            found = [*pool.map(one, range(RACERS))]
        assert set(found) <= {"won", "lost"}, found
        return found.count("won")


def _main() -> None:
    actions = Actions(*sys.argv[1:])
    _say(actions.pid())
    for line in sys.stdin:
        wanted = json.loads(line)
        try:
            _say(getattr(actions, wanted.pop("do"))(**wanted))
        except LakeError as error:
            _say({"error": type(error).__name__, "message": error.message})


def _say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _main()
