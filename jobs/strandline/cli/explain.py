"""``explain``: what a verb reads, what it changes, and how it may end.

Nothing is written here about a verb: the table of the groups says what it reads and changes, and its own help has the
sentences about its exit code, which are looked up there.
"""

import inspect
import re
from collections.abc import Iterator
from difflib import get_close_matches
from typing import Annotated

import typer

from strandline.cli import main
from strandline.cli.place import JsonOption
from strandline.cli.screen import emit, say
from strandline.cli.verbs import ABOUT
from strandline.core.errors import DefinitionError
from strandline.operate.listener import CODES
from strandline_infra import extras


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("explain")(explain)


def explain(
    verb: Annotated[str, typer.Argument(metavar="VERB", help="Such as backfill.")],
    as_json: JsonOption = False,
) -> None:
    r"""Say what a verb reads, what it changes and its exit codes, before it is typed.

    \b
    strandline explain backfill
    strandline explain quarantine --json
    """
    if verb not in main.VERBS:
        near = get_close_matches(verb, main.here(), 1)
        raise DefinitionError(
            f"there is no verb {verb!r}",
            hint=f"did you mean {near[0]!r}?" if near else "`strandline --help` lists the verbs.",
            verb=verb,
        )
    about, own = ABOUT[verb], list(own_endings(verb))
    if as_json:
        facts = {"verb": verb, "line": about.line, "reads": about.reads, "changes": about.changes}
        emit({**facts, "extra": about.extra or None, "exits": CODES, "of_its_own": own})
        return
    say(
        "\n".join(
            [
                f"strandline {verb}: {about.line}",
                "",
                f"reads    {about.reads}",
                f"changes  {about.changes}",
                *([f"needs    {_needs(about.extra)}"] if about.extra else []),
                "",
                "exit code",
                *(f"  {code:<5}{meaning}" for code, meaning in CODES.items()),
                *(["", "of its own", *(f"  {each}" for each in own)] if own else []),
                "",
                f"`strandline {verb} --help` has its options and examples.",
            ]
        )
    )


def _needs(extra: str) -> str:
    has = "installed" if extras.is_installed(extra) else extras.command(extra)
    return f"the extra {extra}: {has}"


def own_endings(verb: str) -> Iterator[str]:
    """Yield the sentences of a verb's help, and of its own verbs, that say with which code it ends."""
    for text in _helps(verb):
        sentences = re.split(r"(?<=\.)\s+", " ".join(text.split()))
        yield from (each for each in sentences if re.search(r"\bexits?\b", each, re.IGNORECASE))


def _helps(verb: str) -> Iterator[str]:
    app = typer.Typer()
    (module,) = main.modules(verb)
    main.register(module, app)
    groups = [each for each in app.registered_groups if each.name == verb and each.typer_instance]
    commands = [each for each in app.registered_commands if each.name == verb]
    for group in groups:
        commands += group.typer_instance.registered_commands if group.typer_instance else []
    yield from (inspect.getdoc(each.callback) or "" for each in commands)
