"""The comparison of two bags finds exactly the differing rows, in memory that does not grow with the bags."""

import random
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import write_deltalake

from strandline.core.topic import ORDER
from strandline.engine.lake.duckdb_table import scan, spilling
from strandline.engine.lake.place import Place
from strandline.engine.proof import compare
from strandline.engine.proof.compare import difference
from strandline.engine.proof.trial_lakes import SPANS, Log, _cuts
from tests.engine.written import BRONZE, SILVER
from tests.support.rows import NOON

COLUMNS = ("k", "v")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
UNSTAMPED = EPOCH - timedelta(milliseconds=1)
"""The arrival of a record without a timestamp, as Kafka reports it."""
LISTS = pa.schema([("k", pa.int64()), ("v", pa.list_(pa.list_(pa.string())))])


def bags(left: pa.Table, right: pa.Table) -> tuple[int, int, int]:
    """Return the counts of rows on the left alone, on the right alone, and of keys that differ on both sides."""
    with duckdb.connect() as duck:
        duck.register("l", left)
        duck.register("r", right)
        found = difference(duck, COLUMNS, ("k",))
    return (*found.only, found.changed)


@pytest.mark.whole
def test_the_counts_are_those_of_except_all(chance: random.Random) -> None:
    """With repeated rows, keys with several rows, and rows of one side alone."""
    sides = [
        pa.Table.from_pylist(
            [{"k": chance.randrange(40), "v": chance.choice(["a", "b", None])} for _ in range(300)]
        )
        for _ in range(2)
    ]
    with duckdb.connect() as duck:
        duck.register("l", sides[0])
        duck.register("r", sides[1])
        alone = ("FROM l EXCEPT ALL FROM r", "FROM r EXCEPT ALL FROM l")
        changed = f"SELECT k FROM ({alone[0]}) INTERSECT SELECT k FROM ({alone[1]})"  # noqa: S608  # no user's text
        counts = [len(duck.execute(each).fetchall()) for each in (*alone, changed)]

    assert counts[0] > 0
    assert list(bags(*sides)) == counts


@pytest.mark.whole
@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (None, []),
        (None, [None]),
        ([["a"], ["b"]], [["a", "b"]]),
        ([[], ["a"]], [["a"], []]),
        ([["a, b"]], [["a", "b"]]),
        ([["NULL"]], [[None]]),
        ([[""]], [[None]]),
    ],
)
def test_lists_that_look_alike_as_text_are_a_difference(ours: object, theirs: object) -> None:
    """DuckDB's own hash is the same for most of these pairs."""
    left, right = (
        pa.Table.from_pylist([{"k": 1, "v": value}], schema=LISTS) for value in (ours, theirs)
    )

    assert bags(left, right) == (1, 1, 1)


@pytest.mark.whole
def test_two_rows_that_have_exchanged_a_value_are_a_difference() -> None:
    """An exclusive or of hashes would not see it."""
    left = [{"k": key, "v": str(key)} for key in range(2000)]
    for at in range(0, 2000, 100):
        right = [dict(row) for row in left]
        right[at]["v"], right[at + 1]["v"] = right[at + 1]["v"], right[at]["v"]
        assert bags(pa.Table.from_pylist(left), pa.Table.from_pylist(right)) == (2, 2, 2)


@pytest.mark.whole
def test_rows_that_differ_in_a_group_of_as_many_are_a_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of all rows in one group, the number alone would say nothing."""
    monkeypatch.setattr(compare, "GROUPS", 1)
    monkeypatch.setattr(compare, "UNEQUAL", "getvariable('unequal')[1]")
    left, right = (pa.table({"k": [1, 2], "v": values}) for values in (["a", "b"], ["a", "c"]))

    assert bags(left, right) == (1, 1, 1)


@pytest.mark.whole
def test_a_wider_type_of_the_same_value_is_no_difference() -> None:
    left = pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([Decimal("1.50")])})
    right = pa.table({"k": pa.array([1], pa.int64()), "v": pa.array([Decimal("1.5000")])})

    assert bags(left, right) == (0, 0, 0)


def test_a_scan_has_columns_that_only_the_log_has(tmp_path: Path) -> None:
    """A partition's value is in no data file, and a column that came later is NULL in earlier files."""
    write_deltalake(tmp_path, pa.table({"day": ["a", "b"], "n": [1, 2]}), partition_by=["day"])
    later = pa.table({"day": ["b"], "n": [3], "more": [True]})
    write_deltalake(tmp_path, later, mode="append", schema_mode="merge")

    with spilling() as duck:
        scan(duck, "rows", Place.of(tmp_path))
        found = duck.execute("SELECT day, n, more FROM rows ORDER BY n").fetchall()

    assert found == [("a", 1, None), ("b", 2, None), ("b", 3, True)]


@pytest.mark.whole
def test_a_comparison_needs_less_memory_than_one_of_its_tables(tmp_path: Path) -> None:
    """It once held both tables, and a sorted copy of them."""
    rows = 250_000
    texts = [pa.array([f"{name}{n:060d}" for n in range(rows)]) for name in "abc"]
    part = pa.table({"number": pa.array(range(rows)), "a": texts[0], "b": texts[1], "c": texts[2]})
    for side in "lr":
        for path in (f"silver/{SILVER.name}", f"quarantine/{SILVER.name}"):
            write_deltalake(tmp_path / side / path, part)
        for _ in range(5):
            write_deltalake(tmp_path / side / "silver" / SILVER.name, part, mode="append")
    write_deltalake(tmp_path / "r" / "silver" / SILVER.name, part.slice(0, 1), mode="append")

    answers = _run(
        f"found = compare(SILVER, Lake(Path({str(tmp_path / 'l')!r})), Lake(Path({str(tmp_path / 'r')!r})))[0]",
        "found.left_rows, found.only_left, found.only_right",
    )

    assert answers[:3] == [6 * rows, 0, 1]
    assert answers[3] < 6 * part.nbytes, f"{answers[3] / 2**20:.0f} MiB"


def _run(statement: str, answer: str) -> list[int]:
    """Return the output of a process of its own, and by how many bytes its memory grew at most."""
    program = f"""
import resource
from pathlib import Path
from strandline.engine.proof.compare import compare
from strandline.engine.lake.lake import Lake
from tests.engine.written import SILVER
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
{statement}
print({answer}, peak() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return [int(word) for word in done.stdout.splitlines()[-1].split()]


def test_a_log_is_cut_after_the_drawn_rows(tmp_path: Path, chance: random.Random) -> None:
    """The cuts are the same as if the whole log were sorted and numbered."""
    places = [
        (batch, arrived_at, "t", number % 3, number)
        for batch in (0, 1, 4)
        for arrived_at in (UNSTAMPED, NOON, NOON + timedelta(seconds=90))
        for number in range(2 + batch)
    ]
    for shuffled in (chance.sample(places, len(places)),):
        _write(tmp_path, shuffled[:11])
        _write(tmp_path, shuffled[11:])
    log = Log(table=BRONZE, path=Place.of(tmp_path), version=1)
    seed = chance.random()

    cuts = _cuts(log, 6, random.Random(seed))  # noqa: S311  # no secret

    drawn = random.Random(seed).sample(range(len(places)), 5)  # noqa: S311  # as above
    expected = [sorted(places)[number] for number in sorted(drawn)]
    assert [cut.place for cut in cuts] == expected
    assert [cut.newest_arrival for cut in cuts] == [
        (arrived_at - EPOCH) // timedelta(microseconds=1) for _, arrived_at, *_ in expected
    ]


@pytest.mark.whole
def test_only_the_rows_of_one_minute_of_a_commit_are_sorted(tmp_path: Path) -> None:
    """A backlog is read in one commit: the memory to sort all of it grew with its length."""
    at = [NOON + timedelta(seconds=number) for number in range(3600)]
    _write(tmp_path, [(0, moment, "t", 0, number) for number, moment in enumerate(at)])

    with spilling() as duck:
        scan(duck, "log", Place.of(tmp_path))
        duck.execute(SPANS)
        found = duck.execute("SELECT count(*), max(until - since) FROM spans").fetchone()

    assert found == (60, 60)


def _write(path: Path, rows: Sequence[tuple[object, ...]]) -> None:
    later = {"_ingested_at": NOON + timedelta(days=1)}
    named = [{**dict(zip(ORDER, row, strict=True)), **later} for row in rows]
    write_deltalake(path, pa.Table.from_pylist(named), mode="append")
