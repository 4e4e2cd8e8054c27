"""A batch that is not believed is not published, is not lost, and passes when an operator gives a reason."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.stateful import Batch, MicroBatch
from strandline.core.verdict import judged
from strandline.engine.accounting import batch_check, gate_files
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.accounting.batch_check import Guard, counted
from strandline.engine.accounting.gate_files import GateShutError, Where
from strandline.engine.flow.runner import Site
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries, last_entry
from strandline.engine.service.stream_host import Host
from strandline_quality.expectations import Counts, Expectation, Severity, Within
from strandline_quality.judge import Judge, judge
from strandline_quality.rules import OnFail, Rule, between
from tests.support.events import Event, frame, reading, received
from tests.support.executions import executions
from tests.support.modes import answers_of, derive, proven, twin
from tests.support.poison import AFTER, POISONED, RULE, hour, poisoned
from tests.support.rows import NOON, at
from tests.support.seeds import copied

pytestmark = [pytest.mark.slow, pytest.mark.whole]

TABLES = (silver.TABLE, gold.TABLE)


@pytest.fixture(name="poisoned")
def _poisoned(spark: SparkSession, lake: Lake) -> Lake:
    """Return a lake in which a good hour was read and a bad one waits in bronze."""
    return poisoned(spark, lake)


@pytest.fixture
def stopped(spark: SparkSession, lake: Lake) -> Lake:
    """Return the same lake, whose gate the bad hour has shut."""

    def judged(seed: Lake) -> None:
        with pytest.raises(GateShutError):
            derive(spark, poisoned(spark, seed), silver.TABLE)

    found = copied(lake, "poisoned, and stopped", judged)
    assert gate_files.shut(silver.TABLE, found) is not None
    return found


def test_a_bad_hour_is_not_published(spark: SparkSession, poisoned: Lake) -> None:
    """None of it is lost either: it waits in bronze, and the tables above keep the last rows that were believed."""
    before = answers_of(poisoned)

    for _ in range(2):  # a second try gets the same answer
        with pytest.raises(GateShutError, match="30 of 100 rows") as refused:
            derive(spark, poisoned, silver.TABLE)
        derive(spark, poisoned, gold.TABLE)

    assert "--open" in refused.value.hint
    assert answers_of(poisoned) == before
    assert proven(poisoned, TABLES)
    assert balance(silver.TABLE, poisoned).waiting == 100
    shut = gate_files.nearest_shut(gold.TABLE, poisoned)
    assert shut is not None
    assert (shut.table, shut.where, shut.rows) == (silver.TABLE.id, Where.BEFORE, 100)
    assert [found["name"] for found in shut.findings] == [RULE]
    samples = shut.samples[RULE]
    assert len(samples) == 5
    assert all(row["value"] == "999.0000" and row["signal"] == "temperature" for row in samples)


def test_an_opened_gate_lets_that_batch_pass_and_the_ledger_keeps_why(
    spark: SparkSession, stopped: Lake
) -> None:
    """The rows that break the rule stay held back; the opening publishes the seventy others."""
    gate_files.open_(silver.TABLE, stopped, because="calibration", who="on call", at="12:00")
    received(stopped, AFTER)
    derive(spark, stopped, *TABLES)

    assert proven(stopped, TABLES)
    committed = [entry for _, entry in entries(stopped.table(silver.TABLE))]
    assert [(e.read, e.good, e.opened, e.failed) for e in committed] == [
        (60, 60, None, ()),
        (100, 70, "calibration", (RULE,)),
        (60, 59, None, ()),
    ]
    assert [e.broke for e in committed] == [{}, {RULE: 30}, {RULE: 1}]
    assert gate_files.read(silver.TABLE, stopped, Where.BEFORE) is None
    other = twin(stopped, "unguarded")
    gate_files.open_all(other)
    derive(spark, other, *TABLES)
    assert answers_of(other) == answers_of(stopped)


def test_a_corrected_rule_opens_the_gate_by_itself(spark: SparkSession, stopped: Lake) -> None:
    (wide,) = [replace(r, holds="value < 1000") for r in silver.TABLE.rules if r.name == RULE]
    kept = tuple(rule for rule in silver.TABLE.rules if rule.name != RULE)

    derive(spark, stopped, replace(silver.TABLE, rules=(*kept, wide)))

    assert gate_files.read(silver.TABLE, stopped, Where.BEFORE) is None
    newest = last_entry(stopped.table(silver.TABLE))
    assert newest is not None
    assert (newest[1].good, newest[1].opened, newest[1].broke) == (100, None, {})


@pytest.mark.prove(alone="a quarter of a minute")
def test_a_gate_was_opened_for_one_batch_only(spark: SparkSession, stopped: Lake) -> None:
    gate_files.open_(silver.TABLE, stopped, because="calibration", who="on call", at="12:00")
    derive(spark, stopped, silver.TABLE)

    received(poisoned, hour("q", "09:00:00", bad=40, of=100, batch=3))

    with pytest.raises(GateShutError, match="40 of 100 rows"):
        derive(spark, stopped, silver.TABLE)


def test_a_batch_over_everything_is_judged_as_well(spark: SparkSession, poisoned: Lake) -> None:
    other = twin(poisoned, "whole")

    with pytest.raises(GateShutError, match="30 of 160 rows") as refused:
        derive(
            spark,
            other,
            replace(silver.TABLE, rules=(between("value", 0, 99, max_failed=0.1),)),
            mode=Batch(),
        )

    assert refused.value.fields["batch"] == 0
    assert balance(silver.TABLE, other).rows == 0


def test_a_table_of_one_kind_of_payload_shuts_its_gate_when_half_of_them_cannot_be_read(
    spark: SparkSession, lake: Lake
) -> None:
    """It is declared: a topic of several kinds is unread by half in a healthy lake, and only warns."""
    unread = Within(name="unread", high=0.4, severity=Severity.CRITICAL)
    table = replace(silver.TABLE, expects=(unread,))
    received(lake, hour("g", "06:00:00", bad=0, of=60, batch=0))
    derive(spark, lake, table)
    broken = [
        replace(each, payload=b"no JSON") for each in hour("b", "07:00:00", bad=0, of=40, batch=1)
    ]
    received(lake, [*broken, *hour("m", "07:00:00", bad=0, of=40, batch=1)])
    other = twin(lake, "undeclared")

    with pytest.raises(GateShutError, match="unread") as refused:
        derive(spark, lake, table)
    derive(spark, other, silver.TABLE)

    assert refused.value.fields["batch"] == 1
    assert balance(silver.TABLE, lake).waiting == 80
    newest = last_entry(other.table(silver.TABLE))
    assert newest is not None
    assert (newest[1].quarantined, newest[1].failed) == ({"malformed": 40}, ("unread",))


def test_a_rule_that_warns_keeps_the_row_and_is_reported(spark: SparkSession, lake: Lake) -> None:
    received(lake, hour("g", "06:00:00", bad=30, of=60, batch=0))
    warns = between("value", 0, 99, on_fail=OnFail.WARN)
    kept = tuple(rule for rule in silver.TABLE.rules if rule.name != RULE)

    derive(spark, lake, replace(silver.TABLE, rules=(*kept, warns)))

    newest = last_entry(lake.table(silver.TABLE))
    assert newest is not None
    entry = newest[1]
    assert (entry.good, entry.quarantined) == (60, {})
    assert (entry.broke, entry.failed) == ({warns.name: 30}, (warns.name,))
    assert entry.newest == at("06:59:00").isoformat()


def test_one_row_is_enough_for_a_rule_that_fails(spark: SparkSession, lake: Lake) -> None:
    """The samples contain no sensitive value."""
    received(lake, hour("g", "06:00:00", bad=1, of=60, batch=0))
    never = Rule(name="never", holds="value < 900", on_fail=OnFail.FAIL)
    kept = tuple(rule for rule in silver.TABLE.rules if rule.name != RULE)

    with pytest.raises(GateShutError, match="never: 1 of 60 rows"):
        derive(spark, lake, replace(silver.TABLE, rules=(*kept, never), sensitive=("device_id",)))

    shut = gate_files.shut(silver.TABLE, lake)
    assert shut is not None
    (sample,) = shut.samples["never"]
    assert (sample["device_id"], sample["event_id"]) == ("[text, 2 long]", "g0")


@pytest.mark.prove(alone="a quarter of a minute")
def test_small_batches_are_judged_together_by_any_process(spark: SparkSession, lake: Lake) -> None:
    """Half of each ten rows is bad: the third batch is stopped, and a second run does not let it pass."""
    for number, start in enumerate(("06:00:00", "07:00:00", "08:00:00")):
        received(lake, hour(f"n{number}", start, bad=5, of=10, batch=number))
        if number < 2:
            derive(spark, lake, silver.TABLE)

    for _ in range(2):
        with pytest.raises(GateShutError, match="15 of 30 rows"):
            derive(spark, lake, silver.TABLE)

    assert balance(silver.TABLE, lake).waiting == 10


def test_streams_beside_it_go_on_and_it_follows_when_the_gate_opens(
    spark: SparkSession, poisoned: Lake, clock: Callable[[], datetime]
) -> None:
    """No restart is needed."""
    stop = threading.Event()
    host = Host(TABLES, MicroBatch(every=0.05), poisoned, Site(spark=spark, clock=clock), stop)
    seen: list[str] = []

    def look(host: Host) -> None:
        gate = host.pulses[silver.TABLE.id].gate
        if gate is not None and not seen:
            seen.append(gate)
            assert host.pulses[gold.TABLE.id].gate is None
            gate_files.open_(silver.TABLE, poisoned, because="seen", who="on call", at="12:00")
        if balance(gold.TABLE, poisoned).read == 130:
            stop.set()

    limit = threading.Timer(120, stop.set)
    limit.start()
    host.serve(look)
    limit.cancel()

    assert "30 of 100 rows" in seen[0]
    assert balance(gold.TABLE, poisoned).read == 130
    assert proven(poisoned, TABLES)


def test_a_gate_behind_rows_stops_the_tables_that_read_them(
    spark: SparkSession, poisoned: Lake
) -> None:
    """Published rows can no longer be held back, but no table is computed from them."""
    found = gate_files.Shut(
        table=silver.TABLE.id,
        where=Where.BEHIND,
        stream="",
        batch=0,
        findings=({"name": "copies", "says": "2; expected at most 0"},),
    )
    gate_files.write(found, silver.TABLE, poisoned)
    elsewhere = Lake(poisoned.root / "elsewhere").open_for_writing()
    gate_files.open_all(elsewhere)  # which concerns only that lake
    wide = replace(silver.TABLE, rules=())
    derive(spark, poisoned, wide)

    with pytest.raises(GateShutError, match="copies: 2") as refused:
        derive(spark, poisoned, gold.TABLE)
    gate_files.open_(silver.TABLE, poisoned, because="seen", who="on call", at="12:00")
    derive(spark, poisoned, gold.TABLE)

    assert refused.value.fields["source"] == silver.TABLE.id
    assert proven(poisoned, (gold.TABLE,))


def test_fifty_rules_take_no_execution_more_than_one(spark: SparkSession, lake: Lake) -> None:
    """Counting, judging and writing take as many as with one."""
    taken = {}
    for count in (1, 50):
        rules = tuple(replace(between("value", -99, 999), name=f"r{n}") for n in range(count))
        table = replace(silver.TABLE, rules=rules)
        place = Lake(lake.root / str(count)).open_for_writing()
        received(place, POISONED)
        taken[count] = executions(spark, lambda t=table, p=place: derive(spark, p, t))

    print(f"executions of a batch by its number of rules: {taken}")  # noqa: T201  # the figure is for who reads the run
    assert len(set(taken.values())) == 1


def test_rows_are_counted_under_every_rule_that_they_break(spark: SparkSession) -> None:
    events = [
        Event(payload=reading(event_id=None, device_id=None)),
        Event(payload=reading(value=999)),
        Event(payload=b"{"),
        Event(payload=reading()),
        Event(payload=reading(event_id="e2", event_at=(NOON + timedelta(minutes=1)).isoformat())),
    ]

    found = counted(judged(frame(spark, events), silver.TABLE), silver.TABLE)

    assert (found.good, found.rows, found.newest) == (
        2,
        5,
        (NOON + timedelta(minutes=1)),
    )
    assert found.held == {"missing:event_id": 1, RULE: 1, "malformed": 1}
    assert found.broke == {
        "missing:event_id": 1,
        "missing:device_id": 1,
        RULE: 1,
        "malformed": 1,
    }


@pytest.mark.parametrize("severity", [Severity.WARNING, Severity.CRITICAL])
def test_the_library_is_asked_where_a_gate_would_shut_and_ours_finds_the_same_in_its_words(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, severity: Severity
) -> None:
    """Its import is a tenth of a first run."""
    few = Within(name="rows", high=5, severity=severity)
    guard = Guard(replace(silver.TABLE, expects=(few,)), lake, lambda: NOON)
    counts = Counts(rows=7, broke={}, figures={"rows": 7.0})
    asked = list[str]()

    def library(name: str, expected: Sequence[Expectation]) -> Judge:
        asked.append(name)
        return judge(name, expected)

    monkeypatch.setattr(batch_check, "judge", library)
    found = guard._judged(counts, {})

    assert asked == ([silver.TABLE.id] if severity is Severity.CRITICAL else [])
    assert found == judge("again", guard._expected).of_counts(counts, {})
    assert [each.says for each in found if not each.holds] == ["7; expected at most 5"]
