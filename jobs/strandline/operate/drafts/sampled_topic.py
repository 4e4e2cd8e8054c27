"""What sampled records of a topic are like: their format, their kinds, and their fields with all that was seen of them."""

import ast
import csv
import hashlib
import io
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import partial
from typing import Any

from strandline.core.errors import DefinitionError
from strandline.core.parse_registered import decoder
from strandline.core.routes import Decode as Decoder
from strandline.core.routes import MalformedError, WriterSchema
from strandline.engine.ask.locate import Sample, Seen
from strandline.operate.drafts.sampled_fields import Decode, Field, Record, read_json
from strandline.operate.drafts.sampled_traits import Kinds, Labels

WIRE = 5
"""Bytes before a payload that a client of a schema registry has written: a zero, and the number of the schema."""

MOSTLY = 0.9
"""The share of payloads that must be of a format."""

ENVELOPE = frozenset({"op", "source", "after"})
"""Fields of a change event of Debezium."""

Schema = Callable[[int], WriterSchema | None]
"""Returns a schema of a registry."""


class Format(StrEnum):
    """How payloads are encoded."""

    JSON = "JSON"
    DEBEZIUM = "JSON of Debezium: changes of a database's rows"
    REGISTERED = "of a schema registry"
    CSV = "CSV"
    RAW = "of no format that is read as fields"

    @property
    def parse(self) -> str:
        """Return the parser that is declared; empty where it is the usual one."""
        return {
            Format.DEBEZIUM: "debezium()",
            Format.REGISTERED: "registered()",
            Format.CSV: "parse_csv",
            Format.RAW: "parse_raw",
        }.get(self, "")


def no_registry(number: int) -> WriterSchema | None:
    """Refuse to look a schema up.

    Raises:
        DefinitionError: Always.
    """
    raise DefinitionError(
        f"the payloads are of schema {number} of a schema registry, and none is named",
        hint="set STRANDLINE_SCHEMA_REGISTRY, then type this again.",
        schema=number,
    )


def format_of(records: Sequence[Seen]) -> Format:
    """Return the format of nearly all payloads; of JSON, that of half of them is enough."""
    payloads = [each.payload for each in records if each.payload]
    if not payloads:
        return Format.RAW if records else Format.JSON
    if _share(payloads, lambda each: schema_number(each) is not None) >= MOSTLY:
        return Format.REGISTERED
    found = [record for each in payloads if (record := read_json(each)) is not None]
    # Nothing else reads as an object by chance, and a producer that writes NaN may spoil many.
    if len(found) >= len(payloads) / 2:
        changes = sum(map(is_change, found))
        return Format.DEBEZIUM if changes >= MOSTLY * len(found) else Format.JSON
    width = width_of(payloads)
    lines = sum(bool(cells_of(each, width)) for each in payloads)
    return Format.CSV if lines >= MOSTLY * len(payloads) else Format.RAW


def width_of(payloads: Iterable[bytes]) -> int:
    """Return how many cells most lines have; 0 where none has several."""
    widths = Counter(len(cells) for each in payloads if (cells := _cells(each)))
    return widths.most_common(1)[0][0] if widths else 0


def cells_of(payload: bytes, width: int) -> list[str]:
    """Return the cells of a line of so many; none of another."""
    cells = _cells(payload)
    return cells if len(cells) == width else []


def _share(payloads: Sequence[bytes], holds: Callable[[bytes], bool]) -> float:
    return sum(map(holds, payloads)) / len(payloads)


def schema_number(payload: bytes) -> int | None:
    """Return the number of a payload's schema; None where it begins otherwise."""
    has_one = len(payload) > WIRE and payload[0] == 0
    return int.from_bytes(payload[1:WIRE], "big") if has_one else None


def is_change(record: Record) -> bool:
    """Return whether a record is a change event of Debezium."""
    inner = record.get("payload")
    return record.keys() >= ENVELOPE or (isinstance(inner, Mapping) and inner.keys() >= ENVELOPE)


def _cells(payload: bytes) -> list[str]:
    """Return the cells of one line; none where it is no line of several."""
    try:
        text = payload.decode()
    except UnicodeDecodeError:
        return []
    if "\n" in text or "\r" in text or "\0" in text or not text.isprintable():
        return []
    # A cell that is JSON has quotes around it; the time of an access log has brackets, and other cells behind it.
    line = text.strip()
    if line[:1] + line[-1:] in {"{}", "[]"}:
        return []
    try:
        cells = next(csv.reader(io.StringIO(text)), [])
    except csv.Error:  # a cell of more letters than a reader takes
        return []
    return cells if len(cells) > 1 else []


def decode_of(form: Format, schema: Schema, width: int = 0) -> Decode:
    """Return how payloads of a format become records.

    Args:
        form: The format.
        schema: Where the schemas of a registry are found.
        width: How many cells a line has.
    """
    match form:
        case Format.JSON:
            return read_json
        case Format.DEBEZIUM:
            return _row_of_change
        case Format.CSV:
            return partial(_line, width=width)
        case Format.REGISTERED:
            return _registered(schema)
        case _:
            return lambda payload: {"payload": payload}


def _row_of_change(payload: bytes) -> Record | None:
    """Return the row of a database that a change is of."""
    found = read_json(payload)
    if found is None:
        return None
    inner = found.get("payload")
    envelope = inner if isinstance(inner, Mapping) else found
    row = envelope.get("after") or envelope.get("before")
    return row if isinstance(row, Mapping) else None


def _line(payload: bytes, width: int) -> Record | None:
    cells = cells_of(payload, width)
    return {f"cell_{n}": _cell(each) for n, each in enumerate(cells, 1)} if cells else None


def _cell(text: str) -> object:
    """Return what a cell is read as: nothing, a number where it is one, else a text."""
    if not text:
        return None
    as_json = read_json(b'{"cell": %b}' % text.encode()) if text[:1] in "-0123456789" else None
    return as_json["cell"] if as_json and len(as_json) == 1 else text


def _registered(schema: Schema) -> Decode:
    known: dict[int, Decoder | None] = {}

    def decode(payload: bytes) -> Record | None:
        number = schema_number(payload)
        if number is None:
            return None
        if number not in known:
            written = schema(number)
            known[number] = decoder(written) if written else None
        decodes = known[number]
        try:
            return decodes(payload[WIRE:]) if decodes else None
        except MalformedError:
            return None

    return decode


@dataclass(slots=True)
class Look:
    """What was seen in a sample.

    Args:
        sample: The sample.
        form: The format of its payloads.
        decode: How they are read.
        whole: The fields of its records, without copies.
        records: How many records could be read and are no copies.
        copies: How many were equal to one before, byte by byte.
        unread: How many could not be read.
        labels: What may be the kinds of the records.
        schemas: How many payloads are of which schema of a registry.
        first: The first arrival.
        last: The last one.
    """

    sample: Sample
    form: Format
    decode: Decode
    whole: Field = field(default_factory=Field)
    records: int = 0
    copies: int = 0
    unread: int = 0
    labels: Labels = field(default_factory=Labels)
    schemas: Counter[int] = field(default_factory=Counter)
    first: datetime | None = None
    last: datetime | None = None

    @property
    def count(self) -> int:
        """Return how many records were looked at."""
        return self.records + self.copies + self.unread

    @property
    def kinds(self) -> Kinds | None:
        """Return how the kinds of the records differ."""
        if self.form is Format.REGISTERED and len(self.schemas) > 1:
            names = {str(number): count for number, count in self.schemas.most_common()}
            return self.labels.kinds() or Kinds("schema_id()", names, 0)
        return self.labels.kinds()

    def again(self) -> Iterator[Record]:
        """Yield the records once more: as values of Python all of them at once would fill the memory."""
        for each in self.sample.records:
            record = self.decode(each.payload) if each.payload else None
            if record is not None:
                yield record


def look(sample: Sample, schema: Schema = no_registry) -> Look:
    """Return what was seen in a sample.

    Raises:
        DefinitionError: Its payloads are of a registry that is not named.
    """
    form = format_of(sample.records)
    width = width_of(each.payload for each in sample.records if each.payload)
    seen = Look(sample=sample, form=form, decode=decode_of(form, schema, width))
    before: set[bytes] = set()
    for each in sample.records:
        _add(seen, each, before)
    return seen


def _add(seen: Look, each: Seen, before: set[bytes]) -> None:
    if each.arrived_at is not None:
        seen.first = min(seen.first or each.arrived_at, each.arrived_at)
        seen.last = max(seen.last or each.arrived_at, each.arrived_at)
    record = seen.decode(each.payload) if each.payload else None
    if record is None or each.payload is None:
        seen.unread += 1
        return
    mark = hashlib.blake2b(each.payload, digest_size=16).digest()
    if mark in before:
        seen.copies += 1
        return
    before.add(mark)
    seen.records += 1
    arrived = each.arrived_at.timestamp() if each.arrived_at else None
    seen.whole.add(record, arrived)
    seen.labels.add(record, each)
    if (number := schema_number(each.payload)) is not None and seen.form is Format.REGISTERED:
        seen.schemas[number] += 1


def call_of(by: str) -> tuple[str, list[str]]:
    """Return the function of a declaration and its arguments.

    >>> call_of("field('meta', 'type')"), call_of("schema_id()")
    (('field', ['meta', 'type']), ('schema_id', []))
    """
    name, _, rest = by.partition("(")
    return name, list(ast.literal_eval(f"({rest[:-1]},)")) if rest.strip(")") else []


def kind_of(each: Seen, by: str, decode: Decode) -> str | None:
    """Return the kind of a record by a declaration such as ``field('type')``; None where it has none."""
    call, words = call_of(by)
    match call:
        case "field":
            value: Any = decode(each.payload) if each.payload else None
            for name in words:
                value = value.get(name) if isinstance(value, Mapping) else None
            return None if value is None else str(value)
        case "header":
            named = [value for name, value in each.headers if name == words[0]]
            return (named[-1] or b"").decode(errors="replace") if named else None
        case "key_prefix":
            key = (each.key or b"").decode(errors="replace")
            return key.partition(words[0])[0] if words[0] in key else None
        case "schema_id":
            number = schema_number(each.payload or b"")
            return None if number is None else str(number)
        case _:
            return each.topic
