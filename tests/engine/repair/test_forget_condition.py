"""``forget --where`` means what Spark understands by it, in each table; what no table understands is refused."""

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.engine.lake.lake import Lake
from strandline.engine.repair.forget_request import Condition
from tests.cli.inside import strandline
from tests.support.events import TABLE as BRONZE
from tests.support.events import Event, reading, received
from tests.support.modes import derive
from tests.support.rows import NOON
from tests.support.seeds import copied

TORN = reading(event_id="e4", device_id="d-17")[:60]
EVENTS = [
    Event(payload=reading(event_id="e1", device_id="d-17")),
    Event(payload=reading(event_id="e2", device_id="d-17", event_at="2026-11-20T12:00:30Z")),
    Event(payload=reading(event_id="e3", device_id="d-2", meta={"firmware": "as d-17", "seq": 1})),
]
EQUAL = "device_id = 'd-17'"


@pytest.fixture
def fleet(spark: SparkSession, lake: Lake) -> Lake:
    """Return a lake with two readings of the device, and one of another that mentions it."""

    def filled(seed: Lake) -> None:
        received(seed, EVENTS)
        derive(spark, seed, silver.TABLE)

    return copied(lake, "a device that another one mentions", filled)


@pytest.mark.whole
def test_a_condition_is_what_spark_understands(fleet: Lake) -> None:
    """By the case of a name, a date, a cast or a backtick nothing else is meant; the other device's record stays.

    All of them in one; `make prove` tries them one by one.
    """
    where = (
        "CAST(`DEVICE_Id` AS STRING) IN ('d-17', 'd-18') AND event_at >= DATE '2026-11-20' "
        "AND event_at < TIMESTAMP '2026-11-20 12:00:10'"
    )

    assert rows(fleet, where) == {BRONZE.id: (1, 0), silver.TABLE.id: (1, 0)}


@pytest.mark.prove(alone="half a minute")
def test_each_condition_alone_is_what_spark_understands(fleet: Lake) -> None:
    wheres = {
        EQUAL: 2,
        "DEVICE_ID = 'd-17'": 2,
        "`Device_Id` IN ('d-17', 'd-18')": 2,
        "CAST(device_id AS STRING) = 'd-17'": 2,
        f"{EQUAL} AND event_at < TIMESTAMP '2026-11-20 12:00:10'": 1,
        f"{EQUAL} AND event_at >= DATE '2026-11-20'": 2,
        "event_at > TIMESTAMP '2026-11-20 12:00:10'": 1,
        f"{EQUAL} AND extract(YEAR FROM event_at) = 2026": 2,
    }

    found = {where: rows(fleet, where) for where in wheres}

    assert found == {
        where: {BRONZE.id: (count, 0), silver.TABLE.id: (count, 0)}
        for where, count in wheres.items()
    }


@pytest.mark.whole
def test_what_no_table_understands_is_refused(fleet: Lake) -> None:
    """It said that nothing is left to forget, exit code 0; or it deleted what only mentions the text."""
    wheres = {
        "devise_id = 'd-17'": "no table knows devise_id",
        "device_id = 'd-17' OR unheard_of = 'd-17'": "no table knows unheard_of",
        "device_id": "is a string, not a condition",
        "device_id = 17": "cannot be computed",
        "lowr(device_id) = 'd-17'": "cannot be computed",
        "device_id =": "is no condition",
        "1 = 1": "names no column",
        "device_id IN (SELECT 'd-17')": "is no condition",
    }

    answers = {
        where: strandline("forget", "--where", where, "--go", "--lake", fleet.root)
        for where in wheres
    }

    assert {w: answer.err for w, answer in answers.items() if answer.code != 2} == {}
    assert {w: answers[w].err for w, says in wheres.items() if says not in answers[w].err} == {}
    assert "did you mean device_id?" in answers["devise_id = 'd-17'"].err
    assert rows(fleet, EQUAL) == {BRONZE.id: (2, 0), silver.TABLE.id: (2, 0)}


@pytest.mark.whole
def test_the_rehearsal_counts_apart_what_goes_for_a_text(spark: SparkSession, fleet: Lake) -> None:
    """A record that cannot be parsed, in bronze and in the quarantine."""
    received(fleet, [Event(payload=TORN, batch=1, arrived_at=NOON)])
    derive(spark, fleet, silver.TABLE)

    quarantine = f"quarantine.{silver.TABLE.name}"
    assert rows(fleet, EQUAL) == {
        BRONZE.id: (3, 1),
        silver.TABLE.id: (2, 0),
        quarantine: (1, 1),
    }
    shown = strandline("forget", "--where", EQUAL, "--lake", fleet.root)
    assert "of them for a text, not the condition" in shown.out


@pytest.mark.parametrize(
    ("where", "words", "columns"),
    [
        ("device_id = 'd-17'", ("d-17",), {"device_id"}),
        ("'d-17' = device_id", ("d-17",), {"device_id"}),
        ("device_id IN ('d-17', 'd-18')", ("d-17", "d-18"), {"device_id"}),
        ("user = 'anna' OR (owner = 'anna')", ("anna",), {"user", "owner"}),
        ("name = 'O''Neill'", ("O'Neill",), {"name"}),
        ("CAST(id AS STRING) = '1712'", ("1712",), {"id"}),
        ("meta.firmware = '1.4.2'", ("1.4.2",), {"meta.firmware"}),
        ("device_id <> 'd-17'", (), {"device_id"}),
        ("device_id = 'd-17' AND at < DATE '2026-01-01'", (), {"device_id", "at"}),
        ("lower(device_id) = 'd-17' AND NOT is_old", (), {"device_id", "is_old"}),
        ("exists(parts, part -> part.id = 'd-17')", (), {"parts"}),
        ("device_id LIKE 'd-1%'", (), {"device_id"}),
        ("device_id = 'd'", (), {"device_id"}),
        ("id = 17", (), {"id"}),
    ],
)
def test_texts_are_searched_only_where_they_name_whom_to_forget(
    spark: SparkSession, where: str, words: tuple[str, ...], columns: set[str]
) -> None:
    """With another comparison the text may be that of a row that stays; a letter is in every record."""
    condition = Condition.of(spark, where)

    assert (condition.words, {".".join(parts) for parts in condition.columns}) == (words, columns)


def test_a_condition_that_no_table_has_whole_is_refused(spark: SparkSession) -> None:
    """Its texts would be all that is searched, and others mention them."""
    tables = [spark.createDataFrame([], each) for each in ("user string", "owner string")]

    with pytest.raises(DefinitionError, match="no table has all of its columns"):
        Condition.of(spark, "user = 'anna' OR owner = 'anna'").refuse_unknown(tables)


def rows(lake: Lake, where: str) -> Mapping[str, tuple[int, int]]:
    """Return how many rows of each table would go, and how many of them for a text."""
    found: Any = strandline("forget", "--where", where, "--json", "--lake", lake.root).json
    return {
        part["table"]: (part["rows"], part.get("by_text", 0))
        for part in found["found"]
        if part["rows"]
    }
