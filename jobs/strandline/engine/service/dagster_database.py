"""Dagster's history in a PostgreSQL database that answers, lets us write, and serves no other lake.

Why a lock: two daemons on one database start each other's runs, and a run writes the lake of the daemon that started
it. Dagster (1.13.27) only logs it. The lock belongs to the connection, so it ends with our process, however that ends.
It also ends with the server; Dagster survives a restart of the server, so the lock is then taken again.

Why messages repeat only the server's text: the driver quotes the part of an address that it could not read, and
that part may be the password (jobs/strandline/engine/runtime/settings.py refuses such addresses before).
"""

import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

import psycopg2
from psycopg2.extensions import connection as Connection
from pydantic import SecretStr

from strandline.core.errors import DefinitionError, LakeError, TransientError

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
        if self._held is not None:
            with suppress(psycopg2.Error), closing(self._held):
                _row(self._held, "SELECT pg_advisory_unlock(%s)", LOCK)
        self._held = None


def _taken(url: SecretStr) -> Connection:
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


def _connected(url: SecretStr) -> Connection:
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


def _row(held: Connection, question: str, *values: object) -> tuple[object, ...]:
    with held.cursor() as cursor:
        cursor.execute(question, values)
        row: tuple[object, ...] = cursor.fetchone()
        return row


def _refusal(error: psycopg2.OperationalError) -> LakeError:
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
