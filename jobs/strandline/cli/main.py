"""``strandline``: the verbs, the one boundary at which an error becomes a sentence, and how a signal ends them.

Here, too, every verb passes that is typed: who orders what is written down before it is done (jobs/strandline/operate/orders.py).

A foreseen error prints its message and its hint, because a stack trace does not help at 3 a.m. An unforeseen error
writes its trace to a file and names it.
"""

import atexit
import functools
import gc
import importlib
import inspect
import logging
import os
import shlex
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from tempfile import NamedTemporaryFile, gettempdir
from typing import TYPE_CHECKING, Annotated, Any

import psutil
import typer
from strandline import catalog

from strandline.cli.groups import ABOUT, Grouped, Whole
from strandline.cli.screen import complain, note
from strandline.core.errors import DefinitionError, TransientError
from strandline.engine.runtime import processes
from strandline.engine.runtime.jvm import SparkGoneError
from strandline.engine.runtime.settings import choose_profile, line_of_shell
from strandline.operate.listener import UNFORESEEN, foreseen
from strandline.project import refuse_without

if TYPE_CHECKING:
    from strandline.engine.runtime.jvm import Work


# Ctrl-C and SIGTERM: some verbs note them and end in order, all others end at once and print that they were stopped.
#
# Why ``run`` ends at once and is not unwound: an interrupt inside py4j leaves the gateway out of step. Clean-up then
# waits for the batch or fails, and the message was that memory ran out. A batch may be killed at any moment: the JVM
# holds the table's lock (jobs/strandline/engine/lake/locks.py), and it ends when its standard input is closed.


SIGNALS = (signal.SIGINT, signal.SIGTERM)

EXIT_CODE = 130
"""The exit code by which a shell knows that Ctrl-C ended a program."""

UNENDED = (
    "error: not ended {:.0f} s after it was asked to, and killed with its JVM\n\n"
    "hint: nothing is lost or repeated; the same command continues. `strandline logs --of spark` shows what Spark did."
)
STOPPED = "stopped; nothing is lost or repeated, and the same command continues"


AT_LAST = 100.0
"""Seconds from the signal after which a program that waits for its batches ends whatever they do; `pause` kills it after 120."""

QUIET = 25.0
"""Seconds without a sign of life after which a stream that was asked to end is ended: what hangs must be gone 30 s after the signal."""

LOOK = 0.5

_DEAF = threading.Event()
_SIGNS: list[Callable[[], float]] = []


def asked(*, within: float | None = None, quiet: float | None = None) -> threading.Event:
    """Return an event that the first signal from here on sets.

    Args:
        within: Seconds after the event within which the program must be at its end, or is ended. A program that waits inside the
            JVM hears the signal and cannot leave.
        quiet: Seconds without a sign of life after which it is ended before that; its JVM works, or what it waits for (``waits_for``).
    """
    event = threading.Event()
    if within is not None:
        _DEAF.clear()
        _SIGNS.clear()
        threading.Thread(
            target=_end_at_last, args=(event, within, quiet or within), daemon=True
        ).start()
    for name in SIGNALS:
        signal.signal(name, lambda *_: event.set())
    return event


def waits_for(waited_at: Callable[[], float]) -> None:
    """Note where to ask until when there was something to wait for; from here on that alone is a sign of life."""
    _SIGNS.append(waited_at)


def deaf() -> None:
    """Ignore further signals: a program that is ending must keep its exit code."""
    _DEAF.set()
    for name in SIGNALS:
        signal.signal(name, signal.SIG_IGN)


def noted() -> threading.Event:
    """Return an event that Ctrl-C sets and then interrupts; a second Ctrl-C ends the program at once."""
    event = threading.Event()

    def interrupt(*_: object) -> None:
        at_once()
        event.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    return event


def at_once() -> None:
    """Let Ctrl-C end the program at once from here on."""
    signal.signal(signal.SIGINT, lambda *_: end())


def end() -> None:
    """Print that the program was stopped, and exit without the clean-up and the messages of Spark."""
    with suppress(Exception):  # the signal may have interrupted such a write
        sys.stdout.flush()
    with suppress(OSError):
        os.write(2, f"{STOPPED}\n".encode())
    os._exit(EXIT_CODE)


def leave(code: int) -> None:
    """Exit after what is registered for the end of a program, without the end of the interpreter.

    When a JVM is lost, threads that waited for it are still there, and so are those of the clients of Kafka and of an object store:
    one that asks for an interpreter which is being taken down ended a stream with SIGSEGV instead of its exit code.
    """
    atexit._run_exitfuncs()  # noqa: SLF001  # there is no public way
    for stream in (sys.stdout, sys.stderr):
        with suppress(Exception):  # what read it may have ended
            stream.flush()
    os._exit(code)


def _end_at_last(event: threading.Event, within: float, quiet: float) -> None:
    """End the program and what it has started, unless it has come to its end by itself."""
    event.wait()
    # Whatever thread collects garbage asks the JVM to let go of its objects; one that does not answer would keep this thread, too.
    gc.disable()
    began = signed = due = time.monotonic()
    # Not imported above, because most verbs are at their end before it is.
    from strandline.engine.runtime.jvm import Work  # noqa: PLC0415  # as above

    work = Work()
    while not _DEAF.wait(LOOK):
        now = time.monotonic()
        signed = max(signed, *(at() for at in _SIGNS), now if _works(work) else signed)
        due = min(began + within, signed + quiet)
        if now > due:
            break
    else:
        gc.enable()
        return
    with suppress(OSError):
        os.write(2, f"{UNENDED.format(due - began)}\n".encode())
    for each in psutil.Process().children(recursive=True):
        with suppress(psutil.Error):
            each.kill()
    os._exit(TransientError.exit_code)


def _works(work: "Work") -> bool:
    return not _SIGNS and work.goes_on()


VERBS = {
    "demo": "play",
    "up": "broker",
    "status": "broker",
    "probe": "serve",
    "down": "broker",
    "produce": "play",
    "run": "stream",
    "stream": "stream",
    "resume": "stream",
    "pause": "stream",
    "drain": "stream",
    "restart": "stream",
    "publish": "stream",
    "catalog": "catalog",
    "logs": "broker",
    "metrics": "serve",
    "ui": "serve",
    "tables": "ledger",
    "ledger": "ledger",
    "cost": "cost",
    "radar": "ledger",
    "diff": "cost",
    "accept-loss": "gate",
    "retire": "maintain",
    "move": "maintain",
    "import": "backfill",
    "moments": "moments",
    "query": "query",
    "shell": "query",
    "notebook": "serve",
    "serve": "serve",
    "mcp": "serve",
    "compare": "verify",
    "gate": "gate",
    "rules": "alerts",
    "models": "models",
    "alerts": "alerts",
    "deliver": "alerts",
    "check": "verify",
    "history": "ledger",
    "report": "ledger",
    "why": "ledger",
    "who": "ledger",
    "drift": "migrate",
    "verify": "verify",
    "backfill": "backfill",
    "rewind": "backfill",
    "preflight": "stream",
    "try": "migrate",
    "migrate": "migrate",
    "rebuild": "backfill",
    "promote": "backfill",
    "undo": "backfill",
    "mend": "gate",
    "quarantine": "quarantine",
    "expire": "maintain",
    "forget": "maintain",
    "maintain": "maintain",
    "snapshot": "maintain",
    "restore": "maintain",
    "contract": "project",
    "lint": "project",
    "new": "project",
    "init": "project",
    "setup": "project",
    "doctor": "project",
    "explain": "project",
}
"""The module of each verb; its line in the help is in groups.py. Only that one is imported; with all of them an answer of one second would take two."""

TRACE = "strandline-trace-"
"""Begins the name of a trace in the folder of the system, and of nothing else there."""

KEPT_TRACES = 20
"""Stack traces of unforeseen errors that stay in the system's folder for such files."""

PLAYED = ("demo", "produce")
"""Verbs about the events of the project's play."""

ALERTING = ("rules", "alerts", "deliver")
"""Verbs about alerts, of a project that declares what its rules look at."""

HELP = "--help"
"""May be asked of a verb whose extra is missing."""

app = typer.Typer(
    name="strandline",
    cls=Grouped,
    help="A lakehouse in which every event is accounted for.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _version(is_asked: bool) -> None:  # noqa: FBT001  # as typer calls it
    if is_asked:
        from importlib.metadata import version  # noqa: PLC0415  # it imports what reads mail

        typer.echo(f"strandline {version('strandline')}")
        raise typer.Exit


@app.callback()
def strandline(
    _: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="<name>",
            help="The profile of strandline.toml; STRANDLINE_PROFILE, or none, when absent.",
        ),
    ] = None,
) -> None:
    """A lakehouse in which every event is accounted for."""
    _choose(profile)


def _choose(profile: str | None) -> None:
    """Choose a profile before anything reads a setting."""
    if profile is not None:
        choose_profile(profile)


def main() -> None:
    """Run the command line; the exit code is 0 for success only."""
    # py4j logs each broken connection with a trace; we print one sentence.
    logging.getLogger().addHandler(logging.NullHandler())
    asked = noted()
    if processes.is_tied():
        processes.end_with_starter()
    try:
        _prepare(sys.argv[1:])
        if (
            not gc.isenabled()
        ):  # the program has begun so (__main__.py); what there is now stays to its end
            gc.freeze()
            gc.enable()
        app()
    except BaseException as error:  # noqa: BLE001  # the boundary: every error becomes a sentence
        if asked.is_set():  # where it interrupts decides which error arrives here
            end()
        sys.exit(_exit_code(error))


def _exit_code(error: BaseException) -> int | str | None:
    """Print what ended the program, and return the exit code; without a JVM, exit with it at once."""
    match error:
        case SystemExit():
            return error.code
        case KeyboardInterrupt() | typer.Abort():
            complain("stopped")
            return EXIT_CODE
        case BrokenPipeError():
            return 141
    known = foreseen(error)
    if known is not None:
        complain(str(known))
        if isinstance(known, SparkGoneError):
            leave(known.exit_code)
        return known.exit_code
    # Not imported above, because it takes longer than most answers.
    from strandline.engine.runtime.outage import first_line  # noqa: PLC0415  # as above

    complain(
        f"something unforeseen happened: {type(error).__name__}: {first_line(error)}\n\n"
        f"hint: the stack trace is in {_kept(error)}."
    )
    return UNFORESEEN


def _prepare(words: list[str]) -> None:
    """Import the modules that the command line needs."""
    line = _line_of_shell()
    if words[:1] == ["--version"] and line is None:
        return
    if line is not None and not any(word in VERBS for word in line):
        _offer_names()
        return
    _load(words if line is None else line)


def _line_of_shell() -> list[str] | None:
    """Return the words after the program's name that a shell completes; None when no shell asks.

    The program imports only the module of the verb on the command line. A shell puts the line to complete into the
    environment instead. Without reading it there, each Tab would import every verb, which takes seconds. To complete the
    verb itself, the names are enough.
    """
    text = line_of_shell()
    if text is None:
        return None
    try:
        return shlex.split(text)[1:]
    except ValueError:  # a quote that is still open
        return text.split()[1:]


def _offer_names() -> None:
    """Register the names of verbs alone, for completion."""
    for verb in VERBS:
        app.command(verb)(_nothing)


def _nothing() -> None:
    """Do nothing; only the name is needed."""


def _load(words: list[str]) -> None:
    """Register the verb that was typed; all verbs when there is none, for the help.

    Raises:
        DefinitionError: The project has not what the verb is about, or an extra that it needs is not installed.
    """
    verb = _verb(words)
    wanted = modules(verb)
    if verb in ABOUT and ABOUT[verb].extra and HELP not in words:
        refuse_without(ABOUT[verb].extra)
    for name in wanted:
        register(name, app)
    for group in app.registered_groups:
        group.cls = Whole
    groups = [group.typer_instance for group in app.registered_groups]
    for name, each in typed():
        each.callback = _ordered(name, each.callback)
    for command in chain(*(each.registered_commands for each in (app, *groups) if each)):
        # In a raw docstring \\b is two letters; the formatter wants the one that keeps lines as they are.
        command.help = (inspect.getdoc(command.callback) or "").replace("\\b", "\b")


def typed() -> Iterator[tuple[str, Any]]:
    """Yield each verb that is registered, such as ``quarantine replay``, with what has its function."""
    for command in app.registered_commands:
        yield _name(command), command
    for group in app.registered_groups:
        inside = group.typer_instance
        if inside is None:
            continue
        own = inside.registered_callback
        if own is not None and own.callback is not None:
            yield str(group.name), own
        for command in inside.registered_commands:
            yield f"{group.name} {_name(command)}", command


def _name(command: Any) -> str:  # noqa: ANN401  # typer keeps its click private
    return str(command.name or command.callback.__name__.replace("_", "-"))


def _ordered(verb: str, run: Callable[..., Any]) -> Callable[..., Any]:
    """Let a verb write down who orders what, before it is done."""
    if hasattr(run, "is_ordered"):  # a group of verbs is one object, however often it is registered
        return run

    @functools.wraps(run)
    def ordered(**given: Any) -> Any:  # noqa: ANN401  # what the verb takes
        if any(getattr(each, "invoked_subcommand", None) for each in given.values()):
            return run(**given)  # the verb below it is what was typed
        from strandline.operate import orders  # noqa: PLC0415  # a Tab or --version should not wait for it

        plain = {name: each for name, each in given.items() if not isinstance(each, typer.Context)}
        with orders.ordered(verb, plain, says=note):
            return run(**given)

    ordered.is_ordered = True  # type: ignore[attr-defined]  # a mark of ours
    return ordered


def register(name: str, into: typer.Typer) -> None:
    """Add the verbs of a module."""
    importlib.import_module(f"strandline.cli.verbs.{name}").register(into)


def _verb(words: list[str]) -> str:
    """Return the verb that was typed; the word after --profile is none."""
    plain = [word for at, word in enumerate(words) if at == 0 or words[at - 1] != "--profile"]
    return next((word for word in plain if not word.startswith("-")), "")


def here() -> dict[str, str]:
    """Return the verbs that this project has, each with its module."""
    absent = (() if catalog.declares("alerts") else ALERTING) + (
        () if catalog.declares("play") else PLAYED
    )
    return {name: module for name, module in VERBS.items() if name not in absent}


def modules(verb: str) -> list[str]:
    """Return the modules of a verb, or of all when it is none.

    Raises:
        DefinitionError: It is a verb about alerts or a play that the project has not.
    """
    if verb in ALERTING and not catalog.declares("alerts"):
        raise DefinitionError(
            f"`strandline {verb}` is about alerts, and this project does not say what alert rules look at",
            hint="`strandline new alerts NAME --reads silver.TABLE` writes what is needed, with a first rule and its test.",
            verb=verb,
        )
    if verb in PLAYED and not catalog.declares("play"):
        catalog.play()  # says what is missing
    known = here()
    return [known[verb]] if verb in known else list(dict.fromkeys(known.values()))


def _kept(error: BaseException) -> Path:
    text = "".join(traceback.format_exception(error))
    _forget_old_traces()
    with NamedTemporaryFile("w", prefix=TRACE, suffix=".log", delete=False) as file:
        file.write(text)
    return Path(file.name)


def _forget_old_traces() -> None:
    """Keep the newest traces: a command that fails every minute would fill the folder of the system in a month."""
    by_age = []
    for file in Path(gettempdir()).glob(f"{TRACE}*.log"):
        with suppress(OSError):  # another command has removed it
            by_age.append((file.stat().st_mtime, file))
    for _, file in sorted(by_age, reverse=True)[KEPT_TRACES - 1 :]:
        with suppress(OSError):  # another user's
            file.unlink()
