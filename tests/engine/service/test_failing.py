"""A table that fails ends no other table: it is retried, an alarm is sent, and the stream's exit reports it."""

import errno
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession

from fleet.bronze import user_actions, user_confirmations
from fleet.silver import user_actions as actions
from strandline.core.errors import DataError, DefinitionError
from strandline.core.stateful import MicroBatch
from strandline.core.table import Table
from strandline.core.topic import Topic
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.completeness import RetiredError, Retirement, write_down
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import HasWriterError, is_written
from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.lake.store_lease import FencedError
from strandline.engine.runtime import clock
from strandline.engine.runtime.log_files import Record, logger
from strandline.engine.service import stream_host
from strandline.engine.service.stream_health import (
    LONGEST,
    Failing,
    Order,
    failing,
    heartbeat,
    watch,
)
from strandline.engine.service.stream_host import Host, Pulse
from strandline.operate.stream import StreamLog
from tests.engine.records import drop, make, put
from tests.engine.written import SILVER, entry, small_lake, written
from tests.support.rows import NOON

PATIENCE = 120
MESSAGE = "does not exist"


@pytest.fixture
def site(spark: SparkSession, clock: Callable[[], datetime], kafka: str) -> Site:
    """Return a site with a broker."""
    return Site(spark=spark, clock=clock, address=kafka)


@pytest.fixture
def tables(topic: Topic) -> tuple[Table, Table]:
    """Return two bronze tables, each with a topic of its own."""
    other = replace(topic, name=f"{topic.name}.other")
    return (
        replace(user_actions.TABLE, reads=(topic,)),
        replace(user_confirmations.TABLE, reads=(other,)),
    )


class Served:
    """A running stream, and the error with which it ended."""

    def __init__(self, host: Host, stop: threading.Event) -> None:
        """Start it."""
        self.host = host
        self.stop = stop
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        try:
            self.host.serve(lambda _: None)
        except BaseException as error:  # noqa: BLE001  # the test checks it
            self.error = error

    def until(self, seen: Callable[[], bool]) -> None:
        """Wait for a state."""
        deadline = time.monotonic() + PATIENCE
        while not seen():
            assert self._thread.is_alive(), self.error
            assert time.monotonic() < deadline, self.host.pulses
            time.sleep(0.02)

    def ended(self) -> BaseException | None:
        """Wait for its end, and return the error with which it ended."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        return self.error


@contextmanager
def served(tables: tuple[Table, ...], lake: Lake, site: Site) -> Iterator[Served]:
    stop = threading.Event()
    stream = Served(Host(tables, MicroBatch(every=0.05), lake, site, stop), stop)
    try:
        yield stream
    finally:
        stop.set()
        stream.ended()


@pytest.mark.kafka
def test_a_deleted_topic_ends_no_other_table(
    tables: tuple[Table, Table], lake: Lake, site: Site
) -> None:
    """Its table is retried without a lease; if the topic was made anew the table refuses it, and no record is skipped."""
    address = str(site.address)
    for table in tables:
        make(address, table.topics[0])
        put(address, table.topics[0], [(0, n) for n in range(5)])
    gone, other = tables
    with served(tables, lake, site) as stream:
        pulses = stream.host.pulses
        stream.until(lambda: [pulse.read for pulse in pulses.values()] == [5, 5])

        drop(address, gone.topics[0])
        stream.until(
            lambda: (fails := pulses[gone.id].failing) is not None and MESSAGE in fails.says
        )
        put(address, other.topics[0], [(0, n) for n in range(5, 10)])
        stream.until(lambda: pulses[other.id].read == 10)
        assert (is_written(gone, lake), is_written(other, lake)) == (False, True)

        make(address, gone.topics[0])
        put(address, gone.topics[0], [(0, n) for n in range(50)])
        stream.until(
            lambda: (fails := pulses[gone.id].failing) is not None and "recreated" in fails.says
        )
        assert pulses[other.id].failing is None
        stream.stop.set()
        error = stream.ended()

    assert isinstance(error, DataError)
    assert [balance(table, lake).read for table in tables] == [5, 10]
    assert all(balance(table, lake).balanced for table in tables)


@pytest.mark.whole
@pytest.mark.kafka
def test_a_table_recovers_by_itself_when_its_topic_exists(
    tables: tuple[Table, Table], lake: Lake, site: Site
) -> None:
    """The failure is cleared, also when there is nothing to read yet."""
    address = str(site.address)
    there, missing = tables
    make(address, there.topics[0])
    with served(tables, lake, site) as stream:
        pulses = stream.host.pulses
        stream.until(lambda: pulses[missing.id].failing is not None)

        make(address, missing.topics[0])
        stream.until(lambda: pulses[missing.id].failing is None)
        put(address, missing.topics[0], [(0, 0)])
        stream.until(lambda: pulses[missing.id].read == 1)
        stream.stop.set()

        assert stream.ended() is None


@pytest.mark.kafka
def test_the_stream_ends_when_no_table_can_run(
    tables: tuple[Table, Table], lake: Lake, site: Site
) -> None:
    """A table that waits for a source that was never made cannot run; then the watchdog must act."""
    missing, _ = tables
    above = replace(actions.TABLE, name="above", reads=(missing,))
    with served((missing, above), lake, site) as stream:
        assert isinstance(stream.ended(), DefinitionError)


@pytest.mark.kafka
def test_a_topic_that_is_made_anew_while_a_stream_runs_is_refused_before_anything_is_committed(
    tables: tuple[Table, Table], lake: Lake, site: Site
) -> None:
    """Also when it has more records than the old one had, so that the offsets do not show it."""
    (table, _), address = tables, str(site.address)
    (topic,) = table.topics
    make(address, topic)
    put(address, topic, [(0, n) for n in range(5)])
    is_read, batches = threading.Event(), list[object]()

    def anew() -> None:
        is_read.wait(PATIENCE)
        drop(address, topic)
        make(address, topic)
        put(address, topic, [(0, n) for n in range(50)])

    maker = threading.Thread(target=anew)
    maker.start()

    def committed(entry: object) -> None:
        batches.append(entry)
        is_read.set()
        maker.join(PATIENCE)  # between two looks, however short the time between them is

    with pytest.raises(DataError, match="recreated"):
        run(
            table,
            MicroBatch(every=0.05),
            lake,
            site=site,
            on_commit=committed,
            stopped=lambda: len(batches) > 1,
        )

    newest = last_entry(lake.table(table))
    assert newest is not None
    assert (newest[1].batch, newest[1].read) == (0, 5)


def test_the_pauses_grow_to_ten_minutes_and_unforeseen_failures_leave_their_traceback(
    lake: Lake,
) -> None:
    failure: Failing | None = None
    pauses = []
    for _ in range(12):
        try:
            raise ValueError("a mistake\nof ours")  # noqa: TRY301  # as it comes
        except ValueError as error:
            failure = failing(error, user_actions.TABLE, lake, before=failure, at=NOON.isoformat())
        pauses.append(failure.pause)

    assert pauses[:4] == [5, 10, 20, 40]
    assert pauses[-1] == LONGEST
    assert (failure.says, failure.tries, failure.kind) == (
        "ValueError: a mistake",
        12,
        "unforeseen",
    )
    log = lake.log(f"failed.{user_actions.TABLE.id}")
    assert str(log) in failure.hint
    assert "of ours" in log.local.read_text()


def test_the_log_has_each_failure_once_with_its_traceback_and_its_end() -> None:
    records: list[Record] = []
    log = StreamLog(
        logger(lambda line: records.append(json.loads(line)), lambda: NOON, as_json=True)
    )
    failure = Failing(says="no topic", hint="make it.", kind="definition", since="noon")
    pulse = Pulse(table="bronze.a", failing=failure)
    known = {"bronze.a": DefinitionError("no topic", hint="make it.", topic="a")}
    try:
        raise ValueError("a mistake of ours")  # noqa: TRY301  # as it comes
    except ValueError as error:
        unforeseen = {"bronze.a": error}

    log.look([pulse], known)
    log.look([pulse], known)
    pulse.failing = replace(failure, tries=2)
    log.look([pulse], unforeseen)
    pulse.failing = None
    log.look([pulse], {})

    first, second, last = [each for each in records if each["event"] != "progress"]
    assert (first["message"], first["tries"], first["hint"]) == ("no topic", 1, "make it.")
    assert (first["error"], first["fields"]) == ("DefinitionError", {"topic": "a"})
    assert "exception" not in first
    assert (second["tries"], second["error"]) == (2, "ValueError")
    assert "a mistake of ours" in second["exception"]
    assert (last["event"], last["table"]) == ("goes on", "bronze.a")


def test_a_fenced_table_looks_for_its_lease_every_half_minute(lake: Lake) -> None:
    """It costs a look; what fails by itself is tried after ten minutes, because each attempt computes a batch."""
    table = actions.TABLE
    fenced = FencedError("another process has taken over", hint="let it go on.")
    taken = HasWriterError("it has a writer already", hint="wait.")
    found = failing(fenced, table, lake, before=None, at="2026-11-20T12:00:00+00:00")
    for _ in range(20):
        found = failing(taken, table, lake, before=found, at="2026-11-20T13:00:00+00:00")

    assert (found.kind, found.since, found.pause) == ("fenced", "2026-11-20T12:00:00+00:00", 30.0)
    alone = failing(taken, table, lake, before=None, at="2026-11-20T12:00:00+00:00")
    assert alone.kind == "transient"


@pytest.mark.whole
def test_a_table_that_another_process_has_worked_on_is_tried_at_once(tmp_path: Path) -> None:
    """A promotion had repaired it, and it was tried again up to ten minutes later."""
    lake = small_lake(tmp_path / "lake")
    stop = threading.Event()
    site = Site(spark=cast("SparkSession", None), clock=clock.now)
    host = Host((SILVER,), MicroBatch(every=1), lake, site, stop)
    waiting = threading.Thread(target=host._await_next, args=(SILVER, 600.0), daemon=True)
    waiting.start()

    deadline = time.monotonic() + PATIENCE
    while waiting.is_alive():  # the first commit may come before it has begun to look
        assert time.monotonic() < deadline
        written(lake.table(SILVER), [{"number": 9}])
        waiting.join(1)


def test_a_failing_table_that_is_retired_is_left_at_once(tmp_path: Path) -> None:
    """It was called failing for up to ten minutes more."""
    lake = small_lake(tmp_path / "lake")
    stop = threading.Event()
    site = Site(spark=cast("SparkSession", None), clock=clock.now)
    host = Host((SILVER,), MicroBatch(every=1), lake, site, stop)
    before = host._traces(SILVER)

    write_down(SILVER.id, Retirement(who="ann", at=NOON.isoformat(), why="enough"), lake)

    assert host._traces(SILVER) != before
    with pytest.raises(RetiredError):
        host._run(SILVER)


def test_a_file_that_is_gone_is_noticed_by_the_stream_and_an_alarm(tmp_path: Path) -> None:
    """A stream reads what is new; only a look at the files sees that an older one is gone, or shorter."""
    lake = small_lake(tmp_path / "lake")
    site = Site(spark=cast("SparkSession", None), clock=clock.now)
    host = Host((SILVER,), MicroBatch(every=1), lake, site, threading.Event())
    (file, *_) = lake.table(SILVER).local.glob("*.parquet")
    host.look_at_files()
    before = host.pulses[SILVER.id].broken

    file.write_bytes(file.read_bytes()[:-1])
    host.look_at_files()

    assert before is None
    assert host.pulses[SILVER.id].broken == f"its file {file.name} is gone, or was cut"
    host._beat(is_alive=True)
    found = watch(
        Order(runs=True, at=clock.now().isoformat(), by="x"),
        heartbeat(lake, clock.now()),
        clock.now(),
    )
    assert found.tables == (SILVER.id,)
    assert "is gone, or was cut" in found.message
    file.unlink()
    host.look_at_files()
    assert host.pulses[SILVER.id].broken is not None
    assert not host._was_replaced(SILVER)


def test_a_table_whose_files_are_whole_again_is_not_ill_for_another_five_minutes(
    tmp_path: Path,
) -> None:
    """A promotion has put whole files in place, and a copy that is put back is seen by the look of the next minute."""
    lake = small_lake(tmp_path / "lake")
    site = Site(spark=cast("SparkSession", None), clock=clock.now)
    host = Host((SILVER,), MicroBatch(every=1), lake, site, threading.Event())
    (file, *_) = lake.table(SILVER).local.glob("*.parquet")
    whole = file.read_bytes()
    file.unlink()
    host._keep_house()
    assert host.pulses[SILVER.id].broken is not None

    written(lake.table(SILVER), [{"number": 9}])
    assert not host._was_replaced(SILVER)
    written(lake.table(SILVER), [{"number": 9}], entry(SILVER, promoted="a rebuild").encoded())
    assert host._was_replaced(SILVER)

    file.write_bytes(whole)
    host._keep_house()

    assert host.pulses[SILVER.id].broken is None


def test_a_table_that_lacks_a_file_and_whose_log_cannot_be_read_ends_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that was copied back with the rights of root ended the stream of all tables."""
    lake = small_lake(tmp_path / "lake")
    site = Site(spark=cast("SparkSession", None), clock=clock.now)
    host = Host((SILVER,), MicroBatch(every=1), lake, site, threading.Event())
    (file, *_) = lake.table(SILVER).local.glob("*.parquet")
    file.unlink()
    host.look_at_files()

    def refused(path: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(stream_host, "latest_version", refused)

    assert not host._was_replaced(SILVER)
    assert host.pulses[SILVER.id].broken is not None
