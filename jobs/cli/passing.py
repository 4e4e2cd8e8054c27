"""Tables that ``run`` passes over because another process writes them; the others are brought up to date all the same.

One stream of one table is no reason to leave ten others where they are: a table reads what its sources have committed,
whoever commits it. What was passed over is said at once, and again by the exit code, so that a scheduler tries it later.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jobs.cli.screen import note
from jobs.core.errors import LakeError, TransientError
from jobs.core.table import Table
from jobs.run.lake import Lake
from jobs.run.lease import HasWriterError, refuse_if_taken


@dataclass(slots=True)
class Passed:
    """What was passed over.

    Args:
        lake: Where.
        why: The reason, by table.
    """

    lake: Lake
    why: dict[str, str] = field(default_factory=dict)

    def add(self, table: Table, why: str) -> None:
        """Pass a table over, and say so."""
        self.why[table.id] = why
        note(f"{table.id} is passed over: {why}")

    def blocks(self, table: Table) -> bool:
        """Tell whether a table cannot run, because what it reads was passed over before it was ever made."""
        absent = [s.id for s in table.upstream if s.id in self.why and not self.lake.exists(s)]
        if absent:
            self.add(table, f"it reads {' and '.join(absent)}, of which there is nothing yet")
        return bool(absent)

    def refuse(self, tried: int) -> None:
        """See that every table was brought up to date.

        Raises:
            TransientError: Some were passed over.
        """
        if self.why:
            names = ", ".join(self.why)
            raise TransientError(
                f"{len(self.why)} of {tried} tables could not be brought up to date: {names}",
                hint="another process writes them, and keeps them up to date if it is a stream (`strandline status`); "
                "type the same again when it has ended.",
                tables=list(self.why),
            )


def free(chosen: Sequence[Table], lake: Lake) -> tuple[list[Table], Passed]:
    """Return the tables that nobody else writes, and those that are passed over.

    Raises:
        TransientError: None is left.
    """
    passed, left = Passed(lake), list[Table]()
    first: LakeError | None = None
    for table in chosen:
        try:
            refuse_if_taken(table, lake)
        except HasWriterError as error:
            first = first or error
            passed.add(table, error.message)
            continue
        if not passed.blocks(table):
            left.append(table)
    if first is not None and not left:
        raise first
    return left, passed
