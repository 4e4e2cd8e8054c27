"""Rows are replaced while a stream writes the same table: neither waits for the other, and neither undoes the other."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from fleet.gold import ip_holds
from strandline.core.errors import TransientError
from strandline.engine.flow.batch import write_rows
from strandline.engine.flow.batch.write_rows import Windows
from strandline.engine.lake.commit import create_table, delta_commit
from strandline.engine.lake.commit.delta_commit import rows_at
from strandline.engine.lake.commit.file_index import EPOCH, MICROSECOND
from strandline.engine.lake.commit.replace_rows import TRIES, Exchange, swap
from strandline.engine.lake.locks import turn
from strandline.engine.lake.log.commit_log import commit_file
from strandline.engine.lake.log.ledger import Entry, latest_version
from strandline.engine.lake.place import Place
from strandline.engine.runtime.jvm import Meter
from tests.support.rows import NOON

pytestmark = pytest.mark.whole

KINDS = "n long, event_at timestamp, value string"
PATIENCE = 60
"""Seconds after which a stream that still waits counts as stuck; without a wait it is done long before."""


def of(spark: SparkSession, *rows: tuple[int, str]) -> DataFrame:
    """Return rows, the n-th of which happened n minutes after noon."""
    values = [(n, NOON + timedelta(minutes=n), value) for n, value in rows]
    return spark.createDataFrame(values, KINDS).coalesce(1)


def appended(spark: SparkSession, path: Place, *rows: tuple[int, str]) -> None:
    """Commit rows as a stream does that appends to its table."""
    commit = delta_commit.Commit(spark, path)
    commit.write(of(spark, *rows))
    commit.commit("stream")


def rewritten(spark: SparkSession, path: Place, file: str, *rows: tuple[int, str]) -> str:
    """Replace a file by rows, as a stream does that upserts its table; return the new file."""
    commit = delta_commit.Commit(spark, path)
    commit.take_out([file])
    (new,) = commit.write(of(spark, *rows)).files
    commit.commit("stream")
    return new


def made(spark: SparkSession, path: Place, *files: tuple[int, ...]) -> None:
    """Create a table with a file for each group of rows, all with the value ``old``."""
    create_table.create(spark, path, of(spark, (0, "")).schema)
    for numbers in files:
        appended(spark, path, *((n, "old") for n in numbers))


def file_with(path: Place, n: int) -> str:
    """Return the newest file whose first row is the given one, as its line in the log."""
    for version in range(latest_version(path), -1, -1):
        for line in commit_file(path, version).local.read_text().splitlines():
            add = json.loads(line).get("add")
            if add and json.loads(add["stats"])["minValues"]["n"] == n:
                return line
    raise AssertionError(n)


def exchange(
    spark: SparkSession, wanted: tuple[int, int], meanwhile: Callable[[], None] = lambda: None
) -> Exchange:
    """Give the rows between two numbers the value ``new``; ``meanwhile`` runs while they are written."""
    first, last = wanted
    which = f"n BETWEEN {first} AND {last}"
    moments = [NOON + timedelta(minutes=n) for n in wanted]

    def stays(held: DataFrame) -> DataFrame:
        meanwhile()
        return held.where(f"NOT ({which})")

    return Exchange(
        at="event_at",
        reach=tuple((moment - EPOCH) // MICROSECOND for moment in moments),
        goes=lambda held: held.where(which),
        stays=stays,
        come=of(spark, *((n, "new") for n in range(first, last + 1))),
        coming=last - first + 1,
    )


def values_of(spark: SparkSession, path: Place) -> dict[int, str]:
    """Return the value of each row; assert that no row is there twice."""
    rows = rows_at(spark, path, latest_version(path)).collect()
    values = {row["n"]: row["value"] for row in rows}
    assert len(rows) == len(values)
    return values


def test_a_stream_commits_while_a_range_is_written(spark: SparkSession, tmp_path: Path) -> None:
    """Three batches commit before the range does; if the range were written inside the turn, none could."""
    path = Place.of(tmp_path / "table")
    made(spark, path, (0, 1), (2, 3), (4, 5))
    stuck = list[bool]()

    def stream() -> None:
        for n in (6, 7, 8):
            appended(spark, path, (n, "stream"))

    def meanwhile() -> None:
        thread = threading.Thread(target=stream, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        stuck.append(thread.is_alive())

    swap(spark, path, exchange(spark, (1, 2), meanwhile), "backfill")

    assert stuck == [False], "the stream waited for the whole of the exchange"
    assert values_of(spark, path) == {
        0: "old", 1: "new", 2: "new", 3: "old", 4: "old", 5: "old",
        6: "stream", 7: "stream", 8: "stream",
    }  # fmt: skip


def test_a_file_that_the_stream_rewrites_at_every_batch_is_replaced_all_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The stream's changes to neighbouring rows stay, and the number of attempts is bounded."""
    path = Place.of(tmp_path / "table")
    made(spark, path, (0, 1), (2, 3))
    hot = [file_with(path, 2)]

    def meanwhile() -> None:
        if len(hot) <= 2:  # the third time is in the turn, in which no stream commits
            rows = (2, "old"), (3, f"stream {len(hot)}")
            hot.append(rewritten(spark, path, hot[-1], *rows))

    swap(spark, path, exchange(spark, (1, 2), meanwhile), "backfill")

    assert len(hot) == 3, "one try lost the file, and the next left it until the turn"
    assert values_of(spark, path) == {0: "old", 1: "new", 2: "new", 3: "stream 2"}


def test_a_row_that_is_added_to_the_range_meanwhile_is_removed_as_well(
    spark: SparkSession, tmp_path: Path
) -> None:
    """No file that existed when the replacement began holds it."""
    path, coming = Place.of(tmp_path / "table"), [(2, "meanwhile")]
    made(spark, path, (0, 1), (3, 4))

    def meanwhile() -> None:
        if coming:
            appended(spark, path, coming.pop())

    swap(spark, path, exchange(spark, (1, 2), meanwhile), "backfill")

    assert values_of(spark, path) == {0: "old", 1: "new", 2: "new", 3: "old", 4: "old"}


def test_a_table_that_is_rewritten_in_every_attempt_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each attempt loses another old file; none leaves anything behind, not even on disk."""
    path = Place.of(tmp_path / "table")
    made(spark, path, *((n,) for n in range(TRIES)))
    left = [file_with(path, n) for n in range(TRIES)]

    def meanwhile() -> None:
        file = left.pop()
        rewritten(spark, path, file, (len(left), "stream"))

    with pytest.raises(TransientError, match="rewrote"):
        swap(spark, path, exchange(spark, (0, TRIES - 1), meanwhile), "backfill")

    assert values_of(spark, path) == dict.fromkeys(range(TRIES), "stream")
    assert len(list(path.local.glob("*.parquet"))) == 2 * TRIES


def test_files_of_other_ranges_are_not_opened(spark: SparkSession, tmp_path: Path) -> None:
    """They do not even exist on disk."""
    path = Place.of(tmp_path / "table")
    made(spark, path, (0, 1), (2, 3), (4, 5))
    for n in (0, 4):
        (path / json.loads(file_with(path, n))["add"]["path"]).local.unlink()

    swap(spark, path, exchange(spark, (2, 2)), "backfill")

    assert json.loads(json.loads(file_with(path, 2))["add"]["stats"])["numRecords"] == 2


def test_a_batch_that_upserts_windows_keeps_what_was_replaced_meanwhile(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its files were written before the backfill committed, so they hold the folder's former rows."""
    path = Place.of(tmp_path / "table")

    def held(*rows: tuple[str, str]) -> DataFrame:
        values = [(ip, NOON, NOON, None, by) for ip, by in rows]
        kinds = "ip string, held_from timestamp, window_from timestamp, held_until timestamp, ended_by string"
        return spark.createDataFrame(values, kinds)

    @contextmanager
    def after_a_backfill(session: SparkSession, table: Place) -> Iterator[None]:
        which = "ip = 'b'"
        other = Exchange(
            at="held_from",
            goes=lambda rows: rows.where(which),
            stays=lambda rows: rows.where(f"NOT ({which})"),
            come=held(("b", "backfill")),
            coming=1,
        )
        swap(spark, path, other, "backfill")
        with turn(session, table):
            yield

    entry = Entry(table="gold.any", mode="test", stream="s", batch=0, source="silver.any", read=1)
    first = held(("a", "stream"), ("b", "stream"))
    create_table.create(spark, path, first.schema, partition_by=["window_from"])
    windows, meter = Windows(ip_holds.TABLE, path), Meter(spark)
    windows.change(first, entry, meter)

    with monkeypatch.context() as patch:
        patch.setattr(write_rows, "turn", after_a_backfill)
        windows.change(held(("a", "stream again")), entry, meter)
    windows.change(held(("c", "stream")), entry, meter)

    found = rows_at(spark, path, latest_version(path)).collect()
    assert sorted((row["ip"], row["ended_by"]) for row in found) == [
        ("a", "stream again"),
        ("b", "backfill"),
        ("c", "stream"),
    ]


def test_where_no_row_is_removed_the_smallest_file_is_rewritten(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Streams that read the table would read a commit that removes no file."""
    path = Place.of(tmp_path / "table")
    made(spark, path, (0, 1, 2), (6,))

    swap(spark, path, exchange(spark, (4, 4)), "backfill")

    log = commit_file(path, latest_version(path)).local.read_text()
    assert log.count('{"remove":') == 1
    assert values_of(spark, path) == {0: "old", 1: "old", 2: "old", 4: "new", 6: "old"}
