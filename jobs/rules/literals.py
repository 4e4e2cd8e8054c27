"""A text that every match of a regular expression contains.

To look for a text is cheaper than to search with an expression, and most events do not contain it.
Where case is ignored, only letters count whose other case is no third letter: Java finds ``s`` in ``\u017f`` and ``i`` in
``\u0131``, whose lower case is neither.
"""

from itertools import groupby

from jobs.rules.regex.nodes import Chars, Node, Repeat
from jobs.rules.regex.parse import Pattern

SHORTEST = 3
UNSAFE = frozenset("sSiIkK")


def required_literal(read: Pattern) -> str | None:
    """Return the longest such text, in lower case where case is ignored; None if there is none worth a look."""
    ignores_case = "i" in read.flags
    letters = [_letter(part, ignores_case=ignores_case) for part in read.tree.parts]
    runs = ["".join(each or "" for each in run) for is_run, run in groupby(letters, bool) if is_run]
    longest = max(runs, key=len, default="")
    return longest if len(longest) >= SHORTEST else None


def _letter(node: Node, *, ignores_case: bool) -> str | None:
    """Return the one character that a part of a sequence is."""
    if isinstance(node, Repeat) and node.least == node.most == 1:
        node = node.part
    if not isinstance(node, Chars) or node.is_negated or len(node.ranges) != 1:
        return None
    ((low, high),) = node.ranges
    letter = chr(low)
    if low != high or (ignores_case and (letter in UNSAFE or not letter.isascii())):
        return None
    return letter.lower() if ignores_case else letter
