"""Books that go on at a snapshot give what adding up the whole history gives."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, replace
from random import Random

import pytest

from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import read_until, rows_until, waiting
from strandline.engine.accounting.table_books import Books, close
from strandline.engine.flow.shadow_lake import Shadow
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.lake.log.ledger_sums import snapshot, sums_of
from strandline.engine.lake.place import Place
from tests.engine.written import BRONZE, GOLD, SILVER, entry
from tests.support.ledgers import Log, histories, made, write_log

pytestmark = pytest.mark.core

TABLES = (BRONZE, SILVER, GOLD)
SEEDS = range(5)


def in_force(log: Log) -> list[Entry]:
    own = [entry for entry in log if entry]
    last = max((n for n, entry in enumerate(own) if entry.replaced), default=0)
    return own[last:]


def appended(log: Iterable[Entry | None]) -> int:
    return sum(entry.appended for entry in log if entry)


def grown(lake: Lake, logs: dict[Table, Log], random: Random) -> None:
    """Write logs in four parts, and close the books after each; no table has read what is not written."""
    written = dict.fromkeys(logs, 0)
    for nth in range(1, 5):
        for table, log in logs.items():
            until = len(log) if nth == 4 else random.randint(written[table], len(log) * nth // 4)
            readable = _readable(log[:until], written)
            write_log(lake.table(table), log[written[table] : readable], written[table])
            written[table] = max(written[table], readable)
        close(lake, TABLES, every=1)


def _readable(log: Log, written: dict[Table, int]) -> int:
    """Return how many entries of a log have read only what is written."""
    there = {table.id: count for table, count in written.items()}
    for number, each in enumerate(log):
        if each and any(last >= there[name] for name, (_, last) in each.versions.items()):
            return number
    return len(log)


@pytest.mark.whole
@pytest.mark.parametrize("seed", SEEDS)
def test_sums_are_those_of_the_definition_wherever_books_were_closed(
    seed: int, anywhere: Place
) -> None:
    """Promotions, undone ones, backfills and maintenance are among the entries."""
    random = Random(seed)  # noqa: S311  # a test's own
    lake, logs = Lake(anywhere), histories(60, random)
    grown(lake, logs, random)

    for table, log in logs.items():
        valid, sums = in_force(log), sums_of(lake.table(table))
        held = Counter[str]()
        for each in valid:
            held.update(each.quarantined)
        assert snapshot(lake.table(table)).sums.version == len(log) - 1
        assert sums.batches == len(valid)
        assert sums.read == sum(each.read for each in valid)
        assert sums.good == sum(each.good for each in valid)
        assert sums.duplicates == sum(each.duplicates for each in valid)
        assert sums.written == sum(each.written for each in valid)
        assert sums.held == {why: rows for why, rows in held.items() if rows}
        assert sums.appended == appended(log)
        assert sums.was_rewritten == any(each.is_passed_over for each in log if each)


@pytest.mark.whole
@pytest.mark.parametrize("seed", SEEDS)
def test_closed_books_are_those_of_the_whole_log(seed: int, anywhere: Place) -> None:
    """Nothing that a later check needs is lost in a snapshot."""
    random = Random(seed)  # noqa: S311  # a test's own
    lake, logs = Lake(anywhere), histories(60, random)
    grown(lake, logs, random)

    for table in TABLES:
        closed, whole = Books(table, lake), Books(table, lake, from_start=True).follow()
        assert closed.sums.version == whole.sums.version
        assert asdict(closed.sums) == asdict(whole.sums)
        assert closed.encoded() == whole.encoded()
        assert closed.faults == whole.faults == []


@pytest.mark.whole
@pytest.mark.parametrize("seed", SEEDS)
def test_what_waits_is_what_sources_have_beyond_the_last_version_read(
    seed: int, anywhere: Place
) -> None:
    """More is written to the sources after all books were closed."""
    random = Random(seed)  # noqa: S311  # a test's own
    lake, logs = Lake(anywhere), histories(60, random)
    grown(lake, logs, random)
    more = [entry(BRONZE, batch=99, read=7, good=7, written=7, offsets={"y/0": (0, 7)}), None]
    write_log(lake.table(BRONZE), more, len(logs[BRONZE]))

    assert waiting(SILVER, lake) == 7
    assert waiting(GOLD, lake) == 0
    assert read_until(SILVER, BRONZE, lake) == len(logs[BRONZE]) - 1


@pytest.mark.whole
@pytest.mark.parametrize("closed_at", [None, "before", "after"])
def test_a_fault_is_found_by_every_reader_wherever_books_were_closed(
    closed_at: str | None, anywhere: Place
) -> None:
    """Books that are closed over a fault carry it forward."""
    random = Random(7)  # noqa: S311  # a test's own
    lake, logs = Lake(anywhere), histories(100, random)
    replaced = max((n for n, each in enumerate(logs[SILVER]) if each and each.replaced), default=0)
    late = [(n, each) for n, each in enumerate(logs[SILVER]) if each and each.read and n > replaced]
    at, sound = late[1]
    wrong = replace(sound, read=sound.read + 1)
    write_log(lake.table(BRONZE), logs[BRONZE])
    write_log(lake.table(SILVER), logs[SILVER][:at])
    if closed_at == "before":
        close(lake, TABLES, every=1)
    write_log(lake.table(SILVER), [wrong, *logs[SILVER][at + 1 :]], at)
    if closed_at == "after":
        close(lake, TABLES, every=1)
        assert snapshot(lake.table(SILVER)).sums.version == len(logs[SILVER]) - 1

    faults = Books(SILVER, lake).follow().faults

    assert f"(version {at}) read {wrong.read} rows and accounts for {sound.read}" in faults[0]
    assert f"(version {at}): " in faults[1]
    assert faults == Books(SILVER, lake, from_start=True).follow().faults


def test_a_source_that_was_restored_from_a_copy_is_counted_again(anywhere: Place) -> None:
    """It has fewer commits than were read from it, and later on other ones."""
    lake = Lake(anywhere)
    taken = [entry(BRONZE, batch=n, read=5, good=5, written=5) for n in range(3)]
    write_log(lake.table(BRONZE), taken)
    read = entry(SILVER, versions={BRONZE.id: (0, 2)}, read=15, good=15, written=15)
    write_log(lake.table(SILVER), [read])
    close(lake, [SILVER], every=1)
    assert Books(SILVER, lake).follow().faults == []

    commit_file(lake.table(BRONZE), 2).remove()
    (fault,) = Books(SILVER, lake).follow().faults

    assert "15 rows of bronze.device_telemetry were read so far, which holds 10" in fault


def test_a_shadow_has_no_closed_books(anywhere: Place) -> None:
    """It is promoted as one entry, and a second shadow would find those of the first."""
    lake = Lake(anywhere)
    shadow = Shadow.of(SILVER, lake)
    write_log(shadow.table(SILVER), [entry(SILVER, read=1, good=1, written=1)])

    assert close(shadow, [SILVER], every=1) == []


def test_rows_at_an_earlier_version_are_counted_from_the_start(anywhere: Place) -> None:
    """A snapshot of a later version does not help there."""
    lake, logs = Lake(anywhere), histories(30, Random(3))  # noqa: S311  # a test's own
    made(lake, logs)
    close(lake, TABLES, every=1)

    for version in (0, 10, len(logs[SILVER]) - 1):
        valid = in_force(logs[SILVER][: version + 1])
        assert rows_until(lake.table(SILVER), version) == sum(each.written for each in valid)


def test_a_stream_that_began_with_a_snapshot_of_its_source_has_read_what_was_corrected(
    anywhere: Place,
) -> None:
    """A backfill's rows are passed over by other streams; this one found them in the snapshot."""
    lake = Lake(anywhere)
    repair = {"mode": "backfill", "since": "a", "until": "b", "stream": "r"}
    log = [
        entry(SILVER, read=10, good=10, written=10),
        entry(SILVER, came=3, good=3, duplicates=-3, written=3, **repair),
        entry(SILVER, batch=1, read=5, good=5, written=5),
    ]
    write_log(lake.table(SILVER), log)
    began = entry(GOLD, versions={SILVER.id: (1, 1)}, whole=True, read=13, good=13, written=1)
    then = entry(GOLD, batch=1, versions={SILVER.id: (2, 2)}, read=5, good=5, written=1)
    write_log(lake.table(GOLD), [began])
    close(lake, [GOLD], every=1)

    assert waiting(GOLD, lake) == 5
    write_log(lake.table(GOLD), [then], 1)
    close(lake, [GOLD], every=1)
    books = Books(GOLD, lake).follow()

    assert (books.faults, waiting(GOLD, lake)) == ([], 0)
