"""Rows of the quarantine judged again, discarded, and taken out of the discard: what needs Spark."""

from strandline.core.errors import DefinitionError
from strandline.core.table import Table
from strandline.engine.quarantine.resolutions import REPLAY
from strandline.engine.quarantine.write import Signed
from strandline.engine.repair import discard, replay
from strandline.engine.repair.replay_plan import Choice, Replayed
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.engine.storage.lake import Lake
from strandline.engine.storage.ledger import Entry
from strandline.operate import session
from strandline.operate.listener import Says
from strandline.operate.repairs.backfill import change


def replayed(  # noqa: PLR0913  # which rows of what, where, how far, and who hears of it
    table: Table, choice: Choice, found: Settings, where: Lake, says: Says, *, dry_run: bool
) -> tuple[Replayed, list[Entry | None]]:
    """Judge open rows again, or only report what would become of them.

    Returns:
        What became of them, and the entries of the table and of those above.
    """
    replay.refuse_unfit(table, where)
    says("starting Spark …")
    spark = session.site(found, where, None, is_brief=True, says=says).spark
    done: list[Entry | None] = []
    if dry_run:
        result = replay.rehearse(spark, table, where, choice)
    else:
        signed = Signed(who=clock.login(), at=clock.now())
        with session.recorder(where, says)(spark, table, REPLAY, where) as wrote:

            def on_table(each: Table, entry: Entry | None) -> None:
                if entry:
                    wrote(each, entry)
                done.append(entry)
                says(change(each, entry))

            result = replay.replay(spark, table, where, choice, signed, on_table=on_table)
    spark.stop()
    return result, done


def discarded(  # noqa: PLR0913, PLR0917  # which rows of what, where, and who hears of it
    table: Table,
    choice: Choice,
    because: str | None,
    found: Settings,
    where: Lake,
    says: Says,
    *,
    undo: bool,
) -> int:
    """Discard open rows, or revert the last discard, and return how many rows that were.

    Raises:
        DefinitionError: It is not said which rows, or why.
    """
    signed = Signed(who=clock.login(), at=clock.now(), why=because)
    if undo and not (choice.is_whole and because is None):
        raise DefinitionError(
            "--undo reverts the last discard as a whole",
            hint="give it without --reason, --at and --because.",
        )
    if not undo:
        discard.refuse_vague(table, choice, signed)
    discard.refuse_unfit(table, where)
    says("starting Spark …")
    spark = session.site(found, where, None, is_brief=True, says=says).spark
    if undo:
        count = discard.reopen(spark, table, where, signed)
    else:
        count = discard.discard(spark, table, where, choice, signed)
    spark.stop()
    return count
