"""A table that fails ends no other table: it is retried after a pause, without a limit on the attempts.

It releases its lease during the pause, so an operator may run, rebuild or rewind it while the others run.
"""

import traceback
from dataclasses import dataclass
from datetime import datetime, timedelta

from strandline.core.errors import LakeError, ReplacedError
from strandline.core.table import Table
from strandline.engine.runtime.outage import denied, first_line, skipped_in_outage
from strandline.engine.storage.damage import damage
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.locks import HasWriterError

FIRST = 5.0
LONGEST = 600.0
"""The shortest and the longest pause in seconds; an attempt that fails again computes a whole batch for nothing."""

LOOKS = 30.0
"""The longest pause of a table whose lease another process has taken; an attempt is a look at the lease."""

SURE = 5
"""This many failed attempts in a row are no accident any more."""


@dataclass(slots=True, kw_only=True)
class Failing:
    """The failure of a table.

    Args:
        says: The error in a sentence.
        hint: What to do about it.
        kind: The kind of error, from which follows who must act.
        since: When it failed first.
        tries: How often it has failed in a row.
        next_at: When it is tried again, unless its lease or a promotion changes before.
    """

    says: str
    hint: str
    kind: str
    since: str
    tries: int = 1
    next_at: str = ""

    @property
    def pause(self) -> float:
        """Return the seconds until the next attempt."""
        return pause_after(self.tries, self.kind)


def pause_after(tries: int, kind: str) -> float:
    """Return the seconds to the next attempt after so many that failed."""
    longest = LOOKS if kind == ReplacedError.kind else LONGEST
    return float(min(FIRST * 2 ** (min(tries, 10) - 1), longest))


def failing(
    error: Exception, table: Table, lake: Lake, *, before: Failing | None, at: str
) -> Failing:
    """Return the failure of a table; keep the traceback of an unforeseen error in the lake's logs.

    Args:
        error: The error of this attempt.
        table: The table.
        lake: The lake.
        before: The failure of the attempt before, if that failed too.
        at: The time.
    """
    tries, since = (before.tries + 1, before.since) if before else (1, at)
    known = error if isinstance(error, LakeError) else damage(error, table) or denied(error)
    if known is not None:
        is_still = before is not None and before.kind == ReplacedError.kind
        kind = ReplacedError.kind if is_still and isinstance(known, HasWriterError) else known.kind
        return Failing(
            says=known.message,
            hint=known.hint,
            kind=kind,
            since=since,
            tries=tries,
            next_at=_next(at, tries, kind),
        )
    log = lake.log(f"failed.{table.id}")
    with skipped_in_outage():
        log.put("".join(traceback.format_exception(error)))
    return Failing(
        says=f"{type(error).__name__}: {first_line(error)}",
        hint=f"the traceback is in {log}.",
        kind=LakeError.kind,
        since=since,
        tries=tries,
        next_at=_next(at, tries, LakeError.kind),
    )


def _next(at: str, tries: int, kind: str) -> str:
    """Return when a table that failed at a time is tried again; empty where no stream does."""
    seconds = timedelta(seconds=pause_after(tries, kind))
    return (datetime.fromisoformat(at) + seconds).isoformat(timespec="seconds") if at else ""
