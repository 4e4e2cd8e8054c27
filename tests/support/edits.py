"""An edit of a table's code or of what is around its stream: the code before and after, and the log that both read."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from fleet.bronze import user_actions as bronze
from strandline.core.kind import Lateness
from strandline.core.table import Computed, Judged
from strandline.engine.lake.lake import Lake

FIELDS = (
    StructType()
    .add("k", StringType())
    .add("site", StringType())
    .add("v", LongType())
    .add("w", LongType())
    .add("part", StringType())
    .add("at", TimestampType())
)
TEN = Lateness(late=timedelta(minutes=8), early=timedelta(minutes=1), disorder=timedelta(minutes=1))
TWENTY = replace(TEN, late=timedelta(minutes=18))
TWO = replace(TEN, late=timedelta(0))

LOG = """
    batch | k | site | v  | w  | part | at
    1     | a | x    | 1  | 10 | A    | 09:00:00
    1     | b | y    | 2  | 20 | A    | 09:03:00
    1     | a | x    | 3  | 30 | A    | 09:14:00
    1     | b | x    | 4  | 41 | A    | 09:16:00
    1     | d | x    | 1  | 1  | A    | 09:20:30
    1     | a | x    | 3  | 15 | A    | 09:30:30
    1     | a | y    | 5  | 50 | A    | 09:31:00
    1     | c | x    | 5  | 50 | A    | 09:32:10
    1     | a | x    | 6  | 60 | A    | 09:32:00
    1     | b | y    | 7  | 70 | A    | 09:33:00
    2     | a | x    | 8  | 85 | B    | 09:34:00
    2     | b | y    | 9  | 90 | B    | 09:35:00
    2     | y | a    | 3  | 33 | B    | 09:36:00
    2     | b | y    | 7  | 70 | B    | 09:33:00
    2     | a | x    | 60 | 6  | B    | 09:45:00
    3     | q | q    | 1  | 1  | B    | 12:00:00
"""
LATE = LOG + "    2     | a | x    | 11 | 11 | B    | 09:15:00\n"
"""With a row that only a longer lateness admits."""

OTHER = """
    batch | k | site | v  | w  | part | at
    1     | a | x    | 70 | 1  | A    | 09:32:30
    1     | c | x    | 71 | 1  | A    | 09:33:30
    2     | d | x    | 80 | 1  | B    | 09:23:40
    2     | a | x    | 72 | 1  | B    | 09:34:30
    2     | b | y    | 73 | 1  | B    | 09:33:10
    2     | b | y    | 74 | 1  | B    | 09:36:30
    3     | q | q    | 75 | 1  | B    | 12:00:30
"""


def _unused(_: DataFrame) -> DataFrame:
    raise NotImplementedError


def source(name: str, lateness: Lateness = TEN) -> Judged:
    """Return a table that is written by hand; its function is never called."""
    return Judged(
        name=name,
        reads=(bronze.TABLE,),
        transform=_unused,
        key=("k",),
        event_at="at",
        lateness=lateness,
    )


CLICKS, VISITS = source("clicks"), source("visits")


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """An edit.

    Args:
        name: What is edited.
        before: The table before.
        after: The table after.
        reference: What the rows after a restart must equal, run from the beginning; ``after`` when absent. Where an edit
            changes which rows enter the state, it lets in those of the first part by the former rule, for they are there.
        log: The rows of the first source.
        fields: The columns of the first source.
        later: Those that it has from the second part on, where they are others.
        around: Done to the lake between the two.
        starts: Whether it is also started with the pre-flight, which must refuse it with a sentence or let it go on.
        partitions: Spark's shuffle partitions after.
    """

    name: str
    before: Computed
    after: Computed
    reference: Computed | None = None
    log: str = LOG
    fields: StructType = FIELDS
    later: StructType | None = None
    starts: bool = False
    around: Callable[[Lake], None] = field(default=lambda _: None)
    partitions: int = 2
