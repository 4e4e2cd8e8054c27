"""``shell``: one question after the other about a lake, in SQL, without a JVM.

Each statement opens its tables anew, so an answer is as new as the last commit. It runs in a thread of its own: DuckDB
notices Ctrl-C only in between, and would go on with the work that it has begun; an interrupt from another thread ends that too.
"""

import importlib
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer
from strandline import catalog

from strandline.cli import screen
from strandline.cli.screen import LakeOption
from strandline.cli.verbs import query
from strandline.core.errors import DefinitionError, LakeError
from strandline.engine.ask.lake_views import sources
from strandline.engine.ask.sql_query import Answer, ask, names
from strandline.engine.lake.duckdb_table import ends, keywords, session
from strandline.engine.lake.lake import Lake
from strandline.engine.lake.plain_files import write_down
from strandline.engine.runtime import clock
from strandline.engine.runtime.settings import near_folder
from strandline.operate.listener import exit_code, foreseen

SHOWN = 200
"""Rows that a table on the screen shows; the others are not even read."""

HELP = """\
A statement is one SELECT over the tables of the lake, ended by ; and over as many lines as it needs.
  FROM gold.device_daily LIMIT 3;
  FROM gold.device_daily AT (VERSION => 12);

.tables            list the tables
.schema [TABLE]    list the columns of a table, or of all
.format FORMAT     show answers as table, csv or json
.help              this page
.quit              leave; so does Ctrl-D
Ctrl-C ends a query that runs, or empties the line; the shell goes on."""


def register(app: typer.Typer) -> None:
    """Add the verb."""
    app.command("shell")(shell)


def shell(
    lake: LakeOption = None,
    unmasked: Annotated[
        str | None,
        typer.Option(
            metavar="WHY",
            help="Show sensitive columns too; each question is written down with why.",
        ),
    ] = None,
) -> None:
    r"""Answer questions in SQL, one after the other, until .quit; nothing can be changed.

    Statements end with a semicolon. Tab completes tables, columns and keywords; the history of earlier sessions is kept.
    Every answer is read anew. Statements can also come from a pipe; the exit code is then that of the first error.

    \b
    strandline shell
    strandline shell --lake .lake/demo
    strandline shell --unmasked "fraud case 17"
    """
    _, where = screen.existing(lake)
    asking = _Shell(where, unmasked)
    if sys.stdin.isatty():
        asking.talk()
    else:
        asking.read(sys.stdin)
    if asking.failed:
        raise typer.Exit(asking.failed)


class _Shell:
    """A conversation."""

    def __init__(self, lake: Lake, why: str | None) -> None:
        self.failed = 0
        self._lake, self._why, self._how = lake, why, query.Format.TABLE
        if why is not None and not why.strip():
            write_down(lake, {}, who=clock.login(), at=clock.now(), why=why)  # refuses

    def talk(self) -> None:
        """Answer what is typed on a terminal."""
        line = importlib.import_module("strandline.cli.verbs.shell")
        history = near_folder("shell_history")
        prompt = line.prompt(history, lambda: line.Words(self._names(), self._columns))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        screen.say(f"{self._lake.root}: SQL, ended by a semicolon; .help says more, .quit leaves.")
        while True:
            try:
                text = prompt()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            try:
                if not self._answer(text):
                    return
            except KeyboardInterrupt:
                screen.note("stopped; the shell goes on")
            self.failed = 0  # it was read

    def read(self, lines: Iterable[str]) -> None:
        """Answer what comes from a pipe."""
        text = ""
        for line in lines:
            text += line
            if is_whole(text):
                if not self._answer(text):
                    return
                text = ""
        self._answer(text)

    def _answer(self, text: str) -> bool:
        """Carry out a command or a statement; return whether to go on. An error is printed and ends nothing."""
        words = text.strip()
        if not words:
            return True
        try:
            if words.startswith("."):
                return self._command(words.rstrip(";").split())
            self._show(words)
        except Exception as error:
            known = foreseen(error)
            if known is None:
                raise
            screen.complain(str(known))
            self.failed = self.failed or exit_code(error)
        return True

    def _command(self, words: list[str]) -> bool:
        match words:
            case [".quit" | ".exit"]:
                return False
            case [".help"]:
                screen.say(HELP)
            case [".tables"]:
                for name in self._names():
                    screen.say(name)
            case [".schema", *wanted]:
                for name in wanted or self._names():
                    screen.show(name, ("column", "type"), [*self._columns(name).items()])
            case [".format", how] if how in {"table", "csv", "json"}:
                self._how = query.Format(how)
            case _:
                raise DefinitionError(
                    f"{' '.join(words)} is no command of the shell",
                    hint=".tables, .schema TABLE, .format table, csv or json, .help, .quit.",
                )
        return True

    def _names(self) -> list[str]:
        return names(catalog.tables(), self._lake)

    def _columns(self, name: str) -> dict[str, str]:
        """Return the columns of a table and their types.

        Raises:
            DefinitionError: There is no such table.
        """
        if name not in self._names():
            raise DefinitionError(
                f"there is no table {name} in {self._lake.root}", hint="list them with .tables."
            )
        return sources(catalog.tables(), self._lake)[name].columns

    def _show(self, sql: str) -> None:
        if self._why is not None:
            write_down(self._lake, {"sql": sql}, who=clock.login(), at=clock.now(), why=self._why)
        is_table = self._how is query.Format.TABLE
        began = time.monotonic()
        answer = _interruptible(
            sql, self._lake, self._why is not None, SHOWN + 1 if is_table else None
        )
        took = time.monotonic() - began
        if answer.masked:
            screen.note(f'masked: {", ".join(answer.masked)}; shell --unmasked "why" shows them')
        if not is_table:
            sys.stdout.write(query.text_of(answer, self._how))
            sys.stdout.flush()
            return
        shown = Answer(answer.columns, answer.rows[:SHOWN])
        screen.show(None, shown.columns, query.shown(shown))
        more = "the first " if len(answer.rows) > SHOWN else ""
        screen.say(f"({more}{len(shown.rows):,} rows, {took:.2f} s)")


def is_whole(text: str) -> bool:
    """Return whether a text can be carried out: a command, or a statement with its semicolon."""
    words = text.strip()
    return not words or words.startswith(".") or ends(text)


def _interruptible(sql: str, lake: Lake, is_unmasked: bool, most: int | None) -> Answer:  # noqa: FBT001  # passed on
    """Run a query in a thread, and stop it at Ctrl-C."""
    duck, found, done = session(), list[Answer | BaseException](), threading.Event()

    def run() -> None:
        try:
            found.append(
                ask(sql, catalog.tables(), lake, unmasked=is_unmasked, duck=duck, most=most)
            )
        except BaseException as error:  # noqa: BLE001  # raised again by the thread that waits
            found.append(error)
        finally:
            done.set()

    threading.Thread(target=run, daemon=True).start()
    try:
        done.wait()
    except KeyboardInterrupt:
        while not done.wait(0.05):
            duck.interrupt()
        raise
    (answer,) = found
    if isinstance(answer, BaseException):
        raise answer
    return answer


# The line of ``strandline shell`` on a terminal: several rows until the semicolon, a history, and completion.
#
# prompt-toolkit does it, the library that IPython's own terminal is made of: Python's readline knows one line and no colours.


COMMANDS = (".tables", ".schema", ".format", ".help", ".quit")
WORD = re.compile(r"[\w.]+$")
NAME = re.compile(r"\w+\.\w+")


class Words:
    """What can be completed while one statement is typed.

    Args:
        tables: The tables of the lake.
        columns: Returns the columns of one.
    """

    def __init__(self, tables: Iterable[str], columns: Callable[[str], Mapping[str, str]]) -> None:
        """Look at no table before its name is typed."""
        self._tables, self._columns = list(tables), columns
        self._known: dict[str, list[str]] = {}

    def beginning_with(self, before: str, text: str) -> Iterator[str]:
        """Yield what may be meant.

        Args:
            before: What is typed of the word.
            text: The whole statement, whose tables have columns.
        """
        if text.lstrip().startswith("."):
            offered = [*COMMANDS, *self._tables]
        else:
            offered = [*self._of(text), *self._tables, *SQL]
        seen = dict.fromkeys(offered)
        yield from (each for each in seen if each.lower().startswith(before.lower()))

    def _of(self, text: str) -> Iterator[str]:
        """Yield the columns of the tables that a statement names."""
        for name in dict.fromkeys(NAME.findall(text)):
            if name in self._tables and name not in self._known:
                try:
                    self._known[name] = [*self._columns(name)]
                except LakeError:
                    self._known[name] = []
            yield from self._known.get(name, ())


SQL = keywords(session())


class _Completer(Completer):
    def __init__(self) -> None:
        self.words = Words((), lambda _: {})

    def get_completions(
        self,
        document: Document,
        complete_event: CompleteEvent,  # noqa: ARG002  # as its maker calls it
    ) -> Iterator[Completion]:
        found = WORD.search(document.text_before_cursor)
        typed = found[0] if found else ""
        if not typed:
            return
        for each in self.words.beginning_with(typed, document.text):
            yield Completion(each, start_position=-len(typed))


def prompt(history: Path, words: Callable[[], Words]) -> Callable[[], str]:
    """Return a function that asks for one statement.

    Args:
        history: The file with what was typed before; its owner's alone, since a statement may name a person.
        words: Returns what can be completed, anew for each statement.
    """
    history.parent.mkdir(parents=True, exist_ok=True)
    history.touch(mode=0o600)
    completer = _Completer()
    asking: PromptSession[str] = PromptSession(
        history=FileHistory(str(history)),
        completer=completer,
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation=lambda width, *_: "> ".rjust(width),
    )

    def ask() -> str:
        completer.words = words()
        return asking.prompt("strandline> ")

    return ask


def _keys() -> KeyBindings:
    """Let Enter end what is whole, and begin another row otherwise."""
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        text = event.current_buffer.text
        if not text.strip() or text.lstrip().startswith(".") or ends(text):
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.insert_text("\n")

    return keys
