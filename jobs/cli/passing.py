"""Tables that ``run`` passes over because another process writes them, or that fail; all others are brought up to date.

Neither the stream of one table nor its failure is a reason to skip ten others: a table reads the commits of its sources, by
any process. A table that was passed over or has failed is reported at once, and again by the exit code, so that a scheduler
retries later.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from jobs.cli.ending import UnforeseenError
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


@dataclass(slots=True)
class Failed:
    """The tables that failed.

    Args:
        lake: Their lake.
        errors: The error of each.
    """

    lake: Lake
    errors: dict[str, LakeError] = field(default_factory=dict)

    @staticmethod
    def ends_all(error: Exception) -> bool:
        """Return whether no other table could run either: Spark has ended, or what they all need is away."""
        from jobs.engine.runtime.outage import transient  # noqa: PLC0415  # with Spark's errors, which take long to import

        return transient(error) is not None

    def add(self, table: Table, error: Exception) -> None:
        """Note a failure, and report it."""
        self.errors[table.id] = known = _named(table, error, self.lake)
        note(f"{table.id} failed, and the others go on: {known.message}")

    def blocks(self, table: Table) -> bool:
        """Return whether a table cannot run, because a source has failed and does not exist yet."""
        absent = [s.id for s in table.upstream if s.id in self.errors and not self.lake.exists(s)]
        if absent:
            note(f"{table.id} waits: it reads {' and '.join(absent)}, which does not exist yet")
            self.errors[table.id] = self.errors[absent[0]]
        return bool(absent)

    def refuse(self, tried: int) -> None:
        """Refuse a run in which tables failed.

        Raises:
            LakeError: They did.
        """
        if not self.errors:
            return
        first = next(iter(self.errors.values()))
        if len(self.errors) == 1:
            raise first
        raise type(first)(
            f"{len(self.errors)} of {tried} tables failed ({', '.join(self.errors)}); of the first: {first.message}",
            hint=first.hint,
            tables=list(self.errors),
        )


def _named(table: Table, error: Exception, lake: Lake) -> LakeError:
    """Return an error with the name of its table; of an unforeseen one the trace is kept."""
    from jobs.engine.runtime.outage import denied  # noqa: PLC0415  # as above
    from jobs.engine.service.failing import failing  # noqa: PLC0415  # as above

    known = error if isinstance(error, LakeError) else denied(error)
    if known is None:
        unforeseen = failing(error, table, lake, before=None, at="")
        return UnforeseenError(
            f"{table.id}: {unforeseen.says}", hint=unforeseen.hint, table=table.id
        )
    if table.id in known.message:
        return known
    return type(known)(f"{table.id}: {known.message}", hint=known.hint, **known.fields)


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
