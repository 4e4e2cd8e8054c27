r"""Regular expressions that a text cannot make expensive: read once, written for RE2, refused with a sentence.

RE2 reads a text once, whatever it contains, and never recurses; Java's engine and Python's search by trying, so that a chain
of optional letters costs 4ⁿ, and Java's recurses for each repetition of a group, so that one event of 8,000 characters ended
the process at every start. Spark runs re2j by ``linear_match`` (infra/strandline_infra/spark/linear), Python runs google-re2.

Rules were written for other engines, and mean what they meant: each sign is written as RE2 says the same. What RE2 has no
word for is refused here, what it reads differently is spelled out, and the differences that are left are in
infra/docs/linear.md. Signs are read from left to right, without a tree: what becomes of one is known from itself.

    >>> linear(r"\s+a$").text
    '[\\t-\\r ]+a(?:\\n?\\z)'
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from itertools import groupby
from typing import Protocol, cast

import re2  # type: ignore[import-untyped]  # it has no types

LONGEST = 4_096
DEEPEST = 50
LARGEST = 10_000
"""Characters when repetitions are written out; re2j keeps as many places (infra/strandline_infra/spark/linear/Linear.scala has the same bounds)."""

SHORTEST = 3
"""Letters of a text that is worth a look before a search."""

SPACE = r"\t-\r "
NO_SPACE = r"\x00-\x08\x0e-\x1f!-\x{10ffff}"
END = r"(?:\n?\z)"
JAVAS_END = r"(?:(?:\r\n|[\n\r\x{85}\x{2028}\x{2029}])?\z)"
JAVAS_DOT = r"[^\n\r\x{85}\x{2028}\x{2029}]"
CONTROLS = {"n": r"\n", "r": r"\r", "t": r"\t", "f": r"\f", "a": r"\x07", "e": r"\x1b"}
POSIX = [
    "alpha",
    "digit",
    "alnum",
    "upper",
    "lower",
    "space",
    "blank",
    "punct",
    "xdigit",
    "word",
    "cntrl",
    "print",
    "graph",
    "ascii",
]
JAVAS_POSIX = {f"{name.capitalize()}": name for name in POSIX} | {
    "XDigit": "xdigit",
    "ASCII": "ascii",
}

COUNT = re.compile(r"\{(\d{1,5})(,(\d{0,5}))?\}", re.ASCII)
FLAGS = re.compile(r"\(\?([imsu]+)\)")
NAMED = re.compile(r"\(\?P?<[A-Za-z_]\w*>", re.ASCII)
HEX = re.compile(r"\\(?:x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))|u([0-9A-Fa-f]{4}))")
PROPERTY = re.compile(r"\\([pP])(?:\{(\^?)(Is)?(\w+)\}|([A-Z]))", re.ASCII)
LAST = 0x10FFFF
HALVES = range(0xD800, 0xE000)
UNSAFE = frozenset("sSiIkK")
"""Letters that a third character is another case of."""


class RefusedError(ValueError):
    """The regular expression cannot be used; the text is the reason."""


class Flavour(StrEnum):
    """For which engine an expression was written."""

    SIGMA = "sigma"
    """A small part of PCRE, lines end at a newline."""
    JAVA = "java"
    """Spark's RLIKE, which rules of tables were written for."""


class Searching(Protocol):
    """What google-re2 has compiled."""

    def search(self, text: str) -> object:
        """Return a match or None."""


@dataclass(frozen=True, slots=True)
class Linear:
    """An expression that was read.

    Args:
        text: It, for RE2, with its flags.
        ignores_case: Whether case is ignored.
        literal: The longest text without which it finds nothing, in lower case where case is ignored; None if none is worth a
            look.
    """

    text: str
    ignores_case: bool
    literal: str | None

    def found(self, text: str) -> bool:
        """Return whether it finds something; half of a pair of surrogates is the sign for what cannot be read, as in Spark."""
        readable = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return _compiled(self.text).search(readable) is not None


@lru_cache(maxsize=4_096)
def linear(text: str, flags: str = "", flavour: Flavour = Flavour.SIGMA) -> Linear:
    """Read a regular expression.

    Args:
        text: The expression.
        flags: Of ``i``, ``m`` and ``s``.
        flavour: Whose it is.

    Raises:
        RefusedError: It is none, or RE2 has no word for what it asks.
    """
    if len(text) > LONGEST:
        raise RefusedError(f"it has {len(text):,} characters, more than {LONGEST:,}")
    start = FLAGS.match(text)
    if start and flavour is Flavour.SIGMA and "u" in start[1]:
        start = None
    own = "".join(sorted({*flags, *(start[1] if start else "")} - {"u"}))
    reader = _Reader(text, own, flavour, start.end() if start else 0)
    reader.read()
    parts = reader.trimmed()
    head = f"(?{own})" if own else ""
    whole = head + "".join(part.text for part in parts)
    _compiled(whole)
    literal = None if reader.is_choice else _literal(reader.parts, ignores_case="i" in own)
    return Linear(whole, "i" in own, literal)


@lru_cache(maxsize=4_096)
def _compiled(text: str) -> Searching:
    """Compile an expression that is RE2's.

    Raises:
        RefusedError: RE2 refuses it.
    """
    options = re2.Options()
    options.log_errors = False
    try:
        return cast("Searching", re2.compile(text, options))
    except (re2.error, UnicodeEncodeError) as error:
        words = error.args[0] if error.args else error
        said = words.decode() if isinstance(words, bytes) else str(words)
        raise RefusedError(f"RE2 does not read it: {said}") from error


@dataclass(slots=True)
class _Part:
    """A sign or a quantifier, as RE2 writes it.

    Args:
        text: It.
        depth: In how many groups it is.
        letter: The one character that it is.
        kind: What it is, where that matters.
    """

    text: str
    depth: int
    letter: str | None = None
    kind: str = ""


@dataclass(slots=True)
class _Reader:
    """The text, how far it was read, and what was written."""

    text: str
    flags: str
    flavour: Flavour
    at: int
    parts: list[_Part] = field(default_factory=list)
    depth: int = 0
    is_choice: bool = False
    sizes: list[int] = field(default_factory=lambda: [0])
    last: int = 0

    @property
    def is_javas(self) -> bool:
        return self.flavour is Flavour.JAVA

    def _next(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def read(self) -> None:
        """Write the whole text."""
        signs: dict[str, Callable[[], None]] = {
            "\\": self._escape,
            "[": self._class,
            "(": self._open,
            ")": self._close,
            "|": self._choice,
            ".": self._dot,
            "$": self._end,
            "^": lambda: self._add("^"),
            "{": self._brace,
        }
        while self.at < len(self.text):
            sign = self._next()
            if sign in "*+?":
                self._repeat(0 if sign != "+" else 1, 1 if sign == "?" else None, sign)
                continue
            before = self.at
            self.at += 1
            signs.get(sign, lambda sign=sign: self._letter(sign))()
            if self.at == before:  # pragma: no cover  # each sign is passed
                raise RefusedError("it cannot be read")
        if self.depth:
            raise RefusedError("a ( is not closed")

    def trimmed(self) -> list[_Part]:
        """Return what was written without ``.*`` at either end: a search finds the same, and reads less."""
        parts = list(self.parts)
        if self.is_choice:
            return parts
        while len(parts) > 1 and (parts[0].kind, parts[1].kind) == ("dot", "any"):
            parts = parts[2:]
        while len(parts) > 1 and (parts[-2].kind, parts[-1].kind) == ("dot", "any"):
            if parts[-2].depth:
                break
            parts = parts[:-2]
        return parts

    def _add(self, text: str, letter: str | None = None, kind: str = "") -> None:
        self.parts.append(_Part(text, self.depth, letter, kind))
        self.last = 1
        self._grow(1)

    def _grow(self, more: int) -> None:
        self.sizes[-1] += more
        if sum(self.sizes) > LARGEST:
            raise RefusedError(f"written out it has more than {LARGEST:,} characters")

    def _letter(self, letter: str) -> None:
        self._add(_plain(letter), letter)

    def _dot(self) -> None:
        is_javas = self.is_javas and "s" not in self.flags
        self._add(JAVAS_DOT if is_javas else ".", kind="dot")

    def _end(self) -> None:
        if "m" in self.flags:
            self._add("$")
        else:
            self._add(JAVAS_END if self.is_javas else END)

    def _choice(self) -> None:
        self.is_choice |= self.depth == 0
        self._add("|", kind="choice")

    def _open(self) -> None:
        self.at -= 1
        named = NAMED.match(self.text, self.at)
        text = "(?:"
        if named:
            self.at = named.end()
        elif self._next(3) == "(?:":
            self.at += 3
        elif self.is_javas and self._next(4) == "(?i:":
            text = "(?i:"
            self.at += 4
        elif self._next(2) in {"(?", "(*"}:
            raise RefusedError(f"{self._next(4)!r} {_no_group(self._next(4))}")
        else:
            self.at += 1
        if self.depth == DEEPEST:
            raise RefusedError(f"its groups are nested more than {DEEPEST} deep")
        self.parts.append(_Part(text, self.depth))
        self.depth += 1
        self.sizes.append(0)

    def _close(self) -> None:
        if not self.depth:
            raise RefusedError(f"the ) at character {self.at} closes nothing")
        self.depth -= 1
        self.parts.append(_Part(")", self.depth))
        self.last = self.sizes.pop() + 1
        self._grow(self.last)

    def _brace(self) -> None:
        self.at -= 1
        count = COUNT.match(self.text, self.at)
        if count is None:
            self.at += 1
            self._letter("{")
            return
        least = int(count[1])
        most = least if count[2] is None else int(count[3]) if count[3] else None
        self._repeat(least, most, count[0])

    def _repeat(self, least: int, most: int | None, sign: str) -> None:
        before = self.parts[-1] if self.parts else None
        if before is None or before.kind == "choice" or before.text in {"(?:", "(?i:"}:
            raise RefusedError(f"the {sign} at character {self.at + 1} repeats nothing")
        if before.kind in {"any", "count"}:
            raise RefusedError(
                f"the {sign} at character {self.at + 1} follows a quantifier; RE2 has no possessive ones: leave it out"
            )
        if most is not None and most < least:
            raise RefusedError(f"the quantifier {sign!r} repeats never")
        self.at += len(sign)
        is_lazy = self._next() == "?"
        self.at += is_lazy
        times = max(least, most or 0, 1)
        self._grow(self.last * (times - 1))
        self.last *= times
        is_any = (least, most) == (0, None)
        kind = "any" if is_any else "count"
        if (least, most) != (1, 1):
            before.letter = None
        self.parts.append(_Part(sign + "?" * is_lazy, self.depth, kind=kind))

    def _escape(self) -> None:
        mark = self._next()
        if mark == "Q":
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at + 1 : end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.text)
            for each in quoted:
                self._letter(each)
        elif mark and mark in "AzbB":
            self.at += 1
            self._add(f"\\{mark}")
        elif mark == "Z" and self.is_javas:
            self.at += 1
            self._add(JAVAS_END)
        else:
            text, letter = self._set(in_class=False)
            self._add(text, letter)

    def _set(  # noqa: PLR0911  # a kind of sign each
        self, *, in_class: bool
    ) -> tuple[str, str | None]:
        """Read what follows a backslash; return it with its character if it is one."""
        mark = self._next()
        if not mark:
            raise RefusedError("it ends with a backslash")
        found = HEX.match(self.text, self.at - 1)
        if found and (found[3] is None or self.is_javas):
            self.at = found.end()
            return _point(int(found[1] or found[2] or found[3], 16))
        if self.is_javas and (named := PROPERTY.match(self.text, self.at - 1)):
            self.at = named.end()
            return _property(named, in_class=in_class), None
        self.at += 1
        if mark in "dDwW":
            return f"\\{mark}", None
        if mark in "sS":
            members = SPACE if mark == "s" else NO_SPACE
            return (members if in_class else f"[{members}]"), None
        if mark in CONTROLS:
            return CONTROLS[mark], None
        if mark == "0" and not self.is_javas:
            return r"\x00", None
        if mark.isascii() and mark.isalnum():
            raise RefusedError(f"\\{mark} {_no_escape(mark)}")
        return _plain(mark), mark

    def _class(self) -> None:
        out = "["
        if self._next() == "^":
            self.at += 1
            out += "^"
        is_first = True
        while is_first or self._next() != "]":
            is_first = False
            low, is_one = self._member()
            is_range = self._next() == "-" and self._next(2) not in {"-]", "-"}
            if is_range:
                self.at += 1
                high, is_other_one = self._member()
                if not (is_one and is_other_one):
                    raise RefusedError("a range in a class needs one character on each side")
                low = f"{low}-{high}"
            out += low
        self.at += 1
        self._add(out + "]")

    def _member(self) -> tuple[str, bool]:
        """Return a member of a class, and whether it is one character."""
        mark = self._next()
        if not mark:
            raise RefusedError("a [ is not closed")
        if self._next(2) in {"[:", "[.", "[="} and not self.is_javas:
            end = self.text.find(":]", self.at)
            name = self.text[self.at + 2 : end]
            if end < 0 or name.removeprefix("^") not in POSIX:
                raise RefusedError(f"there is no class of characters {self._next(12)!r}")
            self.at = end + 2
            return _posix(name), False
        if self.is_javas and (mark == "[" or self._next(2) == "&&"):
            raise RefusedError(
                "classes inside of classes and && are Java's alone; write the characters out"
            )
        self.at += 1
        if mark != "\\":
            return _plain(mark), True
        if self._next() == "b" and not self.is_javas:
            self.at += 1
            return r"\x08", True
        text, letter = self._set(in_class=True)
        is_one = letter is not None or text in CONTROLS.values() or text.startswith(r"\x{")
        return text, is_one


def _plain(letter: str) -> str:
    if letter.isalnum() or letter in "_ " or not letter.isascii():
        return letter
    return f"\\x{ord(letter):02x}" if ord(letter) < ord(" ") or letter == "\x7f" else f"\\{letter}"


def _point(code: int) -> tuple[str, str | None]:
    if code > LAST:
        raise RefusedError(f"there is no character {code:x}")
    return f"\\x{{{code:x}}}", None if code in HALVES else chr(code)


def _posix(name: str) -> str:
    if name.removeprefix("^") != "space":
        return f"[:{name}:]"
    return NO_SPACE if name.startswith("^") else SPACE


def _property(found: "re.Match[str]", *, in_class: bool) -> str:
    """Return one of Java's properties: its classes of ASCII, a category, or a script."""
    letter, no, _, name, short = found.groups()
    if name in JAVAS_POSIX:
        is_not = (letter == "P") != bool(no)
        members = _posix(("^" if is_not else "") + JAVAS_POSIX[name])
        return members if in_class else f"[{members}]"
    return f"\\{letter}{{{no or ''}{name or short}}}"


def _no_group(begin: str) -> str:
    if begin[2:3] in {"=", "!"} or begin[2:4] in {"<=", "<!"}:
        return "is look-around, which RE2 does not have: ask for it by a condition of its own"
    if begin[2:3] == ">":
        return "is an atomic group, which RE2 does not have: write (?:"
    return "is no group of RE2's; flags are at the beginning alone"


def _no_escape(mark: str) -> str:
    if mark.isdigit() or mark in "kg":
        return "refers to a group, which RE2 does not have: write out what may be there"
    return "has another meaning in each engine: write the characters out"


def _literal(parts: list[_Part], *, ignores_case: bool) -> str | None:
    """Return the longest run of characters that every match has."""
    once = {"{1}", "{1,1}"}
    letters = [_sure(part, ignores_case=ignores_case) for part in parts if part.text not in once]
    runs = ["".join(each or "" for each in run) for is_run, run in groupby(letters, bool) if is_run]
    longest = max(runs, key=len, default="")
    return longest if len(longest) >= SHORTEST else None


def _sure(part: _Part, *, ignores_case: bool) -> str | None:
    letter = part.letter
    if part.depth or letter is None:
        return None
    if ignores_case and (letter in UNSAFE or not letter.isascii()):
        return None
    return letter.lower() if ignores_case else letter
