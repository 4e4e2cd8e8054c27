"""Beside a stream every question at a moment agrees with itself, and moments come though tables cut their source apart."""

import time
from itertools import pairwise
from statistics import median

import pytest
from pyspark.sql import SparkSession

from strandline.core.table import Table
from strandline.core.topic import Topic
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.ask.moments import noted
from strandline.engine.lake.lake import Lake
from strandline.engine.service.moment_maker import MomentMaker
from tests.support.paced import World, apart, beside
from tests.support.proofs import Times

PATIENCE = 180.0


@pytest.fixture
def world(spark: SparkSession, lake: Lake, topic: Topic, kafka: str) -> World:
    return World(spark, lake, topic, kafka)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.whole
@pytest.mark.prove
@pytest.mark.timeout(7200)
def test_questions_at_a_moment_agree_while_a_thousand_events_a_second_come(
    world: World, times: Times, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bronze is silver, copies, held and unrouted, and closed windows are silver; the same questions without a moment are not."""
    reads, lake = times(20, 1_000), world.lake
    with beside(world, every=2, within=60) as stream:
        stream.until_gold()
        begun, first = time.monotonic(), len(noted(lake))
        wrong, plain, took = list[object](), 0, list[float]()
        for number in range(reads):
            end = "AT MOMENT LATEST" if number % 2 else f"AT MOMENT {noted(lake)[-1].number}"
            since = time.monotonic()
            answer = stream.answered(end)
            took.append(time.monotonic() - since)
            if differences := apart(answer):
                wrong.append((end, answer, differences))
            plain += bool(apart(stream.answered("")))
        lasted, made = time.monotonic() - begun, noted(lake)[first - 1 :]
        sent = stream.sender.sent

    with capsys.disabled():
        print(  # noqa: T201  # what a proof saw
            f"\n{reads:,} reads at a moment in {lasted:.0f} s beside {sent:,} events: {len(wrong)} wrong, a read took "
            f"{median(took) * 1000:.0f} ms; of {reads:,} without one {plain:,} failed; {len(made) - 1:,} moments came meanwhile"
        )
    assert not wrong, wrong[:3]
    assert plain > reads / 2, "plain questions did not fail, so the others prove nothing"
    gaps = [(b.at - a.at).total_seconds() for a, b in pairwise(made)]
    assert len(made) - 1 >= lasted // 60, gaps
    assert max(gaps, default=0) <= 60, gaps  # a minute
    assert all(balance(each, lake).balanced for each in stream.tables)


@pytest.mark.kafka
@pytest.mark.slow
@pytest.mark.whole
def test_bronze_waits_where_no_moment_comes_by_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lets its readers catch up, and goes on; what comes meanwhile is read afterwards."""
    held = list[bool]()
    holds = MomentMaker.holds

    def noticed(self: MomentMaker, table: Table) -> bool:
        found = holds(self, table)
        held.append(found)
        return found

    monkeypatch.setattr(MomentMaker, "holds", noticed)
    lake = world.lake
    with beside(world, every=0.5, within=0.01) as stream:
        stream.until_gold()
        assert any(held)
        before = noted(lake)[-1].number
        due = time.monotonic() + PATIENCE
        while noted(lake)[-1].number < before + 3:
            assert time.monotonic() < due
            time.sleep(0.1)
        assert not apart(stream.answered("AT MOMENT LATEST"))
