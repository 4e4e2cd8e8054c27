"""``verify``: prove that a table has the rows that its log implies, whichever way it is computed."""

from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import SINCE, UNTIL, JsonOption, LakeOption
from strandline.cli.screen import emit, note, say, show, yes
from strandline.engine.lake.retired import refuse_retired
from strandline.engine.proof.certificate import Certificate
from strandline.engine.proof.verify import Trial, refuse_unsettled, verify
from strandline.operate import ranges, session
from strandline.operate.answers.verification import all_derived, named_derived, refuse_different


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
    chosen = all_derived(where) if everything else named_derived(tables)
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
