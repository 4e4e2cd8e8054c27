"""The columns of a table that are masked: the declared ones, and those in which one of their values may be seen.

A judged table declares its sensitive columns. Above it a column is sensitive if a value of a sensitive one passes through to it,
renamed, nested or computed; a count of them is not, because it says how many and never which. A function over groups is opaque,
so all its columns are. What the plan cannot know a table declares: `unmasked` names columns that are computed from sensitive ones
and reveal none. If the lineage is unknown, because Spark has not run the table, only a column that a source shows under the
same name is shown.
"""

from collections.abc import Collection
from contextlib import suppress

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from strandline.core.model import FEATURES, SCORE
from strandline.core.rescue import RESCUED
from strandline.core.table import Ingested, Judged, Table
from strandline.engine.pipeline.column_lineage import lineage, visible_columns
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.open_table import kinds

UNREADABLE = ("_payload", "_message_key", "_headers", RESCUED)
"""Columns that may hold anything, and so sensitive values too."""


def hidden(table: Table, lake: Lake) -> frozenset[str]:
    """Return the columns of a table that are masked."""
    if not table.secret:
        return frozenset()
    always = frozenset(UNREADABLE).union(table.sensitive)
    if table.scored_by:  # the lineage of a table does not reach into its model
        always = always.union((FEATURES, SCORE))
    if isinstance(table, Judged):
        return always | table.secret
    return (always | _derived_from_hidden(table, lake)) - frozenset(table.unmasked)


def learn(spark: SparkSession, table: Table, lake: Lake) -> None:
    """Cache the lineage of a table above sensitive columns while Spark runs; a failure does not stop the table."""
    if table.secret and not isinstance(table, Judged):
        with suppress(PySparkException, LookupError):
            lineage(spark, table, lake)


def hidden_in_bronze(bronze: Table, tables: Collection[Table]) -> frozenset[str]:
    """Return the columns of a bronze table that hold sensitive values of a table above it."""
    is_secret = any(table.secret and bronze in table.upstream for table in tables)
    return frozenset(UNREADABLE) if is_secret and isinstance(bronze, Ingested) else frozenset()


def _derived_from_hidden(table: Table, lake: Lake) -> frozenset[str]:
    below = {source.id: hidden(source, lake) for source in table.needs}
    known = visible_columns(table, lake)
    if known is None:
        shown = {
            name for source in table.needs for name in _columns(source, lake) - below[source.id]
        }
        return table.secret | (_columns(table, lake) - shown)
    hidden_ones = {
        name
        for name, made_of in known.items()
        if any(column in below.get(source, ()) for source, column in made_of)
    }
    # A column that the code of the last run did not make is of an older one, and may hold anything.
    strangers = {name for name in _columns(table, lake) - known.keys() if name[0] != "_"}
    return table.secret.difference(known).union(hidden_ones, strangers)


def _columns(table: Table, lake: Lake) -> frozenset[str]:
    return frozenset(kinds(lake.table(table)))
