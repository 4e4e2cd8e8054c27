"""Rebuild a table: compute a shadow of it, compare the shadow with the table, promote it, undo a promotion.

A promotion is one Delta commit that removes every live file and adds the shadow's files, which are linked into the
table's own folder: a reader sees either all old rows or all new ones, and the old rows stay readable as a version.
Then the checkpoints are exchanged. Each step is recorded before it is done, so the same command finishes a promotion
that was killed, and until then no stream starts on the table.

The rows that came between a promotion and its undo are not lost: the old checkpoint reads them again.
"""

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from urllib.parse import unquote

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from strandline.core.errors import DamagedError, DataError, DefinitionError, TransientError
from strandline.core.kind import in_utc
from strandline.core.stateful import AvailableNow
from strandline.core.table import Recomputed, Streamed, Table
from strandline.engine.accounting import gate_files
from strandline.engine.accounting.balance_sheet import has_begun
from strandline.engine.accounting.gate_files import Where
from strandline.engine.flow import shadow_lake
from strandline.engine.flow.function_plan import take_over_lineage
from strandline.engine.flow.plan import framed
from strandline.engine.flow.preflight import columns_of
from strandline.engine.flow.runner import Site, run
from strandline.engine.flow.shadow_lake import Promotion, Shadow, summed
from strandline.engine.lake import completeness
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.commit.create_table import alter
from strandline.engine.lake.completeness import (
    refuse_never_whole,
    refuse_retired,
    retired,
    sources_whole_from,
    strike_out,
)
from strandline.engine.lake.forgotten import requests
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import handed_over, lease
from strandline.engine.lake.log.commit_log import committed_at
from strandline.engine.lake.log.ledger import Entry, entries, entry_at, last_entry, latest_version
from strandline.engine.lake.log.ledger_sums import name_of, sums_of
from strandline.engine.lake.log.log_actions import TableFiles, table_files, table_id
from strandline.engine.lake.log.vacuum import UNDOABLE, swept
from strandline.engine.lake.open_table import WAS, earliest, nullable
from strandline.engine.lake.place import Place
from strandline.engine.lake.snapshot_files import link_files
from strandline.engine.lake.spark_checkpoint import unread_from
from strandline.engine.repair.backfill import ROLE, leave_behind
from strandline.engine.repair.close import close_as
from strandline.engine.runtime.code_files import is_code_of

AWAY = "put_away"
"""The file in a checkpoint that was put away completely; Spark ignores it."""

OnCommit = Callable[[Entry], None]


def compute_anew(table: Table, lake: Lake, site: Site, for_request: str) -> Entry:
    """Compute a table whole without what a request to forget has removed below it, and promote that beside its stream.

    The stream's state has what was removed, and would emit it when a window closes, for a table of whole days a day later. So
    the stream hands the table over, and goes on with a state that never had it. What was put away for an undo holds it too;
    an undo is refused from now on, and it goes at once.

    Raises:
        DefinitionError: Its sources have deleted rows of which the table still has the results.
        TransientError: Another process rebuilds the table, or its stream does not hand it over.
    """
    with shadow_lake.alone(table, lake):
        made = rebuild(table, lake, site)
        with handed_over(table, lake, site.clock, "forget"):
            entry = promote(table, lake, site, for_request=for_request)
        made.put_away(str(entry.promoted)).parent.remove(if_possible=True)
    return entry


def refuse_unfit(table: Table, lake: Lake) -> None:
    """Refuse a table that no stream makes.

    Raises:
        DefinitionError: It is a recomputed table, or was never run.
    """
    if isinstance(table, Recomputed):
        raise DefinitionError(
            f"{table.id} keeps no state; a batch run replaces all of it in one commit",
            hint=f"`strandline run {table.id} --mode batch`.",
            table=table.id,
        )
    lake.refuse_missing(table)


def rebuild(table: Table, lake: Lake, site: Site, on_commit: OnCommit = lambda _: None) -> Shadow:
    """Compute a table's shadow by today's code from all rows of its sources.

    Raises:
        DefinitionError: A promotion was interrupted; finishing it takes the shadow that exists. Or its sources have
            deleted rows of which the table still has the results.
    """
    shadow_lake.refuse_half_done(table, lake)
    refuse_retired_and_kept(table, lake)
    refuse_lossy(table, lake)
    made = Shadow.of(table, lake)
    for folder in (made.table(table), made.quarantine(table), made.checkpoint(table)):
        folder.remove(if_possible=True)
    made.open_for_writing()
    shadow_lake.begin(made)
    gate_files.open_all(made)  # an operator compares it before it is promoted
    with site.apart(table.id):
        run(table, AvailableNow(), made, site=site, on_commit=on_commit)
        if close_as(table, lake, made, site):
            run(table, AvailableNow(), made, site=site, on_commit=on_commit)
    return made


def refuse_retired_and_kept(table: Table, lake: Lake) -> None:
    """Refuse to compute a retired table anew that could go on where it ended; one that could not is fed again by that.

    Raises:
        RetiredError: It could.
    """
    known = retired(lake).get(table.id)
    if known is not None and known.place_kept:
        refuse_retired(table, lake)


def refuse_lossy(table: Table, lake: Lake) -> None:
    """Refuse to compute a table from sources that no longer have all rows behind it: the older rows would be lost.

    Raises:
        DefinitionError: Retention deleted rows of a source, and the table has rows from before.
    """
    first = sources_whole_from(table, lake)
    refuse_never_whole(table, lake, first)
    oldest = earliest(lake.table(table), str(table.event_at)) if first else None
    if first is not None and oldest is not None and in_utc(oldest) < first:
        raise DefinitionError(
            f"{table.id} cannot be rebuilt: its sources have no rows from before {first.isoformat()} any more, "
            f"and it has some from {in_utc(oldest).isoformat()} on, which would be lost",
            hint=f"recompute the ranges that its sources still have: `strandline backfill {table.id}`.",
            table=table.id,
            whole_from=first.isoformat(),
        )


def promote(
    table: Table,
    lake: Lake,
    site: Site,
    on_commit: OnCommit = lambda _: None,
    *,
    for_request: str = "",
) -> Entry:
    """Replace a table by its shadow after the shadow has read what came since; finish an interrupted promotion.

    Args:
        table: The table.
        lake: Its lake.
        site: With what.
        on_commit: Called with the entry of each batch of the shadow.
        for_request: The request to forget that is being carried out, and for which the shadow was made.

    Raises:
        DefinitionError: There is no shadow, or other code made it.
        TransientError: A stream or a backfill writes the table.
    """
    spark, made = site.spark, Shadow.of(table, lake)
    refuse_retired_and_kept(table, lake)
    with lease(spark, table, lake), lease(spark, table, lake, role=ROLE), site.apart(table.id):
        known = shadow_lake.read(made)
        if known is None or known.done:
            refuse_without_shadow(table, lake, for_request=for_request)
            gate_files.close_all(made)  # the rows that came since were not compared
            run(table, AvailableNow(), made, site=site, on_commit=on_commit)
            if close_as(table, lake, made, site):
                run(table, AvailableNow(), made, site=site, on_commit=on_commit)
            before = [latest_version(path) for path in lake.folders(table)]
            known = Promotion(mark=str(uuid.uuid4()), before=before)
            shadow_lake.write(made, known)
        elif known.undoing:
            shadow_lake.refuse_half_done(table, lake)
        entry = summed(made.table(table), known.mark)
        leave_behind(table, lake)
        take_over_lineage(table, made, lake)  # first: no row may be there whose masks are not known
        # The quarantine first and the table last, as in every batch.
        for source, target, version in zip(
            made.folders(table)[::-1], lake.folders(table)[::-1], known.before[::-1], strict=True
        ):
            _take_over(spark, source, target, entry, version)
        if table.id in retired(lake):
            # Before its checkpoint is exchanged: maintenance removes the state that is at the place of a table that was let go.
            # No stream begins before the promotion is done, and no undo could go on with the state that was removed.
            known.undone = True
            shadow_lake.write(made, known)
            strike_out(table.id, lake)
        _exchange(lake.checkpoint(table), made.checkpoint(table), made.put_away(known.mark))
        for side in (Where.BEFORE, Where.RANGE):  # the rows that they concern were judged anew
            gate_files.clear(table, lake, side)
        completeness.remove(lake, table.id)
        known.done = True
        known.undone = known.undone or not can_be_read(made.put_away(known.mark))
        shadow_lake.write(made, known)
        # No undo could go on with it, and maintenance would keep what it has not read.
        if known.undone:
            made.put_away(known.mark).remove(if_possible=True)
        for folder in made.folders(table):
            folder.remove(if_possible=True)
        return entry


def can_be_read(checkpoint: Place) -> bool:
    """Return whether a stream could go on with a checkpoint, as far as its own logs say.

    One that is closed to this user may be whole, and is kept: an undo is possible once it is given back.
    """
    try:
        unread_from(checkpoint)
    except DamagedError:
        return True
    except DataError:
        return False
    return True


def refuse_without_shadow(table: Table, lake: Lake, *, for_request: str = "") -> None:
    """Refuse a table that was not rebuilt by today's code, unless its promotion is under way.

    Raises:
        DefinitionError: There is no shadow by today's code.
    """
    made = Shadow.of(table, lake)
    known = shadow_lake.read(made)
    if known is not None and not known.done:
        return
    newest = last_entry(made.table(table)) if made.exists(table) else None
    if newest is None or not is_code_of(table, newest[1].code):
        why = "was not rebuilt" if newest is None else "was rebuilt by other code than today's"
        raise DefinitionError(
            f"{table.id} {why}, so there is nothing to promote",
            hint=f"`strandline rebuild {table.id}` computes it anew and prints the difference.",
            table=table.id,
        )
    refuse_outdated(table, lake, for_request=for_request)


def refuse_outdated(table: Table, lake: Lake, *, for_request: str = "") -> None:
    """Refuse to promote a rebuild that began before rows were forgotten: it read them, and would bring them back.

    Raises:
        DefinitionError: A request was carried out since the rebuild began.
    """
    if is_outdated(table, lake, for_request=for_request):
        hint = f"`strandline rebuild {table.id}` computes it anew from what is left."
        if any(not each.is_done and each.mark != for_request for each in requests(lake)):
            hint = "finish the request first: type the same `strandline forget` again. " + hint
        raise DefinitionError(
            f"the rebuild of {table.id} began before a request to forget removed rows, and would bring them back",
            hint=hint,
            table=table.id,
        )


def is_outdated(table: Table, lake: Lake, *, for_request: str = "") -> bool:
    """Return whether a request to forget has removed rows that a table's shadow may have read.

    A request that was interrupted has no versions yet, and may have removed rows already.
    """
    made = Shadow.of(table, lake)
    if not made.exists(table):
        return False
    began, own = shadow_lake.began(made), (table, *table.needs)
    names = {name_of(path) for each in own for path in lake.books(each)}
    concerning = [
        each
        for each in requests(lake)
        if each.mark != for_request and not names.isdisjoint(each.versions)
    ]
    if began is None:  # an older program did not write down where it began
        begun_at = committed_at(made.table(table), 0)
        return any(
            each.done_at is None or datetime.fromisoformat(each.done_at) >= begun_at
            for each in concerning
        )
    return any(
        version < 0 or version > began.get(name, -1)
        for each in concerning
        for name, version in each.versions.items()
        if name in names
    )


def remove_outdated(table: Table, lake: Lake) -> bool:
    """Remove the shadow of a table that holds what was forgotten; return whether there was one.

    Raises:
        TransientError: It is being built or promoted.
    """
    return is_outdated(table, lake) and remove_shadow(table, lake)


def remove_shadow(table: Table, lake: Lake) -> bool:
    """Remove the shadow of a table; return whether it was, which it is not while its promotion is half done.

    Raises:
        TransientError: It is being built or promoted.
    """
    with shadow_lake.alone(table, lake):
        known = shadow_lake.read(made := Shadow.of(table, lake))
        if known is not None and not known.done:
            return False
        for folder in (*made.folders(table), made.checkpoint(table)):
            folder.remove(if_possible=True)
    return True


def is_unfilled(table: Table, lake: Lake) -> bool:
    """Return whether no batch of a table was ever committed, and no backfill or import of it either."""
    paths = lake.folders(table)
    return not has_begun(table, lake) and all(next(entries(each), None) is None for each in paths)


def begin_anew(spark: SparkSession, table: Table, lake: Lake, *, is_read: bool) -> None:
    """Remove what a stream has begun of a table of which no batch was committed: there is no row to compare or to keep.

    Args:
        spark: For the lease.
        table: The table.
        lake: Its lake.
        is_read: Whether a table above has begun to read it, for which it must stay the same table.

    Raises:
        TransientError: A stream writes the table, or has written its first batch meanwhile.
    """
    with lease(spark, table, lake):
        if not is_unfilled(table, lake):
            raise TransientError(
                f"{table.id} has got its first rows meanwhile", hint="type the same again."
            )
        lake.checkpoint(table).remove()
        if is_read and isinstance(table, Streamed) and lake.exists(table):
            alter(spark, lake.table(table), columns_of(table, framed(spark, table, lake)))
            return
        for folder in lake.folders(table):
            folder.remove()


def refuse_without_promotion(table: Table, lake: Lake) -> Promotion:
    """Return the promotion that can be undone.

    Raises:
        DefinitionError: There is none.
    """
    known = shadow_lake.read(Shadow.of(table, lake))
    if known is None or (known.done and known.undone):
        raise DefinitionError(
            f"{table.id} has no promotion to undo",
            hint="only the last promotion can be undone, and only once.",
            table=table.id,
        )
    return known


def undo(spark: SparkSession, table: Table, lake: Lake) -> Entry:
    """Undo the last promotion of a table.

    Raises:
        DefinitionError: There was none, or it was undone before.
        TransientError: A stream or a backfill writes the table.
    """
    made = Shadow.of(table, lake)
    refuse_retired(table, lake)
    with lease(spark, table, lake), lease(spark, table, lake, role=ROLE):
        known = refuse_without_promotion(table, lake)
        if not known.done and not known.undoing:
            shadow_lake.refuse_half_done(table, lake)
        versions = _versions_before(table, lake, known)
        refuse_forgotten(table, lake, known)
        if not known.undoing:
            _refuse_deleted(table, lake, made.put_away(known.mark), versions)
        known.done, known.undoing = False, True
        shadow_lake.write(made, known)
        mark = f"undo {known.mark}"
        leave_behind(table, lake)
        entry = summed(lake.table(table), mark, until=known.before[0])
        for path, version in [*versions.items()][::-1]:
            _go_back(spark, path, version, entry)
        _exchange(lake.checkpoint(table), made.put_away(known.mark), made.put_away(mark))
        gate_files.clear(table, lake, Where.BEFORE)
        completeness.remove(lake, table.id)
        known.done = known.undone = True
        shadow_lake.write(made, known)
        return entry


def refuse_undo(table: Table, lake: Lake) -> None:
    """Refuse an undo of a table before anything is done; as ``undo`` does, which asks again under its leases.

    Raises:
        DefinitionError: It cannot be undone.
    """
    refuse_retired(table, lake)
    known = refuse_without_promotion(table, lake)
    if not known.done and not known.undoing:
        shadow_lake.refuse_half_done(table, lake)
    refuse_forgotten(table, lake, known)
    if not known.undoing:
        away = Shadow.of(table, lake).put_away(known.mark)
        _refuse_deleted(table, lake, away, _versions_before(table, lake, known))


def _versions_before(table: Table, lake: Lake, known: Promotion) -> dict[Place, int]:
    """Return the last version of each folder of a table before a promotion."""
    return {
        path: _last_before(path, known.mark, version)
        for path, version in zip(lake.folders(table), known.before, strict=True)
    }


def is_forgotten_since(table: Table, lake: Lake, promotion: Promotion) -> bool:
    """Return whether a request has removed rows since a promotion; one that was interrupted may have."""
    since = dict(zip(map(name_of, lake.folders(table)), promotion.before, strict=True))
    found = (
        (request.versions[name], version)
        for request in requests(lake)
        for name, version in since.items()
        if name in request.versions
    )
    return any(at < 0 or at > version for at, version in found)


def remove_put_away(table: Table, lake: Lake) -> bool:
    """Remove the checkpoints that an undo would use, where it is refused: their state holds what was forgotten."""
    made = Shadow.of(table, lake)
    known = shadow_lake.read(made)
    folder = made.put_away("any").parent
    if known is None or not known.done or not folder.exists():
        return False
    if not is_forgotten_since(table, lake, known):
        return False
    folder.remove(if_possible=True)
    return True


def refuse_forgotten(table: Table, lake: Lake, promotion: Promotion) -> None:
    """Refuse to bring back rows from before a request to forget.

    Raises:
        DefinitionError: A request was carried out since the promotion.
    """
    if is_forgotten_since(table, lake, promotion):
        raise DefinitionError(
            f"the promotion of {table.id} cannot be undone: it would bring back what was forgotten on request since",
            hint=f"`strandline rebuild {table.id}` computes it anew from what is left.",
            table=table.id,
        )


def _take_over(
    spark: SparkSession, source: Place, target: Place, entry: Entry, before: int
) -> None:
    """Replace all files of one table by those of another."""
    if _done_at(target, entry.promoted, before) is not None:
        return
    coming = table_files(source, latest_version(source))
    link_files(source, target, map(unquote, coming.files))
    _replace_all(spark, target, coming, entry)


def _go_back(spark: SparkSession, path: Place, version: int, entry: Entry) -> None:
    """Restore the files of a version; what was deleted before it stays deleted, and counted."""
    sums = sums_of(path, version)
    lacks = replace(entry, expired=sums.expired, forgotten=sums.forgotten, released=sums.released)
    if _done_at(path, entry.promoted, version) is None:
        coming = table_files(path, version)
        # A column that was renamed since has its name of then again, and is no other one that took a free name.
        were = {name: was for name, was in coming.properties.items() if name.startswith(WAS)}
        _replace_all(spark, path, coming, lacks, were)


def _last_before(path: Place, mark: str, since: int) -> int:
    """Return the last version before a promotion; maintenance may have put files together since it began."""
    done_at = _done_at(path, mark, since)
    return since if done_at is None else done_at - 1


def _refuse_deleted(
    table: Table, lake: Lake, checkpoint: Place, versions: Mapping[Place, int]
) -> None:
    """Refuse an undo whose rows, or what its stream has not read yet of its sources, were deleted.

    Raises:
        DefinitionError: Files are gone.
    """
    unread = unread_from(checkpoint) or {}
    sources = [(path, unread.get(table_id(path))) for path in map(lake.table, table.upstream)]
    is_read = all(at is None or swept(path).version < at.version for path, at in sources)
    rows = (
        path / unquote(each)
        for path, at in versions.items()
        for each in table_files(path, at).files
    )
    if is_read and all(file.exists() for file in rows):
        return
    raise DefinitionError(
        f"the promotion of {table.id} cannot be undone any more: files from before it are deleted",
        hint=f"a promotion can be undone for {UNDOABLE.days} days; compute the table again with the code of before: "
        f"`strandline rebuild {table.id}`.",
        table=table.id,
    )


def _replace_all(
    spark: SparkSession,
    path: Place,
    coming: TableFiles,
    entry: Entry,
    were: Mapping[str, str] | None = None,
) -> None:
    commit = delta_commit.Commit(spark, path)
    commit.take_out_all()
    columns = nullable(
        StructType.fromJson(json.loads(coming.columns))
    )  # made by an earlier version
    commit.bring_in(coming.files.values(), columns.json(), coming.folders, were)
    commit.commit(entry.encoded())


def _done_at(path: Place, mark: str | None, since: int) -> int | None:
    """Return the version after a given one that has a mark; None where a process was killed before that commit."""
    later = ((each, entry_at(path, each)) for each in range(since + 1, latest_version(path) + 1))
    return next((each for each, entry in later if entry and entry.promoted == mark), None)


def _exchange(used: Place, coming: Place, away: Place) -> None:
    """Replace a checkpoint by another, and keep the replaced one; each half may be done already.

    In a folder each half is one rename. On a store it is many copies, so it is recorded when the first is complete: what is
    found of the used one later may be a part of the coming one.
    """
    if not coming.exists():
        return
    if used.exists() and not (away / AWAY).is_file():
        used.move(away)
    if not used.is_local:
        (away / AWAY).put("")
    coming.move(used)
    if not used.is_local:
        (used / AWAY).remove()  # of one that was put away before and is in use again
