"""``preflight``: may each table's stream go on with its checkpoint? Asked by `stream` and `resume` before anything starts."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption, TablesArgument
from strandline.cli.screen import emit, note, say, show
from strandline.core.errors import DamagedError, DefinitionError
from strandline.engine.flow.preflight import Answer, Verdict
from strandline.engine.lake import formats
from strandline.engine.lake.locks import refuse_if_taken
from strandline.operate import lakes
from strandline.operate.preflight import verdicts_of, with_absent_topics


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
    found, where = place.existing(lake, briefly=True, writes=migrate)
    chosen = [
        table
        for table in lakes.to_feed(tables, where)
        if where.exists(table) or tables or table.topics
    ]
    if migrate:
        for table in chosen:
            refuse_if_taken(table, where)
    verdicts = verdicts_of(found, where, chosen, note, migrate=migrate, looks=True)
    verdicts = [
        verdict
        for verdict, table in zip(
            with_absent_topics(verdicts, found, where, chosen, note), chosen, strict=True
        )
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
