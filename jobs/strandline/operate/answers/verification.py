"""Which tables are verified or compared, and differences refused, with the ways to look into them."""

from collections.abc import Collection, Iterable, Sequence

from strandline import catalog

from strandline.core.errors import DataError, DefinitionError
from strandline.core.table import Ingested, Table
from strandline.engine.lake.files.place import Place
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.retired import fed
from strandline.engine.proof.certificate import Certificate
from strandline.engine.proof.compare import Comparison, compare
from strandline.operate import lakes
from strandline.operate.listener import Says


def refuse_different(certificates: Iterable[Certificate], seed: int) -> None:
    """Refuse certificates with differences.

    Raises:
        DataError: One has some.
    """
    failed = [each for each in certificates if not each.equal]
    if failed:
        different = [each.table for each in failed]
        raise DataError(
            f"{', '.join(different)}: the live rows are not those that bronze implies",
            hint=f"the same cuts and kills again: `strandline verify --all --seed {seed}`. {_way(failed)}",
            tables=different,
        )


def _way(failed: Sequence[Certificate]) -> str:
    """Return where to look: which way depends on whose rows are missing."""
    held = [one.table for one in failed if any(_of_quarantine(line) for line in one.differences)]
    first = failed[0].table
    books = (
        f"`strandline ledger {first}` names rows that were lost or dropped, `strandline why` follows one of those shown "
        f"above, and `strandline preflight {first}` says whether its code has changed since"
    )
    anew = (
        f"`strandline rebuild {first}` makes the rows anew beside the live ones, and shows what would change "
        "(infra/docs/rebuild.md)"
    )
    ways = [books, anew]
    if held:
        ways.append(
            "rows that only the quarantine has are held by rules that have changed since: "
            f"`strandline quarantine replay {held[0]} --dry-run` shows which would come, and when"
        )
    return ". ".join(f"{way[:1].upper()}{way[1:]}" for way in ways) + "."


def _of_quarantine(line: str) -> bool:
    return line.partition(":")[0].startswith("quarantine.")


def all_derived(lake: Lake) -> list[Table]:
    """Return the silver and gold tables that exist in a lake and are fed.

    Raises:
        DefinitionError: None does.
    """
    found: list[Table] = [
        table
        for table in fed(catalog.tables(), lake)
        if not isinstance(table, Ingested) and lake.exists(table)
    ]
    if not found:
        raise DefinitionError(
            f"there is nothing to verify in {lake.root} yet",
            hint="fill the lake first: `strandline produce`, then `strandline run`.",
        )
    return found


def named_derived(names: Sequence[str] | None) -> list[Table]:
    """Return the named silver and gold tables.

    Raises:
        DefinitionError: One is of bronze, or none is named.
    """
    chosen = lakes.named(names) if names else []
    bronze = [table.id for table in chosen if isinstance(table, Ingested)]
    if bronze or not chosen:
        raise DefinitionError(
            f"{', '.join(bronze)}: bronze is the reference for all other tables"
            if bronze
            else "no table was named",
            hint="name silver or gold tables, or give --all.",
        )
    return chosen


def compared(
    first: str, second: str, says: Says, *, without: Collection[str] = ()
) -> list[Comparison]:
    """Compare silver, quarantine and gold of two lakes row for row.

    Args:
        first: A lake's folder or address.
        second: Another lake's.
        says: Hears which tables are in one of them only.
        without: Columns that are left out.

    Raises:
        DefinitionError: They have no such table in common.
    """
    left, right = Lake(Place.of(first)), Lake(Place.of(second))
    derived = [table for table in catalog.tables() if not isinstance(table, Ingested)]
    shared = [table for table in derived if left.exists(table) and right.exists(table)]
    if not shared:
        raise DefinitionError(
            f"{left.root} and {right.root} have no silver or gold table in common",
            hint="name two lakes in which the same tables were run.",
        )
    for table in derived:
        if left.exists(table) != right.exists(table):
            says(f"{table.id} is in one of the lakes only and is not compared")
    return [result for table in shared for result in compare(table, left, right, without=without)]


def refuse_unlike(found: Sequence[Comparison]) -> None:
    """Refuse lakes that differ.

    Raises:
        DataError: They do.
    """
    different = [one.table for one in found if not one.equal]
    if different:
        raise DataError(
            f"the lakes differ in {', '.join(different)}",
            hint="were they filled from the same topic, up to the same offset? `strandline ledger`.",
        )
