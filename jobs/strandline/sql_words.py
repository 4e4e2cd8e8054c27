"""How a text of SQL is cut: into code, what is in quotes, and comments; and into words, with the brackets around each.

As Spark cuts it: two dashes within quotes are no comment, and braces within quotes name no table.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum


class SqlError(Exception):
    """A text is not what a table's function may be; who has the text knows its file."""

    def __init__(self, message: str, *, hint: str, line: int = 1) -> None:
        """Keep the sentence, the hint and the line within the text; 0 where its declaration is wrong."""
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.line = line


class Kind(Enum):
    """What a piece of a text is."""

    CODE = "code"
    QUOTED = "quoted"
    COMMENT = "comment"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text: code, a text or a name in quotes, or a comment."""

    kind: Kind
    text: str
    at: int


OPENS = re.compile(r"--|/\*|(?<!\w)[rR](?=['\"])|['\"`]")
WORDS = re.compile(r"\w+|[^\s\w]")


def pieces(text: str) -> Iterator[Piece]:
    """Yield the pieces of a text in their order, as Spark cuts it.

    Raises:
        SqlError: A quote or a comment has no end.
    """
    at = 0
    while found := OPENS.search(text, at):
        if found.start() > at:
            yield Piece(Kind.CODE, text[at : found.start()], at)
        kind, at = _closed(text, found)
        yield Piece(kind, text[found.start() : at], found.start())
    if at < len(text):
        yield Piece(Kind.CODE, text[at:], at)


def _closed(text: str, opened: "re.Match[str]") -> tuple[Kind, int]:
    """Return what begins at a mark, and where it ends."""
    mark, start = opened[0], opened.start()
    if mark == "--":
        end = text.find("\n", start)
        return Kind.COMMENT, len(text) if end < 0 else end
    end = _comment_end(text, start) if mark == "/*" else _quote_end(text, opened)
    if end < 0:
        what = "a comment" if mark == "/*" else f"a text that begins with {mark.strip('rR') or 'r'}"
        raise SqlError(
            f"{what} has no end", hint="close it, or remove its begin.", line=line_of(text, start)
        )
    return (Kind.COMMENT if mark == "/*" else Kind.QUOTED), end


def _comment_end(text: str, start: int) -> int:
    open_, at = 0, start
    for found in re.compile(r"/\*|\*/").finditer(text, start):
        open_ += 1 if found[0] == "/*" else -1
        at = found.end()
        if not open_:
            return at
    return -1


def _quote_end(text: str, opened: "re.Match[str]") -> int:
    is_raw = opened[0] in {"r", "R"}
    first = opened.end() if is_raw else opened.start()
    quote, at = text[first], first + 1
    while at < len(text):
        if text[at] == "\\" and not is_raw and quote != "`":
            at += 2
        elif text[at] == quote:
            return at + 1
        else:
            at += 1
    return -1


def line_of(text: str, at: int) -> int:
    """Return the number of the line of a place in a text."""
    return text.count("\n", 0, at) + 1


@dataclass(frozen=True, slots=True)
class Word:
    """A word, a mark or a piece in quotes, with its place and the number of brackets around it."""

    text: str
    at: int
    depth: int
    is_code: bool = True

    @property
    def end(self) -> int:
        """Return where it ends."""
        return self.at + len(self.text)

    @property
    def upper(self) -> str:
        """Return it as keywords are compared; a quoted one is none."""
        return self.text.upper() if self.is_code else ""


def words(text: str) -> Iterator[Word]:
    """Yield the words of a text without its comments."""
    depth = 0
    for piece in pieces(text):
        if piece.kind is Kind.QUOTED:
            yield Word(piece.text, piece.at, depth, is_code=False)
        elif piece.kind is Kind.CODE:
            for found in WORDS.finditer(piece.text):
                depth -= found[0] in ")]"
                yield Word(found[0], piece.at + found.start(), depth)
                depth += found[0] in "(["


def normal(text: str) -> str:
    r"""Return a text without comments, and with one blank where it has any number of them: what it says, not how it looks.

    >>> normal("SELECT a,  -- the first\\n  '  ' AS b")
    "SELECT a, '  ' AS b"
    """
    said = "".join(map(_said, pieces(text)))
    return re.sub(r"^[ ;]+|[ ;]+$", "", _single_blanks(said))


def _said(piece: Piece) -> str:
    match piece.kind:
        case Kind.COMMENT:
            return " "
        case Kind.QUOTED:
            return piece.text
        case Kind.CODE:
            return re.sub(r"\s+", " ", piece.text)


def _single_blanks(text: str) -> str:
    """Return a text in which two pieces of code that a comment divided are one blank apart."""
    return "".join(
        each.text if each.kind is Kind.QUOTED else re.sub(r" {2,}", " ", each.text)
        for each in pieces(text)
    )
