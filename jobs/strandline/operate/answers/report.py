"""The report of a day or of several: gathered, written to the lake, and refused where the numbers cannot be trusted."""

from datetime import date, timedelta
from pathlib import Path

from strandline.core.errors import DataError, DefinitionError
from strandline.core.table import Table
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime import clock
from strandline.engine.trust.daily_report import Period, gather, newest_day
from strandline.operate import lakes
from strandline_quality.report.findings import Findings
from strandline_quality.report.page import page

DAY = timedelta(days=1)


def report_of(
    lake: Lake, *, day: str | None = None, since: str | None = None, until: str | None = None
) -> Findings:
    """Gather the findings of the named day or days of a lake.

    Raises:
        DefinitionError: They are no days, or nothing was written yet.
    """
    tables = lakes.filled(lake)
    return gather(lake, tables, _period(lake, tables, day, since, until))


def refuse_untrusted(found: Findings) -> None:
    """Refuse findings that cannot be trusted.

    Raises:
        DataError: The numbers cannot be trusted.
    """
    if not found.verdict.is_trusted:
        raise DataError(
            found.sentence.rstrip("."),
            hint="the page gives the reason, table by table; `strandline ledger` proves where every row is.",
            verdict=str(found.verdict),
        )


def _period(
    lake: Lake, tables: list[Table], day: str | None, since: str | None, until: str | None
) -> Period:
    now = clock.now()
    if day and (since or until):
        raise DefinitionError(
            "--day names one day, --since and --until several", hint="give one or the other."
        )
    if since or until:
        if not (since and until):
            raise DefinitionError(
                "a range has two ends, and one was given",
                hint="give --since and --until, or --day.",
            )
        first, last = _day("--since", since, now.date()), _day("--until", until, now.date())
        if first >= last:
            raise DefinitionError(
                f"the range is empty: {since} is not before {until}",
                hint="--until is the day after the last.",
            )
        return Period(since=first, until=last, now=now)
    chosen = _day("--day", day, now.date()) if day else newest_day(tables, lake) or now.date()
    return Period(since=chosen, until=chosen + DAY, now=now)


def _day(option: str, text: str, today: date) -> date:
    named = {"today": today, "yesterday": today - DAY}
    try:
        return named[text] if text in named else date.fromisoformat(text)
    except ValueError as error:
        raise DefinitionError(
            f"{option} {text!r} is no day", hint="write it like 2026-11-01, or today, or yesterday."
        ) from error


def write_report(found: Findings, lake: Lake, to: Path | None = None) -> Place:
    """Write the page, to the lake by default; a reader sees the old one or the new one.

    Raises:
        DefinitionError: It cannot be written there.
    """
    return written(page(found), Place.of(to) if to else lake.report(found.since[:10]))


def written(text: str, file: Place) -> Place:
    """Write a page whole, and return its file.

    Raises:
        DefinitionError: It cannot be written there.
    """
    try:
        file.put(text)
    except OSError as error:
        raise DefinitionError(
            f"the page cannot be written to {file}: {error.strerror}",
            hint="name another file with --to.",
            file=str(file),
        ) from error
    return file


def near(page: Place, lake: Lake) -> Place:
    """Return the page as a file of this machine, which a browser opens."""
    if page.is_local:
        return page
    copy = lake.near / page.below(lake.root)
    copy.put_bytes(page.bytes() or b"")
    return copy
