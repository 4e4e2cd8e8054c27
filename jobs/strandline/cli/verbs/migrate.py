"""``migrate``, ``try``, ``drift``: an edit of a table, before and after it: tried on the last rows, planned and carried out, or asked for by what records have."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, timedelta
from typing import Annotated

import typer

from strandline.cli import screen
from strandline.cli.screen import JsonOption, LakeOption, TablesArgument, emit, note, say, show
from strandline.cli.verbs.backfill import note_batch, print_samples, rebuilt_row
from strandline.core.errors import DefinitionError
from strandline.engine.lake.log.ledger import one_look
from strandline.engine.proof.trial_lakes import Tried
from strandline.engine.repair import closed_range
from strandline.engine.repair.migrate import Stage, Step
from strandline.engine.runtime.code_files import code_version
from strandline.operate import migrate as work
from strandline.operate import session
from strandline.operate.drafts import drift
from strandline.operate.drafts.drift import Found
from strandline.operate.lakes import seconds

TRIED = ("table", "rows now", "rows then", "added", "gone", "changed")
LONGEST = 3650 * 86_400.0
"""Seconds; more has no lake, and a length of time in Python has a bound."""
COLUMNS = ("table", "what", "rows", "to read", "about")


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    _register_migrate(app)
    _register_try(app)
    _register_drift(app)


def _register_migrate(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("migrate")(migrate)


def migrate(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    tables: TablesArgument = None,
    go: Annotated[bool, typer.Option("--go", help="Do what the plan says.")] = False,
    forward: Annotated[
        bool,
        typer.Option(
            "--forward", help="Leave rows that are there as they are, wherever a stream can go on."
        ),
    ] = False,
    try_: Annotated[
        bool,
        typer.Option(
            "--try",
            help="Compute it from the newest records beside the lake, and show the difference.",
        ),
    ] = False,
    rename: Annotated[
        list[str] | None,
        typer.Option(
            help="With one table: old=new says that a column has another name and keeps its values."
        ),
    ] = None,
    last: Annotated[
        str, typer.Option(help="With --try, how much event time is compared: 1h, 1d, 7d.")
    ] = "1d",
    undo: Annotated[
        bool, typer.Option("--undo", help="Revert what the last migration replaced.")
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Show what an edit asks of each table: which go on, which are altered in place, which are computed anew, in which order.

    Nothing is changed without --go. With it, the tables are done downstream, each beside its running stream: one that is
    computed anew is compared first, and replaced in one commit where a row differs. Type it again after a kill: it goes on.
    With --try the newest records of a day run through the edited tables beside the lake; the rows are compared, and nothing is left of it.
    Named tables bring all tables above them. `--undo` gives every replaced table its rows of before back, the last one first;
    take the edit back as well.
    A column under another name is a new one, unless --rename says that it is the old one: then no row is computed.

    \b
    strandline migrate
    strandline migrate --try
    strandline migrate --go
    strandline migrate silver.orders --forward --go
    strandline migrate silver.orders --rename total=amount --go
    strandline migrate --undo
    """
    if try_ and go:
        raise DefinitionError(
            "--try changes nothing, and --go does all of it", hint="type one of them."
        )
    if rename and (undo or forward or try_ or len(tables or ()) != 1):
        raise DefinitionError(
            "--rename is for one table, and goes with --go alone",
            hint="such as `strandline migrate silver.orders --rename total=amount --go`.",
        )
    if undo and (go or forward or tables or try_):
        raise DefinitionError(
            "--undo takes back the whole of the last migration",
            hint="type it by itself: `strandline migrate --undo`.",
        )
    found, where = screen.existing(lake, briefly=not (go or undo), writes=go or undo)
    if rename:
        name, names = str((tables or [""])[0]), _names(rename)
        if go:
            _print_done(work.rename(found, where, name, names, note), as_json=as_json)
        else:
            _print_done(work.foresee_rename(where, name, names), as_json=as_json)
        return
    if undo:
        _print_done(work.take_back(found, where, note), as_json=as_json)
        return
    with one_look():
        stages = work.plan(found, where, tables, note, forward=forward)
    if try_:
        newest = timedelta(seconds=min(seconds(last), LONGEST))
        _print_tried(work.try_out(found, where, stages, newest, note), as_json=as_json)
    elif not go:
        _print_plan(stages, as_json=as_json, is_forward=forward)
    else:
        _print_done(work.carry_out(found, where, stages, note, note_batch), as_json=as_json)
        _print_rest(stages)
    if any(each.step is Step.BLOCKED for each in stages):
        raise SystemExit(DefinitionError.exit_code)


def _names(pairs: list[str]) -> dict[str, str]:
    """Return the new name of each column that is to have one.

    Raises:
        DefinitionError: A text is no pair of names.
    """
    found = dict[str, str]()
    for each in pairs:
        old, equals, new = (part.strip() for part in each.partition("="))
        if not (old and equals and new):
            raise DefinitionError("--rename wants old=new", hint="such as --rename total=amount.")
        if old in found or new in {*found, *found.values()} or old in found.values():
            raise DefinitionError("--rename names a column twice", hint="each has one name.")
        found[old] = new
    return found


def _print_plan(stages: list[Stage], *, as_json: bool, is_forward: bool) -> None:
    if as_json:
        emit([asdict(each) for each in stages])
        return
    shown = [each for each in stages if each.step is not Step.GOES_ON or each.why]
    if shown:
        show(None, COLUMNS, [_row(each) for each in shown])
    for each in shown:
        for why in each.why:
            say(f"{each.table}: {why}")
        if each.hint:
            say(f"{each.table}: {each.hint}")
    calm = len(stages) - len(shown)
    todo = [each for each in stages if each.is_work]
    if calm:
        say(f"{calm} of {len(stages)} tables go on as they are")
    if todo:
        known = [each.seconds for each in todo if each.seconds is not None]
        size = sum(each.size or 0 for each in todo)
        say(
            f"{len(todo)} to do, about {_time(sum(known))} and {size / 1e6:,.1f} MB; `strandline migrate --go` does it"
        )
        if not is_forward and any(each.step is Step.REBUILT and not each.must for each in todo):
            note(
                "with --forward the rows that are there stay as they are, and only new ones are of the new code"
            )


def _row(stage: Stage) -> tuple[object, ...]:
    if not stage.is_work:
        return (stage.table, stage.step.value, "", "", "")
    about = "" if stage.seconds is None else _time(stage.seconds)
    return (stage.table, stage.step.value, stage.rows or "", stage.reads or "", about)


def _time(seconds: float) -> str:
    return f"{seconds:,.0f} s" if seconds < 120 else f"{seconds / 60:,.0f} min"  # noqa: PLR2004  # two minutes


def _print_done(done: "work.Dones", *, as_json: bool) -> None:
    found = []
    for each in done:
        found.append(each)
        if as_json:
            continue
        say(f"{each.table}: {each.says}")
        for compared in each.differences:
            added, gone = (compared.only_right, compared.only_left)
            say(
                f"  {compared.table}: {compared.changed:,} rows changed, {added - compared.changed:,} added, "
                f"{gone - compared.changed:,} gone"
            )
            print_samples(compared)
    if as_json:
        emit([asdict(each) for each in found])
    elif not found:
        say("there is nothing to do: the rows of each table are those of today's code")


def _print_tried(tried: Iterator[Tried], *, as_json: bool) -> None:
    found = list[Tried]()
    for each in tried:
        found.append(each)
        if not as_json:
            rows = [rebuilt_row(one) for one in each.differences]
            if rows:
                show(None, TRIED, rows)
            say(f"{each.table}: compared from {each.since.isoformat()} on, {each.seconds:,.1f} s")
            if not rows:
                say(f"{each.table}: it is not in the lake yet, and would have {each.rows:,} rows")
            for one in each.differences:
                print_samples(one)
    if as_json:
        emit([asdict(each) for each in found])
    elif not found:
        say("there is nothing to try: the rows of each table are those of today's code")
    else:
        note("nothing was changed, and nothing is left of it; `strandline migrate --go` does it")


def _print_rest(stages: list[Stage]) -> None:
    made = [each.table for each in stages if each.step is Step.MADE]
    if made:
        note(
            f"new: `strandline run {' '.join(made)}` makes them, as a stream does once it knows them"
        )
    for each in stages:
        if each.step is Step.BLOCKED:
            note(f"{each.table}: {'; '.join(each.why)}")
            note(f"hint: {each.hint}")


# ``try``: a table's function over the last rows of what it reads, before it runs.


def _register_try(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("try")(try_)


def try_(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    name: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A table of silver or gold; its layer may be left out."
        ),
    ],
    last: Annotated[
        str, typer.Option(help="How much is read of the time before the newest event: 1h, 30m, 2d.")
    ] = "1h",
    rows: Annotated[int, typer.Option(min=1, max=1000, help="How many rows are shown.")] = 20,
    is_open: Annotated[
        bool,
        typer.Option(
            "--open",
            help="All windows that are not over, such as today, from all that is known of them; each row is marked provisional.",
        ),
    ] = False,
    lake: LakeOption = None,
    as_json: JsonOption = False,
) -> None:
    r"""Run a table's function over the last hour of what it reads, and show rows and plan; nothing is written.

    The table need not be in the lake yet. Windows that are not final are shown as well, and rows of a topic by their
    arrival. Sensitive values are masked, as `query` masks them.

    \b
    strandline try gold.device_signal_10m
    strandline try device_signal_10m --last 2d --rows 5
    strandline try device_signal_10m --open
    """
    table = session.named(name)
    length = session.length(last)
    found, where = screen.existing(lake)
    session.refuse_unread(table, where)
    note("starting Spark …")
    site = session.site(found, where, None, is_brief=True, says=note)
    done = session.tried(site.spark, table, where, length, rows, is_open=is_open)
    site.spark.stop()
    if as_json:
        emit({**asdict(done), "since": done.since.isoformat(), "until": done.until.isoformat()})
        return
    say(f"{done.table}, from {done.since:%Y-%m-%d %H:%M:%S} to {done.until:%Y-%m-%d %H:%M:%S}")
    for source, count in done.read.items():
        say(f"  read {count:,} rows of {source}")
    for sentence in done.notes:
        say(f"  {sentence}")
    for why, count in done.skipped.items():
        say(f"  passed over {count:,}: {why}")
    for why, count in done.held.items():
        say(f"  held {count:,}: {why}")
    say("")
    show(None, tuple(done.columns), done.rows)
    say(
        f"{done.count:,} rows"
        + (f", {len(done.rows):,} shown" if done.count > len(done.rows) else "")
    )
    say("")
    for line in done.plan:
        say(line)


# ``drift``: what records have beside a table's declaration, and the edit of its module that declares it.

UNDECLARED = ("field", "what", "kinds", "since", "share", "example", "type")


def _register_drift(app: typer.Typer) -> None:
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
    _, where = screen.existing(lake, briefly=True)
    with one_look():
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
    show(title, UNDECLARED, rows)
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
