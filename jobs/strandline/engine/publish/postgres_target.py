"""A table of PostgreSQL as a target: rows and the position after them are one transaction of the database.

So each change is there exactly once, whatever was killed when, and a database that is restored from a copy of yesterday goes on
from yesterday. The position is a row of ``strandline_positions``, which a publisher replaces only as it wrote it: one that was
suspended and replaced is refused. The table has ``_key``, the key as JSON, because columns of a key may be NULL, and
``_version``: an older change never replaces a newer one.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake.store_lease import FencedError
from strandline.engine.publish.books import Position, position
from strandline.engine.publish.declared import Change
from strandline.engine.publish.target import Refused, as_json
from strandline.engine.runtime.settings import POSTGRES, POSTGRES_HINT, POSTGRES_SHAPE, address_in
from strandline_infra import installation

POSITIONS = "strandline_positions"
WITHIN = 10
"""Seconds within which the server must answer a new connection."""
SILENT = 30
"""Seconds after which a server that does not acknowledge, or a lock that another holds, counts as an absence."""
PAGE = 500
"""Rows of a statement."""
SCALARS = {
    "VARCHAR": "text",
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "SMALLINT": "smallint",
    "INTEGER": "integer",
    "BIGINT": "bigint",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "DATE": "date",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "BLOB": "bytea",
}
OLD = -1
"""The version of rows that were there before all was sent anew."""


class ToPostgres:
    """A table."""

    loses_positions = False

    def __init__(self, table: str, variable: str, name: str, kinds: Mapping[str, str]) -> None:
        """Connect to nothing yet.

        Args:
            table: The table, with its schema or without.
            variable: The variable of the environment with the address.
            name: By which the position is found.
            kinds: The columns, with DuckDB's names of their types.
        """
        self._table = ".".join(_quoted(each) for each in table.split("."))
        self._variable, self._name = variable, name
        self._kinds = {each: _type(kind) for each, kind in kinds.items()}
        self._connection: Any = None
        self._kept: str | None = None

    def begin(self) -> Position | None:
        """Connect, create what is missing, and return the position that the database has.

        Raises:
            DefinitionError: There is no address, or no driver.
        """
        driver, address = _driver(), address_in(self._variable)
        if not address:
            raise DefinitionError(
                f"the environment has no {self._variable}, the address of the table {self._table}",
                hint=f"set {self._variable}={POSTGRES_SHAPE}.",
            )
        if not POSTGRES.fullmatch(address):  # the driver's message would repeat it
            raise DefinitionError(
                f"{self._variable}, the address of the table {self._table}, has a value that is no address",
                hint=POSTGRES_HINT,
            )
        columns = ", ".join(f"{_quoted(name)} {kind}" for name, kind in self._kinds.items())
        added = ", ".join(
            f"ADD COLUMN IF NOT EXISTS {_quoted(name)} {kind}" for name, kind in self._kinds.items()
        )
        with self._understood():
            self._connection = driver.connect(
                address,
                connect_timeout=WITHIN,
                tcp_user_timeout=SILENT * 1000,
                options=f"-c TimeZone=UTC -c client_min_messages=warning -c lock_timeout={SILENT}s",
                application_name="strandline publish",
            )
            with self._connection.cursor() as cursor:
                cursor.execute(
                    f"CREATE TABLE IF NOT EXISTS {POSITIONS} (publication text PRIMARY KEY, position text NOT NULL)"
                )
                cursor.execute("SELECT to_regclass(%s) IS NULL", (self._table,))
                if cursor.fetchone()[0]:  # made anew, so what it had got is not there
                    cursor.execute(
                        f"DELETE FROM {POSITIONS} WHERE publication = %s",  # noqa: S608  # our own names
                        (self._name,),
                    )
                cursor.execute(
                    f"CREATE TABLE IF NOT EXISTS {self._table} "
                    f"(_key text PRIMARY KEY, _version bigint NOT NULL, {columns})"
                )
                cursor.execute(f"ALTER TABLE {self._table} {added}")
                cursor.execute(
                    f"SELECT position FROM {POSITIONS} WHERE publication = %s",  # noqa: S608  # our own names
                    (self._name,),
                )
                found = cursor.fetchone()
            self._connection.commit()
        self._kept = found[0] if found else None
        return position(self._kept) if self._kept else None

    def offer(self, changes: Sequence[Change], *, is_first: bool, is_last: bool) -> Refused:
        """Write changes in a transaction: of several of a key the last."""
        last = {as_json(each.key).decode(): each for each in changes}
        refused: dict[str, str] = {}
        with self._understood(), self._connection.cursor() as cursor:
            if is_first:
                cursor.execute(f"UPDATE {self._table} SET _version = {OLD}")  # noqa: S608  # our own names
            if self._refusal(cursor, last):
                for each in changes:
                    if said := self._refusal(cursor, {as_json(each.key).decode(): each}):
                        refused[each.id] = said
            if is_last:
                cursor.execute(f"DELETE FROM {self._table} WHERE _version = {OLD}")  # noqa: S608  # our own names
        return refused

    def keep(self, place: Position) -> None:
        """Commit, with the position.

        Raises:
            FencedError: Another process has written one.
        """
        text = place.text()
        with self._understood(), self._connection.cursor() as cursor:
            if self._kept is None:
                sql = f"INSERT INTO {POSITIONS} (position, publication) VALUES (%s, %s) ON CONFLICT DO NOTHING"  # noqa: S608  # as above
                cursor.execute(sql, (text, self._name))
            else:
                sql = (
                    f"UPDATE {POSITIONS} SET position = %s WHERE publication = %s AND position = %s"  # noqa: S608  # as above
                )
                cursor.execute(sql, (text, self._name, self._kept))
            if cursor.rowcount != 1:
                raise FencedError(
                    f"another process publishes to the table {self._table} now",
                    hint="let the other go on; it has begun where this one was.",
                )
            self._connection.commit()
        self._kept = text

    def close(self) -> None:
        """End the transaction that is open, and the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def _refusal(self, cursor: Any, changes: Mapping[str, Change]) -> str:  # noqa: ANN401  # of the driver, which has no types
        """Write changes, or none of them; return why the database refuses one, empty where it takes all."""
        driver = _driver()
        cursor.execute("SAVEPOINT changes")
        try:
            self._write(cursor, changes)
        # ProgramLimitExceeded: of a key too long for an index; RaiseException: of a trigger; ValueError: of a text with a zero byte, by
        # the driver.
        except (
            driver.DataError,
            driver.IntegrityError,
            driver.errors.ProgramLimitExceeded,
            driver.errors.RaiseException,
            ValueError,
        ) as error:
            cursor.execute("ROLLBACK TO SAVEPOINT changes")
            return str(error).strip().splitlines()[0]
        cursor.execute("RELEASE SAVEPOINT changes")
        return ""

    def _write(self, cursor: Any, changes: Mapping[str, Change]) -> None:  # noqa: ANN401  # as above
        from psycopg2.extras import execute_values  # noqa: PLC0415  # of an extra

        gone = [(key, each.version) for key, each in changes.items() if each.row is None]
        if gone:
            execute_values(
                cursor,
                f"DELETE FROM {self._table} AS t USING (VALUES %s) AS gone (key, version) "  # noqa: S608  # our own names
                "WHERE t._key = gone.key AND t._version <= gone.version",
                gone,
                page_size=PAGE,
            )
        rows = [
            (
                key,
                each.version,
                *(_value(each.row[name], kind) for name, kind in self._kinds.items()),
            )
            for key, each in changes.items()
            if each.row is not None
        ]
        # The driver takes a percent sign in a statement with values for the place of one.
        names = [_quoted(each).replace("%", "%%") for each in ("_key", "_version", *self._kinds)]
        if rows:
            execute_values(
                cursor,
                f"INSERT INTO {self._table} AS t ({', '.join(names)}) VALUES %s ON CONFLICT (_key) DO UPDATE SET "  # noqa: S608  # as above
                f"{', '.join(f'{name} = excluded.{name}' for name in names[1:])} "
                "WHERE t._version <= excluded._version",
                rows,
                page_size=PAGE,
            )

    @contextmanager
    def _understood(self) -> Iterator[None]:
        """Say what an error of the driver means.

        Raises:
            TransientError: The database is away, or refuses what is no matter of a row.
        """
        driver = _driver()
        try:
            yield
        except driver.Error as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise TransientError(
                f"the table {self._table} of PostgreSQL does not take rows: {reason}",
                hint=f"see that the server of {self._variable} runs, and that its user may create and write the table.",
            ) from error


def _driver() -> Any:  # noqa: ANN401  # has no types
    try:
        import psycopg2.errors  # noqa: PLC0415  # of an extra
    except ModuleNotFoundError as error:
        raise DefinitionError(
            "rows are published to PostgreSQL, and its driver is not installed",
            hint=installation.hint("postgres"),
        ) from error
    return psycopg2


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _type(kind: str) -> str:
    """Return PostgreSQL's name of a type; what is nested is JSON."""
    return (
        kind.replace("DECIMAL", "numeric")
        if kind.startswith("DECIMAL") and kind[-1] == ")"
        else SCALARS.get(kind, "jsonb")
    )


def _value(value: object, kind: str) -> object:
    return as_json(value).decode() if kind == "jsonb" and value is not None else value
