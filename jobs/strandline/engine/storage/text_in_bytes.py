r"""A text as bytes may hold it: as UTF-8, or as a writer of JSON escaped it, once or within another JSON.

``Jörg`` is ``J\u00f6rg`` in what Python's json, Jackson and many producers write, ``J\\u00f6rg`` where that is a text of another
JSON, as the statistics in Delta's log are. A search for the letters alone passed over all of these, and called the lake clean.

The pattern is one of Java's and of Python's alike, over bytes that were read as Latin 1: Spark searches records with it, the
search through all files reads without Spark.
"""

import re

SHORT = {"\b": "b", "\f": "f", "\n": "n", "\r": "r", "\t": "t"}
"""What JSON writes with one letter behind a backslash."""

MARK = "\\"
"""What is in bytes in which anything was escaped."""

PLAIN = re.compile(r"[\w .,:;@+=-]*", re.ASCII)
"""A text that a writer of JSON may only escape as ``\\u``; others get a backslash alone, or letters of their own."""


def pattern_of(text: str) -> str:
    """Return the pattern of a text, with each of its letters as it is or escaped."""
    return "".join(map(_letter, text))


def mark_of(text: str) -> str:
    r"""Return what bytes contain where they hold a text in an escaped form; it is searched first, because that is fast.

    >>> mark_of("d-17"), mark_of('a"b')
    ('\\u', '\\')
    """
    return f"{MARK}u" if PLAIN.fullmatch(text) or text.isalnum() else MARK


def literal(text: str) -> str:
    """Return the pattern of a text as it is."""
    return re.sub(r"([^A-Za-z0-9_])", r"\\\1", text.encode().decode("latin-1"))


def _letter(letter: str) -> str:
    units = letter.encode("utf-16-be")
    codes = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
    escaped = "".join(rf"\\+u{''.join(map(_digit, code))}" for code in codes)
    if letter in SHORT:
        return rf"(?:{literal(letter)}|\\+{SHORT[letter]}|{escaped})"
    if letter == MARK:
        return rf"(?:\\+u{''.join(map(_digit, codes[0]))}|\\+)"
    before = r"\\*" if letter in "\"'/" else ""
    return rf"(?:{before}{literal(letter)}|{escaped})"


def _digit(digit: str) -> str:
    return f"[{digit}{digit.upper()}]" if digit.isalpha() else digit
