"""The event time within a record: where it is written, and how; and moments as a person writes them.

Silver's function may make its event time of any field. Most take a field of the same name, and that is where it is written unless
the test names another.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from datetime import time as time_of_day
from decimal import Decimal
from typing import Any, TypeAlias

import orjson

from strandline.core.errors import DefinitionError
from strandline.core.kind import in_utc
from strandline.core.routes import takes_kind
from strandline.core.table import Judged
from strandline.core.topic import Topic

BEGIN = datetime(2026, 11, 20, 12, tzinfo=UTC)
"""When the first record arrives that does not say it; times of day are of its day."""

Fields: TypeAlias = Mapping[str, Any]
Write: TypeAlias = Callable[[dict[str, Any], datetime], dict[str, Any]]
"""Returns a record with an event time."""

UNITS = ((100_000_000_000, 1), (100_000_000_000_000, 1_000), (100_000_000_000_000_000, 1_000_000))
"""Numbers below which a time counts seconds since 1970, milliseconds and microseconds, and how many are a second."""


def moment(text: str | datetime | object) -> datetime:
    """Return a moment from ``09:00:00``, ``2026-11-20 09:00``, or a datetime; in UTC where it names no zone.

    Raises:
        DefinitionError: It is none.
    """
    if isinstance(text, datetime):
        return in_utc(text)
    try:
        if isinstance(text, str) and "-" in text:
            return in_utc(datetime.fromisoformat(text))
        return datetime.combine(BEGIN, time_of_day.fromisoformat(str(text)), tzinfo=UTC)
    except ValueError as error:
        raise DefinitionError(
            f"{text!r} is no moment",
            hint='write "09:00:00", which is of the day of the scenario (2026-11-20), or "2026-11-21 09:00:00".',
        ) from error


@dataclass(frozen=True, slots=True)
class EventTime:
    """The event time in the records of a topic.

    Args:
        topic: The topic.
        tables: The tables of silver that read it.
        named: The field with the event time, or a function that writes it; None where it has the name of the column.
    """

    topic: Topic
    tables: Sequence[Judged]
    named: str | Write | None = None

    def found(self, record: object) -> datetime | None:
        """Return the event time that a record has; None where it has none that can be read."""
        if not isinstance(record, Mapping) or callable(self.named):
            return None
        for path in self._paths(record):
            value = _at(record, path)
            if isinstance(value, datetime):
                return in_utc(value)
            if isinstance(value, str):
                try:
                    return in_utc(datetime.fromisoformat(value))
                except ValueError:
                    return None
            if isinstance(value, int | float) and not isinstance(value, bool):
                return datetime.fromtimestamp(0, tz=UTC) + timedelta(seconds=value / _unit(value))
        return None

    def stamped(self, record: Fields, at: datetime) -> dict[str, Any]:
        """Return a record with an event time where it has none of its own."""
        if not callable(self.named) and any(_has(record, path) for path in self._paths(record)):
            return dict(record)
        return self.moved(record, at)

    def moved(self, record: Fields, at: datetime) -> dict[str, Any]:
        """Return a record with another event time, written as the one that it has.

        Raises:
            DefinitionError: It is not known where it is written.
        """
        if callable(self.named):
            return self.named(dict(record), at)
        paths = self._paths(record)
        path = next((each for each in paths if _has(record, each)), None)
        if path is None and len(paths) != 1:
            raise self._refusal(paths)
        path = path or paths[0]
        return _written(record, path.split("."), _like(_at(record, path), at))

    def with_other_key(self, record: Fields, name: str) -> dict[str, Any]:
        """Return a record with texts of its key replaced, so that it is an event of its own."""
        own = {each for table in self._takers(record) for each in table.key}
        return {
            field: name if field in own and isinstance(value, str) else value
            for field, value in record.items()
        }

    def key_of(self, record: object) -> list[object]:
        """Return the values by which a test may name a record: of each part of its key, and of all of them."""
        found: list[object] = []
        if not isinstance(record, Mapping):
            return found
        for table in self._takers(record):
            values = tuple(record[name] for name in table.key if name in record)
            found += [*values, values]
        return found

    def kind(self, record: Fields) -> object:
        """Return the kind of a record, where a field of it says that."""
        path = self.topic.kind.path if self.topic.kind else ()
        return _at(record, ".".join(path)) if path else None

    def _takers(self, record: Fields) -> Sequence[Judged]:
        kind = self.kind(record)
        if kind is None:
            return self.tables
        taken = [
            table
            for table in self.tables
            if any(takes_kind(each, str(kind)) for each in table.taken)
        ]
        return taken or self.tables

    def _paths(self, record: Fields) -> list[str]:
        if isinstance(self.named, str):
            return [self.named]
        return [*dict.fromkeys(table.event_at for table in self._takers(record))]

    def _refusal(self, paths: Sequence[str]) -> DefinitionError:
        return DefinitionError(
            f"a record of topic {self.topic} has no event time, and its tables have several: {', '.join(paths)}",
            hint=f'write it into the record, or name the field: stream(TABLE, time={{"{self.topic}": "…"}}).',
            topic=self.topic.name,
        )


def payload(record: object) -> bytes | None:
    """Return the bytes of a record: JSON of a dictionary, a text or bytes as they are, None for a tombstone.

    Raises:
        DefinitionError: It is none of these.
    """
    match record:
        case None | bytes():
            return record
        case str():
            return record.encode()
        case Mapping() | list():
            return orjson.dumps(record, default=_plain)
    raise DefinitionError(
        f"a record is a dictionary, a text, bytes or None, and not {record!r:.80}",
        hint='write s.send({"id": "a", "amount": 1.5}); a broken one is a text: s.send("no order").',
    )


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value).encode())
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)


def _unit(value: float) -> int:
    return next((unit for below, unit in UNITS if abs(value) < below), 1_000_000_000)


def _like(former: object, at: datetime) -> object:
    """Return a moment as the value is written that was there."""
    if isinstance(former, int | float) and not isinstance(former, bool):
        micros = (at - datetime.fromtimestamp(0, tz=UTC)) // timedelta(microseconds=1)
        return micros * _unit(former) // 1_000_000
    return at.isoformat()


def _has(record: Fields, path: str) -> bool:
    *outer, last = path.split(".")
    inner: object = record
    for name in outer:
        inner = inner.get(name) if isinstance(inner, Mapping) else None
    return isinstance(inner, Mapping) and last in inner


def _at(record: Fields, path: str) -> object:
    inner: object = record
    for name in path.split("."):
        inner = inner.get(name) if isinstance(inner, Mapping) else None
    return inner


def _written(record: Fields, path: Sequence[str], value: object) -> dict[str, Any]:
    first, *rest = path
    inner = record.get(first)
    made = _written(inner if isinstance(inner, Mapping) else {}, rest, value) if rest else value
    return {**record, first: made}
