"""The logs of a lake's programs: which there are, and which lines of one are asked for."""

import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path

from strandline.core.errors import DefinitionError
from strandline.engine.kafka import local_broker
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.log_files import Level, concerns, is_before, names, record
from strandline.operate import ranges

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
