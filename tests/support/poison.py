"""Hours of readings, some of them beyond every data sheet."""

from datetime import timedelta

from tests.support.events import Event, reading
from tests.support.rows import at

RULE = "implausible:value"


def hour(name: str, start: str, *, bad: int, of: int, batch: int) -> list[Event]:
    """Return an hour of readings of which the first ones are implausible."""
    step = timedelta(hours=1) / of
    return [
        Event(
            batch=batch,
            payload=reading(
                event_id=f"{name}{n}",
                device_id=f"d{n % 3}",
                value=999 if n < bad else 20 + n % 7,
                event_at=(at(start) + n * step).isoformat(),
            ),
            arrived_at=at(start) + n * step,
            ingested_at=at(start) + n * step,
        )
        for n in range(of)
    ]


GOOD = hour("g", "06:00:00", bad=0, of=60, batch=0)
POISONED = hour("p", "07:00:00", bad=30, of=100, batch=1)
AFTER = hour("a", "08:00:00", bad=1, of=60, batch=2)
