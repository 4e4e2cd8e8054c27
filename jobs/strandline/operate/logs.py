"""The logs of a lake's programs: what a stream writes into its own, which logs there are, and which lines of one are asked for."""

import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path

from strandline.core.errors import DefinitionError
from strandline.engine.accounting.table_books import Closed
from strandline.engine.kafka import local_broker
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.log_files import Level, concerns, is_before, names, record
from strandline.engine.service.backlog import in_words, seconds_left
from strandline.engine.service.stream_health import Failing
from strandline.engine.service.stream_host import Pulse
from strandline.operate import ranges
from strandline.operate.listener import Log

STREAM = "stream"

AGO = re.compile(r"(\d+)([smhd])")
UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines of a log are asked for; text that is no record, such as a crash before logging began, always is.

    Args:
        table: The table that they concern; all when None.
        level: The least important level.
        since: The first moment; all when None.
    """

    table: str | None
    level: Level
    since: datetime | None

    def holds(self, line: str) -> bool:
        """Return whether a line is of the table and the level."""
        found = record(line)
        return found is None or (
            (self.table is None or concerns(found, self.table))
            and Level(found["level"]).is_at_least(self.level)
        )

    def is_too_old(self, line: str) -> bool:
        """Return whether a line is from before the first moment."""
        if self.since is None or (found := record(line)) is None:
            return False
        return is_before(found, self.since)


def log_of(where: Lake, program: str) -> Path:
    """Return the log of a program.

    Raises:
        DefinitionError: There is none.
    """
    found = {name: where.log(name).local for name in names(where.log(STREAM).parent.local)}
    if (broker := local_broker.log(where)).exists():
        found["broker"] = broker.local
    if program in found:
        return found[program]
    known = sorted(found)
    near = get_close_matches(program, known, n=1)
    meant = f"did you mean {near[0]}? " if near else ""
    begin = (
        "`strandline resume` starts a stream with a log; one in a terminal shows its figures there."
    )
    has = f"the lake has logs of {', '.join(known)} (--of)." if known else ""
    hint = f"{begin} {has}" if program == STREAM else f"{meant}{has or begin}"
    raise DefinitionError(
        f"there is no log of {'the stream' if program == STREAM else program} in {where.root}",
        hint=hint.strip(),
        program=program,
    )


def begin_of(text: str, now: datetime) -> datetime:
    """Parse a moment, or how long ago it was.

    Raises:
        DefinitionError: It is neither.
    """
    ago = AGO.fullmatch(text)
    if ago is None:
        return ranges.moment(text, "--since")
    try:
        return now - timedelta(**{UNITS[ago[2]]: int(ago[1])})
    except OverflowError as error:
        raise DefinitionError(f"--since {text!r} is too long ago", hint="leave it out.") from error


# What a stream logs: progress when there is some, waiting tables once a minute, each failure.
#
# A log that is written for months must not repeat itself: twenty-one idle tables wrote 15,000 lines an hour.


EVERY = 5.0
"""Seconds between two records about a table that commits."""

MINUTE = 60.0


class StreamLog:
    """Logs what is new; remembers what it logged."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with nothing logged."""
        self._log = log
        self._clock = clock
        self._due = self._minute = clock()
        self._logged: dict[str, tuple[int, str | None]] = {}
        self._waited: set[str] = set()
        self._failures: dict[str, int] = {}

    def look(self, pulses: Iterable[Pulse], errors: Mapping[str, Exception]) -> None:
        """Log what is new of the tables, and the errors of those that fail."""
        found = list(pulses)
        if self._clock() >= self._due:
            self._due = self._clock() + EVERY
            for pulse in found:
                self._account(pulse)
        self._absences(found)
        for pulse in found:
            self._failure(pulse, errors.get(pulse.table))

    def _account(self, pulse: Pulse) -> None:
        now = (pulse.batches, pulse.gate)
        if pulse.away or pulse.failing or self._logged.get(pulse.table, (0, None)) == now:
            return
        self._logged[pulse.table] = now
        if pulse.gate is not None:
            self._log.warning("gate shut", table=pulse.table, lag=pulse.lag, message=pulse.gate)
            return
        self._log.info(
            "progress",
            table=pulse.table,
            batch=pulse.batch,
            batches=pulse.batches,
            rows=pulse.read,
            rows_per_second=round(pulse.rate, 1),
            lag=pulse.lag,
            watermark=pulse.watermark,
            last_ms=pulse.last_ms,
            **_ahead(pulse),
        )

    def _failure(self, pulse: Pulse, error: Exception | None) -> None:
        """Log each failure as it happens, and its end."""
        found = pulse.failing
        before = self._failures.pop(pulse.table, 0)
        if found is None:
            if before:
                self._log.info("goes on", table=pulse.table)
            return
        self._failures[pulse.table] = found.tries
        if found.tries != before:
            self._fails(pulse, found, error)

    def _fails(self, pulse: Pulse, found: Failing, error: Exception | None) -> None:
        self._log.error(
            "failed",
            table=pulse.table,
            message=found.says,
            tries=found.tries,
            since=found.since,
            again_in_seconds=found.pause,
            kind=found.kind,
            hint=found.hint,
            exc_info=error,
        )

    def _absences(self, pulses: list[Pulse]) -> None:
        waiting: dict[str, list[str]] = {}
        for pulse in pulses:
            if pulse.away:
                waiting.setdefault(pulse.away, []).append(pulse.table)
        names = {name for each in waiting.values() for name in each}
        for name in sorted(self._waited - names):
            self._log.info("goes on", table=name)
        self._waited &= names
        if names and self._clock() >= self._minute:
            self._minute = self._clock() + MINUTE
            self._waited = names
            for why, tables in waiting.items():
                self._log.warning("waiting", tables=tables, message=why)


def _ahead(pulse: Pulse) -> dict[str, object]:
    """Return of a table that is behind when it will have caught up, and the size of its batches."""
    if not in_words(pulse.behind_rows, pulse.falls):
        return {}
    left = seconds_left(pulse.behind_rows or 0, pulse.falls)
    return {
        "behind": pulse.behind_rows,
        "caught_up_in_seconds": None if left is None else round(left),
        **{f"size_{name}": value for name, value in (pulse.size or {}).items()},
    }


def log_books(log: Log, news: Iterable[Closed | Exception]) -> None:
    """Log which books were closed, and which could not be."""
    for each in news:
        if isinstance(each, Closed):
            log.info("books closed", table=each.table, version=each.until, entries=each.entries)
        else:
            log.warning("books stay open", message=str(each), exc_info=each)


def waits_for(pulse: Pulse) -> str:
    """Return in a few words what a table waits for."""
    if pulse.gate:
        return "for its gate"
    if pulse.away:
        return "for what is away"
    return f"to be tried again: {pulse.failing.says}" if pulse.failing else ""


def fails(table: str, tries: int, message: str) -> str:
    """Return the failure of a table as a sentence."""
    return f"{table} has failed {tries:,} times in a row: {message}"
