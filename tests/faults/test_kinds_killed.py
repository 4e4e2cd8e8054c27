"""One topic of five kinds, of which three tables take one each: the stream is killed at random, and no record changes its place.

A fourth table is added in the middle and has all of its history. What the tables have is compared with what was sent, kind by kind.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from strandline.engine.lake.log.ledger import last_entry
from strandline.engine.lake.place import Place
from tests.cli import typed
from tests.faults.lives import PATIENCE, running
from tests.support import lakes
from tests.support.proofs import Times

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.timeout(36000)]

TOPIC, NOON = "many-kinds", datetime(2026, 11, 2, 12, tzinfo=UTC)
TABLES = {"order": "orders", "payment": "payments", "visit": "visits", "refund": "refunds"}
LATER = "refund"
KINDS = (*TABLES, "ping")
BRONZE = f"""
from strandline import Ingested, Topic, field

TABLE = Ingested(name="many_kinds", reads=(Topic(name="{TOPIC}", partitions=2, kind=field("type")),))
"""
SILVER = """
from pyspark.sql.types import LongType, StringType, StructType, TimestampType
from strandline import CARRIED, Judged, parse_json, required

from ..bronze import many_kinds

FIELDS = StructType().add("id", StringType()).add("amount", LongType()).add("at", TimestampType())


def NAME(events):
    return parse_json(events, FIELDS).select(*CARRIED, "id", "amount", "at")


TABLE = Judged(
    name="NAME",
    reads=(many_kinds.TABLE,),
    transform=NAME,
    key=("id",),
    event_at="at",
    rules=required("amount"),
    takes="KIND",
)
"""


class Sent:
    """What was sent: by kind the records, the events that are believed, and those that lack their amount."""

    def __init__(self, address: str, chance: random.Random) -> None:
        """Send nothing yet."""
        self._chance, self._number = chance, 0
        self._producer = Producer({"bootstrap.servers": address, "linger.ms": 50})
        self.records: Counter[str | None] = Counter()
        self.good: Counter[str] = Counter()
        self.held: Counter[str] = Counter()

    def send(self, count: int) -> None:
        """Send records: a fiftieth twice, a fiftieth without an amount, a fiftieth cut so that it has no kind."""
        for _ in range(count):
            kind = self._chance.choice(KINDS)
            at = NOON + timedelta(milliseconds=self._number)
            event: dict[str, object] = {
                "type": kind,
                "id": f"e{self._number}",
                "at": at.isoformat(),
            }
            dirt = self._chance.random()
            if dirt >= 0.02:
                event["amount"] = self._number
            payload = json.dumps(event).encode()
            is_cut = 0.02 <= dirt < 0.04
            self._number += 1
            for _ in range(2 if dirt > 0.98 else 1):
                self._produce(payload[:-3] if is_cut else payload, at)
                self.records[None if is_cut else kind] += 1
            if not is_cut:
                (self.held if dirt < 0.02 else self.good)[kind] += 1
        assert self._producer.flush(60) == 0

    def _produce(self, payload: bytes, at: datetime) -> None:
        moment = int(at.timestamp() * 1000)
        part = self._chance.randrange(2)
        while True:
            try:
                self._producer.produce(TOPIC, payload, b"k", part, timestamp=moment)
            except BufferError:
                self._producer.poll(0.1)
            else:
                return


def made(root: Path) -> Path:
    """Write the project, without the table that comes later."""
    for folder in ("", "bronze", "silver"):
        (root / "shop" / folder).mkdir(parents=True, exist_ok=True)
        (root / "shop" / folder / "__init__.py").write_text("")
    (root / "shop/bronze/many_kinds.py").write_text(BRONZE)
    for kind in TABLES:
        if kind != LATER:
            added(root, kind)
    (root / "strandline.toml").write_text('[project]\ntables = "shop"\n')
    return root


def added(root: Path, kind: str) -> None:
    """Write the module of a kind's table."""
    text = SILVER.replace("NAME", TABLES[kind]).replace("KIND", kind)
    (root / f"shop/silver/{TABLES[kind]}.py").write_text(text)


def received(lake: Place) -> int:
    """Return how many records bronze has read."""
    newest = last_entry(lake / "bronze" / "many_kinds") if (lake / "bronze").exists() else None
    return sum(end for _, end in newest[1].offsets.values()) if newest else 0


@pytest.mark.prove(alone="one to two minutes a kill")
def test_each_record_stays_with_the_table_of_its_kind_however_often_the_stream_is_killed(
    fresh: Place, address: str, tmp_path: Path, chance: random.Random, times: Times
) -> None:
    count, kills = times(6_000, 500_000), times(2, 10)
    count //= kills
    project, log = made(tmp_path / "project"), lakes.beside(fresh, ".kinds.log")
    env = {"STRANDLINE_PROJECT": str(project)}
    typed.strandline("up", "--lake", fresh, env=env).succeeded()
    sent = Sent(address, chance)
    for nth in range(kills):
        sent.send(count)
        if nth == kills // 2:
            added(project, LATER)
        target = sum(sent.records.values()) - chance.randrange(count)
        words = ("stream", "--every", "500ms", "--lake", fresh)
        with running(*words, log=log, env=env) as process:
            deadline = time.monotonic() + PATIENCE
            while received(fresh) < target:
                assert process.poll() is None, log.read_text()[-3000:]
                assert time.monotonic() < deadline, log.read_text()[-3000:]
                time.sleep(0.01)
            time.sleep(2 * chance.random())  # now, or while silver is at it

    typed.strandline("run", "--lake", fresh, env=env, timeout=3600).succeeded()

    answer: Any = (
        typed.strandline("ledger", "--audit", "--lake", fresh, "--json", env=env).succeeded().json
    )
    sheets: Mapping[str, Any] = {sheet["table"]: sheet for sheet in answer}
    bronze = sheets["bronze.many_kinds"]
    assert bronze["read"] == sum(sent.records.values())
    assert bronze["unrouted"] == {"ping": sent.records["ping"]}
    assert bronze["kindless"] == sent.records[None]
    for kind, name in TABLES.items():
        sheet = sheets[f"silver.{name}"]
        assert sheet["read"] == sent.records[kind], name
        assert sheet["good"] == sent.good[kind], name
        assert sheet["quarantined"] == {"missing:amount": sent.held[kind]}, name
        assert sheet["faults"] == [], name
        rows = DeltaTable(str(fresh / "silver" / name)).to_pyarrow_table(columns=["id"])
        ids = rows.column("id").to_pylist()
        assert len(ids) == len({*ids}) == sent.good[kind], name
