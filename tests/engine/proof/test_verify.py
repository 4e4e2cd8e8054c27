"""A certificate is equal when every way to compute a table gives the live rows; else it has the rows that differ."""

import random
import re
from datetime import datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core import stateful
from strandline.core.errors import DefinitionError
from strandline.core.topic import NOTHING_ARRIVED, PLACE, RECEIVED
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow import plan
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import BATCH, IMPORT, PARTITION, part_of_imports
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from strandline.engine.lake.snapshot_files import link_commit
from strandline.engine.proof.certificate import Certificate, kept, status
from strandline.engine.proof.trial_lakes import Log, resplit
from strandline.engine.proof.verify import Trial, refuse_unsettled, verify
from strandline.engine.repair.closed_range import Span
from tests.engine.written import entry, numbers, small_lake, written
from tests.support import by_hand, lakes
from tests.support.events import TABLE, TOPIC, Event, reading, received
from tests.support.logs import dealt, random_log
from tests.support.modes import derive
from tests.support.proofs import Times
from tests.support.rows import NOON

pytestmark = pytest.mark.core

TABLES = (silver.TABLE, gold.TABLE)
EVENTS = 150


@pytest.fixture(scope="module")
def made(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Make a lake in which a stream computed some dirty events from three commits."""
    lake = Lake(lakes.place(tmp_path_factory.mktemp("made"))).open_for_writing()
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")  # noqa: T201  # shown when a test fails
    chance = random.Random(seed)  # noqa: S311  # no secret
    received(lake, [each.event for each in dealt(chance, random_log(chance, EVENTS), batches=3)])
    derive(spark, lake, *TABLES)
    return lake


@pytest.fixture
def live(made: Lake, anywhere: Place) -> Lake:
    """Return a copy of it, for one test alone."""
    lakes.copy(made.root, anywhere / "lake")
    return Lake(anywhere / "lake")


def site(spark: SparkSession) -> Site:
    return Site(spark=spark, clock=lambda: NOON)


def test_rows_of_an_interrupted_import_are_named_with_the_verb_that_brings_them(
    anywhere: Place,
) -> None:
    """`strandline run` reads none of them, however often it is typed."""
    lake = small_lake(anywhere / "lake")
    ends = {part_of_imports(TABLE.topics[0].name): (0, 4)}
    words = entry(
        TABLE, mode=IMPORT, offsets=ends, imported=ends, read=4, good=4, since="0", until="1"
    )
    written(lake.table(TABLE), numbers(4), words.encoded())

    with pytest.raises(DefinitionError, match=r"4 rows of files .* not in silver") as error:
        refuse_unsettled([silver.TABLE], lake)
    assert "`strandline import` again" in error.value.hint


@pytest.mark.whole
@pytest.mark.prove
@pytest.mark.slow
def test_a_sound_table_is_certified_with_its_trial(
    spark: SparkSession, live: Lake, times: Times
) -> None:
    """The stream runs in a process of its own, and is killed once on the way."""
    trial = Trial(splits=times(2, 3), kills=1, seed=11)
    lines: list[str] = []

    found = verify(TABLES, live, trial, site(spark), lines.append)

    messages = "\n".join(lines)
    assert f"{TABLE.id}: cutting its log" in messages
    for each in found:
        assert f"{each.table}: computing it as one batch" in messages
        for other in ("one batch", "a stream"):
            assert re.search(
                rf"{each.table}: {each.rows} rows compared with {other} in .*, equal", messages
            )
    assert [(each.table, each.equal, each.differences) for each in found] == [
        (table.id, True, ()) for table in TABLES
    ]
    assert all((each.splits, each.kills, each.seed) == (trial.splits, 1, 11) for each in found)
    assert found[0].rows == EVENTS - balance(silver.TABLE, live).duplicates
    assert found[0].versions[TABLE.id] == opened(live.table(TABLE)).version()
    assert [kept(table, live) for table in TABLES] == found
    assert [status(table, live) for table in TABLES] == ["equal", "equal"]
    assert [*(live.root / "_verify").files()] == []

    if times(0, 1):
        a_range_is_certified_beside_them(spark, live, found[1])


def a_range_is_certified_beside_them(spark: SparkSession, live: Lake, whole: Certificate) -> None:
    """See that a range has a certificate of its own, and that of all rows stays."""
    span = Span(since=NOON - timedelta(hours=4), until=NOON - timedelta(hours=2))
    (part,) = verify([gold.TABLE], live, Trial(splits=1, kills=0, seed=1, span=span), site(spark))

    assert part.equal
    assert 0 < part.rows < whole.rows
    assert (part.since, part.until) == (span.since.isoformat(), span.until.isoformat())
    assert kept(gold.TABLE, live, is_whole=False) == part
    assert kept(gold.TABLE, live) == whole


@pytest.mark.slow
def test_an_operator_that_depends_on_chance_is_found_and_its_rows_are_shown(
    spark: SparkSession, live: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the batch keeps the last of several copies, and the live table has the first."""

    def last_copies(rows: DataFrame, same: tuple[str, ...], _order: tuple[str, ...]) -> DataFrame:
        backwards = rows.withColumns({name: -rows[name] for name in ("_batch", "_offset")})
        kept = stateful.first_copies(backwards, same, ("_batch", "_offset"))
        return kept.withColumns({name: -kept[name] for name in ("_batch", "_offset")})

    monkeypatch.setattr(plan, "first_copies", last_copies)

    (found,) = verify([silver.TABLE], live, Trial(splits=1, kills=0, seed=1), site(spark))

    assert not found.equal
    assert any("are not in one batch" in line for line in found.differences)
    assert any(line.startswith("silver.device_telemetry: only live") for line in found.differences)
    assert status(silver.TABLE, live) == "NOT EQUAL"


def test_a_table_that_lags_is_not_compared(spark: SparkSession, live: Lake) -> None:
    """A difference would prove nothing."""
    received(live, [each.event for each in random_log(random.Random(1), 5)])  # noqa: S311  # no secret

    with pytest.raises(DefinitionError, match="5 rows behind"):
        verify([gold.TABLE], live, Trial(splits=1, kills=0, seed=1), site(spark))


def test_a_table_without_a_certificate_has_no_status(live: Lake) -> None:
    assert status(gold.TABLE, live) == "none"


@pytest.mark.whole
def test_a_resplit_log_has_the_same_rows_in_order_and_in_as_many_commits(
    spark: SparkSession, live: Lake, chance: random.Random
) -> None:
    """Each commit begins after the one before it, in the order of arrival within a live commit."""
    log = Log(table=TABLE, path=live.table(TABLE), version=opened(live.table(TABLE)).version())
    other = Lake(live.root.parent / "other").open_for_writing()

    rows = resplit(spark, log, other, commits=4, chance=chance)

    assert len(rows) == 4
    assert sum(rows) == EVENTS
    before = spark.read.format("delta").load(str(live.table(TABLE)))
    after = spark.read.format("delta").load(str(other.table(TABLE)))
    newest = "_newest_before"  # what follows a cut within a commit knows a later one
    assert before.drop(newest).exceptAll(after.drop(newest)).count() == 0
    places = [*PLACE]
    both = before.select(*places, newest).join(
        after.select(*places, F.col(newest).alias("later")), places
    )
    assert both.where(F.col("later") < F.col(newest)).count() == 0
    commits = [
        [
            (row["_batch"], row["_arrived_at"])
            for row in opened(other.table(TABLE), version=n).to_pyarrow_table().to_pylist()
        ]
        for n in range(1, 5)
    ]
    seen: set[object] = set()
    for commit in commits:
        added = [place for place in commit if place not in seen]
        assert not seen or not added or min(added) >= max(seen)  # type: ignore[type-var]  # places are compared as tuples
        seen |= set(commit)


def test_what_kafka_had_before_the_history_is_in_the_first_commit_with_it(
    spark: SparkSession, anywhere: Place, chance: random.Random
) -> None:
    """A stream that begins with the history alone drops these records: from its third batch on they are below its watermark."""
    lake, other = (Lake(anywhere / name).open_for_writing() for name in ("live", "cut"))
    shown = Lake(anywhere / "shown").open_for_writing()
    hours = [timedelta(hours=each) for each in (9, 8, 7, 2, 1)]
    before, history, later = hours[:2], hours[2:4], hours[4:]
    received(lake, [_at(NOON - each, batch) for batch, each in enumerate(before)])
    _imported_first(lake, [NOON - each for each in history])
    received(lake, [_at(NOON - each) for each in later])
    bronze = lake.table(TABLE)
    log = Log(table=TABLE, path=bronze, version=opened(bronze).version())

    rows = resplit(spark, log, other, commits=4, chance=chance)

    assert rows == [4, 1, 0]
    for number in range(3):
        link_commit(other.table(TABLE), shown.table(TABLE), number)
        derive(spark, shown, silver.TABLE) if number else None
    sheet = balance(silver.TABLE, shown)
    assert (sheet.good, sheet.quarantined, sheet.faults) == (5, {}, [])


def _at(moment: datetime, batch: int = 0) -> Event:
    name = moment.isoformat()
    return Event(
        payload=reading(event_id=name, event_at=name),
        batch=batch,
        arrived_at=moment,
        ingested_at=NOON,
    )


def _imported_first(lake: Lake, moments: list[datetime]) -> None:
    """Commit history as an import does that comes before any stream has read a row."""
    rows: list[tuple[object, ...]] = [
        (TOPIC, PARTITION, n, at, None, _at(at).payload, [], BATCH, NOON, NOTHING_ARRIVED)
        for n, at in enumerate(moments)
    ]
    ends = {part_of_imports(TOPIC): (0, len(rows))}
    words = entry(
        TABLE,
        mode=IMPORT,
        offsets=ends,
        imported=ends,
        since=min(moments).isoformat(),
        until=max(moments).isoformat(),
        read=len(rows),
        good=len(rows),
        came=len(rows),
        written=len(rows),
        newest_arrival=max(moments).isoformat(),
    )
    by_hand.commit(lake.table(TABLE), [by_hand.table(RECEIVED, rows)], words.encoded())
