"""Schemas from a registry with Confluent's interface, by Confluent's own client.

A registry that does not answer is an outage, and its caller waits as for a broker (jobs/strandline/engine/runtime/outage.py). An id that it
does not know is an answer. Its client is imported where a registry is asked, because it takes a third of a second and is
part of an extra.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from google.protobuf import descriptor_pb2
from google.protobuf import message as protobuf_message

from strandline.core.errors import DefinitionError, TransientError
from strandline.core.routes import Format, Reference, WriterSchema
from strandline.project import refuse_without

NO_SCHEMA = 40403
"""The registry's own code for an id that it does not know."""

DENIED, ABSENT, TOO_MANY, BROKEN = frozenset({401, 403}), 404, 429, 500
TIMEOUT = 5
"""Seconds; the caller tries again after a pause."""
SERIALIZED = "serialized"
"""The form in which Protobuf's schemas are asked for: a library reads it, and a text only a compiler."""


class Registry:
    """A schema registry.

    Args:
        address: Its URL.
        options: Properties of Confluent's client.
    """

    def __init__(self, address: str, options: Mapping[str, str]) -> None:
        """Connect; the registry is not asked yet.

        Raises:
            DefinitionError: The client is not installed, or refuses an option.
        """
        self._address = address
        refuse_without("registry")
        from confluent_kafka.schema_registry import SchemaRegistryClient  # noqa: PLC0415  # as above

        try:
            known = {"url": address, "timeout": TIMEOUT, "max.retries": 1, "retries.wait.ms": 100}
            self._client = SchemaRegistryClient({**known, **options})
        except (TypeError, ValueError) as error:
            raise DefinitionError(
                f"the client of {address} cannot be made: {error}",
                hint="correct STRANDLINE_SCHEMA_REGISTRY_OPTIONS; its properties are those of Confluent's client.",
            ) from error

    def close(self) -> None:
        """Disconnect."""
        self._client.close()

    def check_reachable(self) -> None:
        """Ask for a schema, as decoding does; whether the registry knows this one is no matter.

        Raises:
            TransientError: The registry does not answer.
            DefinitionError: It refuses the client, or is no schema registry.
        """
        with self._answering():
            self._client.get_schema(1)

    def schema(self, number: int) -> WriterSchema | None:
        """Return the schema of an id with all that it imports; None where the registry does not know it.

        Raises:
            TransientError: The registry does not answer.
            DefinitionError: It refuses the client, is no schema registry, or has a schema that cannot be used.
        """
        with self._answering() as unknown:
            found = self._client.get_schema(number)
            kind = _format(number, found.schema_type)
            if kind is Format.PROTOBUF:
                self._client.clear_caches()  # type: ignore[no-untyped-call]  # it would return what it knows of the id, in whichever form
                found = self._client.get_schema(number, fmt=SERIALIZED)
            references = tuple(self._references(found, kind, {}))
        if unknown:
            return None
        text = _text(kind, str(found.schema_str), f"schema {number}")
        return WriterSchema(number=number, kind=kind, text=text, references=references)

    def _references(
        self,
        schema: Any,  # noqa: ANN401  # the client's own value
        kind: Format,
        seen: dict[str, None],
    ) -> Iterator[Reference]:
        """Yield what a schema imports, each after what it imports itself."""
        for each in schema.references or ():
            if each.name in seen:
                continue
            seen[each.name] = None
            form = SERIALIZED if kind is Format.PROTOBUF else None
            found = self._client.get_version(each.subject, each.version, fmt=form).schema
            yield from self._references(found, kind, seen)
            yield Reference(each.name, _text(kind, str(found.schema_str), each.name))

    @contextmanager
    def _answering(self) -> Iterator[list[int]]:
        """Turn errors of the client into ours; yield a list that is not empty afterwards where an id is unknown."""
        from confluent_kafka.schema_registry.error import SchemaRegistryError  # noqa: PLC0415  # as above
        from httpx2 import TransportError  # noqa: PLC0415  # as above

        unknown: list[int] = []
        try:
            yield unknown
        except TransportError as error:
            raise self._away(str(error) or type(error).__name__) from error
        except SchemaRegistryError as error:
            status = int(error.http_status_code)
            if error.error_code == NO_SCHEMA:
                unknown.append(status)
            elif status >= BROKEN or status == TOO_MANY:
                raise self._away(str(error)) from error
            elif status in DENIED:
                raise DefinitionError(
                    f"the schema registry at {self._address} refuses the client: {error}",
                    hint="set its credentials in STRANDLINE_SCHEMA_REGISTRY_OPTIONS, such as basic.auth.user.info.",
                ) from error
            else:
                raise DefinitionError(
                    f"{self._address} does not answer as a schema registry: {error}",
                    hint="correct STRANDLINE_SCHEMA_REGISTRY; Apicurio has Confluent's interface under /apis/ccompat/v7.",
                ) from error

    def _away(self, why: str) -> TransientError:
        return TransientError(
            f"the schema registry at {self._address} does not answer: {why}",
            hint="start it, or correct STRANDLINE_SCHEMA_REGISTRY; nothing is lost, and a stream goes on by itself.",
            registry=self._address,
        )


def _format(number: int, name: str | None) -> Format:
    try:
        return Format(name or Format.AVRO)
    except ValueError as error:
        raise DefinitionError(
            f"schema {number} is of the type {name}, which cannot be decoded",
            hint=f"the types are {', '.join(Format)}.",
            schema=number,
        ) from error


def _text(kind: Format, text: str, name: str) -> str:
    """Return a schema as it is kept.

    Raises:
        DefinitionError: A registry has a Protobuf schema as a text only.
    """
    if kind is not Format.PROTOBUF:
        return text
    try:
        descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (binascii.Error, protobuf_message.DecodeError) as error:
        raise DefinitionError(
            f"the registry returns {name} as a text of Protobuf, and not serialized",
            hint="Confluent's registry serializes it; to others the producer must register the serialized descriptor.",
            schema=name,
        ) from error
    return text
