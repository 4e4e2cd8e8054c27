"""What is otherwise in a table than it was: the rows that came, went or changed between two versions, and the repair that did it.

Only the files are read that one version has and the other has not, so a day is compared in a table of years without reading the
years. Rows that are the same in both (files were put together, a repair wrote its range again) are no change, and a row that was
changed and changed back is none either.

What streams bring is what they are for. A commit that replaces rows is looked at by itself: the keys that it moved are its own,
and the last commit that moved a key is why its row is what it is now. So the reason of a change is counted in the files of a commit,
and not taken from its ledger entry, which says only what it meant to do.
"""

import hashlib
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.kind import in_utc
from strandline.core.table import Ingested, Table
from strandline.core.topic import PLACE
from strandline.engine.ask.explain_gold import reached
from strandline.engine.ask.lake_views import Source
from strandline.engine.lake.duckdb_table import (
    Columns,
    Duck,
    changed_files,
    columns_of,
    quoted,
    rows_of_files,
    spilling,
)
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import (
    EXPIRE,
    FORGET,
    LOOKED_AGAIN,
    Entry,
    entry_at,
    latest_version,
)
from strandline.engine.lake.log.log_actions import changes_rows
from strandline.engine.lake.open_table import refuse_deleted_files, version_at
from strandline.engine.lake.place import Place

NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
"""How DuckDB's names of types begin whose values have a sum."""

LOOKED_AT = 200
"""The most commits that are looked at one by one for what they moved; the newest of more."""

OWN = "its own runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """What moved rows.

    Args:
        what: a repair with its range, or the table's own runs.
        version: Its commit; that of the last of several.
        at: The moment of that commit.
        commits: How many commits it was.
        rows: How many of the rows that are otherwise it moved last; None where its files are gone.
    """

    what: str
    version: int
    at: str
    commits: int
    rows: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Moved:
    """A row that is otherwise.

    Args:
        what: ``came``, ``went`` or ``changed``.
        key: The values of its key.
        was: The values of the other columns that are not the same, before; those of all that are known, if it went.
        now: These after.
        by: The version that moved it last; None for its own runs.
    """

    what: str
    key: Mapping[str, object]
    was: Mapping[str, object]
    now: Mapping[str, object]
    by: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The rows of one value of the columns by which a difference is grouped.

    Args:
        of: The values of these columns.
        came: Rows that came.
        went: Rows that went.
        changed: Rows that changed.
        sums: For each column with numbers that is not the same, the sums of these rows before and after.
    """

    of: Mapping[str, object]
    came: int
    went: int
    changed: int
    sums: Mapping[str, tuple[object, object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """How a table differs between two versions.

    Args:
        table: Its name.
        since: The former version; -1 for what did not exist yet.
        until: The latter.
        since_at: The moment of the commit of the former.
        until_at: The moment of the commit of the latter.
        came: Rows whose key was not there.
        went: Rows whose key is there no more.
        changed: Rows whose key has other values.
        columns: In how many of these rows each column is not the same.
        sums: For each column with numbers that is not the same, the sums of all these rows before and after.
        causes: What moved them, the last first.
        groups: They by the columns that were asked for, the most rows first.
        more_groups: How many more groups there are.
        rows: Some of them, in the order of the key.
        masked: The columns whose values are not shown.
    """

    table: str
    since: int
    until: int
    since_at: str | None
    until_at: str
    came: int
    went: int
    changed: int
    columns: Mapping[str, int]
    sums: Mapping[str, tuple[object, object]]
    causes: tuple[Cause, ...]
    groups: tuple[Group, ...]
    more_groups: int
    rows: tuple[Moved, ...]
    masked: tuple[str, ...]

    @property
    def moved(self) -> int:
        """Return how many rows are otherwise."""
        return self.came + self.went + self.changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What is compared, as it is typed.

    Args:
        since: The former version, or a moment.
        until: The latter; the latest when None.
        by: Columns by whose values the rows are grouped.
        most: How many groups and rows are shown.
    """

    since: str
    until: str | None = None
    by: tuple[str, ...] = ()
    most: int = 20


def differences(
    table: Table, lake: Lake, asked: Compared, *, downstream: bool
) -> Iterator[Difference]:
    """Yield how a table differs, and then how each table above it does, as they were at the same moments.

    Raises:
        DefinitionError: The table was never run; see ``version_of`` and ``difference`` as well.
    """
    if not lake.exists(table):
        raise DefinitionError(
            f"{table.id} was never run, so it has no versions",
            hint="`strandline tables` lists those that were.",
            table=table.id,
        )
    tables, path = catalog.tables(), lake.table(table)
    since = version_of(lake, table, asked.since, is_first=True)
    until = latest_version(path)
    if asked.until is not None:
        until = version_of(lake, table, asked.until, is_first=False)
    yield difference(table, lake, since, until, tables=tables, by=asked.by, most=asked.most)
    for each in reached(table, lake) if downstream else ():
        came = _beside(lake, table, since, asked.since, each)
        last = _beside(lake, table, until, asked.until, each)
        if last >= 0:
            columns = columns_of(lake.table(each), _row_key(each)).kinds if asked.by else {}
            by = tuple(name for name in asked.by if name in columns)
            yield difference(each, lake, came, last, tables=tables, by=by, most=asked.most)


def _beside(lake: Lake, table: Table, version: int, text: str | None, other: Table) -> int:
    """Return the version that a table above had at the end of a version's time, when it had read what it read of it.

    A moment that was typed is the same for each table.
    """
    if version < 0:
        return -1
    if text is not None and not text.isdecimal():
        return version_of(lake, other, text, is_first=True)
    path = lake.table(table)
    if version == latest_version(path):
        return latest_version(lake.table(other))
    ends = committed_at(path, version + 1) - timedelta(milliseconds=1)
    return version_of(lake, other, ends.isoformat(), is_first=True)


def _row_key(table: Table) -> tuple[str, ...]:
    return PLACE if isinstance(table, Ingested) else table.row_key


def version_of(lake: Lake, table: Table, text: str, *, is_first: bool) -> int:
    """Return the version of a table that a text names: its number, or a moment; -1 before the table's first commit.

    Args:
        lake: The lake.
        table: The table.
        text: Such as 12, 2026-11-26 or 2026-11-26T09:00.
        is_first: Whether a comparison begins there.

    Raises:
        DefinitionError: It is neither, or there is no such version.
    """
    path = lake.table(table)
    latest = latest_version(path)
    if text.isdecimal():
        if int(text) > latest:
            raise DefinitionError(
                f"{table.id} has no version {int(text):,}",
                hint=f"its latest is {latest:,}.",
                table=table.id,
            )
        return int(text)
    try:
        moment = in_utc(datetime.fromisoformat(text))
    except ValueError as error:
        raise DefinitionError(
            f"{text!r} is neither a version nor a moment",
            hint="write the number of a version, such as 12, or a moment in UTC, such as 2026-11-26T09:00.",
        ) from error
    try:
        return version_at(path, table.id, moment)
    except DefinitionError:
        if is_first:
            return -1
        raise


def difference(  # noqa: PLR0913  # what, where, between which versions, and how it is shown
    table: Table,
    lake: Lake,
    since: int,
    until: int,
    *,
    tables: Collection[Table],
    by: Sequence[str] = (),
    most: int = 20,
) -> Difference:
    """Compare two versions of a table.

    Args:
        table: The table.
        lake: The lake.
        since: The former version; -1 for what did not exist yet.
        until: The latter.
        tables: All tables of the lake, which decide what is masked.
        by: Columns by whose values the rows are grouped.
        most: How many groups and rows are returned.

    Raises:
        DefinitionError: The former is the later one, a file of one of them was deleted, or a column cannot be grouped by.
    """
    path = lake.table(table)
    if since > until:
        raise DefinitionError(
            f"version {since:,} of {table.id} is later than {until:,}",
            hint="give the former first: --from 12 --to 18.",
            table=table.id,
        )
    for version in {since, until} - {-1}:
        refuse_deleted_files(path, table.id, version)
    columns = columns_of(path, _row_key(table))
    masked = Source(path, table).secret(tables, lake) & {*columns.kinds}
    _refuse_group(table, by, columns, masked)
    with _compared(path, since, until, columns) as duck:
        causes = _attributed(duck, path, since, until, columns)
        came, went, changed = _counts(duck)
        groups, more = _groups(duck, columns, by, masked, most)
        return Difference(
            table=table.id,
            since=since,
            until=until,
            since_at=committed_at(path, since).isoformat() if since >= 0 else None,
            until_at=committed_at(path, until).isoformat(),
            came=came,
            went=went,
            changed=changed,
            columns=_changed_columns(duck, columns),
            sums=_sums_of_all(duck, columns, masked),
            causes=causes,
            groups=(*groups,),
            more_groups=more,
            rows=(*_rows(duck, columns, masked, most),),
            masked=(*sorted(masked),),
        )


def _refuse_group(
    table: Table, by: Sequence[str], columns: Columns, masked: Collection[str]
) -> None:
    for name in by:
        if name not in columns.kinds:
            raise DefinitionError(
                f"{table.id} has no column {name}",
                hint=f"it has {', '.join(columns.kinds)}.",
                table=table.id,
            )
        if name in masked:
            raise DefinitionError(
                f"{name} of {table.id} is masked, so rows are not grouped by its values",
                hint=f"group by another: {', '.join(sorted({*columns.kinds} - {*masked}))}.",
                table=table.id,
            )


# The comparison, in a database that spills to the disk: ``moved`` has a row for each key, with what it was and what it is.


@contextmanager
def _compared(path: Place, since: int, until: int, columns: Columns) -> Iterator[Duck]:
    came, went = changed_files(path, since + 1, until)
    with spilling() as duck:
        duck.execute(f"CREATE VIEW new AS {rows_of_files(duck, came, columns)}")
        duck.execute(f"CREATE VIEW old AS {rows_of_files(duck, went, columns)}")
        duck.execute("CREATE TEMP TABLE came AS (FROM new EXCEPT ALL FROM old)")
        duck.execute("CREATE TEMP TABLE went AS (FROM old EXCEPT ALL FROM new)")
        same = " AND ".join(f"w.{n} IS NOT DISTINCT FROM n.{n}" for n in _key(columns))
        keys = ", ".join(
            f"CASE WHEN __new IS NULL THEN w.{k} ELSE n.{k} END AS {k}" for k in _key(columns)
        )
        # By a mark: a row of NULLs, which is what an outer join has where there is none, is no NULL.
        duck.execute(
            "CREATE TEMP TABLE moved AS SELECT CASE WHEN __old IS NULL THEN 'came' WHEN __new IS NULL THEN 'went' ELSE 'changed' END "  # noqa: S608  # our own names
            f"AS __what, {keys}, CASE WHEN __old THEN w END AS __was, CASE WHEN __new THEN n END AS __now, CAST(NULL AS BIGINT) AS __by "
            f"FROM (SELECT true AS __old, * FROM went) w FULL JOIN (SELECT true AS __new, * FROM came) n ON {same}"
        )
        yield duck


def _key(columns: Columns) -> list[str]:
    return [quoted(each) for each in [*columns.kinds][: columns.key]]


def _others(columns: Columns) -> list[str]:
    return [*columns.kinds][columns.key :]


def _counts(duck: Duck) -> tuple[int, int, int]:
    counted = dict(duck.execute("SELECT __what, count(*) FROM moved GROUP BY 1").fetchall())
    return (*(int(counted.get(each, 0)) for each in ("came", "went", "changed")),)  # type: ignore[return-value]  # three


def _changed_columns(duck: Duck, columns: Columns) -> dict[str, int]:
    names = _others(columns)
    if not names:
        return {}
    differs = ", ".join(
        f"count_if(__was.{quoted(each)} IS DISTINCT FROM __now.{quoted(each)})" for each in names
    )
    found = duck.execute(f"SELECT {differs} FROM moved WHERE __what = 'changed'").fetchone()  # noqa: S608  # as above
    counts = zip(names, found or (), strict=False)
    return {name: int(count) for name, count in counts if count}


def _numbers(columns: Columns, but: Collection[str]) -> list[str]:
    return [
        each
        for each in _others(columns)
        if each not in but
        and columns.kinds[each].startswith(NUMBERS)
        and not columns.kinds[each].endswith("]")  # a list of them
    ]


def _sums(names: Sequence[str]) -> str:
    return "".join(f", sum(__was.{quoted(each)}), sum(__now.{quoted(each)})" for each in names)


def _paired(names: Sequence[str], values: Sequence[object]) -> dict[str, tuple[object, object]]:
    pairs = zip(values[::2], values[1::2], strict=True)
    return {name: pair for name, pair in zip(names, pairs, strict=True) if pair[0] != pair[1]}


def _sums_of_all(
    duck: Duck, columns: Columns, masked: Collection[str]
) -> dict[str, tuple[object, object]]:
    names = _numbers(columns, masked)
    (_, *values), *_ = duck.execute(f"SELECT count(*){_sums(names)} FROM moved").fetchall()  # noqa: S608  # as above
    return _paired(names, values)


def _groups(
    duck: Duck, columns: Columns, by: Sequence[str], masked: Collection[str], most: int
) -> tuple[list[Group], int]:
    """Return the largest groups, and how many more there are; a key of a million values is not fetched."""
    if not by:
        return [], 0
    key = {*[*columns.kinds][: columns.key]}
    of = [
        quoted(each)
        if each in key
        else f"CASE WHEN __now IS NULL THEN __was.{quoted(each)} ELSE __now.{quoted(each)} END"
        for each in by
    ]
    names = [each for each in _numbers(columns, masked) if each not in by]
    found = duck.execute(
        f"SELECT {', '.join(of)}, count_if(__what = 'came'), count_if(__what = 'went'), count_if(__what = 'changed'){_sums(names)} "  # noqa: S608  # as above
        f"FROM moved GROUP BY {', '.join(of)} ORDER BY count(*) DESC, {', '.join(of)} LIMIT {most}"
    ).fetchall()
    ((every,),) = duck.execute(
        f"SELECT count(*) FROM (SELECT DISTINCT {', '.join(of)} FROM moved)"  # noqa: S608  # as above
    ).fetchall()
    here = len(by)
    groups = [
        Group(
            of=dict(zip(by, row[:here], strict=True)),
            came=row[here],
            went=row[here + 1],
            changed=row[here + 2],
            sums=_paired(names, row[here + 3 :]),
        )
        for row in found
    ]
    return groups, every - len(groups)


def _rows(duck: Duck, columns: Columns, masked: Collection[str], most: int) -> Iterator[Moved]:
    salt = secrets.token_hex()
    keys = ", ".join(_key(columns))
    names = [*columns.kinds][: columns.key]
    found = duck.execute(
        f"SELECT __what, __by, __was, __now, {keys} FROM moved ORDER BY {keys} LIMIT {most}"  # noqa: S608  # as above
    )

    def shown(name: str, value: object) -> object:
        if name not in masked or value is None:
            return value
        return f"[{hashlib.sha256(f'{salt}{value}'.encode()).hexdigest()[:12]}]"

    for what, by, was, now, *key in found.fetchall():
        before, after = was or {}, now or {}
        others = [
            each
            for each in _others(columns)
            if what != "changed" or before.get(each) != after.get(each)
        ]
        yield Moved(
            what=what,
            key={name: shown(name, value) for name, value in zip(names, key, strict=True)},
            was={each: shown(each, before[each]) for each in others if was},
            now={each: shown(each, after[each]) for each in others if now},
            by=by,
        )


# Who moved a row: the commits that replace rows, each compared with what it replaced.


def _attributed(
    duck: Duck, path: Place, since: int, until: int, columns: Columns
) -> tuple[Cause, ...]:
    """Note in ``moved`` which repair moved a row last, and return what moved rows."""
    repairs, own = _commits(path, since + 1, until)
    seen: set[int] = set()
    for version, _ in repairs[-LOOKED_AT:]:
        if _note(duck, path, version, columns):
            seen.add(version)
    counted = dict(duck.execute("SELECT __by, count(*) FROM moved GROUP BY 1").fetchall())
    found = [
        Cause(
            what=_in_words(entry),
            version=version,
            at=committed_at(path, version).isoformat(),
            commits=1,
            rows=counted.get(version, 0) if version in seen else None,
        )
        for version, entry in reversed(repairs)
    ]
    if own:
        at = committed_at(path, own[-1]).isoformat()
        rows = None if len(seen) < len(repairs) else counted.get(None, 0)
        found.append(Cause(what=OWN, version=own[-1], at=at, commits=len(own), rows=rows))
    return (*found,)


def _commits(
    path: Place, first: int, last: int
) -> tuple[list[tuple[int, Entry | None]], list[int]]:
    """Return the commits of a range that repair rows, and those of the table's own writer; those that move none are in neither."""
    repairs: list[tuple[int, Entry | None]] = []
    own: list[int] = []
    for version in range(first, last + 1):
        entry = entry_at(path, version)
        if entry is not None and not _repairs(entry):
            if entry.written or entry.replaced:
                own.append(version)
        elif changes_rows(path, version):
            repairs.append((version, entry))
    return repairs, own


def _repairs(entry: Entry) -> bool:
    return bool(entry.is_backfill or entry.promoted or entry.removed or entry.mode == LOOKED_AGAIN)


def _note(duck: Duck, path: Place, version: int, columns: Columns) -> bool:
    """Note which keys a commit moved; return whether its files are still there."""
    came, went = changed_files(path, version, version)
    if not all(Place.of(each.path).exists() for each in (*came, *went)):
        return False
    keys = ", ".join(_key(columns))
    duck.execute(f"CREATE OR REPLACE TEMP VIEW a AS {rows_of_files(duck, came, columns)}")
    duck.execute(f"CREATE OR REPLACE TEMP VIEW b AS {rows_of_files(duck, went, columns)}")
    same = " AND ".join(f"moved.{each} IS NOT DISTINCT FROM t.{each}" for each in _key(columns))
    duck.execute(
        f"UPDATE moved SET __by = {version} FROM (SELECT DISTINCT {keys} FROM "  # noqa: S608  # as above
        f"((FROM a EXCEPT FROM b) UNION ALL (FROM b EXCEPT FROM a))) t WHERE {same}"
    )
    return True


def _in_words(entry: Entry | None) -> str:
    if entry is None:
        return "a commit without a ledger entry"
    if entry.promoted:
        return "the promotion of a rebuild"
    what = {
        EXPIRE: "retention",
        FORGET: "a request to forget",
        LOOKED_AGAIN: "a late look-up in a dimension",
    }.get(entry.mode, f"a {entry.mode}")
    return f"{what} of {entry.since} to {entry.until}" if entry.since and entry.until else what
