"""Dagster's history in a PostgreSQL database: one that answers, lets us write, and serves no other lake.

Why a lock: of two daemons on one database each starts the other's runs, and a run writes the lake of the daemon that
started it. Dagster (1.13.27) only says so in its log. The lock is the connection's own, so however we end it is gone.

Why only what the server says is repeated: the driver itself names the piece of an address that it could not read, and
that piece may be the password (jobs/run/settings.py refuses such addresses before).
"""

from collections.abc import Iterator
from contextlib import closing, contextmanager

import psycopg2
from psycopg2.extensions import connection as Connection
from pydantic import SecretStr

from jobs.core.errors import DefinitionError, LakeError, TransientError

PATIENCE = 4
LOCK = 0x5374_7261_6E64  # "Strand"; anything that nobody else in the database has a reason to lock
CORRECT = (
    "correct STRANDLINE_POSTGRES, or unset it, and the history is kept in the lake. "
    "It is not shown here, because it may hold a password."
)
MAY_WRITE = """
    SELECT current_database(), current_user, to_regclass('runs') IS NOT NULL
        OR coalesce(has_schema_privilege(current_schema(), 'CREATE'), false)
"""


def check_reachable(url: SecretStr) -> None:
    """Make sure that the database answers and that Dagster may keep its tables there.

    Raises:
        DefinitionError: It refuses us, or does not let us write.
        TransientError: It does not answer.
    """
    with closing(_connected(url)):
        pass


@contextmanager
def reserved(url: SecretStr) -> Iterator[None]:
    """Make sure that the database can be used, and keep it for one lake for as long as this lasts.

    Raises:
        DefinitionError: It refuses us, does not let us write, or serves another lake at the moment.
        TransientError: It does not answer.
    """
    with closing(_connected(url)) as held:
        if _row(held, "SELECT pg_try_advisory_lock(%s)", LOCK) != (True,):
            raise DefinitionError(
                "another `strandline ui` keeps its history in the database of STRANDLINE_POSTGRES",
                hint="give each lake a database of its own, or stop the other with Ctrl-C.",
            )
        yield


def _connected(url: SecretStr) -> Connection:
    try:
        held = psycopg2.connect(url.get_secret_value(), connect_timeout=PATIENCE)
    except psycopg2.OperationalError as error:
        raise _refusal(error) from None
    except psycopg2.Error:
        raise DefinitionError(
            "STRANDLINE_POSTGRES asks for what the driver does not know", hint=CORRECT
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
        found: tuple[object, ...] = cursor.fetchone()
        return found


def _refusal(error: psycopg2.OperationalError) -> LakeError:
    """Tell a server that is not there, or not yet, from one that does not want us."""
    words = " ".join(str(error).split())
    if "FATAL" in words and "starting up" not in words:
        return DefinitionError(
            f"the database for Dagster's history refuses us: {words}", hint=CORRECT
        )
    return TransientError(
        f"the database for Dagster's history does not answer: {words}",
        hint="start it, then type the same again; or " + CORRECT,
    )
