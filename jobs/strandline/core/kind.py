"""What a table of any kind is and answers, apart from its sources (jobs/strandline/core/table.py); and how late its rows may be."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from enum import StrEnum
from functools import cache
from itertools import pairwise
from typing import Literal, TypeAlias, get_args
from zoneinfo import ZoneInfo, available_timezones

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.static import Static
from strandline.core.topic import Topic
from strandline_quality.expectations import Within
from strandline_quality.rules import Rule

# When a row is late or early, and how long state must wait for it; and which day of a time zone it belongs to.
#
# Late is a property of the row: its event time against its own arrival. Spark's rule, a row against the
# watermark of the batch it happened to fall into, changes with every slicing and can never be equal in
# batch and stream. So ``Lateness`` decides, the quarantine keeps what it refuses, and the watermark is left
# with one job: bounding state. Its delay is the sum of all that ``Lateness`` admits, so an admitted row is
# never behind the watermark:
#
#     newest event time seen  <=  newest arrival seen + early
#     watermark               =   newest event time seen - (late + early + disorder)
#                             <=  newest arrival seen - late - disorder
#     an admitted row has     event time >= its arrival - late
#                             >   newest arrival before its commit - disorder - late
#
# An arrival is Kafka's timestamp, which the producer may have set: a gateway that buffers, a mirror that catches up and
# history that is sent again all deliver rows whose timestamp is long before that of the rows in bronze.
# Such a row is *disordered*: it arrived ``disorder`` or more before the newest arrival in the commits before its own,
# which bronze writes into each row. It is held with that reason in every mode, because a stream would drop it below its
# watermark and a batch would not; once its time is closed, a replay or a backfill admits it.
#
# An arrival beyond the reader's clock by more than ``SKEW`` was stamped by a broken clock. It is left out of the newest
# arrival; otherwise one such record in a backlog of hours would make every row after it disordered. An arrival within
# ``SKEW`` counts as of the moment at which it was read. So ``early`` admits no arrival beyond ``SKEW``, however large
# ``early`` is.
# The reader of Kafka aligns partitions by time, so that a backlog is in order (see jobs/strandline/engine/kafka/slices.py).

LATE = "late"
"""The reason of a row whose event lies too far before its arrival."""

DISORDERED = "disordered"
"""The reason of a row that arrived too far behind the rows of earlier commits."""

SKEW = timedelta(minutes=5)
"""By how much the clock that stamps a record may run ahead of the reader's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """The bounds between the time an event happened and the time it arrived.

    Args:
        late: How far an event may lie before its arrival.
        early: How far a device's clock may run ahead.
        disorder: Arrivals may run backwards by less than this from one commit of bronze to the next; at least a
            millisecond, because two commits may share one.
    """

    late: timedelta = timedelta(hours=1)
    early: timedelta = timedelta(minutes=5)
    disorder: timedelta = timedelta(minutes=10)

    def __post_init__(self) -> None:
        """Check that two commits may share a moment.

        Raises:
            ValueError: ``disorder`` is below a millisecond.
        """
        if self.disorder < timedelta(milliseconds=1):
            message = "disorder must be a millisecond or more: two commits may share a moment"
            raise ValueError(message)

    @property
    def delay(self) -> timedelta:
        """Return how far the watermark stays behind the newest event."""
        return self.late + self.early + self.disorder

    @property
    def delay_text(self) -> str:
        """Return the delay as Spark reads it."""
        return f"{milliseconds(self.delay)} milliseconds"

    def is_late(self, event_at: Column) -> Column:
        """Return whether an event lies further before the arrival of its row of bronze than is admitted."""
        return event_at < moved(F.col("_arrived_at"), -self.late)

    def reasons(self, event_at: Column) -> list[Column]:
        """Return one column for each way in which a row of bronze can miss its time: the reason, or NULL.

        An event beyond the reader's clock is from the future even if its arrival is a little beyond it as well:
        otherwise the event would be ahead of the newest arrival by twice ``early``, and the sum above would not hold.
        """
        arrived_at, seen_at = F.col("_arrived_at"), F.col("_ingested_at")
        is_early = event_at > moved(arrived_at, self.early)
        latest_arrival = moved(seen_at, min(self.early, SKEW))
        latest_event = moved(seen_at, self.early)
        is_ahead = (arrived_at > latest_arrival) | ((event_at > latest_event) & ~is_early)
        is_behind = arrived_at <= moved(F.col("_newest_before"), -self.disorder)
        return [
            F.when(self.is_late(event_at), F.lit(LATE)),
            F.when(is_early, F.lit("early")),
            F.when(is_ahead, F.lit("from_the_future")),
            F.when(is_behind, F.lit(DISORDERED)),
        ]


def is_stamped_ahead() -> Column:
    """Return whether a row of bronze has an arrival so far beyond the reader's clock that it is ignored."""
    return F.col("_arrived_at") > moved(F.col("_ingested_at"), SKEW)


def milliseconds(span: timedelta) -> int:
    """Return a span in whole milliseconds."""
    return span // timedelta(milliseconds=1)


def moved(moment: Column, by: timedelta) -> Column:
    """Return a time that lies a whole number of milliseconds later, or earlier.

    An interval would do the same by the calendar of a time zone, in seven objects of Java a sum; five sums an event were
    a twentieth of silver's work [stack samples].
    """
    whole = milliseconds(by) if by > timedelta(0) else -milliseconds(-by)
    return F.timestamp_micros(F.unix_micros(moment) + whole * 1000)


# The length of a window, from the text that Spark reads.


UNITS = ("weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds")


def length_of(text: str) -> timedelta:
    """Return the length that a text such as ``10 minutes`` or ``INTERVAL 1 HOUR 30 MINUTES`` means.

    A month has no length: Spark refuses it in a window as well. pandas, which could read the text, takes longer to
    import than a look-up takes.

    Raises:
        ValueError: The text has another form, or the length is not positive.
    """
    words = text.lower().removeprefix("interval ").split()
    pairs = list(zip(words[::2], words[1::2], strict=True))
    counts = [(f"{unit.rstrip('s')}s", float(count)) for count, unit in pairs]
    if any(unit not in UNITS for unit, _ in counts):
        message = f"{text!r} has a unit beside {', '.join(UNITS)}"
        raise ValueError(message)
    length = sum((timedelta(**{unit: count}) for unit, count in counts), timedelta(0))
    if length <= timedelta(0):
        message = f"{text!r} is no length of time"
        raise ValueError(message)
    return length


# A promise: how old the newest row of a table may be.


Age: TypeAlias = Literal["event", "arrival"]
AGES: tuple[Age, ...] = get_args(Age)


@dataclass(frozen=True, slots=True)
class Fresh:
    """How old the newest row of a table may be, as ``fresh=Fresh("5 minutes", by="arrival")``; ``fresh="5 minutes"`` is by event.

    >>> Fresh("1 hour 30 minutes").length
    datetime.timedelta(seconds=5400)

    Args:
        within: The length of time, as Spark reads it.
        by: Since when a row grows old: since its event, or since the arrival in Kafka of the newest record that the table has read.
    """

    within: str
    by: Age = "event"

    @property
    def length(self) -> timedelta:
        """Return the same as a length."""
        return length_of(self.within)

    def __str__(self) -> str:
        """Return it in words."""
        return f"{self.within} by {self.by}"


# A moment, from a text or a value that may name no zone, and within the years that Python has.


FIRST, LAST = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)


def in_utc(moment: datetime) -> datetime:
    """Return a moment with its zone; without one it is in UTC."""
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


RECENT = timedelta(days=8)
"""An alert on an event that is older is from history: it is recorded, and no person is woken for it."""


def shifted(moment: datetime, by: timedelta) -> datetime:
    """Return a moment that lies a span away, and the calendar's end where that lies beyond it.

    A record of a broken clock is in bronze at the last millisecond of the year 9999 (jobs/strandline/engine/flow/ingest.py),
    and whatever adds a span to its time would fail.
    """
    try:
        return moment + by
    except OverflowError:
        return FIRST if by < timedelta(0) else LAST


# The day of a time zone as a window: 23 and 25 hours long where its clocks change, and each instant in exactly one day.
#
# A day begins at midnight of its date by the clocks of its zone. Where a change of the clocks skips midnight, the day begins with the
# change; where it repeats midnight, with the first; and where it leads back into the day before (at 00:01, in St. John's until
# 2011), the repeated hour belongs to the day that had begun, because days that alternate would be no windows. A date that a
# zone never had (30 December 2011, in Samoa) is a day without an instant.
#
# Spark has windows of one length only. What makes Spark emit a window once its end is behind the watermark, and forget its state,
# is a mark in the metadata of the column that rows are grouped by, and the second field of its struct (4.2, append mode); the
# mark is passed on from the column with the event time. Spark takes it from a column alone, not from an expression: so a day
# is added to the rows, which are grouped by it then.

DELAY = "spark.watermarkDelayMs"
"""The key under which Spark keeps, of a column with a time, how far the watermark stays behind it."""

DAY = timedelta(days=1)

OTHERWISE = frozenset({"EST", "Factory", "GMT+0", "GMT-0", "HST", "MST", "ROC", "localtime"})
"""Names that Java does not know, or knows as an offset without a history; each is another name of a zone, or none of any place."""

UTC_NAME = "UTC"

YEARS = (1970, 2038)
"""The years in which the longest day of a zone is looked for: those of Kafka's clocks, up to where zones have rules alone."""


@dataclass(frozen=True, slots=True)
class Day:
    """Windows of a table: the days of a time zone, as ``window=Day("Europe/Helsinki")``.

    Args:
        zone: The name of the zone, as the database of time zones has it.
    """

    zone: str

    def __post_init__(self) -> None:
        """Check that there is such a zone.

        Raises:
            DefinitionError: There is none.
        """
        if self.zone == UTC_NAME or self.zone in (known := _zones()):
            return
        if not known:
            raise DefinitionError(
                f"no days of {self.zone}: this machine has no time zones",
                hint="install them: `pip install tzdata`, or the package tzdata of the system.",
                zone=str(self.zone),
            )
        near = get_close_matches(str(self.zone), known, n=3, cutoff=0.6)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise DefinitionError(
            f"{str(self.zone)!r} is no time zone",
            hint=f"{meant}Write the name of an area and a city, such as Europe/Helsinki.",
            zone=str(self.zone),
        )

    def of(self, rows: DataFrame, time: str, name: str = "day") -> DataFrame:
        """Return rows with the day in which each lies, to group them by.

        Args:
            rows: The rows, as the table's function gets them.
            time: Their column with the event time.
            name: The column to add, a struct: ``start`` and ``end`` of the day, and its ``date``.

        Raises:
            DefinitionError: The rows have such a column.
        """
        if name in rows.columns:
            raise DefinitionError(
                f"the rows have a column {name} already",
                hint='give the day another name: Day(…).of(rows, "event_at", name="local_day").',
                column=name,
            )
        known = [each.metadata for each in rows.schema if each.name == time and each.metadata]
        mark = {key: value for each in known for key, value in each.items() if key == DELAY}
        day = day_in(F.col(time), F.lit(self.zone))
        return rows.select("*", day.alias(name, metadata=mark) if mark else day.alias(name))

    def begins(self, day: date) -> datetime:
        """Return the moment at which a day begins; in UTC."""
        if day == date.min:
            return FIRST
        midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(self.zone))
        return midnight.astimezone(UTC)

    def ends(self, day: date) -> datetime:
        """Return the moment at which it is over, which belongs to the next."""
        return LAST if day == date.max else self.begins(day + DAY)

    def date_of(self, moment: datetime) -> date:
        """Return the day in which a moment lies; without a zone it is in UTC."""
        moment = in_utc(moment)
        if self.zone == UTC_NAME:
            return moment.astimezone(UTC).date()
        try:
            day = moment.astimezone(ZoneInfo(self.zone)).date()
        except OverflowError:
            return moment.date()
        if self.ends(day) <= moment and day < date.max:
            return day + DAY
        return day - DAY if moment < self.begins(day) and day > date.min else day

    @property
    def longest(self) -> timedelta:
        """Return the length of its longest day."""
        return _longest(self.zone)


Window = str | Day
"""The windows of a table: of one length, as Spark reads it, or days of a time zone."""


IN_UTC = Day(UTC_NAME)
"""The days of what has no days of its own."""


def length_of_window(window: Window) -> timedelta:
    """Return the length of windows; of days, that of the longest."""
    return window.longest if isinstance(window, Day) else length_of(window)


def day_in(at: Column, zone: Column) -> Column:
    """Return the start, the end and the date of the day of a zone in which a moment lies.

    Both functions of Spark take midnight as Python does: of two the first, and one that is skipped as the moment of the change.
    """
    day = F.to_date(F.from_utc_timestamp(at, zone))

    def begins(later: int) -> Column:
        return F.to_utc_timestamp(F.date_add(day, later).cast("timestamp"), zone)

    def struct(later: int) -> Column:
        ends = begins(later + 1).alias("end")
        return F.struct(begins(later).alias("start"), ends, F.date_add(day, later).alias("date"))

    # The clocks may show another date than that of the day which has begun, where midnight comes twice or not at all.
    return F.when(at < begins(0), struct(-1)).when(at >= begins(1), struct(1)).otherwise(struct(0))


@cache
def _zones() -> frozenset[str]:
    return frozenset(available_timezones()) - OTHERWISE


@cache
def _longest(zone: str) -> timedelta:
    """Return the length of the longest day, of which a day that repeats an hour or more is one: 31 hours, in Vostok in 1994."""
    clock = ZoneInfo(zone)
    first, last = (datetime(year, 1, 1, tzinfo=clock) for year in YEARS)
    ahead = [(first + n * DAY).utcoffset() or timedelta(0) for n in range((last - first).days)]
    return DAY + max(now - then for now, then in pairwise(ahead))


class Layer(StrEnum):
    """The layer of a table: rows as received, rows as judged, or rows computed from those."""

    BRONZE = "bronze"
    SILVER = "silver"
    GOLD = "gold"


class Emit(StrEnum):
    """When an upserted table emits the row of a key, or a recomputed one a window."""

    ON_CHANGE = "on_change"
    """Whenever the row changes."""
    ON_WATERMARK = "on_watermark"
    """Whenever the watermark makes a part of the row final; a window when it is over."""


BESIDE = frozenset({"fresh", "provisional"})
"""Fields of a table that decide no row of it: a promise, or rows beside it, may be declared later without a certificate's lapse."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What every table has; a kind with a field of the same name as a property below overrides the property.

    Args:
        name: The module, the folder, the asset, the checkpoint and the test all carry it.
        owner: Who is asked when its rows are not believed.
        sensitive: Columns that are masked outside the lake, here and in every table above.
        unmasked: Columns that are computed from sensitive ones, reveal none of their values, and so are shown; a count needs
            no such word, because it is seen in the table's own function.
        keeps: How long rows are kept, as Spark reads it, such as ``400 days``; for ever when None. Rows of bronze are as
            old as their arrival, others as old as their event time or the end of their validity.
        fresh: How old its newest row may be: a promise to its readers, which changes no row. A text is an age by event, of bronze
            by arrival; nothing is promised when None.
    """

    name: str
    owner: str = ""
    sensitive: tuple[str, ...] = ()
    unmasked: tuple[str, ...] = ()
    keeps: str | None = None
    fresh: str | Fresh | None = None

    @property
    def promise(self) -> Fresh | None:
        """Return how old its newest row may be; None where nothing is promised. Bronze knows no time but the arrival."""
        if not isinstance(self.fresh, str):
            return self.fresh
        return Fresh(self.fresh, "arrival" if self.layer is Layer.BRONZE else "event")

    @property
    def layer(self) -> Layer:
        """Return the layer, which follows from the kind where it can."""
        raise NotImplementedError

    @property
    def id(self) -> str:
        """Return the one name, ``layer.table``."""
        return f"{self.layer}.{self.name}"

    @property
    def summary(self) -> str:
        """Return what it holds: the docstring of its module, if a function computes it."""
        return f"{' and '.join(map(str, self.topics))} as received"

    @property
    def topics(self) -> tuple[Topic, ...]:
        """Return the topics that the table is filled from."""
        return ()

    @property
    def lateness(self) -> Lateness:
        """Return how late and how early its rows may be."""
        return Lateness()

    @property
    def rules(self) -> tuple[Rule, ...]:
        """Return what must hold of each row, or it goes to the quarantine."""
        return ()

    @property
    def expects(self) -> tuple[Within, ...]:
        """Return what must hold of a batch or of the whole table."""
        return ()

    @property
    def valid_until(self) -> str | None:
        """Return the column with the end of a row's validity."""
        return None

    @property
    def replaces_rows(self) -> bool:
        """Return whether rows are replaced at all, by the stream or by a dimension, so that tables above must follow."""
        return False

    @property
    def listed(self) -> str:
        """Return the list of whose items it makes rows; empty where a record is a row."""
        return ""

    @property
    def takes_in_words(self) -> str:
        """Return which kinds of a topic's records it reads; empty where it reads each."""
        return ""

    @property
    def routed_by(self) -> str:
        """Return how these kinds are distinguished."""
        return ""

    @property
    def row_key(self) -> tuple[str, ...]:
        """Return the columns that identify a row; of a record with several rows not its key alone."""
        key: tuple[str, ...] = getattr(self, "key", ())
        return key

    @property
    def keeps_copies(self) -> bool:
        """Return whether an event is known by its place in Kafka alone, so that no copy of it is looked for."""
        return False

    @property
    def unknown(self) -> str | None:
        """Return the value of a column for which a join found nothing."""
        return None

    @property
    def scored_by(self) -> str | None:
        """Return the name of the model that scores its rows."""
        return None

    @property
    def static(self) -> tuple[Static, ...]:
        """Return the static tables that its function joins."""
        return ()

    @property
    def window_length(self) -> timedelta:
        """Return the length of its windows; zero without windows."""
        return timedelta(0)

    @property
    def local_day(self) -> Day | None:
        """Return the days that its windows are; None where they are of one length, or it has none."""
        window = getattr(self, "window", None)
        return window if isinstance(window, Day) else None

    @property
    def calendar(self) -> Day:
        """Return the days by which it is repaired and judged: its own, else those of UTC."""
        return self.local_day or IN_UTC

    @property
    def reach(self) -> str | None:
        """Return how far outside of a window the rows may lie from which it is computed."""
        return None

    @property
    def reaches(self) -> timedelta:
        """Return the same as a length; zero where nothing is declared."""
        return length_of(self.reach) if self.reach else timedelta(0)

    @property
    def secret(self) -> frozenset[str]:
        """Return the masked columns."""
        return frozenset(self.sensitive)

    def shown(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Return the given columns that may be shown in the clear; the project's own (``_``) may hold any value."""
        return tuple(n for n in columns if n not in self.secret and not n.startswith("_"))

    def __str__(self) -> str:
        """Return the one name."""
        return self.id
