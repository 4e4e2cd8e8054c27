"""Which columns of a table in a lake may not be shown in the clear: declared ones, and what is made of them.

A judged table declares its own. Above it a column counts as sensitive when its lineage leads to one that is, renamed or
nested; a function over groups is opaque, so all that it returns is. Where the lineage is not known, because Spark has
not run the table by today's code, only columns that a source has under the same name and shows are shown.
"""

from collections.abc import Collection
from contextlib import suppress

from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from jobs.core.rescue import RESCUED
from jobs.core.table import Layer, Table
from jobs.run.lake import Lake
from jobs.run.lineage import kept, lineage

UNREADABLE = ("_payload", "_message_key", "_headers", RESCUED)
"""Columns that may hold anything, and so what is sensitive."""


def hidden(table: Table, lake: Lake) -> frozenset[str]:
    """Return the columns of a table that are not shown in the clear."""
    if not table.secret:
        return frozenset()
    always = table.secret.union(UNREADABLE)
    return always if table.judges else always | _made_of_hidden(table, lake)


def learn(spark: SparkSession, table: Table, lake: Lake) -> None:
    """Keep the lineage of a table above sensitive columns, while there is a Spark to ask; no table stops for it."""
    if table.secret and not table.judges:
        with suppress(PySparkException, LookupError):
            lineage(spark, table, lake)


def of_bronze(bronze: Table, tables: Collection[Table]) -> frozenset[str]:
    """Return the columns of a bronze table that hold what a table above it calls sensitive."""
    is_secret = any(table.secret and bronze in table.upstream for table in tables)
    return frozenset(UNREADABLE) if is_secret and bronze.layer is Layer.BRONZE else frozenset()


def _made_of_hidden(table: Table, lake: Lake) -> frozenset[str]:
    below = {source.id: hidden(source, lake) for source in table.needs}
    known = kept(table, lake)
    if known is None:
        shown = {
            name for source in table.needs for name in _columns(source, lake) - below[source.id]
        }
        return frozenset(_columns(table, lake) - shown)
    return frozenset(
        name
        for name, made_of in known.items()
        if any(column in below.get(source, ()) for source, column in made_of)
    )


def _columns(table: Table, lake: Lake) -> frozenset[str]:
    if not lake.exists(table):
        return frozenset()
    return frozenset(field.name for field in DeltaTable(lake.table(table)).schema().fields)
