"""Readings of days gone by, as files of history and as the same records with the moment of their arrival."""

import gzip
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq

BROKEN = b'{"event_id": "torn", "dev'
WILD = ("9999-12-31T23:59:59+00:00", "2099-01-01T00:00:00+00:00", "0001-01-01T00:00:00+00:00")
"""Moments at which nothing arrived: of broken clocks."""


@dataclass(frozen=True, slots=True)
class Sent:
    """A record, and when it arrived."""

    payload: bytes
    arrived_at: datetime


def month(chance: random.Random, since: datetime, days: int, a_day: int) -> list[Sent]:
    """Return readings in the order of their arrival: copies, implausible values, wrong clocks and broken lines among them."""
    return [*_month(chance, since, days, a_day)]


def _month(chance: random.Random, since: datetime, days: int, a_day: int) -> Iterator[Sent]:
    step = timedelta(days=1) / a_day
    for number in range(days * a_day):
        happened = since + number * step
        value = 900 if chance.random() < 0.01 else round(chance.uniform(-20, 40), 2)
        fields = {
            "event_id": f"past-{number}",
            "device_id": f"d{number % 7}",
            "signal": "temperature",
            "value": orjson.Fragment(f"{value:.4f}"),  # as many digits as the column of Parquet
            "event_at": happened.isoformat(),
            "meta": {"firmware": "1.0.0", "seq": number},
        }
        yield Sent(orjson.dumps(fields), happened)
        if chance.random() < 0.02:
            yield Sent(orjson.dumps(fields), happened)
        if number % 90 == 40:  # some in each half of the shortest month
            wild = {"event_id": f"wild-{number}", "event_at": WILD[number // 90 % len(WILD)]}
            yield Sent(
                orjson.dumps(fields | wild), happened
            )  # has the arrival of the line before it
        if number % 90 == 70:  # as above
            yield Sent(BROKEN, happened)  # as above


def written(folder: Path, sent: Sequence[Sent]) -> tuple[Path, Path]:
    """Write the first half as Parquet, as far as its records can be read, and the second one as compressed JSON lines."""
    folder.mkdir()
    half = half_of(sent)
    readable = [each for each in sent[:half] if each.payload != BROKEN]
    rows = [orjson.loads(each.payload) for each in readable]
    for row in rows:
        row["value"] = Decimal(str(row["value"]))
        row["event_at"] = datetime.fromisoformat(row["event_at"])
    table = pa.Table.from_pylist(rows)
    value = table.schema.get_field_index("value")
    table = table.set_column(value, "value", table["value"].cast(pa.decimal128(14, 4)))
    first, second = folder / "a.parquet", folder / "b.jsonl.gz"
    pq.write_table(table, first)
    second.write_bytes(gzip.compress(b"".join(each.payload + b"\n" for each in sent[half:])))
    return first, second


def half_of(sent: Sequence[Sent]) -> int:
    """Return where the second file begins: at a record that can be read, because another one has the arrival before it."""
    middle = len(sent) // 2
    return next(number for number in range(middle, len(sent)) if _says_when(sent[number].payload))


def _says_when(payload: bytes) -> bool:
    return payload != BROKEN and b'"wild-' not in payload


def as_received(sent: Sequence[Sent]) -> list[Sent]:
    """Return the records that the files have: a broken line cannot be a row of Parquet."""
    half = half_of(sent)
    return [each for number, each in enumerate(sent) if number >= half or each.payload != BROKEN]
