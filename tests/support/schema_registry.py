"""A real schema registry on loopback: Apicurio, with Confluent's interface, over a database in a folder.

It can be killed and started again with all that it held, at the same address. Its archive of 140 MB is fetched from Maven
Central by the Ivy that ships inside pyspark, once for a clone.
"""

import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from zipfile import ZipFile

from strandline.engine.runtime.processes import bind
from strandline_infra.programs import HOST
from tests.support import ivy

LISTS = Path(__file__).with_name("apicurio")
PATIENCE = 60.0
JVM = ("-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class SchemaRegistry:
    """A running registry."""

    def __init__(self, folder: Path) -> None:
        """Choose an address; nothing is started yet."""
        self._folder = folder
        self._port = bind(0)
        self._process: subprocess.Popen[bytes] | None = None
        self.address = f"http://{HOST}:{self._port}/apis/ccompat/v7"

    def up(self) -> None:
        """Start it, and wait until it answers."""
        self._folder.mkdir(parents=True, exist_ok=True)
        (program,) = _unpacked().glob("*-runner.jar")
        options = {
            "quarkus.http.host": HOST,
            "quarkus.http.port": self._port,
            "quarkus.datasource.jdbc.url": f"jdbc:h2:file:{self._folder}/schemas;WRITE_DELAY=0",
        }
        given = [f"-D{name}={value}" for name, value in options.items()]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [ivy.program(), *JVM, *given, "-jar", program], stdout=log, stderr=log
            )
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError((self._folder / "log").read_text()[-2000:])
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.address}/subjects", timeout=5):  # noqa: S310  # our own address
                return True
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


@contextmanager
def running(folder: Path) -> Iterator[SchemaRegistry]:
    """Start a registry over a folder, and end it."""
    registry = SchemaRegistry(folder)
    registry.up()
    try:
        yield registry
    finally:
        registry.kill()


def _unpacked() -> Path:
    """Return the folder with the program."""
    return ivy.fetched("apicurio", LISTS, "zip", then=_unpack)


def _unpack(folder: Path) -> None:
    (packed,) = folder.glob("*.zip")
    with ZipFile(packed) as archive:
        archive.extractall(folder)
    packed.unlink()
