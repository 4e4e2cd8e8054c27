"""Finds every table by itself: a module in a layer's folder that ends with its ``TABLE``.

Reading the catalog starts no JVM, so an error in a declaration is told before Spark is.
"""

import importlib
import pkgutil
from functools import cache
from graphlib import CycleError, TopologicalSorter
from types import ModuleType

from jobs import bronze, gold, silver
from jobs.core.errors import DefinitionError
from jobs.core.table import Layer, Speaks, Table

LAYERS = {Layer.BRONZE: bronze, Layer.SILVER: silver, Layer.GOLD: gold}


@cache
def tables() -> tuple[Table, ...]:
    """Return all tables, each after those that it reads.

    Raises:
        DefinitionError: A module has no table of its own name, a table reads one that is
            nowhere, or tables read each other in a circle.
    """
    found = {table.id: table for layer in LAYERS for table in _declared(layer)}
    for table in found.values():
        for source in table.upstream:
            if source.id not in found:
                raise DefinitionError(
                    f"{table.id} reads {source.id}, which no module declares",
                    hint="let `reads` name the TABLE of a module in jobs/bronze, silver or gold.",
                    table=table.id,
                    source=source.id,
                )
            if source.rewrites and table.speaks is not Speaks.AFRESH:
                raise DefinitionError(
                    f"{table.id} reads {source.id}, whose rows are replaced by later words; no stream can follow it",
                    hint=f"declare {table.id} with speaks=Speaks.AFRESH, or let it read what {source.id} reads.",
                    table=table.id,
                    source=source.id,
                )
    graph = {name: [source.id for source in table.upstream] for name, table in found.items()}
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError as error:
        raise DefinitionError(
            "tables read each other in a circle: " + " → ".join(error.args[1]),
            hint="let one of them read a lower layer instead.",
        ) from error
    return tuple(found[name] for name in sorted(order, key=lambda name: _rank(found, name)))


def find(name: str) -> Table:
    """Return the table of a name such as ``gold.device_signal_10m``.

    Raises:
        DefinitionError: There is none.
    """
    for table in tables():
        if table.id == name:
            return table
    known = ", ".join(table.id for table in tables())
    raise DefinitionError(f"there is no table {name}", hint=f"the tables are {known}.", table=name)


def _rank(found: dict[str, Table], name: str) -> tuple[int, int, str]:
    depth = 0
    level = found[name].upstream
    while level:
        depth += 1
        level = tuple(source for table in level for source in table.upstream)
    return (list(Layer).index(found[name].layer), depth, name)


def _declared(layer: Layer) -> list[Table]:
    package = LAYERS[layer]
    names = sorted(module.name for module in pkgutil.iter_modules(package.__path__))
    return [_table(importlib.import_module(f"{package.__name__}.{name}"), layer) for name in names]


def _table(module: ModuleType, layer: Layer) -> Table:
    name = module.__name__.rpartition(".")[2]
    table = getattr(module, "TABLE", None)
    if not isinstance(table, Table) or (table.layer, table.name) != (layer, name):
        raise DefinitionError(
            f"{module.__file__} does not declare the table {layer}.{name}",
            hint=f"end the module with TABLE = Table(layer=Layer.{layer.name}, name={name!r}, …).",
            file=str(module.__file__),
        )
    return table
