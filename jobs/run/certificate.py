"""What a verification found, kept beside the table it speaks of."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields

from jobs.core.table import Table
from jobs.run.lake import Lake
from jobs.run.meter import code_version
from jobs.run.notes import put


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """The result of one verification of one table.

    Args:
        table: The table's one name.
        equal: Whether all recomputations and the live table have the same rows.
        rows: Rows of the live table, its quarantine included.
        splits: Micro-batches into which the log was cut.
        kills: How often the streaming process was killed in between.
        seed: What decided where it was cut and killed.
        offsets: Per topic and partition the range of bronze that was recomputed.
        versions: The live Delta version that was compared, and those of the bronze tables below it.
        code: Hash of the code that recomputed it.
        at: When.
        seconds: How long all tables of that verification took together.
        since: Of one that speaks of a range of event time only, where it begins.
        until: Where it ends.
        differences: Rows that one side has and another has not, as text.
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
    differences: tuple[str, ...] = field(default=())


def keep(certificate: Certificate, table: Table, lake: Lake) -> None:
    """Put a certificate beside its table; a reader sees the old one or the new one.

    One that speaks of a range has a place of its own, so that it does not hide one that speaks of all rows.
    """
    file = lake.certificate(table, is_whole=certificate.since is None)
    put(file, json.dumps(asdict(certificate), indent=1) + "\n")


def kept(table: Table, lake: Lake, *, is_whole: bool = True) -> Certificate | None:
    """Return a table's last certificate, of all its rows or of a range."""
    file = lake.certificate(table, is_whole=is_whole)
    if not file.exists():
        return None
    found = json.loads(file.read_text())
    known = {each.name for each in fields(Certificate)}
    values = {name: value for name, value in found.items() if name in known}
    values["offsets"] = {name: (a, b) for name, (a, b) in found["offsets"].items()}
    values["differences"] = tuple(found["differences"])
    return Certificate(**values)


def standing(table: Table, lake: Lake) -> str:
    """Say in a few words what a table's last certificates are worth today."""
    whole, part = (kept(table, lake, is_whole=each) for each in (True, False))
    if whole and part and part.at < whole.at:
        part = None  # all rows were looked at since
    told = [each for each in (whole, part) if each]
    if not told:
        return "none"
    bad = [each for each in told if not each.equal]
    what = "NOT EQUAL" if bad else "equal" if whole else "equal in a range"
    shown = (bad or told)[0]
    return what if shown.code == code_version(table) else f"{what}, by other code"
