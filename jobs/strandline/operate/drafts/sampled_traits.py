"""Which field of sampled records is what: the key, the event time, what is sensitive, an enum; and by what the records differ.

A name says what a producer meant, and the values what is so. A key is chosen only where both agree, because a wrong one makes copies
of events that differ; without one the place in Kafka is the key. What looks like a person's is masked, because a mask can be taken
off later and what was seen cannot be unseen.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median

from pyspark.sql.types import (
    ArrayType,
    DataType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from strandline.core.kind import Lateness
from strandline.core.routes import KIND, KIND_BY, LONGEST
from strandline.core.topic import CARRIED, OWN
from strandline.engine.ask.locate import Seen
from strandline.operate.drafts.sampled_fields import (
    FEW,
    LONG_TEXT,
    TOLERATED,
    Field,
    Of,
    Record,
    declarable,
    type_of,
)

TAKEN = frozenset(
    name.lower()
    for name in (
        *CARRIED,
        *OWN,
        KIND,
        KIND_BY,
        "_strict",
        "_rescued",
        "_corrupt",
        "_cells",
        "_line",
    )
)
"""Columns of ours that a field of the same name would write over."""

ENOUGH = 1_000
"""Records of which none has the id of another, so that a name which may be that of a customer is believed to be the event's."""

Path = tuple[str, ...]


def words_of(name: str) -> list[str]:
    """Return the words of a name in small letters.

    >>> words_of("emailAddress"), words_of("id.orig_h"), words_of("userID")
    (['email', 'address'], ['id', 'orig', 'h'], ['user', 'id'])
    """
    parts = re.sub(r"([a-z\d])([A-Z])|([A-Z]+)([A-Z][a-z])", r"\1\3 \2\4", name)
    return [each for each in re.split(r"[\W_]+", parts.lower()) if each]


# Names of columns.


def is_plain(name: str) -> bool:
    """Return whether a name can be that of a column in every place: in SQL without quotes, in Delta, and none of ours."""
    return re.fullmatch(r"[^\W_]\w*", name) is not None


def column_names(fields: Iterable[str]) -> dict[str, str]:
    """Return the name of the column of each field; two never differ in their case alone.

    >>> column_names(["id.orig_h", "class", "_id", "ID", "€"])
    {'id.orig_h': 'id_orig_h', 'class': 'class', '_id': 'id', 'ID': 'ID_2', '€': 'field'}
    """
    found: dict[str, str] = {}
    used: set[str] = set()
    for name in fields:
        plain = name if is_plain(name) else re.sub(r"\W+", "_", name).strip("_") or "field"
        chosen, number = plain, 2
        while chosen.lower() in used:
            chosen, number = f"{plain}_{number}", number + 1
        used.add(chosen.lower())
        found[name] = chosen
    return found


def cannot_be_read(name: str) -> str:
    """Return why the reader cannot be asked for a field of a name; empty where it can."""
    if not name or "`" in name:
        return "no column can be read by this name"
    return "a column of ours has this name" if name.lower() in TAKEN else ""


def renamed(kind: DataType) -> DataType:
    """Return a type whose fields have names that are plain, at every depth."""
    match kind:
        case StructType():
            names = column_names(kind.fieldNames())
            made = StructType()
            for each in kind:
                made = made.add(names[each.name], renamed(each.dataType))
            return made
        case ArrayType():
            return ArrayType(renamed(kind.elementType))
        case MapType():
            return MapType(kind.keyType, renamed(kind.valueType))
        case _:
            return kind


# Values within objects.


@dataclass(frozen=True, slots=True)
class Place:
    """A value that each record may have.

    Args:
        path: The names of the fields that lead to it.
        seen: Its values.
        kind: Its type.
        share: In which share of the records it is.
    """

    path: Path
    seen: Field
    kind: DataType
    share: float

    @property
    def is_always_there(self) -> bool:
        """Return whether nearly all records have it."""
        return self.share >= 1 - TOLERATED

    @property
    def words(self) -> list[str]:
        """Return the words of its name."""
        return words_of(self.path[-1])


def places(seen: Field, records: int, within: Path = ()) -> Iterator[Place]:
    """Yield every value of the records that lies in no list and no map."""
    for name, each in declarable(seen.fields).items():
        if not within and cannot_be_read(name):
            continue
        kind = type_of(each)
        if isinstance(kind, StructType):
            yield from places(each, records, (*within, name))
        elif kind is not None:
            yield Place((*within, name), each, kind, each.share(records))


# What is sensitive.


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


PERSON = _words(
    "user customer person employee patient member driver passenger subscriber client contact sender recipient author buyer "
    "owner account staff student guest"
)
IDENTIFIES = _words("id name no number login key nick uuid")
PRIVATE = _words(
    "email mail phone tel telephone mobile msisdn ip addr ssn iban bic passport password passwd secret token birth birthday "
    "birthdate dob street firstname lastname surname forename fullname username login creditcard cvv mac hostname "
    "latitude longitude postcode zipcode cwd"
)
PAIRS = (
    {"credit", "card"},
    {"card", "number"},
    {"first", "name"},
    {"last", "name"},
    {"full", "name"},
    {"given", "name"},
    {"family", "name"},
    {"display", "name"},
    {"nick", "name"},
    {"host", "name"},
    {"home", "address"},
    {"api", "key"},
    {"tax", "id"},
    {"command", "line"},
    {"current", "directory"},
    {"working", "directory"},
    {"home", "directory"},
    {"home", "dir"},
)
FORMS_OF_PERSONS = ("email", "ip", "mac", "phone", "iban", "card", "home", "unix home")


def is_sensitive(name: str, seen: Field) -> bool:
    """Return whether a value looks like a person's, or has one within."""
    listed = words_of(name)
    words = set(listed)
    # What ends with a person names one, such as `parent_user`; a number may count them.
    is_named = seen.kinds[Of.TEXT] > 0 and bool(PERSON & {*listed[-1:]})
    by_name = bool(
        is_named
        or words & PRIVATE
        or (words & PERSON and words & IDENTIFIES)
        or words == {"name"}
        or words <= PERSON
    )
    has_text = seen.kinds[Of.TEXT] > 0 or seen.kinds[Of.WHOLE] > 0
    if has_text and (by_name or any(pair <= words for pair in PAIRS)):
        return True
    if seen.looks_like(*FORMS_OF_PERSONS) or seen.forms["home"] > TOLERATED * seen.kinds[Of.TEXT]:
        return True
    if seen.items and is_sensitive(name, seen.items):
        return True
    # Of an object the name is a word of its fields' as well: `user` with `id`.
    of_a_person = words & PERSON
    return any(
        is_sensitive(f"{name} {each}" if of_a_person else each, inner)
        for each, inner in seen.fields.items()
    )


NO_NAMES = ("number", "digits", "date", "moment", "home", "unix home")
"""How a text looks that is no value of an enum."""


def values_of(seen: Field) -> list[str]:
    """Return the values of an enum; none where it is none."""
    texts = seen.texts or Counter[str]()
    count = sum(texts.values())
    is_few = 2 <= len(texts) <= FEW and count >= 50 * len(texts)  # noqa: PLR2004  # one value says nothing
    # Of days and times there are few in any sample, and tomorrow's is another.
    is_no_name = any(seen.forms[form] for form in NO_NAMES)
    if not is_few or is_no_name or any(not 0 < len(each) <= LONG_TEXT for each in texts):
        return []
    # A value of one record in a thousand is a producer's slip, or the first of many: it is to be warned of.
    return sorted(each for each, times in texts.items() if times > count * TOLERATED / 10)


# The key.


OWN_IDS = _words("id uuid guid uid eventid messageid recordid deliveryid")
OF_EVENTS = _words("event message msg record delivery request transaction change")


@dataclass(frozen=True, slots=True)
class Key:
    """A value that identifies an event.

    Args:
        place: The value.
        unique: Its distinct values by all of them, without copies.
        is_named: Whether its name says that it is the event's own.
    """

    place: Place
    unique: float
    is_named: bool


def keys(found: Sequence[Place], about: Iterable[str]) -> list[Key]:
    """Return the values that may be the key, the best first.

    Args:
        found: The values.
        about: Words for what the events are, such as the name of the table and of the kind.
    """
    own = {word.rstrip("s") for each in about for word in words_of(each)}
    chosen = [key for each in found if (key := _key(each, own))]
    return sorted(chosen, key=lambda key: _within(key.place) - _rank(key.place, own))


def _within(place: Place) -> int:
    """Return how much less an id counts because it is that of an object within the event."""
    return 2 * sum("".join(words_of(each)) not in AROUND for each in place.path[:-1])


def _key(place: Place, own: set[str]) -> Key | None:
    seen, count = place.seen, place.seen.count
    is_time = seen.units.total() >= (1 - TOLERATED) * count
    is_id = isinstance(place.kind, StringType | LongType) and not is_time
    if not is_id or not place.is_always_there or seen.distinct is None or not count:
        return None
    unique, rank = len(seen.distinct) / count, _rank(place, own)
    if rank >= NAMED and unique >= 1 - TOLERATED:
        return Key(place, unique, is_named=True)
    if rank > 0 and unique == 1 and count >= ENOUGH:
        return Key(place, unique, is_named=False)
    return None


NAMED = 2
AROUND = frozenset({"meta", "metadata", "header", "headers", "envelope", "payload", "data", "body"})
"""Names of objects that are about the event itself, or are it."""


def _rank(place: Place, own: set[str]) -> int:
    """Return how clearly a name is that of the event's own id; 0 where it is none."""
    words = [word for each in place.path for word in words_of(each)]
    words = [each for each in words if each not in AROUND] or words
    joined = "".join(words)
    if joined in OWN_IDS or {"event", "id"} == set(words):
        return NAMED + 2
    is_id = words[-1:] and (words[-1] in OWN_IDS or words[-1] in {"no", "number", "key", "ref"})
    stem = {word.rstrip("s") for word in words[:-1]}
    if is_id and stem and (stem <= own or stem & OF_EVENTS):
        return NAMED + 1
    is_event = joined.rstrip("s") in own | OF_EVENTS and _is_name(place.seen)
    if is_event or (place.seen.looks_like("uuid") and not is_id):
        return NAMED
    return 1 if is_id or place.seen.looks_like("uuid") else 0


def _is_name(seen: Field) -> bool:
    """Return whether a value names something: a number may be a price among prices, and a text with spaces a line of a log."""
    texts = seen.kinds[Of.TEXT]
    is_number = not texts or seen.looks_like("number", "digits")
    return not is_number and seen.wordy <= texts * TOLERATED


# The event time.


TIME_WORDS = _words(
    "ts time timestamp date datetime at when created updated expires expiry occurred happened epoch millis ms on until "
    "since received sent ordered"
)
BEST, GOOD = (
    _words("eventat eventtime eventtimestamp occurredat happenedat eventts"),
    _words("ts time timestamp datetime at eventdate"),
)
NOT_OF_THE_EVENT = _words(
    "expires expiry until updated received ingested processed birth valid end due modified loaded"
)
WITHIN = (-300.0, 3600.0)
DAY, YEAR = 86_400.0, 366 * 86_400.0


@dataclass(frozen=True, slots=True)
class Moment:
    """A value that is a time.

    Args:
        place: The value.
        unit: What a number counts; empty where it is a time already.
        in_time: In which share of the records it lies between an hour before the arrival and five minutes after it.
    """

    place: Place
    unit: str
    in_time: float

    @property
    def ages(self) -> list[float]:
        """Return how long before its arrival it lies, in seconds, in order."""
        return sorted(self.place.seen.ages)


def moments(found: Sequence[Place]) -> list[Moment]:
    """Return the values that are times, the likeliest event time first."""
    chosen = [moment for each in found if (moment := _moment(each))]
    return sorted(chosen, key=_merit, reverse=True)


def _moment(place: Place) -> Moment | None:
    seen = place.seen
    near = sum(WITHIN[0] <= each <= WITHIN[1] for each in seen.ages) / max(len(seen.ages), 1)
    if isinstance(place.kind, TimestampType):
        return Moment(place, "", near)
    if not isinstance(place.kind, LongType | DoubleType | DecimalType) or not seen.units:
        return None
    unit, count = seen.units.most_common(1)[0]
    is_near = sum(abs(each) < DAY for each in seen.ages) >= (1 - TOLERATED) * seen.count
    is_clear = set(place.words) & TIME_WORDS or is_near or _is_narrow(unit, seen.ages)
    if count < (1 - TOLERATED) * seen.count or not is_clear:
        return None
    return Moment(place, unit, near)


def _is_narrow(unit: str, ages: Sequence[float]) -> bool:
    """Return whether numbers are milliseconds of one year that is no future one, as those of a topic are that was filled again.

    Numbers of another length may be ids that count up, such as those of orders or of a snowflake.
    """
    spare = int(len(ages) * TOLERATED)
    middle = sorted(ages)[spare : len(ages) - spare]
    is_one_year = bool(middle) and middle[0] > -DAY and middle[-1] - middle[0] < YEAR
    return unit == "millis" and is_one_year


def _merit(moment: Moment) -> tuple[bool, bool, int, int, float]:
    joined, words = "".join(moment.place.words), set(moment.place.words)
    name = 3 if joined in BEST else 2 if joined in GOOD else 0 if words & NOT_OF_THE_EVENT else 1
    far = abs(median(moment.place.seen.ages)) if moment.place.seen.ages else 0.0
    return (
        moment.place.is_always_there,
        moment.in_time >= 0.9,  # noqa: PLR2004  # most of them
        name,
        -len(moment.place.path),
        -far,
    )


STEPS = (2, 6, 12, 24, 48, 7 * 24, 14 * 24, 30 * 24)
"""Hours."""


def lateness_of(moment: Moment) -> tuple[Lateness | None, bool]:
    """Return the bounds that admit nearly all of a time, if they are not the usual ones, and whether it is history."""
    ages = moment.ages
    if not ages:
        return None, False
    spare = int(len(ages) * TOLERATED)
    late, early = ages[-1 - spare], -ages[spare]
    usual = Lateness()
    if late > STEPS[-1] * 3600:
        return None, True
    hours = next((each for each in STEPS if late * 1.2 <= each * 3600), STEPS[-1])
    is_late = late > usual.late.total_seconds()
    is_early = usual.early.total_seconds() < early <= DAY
    if not is_late and not is_early:
        return None, False
    ahead = next((each for each in STEPS[:4] if early <= each * 3600), STEPS[3])
    return Lateness(
        late=timedelta(hours=hours) if is_late else usual.late,
        early=timedelta(hours=ahead) if is_early else usual.early,
    ), False


# By what the kinds of a topic's records differ.


KIND_NAMES = _words(
    "type kind event eventtype eventkind eventname recordtype messagetype msgtype action name op operation"
)
MOST_KINDS, KNOWN_PART = 60, 0.95


@dataclass(frozen=True, slots=True)
class Kinds:
    """The kinds of records.

    Args:
        by: The call that declares how they differ, such as ``field('type')``.
        counts: How many records are of which kind.
        own: How many fields are in all records of one kind and in none of another.
    """

    by: str
    counts: Mapping[str, int]
    own: int


@dataclass(slots=True)
class Labels:
    """What may be the kind of each record, with the fields that records have under each label.

    A field may be a label of thousands, each of which has thousands beside it: so the fields of a record are noted once, as its shape.

    Args:
        found: By the declaration and the label the shapes that records have, and how many records have them.
        shapes: The fields of each shape, and its number.
        names: Each field once.
        records: How many records there are.
    """

    found: dict[str, dict[str, Counter[int]]] = field(default_factory=dict)
    shapes: dict[tuple[str, ...], int] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    records: int = 0

    def add(self, record: Record, seen: Seen) -> None:
        """Take a record in."""
        self.records += 1
        names = tuple(
            self.names.setdefault(str(each), str(each))
            for each, value in record.items()
            if value is not None
        )
        shape = self.shapes.setdefault(names, len(self.shapes))
        for by, label in _labels(record, seen):
            groups = self.found.setdefault(by, {})
            if len(groups) <= MOST_KINDS:
                groups.setdefault(label, Counter())[shape] += 1

    def kinds(self) -> Kinds | None:
        """Return by what the shapes of the records differ; None where nothing decides about them."""
        if len(self.shapes) < 2:  # noqa: PLR2004  # all are alike
            return None
        shapes = list(self.shapes)
        chosen = [kinds for by in self.found if (kinds := self._kinds(by, shapes))]
        return max(chosen, key=lambda each: (each.own, -len(each.by)), default=None)

    def _kinds(self, by: str, shapes: Sequence[tuple[str, ...]]) -> Kinds | None:
        counts = {label: group.total() for label, group in self.found[by].items()}
        common = {label: count for label, count in counts.items() if count * 1000 >= self.records}
        known = sum(common.values()) / max(self.records, 1)
        if not 2 <= len(common) <= MOST_KINDS or known < KNOWN_PART:  # noqa: PLR2004  # one is none
            return None
        fields = [_fields(self.found[by][label], shapes) for label in common]
        own = _own(fields)
        is_named = by.startswith(("header", "schema_id")) or _named(by) in KIND_NAMES
        if not own or (not is_named and _shared(fields) > 0.5):  # noqa: PLR2004  # half
            return None
        return Kinds(by, dict(sorted(common.items(), key=lambda each: -each[1])), own)


def _fields(group: Counter[int], shapes: Sequence[tuple[str, ...]]) -> tuple[set[str], set[str]]:
    """Return the fields that all records of a group have, and those that any has."""
    times: Counter[str] = Counter()
    for shape, count in group.items():
        for name in shapes[shape]:
            times[name] += count
    whole = {name for name, count in times.items() if count >= KNOWN_PART * group.total()}
    return whole, {name for name, count in times.items() if count > TOLERATED * group.total()}


def _named(by: str) -> str:
    return "".join(words_of(re.findall(r"'([^']*)'", by)[-1])) if "'" in by else ""


def _labels(record: Record, seen: Seen) -> Iterator[tuple[str, str]]:
    for name, value in record.items():
        if isinstance(value, Mapping) and len(value) <= LONG_TEXT:
            for inner, each in value.items():
                if _is_label(each) and "".join(words_of(inner)) in KIND_NAMES:
                    yield f"field({name!r}, {inner!r})", str(each)
        elif _is_label(value):
            yield f"field({name!r})", str(value)
    for name, bytes_of in seen.headers:
        label = (bytes_of or b"").decode(errors="replace")
        if _is_label(label):
            yield f"header({name!r})", label
    key = (seen.key or b"").decode(errors="replace")
    for until in (":", "/"):
        label, is_there, _ = key.partition(until)
        if is_there and _is_label(label):
            yield f"key_prefix({until!r})", label


def _is_label(value: object) -> bool:
    if isinstance(value, str):
        return 0 < len(value) <= min(LONG_TEXT, LONGEST) and value.isprintable()
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 100  # noqa: PLR2004  # a code


def _own(groups: Sequence[tuple[set[str], set[str]]]) -> int:
    names = {name for whole, _ in groups for name in whole}
    return sum(
        any(name in whole for whole, _ in groups) and any(name not in some for _, some in groups)
        for name in names
    )


def _shared(groups: Sequence[tuple[set[str], set[str]]]) -> float:
    """Return the share of fields that all kinds have, of those that any has."""
    wholes = [whole for whole, _ in groups]
    return len(set.intersection(*wholes)) / max(len(set.union(*wholes)), 1)
