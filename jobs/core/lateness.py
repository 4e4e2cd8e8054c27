"""When a row is late or early, and how long state must wait for it.

Late is a property of the row: its event time against its own arrival. Spark's rule, a row against the
watermark of the batch it happened to fall into, changes with every slicing and can never be equal in
batch and stream. So the law decides, the quarantine keeps what it refuses, and the watermark is left
with one job: bounding state. Its delay is the sum of everything that the law admits, so that a row which
passed the law never meets a watermark beyond it:

    newest event time seen  <=  newest arrival seen + early
    watermark               =   newest event time seen - (late + early + disorder)
                            <=  newest arrival seen - late - disorder
    an admitted row has     event time >= its arrival - late

Arrivals may run backwards by ``disorder`` between two committed batches before any row is in danger, and
the reader of Kafka aligns partitions by time so that a backlog does not exceed it (see jobs/run/backlog.py).
"""

from dataclasses import dataclass
from datetime import timedelta

from pyspark.sql import Column
from pyspark.sql import functions as F


@dataclass(frozen=True, slots=True, kw_only=True)
class Lateness:
    """The bounds between the time an event happened and the time it arrived.

    Args:
        late: How far an event may lie before its arrival.
        early: How far a device's clock may run ahead.
        disorder: How far arrivals may run backwards between batches.
    """

    late: timedelta = timedelta(hours=1)
    early: timedelta = timedelta(minutes=5)
    disorder: timedelta = timedelta(minutes=10)

    @property
    def delay(self) -> timedelta:
        """Return how far the watermark stays behind the newest event."""
        return self.late + self.early + self.disorder

    @property
    def delay_text(self) -> str:
        """Return the delay as Spark reads it."""
        return f"{milliseconds(self.delay)} milliseconds"

    def reasons(self, event_at: Column, arrived_at: Column) -> list[Column]:
        """Return a NULL or a reason for each way in which a row can miss its time."""
        return [
            F.when(event_at < arrived_at - interval(self.late), F.lit("late")),
            F.when(event_at > arrived_at + interval(self.early), F.lit("early")),
        ]


def milliseconds(span: timedelta) -> int:
    """Return a span in whole milliseconds."""
    return span // timedelta(milliseconds=1)


def interval(span: timedelta) -> Column:
    """Return a span as a day-time interval."""
    return F.expr(f"make_dt_interval(0, 0, 0, {milliseconds(span) / 1000})")
