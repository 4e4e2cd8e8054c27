"""Two bags of rows differ in exactly the rows in which they differ, and finding them costs the same for any size."""

import random
import subprocess
import sys
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from jobs.core.received import ORDER
from jobs.run.bags import difference
from jobs.run.recut import Log, _cuts
from jobs.run.scan import scan
from jobs.run.spill import spilling
from tests.run.written import BRONZE, SILVER
from tests.support.rows import NOON

COLUMNS = ("k", "v")
LISTS = pa.schema([("k", pa.int64()), ("v", pa.list_(pa.list_(pa.string())))])


def bags(left: pa.Table, right: pa.Table) -> tuple[int, int, int]:
    """Return rows of the one alone, of the other alone, and keys of both."""
    with duckdb.connect() as duck:
        duck.register("l", left)
        duck.register("r", right)
        found = difference(duck, COLUMNS, ("k",))
    return (*found.only, found.changed)


def test_the_counts_are_those_of_except_all(chance: random.Random) -> None:
    """Rows that are there several times, keys with several rows, and rows of one side alone."""
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
def test_lists_that_read_alike_are_a_difference(ours: object, theirs: object) -> None:
    """DuckDB's own hash is the same for most of these pairs."""
    left, right = (
        pa.Table.from_pylist([{"k": 1, "v": value}], schema=LISTS) for value in (ours, theirs)
    )

    assert bags(left, right) == (1, 1, 1)


def test_two_rows_that_have_exchanged_a_value_are_a_difference() -> None:
    """An exclusive or of hashes would not see it."""
    left = [{"k": key, "v": str(key)} for key in range(2000)]
    for at in range(0, 2000, 100):
        right = [dict(row) for row in left]
        right[at]["v"], right[at + 1]["v"] = right[at + 1]["v"], right[at]["v"]
        assert bags(pa.Table.from_pylist(left), pa.Table.from_pylist(right)) == (2, 2, 2)


def test_a_wider_type_of_the_same_value_is_no_difference() -> None:
    left = pa.table({"k": pa.array([1], pa.int32()), "v": pa.array([Decimal("1.50")])})
    right = pa.table({"k": pa.array([1], pa.int64()), "v": pa.array([Decimal("1.5000")])})

    assert bags(left, right) == (0, 0, 0)


def test_a_scan_has_the_columns_that_stand_in_the_log_alone(tmp_path: Path) -> None:
    """A partition's value is in no file, and a column that came later is NULL in those before it."""
    write_deltalake(tmp_path, pa.table({"day": ["a", "b"], "n": [1, 2]}), partition_by=["day"])
    later = pa.table({"day": ["b"], "n": [3], "more": [True]})
    write_deltalake(tmp_path, later, mode="append", schema_mode="merge")

    with spilling() as duck:
        scan(duck, "rows", DeltaTable(tmp_path))
        found = duck.execute("SELECT day, n, more FROM rows ORDER BY n").fetchall()

    assert found == [("a", 1, None), ("b", 2, None), ("b", 3, True)]


def test_a_comparison_needs_less_memory_than_one_of_its_tables(tmp_path: Path) -> None:
    """It once held both, and again what it sorted of them."""
    rows = 250_000
    texts = [pa.array([f"{name}{n:060d}" for n in range(rows)]) for name in "abc"]
    part = pa.table({"number": pa.array(range(rows)), "a": texts[0], "b": texts[1], "c": texts[2]})
    for side in "lr":
        for path in (f"silver/{SILVER.name}", f"quarantine/{SILVER.name}"):
            write_deltalake(tmp_path / side / path, part)
        for _ in range(5):
            write_deltalake(tmp_path / side / "silver" / SILVER.name, part, mode="append")
    write_deltalake(tmp_path / "r" / "silver" / SILVER.name, part.slice(0, 1), mode="append")

    told = _run(
        f"found = compare(SILVER, Lake(Path({str(tmp_path / 'l')!r})), Lake(Path({str(tmp_path / 'r')!r})))[0]",
        "found.left_rows, found.only_left, found.only_right",
    )

    assert told[:3] == [6 * rows, 0, 1]
    assert told[3] < 6 * part.nbytes, f"{told[3] / 2**20:.0f} MiB"


def _run(statement: str, answer: str) -> list[int]:
    """Return what a process of its own says, and by how many bytes its memory grew at most."""
    program = f"""
import resource
from pathlib import Path
from jobs.run.compare import compare
from jobs.run.lake import Lake
from tests.run.written import SILVER
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
before = peak()
{statement}
print({answer}, peak() - before)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return [int(word) for word in done.stdout.splitlines()[-1].split()]


def test_a_log_is_cut_behind_the_rows_that_were_drawn(
    tmp_path: Path, chance: random.Random
) -> None:
    """The same rows as if the whole log were sorted and numbered."""
    places = [
        (batch, NOON, "t", number % 3, number) for batch in (0, 1, 4) for number in range(7 + batch)
    ]
    for shuffled in (chance.sample(places, len(places)),):
        _write(tmp_path, shuffled[:11])
        _write(tmp_path, shuffled[11:])
    log = Log(table=BRONZE, path=tmp_path, version=1)
    seed = chance.random()

    found = _cuts(log, 6, random.Random(seed))  # noqa: S311  # no secret

    drawn = random.Random(seed).sample(range(len(places)), 5)  # noqa: S311  # as above
    assert [tuple(each) for each in found] == [sorted(places)[n] for n in sorted(drawn)]


def _write(path: Path, rows: Sequence[tuple[object, ...]]) -> None:
    named = [dict(zip(ORDER, row, strict=True)) for row in rows]
    write_deltalake(path, pa.Table.from_pylist(named), mode="append")
