"""Is a table well? Answered from the lake's files alone, without Spark and without a broker.

Each sign answers a question of on-call: does the ledger balance, was the table verified, does it keep up with what it
reads, how long do rows of the quarantine wait for a decision.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from strandline.core.table import Ingested, Judged, Table
from strandline.engine.accounting.balance_sheet import Balance, balance
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log import commit_log
from strandline.engine.lake.log.ledger import latest_version
from strandline.engine.lake.retired import Retirement, retired
from strandline.engine.proof.certificate import kept, status
from strandline.engine.quarantine.browse import open_rows

Figure = int | float | str

LATE = timedelta(hours=1)
"""How long rows may wait for a table; the schedule runs every quarter of an hour."""

LONG = timedelta(days=7)
"""How long a quarantined row may wait for a decision."""

LAG = 100_000

LEDGER = "ledger_balances"
CERTIFICATE = "certificate"
FRESH = "fresh"
LAGS = "lag"
QUARANTINE = "quarantine_age"
ROUTED = "routed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """The answer to one question.

    Args:
        name: The name of the question.
        well: Whether there is nothing to do.
        message: The answer as a sentence.
        grave: Whether the table's rows are in doubt, and not only late.
        figures: The plotted figures.
    """

    name: str
    well: bool
    message: str
    grave: bool = False
    figures: Mapping[str, Figure] = field(default_factory=dict)


QUESTIONS = {
    LEDGER: "Every event that the table read is in exactly one place.",
    CERTIFICATE: "Computed again from bronze, the table has the same rows.",
    FRESH: f"No row of what it reads waits for more than {LATE // timedelta(hours=1)} h.",
    LAGS: f"Fewer than {LAG:,} rows of what it reads wait.",
    QUARANTINE: f"No row waits in its quarantine for more than {LONG.days} days.",
    ROUTED: "Each record has a kind, and a table that takes it or a declaration that leaves it.",
}


def questions(table: Table) -> tuple[str, ...]:
    """Return the questions for a table: other tables are verified against bronze, only silver holds rows back."""
    derived = () if isinstance(table, Ingested) else (CERTIFICATE, FRESH, LAGS)
    held = (QUARANTINE,) if isinstance(table, Judged) else ()
    routed = (ROUTED,) if isinstance(table, Ingested) and table.has_kinds else ()
    return (LEDGER, *derived, *held, *routed)


def signs(table: Table, lake: Lake, now: datetime) -> Iterator[Sign]:
    """Yield the answers for an existing table."""
    sheet = balance(table, lake)
    if sheet.damage is not None:  # of which no question can be answered
        yield from (
            Sign(name=name, well=False, message=sheet.damage.message, grave=True)
            for name in questions(table)
        )
        return
    yield _balances(sheet)
    if (ended := retired(lake).get(table.id)) is not None:
        yield from _of_retired(table, ended)
        return
    if not isinstance(table, Ingested):
        yield _proven(table, lake)
        yield _fresh(table, lake, sheet, now)
        yield _lags(sheet)
    if isinstance(table, Judged):
        yield _quarantine(table, lake, now)
    if isinstance(table, Ingested) and table.has_kinds:
        yield _routed(sheet)


def _of_retired(table: Table, ended: Retirement) -> Iterator[Sign]:
    """Yield that nothing is late of a table that is fed no more; its ledger must balance all the same."""
    yield from (
        Sign(name=name, well=True, message=f"retired by {ended.words}")
        for name in questions(table)
        if name != LEDGER
    )


def committed_at(table: Table, lake: Lake) -> datetime | None:
    """Return the time of a table's last commit."""
    path = lake.table(table)
    version = latest_version(path)
    if version < 0:
        return None
    return commit_log.committed_at(path, version)


def _balances(sheet: Balance) -> Sign:
    message = "balanced" if sheet.balanced else "; ".join(sheet.faults[:3])
    held = sum(sheet.quarantined.values())
    figures = {"read": sheet.read, "good": sheet.good, "duplicates": sheet.copies, "held": held}
    if sheet.skipped:
        figures["skipped"] = sum(sheet.skipped.values())
    return Sign(name=LEDGER, well=sheet.balanced, message=message, grave=True, figures=figures)


def _routed(sheet: Balance) -> Sign:
    figures = {
        "unrouted": sum(sheet.unrouted.values()) + sheet.unrouted_more,
        "without a kind": sheet.kindless,
        "left on purpose": sum(sheet.left_out.values()),
    }
    message = "; ".join(sheet.said) or "a table takes each kind"
    return Sign(name=ROUTED, well=not sheet.homeless, message=message, figures=figures)


def _proven(table: Table, lake: Lake) -> Sign:
    result, last = status(table, lake), kept(table, lake) or kept(table, lake, is_whole=False)
    figures: dict[str, Figure] = (
        {"rows": last.rows, "at": last.at, "seed": last.seed} if last else {}
    )
    message = result if last else "never verified; the job `certify` does it"
    return Sign(
        name=CERTIFICATE,
        well=not result.startswith("NOT"),
        message=message,
        grave=True,
        figures=figures,
    )


def _fresh(table: Table, lake: Lake, sheet: Balance, now: datetime) -> Sign:
    at = committed_at(table, lake)
    age = now - at if at else timedelta(0)
    waits = sheet.waiting > 0 and age > LATE
    minutes = int(age.total_seconds() // 60)
    message = f"{sheet.waiting:,} rows wait, and the last commit is {minutes} minutes old"
    return Sign(
        name=FRESH, well=not waits, message=message, figures={"minutes since commit": minutes}
    )


def _lags(sheet: Balance) -> Sign:
    message = f"{sheet.waiting:,} rows wait"
    return Sign(
        name=LAGS, well=sheet.waiting < LAG, message=message, figures={"lag": sheet.waiting}
    )


def _quarantine(table: Table, lake: Lake, now: datetime) -> Sign:
    held = open_rows(table, lake, now)
    if held is None or held.oldest is None:
        return Sign(name=QUARANTINE, well=True, message="nothing is held", figures={"held": 0})
    age = now - datetime.fromisoformat(held.oldest)
    message = f"{held.rows:,} rows are held, the oldest for {age.days} days"
    figures: dict[str, Figure] = {"held": held.rows, "oldest": held.oldest, "days": age.days}
    return Sign(name=QUARANTINE, well=age <= LONG, message=message, figures=figures)
