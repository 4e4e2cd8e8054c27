"""Tables that ``run`` passes over because another process writes them; all others are brought up to date.

The stream of one table is no reason to skip ten others: a table reads the commits of its sources, by any process. A
table that was passed over is reported at once, and again by the exit code, so that a scheduler retries later.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jobs.cli.screen import note
from jobs.core.errors import LakeError, TransientError
from jobs.core.table import Table
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.locks import HasWriterError, refuse_if_taken


@dataclass(slots=True)
class Passed:
    """The tables that were passed over.

    Args:
        lake: Their lake.
        why: The reason, by table.
    """

    lake: Lake
    why: dict[str, str] = field(default_factory=dict)

    def add(self, table: Table, why: str) -> None:
        """Pass a table over, and report it."""
        self.why[table.id] = why
        note(f"{table.id} is passed over: {why}")

    def blocks(self, table: Table) -> bool:
        """Return whether a table cannot run, because a source was passed over and does not exist yet."""
        absent = [s.id for s in table.upstream if s.id in self.why and not self.lake.exists(s)]
        if absent:
            self.add(table, f"it reads {' and '.join(absent)}, which does not exist yet")
        return bool(absent)

    def refuse(self, tried: int) -> None:
        """Refuse a run that passed tables over.

        Raises:
            TransientError: It did.
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
    """Return the tables that no other process writes, and those that are passed over.

    Raises:
        TransientError: No table is left.
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
