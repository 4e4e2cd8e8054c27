"""Keep tables up to date in catalogs where other engines look, after their commits, without a copy of a row.

No stream writes to a catalog: a sync reads the tables' logs as any reader does, and writes what the catalog lacks. So
a catalog that is dead or slow makes its own answers old, and nothing else. A sync that is killed is done again: which version a
catalog has is written in the catalog, in the transaction that brought it.

What a catalog cannot hide is not published: a masked column is left out of what it shows, and a table with one is kept back, and taken
out if it was there, where readers follow Delta's log, which names all columns. Its values are in the files all the same, so
who may read these may read them; keep that right to those who may. Where files are listed, a table is left out whole, with the reason,
whose files alone do not show its rows (deleted rows in them, columns with other names), or some of which are of before and have times that
only Spark reads.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Any, Protocol

from strandline import catalog

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.core.table import Table
from strandline.engine.flow.function_plan import hidden, hidden_in_bronze
from strandline.engine.flow.publications import mark_of
from strandline.engine.lake.commit.compact import is_of_before
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import Kind, actions, committed_at, is_commit
from strandline.engine.lake.log.ledger import is_table, latest_version
from strandline.engine.lake.log.ledger_sums import place_of
from strandline.engine.lake.log.log_actions import LiveFiles, file_of, live_files, table_id
from strandline.engine.lake.open_table import (
    declared_schema,
    declared_table,
    opened,
    refuse_features,
)
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import HeldError, hold
from strandline.engine.runtime.processes import own

STORED, LOCK = ".json", ".lock"

FOLLOWED = 1_000
"""Commits that are read one by one for what they added; behind more, all files are compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Position:
    """Which version of which table a catalog shows, and how.

    Args:
        lake: The lake.
        table: The id that Delta gave to the table.
        version: The version.
        mark: When it was committed, by which a table that was restored is another.
        hidden: The columns that are not shown, sorted.
        columns: A hash of the columns of the table, as in its log.
        words: What else is said of it.
    """

    lake: str
    table: str
    version: int
    mark: str
    hidden: tuple[str, ...] = ()
    columns: str = ""
    words: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parsed(cls, text: str) -> "Position":
        """Return the position that a catalog keeps as a text.

        Raises:
            DefinitionError: It is none that this version writes: a person changed it, or a later version wrote it.
        """
        try:
            found = json.loads(text)
            return cls(**{**found, "hidden": tuple(found["hidden"])})
        except (ValueError, TypeError, KeyError) as error:
            raise DefinitionError(
                f"what a table of the catalog says of its version is not understood: {short(error)}",
                hint="drop the table there; the next sync brings it again.",
            ) from error

    def text(self) -> str:
        """Return it as a catalog keeps it."""
        return json.dumps(asdict(self))


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A table at the version that a catalog is to show.

    Args:
        layer: The first part of its name.
        name: The second.
        path: Its folder.
        position: Its version, and how it is shown.
        live: The files of that version; none where the catalog's readers follow the log.
    """

    layer: str
    name: str
    path: Place
    position: Position
    live: LiveFiles

    @property
    def files(self) -> dict[str, Mapping[str, Any]]:
        """Return what the log says of each file, by its whole path."""
        return {file_of(self.path, body): body for body in self.live.files.values()}

    def came_since(self, before: Position | None) -> dict[str, Mapping[str, Any]] | None:
        """Return the files that came since a position; None where others went, or all files must be compared."""
        now = self.position
        if before is None or (before.lake, before.table) != (now.lake, now.table):
            return None
        is_near = now.version - FOLLOWED <= before.version <= now.version
        if not is_near or mark_of(self.path, before.version) != before.mark:
            return None
        came: dict[str, Mapping[str, Any]] = {}
        for version in range(before.version + 1, now.version + 1):
            for action in actions(self.path, version, Kind.ADD, Kind.REMOVE):
                if action.kind is Kind.REMOVE:
                    return None
                came[file_of(self.path, action.body)] = action.body
        return came


class Catalog(Protocol):
    """A catalog that shows tables."""

    name: str
    """What people call it; its books belong to it."""
    place: str
    """Where it is, without a password."""
    follows_log: bool
    """Whether its readers read Delta's log: they need no list of files, and nothing that the log says can be left out."""

    def show(self, shown: Shown) -> bool:
        """Show a table at a version; return whether anything was another one before.

        Raises:
            DefinitionError: Another lake's table, or one that no lake has published, has the name.
            TransientError: The catalog is away, or another writer was faster.
        """

    def drop(self, layer: str, name: str, lake: str) -> bool:
        """Take a table of a lake out, and none of its files; return whether it was there."""


@dataclass(kw_only=True, slots=True)
class InCatalog:
    """What is known of a table in a catalog.

    Args:
        version: The version that it shows; -1 for none.
        at: When that was seen last.
        hidden: The columns that it does not show.
        why: Why a newer version is not shown; empty where nothing is in the way.
        is_kept_back: Whether it is not shown because nothing of it may be seen.
    """

    version: int = -1
    at: str = ""
    hidden: list[str] = field(default_factory=list)
    why: str = ""
    is_kept_back: bool = False


@dataclass(kw_only=True, slots=True)
class Books:
    """What the lake keeps of a catalog.

    Args:
        place: Where it is.
        at: When it was synced last.
        away: Why it was not reached then; empty where it was.
        tables: What it shows, by the names of tables.
    """

    place: str = ""
    at: str = ""
    away: str = ""
    tables: dict[str, InCatalog] = field(default_factory=dict)


def books(lake: Lake, name: str) -> Books:
    """Return what a lake keeps of a catalog; of none nothing."""
    try:
        found = json.loads((lake.catalogs / f"{name}{STORED}").text() or "{}")
        tables = {table: InCatalog(**entry) for table, entry in found.pop("tables", {}).items()}
        return Books(**found, tables=tables)
    except (
        ValueError,
        TypeError,
    ):  # torn, or of another version: the catalog itself says how far it is
        return Books()


def synced(lake: Lake) -> list[str]:
    """Return the names of the catalogs that were synced with a lake."""
    return sorted(
        each.removesuffix(STORED) for each in lake.catalogs.names() if each.endswith(STORED)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far a catalog is behind a table.

    Args:
        catalog: The catalog.
        table: The table.
        shown: The version that it shows; None for none.
        latest: The table's latest.
        seconds: Since when the oldest commit waits that it does not show; 0 where it shows all.
        hidden: The columns that it does not show.
        why: Why it shows no newer version; empty where nothing is in the way.
        is_kept_back: Whether it is to show none, because nothing of it may be seen.
    """

    catalog: str
    table: str
    shown: int | None
    latest: int
    seconds: float
    hidden: tuple[str, ...] = ()
    why: str = ""
    is_kept_back: bool = False

    @property
    def versions(self) -> int:
        """Return how many versions it is behind; none where it is to show none."""
        if self.is_kept_back:
            return 0
        return self.latest - (-1 if self.shown is None else self.shown)


def lags(lake: Lake, now: datetime, names: Sequence[str] | None = None) -> Iterator[Lag]:
    """Yield how far the catalogs of a lake are behind their tables, by the lake's own books: none of them is asked."""
    for name in synced(lake) if names is None else names:
        known = books(lake, name)
        for table, entry in sorted(known.tables.items()):
            path = place_of(lake.root, table)
            if not is_table(path):
                continue
            latest = latest_version(path)
            waits = entry.version + 1
            is_behind = not entry.is_kept_back and waits <= latest and is_commit(path, waits)
            since = (now - committed_at(path, waits)).total_seconds() if is_behind else 0.0
            yield Lag(
                catalog=name,
                table=table,
                shown=entry.version if entry.version >= 0 else None,
                latest=latest,
                seconds=max(since, 0.0),
                hidden=tuple(entry.hidden),
                why=entry.why or known.away,
                is_kept_back=entry.is_kept_back,
            )


def sync(
    target: Catalog,
    tables: Sequence[Table],
    lake: Lake,
    clock: Callable[[], datetime],
    *,
    is_over: Callable[[], bool] = lambda: False,
) -> Iterator[tuple[str, InCatalog, bool]]:
    """Bring a catalog up to date, and yield for each table what it shows now, and whether that is news.

    Args:
        target: The catalog.
        tables: The tables that it is to show.
        lake: Their lake.
        clock: Returns the time.
        is_over: Whether the time is over; asked between two tables.

    Raises:
        TransientError: The catalog is away, or another process syncs it.
    """
    with _alone(target, lake):
        known = books(lake, target.name)
        if known.place != target.place:  # of another catalog: this one shows what it says itself
            known.tables = {each: InCatalog() for each in known.tables}
        known.place, known.away = target.place, ""
        try:
            for table in tables:
                if is_over():
                    break
                if not is_table(lake.table(table)):
                    continue
                entry = known.tables.setdefault(table.id, InCatalog())
                yield table.id, entry, _shown(target, table, lake, entry)
                entry.at = clock().isoformat(timespec="seconds")
        except TransientError as error:
            known.away = error.message
            raise
        finally:
            known.at = clock().isoformat(timespec="seconds")
            _keep(lake, target.name, known)


class _KeptBackError(DefinitionError):
    """Nothing of a table may be seen in a catalog."""


def _shown(target: Catalog, table: Table, lake: Lake, entry: InCatalog) -> bool:
    """Show a table, and say in its entry what is shown; one that cannot be is left as it was, with the reason."""
    try:
        shown = _of(target, table, lake)
        is_news = target.show(shown)
    except TransientError:
        raise
    except _KeptBackError as error:
        return _kept_back(target, table, lake, entry, error)
    except LakeError as error:
        entry.why, entry.is_kept_back = error.message, False
        return False
    entry.version, entry.why = shown.position.version, ""
    entry.hidden, entry.is_kept_back = [*shown.position.hidden], False
    return is_news


def _kept_back(
    target: Catalog, table: Table, lake: Lake, entry: InCatalog, why: _KeptBackError
) -> bool:
    """Take out a table of which nothing may be seen, if it is shown: the catalog is asked, whatever the books say.

    They may lack it: the answer of the request that showed it was lost, the lake was restored, or the catalog was.
    """
    try:
        target.drop(table.layer, table.name, str(lake.root))
    except TransientError:
        raise
    except LakeError as error:
        entry.why = f"{why.message}, and it could not be taken out: {error.message}"
        return False
    entry.version, entry.hidden, entry.why, entry.is_kept_back = -1, [], why.message, True
    return False


def _of(target: Catalog, table: Table, lake: Lake) -> Shown:
    """Return what a catalog is to show of a table.

    Raises:
        DefinitionError: A reader of its files alone would read them wrongly, or nothing of it may be shown.
    """
    path = lake.table(table)
    if target.follows_log:
        live, columns = _declared(path)
    else:
        live = live_files(path)
        delta = opened(path, live.version)
        refuse_features(delta, table.id)
        columns = [each.name for each in delta.schema().fields]
    masked = hidden(table, lake) | hidden_in_bronze(table, catalog.tables())
    secret = sorted(masked.intersection(columns))
    if secret and target.follows_log:
        raise _KeptBackError(
            f"{table.id} has masked columns ({', '.join(secret)}), and readers of this catalog see all columns",
            hint="publish it to an Iceberg catalog or a DuckLake, which leave them out.",
        )
    if len(secret) == len(columns):
        raise _KeptBackError(
            f"all columns of {table.id} are masked", hint="nothing of it is shown."
        )
    return Shown(
        layer=table.layer,
        name=table.name,
        path=path,
        live=live,
        position=Position(
            lake=str(lake.root),
            table=table_id(path),
            version=live.version,
            mark=mark_of(path, live.version),
            hidden=tuple(secret),
            columns=sha256(str(live.metadata.get("schemaString")).encode()).hexdigest(),
            words=words_of(table),
        ),
    )


def _declared(path: Place) -> tuple[LiveFiles, list[str]]:
    """Return what a table declares, without its files, which may be many; and the names of its columns."""
    version = latest_version(path)
    schema, about = declared_schema(path), declared_table(path)
    metadata = {
        "schemaString": schema.json(),
        "partitionColumns": [*about.folders] if about else [],
    }
    return LiveFiles(version=version, files={}, metadata=metadata, reader=1), schema.names


def words_of(table: Table) -> dict[str, str]:
    """Return what a catalog says of a table beside its columns."""
    found = {
        "comment": str(getattr(table, "summary", "")).partition("\n\n")[0],
        "owner": table.owner,
        "strandline.layer": str(table.layer),
        "strandline.key": ", ".join(table.key),
        "strandline.event-time": table.event_at or "",
    }
    return {name: value for name, value in found.items() if value}


def refuse_of_before(table: str, files: Sequence[str]) -> None:
    """Refuse files whose times other engines do not read.

    Raises:
        DefinitionError: Some are such.
    """
    old = sum(is_of_before(Place.of(file)) for file in files)
    if old:
        raise DefinitionError(
            f"{old:,} files of {table} are of before, with times as INT96, which catalogs refuse",
            hint="`strandline maintain` writes them again, some at each run.",
            table=table,
        )


def dropped(target: Catalog, tables: Sequence[str], lake: Lake) -> Iterator[str]:
    """Take tables out of a catalog, and yield those that were there; their files stay.

    Raises:
        TransientError: The catalog is away, or another process syncs it.
    """
    with _alone(target, lake):
        known = books(lake, target.name)
        try:
            for table in tables:
                layer, _, name = table.partition(".")
                is_gone = target.drop(layer, name, str(lake.root))
                known.tables.pop(table, None)
                if is_gone:
                    yield table
        finally:  # one that is refused leaves those before it gone
            if known.tables:
                _keep(lake, target.name, known)
            else:
                (lake.catalogs / f"{target.name}{STORED}").remove()


@contextmanager
def _alone(target: Catalog, lake: Lake) -> Iterator[None]:
    """Be the only one that changes a catalog from a lake.

    Raises:
        TransientError: Another process does.
    """
    try:
        with hold(lake.catalogs / f"{target.name}{LOCK}", json.dumps(own()), waits=False):
            yield
    except HeldError as error:
        raise TransientError(
            f"the catalog {target.name} is being synced already: {error.note}",
            hint="wait until it is done; the next sync brings what came meanwhile.",
        ) from error


def _keep(lake: Lake, name: str, known: Books) -> None:
    (lake.catalogs / f"{name}{STORED}").put(json.dumps(asdict(known), ensure_ascii=False))


def short(error: Exception) -> str:
    """Return the first line of what a client says, or its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
