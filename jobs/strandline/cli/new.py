"""``new`` and ``init``: drafts of a table, of a first alert rule, of a whole project.

``new``: write the module and the test of a table, or a first alert rule; they run as they are, to be filled in.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from strandline.cli.screen import say
from strandline.core.kind import Layer
from strandline.operate import scaffold
from strandline.operate.scaffold import make
from strandline.project import project
from strandline_infra import extras, home

NameArgument = Annotated[
    str, typer.Argument(help="Name of module, table, asset and test: small_letters_and_digits.")
]
ReadsOption = Annotated[str, typer.Option(help="The table that it reads, such as bronze.orders.")]

HELP = """Write the module and the test of a new table, or a first alert rule, to fill in.

\b
strandline new topic orders
strandline new silver orders --reads bronze.orders
strandline new gold orders_10m --reads silver.orders
strandline new alerts large_order --reads silver.orders
"""

new = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the verb with its three kinds."""
    app.add_typer(new, name="new")
    _register_init(app)


@new.command("topic")
def new_topic(name: NameArgument) -> None:
    r"""Take in a Kafka topic: writes the module bronze/NAME.py and its test.

    \b
    strandline new topic orders
    """
    facts = {"topic": name.replace("_", "-")}
    _say(scaffold.write(Layer.BRONZE, name, facts))


@new.command("silver")
def new_silver(name: NameArgument, reads: ReadsOption) -> None:
    r"""Parse and judge a bronze table: writes the module silver/NAME.py and its test.

    \b
    strandline new silver orders --reads bronze.orders
    """
    source = scaffold.source(reads, {Layer.BRONZE})
    facts = {"source": source.name}
    _say(scaffold.write(Layer.SILVER, name, facts))


@new.command("gold")
def new_gold(name: NameArgument, reads: ReadsOption) -> None:
    r"""Answer a question from a silver or gold table: writes the module gold/NAME.py and its test.

    \b
    strandline new gold orders_10m --reads silver.orders
    """
    source = scaffold.source(reads, {Layer.SILVER, Layer.GOLD})
    facts = {
        "source": source.name,
        "layer": source.layer.value,
        "key": source.key[0],
        "event_at": str(source.event_at),
        "kind": "Recomputed" if source.replaces_rows else "Windowed",
    }
    _say(scaffold.write(Layer.GOLD, name, facts))


@new.command("alerts")
def new_alerts(
    name: Annotated[str, typer.Argument(help="Name of the rule: small_letters_and_digits.")],
    reads: Annotated[
        str, typer.Option(help="The silver table that it looks at, such as silver.orders.")
    ],
) -> None:
    r"""Raise alerts on a silver table: writes alerts.py, the rule rules/NAME.yml with examples, and the test of all rules.

    A project that declares alerts gets the rule alone.

    \b
    strandline new alerts large_order --reads silver.orders
    """
    from strandline.operate.alerts import draft  # noqa: PLC0415  # the other drafts need nothing of alerts

    for path in draft.write(name, reads):
        say(f"wrote {path}")
    say("")
    say("Fill in the lines with FILL IN; `strandline rules test` runs the examples.")
    page = "infra/docs/alert_rules.md"
    say(f"{home.page(page) if project() else page} explains rules.")
    if not extras.is_installed("alerts"):
        say("")
        say(f"Rules need the extra alerts: {extras.command('alerts')}")
        say("Add it to the extras of strandline in pyproject.toml as well.")


def _say(written: Iterable[Path]) -> None:
    for path in written:
        say(f"wrote {path}")
    say("")
    say("Fill in the lines with FILL IN; `strandline tables` shows the table already.")
    fields = "infra/docs/table_fields.md"
    say(f"{home.page(fields) if project() else fields} explains the fields of a table.")


# ``init``: make a project of one's own, outside of the engine's repository; it passes its own ``make test``.


def _register_init(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("init")(init)


def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="A folder that does not exist or is empty; its name is the project's.",
        ),
    ],
    demo: Annotated[
        bool,
        typer.Option("--demo", help="Write the example: tables, models, rules and play."),
    ] = False,
) -> None:
    r"""Make a project of one's own: a topic, a silver and a gold table with their tests, a Makefile and a CI file.

    With --demo the tables are those of the example, a fleet of devices and its network, which `strandline demo` in
    that folder then fills; they import the public interface alone, and are yours to change.

    \b
    strandline init shop
    strandline init --demo fleet
    """
    name = make(folder, of_example=demo)
    say(f"made the project {name} in {folder.absolute()}")
    say("")
    say("try next:")
    say(f"  cd {folder}")
    # The environment that runs this has the engine already.
    programs = Path(sys.prefix) / "bin"
    say(f"  make test BIN={programs}")
    # By make, which installs the extras that the project uses.
    say(f"  make demo BIN={programs}")
