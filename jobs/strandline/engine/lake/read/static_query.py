"""What a database of PostgreSQL answers to the query of a static table.

A table waits for it between two batches, so a server that is away, or an answer that takes long, ends within seconds and is said;
the last version goes on. No message repeats an address, which has a password: of what the driver says about one, nothing is shown.
"""

from contextlib import closing
from typing import Any

import pyarrow as pa

from strandline.core.errors import LakeError, TransientError
from strandline.core.static import Static
from strandline.engine.runtime.settings import POSTGRES, POSTGRES_HINT, POSTGRES_SHAPE, address_in
from strandline_infra import extras

WITHIN = 4
"""Seconds within which the server must answer a new connection."""

ANSWER = 30
"""Seconds within which it must answer the query."""


def answered(static: Static, most: int) -> bytes:
    """Return the rows of the answer, at most so many, as a stream of Arrow; the same rows in another order are the same bytes.

    Raises:
        DefinitionError: There is no driver or no address, or the database refuses the query.
        TransientError: It does not answer.
    """
    driver, address = _driver(static), _address(static)
    options = f"-c statement_timeout={ANSWER}s -c TimeZone=UTC"
    try:
        with closing(
            driver.connect(
                address,
                connect_timeout=WITHIN,
                options=options,
                application_name=f"strandline {static.id}",
            )
        ) as connection:
            connection.set_session(readonly=True)
            # Of a cursor with a name the server keeps what is not asked for.
            with connection.cursor(name="static") as cursor:
                cursor.execute(static.query)
                rows = cursor.fetchmany(most)
                names = [each.name for each in cursor.description]
    except driver.Error as error:
        raise _failed(static, driver, error) from None
    if not rows:
        raise static.refused(
            f"asks the database of {static.url}, which answers without a row",
            "a source that is made anew is committed with its rows.",
        )
    found = pa.table([pa.array(each) for each in zip(*sorted(rows, key=repr), strict=True)], names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, found.schema) as stream:
        stream.write_table(found)
    return bytes(sink.getvalue())


def _driver(static: Static) -> Any:  # noqa: ANN401  # has no types
    try:
        import psycopg2  # noqa: PLC0415  # of an extra
    except ModuleNotFoundError as error:
        raise static.refused(
            "asks a database of PostgreSQL, and its driver is not installed",
            extras.hint("postgres"),
        ) from error
    return psycopg2


def _address(static: Static) -> str:
    address = address_in(str(static.url))
    if not address:
        raise static.refused(
            f"asks the database of {static.url}, which the environment lacks",
            f"set {static.url}={POSTGRES_SHAPE}.",
        )
    if not POSTGRES.fullmatch(address):
        raise static.refused(
            f"asks the database of {static.url}, whose value is no address",
            POSTGRES_HINT,
        )
    return address


def _failed(static: Static, driver: Any, error: Any) -> LakeError:  # noqa: ANN401  # as above
    if isinstance(error, driver.OperationalError):
        said = " ".join(str(error).split())
        return TransientError(
            f"{static.id} cannot be read: the database of {static.url} does not answer: {said}",
            hint=f"see that its server runs, that {static.url} is right, and that the query takes less than {ANSWER} seconds.",
            static=static.id,
        )
    said = (str(error).strip().splitlines() or ["an option that the driver does not know"])[0]
    return static.refused(
        f"cannot be read: the database of {static.url} refuses its query: {said}",
        "correct the query, or let its user read what it names; it may change nothing.",
    )
