"""``drift``: what records have beside a table's declaration, and the edit of its module that declares it."""

from datetime import UTC
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption, TablesArgument
from strandline.cli.screen import emit, say, show
from strandline.engine.repair import closed_range
from strandline.engine.runtime.meter import code_version
from strandline.operate import drift
from strandline.operate.drift import Found

COLUMNS = ("field", "what", "kinds", "since", "share", "example", "type")


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("drift")(drift_)


def drift_(
    tables: TablesArgument = None,
    since: Annotated[
        str | None, typer.Option(help="Only what came since a date or a moment, in UTC.")
    ] = None,
    apply: Annotated[
        bool,
        typer.Option(
            "--apply", help="Write the edit into the modules; without a table of those that evolve."
        ),
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show fields that records have and their table does not declare, and values of another type than its fields.

    Of each: since when, in which share of the records since then, an example, the type that reads it, and the edit of the table's
    module as a diff. An example is looked up in bronze, and is masked where a table that reads the same records masks a column.
    What is counted are the payloads of JSON that were kept by the batches so far, all of them; of other formats nothing
    undeclared can be seen.

    ``--apply`` writes the edit, and puts the module back if it does not load with it.

    \b
    strandline drift
    strandline drift silver.orders --since 2026-11-24
    strandline drift silver.orders --apply
    """
    _, where = place.existing(lake, briefly=True)
    found = drift.looked_through(where, tables, _text_of(since))
    if apply:
        for each in found if tables else drift.evolving(found):
            _apply(each)
    elif as_json:
        emit([_as_json(each) for each in found])
    else:
        _show_all(found, named=bool(tables))


def _text_of(since: str | None) -> str | None:
    """Return a moment as entries have it."""
    if since is None:
        return None
    moment = closed_range.moment(since, "--since").astimezone(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.000Z")


def _as_json(found: Found) -> dict[str, object]:
    return {
        "table": found.table.id,
        "looked_at": found.seen.looked_at,
        "why_not": found.seen.why_not or None,
        "on_new_field": found.table.on_new_field,
        "on_wrong_type": found.table.on_wrong_type,
        "fields": [each.figures() for each in found.proposals],
        "more": found.seen.more,
        "diff": found.diff or None,
    }


def _show_all(found: list[Found], *, named: bool) -> None:
    some = [each for each in found if named or each.proposals]
    for each in some:
        _show(each)
    if not some:
        say("no table has met a field that it does not declare, or a value of another type")


def _show(found: Found) -> None:
    seen = found.seen
    if seen.why_not:
        say(f"{found.table.id}: nothing is seen: {seen.why_not}")
        return
    title = f"{found.table.id}: {seen.looked_at:,} records looked at"
    if not found.proposals:
        say(f"{title}, and each is as declared")
        return
    rows = [
        (
            each.field.path,
            "undeclared" if each.field.is_new else f"declared {each.field.declared}",
            ", ".join(f"{kind} {n:,}" for kind, n in each.field.kinds.items()),
            each.field.since,
            f"{each.field.share:.2%}",
            each.example or "-",
            each.kind or "-",
        )
        for each in found.proposals
    ]
    show(title, COLUMNS, rows)
    if seen.more:
        say(f"and {seen.more:,} times a field that has no name here: the commonest have one")
    if seen.code and seen.code != code_version(found.table):
        say("its code is another since the last batch, which may declare some of them by now")
    _say_left(found)
    if found.diff:
        say(found.diff.rstrip())
        say(f"`strandline drift {found.table.id} --apply` writes this")


def _say_left(found: Found) -> None:
    for each in found.proposals:
        left = each.edited.left if each.edited else each.why_not
        if left:
            say(f"{each.field.path}: {left}")


def _apply(found: Found) -> None:
    drift.apply(found)
    say(found.diff.rstrip())
    _say_left(found)
    name = found.table.id
    say(f"{found.file} was edited. Next: `strandline migrate {name}` shows what follows from it,")
    say("and with --go does it: the rows of before get the values that bronze has of them")
