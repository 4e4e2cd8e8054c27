"""Who still reads the log of a table, and from which version on; nothing of a log may go that a reader needs.

Readers are found by what they left in the lake and not by the catalog alone, so a table that was paused for months, or
whose module is gone, keeps what it needs: the checkpoints of streams, of rebuilds, and those that an undo of a promotion
brings back; the last version that recomputed windows were computed from; the version of a dimension at which rows were
looked up. The last two matter most, because a missing commit is no error to them: they would miss its change silently.

A reader that never began is none, because it can begin with a snapshot of its sources. Nor is a retired table whose place was
let go (jobs/strandline/engine/lake/retired.py).

What is needed of a table are the commits from a version on, and every file that one of them adds or removes. A ledger needs
more: closed books begin where they were closed (jobs/strandline/engine/accounting/table_books.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from strandline import catalog

from strandline.core.errors import DamagedError, DataError
from strandline.core.kind import Layer
from strandline.core.table import Recomputed, Table
from strandline.engine.flow import shadow_lake
from strandline.engine.flow.shadow_lake import Shadow
from strandline.engine.lake.checkpoint.spark_checkpoint import NOWHERE, unread_from
from strandline.engine.lake.files.damage import damage
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import logged_versions
from strandline.engine.lake.log.ledger import is_table, last_entry
from strandline.engine.lake.log.ledger_sums import name_of, sums_of
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.read.table_versions import lowest
from strandline.engine.lake.retired import retired


class How(StrEnum):
    """How a reader reads."""

    STREAM = "stream"
    """The table's own stream."""
    REBUILD = "rebuild"
    """The stream of a shadow that may be promoted."""
    UNDO = "undo"
    """The stream and the rows that an undo of the last promotion would bring back."""
    WINDOWS = "windows"
    """Windows that are computed again where a source changed."""
    DIMENSION = "dimension"
    """Rows that are looked up again where a dimension changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One reader of tables.

    Args:
        table: The table that it fills.
        how: How it reads.
        needs: For each table that it reads, the first version that it needs; the one after the newest, where it has read
            everything.
    """

    table: str
    how: How
    needs: Mapping[str, int]


def readers(lake: Lake) -> list[Reader]:
    """Return all readers of the lake's tables."""
    names = _names(lake)
    tables = {table.id: table for table in catalog.tables()}
    # A promotion moves checkpoints: from the table to the shadow's folder, then from the shadow to the table. With the
    # tables' folders read before and after, none can be missed on its way.
    seen = [
        *_streams(lake, names, tables),
        *_shadows(lake, names, tables),
        *_streams(lake, names, tables),
        *_followers(lake, list(tables.values())),
    ]
    found: dict[tuple[str, How], Reader] = {}
    for each in seen:
        before = found.get((each.table, each.how), each)
        found[each.table, each.how] = replace(each, needs=lowest([before.needs, each.needs]))
    past = {name for name, each in retired(lake).items() if not each.place_kept}
    own = {How.STREAM, How.WINDOWS, How.DIMENSION}
    return [each for each in found.values() if each.table not in past or each.how not in own]


def _names(lake: Lake) -> dict[str, str]:
    """Return the names of the lake's tables by the ids that Delta gave to them."""
    folders = (lake.root / layer for layer in Layer)
    paths = [folder / name for folder in folders for name in folder.names()]
    return {found: name_of(path) for path in paths if is_table(path) and (found := _id_of(path))}


def _id_of(path: Place) -> str | None:
    """Return a table's id; None where its log cannot be read, and then nothing of that table is touched."""
    try:
        return table_id(path)
    except (DamagedError, OSError):
        return None


def _streams(lake: Lake, names: Mapping[str, str], tables: Mapping[str, Table]) -> Iterator[Reader]:
    folder = lake.root / "_checkpoints"
    for table in folder.names():
        needs = _needs_or_all(folder / table, lake, names, tables.get(table))
        if needs:
            yield Reader(table=table, how=How.STREAM, needs=needs)


def _shadows(lake: Lake, names: Mapping[str, str], tables: Mapping[str, Table]) -> Iterator[Reader]:
    for name in (lake.root / "_rebuild").names():
        if name in tables:
            yield from _of_shadow(Shadow.of(tables[name], lake), lake, names)


def _of_shadow(made: Shadow, lake: Lake, names: Mapping[str, str]) -> Iterator[Reader]:
    table = made.own
    if needs := _needs_or_all(made.checkpoint(table), lake, names, table):
        yield Reader(table=table.id, how=How.REBUILD, needs=needs)
    promotion = shadow_lake.read(made)
    if promotion is None or promotion.undone:
        return
    before = zip(lake.folders(table), promotion.before, strict=False)
    rows = {name_of(path): version for path, version in before}
    yield Reader(
        table=table.id,
        how=How.UNDO,
        needs={**_needs_of_put_away(made.put_away(promotion.mark), lake, names, table), **rows},
    )


def _followers(lake: Lake, tables: Sequence[Table]) -> Iterator[Reader]:
    """Yield the readers without a checkpoint, which note in their ledger what they have read."""
    for table in tables:
        if not lake.exists(table):
            continue
        try:
            yield from _follower(table, lake)
        except Exception as error:
            if damage(error, table) is None:
                raise
            # What a damaged table has read is not known, so nothing goes of what it reads.
            how = How.WINDOWS if isinstance(table, Recomputed) else How.DIMENSION
            read = table.upstream if isinstance(table, Recomputed) else table.needs
            yield Reader(table=table.id, how=how, needs=_all_of(read, lake))


def _follower(table: Table, lake: Lake) -> Iterator[Reader]:
    if isinstance(table, Recomputed):
        newest = last_entry(lake.table(table))
        seen = newest[1].versions if newest else {}
        needs = {name: last + 1 for name, (_, last) in seen.items()}
        if needs:
            yield Reader(table=table.id, how=How.WINDOWS, needs=needs)
    elif table.dimension is not None:
        looked = sums_of(lake.table(table)).right_until
        if looked >= 0:
            needs = {table.dimension.source.id: looked + 1}
            yield Reader(table=table.id, how=How.DIMENSION, needs=needs)


def _needs_of_put_away(
    checkpoint: Place, lake: Lake, names: Mapping[str, str], table: Table
) -> dict[str, int]:
    """Return what an undo would read on; a torn checkpoint is a reader of nothing, and no undo uses it.

    One that is closed to this user may be whole, so nothing goes that its table reads.
    """
    try:
        return _needs(checkpoint, names, table)
    except DamagedError:
        return _needs_or_all(checkpoint, lake, names, table)
    except DataError:
        return {}


def _needs_or_all(
    checkpoint: Place, lake: Lake, names: Mapping[str, str], table: Table | None
) -> dict[str, int]:
    """Return what a stream needs; of one whose checkpoint cannot be read all of what its table reads, and no more.

    Raises:
        DataError: It cannot be read, and no table of its name says what it reads.
    """
    try:
        return _needs(checkpoint, names, table)
    except DataError:
        if table is None:
            raise
        there = set(names.values())
        return {each: at for each, at in _all_of(table.needs, lake).items() if each in there}


def _all_of(sources: Sequence[Table], lake: Lake) -> dict[str, int]:
    """Return the first version that is in the log of each source: what is there stays, and nothing is missed that is not."""
    found = {each.id: logged_versions(lake.table(each)) for each in sources if lake.exists(each)}
    return {name: min(versions) for name, versions in found.items() if versions}


def _needs(checkpoint: Place, names: Mapping[str, str], table: Table | None) -> dict[str, int]:
    """Return the first version of each source that a stream needs; nothing where it is no stream over tables."""
    found = unread_from(checkpoint)
    if found is None:
        return {}
    at = {names[source]: position for source, position in found.items() if source in names}
    unread = {source.id: NOWHERE for source in table.upstream} if table else {}
    there = set(names.values())
    return {name: each.version for name, each in {**unread, **at}.items() if name in there}
