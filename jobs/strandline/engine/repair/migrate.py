"""The plan of a change: what follows from an edit for each table, in the order in which it is done, and what was done.

What is to be done is read from the lake: by which code the rows in force were made and which rows of the sources they were made
of (jobs/strandline/engine/lake/log/ledger_sums.py), and whether the stream can go on (jobs/strandline/engine/flow/preflight.py). So a
plan that was interrupted goes on by being made again, and nothing has to be remembered but what an undo takes back.

A table that was computed anew and has the same rows is not replaced, or each edit of a table below would replace all above it. That
its rows are those of today's code is noted beside its rebuild.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from strandline import catalog

from strandline.core.errors import DataError, DefinitionError, LakeError
from strandline.core.stateful import Batch
from strandline.core.table import Ingested, Recomputed, Streamed, Table
from strandline.engine.accounting.balance_sheet import waiting
from strandline.engine.flow import shadow_lake
from strandline.engine.flow.batch.event_joins import joining
from strandline.engine.flow.compare_plans import (
    Remedy,
    as_renamed,
    former_sources,
    source_tables,
    stateful_plan,
)
from strandline.engine.flow.plan import Frames, framed
from strandline.engine.flow.preflight import Answer, Verdict, columns_of, judge, tight_columns
from strandline.engine.flow.query import is_settled
from strandline.engine.flow.shadow_lake import Shadow
from strandline.engine.lake.commit.create_table import alter, altered, let_be_null
from strandline.engine.lake.commit.replace_rows import rename_columns
from strandline.engine.lake.completeness import fed
from strandline.engine.lake.lake import COLUMNS, Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.log.commit_log import Kind, actions
from strandline.engine.lake.log.ledger import Entry, between, last_entry, latest_version
from strandline.engine.lake.log.ledger_sums import Sums, sums_of
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.mend_checkpoint import retire_state, rewrite_sources
from strandline.engine.lake.open_table import declared_schema, first_names
from strandline.engine.lake.place import Place, damage
from strandline.engine.lake.spark_checkpoint import (
    read_record,
    same_code,
    source_ids,
    write_record,
)
from strandline.engine.repair.rebuild import refuse_lossy
from strandline.engine.runtime.code_files import is_code_of

LOOKED_AT = 20
"""The newest commits by which seconds and bytes are foreseen."""

REMEMBERED = 20
"""Migrations that are kept; only the newest can be undone."""


class Step(StrEnum):
    """What a change asks of a table."""

    GOES_ON = "goes on"
    MADE = "is made"
    """It is not in the lake yet; its first run reads all that its sources have."""
    ALTERED = "altered in place"
    REBUILT = "computed anew"
    RECOMPUTED = "recomputed"
    """It keeps no state: a batch replaces all its windows in one commit."""
    FINISHED = "finished"
    """Its promotion or its undo was interrupted."""
    BLOCKED = "cannot"


STEPS = (Step.FINISHED, Step.ALTERED, Step.REBUILT, Step.RECOMPUTED)
"""What there is to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """What a change asks of one table.

    Args:
        table: The table's name.
        step: What is to be done.
        why: Why, in sentences.
        rows: The rows that it has, each of which may become another one.
        reads: The rows that are read for that.
        seconds: About how long it takes, by its newest commits; None where they say nothing.
        size: About how many bytes are written, likewise.
        hint: What to type where it cannot be done.
        must: Whether its stream cannot go on without it.
    """

    table: str
    step: Step
    why: tuple[str, ...] = ()
    rows: int = 0
    reads: int = 0
    seconds: float | None = None
    size: int | None = None
    hint: str = ""
    must: bool = False

    @property
    def is_work(self) -> bool:
        """Return whether there is something to do."""
        return self.step in STEPS


# By what the rows of a table were made.


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """By what the rows of a table were made that is not as it is today.

    Args:
        code: Whether other code than today's made some of them.
        sources: The tables that it reads whose rows were replaced since.
    """

    code: bool = False
    sources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Equal:
    """The rows of a table were compared with what a version of code makes of its sources, and were the same.

    Args:
        table: The id that Delta gave the table.
        code: The version of the code.
        version: The table's version that was compared.
        sources: The versions of its sources.
    """

    table: str
    code: str
    version: int
    sources: dict[str, int]


def note_equal(table: Table, lake: Lake, code: str, version: int) -> None:
    """Note that the rows up to a version of a table are those that a version of code makes."""
    began = shadow_lake.began(Shadow.of(table, lake)) or {}
    found = Equal(
        table=table_id(lake.table(table)),
        code=code,
        version=version,
        sources={each.id: began[each.id] for each in table.upstream if each.id in began},
    )
    _equal_file(table, lake).put(json.dumps(asdict(found)))


def _equal_file(table: Table, lake: Lake) -> Place:
    return Shadow.of(table, lake).root / "equal.json"


def _equal(table: Table, lake: Lake) -> Equal | None:
    try:
        found = Equal(**json.loads(_equal_file(table, lake).text() or ""))
    except (ValueError, TypeError):  # there is none, or it is of another version
        return None
    return found if found.table == table_id(lake.table(table)) else None


def made(
    table: Table, lake: Lake, *, asks_code: bool = True, same_as: Collection[str] = ()
) -> Made:
    """Return by what the rows of a table were made that is not as it is today; books of older code do not know all of it.

    Args:
        table: The table.
        lake: Its lake.
        asks_code: Whether to look at the code too, whose hash takes some hundredths of a second a table.
        same_as: Versions of its code that make the rows that today's makes.
    """
    if isinstance(table, Ingested) or not lake.exists(table):
        return Made()
    sums, equal = sums_of(lake.table(table)), _equal(table, lake)
    if equal is not None and equal.version < sums.begun:  # it was replaced since
        equal = None
    known = {*same_as, *same_code(table, lake.checkpoint(table))} if asks_code else set[str]()
    other = asks_code and any(
        code not in known and not is_code_of(table, code)
        for code, (_, last) in sums.codes.items()
        if equal is None
        or last > equal.version
        or not (equal.code in known or is_code_of(table, equal.code))
    )
    return Made(code=other, sources=tuple(_replaced_below(table, lake, sums, equal)))


def _replaced_below(table: Table, lake: Lake, sums: Sums, equal: Equal | None) -> Iterator[str]:
    """Yield the sources of which the table has read rows that are not in force any more; a recomputed table reads those that are."""
    if isinstance(table, Recomputed):
        return
    for source in table.upstream:
        first = sums.first_read.get(source.id)
        if first is None or not lake.exists(source):
            continue
        below, seen = sums_of(lake.table(source)), sums.seen.get(source.id, first)
        compared = first if equal is None else equal.sources.get(source.id, first)
        if not is_in_force(first, below, seen) and not is_in_force(compared, below, seen):
            yield source.id


def is_in_force(first: int, source: Sums, seen: int) -> bool:
    """Return whether the rows of a source that were read from a version on, up to another, are its rows, each once."""
    if first < source.begun:
        return False
    if source.undone < 0 or first >= source.replaced_at:
        return True
    # Between a promotion and its undo it was read, or rows came that its former stream has written again.
    return first < source.undone and not (source.redone and seen > source.undone)


def stale(tables: Sequence[Table], lake: Lake) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the tables that were computed from rows of a source which were replaced since, with these sources.

    One that cannot be read says so elsewhere.
    """
    for table in tables:
        try:
            found = made(table, lake, asks_code=False).sources
        except (OSError, LakeError) as error:
            if damage(error, table) is None:
                raise
            continue
        if found:
            yield table.id, found


# The plan.


def planned(
    tables: Sequence[Table], lake: Lake, verdicts: Mapping[str, Verdict], *, forward: bool
) -> list[Stage]:
    """Return what a change asks of tables, in the order in which it is done.

    Args:
        tables: The tables, each after those that it reads.
        lake: Their lake.
        verdicts: May each table's stream go on?
        forward: Whether rows that are there stay as they are, wherever the stream can go on with them.
    """
    stages, anew, altered = list[Stage](), set[str](), set[str]()
    for table in tables:
        try:
            verdict = _over(verdicts[table.id], table, anew | altered)
            stage = _stage(table, lake, verdict, anew, forward=forward)
        except Exception as error:
            found = damage(error, table)
            if found is None:
                raise
            stage = Stage(table=table.id, step=Step.BLOCKED, why=(found.message,), hint=found.hint)
        if stage.step in {Step.REBUILT, Step.FINISHED}:
            anew.add(table.id)
        if stage.step is Step.ALTERED:
            altered.add(table.id)
        stages.append(stage)
    return stages


def _over(verdict: Verdict, table: Table, changing: Collection[str]) -> Verdict:
    """Return the verdict on a table whose function names what a table below gets by the same plan: it is computed anew after that."""
    is_unplanned = verdict.answer is Answer.REFUSED and Remedy.REBUILD in verdict.remedies
    if is_unplanned and any(each.id in changing for each in table.needs):
        return replace(verdict, answer=Answer.ANEW, hint="")
    return verdict


def _stage(  # noqa: PLR0911  # one for each step
    table: Table, lake: Lake, verdict: Verdict, anew: Collection[str], *, forward: bool
) -> Stage:
    if not lake.exists(table):
        return _unmade(table, verdict)
    if not isinstance(table, Ingested):
        try:
            shadow_lake.refuse_half_done(table, lake)
        except DefinitionError as error:
            return _foreseen(table, lake, Step.FINISHED, (error.message,))
    differences = tuple(each.what for each in verdict.differences)
    if verdict.answer in {Answer.DAMAGED, Answer.REFUSED, Answer.UNMADE, Answer.GONE}:
        return Stage(table=table.id, step=Step.BLOCKED, why=differences, hint=verdict.hint)
    if isinstance(table, Ingested):
        return Stage(table=table.id, step=Step.GOES_ON)
    needs = Remedy.REBUILD in verdict.remedies
    by_what = made(table, lake, same_as=verdict.same_as)
    changes = [*_reasons(table, by_what, anew)]
    reasons = (*differences, *changes)
    if isinstance(table, Recomputed) or _is_by_batch(table, lake):
        if by_what.code and not forward:
            return _foreseen(table, lake, Step.RECOMPUTED, reasons)
        return Stage(table=table.id, step=Step.GOES_ON)
    if replaced := [each.id for each in table.upstream if _is_by_batch(each, lake)]:
        why = f"it reads {' and '.join(replaced)}, which batch runs replace as a whole, so no stream can follow it"
        hint = f"run {table.id} with `--mode batch` as well."
        return Stage(table=table.id, step=Step.BLOCKED, why=(why,), hint=hint)
    if needs or (not forward and (changes or Remedy.ADD_COLUMNS in verdict.remedies)):
        return _rebuilt(table, lake, verdict, reasons, needs=needs)
    return _in_place(table, verdict, reasons)


def _in_place(table: Table, verdict: Verdict, why: tuple[str, ...], hint: str = "") -> Stage:
    """Return the stage of a table whose rows stay as they are."""
    step = Step.ALTERED if verdict.remedies else Step.GOES_ON
    return Stage(table=table.id, step=step, why=why, hint=hint, must=bool(verdict.remedies))


def _is_by_batch(table: Table, lake: Lake) -> bool:
    """Return whether batch runs write a table, and no stream."""
    newest = last_entry(lake.table(table)) if lake.exists(table) else None
    is_other = isinstance(table, Ingested | Recomputed)
    return newest is not None and not is_other and newest[1].mode == Batch().name


def _unmade(table: Table, verdict: Verdict) -> Stage:
    why = tuple(each.what for each in verdict.differences)
    if verdict.answer is not Answer.SAFE:
        return Stage(table=table.id, step=Step.BLOCKED, why=why, hint=verdict.hint)
    return Stage(table=table.id, step=Step.MADE, why=("it is not in the lake yet",))


def _reasons(table: Table, found: Made, anew: Collection[str]) -> Iterator[str]:
    if found.code:
        yield "other code than today's has made rows that it has"
    if found.sources:
        yield f"it was computed from rows of {' and '.join(found.sources)} that were replaced since"
    coming = [
        each.id for each in table.upstream if each.id in anew and each.id not in found.sources
    ]
    if coming and not isinstance(table, Recomputed):
        yield f"it reads {' and '.join(coming)}, which is computed anew before it"


def _rebuilt(
    table: Table, lake: Lake, verdict: Verdict, why: tuple[str, ...], *, needs: bool
) -> Stage:
    """Return the stage of a table that is computed anew; of one whose sources lack rows by now, that it cannot be, or need not."""
    try:
        refuse_lossy(table, lake)
    except DefinitionError as error:
        more = (*why, error.message)
        if needs:
            return Stage(table=table.id, step=Step.BLOCKED, why=more, hint=error.hint)
        return _in_place(table, verdict, more, error.hint)
    return replace(_foreseen(table, lake, Step.REBUILT, why), must=bool(verdict.remedies))


def _foreseen(table: Table, lake: Lake, step: Step, why: tuple[str, ...]) -> Stage:
    """Return a stage with what it will cost, by the newest commits of the table."""
    path = lake.table(table)
    sums, newest = sums_of(path), latest_version(path)
    first = max(0, newest - LOOKED_AT + 1)
    recent = [each for each in between(path, first, newest) if _is_typical(each)]
    read, spent = sum(e.read + e.others for e in recent), sum(e.duration_ms for e in recent)
    written, size = _written(path, first, newest)
    reads, rows = sums.read + sums.others, max(0, sums.written - sums.removed)
    return Stage(
        table=table.id,
        step=step,
        why=why,
        rows=rows,
        reads=reads,
        seconds=round(reads * spent / read / 1000, 1) if read else None,
        size=round(rows * size / written) if written else None,
    )


def _is_typical(entry: Entry) -> bool:
    return entry.read > 0 and not entry.is_backfill and not entry.replaced


def _written(path: Place, first: int, last: int) -> tuple[int, int]:
    """Return rows and bytes of the files that the newest commits wrote."""
    rows = size = 0
    for version in range(first, last + 1):
        for each in actions(path, version, Kind.ADD):
            count = json.loads(each.body.get("stats") or "{}").get("numRecords")
            if count:
                rows, size = rows + count, size + each.body["size"]
    return rows, size


# What was done, so that it can be undone as one.


@dataclass(slots=True, kw_only=True)
class Migration:
    """A migration that was begun.

    Args:
        at: When.
        by: By whom.
        promoted: The tables that it replaced, in this order, each with the mark of its promotion.
        others: What it did to other tables, in words.
        done: Whether it came to its end.
        undone: Whether it was taken back.
    """

    at: str
    by: str
    promoted: list[tuple[str, str]] = field(default_factory=list)
    others: dict[str, str] = field(default_factory=dict)
    done: bool = False
    undone: bool = False


def _file(lake: Lake) -> Place:
    return lake.root / "_migrations.json"


def migrations(lake: Lake) -> list[Migration]:
    """Return the last migrations, the newest at the end.

    Raises:
        DataError: Their file is damaged.
    """
    text = _file(lake).text()
    if text is None:
        return []
    try:
        found = [Migration(**each) for each in json.loads(text)]
    except (ValueError, TypeError) as error:
        raise DataError(
            f"{_file(lake)} is damaged, so it is not known what the last migration did",
            hint="each table can still be undone by itself: `strandline undo TABLE`; remove the file to migrate on.",
        ) from error
    for each in found:
        each.promoted = [(table, mark) for table, mark in each.promoted]
    return found


def begun(lake: Lake, at: datetime, by: str) -> Migration:
    """Return the migration that was begun and not ended, or a new one."""
    known = migrations(lake)
    if known and not known[-1].done and not known[-1].undone:
        return known[-1]
    return Migration(at=at.isoformat(timespec="seconds"), by=by)


def keep(lake: Lake, migration: Migration) -> None:
    """Write down what a migration has done so far."""
    others = [each for each in migrations(lake) if each.at != migration.at]
    kept = [*others, migration][-REMEMBERED:]
    _file(lake).put(json.dumps([asdict(each) for each in kept], indent=1))


def last(lake: Lake) -> Migration:
    """Return the migration that can be undone: the last one that replaced a table.

    Raises:
        DefinitionError: There is none.
    """
    known = [each for each in migrations(lake) if each.promoted]
    if not known or known[-1].undone:
        raise DefinitionError(
            "there is no migration to undo",
            hint="only the last one can be undone, and only once; a table by itself: `strandline undo TABLE`.",
        )
    return known[-1]


# Do what a verdict of the pre-flight asks for, where no row must be computed again.
#
# Each step leaves a checkpoint from which either the former code or that of today goes on, and a step that was killed is
# simply done again.


def migrate(spark: SparkSession, table: Streamed, lake: Lake) -> Verdict:
    """Do what a table's verdict asks for, and return the verdict after it.

    Raises:
        DefinitionError: It must be computed again.
        TransientError: A stream writes the table.
    """
    with lease(spark, table, lake):
        verdict = judge(spark, table, lake)
        refuse_rebuild(verdict)
        if not verdict.remedies:
            return verdict
        if Remedy.LET_BE_NULL in verdict.remedies:
            for source in table.upstream:
                columns = tight_columns(table, lake).get(source.id, ())
                let_be_null(spark, lake.table(source), columns)
            return judge(spark, table, lake)
        run = framed(spark, table, lake)
        if Remedy.WIDEN in verdict.remedies:
            lake.raise_to(COLUMNS)
        if verdict.remedies & {Remedy.ADD_COLUMNS, Remedy.WIDEN}:
            alter(spark, lake.table(table), columns_of(table, run))
        if Remedy.REWRITE_SOURCES in verdict.remedies:
            with joining(table, lake):
                _rewrite(table, lake, run)
        if Remedy.HAND_OVER in verdict.remedies:
            retire_state(lake.checkpoint(table))
        return judge(spark, table, lake)


def rename(
    spark: SparkSession, table: Streamed, lake: Lake, names: Mapping[str, str], now: datetime
) -> None:
    """Give columns of a table the names that its function has for them now, with the values that they have.

    Raises:
        DefinitionError: Table or function have not these columns, or a table above has not read all rows yet.
        TransientError: A stream writes the table.
    """
    with lease(spark, table, lake):
        path = lake.table(table)
        # A kill between the commit of the names and the record of what ran leaves the record to be written.
        left = {old: new for old, new in names.items() if not _has_its_name(path, old, new)}
        if left:
            refuse_rename(table, lake, left, columns_of(table, framed(spark, table, lake)))
            lake.raise_to(COLUMNS)
            rename_columns(path, left, now)
        record = read_record(lake.checkpoint(table))
        if record is not None:
            plan = as_renamed(record.plan, names)
            write_record(lake.checkpoint(table), replace(record, plan=plan))


def _has_its_name(path: Place, old: str, new: str) -> bool:
    """Return whether a column got its name already."""
    names = declared_schema(path).names
    return old not in names and new in names and first_names(path).get(new) == old


def refuse_rename(
    table: Streamed, lake: Lake, names: Mapping[str, str], wanted: StructType
) -> None:
    """Refuse names that a table or its function has not, or has already.

    Raises:
        DefinitionError: It is so, or a table above has not read all rows yet.
    """
    own = declared_schema(lake.table(table))
    for old, new in names.items():
        wrong = ""
        others = {each.lower(): each for each in own.names if each != old}
        if old not in own.names:
            wrong = f"its table has no column {old}"
        elif new.lower() in others:
            wrong = f"its table has {others[new.lower()]} already"
        elif new not in wanted.names or old in wanted.names:
            wrong = f"its function returns {'no column ' + new if new not in wanted.names else old + ' as well'}"
        elif [*altered(own[old].dataType, wanted[new].dataType)]:
            wrong = f"{old} is {own[old].dataType.simpleString()}, and {new} would be {wanted[new].dataType.simpleString()}"
        if wrong:
            raise DefinitionError(
                f"{table.id}: {old} cannot be called {new}, because {wrong}",
                hint=f"rename it in its function first; `strandline migrate {table.id}` shows what follows without --rename.",
                table=table.id,
            )
    behind = [each.id for each in readers(table, lake) if not has_read_all(each, lake)]
    if behind:
        raise DefinitionError(
            f"{' and '.join(behind)} did not read all rows of {table.id} yet, and cannot read them under another name",
            hint=f"`strandline run {' '.join(behind)}` by the code of before, or let its stream catch up; then type it again.",
            table=table.id,
            behind=behind,
        )


def has_read_all(table: Table, lake: Lake) -> bool:
    """Return whether a table has read what there is, and its stream would open no batch of before again when it starts.

    A recomputed table opens no batch: it reads whole versions, by the code of its run.
    """
    if isinstance(table, Ingested | Recomputed):
        return True
    return waiting(table, lake) == 0 and is_settled(table, lake)


def readers(table: Table, lake: Lake) -> list[Table]:
    """Return the tables that read a table, as far as the lake has them and they are fed."""
    above = [each for each in catalog.tables() if table.id in {one.id for one in each.needs}]
    return fed([each for each in above if lake.exists(each)], lake)


def refuse_rebuild(verdict: Verdict) -> None:
    """Refuse a table for which no migration is enough.

    Raises:
        DefinitionError: It must be computed again.
    """
    if Remedy.REBUILD in verdict.remedies:
        reasons = [each.what for each in verdict.differences if each.remedy is Remedy.REBUILD]
        raise DefinitionError(
            f"{verdict.table} cannot be migrated: {'; '.join(reasons)}",
            hint=verdict.hint,
            table=verdict.table,
        )


def _rewrite(table: Streamed, lake: Lake, run: Frames) -> None:
    checkpoint = lake.checkpoint(table)
    ids = {name: each.id for name, each in source_tables(table, lake).items()}
    plan = stateful_plan(table, run.sources, run.result)
    were = former_sources(source_ids(checkpoint), plan, ids, read_record(checkpoint))
    rewrite_sources(
        checkpoint, [were.index(name) if name in were else None for name in plan.sources]
    )
