"""``doctor``: check what is needed, and print what to type."""

from dataclasses import asdict
from typing import Annotated

import typer

from infra import setup
from jobs import catalog
from jobs.cli import place
from jobs.cli.doctor_outside import outside
from jobs.cli.place import JsonOption, LakeOption
from jobs.cli.screen import emit, say
from jobs.core.errors import DefinitionError, LakeError
from jobs.engine.kafka import admin
from jobs.engine.kafka.recreated import WAY
from jobs.engine.pipeline.radar import recreated, topic_readers
from jobs.engine.runtime.open_files import allowed, carried, refuse_too_many
from jobs.engine.runtime.settings import choose_profile, chosen_profile, settings
from jobs.engine.service import dagster_database
from jobs.engine.storage.store_probe import refuse_unsafe
from jobs.operate import lakes


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("doctor")(doctor)


def doctor(
    lake: LakeOption = None,
    profile: Annotated[
        str | None,
        typer.Option(metavar="<name>", help="The profile of strandline.toml that is tried."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    r"""Check everything that Strandline needs and print what is missing.

    Tries each thing that the settings name: lake, Kafka, database, cluster with its packages, schema registry, webhook,
    rules, receiver of lineage.

    \b
    strandline doctor
    strandline doctor --profile prod
    strandline doctor --json
    """
    if profile is not None:
        choose_profile(profile)
    checks = [*setup.state(), _tables(), _settings(lake)]
    if checks[-1].ok:  # the others would repeat its mistakes
        found = _lake(lake)
        # A store that does not answer was asked once, and holds no question after it.
        is_away = not found.ok and not lakes.configured(lake)[1].root.is_local
        asks = (_history,) if is_away else (_room, _kafka, _history)
        checks += [found, *(ask(lake) for ask in asks), *outside(settings(lake=lake))]
    if as_json:
        emit([asdict(check) for check in checks])
    else:
        for check in checks:
            say(f"{'ok     ' if check.ok else 'missing'}  {check.name}: {check.detail}")
            if not check.ok:
                say(f"         hint: {check.hint}")
    broken = [check.name for check in checks if not check.ok]
    if broken:
        raise DefinitionError(
            f"not in order: {', '.join(broken)}", hint="follow the hints above, top down."
        )


def _tables() -> setup.Check:
    """Check that every module of a table can be imported, without which no verb works, and that a stream carries them all."""
    try:
        found = catalog.tables()
    except LakeError as error:
        return setup.Check(name="tables", ok=False, detail=error.message, hint=error.hint)
    files = allowed()
    says = (
        f"{len(found):,} are declared; {files:,} open files carry {carried(files):,} in one stream"
    )
    try:
        refuse_too_many(len(found))
    except LakeError as error:
        return setup.Check(name="tables", ok=False, detail=says, hint=error.hint)
    return setup.Check(name="tables", ok=True, detail=says, hint="")


def _settings(lake: place.LakeOption) -> setup.Check:
    try:
        found, _ = lakes.configured(lake)
    except LakeError as error:
        return setup.Check(name="settings", ok=False, detail=error.message, hint=error.hint)
    chosen = chosen_profile()
    of = f"profile {chosen}: " if chosen else ""
    detail = f"{of}{found.cores} cores, {found.memory} of memory"
    return setup.Check(name="settings", ok=True, detail=detail, hint="")


def _lake(lake: place.LakeOption) -> setup.Check:
    try:
        _, where = lakes.asked(lake)
        if where.root.exists():
            where.open_for_writing()
            return setup.Check(name="lake", ok=True, detail=str(where.root), hint="")
        if not where.root.is_local:
            refuse_unsafe(where.root, remembers=False)
    except LakeError as error:
        return setup.Check(name="lake", ok=False, detail=error.message, hint=error.hint)
    return setup.Check(
        name="lake", ok=True, detail=f"{where.root} will be made when needed", hint=""
    )


def _room(lake: place.LakeOption) -> setup.Check:
    """Check the disk; a full one lets nothing else be seen as ill, because nothing can be written down."""
    _, where = lakes.configured(lake)
    if where.root.is_local and not where.root.exists():
        return setup.Check(name="room", ok=True, detail="nothing is on its disk yet", hint="")
    said = where.room_left()
    hint = "make room: `df` shows the disk, `strandline maintain --dry-run` what belongs to nothing (infra/runbooks/README.md)."
    return setup.Check(name="room", ok=not where.is_short_of_room(), detail=said, hint=hint)


def _kafka(lake: place.LakeOption) -> setup.Check:
    try:
        found, where = lakes.configured(lake)
        address = lakes.address(found, where)
        if address is None:
            detail = "the lake's broker is not running; `strandline up` starts it"
            return setup.Check(name="kafka", ok=True, detail=detail, hint="")
        admin.check_reachable(address, found.kafka_options)
        if where.root.exists():
            gone = recreated(topic_readers(where), address, found.kafka_options)
            if lost := [each for each in gone.values() if each.level.is_alarming]:
                says = "; ".join(f"{each.reader}, {each.source}: {each.says}" for each in lost)
                return setup.Check(name="kafka", ok=False, detail=says, hint=WAY)
    except LakeError as error:
        return setup.Check(name="kafka", ok=False, detail=error.message, hint=error.hint)
    return setup.Check(name="kafka", ok=True, detail=f"{address} answers", hint="")


def _history(lake: place.LakeOption) -> setup.Check:
    try:
        found, _ = lakes.configured(lake)
        if found.postgres is not None:
            dagster_database.check_reachable(found.postgres)
    except LakeError as error:
        return setup.Check(name="history", ok=False, detail=error.message, hint=error.hint)
    kept = "in the lake" if found.postgres is None else "in PostgreSQL, which answers"
    return setup.Check(name="history", ok=True, detail=f"Dagster's runs are kept {kept}", hint="")
