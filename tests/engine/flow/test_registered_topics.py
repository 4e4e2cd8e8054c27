"""Topics of a schema registry: a real one, Confluent's own serializers, a real broker."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DoubleType, StringType, StructType, TimestampType

from strandline.core.errors import DefinitionError, LakeError, TransientError
from strandline.core.parse_registered import registered
from strandline.core.stateful import AvailableNow, Batch, MicroBatch
from strandline.core.table import Ingested, Judged, Table
from strandline.core.topic import CARRIED, Topic
from strandline.engine.accounting.balance_sheet import balance
from strandline.engine.flow.runner import Site, run
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import is_table
from strandline.engine.proof.verify import FedLake
from strandline.engine.repair.rebuild import rebuild
from tests.engine.records import NOON, make
from tests.support.schema_registry import SchemaRegistry

pytestmark = pytest.mark.kafka

FIELDS = (
    StructType()
    .add("id", StringType())
    .add("at", TimestampType())
    .add("value", DoubleType())
    .add("site", StringType())
    .add("unit", StringType())
)
AT = {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}}
ID = {"name": "id", "type": "string"}
SITE = {"name": "site", "type": "string"}
UNIT = {"name": "unit", "type": "string", "default": "C"}
VERSIONS = (
    [ID, AT, {"name": "value", "type": "int"}, SITE],
    [ID, AT, {"name": "value", "type": "int"}, SITE, UNIT],  # a field with a default is added
    [ID, AT, {"name": "value", "type": "double"}, UNIT],  # one is removed, one promoted
)
PATIENCE = 60.0


@pytest.fixture
def site(spark: SparkSession, clock: Callable[[], datetime], kafka: str) -> Site:
    """Return a site with a broker whose clock is at noon."""
    return Site(spark=spark, clock=clock, address=kafka)


@dataclass(slots=True)
class Sender:
    """Sends records by Confluent's serializers."""

    address: str
    topic: Topic
    registry: SchemaRegistryClient
    serializers: dict[int, AvroSerializer] = field(default_factory=dict)

    def written(self, version: int, **values: Any) -> bytes:  # noqa: ANN401  # whatever a record has
        """Return a record as a payload of a version of the schema, which is registered on its first use."""
        fields = VERSIONS[version - 1]
        if version not in self.serializers:
            text = json.dumps({"type": "record", "name": "reading", "fields": fields})
            self.serializers[version] = AvroSerializer(self.registry, text)
        record = {"at": NOON, "value": 7, "site": "north", "unit": "F", **values}
        names = [each["name"] for each in fields]
        context = SerializationContext(self.topic.name, MessageField.VALUE)
        payload = self.serializers[version]({name: record[name] for name in names}, context)
        assert payload is not None
        return payload

    def send(self, *payloads: bytes) -> None:
        """Send payloads to one partition and the other by turns."""
        producer = Producer({"bootstrap.servers": self.address, "log_level": 0})
        for number, payload in enumerate(payloads):
            producer.produce(
                self.topic.name,
                payload,
                partition=number % 2,
                timestamp=int(NOON.timestamp() * 1000),
            )
        assert producer.flush(20) == 0


@dataclass(slots=True)
class Stream:
    """Tables that run in micro-batches, each in a thread."""

    errors: list[LakeError] = field(default_factory=list)
    failed: list[BaseException] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def waits(self, error: LakeError | None) -> None:
        """Keep why a table waits."""
        if error is not None:
            self.errors.append(error)

    def run(self, table: Table, lake: Lake, site: Site) -> None:
        """Run a table until it is stopped."""
        try:
            run(
                table,
                MicroBatch(every=0.1),
                lake,
                site=site,
                stopped=self.ended.is_set,
                waits=self.waits,
            )
        except BaseException as error:
            self.failed.append(error)
            if not isinstance(error, Exception):
                raise


@contextmanager
def streaming(tables: tuple[Table, ...], lake: Lake, site: Site) -> Iterator[Stream]:
    stream = Stream()
    threads = []
    try:
        for table in tables:
            threads.append(threading.Thread(target=stream.run, args=(table, lake, site)))
            threads[-1].start()
            until(partial(is_table, lake.table(table)), stream)
        yield stream
    finally:
        stream.ended.set()
        for each in threads:
            each.join(PATIENCE)
    assert not stream.failed, stream.failed


def until(holds: Callable[[], bool], stream: Stream) -> None:
    """Wait for a state of a stream that goes on."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert not stream.failed
        assert time.monotonic() < deadline, stream
        time.sleep(0.05)


def tables_of(topic: Topic) -> tuple[Ingested, Judged]:
    (bronze,) = (
        Ingested(
            name="registered",
            reads=(replace(topic, parse=registered(defaults={"unit": "C"})),),
        ),
    )

    def readings(events: DataFrame) -> DataFrame:
        (read,) = bronze.topics
        return read.parse(events, FIELDS).select(*CARRIED, *FIELDS.fieldNames())

    judged = Judged(
        name="registered",
        reads=(bronze,),
        transform=readings,
        key=("id",),
        event_at="at",
    )
    return bronze, judged


def rows_of(table: Judged, lake: Lake) -> list[tuple[Any, ...]]:
    names = [name for name in FIELDS.fieldNames() if name != "at"]
    found = DeltaTable(str(lake.table(table))).to_pyarrow_table(columns=names).to_pylist()
    return sorted((tuple(row[name] for name in names) for row in found), key=str)


def held_of(table: Judged, lake: Lake) -> list[tuple[str, bytes]]:
    if not is_table(lake.quarantine(table)):
        return []
    rows = DeltaTable(str(lake.quarantine(table))).to_pyarrow_table().to_pylist()
    return sorted((*row["reasons"], row["_payload"]) for row in rows)


@pytest.mark.whole
def test_a_schema_evolves_twice_while_the_stream_runs(  # noqa: PLR0913, PLR0917  # the fixtures of a real world
    lake: Lake,
    site: Site,
    topic: Topic,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """The registry is killed in the middle and comes back; a batch and a rebuild give the same rows without it."""
    monkeypatch.setenv("STRANDLINE_SCHEMA_REGISTRY", registry.address)
    bronze, silver = tables_of(topic)
    make(str(site.address), topic)
    sender = Sender(str(site.address), topic, client)
    with streaming((bronze, silver), lake, site) as stream:
        first = sender.written(1, id="a")
        sender.send(first, sender.written(1, id="b", value=-3))
        until(lambda: len(rows_of(silver, lake)) == 2, stream)

        unknown, cut = b"\0\0\0\x10\x92" + first[5:], first[:-1]
        sender.send(sender.written(2, id="c"), unknown, sender.written(1, id="d"), cut)
        until(lambda: len(rows_of(silver, lake)) == 4, stream)

        third = [sender.written(3, id=id_, value=0.5) for id_ in "ef"]
        registry.kill()
        sender.send(*third, sender.written(2, id="g"))
        until(lambda: bool(stream.errors), stream)
        registry.up()
        until(lambda: len(rows_of(silver, lake)) == 7, stream)

    assert {type(error) for error in stream.errors} == {TransientError}
    assert "does not answer" in stream.errors[0].message
    live, held = rows_of(silver, lake), held_of(silver, lake)
    assert live == [
        ("a", 7.0, "north", "C"),
        ("b", -3.0, "north", "C"),
        ("c", 7.0, "north", "F"),
        ("d", 7.0, "north", "C"),
        ("e", 0.5, None, "F"),
        ("f", 0.5, None, "F"),
        ("g", 7.0, "north", "F"),
    ]
    assert held == [("malformed", cut), ("unknown_schema", unknown)]
    for table in (bronze, silver):
        assert balance(table, lake).faults == []

    registry.kill()
    monkeypatch.delenv("STRANDLINE_SCHEMA_REGISTRY")
    batch = FedLake(tmp_path / "batch", lake).open_for_writing()
    run(silver, Batch(), batch, site=site)
    assert (rows_of(silver, batch), held_of(silver, batch)) == (live, held)
    rebuilt = rebuild(silver, lake, site)
    assert (rows_of(silver, rebuilt), held_of(silver, rebuilt)) == (live, held)
    registry.up()


@pytest.mark.slow
def test_a_new_id_without_a_registry_is_refused_and_nothing_is_committed(  # noqa: PLR0913, PLR0917  # as above
    lake: Lake,
    site: Site,
    topic: Topic,
    registry: SchemaRegistry,
    client: SchemaRegistryClient,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A wrong address is a mistake and no outage: a stream would wait for ever."""
    bronze, silver = tables_of(topic)
    make(str(site.address), topic)
    sender = Sender(str(site.address), topic, client)
    sender.send(sender.written(1, id="a"), b"no payload of a registry")
    with pytest.raises(DefinitionError, match="no schema registry is named"):
        run(bronze, AvailableNow(), lake, site=site)
    monkeypatch.setenv("STRANDLINE_SCHEMA_REGISTRY", registry.address.removesuffix("/v7"))
    with pytest.raises(DefinitionError, match="does not answer as a schema registry"):
        run(bronze, AvailableNow(), lake, site=site)
    assert balance(bronze, lake).rows == 0

    monkeypatch.setenv("STRANDLINE_SCHEMA_REGISTRY", registry.address)
    for table in (bronze, silver):
        run(table, AvailableNow(), lake, site=site)

    assert rows_of(silver, lake) == [("a", 7.0, "north", "C")]
    assert held_of(silver, lake) == [("malformed", b"no payload of a registry")]
