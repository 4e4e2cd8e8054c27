"""A balance that could not fail would prove nothing: each way to lose or double a row is found and named."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict

import pytest

from strandline.core.table import Table
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.open_table import opened
from strandline.engine.lake.place import Place
from tests.engine.written import BRONZE, GOLD, SILVER, entry, numbers, small_lake, written

pytestmark = pytest.mark.core


@pytest.fixture
def sound(anywhere: Place) -> Lake:
    """Return a lake that balances."""
    return small_lake(anywhere)


def tampered(lake: Lake, table: Table, version: int, **changes: object) -> None:
    """Change a ledger entry in its commit, which no program does."""
    file = lake.table(table) / "_delta_log" / f"{version:020d}.json"
    lines = [json.loads(line) for line in (file.text() or "").splitlines()]
    for line in lines:
        if "commitInfo" in line:
            fields = json.loads(line["commitInfo"]["userMetadata"]) | changes
            line["commitInfo"]["userMetadata"] = json.dumps(fields)
    file.put("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def faults(lake: Lake, table: Table) -> str:
    return "\n".join(balance(table, lake).faults)


@pytest.mark.whole
@pytest.mark.parametrize("table", [BRONZE, SILVER, GOLD], ids=str)
def test_a_sound_lake_balances(table: Table, sound: Lake) -> None:
    """Otherwise the other tests would prove nothing."""
    sheet = balance(table, sound)

    assert sheet.balanced, sheet.faults
    assert sheet.waiting == 0


def test_a_row_dropped_below_the_watermark_is_a_fault(sound: Lake) -> None:
    """It is in neither silver nor quarantine, although the entry adds up."""
    tampered(sound, SILVER, 0, good=2, dropped_by_watermark=1)

    assert "dropped 1 rows below the watermark" in faults(sound, SILVER)


def test_the_sheet_counts_every_row_by_its_place(sound: Lake) -> None:
    """These are the figures to compare with the truth."""
    sheet = asdict(balance(SILVER, sound))

    assert {
        name: sheet[name] for name in ("read", "good", "duplicates", "quarantined", "rows")
    } == {
        "read": 5,
        "good": 3,
        "duplicates": 1,
        "quarantined": {"late": 1},
        "rows": 3,
    }


def test_a_row_that_is_in_no_place_is_a_fault_of_its_batch(sound: Lake) -> None:
    """Here the entry claims one good row less than there was."""
    tampered(sound, SILVER, 0, good=2)

    assert "batch 0 (version 0) read 5 rows and accounts for 4" in faults(sound, SILVER)


def test_more_good_rows_than_were_read_are_a_fault(sound: Lake) -> None:
    """A batch that was written twice looks like this."""
    tampered(sound, SILVER, 0, good=6, duplicates=-2)

    assert "batch 0 (version 0) wrote 2 rows more than it read" in faults(sound, SILVER)


def test_a_gap_in_the_offsets_is_a_fault_of_the_batch_behind_it(sound: Lake) -> None:
    """An offset between two batches was never read."""
    tampered(sound, BRONZE, 1, offsets={"0": [4, 6]})

    assert "batch 1 (version 1) begins partition x/0 at 4, not at 3" in faults(sound, BRONZE)


def test_offsets_that_are_read_twice_are_a_fault(sound: Lake) -> None:
    """An overlap is as wrong as a gap."""
    tampered(sound, BRONZE, 1, offsets={"0": [2, 4]})

    assert "batch 1 (version 1) begins partition x/0 at 2, not at 3" in faults(sound, BRONZE)


def test_a_span_without_its_records_is_a_fault(sound: Lake) -> None:
    """Gaps of markers and compaction were counted; this one was not."""
    tampered(sound, BRONZE, 1, offsets={"0": [3, 9]})

    assert "batch 1 (version 1) spans 6 offsets and holds 2 records" in faults(sound, BRONZE)


def test_a_span_whose_gaps_were_counted_balances(sound: Lake) -> None:
    """Transaction markers take offsets without being records."""
    tampered(sound, BRONZE, 1, offsets={"0": [3, 9]}, without_record=4)

    assert not faults(sound, BRONZE)


@pytest.mark.whole
@pytest.mark.parametrize("table", [BRONZE, SILVER, GOLD], ids=str)
def test_rows_that_were_deleted_are_missed(table: Table, sound: Lake) -> None:
    """A user's DELETE removes rows and leaves the ledger as it was."""
    path = sound.table(table)
    before = balance(table, sound).rows
    opened(path).delete("number = 0")
    after = balance(table, sound).rows

    assert after < before
    assert f"the table holds {after} rows, but {before} were written" in faults(sound, table)


@pytest.mark.whole
def test_rows_that_were_added_by_hand_are_noticed(sound: Lake) -> None:
    """They come from an INSERT that no batch made."""
    written(sound.table(SILVER), numbers(2))

    assert "the table holds 5 rows, but 3 were written" in faults(sound, SILVER)


def test_a_quarantine_that_was_emptied_is_missed(sound: Lake) -> None:
    """Rows held back are accounted for as strictly as the others."""
    opened(sound.quarantine(SILVER)).delete()

    assert "the quarantine holds 0 rows, but 1 were sent there" in faults(sound, SILVER)


def test_a_reader_that_skipped_rows_of_its_source_is_a_fault_of_its_batch(sound: Lake) -> None:
    """Each entry agrees with itself here; only the two tables together show the loss."""
    tampered(sound, SILVER, 0, read=4, good=2)
    more = entry(BRONZE, batch=2, offsets={"0": (5, 9)}, read=4, good=4, written=4)
    written(sound.table(BRONZE), numbers(4), more.encoded())
    rest = entry(SILVER, batch=1, versions={BRONZE.id: (2, 2)}, read=4, good=4, written=4)
    written(sound.table(SILVER), numbers(4), rest.encoded())

    found = faults(sound, SILVER)

    assert "batch 0 (version 0)" in found
    assert "4 rows of bronze.device_telemetry were read" in found


def test_unread_rows_wait_and_are_no_fault(sound: Lake) -> None:
    """Bronze may be ahead of silver at any time."""
    more = entry(BRONZE, batch=2, offsets={"0": (5, 9)}, read=4, good=4, written=4)
    written(sound.table(BRONZE), numbers(4), more.encoded())

    sheet = balance(SILVER, sound)

    assert sheet.balanced, sheet.faults
    assert sheet.waiting == 4


@pytest.mark.whole
def test_a_recomputed_table_is_accounted_for_from_then_on(sound: Lake) -> None:
    """A batch replaces the rows, and with them the entries about them."""
    again = entry(
        SILVER,
        mode="batch",
        batch=1,
        versions={BRONZE.id: (0, 1)},
        read=5,
        good=5,
        written=5,
        replaced=True,
    )
    written(sound.table(SILVER), numbers(5), again.encoded(), mode="overwrite")
    written(sound.quarantine(SILVER), [], again.encoded(), mode="overwrite")

    sheet = balance(SILVER, sound)

    assert sheet.balanced, sheet.faults
    assert (sheet.good, sheet.duplicates, sheet.quarantined) == (5, 0, {})


def test_a_file_that_was_removed_by_hand_is_found_missing(sound: Lake) -> None:
    """The log still lists the file; a reader of the table will fail, so the ledger must report it first."""
    victim = next(each for each in sound.table(SILVER).files() if each.name.endswith(".parquet"))
    victim.remove()

    assert victim.name in faults(sound, SILVER)


HOLD = """
import fcntl, sys
from strandline.engine.lake.place import Place
from strandline.engine.lake.store_lease import take
place = Place.of(sys.argv[1])
if place.is_local:
    file = place.local.open("r+")
    fcntl.lockf(file, fcntl.LOCK_EX)
else:
    held = take(place, life=5.0)
    held.keep()
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def writer(lake: Lake, table: Table) -> Iterator[None]:
    """Let another process be the table's writer."""
    path = lake.lease(table)
    if path.is_local:
        path.put("")
    command = [sys.executable, "-c", HOLD, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield
        process.communicate()


@pytest.mark.whole
def test_a_batch_that_is_between_its_two_commits_is_no_fault_while_its_writer_lives(
    sound: Lake,
) -> None:
    """A report beside a stream found it: the quarantine is written first, and the page trusted no table."""
    more = entry(BRONZE, batch=2, offsets={"0": (5, 7)}, read=2, good=2, written=2)
    written(sound.table(BRONZE), numbers(2), more.encoded())
    half = {"batch": 1, "versions": {BRONZE.id: (2, 2)}, "read": 2, "good": 1}
    batch = entry(SILVER, **half, quarantined={"late": 1}, written=1).encoded()
    written(sound.quarantine(SILVER), numbers(1), batch)

    without = faults(sound, SILVER)
    with writer(sound, SILVER):
        rest = threading.Timer(0.5, written, (sound.table(SILVER), numbers(1), batch))
        rest.start()
        beside = faults(sound, SILVER)
        rest.join()

    assert without == "the quarantine holds 2 rows, but 1 were sent there"
    assert not beside
