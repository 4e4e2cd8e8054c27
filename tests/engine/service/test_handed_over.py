"""A running stream hands one table over, goes on with the others meanwhile, and takes it back."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import TransientError
from strandline.core.stateful import MicroBatch
from strandline.core.table import Table
from strandline.engine.accounting.held_records import Signed
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import (
    EXPIRES,
    HasWriterError,
    asker,
    handed_over,
    is_written,
    lease,
)
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.repair.rebuild import promote, rebuild, undo
from strandline.engine.repair.retire import retire
from strandline.engine.runtime.processes import own
from strandline.engine.service.stream_host import Host
from tests.engine.service.test_failing import Served
from tests.support.events import TABLE as BRONZE
from tests.support.events import readings, received
from tests.support.modes import answers_of, derive, has_caught_up, proven, twin
from tests.support.morning import LATER, TABLES
from tests.support.rows import NOON

pytestmark = pytest.mark.slow


@contextmanager
def served(lake: Lake, site: Site) -> Iterator[Served]:
    stop = threading.Event()
    stream = Served(Host(TABLES, MicroBatch(every=0.05), lake, site, stop), stop)
    try:
        yield stream
    finally:
        stop.set()
        error = stream.ended()
    assert error is None


@pytest.mark.whole
def test_a_promotion_beside_its_stream_needs_no_pause_and_the_other_tables_go_on(
    spark: SparkSession, morning: Lake
) -> None:
    """The stream ends its batch, the shadow reads up to there, the stream goes on from there; undone likewise."""
    site = Site(spark=spark, clock=lambda: NOON)
    other = twin(morning, "undisturbed")
    rebuild(gold.TABLE, morning, site)
    with served(morning, site) as stream:
        stream.until(lambda: all(is_written(each, morning) for each in TABLES))
        with handed_over(gold.TABLE, morning, site.clock, "promote"):
            assert not is_written(gold.TABLE, morning)
            assert "promote by process" in str(stream.host.pulses[gold.TABLE.id].away)
            received(morning, readings(LATER))
            stream.until(lambda: has_caught_up(morning, silver.TABLE))
            promoted = promote(gold.TABLE, morning, site)
        stream.until(lambda: has_caught_up(morning, gold.TABLE))
        stream.until(lambda: stream.host.pulses[gold.TABLE.id].away is None)
        newest = last_entry(morning.table(gold.TABLE))
        with handed_over(gold.TABLE, morning, site.clock, "undo"):
            undo(spark, gold.TABLE, morning)
        stream.until(lambda: has_caught_up(morning, gold.TABLE))
        assert stream.host.errors == {}

    assert promoted.promoted is not None
    assert newest is not None
    assert proven(morning, TABLES)
    received(other, readings(LATER))
    derive(spark, other, *TABLES)
    assert answers_of(morning).closed == answers_of(other).closed


@pytest.mark.whole
def test_a_stream_that_takes_its_table_just_when_it_is_asked_for_it_is_waited_for(
    spark: SparkSession, morning: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It had looked for requests before there was one; refused, a person would have typed the same again."""
    site = Site(spark=spark, clock=lambda: NOON)
    looked, asked, await_turn = threading.Event(), threading.Event(), Host._await_turn

    def late(host: Host, table: Table) -> None:
        await_turn(host, table)
        if table.id == gold.TABLE.id:
            looked.set()
            asked.wait(60)

    monkeypatch.setattr(Host, "_await_turn", late)
    with served(morning, site) as stream:
        assert looked.wait(60)
        with handed_over(gold.TABLE, morning, site.clock, "undo"):
            asked.set()
            stream.until(lambda: is_written(gold.TABLE, morning))
            with lease(spark, gold.TABLE, morning):
                stream.until(lambda: stream.host.pulses[gold.TABLE.id].away is not None)
        stream.until(lambda: is_written(gold.TABLE, morning))
        assert stream.host.errors == {}

    assert proven(morning, TABLES)


def test_a_table_that_is_retired_beside_its_stream_is_left_by_it_and_the_others_go_on(
    spark: SparkSession, morning: Lake
) -> None:
    """No error, no attempt again, and no row of it in the heartbeat, by which it would count as behind."""
    site = Site(spark=spark, clock=lambda: NOON)
    with served(morning, site) as stream:
        stream.until(lambda: all(is_written(each, morning) for each in TABLES))
        with handed_over(gold.TABLE, morning, site.clock, "retire") as writer:
            retire(gold.TABLE, morning, Signed(who="ann", at=NOON, why="enough"), writer)
        stream.until(lambda: gold.TABLE.id not in stream.host.pulses)
        received(morning, readings(LATER))
        stream.until(lambda: has_caught_up(morning, silver.TABLE))
        assert stream.host.errors == {}

    assert not has_caught_up(morning, gold.TABLE)
    assert proven(morning, TABLES)


def test_a_request_of_the_dead_binds_no_stream_and_that_of_another_host_ends(morning: Lake) -> None:
    """A killed process never gives a table back, and one of another host cannot be seen."""
    clock = iter([NOON, NOON]).__next__
    request = morning.lease_of(BRONZE.id).parent / f"handover.{BRONZE.id}.json"

    def asked(at: datetime, **who: object) -> str | None:
        request.parent.make()
        request.put(json.dumps({**own(), "why": "promote", "at": NOON.isoformat(), **who}))
        return asker(BRONZE, morning, at)

    later = NOON + EXPIRES + timedelta(seconds=1)
    assert asked(later) is not None
    assert asked(NOON, started=1.0) is None
    assert asked(NOON, host="elsewhere") is not None
    with pytest.raises(TransientError, match="is handed over already: promote by process"):
        handed_over(BRONZE, morning, clock, "undo").__enter__()
    assert asked(later, host="elsewhere") is None
    request.put("torn")
    assert asker(BRONZE, morning, NOON) is None
    with handed_over(BRONZE, morning, lambda: NOON, "undo"):
        assert "undo by process" in str(asker(BRONZE, morning, NOON))
    assert not request.exists()


def test_a_writer_that_lets_nothing_go_is_named_with_the_way_on(
    spark: SparkSession, morning: Lake
) -> None:
    """A stream of an older version does not look; the request goes with the error."""
    site = Site(spark=spark, clock=lambda: NOON)
    noted: list[str] = []
    with served(morning, site) as stream:
        stream.until(lambda: is_written(gold.TABLE, morning))
        stream.host._asker = lambda _: None  # type: ignore[method-assign]  # as it was before
        with (
            pytest.raises(HasWriterError, match="was not handed over within 1 s") as caught,
            handed_over(
                gold.TABLE, morning, site.clock, "promote", note=noted.append, patience=1.0
            ),
        ):
            pass

    assert "`strandline pause`, promote again, `strandline resume`" in caught.value.hint
    assert noted
    assert asker(gold.TABLE, morning, NOON) is None
