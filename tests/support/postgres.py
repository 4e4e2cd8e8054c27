"""A real PostgreSQL of this machine's own programs: a cluster in a folder, a port of loopback, ended by its own id."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import quote

import psycopg2
import pytest

from strandline.engine.runtime import processes
from strandline_infra.programs import HOST

DEBIAN = Path("/usr/lib/postgresql")
MISSING = "no PostgreSQL here (Debian: apt install postgresql)"
PASSWORD = "s3cr3t@:/%?#&"  # noqa: S105  # of a server that lives as long as a test; every sign that means something
PATIENCE = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A server that runs; ``strandline`` may do everything in it.

    Args:
        port: Where on loopback it listens.
    """

    port: int

    def url(self, database: str, *, user: str = "strandline", password: str = PASSWORD) -> str:
        """Return an address as one writes it, with the signs of a password in their places."""
        return f"postgresql://{user}:{quote(password, safe='')}@{HOST}:{self.port}/{database}"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Execute statements in a database, each in a transaction of its own."""
        with closing(psycopg2.connect(self.url(database))) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                for each in statements:
                    cursor.execute(each)

    def give_history(self) -> None:
        """Create a database for a user who owns it and is nothing else."""
        self.execute(
            f"CREATE ROLE dagster LOGIN PASSWORD '{PASSWORD}'",
            "CREATE DATABASE history OWNER dagster",
        )

    def ask(self, question: str, database: str) -> list[tuple[Any, ...]]:
        """Ask a database."""
        with closing(psycopg2.connect(self.url(database))) as asked, asked.cursor() as cursor:
            cursor.execute(question)
            return list(cursor.fetchall())


def programs() -> Path | None:
    """Return the folder of the server's programs, the newest of several; Debian keeps them off the path."""
    found = sorted(DEBIAN.glob("*/bin/initdb"), key=lambda path: float(path.parts[-3]))
    named = shutil.which("initdb")
    return found[-1].parent if found else Path(named).parent if named else None


@contextmanager
def served() -> Iterator[Server]:
    """Make a cluster, serve it, and end the server; the test is skipped where there is none."""
    folder = programs()
    if folder is None:
        pytest.skip(MISSING)
    # Not under pytest's own folder, which no other user may enter: the server refuses to be root.
    with TemporaryDirectory(prefix="strandline-postgres-") as home:
        data, secret = Path(home) / "data", Path(home) / "password"
        secret.write_text(PASSWORD)
        user = _unprivileged(Path(home), secret)
        made = ["-D", data, "-E", "UTF8", "--locale", "C", "--no-sync"]
        locked = ["-U", "strandline", "-A", "scram-sha-256", "--pwfile", secret]
        subprocess.run(
            [folder / "initdb", *made, *locked],
            cwd=home,
            user=user,
            env={"PATH": os.defpath},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        server = Server(port=processes.bind(0))
        options = {"listen_addresses": HOST, "unix_socket_directories": "", "fsync": "off"}
        words = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (Path(home) / "log").open("wb") as log:
            program = subprocess.Popen(
                [folder / "postgres", "-D", data, "-p", str(server.port), *words],
                cwd=home,
                user=user,
                env={"PATH": os.defpath},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        try:
            _wait(server, program, Path(home) / "log")
            yield server
        finally:
            program.send_signal(signal.SIGINT)  # connections are cut, nothing is lost
            program.wait(PATIENCE)


def _unprivileged(*paths: Path) -> str | None:
    """Give what it needs to Debian's own user of the server when we are root, which it refuses to be."""
    if os.getuid() != 0:
        return None
    try:
        for path in paths:
            shutil.chown(path, "postgres", "postgres")
    except LookupError:
        pytest.skip("root, and no user named postgres to be instead")
    return "postgres"


def _wait(server: Server, program: "subprocess.Popen[bytes]", log: Path) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        assert program.poll() is None, log.read_text()
        try:
            server.execute("SELECT 1")
        except psycopg2.OperationalError:
            assert time.monotonic() < deadline, log.read_text()
            time.sleep(0.1)
        else:
            return
