"""What was not believed or not read: rows of the quarantine, and records that Kafka removed.

Rows of the quarantine judged again, discarded, and taken out of the discard: what needs Spark.
"""

from strandline import catalog

from strandline.core.errors import DefinitionError
from strandline.core.feed import Feed
from strandline.core.table import Ingested, Table
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.log.ledger import Entry
from strandline.engine.quarantine.held_records import REPLAY, Signed
from strandline.engine.repair import discard, replay
from strandline.engine.repair.accept_loss import Accepted, accept, accept_of_feed
from strandline.engine.repair.replay import Choice, Replayed
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import Settings
from strandline.operate import lakes, session
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


# What Kafka removed before it was read is recorded as lost, and its reader goes on behind the gap.


def accepted(name: str, because: str, found: Settings, where: Lake, says: Says) -> Accepted:
    """Record what a bronze table or a feed of alerts lost in Kafka, so that it goes on.

    Raises:
        DefinitionError: The name is that of another table, or nothing is lost.
    """
    is_feed = name.startswith(f"{Feed.layer}.")
    table = None if is_feed else catalog.find(name)
    if table is not None and not isinstance(table, Ingested):
        below = ", ".join(each.id for each in table.upstream)
        raise DefinitionError(
            f"{name} reads tables and no topic, so Kafka cannot lose anything of it",
            hint=f"name the bronze table at its begin; it reads {below}.",
            table=name,
        )
    if table is not None:
        where.refuse_missing(table)
    address = lakes.demanded_address(found, where)
    signed = Signed(who=clock.login(), at=clock.now(), why=because)
    says("starting Spark …")
    site = session.site(found, where, address, is_brief=True, says=says)
    try:
        if table is None:
            return accept_of_feed(name.removeprefix(f"{Feed.layer}."), where, site, signed)
        return accept(table, where, site, signed)
    finally:
        site.spark.stop()
