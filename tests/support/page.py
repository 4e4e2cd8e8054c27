"""The page for the lake as its server has it: Dagster's real webserver, with no code location, which starts in seconds."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from strandline.engine.runtime import processes
from strandline_infra.programs import instance

PATIENCE = 300
EMPTY = ("--empty-workspace",)


@dataclass(frozen=True, slots=True)
class Server:
    """A webserver that answers."""

    port: int

    @property
    def host(self) -> str:
        """Return what it is called."""
        return f"127.0.0.1:{self.port}"

    @property
    def page(self) -> str:
        """Return the address of the page for the lake."""
        return f"http://{self.host}/lake/"

    def asked(
        self, path: str, heads: Mapping[str, str] | None = None, *, method: str = "GET"
    ) -> tuple[int, str, Mapping[str, str]]:
        """Return status, text and headers of an answer."""
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)) as line:
            line.request(method, path, headers={"Host": self.host, **(heads or {})})
            answer = line.getresponse()
            return answer.status, answer.read().decode(), {**answer.headers}

    def data(self, path: str) -> Any:  # noqa: ANN401  # whatever was asked for
        """Return what the page is answered."""
        return json.loads(self.asked(f"/lake/data/{path}")[1])


@contextmanager
def served(
    folder: Path, lake: object, env: Mapping[str, str] | None = None, *, cwd: Path | None = None
) -> Iterator[Server]:
    """Start the webserver for a lake, and end it.

    Args:
        folder: Gets its home and its log.
        lake: Where the lake is.
        env: More of its environment.
        cwd: Where it is started.
    """
    home = folder / "dagster"
    home.mkdir(parents=True)
    (home / "dagster.yaml").write_text(instance(in_database=False))
    port = processes.bind(0)
    words = ["-m", "strandline_dagster.webserver", "-h", "127.0.0.1", "-p", str(port), *EMPTY]
    own = {"DAGSTER_HOME": str(home), "STRANDLINE_LAKE": str(lake)}
    log = folder / "webserver.log"
    with log.open("wb") as written:
        program = subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, **own, **(env or {})},
            cwd=cwd,
            stdout=written,
            stderr=written,
        )
    found = Server(port)
    try:
        deadline = time.monotonic() + PATIENCE
        while not _answers(found):
            assert program.poll() is None, log.read_text()
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.2)
        yield found
    finally:
        program.terminate()
        program.wait(120)


def _answers(server: Server) -> bool:
    try:
        return server.asked("/server_info")[0] == 200
    except OSError:
        return False
