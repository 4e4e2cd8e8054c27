"""May a table's stream go on with its checkpoint? Asked before anything starts.

While code, sources, table and checkpoint are as they were, a hash of them answers, without a JVM. Otherwise the code's plan
is compared with the recorded one (what Spark does not see), Spark plans a restart over a copy of what the checkpoint has
about its state (what only Spark knows), and sources and columns are compared with what is there.
The verdicts are proven against restarts in Spark (tests/engine/flow/test_restarts.py).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from strandline import catalog

from strandline.core.declared import refuse_unsearchable
from strandline.core.errors import DamagedError, DefinitionError, LakeError
from strandline.core.kind import milliseconds
from strandline.core.table import Ingested, Judged, Recomputed, Streamed, Table, Upserted
from strandline.core.verdict import good_rows
from strandline.engine.flow.batch.event_joins import joining, outlook, unknown
from strandline.engine.flow.batch.joined_streams import joined, refuse_moving_window
from strandline.engine.flow.compare_plans import (
    Difference,
    Remedy,
    fingerprint,
    makes_the_same,
    renamed,
    reshaped_sources,
    sink_differences,
    source_differences,
    source_tables,
    state_differences,
    stateful_plan,
)
from strandline.engine.flow.function_plan import may_search, of_function, searches, sentences
from strandline.engine.flow.plan import Frames, framed
from strandline.engine.flow.spark_plan import StatefulPlan, output_mode, refusal
from strandline.engine.kafka.slices import range_ends
from strandline.engine.kafka.topic_log import deleted, identities_in
from strandline.engine.lake.lake import STATE, Lake
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.lake.log.ledger_sums import sums_of
from strandline.engine.lake.log.log_actions import table_id
from strandline.engine.lake.mend_checkpoint import operator_names
from strandline.engine.lake.open_table import (
    declared_schema,
    declared_table,
    never_null_now,
)
from strandline.engine.lake.place import Place, damage
from strandline.engine.lake.spark_checkpoint import (
    CODE,
    JOIN,
    MOST_CODES,
    NOWHERE,
    SAME,
    SEARCHES,
    Position,
    Positions,
    RunRecord,
    is_ahead,
    is_new,
    newest_planned,
    planned,
    read_record,
    source_ids,
    stream_id,
    write_record,
)
from strandline.engine.runtime.code_files import code_version
from strandline.sql_function import is_in_sql

# Refusing a stream that would not continue its own table, from the ledger and the checkpoint alone.


def refuse_strangers(table: Table, lake: Lake) -> None:
    """Refuse a stream that would not continue its own table.

    Raises:
        DefinitionError: The table's rows or its source's were written by another stream or by batch.
        DamagedError: Rows that the stream has written are gone.
    """
    checkpoint = lake.checkpoint(table)
    found = last_entry(lake.table(table))
    newest = found[1] if found else None
    if newest is not None and newest.stream != stream_id(checkpoint):
        by_batch = newest.mode == "batch"
        writer = "a batch run" if by_batch else "a stream whose checkpoint is gone"
        raise DefinitionError(
            f"{table.id} was written by {writer}, so a stream has no state to continue it",
            hint="run it with `--mode batch`, or use another lake for the stream.",
            table=table.id,
        )
    for source in table.upstream:
        read = last_entry(lake.table(source))
        if read is not None and read[1].replaced and read[1].promoted is None:
            raise DefinitionError(
                f"{source.id} is replaced as a whole by batch runs, so no stream can follow it",
                hint=f"run {table.id} with `--mode batch` as well.",
                table=table.id,
                source=source.id,
            )
    sources = [lake.table(source) for source in table.upstream]
    if is_ahead(checkpoint, newest.batch if newest else None, sources):
        above = _above(table, lake)
        then = f", then the same with {' and '.join(above)}, which read them" if above else ""
        raise DamagedError(
            f"{table.id} lacks rows that its stream's checkpoint says were written",
            hint=f"`strandline rebuild {table.id}` and `strandline promote {table.id}` compute them again{then}.",
            table=table.id,
            above=above,
        )


def _above(table: Table, lake: Lake) -> list[str]:
    """Return the existing tables downstream of a table, each after those that it reads."""
    reached = [table]
    for other in catalog.tables():
        if any(source in reached for source in other.needs) and lake.exists(other):
            reached.append(other)
    return [each.id for each in reached[1:]]


def refuse_without_source(table: Table, lake: Lake) -> None:
    """See that there is something to read.

    Raises:
        DefinitionError: A table that this one reads was never made.
    """
    for source in table.upstream:
        if not lake.exists(source):
            raise DefinitionError(
                f"{table.id} reads {source.id}, which does not exist in {lake.root} yet",
                hint=f"run them in order: `strandline run {source.id} {table.id}`.",
                table=table.id,
                source=source.id,
            )


FOLD = "TransformWithStateInPySpark"
"""Spark's name of an operator whose state a fold keeps."""

NO_RECORD = "what ran before was not recorded, so only what Spark keeps could be compared"
MIXED = "rows that wait in its state were admitted by the former code"


class Answer(StrEnum):
    """May a stream go on with its checkpoint?"""

    SAFE = "safe"
    MIGRATE = "safe after this migration"
    ANEW = "needs a new checkpoint"
    UNMADE = "needs its topic first"
    """A topic that it reads is not in Kafka; who runs the cluster makes it."""
    GONE = "has lost its topic"
    """A topic that it has read is not in Kafka any more, and must not be made anew."""
    DAMAGED = "cannot be read"
    """A file of the table, or of one that it reads, is damaged; that ends no other table."""
    REFUSED = "does not run"
    """A rule of the table cannot be asked, or a static table cannot be read; that ends no other table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a restart would be.

    Args:
        table: The table's name.
        answer: May its stream go on?
        differences: What is no longer as it was, and what must be done about each.
        notes: What is worth to know of a safe restart.
        warnings: What a stranger's text can do to the table's function, and what to write instead.
        hint: What to type.
        spark: Spark's own error, where it would refuse the restart.
        same_as: The versions of its code that make the rows that today's makes, as far as plans show it.
    """

    table: str
    answer: Answer
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    hint: str = ""
    spark: str | None = None
    same_as: tuple[str, ...] = ()

    @property
    def remedies(self) -> frozenset[Remedy]:
        """Return what must be done."""
        return frozenset(each.remedy for each in self.differences) - {Remedy.NOTHING}


@dataclass(frozen=True, slots=True)
class Cleared:
    """A stream that may start.

    Args:
        plan: What it will run; None where that is recorded already.
        apart_ms: How far apart the rows lie that meet in its joins; None where nothing bounds it.
        former: The record of an older program, which has not the latter.
        searches: The searches by Java's engine in the plan.
    """

    plan: StatefulPlan | None = None
    apart_ms: int | None = None
    former: RunRecord | None = None
    searches: tuple[str, ...] = ()

    @property
    def joins(self) -> bool:
        """Return whether the stream joins others, or may."""
        return self.plan is None or _joins(self.plan)

    def record(self, table: Streamed, lake: Lake) -> None:
        """Record what the stream runs, once its table exists, and in which form it keeps its state."""
        if FOLD in self._operators(table, lake):
            lake.raise_to(STATE)
        if self.former is not None and self.apart_ms is not None:
            write_record(lake.checkpoint(table), replace(self.former, apart_ms=self.apart_ms))
        if self.plan is None:
            return
        sources = source_tables(table, lake)
        record = RunRecord(
            fingerprint=fingerprint(table, lake, sources),
            ids={name: each.id for name, each in sources.items()},
            plan={**self.plan.as_json(), SEARCHES: self.searches, **self._codes(table, lake)},
            apart_ms=self.apart_ms,
        )
        write_record(lake.checkpoint(table), record)

    def _codes(self, table: Streamed, lake: Lake) -> dict[str, Any]:
        """Return the version of the code, and those before it that made the same rows."""
        before, code = read_record(lake.checkpoint(table)), code_version(table)
        known: tuple[str, ...] = ()
        if (
            before
            and self.plan
            and makes_the_same(StatefulPlan.of_json(dict(before.plan)), self.plan)
        ):
            known = before.same_codes
        return {CODE: code, SAME: [each for each in known if each != code][-MOST_CODES:]}

    def _operators(self, table: Streamed, lake: Lake) -> set[str]:
        """Return the kinds of operators that keep state."""
        if self.plan is not None:
            return {each.kind for each in self.plan.operators}
        found = self.former or read_record(lake.checkpoint(table))
        return set() if found is None else {each["kind"] for each in found.plan["operators"]}


def is_as_it_was(table: Table, lake: Lake) -> bool:
    """Return whether nothing has changed since a table's stream ran last, from files alone."""
    if isinstance(table, Ingested | Recomputed):
        return True
    found = read_record(lake.checkpoint(table))
    return found is not None and found.fingerprint == fingerprint(
        table, lake, source_tables(table, lake)
    )


def refuse_unsafe(table: Streamed, lake: Lake, run: Frames) -> Cleared:
    """Refuse a start that the checkpoint does not allow.

    Raises:
        DefinitionError: The code of today cannot go on with the checkpoint.
    """
    if tight := list(_tight_sources(table, lake)):
        refuse(_verdict(table, tight))
    was_so = is_as_it_was(table, lake)
    former = read_record(lake.checkpoint(table)) if was_so else None
    if former is not None and former.same_codes:
        if former.apart is not None:
            return Cleared()
        return Cleared(apart_ms=_apart_ms(table, run), former=former)
    plan = stateful_plan(table, run.sources, run.result)
    if not was_so:  # else a record of an older program lacks something
        _refuse_other_days(table, plan)
        if is_new(lake.checkpoint(table)):
            refuse_moving_window(table, run.sources, run.result)
        else:
            refuse(_judged(table, lake, run, plan))
    apart = _apart_ms(table, run) if _joins(plan) else 0
    return Cleared(plan, apart, searches=searches(run.result))


def _refuse_other_days(table: Streamed, plan: StatefulPlan) -> None:
    """Refuse a table that declares days of a zone and groups by others: what is closed would be asked of the wrong days.

    Raises:
        DefinitionError: Nothing that its stream keeps is of that zone.
    """
    day = table.local_day
    if day is not None and day.zone not in repr(plan.operators):
        raise DefinitionError(
            f"{table.id} declares windows that are days of {day.zone}, and its function groups by nothing of that zone",
            hint=f'add the day to the rows, and group by it: Day("{day.zone}").of(rows, "{table.upstream[0].event_at}")'
            '.groupBy("day").',
            table=table.id,
            zone=day.zone,
        )


def _joins(plan: StatefulPlan) -> bool:
    return any(each.kind == JOIN for each in plan.operators)


def _apart_ms(table: Streamed, run: Frames) -> int | None:
    apart = joined(table, run.sources, run.result).apart
    return None if apart is None else milliseconds(apart)


def refuse(*verdicts: Verdict) -> None:
    """Refuse a start of several tables if one of them may not go on.

    Raises:
        DefinitionError: A table may not; all that may not are named.
    """
    # A table that is damaged or refused fails by itself, again and again until it is mended, while the others run.
    fine = {Answer.SAFE, Answer.DAMAGED, Answer.REFUSED}
    unsafe = [each for each in verdicts if each.answer not in fine]
    if not unsafe:
        return
    sentences = [
        f"{each.table} {_asks(each)}: {'; '.join(d.what for d in each.differences)}"
        for each in unsafe
    ]
    raise DefinitionError(
        "\n".join(sentences),
        hint="\n      ".join(dict.fromkeys(each.hint for each in unsafe)),
        tables=[each.table for each in unsafe],
    )


def judge(spark: SparkSession | None, table: Table, lake: Lake) -> Verdict:
    """Judge whether a table's stream may go on.

    Args:
        spark: The session; None where ``needs_spark`` says that none is needed.
        table: Any table.
        lake: Where.
    """
    try:
        return _with_outlook(_judge(spark, table, lake), table, lake)
    except AnalysisException as error:
        return _unplanned(table, error)
    except Exception as error:
        if isinstance(error, DefinitionError) and is_in_sql(table):
            return _failing(table, Answer.REFUSED, error)
        found = damage(error, table)
        if found is None:
            raise
        return _failing(table, Answer.DAMAGED, found)


def _unplanned(table: Table, error: AnalysisException) -> Verdict:
    """Return the verdict on a table whose function names what the tables that it reads have not, as they are now."""
    what = f"its function cannot be planned over what it reads, as that is now: {str(error).partition(chr(10))[0]}"
    hint = (
        "correct the function. Where a table below is to get the column by an edit of its own, `strandline migrate --go` "
        "changes that one first."
    )
    difference = Difference(what=what, remedy=Remedy.REBUILD)
    return Verdict(table=table.id, answer=Answer.REFUSED, differences=(difference,), hint=hint)


def _with_outlook(verdict: Verdict, table: Table, lake: Lake) -> Verdict:
    try:
        return replace(verdict, notes=(*verdict.notes, *outlook(table, lake)))
    except DefinitionError as error:
        return _failing(table, Answer.REFUSED, error)


def _looked(spark: SparkSession | None, table: Table, lake: Lake) -> tuple[str, ...]:
    return sentences(of_function(spark, table, lake)) if spark is not None else ()


def needs_look(table: Table, lake: Lake) -> bool:
    """Return whether the searches of a table's function are not known, and its modules name one; Spark is needed to see."""
    if isinstance(table, Ingested) or not (may_search(table) or is_in_sql(table)):
        return False
    try:
        record = None if isinstance(table, Recomputed) else read_record(lake.checkpoint(table))
        is_known = record is not None and record.searches is not None
        return not is_known and all(map(lake.exists, table.upstream))
    except Exception as error:
        if damage(error, table) is None:
            raise
        return False


def _failing(table: Table, answer: Answer, found: LakeError) -> Verdict:
    what = Difference(what=found.message, remedy=Remedy.NOTHING)
    return Verdict(table=table.id, answer=answer, differences=(what,), hint=found.hint)


def _judge(  # noqa: PLR0911  # one for each answer
    spark: SparkSession | None, table: Table, lake: Lake
) -> Verdict:
    if isinstance(table, Ingested | Recomputed):
        kept = "the ledger" if isinstance(table, Ingested) else "its sources' ledgers"
        return _safe(
            table, f"it keeps no state; it goes on from {kept}", _looked(spark, table, lake)
        )
    try:
        refuse_unsearchable(table, table.rules if isinstance(table, Judged) else ())
    except DefinitionError as error:
        return _failing(table, Answer.REFUSED, error)
    if is_new(lake.checkpoint(table)) and not lake.exists(table):
        return _safe(table, "it has not run yet", _looked(spark, table, lake))
    try:
        refuse_strangers(table, lake)
    except DefinitionError as error:
        difference = Difference(what=error.message, remedy=Remedy.REBUILD)
        return _verdict(table, [difference], hint=error.hint)
    if is_new(lake.checkpoint(table)):
        return _safe(table, "its stream has not run yet", _looked(spark, table, lake))
    if tight := list(_tight_sources(table, lake)):
        return _verdict(table, tight)  # all else is compared once that is done
    if is_as_it_was(table, lake):
        record = read_record(lake.checkpoint(table))
        known = record.searches if record else None
        found = sentences(known) if known is not None else _looked(spark, table, lake)
        return _safe(table, "as it was", found)
    if spark is None:
        raise ValueError(table.id)
    run = framed(spark, table, lake)
    with joining(table, lake):
        return _judged(table, lake, run, stateful_plan(table, run.sources, run.result))


def tight_columns(table: Table, lake: Lake) -> dict[str, list[str]]:
    """Return the columns of a stream's sources that a promotion by an earlier version has made NOT NULL, by source.

    Spark ends each reader of commits from before: what it reads now may be NULL there. At a start it opens its last batch anew,
    so a reader goes on whose last batch began at the promotion, or later.
    """
    begun = {each: sums_of(lake.table(each)).begun for each in table.upstream}
    read = _opened_at_start(lake.checkpoint(table)) if any(begun.values()) else {}
    found = {
        each.id: never_null_now(lake.table(each))
        for each, version in begun.items()
        if read.get(table_id(lake.table(each)), NOWHERE).version < version
    }
    return {name: columns for name, columns in found.items() if columns}


def _opened_at_start(checkpoint: Place) -> Positions:
    """Return where the last batch of a stream begins in each of its sources; none where that is the first row of all."""
    newest = newest_planned(checkpoint)
    if newest is None:
        return {}
    plan = planned(checkpoint, newest)
    if not plan.whole:
        return plan.start
    return {name: Position(max(end.version - 1, 0)) for name, end in plan.end.items()}


def _tight_sources(table: Streamed, lake: Lake) -> Iterator[Difference]:
    if is_new(lake.checkpoint(table)):  # it begins with a snapshot of what was promoted
        return
    for name, columns in tight_columns(table, lake).items():
        yield Difference(
            what=f"{name} says since a promotion that {' and '.join(columns)} is never NULL: Spark ends a stream that reads "
            "what was written before",
            remedy=Remedy.LET_BE_NULL,
        )


def with_topics(
    verdict: Verdict, table: Table, lake: Lake, absent: Collection[str], *, at: str
) -> Verdict:
    """Return a verdict with what a start asks for where topics of the table are not in Kafka; what else it asks for stays said.

    Args:
        verdict: The verdict so far.
        table: Its table.
        lake: Where.
        absent: The topics that are not in Kafka.
        at: The address of Kafka.
    """
    lacks = [topic.name for topic in table.topics if topic.name in absent]
    if not lacks:
        return verdict
    try:
        newest = last_entry(lake.table(table)) if lake.exists(table) else None
        retired = sums_of(lake.table(table)).retired if newest else {}
    except Exception as error:
        found = damage(error, table)
        if found is None:
            raise
        return _failing(table, Answer.DAMAGED, found)
    known = identities_in(newest[1].stream) if newest else {}
    read = range_ends(newest[1].offsets) if newest else {}
    for name in lacks:
        if name in known:
            gone = deleted(f"topic {name} does not exist at {at}", table.id, name, read)
            verdict = _lacking(verdict, Answer.GONE, gone.message, gone.hint)
    new = [name for name in lacks if name not in known and name not in retired]
    return _unmade(verdict, new, at) if new else verdict


def _unmade(verdict: Verdict, topics: Sequence[str], at: str) -> Verdict:
    names = " and ".join(topics)
    hint = (
        f"make {names} first: `strandline up` does it on the lake's own broker, on another cluster its operator does; if it "
        "has another name there, correct the declaration of the table or STRANDLINE_KAFKA."
    )
    return _lacking(verdict, Answer.UNMADE, f"{names} is not at {at} yet", hint)


def _lacking(verdict: Verdict, answer: Answer, what: str, hint: str) -> Verdict:
    return replace(
        verdict,
        answer=answer if verdict.answer is Answer.SAFE else verdict.answer,
        differences=(*verdict.differences, Difference(what=what, remedy=Remedy.NOTHING)),
        hint=" ".join(filter(None, [verdict.hint, hint])),
    )


def needs_spark(table: Table, lake: Lake) -> bool:
    """Return whether the code's plan must be compared, for which Spark is needed; of a damaged table nothing is."""
    try:
        return not is_new(lake.checkpoint(table)) and not is_as_it_was(table, lake)
    except Exception as error:
        if damage(error, table) is None:
            raise
        return False


def _judged(table: Streamed, lake: Lake, run: Frames, plan: StatefulPlan) -> Verdict:
    checkpoint = lake.checkpoint(table)
    record, held = read_record(checkpoint), operator_names(checkpoint)
    former = StatefulPlan.of_json(dict(record.plan)) if record else None
    of_state = list(state_differences(former, plan, held))
    if changed := _changed_rows(table, lake) or _changed_identity(table, former, held):
        of_state = [changed, *(each for each in of_state if each.remedy is Remedy.NOTHING)]
    spark = None
    if held and plan.operators:
        spark = refusal(run.result, output_mode(table), checkpoint)
        if spark and not any(each.remedy is Remedy.REBUILD for each in of_state):
            of_state.append(
                Difference(what=f"Spark refuses its state: {spark}", remedy=Remedy.REBUILD)
            )
    routed, rerouted = _changed_route(table, lake)
    of_tables = [*_of_tables(table, lake, run, plan, record)]
    differences = [*routed, *of_state, *of_tables, *_renamed(table, lake, renamed(former, plan))]
    notes = [*rerouted] if record else [NO_RECORD, *rerouted]
    if plan.operators:
        notes.append(MIXED)
    found = _verdict(table, differences, notes=notes, spark=spark)
    same_as = record.same_codes if record and makes_the_same(former, plan) else ()
    return replace(found, warnings=sentences(searches(run.result)), same_as=same_as)


def _changed_identity(
    table: Streamed, former: StatefulPlan | None, held: Sequence[str]
) -> Difference | None:
    """Return what it means that a table now knows its events by their places alone, or no longer does.

    Its stream has state exactly where copies are looked for. Spark would go on without it, or without the keys of before.
    """
    had_id = bool(held) or former is None or bool(former.operators)
    if not isinstance(table, Judged) or table.keeps_copies is not had_id:
        return None
    what = (
        "its key is the place of a record now (key=PLACE), so copies stay; those that it has left out so far are no rows of it"
        if table.keeps_copies
        else f"its key is {', '.join(table.key)} now, and was the place of a record (key=PLACE): the copies that it has are "
        "rows of it, and its stream has kept no key by which later ones are found"
    )
    return Difference(what=what, remedy=Remedy.REBUILD)


def _changed_rows(table: Streamed, lake: Lake) -> Difference | None:
    """Return what it means that a table now makes rows of a list, or no longer does."""
    found = last_entry(lake.table(table))
    if found is None:
        return None
    before = found[1].listed
    if before == table.listed:
        return None
    was, now = (
        f"each item of {each}" if each else "each record" for each in (before, table.listed)
    )
    what = f"it makes a row of {now} now, and the rows that it has are of {was}"
    return Difference(what=what, remedy=Remedy.REBUILD)


def _changed_route(table: Streamed, lake: Lake) -> tuple[list[Difference], list[str]]:
    """Return what it means that a table takes other kinds of records than before, and that kinds are distinguished otherwise."""
    found = last_entry(lake.table(table))
    if found is None or not isinstance(table, Judged):
        return [], []
    _, before = found
    if before.takes != table.takes_in_words:
        was, now = (each or "every record" for each in (before.takes, table.takes_in_words))
        what = f"it takes {now} now, and took {was}: what it has read so far stays as it was"
        return [Difference(what=what, remedy=Remedy.REBUILD)], []
    if before.routed_by != table.routed_by:
        note = (
            f"kinds are distinguished by {table.routed_by} from now on; what came before stays where {before.routed_by} put it, "
            f"until `strandline rebuild {table.id}`"
        )
        return [], [note]
    return [], []


def _of_tables(
    table: Streamed, lake: Lake, run: Frames, plan: StatefulPlan, record: RunRecord | None
) -> Iterator[Difference]:
    yield from reshaped_sources(table, lake, _opened_at_start(lake.checkpoint(table)))
    sources = {name: each.id for name, each in source_tables(table, lake).items()}
    yield from source_differences(source_ids(lake.checkpoint(table)), plan, sources, record)
    sink = declared_table(lake.table(table))
    if sink is not None:
        folders = (table.window_from,) if isinstance(table, Upserted) else ()
        own = declared_schema(lake.table(table))
        yield from sink_differences(own, sink.folders, columns_of(table, run), folders)


def _renamed(table: Streamed, lake: Lake, names: Mapping[str, str]) -> Iterator[Difference]:
    """Yield which columns seem to have got another name; that they have is for a person to say."""
    own = declared_schema(lake.table(table)).names if lake.exists(table) else []
    for old, new in names.items():
        if old in own and new not in own:
            yield Difference(
                what=f"{new} is computed as {old} was: `strandline migrate {table.id} --rename {old}={new} --go` gives it the values "
                "of that column",
                remedy=Remedy.NOTHING,
            )


def columns_of(table: Streamed, run: Frames) -> StructType:
    """Return the columns that a table's rows would have."""
    if isinstance(table, Judged):
        return good_rows(run.result, table).schema
    return unknown(table, run.result).schema


def _safe(table: Table, note: str, warnings: tuple[str, ...]) -> Verdict:
    return Verdict(table=table.id, answer=Answer.SAFE, notes=(note,), warnings=warnings)


def _verdict(
    table: Table,
    differences: list[Difference],
    *,
    notes: list[str] | None = None,
    hint: str | None = None,
    spark: str | None = None,
) -> Verdict:
    remedies = {each.remedy for each in differences} - {Remedy.NOTHING}
    if Remedy.REBUILD in remedies:
        answer = Answer.ANEW
        advice = (
            f"`strandline migrate {table.id}` shows what follows for it and for the tables above; with `--go` they are computed "
            "with today's code beside the live ones, and replaced."
        )
    elif Remedy.HAND_OVER in remedies:
        answer = Answer.ANEW
        advice = f"`strandline migrate {table.id} --go` begins a new state at the same offset."
    elif remedies:
        answer = Answer.MIGRATE
        advice = f"`strandline migrate {table.id}` shows what that asks of it and of the tables above, and with `--go` does it."
    else:
        answer, advice = Answer.SAFE, ""
    return Verdict(
        table=table.id,
        answer=answer,
        differences=tuple(differences),
        notes=tuple(notes or ()),
        hint=hint or advice,
        spark=spark,
    )


def _asks(verdict: Verdict) -> str:
    return "needs a migration" if verdict.answer is Answer.MIGRATE else verdict.answer.value
