"""Which tables are verified, and certificates with differences refused, with the ways to look into them."""

from collections.abc import Iterable, Sequence

from jobs import catalog
from jobs.core.errors import DataError, DefinitionError
from jobs.core.table import Ingested, Table
from jobs.engine.proof.certificate import Certificate
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.retired import fed
from jobs.operate import lakes


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
