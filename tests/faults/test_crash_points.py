"""Crashes between two exact steps, planted by hand, so that each run meets them."""

from dataclasses import replace

import pytest
from pyspark.sql import SparkSession

from fleet.gold import device_signal_10m
from fleet.silver import device_telemetry as silver
from strandline.core.stateful import AvailableNow
from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.commit import delta_commit
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import last_entry, latest_version
from strandline.engine.lake.place import Place
from strandline_quality.rules import Rule
from tests.engine.written import entry, numbers, written
from tests.support import lakes
from tests.support.events import readings, received
from tests.support.rows import NOON
from tests.support.seeds import copied

pytestmark = [pytest.mark.core, pytest.mark.slow]

SILVER, GOLD = silver.TABLE, device_signal_10m.TABLE
FIRST = """
    id | device | event_at | arrived_at | value
    e1 | d1     | 08:00:00 | 08:00:01   | 1.5
    e1 | d1     | 08:00:00 | 08:00:02   | 1.5
    e2 | d1     | 06:00:00 | 08:01:00   | 2.5
"""
SECOND = """
    id | device | event_at | arrived_at | value
    e3 | d1     | 10:00:00 | 10:00:01   | 3.5
    e4 | d1     | 07:00:00 | 10:01:00   | 4.5
    e1 | d1     | 08:00:00 | 08:00:03   | 1.5
    e5 | d1     | 12:00:00 | 12:00:01   | 5.5
"""


@pytest.fixture(scope="module")
def site(spark: SparkSession) -> Site:
    """Return a world without Kafka."""
    return Site(spark=spark, clock=lambda: NOON)


def fill(lake: Lake, site: Site, events: str) -> None:
    received(lake, readings(events))
    for table in (SILVER, GOLD):
        run(table, AvailableNow(), lake, site=site)


def with_first(lake: Lake, site: Site) -> Lake:
    """Fill a lake with the first events."""
    return copied(lake, "first", lambda seed: fill(seed, site, FIRST))


def with_both(lake: Lake, site: Site) -> Lake:
    """Fill a lake with the first events and the second ones, as if nothing had happened."""
    return copied(lake, "both", lambda seed: fill(with_first(seed, site), site, SECOND))


def contents(lake: Lake, site: Site) -> dict[str, list[str]]:
    """Return every row of every table, as text in an order of its own."""
    folders = [*lake.folders(SILVER), *lake.folders(GOLD)]
    frames = {
        path.below(lake.root): site.spark.read.format("delta").load(str(path)) for path in folders
    }
    return {name: sorted(map(str, rows.collect())) for name, rows in frames.items()}


def balanced(lake: Lake) -> bool:
    faults = [fault for table in (SILVER, GOLD) for fault in balance(table, lake).faults]
    assert not faults
    return True


def forget_last_batch(lake: Lake, table: Table) -> None:
    """Take away Spark's note that the last batch was finished, as if it had been killed before that."""
    commits = lake.checkpoint(table) / "commits"
    last = max(int(name) for name in commits.names() if name.isdigit())
    (commits / str(last)).remove()
    (commits / f".{last}.crc").remove()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, site: Site) -> dict[str, list[str]]:
    """Return what a lake holds to which nothing happened."""
    lake = Lake(lakes.place(tmp_path_factory.mktemp("undisturbed"))).open_for_writing()
    return contents(with_both(lake, site), site)


@pytest.mark.prove(alone="ten seconds")
def test_a_crash_between_quarantine_and_table_puts_no_row_there_twice(
    lake: Lake, site: Site, undisturbed: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quarantine is then ahead by one batch; the replay must see it and pass over."""
    with_first(lake, site)
    held = latest_version(lake.quarantine(SILVER))
    die_half_way(lake, site, monkeypatch)
    assert latest_version(lake.quarantine(SILVER)) == held + 1

    for table in (SILVER, GOLD):
        run(table, AvailableNow(), lake, site=site)

    assert latest_version(lake.quarantine(SILVER)) == held + 1
    assert contents(lake, site) == undisturbed
    assert balanced(lake)


def die_half_way(lake: Lake, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let silver's next batch end when it has written its quarantine."""
    whole = delta_commit.Commit.commit
    done: list[int] = []

    def dies_at_the_second(commit: delta_commit.Commit, metadata: str) -> int:
        if done:
            raise RuntimeError("killed here")
        done.append(whole(commit, metadata))
        return done[-1]

    received(lake, readings(SECOND))
    with monkeypatch.context() as patch:
        patch.setattr(delta_commit.Commit, "commit", dies_at_the_second)
        with pytest.raises(Exception, match="killed here"):
            run(SILVER, AvailableNow(), lake, site=site)


def test_the_other_half_is_not_written_by_other_rules(
    lake: Lake, site: Site, undisturbed: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row would be in both places, or in none; so rules that changed meanwhile are refused until the batch is whole."""
    with_first(lake, site)
    held = latest_version(lake.quarantine(SILVER))
    die_half_way(lake, site, monkeypatch)
    assert latest_version(lake.quarantine(SILVER)) == held + 1
    never = Rule(name="never", holds="false")

    with pytest.raises(Exception, match="today's rules hold back other rows"):
        run(replace(SILVER, rules=(*SILVER.rules, never)), AvailableNow(), lake, site=site)

    for table in (SILVER, GOLD):
        run(table, AvailableNow(), lake, site=site)
    assert latest_version(lake.quarantine(SILVER)) == held + 1
    assert contents(lake, site) == undisturbed
    assert balanced(lake)


def test_a_crash_between_the_tables_and_sparks_own_notes_writes_nothing_twice(
    lake: Lake, site: Site, undisturbed: dict[str, list[str]]
) -> None:
    """Spark then plays the batch of each again; the ledger shows that it was written."""
    with_both(lake, site)
    before = [latest_version(lake.table(table)) for table in (SILVER, GOLD)]
    for table in (SILVER, GOLD):
        forget_last_batch(lake, table)

    for table in (SILVER, GOLD):
        run(table, AvailableNow(), lake, site=site)

    assert [latest_version(lake.table(table)) for table in (SILVER, GOLD)] == before
    assert contents(lake, site) == undisturbed
    assert balanced(lake)


@pytest.mark.whole
def test_a_replayed_batch_still_brings_the_state_forward(
    lake: Lake, site: Site, undisturbed: dict[str, list[str]]
) -> None:
    """A batch that is passed over must be consumed, or copies that come later are taken for new."""
    with_first(lake, site)
    forget_last_batch(lake, SILVER)

    fill(lake, site, SECOND)

    assert contents(lake, site) == undisturbed
    assert balanced(lake)


def test_what_a_killed_writer_left_lying_about_is_not_believed(anywhere: Place) -> None:
    """Drafts of commits, a torn pointer to the checkpoint: only files with the right name are the log."""
    written(anywhere, numbers(1), entry(SILVER, batch=3).encoded())
    log = anywhere / "_delta_log"
    (log / ".00000000000000000001.json.1234.tmp").put('{"commitInfo":{"userMe')
    (log / "00000000000000000001.json.tmp").put('{"commitInfo":{"userMe')
    (log / "_last_checkpoint").put('{"vers')

    found = last_entry(anywhere)

    assert found is not None
    assert (found[0], found[1].batch) == (0, 3)
