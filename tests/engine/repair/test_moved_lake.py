"""A lake whose topic was moved to another cluster is asked, verified, rebuilt, forgotten from and restored like any other."""

import pytest
from pyspark.sql import SparkSession

from fleet.silver import device_telemetry as silver
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.routes import said
from strandline.engine.ask.locate import Spot, Verdict, World
from strandline.engine.ask.why import why
from strandline.engine.flow.runner import Site
from strandline.engine.kafka.topic_log import STAY
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry, last_entry
from strandline.engine.lake.place import Place
from strandline.engine.lake.snapshot_files import Taken
from strandline.engine.proof.verify import Trial, verify
from strandline.engine.repair.closed_range import rewind
from strandline.engine.repair.forget import Forgetting, carry_out
from strandline.engine.repair.forget_request import Request
from strandline.engine.repair.rebuild import promote, rebuild
from strandline.engine.repair.retire import MOVE
from strandline.engine.service.snapshot import restore, take
from tests.support import by_hand
from tests.support.events import TABLE, TOPIC, readings, received
from tests.support.modes import answers_of, derive, proven
from tests.support.morning import MORNING, TABLES
from tests.support.rows import NOON
from tests.support.seeds import copied

pytestmark = [pytest.mark.slow, pytest.mark.whole]

NEW = f"""
    batch | partition      | id | device | value | event_at | arrived_at | payload
    1     | {STAY}         | d  | d1     | 4     | 09:10:00 | 12:10:02   | -
    1     | {STAY}         | j  | d17    | 8     | 12:11:00 | 12:11:01   | -
    1     | {STAY + 1}     | k  | d2     | 9     | 12:11:30 | 12:11:31   | -
    1     | {STAY + 1}     | y  | d2     | 6     | 12:12:00 | 12:12:00   | not json
    2     | {STAY}         | k  | d2     | 9     | 12:11:30 | 12:12:32   | -
    3     | {STAY}         | l  | d1     | 8     | 15:00:00 | 15:00:01   | -
"""
"""On the new cluster: what a mirror copied too late, new readings, one that is broken, a copy in another partition."""


def moved(spark: SparkSession, lake: Lake) -> None:
    """Let the morning come from one cluster and the rest from another, with the entry that `strandline move` writes between."""
    received(lake, readings(MORNING))
    derive(spark, lake, *TABLES)
    newest = last_entry(lake.table(TABLE))
    assert newest is not None
    ends = {part: end for part, (_, end) in newest[1].offsets.items()}
    begins = {f"{TOPIC}/{STAY}": 0, f"{TOPIC}/{STAY + 1}": 0}
    entry = Entry(
        table=TABLE.id,
        mode=MOVE,
        stream=f"{TOPIC}@new",
        batch=newest[1].batch + 1,
        source=newest[1].source,
        offsets={part: (at, at) for part, at in (ends | begins).items()},
        moved={part: (at, at) for part, at in ends.items()},
        newest_arrival=newest[1].newest_arrival,
    )
    by_hand.commit(lake.table(TABLE), [], entry.encoded())
    received(lake, readings(NEW))
    derive(spark, lake, *TABLES)


@pytest.fixture
def lake(spark: SparkSession, lake: Lake) -> Lake:
    """Return a lake that was moved, for one test alone."""
    return copied(lake, "moved", lambda seed: moved(spark, seed))


@pytest.mark.prove(alone="a stream in a process of its own")
def test_its_rows_are_those_that_the_log_implies(spark: SparkSession, lake: Lake) -> None:
    site = Site(spark=spark, clock=lambda: NOON)

    found = verify(TABLES, lake, Trial(splits=3, kills=0), site)

    assert [(each.table, each.differences) for each in found] == [(t.id, ()) for t in TABLES]


def test_each_of_its_records_has_an_answer(lake: Lake) -> None:
    """The same place on both clusters is two records; behind the end of the former one there is none."""
    assert proven(lake, TABLES)
    assert len(said(TABLE, lake)) == 2
    world = World(lake=lake, now=NOON)
    answers = {
        place: why(f"{TOPIC}/{place}", silver.TABLE, world).verdict
        for place in ("0/0", f"{STAY}/1", f"{STAY}/0", f"{STAY + 1}/1", f"{STAY}/2", "0/900")
    }
    assert answers == {
        "0/0": Verdict.IN_TABLE,
        f"{STAY}/1": Verdict.IN_TABLE,
        f"{STAY}/0": Verdict.LATE,
        f"{STAY + 1}/1": Verdict.QUARANTINED,
        f"{STAY}/2": Verdict.DUPLICATE,
        "0/900": Verdict.NEVER_PRODUCED,
    }
    behind = why(f"{TOPIC}/0/900", silver.TABLE, world)
    assert "was moved to another cluster" in behind.sentence
    plan = rewind(silver.TABLE, lake, Spot(TOPIC, STAY, 1))
    assert plan.records == 3


def test_it_is_rebuilt_restored_and_forgotten_from(
    spark: SparkSession, lake: Lake, tmp_path_factory: pytest.TempPathFactory
) -> None:
    site, folder = Site(spark=spark, clock=lambda: NOON), tmp_path_factory.mktemp("copies")
    before = answers_of(lake)
    for table in TABLES:
        rebuild(table, lake, site)
        promote(table, lake, site)
    assert answers_of(lake) == before
    assert proven(lake, TABLES)

    taken = take(lake, TABLES, Place.of(folder / "backup"), NOON)
    into = Lake(folder / "restored" / "lake")
    restore(Taken(taken.path), into, NOON)
    assert answers_of(into) == before
    assert said(TABLE, into) == said(TABLE, lake)
    received(into, readings(NEW.replace("| l ", "| m ").replace("15:0", "15:1")))
    derive(spark, into, *TABLES)
    assert proven(into, TABLES)

    work = Forgetting(spark, lake, request := Request.of("device_id = 'd17'"))
    done = [*carry_out(work, lake, request, lambda: NOON, [*work.parts()])]
    work.close()
    assert {part.table for part in done if part.rows} >= {TABLE.id, silver.TABLE.id}
    assert balance(TABLE, lake).forgotten == 1
    assert [row for row in answers_of(lake).of("silver", "device_id") if "d17" in row] == []
    assert proven(lake, TABLES)
