r"""Read a regular expression of Sigma's flavour into a tree; refuse what engines read differently.

The specification allows ``. ^ $ * + ? {n,m} [] () |`` and nothing else; rules in the field also use ``\d \w \s \b``,
escapes of single characters and flags at the beginning, so these are read too, with the meaning that PCRE gives them.
Everything beyond has a meaning of its own in PCRE, RE2, Java and Python, and is refused with its name: look-around,
references to groups, possessive quantifiers, properties (``\p``), flags in the middle.

    >>> from jobs.rules.regex.parse import parse
    >>> parse(r"a+b").tree.parts[0].least
    1
"""

import re
from dataclasses import dataclass

from jobs.rules.regex.nodes import (
    LAST,
    Anchor,
    Chars,
    Choice,
    Dot,
    Node,
    Ranges,
    Repeat,
    Sequence,
    complement,
    merged,
)

LONGEST = 4_096
DEEPEST = 50
MOST_TIMES = 1_000

DIGIT: Ranges = ((48, 57),)
WORD: Ranges = ((48, 57), (65, 90), (95, 95), (97, 122))
SPACE: Ranges = ((9, 13), (32, 32))
SHORTHANDS = {"d": DIGIT, "w": WORD, "s": SPACE}
CONTROLS = {"n": 10, "r": 13, "t": 9, "f": 12, "a": 7, "e": 27}
ANCHORS = {"A": Anchor.START, "z": Anchor.END, "b": Anchor.EDGE, "B": Anchor.NO_EDGE}
POSIX: dict[str, Ranges] = {
    "alpha": ((65, 90), (97, 122)),
    "digit": DIGIT,
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "upper": ((65, 90),),
    "lower": ((97, 122),),
    "space": SPACE,
    "blank": ((9, 9), (32, 32)),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "xdigit": ((48, 57), (65, 70), (97, 102)),
    "word": WORD,
}
COUNT = re.compile(r"\{(\d+)(,(\d*))?\}")
FLAGS = re.compile(r"\(\?([ims]+)\)")
NAMED = re.compile(r"\(\?P?<[A-Za-z_]\w*>")
HEX = re.compile(r"x(?:\{([0-9A-Fa-f]{1,6})\}|([0-9A-Fa-f]{2}))")


class RefusedError(ValueError):
    """The regular expression cannot be used; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A regular expression that was read: its tree and its flags, of ``i``, ``m`` and ``s``."""

    tree: Sequence
    flags: str = ""


def parse(text: str, flags: str = "") -> Pattern:
    """Read a regular expression.

    Raises:
        RefusedError: It is not one, or uses what Sigma's flavour does not have.
    """
    if len(text) > LONGEST:
        raise RefusedError(f"it has {len(text):,} characters, more than {LONGEST:,}")
    start = FLAGS.match(text)
    if start:
        flags += start[1]
    reader = _Reader(text, start.end() if start else 0)
    tree = reader.choice(0)
    if reader.at < len(text):
        raise RefusedError(f"the ) at character {reader.at + 1} closes nothing")
    return Pattern(
        tree if isinstance(tree, Sequence) else Sequence((tree,)), "".join(sorted(set(flags)))
    )


@dataclass(slots=True)
class _Reader:
    """The text and how far it was read."""

    text: str
    at: int

    def _next(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def choice(self, depth: int) -> Node:
        """Read alternatives up to a closing parenthesis or the end."""
        if depth > DEEPEST:
            raise RefusedError(f"its groups are nested more than {DEEPEST} deep")
        parts = [self._sequence(depth)]
        while self._next() == "|":
            self.at += 1
            parts.append(self._sequence(depth))
        return parts[0] if len(parts) == 1 else Choice(tuple(parts))

    def _sequence(self, depth: int) -> Sequence:
        parts: list[Node] = []
        while self.at < len(self.text) and self._next() not in {"|", ")"}:
            parts.extend(self._repeated(self._atom(depth)))
        return Sequence(tuple(parts))

    def _repeated(self, atoms: tuple[Node, ...]) -> tuple[Node, ...]:
        """Apply the quantifier that follows, if any, to the last of the atoms."""
        mark = self._next()
        count = COUNT.match(self.text, self.at)
        if mark and mark in "*+?":
            least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[mark]
            self.at += 1
        elif count:
            least = int(count[1])
            most = least if count[2] is None else int(count[3]) if count[3] else None
            self.at = count.end()
        else:
            return atoms
        if max(least, most or 0) > MOST_TIMES or (most is not None and most < least):
            raise RefusedError(
                f"the quantifier {self.text[: self.at][-12:]!r} repeats too often, or never"
            )
        if not atoms:
            raise RefusedError("a quantifier follows nothing")
        is_lazy = self._next() == "?"
        self.at += is_lazy
        again = self._next()
        if (again and again in "*+?") or COUNT.match(self.text, self.at):
            raise RefusedError(
                "a quantifier follows a quantifier (possessive ones are not Sigma's)"
            )
        return (*atoms[:-1], Repeat(atoms[-1], least, most, is_lazy))

    def _atom(self, depth: int) -> tuple[Node, ...]:
        mark = self._next()
        if mark == "(":
            return (self._group(depth),)
        self.at += 1
        match mark:
            case "[":
                return (self._class(),)
            case "\\":
                return self._escape()
            case ".":
                return (Dot(),)
            case "^" | "$":
                return (Anchor(mark),)
            case "*" | "+" | "?":
                raise RefusedError(f"the {mark} at character {self.at} repeats nothing")
            case _:
                return (_only(ord(mark)),)

    def _group(self, depth: int) -> Node:
        named = NAMED.match(self.text, self.at)
        if named:
            self.at = named.end()
        elif self._next(3) == "(?:":
            self.at += 3
        elif self._next(2) in {"(?", "(*"}:
            raise RefusedError(
                f"{self._next(4)!r}… is no group of Sigma's flavour (look-around, flags in the middle and the like)"
            )
        else:
            self.at += 1
        inside = self.choice(depth + 1)
        if self._next() != ")":
            raise RefusedError("a ( is not closed")
        self.at += 1
        return inside

    def _escape(self) -> tuple[Node, ...]:
        mark = self._next()
        if mark in ANCHORS and mark:
            self.at += 1
            return (ANCHORS[mark],)
        if mark == "Q":
            end = self.text.find("\\E", self.at)
            quoted = self.text[self.at + 1 : end if end >= 0 else None]
            self.at = end + 2 if end >= 0 else len(self.text)
            return tuple(_only(ord(each)) for each in quoted)
        return (Chars(self._escaped_set()),)

    def _escaped_set(self) -> Ranges:
        """Read what follows a backslash, as a set of characters."""
        mark = self._next()
        if not mark:
            raise RefusedError("it ends with a backslash")
        hexadecimal = HEX.match(self.text, self.at)
        if hexadecimal:
            self.at = hexadecimal.end()
            return _point(int(hexadecimal[1] or hexadecimal[2], 16))
        self.at += 1
        if mark.lower() in SHORTHANDS:
            members = SHORTHANDS[mark.lower()]
            return members if mark.islower() else complement(members)
        if mark in CONTROLS:
            return _point(CONTROLS[mark])
        if mark == "0":
            return _point(0)
        if mark.isascii() and mark.isalnum():
            raise RefusedError(f"\\{mark} has another meaning in each engine")
        return _point(ord(mark))

    def _class(self) -> Chars:
        is_negated = self._next() == "^"
        self.at += is_negated
        found: list[tuple[int, int]] = []
        is_first = True
        while is_first or self._next() != "]":
            is_first = False
            low = self._member()
            is_range = self._next() == "-" and self._next(2) not in {"-]", "-"}
            if not is_range:
                found.extend(low)
                continue
            self.at += 1
            high = self._member()
            if (
                len(low) != 1
                or len(high) != 1
                or low[0][0] != low[0][1]
                or high[0][0] != high[0][1]
            ):
                raise RefusedError("a range in a class needs one character on each side")
            if low[0][0] > high[0][0]:
                raise RefusedError("a range in a class runs backwards")
            found.append((low[0][0], high[0][0]))
        self.at += 1
        return Chars(merged(found), is_negated)

    def _member(self) -> Ranges:
        mark = self._next()
        if not mark:
            raise RefusedError("a [ is not closed")
        if self._next(2) in {"[:", "[.", "[="}:
            end = self.text.find(":]", self.at)
            name = self.text[self.at + 2 : end]
            if end < 0 or name.lstrip("^") not in POSIX:
                raise RefusedError(f"there is no class of characters {self._next(12)!r}")
            self.at = end + 2
            members = POSIX[name.lstrip("^")]
            return complement(members) if name.startswith("^") else members
        self.at += 1
        if mark != "\\":
            return _point(ord(mark))
        if self._next() == "b":
            self.at += 1
            return _point(8)
        return self._escaped_set()


def _point(code: int) -> Ranges:
    if code > LAST:
        raise RefusedError(f"there is no character {code:x}")
    return ((code, code),)


def _only(code: int) -> Chars:
    return Chars(((code, code),))
