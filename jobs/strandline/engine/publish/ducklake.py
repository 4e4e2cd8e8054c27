"""A DuckLake that shows tables, over second names of the files that Delta's log names.

DuckLake takes over the files that it is given: merged, expired and cleaned up, it deleted files of a lake [tried, 1.5.5]. So it is
given names of its own, hard links in a folder beside its database. They take no room, and what it deletes are these. That asks for a
lake on a disk, the same one.

Where files only came, they are added; otherwise the table is dropped and made of all its files in the same transaction. What no
snapshot of the last hour needs is removed at each sync, one without news included: of rows that were forgotten the bytes are there until
then. What shows a column that is masked since goes at once, and names that a killed sync gave go with the next one.
"""

import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.lake.duckdb_table import (
    Duck,
    declared_columns,
    duck_busy,
    duck_error,
    literal,
    quoted,
    session,
)
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.lake.snapshot_files import link
from strandline.engine.publish.catalogs import Position, Shown, refuse_of_before, short
from strandline_infra.installation import hint

NAME = "ducklake"
WHEEL = "duckdb_extension_ducklake"
MARK = "strandline: "
"""Begins the line of a table's comment that says which version it shows; it is in the transaction that brought it."""

KEPT = "INTERVAL 1 HOUR"
NOTHING = "INTERVAL 0 SECOND"


class DuckLakeCatalog:
    """A DuckLake whose database is a file."""

    name = NAME
    follows_log = False

    def __init__(self, file: str) -> None:
        """Know where it is; it is opened at each table.

        Args:
            file: The file of its database; the folder for its names of files is beside it.
        """
        self.place = file
        self._names = Place.of(f"{file}.files")
        # Is there while files get names of which the database does not know yet: such that a killed sync left would be there for ever.
        self._naming = Place.of(f"{file}.naming")

    def show(self, shown: Shown) -> bool:
        """See ``Catalog``."""
        if not shown.path.is_local:
            raise DefinitionError(
                f"{shown.layer}.{shown.name} is on an object store, which has no second names of files",
                hint="DuckLake would own the only ones, and delete them; use a catalog of Iceberg.",
            )
        with self._opened() as duck:
            before = self._position(duck, shown.layer, shown.name)
            if before == shown.position:
                self._clean(duck)
                return False
            if before is not None and before.lake != shown.position.lake:
                raise DefinitionError(
                    f"{self.place} has a table {shown.layer}.{shown.name} of the lake {before.lake}",
                    hint="give each lake a DuckLake of its own.",
                )
            self._change(duck, shown, before)
            is_masked = before is not None and bool({*shown.position.hidden} - {*before.hidden})
            self._clean(duck, NOTHING if is_masked else None)
            return True

    def drop(self, layer: str, name: str, lake: str) -> bool:
        """See ``Catalog``."""
        with self._opened() as duck:
            position = self._position(duck, layer, name)
            if position is None or position.lake != lake:
                return False
            duck.execute(f'DROP TABLE shown."{layer}"."{name}"')
            self._clean(duck, NOTHING)  # what may not be seen any more is dropped, too
            return True

    def _change(self, duck: Duck, shown: Shown, before: Position | None) -> None:
        """Show the version in one transaction."""
        now = shown.position
        is_alike = before is not None and (before.columns, before.hidden) == (
            now.columns,
            now.hidden,
        )
        came = shown.came_since(before) if is_alike else None
        files = sorted(shown.files if came is None else came)
        refuse_of_before(f"{shown.layer}.{shown.name}", files)
        linked: list[Place] = []
        table = f'shown."{shown.layer}"."{shown.name}"'
        self._naming.put("")
        try:
            duck.execute("BEGIN")
            if came is None:
                duck.execute(f'CREATE SCHEMA IF NOT EXISTS shown."{shown.layer}"')
                duck.execute(f"DROP TABLE IF EXISTS {table}")
                duck.execute(f"CREATE TABLE {table} ({_columns(duck, shown)})")
            for file in files:
                linked.append(self._link(Place.of(file), shown))
                duck.execute(
                    f"CALL ducklake_add_data_files('shown', {literal(shown.name)}, {literal(str(linked[-1]))}, "
                    f"schema => {literal(shown.layer)}, ignore_extra_columns => true, allow_missing => true)"
                )
            duck.execute(f"COMMENT ON TABLE {table} IS {literal(_comment(now))}")
            duck.execute("COMMIT")
        except BaseException:
            for each in linked:
                each.remove()
            self._naming.remove_file()
            raise
        self._naming.remove_file()

    def _link(self, file: Place, shown: Shown) -> Place:
        """Give a file a second name that no other has."""
        target = self._names / shown.layer / shown.name / f"{uuid4().hex}-{file.name}"
        target.parent.make()
        if not link(file, target):
            raise DefinitionError(
                f"{self.place} is on another disk than {file}, so it cannot have a second name there",
                hint="put the DuckLake on the disk of the lake.",
            )
        return target

    def _position(self, duck: Duck, layer: str, name: str) -> Position | None:
        """Return what a table shows; None where there is none.

        Raises:
            DefinitionError: It is there, and no lake has published it.
        """
        found = duck.execute(
            "SELECT comment FROM duckdb_tables() WHERE database_name = 'shown' "  # noqa: S608  # quoted
            f"AND schema_name = {literal(layer)} AND table_name = {literal(name)}"
        ).fetchone()
        if found is None:
            return None
        lines = (line for line in str(found[0] or "").splitlines() if line.startswith(MARK))
        if (line := next(lines, None)) is None:
            raise DefinitionError(
                f"{self.place} has a table {layer}.{name} of another origin",
                hint="drop it there, or name another DuckLake.",
            )
        return Position.parsed(line.removeprefix(MARK))

    def _clean(self, duck: Duck, kept: str | None = None) -> None:
        """Remove what only older snapshots need: names of files, never a lake's own."""
        until = f"older_than => now() - {kept or KEPT}"
        duck.execute(f"CALL ducklake_expire_snapshots('shown', {until})")
        duck.execute(f"CALL ducklake_cleanup_old_files('shown', {until})")

    @contextmanager
    def _opened(self) -> Iterator[Duck]:
        """Open it for the length of the block.

        Raises:
            DefinitionError: It does not take what it is given.
            TransientError: Another process has it open, or it does not answer.
        """
        is_open = False
        try:
            with session() as duck:
                duck.execute(f"LOAD {_extension(duck)}")
                at, folder = literal(f"ducklake:{self.place}"), literal(str(self._names))
                duck.execute(f"ATTACH {at} AS shown (DATA_PATH {folder})")
                is_open = True
                if self._naming.exists():  # no other has it open, so who gave names was killed
                    duck.execute(
                        "CALL ducklake_delete_orphaned_files('shown', cleanup_all => true)"
                    )
                    self._naming.remove_file()
                yield duck
        except duck_error() as error:
            if is_open and not isinstance(error, duck_busy()):
                raise DefinitionError(  # of this table: the others are synced
                    f"the DuckLake {self.place} does not take it: {short(error)}",
                    hint="the table stays as it is there; streams go on.",
                ) from error
            raise TransientError(
                f"the DuckLake {self.place} does not answer: {short(error)}",
                hint="streams go on; the next sync brings what it lacks. A database in a file is open to one writer alone.",
            ) from error


def _extension(duck: Duck) -> str:
    """Return the extension, of the wheel where that is installed.

    Raises:
        DefinitionError: Neither is there.
    """
    spec = importlib.util.find_spec(WHEEL)
    ((version,),) = duck.execute("SELECT version()").fetchall()
    for folder in (spec.submodule_search_locations if spec else None) or ():
        return literal(f"{folder}/extensions/{version}/ducklake.duckdb_extension")
    known = "SELECT installed FROM duckdb_extensions() WHERE extension_name = 'ducklake'"
    found = duck.execute(known).fetchone()
    if found is None or not found[0]:
        raise DefinitionError("DuckDB's extension ducklake is not installed", hint=hint("ducklake"))
    return "ducklake"


def _columns(duck: Duck, shown: Shown) -> str:
    """Return the columns that are shown, in DuckDB's words."""
    known = declared_columns(duck, "shown", opened(shown.path, shown.position.version))
    hidden = shown.position.hidden
    return ", ".join(f"{quoted(name)} {kind}" for name, kind in known.items() if name not in hidden)


def _comment(position: Position) -> str:
    words = position.words
    said = [words.get("comment", ""), f"owner: {words['owner']}" if "owner" in words else ""]
    return "\n".join([*filter(None, said), MARK + position.text()])
