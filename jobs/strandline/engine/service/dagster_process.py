"""Dagster's programs behind ``strandline ui``, and the PostgreSQL database that may have their history.

Dagster is started as a program, because this package may not import it. Its programs get a session of their own, so
Ctrl-C reaches them only through us. Therefore they outlive us when we are killed, and a second daemon of one home
would start everything twice. A mark on Dagster's command line finds a program that was left behind, and a free lock
shows that its `strandline ui` is gone.
"""

import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from typing import TYPE_CHECKING

import psutil

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.engine.kafka.broker import bound_log
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.store_lease import HeldError, hold
from strandline.engine.runtime import processes
from strandline.engine.runtime.log_files import bound
from strandline.engine.runtime.processes import family
from strandline.engine.runtime.profiles import SecretStr
from strandline.project import refuse_without
from strandline_infra.programs import HOST, WORKSPACE, instance

if TYPE_CHECKING:  # its driver is part of an extra
    import psycopg2
    from psycopg2.extensions import connection as Connection

DEV = ("-m", "strandline_dagster.webserver", "dev")
"""``dagster dev``, with a webserver that no stranger's page orders about."""
PATIENCE = 300.0
"""Seconds until Dagster must answer; on two cores that do other things as well it once took more than 120."""
ENDING = 30.0
POLL = 0.2


class Console:
    """Dagster's programs of one lake."""

    def __init__(
        self,
        lake: Lake,
        port: int | None,
        *,
        database: SecretStr | None,
        note: Callable[[str], None],
    ) -> None:
        """Choose a port and refuse a second `strandline ui` of one lake; nothing runs yet.

        ``note`` is called when the database is away, and when it is back.

        Raises:
            DefinitionError: Dagster or the database's driver is not installed, the port is taken, `strandline ui` runs
                already, or the database refuses us.
            TransientError: The database does not answer.
        """
        for extra in ("dagster", *(["postgres"] if database is not None else [])):
            refuse_without(extra)
        self._lake = lake
        self._home = lake.dagster
        processes.refuse_taken(port)
        self._port = processes.bind(port or 0)
        self._programs: dict[str, subprocess.Popen[bytes]] = {}
        self._held = ExitStack()
        self._reservation: Reservation | None = None
        self._refuse_second()
        if database is not None:
            self._reservation = self._held.enter_context(closing(Reservation(database, note)))
        self._configure(in_database=database is not None)

    def start(self, stopped: threading.Event) -> str | None:
        """Start everything, and return the address when Dagster answers; None when it is stopped before that.

        Raises:
            TransientError: Dagster does not answer in time.
        """
        environment = [f"DAGSTER_HOME={self._home}", "DAGSTER_DISABLE_TELEMETRY=yes"]
        dev = [*DEV, "-w", str(WORKSPACE), "-h", HOST, "-p", str(self._port)]
        self._start("dagster", ["-X", self._mark, *dev], environment)
        address = f"http://{HOST}:{self._port}"
        deadline = time.monotonic() + PATIENCE
        while not stopped.wait(POLL):
            self.refuse_ended()
            if _answers(address):
                return address
            if time.monotonic() > deadline:
                raise TransientError(
                    f"Dagster does not answer at {address} after {PATIENCE:.0f} s",
                    hint=f"its log is {self._lake.log('dagster')}.",
                )
        return None

    def refuse_ended(self) -> None:
        """Check that everything still runs.

        Raises:
            TransientError: A program has ended by itself.
            SharedError: The database was away, and another lake locked it first when it came back.
        """
        if self._reservation is not None:
            self._reservation.refuse_shared()
        bound_log(self._lake)
        for name, program in self._programs.items():
            bound(self._lake.log(name).local)
            if program.poll() is not None:
                raise TransientError(
                    f"{name} has ended by itself with code {program.returncode}",
                    hint=f"its log is {self._lake.log(name)}; remove the cause, then repeat the command.",
                    program=name,
                )

    @property
    def _mark(self) -> str:
        """Return a text that no other command line has; Python ignores an option that it does not know."""
        return f"strandline-ui={self._home}"

    def _refuse_second(self) -> None:
        try:
            self._held.enter_context(hold(self._home / "lock", waits=False))
        except HeldError as error:
            raise DefinitionError(
                f"`strandline ui` runs already for {self._lake.root}",
                hint="the terminal in which it was started has its address; stop it there with Ctrl-C.",
            ) from error
        left = processes.find(self._mark)
        if left is not None:
            programs = family(left)
            processes.stop(left, self._mark, patience=ENDING)
            _end(programs)

    def _configure(self, *, in_database: bool) -> None:
        (self._home / "dagster.yaml").put(instance(in_database=in_database))

    def stop(self) -> None:
        """Ask every program to end, and kill it after a while."""
        families = [family(program.pid) for program in self._programs.values()]
        for program in self._programs.values():
            if program.poll() is None:
                program.send_signal(signal.SIGINT)
        for each in families:
            _end(each)
        for program in self._programs.values():
            program.wait()
        self._held.close()

    def _start(self, name: str, words: list[str], environment: list[str]) -> None:
        environment = [f"STRANDLINE_LAKE={self._lake.root}", *environment]
        command = ["/usr/bin/env", *environment, sys.executable, *words]
        self._programs[name] = processes.child(command, log=self._lake.program_log(name))


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/server_info", timeout=2):  # noqa: S310  # our own address
            return True
    except (urllib.error.URLError, OSError):
        return False


def _end(alive: list[psutil.Process]) -> None:
    """Wait until the processes have ended; terminate those that have not, then kill them."""
    _, alive = psutil.wait_procs(alive, timeout=ENDING)
    for insist in (psutil.Process.terminate, psutil.Process.kill):
        for each in alive:
            with suppress(psutil.NoSuchProcess):
                insist(each)
        _, alive = psutil.wait_procs(alive, timeout=ENDING)


# Dagster's history in a PostgreSQL database that answers, lets us write, and serves no other lake.
#
# Why a lock: two daemons on one database start each other's runs, and a run writes the lake of the daemon that started
# it. Dagster (1.13.27) only logs it. The lock belongs to the connection, so it ends with our process, however that ends.
# It also ends with the server; Dagster survives a restart of the server, so the lock is then taken again.
#
# Why messages repeat only the server's text: the driver quotes the part of an address that it could not read, and
# that part may be the password (jobs/strandline/engine/runtime/settings.py refuses such addresses before).

DATABASE_PATIENCE = 4
EVERY = 5.0
STARTS_OR_ENDS = "the database system is "
"""The beginning of the server's answer while it starts up, shuts down or recovers."""
LOCK = 0x5374_7261_6E64  # "Strand"; a number that no other program in the database has a reason to lock
CORRECT = (
    "correct STRANDLINE_POSTGRES, or unset it, and the history is kept in the lake. "
    "It is not shown here, because it may hold a password."
)
RELEASE = 2.0
"""Seconds in which the server releases the lock of a connection that was just lost, as after a kill and a quick start."""
MAY_WRITE = """
    SELECT current_database(), current_user, to_regclass('runs') IS NOT NULL
        OR coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
"""


def check_reachable(url: SecretStr) -> None:
    """Check that the database answers and that Dagster may keep its tables there.

    Raises:
        DefinitionError: The database refuses us, or does not let us write.
        TransientError: The database does not answer.
    """
    with closing(_connected(url)):
        pass


class SharedError(DefinitionError):
    """The database serves another lake."""


class Reservation:
    """Reserves the database for one lake, also across an outage of the server.

    A thread polls the server, because a server that hangs would block its caller, and Ctrl-C with it.
    """

    def __init__(
        self, url: SecretStr, note: Callable[[str], None] = lambda _: None, *, every: float = EVERY
    ) -> None:
        """Check that the database can be used, and lock it; ``note`` is called when it is away, and when it is back.

        Raises:
            DefinitionError: The database refuses us, does not let us write, or serves another lake at the moment.
            TransientError: The database does not answer.
        """
        self._url = url
        self._note = note
        self._every = every
        self._held: Connection | None = _taken(url)
        self._refusal: SharedError | None = None
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="postgres", daemon=True)
        self._thread.start()

    def refuse_shared(self) -> None:
        """Refuse to go on if another lake has locked the database while it was away.

        Raises:
            SharedError: Another lake has the lock.
        """
        if self._refusal is not None:
            raise self._refusal

    def close(self) -> None:
        """Release the database."""
        self._closed.set()
        self._thread.join(DATABASE_PATIENCE)

    def _keep(self) -> None:
        while not self._closed.wait(self._every):
            try:
                self._look()
            except SharedError as error:
                self._refusal = error
                return
        self._let_go()

    def _look(self) -> None:
        """Check that the lock is still ours; after an outage of the server take it again."""
        import psycopg2  # noqa: PLC0415  # part of an extra

        try:
            if self._held is not None:
                _row(self._held, "SELECT 1")
                return
            self._held = _taken(self._url)
            self._note("the database for Dagster's history is back; everything goes on")
        except SharedError:
            raise
        except (psycopg2.Error, LakeError) as error:
            if self._held is not None:
                answer = (
                    error.message if isinstance(error, LakeError) else " ".join(str(error).split())
                )
                self._note(
                    f"the database for Dagster's history is away ({answer}); schedules, runs and pages wait for it, "
                    "a stream does not"
                )
            self._let_go()

    def _let_go(self) -> None:
        """Unlock, then disconnect: the server releases a lost connection's lock a moment later, and refuses until then."""
        import psycopg2  # noqa: PLC0415  # part of an extra

        if self._held is not None:
            with suppress(psycopg2.Error), closing(self._held):
                _row(self._held, "SELECT pg_advisory_unlock(%s)", LOCK)
        self._held = None


def _taken(url: SecretStr) -> "Connection":
    held, deadline = _connected(url), time.monotonic() + RELEASE
    while _row(held, "SELECT pg_try_advisory_lock(%s)", LOCK) != (True,):
        if time.monotonic() > deadline:
            held.close()
            raise _shared()
        time.sleep(0.1)
    return held


def _shared() -> SharedError:
    return SharedError(
        "another `strandline ui` keeps its history in the database of STRANDLINE_POSTGRES",
        hint="give each lake a database of its own, or stop the other with Ctrl-C.",
    )


def _connected(url: SecretStr) -> "Connection":
    import psycopg2  # noqa: PLC0415  # part of an extra

    try:
        held = psycopg2.connect(url.get_secret_value(), connect_timeout=DATABASE_PATIENCE)
    except psycopg2.OperationalError as error:
        raise _refusal(error) from None
    except psycopg2.Error:
        raise DefinitionError(
            "STRANDLINE_POSTGRES has an option that the driver does not know", hint=CORRECT
        ) from None
    held.autocommit = True
    database, user, may_write = _row(held, MAY_WRITE)
    if not may_write:
        held.close()
        raise DefinitionError(
            f"{user} may not make tables in the database {database}",
            hint=f"make {user} its owner: ALTER DATABASE {database} OWNER TO {user}",
        )
    return held


def _row(held: "Connection", question: str, *values: object) -> tuple[object, ...]:
    with held.cursor() as cursor:
        cursor.execute(question, values)
        row: tuple[object, ...] = cursor.fetchone()
        return row


def _refusal(error: "psycopg2.OperationalError") -> LakeError:
    """Return the error for a failed connection: transient for a server that is away or starts, else a refusal."""
    answer = " ".join(str(error).split())
    if "FATAL" in answer and STARTS_OR_ENDS not in answer:
        return DefinitionError(
            f"the database for Dagster's history refuses us: {answer}", hint=CORRECT
        )
    return TransientError(
        f"the database for Dagster's history does not answer: {answer}",
        hint="start it, then repeat the command; or " + CORRECT,
    )
