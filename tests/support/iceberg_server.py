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
from strandline_infra import java
from strandline_infra.programs import HOST
from tests.support import ivy
from tests.support.s3_server import BUCKET, S3Server

LISTS = Path(__file__).with_name("iceberg")
PROGRAM = "org.apache.iceberg.rest.RESTCatalogServer"
JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
PATIENCE = 90.0


class IcebergServer:
    """A REST catalog."""

    def __init__(self, folder: Path, s3: S3Server | None = None) -> None:
        """Choose an address; nothing is started yet.

        Args:
            folder: For its database, and for its metadata where no store is named.
            s3: The store for its metadata.
        """
        self._folder, self._s3 = folder, s3
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
            "CATALOG_WAREHOUSE": f"s3a://{BUCKET}/iceberg-{self._port}"
            if self._s3
            else f"file://{self.warehouse}",
            "CATALOG_URI": f"jdbc:sqlite:{self._folder}/catalog.db",
        }
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [ivy.program(), *JVM, "-cp", ":".join(map(str, self._class_path())), PROGRAM],
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

    def _class_path(self) -> list[Path]:
        """Return the jars of the server, and pyspark's; for a store Hadoop's client of it, and a folder with its settings."""
        folder = ivy.fetched("iceberg-rest", LISTS, "jar")
        spark = next(iter(ivy.VENV.glob("lib/python3.*/site-packages/pyspark/jars")))
        known = [*sorted(folder.glob("*.jar")), *sorted(spark.glob("*.jar"))]
        if self._s3 is None:
            return known
        values = {
            "fs.s3a.endpoint": self._s3.address,
            "fs.s3a.endpoint.region": "us-east-1",
            "fs.s3a.access.key": self._s3.key,
            "fs.s3a.secret.key": self._s3.secret,
            "fs.s3a.path.style.access": "true",
            "fs.s3a.connection.ssl.enabled": "false",
        }
        lines = (
            f"<property><name>{n}</name><value>{v}</value></property>" for n, v in values.items()
        )
        (self._folder / "core-site.xml").write_text(
            f"<configuration>{''.join(lines)}</configuration>"
        )
        return [self._folder, *java.STORE.class_path(), *known]


@contextmanager
def running(folder: Path, s3: S3Server | None = None) -> Iterator[IcebergServer]:
    """Start a server over a folder, and end it."""
    server = IcebergServer(folder, s3)
    server.up()
    try:
        yield server
    finally:
        server.kill()
