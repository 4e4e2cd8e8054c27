"""A replay brings held rows that pass today's rules to silver once, and every table equals a batch computation."""

import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m as gold
from fleet.silver import device_telemetry as silver
from strandline.core.errors import DefinitionError
from strandline.engine.accounting.balance_sheet import balance, waiting
from strandline.engine.accounting.browse_held import rows as held_rows
from strandline.engine.accounting.held_records import Signed
from strandline.engine.flow.runner import Site
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import entries, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.repair.backfill import backfill
from strandline.engine.repair.closed_range import Span
from strandline.engine.repair.rebuild import promote, rebuild, undo
from strandline.engine.repair.replay import Choice, Replayed, rehearse, replay
from tests.support import lakes
from tests.support.events import TOPIC, readings, received
from tests.support.mistaken import EVENTS, TABLES, computed_anew, is_same, mistaken
from tests.support.modes import answers_of, derive, proven
from tests.support.morning import LATER, STRICT, streamed
from tests.support.proofs import Times
from tests.support.rows import NOON, at, rows

pytestmark = [pytest.mark.core, pytest.mark.slow]

ANN = Signed(who="ann", at=NOON)
OWNED = EVENTS + "    4 | 1 | w | d2 | t | 99 | 12:05:00 | 12:05:01 | -\n"
MORNING = Span(since=at("08:00:00"), until=at("10:00:00"))


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """Make a lake whose streams judged by the mistaken rule."""
    return mistaken(
        spark, Lake(lakes.place(tmp_path_factory.mktemp("mistaken"))).open_for_writing()
    )


@pytest.fixture(scope="module")
def anew(spark: SparkSession, judged: Lake) -> Lake:
    """Compute the same events by today's rules."""
    return computed_anew(spark, judged)


@pytest.fixture
def wrong(judged: Lake, anywhere: Place) -> Lake:
    """Return a copy of the mistaken lake for one test."""
    lakes.copy(judged.root, anywhere / "lake")
    return Lake(anywhere / "lake")


@pytest.fixture(scope="module")
def replayed(
    spark: SparkSession, judged: Lake, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Lake, Replayed]:
    """Replay a copy once, for the tests that only look at what came of it."""
    lake = Lake(lakes.place(tmp_path_factory.mktemp("replayed")) / "lake")
    lakes.copy(judged.root, lake.root)
    return lake, replay(spark, silver.TABLE, lake, signed=ANN)


def versions(lake: Lake) -> list[int]:
    return [latest_version(path) for table in TABLES for path in lake.books(table)]


@pytest.mark.whole
def test_a_dry_run_returns_the_fate_of_each_row_and_writes_nothing(
    spark: SparkSession, wrong: Lake
) -> None:
    """By reason, before and after."""
    before = versions(wrong)

    plan = rehearse(spark, silver.TABLE, wrong, Choice())

    assert (plan.rows, plan.healed, plan.duplicates, plan.changed, plan.remain, plan.wait) == (
        7,
        3,
        1,
        1,
        2,
        0,
    )
    assert [(kind.before, kind.fate.value, kind.after, kind.rows) for kind in plan.kinds] == [
        (("late",), "remains", ("late",), 1),
        (("malformed",), "remains", ("malformed",), 1),
        (("missing:signal", "out_of_range:value"), "changes", ("missing:signal",), 1),
        (("out_of_range:value",), "duplicate", (), 1),
        (("out_of_range:value",), "heals", (), 3),
    ]
    assert versions(wrong) == before


@pytest.mark.whole
def test_healed_rows_come_to_silver_once_and_every_table_equals_a_batch(
    spark: SparkSession, replayed: tuple[Lake, Replayed], anew: Lake
) -> None:
    """The first of two healed copies counts; a healed copy that came before silver's own replaces it."""
    wrong, done = replayed
    again = versions(wrong)
    replay(spark, silver.TABLE, wrong)

    assert (done.healed, done.duplicates) == (3, 1)
    assert versions(wrong) == again, "there is nothing more to heal"
    assert is_same(wrong, anew)
    assert proven(wrong, TABLES)
    assert answers_of(wrong).of("silver", "event_id", "value", "_partition", "_offset") == rows("""
        event_id | value   | _partition | _offset
        a        | 1.0000  | 0          | 0
        b        | 2.0000  | 0          | 1
        c        | 77.0000 | 1          | 0
        e        | 88.0000 | 0          | 4
        h        | 7.0000  | 0          | 5
        i        | 8.0000  | 0          | 6
        r        | 55.0000 | 0          | 3
    """)
    assert waiting(gold.TABLE, wrong) == 0


@pytest.mark.whole
def test_the_ledger_and_the_resolutions_record_who_changed_what(
    replayed: tuple[Lake, Replayed],
) -> None:
    """The entry has the form of a backfill's, so every reader of the ledger understands it."""
    wrong, _ = replayed

    _, entry = list(entries(wrong.table(silver.TABLE)))[-1]
    assert (entry.mode, entry.is_backfill, entry.since, entry.until) == (
        "replay",
        True,
        "2026-11-20T09:05:00+00:00",
        "2026-11-20T09:29:59.000001+00:00",
    )
    assert (entry.came, entry.gone, entry.good, entry.duplicates) == (3, 1, 2, 2)
    assert entry.quarantined == {"out_of_range:value": -4}
    (copy,) = held_rows(silver.TABLE, wrong, at=(TOPIC, 1, 1))
    assert (copy.state, [(each.status, each.who, each.at) for each in copy.done]) == (
        "closed",
        [("duplicate", "ann", NOON)],
    )
    changed = held_rows(silver.TABLE, wrong, at=(TOPIC, 1, 3))
    assert [(each.state, each.reasons) for each in changed] == [
        ("closed", ("missing:signal", "out_of_range:value")),
        ("open", ("missing:signal",)),
    ]


FAULTS = {
    0: None,
    1: "the replay from 2026-11-20T09:05",
    2: "the replay from 2026-11-20T09:05",
    3: "before the tables above were computed again",
    4: "before the tables above were computed again",
}
"""The fault in the ledger after so many of a replay's commits."""


@pytest.fixture
def moments(chance: random.Random, times: Times) -> list[int]:
    """Draw after how many commits replays are killed; first one of those until silver's, which keep other writers out."""
    early, late = (chance.sample(part, len(part)) for part in ((1, 2), (0, 3, 4)))
    return [*early, *late][: times(1, len(FAULTS))]


@contextmanager
def killed_after(commits: int) -> Iterator[None]:
    """End as a kill would, after so many commits."""
    whole = delta_commit.Commit.commit
    done: list[int] = []

    def commit(self: delta_commit.Commit, metadata: str) -> int:
        if len(done) == commits:
            raise KeyboardInterrupt
        done.append(whole(self, metadata))
        return done[-1]

    with pytest.MonkeyPatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr(delta_commit.Commit, "commit", commit)
        yield
    assert len(done) == commits


@pytest.mark.whole
@pytest.mark.prove
def test_a_replay_killed_between_any_two_commits_is_named_and_finished_by_the_next(
    spark: SparkSession, judged: Lake, anew: Lake, anywhere: Place, moments: list[int]
) -> None:
    """The commits: resolutions, quarantine, silver, gold, and the resolutions again."""
    for commits in moments:
        wrong = Lake(anywhere / str(commits))
        lakes.copy(judged.root, wrong.root)
        finished_by_the_next(commits, spark, wrong, anew)


def finished_by_the_next(commits: int, spark: SparkSession, wrong: Lake, anew: Lake) -> None:
    """Kill a replay after so many commits, and see what the ledger names and the next one does."""
    with killed_after(commits):
        replay(spark, silver.TABLE, wrong, signed=ANN)

    faults = balance(silver.TABLE, wrong).faults
    expected = FAULTS[commits]
    assert len(faults) == (0 if expected is None else 1)
    assert all(str(expected) in fault and "quarantine replay" in fault for fault in faults)
    if commits in {1, 2}:
        with pytest.raises(DefinitionError, match=r"a replay of .* was interrupted"):
            backfill(spark, silver.TABLE, wrong, MORNING)
    replay(spark, silver.TABLE, wrong, signed=ANN)

    assert proven(wrong, TABLES)
    assert is_same(wrong, anew)


@pytest.mark.prove(alone="a minute")
def test_a_row_whose_time_a_stream_still_owns_waits_and_the_moment_is_returned(
    spark: SparkSession, lake: Lake
) -> None:
    """Silver's stream might admit a copy, and gold's would close the window without it."""
    mistaken(spark, lake, OWNED)

    first = replay(spark, silver.TABLE, lake)
    assert (first.healed, first.wait, first.remain) == (3, 1, 2)
    assert str(first.possible_from).startswith("2026-11-20T13:30:00")
    assert first.waits_for == gold.TABLE.id
    assert proven(lake, TABLES)
    streamed(spark, lake, LATER)
    second = replay(spark, silver.TABLE, lake)

    assert (second.healed, second.wait, second.remain) == (1, 0, 3)
    assert proven(lake, TABLES)
    assert is_same(lake, computed_anew(spark, lake))


@pytest.mark.prove(alone="half a minute")
def test_some_rows_may_be_replayed_before_the_others(
    spark: SparkSession, wrong: Lake, anew: Lake
) -> None:
    """Chosen by a range of time or a reason; in the end the lake is the same as after one replay of all."""
    ten_minutes = Choice(span=Span(since=at("09:20:00"), until=at("09:30:00")))

    first = replay(spark, silver.TABLE, wrong, ten_minutes)
    assert (first.rows, first.healed) == (2, 2)
    assert proven(wrong, TABLES)
    second = replay(spark, silver.TABLE, wrong, Choice(reason="out_of_range:value"))

    assert (second.rows, second.healed, second.duplicates, second.changed) == (3, 1, 1, 1)
    assert proven(wrong, TABLES)
    assert is_same(wrong, anew)


@pytest.mark.prove(alone="half a minute")
def test_a_healed_row_may_be_held_again_and_healed_again(
    spark: SparkSession, wrong: Lake, anew: Lake
) -> None:
    """Each time the quarantine gets a new record."""
    replay(spark, silver.TABLE, wrong)
    before = answers_of(wrong)
    backfill(spark, STRICT, wrong, MORNING)
    assert balance(silver.TABLE, wrong).faults == []
    assert len(answers_of(wrong).quarantine) == 7

    replayed = replay(spark, silver.TABLE, wrong)

    assert (replayed.healed, replayed.duplicates) == (3, 1)
    assert proven(wrong, TABLES)
    assert is_same(wrong, anew)
    assert answers_of(wrong) == before


@pytest.mark.whole
def test_a_promotion_ignores_earlier_resolutions_and_its_undo_restores_them(
    spark: SparkSession, wrong: Lake, anew: Lake
) -> None:
    """A promotion replaces the quarantine as a whole, and decisions on old records do not apply to new ones."""
    site = Site(spark=spark, clock=lambda: NOON)
    replay(spark, silver.TABLE, wrong)
    rebuild(STRICT, wrong, site)
    promote(STRICT, wrong, site)
    assert balance(silver.TABLE, wrong).faults == []
    assert len(answers_of(wrong).quarantine) == 7

    undo(spark, STRICT, wrong)

    assert balance(silver.TABLE, wrong).faults == []
    assert is_same(wrong, anew, silver.TABLE)


def test_a_table_without_a_row_is_healed_too(spark: SparkSession, lake: Lake) -> None:
    """Such a silver has no file to write again."""
    nothing = "\n".join(line for line in EVENTS.splitlines() if "| 77 " in line or "batch" in line)
    late = "    2 | 0 | z | d1 | t | 99 | 12:00:00 | 12:00:01 | -"
    received(lake, readings(f"{nothing}\n{late}"))
    derive(spark, lake, STRICT)

    replayed = replay(spark, silver.TABLE, lake)

    assert (replayed.healed, replayed.duplicates, replayed.wait) == (1, 1, 1)
    assert proven(lake, (silver.TABLE,))
