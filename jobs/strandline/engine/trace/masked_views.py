"""The tables that a query names as views of DuckDB, each at its version and with its sensitive columns masked.

A sensitive value is replaced by a hash, salted with a random number drawn for each query. Equal values get equal hashes
within one query, so groups and joins are correct. A masked column is text and equals no value that a query names.

The views are opened anew for each query, so it reads what was committed last. The names below them are drawn as well: who
knew one could read past the mask.
"""

import secrets
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import UTC, date, datetime

from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.quarantine.resolutions import State, offer
from strandline.engine.storage.duckdb_session import Duck, DuckError, literal
from strandline.engine.storage.duckdb_view import register, scan
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import is_table
from strandline.engine.storage.open_table import kinds
from strandline.engine.storage.past_versions import (
    DamagedLogError,
    damaged_log,
    open_version,
    refuse_deleted_files,
    version_at,
)
from strandline.engine.storage.place import Place
from strandline.engine.trace.listing import make_lists
from strandline.engine.trace.named_tables import ENTRIES, Source, sources
from strandline.engine.trace.sql_text import Question, Reference, view_of

VARIANT = '"variant"'
NO_ENTRIES = """
    SELECT '' AS "table", '' AS log, 0::BIGINT AS version, '' AS entry WHERE false
"""
"""The closed entries of a lake that is too young to have some."""


@dataclass(slots=True)
class Views:
    """What was opened for a query.

    Args:
        masked: The masked columns of each table.
        past: The folder and the version of each table that was opened at a past version.
    """

    masked: dict[str, list[str]] = field(default_factory=dict)
    past: dict[str, tuple[Place, int]] = field(default_factory=dict)


def names(tables: Collection[Table], lake: Lake) -> list[str]:
    """Return the names of what exists."""
    found = sources(tables, lake)
    return [name for name, each in found.items() if name == ENTRIES or is_table(each.place)]


def open_views(  # noqa: PLR0913  # where, what, of what, and how
    duck: Duck,
    question: Question,
    tables: Collection[Table],
    lake: Lake,
    *,
    unmasked: bool,
    through_arrow: bool = False,
) -> Views:
    """Make a view of each table that a query names, and let the database open the files of these tables alone.

    Args:
        duck: An empty database.
        question: The query.
        tables: All tables of the lake.
        lake: The lake.
        unmasked: Whether sensitive columns are shown in the clear.
        through_arrow: Whether the database may open no file at all, because more than one SELECT is run in it: what may
            read a file could also overwrite it.

    Raises:
        DefinitionError: A table does not exist, or not at the version that is asked for.
    """
    known = sources(tables, lake)
    asked = list(question.tables)
    if question.lists:
        asked += [one for name in names(tables, lake) if (one := Reference(name)) not in asked]
    duck.execute("SET VARIABLE drawn = $drawn", {"drawn": secrets.token_hex()})
    opening = _Opening(duck, tables, lake, unmasked=unmasked, through_arrow=through_arrow)
    for reference in asked:
        source = known.get(reference.name)
        if source is None or not (is_table(source.place) or reference.name == ENTRIES):
            raise DefinitionError(
                f"there is no table {reference.name} in {lake.root}",
                hint=_hint(reference.name, names(tables, lake)),
                table=reference.name,
            )
        try:
            opening.add(reference, source)
        except DamagedLogError as error:
            raise damaged_log(reference.name, source.place, error) from error
    if question.lists:
        make_lists(duck)
        shown = {each.name for each in question.tables}
        opening.views.masked = {
            name: each for name, each in opening.views.masked.items() if name in shown
        }
    return opening.views


def _hint(name: str, known: list[str]) -> str:
    likely = [each for each in known if each.partition(".")[2] == name]
    if likely:
        return f"name it with its layer: {' or '.join(likely)}."
    return f"the tables here are {', '.join(known)}."


class _Opening:
    """Opens tables in one database."""

    def __init__(
        self,
        duck: Duck,
        tables: Collection[Table],
        lake: Lake,
        *,
        unmasked: bool,
        through_arrow: bool,
    ) -> None:
        self.views = Views()
        self._duck, self._tables, self._lake, self._unmasked = duck, tables, lake, unmasked
        # A store is read through Arrow, which opens only the files whose statistics admit a row of the answer.
        self._opens_files = lake.root.is_local and not through_arrow
        self._read = scan if self._opens_files else register

    def add(self, reference: Reference, source: Source) -> None:
        hidden_name = f"_{secrets.token_hex(8)}"
        version = self._version(reference, source)
        rows = self._rows(reference, source, hidden_name, version)
        masked = self._masked(source, rows, version)
        name = reference.name
        self.views.masked[name] = sorted({*self.views.masked.get(name, ()), *masked})
        schema, _, _ = name.partition(".")
        self._duck.execute(f'CREATE SCHEMA IF NOT EXISTS "{schema}"')
        self._duck.execute(f"CREATE VIEW {view_of(reference)} AS {_with_masks(rows, masked)}")

    def _version(self, reference: Reference, source: Source) -> int | None:
        if not reference.unit:
            return None
        if source.is_quarantine:
            raise DefinitionError(
                f"{reference.name} shows the rows that are open now, and has no versions",
                hint=f"leave AT out, or read when each was decided about: FROM resolutions.{reference.name.partition('.')[2]}.",
                table=reference.name,
            )
        if reference.unit == "TIMESTAMP":
            version = version_at(source.place, reference.name, moment_of(reference.at))
        elif isinstance(reference.at, int) and not isinstance(reference.at, bool):
            version = reference.at
        else:
            raise DefinitionError(
                f"{reference.at!r} is no version",
                hint="a version is a whole number: AT (VERSION => 12).",
            )
        self.views.past[reference.name] = (source.place, version)
        return version

    def _rows(self, reference: Reference, source: Source, view: str, version: int | None) -> str:
        if source.is_quarantine and source.table is not None:
            offer(self._duck, view, source.table, self._lake, read=self._read)
            self._allow(source.place, self._lake.resolutions(source.table))
            return f"SELECT * EXCLUDE (_state) FROM \"{view}\" WHERE _state = '{State.OPEN}'"  # noqa: S608  # our own names
        if not is_table(source.place):
            return NO_ENTRIES
        declared = open_version(source.place, reference.name, version).schema().to_json()
        # DuckDB makes a type of its own of a Variant, whose numbers are not those of its JSON.
        read = register if VARIANT in declared else self._read
        try:
            read(self._duck, view, source.place, version)
        except (DuckError, OSError):
            if version is not None:
                refuse_deleted_files(source.place, reference.name, version)
            raise
        self._allow(source.place)
        return f'FROM "{view}"'

    def _allow(self, *places: Place) -> None:
        if not self._opens_files:
            return
        for place in places:
            folder = literal(f"{place}/")
            self._duck.execute(
                f"SET allowed_directories = list_append(current_setting('allowed_directories'), {folder})"
            )

    def _masked(self, source: Source, rows: str, version: int | None) -> list[str]:
        if self._unmasked or not (secret := source.secret(self._tables, self._lake)):
            return []
        described = self._duck.execute(f"DESCRIBE {rows}").fetchall()
        columns = [str(column[0]) for column in described]
        if version is not None:
            # Lineage is known of today's columns alone.
            secret |= {*columns} - kinds(source.place).keys()
        return [column for column in columns if column in secret]


def moment_of(value: object) -> datetime:
    """Return the moment that an ``AT (TIMESTAMP => …)`` means; without a zone it is in UTC.

    Raises:
        DefinitionError: It is none.
    """
    try:
        match value:
            case datetime():
                found = value
            case date():
                found = datetime(value.year, value.month, value.day, tzinfo=UTC)
            case str():
                found = datetime.fromisoformat(value)
            case _:
                raise ValueError(value)  # noqa: TRY301  # one sentence for both
    except ValueError as error:
        raise DefinitionError(
            f"{value!r} is no moment", hint="write AT (TIMESTAMP => '2026-11-20 12:00'), in UTC."
        ) from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _with_masks(rows: str, columns: Collection[str]) -> str:
    hashes = ", ".join(
        f"'[' || left(sha256(getvariable('drawn') || CAST(\"{each}\" AS VARCHAR)), 12) || ']' AS \"{each}\""
        for each in columns
    )
    return f"SELECT * REPLACE ({hashes}) FROM ({rows})" if columns else rows  # noqa: S608  # our own names
