"""``query``: one question about a lake, answered without Spark."""

from collections.abc import Collection
from pathlib import Path
from typing import Annotated

import typer
from strandline import catalog

from strandline.cli import formats, place
from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import note, say, show
from strandline.engine.runtime import clock
from strandline.engine.trace.sql_query import ask, asked
from strandline.engine.trace.unmasked_log import write_down


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("query")(query)


def query(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    sql: Annotated[
        str,
        typer.Argument(
            metavar="SQL", help="One SELECT over tables such as silver.device_telemetry."
        ),
    ],
    form: Annotated[
        formats.Format | None,
        typer.Option("--format", help="Format of the rows; by default that of the file's name."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the rows to a file.")
    ] = None,
    lake: LakeOption = None,
    unmasked: Annotated[
        str | None,
        typer.Option(
            metavar="WHY", help="Show sensitive columns too; who asked and why is written down."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    r"""Answer a small question about the lake's tables, in about a second; nothing can be changed.

    Sensitive columns are masked: within one answer the same value has the same mask. AT reads a table as it was, while
    its files are kept (`strandline maintain --keep`); an alias comes before it. `strandline shell` answers one question
    after the other.

    \b
    strandline query "SELECT signal, count(*) FROM silver.device_telemetry GROUP BY ALL"
    strandline query "SELECT reasons, count(*) FROM quarantine.device_telemetry GROUP BY ALL"
    strandline query "FROM gold.device_daily AT (VERSION => 12)"
    strandline query "FROM gold.device_daily AS d AT (TIMESTAMP => '2026-11-20 12:00') WHERE d.device_id = 'd1'"
    strandline query "FROM gold.device_daily" --format csv
    strandline query "FROM gold.device_daily" --to daily.parquet
    """
    how = formats.chosen(form, to, as_json=as_json)
    _, where = place.existing(lake, briefly=True)
    if unmasked is not None:
        write_down(where, {"sql": sql}, who=clock.login(), at=clock.now(), why=unmasked)
    if how is formats.Format.PARQUET and to is not None:
        with asked(sql, catalog.tables(), where, unmasked=unmasked is not None) as result:
            formats.stream(result.duck, to)
        _note_masked(result.masked)
        return
    answer = ask(sql, catalog.tables(), where, unmasked=unmasked is not None)
    _note_masked(answer.masked)
    if how is not None:
        formats.deliver(answer, how, to)
        return
    show(None, answer.columns, formats.shown(answer))
    say(f"({len(answer.rows):,} rows)")


def _note_masked(masked: Collection[str]) -> None:
    if masked:
        note(f'masked: {", ".join(masked)}; --unmasked "why" shows them')
