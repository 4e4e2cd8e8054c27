"""A model is trained, refused by its check, promoted and rolled back; four modes give each event the same score."""

import json
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from secrets import token_hex

import pytest
from pyspark.sql import SparkSession

from fleet.bronze import network_connections as bronze
from fleet.models.unusual_traffic import MODEL
from fleet.silver import network_connections as silver
from strandline.alerting.alert_rule import model_rule
from strandline.alerting.live import feeds
from strandline.core.errors import DefinitionError, TransientError
from strandline.core.model import Clusters, Demand, Model
from strandline.core.stateful import Batch, RealTime
from strandline.core.topic import Topic
from strandline.engine.flow import feed_query
from strandline.engine.flow.feed_ledger import FeedLedger
from strandline.engine.flow.runner import Site
from strandline.engine.lake import shelves
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.locks import lease
from strandline.engine.lake.open_table import opened
from strandline.engine.learning.promote_model import Desk, feed_ran_until, index
from strandline.engine.learning.train_model import train
from strandline.engine.proof import daily_report
from strandline.engine.repair import rebuild
from strandline.engine.repair.closed_range import Span
from tests.engine.records import make
from tests.support import lakes
from tests.support.feeds import records
from tests.support.modes import derive, stream
from tests.support.rows import NOON, NULL, Row, at, shown
from tests.support.traffic import DAY, commits_of, connected, plan, sent

pytestmark = pytest.mark.core

HOUR = timedelta(hours=1)
FIRST, SECOND = plan(3_000), plan(600, NOON, seed=9, planted=0.4)
"""The day that is learnt from, and the day that is scored."""


def desk(lake: Lake, model: Model = MODEL) -> Desk:
    return Desk(lake=lake, model=model, clock=lambda: NOON, by="a test")


@pytest.fixture(scope="module")
def learnt(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Return a lake with a day of unscored rows, and three terms of the day after: two versions, and a rollback."""
    lake = Lake(lakes.place(tmp_path_factory.mktemp("learnt"))).open_for_writing()
    connected(spark, lake, FIRST)
    derive(spark, lake, MODEL.of)
    whole = train(spark, MODEL, lake, Span(since=NOON - DAY, until=NOON), NOON)
    other = replace(MODEL, estimator=Clusters(count=1), flags=Decimal("0.02"))
    distance = train(spark, other, lake, Span(since=NOON - DAY, until=NOON), NOON)
    mine = desk(lake, replace(MODEL, check=(Demand(metric="rows", least=1),)))
    mine.promote(whole["version"], NOON)
    mine.promote(distance["version"], NOON + 8 * HOUR)
    mine.roll_back(NOON + 16 * HOUR)
    return lake


@pytest.fixture(scope="module")
def batch(spark: SparkSession, learnt: Lake) -> list[Row]:
    """Return the rows that a batch gives the day after."""
    lake = beside(learnt, "batch")
    connected(spark, lake, SECOND)
    derive(spark, lake, MODEL.of, mode=Batch())
    return answer(lake)


def beside(learnt: Lake, name: str) -> Lake:
    """Return an empty lake with the same terms."""
    lake = Lake(learnt.root.parent / f"{learnt.root.name}-{name}").open_for_writing()
    shelves.carry(learnt, lake, [MODEL.name])
    return lake


def answer(lake: Lake) -> list[Row]:
    return shown(opened(lake.table(MODEL.of)).to_pyarrow_table().to_pylist())


def test_each_row_is_scored_by_the_version_of_its_time(batch: list[Row], learnt: Lake) -> None:
    one, two, back = (each.version for each in shelves.terms(learnt, MODEL.name).every)
    terms = {(at(row["event_at"]) - NOON) // (8 * HOUR): row["model_version"] for row in batch}

    assert back == one != two
    assert {n: v for n, v in terms.items() if n >= 0} == {0: one, 1: two, 2: one}
    assert len(batch) == SECOND.events
    assert {row["is_unusual"] for row in batch} == {"True", "False"}


@pytest.mark.whole
@pytest.mark.parametrize("mode", ["catch-up", "micro-batch"])
def test_a_stream_gives_the_rows_of_the_batch(
    spark: SparkSession, learnt: Lake, batch: list[Row], mode: str
) -> None:
    """The day comes in three commits, each with a third of it; what is promoted then changes while a stream runs."""
    lake = beside(learnt, mode)
    thirds = [*commits_of(SECOND, 3)]
    if mode == "catch-up":
        for third in thirds:
            connected(spark, lake, SECOND, third)
            derive(spark, lake, MODEL.of)
    else:
        known = shelves.terms(lake, MODEL.name)
        shelves.restore(lake, MODEL.name, known, replace(known, every=known.every[:2]))
        connected(spark, lake, SECOND, thirds.pop(0))

        def take_in(third: range) -> None:
            if third == [*commits_of(SECOND, 3)][-1]:
                desk(lake).roll_back(NOON + 16 * HOUR)
            connected(spark, lake, SECOND, third)

        stream(spark, lake, MODEL.of, thirds, take_in)

    assert answer(lake) == batch


@pytest.mark.whole
@pytest.mark.kafka
def test_real_time_gives_the_scores_of_the_batch(
    spark: SparkSession, lake: Lake, kafka: str, learnt: Lake, batch: list[Row]
) -> None:
    """With a threshold that every score reaches, so that each event is an alert with its score."""
    mode = RealTime(every=5.0)
    source, sink = (Topic(name=f"t-{token_hex(4)}", partitions=1) for _ in range(2))
    make(kafka, source)
    make(kafka, sink)
    reached = [
        (since, trained and replace(trained, threshold="-999999999"))
        for since, trained in shelves.in_force(learnt, MODEL.name)
    ]
    rule = model_rule(MODEL, reached)
    assert rule is not None
    (plain,) = feeds([rule])
    table = replace(silver.TABLE, reads=(replace(bronze.TABLE, reads=(source,)),))
    feed = replace(plain, of=table, to=sink)
    sent(kafka, source, SECOND)
    books = FeedLedger(spark, feed, mode, lake, address=kafka, options={})
    begins = books.begin(from_the_first=True)
    query = feed_query.start(
        spark, feed, mode, lake, kafka=feed_query.client(kafka, {}), begins=begins
    )
    try:
        wait(lambda: len(records(kafka, sink)) == SECOND.events)
    finally:
        query.stop()
        books.close()

    events = [json.loads(json.loads(each.value() or b"")["event"]) for each in records(kafka, sink)]
    assert {
        each["connection_id"]: (each["model_version"], f"{Decimal(str(each['score'])):.6f}")
        for each in events
    } == {row["connection_id"]: (row["model_version"], row["score"]) for row in batch}


@pytest.mark.whole
def test_history_from_before_the_first_promotion_is_scored_by_a_rebuild(
    spark: SparkSession, learnt: Lake, batch: list[Row]
) -> None:
    """And every row of the time of a term keeps its score."""
    lake = beside(learnt, "history")
    for day in (FIRST, SECOND):
        connected(spark, lake, day)
        derive(spark, lake, MODEL.of)
    before = answer(lake)
    first = str(shelves.terms(lake, MODEL.name).every[0].version)
    mine = desk(lake, replace(MODEL, check=(Demand(metric="rows", least=1),)))

    with pytest.raises(DefinitionError, match="have the score of their time"):
        mine.rescore(first, NOON)
    mine.rescore(first, NOON - 2 * DAY)
    site = Site(spark=spark, clock=lambda: NOON)
    rebuild.rebuild(MODEL.of, lake, site)
    rebuild.promote(MODEL.of, lake, site)

    after = answer(lake)
    ids = {row["connection_id"] for row in batch}
    assert [row for row in after if row["connection_id"] in ids] == batch
    assert {row["model_version"] for row in before if row["connection_id"] not in ids} == {NULL}
    assert {row["model_version"] for row in after if row["connection_id"] not in ids} == {first}


@pytest.mark.kafka
def test_a_term_of_time_that_an_alert_feed_has_judged_is_refused(
    spark: SparkSession, lake: Lake, kafka: str, learnt: Lake
) -> None:
    """The feed judges an event before the table has it, so that the table has no row does not suffice."""
    source, sink = (Topic(name=f"t-{token_hex(4)}", partitions=1) for _ in range(2))
    make(kafka, source)
    make(kafka, sink)
    shelves.carry(learnt, lake, [MODEL.name])
    rule = model_rule(MODEL, shelves.in_force(lake, MODEL.name))
    assert rule is not None
    (plain,) = feeds([rule])
    table = replace(silver.TABLE, reads=(replace(bronze.TABLE, reads=(source,)),))
    feed = replace(plain, of=table, to=sink)
    books = FeedLedger(spark, feed, RealTime(), lake, address=kafka, options={})
    books.begin(from_the_first=True)
    books.close()
    ran = feed_ran_until(lake, MODEL.name)
    assert ran is not None
    today = replace(desk(lake), clock=lambda: ran + timedelta(hours=1))

    with pytest.raises(DefinitionError, match="has judged events by unusual_traffic until"):
        today.roll_back(ran + MODEL.margin - timedelta(seconds=1))
    with lease(spark, feed, lake), pytest.raises(TransientError, match="may have judged events"):
        today.roll_back(ran + MODEL.margin)
    past = today.roll_back(ran + MODEL.margin)

    assert shelves.terms(lake, MODEL.name).every[-1] == past


def test_a_version_that_misses_its_check_is_refused_with_the_reason(
    spark: SparkSession, learnt: Lake
) -> None:
    lake = beside(learnt, "refused")
    lakes.copy(learnt.table(MODEL.of), lake.table(MODEL.of))
    short = train(spark, MODEL, lake, Span(since=NOON - 4 * HOUR, until=NOON), NOON)

    with pytest.raises(DefinitionError, match=r"rows is \d+, and the check demands 500 or more"):
        desk(lake).promote(short["version"], NOON + 20 * HOUR)

    assert [line["what"] for line in shelves.history(lake, MODEL.name)] == ["refused"]
    assert len(shelves.terms(lake, MODEL.name).every) == 3


def test_a_term_of_time_that_is_scored_is_refused(learnt: Lake) -> None:
    with pytest.raises(DefinitionError, match="on are written, with the score of their time"):
        desk(learnt).roll_back(NOON - HOUR)


@pytest.mark.whole
def test_rows_keep_the_score_of_a_version_that_was_rolled_back(
    spark: SparkSession, learnt: Lake, batch: list[Row]
) -> None:
    """A backfill next year gives this year's score."""
    lake = beside(learnt, "later")
    later = desk(lake)
    later.roll_back(NOON + 30 * HOUR)
    connected(spark, lake, SECOND)
    derive(spark, lake, MODEL.of, mode=Batch())

    assert shelves.terms(lake, MODEL.name).stack == []
    assert answer(lake) == batch


def test_the_report_warns_of_a_day_that_is_not_like_the_training(
    learnt: Lake, batch: list[Row]
) -> None:
    """Of the day that is scored, two in five carry data off; of the day that was learnt from, three in a hundred."""
    lake = Lake(learnt.root.parent / f"{learnt.root.name}-batch")
    first = shelves.terms(learnt, MODEL.name).every[0].version

    days = daily_report.by_day([MODEL.of], lake, [NOON.date(), NOON.date() + DAY])

    known = days[MODEL.of.id][NOON.date()].known
    found = {each.of: each for each in known if each.version == first}
    assert {*found} == {"kilobytes_out", "kilobytes_in", "is_remote_shell", "score"}
    assert found["score"].warns
    assert found["kilobytes_out"].psi == pytest.approx(
        index(found["kilobytes_out"].learnt, found["kilobytes_out"].shares), abs=0.001
    )
    assert all(each.rows <= len(batch) for each in found.values())
    assert any(
        "score of the model unusual_traffic has moved" in why
        for why in daily_report.warnings(days[MODEL.of.id])[NOON.date()]
    )


@pytest.mark.usefixtures("batch")
def test_the_report_is_written_without_a_version_that_is_gone(learnt: Lake) -> None:
    """With a warning of the day that says what is missing."""
    lake = Lake(learnt.root.parent / f"{learnt.root.name}-gone")
    lakes.copy(
        Lake(learnt.root.parent / f"{learnt.root.name}-batch").table(MODEL.of), lake.table(MODEL.of)
    )

    days = daily_report.by_day([MODEL.of], lake, [NOON.date()])[MODEL.of.id]

    assert daily_report.last(days) == ()
    assert "the model unusual_traffic has no version" in daily_report.warnings(days)[NOON.date()][0]


def wait(until: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not until():
        assert time.monotonic() < deadline
        time.sleep(0.1)
