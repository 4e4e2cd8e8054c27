"""What is otherwise in a table than it was: the rows that came, went or changed between two versions, and the repair that did it.

Only the files are read that one version has and the other has not, so a day is compared in a table of years without reading the
years. Rows that are the same in both (files were put together, a repair wrote its range again) are no change, and a row that was
changed and changed back is none either.

What streams bring is what they are for. A commit that replaces rows is looked at by itself: the keys that it moved are its own,
and the last commit that moved a key is why its row is what it is now. So the reason of a change is counted in the files of a commit,
and not taken from its ledger entry, which says only what it meant to do.

An end is a version, or a moment, by which each table has its own version (jobs/strandline/engine/ask/moments.py). Where that one can be
read no more in the lake, and the moment has a name, its rows are those that it keeps.
"""

import hashlib
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.table import Ingested, Table
from strandline.core.topic import PLACE
from strandline.engine.ask.explain_gold import reached
from strandline.engine.ask.lake_views import Source
from strandline.engine.ask.moments import End, Named, end_of, named_by, unreadable
from strandline.engine.lake.duckdb_table import (
    Columns,
    Duck,
    File,
    Range,
    changed_files,
    columns_of,
    files_at,
    literal,
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
from strandline.engine.lake.log.ledger_sums import place_of
from strandline.engine.lake.log.log_actions import changes_rows, table_id
from strandline.engine.lake.open_table import refuse_deleted_files
from strandline.engine.lake.place import Place

NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL")
"""How DuckDB's names of types begin whose values have a sum."""

LOOKED_AT = 200
"""The most commits that are looked at one by one for what they moved; the newest of more."""

OWN = "its own runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class AtMoment:
    """The moment by which a version was found.

    Args:
        number: Its number; None where it was not noted.
        name: Its name, of one that has one.
        at: When the newest commit was made that is part of it.
        then: The version that the table had at the time that was asked for, where rows had moved between the two.
    """

    number: int | None
    name: str | None
    at: str
    then: int | None


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
        since_moment: The moment by which the former was found; None where it was named itself, or no moment was noted until then.
        until_moment: The same of the latter.
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
    since_moment: AtMoment | None
    until_moment: AtMoment | None
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
        since: The former version, a time, the name of a moment, or ``LATEST``.
        until: The latter; the latest version when None.
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
        DefinitionError: The table was never run; see ``named_by``, ``end_of`` and ``difference`` as well.
    """
    if not lake.exists(table):
        raise DefinitionError(
            f"{table.id} was never run, so it has no versions",
            hint="`strandline tables` lists those that were.",
            table=table.id,
        )
    tables = catalog.tables()
    above = reached(table, lake) if downstream else []
    names = [each.id for each in (table, *above)]
    first = named_by(asked.since, names, tables, lake)
    last = None if asked.until is None else named_by(asked.until, names, tables, lake)
    since = end_of(lake, table, first, is_first=True)
    until = End(version=latest_version(lake.table(table)))
    if last is not None:
        until = end_of(lake, table, last, is_first=False)
    yield difference(table, lake, since, until, tables=tables, by=asked.by, most=asked.most)
    for each in above:
        came = _beside(lake, table, since, first, each)
        went = _beside(lake, table, until, last, each)
        if went.version >= 0:
            columns = columns_of(lake.table(each), row_key(each)).kinds if asked.by else {}
            by = tuple(name for name in asked.by if name in columns)
            yield difference(each, lake, came, went, tables=tables, by=by, most=asked.most)


def row_key(table: Table) -> tuple[str, ...]:
    """Return the columns by which a row is known."""
    return PLACE if isinstance(table, Ingested) else table.row_key


def _beside(lake: Lake, table: Table, end: End, found: Named | None, other: Table) -> End:
    """Return the end of a table above: its own version of the same moment.

    Of a version that was named, the one that it had at the end of that version's time, when it had read what it read of it.
    """
    if found is not None and found.version is None:
        return end_of(lake, other, found, is_first=True)
    path = lake.table(table)
    if end.version == latest_version(path):
        return End(version=latest_version(lake.table(other)))
    ends = committed_at(path, end.version + 1) - timedelta(milliseconds=1)
    return end_of(lake, other, Named(at=ends), is_first=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """Where the files of an end are listed.

    Args:
        place: The table, or what a moment with a name keeps of it.
        version: The version there.
        is_former: Whether it is of a table of that name that was made anew since.
    """

    place: Place
    version: int
    is_former: bool = False


def _side(table: Table, lake: Lake, end: End) -> _Side:
    """Return where an end is read: in the lake, else where its moment is kept.

    Raises:
        DefinitionError: It can be read no more.
    """
    path = lake.table(table)
    if end.version < 0:
        return _Side(place=path, version=-1)
    kept = end.moment.kept if end.moment is not None else None
    known = end.moment.ids.get(table.id, "") if end.moment is not None else ""
    is_former = kept is not None and not table_id(path).startswith(known)
    try:
        if not is_former:
            try:
                refuse_deleted_files(path, table.id, end.version)
                return _Side(place=path, version=end.version)
            except DefinitionError:
                if kept is None:
                    raise
        assert kept is not None  # noqa: S101  # for mypy
        there = place_of(kept, table.id)
        refuse_deleted_files(there, table.id, 0)
        return _Side(place=there, version=0, is_former=is_former)
    except DefinitionError as error:
        if end.moment is None:
            raise
        raise unreadable(end.moment, error) from error


def difference(  # noqa: PLR0913  # what, where, between which versions, and how it is shown
    table: Table,
    lake: Lake,
    since: int | End,
    until: int | End,
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
    first, last = (End(version=each) if isinstance(each, int) else each for each in (since, until))
    before, after = _side(table, lake, first), _side(table, lake, last)
    is_later = first.version > last.version
    if after.is_former > before.is_former or (after.is_former == before.is_former and is_later):
        raise DefinitionError(
            f"{first} of {table.id} is later than {last}",
            hint="give the former first: --from 12 --to 18.",
            table=table.id,
        )
    columns = columns_of(path, row_key(table))
    masked = Source(path, table).secret(tables, lake) & {*columns.kinds}
    _refuse_group(table, by, columns, masked)
    begin = -1 if before.is_former else first.version
    came_files, went_files = _files(before, after)
    with compared(came_files, went_files, columns) as duck:
        # The commits of a table that was made anew since are gone.
        causes = () if after.is_former else _attributed(duck, path, begin, last.version, columns)
        came, went, changed = _counts(duck)
        groups, more = _groups(duck, columns, by, masked, most)
        return Difference(
            table=table.id,
            since=first.version,
            until=last.version,
            since_at=_at(first, before, path) if first.version >= 0 else None,
            until_at=_at(last, after, path),
            since_moment=_found_by(first),
            until_moment=_found_by(last),
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


def _found_by(end: End) -> AtMoment | None:
    found = end.moment
    if found is None:
        return None
    at = found.at.isoformat()
    return AtMoment(number=found.number or None, name=found.name or None, at=at, then=end.then)


def _at(end: End, side: _Side, path: Place) -> str:
    """Return the time of an end's commit; of a table that was made anew since, that of its moment."""
    if side.is_former and end.moment is not None:
        return end.moment.at.isoformat()
    return committed_at(path, end.version).isoformat()


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
def compared(
    came: Sequence[File], went: Sequence[File], columns: Columns, within: Range | None = None
) -> Iterator[Duck]:
    """Yield a database with a row in ``moved`` for each key whose row is otherwise in the files that came than in those that went.

    Args:
        came: The files that came.
        went: Those that went.
        columns: What is compared.
        within: The range of a column that the rows lie in; all when None.
    """
    with spilling() as duck:
        duck.execute(f"CREATE VIEW new AS {rows_of_files(duck, came, columns, within)}")
        duck.execute(f"CREATE VIEW old AS {rows_of_files(duck, went, columns, within)}")
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


def _files(before: _Side, after: _Side) -> tuple[list[File], list[File]]:
    """Return the files that one end has and the other has not; those of a moment that is kept have the names that they had."""
    if before.version < 0 or before.place == after.place:
        return changed_files(after.place, before.version + 1, after.version)
    now = files_at(after.place, after.version)
    then = files_at(before.place, before.version)
    came = [each for name, each in now.items() if name not in then]
    return came, [each for name, each in then.items() if name not in now]


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
    # Of a masked one the order of the values would say which is the smaller: an order of hashes says nothing.
    order = ", ".join(
        f"sha256({literal(salt)} || CAST({quoted(each)} AS VARCHAR))"
        if each in masked
        else quoted(each)
        for each in names
    )
    found = duck.execute(
        f"SELECT __what, __by, __was, __now, {keys} FROM moved ORDER BY {order} LIMIT {most}"  # noqa: S608  # as above
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
    repaired, own = _commits(path, since + 1, until)
    seen: set[int] = set()
    for version, _ in repaired[-LOOKED_AT:]:
        if note_moved(duck, path, version, columns):
            seen.add(version)
    counted = dict(duck.execute("SELECT __by, count(*) FROM moved GROUP BY 1").fetchall())
    found = [
        Cause(
            what=in_words(entry),
            version=version,
            at=committed_at(path, version).isoformat(),
            commits=1,
            rows=counted.get(version, 0) if version in seen else None,
        )
        for version, entry in reversed(repaired)
    ]
    if own:
        at = committed_at(path, own[-1]).isoformat()
        rows = None if len(seen) < len(repaired) else counted.get(None, 0)
        found.append(Cause(what=OWN, version=own[-1], at=at, commits=len(own), rows=rows))
    return (*found,)


def _commits(
    path: Place, first: int, last: int
) -> tuple[list[tuple[int, Entry | None]], list[int]]:
    """Return the commits of a range that repair rows, and those of the table's own writer; those that move none are in neither."""
    repaired: list[tuple[int, Entry | None]] = []
    own: list[int] = []
    for version in range(first, last + 1):
        entry = entry_at(path, version)
        if entry is not None and not repairs(entry):
            if entry.written or entry.replaced:
                own.append(version)
        elif changes_rows(path, version):
            repaired.append((version, entry))
    return repaired, own


def repairs(entry: Entry) -> bool:
    """Return whether a commit changes rows beside what the table's own runs bring."""
    return bool(entry.is_backfill or entry.promoted or entry.removed or entry.mode == LOOKED_AGAIN)


def note_moved(duck: Duck, path: Place, version: int, columns: Columns) -> bool:
    """Note in ``moved`` which keys a commit moved; return whether its files are still there."""
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


def in_words(entry: Entry | None) -> str:
    """Return what a repair is, with its range."""
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
