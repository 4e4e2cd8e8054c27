"""The line of ``strandline shell`` on a terminal: several rows until the semicolon, a history, and completion.

prompt-toolkit does it, the library that IPython's own terminal is made of: Python's readline knows one line and no colours.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.history import FileHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

from strandline.core.errors import LakeError
from strandline.engine.storage.duckdb_session import ends, keywords, session

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
