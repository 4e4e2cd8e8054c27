"""A key that no table has is searched in bronze; where that is impossible, the verdict is not ``never produced``."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest
from deltalake import DeltaTable
from strandline import catalog

from fleet.silver import device_telemetry as silver
from strandline.engine.ask.locate import Finding, Verdict, World
from strandline.engine.ask.why import why
from strandline.engine.lake.lake import Lake
from tests.support.rows import NOON

BRONZE = silver.TABLE.upstream[0]
SIGNAL = "gold.device_signal_10m"


def asked(lake: Lake, what: str, table: str | None = None, **world: object) -> Finding:
    outside = replace(World(lake=lake, now=NOON), **world)  # type: ignore[arg-type]  # a test's own
    return why(what, catalog.find(table) if table else None, outside)


@pytest.fixture
def robbed(morning: Lake) -> Lake:
    """Return a lake whose silver lacks a row that bronze has."""
    DeltaTable(morning.table(silver.TABLE)).delete("event_id = 'd'")
    return morning


@pytest.mark.whole
@pytest.mark.parametrize("table", [None, silver.TABLE.id, SIGNAL])
def test_an_event_that_bronze_has_was_produced(robbed: Lake, table: str | None) -> None:
    """The answer is the one for its offset, with the offset."""
    finding = asked(robbed, "d", table)

    assert finding.verdict is Verdict.UNACCOUNTED
    assert finding.evidence["offset"] == "device-telemetry/0/3"
    assert finding.table == silver.TABLE.id


def test_what_the_watermark_dropped_was_produced(robbed: Lake) -> None:
    """It is in neither silver nor the quarantine, and once keys were searched only there."""
    log = robbed.table(silver.TABLE) / "_delta_log"
    for file in log.local.glob("*.json"):
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:
            entry = line.get("commitInfo", {}).get("userMetadata")
            if entry:
                line["commitInfo"]["userMetadata"] = json.dumps(
                    json.loads(entry) | {"dropped_by_watermark": 1}
                )
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))

    finding = asked(robbed, "d")

    assert (finding.verdict, finding.evidence["dropped"]) == (Verdict.DROPPED, 1)


def test_a_key_that_another_event_mentions_is_not_taken_for_it(morning: Lake) -> None:
    """The key is the device, which is in the payload of every event, and the events are in the table."""
    finding = asked(morning, "d1", silver.TABLE.id)

    assert finding.verdict is Verdict.UNKNOWN  # no broker could be asked
    assert finding.evidence["searched_in_bronze"] == 12


def test_the_search_shows_its_progress(morning: Lake) -> None:
    """In records of bronze, which may have many."""
    searches: list[tuple[str, int, list[int]]] = []

    @contextmanager
    def progress(what: str, total: int) -> Iterator[object]:
        done: list[int] = []
        searches.append((what, total, done))
        yield done.append

    asked(morning, "no-such-key", silver.TABLE.id, progress=progress)

    ((what, total, done),) = searches
    assert BRONZE.id in what
    assert (total, done[-1]) == (12, 12)


def test_without_a_search_of_bronze_the_verdict_is_unknown(robbed: Lake) -> None:
    """``--quick`` leaves the search out."""
    finding = asked(robbed, "d", search=False)

    assert finding.verdict is Verdict.UNKNOWN
    assert "bronze" in finding.sentence


def test_bronze_without_its_files_could_not_be_searched(morning: Lake) -> None:
    for file in morning.table(BRONZE).local.glob("*.parquet"):
        file.unlink()

    finding = asked(morning, "no-such-key", silver.TABLE.id)

    assert finding.verdict is Verdict.UNKNOWN
    assert finding.evidence["records_gone"] == 12


def test_a_table_whose_payloads_do_not_contain_its_keys_cannot_be_searched(morning: Lake) -> None:
    """Numbers in Avro, keys that a function makes; one row of silver shows whether payloads contain them."""
    path = morning.table(silver.TABLE)
    rows = DeltaTable(path)
    rows.update(updates={"event_id": "concat('made-', md5(event_id))"})

    finding = asked(morning, "made-up", silver.TABLE.id)

    assert finding.verdict is Verdict.UNKNOWN
    assert "do not contain the keys" in finding.sentence


def test_a_row_of_gold_that_is_not_there_may_have_been_held_back_below(morning: Lake) -> None:
    """Silver has no such reading; the quarantine has records, and their windows are unknown."""
    finding = asked(morning, "d9,temperature,2026-11-20T09:00", SIGNAL)

    assert finding.verdict is Verdict.UNKNOWN
    assert "held" in finding.sentence
