"""What the tests of this folder share: a broker, a topic and a place for each, a lake whose stream has left a morning behind."""

from collections.abc import Iterator
from pathlib import Path
from secrets import token_hex

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from pyspark.sql import SparkSession

from strandline.core.topic import Topic
from strandline.engine.kafka.broker import down, up
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.place import Place
from tests.support import clouds, schema_registry
from tests.support.morning import MORNING, streamed
from tests.support.schema_registry import SchemaRegistry
from tests.support.seeds import copied


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a broker and return its address."""
    lake = Lake(tmp_path_factory.mktemp("kafka"))
    yield up(lake).address
    down(lake)


@pytest.fixture(scope="session")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SchemaRegistry]:
    """Start a schema registry."""
    with schema_registry.running(tmp_path_factory.mktemp("registry")) as found:
        yield found


@pytest.fixture
def client(registry: SchemaRegistry) -> Iterator[SchemaRegistryClient]:
    """Return Confluent's client of the registry."""
    with SchemaRegistryClient({"url": registry.address}) as found:
        yield found


@pytest.fixture
def topic() -> Topic:
    """Return a topic that no other test knows."""
    return Topic(name=f"t-{token_hex(4)}", partitions=2)


@pytest.fixture(params=["a folder", "s3", "gcs", "azure"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return an empty place of each kind."""
    if request.param == "a folder":
        return Place.of(tmp_path / "a lake")
    found = clouds.cloud_of(request.getfixturevalue(request.param))
    return Place.of(f"{found.scheme}://{found.root}/{token_hex(4)}/a-lake")


@pytest.fixture
def morning(spark: SparkSession, anywhere: Place) -> Lake:
    """Return a lake in which a stream has left the morning behind, for one test alone."""
    lake = Lake(anywhere / "lake").open_for_writing()
    return copied(lake, "morning", lambda seed: streamed(spark, seed, MORNING))
