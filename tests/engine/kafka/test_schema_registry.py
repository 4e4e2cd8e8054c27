"""A real registry's schemas, with all that they import, decode what Confluent's own serializers write."""

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any

import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, timestamp_pb2

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.parse_registered import decoder
from strandline.core.routes import Format
from strandline.engine.kafka.schema_registry import Registry
from strandline.engine.runtime.processes import bind
from tests.support.schema_registry import SchemaRegistry

AT = datetime(2026, 11, 20, 8, 15, 30, tzinfo=UTC)


@pytest.fixture
def ours(registry: SchemaRegistry) -> Iterator[Registry]:
    """Return the project's own client."""
    with closing(Registry(registry.address, {})) as found:
        yield found


def decoded(ours: Registry, serialize: Callable[..., bytes | None], value: object) -> Any:  # noqa: ANN401  # a record
    """Write a value by a serializer, and read it by the schema that the registry has for its id."""
    topic = f"t-{token_hex(4)}"  # a subject has schemas of one kind
    payload = serialize(value, SerializationContext(topic, MessageField.VALUE))
    assert payload is not None
    schema = ours.schema(int.from_bytes(payload[1:5], "big"))
    assert schema is not None
    return schema.kind, decoder(schema)(payload[5:])


@pytest.mark.whole
def test_avro_with_a_schema_that_another_subject_has(
    ours: Registry, client: SchemaRegistryClient
) -> None:
    place = {"type": "record", "name": "Place", "fields": [{"name": "site", "type": "string"}]}
    client.register_schema("place", Schema(json.dumps(place), "AVRO"))
    text = json.dumps(
        {"type": "record", "name": "reading", "fields": [{"name": "at", "type": "Place"}]}
    )
    schema = Schema(text, "AVRO", [SchemaReference("Place", "place", 1)])

    kind, record = decoded(ours, AvroSerializer(client, schema), {"at": {"site": "north"}})

    assert (kind, record) == (Format.AVRO, {"at": {"site": "north"}})


def test_json_by_its_schema(ours: Registry, client: SchemaRegistryClient) -> None:
    text = json.dumps(
        {"title": "reading", "type": "object", "properties": {"id": {"type": "string"}}}
    )

    kind, record = decoded(ours, JSONSerializer(text, client), {"id": "a"})

    assert (kind, record) == (Format.JSON, {"id": "a"})


def test_protobuf_with_a_file_of_googles(ours: Registry, client: SchemaRegistryClient) -> None:
    file = descriptor_pb2.FileDescriptorProto(name="reading.proto", syntax="proto3")
    file.dependency.append("google/protobuf/timestamp.proto")
    reading = file.message_type.add(name="Reading")
    reading.field.add(name="id", number=1, type=9, label=1)
    at = reading.field.add(name="at", number=2, type=11, label=1)
    at.type_name = ".google.protobuf.Timestamp"
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(timestamp_pb2.DESCRIPTOR.serialized_pb)
    pool.Add(file)
    kind_of = message_factory.GetMessageClass(pool.FindMessageTypeByName("Reading"))
    message = kind_of(id="a")
    message.at.FromDatetime(AT)
    serialize = ProtobufSerializer(kind_of, client, {"use.deprecated.format": False})

    kind, record = decoded(ours, serialize, message)

    assert (kind, record) == (Format.PROTOBUF, {"id": "a", "at": AT})


def test_an_id_that_the_registry_does_not_know_is_an_answer(ours: Registry) -> None:
    assert ours.schema(4242) is None


@pytest.mark.whole
def test_protobuf_as_text_is_refused_with_the_reason(
    ours: Registry, client: SchemaRegistryClient
) -> None:
    text = 'syntax = "proto3"; message Reading { string id = 1; }'
    number = client.register_schema("as-text", Schema(text, "PROTOBUF"))

    with pytest.raises(DefinitionError, match="as a text of Protobuf"):
        ours.schema(number)


def test_a_registry_that_does_not_answer_is_an_outage() -> None:
    with (
        closing(Registry(f"http://127.0.0.1:{bind(0)}", {})) as away,
        pytest.raises(TransientError, match="does not answer"),
    ):
        away.schema(1)


def test_an_address_of_something_else_is_a_mistake(registry: SchemaRegistry) -> None:
    with (
        closing(Registry(f"{registry.address}/nothing", {})) as other,
        pytest.raises(DefinitionError, match="does not answer as a schema registry"),
    ):
        other.schema(1)


def test_an_option_that_the_client_does_not_know_is_named() -> None:
    with pytest.raises(DefinitionError, match=r"no\.such\.option"):
        Registry("http://127.0.0.1:1", {"no.such.option": "x"})
