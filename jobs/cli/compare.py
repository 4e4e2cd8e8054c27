"""``compare``: two lakes, row for row, without Spark."""

from dataclasses import asdict
from typing import Annotated

import typer

from jobs import catalog
from jobs.cli.place import JsonOption
from jobs.cli.screen import emit, note, say, show, yes
from jobs.core.errors import DataError, DefinitionError
from jobs.core.received import PLACE
from jobs.core.table import Ingested
from jobs.engine.proof.compare import Comparison, compare
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.place import Place


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("compare")(compare_)


def compare_(
    first: Annotated[str, typer.Argument(metavar="LAKE", help="A lake's folder or address.")],
    second: Annotated[
        str, typer.Argument(metavar="LAKE", help="Another lake's folder or address.")
    ],
    without_places: Annotated[
        bool,
        typer.Option(
            "--without-places",
            help="Leave out partitions and offsets, where one lake was filled from files.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    r"""Compare silver, quarantine and gold of two lakes row for row; exits with 4 when they differ.

    \b
    strandline compare .lake /tmp/second-opinion
    strandline compare .lake ../from-files --without-places
    """
    left, right = Lake(Place.of(first)), Lake(Place.of(second))
    derived = [table for table in catalog.tables() if not isinstance(table, Ingested)]
    shared = [table for table in derived if left.exists(table) and right.exists(table)]
    if not shared:
        raise DefinitionError(
            f"{left.root} and {right.root} have no silver or gold table in common",
            hint="name two lakes in which the same tables were run.",
        )
    for table in derived:
        if left.exists(table) != right.exists(table):
            note(f"{table.id} is in one of the lakes only and is not compared")
    without = PLACE if without_places else ()
    found = [result for table in shared for result in compare(table, left, right, without=without)]
    if as_json:
        emit([{**asdict(one), "equal": one.equal} for one in found])
    else:
        _print_comparison(found)
    different = [one.table for one in found if not one.equal]
    if different:
        raise DataError(
            f"the lakes differ in {', '.join(different)}",
            hint="were they filled from the same topic, up to the same offset? `strandline ledger`.",
        )


def _print_comparison(found: list[Comparison]) -> None:
    columns = ("table", "rows", "rows there", "only here", "only there", "equal")
    show(
        None,
        columns,
        [
            (
                one.table,
                one.left_rows,
                one.right_rows,
                one.only_left,
                one.only_right,
                yes(one.equal),
            )
            for one in found
        ],
    )
    for one in found:
        for sample in one.samples:
            say(f"{one.table} {sample}")
