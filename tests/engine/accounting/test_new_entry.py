"""Each kind of entry says what it said when its fields were written out where it was committed: lakes of before go on."""

import json

import pytest

from strandline.core.topic import Topic
from strandline.engine.flow import new_entry
from strandline.engine.lake.log.ledger import Entry, Through
from strandline.engine.runtime.code_files import code_version
from tests.engine.written import BRONZE, SILVER

RANGE = ("2026-07-01T00:00:00+00:00", "2026-07-01T01:00:00+00:00")
CODE = code_version(SILVER)
NEWEST = Entry(
    table=BRONZE.id,
    mode="available-now",
    stream="a=1",
    batch=4,
    source="a",
    most=100,
    offsets={"a/0": (3, 7), "a/1": (0, 2)},
    read=6,
    good=6,
    written=6,
    newest_arrival=RANGE[0],
    duration_ms=3,
    code="c",
)


class Spent:
    """What a batch cost."""

    def wall_ms(self) -> int:
        """Return its milliseconds."""
        return 40

    def cpu_ms(self) -> int:
        """Return those of all cores."""
        return 70

    def own_ms(self) -> int:
        """Return those that were its own."""
        return 50

    def part_ms(self, name: str) -> int:
        """Return those of a part of it."""
        return {"gate": 4, "ledger": 6}[name]

    def uneven_ms(self) -> tuple[int, int] | None:
        """Return those of its longest task, and of the median one."""
        return 30, 10


KINDS = {
    "topics": (
        new_entry.topics_read(
            BRONZE,
            "available-now",
            "a=1",
            5,
            topics=[Topic(name="a"), Topic(name="b")],
            offsets={"a/0": (7, 9)},
        )
        .as_received(2)
        .closed(Spent(), written=2),
        Entry(
            table=BRONZE.id,
            mode="available-now",
            stream="a=1",
            batch=5,
            source="a, b",
            offsets={"a/0": (7, 9)},
            read=2,
            good=2,
            written=2,
            duration_ms=40,
            cpu_ms=70,
            own_ms=50,
            uneven_ms=(30, 10),
            gate_ms=4,
            ledger_ms=6,
        ),
    ),
    "tables": (
        new_entry.tables_read(
            SILVER,
            "micro-batch",
            "s",
            3,
            versions={"bronze.a": (2, 4), "bronze.b": None},
            rows=9,
        ).settled(good=6, held={"late": 1}, dropped=0, through=Through(lost=1)),
        Entry(
            table=SILVER.id,
            mode="micro-batch",
            stream="s",
            batch=3,
            source="bronze.a, bronze.b",
            versions={"bronze.a": (2, 4)},
            read=9,
            good=6,
            duplicates=1,
            quarantined={"late": 1},
            lost_by_function=1,
            code=CODE,
        ),
    ),
    "copied": (
        new_entry.copied(BRONZE, "verify", "recut", 2, source="a", rows=7),
        Entry(
            table=BRONZE.id,
            mode="verify",
            stream="recut",
            batch=2,
            source="a",
            read=7,
            good=7,
            written=7,
        ),
    ),
    "decided": (
        new_entry.decided(
            NEWEST,
            "move",
            stream="a=2",
            by="me: why",
            lost={("a", 0): (7, 9), ("b", 0): (0, 1)},
            begins={("a", 1000000): 5},
        ),
        Entry(
            table=BRONZE.id,
            mode="move",
            stream="a=2",
            batch=5,
            source="a",
            offsets={"a/0": (7, 9), "a/1": (2, 2), "a/1000000": (5, 5), "b/0": (0, 1)},
            lost={"a/0": (7, 9), "b/0": (0, 1)},
            accepted="me: why",
            newest_arrival=RANGE[0],
            code="c",
        ),
    ),
    "repair": (
        new_entry.repair(SILVER, "backfill", "backfill 1", "bronze.a", RANGE)
        .exchanged(came=5, gone=2, held={"late": -3}, through=Through(made=1))
        .closed(Spent()),
        Entry(
            table=SILVER.id,
            mode="backfill",
            stream="backfill 1",
            batch=0,
            source="bronze.a",
            since=RANGE[0],
            until=RANGE[1],
            good=3,
            duplicates=1,
            quarantined={"late": -3},
            made_by_function=1,
            came=5,
            gone=2,
            written=3,
            duration_ms=40,
            cpu_ms=70,
            own_ms=50,
            uneven_ms=(30, 10),
            gate_ms=4,
            ledger_ms=6,
            code=CODE,
        ),
    ),
    "repair of a table that counts what it has read": (
        new_entry.repair(SILVER, "backfill", "backfill 1", "bronze.a", RANGE).exchanged(
            came=5, gone=2, held={}, is_judged=False
        ),
        Entry(
            table=SILVER.id,
            mode="backfill",
            stream="backfill 1",
            batch=0,
            source="bronze.a",
            since=RANGE[0],
            until=RANGE[1],
            came=5,
            gone=2,
            code=CODE,
        ),
    ),
    "imported": (
        new_entry.imported(
            BRONZE, "import f", "f.jsonl", offsets={"a/-1": (0, 3)}, span=RANGE, rows=3
        ),
        Entry(
            table=BRONZE.id,
            mode="import",
            stream="import f",
            batch=-1,
            source="f.jsonl",
            offsets={"a/-1": (0, 3)},
            imported={"a/-1": (0, 3)},
            since=RANGE[0],
            until=RANGE[1],
            read=3,
            good=3,
            came=3,
            written=3,
        ),
    ),
    "expired": (
        new_entry.expired(SILVER, RANGE[1], rows=8, released=2),
        Entry(
            table=SILVER.id,
            mode="expire",
            stream="expire",
            batch=0,
            source="",
            since="",
            until=RANGE[1],
            expired=8,
            released=2,
            written=-8,
            changed=(0, -1),
            code=CODE,
        ),
    ),
    "forgotten": (
        new_entry.forgotten(SILVER, "forget 1f", rows=8, released=0, changed=(3, 9)),
        Entry(
            table=SILVER.id,
            mode="forget",
            stream="forget 1f",
            batch=0,
            source="",
            since="",
            forgotten=8,
            written=-8,
            changed=(3, 9),
            code=CODE,
        ),
    ),
    "mark": (
        new_entry.mark(SILVER, "discard", "discard 1"),
        Entry(table=SILVER.id, mode="discard", stream="discard 1", batch=0, source=""),
    ),
    "mark of a range": (
        new_entry.mark_of_range(SILVER, "followed", "replay 1", "quarantine.a", RANGE),
        Entry(
            table=SILVER.id,
            mode="followed",
            stream="replay 1",
            batch=0,
            source="quarantine.a",
            since=RANGE[0],
            until=RANGE[1],
        ),
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_its_text_is_that_of_its_fields(kind: str) -> None:
    """The text is what is on the disk, so it is compared, and not only the values."""
    made, spelled = KINDS[kind]

    assert json.loads(made.encoded()) == json.loads(spelled.encoded())
    assert made.encoded() == spelled.encoded()
