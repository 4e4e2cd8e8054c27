"""Iceberg's own REST catalog server on loopback, over a database and a warehouse in a folder; it can be killed and started again.

Its releases bring it for tests. Its jars are fetched from Maven Central by the Ivy that ships inside pyspark, once for a clone;
Hadoop, Jackson and Avro are pyspark's.
"""

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strandline.engine.runtime.processes import bind
from strandline_infra.programs import HOST
from tests.support import ivy

LISTS = Path(__file__).with_name("iceberg")
PROGRAM = "org.apache.iceberg.rest.RESTCatalogServer"
JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
PATIENCE = 90.0


class IcebergServer:
    """A REST catalog."""

    def __init__(self, folder: Path) -> None:
        """Choose an address; nothing is started yet."""
        self._folder = folder
        self._port = bind(0)
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"http://{HOST}:{self._port}"
        self.warehouse = folder / "warehouse"

    def up(self) -> None:
        """Start it, and wait until it answers."""
        self.warehouse.mkdir(parents=True, exist_ok=True)
        environment = {
            "PATH": os.environ["PATH"],
            "CATALOG_REST_PORT": str(self._port),
            "CATALOG_WAREHOUSE": f"file://{self.warehouse}",
            "CATALOG_URI": f"jdbc:sqlite:{self._folder}/catalog.db",
        }
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [ivy.program(), *JVM, "-cp", ":".join(map(str, _class_path())), PROGRAM],
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self._folder,
            )
        deadline = time.monotonic() + PATIENCE
        while not self.answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._folder / "log").read_text()[-3000:])
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def pause(self, signal: int) -> None:
        """Send it a signal: one that is stopped takes connections and answers none."""
        assert self._process
        self._process.send_signal(signal)

    def answers(self) -> bool:
        """Return whether it answers."""
        try:
            with urllib.request.urlopen(f"{self.address}/v1/config", timeout=5):  # noqa: S310  # our own address
                return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


@contextmanager
def running(folder: Path) -> Iterator[IcebergServer]:
    """Start a server over a folder, and end it."""
    server = IcebergServer(folder)
    server.up()
    try:
        yield server
    finally:
        server.kill()


def _class_path() -> list[Path]:
    """Return the jars of the server, and pyspark's."""
    folder = ivy.fetched("iceberg-rest", LISTS, "jar")
    spark = next(iter(ivy.VENV.glob("lib/python3.*/site-packages/pyspark/jars")))
    return [*sorted(folder.glob("*.jar")), *sorted(spark.glob("*.jar"))]
