"""The sources that a project declares: ``SOURCES`` in the module ``alerts`` of its package, with its rules in the folder ``rules`` beside.

The catalog asks for the tables of alerts where there is such a module, and refuses a mistake in it before Spark starts.
"""

import importlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType

from strandline import catalog

from strandline.alerting.source import AlertSource
from strandline.alerting.tables import bronze, gold, silver
from strandline.core.errors import DefinitionError
from strandline.core.table import Judged, Table
from strandline.project import package

PART = "alerts"
TABLES = (bronze, silver, gold)
EXAMPLE = "SOURCES = (AlertSource(table=orders.TABLE, fields=orders.FIELDS, entity='order_id'),)"


def sources() -> tuple[AlertSource, ...]:
    """Return the sources of the project; none where it declares no alerts.

    Raises:
        DefinitionError: The project has a mistake.
    """
    if not catalog.declares(PART):
        return ()
    catalog.tables()  # refuses what is wrong
    found: tuple[AlertSource, ...] = tuple(importlib.import_module(_module()).SOURCES)
    return found


def find(table: str) -> AlertSource | None:
    """Return the source of a table's name, with or without its layer; None if rules look at no such table."""
    return next((each for each in sources() if table in {each.table.id, each.table.name}), None)


def rules_folder() -> Path:
    """Return the folder with the rules of the project."""
    return Path(str(importlib.import_module(package()).__file__)).parent / "rules"


def added(declared: ModuleType, found: Mapping[str, Table]) -> tuple[ModuleType, ...]:
    """Return the modules of the tables of alerts.

    Args:
        declared: The project's module.
        found: The tables of the project.

    Raises:
        DefinitionError: The module has a mistake.
    """
    _refuse(declared, found)
    return TABLES


def _module() -> str:
    return f"{package()}.{PART}"


def _refuse(module: ModuleType, found: Mapping[str, Table]) -> None:
    given = getattr(module, "SOURCES", None)
    if not isinstance(given, tuple | list) or not all(isinstance(e, AlertSource) for e in given):
        raise DefinitionError(
            f"{module.__name__} does not declare what alert rules look at",
            hint=f"end the module with {EXAMPLE}.",
            file=str(module.__file__),
        )
    if not given:
        raise DefinitionError(
            f"{module.__name__} declares no source: SOURCES is empty",
            hint="name the tables that rules look at; a project without alerts has no such module.",
        )
    known: dict[str, AlertSource] = {}
    for source in given:
        for message, hint in _mistakes(source, found, known):
            raise DefinitionError(
                f"{module.__name__}: {message}", hint=hint, table=str(source.feed)
            )
        known[source.feed] = source


def _mistakes(
    source: AlertSource, found: Mapping[str, Table], known: Mapping[str, AlertSource]
) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with a source among others, and what to do."""
    table = source.table
    if found.get(table.id) is not table:
        tables = ", ".join(name for name, each in found.items() if isinstance(each, Judged))
        yield (
            f"a source reads {table.id}, which no module declares",
            f"name the TABLE of a module in {package()}/silver; those are {tables}.",
        )
    if source.feed in known:
        yield (
            f"two sources have the name {source.feed}",
            "a table is declared once; put categories and names of both into one source.",
        )
    for category in source.categories:
        if other := next((e for e in known.values() if category in e.categories), None):
            yield (
                f"the category {category} is that of {other.table.id} and of {table.id}",
                "leave it out at one of them; a rule names the other table as its `service`.",
            )
