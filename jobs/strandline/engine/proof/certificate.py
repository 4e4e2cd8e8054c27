"""The certificate of a verification, kept beside its table, and whether it still says something about today's code.

Apart from what verifies, which needs Spark and half of the engine: a list of tables only reads what was found.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields

from strandline.core.table import Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.spark_checkpoint import same_code
from strandline.engine.runtime.code_files import is_code_of

SECOND = "duckdb"
"""The engine that shares no code with ours, as its certificate's file is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The result of one verification of one table.

    Args:
        table: The table's one name.
        equal: Whether all recomputations and the live table have the same rows.
        rows: Rows of the live table, its quarantine included.
        splits: Micro-batches into which the log was cut.
        kills: How often the streaming process was killed in between.
        seed: The seed of the cuts and kills.
        offsets: Per topic and partition the range of bronze that was recomputed.
        versions: The live Delta version that was compared, and those of the bronze tables below it.
        code: Hash of the code that recomputed it.
        at: The time of the verification.
        seconds: The duration of that verification, for all of its tables together.
        since: The start of the verified range of event time; None when all rows were verified.
        until: Its end.
        whole_from: The event time from which on rows were compared, because retention deleted older ones; None when all were.
        differences: Rows that one side has and the other has not, as text.
        instrument: What recomputed it, if that is not Spark.
        without: Columns that were not compared.
    """

    table: str
    equal: bool
    rows: int
    splits: int
    kills: int
    seed: int
    offsets: Mapping[str, tuple[int, int]]
    versions: Mapping[str, int]
    code: str
    at: str
    seconds: float
    since: str | None = None
    until: str | None = None
    whole_from: str | None = None
    differences: tuple[str, ...] = field(default=())
    instrument: str = ""
    without: tuple[str, ...] = ()


def keep(certificate: Certificate, table: Table, lake: Lake) -> None:
    """Write a certificate beside its table; a reader sees the old one or the new one.

    The certificate of a range has a file of its own, so it does not replace the one of all rows; and so has that of another engine.
    """
    file = lake.certificate(
        table, is_whole=certificate.since is None, by=SECOND if certificate.instrument else ""
    )
    file.put(json.dumps(asdict(certificate), indent=1) + "\n")


def kept(table: Table, lake: Lake, *, is_whole: bool = True, by: str = "") -> Certificate | None:
    """Return a table's last certificate, of all its rows or of a range, or by another engine."""
    text = lake.certificate(table, is_whole=is_whole, by=by).text()
    if text is None:
        return None
    record = json.loads(text)
    known = {each.name for each in fields(Certificate)}
    values = {name: value for name, value in record.items() if name in known}
    values["offsets"] = {name: (a, b) for name, (a, b) in record["offsets"].items()}
    values["differences"] = tuple(record["differences"])
    values["without"] = tuple(record.get("without", ()))
    return Certificate(**values)


def status(table: Table, lake: Lake) -> str:
    """Return in a few words the result of a table's last certificates, and whether today's code made them."""
    return standing(table, lake)[0]


def standing(table: Table, lake: Lake) -> tuple[str, Certificate | None]:
    """Return the same, with the last certificate of all rows, or else that of a range; each of three files is read once."""
    whole, part = (kept(table, lake, is_whole=each) for each in (True, False))
    return _in_words(table, lake, whole, part), whole or part


def _in_words(table: Table, lake: Lake, whole: Certificate | None, part: Certificate | None) -> str:
    if whole and part and part.at < whole.at:
        part = None  # all rows were verified since
    valid = [each for each in (whole, part) if each]
    second = kept(table, lake, by=SECOND)
    by_second = _of_second(table, lake, second) if second else ""
    if not valid:
        return by_second or "none"
    bad = [each for each in valid if not each.equal]
    result = "NOT EQUAL" if bad else "equal" if whole else "equal in a range"
    shown = (bad or valid)[0]
    found = result if _is_of_today(table, lake, shown) else f"{result}, by other code"
    return f"{found}; {by_second}" if by_second else found


def _is_of_today(table: Table, lake: Lake, found: Certificate) -> bool:
    """Return whether today's code made a certificate, or code whose plan makes the same rows."""
    return is_code_of(table, found.code) or found.code in same_code(table, lake.checkpoint(table))


def _of_second(table: Table, lake: Lake, found: Certificate) -> str:
    result = f"{'equal' if found.equal else 'NOT EQUAL'} by {found.instrument.partition(' ')[0]}"
    return result if _is_of_today(table, lake, found) else f"{result}, by other code"
