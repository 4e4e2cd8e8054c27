"""``verify``: prove that a table has the rows that its log implies, whichever way it is computed."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from jobs import catalog
from jobs.cli import place, ranges
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.ranges import SINCE, UNTIL
from jobs.cli.screen import emit, note, say, show, yes
from jobs.core.errors import DataError, DefinitionError
from jobs.core.table import Ingested, Table
from jobs.engine.proof.certificate import Certificate
from jobs.engine.proof.verify import Trial, refuse_unsettled, verify
from jobs.engine.storage.lake import Lake
from jobs.engine.storage.retired import fed, refuse_retired
from jobs.operate import lakes, session


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("verify")(verify_)


def verify_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    tables: Annotated[
        list[str] | None, typer.Argument(metavar="TABLE", help="Silver or gold tables.")
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Every silver and gold table of the lake.")
    ] = False,
    splits: Annotated[
        int, typer.Option(min=1, help="Number of micro-batches into which the log is cut.")
    ] = 5,
    kills: Annotated[
        int, typer.Option(min=0, help="How often the stream is killed with kill -9.")
    ] = 2,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the cuts and kills; random, and printed, when absent."),
    ] = None,
    since: Annotated[str | None, typer.Option(help=SINCE)] = None,
    until: Annotated[str | None, typer.Option(help=UNTIL)] = None,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Recompute tables from bronze, as one batch and as a stream that is killed, and compare row for row.

    Works in a scratch folder of the lake and writes only certificates, which `strandline tables` shows.
    Exits with 4 when a row differs.

    \b
    strandline verify gold.device_signal_10m
    strandline verify --all --splits 5 --kills 2 --seed 7
    strandline verify gold.ip_holds --since 2026-11-01 --until 2026-11-02
    """
    found, where = place.existing(lake)
    chosen = _everything(where) if everything else _chosen(tables)
    for each in chosen:
        refuse_retired(each, where)
    refuse_unsettled(chosen, where)
    span = ranges.both(since, until, "neither to compare all rows")
    trial = Trial(splits=splits, kills=kills, span=span, **({} if seed is None else {"seed": seed}))
    note(f"seed {trial.seed}; starting Spark …")
    site = session.site(found, where, None, is_brief=True, says=note)
    certificates = verify(chosen, where, trial, site, note=note)
    site.spark.stop()
    if as_json:
        emit([asdict(each) for each in certificates])
    else:
        _print(certificates)
    refuse_different(certificates, trial.seed)


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


def _everything(lake: Lake) -> list[Table]:
    """Return the silver and gold tables that exist in a lake and are fed."""
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


def _chosen(names: list[str] | None) -> list[Table]:
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


def _print(certificates: list[Certificate]) -> None:
    columns = ("table", "rows", "splits", "kills", "seed", "version", "code", "equal")
    rows = [
        (
            each.table,
            each.rows,
            each.splits,
            each.kills,
            each.seed,
            each.versions[each.table],
            each.code,
            yes(each.equal),
        )
        for each in certificates
    ]
    show("certificates", columns, rows)
    for each in certificates:
        for line in each.differences:
            say(line)
