"""The schema with which a payload was written, by its id in a schema registry; and where a function finds schemas.

A payload in Confluent's wire format has no field names, only the id of its writer's schema. A table's function is pure: it
has rows and no lake. So what plans a table names the schemas of its lake for the length of the planning
(``schemas_from``), and what is planned keeps them: a stream that runs for a year asks the same shelf for each new id.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from strandline.core.errors import DefinitionError


class Format(StrEnum):
    """How payloads of a schema are encoded, by the registry's own names."""

    AVRO = "AVRO"
    PROTOBUF = "PROTOBUF"
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class Reference:
    """A schema that another one imports.

    Args:
        name: How it is imported: a name, a file or an address.
        text: The schema.
    """

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WriterSchema:
    """A schema of an id of a registry; it never changes.

    Args:
        number: The id.
        kind: How payloads are encoded.
        text: The schema; for Protobuf a serialized ``FileDescriptorProto`` as base64.
        references: All schemas that it imports, each after those that it imports itself.
    """

    number: int
    kind: Format
    text: str
    references: tuple[Reference, ...] = ()

    def as_json(self) -> str:
        """Return it as text."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def of_json(cls, text: str) -> "WriterSchema":
        """Read it from text."""
        found = json.loads(text)
        references = tuple(Reference(**each) for each in found["references"])
        return cls(**{**found, "kind": Format(found["kind"]), "references": references})


class MalformedError(ValueError):
    """Bytes that are not exactly one record of their schema."""


Record: TypeAlias = Mapping[str, Any]
"""A decoded record, by the names of its fields."""

Decode: TypeAlias = Callable[[bytes], Record]
"""Returns the record that bytes are; what follows the id of their schema.

Raises ``MalformedError`` where they are none.
"""

Schemas: TypeAlias = Callable[[int], WriterSchema | None]
"""Returns the schema of an id; None where no registry knows the id. Spark sends it to its Python workers."""


def no_schemas(number: int) -> WriterSchema | None:
    """Refuse to look up a schema, because no place was named.

    Raises:
        DefinitionError: Always.
    """
    raise DefinitionError(
        f"the schema {number} was asked for outside of a lake",
        hint="a test gives them to `judge(…, schemas=…)`; the engine names them with `schemas_from`.",
        schema=number,
    )


_SCHEMAS: ContextVar[Schemas] = ContextVar("schemas", default=no_schemas)


@contextmanager
def schemas_from(schemas: Schemas) -> Iterator[None]:
    """Let the functions of tables that are called in the block find schemas there."""
    token = _SCHEMAS.set(schemas)
    try:
        yield
    finally:
        _SCHEMAS.reset(token)


def schemas_of_today() -> Schemas:
    """Return where the function that is called now finds schemas."""
    return _SCHEMAS.get()
