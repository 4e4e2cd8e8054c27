"""``migrate``: what an edit asks of each table, as a plan; carried out, and taken back as one."""

from collections.abc import Iterator
from dataclasses import asdict
from datetime import timedelta
from typing import Annotated

import typer

from strandline.cli import place
from strandline.cli.place import JsonOption, LakeOption, TablesArgument
from strandline.cli.screen import emit, note, say, show
from strandline.cli.verbs.backfill import note_batch, print_samples, rebuilt_row
from strandline.core.errors import DefinitionError
from strandline.engine.proof.trial_lakes import Tried
from strandline.engine.repair.migrate import Stage, Step
from strandline.operate import migrate as work
from strandline.operate.lakes import seconds

TRIED = ("table", "rows now", "rows then", "added", "gone", "changed")
LONGEST = 3650 * 86_400.0
"""Seconds; more has no lake, and a length of time in Python has a bound."""
COLUMNS = ("table", "what", "rows", "to read", "about")


def register(app: typer.Typer) -> None:
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
    found, where = place.existing(lake, briefly=not (go or undo), writes=go or undo)
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
