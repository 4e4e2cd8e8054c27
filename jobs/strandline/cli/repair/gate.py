"""``gate``: show why a table's batch is held back, and let it pass."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any

import typer
from strandline import catalog

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, say, show
from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.gates import gate_files
from strandline.engine.gates.gate_files import Shut, Where
from strandline.engine.lake.lake import Lake
from strandline.engine.repair.downstream import above
from strandline.engine.runtime import clock


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("gate")(gate_)


def gate_(
    table: Annotated[
        str | None, typer.Argument(metavar="TABLE", help="A table; all when absent.")
    ] = None,
    open_: Annotated[
        str | None,
        typer.Option("--open", metavar="REASON", help="Let the batch pass; the ledger keeps why."),
    ] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show which gates are shut, why, and sample rows; or open one for the batch that waits.

    A batch in which too many rows break a critical rule is not published: bronze has all of it, and the tables
    above keep their last published rows. Correct the rule or the source, or open the gate.

    \b
    strandline gate
    strandline gate silver.device_telemetry
    strandline gate silver.device_telemetry --open "the sensors were calibrated, INC-204"
    """
    _, where = place.existing(lake, writes=open_ is not None)
    chosen = [catalog.find(table)] if table else list(catalog.tables())
    if open_ is not None:
        _open(chosen, where, open_, named=table is not None)
        return
    found = [(each, gate_files.read(each, where, side)) for each in chosen for side in Where]
    known = [(each, shut) for each, shut in found if shut is not None]
    if as_json:
        emit(
            [
                {**asdict(shut), "waiting": [t.id for t in above(each, where)]}
                for each, shut in known
            ]
        )
        return
    if not known:
        say("every gate is open" if table is None else f"the gate of {table} is open")
    for each, shut in known:
        _explain(each, shut, where)


def _open(chosen: Sequence[Table], lake: Lake, because: str, *, named: bool) -> None:
    if not named:
        raise DefinitionError(
            "one gate is opened at a time", hint='`strandline gate TABLE --open "why"`.'
        )
    (table,) = chosen
    at = clock.now().isoformat(timespec="seconds")
    for found in gate_files.open_(table, lake, because=because, who=clock.login(), at=at):
        if found.where is Where.BEHIND:
            say(
                f"the gate behind {table.id} is open; the tables above continue with their next batch"
            )
        elif found.where is Where.RANGE:
            say(f"the {found.stream} of {table.id} may pass; type its backfill again")
        else:
            say(f"batch {found.batch} of {table.id} may pass: {found.rows:,} rows")
            say(f"a running stream takes it within seconds; otherwise: strandline run {table.id}")


def _explain(table: Table, shut: Shut, lake: Lake) -> None:
    if shut.opened is not None:
        say(f"the gate {_place(shut)} was opened by {shut.opened_by}: {shut.opened}")
        return
    say(f"the gate {_place(shut)} is shut since {shut.at}")
    for each in shut.findings:
        say(f"  {each['name']} ({each['severity']}): {each['says']}")
    for rule, rows in shut.samples.items():
        columns = _columns(rows)
        show(
            f"{rule}: {len(rows)} of the rows",
            columns,
            [tuple(row.get(name) for name in columns) for row in rows],
        )
    waiting = ", ".join(each.id for each in above(table, lake))
    if waiting:
        say(f"with their last published rows: {waiting}")
    say(f'let it pass with: strandline gate {table.id} --open "why"')


def _place(shut: Shut) -> str:
    if shut.where is Where.BEHIND:
        return f"behind {shut.table}, which the tables above do not read meanwhile,"
    what = f"batch {shut.batch}" if shut.where is Where.BEFORE else f"the {shut.stream}"
    return f"of {shut.table}, before {what} with {shut.rows:,} rows,"


def _columns(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for row in rows for name in row))
