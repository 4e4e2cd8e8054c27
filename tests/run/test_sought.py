"""A key that no table has is looked for in bronze, and where that cannot be done nobody says that it never was."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from deltalake import DeltaTable

from jobs import catalog
from jobs.run.finding import Finding, Verdict, World
from jobs.run.lake import Lake
from jobs.run.why import why
from jobs.silver import device_telemetry as silver
from tests.support.rows import NOON

BRONZE = silver.TABLE.upstream[0]
SIGNAL = "gold.device_signal_10m"


def asked(lake: Lake, what: str, table: str | None = None, **world: object) -> Finding:
    told = replace(World(lake=lake, now=NOON), **world)  # type: ignore[arg-type]  # a test's own
    return why(what, catalog.find(table) if table else None, told)


@pytest.fixture
def robbed(morning: Lake) -> Lake:
    """Return a lake from whose silver somebody has taken a row that bronze has."""
    DeltaTable(morning.table(silver.TABLE)).delete("event_id = 'd'")
    return morning


@pytest.mark.parametrize("table", [None, silver.TABLE.id, SIGNAL])
def test_an_event_that_bronze_has_was_produced(robbed: Lake, table: str | None) -> None:
    """The answer is that which its place in Kafka would get, with the place."""
    found = asked(robbed, "d", table)

    assert found.verdict is Verdict.UNACCOUNTED
    assert found.evidence["offset"] == "device-telemetry/0/3"
    assert found.table == silver.TABLE.id


def test_what_the_watermark_dropped_was_produced(robbed: Lake) -> None:
    """It is in neither silver nor the quarantine, which is where keys were looked for alone."""
    log = robbed.table(silver.TABLE) / "_delta_log"
    for file in log.glob("*.json"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            told = line.get("commitInfo", {}).get("userMetadata")
            if told:
                line["commitInfo"]["userMetadata"] = json.dumps(
                    json.loads(told) | {"dropped_by_watermark": 1}
                )
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    found = asked(robbed, "d")

    assert (found.verdict, found.evidence["dropped"]) == (Verdict.DROPPED, 1)


def test_a_key_that_another_event_mentions_is_not_taken_for_it(morning: Lake) -> None:
    """Three letters of the payload of every event: the device, whose events are in the table."""
    found = asked(morning, "d1", silver.TABLE.id)

    assert found.verdict is Verdict.UNKNOWN  # no broker could be asked
    assert found.evidence["searched_in_bronze"] == 12


def test_the_search_says_how_far_it_is(morning: Lake) -> None:
    """In records of bronze, of which it may have many."""
    heard: list[tuple[str, int, list[int]]] = []

    @contextmanager
    def progress(what: str, total: int) -> Iterator[object]:
        done: list[int] = []
        heard.append((what, total, done))
        yield done.append

    asked(morning, "nobody-knows-it", silver.TABLE.id, progress=progress)

    ((what, total, done),) = heard
    assert BRONZE.id in what
    assert (total, done[-1]) == (12, 12)


def test_where_nobody_looked_nothing_is_known(robbed: Lake) -> None:
    """Somebody may be in a hurry."""
    found = asked(robbed, "d", search=False)

    assert found.verdict is Verdict.UNKNOWN
    assert "bronze" in found.sentence


def test_bronze_without_its_files_could_not_be_searched(morning: Lake) -> None:
    for file in morning.table(BRONZE).glob("*.parquet"):
        file.unlink()

    found = asked(morning, "nobody-knows-it", silver.TABLE.id)

    assert found.verdict is Verdict.UNKNOWN
    assert found.evidence["records_gone"] == 12


def test_a_table_whose_keys_do_not_stand_in_its_payloads_cannot_be_searched(morning: Lake) -> None:
    """Numbers of Avro, keys that a function makes; one row that silver has shows whether they do."""
    path = morning.table(silver.TABLE)
    rows = DeltaTable(path)
    rows.update(updates={"event_id": "concat('made-', md5(event_id))"})

    found = asked(morning, "made-up", silver.TABLE.id)

    assert found.verdict is Verdict.UNKNOWN
    assert "do not stand in" in found.sentence


def test_a_row_of_gold_that_is_not_there_may_have_been_held_back_below(morning: Lake) -> None:
    """Silver has no such reading; the quarantine has records, and nobody can tell of which window."""
    found = asked(morning, "d9,temperature,2026-11-20T09:00", SIGNAL)

    assert found.verdict is Verdict.UNKNOWN
    assert "held" in found.sentence
