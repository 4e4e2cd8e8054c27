"""``compare``: two lakes, row for row, without Spark."""

from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli.place import JsonOption
from strandline.cli.screen import emit, note, say, show, yes
from strandline.core.topic import PLACE
from strandline.engine.proof.compare import Comparison
from strandline.operate.answers.verification import compared, refuse_unlike


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
    found = compared(first, second, note, without=PLACE if without_places else ())
    if as_json:
        emit([{**asdict(one), "equal": one.equal} for one in found])
    else:
        _print_comparison(found)
    refuse_unlike(found)


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
