"""``doctor``: check what is needed, and print what to type."""

from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, say
from strandline.core.errors import DefinitionError
from strandline.engine.runtime.settings import choose_profile
from strandline.operate.doctor import checks


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
    found = checks(lake)
    if as_json:
        emit([asdict(check) for check in found])
    else:
        for check in found:
            say(f"{'ok     ' if check.ok else 'missing'}  {check.name}: {check.detail}")
            if not check.ok:
                say(f"         hint: {check.hint}")
    broken = [check.name for check in found if not check.ok]
    if broken:
        raise DefinitionError(
            f"not in order: {', '.join(broken)}", hint="follow the hints above, top down."
        )
