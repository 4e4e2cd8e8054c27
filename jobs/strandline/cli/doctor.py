"""``doctor`` and ``setup``: what is needed, checked and fetched.

``doctor``: check what is needed, and print what to type.
"""

from dataclasses import asdict
from typing import Annotated

import typer

from strandline.cli.place import JsonOption, LakeOption
from strandline.cli.screen import emit, say
from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.runtime.settings import choose_profile
from strandline.operate.doctor import checks, used
from strandline_infra import setup as steps
from strandline_infra.home import Installed, here, is_clone
from strandline_infra.logged import SetupError


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("doctor")(doctor)
    _register_setup(app)


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


# ``setup``: fetch what the engine needs beside its packages.


def _register_setup(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("setup")(setup)


def setup(
    lean: Annotated[
        bool,
        typer.Option(
            "--lean", help="Leave out the archive of Java's classes, which makes starts faster."
        ),
    ] = False,
) -> None:
    r"""Fetch Java and jars where they are missing, and the extras that the project uses; nothing to do: at once.

    Java 17 or 21 of the machine is used if there is one. What is fetched lies in the virtual environment, or outside of
    one in your cache folder. A clone of the engine is set up by `make setup`, which makes its environment as well.

    \b
    strandline setup
    strandline setup --lean
    """
    try:
        steps.set_up(here() if is_clone() else Installed(lean=lean, extras=tuple(used())))
    except SetupError as error:
        raise TransientError(
            error.message + (f"\n\n{error.tail}" if error.tail else ""), hint=error.hint
        ) from error
    say("set-up is complete")
