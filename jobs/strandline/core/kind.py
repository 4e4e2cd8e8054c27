"""What a table of any kind is and answers, apart from its sources (jobs/strandline/core/table.py has the kinds)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from strandline.core.lateness import IN_UTC, Day, Fresh, Lateness, length_of
from strandline.core.static import Static
from strandline.core.topic import Topic
from strandline_quality.expectations import Within
from strandline_quality.rules import Rule


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
