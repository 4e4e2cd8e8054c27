"""A fold in batch gives the rows of a stream that was cut anywhere, and holds no more than is open."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructType

from fleet.gold import attributed_connections, ip_holds
from fleet.silver import devices
from strandline.core import changed_rows
from strandline.core.fold import FOREVER, SLICE, Event, Fold, InMemory, replayed

SECOND = 1_000_000
LATE = 60 * SECOND


def columns(fold: Fold) -> tuple[str, ...]:
    return (*fold.by, *fold.reads, "at", "watermark")


def act(chance: random.Random, number: int, at: int) -> Event:
    return {
        "ip": "a",
        "kind": chance.choice(("ack", "renew", "release", "decline")),
        "mac": f"m{chance.randrange(3)}",
        "device_id": chance.choice(("d1", "d2", None)),
        "lease_seconds": chance.choice((5, 60, None)),
        "arrived": at + chance.randrange(3),
        "_partition": 0,
        "_offset": number,
    }


def connection(chance: random.Random, number: int, at: int) -> Event:  # noqa: ARG001  # as the others
    return {
        "ip": "a",
        "connection_id": f"c{number}",
        "dst_ip": "x",
        "dst_port": 443,
        "bytes_out": 1,
        "bytes_in": 2,
    }


def change(chance: random.Random, number: int, at: int) -> Event:
    attributes = {"site": chance.choice("ab"), "model": "m", "owner": chance.choice("xyz")}
    place = {"arrived": at + chance.randrange(4), "_partition": 0, "_offset": number}
    return {"device_id": "d", **attributes, **place}


def logged(chance: random.Random, number: int, at: int) -> Event:
    """Return a change of a database's row; its log is in the order of its clock, which has seconds."""
    place = {"arrived": at + chance.randrange(4), "_partition": 0, "_offset": number}
    position = f"{at:020}/{chance.randrange(100)}/{number:09}"
    is_gone = chance.random() < 0.3
    return {
        "id": 7,
        "site": chance.choice("ab"),
        "change_position": position,
        "gone": is_gone,
        **place,
    }


CUSTOMER = StructType().add("id", LongType()).add("site", StringType())

FOLDS: dict[str, tuple[Fold, tuple[Callable[[random.Random, int, int], Event], ...]]] = {
    "holds": (ip_holds.FOLD, (act,)),
    "attributed": (attributed_connections.FOLD, (act, connection, connection, connection)),
    "devices": (devices.FOLD, (change,)),
    "logged": (changed_rows.fold_of(("id",), CUSTOMER), (logged,)),
}


def log_of(name: str, chance: random.Random, length: int) -> list[Event]:
    fold, kinds = FOLDS[name]
    whole = []
    for number in range(length):
        at = chance.randrange(length) * SECOND
        row = chance.choice(kinds)(chance, number, at)
        whole.append({**dict.fromkeys(columns(fold)), **row, "at": at})
    return sorted(whole, key=lambda row: row["at"])


def streamed(fold: Fold, log: list[Event], chance: random.Random) -> dict[Any, Any]:
    """Return the last answer for each key when the log comes in any order within the watermark, cut anywhere."""
    last, text, pieces = {}, None, InMemory()
    rest = sorted(log, key=lambda row: row["at"] + chance.uniform(0, LATE))
    while True:
        cut = chance.choice((1, 10, 400))
        piece, rest = rest[:cut], rest[cut:]
        settled = min((row["at"] for row in rest), default=FOREVER) - 1
        memory = fold.recall(text, pieces)
        for answer in fold.step(memory, piece, settled).answers:
            last[tuple(answer[name] for name in fold.key)] = answer
        text = memory.text()
        if not rest:
            return last


@pytest.mark.parametrize("name", FOLDS)
def test_a_batch_gives_the_rows_of_any_stream(name: str, chance: random.Random) -> None:
    """Many rows of one moment, pieces of state, slices of a batch: none of it can be seen in the answers."""
    fold, _ = FOLDS[name]
    for length in (1, 40, 40, 40, 2_000):
        log = log_of(name, chance, length)
        rows = [{column: row[column] for column in columns(fold)} for row in log]
        batches = pa.Table.from_pylist(rows).to_batches(max_chunksize=97)
        found = [row for batch in replayed(fold)(iter(batches)) for row in batch.to_pylist()]

        assert len(found) == len({tuple(row[key] for key in fold.key) for row in found})
        expected = streamed(fold, log, chance)
        assert {tuple(row[key] for key in fold.key): row for row in found} == expected


@pytest.mark.whole
def test_no_list_is_as_long_as_a_key() -> None:
    """What is settled is emitted before the rest is read."""
    fold, read = attributed_connections.FOLD, 0

    def batches() -> Iterator[pa.RecordBatch]:
        nonlocal read
        names = dict.fromkeys(columns(fold))
        own = {"ip": "a", "dst_ip": "x", "dst_port": 1, "bytes_out": 1, "bytes_in": 1}
        for begin in range(0, 6 * SLICE, SLICE):
            read += 1
            numbers = range(begin, begin + SLICE)
            events = [{**names, **own, "connection_id": f"c{n}", "at": n * SECOND} for n in numbers]
            yield pa.RecordBatch.from_pylist(events)

    answers = replayed(fold)(batches())
    lengths, behind = [], []
    for batch in answers:
        lengths.append(batch.num_rows)
        behind.append(read * SLICE - sum(lengths))
    assert sum(lengths) == 6 * SLICE
    assert max(lengths) == SLICE
    assert max(behind) <= 2 * SLICE
