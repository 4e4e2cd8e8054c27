"""A table rebuilt: made anew in a shadow, compared with the live one, put in its place, and taken back if need be.

Taking the place is one Delta commit that takes away every live file and brings in the shadow's, linked into the
table's own folder: a reader sees the old rows or the new ones, at every moment one of them whole, and the old ones
stay readable as a version. Then the checkpoint is exchanged. What is done is written down before it is done, so a
promotion that was killed is finished by typing it again, and until then no stream starts on the table.

The rows that came between a promotion and its undo are not lost: the old checkpoint reads them again.
"""

import os
import shutil
import uuid
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

from pyspark.sql import SparkSession

from jobs.core.errors import DefinitionError
from jobs.core.modes import AvailableNow
from jobs.core.table import Speaks, Table
from jobs.run import delta, gates, shadow
from jobs.run.backfill import ROLE
from jobs.run.gates import Where
from jobs.run.lake import Lake
from jobs.run.lease import lease
from jobs.run.ledger import Entry, entries, last_entry, latest_version
from jobs.run.meter import code_version
from jobs.run.runner import Site, run
from jobs.run.shadow import Promotion, Shadow, summed
from jobs.run.standing import Standing, standing

Tell = Callable[[Entry], None]


def refuse_unfit(table: Table, lake: Lake) -> None:
    """See that a table is one that a stream makes.

    Raises:
        DefinitionError: It is computed afresh, or was never run.
    """
    if table.speaks is Speaks.AFRESH:
        raise DefinitionError(
            f"{table.id} keeps no state; a batch run puts all of it in its place in one commit",
            hint=f"`strandline run {table.id} --mode batch`.",
            table=table.id,
        )
    lake.refuse_missing(table)


def rebuild(table: Table, lake: Lake, site: Site, tell: Tell = lambda _: None) -> Shadow:
    """Make a table's shadow, by the code of today, from all that its sources hold.

    Raises:
        DefinitionError: A promotion was interrupted, and needs the shadow that is there.
    """
    shadow.refuse_half_done(table, lake)
    made = Shadow.of(table, lake)
    for folder in (made.table(table), made.quarantine(table), made.checkpoint(table)):
        shutil.rmtree(folder, ignore_errors=True)
    made.open_for_writing()
    gates.stand_open(made)  # a person compares it before it is promoted
    run(table, AvailableNow(), made, site=site, tell=tell)
    return made


def promote(table: Table, lake: Lake, site: Site, tell: Tell = lambda _: None) -> Entry:
    """Put a table's shadow in its place, once it has read what came since; finishes what was interrupted.

    Raises:
        DefinitionError: There is no shadow, or it was made by other code.
        TransientError: A stream writes the table, or a backfill.
    """
    spark, made = site.spark, Shadow.of(table, lake)
    with lease(spark, table, lake), lease(spark, table, lake, role=ROLE):
        known = shadow.read(made)
        if known is None or known.done:
            refuse_without_shadow(table, lake)
            gates.stand_open(made, stands=False)  # what came since nobody has compared
            run(table, AvailableNow(), made, site=site, tell=tell)
            before = [latest_version(path) for path in lake.folders(table)]
            known = Promotion(mark=str(uuid.uuid4()), before=before)
            shadow.write(made, known)
        elif known.undoing:
            shadow.refuse_half_done(table, lake)
        entry = summed(made.table(table), known.mark)
        # As always the quarantine first and the table last.
        for source, target in zip(
            made.folders(table)[::-1], lake.folders(table)[::-1], strict=True
        ):
            _take_over(spark, source, target, entry)
        _exchange(lake.checkpoint(table), made.checkpoint(table), made.put_away(known.mark))
        for side in (Where.BEFORE, Where.RANGE):  # what they spoke of was judged anew
            gates.clear(table, lake, side)
        known.done = True
        shadow.write(made, known)
        for folder in made.folders(table):
            shutil.rmtree(folder, ignore_errors=True)
        return entry


def refuse_without_shadow(table: Table, lake: Lake) -> None:
    """See that a table was rebuilt by the code of today, or that its promotion is under way.

    Raises:
        DefinitionError: It was not.
    """
    made = Shadow.of(table, lake)
    known = shadow.read(made)
    if known is not None and not known.done:
        return
    newest = last_entry(made.table(table)) if made.exists(table) else None
    if newest is None or newest[1].code != code_version(table):
        why = "was not rebuilt" if newest is None else "was rebuilt by other code than today's"
        raise DefinitionError(
            f"{table.id} {why}, so there is nothing to promote",
            hint=f"`strandline rebuild {table.id}` makes it anew and shows the difference.",
            table=table.id,
        )


def refuse_without_promotion(table: Table, lake: Lake) -> Promotion:
    """Return the promotion that can be undone.

    Raises:
        DefinitionError: There is none.
    """
    known = shadow.read(Shadow.of(table, lake))
    if known is None or known.undone:
        raise DefinitionError(
            f"{table.id} has no promotion that could be undone",
            hint="only the last one can be, once.",
            table=table.id,
        )
    return known


def undo(spark: SparkSession, table: Table, lake: Lake) -> Entry:
    """Take the last promotion of a table back.

    Raises:
        DefinitionError: There was none, or it was taken back.
        TransientError: A stream writes the table, or a backfill.
    """
    made = Shadow.of(table, lake)
    with lease(spark, table, lake), lease(spark, table, lake, role=ROLE):
        known = refuse_without_promotion(table, lake)
        if not known.done and not known.undoing:
            shadow.refuse_half_done(table, lake)
        known.done, known.undoing = False, True
        shadow.write(made, known)
        mark = f"undo {known.mark}"
        entry = summed(lake.table(table), mark, until=known.before[0])
        for path, version in zip(lake.folders(table)[::-1], known.before[::-1], strict=True):
            _go_back(spark, path, version, entry)
        _exchange(lake.checkpoint(table), made.put_away(known.mark), made.put_away(mark))
        gates.clear(table, lake, Where.BEFORE)
        known.done = known.undone = True
        shadow.write(made, known)
        return entry


def _take_over(spark: SparkSession, source: Path, target: Path, entry: Entry) -> None:
    """Bring the files of one table into another, in the place of all that it holds."""
    if _has(target, entry):
        return
    coming = standing(source, latest_version(source))
    for name in map(unquote, coming.files):
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if not place.exists():
            os.link(source / name, place)
    _replace_all(spark, target, coming, entry)


def _go_back(spark: SparkSession, path: Path, version: int, entry: Entry) -> None:
    """Bring back the files that stood at a version."""
    if not _has(path, entry):
        _replace_all(spark, path, standing(path, version), entry)


def _replace_all(spark: SparkSession, path: Path, coming: Standing, entry: Entry) -> None:
    commit = delta.Commit(spark, path)
    commit.take_out_all()
    commit.bring_in(coming.files.values(), coming.columns, coming.folders)
    commit.commit(entry.encoded())


def _has(path: Path, entry: Entry) -> bool:
    """Tell whether this was done before the process was killed."""
    return any(each.promoted == entry.promoted for _, each in entries(path))


def _exchange(used: Path, coming: Path, away: Path) -> None:
    """Put a checkpoint in the place of another, which is kept; each half may be done already."""
    away.parent.mkdir(parents=True, exist_ok=True)
    if not coming.exists():
        return
    if used.exists():
        used.replace(away)
    coming.replace(used)
