"""What fields sampled records have, and the types by which the strict reader takes each value that was seen.

A real topic has records that are broken. So a type is that of at least 98 of 100 values of a field, and the records that it would hold
are counted; a field with more of another type is left to a person, because no type reads both. A field without any value has no
type yet, and declaring one would hold the first record that has another.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from typing import Any, NoReturn, TypeAlias

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from strandline.core.parse import DOUBLE_DIGITS

TOLERATED = 0.02
"""The share of values that may be of another type, or missing: records that a producer has spoiled."""

MOST_SCALE = 6
"""Digits behind the point of a decimal; a number with more was measured, and not counted."""

FEW = 12
"""The values of an enum."""

LONG_TEXT = 60
MANY_NAMES, RARE = 20, 0.3
"""Of an object whose names are data: it has many of them, each in few records."""

MOST_NAMES = 2_000
"""Names of fields of one object that are looked at."""

MOST_COUNTED = 100_000
"""Names beyond these that are counted."""

DEEPEST = 12
LONGS = (-(2**63), 2**63 - 1)

Record: TypeAlias = Mapping[str, Any]
Decode: TypeAlias = Callable[[bytes], Record | None]
"""Returns the fields of a payload; None where it is no record."""


class Of(StrEnum):
    """What a value is."""

    NOTHING = "nothing"
    BOOLEAN = "true or false"
    WHOLE = "a whole number"
    NUMBER = "a number"
    TEXT = "a text"
    LIST = "a list"
    OBJECT = "an object"
    BYTES = "bytes"
    TIME = "a time"
    DATE = "a date"


MOMENT = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)

UNITS = {"seconds": 1, "millis": 1_000, "micros": 1_000_000, "nanos": 1_000_000_000}
FIRST_SECOND, LAST_SECOND = 978_307_200, 4_102_444_800
"""From 2001 to 2100: a number of seconds, or of parts of one, that lies between is a time, where its name or its arrival agree."""

FORMS = {
    "uuid": re.compile(r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}"),
    "email": re.compile(r"[^@\s]{1,64}@[\w-]+(?:\.[\w-]+)+"),
    "ip": re.compile(r"(?:\d{1,3}\.){3}\d{1,3}|[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){3,7}"),
    "mac": re.compile(r"(?:[0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2}"),
    "phone": re.compile(r"(?:\+|00)[\d ()/.-]{7,20}\d"),
    "iban": re.compile(r"[A-Z]{2}\d{2}[A-Z0-9 ]{10,32}"),
    "card": re.compile(r"(?:\d{4}[ -]?){3}\d{1,7}"),
    "digits": re.compile(r"0\d+"),
    "number": re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"),
}


HOME = re.compile(
    r"[a-z]:[/\\]+(?:home|users)[/\\]+[^/\\]|\\+(?:home|users)\\+[^\\]", re.IGNORECASE
)
"""The begin of a path to or below the folder of a person, where it can be nothing else."""

HOMES = {"home": HOME, "unix home": re.compile(r"/+(?:home|Users)/+[^/]")}
"""That, and the same without a drive: a path of a web site may begin so as well, and `/users/42` begins otherwise."""


def form_of(text: str) -> str:
    """Return what a text looks like; empty where it is only a text.

    >>> form_of("2026-11-20T08:15:30Z"), form_of("2026-11-20"), form_of("a@b.example"), form_of("10.0.0.1"), form_of("x")
    ('moment', 'date', 'email', 'ip', '')
    """
    for name, path in HOMES.items():
        if path.match(text):
            return name
    if len(text) > LONG_TEXT:
        return ""
    if seconds_of(text) is not None:
        return "moment"
    if (found := DAY.fullmatch(text)) and _day(*map(int, found.groups())):
        return "date"
    # A MAC looks like a short address of IPv6 as well.
    for name in ("mac", *FORMS):
        if FORMS[name].fullmatch(text):
            return name
    return ""


def seconds_of(text: str) -> float | None:
    """Return the seconds since 1970 of a text with date and time that the strict reader takes; None where it is none."""
    found = MOMENT.fullmatch(text)
    if found is None:
        return None
    year, month, day, hour, minute, second = map(int, found.groups()[:6])
    zone = found[8]
    try:
        at = datetime(year, month, day, hour, minute, second, tzinfo=UTC).timestamp()
    except ValueError:
        return None
    if zone and zone != "Z":
        hours, minutes = int(zone[1:3]), int(zone[4:6])
        if hours > 17 or minutes > 59:  # noqa: PLR2004  # beyond all zones
            return None
        at -= (1 if zone[0] == "+" else -1) * (hours * 3600 + minutes * 60)
    return at + float(found[7] or 0)


def _day(year: int, month: int, day: int) -> date | None:
    try:
        return date(year, month, day)
    except ValueError:
        return None


def unit_of(number: float | Decimal) -> str:
    """Return the unit in which a number counts a time of our days; empty where it cannot.

    >>> unit_of(1_795_150_000), unit_of(1_795_150_000_123), unit_of(12)
    ('seconds', 'millis', '')
    """
    whole = int(number)
    return next(
        (
            unit
            for unit, parts in UNITS.items()
            if FIRST_SECOND * parts <= whole <= LAST_SECOND * parts
        ),
        "",
    )


KINDS: Sequence[tuple[type | tuple[type, ...], Of]] = (
    (type(None), Of.NOTHING),
    (bool, Of.BOOLEAN),
    (int, Of.WHOLE),
    ((float, Decimal), Of.NUMBER),
    (bytes, Of.BYTES),
    (datetime, Of.TIME),
    (date, Of.DATE),
    ((list, tuple), Of.LIST),
    (Mapping, Of.OBJECT),
)


def _kind_of(value: object) -> Of:
    return next((kind for types, kind in KINDS if isinstance(value, types)), Of.TEXT)


@dataclass(slots=True)
class Field:
    """The values of one field.

    Args:
        kinds: How many are what.
        low: The least number.
        high: The largest.
        before: How many numbers have how many digits before the point.
        behind: The same behind it.
        units: How many numbers count a time of our days, by their unit.
        ages: Of values that are a time, the seconds until their arrival.
        forms: How many texts look like what.
        wordy: How many texts have a space, or are long.
        texts: The texts, while they are few, with how often each came.
        distinct: Hashes of the values, while nearly all differ.
        items: The items of lists.
        fields: The fields of objects.
        cut: Hashes of the names of fields that are not looked at, because there were so many.
    """

    kinds: Counter[Of] = field(default_factory=Counter)
    low: float | Decimal = math.inf
    high: float | Decimal = -math.inf
    before: Counter[int] = field(default_factory=Counter)
    behind: Counter[int] = field(default_factory=Counter)
    units: Counter[str] = field(default_factory=Counter)
    ages: list[float] = field(default_factory=list)
    forms: Counter[str] = field(default_factory=Counter)
    wordy: int = 0
    texts: Counter[str] | None = field(default_factory=Counter)
    distinct: set[int] | None = field(default_factory=set)
    items: "Field | None" = None
    fields: "dict[str, Field]" = field(default_factory=dict)
    cut: set[int] = field(default_factory=set)

    @property
    def count(self) -> int:
        """Return how many values there are that are something."""
        return sum(self.kinds.values()) - self.kinds[Of.NOTHING]

    def add(self, value: object, arrived: float | None, depth: int = 0) -> None:
        """Take a value in.

        Args:
            value: The value.
            arrived: When its record arrived, in seconds since 1970.
            depth: How many objects and lists it lies in.
        """
        kind = _kind_of(value)
        self.kinds[kind] += 1
        match value:
            case None | bool():
                return
            case int() | float() | Decimal():
                self._add_number(value, arrived)
            case str():
                self._add_text(value, arrived)
            case datetime():
                self._add_age(value.replace(tzinfo=value.tzinfo or UTC).timestamp(), arrived)
            case Mapping() if depth < DEEPEST:
                self._add_object(value, arrived, depth)
                return
            case list() | tuple() if depth < DEEPEST:
                self.items = self.items or Field()
                for each in value:
                    self.items.add(each, arrived, depth + 1)
                return
        self._note(value)

    def _note(self, value: object) -> None:
        if self.distinct is None:
            return
        self.distinct.add(hash(value) if not isinstance(value, Mapping | list) else id(value))
        if self.count >= 200 and len(self.distinct) < self.count * 0.8:  # noqa: PLR2004  # enough to know
            self.distinct = None

    def _add_number(self, value: float | Decimal, arrived: float | None) -> None:
        number = value if isinstance(value, int | Decimal) else Decimal(repr(value))
        if not Decimal(number).is_finite():
            return
        self.low, self.high = min(self.low, number), max(self.high, number)
        before, behind = digits_of(number)
        self.before[before] += 1
        self.behind[behind] += 1
        if before < 20 and (unit := unit_of(number)):  # noqa: PLR2004  # nanoseconds have 19
            self.units[unit] += 1
            self._add_age(float(number) / UNITS[unit], arrived)

    def _add_text(self, text: str, arrived: float | None) -> None:
        form = form_of(text)
        self.forms[form] += 1
        self.wordy += " " in text or len(text) > LONG_TEXT
        if form == "moment":
            self._add_age(seconds_of(text) or 0.0, arrived)
        if self.texts is not None:
            self.texts[text[: LONG_TEXT + 1]] += 1
            if len(self.texts) > 4 * FEW:
                self.texts = None

    def _add_age(self, at: float, arrived: float | None) -> None:
        if arrived is not None:
            self.ages.append(arrived - at)

    def _add_object(self, value: Record, arrived: float | None, depth: int) -> None:
        for name, each in value.items():
            if name not in self.fields and len(self.fields) >= MOST_NAMES:
                if len(self.cut) < MOST_COUNTED:
                    self.cut.add(hash(name))
                continue
            self.fields.setdefault(str(name), Field()).add(each, arrived, depth + 1)

    def merge(self, other: "Field") -> None:
        """Take the values of another field in, for an object whose names are data."""
        for name in ("kinds", "before", "behind", "units", "forms"):
            getattr(self, name).update(getattr(other, name))
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)
        self.wordy += other.wordy
        self.texts = self.distinct = None
        if other.items:
            self.items = self.items or Field()
            self.items.merge(other.items)
        for name, each in other.fields.items():
            self.fields.setdefault(name, Field()).merge(each)

    @property
    def values(self) -> "Field":
        """Return the values of its fields as those of one."""
        together = Field()
        for each in self.fields.values():
            together.merge(each)
        return together

    def share(self, of: int) -> float:
        """Return in which share of so many objects it has a value."""
        return self.count / of if of else 0.0

    def looks_like(self, *forms: str) -> bool:
        """Return whether most of its texts look like one of these."""
        texts = self.kinds[Of.TEXT]
        return texts > 0 and sum(self.forms[form] for form in forms) >= texts / 2


def digits_of(number: int | Decimal) -> tuple[int, int]:
    """Return how many digits a number has before the point and behind it.

    >>> digits_of(120), digits_of(Decimal("-3.250")), digits_of(Decimal("1E-9"))
    ((3, 0), (1, 3), (1, 9))
    """
    if isinstance(number, int):
        return len(str(abs(number))) if abs(number) < 10**40 else 40, 0
    exponent = number.as_tuple().exponent
    behind = max(-exponent, 0) if isinstance(exponent, int) else 0
    return max(number.adjusted() + 1, 1), behind


# From what was seen to a type.


def main_kind(seen: Field) -> Of | None:
    """Return what nearly all values are; None where no kind has nearly all, or there is none."""
    kinds = Counter({kind: count for kind, count in seen.kinds.items() if kind is not Of.NOTHING})
    if kinds[Of.NUMBER]:
        kinds[Of.NUMBER] += kinds.pop(Of.WHOLE, 0)
    if not seen.count:
        return None
    kind, count = kinds.most_common(1)[0]
    return kind if count >= (1 - TOLERATED) * seen.count else None


def type_of(seen: Field) -> DataType | None:
    """Return the type by which the values of a field are read; None where it must not be declared yet."""
    kind = main_kind(seen)
    if kind is None or kind in PLAIN:
        return PLAIN.get(kind) if kind else None
    match kind:
        case Of.WHOLE:
            return LongType() if LONGS[0] <= seen.low and seen.high <= LONGS[1] else DoubleType()
        case Of.NUMBER:
            return _number_type(seen)
        case Of.TEXT:
            return _text_type(seen)
        case Of.LIST:
            item = type_of(seen.items) if seen.items else None
            return ArrayType(item) if item else None
        case _:
            return _object_type(seen)


PLAIN: Mapping[Of, DataType] = {
    Of.BOOLEAN: BooleanType(),
    Of.BYTES: BinaryType(),
    Of.TIME: TimestampType(),
    Of.DATE: DateType(),
}


def _number_type(seen: Field) -> DataType:
    """Return a decimal where all digits fit one that is read exactly, else a number that is rounded as the producer's was."""
    for all_of_them in (True, False):
        before, behind = (_covering(each, all_of_them) for each in (seen.before, seen.behind))
        if behind <= MOST_SCALE and before + behind <= DOUBLE_DIGITS:
            return DecimalType(DOUBLE_DIGITS, behind)
    return DoubleType()


def _covering(counts: Counter[int], all_of_them: bool) -> int:  # noqa: FBT001  # drawn by a loop
    """Return the number of digits that all values have at most, or nearly all."""
    needed = sum(counts.values()) * (1.0 if all_of_them else 1 - TOLERATED / 4)
    reached = 0
    for digits in sorted(counts):
        reached += counts[digits]
        if reached >= needed:
            return digits
    return max(counts, default=0)


def _text_type(seen: Field) -> DataType:
    texts = seen.kinds[Of.TEXT]
    if seen.forms["moment"] >= (1 - TOLERATED) * texts:
        return TimestampType()
    if seen.forms["date"] >= (1 - TOLERATED) * texts:
        return DateType()
    return StringType()


def _object_type(seen: Field) -> DataType | None:
    if has_names_of_data(seen):
        value = type_of(seen.values)
        return MapType(StringType(), value) if value else None
    made = StructType()
    for name, each in declarable(seen.fields).items():
        kind = type_of(each)
        if kind is not None:
            made = made.add(name, kind)
    return made if made.fields else None


def has_names_of_data(seen: Field) -> bool:
    """Return whether the names of an object are data, such as words that are counted: many, each of them rare, of one type."""
    names, objects = len(seen.fields), seen.kinds[Of.OBJECT]
    if names < MANY_NAMES or not objects:
        return False
    mean = sum(each.count for each in seen.fields.values()) / names / objects
    return mean < RARE and type_of(seen.values) is not None


def declarable(fields: Mapping[str, Field]) -> dict[str, Field]:
    """Return the fields that can be declared beside each other: of names that differ in their case alone the commonest."""
    best: dict[str, str] = {}
    for name, each in fields.items():
        other = best.get(name.lower())
        if other is None or each.count > fields[other].count:
            best[name.lower()] = name
    chosen = set(best.values())
    return {name: each for name, each in fields.items() if name in chosen and name}


def why_not(seen: Field) -> str:
    """Return why a field has no type."""
    if not seen.count:
        return "never a value"
    kind = main_kind(seen)
    if kind is Of.LIST:
        return "lists without items of one type" if seen.items else "always empty"
    if kind is Of.OBJECT:
        return "objects without fields of one type" if seen.fields else "always empty"
    listed = seen.kinds.most_common()
    parts = (
        f"{each} in {percent(count / seen.count)}" for each, count in listed if each != "nothing"
    )
    return ", ".join(parts)


def percent(share: float) -> str:
    """Return a share in words that never say all or none of what is nearly so.

    >>> percent(1.0), percent(0.9996), percent(0.123), percent(0.0004)
    ('100 %', '99.9 %', '12 %', 'under 0.1 %')
    """
    if share >= 1:
        return "100 %"
    if share > 0.98 or share < 0.02:  # noqa: PLR2004  # where a whole percent says too little
        tenth = math.floor(share * 1000) / 10
        return f"{tenth:g} %" if tenth > 0 else "under 0.1 %"
    return f"{round(share * 100)} %"


# Whether a value is taken by a type, as the strict reader would.


def fits(value: object, kind: DataType) -> bool:
    """Return whether a value is of a type, or nothing."""
    match kind:
        case _ if value is None:
            return True
        case StructType():
            return isinstance(value, Mapping) and all(
                fits(value.get(each.name), each.dataType) for each in kind
            )
        case MapType():
            return isinstance(value, Mapping) and all(
                fits(each, kind.valueType) for each in value.values()
            )
        case ArrayType():
            return isinstance(value, list | tuple) and all(
                fits(each, kind.elementType) for each in value
            )
        case _:
            return _plain_fits(value, kind)


def _plain_fits(value: object, kind: DataType) -> bool:  # noqa: PLR0911  # a kind a line
    match kind:
        case BooleanType():
            return isinstance(value, bool)
        case LongType():
            return type(value) is int and LONGS[0] <= value <= LONGS[1]
        case DoubleType():
            return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
        case DecimalType():
            return _is_exact(value, kind)
        case TimestampType():
            return isinstance(value, datetime) or (
                isinstance(value, str) and seconds_of(value) is not None
            )
        case DateType():
            return isinstance(value, date) or (isinstance(value, str) and form_of(value) == "date")
        case BinaryType():
            return isinstance(value, bytes)
        case _:
            return isinstance(value, str)


def _is_exact(value: object, kind: DecimalType) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return False
    try:
        number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        before, behind = digits_of(number.normalize())
    except ArithmeticError:  # more digits than a context has, or an exponent
        return False
    return behind <= kind.scale and before + kind.scale <= kind.precision


def read_json(payload: bytes) -> Record | None:
    """Return the fields of a payload of JSON, numbers with all of their digits; None where it is not one object."""
    try:
        found = json.loads(payload.decode(), parse_float=Decimal, parse_constant=_refuse)
    except (ValueError, RecursionError, InvalidOperation):
        return None
    return found if isinstance(found, dict) else None


def _refuse(text: str) -> NoReturn:
    raise ValueError(text)


def held(records: Iterable[Record], kind: StructType) -> int:
    """Return how many records have a value that is not of its type."""
    return sum(not fits(each, kind) for each in records)
