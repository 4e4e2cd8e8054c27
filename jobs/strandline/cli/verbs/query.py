"""``query`` and ``shell``: questions about a lake in SQL, one or one after the other, answered without Spark."""

import csv
import importlib
import io
import json
import re
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import typer
from strandline import catalog

from strandline.cli import screen
from strandline.cli.screen import JsonOption, LakeOption, note, say, show
from strandline.core.errors import DefinitionError, LakeError
from strandline.engine.ask.find_moment import Moment
from strandline.engine.ask.lake_views import sources
from strandline.engine.ask.moments import (
    LIVE,
    Default,
    choosing,
    fixed,
    for_files,
    live,
    which_of,
)
from strandline.engine.ask.moments import chosen as chosen_moment
from strandline.engine.ask.sql_query import Answer, ask, asked, names
from strandline.engine.lake.duckdb_table import Duck, ends, keywords, session
from strandline.engine.lake.lake import Lake
from strandline.engine.runtime.settings import near_folder
from strandline.operate.listener import VARIANT, exact_json, exit_code, foreseen, of_json, plain
from strandline.operate.orders import shown_unmasked

if TYPE_CHECKING:
    from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent

# An answer of ``query`` as CSV, JSON or Parquet, on the standard output or in a file.


GROUP = 65_536
"""Rows that a Parquet file gets at once; an answer of any length needs the memory of so many."""


class Format(StrEnum):
    """The formats of an answer."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def chosen(wanted: Format | None, to: Path | None, *, as_json: bool) -> Format | None:
    """Return the format that was asked for, by name or by the file's; None for a table on the screen.

    Raises:
        DefinitionError: Two formats were asked for, or a file is needed and none was named.
    """
    if wanted is Format.TABLE:
        if as_json or to is not None:
            raise DefinitionError(
                "a table is for the screen",
                hint="write CSV, JSON or Parquet, or leave --format out.",
            )
        return None
    if as_json and wanted not in (None, Format.JSON):
        raise DefinitionError(
            f"--json and --format {wanted} are two formats", hint="leave one of them out."
        )
    known = [each.value for each in Format if each is not Format.TABLE]
    found: Format | None = Format.JSON if as_json else wanted
    if found is None and to is not None:
        if to.suffix[1:] not in known:
            raise DefinitionError(
                f"the name of {to} names no format",
                hint=f"give --format {', '.join(known[:-1])} or {known[-1]}.",
            )
        found = Format(to.suffix[1:])
    if found is Format.PARQUET and to is None:
        raise DefinitionError(
            "Parquet is binary and needs a file", hint="name it: --to answer.parquet."
        )
    return found


def deliver(answer: Answer, how: Format, to: Path | None) -> None:
    """Write an answer to the standard output, or to a file, which is replaced if it exists.

    Raises:
        DefinitionError: The file cannot be written.
    """
    written = text_of(answer, how)
    if to is None:
        sys.stdout.write(written)
        return
    with _replaced(to) as draft:
        draft.write_bytes(written.encode())
    note(f"wrote {len(answer.rows):,} rows to {to}")


def stream(duck: Duck, to: Path) -> None:
    """Write the rows of a query that was run into a Parquet file, group by group, with the types that DuckDB says they have.

    Raises:
        DefinitionError: The file cannot be written, or Parquet has no such columns.
    """
    # Not imported above: a table on the screen need not wait for it.
    arrow = importlib.import_module("pyarrow")
    parquet = importlib.import_module("pyarrow.parquet")
    refuse_twins([column[0] for column in duck.description or ()], Format.PARQUET)
    reader = duck.to_arrow_reader(GROUP)
    schema = arrow.schema([field.with_type(_type(field.type)) for field in reader.schema])
    count = 0
    try:
        with _replaced(to) as draft, parquet.ParquetWriter(draft, schema) as writer:
            for batch in reader:
                columns = [_column(batch.column(n), field) for n, field in enumerate(schema)]
                writer.write_batch(arrow.record_batch(columns, schema=schema))
                count += batch.num_rows
    except (arrow.ArrowNotImplementedError, arrow.ArrowInvalid) as error:
        raise DefinitionError(
            f"Parquet has no such column: {error}", hint="cast it in the question: length::VARCHAR."
        ) from error
    note(f"wrote {count:,} rows to {to}")


def refuse_twins(columns: Sequence[str], how: Format) -> None:
    """Refuse two columns of one name where a reader finds a column by its name.

    Raises:
        DefinitionError: There are two.
    """
    twins = sorted(name for name, times in Counter(columns).items() if times > 1)
    if twins:
        raise DefinitionError(
            f"two columns of the answer are called {twins[0]}, and {how} would have one of them",
            hint=f"name them apart: … AS {twins[0]}_2; CSV and the table on the screen have both.",
            columns=twins,
        )


@contextmanager
def _replaced(to: Path) -> Iterator[Path]:
    """Yield a file to write, which takes the place of another when it is whole; what is no file is written itself."""
    target = to.resolve()
    draft = (
        target
        if target.exists() and not target.is_file()
        else target.with_name(f".{target.name}.{uuid4().hex}.draft")
    )
    try:
        try:
            yield draft
            if draft != target:
                draft.replace(target)
        finally:
            if draft != target:
                draft.unlink(missing_ok=True)
    except OSError as error:
        if error.errno is None:  # DuckDB's: the question failed, not the file
            raise
        raise DefinitionError(
            f"{to} cannot be written: {error.strerror or error}",
            hint="name a file in a folder that exists and that you may write.",
            file=str(to),
        ) from error


def shown(answer: Answer) -> list[tuple[object, ...]]:
    """Return rows for the screen."""
    return [tuple(plain(value, _same) for value in row) for row in answer.rows]


def text_of(answer: Answer, how: Format) -> str:
    """Return an answer as text, for CSV and JSON."""
    return WRITERS[how](answer)


def _csv(answer: Answer) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(answer.columns)
    writer.writerows([[_cell(value) for value in row] for row in shown(answer)])
    return text.getvalue()


def _json(answer: Answer) -> str:
    refuse_twins(answer.columns, Format.JSON)
    rows = [
        dict(zip(answer.columns, (plain(value, exact_json) for value in row), strict=True))
        for row in answer.rows
    ]
    return json.dumps(of_json(rows), indent=2, default=str, allow_nan=False) + "\n"


WRITERS: Mapping[Format, Callable[[Answer], str]] = {Format.CSV: _csv, Format.JSON: _json}


def _type(kind: Any) -> Any:  # noqa: ANN401  # a type of Arrow, which is imported late
    """Return the type of a column in a file: as Arrow has it, and a text for a Variant inside of it."""
    arrow = importlib.import_module("pyarrow")
    if arrow.types.is_struct(kind):
        if {field.name for field in kind} == VARIANT and all(
            arrow.types.is_binary(f.type) for f in kind
        ):
            return arrow.string()
        return arrow.struct([field.with_type(_type(field.type)) for field in kind])
    if arrow.types.is_map(kind):
        return arrow.map_(kind.key_type, _type(kind.item_type))
    return arrow.list_(_type(kind.value_type)) if arrow.types.is_list(kind) else kind


def _column(column: Any, field: Any) -> Any:  # noqa: ANN401  # as above
    """Return a column in its type of the file; only one with a Variant passes through Python."""
    if column.type == field.type:
        return column
    arrow = importlib.import_module("pyarrow")
    return arrow.array([plain(value, _same) for value in column.to_pylist()], type=field.type)


def _same(text: str) -> str:
    return text


def _cell(value: object) -> object:
    match value:
        case datetime() | date():
            return value.isoformat()
        case bytes():
            return value.decode(errors="backslashreplace")
        case dict() | list():
            return json.dumps(of_json(value), default=str)
        case _:
            return value


def register(app: typer.Typer) -> None:
    """Add the verbs."""
    app.command("query")(query)
    app.command("shell")(shell)


def query(  # noqa: PLR0913, PLR0917  # each is an option of the command line
    sql: Annotated[
        str,
        typer.Argument(
            metavar="SQL", help="One SELECT over tables such as silver.device_telemetry."
        ),
    ],
    form: Annotated[
        Format | None,
        typer.Option("--format", help="Format of the rows; by default that of the file's name."),
    ] = None,
    to: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the rows to a file.")
    ] = None,
    lake: LakeOption = None,
    unmasked: Annotated[
        str | None,
        typer.Option(
            metavar="WHY", help="Show sensitive columns too; who asked and why is written down."
        ),
    ] = None,
    moment: Annotated[
        str | None,
        typer.Option(
            metavar="MOMENT",
            help="Read all tables at a moment (`strandline moments`): LATEST, a time, a number or a name; LIVE reads what there is. "
            "With --to, LATEST where the question has several tables.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    r"""Answer a small question about the lake's tables, in about a second; nothing can be changed.

    Sensitive columns are masked: within one answer the same value has the same mask. AT reads a table as it was, while
    its files are kept (`strandline maintain --keep`); an alias comes before it. AT MOMENT at the end of a question reads all
    of its tables at versions that belong together (`strandline moments`). `strandline shell` answers one question after the
    other.

    \b
    strandline query "SELECT signal, count(*) FROM silver.device_telemetry GROUP BY ALL"
    strandline query "SELECT reasons, count(*) FROM quarantine.device_telemetry GROUP BY ALL"
    strandline query "FROM gold.device_daily AT (VERSION => 12)"
    strandline query "FROM gold.device_daily AS d AT (TIMESTAMP => '2026-11-20 12:00') WHERE d.device_id = 'd1'"
    strandline query "SELECT count(*) FROM bronze.device_telemetry AT MOMENT LATEST"
    strandline query "FROM gold.device_daily" --format csv
    strandline query "FROM gold.device_daily" --to daily.parquet
    strandline query "FROM gold.device_daily JOIN gold.device_signal_10m USING (device_id)" --moment month-end-october --to month.csv
    """
    how = chosen(form, to, as_json=as_json)
    _, where = screen.existing(lake, briefly=True)
    if unmasked is not None:
        shown_unmasked(where, {"sql": sql}, unmasked)
    default = _default(moment, where, to)
    if how is Format.PARQUET and to is not None:
        with asked(
            sql, catalog.tables(), where, unmasked=unmasked is not None, default=default
        ) as result:
            stream(result.duck, to)
        _note_masked(result.masked)
        _note_moment(result.moment)
        return
    answer = ask(sql, catalog.tables(), where, unmasked=unmasked is not None, default=default)
    _note_masked(answer.masked)
    _note_moment(answer.moment)
    if how is not None:
        deliver(answer, how, to)
        return
    show(None, answer.columns, shown(answer))
    say(f"({len(answer.rows):,} rows)")


def _default(moment: str | None, lake: Lake, to: Path | None) -> Default:
    """Return the moment of a question that names none: what is written to a file is quoted, so its tables agree."""
    choose = choosing(catalog.tables(), lake)
    if moment is not None and moment.strip().upper() != LIVE:
        return partial(choose, which_of(moment))
    return live if to is None or moment is not None else for_files(choose, note)


def _note_masked(masked: Collection[str]) -> None:
    if masked:
        note(f'masked: {", ".join(masked)}; --unmasked "why" shows them')


def _note_moment(moment: Moment | None) -> None:
    if moment is not None:
        note(f"at {moment}")


# ``shell``: one question after the other about a lake, in SQL, without a JVM.
#
# Each statement opens its tables anew, so an answer is as new as the last commit. It runs in a thread of its own: DuckDB
# notices Ctrl-C only in between, and would go on with the work that it has begun; an interrupt from another thread ends that too.

SHOWN = 200
"""Rows that a table on the screen shows; the others are not even read."""

HELP = """\
A statement is one SELECT over the tables of the lake, ended by ; and over as many lines as it needs.
  FROM gold.device_daily LIMIT 3;
  FROM gold.device_daily AT (VERSION => 12);
  SELECT count(*) FROM silver.device_telemetry AT MOMENT LATEST;

.moment [MOMENT]   read all tables at a moment from now on: LATEST, a time, a number or a name; LIVE reads what there is
.tables            list the tables
.schema [TABLE]    list the columns of a table, or of all
.format FORMAT     show answers as table, csv or json
.help              this page
.quit              leave; so does Ctrl-D
Ctrl-C ends a query that runs, or empties the line; the shell goes on."""


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
        self._lake, self._why, self._how = lake, why, Format.TABLE
        self._moment: Moment | None = None
        if why is not None and not why.strip():
            shown_unmasked(lake, {}, why)  # refuses

    def talk(self) -> None:
        """Answer what is typed on a terminal."""
        history = near_folder("shell_history")
        asked_for = prompt(history, lambda: Words(self._names(), self._columns))
        signal.signal(signal.SIGINT, signal.default_int_handler)
        screen.say(f"{self._lake.root}: SQL, ended by a semicolon; .help says more, .quit leaves.")
        while True:
            try:
                text = asked_for()
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
            case [".moment", *words]:
                self._read_at(" ".join(words))
            case [".format", how] if how in {"table", "csv", "json"}:
                self._how = Format(how)
            case _:
                raise DefinitionError(
                    f"{' '.join(words)} is no command of the shell",
                    hint=".moment MOMENT, .tables, .schema TABLE, .format table, csv or json, .help, .quit.",
                )
        return True

    def _read_at(self, which: str) -> None:
        """Read at a moment from now on, which stays the same; say at which where none is named."""
        if which.upper() == LIVE:
            self._moment = None
        elif which:
            self._moment = chosen_moment(which.strip("'"), (), catalog.tables(), self._lake)
        screen.say(f"reading at {self._moment}" if self._moment else "reading what there is")

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
            shown_unmasked(self._lake, {"sql": sql}, self._why)
        is_table = self._how is Format.TABLE
        began = time.monotonic()
        answer = _interruptible(
            sql,
            self._lake,
            SHOWN + 1 if is_table else None,
            is_unmasked=self._why is not None,
            default=fixed(self._moment) if self._moment else live,
        )
        took = time.monotonic() - began
        if answer.masked:
            screen.note(f'masked: {", ".join(answer.masked)}; shell --unmasked "why" shows them')
        _note_moment(answer.moment)
        if not is_table:
            sys.stdout.write(text_of(answer, self._how))
            sys.stdout.flush()
            return
        first = Answer(answer.columns, answer.rows[:SHOWN])
        screen.show(None, first.columns, shown(first))
        more = "the first " if len(answer.rows) > SHOWN else ""
        screen.say(f"({more}{len(first.rows):,} rows, {took:.2f} s)")


def is_whole(text: str) -> bool:
    """Return whether a text can be carried out: a command, or a statement with its semicolon."""
    words = text.strip()
    return not words or words.startswith(".") or ends(text)


def _interruptible(
    sql: str, lake: Lake, most: int | None, *, is_unmasked: bool, default: Default
) -> Answer:
    """Run a query in a thread, and stop it at Ctrl-C."""
    duck, found, done = session(), list[Answer | BaseException](), threading.Event()

    def run() -> None:
        try:
            found.append(
                ask(
                    sql,
                    catalog.tables(),
                    lake,
                    unmasked=is_unmasked,
                    duck=duck,
                    most=most,
                    default=default,
                )
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


COMMANDS = (".moment", ".tables", ".schema", ".format", ".help", ".quit")
WORD = re.compile(r"[\w.]+$")
NAME = re.compile(r"\w+\.\w+")


@cache
def _keywords() -> list[str]:
    return keywords(session())


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
            offered = [*self._of(text), *self._tables, *_keywords()]
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


def prompt(history: Path, words: Callable[[], Words]) -> Callable[[], str]:
    """Return a function that asks for one statement.

    Args:
        history: The file with what was typed before; its owner's alone, since a statement may name a person.
        words: Returns what can be completed, anew for each statement.
    """
    # Not imported above: it takes a fifth of a second, for which `query` should not wait.
    from prompt_toolkit import PromptSession  # noqa: PLC0415  # as above
    from prompt_toolkit.completion import (  # noqa: PLC0415  # as above
        CompleteEvent,
        Completer,
        Completion,
    )
    from prompt_toolkit.document import Document  # noqa: PLC0415  # as above
    from prompt_toolkit.history import FileHistory  # noqa: PLC0415  # as above
    from prompt_toolkit.lexers import PygmentsLexer  # noqa: PLC0415  # as above
    from pygments.lexers.sql import SqlLexer  # noqa: PLC0415  # as above

    class Completing(Completer):
        words = Words((), lambda _: {})

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

    history.parent.mkdir(parents=True, exist_ok=True)
    history.touch(mode=0o600)
    completer = Completing()
    asking: PromptSession[str] = PromptSession(
        history=FileHistory(str(history)),
        completer=completer,
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        multiline=True,
        key_bindings=_keys(),
        prompt_continuation=lambda width, *_: "> ".rjust(width),
    )

    def ask_for_one() -> str:
        completer.words = words()
        return asking.prompt("strandline> ")

    return ask_for_one


def _keys() -> "KeyBindings":
    """Let Enter end what is whole, and begin another row otherwise."""
    from prompt_toolkit.key_binding import KeyBindings  # noqa: PLC0415  # see above

    keys = KeyBindings()

    @keys.add("enter")
    def _(event: "KeyPressEvent") -> None:
        text = event.current_buffer.text
        if not text.strip() or text.lstrip().startswith(".") or ends(text):
            event.current_buffer.validate_and_handle()
        else:
            event.current_buffer.insert_text("\n")

    return keys
