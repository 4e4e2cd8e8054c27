"""Changes of a database's table become validity intervals; tests/core/test_replayed.py has their fold cut in any way."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DecimalType, LongType, StringType, StructType

from strandline.core.changed_rows import changes_of, debezium, fold_of, validity
from strandline.core.errors import DefinitionError
from strandline.core.kind import Layer
from strandline.core.table import Ingested, Judged, Upserted
from strandline.core.topic import CARRIED, RECEIVED, Topic
from tests.support.debezium import mysql, postgres
from tests.support.literal import TWO, in_every_way
from tests.support.rows import Row, rows

CUSTOMER = StructType().add("id", LongType()).add("site", StringType())
RECEIVED_ROWS = "batch | _topic | _partition | _offset | _arrived_at | _message_key | _payload | _batch | _ingested_at | _newest_before\n"

BRONZE = Ingested(name="customers", reads=(Topic(name="customers", parse=debezium()),))


def changed(events: DataFrame) -> DataFrame:
    fields = changes_of(CUSTOMER)
    (topic,) = BRONZE.topics
    return topic.parse(events, fields).select(*CARRIED, *fields.fieldNames())


CHANGES = Judged(
    name="customer_changes",
    reads=(BRONZE,),
    transform=changed,
    key=("change_position", "id"),
    event_at="changed_at",
)


def customers(changes: DataFrame) -> DataFrame:
    return validity(changes, ("id",), CUSTOMER)


CUSTOMERS = Upserted(
    layer=Layer.SILVER,
    name="customers",
    reads=(CHANGES,),
    transform=customers,
    key=("id", "valid_from"),
    event_at="valid_from",
    window_from="ended_on",
    valid_until="valid_until",
)


def log(batches: Sequence[Sequence[str | None]], minutes: Sequence[int]) -> str:
    """Return records as rows of bronze, each commit some minutes after eight."""
    text, offset = RECEIVED_ROWS, 0
    for number, (records, minute) in enumerate(zip(batches, minutes, strict=True)):
        at = f"{8 + minute // 60:02}:{minute % 60:02}:30"
        before = (
            "-"
            if not number
            else f"{8 + minutes[number - 1] // 60:02}:{minutes[number - 1] % 60:02}:30"
        )
        for record in records:
            cells = (
                number,
                "customers",
                0,
                offset,
                at,
                '{"id":1}',
                record or "-",
                number,
                at,
                before,
            )
            text += " | ".join(map(str, cells)) + "\n"
            offset += 1
    return text


def intervals(spark: SparkSession, root: Path, text: str, ways: Sequence[str] = TWO) -> list[Row]:
    source = {BRONZE: (RECEIVED, text)}
    found = in_every_way(spark, root, CUSTOMERS, source, through=(CHANGES,), ways=ways)
    names = ("id", "valid_from", "valid_until", "site")
    return sorted(({name: row[name] for name in names} for row in found), key=str)


def test_a_column_that_state_cannot_hold_is_refused() -> None:
    """With a way out; a decimal or a time would fail in the first batch."""
    with pytest.raises(DefinitionError, match=r"column price is decimal\(9,2\)"):
        fold_of(("id",), StructType().add("id", LongType()).add("price", DecimalType(9, 2)))


@pytest.mark.whole
@pytest.mark.slow
def test_changes_of_postgres_become_intervals(spark: SparkSession, tmp_path: Path) -> None:
    """A snapshot, updates, a delete with its tombstone, the row anew; sent twice, and one of them late."""

    def row(number: int, site: str) -> dict[str, object]:
        return {"id": number, "site": site}

    moved = postgres("u", after=row(1, "osaka"), lsn=30, minute=20)
    deleted = postgres("d", before={"id": 1, "site": None}, lsn=40, minute=40)
    batches = [
        [
            postgres("r", after=row(1, "berlin"), lsn=10, within=True),
            postgres("r", after=row(2, "lima"), lsn=10, within=True),
        ],
        [moved, deleted, None],
        [moved, deleted, None],  # the connector has started again
        [
            postgres("u", after=row(2, "oslo"), lsn=35, minute=30),
            postgres("c", after=row(1, "boston"), lsn=50, minute=50),
        ],
    ]

    assert intervals(spark, tmp_path, log(batches, (0, 41, 45, 51))) == rows("""
        id | valid_from      | valid_until     | site
        1  | 08:00:00.000125 | 08:20:00.000125 | berlin
        1  | 08:20:00.000125 | 08:40:00.000125 | osaka
        1  | 08:40:00.000125 | 08:40:00.000125 | -
        1  | 08:50:00.000125 | -               | boston
        2  | 08:00:00.000125 | 08:30:00.000125 | lima
        2  | 08:30:00.000125 | -               | oslo
    """)


@pytest.mark.whole
def test_of_changes_of_one_second_the_last_in_the_log_counts(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Whatever order they arrive in; MySQL's clock has seconds. A late delete ends an interval that was open.

    Step by step alone: that a batch gives the same is seen with the changes of Postgres.
    """

    def change(op: str, site: str | None, pos: int, second: int) -> str:
        row = {"id": 1, "site": site}
        sides = {"before": row} if op == "d" else {"after": row}
        return mysql(op, pos=pos, second=second, **sides)

    batches = [
        [change("c", "berlin", 100, 0), change("u", "osaka", 15000, 60)],
        [change("u", "lima", 9000, 60), change("d", None, 20000, 60)],
        [change("c", "oslo", 30000, 120)],
    ]

    assert intervals(spark, tmp_path, log(batches, (2, 3, 4)), TWO[1:]) == rows("""
        id | valid_from | valid_until | site
        1  | 08:00:00   | 08:01:00    | berlin
        1  | 08:01:00   | 08:01:00    | -
        1  | 08:02:00   | -           | oslo
    """)
