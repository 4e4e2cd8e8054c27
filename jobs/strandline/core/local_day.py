"""The day of a time zone as a window: 23 and 25 hours long where its clocks change, and each instant in exactly one day.

A day begins at midnight of its date by the clocks of its zone. Where a change of the clocks skips midnight, the day begins with the
change; where it repeats midnight, with the first; and where it leads back into the day before (at 00:01, in St. John's until
2011), the repeated hour belongs to the day that had begun, because days that alternate would be no windows. A date that a
zone never had (30 December 2011, in Samoa) is a day without an instant.

Spark has windows of one length only. What makes Spark emit a window once its end is behind the watermark, and forget its state,
is a mark in the metadata of the column that rows are grouped by, and the second field of its struct (4.2, append mode); the
mark is passed on from the column with the event time. Spark takes it from a column alone, not from an expression: so a day
is added to the rows, which are grouped by it then.
"""

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo, available_timezones

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from strandline.core.errors import DefinitionError
from strandline.core.lateness import FIRST, LAST, in_utc, length_of

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
