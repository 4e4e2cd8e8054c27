"""The tables that rules look at: their columns and types, and the names that Sigma's taxonomy gives them.

A rule of Sigma names a log source (``category: process_creation``) and fields (``DestinationIp``). Each source says here
which log sources it is and which of its columns a field of another name is. Fields whose names are columns need no
entry: ``silver.process_events`` has Sigma's own names. Any silver table can be named directly, ``service: user_actions``.

A product (``windows``, ``linux``) chooses nothing: one table holds the starts of programs of every system.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql.types import LongType, StringType, StructType, TimestampType

from jobs.core.errors import DefinitionError
from jobs.core.moment import in_utc
from jobs.core.table import Judged
from jobs.silver import dhcp_events, network_connections, process_events, user_actions


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A table whose rows rules look at.

    Args:
        table: The table.
        fields: Its columns: texts, whole numbers and times.
        entity: The column with whom or what an event is about, by which alerts are counted; it is not masked.
        categories: The categories of Sigma's log sources that it holds.
        names: Fields of Sigma's taxonomy, and the column of each.
        name: The name of its feed; the table's when empty.
        made: SQL for columns that are computed of each row, in steps; each but the last adds, and the last selects.
    """

    table: Judged
    fields: StructType = field(hash=False, compare=False)
    entity: str
    categories: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict, hash=False, compare=False)
    name: str = ""
    made: tuple[tuple[str, ...], ...] = ()

    def completed(self, rows: DataFrame) -> DataFrame:
        """Return rows of the table with the columns that are computed of them."""
        for step in self.made[:-1]:
            rows = rows.selectExpr("*", *step)
        return rows.selectExpr(*self.made[-1]) if self.made else rows

    def is_text(self, column: str) -> bool:
        """Return whether a column holds text."""
        return isinstance(self.fields[column].dataType, StringType)

    def is_number(self, column: str) -> bool:
        """Return whether a column holds whole numbers."""
        return isinstance(self.fields[column].dataType, LongType)

    def is_time(self, column: str) -> bool:
        """Return whether a column holds times."""
        return isinstance(self.fields[column].dataType, TimestampType)

    def row(self, event: Mapping[str, object]) -> dict[str, object]:
        """Return an event as a row of the table; columns that it does not name are NULL.

        Raises:
            DefinitionError: It has a field that is no column, or a value of another type.
        """
        found: dict[str, object] = dict.fromkeys(self.fields.fieldNames())
        for name, value in event.items():
            column = self.names.get(name, name)
            if column not in found:
                raise DefinitionError(
                    f"{self.table.id} has no column {name}",
                    hint=f"its columns are {', '.join(self.fields.fieldNames())}.",
                    table=self.table.id,
                )
            found[column] = self._value(column, value)
        return found

    def _value(self, column: str, value: object) -> object:
        match value:
            case None:
                return None
            case datetime() if self.is_time(column):
                return in_utc(value)
            case str() if self.is_time(column):
                try:
                    return in_utc(datetime.fromisoformat(value))
                except ValueError:
                    pass
            case int() if self.is_number(column) and not isinstance(value, bool):
                if -(1 << 63) <= value < 1 << 63:
                    return value
            case str() if self.is_text(column):
                return value
        kind = self.fields[column].dataType.simpleString()
        raise DefinitionError(
            f"the value of {column} in an event of {self.table.id} is no {kind}: {str(value)[:80]!r}",
            hint="quote texts, write numbers without quotes and times as 2026-11-20T08:15:30Z.",
            column=column,
        )


SOURCES = (
    Source(
        table=process_events.TABLE,
        fields=process_events.FIELDS,
        entity="Computer",
        categories=("process_creation",),
    ),
    Source(
        table=network_connections.TABLE,
        fields=network_connections.FIELDS,
        entity="src_ip",
        categories=("network_connection", "firewall"),
        names={
            "SourceIp": "src_ip",
            "DestinationIp": "dst_ip",
            "DestinationPort": "dst_port",
        },
    ),
    Source(
        table=dhcp_events.TABLE,
        fields=dhcp_events.FIELDS,
        entity="device_id",
        categories=("dhcp",),
    ),
    Source(
        table=user_actions.TABLE,
        fields=user_actions.FIELDS,
        entity="device_id",
        categories=("authentication",),
        names={"User": "user_id", "Action": "action"},
    ),
)


def find(table: str) -> Source | None:
    """Return the source of a table's name, with or without its layer; None if rules look at no such table."""
    return next((each for each in SOURCES if table in {each.table.id, each.table.name}), None)
