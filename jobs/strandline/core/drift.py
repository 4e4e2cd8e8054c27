"""What a payload has beside its declaration: fields that are not declared, and values of another type.

The reader of JSON notes both on its one way through a payload (infra/strandline_infra/spark/strict), in the column ``_drift``: a line
for each, NULL where there is nothing, so that a payload as declared costs nothing. A function passes the column on with the other columns of
bronze (``CARRIED``), and the batch counts its lines before they are written, in the entry of its commit. Only JSON says what a value is
called and of which kind it is: of cells, Avro and Protobuf nothing undeclared can be seen.

A name is foreign text: the reader keeps 32 lines of a payload and a hundred letters of a name, and an entry names a hundred lines.
A value is in none of them: an example is the place of its record in Kafka, so what is forgotten is forgotten here as well.

What happens to a record that has either is the table's choice, in words that others use too (dlt's schema contracts):

* ``say``: a new field is kept in bronze, and said; ``evolve`` says as well what edit of the module declares it.
* ``freeze``: the record is held, as ``new_field`` or ``wrong_type``.
* ``discard_value``: the record is a row without the value; it is counted, and no check warns.
* ``discard_row``: the record is passed over, and counted under that name.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

DRIFT = "_drift"
"""The column with the lines of a record."""

NEW_FIELD, WRONG_TYPE = "new_field", "wrong_type"
"""Under which names records are held or passed over; names of fields are foreign text, and are no reasons."""

OnNewField: TypeAlias = Literal["say", "evolve", "freeze", "discard_value", "discard_row"]
OnWrongType: TypeAlias = Literal["freeze", "evolve", "discard_value", "discard_row"]
ON_NEW_FIELD: tuple[str, ...] = get_args(OnNewField)
ON_WRONG_TYPE: tuple[str, ...] = get_args(OnWrongType)

HAS_NEW_FIELD = f"coalesce(startswith({DRIFT}, '+') OR contains({DRIFT}, '\\n+'), false)"
"""Whether a record has a field that is not declared, as SQL."""

MORE = "~"
"""The begin of the line with the number of those that have no line of their own."""

LINE = re.compile(r"\+(?P<kind>[a-z]+) (?P<new>.+)|!(?P<met>[a-z]+) (?P<declared>\S+) (?P<path>.+)")


@dataclass(frozen=True, slots=True)
class Difference:
    """A line: what a payload has beside its declaration.

    Args:
        path: Where it is: names with points between them, ``[]`` behind a list and ``{}`` behind a map; a name with such a sign is
            between backticks.
        kind: What JSON has there: text, integer, number, boolean, list or object.
        declared: The type that is declared there; empty for a field that is not declared.
    """

    path: str
    kind: str
    declared: str = ""

    @property
    def is_new(self) -> bool:
        """Return whether the field is not declared."""
        return not self.declared

    def __str__(self) -> str:
        """Return it in words."""
        if self.is_new:
            return f"{self.path} ({self.kind})"
        return f"{self.path} ({self.kind}, declared {self.declared})"


def difference(line: str) -> Difference | None:
    """Return what a line says; None where it says nothing of a field."""
    if (found := LINE.fullmatch(line)) is None:
        return None
    if found["new"]:
        return Difference(found["new"], found["kind"])
    return Difference(found["path"], found["met"], found["declared"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How payloads are read for a table.

    Args:
        notes: Whether what they have beside the declaration is noted.
        leaves: The paths of which nothing is noted.
        drops: Whether a value of another type is NULL, and its payload a row.
    """

    notes: bool = True
    leaves: tuple[str, ...] = ()
    drops: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """Return it as the reader of JSON is given it."""
        return (
            *(() if self.notes else ("unnoted",)),
            *(f"leaves {path}" for path in self.leaves),
            *(("drops",) if self.drops else ()),
        )


_READING: ContextVar[Reading] = ContextVar("reading", default=Reading())  # noqa: B039  # it is frozen


@contextmanager
def reading(how: Reading) -> Iterator[None]:
    """Let the functions of tables that are called in the block read payloads so."""
    token = _READING.set(how)
    try:
        yield
    finally:
        _READING.reset(token)


def reading_now() -> Reading:
    """Return how the function that is called now reads payloads."""
    return _READING.get()


def with_drift(events: DataFrame) -> DataFrame:
    """Return rows of bronze with the column, NULL where a parser does not fill it."""
    if DRIFT in events.columns:
        return events
    return events.withColumn(DRIFT, F.lit(None).cast("string"))


def path_of(names: Sequence[str]) -> str:
    """Return the path of a field, which a list of names leads to, as the reader of JSON writes it."""
    return ".".join(
        name if re.fullmatch(r"[A-Za-z0-9_-]{1,100}", name) else f"`{name.replace('`', '``')}`"
        for name in names
    )
