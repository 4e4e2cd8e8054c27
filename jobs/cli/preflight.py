"""``preflight``: may each table's stream go on with its checkpoint? Asked by `stream` and `resume` before anything starts."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from pyspark.sql import SparkSession

from jobs.cli import place
from jobs.cli.place import JsonOption, LakeOption, TablesArgument
from jobs.cli.screen import emit, note, say, show
from jobs.core.errors import DamagedError, DefinitionError, LakeError
from jobs.core.table import Ingested, Recomputed, Table
from jobs.engine.kafka import admin
from jobs.engine.pipeline import migrate as migrations
from jobs.engine.pipeline.compare_plans import Remedy
from jobs.engine.pipeline.preflight import (
    Answer,
    Verdict,
    judge,
    needs_look,
    needs_spark,
    refuse,
    with_topics,
)
from jobs.engine.runtime.settings import Settings
from jobs.engine.storage import formats
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.locks import refuse_if_taken
from jobs.operate import lakes, session


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("preflight")(preflight)


def preflight(
    tables: TablesArgument = None,
    migrate: Annotated[
        bool,
        typer.Option(
            "--migrate",
            help="Do what the verdicts ask for, where no row must be computed again.",
        ),
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Compare what the code would run now with what each checkpoint holds, before anything starts.

    The answer for each table is one of three: safe, safe after this migration, needs a new checkpoint.
    A table whose code, sources and checkpoint are as they were takes milliseconds and no Spark.
    The exit code is 0 when every table is safe, else 2; 4 when one cannot be read and the others are safe.
    A function that lets Java's engine search what a stranger sent is named, with the function to use instead; that is a warning.
    Where Kafka answers, a topic that a table is to read and that is not there is named: it is to be made first, or, where the
    table has read it already, must not be made anew; the exit code is then 2. A lake that holds what code of before cannot read says what a roll-back to it would meet.

    \b
    strandline preflight
    strandline preflight gold.device_signal_10m --json
    strandline preflight gold.alerts --migrate
    """
    found, where = place.existing(lake, writes=migrate)
    chosen = [
        table
        for table in lakes.to_feed(tables, where)
        if where.exists(table) or tables or table.topics
    ]
    if migrate:
        for table in chosen:
            refuse_if_taken(table, where)
    verdicts = _verdicts(found, where, chosen, migrate=migrate, looks=True)
    verdicts = [
        verdict
        for verdict, table in zip(_with_topics(verdicts, found, where, chosen), chosen, strict=True)
        if tables or where.exists(table) or verdict.answer is not Answer.SAFE
    ]
    if as_json:
        emit([asdict(each) for each in verdicts])
    else:
        _show(verdicts)
        for each in formats.no_way_back(where.formats):
            say(each)
    answers = {each.answer for each in verdicts}
    if answers - {Answer.SAFE, Answer.DAMAGED}:
        raise SystemExit(DefinitionError.exit_code)
    if Answer.DAMAGED in answers:
        raise SystemExit(DamagedError.exit_code)


def _with_topics(
    verdicts: Sequence[Verdict], found: Settings, where: Lake, tables: Sequence[Table]
) -> Iterator[Verdict]:
    """Yield verdicts, and of a table whose topic is not in Kafka, that it is to be made first, or must not be made anew.

    A broker that is away is no verdict about a table: the stream waits for it. Nor is one that refuses the client.
    """
    absent: set[str] = set()
    asked = [table for table in tables if table.topics]
    address = lakes.address(found, where) if asked else None
    if address is None and asked:
        note("no broker is known, so it was not looked whether each topic is there")
    elif address is not None:
        try:
            missing = admin.missing(address, found.kafka_options, asked)
            absent = {topic.name for topic in missing}
        except LakeError as error:
            note(f"it was not looked whether each topic is there: {error.message}")
    for table, verdict in zip(tables, verdicts, strict=True):
        yield with_topics(verdict, table, where, absent, at=str(address))


def refuse_unsafe(found: Settings, where: Lake, tables: Sequence[Table]) -> None:
    """Refuse to start streams of which one may not go on; Spark is started only where code or sources changed.

    Raises:
        DefinitionError: A table may not go on.
    """
    if any(needs_spark(table, where) for table in tables):
        refuse(*_verdicts(found, where, tables, migrate=False))


def _verdicts(
    found: Settings, where: Lake, tables: Sequence[Table], *, migrate: bool, looks: bool = False
) -> list[Verdict]:
    asks = any(
        needs_spark(table, where) or (looks and needs_look(table, where)) for table in tables
    )
    if not asks:
        return [judge(None, table, where) for table in tables]
    note("comparing plans, for which Spark starts …")
    spark = session.site(found, where, None, is_brief=True, says=note).spark
    try:
        return [_verdict(spark, table, where, migrate=migrate) for table in tables]
    finally:
        spark.stop()


def _verdict(spark: SparkSession, table: Table, where: Lake, *, migrate: bool) -> Verdict:
    verdict = judge(spark, table, where)
    can_be = bool(verdict.remedies) and Remedy.REBUILD not in verdict.remedies
    if migrate and can_be and not isinstance(table, Ingested | Recomputed):
        note(f"migrating {table.id} …")
        return migrations.migrate(spark, table, where)
    return verdict


def _show(verdicts: Sequence[Verdict]) -> None:
    show(None, ("table", "verdict"), [(each.table, each.answer.value) for each in verdicts])
    for each in verdicts:
        if each.answer is not Answer.SAFE or each.differences:
            for difference in each.differences:
                say(f"{each.table}: {difference.what}")
            for line in each.notes:
                say(f"{each.table}: {line}")
        for line in each.warnings:
            say(f"{each.table}: {line}")
        if each.hint:
            say(f"{each.table}: {each.hint}")
