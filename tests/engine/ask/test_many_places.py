"""Every record of bronze is explained, one by one and many at once, also after maintenance has put its file together with others."""

from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from fleet.silver import device_telemetry as silver
from strandline.engine.ask.locate import Verdict, World
from strandline.engine.ask.why import explain_each, why
from strandline.engine.lake.commit.compact import Choice, merge_files
from strandline.engine.lake.lake import Lake
from tests.cli.inside import strandline, succeeded
from tests.support.events import TABLE, TOPIC, Event, reading, received
from tests.support.modes import derive
from tests.support.proofs import Times
from tests.support.rows import NOON

pytestmark = pytest.mark.slow

BATCHES = 16
KINDS = (Verdict.IN_TABLE, Verdict.DUPLICATE, Verdict.QUARANTINED, Verdict.LATE)
ALL = Choice(before_ms=2**62, at="_arrived_at")
LATER = datetime(2030, 1, 1, tzinfo=UTC)


def _events(count: int) -> tuple[list[Event], dict[str, Verdict]]:
    """Return events in batches, and by the place of each what becomes of it: nine of ten are rows."""
    events, truth = [], {}
    for number in range(count):
        happened = NOON - timedelta(hours=1) + timedelta(milliseconds=number)
        kind = KINDS[number // 10 % len(KINDS)] if number % 10 == 9 else Verdict.IN_TABLE
        named = number - 1 if kind is Verdict.DUPLICATE else number
        at = happened - timedelta(milliseconds=number - named)
        fields = {"event_id": f"e{named}", "event_at": at.isoformat()}
        if kind is Verdict.LATE:
            fields["event_at"] = (happened - timedelta(hours=3)).isoformat()
        payload = b"not json" if kind is Verdict.QUARANTINED else reading(**fields)
        batch = number * BATCHES // count
        events.append(
            Event(payload=payload, batch=batch, arrived_at=happened, ingested_at=happened)
        )
        truth[f"{TOPIC}/0/{number}"] = kind
    return events, truth


@pytest.mark.whole
@pytest.mark.prove
def test_each_record_of_bronze_is_found_after_its_files_were_put_together(
    spark: SparkSession, tmp_path: Path, times: Times
) -> None:
    """The files that a batch read stay on the disk for a day, and a look among them found nothing."""
    lake = Lake(tmp_path / "lake").open_for_writing()
    events, truth = _events(times(160, 10_000))
    received(lake, events)
    derive(spark, lake, silver.TABLE)
    world = World(lake=lake, now=NOON)

    before = {place: found.verdict for place, found in explain_each(iter(truth), None, world)}
    (merged,) = merge_files(lake.table(TABLE), ALL, LATER)
    after = {place: found.verdict for place, found in explain_each(iter(truth), None, world)}
    chosen = [*truth][:: max(len(truth) // 40, 1)]
    alone = {place: why(place, None, world).verdict for place in chosen}

    assert merged.files == BATCHES
    assert after == before == truth
    assert alone == {place: truth[place] for place in chosen}


def test_many_events_get_a_line_each_and_the_verdicts_are_counted(morning: Lake) -> None:
    """In their order, by place and by key; what is not there yet is explained as it is alone."""
    events = ["device-telemetry/0/0", "b", "device-telemetry/1/2", "device-telemetry/0/2"]

    answer = succeeded("why", *events, "--quick", "--lake", morning.root)
    nothing = strandline("why", "-", "--lake", morning.root)
    wrong = strandline("why", events[0], "no-topic/1/2", "--lake", morning.root)

    lines = [line.split("\t") for line in answer.out.splitlines()]
    assert [line[0] for line in lines] == events
    assert [line[2] for line in lines] == [
        "in the table",
        "in the table",
        "quarantined",
        "duplicate",
    ]
    assert {*answer.err.splitlines()} == {"2 in the table", "1 quarantined", "1 duplicate"}
    assert (nothing.code, "no event was named on the standard input" in nothing.err) == (2, True)
    assert (wrong.code, "no table reads a topic no-topic" in wrong.err) == (2, True)


@pytest.mark.whole
def test_a_record_that_waits_is_found_by_its_key_also_when_its_file_was_put_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Its new file has records that were read as well; the ledger says which were not."""
    lake = Lake(tmp_path / "lake").open_for_writing()
    events, truth = _events(160)
    received(lake, events[:120])
    derive(spark, lake, silver.TABLE)
    received(lake, events[120:])
    [*merge_files(lake.table(TABLE), ALL, LATER)]
    world = World(lake=lake, now=NOON)

    waiting = why("e130", silver.TABLE, world)
    answer = Counter(found.verdict for _, found in explain_each(iter(truth), None, world))

    assert waiting.verdict is Verdict.NOT_READ_YET
    assert waiting.evidence["offset"] == f"{TOPIC}/0/130"
    assert answer[Verdict.NOT_READ_YET] == 40
    assert answer[Verdict.UNACCOUNTED] == 0
