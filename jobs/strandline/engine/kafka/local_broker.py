"""A real Kafka broker for a lake: one node, on loopback, its data in the lake's folder.

Why a real one: offsets, keys, transactions and time-outs of a substitute are never those of Kafka, and this one is
up in about three seconds without Docker (infra/strandline_infra/broker.py has the figures).

Everything that a user may do at the wrong moment is expected: a kill of the broker or of the command that starts it,
at any point; two commands at once; a recorded pid that belongs to another process by now.
"""

import base64
import json
import re
import secrets
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from strandline.core.errors import DataError, DefinitionError, TransientError
from strandline.engine.kafka import admin
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake, unwritable
from strandline.engine.lake.store_lease import hold
from strandline.engine.runtime import processes
from strandline.engine.runtime.log_files import bound
from strandline_infra import broker as recipe
from strandline_infra import jars, java
from strandline_infra.installation import setup_command

PATIENCE = 60.0
STOP_PATIENCE = 20.0
ATTEMPTS = 3
TAKEN = "Address already in use"
ERROR = re.compile(r"\b(?:ERROR|FATAL|\w*Exception|\w*Error)\b")


GUARD = """
import sys
sys.stdin.buffer.read()
from strandline.engine.kafka.local_broker import down, status
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.files.place import Place
lake, pid = Lake(Place.of(sys.argv[1])), int(sys.argv[2])
found = status(lake)
if found and found.pid == pid:
    down(lake)
"""
"""A program that stops a lake's broker as soon as its own standard input ends; one that was started since is not its own."""


WANTED = "wanted"
"""The file in the broker's folder from its start to its stop by a person; a watchdog starts it again meanwhile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Broker:
    """A running broker."""

    address: str
    pid: int
    log: Place


@dataclass(frozen=True, slots=True, kw_only=True)
class _State:
    """The record of the last broker that was started here."""

    port: int
    controller_port: int
    pid: int | None = None


def up(lake: Lake, port: int | None = None, *, archives: Place | None = None) -> Broker:
    """Start the lake's broker, or return the running one, once it answers.

    Args:
        lake: Whose folder has the broker's data.
        port: Where it answers; without one, at the last port or a free one.
        archives: Where to write an archive of the loaded classes at its end, instead of using one.

    Raises:
        DefinitionError: The folder cannot be written, the port cannot be used, or set-up is not done.
        DataError: The broker's folder holds something else.
        TransientError: The broker ended while starting, or does not answer in time.
    """
    home = lake.broker
    with _alone(home):
        pid = _running(home)
        if pid is not None:
            found = _await(home, pid, port)
            if found is not None:
                return found
        processes.refuse_taken(port)
        if _stop(home):  # one that still ran after its storage was deleted
            _set_aside(home)
        _format(home)
        (home / WANTED).put("")
        return _start(home, port, archives)


@contextmanager
def for_this_work(lake: Lake) -> Iterator[Broker]:
    """Run the lake's broker for the length of a block, and no longer, however the block ends.

    A kill can end nothing any more, and the broker is no child that ends with its parent. So a small process reads from a pipe
    that this process keeps open; the kernel closes it with this process, and then it stops the broker.
    """
    running = up(lake)
    guard = processes.watching([sys.executable, "-c", GUARD, str(lake.root), str(running.pid)])
    try:
        yield running
    finally:
        down(lake)
        guard.kill()
        guard.communicate()


def archive() -> Place | None:
    """Return the archive of the broker's classes, if set-up is done (jobs/strandline/engine/service/class_archive.py)."""
    home, found = java.java_home(), jars.broker_jars()
    return Place.of(java.archive(home, found)) if home and found else None


def status(lake: Lake) -> Broker | None:
    """Return the lake's broker if its process runs."""
    home = lake.broker
    pid = _running(home)
    return None if pid is None else _broker(home, pid)


def remembered(lake: Lake) -> str | None:
    """Return the last address of the lake's broker, which it will have again if the port is free."""
    state = _read(lake.broker)
    return f"{recipe.HOST}:{state.port}" if state else None


def log(lake: Lake) -> Place:
    """Return the file with the broker's log."""
    return lake.broker / "broker.log"


def is_wanted(lake: Lake) -> bool:
    """Return whether the lake's broker was started and not stopped since: one that does not run then has died."""
    return (lake.broker / WANTED).is_file()


def bound_log(lake: Lake) -> None:
    """Keep that file from growing for months; the broker begins a new one only when it starts."""
    bound(log(lake).local)


def down(lake: Lake) -> bool:
    """Stop the lake's broker and return whether it ran; no other process is ever touched.

    Raises:
        DefinitionError: The folder cannot be written.
    """
    home = lake.broker
    if not home.exists():
        return _stop(home)
    with _alone(home):
        (home / WANTED).remove_file()
        return _stop(home)


def _mark(home: Place) -> str:
    # A copied lake shares everything with the original but its folder.
    return f"-Dstrandline.broker={home}"


def _stop(home: Place) -> bool:
    pid = processes.find(_mark(home))
    return pid is not None and processes.stop(pid, _mark(home), patience=STOP_PATIENCE)


@contextmanager
def _alone(home: Place) -> Iterator[None]:
    """Let only one command at a time start or stop the broker."""
    try:
        with hold(home / "lock"):
            yield
    except OSError as error:
        raise unwritable(home.parent, error) from error


def _read(home: Place) -> _State | None:
    try:
        return _State(**json.loads((home / "broker.json").text() or ""))
    except (OSError, ValueError, TypeError):
        return None


def _write(home: Place, state: _State) -> None:
    (home / "broker.json").put(json.dumps(asdict(state)))


def _running(home: Place) -> int | None:
    state = _read(home)
    if state is None:
        return None
    if state.pid is None:  # its starter was killed before it could write the pid
        return processes.find(_mark(home))
    return state.pid if processes.is_ours(state.pid, _mark(home)) else None


def _broker(home: Place, pid: int) -> Broker:
    state = _read(home)
    port = state.port if state else 0
    return Broker(address=f"{recipe.HOST}:{port}", pid=pid, log=home / "broker.log")


def _start(home: Place, port: int | None, archives: Place | None) -> Broker:
    last = _read(home)
    for attempt in range(1, ATTEMPTS + 1):
        # Clients remember addresses, so the last port is used again if it is free.
        state = _State(
            port=port or processes.free(last.port if last else 0),
            controller_port=processes.free(last.controller_port if last else 0),
        )
        try:
            return _launch(home, state, archives)
        except TransientError as error:
            # Another program took the port between the check and the broker's start.
            if port is not None or attempt == ATTEMPTS or TAKEN not in error.message:
                raise
            last = None
    raise AssertionError


def _launch(home: Place, state: _State, archives: Place | None) -> Broker:
    config = recipe.properties(port=state.port, controller_port=state.controller_port, data="data")
    (home / recipe.PROPERTIES).put(config)
    (home / "tmp").make()
    log = home / "broker.log"
    if log.exists():
        log.move(home / "broker.log.1")
    command = recipe.start_command(_java(archives), _mark(home))
    _write(home, state)
    pid = processes.spawn(command, folder=home.local, log=log.local)
    _write(home, _State(**{**asdict(state), "pid": pid}))
    broker = _await(home, pid, state.port)
    if broker is None:
        said = (log.bytes() or b"").decode(errors="replace")
        raise TransientError(
            f"the broker ended while starting: {_last_error(said)}",
            hint=f"read {log}, then `strandline up` again.",
            log=str(log),
        )
    return broker


def _await(home: Place, pid: int, port: int | None) -> Broker | None:
    """Return the broker once it answers; None when it ends instead, for example after a kill."""
    broker = _broker(home, pid)
    if port is not None and broker.address != f"{recipe.HOST}:{port}":
        raise DefinitionError(
            f"this lake's broker runs already, at {broker.address}",
            hint="stop it with `strandline down` to start it at another port.",
            address=broker.address,
        )
    deadline = time.monotonic() + PATIENCE
    while _running(home) is not None:
        try:
            admin.check_reachable(broker.address, {}, patience=1.0)
        except TransientError as error:
            if time.monotonic() > deadline:
                raise TransientError(
                    f"the broker runs (pid {pid}) but does not answer within {PATIENCE:.0f} s",
                    hint=f"after a crash it reads its data first; wait and type the same, or see {broker.log}",
                    pid=pid,
                ) from error
        else:
            return broker
    return None


def _set_aside(home: Place) -> None:
    """Move away the folders of topics that a broker created again after its storage was deleted; none can read them."""
    data = home / "data"
    if data.exists() and not (data / "meta.properties").exists():
        data.move(home / f"data-deleted-{secrets.token_hex(4)}")


def _format(home: Place) -> None:
    """Create the broker's storage, completely or not at all."""
    data = home / "data"
    if (data / "meta.properties").exists():
        return
    if data.names():
        raise DataError(
            f"{data} is not the storage of a broker: it has no meta.properties",
            hint="move it away; a new and empty one is then created.",
            folder=str(data),
        )
    for left in home.names():
        if left.startswith("format-"):
            (home / left).remove(if_possible=True)
    # A folder for this attempt only: a tool whose starter was killed may still write into another.
    workshop = home / f"format-{secrets.token_hex(4)}"
    config = recipe.properties(port=1, controller_port=2, data=data.name)
    (workshop / recipe.PROPERTIES).put(config)
    cluster = base64.urlsafe_b64encode(secrets.token_bytes(16)).decode().rstrip("=")
    command = recipe.format_command(_java(), cluster)
    done, output = processes.run(command, folder=workshop.local)
    if not done:
        raise TransientError(
            f"the broker's storage cannot be created: {_last_error(output)}",
            hint="check the disk of the lake's folder, then `strandline up` again.",
            folder=str(workshop),
        )
    (workshop / data.name).move(data)
    workshop.remove(if_possible=True)


def _java(archives: Place | None = None) -> list[str]:
    home, found = java.java_home(), jars.broker_jars()
    if home is None or not found:
        missing = "Java 17 or 21 is" if home is None else "the broker's jars are"
        raise DefinitionError(f"{missing} missing", hint=f"run `{setup_command()}`.")
    more = java.archive_option(java.archive(home, found), archives.local if archives else None)
    return recipe.java_with(home, found, more)


def _last_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    wrong = [line for line in lines if ERROR.search(line) and not line.startswith("at ")]
    return wrong[-1] if wrong else "its log names no error"
