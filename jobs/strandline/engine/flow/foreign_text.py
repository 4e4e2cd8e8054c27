"""Where a table's function lets Java's engine search what a stranger has sent, and what to write instead.

That engine searches by trying: one text can keep it busy for days, or end the task by an overflow of its stack, and a
function of ours does the same in time of the text (infra/docs/linear.md). Tables that have such a search run as before:
it is named when the table is made, and by ``strandline preflight``.

What a plan has is asked of Spark (infra/strandline_infra/spark/linear/Searches.scala), and recorded with what a stream ran. Where that is
not known, as of a table that keeps no state, the text of the table's modules decides whether Spark is worth a start.
"""

import re
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.routes import KIND, KIND_BY
from strandline.core.table import Ingested, Judged, Table
from strandline.core.verdict import with_newest_arrival
from strandline.engine.flow.batch.event_joins import joining
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.runtime.code_files import own_texts_of
from strandline.engine.runtime.jvm import jvm, loss
from strandline.sql_function import is_in_sql

COMPUTED = "computed"
"""Is in Spark's answer for a pattern that is another one in each row."""

SHORT = 60

INSTEAD = {
    "rlike": "linear_match",
    "regexp_extract": "linear_extract",
    "regexp_extract_all": "linear_extract_all",
    "regexp_replace": "linear_replace",
    "regexp_instr": "locate of what linear_extract finds",
    "regexp_count": "size of what linear_extract_all finds",
    "regexp_substr": "linear_extract",
    "split": "linear_split",
    "like": "contains, startswith or endswith, or linear_match",
    "ilike": "contains, startswith or endswith of lower, or linear_match",
    "str_to_map": "linear_split",
    "parse_url": "linear_extract",
}
"""Spark's function to ours."""

NAMED = re.compile(
    r"(?i:\b(?:rlike|regexp\w*|str_to_map|parse_url)\b)|\bI?LIKE\b|\.i?like\(|(?:\b(?:F|functions)\.|(?<![.\w]))split\s*\("
)
"""Names of these functions in a text of Python or SQL; ``split`` of a text of Python's own is another function."""


def searches(rows: DataFrame) -> tuple[str, ...]:
    """Return the searches of a plan, each as the name of Spark's function and its pattern; nothing is run."""
    plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001  # there is no public way
    found = jvm(rows.sparkSession).strandline.Searches.of(plan)
    return tuple(str(each) for each in found)


def may_search(table: Table) -> bool:
    """Return whether the modules of a table name a function that searches."""
    return any(map(NAMED.search, own_texts_of(table)))


def _received(rows: DataFrame, table: Judged) -> DataFrame:
    """Return rows of bronze as a table's function gets them; how their kind is found is no search of its own."""
    known = with_newest_arrival(rows)
    return known.drop(KIND_BY).withColumn(KIND, F.lit("")) if table.is_routed else known


def of_function(spark: SparkSession, table: Table, lake: Lake) -> tuple[str, ...]:
    """Return the searches of a table's function over its sources as they are; none where one was not made yet.

    Raises:
        DefinitionError: Its function is SQL that Spark cannot resolve.
    """
    if isinstance(table, Ingested) or not all(map(lake.exists, table.upstream)):
        return ()
    if not (may_search(table) or is_in_sql(table)):
        return ()
    places = [lake.table(source) for source in table.upstream]
    try:
        rows = [rows_at(spark, place, latest_version(place)) for place in places]
        if isinstance(table, Judged):
            rows = [_received(each, table) for each in rows]
        with joining(table, lake):
            if isinstance(table, Judged):
                return searches(table.transform(*rows))
            return searches(table.computed(*rows))
    except Exception as error:  # what is wrong with it is said when it runs
        if loss(error) or (isinstance(error, DefinitionError) and is_in_sql(table)):
            raise
        return ()


def sentences(found: Sequence[str]) -> tuple[str, ...]:
    """Return for each search what it is, and the function to write instead.

    >>> sentences(["rlike (a+)+"])[0].partition(":")[0]
    "rlike of '(a+)+' is searched by Java's engine, which one text can keep busy for ever"
    """
    return tuple(map(_sentence, found))


def _sentence(found: str) -> str:
    name, _, pattern = found.partition(" ")
    shown = f"{pattern[: SHORT - 1]}…" if len(pattern) > SHORT else pattern
    what = "a computed pattern" if pattern == COMPUTED else f"{shown!r}"
    return (
        f"{name} of {what} is searched by Java's engine, which one text can keep busy for ever: "
        f"write {INSTEAD[name]} instead (infra/docs/linear.md)"
    )
