r"""Write a regular expression for Java, which Spark runs, and for Python, which explains; with one meaning, PCRE's.

What would differ is never written: classes are ranges of code points, ``\b`` is spelled with look-around, because Java
17 asks Unicode where PCRE asks ASCII; Java's ``d`` flag keeps ``.``, ``^`` and ``$`` to the newline alone, as PCRE
does, instead of six line ends. Matching is a search, so ``.*`` at either end is left out: it changes nothing but the
cost, from the length of the text to its square.
"""

from enum import StrEnum

from jobs.rules.regex.nodes import Anchor, Chars, Choice, Dot, Node, Repeat, Sequence
from jobs.rules.regex.parse import Pattern

WORD = "[0-9A-Z_a-z]"
EDGE = f"(?:(?<={WORD})(?!{WORD})|(?<!{WORD})(?={WORD}))"
NO_EDGE = f"(?:(?<={WORD})(?={WORD})|(?<!{WORD})(?!{WORD}))"
PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_ ,;:'\"/<>=@%~`!")


class Engine(StrEnum):
    """Who runs the expression."""

    JAVA = "java"
    PYTHON = "python"


def written(pattern: Pattern, engine: Engine) -> str:
    """Return the expression for a search by an engine, with its flags."""
    flags = pattern.flags
    if engine is Engine.JAVA:
        head = f"(?d{flags}{'u' if 'i' in flags else ''})"
    else:
        head = f"(?{flags})" if flags else ""
    return head + _text(_trimmed(pattern), engine, pattern.flags)


def _trimmed(pattern: Pattern) -> Node:
    """Return the tree without ``.*`` at the beginning and the end, where it may be empty."""
    parts = list(pattern.tree.parts)
    while parts and _is_anything(parts[0]):
        parts.pop(0)
    while parts and _is_anything(parts[-1]):
        parts.pop()
    return Sequence(tuple(parts))


def _is_anything(node: Node) -> bool:
    return isinstance(node, Repeat) and node.part == Dot() and (node.least, node.most) == (0, None)


def _text(node: Node, engine: Engine, flags: str) -> str:
    match node:
        case Chars():
            return _chars(node, engine)
        case Dot():
            return "."
        case Anchor():
            return _anchor(node, engine, flags)
        case Sequence():
            return "".join(_grouped(part, engine, flags, Choice) for part in node.parts)
        case Choice():
            return "|".join(_text(part, engine, flags) for part in node.parts)
        case Repeat():
            body = _grouped(node.part, engine, flags, Choice | Sequence | Repeat | Anchor)
            return body + _count(node) + ("?" if node.is_lazy else "")


def _grouped(node: Node, engine: Engine, flags: str, kinds: object) -> str:
    text = _text(node, engine, flags)
    return f"(?:{text})" if isinstance(node, kinds) else text  # type: ignore[arg-type]  # a union of classes


def _count(node: Repeat) -> str:
    match (node.least, node.most):
        case (0, None):
            return "*"
        case (1, None):
            return "+"
        case (0, 1):
            return "?"
        case (least, None):
            return f"{{{least},}}"
        case (least, most):
            return f"{{{least},{most}}}"


def _anchor(anchor: Anchor, engine: Engine, flags: str) -> str:
    match anchor:
        case Anchor.EDGE:
            return EDGE
        case Anchor.NO_EDGE:
            return NO_EDGE
        case Anchor.END:
            return r"\z" if engine is Engine.JAVA else r"\Z"
        case Anchor.LINE_START if engine is Engine.PYTHON and "m" in flags:
            return r"(?:\A|(?<=\n)(?!\Z))"  # Python's also matches behind the last newline
        case _:
            return anchor.value


def _chars(chars: Chars, engine: Engine) -> str:
    if not chars.is_negated and len(chars.ranges) == 1 and chars.ranges[0][0] == chars.ranges[0][1]:
        return _code(chars.ranges[0][0], engine)
    if not chars.members:
        return r"(?!)"
    inside = "".join(
        _code(low, engine) if low == high else f"{_code(low, engine)}-{_code(high, engine)}"
        for low, high in chars.ranges
    )
    return f"[{'^' if chars.is_negated else ''}{inside}]" if inside else r"(?s:.)"


def _code(code: int, engine: Engine) -> str:
    if chr(code) in PLAIN:
        return chr(code)
    return f"\\x{{{code:x}}}" if engine is Engine.JAVA else f"\\U{code:08x}"
