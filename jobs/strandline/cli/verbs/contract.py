"""``contract``: what readers of a table are promised, in the Open Data Contract Standard."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from strandline.cli.place import JsonOption
from strandline.cli.screen import emit, say

TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="Such as silver.orders.")]

HELP = """Write what readers of a table are promised, draft a table from such a contract, and see what a change breaks.

\b
strandline contract export silver.orders --release
strandline contract diff
strandline contract import orders.odcs.yaml --reads bronze.orders
"""

contract = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode=None)


def register(app: typer.Typer) -> None:
    """Add the verb with its three kinds."""
    app.add_typer(contract, name="contract")


@contract.command("export")
def export(
    table: TableArgument,
    to: Annotated[
        Path | None, typer.Option("--to", metavar="FILE", help="Write it there; shown when absent.")
    ] = None,
    release: Annotated[
        bool,
        typer.Option(
            "--release", help="Write it to contracts/TABLE.odcs.yaml, for readers to rely on."
        ),
    ] = False,
) -> None:
    r"""Write the contract of a table from its declaration: columns, key, rules, references, owner, retention, masks.

    \b
    strandline contract export silver.orders
    strandline contract export silver.orders --to orders.odcs.yaml
    strandline contract export silver.orders --release
    """
    from strandline.operate import contract as work  # noqa: PLC0415  # with Spark, which finds the columns

    text, file = work.export(table, to, release=release)
    say(f"wrote {file}" if file else text.rstrip("\n"))


@contract.command("diff")
def diff(
    table: Annotated[
        str | None,
        typer.Argument(metavar="TABLE", help="Each whose contract was released when absent."),
    ] = None,
    against: Annotated[
        Path | None,
        typer.Option("--against", metavar="FILE", help="A contract; the one released when absent."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    r"""Compare tables with the contracts that were released; exits 2 where a change breaks one.

    Breaking is what readers may fail by: a column that goes or gets another type, a value that may be missing, a check
    that is asked no more. What is added is harmless.

    \b
    strandline contract diff
    strandline contract diff silver.orders --against orders.odcs.yaml
    """
    from strandline.operate import contract as work  # noqa: PLC0415  # as above

    found = work.changes(table, against)
    if as_json:
        emit([asdict(each) for each in found])
    else:
        for each in sorted(found, key=lambda change: not change.is_breaking):
            say(f"{'breaking' if each.is_breaking else 'harmless'}  {each.table}: {each.says}")
        if not found:
            say("nothing has changed that was promised")
    work.refuse_breaking(found)


@contract.command("import")
def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The contract, a YAML file.")],
    reads: Annotated[
        str, typer.Option(help="The bronze table with the records, such as bronze.orders.")
    ],
    takes: Annotated[
        str, typer.Option(metavar="KIND", help="The kind of records, where there are several.")
    ] = "",
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the table; the contract's when absent.")
    ] = None,
) -> None:
    r"""Draft a silver table from a contract: its columns are fields, what it asks of a row are rules.

    \b
    strandline contract import orders.odcs.yaml --reads bronze.orders
    """
    from strandline.operate import contract_import  # noqa: PLC0415  # as above

    for path in contract_import.write(file, reads, takes, name):
        say(f"wrote {path}")
    say("")
    say(
        "Fill in the lines with FILL IN; what the contract asks and no rule can say is named in them."
    )
