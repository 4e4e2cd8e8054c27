"""``new``: write the module and the test of a table; both run as they are, to be filled in."""

import ast
import builtins
import keyword
import re
from collections import Counter
from collections.abc import Iterator
from string import Template
from typing import Annotated

import typer

from infra.home import ROOT as CLONE
from jobs import catalog
from jobs.cli import drafts
from jobs.cli.own_drafts import of_a_project
from jobs.cli.screen import say
from jobs.core.errors import DefinitionError
from jobs.core.kind import Layer
from jobs.core.project import is_example, package, project
from jobs.core.table import Table

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")

NameArgument = Annotated[
    str, typer.Argument(help="Name of module, table, asset and test: small_letters_and_digits.")
]
ReadsOption = Annotated[str, typer.Option(help="The table that it reads, such as bronze.orders.")]

HELP = """Write the module and the test of a new table, to fill in.

\b
strandline new topic orders
strandline new silver orders --reads bronze.orders
strandline new gold orders_10m --reads silver.orders
"""

new = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
)


def register(app: typer.Typer) -> None:
    """Add the verb with its three kinds."""
    app.add_typer(new, name="new")


@new.command("topic")
def new_topic(name: NameArgument) -> None:
    r"""Take in a Kafka topic: writes the module bronze/NAME.py and its test.

    \b
    strandline new topic orders
    """
    _write(Layer.BRONZE, name, drafts.TOPIC, drafts.TOPIC_TEST, {"topic": name.replace("_", "-")})


@new.command("silver")
def new_silver(name: NameArgument, reads: ReadsOption) -> None:
    r"""Parse and judge a bronze table: writes the module silver/NAME.py and its test.

    \b
    strandline new silver orders --reads bronze.orders
    """
    source = _source(reads, {Layer.BRONZE})
    _write(Layer.SILVER, name, drafts.SILVER, drafts.SILVER_TEST, {"source": source.name})


@new.command("gold")
def new_gold(name: NameArgument, reads: ReadsOption) -> None:
    r"""Answer a question from a silver or gold table: writes the module gold/NAME.py and its test.

    \b
    strandline new gold orders_10m --reads silver.orders
    """
    source = _source(reads, {Layer.SILVER, Layer.GOLD})
    facts = {
        "source": source.name,
        "layer": source.layer.value,
        "key": source.key[0],
        "event_at": str(source.event_at),
        "kind": "Recomputed" if source.replaces_rows else "Windowed",
    }
    _write(Layer.GOLD, name, drafts.GOLD, drafts.GOLD_TEST, facts)


def _source(name: str, layers: set[Layer]) -> Table:
    source = catalog.find(name)
    if source.layer not in layers:
        wanted = " or ".join(sorted(layers, reverse=True))
        raise DefinitionError(
            f"{source.id} is {source.layer}; such a table reads {wanted}",
            hint=f"name a {wanted} table: `strandline tables` lists them.",
            table=source.id,
        )
    return source


def _write(layer: Layer, name: str, module: str, test: str, facts: dict[str, str]) -> None:
    if NAME.fullmatch(name) is None:
        raise DefinitionError(
            f"{name!r} is no name for a table",
            hint="write it in small letters, digits and single underscores, such as orders_10m.",
            name=name,
        )
    if keyword.iskeyword(name) or hasattr(builtins, name):
        raise _taken(name, "a word of Python's own")
    if not is_example():
        module, test = of_a_project(module), of_a_project(test)
    facts = {**facts, "name": name, "package": package()}
    module, test = (Template(draft).substitute(facts) for draft in (module, test))
    if max(Counter(_bound(module))[name], Counter([*_bound(test), *_given(test)])[name]) > 1:
        raise _taken(name, "a name that its module or its test needs for something else")
    found = project()
    root = found.root if found else CLONE
    files = {
        root.joinpath(*package().split("."), layer, f"{name}.py"): module,
        root / "tests" / layer / f"test_{name}.py": test,
    }
    for path in files:
        if path.exists():
            raise DefinitionError(
                f"{path.relative_to(root)} exists already",
                hint="choose another name, or change that file.",
                file=str(path),
            )
    for path, text in files.items():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        except OSError as error:
            raise DefinitionError(
                f"{path} cannot be written: {error.strerror}",
                hint="run it in a project of your own (`strandline init`), or in a clone of the engine.",
                file=str(path),
            ) from error
        say(f"wrote {path.relative_to(root)}")
    say("")
    say("Fill in the lines with FILL IN; `strandline tables` shows the table already.")
    say(
        f"{CLONE / 'infra/docs/table_fields.md' if found else 'infra/docs/table_fields.md'} explains the fields of a table."
    )


def _taken(name: str, why: str) -> DefinitionError:
    return DefinitionError(
        f"{name!r} is no name for a table: it is {why}",
        hint=f"choose another name, such as {name}_10m.",
        name=name,
    )


def _bound(text: str) -> Iterator[str]:
    """Yield each name that a module binds, once per binding."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from (each.asname or each.name for each in node.names)
        elif isinstance(node, ast.FunctionDef):
            yield node.name


def _given(text: str) -> Iterator[str]:
    """Yield the fixtures that the tests of a module use."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.arg):
            yield node.arg
