"""``strandline serve``, started as a program, with users, on a port of its own."""

import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fleet.silver import user_actions
from strandline.core.topic import QUARANTINE, RESOLUTION
from strandline.engine.lake.lake import Lake
from strandline.engine.service import sql_server
from tests.cli.typed import start
from tests.engine.written import entry, small_lake, written
from tests.support import by_hand
from tests.support.rows import NOON

PASSWORD = "correct-horse"  # noqa: S105  # of users that exist in these tests only
PATIENCE = 180.0


ACTIONS = [
    {"action_id": f"a{number}", "user_id": user, "action": "login"}
    for number, user in enumerate(("alice", "alice", "bob"))
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server that runs.

    Args:
        lake: Its lake.
        outside: A folder beside it, with a file that no client may read.
        url: Its address, without a database.
        options: What its TLS needs in an address.
    """

    lake: Lake
    outside: Path
    url: str
    options: str

    def at(self, database: str = "", more: str = "") -> str:
        """Return the address of a database, with more options."""
        return f"{self.url}{database}{self.options}{more}"


def asked_lake(root: Path) -> Lake:
    """Make a lake with a sensitive column, and a quarantine of which one record is open and one is not."""
    lake = small_lake(root)
    table = user_actions.TABLE
    written(lake.table(table), ACTIONS, entry(table, read=3, good=3, written=3).encoded())
    held = [
        ("user-actions", 0, offset, NOON, ["late"], NOON, None, b"{}", None) for offset in (7, 8)
    ]
    by_hand.create(lake.quarantine(table), QUARANTINE)
    rows = by_hand.table(QUARANTINE, held)
    by_hand.commit(
        lake.quarantine(table), [rows], entry(table, read=2, quarantined={"late": 2}).encoded()
    )
    decided = dict.fromkeys(RESOLUTION.fieldNames()) | {
        **dict(zip(QUARANTINE.fieldNames()[:6], held[0][:6], strict=True)),
        "generation": 0,
        "status": "discarded",
    }
    by_hand.create(lake.resolutions(table), RESOLUTION)
    rows = by_hand.table(RESOLUTION, [list(decided.values())])
    by_hand.commit(lake.resolutions(table), [rows], entry(table).encoded())
    return lake


def files(served: Served) -> dict[str, int]:
    """Return when each file was changed, those of the program's own logs and users aside."""
    roots = (served.outside, served.lake.root.local)
    return {
        str(path): path.stat().st_mtime_ns
        for root in roots
        for path in root.rglob("*")
        if path.is_file() and path.relative_to(root).parts[0] not in {"_logs", "_serve", "_who"}
    }


@contextmanager
def serving(
    lake: Lake, log: Path, *words: object, env: Mapping[str, str] | None = None
) -> Iterator[str]:
    """Serve a lake to ana, and to eve unmasked; yield the address, and see that a signal ends the server in order."""
    sql_server.add(lake, "ana", PASSWORD)
    sql_server.add(lake, "eve", PASSWORD, unmasked="fraud team")
    port = free_port()
    process = start("serve", "--lake", lake.root, "--port", port, *words, log=log, env=env)
    try:
        _await(process, log)
        yield f"jdbc:hive2://127.0.0.1:{port}/"
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()
        assert log.read_text().splitlines()[-1] == "stopped"
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    """Return a port that is free."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await(process: "subprocess.Popen[bytes]", log: Path) -> None:
    until = time.monotonic() + PATIENCE
    while "jdbc:hive2://" not in log.read_text():
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < until, log.read_text()
        time.sleep(0.05)
