"""A request to forget: a condition over a table's columns, and the texts in it, which are searched in what cannot be parsed.

Which records are meant:

    a record that its table parses       the condition holds for the columns that its table reads from it
    one that cannot be parsed            its bytes contain one of the texts as a word
    any                                  its Kafka key contains one as a word
    one of a table without the columns   its bytes contain one as a word, as an alert contains the event that raised it

A parsed record that only mentions a text, in a remark about another device, is another device's and stays; it is counted.
The ledger gets a hash of the condition and never the condition, and the hash of each table is another one.
"""

import hashlib
import re
from dataclasses import dataclass

from pyspark.errors import ParseException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from jobs.core.errors import DefinitionError
from jobs.core.received import RECEIVED
from jobs.core.table import Judged
from jobs.core.verdict import with_newest_arrival
from jobs.engine.storage.files_at_version import table_id
from jobs.engine.storage.place import Place

TEXT = re.compile(r"'((?:[^'\\]|'')*)'")
LITERAL = r"'(?:[^'\\]|'')*'"
EQUALS = re.compile(
    rf"\s*[\w.`]+\s*(=\s*{LITERAL}|IN\s*\(\s*{LITERAL}(\s*,\s*{LITERAL})*\s*\))\s*", re.IGNORECASE
)
"""A condition from whose texts it follows what is meant: ``name = 'text'``, or ``name IN ('a', 'b')``."""

NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*(?!\s*\()(?![\w.])")
"""A column in a condition without its texts; a name before a parenthesis is a function."""

KEYWORDS = frozenset(
    [
        "AND",
        "OR",
        "NOT",
        "IN",
        "IS",
        "NULL",
        "LIKE",
        "RLIKE",
        "ILIKE",
        "BETWEEN",
        "TRUE",
        "FALSE",
        "CASE",
        "WHEN",
        "THEN",
        "ELSE",
        "END",
        "ESCAPE",
    ]
)

SHORTEST = 3
"""Characters of the shortest text that is searched in bytes; a shorter one is in every second record."""


@dataclass(frozen=True, slots=True)
class Request:
    """A request to forget.

    Args:
        where: The condition, as SQL.
        words: The texts in it that name whom to forget; none where the condition is no comparison with texts.
    """

    where: str
    words: tuple[str, ...]

    @classmethod
    def of(cls, where: str) -> "Request":
        """Read a condition.

        Raises:
            DefinitionError: It is empty.
        """
        if not where.strip():
            raise DefinitionError(
                "a request to forget needs a condition",
                hint="such as --where \"device_id = 'd-17'\".",
            )
        parts = [
            EQUALS.fullmatch(part) for part in re.split(r"\s+OR\s+", where, flags=re.IGNORECASE)
        ]
        texts = [text.replace("''", "'") for text in TEXT.findall(where)] if all(parts) else []
        return cls(where.strip(), tuple(dict.fromkeys(t for t in texts if len(t) >= SHORTEST)))

    def mark(self, path: Place) -> str:
        """Return the name of the request in the ledger of a table: a hash, which does not say whom it is about."""
        text = f"{table_id(path)}\n{self.where}"
        return f"forget {hashlib.sha256(text.encode()).hexdigest()[:16]}"

    def refuse_unreadable(self) -> None:
        """Refuse a condition that is no SQL.

        Raises:
            DefinitionError: Spark cannot parse it.
        """
        try:
            F.expr(self.where)
        except ParseException as error:
            raise DefinitionError(
                f"--where {self.where!r} is no condition",
                hint="write it as SQL over a table's columns, such as device_id = 'd-17'.",
            ) from error

    @property
    def columns(self) -> set[str]:
        """Return the columns of the condition.

        Spark would say which are missing, but writes the condition to its log with the error.
        """
        plain = TEXT.sub("", self.where)
        return {name for name in NAME.findall(plain) if name.upper() not in KEYWORDS}

    def fits(self, rows: DataFrame) -> bool:
        """Return whether rows have the columns of the condition."""
        return bool(self.columns) and self.columns <= {*rows.columns}

    def holds(self) -> Column:
        """Return the condition; a row for which it is unknown is not meant."""
        return F.coalesce(F.expr(self.where).cast("boolean"), F.lit(False))

    def is_in(self, column: str) -> Column:
        """Return whether bytes contain one of the texts as a word, or after its length, as Avro writes it."""
        text = F.decode(F.col(column), "ISO-8859-1")
        found = F.lit(False)
        for word in self.words:
            holds = F.contains(F.col(column), F.lit(word.encode()))  # cheap, and rarely true
            found |= F.coalesce(holds & text.rlike(_pattern(word)), F.lit(False))
        return found

    def meant(self, records: DataFrame, table: Judged) -> DataFrame:
        """Return the parsed records that are meant, with ``_mention`` for those that only mention a text.

        Args:
            records: Records of bronze, or of the table's quarantine.
            table: The table that judges them.
        """
        parsed = table.transform(with_newest_arrival(as_received(records)))
        mentioned = self.is_in("_payload")
        if not self.fits(parsed):
            return parsed.where(mentioned | self.is_in("_message_key")).withColumn(
                "_mention", F.lit(False)
            )
        is_meant = (
            self.holds() | (F.col("_problem").isNotNull() & mentioned) | self.is_in("_message_key")
        )
        return parsed.where(is_meant | mentioned).withColumn("_mention", ~is_meant)


def as_received(records: DataFrame) -> DataFrame:
    """Return records of a quarantine with the columns of bronze, and no others."""
    return records.select(
        *(
            F.col(each.name)
            if each.name in records.columns
            else F.lit(None).cast(each.dataType).alias(each.name)
            for each in RECEIVED
        )
    )


def _pattern(word: str) -> str:
    """Return the pattern of a text as a word in bytes that were read as Latin 1."""
    text = word.encode().decode("latin-1")
    plain = re.sub(r"([^A-Za-z0-9_])", r"\\\1", text)
    length = f"\\x{min(2 * len(word.encode()), 255):02x}"
    return f"(?<![\\w-]){plain}(?![\\w-])|{length}{plain}"
